"""How much of the networks that people use lies inside what a profile has seen: the training mix judged without a clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.campaigns import Bench, profile_taken
from benchmarks.result_files import kept_parts
from benchmarks.tables import markdown_table, target_cell
from latcast.graph.ir import Graph
from latcast.kernels.search import find_kernels
from latcast.kernels.types import kernel_type
from latcast.networks import read_model
from latcast.predictors.bundle import load_bundle
from latcast.predictors.bundle_index import file_name
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.spaces.models import models

REGISTRY = "timm/"
"""Whose networks."""

NEARLY_ALL = 0.98

TARGET = 90.0
"""Percent of the networks of which at least :data:`NEARLY_ALL` of the kernels is to be covered."""

MEASURES = ("kernels", "flops", "latency")
"""What shares are counted in."""


def shares_covered(bench: Bench, watch: Callable[[int, int], None] = lambda *_: None) -> dict[str, Any]:
    """Share of timm's networks of which at least :data:`NEARLY_ALL` is covered by a bench's profile, by each of :data:`MEASURES`.

    A kernel is covered where the like was trained on (:class:`latcast.predictors.kernel_predictor.Familiarity`).

    Raises:
        MeasurementError: There is no profile.
    """
    platform = profile_taken(bench)["platform"]
    predictor = load_bundle(bench.home / "bundles" / file_name(platform))
    names = sorted(each.name for each in models() if each.name.startswith(REGISTRY))
    rows = []
    for done, name in enumerate(names):
        watch(done, len(names))
        rows.append(covered_shares(predictor, read_model(name)))
    reached = 100 * (np.array(rows) >= NEARLY_ALL).mean(axis=0)
    return {"platform": platform, "networks": len(names), **dict(zip(MEASURES, reached.tolist(), strict=True))}


def covered_shares(predictor: PlatformPredictor, graph: Graph) -> np.ndarray:
    """Covered share of a network's kernels, by each of :data:`MEASURES`, (3,)."""
    found = predictor.estimate([find_kernels(graph, predictor.rules)])
    kernels = [(kernel_type(kind), each) for kind, each in found.table.configurations.items()]
    flops = np.concatenate([kind.quantities(kind.columns(each)).flops for kind, each in kernels])
    weights = np.stack([np.ones(len(flops)), flops, found.kernel_ms], axis=1)
    whole, covered = (found.table.sum_by_network(each)[0] for each in (weights, weights * found.covered[:, None]))
    return np.asarray(covered / whole)


def coverage_table() -> str:
    """A line for each platform."""
    rows = [
        [
            each["platform"],
            str(each["networks"]),
            *(f"{each[name]:.0f}" for name in MEASURES),
            target_cell(TARGET, each[MEASURES[0]], least=True),
        ]
        for each in kept_parts("mix_coverage").values()
    ]
    head = ["platform", "networks", "98 % of kernels covered: % of networks", "of FLOPs", "of latency", "target: % of networks"]
    return markdown_table(head, rows)
