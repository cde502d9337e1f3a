"""Costs of an app's loop beyond a benchmark's latency, each timed once in every runtime of this machine.

A *bare* run is what benchmarks time: the same inputs in place, one run after another. The loop of an app gives new inputs and
reads the outputs, waits for the next frame, changes the size of the input, and prepares an image.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Protocol

import numpy as np
import typer

from benchmarks.command import say
from benchmarks.judge import table
from benchmarks.result_files import keep, kept_parts
from latcast.environment import cpu_description
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.graph.writers.ncnn.lowering import blob_shape
from latcast.networks import resolve_model
from latcast.report.app import NUMPY, SHIPPED
from latcast.runtimes import get_runtime
from latcast.spaces import build

RUNTIMES = ("onnxruntime", "openvino", "litert", "ncnn")

NETWORKS = ("mobilenet_v2", "resnet18", "squeezenet1_1", "mobilenet_v3_small", "mnasnet1_0", "resnet50")
"""Networks that are paused, and whose input changes its size: all end in a global average."""

PAUSES_S = (1 / 30, 1.0)
"""An app that shows 30 frames a second, and one that is asked now and then."""

ROUNDS = 12

MEGABYTES = (1, 4, 16)
"""Tensors that are copied, in fp32."""


class Loop(Protocol):
    """A network in a runtime, as an app calls it."""

    def bare(self) -> None: ...
    def feed(self, image: np.ndarray) -> None: ...
    def read(self) -> list[np.ndarray]: ...


class OnnxRuntimeLoop:
    """The runtime's usual call: arrays in, arrays out."""

    def __init__(self, path: Path, image: np.ndarray, threads: int, *, dynamic: bool) -> None:
        import onnx
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        model = onnx.load(str(path))
        if dynamic:
            for place in (2, 3):
                model.graph.input[0].type.tensor_type.shape.dim[place].dim_param = f"size{place}"
            del model.graph.value_info[:]
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        self._name = self._session.get_inputs()[0].name
        self._binding = self._session.io_binding()
        self.feed(image)
        self._binding.bind_ortvalue_input(self._name, onnxruntime.OrtValue.ortvalue_from_numpy(image))
        for stated, value in zip(self._session.get_outputs(), self._values, strict=True):
            self._binding.bind_ortvalue_output(stated.name, onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros_like(value)))

    def bare(self) -> None:
        self._session.run_with_iobinding(self._binding)

    def feed(self, image: np.ndarray) -> None:
        self._values = self._session.run(None, {self._name: image})

    def read(self) -> list[np.ndarray]:
        return list(self._values)


class OpenVinoLoop:
    def __init__(self, path: Path, image: np.ndarray, threads: int, *, dynamic: bool) -> None:
        import openvino

        core = openvino.Core()
        model = core.read_model(str(path))
        if dynamic:
            model.reshape([*image.shape[:2], -1, -1])
        compiled = core.compile_model(model, "CPU", {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads})
        self._request = compiled.create_infer_request()
        self.feed(image)

    def bare(self) -> None:
        self._request.infer()

    def feed(self, image: np.ndarray) -> None:
        self._values = self._request.infer([image])

    def read(self) -> list[np.ndarray]:
        return [np.array(value) for value in self._values.values()]


class LiteRtLoop:
    def __init__(self, path: Path, image: np.ndarray, threads: int, *, dynamic: bool) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._interpreter = Interpreter(model_path=str(path), num_threads=threads)
        self._interpreter.allocate_tensors()
        self._input = self._interpreter.get_input_details()[0]["index"]
        self._outputs = [detail["index"] for detail in self._interpreter.get_output_details()]
        self._shape = tuple(self._interpreter.get_input_details()[0]["shape"])
        self.feed(image)

    def bare(self) -> None:
        self._interpreter.invoke()

    def feed(self, image: np.ndarray) -> None:
        rows = image.transpose(0, 2, 3, 1).shape
        if rows != self._shape:
            self._shape = rows
            self._interpreter.resize_tensor_input(self._input, rows)
            self._interpreter.allocate_tensors()
        self._interpreter.set_tensor(self._input, image.reshape(rows))
        self._interpreter.invoke()

    def read(self) -> list[np.ndarray]:
        return [self._interpreter.get_tensor(index) for index in self._outputs]


class NcnnLoop:
    def __init__(self, path: Path, image: np.ndarray, threads: int, *, dynamic: bool) -> None:
        import ncnn

        self._library = ncnn
        self._net = ncnn.Net()
        self._net.opt.num_threads = threads
        self._net.load_param(str(path))
        self._net.load_model(str(path.with_suffix(".bin")))
        self._names = self._net.input_names()[0], self._net.output_names()
        self._mat = self._made(image)
        self.feed(image)

    def _made(self, image: np.ndarray) -> Any:
        return self._library.Mat(image.reshape(blob_shape(image.shape))).clone()

    def _extract(self, mat: Any) -> None:
        extractor = self._net.create_extractor()
        extractor.input(self._names[0], mat)
        self._values = [extractor.extract(name)[1] for name in self._names[1]]

    def bare(self) -> None:
        self._extract(self._mat)

    def feed(self, image: np.ndarray) -> None:
        self._extract(self._made(image))

    def read(self) -> list[np.ndarray]:
        return [np.array(value) for value in self._values]


LOOPS: Mapping[str, Callable[..., Loop]] = {
    "onnxruntime": OnnxRuntimeLoop, "openvino": OpenVinoLoop, "litert": LiteRtLoop, "ncnn": NcnnLoop,
}  # fmt: skip


def app(
    runtimes: Annotated[list[str] | None, typer.Argument(help="Runtimes to time; all where none.")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds in which the ways are timed in turn.", min=1)] = ROUNDS,
    ship: Annotated[bool, typer.Option(help="Write what latcast ships.")] = False,
) -> None:
    """Time what the loop of an app adds to a bare run."""
    for name in runtimes or (NUMPY, *RUNTIMES):
        found = {
            "machine": cpu_description()["model"],
            "costs": summarised(image_prices_ms_per_mb(rounds) if name == NUMPY else time_runtime(name, rounds)),
        }
        keep(f"app/{name}", found)
        if ship:
            shipped = json.loads(SHIPPED.read_text(encoding="utf-8")) if SHIPPED.is_file() else {}
            shipped[name] = found
            SHIPPED.write_text(json.dumps(shipped, indent=1) + "\n", encoding="utf-8")
    print(app_table())


def time_runtime(name: str, rounds: int) -> dict[str, list[float]]:
    """Return the costs of each part in a runtime, one for each network or size."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for megabytes in MEGABYTES:
            for part, graph in copied(megabytes).items():
                say(f"{name}: {part}, {megabytes} MB")
                found.setdefault(f"{part}_ms_per_mb", []).extend(copy_prices_ms_per_mb(name, graph, Path(folder), rounds, part))
        for network in NETWORKS:
            say(f"{name}: {network}")
            graph = build(resolve_model(network))
            for threads in (1, 2):
                for pause_s, factors in pause_factors(name, graph, Path(folder), rounds, threads).items():
                    found.setdefault(f"pause_{1e3 * pause_s:.0f}ms_threads{threads}", []).extend(factors)
            resized = resize_costs(name, graph, Path(folder), rounds)
            for what, values in resized.items():
                found.setdefault(what, []).extend(values)
    return found


def summarised(found: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Return the median of each part's costs, with the range of the middle 80 %."""
    return {
        what: {"value": float(median(values)), "low": float(np.quantile(values, 0.1)), "high": float(np.quantile(values, 0.9))}
        for what, values in found.items()
    }


def copied(megabytes: int) -> dict[str, Graph]:
    """Return a network that does little but take a large input, and one that gives a large output."""
    side = 128
    channels = megabytes * 250_000 // (side * side)
    large = GraphBuilder("large input")
    large_in = large.finish(large.global_average_pool(large.input((1, channels, side, side))))
    small = GraphBuilder("large output")
    x = small.input((1, channels, 1, 1))
    return {
        "input": large_in,
        "output": small.finish(small.add(x, small.constant(np.zeros((1, channels, side, side), np.float32)))),
    }


def copy_prices_ms_per_mb(name: str, graph: Graph, folder: Path, rounds: int, part: str) -> list[float]:
    """Return what new inputs and read outputs add to a bare run, by the size of the larger of both."""
    loop, image = opened(name, graph, folder, 1)
    tensor = graph.inputs[0] if part == "input" else graph.outputs[0]
    megabytes = float(np.prod(graph.shape(tensor))) * 4e-6

    def framed() -> None:
        loop.feed(image)
        loop.read()

    bare_ms, framed_ms = timed_in_turn([loop.bare, framed], rounds, runs=4)
    return [max(framed_ms - bare_ms, 0.0) / megabytes]


def image_prices_ms_per_mb(rounds: int) -> dict[str, list[float]]:
    """Return what it takes to normalise images of bytes by NumPy, by megabyte of the result, in both layouts."""
    mean, scale = np.float32([124, 116, 104]), np.float32([0.017, 0.0175, 0.0174])
    prices = []
    for side, order in product((224, 384, 640), ((2, 0, 1), (0, 1, 2))):
        image = np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)

        def prepared(image: np.ndarray = image, order: tuple[int, ...] = order) -> np.ndarray:
            return np.ascontiguousarray(((image.astype(np.float32) - mean) * scale).transpose(order))

        prices += [timed_in_turn([prepared], rounds, runs=2)[0] / (image.size * 4e-6)]
    return {"image_ms_per_mb": prices}


def pause_factors(name: str, graph: Graph, folder: Path, rounds: int, threads: int) -> dict[float, list[float]]:
    """Return by which factor a run takes longer after a pause."""
    loop, _ = opened(name, graph, folder, threads)
    found: dict[float, list[float]] = {}
    for pause_s in PAUSES_S:
        runs_ms: list[list[float]] = [[], []]
        for _ in range(max(round(rounds / (1 + 3 * pause_s)), 3)):
            for _ in range(2):
                loop.bare()
            runs_ms[0] += [milliseconds_of(loop.bare) for _ in range(2)]
            time.sleep(pause_s)
            runs_ms[1].append(milliseconds_of(loop.bare))
        found[pause_s] = [median(runs_ms[1]) / median(runs_ms[0])]
    return found


def resize_costs(name: str, graph: Graph, folder: Path, rounds: int) -> dict[str, list[float]]:
    """Return by which factor runs take longer where sizes are open, and where each run has another size than the one before."""
    fixed, image = opened(name, graph, folder, 1)
    loop, _ = opened(name, graph, folder, 1, dynamic=True)
    channels, side = image.shape[1:3]
    other = np.zeros((1, channels, side - 32, side - 32), np.float32)
    shares = {"open_sizes": [], "changed_size": []}  # type: dict[str, list[float]]
    with suppress(RuntimeError, ValueError):

        def alternating() -> None:
            loop.feed(image)
            loop.feed(other)

        def in_blocks(given: np.ndarray) -> float:
            loop.feed(given)
            return timed_in_turn([lambda: loop.feed(given)], 1, runs=4)[0]

        fixed_ms, one_ms, both_ms = [], [], []
        for _ in range(rounds):
            fixed_ms.append(timed_in_turn([lambda: fixed.feed(image)], 1, runs=4)[0])
            one_ms.append((in_blocks(image), in_blocks(other)))
            both_ms.append(timed_in_turn([alternating], 1, runs=3)[0])
        first_ms, second_ms = np.median(np.array(one_ms), axis=0)
        shares = {
            "open_sizes": [float(first_ms / median(fixed_ms))],
            "changed_size": [float(median(both_ms) / (first_ms + second_ms))],
        }
    return shares


def opened(name: str, graph: Graph, folder: Path, threads: int, *, dynamic: bool = False) -> tuple[Loop, np.ndarray]:
    """Write a network for a runtime and load it as an app does; return the loop and an input."""
    path = get_runtime(name).write(graph, folder)  # type: ignore[attr-defined]
    image = np.random.default_rng(0).standard_normal(graph.shape(graph.inputs[0]), dtype=np.float32)
    return LOOPS[name](path, image, threads, dynamic=dynamic), image


def timed_in_turn(ways: Sequence[Callable[[], object]], rounds: int, *, runs: int) -> list[float]:
    """Return the median milliseconds of each way, timed in turn, after one run that does not count."""
    found: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for way, times_ms in zip(ways, found, strict=True):
            way()
            times_ms += [milliseconds_of(way) for _ in range(runs)]
    return [median(times_ms) for times_ms in found]


def milliseconds_of(way: Callable[[], object]) -> float:
    start_ns = time.perf_counter_ns()
    way()
    return (time.perf_counter_ns() - start_ns) / 1e6


PARTS = {
    "image_ms_per_mb": ("make floats of an image's bytes, in NumPy", "ms a MB of floats"),
    "input_ms_per_mb": ("copy inputs in", "ms a MB"),
    "output_ms_per_mb": ("copy outputs out", "ms a MB"),
    "pause_33ms_threads1": ("wait 33 ms before each run", "times as long"),
    "pause_33ms_threads2": ("the same with two threads", "times as long"),
    "pause_1000ms_threads1": ("wait a second before each run", "times as long"),
    "pause_1000ms_threads2": ("the same with two threads", "times as long"),
    "open_sizes": ("leave sizes of the input open", "times as long"),
    "changed_size": ("another size in every run", "times as long"),
}


def app_table() -> str:
    """Return a line for each part and a column for each runtime."""
    found = {name: part["costs"] for name, part in kept_parts("app").items()}
    rows = [
        {
            "part": title,
            "unit": unit,
            **{
                name: "{value:.2f} ({low:.2f} to {high:.2f})".format(**costs[what])
                for name, costs in found.items()
                if what in costs
            },
        }
        for what, (title, unit) in PARTS.items()
    ]
    return table(rows, {"what an app does": "{part}", "costs": "{unit}", **{name: f"{{{name}}}" for name in found}})
