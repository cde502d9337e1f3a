from __future__ import annotations

import sys

import numpy as np
import pytest

from latcast.errors import MissingExtraError
from papers.iiswc20.paper_model import PaperModel, XGBoostTable

RNG = np.random.default_rng(1)
SPEED, SIZE = RNG.uniform(1, 5, 10), RNG.uniform(1, 9, 12)
LATENCY_MS = np.outer(SPEED, SIZE)
FEATURES = np.column_stack([SIZE, RNG.normal(size=12)])


def test_a_device_is_known_by_its_signature() -> None:
    middle = int(np.argsort(SPEED)[5])
    model = PaperModel.fit(np.delete(LATENCY_MS, middle, axis=0), FEATURES, (0, 1))

    predicted = model.predict(LATENCY_MS[[middle]][:, [0, 1]], FEATURES)[0]

    assert np.corrcoef(predicted, SIZE)[0, 1] > 0.95
    # Nearer to it than the mean of the others is.
    usual = np.delete(LATENCY_MS, middle, axis=0).mean(axis=0)
    actual = LATENCY_MS[middle]
    assert np.abs(predicted / actual - 1).mean() < 0.5 * max(0.2, np.abs(usual / actual - 1).mean()) + 0.1


def test_the_latencies_of_the_signature_are_not_learned_as_targets() -> None:
    # Signature networks, far larger than all others, are predicted as the largest of the others are.
    latency_ms = LATENCY_MS.copy()
    latency_ms[:, 0] *= 1000

    predicted = PaperModel.fit(latency_ms, FEATURES, (0,)).predict(latency_ms[:, [0]], FEATURES)

    assert predicted.max() < 1.2 * latency_ms[:, 1:].max()


def test_cells_that_are_not_to_learn_from_say_nothing() -> None:
    train = np.random.default_rng(2).random(LATENCY_MS.shape) < 0.5
    train[:, [0, 1]] = True
    other = np.where(train, LATENCY_MS, 1e6)

    found, again = (
        PaperModel.fit(table, FEATURES, (0, 1), train=train).predict(LATENCY_MS[:, [0, 1]], FEATURES)
        for table in (LATENCY_MS, other)
    )

    assert np.array_equal(found, again)


def test_a_missing_xgboost_is_named_with_the_command_that_adds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)

    with pytest.raises(MissingExtraError, match="xgboost"):
        XGBoostTable(np.zeros((2, 1)), np.zeros((2, 1)), np.ones((2, 2)))
