"""``python -m benchmarks.peer``: nn-Meter from PyPI and latcast on the same ONNX files, in one run.

nn-Meter gets an environment of its own in .latcast/peer. Where it cannot be installed, the benchmark says why and ends.
Times are CPU seconds of one thread, each file read, analysed and predicted once after one file to warm up.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.judge import Columns, Row, table
from benchmarks.result_files import keep, kept
from latcast.graph.importers import load_graph
from latcast.graph.writers.onnx import to_onnx
from latcast.kernels.rules import load_rules
from latcast.kernels.search import find_kernels
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Reference
from latcast.spaces import build
from latcast.spaces.catalogue import model
from latcast.training.from_store import train

FOLDER = Path(".latcast/peer")

REQUIREMENTS = ("nn-meter==2.0", "setuptools<81", "onnx")
"""nn-Meter imports pkg_resources, which newer setuptools lack, and needs onnx without asking for it."""

NETWORKS = (
    "alexnet", "vgg11", "densenet121", "resnet18", "squeezenet1_1", "googlenet", "mobilenet_v1", "mobilenet_v2",
    "mobilenet_v3_large", "shufflenet_v2_x1_0", "mnasnet1_0", "proxylessnas_mobile", "efficientnet_b0", "ghostnet_x1_0",
    "regnet_y_400mf",
)  # fmt: skip
"""One of each family of nn-Meter's Table 2, and three that came after it."""

CELL = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"

FUSED_ON_CPU = ("conv_bn", "conv_relu", "dwconv_bn", "dwconv_relu", "bn_relu", "add_relu", "fc_relu")
"""Pairs that TFLite fuses on a CPU by nn-Meter's Table 4, as its rules name them."""

CPU_RULES = "litert"
"""The same runtime in our rules, for the number of kernels."""

MEASUREMENTS = Path("tests/cli/data/onnxruntime.jsonl.gz")
"""Training data of the predictor whose speed is measured."""


class PeerUnavailable(Exception):
    """nn-Meter cannot be installed; the message says why."""


def references() -> dict[str, Reference]:
    """Return the networks by name."""
    return {name: model(name) for name in NETWORKS} | {"nas_bench_201": Reference("nas_bench_201", {"cell": CELL})}


def peer_python() -> Path:
    """Return the interpreter of nn-Meter's environment, which is made where there is none.

    Raises:
        PeerUnavailable: It cannot be made.
    """
    environment = FOLDER / "venv"
    python = environment / "bin" / "python"
    stamp = environment / "installed"
    if not stamp.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", "--clear", str(environment)])
        _run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *REQUIREMENTS])
        _run([str(python), "-c", "import nn_meter, onnx"])
        stamp.touch()
    return python


def _run(command: Sequence[str]) -> str:
    """Run a command and return what it prints.

    Raises:
        PeerUnavailable: It fails; the message has its last line.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if finished.returncode:
        last = (finished.stderr.strip() or finished.stdout.strip() or "it said nothing").splitlines()[-1]
        raise PeerUnavailable(f"{' '.join(command[:4])} ... ended with {finished.returncode}: {last}")
    return finished.stdout


def peer_results(python: Path, files: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """Return what nn-Meter predicts of the files, by network."""
    rules = {"MON": {"obey": 0}, "FN": {"obey": True}} | {f"BF_{pair}": {"obey": True} for pair in FUSED_ON_CPU}
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as order:
        json.dump({"models": [str(path) for path in files.values()], "rules": rules}, order)
        order.flush()
        printed = _run([str(python), str(Path(__file__).with_name("peer_models.py")), order.name])
    found = {row.pop("path"): row for row in map(json.loads, printed.splitlines())}
    return {name: found[str(path)] for name, path in files.items()}


def our_predictor() -> PlatformPredictor:
    """Train a predictor of real size, whose speed is measured."""
    return train(MEASUREMENTS)


def our_results(predictor: PlatformPredictor, files: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """Return what latcast predicts of the files, by network."""
    rules = load_rules(CPU_RULES)
    predictor.predict(load_graph(next(iter(files.values()))))
    found = {}
    for name, path in files.items():
        gc.collect()  # earlier networks' garbage is not this one's cost
        start = time.process_time()
        graph = load_graph(path)
        analysed = time.process_time()
        prediction = predictor.predict(graph)
        done = time.process_time()
        found[name] = {
            "analysis_s": analysed - start, "prediction_s": done - analysed,
            "kernels": sum(not kernel.free for kernel in find_kernels(graph, rules)),
            "named_uncovered": list(prediction.coverage.uncovered),
        }  # fmt: skip
    return found


def _speed(rows: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return the models a second, of those that were predicted."""
    predicted = [row for row in rows.values() if "error" not in row]
    seconds = sum(row["analysis_s"] + row["prediction_s"] for row in predicted)
    return len(predicted) / seconds if seconds else None


def compare() -> dict[str, Any]:
    """Compare both network by network.

    Raises:
        PeerUnavailable: nn-Meter cannot be installed or run.
    """
    python = peer_python()
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, reference in references().items():
            files[name] = Path(folder) / f"{name}.onnx"
            files[name].write_bytes(to_onnx(build(reference)))
        theirs = peer_results(python, files)
        ours = our_results(our_predictor(), files)
    return {
        "peer": REQUIREMENTS[0], "models_per_second": {"latcast": _speed(ours), "nn-meter": _speed(theirs)},
        "networks": {name: {"latcast": ours[name], "nn-meter": theirs[name]} for name in files},
    }  # fmt: skip


def peer_table() -> str:
    """Return a line for each network of which either leaves something out or estimates it, and the models a second of both."""
    document = kept("peer")
    networks = [{"name": name, "ours": row["latcast"], "theirs": row["nn-meter"]} for name, row in document["networks"].items()]
    rows = [each for each in networks if each["ours"]["named_uncovered"] or any(map(each["theirs"].get, ("error", "dropped")))]
    columns: Columns = {
        "network": "{name}", "latcast ms": lambda row: _milliseconds(row["ours"]),
        "nn-Meter ms": lambda row: "fails" if row["theirs"].get("error") else _milliseconds(row["theirs"]),
        "dropped by nn-Meter without a word": lambda row: row["theirs"].get("error")
        or ", ".join(f"{count} {kind}" for kind, count in row["theirs"].get("dropped", {}).items())
        or "-",
        "named as uncovered by latcast": lambda row: ", ".join(row["ours"]["named_uncovered"]) or "-",
    }  # fmt: skip
    told = {name: "none" if value is None else f"{value:.1f}" for name, value in document["models_per_second"].items()}
    others = f"Of the other {len(networks) - len(rows)} networks nothing is left out."
    ours, theirs = f"latcast {told['latcast']}", f"{document['peer']} {told['nn-meter']}"
    return f"{table(rows, columns)}\n\n{others} Models a second: {ours}, {theirs}."


def _milliseconds(row: Row) -> str:
    return f"{1e3 * (row['analysis_s'] + row['prediction_s']):.1f}"


def main() -> None:
    """Compare both, and keep and print the figures."""
    try:
        document = compare()
    except PeerUnavailable as problem:
        print(f"skipped: nn-Meter cannot be installed here: {problem}")
        return
    keep("peer", document)
    print(peer_table())


if __name__ == "__main__":
    main()
