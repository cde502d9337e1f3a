"""ONNX Runtime on the CPU, or on a GPU by CUDA."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import RuntimeFailure, UnsupportedOperatorError
from latcast.extras import require, unavailable
from latcast.graph.ir import Graph
from latcast.graph.operators.table import sized_by_values
from latcast.graph.writers.onnx import to_onnx
from latcast.records import ExecutedKernel
from latcast.runtimes.model_file import TEXTS, InputSlot, ModelFile
from latcast.runtimes.onnxruntime_kernels import assign_nodes, kernel_events, kernels_of, read_optimised
from latcast.runtimes.protocol import Session
from latcast.runtimes.session import UnitRuntime, check_profiling, check_setting, checked_inputs, message, random_inputs

_PURPOSE = "measuring with ONNX Runtime"

CPU_PROVIDER, CUDA_PROVIDER = "CPUExecutionProvider", "CUDAExecutionProvider"

PROFILE_WARMUPS = 2
"""Runs before the profiled ones: the first allocates memory."""


@cache
def _library_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of the native library, which have no common base, and those of its Python layer."""
    from onnxruntime.capi import onnxruntime_pybind11_state as native

    own = [kind for kind in vars(native).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    return (*own, RuntimeError, ValueError)


def _translated(problem: Exception, name: str, doing: str) -> RuntimeFailure | UnsupportedOperatorError:
    """Translate the library's errors into latcast's."""
    text = message(problem)
    if "Could not find an implementation for" in text or "is not a registered function/op" in text:
        return UnsupportedOperatorError(f"onnxruntime has no kernel for a node of '{name}': {text}")
    return RuntimeFailure(f"onnxruntime failed {doing} '{name}': {text}")


def _new_session(name: str, model: bytes | str, threads: int, provider: str, entries: Mapping[str, Any]) -> Any:
    """Return a native session at the default optimisation level; ``entries`` are further properties of its options."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    # Only errors: it warns of optimised models that fit this machine alone, as wanted.
    options.log_severity_level = 3
    # Made-up weights give denormal numbers (masked scores after a softmax), which a processor computes many times slower. Their
    # number depends on values, which no forecast reads, so they count as zero. ONNX Runtime takes this from the first session of
    # a process, and for the thread that makes it.
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    for entry, value in entries.items():
        setattr(options, entry, value)
    # By default CUDA multiplies in TF32 what the platform id calls fp32.
    cuda = [(CUDA_PROVIDER, {"use_tf32": "0"})] if provider == CUDA_PROVIDER else []
    try:
        return onnxruntime.InferenceSession(model, options, providers=[*cuda, CPU_PROVIDER])
    except _library_errors() as problem:
        raise _translated(problem, name, "to load") from problem


def optimised_kernels(graph: Graph) -> tuple[ExecutedKernel, ...]:
    """Return the nodes of the model that ONNX Runtime makes of a network for the processor here, without running it: 0 ms each.

    Raises:
        RuntimeFailure: It cannot be loaded.
        UnsupportedOperatorError: ONNX Runtime lacks an operator of it.
    """
    import onnx

    with tempfile.TemporaryDirectory(prefix="latcast-") as folder:
        path = Path(folder, "optimised.onnx")
        _new_session(graph.name, to_onnx(graph), 1, CPU_PROVIDER, {"optimized_model_filepath": str(path)})
        optimised = read_optimised(onnx.load(str(path)))
    assign_nodes(graph, optimised)
    return tuple(ExecutedKernel(node.name, node.kind, node.nodes, 0.0) for node in optimised)


class OnnxRuntimeSession:
    """A network in ONNX Runtime, its inputs and outputs bound to memory that does not move.

    A GPU's inference contains the copies of inputs and outputs, as an application that has them in its memory sees it.
    """

    def __init__(self, graph: Graph, model: bytes, *, threads: int, profile: bool, provider: str = CPU_PROVIDER) -> None:
        self.graph = graph
        self.threads = threads
        self._provider = provider
        self._model: bytes | str | None = model if profile else None
        self._session = _new_session(graph.name, model, threads, provider, {})
        self._inputs = [np.zeros(graph.shape(name), graph.tensors[name].dtype) for name in graph.inputs]
        self._outputs = [np.zeros(graph.shape(name), graph.tensors[name].dtype) for name in graph.outputs]
        self._sized_by_values = bool(sized_by_values(graph))
        self._binding = self._bind(self._session)
        self.set_inputs(random_inputs(graph))

    def _bind(self, session: Any) -> Any:
        binding = session.io_binding()
        for name, array in zip(self.graph.inputs, self._inputs, strict=True):
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for name, array in zip(self.graph.outputs, self._outputs, strict=True):
            if self._sized_by_values:  # it takes memory in each run: a binding refuses fewer boxes than may be kept
                binding.bind_output(name, "cpu")
            else:
                binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        return binding

    @property
    def providers(self) -> tuple[str, ...]:
        """The providers that could be loaded."""
        return tuple(self._session.get_providers())

    def run(self) -> None:
        try:
            self._run_bound()
        except _library_errors() as problem:
            raise _translated(problem, self.graph.name, "to run") from problem

    def _run_bound(self) -> None:
        if self._sized_by_values:  # the last run's result is bound now, and may be smaller than the model states
            for name in self.graph.outputs:
                self._binding.bind_output(name, "cpu")
        self._session.run_with_iobinding(self._binding)

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        for kept, given in zip(self._inputs, checked_inputs(self.graph, inputs), strict=True):
            np.copyto(kept, given)

    def outputs(self) -> list[np.ndarray]:
        made = self._binding.copy_outputs_to_cpu() if self._sized_by_values else self._outputs
        return [array.astype(np.float32) for array in made]

    def executed_kernels(self, runs: int = 10) -> tuple[ExecutedKernel, ...]:
        """Return the nodes of the optimised model as ONNX Runtime profiles them, in a session of its own.

        Its clock counts whole microseconds and truncates, so a kernel reads up to 1 µs short. Writing the profile slows a run
        by some microseconds a kernel, most of it between kernels; sessions that are timed never write one. The session that was
        timed ends before: its threads would spin on the CPUs of the new one's. That one takes its place when it is profiled.
        """
        check_profiling(self.graph, self._model is not None, runs)
        with tempfile.TemporaryDirectory(prefix="latcast-") as folder:
            import onnx

            model_path = Path(folder, "optimised.onnx")
            events = self._profiled_events(folder, model_path, runs)
            optimised = read_optimised(onnx.load(str(model_path)))
        if self.graph.nodes:
            assign_nodes(self.graph, optimised)
        return kernels_of(events, optimised, runs)

    def _profiled_events(self, folder: str, model_path: Path, runs: int) -> list[dict[str, Any]]:
        """Return the profiler's events of every kernel of every run, in time."""
        entries = {
            "enable_profiling": True,
            "profile_file_prefix": str(Path(folder, "profile")),
            "optimized_model_filepath": str(model_path),
        }
        assert self._model is not None
        if self._binding is None:
            raise RuntimeFailure(f"the kernels of '{self.graph.name}' cannot be timed: its inputs or outputs cannot be bound")
        self._binding = self._session = None
        self._session = _new_session(self.graph.name, self._model, self.threads, self._provider, entries)
        self._binding = self._bind(self._session)
        try:
            for _ in range(PROFILE_WARMUPS + runs):
                self._run_bound()
        except _library_errors() as problem:
            raise _translated(problem, self.graph.name, "to profile") from problem
        finally:
            path = self._session.end_profiling()
        events = json.loads(Path(path).read_text(encoding="utf-8"))
        return kernel_events(events)

    def close(self) -> None:
        self._binding = None
        self._session = None
        self._model = None


_DTYPES = {"float": "float32", "double": "float64", "string": TEXTS}
"""Types of elements as ONNX Runtime calls them, where numpy does not."""


def _has_shape(value: np.ndarray, stated: Sequence[int | str | None]) -> bool:
    """Return whether an array has a shape in which sizes that are not known are texts or None."""
    sizes = zip(value.shape, stated, strict=False)
    return value.ndim == len(stated) and all(size == known for size, known in sizes if isinstance(known, int))


def _slot(stated: Any) -> InputSlot:
    """Return an input as a session states it."""
    kind = re.fullmatch(r"tensor\((\w+)\)", stated.type)
    if kind is None:
        raise RuntimeFailure(f"input '{stated.name}' is a {stated.type}; only tensors can be fed")
    sizes = [size if isinstance(size, int) else -1 for size in stated.shape]
    return InputSlot(stated.name, sizes, _DTYPES.get(kind[1], kind[1]))


class OnnxRuntimeFileSession(OnnxRuntimeSession):
    """A model file in ONNX Runtime, run as it is; the outputs of its first run are written again in the same memory."""

    _sized_by_values = False

    def __init__(self, file: ModelFile, *, threads: int, profile: bool, provider: str) -> None:
        self.threads = threads
        self._provider = provider
        self._model = str(file.path)
        self.graph = file.read
        self._session = _new_session(file.name, self._model, threads, provider, {})
        slots = [_slot(stated) for stated in self._session.get_inputs()]
        self._names = [slot.name for slot in slots]
        self._binding = file.started(slots, self._first_run)
        self._model = self._model if profile else None

    def _first_run(self, arrays: list[np.ndarray]) -> Any:
        self._inputs = arrays
        try:
            self._values = self._session.run(None, dict(zip(self._names, arrays, strict=True)))
            return self._bind(self._session)
        except _library_errors() as problem:
            raise _translated(problem, self.graph.name, "to run") from problem

    def _bind(self, session: Any) -> Any:
        import onnxruntime

        binding = session.io_binding()
        for name, array in zip(self._names, self._inputs, strict=True):
            if array.dtype == object:
                return None  # texts cannot be bound; they are fed in every run
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        for stated, value in zip(session.get_outputs(), self._values, strict=True):
            if isinstance(value, np.ndarray) and stated.shape and not _has_shape(value, stated.shape):
                return None  # a binding refuses an output of another shape than the file states; a run takes it
            if isinstance(value, np.ndarray) and value.dtype != object and value.size:
                binding.bind_ortvalue_output(stated.name, onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros_like(value)))
            else:  # a sequence, texts or nothing, for which it takes memory in each run
                binding.bind_output(stated.name, "cpu")
        return binding

    def run(self) -> None:
        if self._binding is not None:
            super().run()
        else:
            self._first_run(self._inputs)

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        self._binding = self._first_run(list(inputs))

    def outputs(self) -> list[np.ndarray]:
        made = self._values if self._binding is None else self._binding.copy_outputs_to_cpu()
        return [np.asarray(value, dtype=np.float32) for value in made]


class OnnxRuntime(UnitRuntime):
    """ONNX Runtime's provider for a kind of unit at its default optimisation level: the CPU, or CUDA."""

    name = "onnxruntime"
    library = "onnxruntime"
    endings = (".onnx", ".ort")

    @property
    def precisions(self) -> tuple[str, ...]:
        return ("fp32", "int8") if self._unit == "cpu" else ("fp32",)

    def available(self) -> str | None:
        missing = unavailable(_PURPOSE, "onnxruntime")
        if missing is not None or self._unit == "cpu":
            return missing
        import onnxruntime

        if CUDA_PROVIDER in onnxruntime.get_available_providers():
            return None
        return "the installed ONNX Runtime has no CUDA provider; on a machine with an NVIDIA card: pip install onnxruntime-gpu"

    def version(self) -> str:
        return installed_version("onnxruntime")

    def load(self, graph: Graph, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> OnnxRuntimeSession:
        """Load a network as an ONNX file; int8 as quantise-dequantise pairs of uint8 activations and int8 weights."""
        check_setting(self, graph, threads, precision)
        require(_PURPOSE, "onnxruntime")
        if (reason := self.available()) is not None:
            raise RuntimeFailure(reason)
        model = to_onnx(graph, precision=precision)
        return self._checked(OnnxRuntimeSession(graph, model, threads=threads, profile=profile, provider=self._provider))

    def write(self, graph: Graph, folder: Path, precision: str = "fp32") -> Path:
        path = folder / "network.onnx"
        path.write_bytes(to_onnx(graph, precision=precision))
        return path

    def load_file(self, file: ModelFile, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> Session:
        """Load an ONNX file as it is, with the data beside it."""
        check_setting(self, file, threads, precision)
        require(_PURPOSE, "onnxruntime")
        if (reason := self.available()) is not None:
            raise RuntimeFailure(reason)
        return self._checked(OnnxRuntimeFileSession(file, threads=threads, profile=profile, provider=self._provider))

    @property
    def _provider(self) -> str:
        return CPU_PROVIDER if self._unit == "cpu" else CUDA_PROVIDER

    def _checked(self, session: OnnxRuntimeSession) -> OnnxRuntimeSession:
        if self._provider not in session.providers:
            session.close()
            raise RuntimeFailure(f"ONNX Runtime found no card that its CUDA provider can use for '{session.graph.name}'")
        return session
