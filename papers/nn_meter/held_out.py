"""Each family in turn is held out: what is predicted of it by predictors that saw none of its networks (§7.2.1).

nn-Meter learns from kernels alone and so needs no such split; the baselines do. Here kernels may be timed inside the networks
of the other families, so the split holds for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from latcast.errors import TrainingError
from latcast.kernels.rules import load_rules
from latcast.kernels.search import find_kernels
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.samples import NetworkSample, TrainingData, restrict
from latcast.predictors.training import train
from latcast.spaces import build
from papers.nn_meter.measured import MeasuredBenchmark

UNFUSED = "none"
"""Rules under which every operator is a kernel of its own."""

ALONE = "alone"
"""Learning from kernels timed alone and nothing else, not even the overhead of networks, as nn-Meter does."""


@dataclass(frozen=True)
class HeldOutFamily:
    """Predictions of a family's networks.

    Attributes:
        family: Its name.
        predictor: Trained without it.
        actual_ms: Labels, (networks,).
        kernel_level_ms: Predictions from the kernels that the runtime executes, (networks,).
        operator_level_ms: By the same predictors from single operators, as if nothing was fused, (networks,).
    """

    family: str
    predictor: PlatformPredictor
    actual_ms: np.ndarray
    kernel_level_ms: np.ndarray
    operator_level_ms: np.ndarray


def without_family(data: TrainingData, family: str) -> TrainingData:
    """The data without a family's networks and what was profiled inside them."""
    return restrict(data, lambda sample: sample.family != family)


def train_without(
    benchmark: MeasuredBenchmark, family: str, *, learn_from: str, model: str | None = None, seed: int = 0
) -> PlatformPredictor:
    """A predictor that saw nothing of a family.

    Args:
        benchmark: What was measured.
        family: Held out.
        learn_from: One of :data:`latcast.predictors.training.LEARN_FROM`, or :data:`ALONE`.
        model: How a kernel type is modelled.
        seed: For every random choice.

    Raises:
        TrainingError: Too few measurements are left.
    """
    rest = without_family(benchmark.data, family)
    if learn_from == ALONE:
        learn_from, rest = "kernels", replace(rest, networks=(), profiled=())
    return train(rest, benchmark.platform, benchmark.rules, learn_from=learn_from, model=model, seed=seed)


def operator_level_ms(predictor: PlatformPredictor, samples: Sequence[NetworkSample]) -> np.ndarray:
    """What the sum over single operators gives by predictors that were made for kernels (§7.3)."""
    unfused = load_rules(UNFUSED)
    return predictor.estimate([find_kernels(build(sample.reference), unfused) for sample in samples]).latency_ms


def hold_out_each(
    benchmark: MeasuredBenchmark,
    *,
    learn_from: str = "operators",
    model: str | None = None,
    seed: int = 0,
    watch: Callable[[str, int], None] = lambda family, done: None,
) -> list[HeldOutFamily]:
    """Predicts every family by a predictor that saw nothing of it.

    Args:
        benchmark, learn_from, model, seed: As for :func:`train_without`.
        watch: Called before each family with its name and how many are done.

    Raises:
        TrainingError: Too few measurements are left without a family; the message names it.
    """
    found: list[HeldOutFamily] = []
    for family, samples in benchmark.tests.items():
        watch(family, len(found))
        try:
            predictor = train_without(benchmark, family, learn_from=learn_from, model=model, seed=seed)
        except TrainingError as problem:
            raise TrainingError(f"without {family}: {problem}") from problem
        found.append(
            HeldOutFamily(
                family, predictor, benchmark.actual_ms(family),
                predictor.estimate([sample.kernels for sample in samples]).latency_ms, operator_level_ms(predictor, samples),
            )
        )  # fmt: skip
    return found


def pooled(parts: Iterable[np.ndarray]) -> np.ndarray:
    """All families' networks one after the other."""
    return np.concatenate(list(parts))
