"""ncnn on the CPU, or on a GPU by Vulkan, through its Python module."""

from __future__ import annotations

import re
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from latcast.errors import LatcastError, RuntimeFailure
from latcast.extras import require, unavailable
from latcast.graph.ir import Graph
from latcast.graph.writers.ncnn import blob_shape, to_ncnn_with_map
from latcast.records import ExecutedKernel
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

if TYPE_CHECKING:
    from types import ModuleType

_PURPOSE = "measuring with ncnn"

_CALLS_TO_TIME = 50
"""Empty calls timed after each profiled run, for the cost of a call."""


class Ncnn(UnitRuntime):
    """The installed ncnn, on the CPU or the first Vulkan device (Mesa's lavapipe, which computes on the CPU, is one).

    A network runs as in ncnn's own benchmark (benchncnn): a fresh extractor for each inference, light mode, pooled memory, every
    other option at its default, except that fp16 and bf16 storage are off in fp32.
    """

    name = "ncnn"
    library = "ncnn"
    endings = (".param",)

    @property
    def precisions(self) -> tuple[str, ...]:
        return ("fp32", "int8") if self._unit == "cpu" else ("fp32", "fp16")

    def available(self) -> str | None:
        missing = unavailable(_PURPOSE, "ncnn")
        if missing is None and self._unit == "gpu":
            with prints_kept():
                devices = int(_library().get_gpu_count())
            if devices:
                return None
            return (
                "ncnn finds no device of Vulkan here; install the GPU's driver, or Mesa's for the CPU: "
                "apt install mesa-vulkan-drivers"
            )
        return missing

    def version(self) -> str:
        """Return the release's date, as ncnn names its releases: the wheel 1.0.20261020 is "20261020"."""
        version: str = _library().__version__
        return version.removeprefix("1.0.")

    def load(self, graph: Graph, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> NcnnSession:
        """Write the network for ncnn, load it and run it once.

        Raises:
            UnsupportedOperatorError: A node has no form in ncnn, or the batch is not 1.
            ModelError: The shapes in the graph contradict each other.
            RuntimeFailure: An unknown precision, no thread, or ncnn refused the network or computed no finite numbers.
            MissingExtraError: ncnn is not installed.
        """
        check_setting(self, graph, threads, precision)
        if self._unit == "gpu" and (reason := self.available()) is not None:
            raise RuntimeFailure(reason)
        param, weights, nodes = to_ncnn_with_map(graph, precision="int8" if precision == "int8" else "fp32")
        session = NcnnSession(_library(), self._net(threads, precision), graph, nodes, profile=profile)
        try:
            session.load(param, weights)
        except RuntimeFailure:
            session.close()
            raise
        return session

    def write(self, graph: Graph, folder: Path, precision: str = "fp32") -> Path:
        param, weights, _ = to_ncnn_with_map(graph, precision="int8" if precision == "int8" else "fp32")
        path = folder / "network.param"
        path.write_text(param, encoding="utf-8")
        path.with_suffix(".bin").write_bytes(weights)
        return path

    def load_file(self, file: ModelFile, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> NcnnSession:
        """Load a .param file as it is, with the .bin beside it; without one its weights are zeros, as in ncnn's benchmark."""
        check_setting(self, file, threads, precision)
        if self._unit == "gpu" and (reason := self.available()) is not None:
            raise RuntimeFailure(reason)
        session = NcnnFileSession(_library(), self._net(threads, precision), file.read, {}, profile=profile)
        try:
            session.load_file(file)
        except LatcastError:
            session.close()
            raise
        return session

    def _net(self, threads: int, precision: str) -> Any:
        """Return an empty network with its options set."""
        net = _library().Net()
        net.opt.num_threads = threads
        net.opt.use_vulkan_compute = self._unit == "gpu"
        for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
            setattr(net.opt, option, precision == "fp16")
        net.opt.use_bf16_storage = False
        return net


def _library() -> ModuleType:
    require(_PURPOSE, "ncnn")
    import ncnn

    module: ModuleType = ncnn
    return module


def _release(results: list[Any]) -> None:
    """Free the memory of results."""
    for result in results:
        result.release()


class NcnnSession:
    """A network in ncnn.

    Args:
        library: The module ``ncnn``.
        net: An empty network with its options set.
        graph: The network.
        nodes: Layer name to the names of the graph's nodes that it computes.
        profile: Whether :meth:`executed_kernels` may be called.
    """

    def __init__(
        self, library: ModuleType, net: Any, graph: Graph, nodes: Mapping[str, tuple[str, ...]], *, profile: bool
    ) -> None:
        self.net = net
        self._library = library
        self._graph = graph
        self._nodes = nodes
        self._profile = profile
        self._inputs: list[tuple[int, Any]] = []
        self._outputs: list[tuple[int, Any]] = []
        # A pool as benchncnn has: results from the network's pool would be copied. Results crash when they outlive the pool, so
        # they are freed first, however the session ends.
        self._memory = library.UnlockedPoolAllocator()
        self._memory.set_size_compare_ratio(0.0)
        self._results: list[Any] = []
        self._release = weakref.finalize(self, _release, self._results)
        self._has_run = False
        self._closed = False

    def load(self, param: str, weights: bytes) -> None:
        """Read the network, set random inputs and check the outputs of one run.

        Raises:
            RuntimeFailure: ncnn refused the network, or the outputs are not finite numbers of the expected shape.
        """
        code = self.net.load_param_mem(param)
        if code != 0:
            raise RuntimeFailure(f"ncnn refused the layers of '{self._graph.name}' (code {code}); this version may lack one")
        # load_model_mem tells no return code and, in older versions, keeps pointers into memory that Python frees.
        with tempfile.NamedTemporaryFile(prefix="latcast-", suffix=".bin") as file:
            file.write(weights)
            file.flush()
            code = self.net.load_model(file.name)
        if code != 0:
            raise RuntimeFailure(f"ncnn refused the weights of '{self._graph.name}' (code {code})")
        index = {blob.name: number for number, blob in enumerate(self.net.blobs())}
        self._inputs = [(index[f"in{number}"], None) for number in range(len(self._graph.inputs))]
        self._results.extend(self._library.Mat() for _ in self._graph.outputs)
        self._outputs = [(index[f"out{number}"], result) for number, result in enumerate(self._results)]
        self.set_inputs(random_inputs(self._graph))
        self.run()
        check_finite("ncnn", self._graph, self.outputs())

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        # A clone owns its memory. A Mat around NumPy's would lack the reference count that layers working in place read.
        mats = [
            self._library.Mat(np.ascontiguousarray(array.reshape(blob_shape(array.shape)), dtype=np.float32)).clone()
            for array in checked_inputs(self._graph, inputs)
        ]
        self._inputs = [(index, mat) for (index, _), mat in zip(self._inputs, mats, strict=True)]

    def run(self) -> None:
        """Run one inference with a fresh extractor.

        Raises:
            RuntimeFailure: ncnn returned an error, or the session is closed.
        """
        if self._closed:
            raise RuntimeFailure(f"the session of '{self._graph.name}' is closed; load the network again")
        extractor = self.net.create_extractor()
        extractor.set_blob_allocator(self._memory)
        for index, mat in self._inputs:
            extractor.input(index, mat)
        for index, mat in self._outputs:
            code = extractor.extract(index, mat)
            if code != 0:
                extractor.clear()
                raise RuntimeFailure(f"ncnn failed to run '{self._graph.name}' (code {code})")
        self._has_run = True

    def outputs(self) -> list[np.ndarray]:
        """Return copies of the last run's outputs, float32, in the graph's order and shapes.

        Raises:
            RuntimeFailure: Nothing was run, or an output has another number of elements than the graph says.
        """
        if not self._has_run or self._closed:
            raise RuntimeFailure(f"'{self._graph.name}' has no outputs yet; run it first")
        results = []
        for name, (_, mat) in zip(self._graph.outputs, self._outputs, strict=True):
            values = np.array(mat)
            shape = self._graph.shape(name)
            if values.size != np.prod(shape, dtype=int):
                raise RuntimeFailure(
                    f"ncnn made {list(values.shape)} of output '{name}' of '{self._graph.name}', which should be {list(shape)}"
                )
            results.append(values.reshape(shape))
        return results

    def executed_kernels(self, runs: int = 10) -> tuple[ExecutedKernel, ...]:
        """Return the layers in execution order, with median milliseconds over ``runs``.

        The blobs are extracted one after another, so that each call runs one layer, in light mode as in :meth:`run`, so that
        layers which work in place do so. The cost of an extraction (the call from Python included) is measured in every run by
        extracting an existing blob again, and subtracted. Converting between packed and plain layout is part of the layer that
        needs it. ``Split``, ``MemoryData`` and reshapes that ncnn needs compute no node.

        Raises:
            RuntimeFailure: The session was not loaded with ``profile=True``, or ncnn returned an error.
        """
        check_profiling(self._graph, self._profile, runs)
        if self.net.opt.use_vulkan_compute:
            raise RuntimeFailure("ncnn does not time layers on a GPU: each would be copied back to be timed")
        layers = [(layer.name, layer.type) for layer in self.net.layers() if layer.type != "Input"]
        tops = [layer.tops[0] for layer in self.net.layers() if layer.type != "Input"]
        times = [self._profiled_run(tops) for _ in range(1 + runs)][1:]
        return tuple(
            ExecutedKernel(name, kind, self._nodes.get(name, ()), median(times_ms))
            for (name, kind), times_ms in zip(layers, zip(*times, strict=True), strict=True)
        )

    def _profiled_run(self, tops: Sequence[int]) -> list[float]:
        """Return the milliseconds of each layer, given one of the blobs that each makes."""
        extractor = self.net.create_extractor()
        extractor.set_blob_allocator(self._memory)
        result = self._library.Mat()
        try:
            for index, mat in self._inputs:
                extractor.input(index, mat)
            elapsed_ns = [self._timed_extraction(extractor, top, result) for top in tops]
            call_ns = median(self._timed_extraction(extractor, tops[-1], result) for _ in range(_CALLS_TO_TIME))
        finally:
            result.release()
            extractor.clear()
        return [max(time_ns - call_ns, 0.0) / 1e6 for time_ns in elapsed_ns]

    def _timed_extraction(self, extractor: Any, blob: int, result: Any) -> int:
        """Return the nanoseconds until a blob is computed, without unpacking it."""
        # A blob that Python holds too would be copied by the layer that works on it in place.
        result.release()
        start = perf_counter_ns()
        code = extractor.extract(blob, result, 1)
        elapsed_ns = perf_counter_ns() - start
        if code != 0:
            raise RuntimeFailure(f"ncnn failed to run a layer of '{self._graph.name}' (code {code})")
        return elapsed_ns

    def close(self) -> None:
        """Free the network; the session must not be used after."""
        if self._closed:
            return
        self._closed = True
        self._release()
        self._outputs, self._inputs = [], []
        self.net.clear()


class NcnnFileSession(NcnnSession):
    """A .param file in ncnn, run as it is."""

    def load_file(self, file: ModelFile) -> None:
        """Read the file and its weights, and run it once.

        Raises:
            RuntimeFailure: ncnn refused it.
            LatcastError: The size of an input is not known, or what is given for it does not fit.
        """
        code = self.net.load_param(str(file.path))
        if code != 0:
            raise RuntimeFailure(f"ncnn refused the layers of '{file.name}' (code {code}); this version may lack one")
        weights = file.path.with_suffix(".bin")
        code = self.net.load_model(str(weights) if weights.is_file() else self._library.DataReaderFromEmpty())
        if code != 0:
            raise RuntimeFailure(f"ncnn refused the weights of '{file.name}' (code {code})")
        stated = _input_sizes(file)
        indices = self.net.input_indexes()
        names = self.net.input_names()
        self._results.extend(self._library.Mat() for _ in self.net.output_indexes())
        self._outputs = list(zip(self.net.output_indexes(), self._results, strict=True))
        self._inputs = [(index, None) for index in indices]
        file.started([InputSlot(name, stated[name]) for name in names], self.set_inputs)

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        mats = [
            self._library.Mat(np.ascontiguousarray(each.reshape(blob_shape(each.shape)), np.float32)).clone() for each in inputs
        ]
        self._inputs = [(index, mat) for (index, _), mat in zip(self._inputs, mats, strict=True)]
        self.run()

    def outputs(self) -> list[np.ndarray]:
        return [np.array(mat) for _, mat in self._outputs]


def _input_sizes(file: ModelFile) -> dict[str, list[int]]:
    """Return the sizes of each input with a batch of 1: as given, as latcast reads them, or as the layer Input states them."""
    found = {}
    for words in (line.split() for line in file.path.read_text(encoding="utf-8", errors="replace").splitlines()):
        if len(words) > 4 and words[0] == "Input":
            name, stated = words[4], dict(re.findall(r"(-?\d+)=(\d+)", " ".join(words[5:])))
            sizes = [1, *(int(stated[key]) for key in ("2", "11", "1", "0") if int(stated.get(key, 0)) > 0)]
            read = file.read.tensors.get(name)
            if name in file.shapes:
                sizes = [-1] * len(file.shapes[name])
            elif read is not None:
                sizes = list(read.shape)
            found[name] = sizes if len(sizes) > 1 else [1, -1, -1, -1]
    return found
