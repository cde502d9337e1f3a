"""Which pairs of a model and a quantisation to measure on a device: those after which the least is unknown of the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from latcast.llm.learned_prices import PHASES, LearnedPrices, model_of, timed
from latcast.llm.prices import Phase
from latcast.llm.speeds import SpeedMeasurement
from latcast.llm.tensor_types import offered
from latcast.records import Platform

Array = NDArray[np.float64]

MODELS = (
    "smollm2-360m", "qwen3.5-0.8b", "llama-3.2-1b", "qwen2.5-1.5b", "qwen3-1.7b", "smollm2-1.7b", "gemma-2-2b", "phi-4-mini",
)  # fmt: skip
"""Small models to choose among: sizes from 0.4 to 4 billion, heads of three sizes, an architecture with recurrent layers."""

PROMPTS = (64, 512)
"""Two lengths: one alone does not separate reading the weights from computing."""

Pair = tuple[str, str]


def telling_pairs(prices: LearnedPrices, platform: str, count: int, candidates: Sequence[Pair] = ()) -> list[Pair]:
    """Return pairs to measure on a platform, the most telling first.

    Each next one leaves the least standard deviation in the logarithms of predicted times, the mean over all candidates and both
    phases. A candidate's times are taken as linear in the effects that no measurement moved, which deviate as their priors say.

    Args:
        prices: That know the platform.
        platform: Its id.
        count: How many to choose.
        candidates: By default small models in the usual quantisations of the runtime.
    """
    usual = offered(Platform.parse(platform).runtime)
    candidates = candidates or [(model, quantisation) for model in MODELS for quantisation in usual]
    rows: dict[Phase, Array] = {}
    for phase in PHASES:
        lengths = PROMPTS if phase == "prefill" else PROMPTS[-1:]
        measured = [
            SpeedMeasurement(*pair, platform, "", length, float(length), 1.0, 1.0) for pair in candidates for length in lengths
        ]
        slopes = prices.prices[phase].slopes_of_unknown(platform, [each.quantities for each in timed(phase, measured)])
        rows[phase] = slopes.reshape(len(candidates), len(lengths), slopes.shape[1])
    covariances = {phase: np.eye(found.shape[2]) for phase, found in rows.items()}

    def after(phase: Phase, candidate: int) -> Array:
        """Return the covariance of a phase's effects once a candidate is measured."""
        covariance = covariances[phase]
        for row in rows[phase][candidate]:
            moved = covariance @ row
            covariance = covariance - np.outer(moved, moved) / (prices.prices[phase].noise ** 2 + row @ moved)
        return covariance

    def unknown(candidate: int) -> tuple[float, float]:
        """Return the sum over phases of the mean deviation that is left, and the parameters, which decide ties."""
        left = ((rows[phase].reshape(-1, rows[phase].shape[2]), after(phase, candidate)) for phase in PHASES)
        deviation = sum(np.sqrt(np.einsum("ij,jk,ik->i", found, known, found).clip(0)).mean() for found, known in left)
        return round(float(deviation), 3), model_of(*candidates[candidate]).parameters

    chosen: list[int] = []
    while len(chosen) < min(count, len(candidates)):
        chosen.append(min((each for each in range(len(candidates)) if each not in chosen), key=unknown))
        covariances = {phase: after(phase, chosen[-1]) for phase in PHASES}
    return [candidates[each] for each in chosen]
