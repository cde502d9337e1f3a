"""Speed of latcast itself: start-up, one file, many graphs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.judge import table
from benchmarks.result_files import keep, kept
from latcast.graph.writers.onnx import to_onnx
from latcast.kernels.rules import rules_for
from latcast.networks import read_model
from latcast.platforms import load
from latcast.predictors.bundle import load_bundle
from latcast.predictors.bundle_index import resolve_platform
from latcast.spaces import build
from latcast.spaces.catalogue import model
from latcast.spaces.training_mix import training_mix
from latcast.training.profiling import TRAINING_SHARE, network_items

TARGETS: Mapping[str, tuple[str, float]] = {
    "import latcast, s": ("at most", 0.3),
    "latcast predict mobilenet_v2.onnx, whole command, s": ("at most", 1.5),
    "MobileNetV2 ONNX file to latency in process, ms": ("at most", 25.0),
    "predict_many, in-memory graphs a second on one core": ("at least", 300.0),
    "load a bundle, s": ("at most", 0.3),
    "choose the networks of a five-minute profile, s of CPU": ("at most", 3.0),
}

GRAPHS = 600


def speed() -> None:
    """Measure start-up times and predictions per second."""
    keep("speed", measure_speed())
    print(speed_table())


def _median_seconds(work: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def _command(*arguments: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def choosing_seconds(seeds: Sequence[int] = range(3)) -> float:
    """Return the CPU seconds that choosing the networks of a five-minute profile takes, the mean over seeds."""
    rules = rules_for("onnxruntime", "fp32")
    start = time.process_time()
    for seed in seeds:
        network_items("operators", 300 * (1 - TRAINING_SHARE), seed, rules)
    return (time.process_time() - start) / len(seeds)


def measure_speed(platform: str = "local/onnxruntime") -> dict[str, float]:
    """Measure medians, by the names of :data:`TARGETS`; needs a bundle of the platform (``latcast demo`` leaves one)."""
    found: dict[str, float] = {}
    bare = _median_seconds(_command("-c", "pass"), 5)
    found["import latcast, s"] = _median_seconds(_command("-c", "import latcast"), 5) - bare
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mobilenet_v2.onnx"
        file.write_bytes(to_onnx(build(model("mobilenet_v2"))))
        found["latcast predict mobilenet_v2.onnx, whole command, s"] = _median_seconds(
            _command("-m", "latcast", "predict", str(file), "--on", platform), 5
        )
        predictor = load(platform)
        predictor.predict(read_model(file))
        found["MobileNetV2 ONNX file to latency in process, ms"] = 1e3 * _median_seconds(
            lambda: predictor.predict(read_model(file), breakdown=False), 21
        )
    bundle = resolve_platform(platform)
    assert isinstance(bundle, Path)
    found["load a bundle, s"] = _median_seconds(lambda: load_bundle(bundle), 5)
    found["choose the networks of a five-minute profile, s of CPU"] = choosing_seconds()
    graphs = [build(reference) for reference in training_mix(GRAPHS, 99)]
    start = time.perf_counter()
    predictor.predict_many(graphs)
    found["predict_many, in-memory graphs a second on one core"] = len(graphs) / (time.perf_counter() - start)
    return found


def speed_table() -> str:
    """Return a line for each figure with its target."""
    rows = []
    for name, value in kept("speed").items():
        word, target = TARGETS[name]
        met = value <= target if word == "at most" else value >= target
        rows.append({"figure": name, "value": value, "target": f"{word} {target:g}{'' if met else ' (missed)'}"})
    return table(rows, {"figure": "{figure}", "measured": "{value:.3g}", "target": "{target}"})
