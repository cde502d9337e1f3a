"""Adaptive against random sampling of convolutions at the same budget: Table 10."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from latcast.errors import DatasetError
from latcast.kernels.rules import rules_for
from latcast.predictors.analytical import fit_from_kernels
from latcast.predictors.kernel_predictor import ANALYTICAL_GBDT, fit_kernel_predictor
from latcast.predictors.metrics import Metrics, judge
from latcast.predictors.samples import KernelSamples, collect, kernel_samples
from latcast.records import Platform
from latcast.spaces import build
from papers.comparison import Cell, Comparison
from papers.nn_meter.paper import DEVICES, TABLE_10

if TYPE_CHECKING:
    from latcast.datasets.store import Store

KERNEL_TYPE = "conv"


def table_10(
    samplings: Mapping[str, Store], test: Store, platform: Platform, *, model: str = ANALYTICAL_GBDT, seed: int = 0
) -> Comparison:
    """Convolutions of a fixed test set, by predictors that learned from as many convolutions of each sampling.

    Args:
        samplings: Sampling ("random", "adaptive") to the store of the kernels it chose.
        test: Store of the fixed test set's kernels; those of them that a sampling chose too are not learned from.
        platform: All were measured there.
        model: How the kernel type is modelled.
        seed: For every random choice.

    Raises:
        DatasetError: A store holds no convolutions measured alone.
    """
    wanted = convolutions(test, platform)
    tested = {tuple(row) for row in wanted.configurations.tolist()}
    parts = {name: _without(convolutions(store, platform), tested) for name, store in samplings.items()}
    budget = min(len(part.latency_ms) for part in parts.values())
    rows: list[tuple[Cell, ...]] = []
    for name, part in parts.items():
        found = _judged(part, budget, wanted, model, seed)
        printed = [TABLE_10[device][name].within_10 if name in TABLE_10[device] else None for device in DEVICES]
        rows.append((name, budget, found.mape, found.rmse_ms, found.within_10, *printed))
    return Comparison(
        "table 10",
        f"Convolutions of the fixed test set ({len(tested)}), by how those learned from were sampled, {platform}",
        ("sampling", "kernels", "MAPE %", "RMSE ms", "±10 %", *(f"paper {device} ±10 %" for device in DEVICES)),
        tuple(rows),
    )


def convolutions(store: Store, platform: Platform) -> KernelSamples:
    """Convolutions that a store holds, timed alone, in the order they were measured in.

    Raises:
        DatasetError: There are none.
    """
    rules = rules_for(platform.runtime, platform.precision)
    measurements = store.measurements(platform=platform.id, role="kernel", space=f"kernel/{KERNEL_TYPE}")
    found = kernel_samples(collect(measurements, rules, build).isolated)
    if KERNEL_TYPE not in found:
        raise DatasetError(
            f"{store.location} has no convolutions timed alone on {platform}; measure with: latcast profile --learn-from kernels"
        )
    return found[KERNEL_TYPE]


def _without(samples: KernelSamples, configurations: set[tuple[int, ...]]) -> KernelSamples:
    kept = np.array([tuple(row) not in configurations for row in samples.configurations.tolist()], dtype=bool)
    return KernelSamples(samples.configurations[kept], samples.latency_ms[kept], samples.groups[kept])


def _judged(part: KernelSamples, budget: int, test: KernelSamples, model: str, seed: int) -> Metrics:
    rows, latency_ms = part.configurations[:budget], part.latency_ms[:budget]
    analytical = fit_from_kernels({KERNEL_TYPE: (rows, latency_ms)})
    predictor = fit_kernel_predictor(KERNEL_TYPE, rows, latency_ms, analytical, model=model, seed=seed)
    return judge(predictor.latency_ms(analytical, test.configurations), test.latency_ms)
