"""What other work-group sizes bring to networks in LiteRT's GPU delegate: rules, TFLite's formula and tuning beside its own.

Each network is made ready once, its program cache written with other sizes (:mod:`latcast.workgroups.exporting`), and all of them
run in turn: a round runs each once, in a random order. LiteRT's own sizes loaded a second time tell what equal ones differ by.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.result_files import kept_parts
from benchmarks.tables import markdown_table
from latcast.errors import MeasurementError
from latcast.folders import made
from latcast.graph.writers.tflite import to_tflite
from latcast.networks import read_model
from latcast.records import signed
from latcast.workgroups.exporting import chosen_sizes, tune_sizes
from latcast.workgroups.gpu_interfaces import find_device
from latcast.workgroups.litert_delegate import clock_of, load_resized, write_program_cache
from latcast.workgroups.measuring import SweepPlan
from latcast.workgroups.sizes import WorkGroup
from latcast.workgroups.webgpu import INTERFACE as WEBGPU

FOLDER = Path(".latcast/bench/workgroups")

NETWORKS = ("mobilenet_v1", "vgg16", "resnet101", "densenet121")
"""One of each kind of network that Jiang et al. (APSys 2020) measure and latcast builds."""

ROUNDS: Mapping[str, int] = {"mobilenet_v1": 20, "vgg16": 6, "resnet101": 8, "densenet121": 12}
"""Of each network: larger ones are steadier and take longer."""

PLAN = SweepPlan(rounds=8, budget_s=30.0)

SIZES = 24

TITLES: Mapping[str, str] = {
    "again": "its own again", "rules": "the rules' first", "kfast": "TFLite's formula", "tuning": "tuning",
}  # fmt: skip
"""Beside "own", LiteRT's own sizes."""

LEVEL = 90.0
DRAWS = 5_000

TOLERANCE = 1e-3
"""By which results may differ, relative to the largest number."""


def gain(own_ms: np.ndarray, other_ms: np.ndarray, seed: int = 0) -> tuple[float, float, float]:
    """By how much less time a network takes, in percent of LiteRT's own sizes.

    Args:
        own_ms: (rounds,) with LiteRT's own sizes.
        other_ms: (rounds,) with others, in the same rounds.
        seed: Of the bootstrap.

    Returns:
        The median over rounds of each round's gain, and its interval (percentile bootstrap over rounds, 90 %).
    """
    each = 100 * (1 - other_ms / own_ms)
    drawn = np.random.default_rng(seed).integers(len(each), size=(DRAWS, len(each)))
    tail = 50 - LEVEL / 2
    low, high = np.percentile(np.median(each[drawn], axis=1), [tail, 100 - tail]).tolist()
    return float(np.median(each)), low, high


def measure(network: str, rounds: int, tell: Callable[[str], None], folder: Path = FOLDER) -> dict[str, Any]:
    """Tunes a network, then times it with each choice of sizes; resumable, saved after every round.

    Raises:
        MeasurementError: A choice of sizes changes the result.
    """
    home = made(folder / network)
    data = to_tflite(read_model(network))
    interface, index, profile = find_device("litert")
    clock_ns = clock_of(WEBGPU.is_cpu(index))
    cache = write_program_cache(data, made(home / "own"))
    tuned = tune_sizes(
        cache, profile, lambda workload: interface.session(index, workload), home / "sweeps", sizes=SIZES, plan=PLAN,
        watch=lambda what, share: tell(f"{network}: {100 * share:.0f} %, {what}"),
    )  # fmt: skip
    choices = {
        "own": {},
        "again": {},
        **{by: chosen_sizes(cache, profile, by) for by in ("rules", "kfast")},
        "tuning": tuned.sizes,
    }
    saved, wanted = home / "rounds.json", {name: _text(sizes) for name, sizes in choices.items()}
    kept = json.loads(saved.read_text()) if saved.exists() else {}
    # Rounds with other sizes, of another tuning, say nothing of these.
    times: dict[str, list[float]] = kept["times_ms"] if kept.get("sizes") == wanted else {name: [] for name in choices}
    if len(times["own"]) < rounds:
        models = {name: load_resized(data, cache.resized(sizes), made(home / name)) for name, sizes in choices.items()}
        inputs = [np.random.default_rng(0).standard_normal(shape, dtype=np.float32) for shape in _inputs(network)]
        results = {}
        for name, model in models.items():
            model.set_inputs(inputs)
            model.run()
            results[name] = model.outputs()[0]
        _check(network, results)
        while len(times["own"]) < rounds:
            taken = {}
            for name in np.random.default_rng(len(times["own"])).permutation(list(models)).tolist():
                begin_ns = clock_ns()
                models[name].run()
                models[name].outputs()
                taken[name] = (clock_ns() - begin_ns) * 1e-6
            for name, spent_ms in taken.items():
                times[name].append(spent_ms)
            saved.write_text(json.dumps({"sizes": wanted, "times_ms": times}))
            tell(f"{network}: round {len(times['own'])} of {rounds}")
        for model in models.values():
            model.close()
    free = [number for number, kernel in enumerate(cache.kernels) if kernel.kind is not None]
    own = np.array(times["own"])
    if not len(own):
        raise MeasurementError(f"{network} was tuned and not timed; give at least one round")
    return {
        "network": network,
        "device": profile.title,
        "kernels": len(cache.kernels),
        "free_kernels": len(free),
        "rounds": len(own),
        "own_ms": float(np.median(own)),
        "times_ms": times,
        "sweeps": [_described(sweep) for sweep in tuned.sweeps],
        "left": dict(tuned.left),
        "changed": {
            name: sum(size != cache.kernels[number].size for number, size in sizes.items()) for name, sizes in choices.items()
        },
        "gains": {name: gain(own, np.array(times[name])) for name in TITLES},
    }


def _text(sizes: Mapping[int, WorkGroup]) -> dict[str, str]:
    return {str(number): str(size) for number, size in sorted(sizes.items())}


def _described(sweep: Any) -> dict[str, Any]:
    return {
        "operator": sweep.operator, "grid": list(sweep.grid.shape), "sizes": len(sweep.sizes), "rounds": sweep.rounds,
        "repeatability": sweep.repeatability, "worst_over_best": float(sweep.relative.max()),
        "own_over_best": float(sweep.relative[0]),
    }  # fmt: skip


def _inputs(network: str) -> list[tuple[int, ...]]:
    graph = read_model(network)
    return [tuple(graph.shape(name)) for name in graph.inputs]


def _check(network: str, results: Mapping[str, np.ndarray]) -> None:
    own = results["own"]
    for name, found in results.items():
        error = float(np.abs(found - own).max() / np.abs(own).max())
        if not error <= TOLERANCE:
            raise MeasurementError(
                f"{network} with the sizes of '{name}' computes another result, off by {error:.1e} of its largest number; "
                f"expected at most {TOLERANCE:.0e}"
            )


def workgroups_table(document: Mapping[str, Any] | None = None) -> str:
    """Gains over LiteRT's own sizes."""
    found = kept_parts("workgroups") if document is None else document
    rows = []
    for name, each in ((name, found[name]) for name in NETWORKS if name in found):
        gains = ["{} ({} to {})".format(*map(signed, each["gains"][choice])) for choice in TITLES]
        repeatability = [sweep["repeatability"] for sweep in each["sweeps"]]
        rows.append(
            [name, f"{each['own_ms']:.0f}", f"{each['free_kernels']} of {each['kernels']}", str(each["changed"]["tuning"]),
             f"{np.mean(repeatability):.2f} ({min(repeatability):.2f})", str(each["rounds"]), *gains]
        )  # fmt: skip
    head = ["network", "LiteRT's own, ms", "kernels with free sizes", "changed by tuning", "repeatability (least)", "rounds"]
    return markdown_table([*head, *(f"{title}, %" for title in TITLES.values())], rows)
