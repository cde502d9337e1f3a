"""The runtimes' own benchmark tools on a phone: their files, their command lines, their output.

The user provides a tool; latcast writes the network, calls the tool and reads its output. Where a tool prints single runs, they
are its latencies; where it prints a median or a mean of a burst, each run of it gets that latency.
"""

from __future__ import annotations

import json
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from latcast.errors import ModelError, RuntimeFailure
from latcast.extras import unavailable
from latcast.graph.ir import Graph
from latcast.records import ExecutedKernel, Platform
from latcast.runtimes.adb import quoted
from latcast.runtimes.benchmark_tools.output import Line, Section, ToolReader, lines_of
from latcast.runtimes.benchmark_tools.readers import NcnnReader, OnnxruntimeReader
from latcast.runtimes.benchmark_tools.tflite import INSIDE, TfliteReader
from latcast.runtimes.benchmark_tools.tflite_nodes import WHOLE_DELEGATE, executed_in
from latcast.runtimes.kernel_assignment import joined
from latcast.runtimes.model_file import InputSlot, ModelFile, files_of
from latcast.runtimes.session import checked_inputs, dequantised, quantised

if TYPE_CHECKING:
    from latcast.graph.writers.tflite.flatbuffer import TfliteTensor
    from latcast.runtimes.mnn_kernels import MnnCall

LONGEST_BURST_S = 10.0
"""Time limit that is given to tools that take one."""


@dataclass(frozen=True)
class ToolSetting:
    """The kind of unit (cpu, gpu or npu), the threads of one inference, and the precision of a network on a phone."""

    unit: str = "cpu"
    threads: int = 1
    precision: str = "fp32"


@dataclass(frozen=True)
class Burst:
    """Timed runs, one after another.

    Attributes:
        runs_ms: Time of each run, or the tool's typical figure for each.
        least_ms: Time of the fastest run, which other processes disturb least.
    """

    runs_ms: tuple[float, ...]
    least_ms: float


class ToolNetwork(ABC):
    """A network, with made-up weights, written for a runtime's benchmark tool at one setting.

    The defaults are of a tool that takes no inputs, outputs no results, and does not time operators.

    Raises:
        UnsupportedOperatorError: The network cannot be expressed.
    """

    program: ClassVar[str]
    """Name of the tool's file."""

    runtime: ClassVar[str]
    """Name of the runtime in platform ids."""

    units: ClassVar[Mapping[str, Sequence[str]]]
    """Kind of unit to the precisions there."""

    endings: ClassVar[tuple[str, ...]] = ()
    """Suffixes of the model files that it runs as they are."""

    files: Mapping[str, bytes]
    """Files for the phone, by name, without inputs."""

    slots: Sequence[InputSlot] = ()
    """Inputs of a model file that are fed to the tool; none where it fills them itself."""

    def __init__(self, graph: Graph, setting: ToolSetting) -> None:
        self.graph, self.setting = graph, setting

    @classmethod
    def of_file(cls, file: ModelFile, setting: ToolSetting) -> ToolNetwork:
        """Return a model file as it is, for the tool.

        Raises:
            DynamicShapeError: The size of an input is not known.
            ModelError: The file cannot be read.
            RuntimeFailure: Values are given to a tool that fills inputs itself.
        """
        made = cls.__new__(cls)
        ToolNetwork.__init__(made, file.read, setting)
        made._take(file)
        if file.values and not made.slots:
            raise RuntimeFailure(f"{cls.program} fills inputs itself; measure '{file.name}' without --input")
        return made

    def _take(self, file: ModelFile) -> None:
        """Set ``files`` and ``slots`` from a model file."""
        raise RuntimeFailure(f"{self.program} runs no model files as they are")

    @staticmethod
    def missing() -> str | None:
        """Return what this machine lacks to write networks for the tool, or None."""
        return None

    def inputs(self, arrays: Sequence[np.ndarray]) -> Mapping[str, bytes]:
        """Return the files that hold inputs; none where the tool fills them itself."""
        return {}

    def stored_inputs(self, arrays: Sequence[np.ndarray]) -> Mapping[str, bytes]:
        """Return the files that hold the inputs of a model file, in the order of ``slots``."""
        return {f"input{number}.bin": array.tobytes() for number, array in enumerate(arrays)}

    @abstractmethod
    def timing(self, program: str, runs: int, warmups: int) -> str:
        """Return the command that times the network, in the folder of its files."""

    @abstractmethod
    def burst(self, printed: str, runs: int) -> Burst:
        """Return the timed runs from that command's output, or raise a DatasetError where that is cut off or malformed."""

    def profiling(self, program: str, runs: int) -> str:
        """Return the command that times the operators, or raise a RuntimeFailure where the tool does not."""
        raise RuntimeFailure(f"{self.program} does not time operators; kernels are timed alone there")

    def profile_files(self) -> Sequence[str]:
        """Return names, or patterns with ``*``, of the files that it leaves."""
        return ()

    def kernels(self, printed: str, files: Mapping[str, bytes], runs: int) -> tuple[ExecutedKernel, ...]:
        """Return the executed kernels, from that command's output and files.

        Raises:
            DatasetError: The output is cut off or malformed.
            RuntimeFailure: It does not fit the network, or the tool does not time operators.
        """
        raise RuntimeFailure(f"{self.program} does not time operators")

    def computing(self, program: str) -> tuple[str, str]:
        """Return the command that computes the outputs once, and the file that it leaves them in, or raise a RuntimeFailure."""
        raise RuntimeFailure(f"{self.program} does not output its results")

    def outputs(self, data: bytes) -> list[np.ndarray]:
        """Return the outputs in the graph's order, float32, logical NCHW."""
        raise RuntimeFailure(f"{self.program} does not output its results")


def section(program: str, printed: str) -> Section:
    """Return a tool's output for the readers of tools' output."""
    return Section(Path(program), lines_of(printed) or (Line(1, ""),))


def read_burst(reader: ToolReader, printed: str, runs: int) -> Burst:
    """Return a burst of a tool that prints only figures."""
    (timing,) = reader.read(section(reader.name, printed))
    return Burst((timing.latency_ms,) * runs, timing.figures_ms.get("min", timing.latency_ms))


def _scale_and_zero_point(tensor: TfliteTensor) -> tuple[float, float]:
    """Return scale and zero point of a tensor that has one of each; 0 and 0 where it is not quantised."""
    found = tensor.quantisation
    return (0.0, 0.0) if found is None else (float(found.scales.ravel()[0]), float(found.zero_points.ravel()[0]))


class TfliteToolNetwork(ToolNetwork):
    """A network for TFLite's and LiteRT's ``benchmark_model``."""

    program = "benchmark_model"
    runtime = "litert"
    units: ClassVar = {"cpu": ("fp32", "int8"), "gpu": ("fp16", "fp32", "int8"), "npu": ("fp32", "int8")}
    endings: ClassVar = (".tflite",)

    def __init__(self, graph: Graph, setting: ToolSetting) -> None:
        from latcast.graph.writers.tflite import write_tflite

        super().__init__(graph, setting)
        self._network = write_tflite(graph, precision="int8" if setting.precision == "int8" else "fp32")
        self.files = {"network.tflite": self._network.data}
        tensors = [self._network.model.tensors[index] for index in self._network.model.inputs]
        self._fed: Mapping[str, Sequence[int]] = {tensor.name: tensor.shape for tensor in tensors}

    def _take(self, file: ModelFile) -> None:
        from latcast.graph.importers.tflite_file import TfliteFile

        self.files = {"network.tflite": file.path.read_bytes()}
        main = TfliteFile(file.path).subgraph(0)
        # Where a size may change and none is given, TFLite runs with the one that the file starts with.
        slots = []
        for stored in (main.tensors[index] for index in main.inputs):
            open_sizes = tuple(-1 if axis in stored.dynamic_axes else size for axis, size in enumerate(stored.shape))
            slot = InputSlot(stored.name, open_sizes, stored.tensor.dtype)
            is_given = slot.name in file.shapes or slot.name in file.values
            slots.append(replace(slot, sizes=file.shape_of(slot) if is_given else stored.shape))
        self.slots = slots
        self._fed = {slot.name: slot.sizes for slot in slots}

    def inputs(self, arrays: Sequence[np.ndarray]) -> Mapping[str, bytes]:
        found = {}
        model = self._network.model
        for number, (array, order, index) in enumerate(
            zip(checked_inputs(self.graph, arrays), self._network.input_orders, model.inputs, strict=True)
        ):
            tensor = model.tensors[index]
            values = quantised(array.transpose(order), _scale_and_zero_point(tensor), tensor.type.name.lower())
            found[f"input{number}.bin"] = values.tobytes()
        return found

    def _command(self, program: str, runs: int, warmups: int, *options: str) -> str:
        names = list(self._fed)
        shapes = [",".join(map(str, shape)) for shape in self._fed.values()]
        # Names may hold a colon; the tool takes two of them for one separator then.
        between = "::" if any(":" in name for name in names) else ":"
        values = ",".join(f"{name}{between}input{number}.bin" for number, name in enumerate(names))
        unit = {"cpu": [], "gpu": ["--use_gpu=true"], "npu": ["--use_nnapi=true"]}[self.setting.unit]
        if self.setting.unit == "gpu":
            unit.append(f"--gpu_precision_loss_allowed={'true' if self.setting.precision == 'fp16' else 'false'}")
        return quoted(
            program, "--graph=network.tflite", f"--num_threads={self.setting.threads}", f"--num_runs={runs}", "--min_secs=0",
            f"--max_secs={LONGEST_BURST_S:g}", f"--warmup_runs={warmups}", "--warmup_min_secs=0",
            f"--input_layer={','.join(names)}", f"--input_layer_shape={':'.join(shapes)}", f"--input_layer_value_files={values}",
            *unit, *options,
        )  # fmt: skip

    def timing(self, program: str, runs: int, warmups: int) -> str:
        return self._command(program, runs, warmups)

    def burst(self, printed: str, runs: int) -> Burst:
        return read_burst(TfliteReader(), printed, runs)

    def profiling(self, program: str, runs: int) -> str:
        return self._command(program, runs, 2, "--enable_op_profiling=true")

    def kernels(self, printed: str, files: Mapping[str, bytes], runs: int) -> tuple[ExecutedKernel, ...]:
        if self.slots:
            raise RuntimeFailure("kernels of a model file are not timed on a phone; --made-up-weights times those of its network")
        (timing,) = TfliteReader().read(section(self.program, printed))
        if not timing.profile:
            raise RuntimeFailure("benchmark_model printed no profile; it must take --enable_op_profiling (TFLite 2.1 and newer)")
        whole = next((line for line in timing.profile if WHOLE_DELEGATE.fullmatch(line.kind)), None)
        if whole is not None and not any(line.name.startswith(INSIDE) for line in timing.profile):
            raise RuntimeFailure(f"benchmark_model prints one line for all that {whole.kind} runs, and no kernel of it")
        unit = f"cpu{self.setting.threads}" if self.setting.unit == "cpu" else self.setting.unit
        where = Platform("phone", self.runtime, "0", unit, self.setting.precision)
        return joined(self.graph, executed_in(timing.profile, self.graph, self._network.model, where))

    def computing(self, program: str) -> tuple[str, str]:
        return self._command(program, 1, 0, "--output_filepath=outputs.bin"), "outputs.bin"

    def outputs(self, data: bytes) -> list[np.ndarray]:
        results, at = [], 0
        model = self._network.model
        for order, index in zip(self._network.output_orders, model.outputs, strict=True):
            tensor = model.tensors[index]
            kind = np.dtype(tensor.type.name.lower())
            size = int(np.prod(tensor.shape, dtype=int)) * kind.itemsize
            if at + size > len(data):
                raise RuntimeFailure(f"benchmark_model wrote {len(data)} bytes of outputs; expected at least {at + size}")
            raw = np.frombuffer(data[at : at + size], kind).reshape(tensor.shape)
            values = dequantised(raw, _scale_and_zero_point(tensor))
            results.append(np.ascontiguousarray(values.transpose(np.argsort(order))))
            at += size
        return results


class NcnnToolNetwork(ToolNetwork):
    """A network for ncnn's ``benchncnn``, which computes in fp16 where the CPU can: the id has the precision of the file."""

    program = "benchncnn"
    runtime = "ncnn"
    units: ClassVar = {"cpu": ("fp32", "int8"), "gpu": ("fp32",)}
    endings: ClassVar = (".param",)

    def __init__(self, graph: Graph, setting: ToolSetting) -> None:
        from latcast.graph.writers.ncnn import to_ncnn

        super().__init__(graph, setting)
        param, _ = to_ncnn(graph, precision=setting.precision)
        # The tool generates the weights itself.
        self.files = {"network.ncnn.param": param.encode()}

    def _take(self, file: ModelFile) -> None:
        if file.graph is None:
            raise RuntimeFailure(f"benchncnn needs the sizes of the inputs of '{file.name}', which latcast cannot read")
        self.files = {"network.ncnn.param": file.path.read_bytes()}

    def timing(self, program: str, runs: int, warmups: int) -> str:
        shapes = ",".join(
            f"[{','.join(str(size) for size in reversed(self.graph.shape(name)[1:]))}]" for name in self.graph.inputs
        )
        gpu = 0 if self.setting.unit == "gpu" else -1
        # Loops, threads, which cores, GPU, ten seconds to cool down.
        return quoted(
            program, str(runs), str(self.setting.threads), "0", str(gpu), "0", "param=network.ncnn.param", f"shape={shapes}"
        )

    def burst(self, printed: str, runs: int) -> Burst:
        return read_burst(NcnnReader(), printed, runs)


_MNN_FORWARD = {"cpu": 0, "gpu": 3}
"""MNN's numbers of backends: the CPU, OpenCL."""

_MNN_PRECISION = {"fp32": 1, "fp16": 2}
"""Its numbers of precisions: high and low."""

_MNN_SUMMARY = re.compile(r"^Avg= *(\S+) ms, OpSum *= *(\S+) ms,? min= *(\S+) ms, max= *(\S+) ms", re.MULTILINE)
_MNN_OPERATOR = re.compile(r"^ *(\S.*?) *\t\[(\w+)\] run (\d+) average cost (\S+) ms, .*$", re.MULTILINE)


class MnnToolNetwork(ToolNetwork):
    """A network for MNN's ``MNNV2Basic.out``, which times every operator in every run; converted by the MNN installed here."""

    program = "MNNV2Basic.out"
    runtime = "mnn"
    units: ClassVar = {"cpu": ("fp32", "fp16"), "gpu": ("fp32", "fp16")}
    endings: ClassVar = (".mnn",)

    @staticmethod
    def missing() -> str | None:
        from latcast.runtimes.mnn_native import not_available

        return not_available()

    def __init__(self, graph: Graph, setting: ToolSetting) -> None:
        from latcast.graph.writers.onnx import to_onnx
        from latcast.runtimes.mnn import MnnSession
        from latcast.runtimes.mnn_native import convert

        super().__init__(graph, setting)
        with tempfile.TemporaryDirectory(prefix="latcast-") as folder:
            model = convert(graph, to_onnx(graph), Path(folder))
            self.files = {"network.mnn": model.read_bytes()}
            # The tool prints operators by name and time; their order and shapes are those of the same file run here.
            session = MnnSession(graph, model, threads=1, profile=True)
            try:
                self._calls: Sequence[MnnCall] = session.traced_run()
            finally:
                session.close()

    def _take(self, file: ModelFile) -> None:
        self.files = {"network.mnn": file.path.read_bytes()}
        self._calls = ()

    def timing(self, program: str, runs: int, warmups: int) -> str:
        setting = self.setting
        return quoted(
            program, "network.mnn", str(runs), "0", str(_MNN_FORWARD[setting.unit]), str(setting.threads),
            str(_MNN_PRECISION[setting.precision]),
        )  # fmt: skip

    def burst(self, printed: str, runs: int) -> Burst:
        found = _MNN_SUMMARY.search(printed)
        if found is None:
            raise section(self.program, printed).refused("the output of MNNV2Basic ends before its summary 'Avg='; run it again")
        mean, _, least, most = (_positive(self.program, printed, text) for text in found.groups())
        # The mean without the fastest and the slowest run, which the tool names.
        return Burst(((runs * mean - least - most) / (runs - 2) if runs > 2 else mean,) * runs, least)

    def profiling(self, program: str, runs: int) -> str:
        return self.timing(program, runs, 0)

    def kernels(self, printed: str, files: Mapping[str, bytes], runs: int) -> tuple[ExecutedKernel, ...]:
        from latcast.runtimes.mnn_kernels import assign_nodes

        times_ms = {
            name: _positive(self.program, printed, text, least=0.0) for name, _, _, text in _MNN_OPERATOR.findall(printed)
        }
        if not times_ms:
            raise RuntimeFailure("MNNV2Basic printed the time of no operator")
        names = [call.name for call in self._calls]
        strangers = [name for name in times_ms if name not in names]
        missed_ms = sum(times_ms[name] for name in strangers)
        if missed_ms > (1 - ATTRIBUTED) * sum(times_ms.values()):
            raise RuntimeFailure(
                f"the phone's MNN ran '{strangers[0]}', which the MNN installed here does not run for '{self.graph.name}': "
                "install the same version here"
            )
        # Calls of one name share its line.
        share_ms = {name: times_ms.get(name, 0.0) / names.count(name) for name in names}
        kernels = [
            ExecutedKernel(each.name, each.kind, each.nodes, sum(share_ms[names[number]] for number in each.calls))
            for each in assign_nodes(self.graph, self._calls)
        ]
        return (*kernels, *(ExecutedKernel(name, "unknown", (), times_ms[name]) for name in strangers))


def _positive(program: str, printed: str, text: str, least: float = 1e-9) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not least <= value < float("inf"):
        raise section(program, printed).refused(f"found the time '{text}'; expected a number of milliseconds")
    return value


_ORT_RUN = re.compile(r"^iteration:(\d+),time_cost:(\S+)$", re.MULTILINE)


class OnnxruntimeToolNetwork(ToolNetwork):
    """A network for ONNX Runtime's ``onnxruntime_perf_test``."""

    program = "onnxruntime_perf_test"
    runtime = "onnxruntime"
    units: ClassVar = {"cpu": ("fp32", "int8"), "npu": ("fp32", "int8")}
    endings: ClassVar = (".onnx",)

    @staticmethod
    def missing() -> str | None:
        return unavailable("reading profiles of ONNX Runtime", "onnx")

    def __init__(self, graph: Graph, setting: ToolSetting) -> None:
        from latcast.graph.writers.onnx import to_onnx

        super().__init__(graph, setting)
        self.files = {"network.onnx": to_onnx(graph, precision=setting.precision)}

    def _take(self, file: ModelFile) -> None:
        import onnx
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

        try:
            model = onnx.load(file.path, load_external_data=False)
        except DecodeError as problem:
            raise ModelError(f"{file.path}: the file is no ONNX model, or is damaged: {problem}") from problem
        stored = {tensor.name for tensor in model.graph.initializer}
        for value in (each for each in model.graph.input if each.name not in stored):
            sizes = value.type.tensor_type.shape.dim
            shape = file.shape_of(InputSlot(value.name, [size.dim_value or -1 for size in sizes]))
            for size, known in zip(sizes, shape, strict=True):  # the tool would take an open size as 1
                size.dim_value = known
        for tensor in model.graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = Path(entry.value).name  # all files lie in one folder of the phone
        beside = {path.name: path.read_bytes() for path in files_of(file.path)[1:]}
        self.files = {"network.onnx": model.SerializeToString(), **beside}

    def _command(self, program: str, runs: int, *options: str) -> str:
        provider = ["-e", "nnapi"] if self.setting.unit == "npu" else []
        return quoted(
            program, "-I", "-S", "1", "-z", "-v", "-s", "-m", "times", "-r", str(runs), "-x", str(self.setting.threads),
            *provider, *options, "network.onnx",
        )  # fmt: skip

    def timing(self, program: str, runs: int, warmups: int) -> str:
        return self._command(program, runs + warmups)

    def burst(self, printed: str, runs: int) -> Burst:
        single = tuple(_positive(self.program, printed, text) * 1e3 for _, text in _ORT_RUN.findall(printed))[-runs:]
        # Some builds print no single runs.
        return Burst(single, min(single)) if len(single) == runs else read_burst(OnnxruntimeReader(), printed, runs)

    def profiling(self, program: str, runs: int) -> str:
        return self._command(program, runs + 2, "-p", "profile", "-u", "optimised.onnx")

    def profile_files(self) -> Sequence[str]:
        return ("profile*.json", "optimised.onnx")

    def kernels(self, printed: str, files: Mapping[str, bytes], runs: int) -> tuple[ExecutedKernel, ...]:
        import onnx

        from latcast.runtimes.onnxruntime_kernels import assign_nodes, kernel_events, kernels_of, read_optimised

        try:
            events = json.loads(next(data for name, data in files.items() if name.endswith(".json")))
            optimised = read_optimised(onnx.load_model_from_string(files["optimised.onnx"]))
        except (StopIteration, KeyError, ValueError) as problem:
            raise RuntimeFailure(f"onnxruntime_perf_test left no profile that can be read: {problem!r}") from problem
        assign_nodes(self.graph, optimised)
        return kernels_of(kernel_events(events), optimised, runs)


ATTRIBUTED = 0.95
"""Least share of the operators' time with known nodes."""


def attributed(kernels: Sequence[ExecutedKernel]) -> float:
    """Return the share of the time that kernels with known nodes take."""
    total_ms = sum(kernel.latency_ms for kernel in kernels)
    return sum(kernel.latency_ms for kernel in kernels if kernel.nodes) / total_ms if total_ms > 0 else 0.0


TOOLS: Mapping[str, type[ToolNetwork]] = {
    each.runtime: each for each in (TfliteToolNetwork, NcnnToolNetwork, MnnToolNetwork, OnnxruntimeToolNetwork)
}
"""Runtime to the networks of its tool."""
