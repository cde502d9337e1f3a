"""Whether a network of repeating weights takes as long as one of random ones, under three runtimes on this machine.

Three files of each network are timed in turn: random weights, random weights of another seed, repeating ones. How far the
second is from the first is the noise that the third is judged by. Processor time is compared, so that what else runs counts
little; the order of the files changes from round to round.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.result_files import keep
from latcast.graph.ir import Graph
from latcast.graph.writers.ncnn import to_ncnn
from latcast.graph.writers.onnx import to_onnx
from latcast.graph.writers.tflite import to_tflite
from latcast.records import signed
from latcast.spaces import build
from latcast.spaces.catalogue import model

NETWORKS = ("squeezenet1_1", "mobilenetv3_large_wd2", "regnetx004", "preresnet14", "mobilenet_v1_0_5")

PRECISIONS = ("fp32", "int8")

ROUNDS = 200

WEIGHTS: Sequence[dict[str, Any]] = ({"seed": 0}, {"seed": 1}, {"compressible": True})

Run = Callable[[], object]


def _onnxruntime(graph: Graph, precision: str, folder: Path, **weights: Any) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(to_onnx(graph, precision=precision, **weights), options)
    feed = {session.get_inputs()[0].name: _image(graph)}
    return lambda: session.run(None, feed)


def _litert(graph: Graph, precision: str, folder: Path, **weights: Any) -> Run:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=to_tflite(graph, precision=precision, **weights), num_threads=1)
    interpreter.allocate_tensors()
    [given] = interpreter.get_input_details()
    image = np.moveaxis(_image(graph), 1, -1)
    interpreter.set_tensor(given["index"], image if given["dtype"] == np.float32 else (127 * image).astype(given["dtype"]))
    run: Run = interpreter.invoke
    return run


def _ncnn(graph: Graph, precision: str, folder: Path, **weights: Any) -> Run:
    import ncnn

    param, values = to_ncnn(graph, precision=precision, **weights)
    (folder / "net.param").write_text(param)
    (folder / "net.bin").write_bytes(values)
    net = ncnn.Net()
    net.opt.num_threads = 1
    net.load_param(str(folder / "net.param"))
    net.load_model(str(folder / "net.bin"))
    image = ncnn.Mat(_image(graph)[0]).clone()

    def run() -> None:
        extractor = net.create_extractor()
        extractor.input("in0", image)
        extractor.extract("out0")

    return run


RUNTIMES: dict[str, Callable[..., Run]] = {"onnxruntime": _onnxruntime, "litert": _litert, "ncnn": _ncnn}


def _image(graph: Graph) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, graph.shape(graph.inputs[0])).astype(np.float32)


def _timed_ms(runs: Sequence[Run], rounds: int) -> np.ndarray:
    """(files, rounds) processor time."""
    for run in runs:
        for _ in range(3):
            run()
    found = np.empty((len(runs), rounds))
    for turn in range(rounds):
        for index in np.random.default_rng(turn).permutation(len(runs)):
            begun = time.process_time()
            runs[index]()
            found[index, turn] = 1e3 * (time.process_time() - begun)
    return found


def differences(rounds: int = ROUNDS) -> Iterator[dict[str, Any]]:
    """For each network, precision and runtime: percent that a file takes longer than that of the first seed, by medians."""
    for name in NETWORKS:
        graph = build(model(name, as_measured=True))
        for precision in PRECISIONS:
            for runtime, load in RUNTIMES.items():
                with tempfile.TemporaryDirectory() as folder:
                    times = _timed_ms([load(graph, precision, Path(folder), **weights) for weights in WEIGHTS], rounds)
                other_seed, repeating = (100 * (np.exp(np.median(np.log(times[1:] / times[0]), axis=1)) - 1)).tolist()
                yield {
                    "network": name, "precision": precision, "runtime": runtime, "ms": float(np.median(times[0])),
                    "other_seed_percent": other_seed, "repeating_percent": repeating,
                }  # fmt: skip


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each of both comparisons."""
    lines = []
    for key, what in (("other_seed_percent", "another seed"), ("repeating_percent", "repeating weights")):
        values = np.array([row[key] for row in rows])
        lines.append(
            f"{what}: mean {signed(values.mean())} %, median distance {np.median(np.abs(values)):.1f} %, "
            f"largest {np.abs(values).max():.1f} %, over {len(values)} files"
        )
    return "\n".join(lines)


def measure(rounds: int = ROUNDS) -> str:
    """Measures all and keeps the rows; returns the summary."""
    rows = list(differences(rounds))
    keep("repeating_weights", {"rounds": rounds, "rows": rows})
    return summary(rows)
