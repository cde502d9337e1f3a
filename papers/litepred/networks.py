"""Fig. 8: how well whole networks are predicted, by how much was measured for adapting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from latcast.devices.pool import FEWEST, Pool, ranked, similarities
from latcast.devices.residual_transfer import fit_transferred, kernel_source
from latcast.errors import DatasetError
from latcast.kernels.rules import FusionRules
from latcast.predictors.analytical import fit_from_kernels
from latcast.predictors.kernel_predictor import fit_kernel_predictor
from latcast.predictors.metrics import judge
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.samples import TrainingData, kernel_samples
from latcast.records import Platform
from papers.comparison import Cell, Comparison
from papers.litepred import paper

SHARES = (0.1, 0.25, 0.5, 1.0)

FEWEST_NETWORKS = 5


def figure_8(
    data: TrainingData,
    platform: Platform,
    rules: FusionRules,
    pool: Pool,
    *,
    seed: int = 0,
    watch: Callable[[str, float], None] = lambda name, share: None,
) -> Comparison:
    """Networks as sums of their kernels, by the part of the measured kernels that is adapted with.

    Args:
        data: Kernels timed alone, and networks to judge on, of the platform.
        platform, rules: What they were measured on.
        pool: Predictors of other platforms.
        seed: Of the order of kernels.
        watch: Called at every step.

    Raises:
        DatasetError: Too few networks were measured.
    """
    if len(data.networks) < FEWEST_NETWORKS:
        raise DatasetError(f"found {len(data.networks)} measured networks of {platform}, expected at least {FEWEST_NETWORKS}")
    order = np.random.default_rng(seed).permutation(len(data.isolated))
    actual = np.array([sample.latency_ms for sample in data.networks])
    rows: list[tuple[Cell, ...]] = []
    for place, share in enumerate(SHARES):
        watch("figure 8", place / len(SHARES))
        taken = [data.isolated[index] for index in order[: round(share * len(order))]]
        cells: list[Cell] = [len(taken)]
        for sources in (False, True):
            predictor = trained_on_kernels(replace(data, isolated=tuple(taken)), platform, rules, pool, sources, seed)
            figures = judge(predictor.estimate([sample.kernels for sample in data.networks]).latency_ms, actual)
            cells += [figures.mape, figures.within_5, figures.within_10]
        rows.append(tuple(cells))
    columns = [f"{how}, {figure}" for how in ("from scratch", "transferred") for figure in ("MAPE %", "±5 %", "±10 %")]
    few, other = paper.FEWER_AT_90
    return Comparison(
        "figure 8", f"{len(data.networks)} networks on {platform} as sums of their kernels, by kernels measured",
        ("kernels", *columns), tuple(rows),
        (
            f"The paper: {few:g} and {other:g} times fewer samples than its full amounts give 90 % within ±10 %.",
            "No overhead is fitted to these networks: all of them are judged on.",
        ),
    )  # fmt: skip


def trained_on_kernels(
    data: TrainingData, platform: Platform, rules: FusionRules, pool: Pool, sources: bool, seed: int
) -> PlatformPredictor:
    """A predictor of kernels timed alone, with or without what the pool says of them."""
    samples = {name: (found.configurations, found.latency_ms) for name, found in kernel_samples(data.isolated).items()}
    analytical = fit_from_kernels(samples)
    kernels = {}
    for name, (rows, latency_ms) in samples.items():
        if sources and len(latency_ms) >= FEWEST:
            found = ranked(similarities(pool, name, rows, latency_ms))
            chosen = [kernel_source(pool.predictors[each.platform], name) for each in found]
            kernels[name] = fit_transferred(name, rows, latency_ms, analytical, chosen, seed=seed).predictor
        else:
            kernels[name] = fit_kernel_predictor(name, rows, latency_ms, analytical, seed=seed)
    return PlatformPredictor(platform, rules, analytical, kernels)
