"""MNN on the CPU, or on a GPU by OpenCL, through its Python module and its own converter (:mod:`latcast.runtimes.mnn_native`)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version as installed_version
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from latcast.errors import RuntimeFailure
from latcast.extras import require
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.graph.writers.onnx import to_onnx
from latcast.records import ExecutedKernel
from latcast.runtimes.mnn_kernels import MnnCall, assign_nodes
from latcast.runtimes.mnn_native import FORMATS, LIBRARY, PURPOSE, convert, imported, not_available
from latcast.runtimes.model_file import InputSlot, ModelFile
from latcast.runtimes.session import (
    UnitRuntime,
    check_finite,
    check_profiling,
    check_setting,
    checked_inputs,
    prints_kept,
    random_inputs,
)

PROFILE_WARMUPS = 2
"""Runs before the profiled ones."""

SKIPPED_RUNS = 5
"""Runs in which every operator is skipped, to time the calls themselves."""

BACKENDS = {"cpu": "CPU", "gpu": "OPENCL"}
"""Kind of unit to MNN's backend."""

_PRECISIONS = {"fp32": "high", "fp16": "low"}


class Mnn(UnitRuntime):
    """The installed MNN with the defaults of its converter and backend; on the CPU in full precision."""

    name = "mnn"
    library = LIBRARY
    endings = (".mnn", *FORMATS)

    @property
    def precisions(self) -> tuple[str, ...]:
        return ("fp32",) if self._unit == "cpu" else ("fp32", "fp16")

    def available(self) -> str | None:
        missing = not_available()
        if missing is not None or self._unit == "cpu":
            return missing
        b = GraphBuilder("trial")
        try:
            self.load(b.finish(b.relu(b.input((1, 4, 8, 8))))).close()
        except RuntimeFailure as problem:
            return str(problem)
        return None

    def version(self) -> str:
        return installed_version(LIBRARY)

    def load(self, graph: Graph, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> MnnSession:
        """Convert the network, load it and run it once.

        Raises:
            UnsupportedOperatorError: ONNX or MNN's converter has no form of a node.
            RuntimeFailure: An unknown precision, no thread, or MNN refused the network or computed no finite numbers.
            MissingExtraError: MNN is not installed.
        """
        check_setting(self, graph, threads, precision)
        with tempfile.TemporaryDirectory(prefix="latcast-") as folder:
            converted = self.write(graph, Path(folder))
            return MnnSession(graph, converted, threads=threads, profile=profile, unit=self._unit, precision=precision)

    def write(self, graph: Graph, folder: Path, precision: str = "fp32") -> Path:
        return convert(graph, to_onnx(graph), folder)

    def load_file(self, file: ModelFile, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> MnnSession:
        """Load a file of MNN, or one that MNN's converter reads, with its weights."""
        check_setting(self, file, threads, precision)
        require(PURPOSE, LIBRARY)
        with tempfile.TemporaryDirectory(prefix="latcast-") as folder:
            own = file.path.suffix.lower() not in FORMATS
            model = file.path if own else convert(file.read, file.path, Path(folder))
            return MnnFileSession(file, model, threads=threads, profile=profile, unit=self._unit, precision=precision)


class MnnSession:
    """A network in MNN, from a converted file, which may go afterwards.

    Args:
        graph, threads, precision, profile: As in :meth:`Mnn.load`.
        model: The converted file.
        hints: MNN's numbers of hints to their values, set before the session is made.
        unit: Kind of unit.
    """

    def __init__(
        self, graph: Graph, model: Path, *, threads: int, profile: bool, hints: Sequence[tuple[int, int]] = (), unit: str = "cpu",
        precision: str = "fp32",
    ) -> None:  # fmt: skip
        self.graph = graph
        self._library = imported(LIBRARY)
        self._profile = profile
        with prints_kept() as printed:
            self._open(
                model, {"backend": BACKENDS[unit], "numThread": threads, "precision": _PRECISIONS[precision]}, hints, printed
            )
            self._inputs: list[tuple[Any, Any, np.ndarray]] = []
            self._outputs = self._interpreter.getSessionOutputAll(self._session)
            self.set_inputs(random_inputs(graph))
            try:
                self.run()
            except RuntimeFailure as problem:
                raise RuntimeFailure(f"{problem}: {' '.join(printed().split())}") from problem
        check_finite("MNN", graph, self.outputs())

    def _open(
        self, model: Path, setting: Mapping[str, Any], hints: Sequence[tuple[int, int]], printed: Callable[[], str]
    ) -> None:
        try:
            self._interpreter: Any = self._library.Interpreter(str(model))
            for hint, value in hints:
                self._interpreter.setSessionHint(hint, value)
            self._session: Any = self._interpreter.createSession(dict(setting))
        except Exception as problem:  # MNN raises nothing more special
            text = " ".join(printed().split())
            raise RuntimeFailure(f"MNN failed to load '{self.graph.name}': {problem} {text}") from problem
        if "Can't Find type=" in printed():
            # It would run on the CPU instead.
            raise RuntimeFailure(
                f"the installed MNN has no backend {setting['backend']}, as pip's wheel has none for GPUs: "
                "build MNN with -DMNN_OPENCL=ON and install its Python package"
            )

    @property
    def threads(self) -> int:
        """The number of threads that the session says it uses."""
        code_of_threads = 4
        # The library hands the bits of an integer out as a float.
        value = np.float32(self._interpreter.getSessionInfo(self._session, code_of_threads))
        return int(value.view(np.int32))

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        native = self._interpreter.getSessionInputAll(self._session)
        kept = []
        for name, array in zip(self.graph.inputs, checked_inputs(self.graph, inputs), strict=True):
            if name not in native:
                raise RuntimeFailure(f"MNN has no input '{name}' of '{self.graph.name}' any more; nothing in it reads the input")
            # A copy, because the native tensor may share the array.
            kept.append((native[name], *self._host_tensor(array.copy())))
        self._inputs = kept

    def _host_tensor(self, array: np.ndarray, layout: int | None = None) -> tuple[Any, np.ndarray]:
        """Return a tensor outside the session, and its array."""
        library = self._library
        # MNN knows no 64-bit integers inside.
        dtype, kind = {
            "f": (np.float32, library.Halide_Type_Float), "u": (np.uint8, library.Halide_Type_Uint8),
        }.get(array.dtype.kind, (np.int32, library.Halide_Type_Int))  # fmt: skip
        values: np.ndarray = np.ascontiguousarray(array, dtype=dtype)
        return library.Tensor(
            values.shape, kind, values, library.Tensor_DimensionType_Caffe if layout is None else layout
        ), values

    def run(self) -> None:
        """Run one inference, setting the inputs included: MNN overwrites them.

        Raises:
            RuntimeFailure: MNN returned an error, or the session is closed.
        """
        self._fill_inputs()
        code = self._interpreter.runSession(self._session)
        if code != 0:
            raise RuntimeFailure(f"MNN failed to run '{self.graph.name}' (code {code})")

    def _fill_inputs(self) -> None:
        if self._session is None:
            raise RuntimeFailure(f"the session of '{self.graph.name}' is closed; load the network again")
        # MNN reuses the memory of the inputs as soon as it has read them, so they are set for every inference.
        for tensor, host, _ in self._inputs:
            tensor.copyFrom(host)

    def outputs(self) -> list[np.ndarray]:
        """Return copies of the last run's outputs, float32, in the graph's order and shapes.

        Raises:
            RuntimeFailure: The session is closed, or an output is missing or of another shape than the graph says.
        """
        if self._session is None:
            raise RuntimeFailure(f"'{self.graph.name}' is closed, its outputs are gone")
        results = []
        for name in self.graph.outputs:
            expected = self.graph.shape(name)
            found = tuple(self._outputs[name].getShape()) if name in self._outputs else None
            if found != expected:
                raise RuntimeFailure(f"MNN made {found} of output '{name}' of '{self.graph.name}', which should be {expected}")
            tensor, dtype = self._outputs[name], np.float32 if "float" in self.graph.tensors[name].dtype else np.int32
            host, _ = self._host_tensor(np.zeros(expected, dtype), tensor.getDimensionType())
            tensor.copyToHostTensor(host)
            results.append(np.array(host.getNumpyData(), dtype=np.float32).reshape(expected))
        return results

    def executed_kernels(self, runs: int = 10) -> tuple[ExecutedKernel, ...]:
        """Return the operators that MNN ran, with median milliseconds over ``runs``; see :mod:`latcast.runtimes.mnn_kernels`.

        MNN calls back before and after each operator. The cost of these calls is measured with every operator skipped, and
        subtracted.

        Raises:
            RuntimeFailure: The session was not loaded with ``profile=True``, or MNN returned an error.
        """
        check_profiling(self.graph, self._profile, runs)
        calls = self.traced_run()
        passed_ns = [self._timed_run(execute=False) for _ in range(SKIPPED_RUNS)]
        times_ns = [self._timed_run(execute=True) for _ in range(PROFILE_WARMUPS + runs)][PROFILE_WARMUPS:]
        if {len(times) for times in (*passed_ns, *times_ns)} != {len(calls)}:
            raise RuntimeFailure(f"MNN did not run the same operators of '{self.graph.name}' every time")
        own_ns = np.median(np.array(passed_ns), axis=0)
        latencies_ms = np.maximum(np.median(np.array(times_ns), axis=0) - own_ns, 0.0) / 1e6
        return tuple(
            ExecutedKernel(kernel.name, kernel.kind, kernel.nodes, float(sum(latencies_ms[number] for number in kernel.calls)))
            for kernel in assign_nodes(self.graph, calls)
        )

    def traced_run(self) -> list[MnnCall]:
        """Return the operators that MNN runs, in order."""
        calls: list[MnnCall] = []

        def before(tensors: Sequence[Any], operator: Any) -> bool:
            calls.append(MnnCall(operator.getName(), operator.getType(), len(tensors), ()))
            return True

        def after(tensors: Sequence[Any], operator: Any) -> bool:
            shapes = tuple(tuple(tensor.getShape()) for tensor in tensors)
            calls[-1] = MnnCall(calls[-1].name, calls[-1].kind, calls[-1].inputs, shapes)
            return True

        self._run_with(before, after)
        return calls

    def _timed_run(self, *, execute: bool) -> list[int]:
        """Return the nanoseconds between the two calls around every operator, executed or skipped."""
        times: list[int] = []
        start = 0

        def before(tensors: Sequence[Any], operator: Any) -> bool:
            nonlocal start
            start = perf_counter_ns()
            return execute

        def after(tensors: Sequence[Any], operator: Any) -> bool:
            times.append(perf_counter_ns() - start)
            return True

        self._run_with(before, after)
        return times

    def _run_with(self, before: Callable[[Any, Any], bool], after: Callable[[Any, Any], bool]) -> None:
        self._fill_inputs()
        code = self._interpreter.runSessionWithCallBackInfo(self._session, before, after)
        if code != 0:
            raise RuntimeFailure(f"MNN failed to profile '{self.graph.name}' (code {code})")

    def close(self) -> None:
        """Free the network; the session must not be used after."""
        self._inputs, self._outputs = [], {}
        self._session = None
        self._interpreter = None


class MnnFileSession(MnnSession):
    """A model file in MNN, with the weights in it."""

    def __init__(self, file: ModelFile, model: Path, *, threads: int, profile: bool, unit: str, precision: str) -> None:
        self.graph = file.read
        self._library = imported(LIBRARY)
        self._profile = profile
        self._inputs = []
        with prints_kept() as printed:
            self._open(model, {"backend": BACKENDS[unit], "numThread": threads, "precision": _PRECISIONS[precision]}, (), printed)
            native = self._interpreter.getSessionInputAll(self._session)
            slots = [InputSlot(name, tensor.getShape(), self._dtype(tensor)) for name, tensor in native.items()]
            for slot in slots:
                if tuple(slot.sizes) != file.shape_of(slot):
                    self._interpreter.resizeTensor(native[slot.name], file.shape_of(slot))
            self._interpreter.resizeSession(self._session)
            try:
                file.started(slots, self.set_inputs)
            except RuntimeFailure as problem:
                raise RuntimeFailure(f"{problem} {' '.join(printed().split())}") from problem
        self._outputs = self._interpreter.getSessionOutputAll(self._session)

    def _dtype(self, tensor: Any) -> str:
        library = self._library
        return {library.Halide_Type_Float: "float32", library.Halide_Type_Uint8: "uint8"}.get(tensor.getDataType(), "int32")

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        native = self._interpreter.getSessionInputAll(self._session)
        self._inputs = [
            (tensor, *self._host_tensor(array.copy(), tensor.getDimensionType()))
            for tensor, array in zip(native.values(), inputs, strict=True)
        ]
        self.run()

    def outputs(self) -> list[np.ndarray]:
        found = []
        for tensor in self._outputs.values():
            shape = tuple(tensor.getShape())
            host, _ = self._host_tensor(np.zeros(shape, self._dtype(tensor)), tensor.getDimensionType())
            tensor.copyToHostTensor(host)
            found.append(np.array(host.getNumpyData(), dtype=np.float32).reshape(shape))
        return found

    def executed_kernels(self, runs: int = 10) -> tuple[ExecutedKernel, ...]:
        """Return the operators that MNN ran; without the nodes that they compute where latcast does not read the file."""
        if self.graph.nodes:
            return super().executed_kernels(runs)
        raise RuntimeFailure(f"the operators of '{self.graph.name}' cannot be timed: latcast does not read the file")
