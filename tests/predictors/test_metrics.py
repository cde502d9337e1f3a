"""The figures by which predictions are judged, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.errors import TrainingError
from latcast.predictors.metrics import judge, spearman

PREDICTED = np.array([1.04, 2.18, 4.0, 6.0])
ACTUAL = np.array([1.0, 2.0, 5.0, 6.0])
"""Errors of +4 %, +9 %, -20 % and none."""


def test_all_figures_by_hand() -> None:
    found = judge(PREDICTED, ACTUAL)

    assert found.networks == 4
    assert found.mape == pytest.approx((4 + 9 + 20 + 0) / 4)
    assert found.within_5 == 50.0
    assert found.within_10 == 75.0
    assert found.rmse_ms == pytest.approx(((0.04**2 + 0.18**2 + 1) / 4) ** 0.5)
    assert found.rmspe == pytest.approx(100 * ((0.04**2 + 0.09**2 + 0.2**2) / 4) ** 0.5)
    assert found.spearman == pytest.approx(1.0)
    assert found.interval_coverage is None


def test_the_share_inside_the_interval_counts_its_ends() -> None:
    found = judge(PREDICTED, ACTUAL, np.array([1.0, 2.1, 3.0, 6.1]), np.array([1.1, 2.3, 5.0, 7.0]))

    assert found.interval_coverage == 50.0


def test_rank_correlation_gives_ties_their_mean_rank() -> None:
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5.
    assert spearman(np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([9.0, 5.0, 1.0])) == pytest.approx(-1.0)


@pytest.mark.parametrize(("first", "second"), [([1.0, 2.0], [1.0, 2.0]), ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0])])
def test_an_undefined_rank_correlation_is_null_in_json(first: list[float], second: list[float]) -> None:
    assert np.isnan(spearman(np.array(first), np.array(second)))
    assert judge(np.array(first), np.array(second)).to_json()["spearman"] is None


def test_nothing_to_judge_is_an_error() -> None:
    with pytest.raises(TrainingError, match="no measured network is left to judge"):
        judge(np.zeros(0), np.zeros(0))
