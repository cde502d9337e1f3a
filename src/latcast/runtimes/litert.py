"""LiteRT (formerly TensorFlow Lite) on the CPU, with the XNNPACK delegate that it applies by default."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import RuntimeFailure, UnsupportedOperatorError
from latcast.extras import require, unavailable
from latcast.graph.ir import Graph
from latcast.graph.writers.tflite import TfliteNetwork, write_tflite
from latcast.graph.writers.tflite.layout import Order, physical_shape
from latcast.records import ExecutedKernel
from latcast.runtimes.kernel_assignment import joined
from latcast.runtimes.litert_kernels import attribute
from latcast.runtimes.litert_native import NativeModel, ProfiledEvent, check_version
from latcast.runtimes.model_file import TEXTS, InputSlot, ModelFile
from latcast.runtimes.session import (
    check_profiling,
    check_setting,
    checked_inputs,
    dequantised,
    message,
    quantised,
    random_inputs,
)

_PURPOSE = "measuring with LiteRT"

PROFILE_WARMUPS = 2
"""Runs before the profiled ones: the first registers buffers and allocates."""

_TRUNCATION_US = 0.5
"""Mean error of XNNPACK's whole microseconds, which are rounded down; added so that sums over kernels are right."""


class LiteRtCpuSession:
    """A network in a LiteRT interpreter."""

    def __init__(self, graph: Graph, network: TfliteNetwork, *, threads: int, profile: bool) -> None:
        self.graph = graph
        self.threads = threads
        self._network = network
        self._profile = profile
        self._interpreter: Any = _new_interpreter(graph, network.data, threads)
        self._input_details = self._interpreter.get_input_details()
        self._output_details = self._interpreter.get_output_details()
        self._check_shapes(graph.inputs, self._input_details, network.input_orders)
        self._check_shapes(graph.outputs, self._output_details, network.output_orders)
        self._inputs: list[np.ndarray] = []
        self.set_inputs(random_inputs(graph))

    def _check_shapes(self, names: Sequence[str], details: Sequence[Any], orders: Sequence[Order]) -> None:
        """Raise where LiteRT's own shape inference differs from the graph: it would run another network."""
        expected = [physical_shape(self.graph.shape(name), order) for name, order in zip(names, orders, strict=True)]
        found = [tuple(int(size) for size in detail["shape"]) for detail in details]
        if found != expected:
            raise RuntimeFailure(f"LiteRT gives {list(names)} of '{self.graph.name}' the shapes {found}; {expected} were written")

    def run(self) -> None:
        try:
            self._interpreter.invoke()
        except (RuntimeError, ValueError) as problem:
            raise RuntimeFailure(f"LiteRT failed to run '{self.graph.name}': {message(problem)}") from problem

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        arrays = checked_inputs(self.graph, inputs)
        self._inputs = [
            quantised(array.transpose(order), detail["quantization"], detail["dtype"])
            for array, order, detail in zip(arrays, self._network.input_orders, self._input_details, strict=True)
        ]
        for detail, array in zip(self._input_details, self._inputs, strict=True):
            self._interpreter.set_tensor(detail["index"], array)

    def outputs(self) -> list[np.ndarray]:
        results = []
        for detail, order in zip(self._output_details, self._network.output_orders, strict=True):
            values = dequantised(self._interpreter.get_tensor(detail["index"]), detail["quantization"])
            results.append(np.ascontiguousarray(values.transpose(np.argsort(order))))
        return results

    def executed_kernels(self, runs: int = 10) -> tuple[ExecutedKernel, ...]:
        """Return XNNPACK's kernels, and the operators that LiteRT ran itself, from the profiler of LiteRT's C API.

        Kernels that together compute one node (those of a layer normalisation) are one entry, their names joined by " + ".
        The clock counts whole microseconds; the latency is the mean of the middle half of the runs.
        """
        check_profiling(self.graph, self._profile, runs)
        first, latencies_ms = _profiled(self.graph.name, self._network.data, self.threads, self._inputs, runs)
        kernels = []
        for attribution in attribute(self._network.model, first):
            event = first[attribution.event]
            latency_ms = latencies_ms[attribution.event] + (_TRUNCATION_US / 1e3 if event.delegated else 0.0)
            name = f"{event.tag}:{attribution.event}"
            kernels.append(ExecutedKernel(name, event.tag, tuple(attribution.nodes), float(latency_ms)))
        return joined(self.graph, kernels)

    def close(self) -> None:
        self._interpreter = None
        self._inputs = []


def _profiled(
    name: str, data: bytes, threads: int, inputs: Sequence[np.ndarray], runs: int
) -> tuple[tuple[ProfiledEvent, ...], np.ndarray]:
    """Return the kernels of a run, by LiteRT's profiler, and the typical milliseconds of each."""
    native = NativeModel(data, threads=threads)
    try:
        native.set_inputs(inputs)
        for _ in range(PROFILE_WARMUPS):
            native.run()
        recorded = [native.profiled_run() for _ in range(runs)]
    finally:
        native.close()
    first = recorded[0]
    if any([event.tag for event in events] != [event.tag for event in first] for events in recorded):
        raise RuntimeFailure(f"LiteRT did not run the same kernels of '{name}' every time")
    times_us = np.array([[event.elapsed_us for event in events] for events in recorded], dtype=np.float64)
    # The mean of the middle half is as steady as the median, but not bound to whole microseconds.
    cut = runs // 4
    return first, np.sort(times_us, axis=0)[cut : runs - cut].mean(axis=0) / 1e3


class LiteRtFileSession(LiteRtCpuSession):
    """A TFLite file in a LiteRT interpreter, run as it is."""

    def __init__(self, file: ModelFile, *, threads: int, profile: bool) -> None:
        self.graph = file.read
        self.threads = threads
        self._profile = profile
        self._data = file.path.read_bytes()
        self._interpreter = _new_interpreter(self.graph, self._data, threads)
        details = self._interpreter.get_input_details()
        slots = [_slot(detail) for detail in details]
        # Where a size may change and none is given, LiteRT runs with the one that the file starts with.
        for slot, detail in zip(slots, details, strict=True):
            known = slot.name in file.shapes or slot.name in file.values
            shape = file.shape_of(slot) if known else tuple(int(size) for size in detail["shape"])
            if shape != tuple(detail["shape"]):
                try:
                    self._interpreter.resize_tensor_input(detail["index"], shape)
                    self._interpreter.allocate_tensors()
                except (RuntimeError, ValueError) as problem:
                    raise RuntimeFailure(f"LiteRT failed to give a shape to '{self.graph.name}': {message(problem)}") from problem
        self._input_details = self._interpreter.get_input_details()
        self._output_details = self._interpreter.get_output_details()
        now = [
            InputSlot(slot.name, detail["shape"].tolist(), slot.dtype)
            for slot, detail in zip(slots, self._input_details, strict=True)
        ]
        file.started(now, self.set_inputs)

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        self._inputs = list(inputs)
        for detail, array in zip(self._input_details, self._inputs, strict=True):
            self._interpreter.set_tensor(detail["index"], array)
        self.run()

    def outputs(self) -> list[np.ndarray]:
        return [
            dequantised(self._interpreter.get_tensor(detail["index"]), detail["quantization"]) for detail in self._output_details
        ]

    def executed_kernels(self, runs: int = 10) -> tuple[ExecutedKernel, ...]:
        """Return the kernels by LiteRT's profiler, in the order in which they ran, without the nodes that they compute."""
        check_profiling(self.graph, self._profile, runs)
        first, latencies_ms = _profiled(self.graph.name, self._data, self.threads, self._inputs, runs)
        return tuple(
            ExecutedKernel(f"{event.tag}:{number}", event.tag, (), float(latency_ms))
            for number, (event, latency_ms) in enumerate(zip(first, latencies_ms, strict=True))
        )


def _slot(detail: Any) -> InputSlot:
    """Return an input as an interpreter states it; sizes that may change are below 0."""
    kind = np.dtype(detail["dtype"])
    signature = detail.get("shape_signature")
    sizes = detail["shape"] if signature is None or not len(signature) else signature
    return InputSlot(str(detail["name"]), [int(size) for size in sizes], TEXTS if kind.kind in "SU" else kind.name)


def _new_interpreter(graph: Graph, data: bytes, threads: int) -> Any:
    from ai_edge_litert.interpreter import Interpreter

    try:
        interpreter = Interpreter(model_content=data, num_threads=threads)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as problem:
        text = message(problem)
        if "Didn't find op for builtin opcode" in text:
            raise UnsupportedOperatorError(f"LiteRT has no kernel for an operator of '{graph.name}': {text}") from problem
        raise RuntimeFailure(f"LiteRT failed to load '{graph.name}': {text}") from problem
    return interpreter


class LiteRt:
    """LiteRT's interpreter with its default delegate."""

    name = "litert"
    library = "ai_edge_litert.interpreter"
    endings = (".tflite",)
    precisions: tuple[str, ...] = ("fp32", "int8")

    def available(self) -> str | None:
        return unavailable(_PURPOSE, "ai_edge_litert")

    def version(self) -> str:
        return installed_version("ai-edge-litert")

    def load(self, graph: Graph, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> LiteRtCpuSession:
        """Load a network as a .tflite file; int8 as a full-integer one with weights quantised per channel.

        Raises:
            RuntimeFailure: With ``profile=True`` also where the installed version's profiler is not known.
        """
        check_setting(self, graph, threads, precision)
        require(_PURPOSE, "ai_edge_litert")
        if profile:
            check_version()
        return LiteRtCpuSession(graph, write_tflite(graph, precision=precision), threads=threads, profile=profile)

    def write(self, graph: Graph, folder: Path, precision: str = "fp32") -> Path:
        path = folder / "network.tflite"
        path.write_bytes(write_tflite(graph, precision=precision).data)
        return path

    def load_file(
        self, file: ModelFile, *, threads: int = 1, precision: str = "fp32", profile: bool = False
    ) -> LiteRtFileSession:
        """Load a TFLite file as it is."""
        check_setting(self, file, threads, precision)
        require(_PURPOSE, "ai_edge_litert")
        if profile:
            check_version()
        return LiteRtFileSession(file, threads=threads, profile=profile)
