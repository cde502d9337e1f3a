"""Learning starts from samples that follow a law."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.training.starts import fit_law, fit_terms

TERMS = ("constant", "weights_mb", "kernels")


def samples(noise: float) -> tuple[list[dict[str, float]], np.ndarray]:
    """Return the features of sixty networks, and 3 ms and 2 ms a megabyte for each, off by some part at random."""
    rng = np.random.default_rng(0)
    rows = [{"constant": 1.0, "weights_mb": float(mb), "kernels": float(k)} for mb, k in rng.uniform(1, 100, (60, 2))]
    exact = np.array([3 + 2 * row["weights_mb"] for row in rows])
    return rows, exact * np.exp(noise * rng.standard_normal(60))


def test_terms_that_cost_nothing_are_left_out() -> None:
    assert fit_terms(TERMS, *samples(0.0)) == {"constant": pytest.approx(3), "weights_mb": pytest.approx(2)}


def test_a_few_outliers_do_not_move_the_terms() -> None:
    rows, actual_ms = samples(0.0)
    actual_ms[:5] *= 3

    assert fit_terms(TERMS, rows, actual_ms) == {"constant": pytest.approx(3, rel=0.05), "weights_mb": pytest.approx(2, rel=0.05)}


def test_the_bounds_hold_nine_in_ten_of_the_samples_held_out() -> None:
    rows, actual_ms = samples(0.1)

    law, held_out = fit_law(TERMS, rows, actual_ms, np.arange(60) % 5)

    inside = (actual_ms >= held_out * law.low) & (actual_ms <= held_out * law.high)
    assert inside.mean() >= 0.9
    assert 0.7 < law.low < 0.95 < 1.05 < law.high < 1.4
