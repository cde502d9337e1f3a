"""Errors that two networks share: learned, and judged on pairs of other lineages."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np

from benchmarks.differences import FEWEST, Learned, PhoneErrors, judge, learn, pairs_of

LINEAGES = ["a"] * FEWEST + ["b"] * FEWEST + ["c", "c", "d", "d"]


def errors(times: float = 1.0) -> PhoneErrors:
    """Two networks each have the same kernels and err alike, but for 2 % of noise; those of lineage a by so much more."""
    count = len(LINEAGES)
    rng = np.random.default_rng(0)
    off = np.repeat(rng.normal(0, 0.1, count // 2), 2) + rng.normal(0, 0.02, count)
    off[:FEWEST] += np.log(times) * np.tile([1, -1], FEWEST // 2)
    same = np.kron(np.eye(count // 2), np.ones((2, 2)))
    parts = np.array([np.ones((count, count)), 0.5 + 0.5 * same, same])
    predicted = np.full(count, 10.0)
    names = [f"n{place}" for place in range(count)]
    return PhoneErrors(
        "a/r-1/cpu4/fp32", names, LINEAGES, (predicted * np.exp(off)).tolist(), predicted.tolist(), [0.0] * count, parts.tolist(),
    )  # fmt: skip


def test_pairs_of_two_lineages_are_judged_by_what_was_learned_without_either() -> None:
    """Other latencies of lineage a change only what was learned with it: its two networks of the same kernels are noisier."""
    before, after = (judge([errors(times)])["learned_without_two_lineages"] for times in (1.0, 1.5))

    left_out = list(combinations_with_replacement(["a", "b", "others"], 2))
    assert len(before) == len(left_out)
    for pair, first, second in zip(left_out, before, after, strict=True):
        if "a" in pair:
            assert second == first
        else:
            assert second["noise"] > first["noise"]


def test_noise_is_how_far_networks_of_the_same_kernels_lie_apart() -> None:
    """Off by 10 and 14 %, and by 5 and 9 %: each two 4 % apart, of which nine in ten are to lie within 1.645 deviations."""
    found = errors()
    off = np.tile([0.10, 0.14, 0.05, 0.09], len(LINEAGES) // 4)
    exact = PhoneErrors(
        found.platform, found.names, found.lineages, (10 * np.exp(off)).tolist(), found.predicted_ms, found.outside_share,
        found.parts,
    )  # fmt: skip
    everything = np.ones(len(LINEAGES), dtype=bool)
    groups = np.zeros(len(LINEAGES), dtype=int)

    learned = learn(pairs_of([exact], [groups], [np.outer(everything, everything)], [everything], most=1000))

    assert isinstance(learned, Learned)
    assert abs(learned.noise - 0.04 / 1.645) < 1e-3
