"""OpenVINO on the CPU, or on Intel's GPUs by its plugin for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import RuntimeFailure, UnsupportedOperatorError
from latcast.extras import require, unavailable
from latcast.graph.ir import Graph
from latcast.graph.writers.onnx import to_onnx
from latcast.graph.writers.onnx_qdq import INPUT_STYLE, to_qdq
from latcast.records import ExecutedKernel
from latcast.runtimes.kernel_assignment import VIEWS
from latcast.runtimes.model_file import TEXTS, InputSlot, ModelFile
from latcast.runtimes.openvino_kernels import assign_nodes, read_executed
from latcast.runtimes.session import UnitRuntime, check_profiling, check_setting, checked_inputs, message, random_inputs

_PURPOSE = "measuring with OpenVINO"

DEVICES = {"cpu": "CPU", "gpu": "GPU", "npu": "NPU"}
"""Kind of unit to OpenVINO's name."""

PROFILE_WARMUPS = 3
"""Runs before the profiled ones: the first generates code."""

_PRECISION_HINTS = {"fp32": "f32", "bf16": "bf16", "fp16": "f16", "int8": "f32"}
"""Precision to the type for the file's float32. Without a hint, a CPU that has bfloat16 uses it."""


@cache
def _core() -> Any:
    """Return the process's one core: making one loads the plugins."""
    import openvino

    return openvino.Core()


def _translated(problem: Exception, graph: Graph, doing: str) -> RuntimeFailure | UnsupportedOperatorError:
    """Translate the library's errors into latcast's."""
    text = message(problem)
    if "No conversion rule found" in text or "does not support the following ONNX operations" in text:
        nodes = [f"'{node.name}' ({node.op_type})" for node in graph.nodes if re.search(rf"\b{node.op_type}\b", text)]
        named = ", ".join(nodes) or "an operator"
        return UnsupportedOperatorError(f"openvino has no implementation for {named} of '{graph.name}': {text}")
    return RuntimeFailure(f"openvino failed {doing} '{graph.name}': {text}")


def _compile(graph: Graph, model: Any, threads: int, precision: str, unit: str, *, profile: bool) -> Any:
    """Return a compiled model for one inference at a time; ``model`` is one that was read."""
    properties = {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": _PRECISION_HINTS[precision], "PERF_COUNT": profile,
    }  # fmt: skip
    if unit == "cpu":
        # The worker pins the process.
        properties |= {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "ENABLE_CPU_PINNING": False}
    try:
        return _core().compile_model(model, DEVICES[unit], properties)
    except RuntimeError as problem:
        raise _translated(problem, graph, "to load") from problem


def _onnx(graph: Graph, precision: str) -> bytes:
    return to_qdq(graph, style=INPUT_STYLE) if precision == "int8" else to_onnx(graph)


def _read(graph: Graph, model: bytes | str) -> Any:
    try:
        return _core().read_model(model)
    except RuntimeError as problem:
        raise _translated(problem, graph, "to read") from problem


class OpenVinoSession:
    """A network in OpenVINO, its inputs in memory that does not move."""

    def __init__(self, graph: Graph, model: bytes, *, threads: int, precision: str, unit: str, profile: bool) -> None:
        import openvino

        self.graph = graph
        self._profile = profile
        self._runs = 0
        # The native tensors share these arrays: freeing one while a request lives is a segmentation fault.
        self._inputs = [np.zeros(graph.shape(name), graph.tensors[name].dtype) for name in graph.inputs]
        self._compiled = _compile(graph, _read(graph, model), threads, precision, unit, profile=profile)
        self._request = self._compiled.create_infer_request()
        for name, array in zip(graph.inputs, self._inputs, strict=True):
            self._request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
        self.set_inputs(random_inputs(graph))

    @property
    def threads(self) -> int:
        """The number of threads that the compiled model says it uses; of a CPU."""
        return int(self._compiled.get_property("INFERENCE_NUM_THREADS"))

    def run(self) -> None:
        self._runs += 1
        try:
            self._request.infer()
        except RuntimeError as problem:
            raise _translated(problem, self.graph, "to run") from problem

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        for kept, given in zip(self._inputs, checked_inputs(self.graph, inputs), strict=True):
            np.copyto(kept, given)

    def outputs(self) -> list[np.ndarray]:
        return [np.array(self._request.get_tensor(name).data, dtype=np.float32) for name in self.graph.outputs]

    def executed_kernels(self, runs: int = 10) -> tuple[ExecutedKernel, ...]:
        """Return the primitives of the executed model as OpenVINO counts them.

        OpenVINO keeps one sum of whole microseconds a primitive and reports its truncated mean, so a latency is the mean over the
        runs (not their median), to about 1 µs; over all runs so far, where there were enough. Shorter primitives read 0; views
        and layout changes among those are left out, as they may have been done in place.
        """
        check_profiling(self.graph, self._profile, runs)
        primitives = read_executed(self._compiled.get_runtime_model())
        if self.graph.nodes:
            assign_nodes(self.graph, primitives)
        types = {node.name: node.op_type for node in self.graph.nodes}
        latencies_ms = self._mean_latencies(runs)
        kernels = []
        for primitive in primitives:
            latency_ms = latencies_ms.get(primitive.name, 0.0)
            if latency_ms > 0 or any(types[name] not in VIEWS for name in primitive.nodes):
                kernels.append(ExecutedKernel(primitive.name, primitive.kind, primitive.nodes, latency_ms))
        return tuple(kernels)

    def _mean_latencies(self, runs: int) -> dict[str, float]:
        """Return the mean milliseconds of every primitive over the runs after the warm-ups."""

        def totals_us() -> dict[str, float]:
            """Return sums since the compilation; the means they come from were rounded down, by half a microsecond on average."""
            means = {info.node_name: info.real_time.total_seconds() * 1e6 for info in self._request.get_profiling_info()}
            return {name: (mean + 0.5 if mean > 0 else 0.0) * self._runs for name, mean in means.items()}

        if self._runs >= PROFILE_WARMUPS + runs:
            # The counters also ran while the network was timed.
            return {name: total / self._runs / 1e3 for name, total in totals_us().items()}
        for _ in range(PROFILE_WARMUPS):
            self.run()
        before = totals_us()
        for _ in range(runs):
            self.run()
        return {name: max(total - before.get(name, 0.0), 0.0) / runs / 1e3 for name, total in totals_us().items()}

    def close(self) -> None:
        # The request before the arrays that it shares.
        self._request = None
        self._compiled = None


class OpenVinoFileSession(OpenVinoSession):
    """A model file in OpenVINO, run as it is."""

    def __init__(self, file: ModelFile, *, threads: int, precision: str, unit: str, profile: bool) -> None:
        self.graph = file.read
        self._profile = profile
        self._runs = 0
        model = _read(self.graph, str(file.path))
        slots = [_slot(number, port) for number, port in enumerate(model.inputs)]
        try:
            model.reshape({number: file.shape_of(slot) for number, slot in enumerate(slots)})
        except RuntimeError as problem:
            raise _translated(problem, self.graph, "to give shapes to") from problem
        self._compiled = _compile(self.graph, model, threads, precision, unit, profile=profile)
        self._request = self._compiled.create_infer_request()
        file.started(slots, self.set_inputs)

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        import openvino

        self._inputs = list(inputs)
        for number, array in enumerate(self._inputs):
            shared = array.dtype != object
            self._request.set_input_tensor(number, openvino.Tensor(array if shared else array.astype(str), shared_memory=shared))
        self.run()

    def outputs(self) -> list[np.ndarray]:
        return [np.array(tensor.data, dtype=np.float32) for tensor in self._request.output_tensors]


def _slot(number: int, port: Any) -> InputSlot:
    """Return an input as a model that was read states it."""
    name = next(iter(sorted(port.get_names())), f"input{number}")
    if port.get_partial_shape().rank.is_dynamic:
        raise RuntimeFailure(f"input '{name}' has no shape; give it a rank: export the model with its inputs' shapes")
    sizes = [-1 if size.is_dynamic else size.get_length() for size in port.get_partial_shape()]
    kind = port.get_element_type()
    return InputSlot(name, sizes, TEXTS if kind.get_type_name() == "string" else np.dtype(kind.to_dtype()).name)


class OpenVino(UnitRuntime):
    """OpenVINO's plugin for a kind of unit, tuned for the latency of one inference."""

    name = "openvino"
    library = "openvino"
    endings = (".onnx", ".xml", ".tflite")
    units = ("cpu", "gpu", "npu")

    @property
    def precisions(self) -> tuple[str, ...]:
        """fp32 and int8, and bf16 where the CPU computes in it; fp16 on GPUs and NPUs."""
        if self._unit != "cpu":
            return ("fp32", "fp16", "int8") if self._unit == "gpu" else ("fp16", "int8")
        if self.available() is not None:
            return ("fp32", "int8")
        native = "BF16" in _core().get_property(DEVICES["cpu"], "OPTIMIZATION_CAPABILITIES")
        return ("fp32", "bf16", "int8") if native else ("fp32", "int8")

    def available(self) -> str | None:
        missing = unavailable(_PURPOSE, "openvino")
        if missing is not None or self._unit == "cpu":
            return missing
        found = [str(name) for name in _core().available_devices]
        if any(name.partition(".")[0] == DEVICES[self._unit] for name in found):
            return None
        return f"OpenVINO finds no {DEVICES[self._unit]} here (only {', '.join(found)}): it knows Intel's, with their drivers"

    def version(self) -> str:
        return installed_version("openvino")

    def load(self, graph: Graph, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> OpenVinoSession:
        """Load a network as an ONNX file; int8 as quantise-dequantise pairs where integers are read, as NNCF places them."""
        require(_PURPOSE, "openvino")
        check_setting(self, graph, threads, precision)
        if self._unit != "cpu" and (reason := self.available()) is not None:
            raise RuntimeFailure(reason)
        return OpenVinoSession(
            graph, _onnx(graph, precision), threads=threads, precision=precision, unit=self._unit, profile=profile
        )

    def write(self, graph: Graph, folder: Path, precision: str = "fp32") -> Path:
        path = folder / "network.onnx"
        path.write_bytes(_onnx(graph, precision))
        return path

    def load_file(
        self, file: ModelFile, *, threads: int = 1, precision: str = "fp32", profile: bool = False
    ) -> OpenVinoFileSession:
        """Load an ONNX file, OpenVINO's own or a TFLite file as it is."""
        require(_PURPOSE, "openvino")
        check_setting(self, file, threads, precision)
        if self._unit != "cpu" and (reason := self.available()) is not None:
            raise RuntimeFailure(reason)
        return OpenVinoFileSession(file, threads=threads, precision=precision, unit=self._unit, profile=profile)
