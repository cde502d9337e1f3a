"""Learning starts from samples that follow a law."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.datasets.store import Store
from latcast.kernels.rules import platform_rules
from latcast.predictors.starts import StartModel
from latcast.records import Measurement, Platform
from latcast.spaces.catalogue import SPACES, build
from latcast.training.starts import FEWEST_STARTS, fit_law, fit_terms, learned_starts

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


def test_a_fixed_term_is_subtracted_and_not_fitted() -> None:
    rows, actual_ms = samples(0.0)
    longer_ms = actual_ms + np.array([row["kernels"] for row in rows])

    found = fit_terms(TERMS[:2], rows, longer_ms, {"kernels": 1.0})

    assert found == {"constant": pytest.approx(3), "weights_mb": pytest.approx(2), "kernels": 1.0}


def test_the_bounds_hold_nine_in_ten_of_the_samples_held_out() -> None:
    rows, actual_ms = samples(0.1)

    law, held_out = fit_law(TERMS, rows, actual_ms, np.arange(60) % 5)

    inside = (actual_ms >= held_out * law.low) & (actual_ms <= held_out * law.high)
    assert inside.mean() == pytest.approx(0.9, abs=0.02)
    assert 0.7 < law.low < 0.95 < 1.05 < law.high < 1.4


PLATFORM = "local/onnxruntime-1.31/cpu1/fp32"


def a_store(networks: int, page_cache: str = "warm") -> Store:
    """Return a store of networks that take 10 ms; loading takes 5 ms and 2 ms a megabyte, the first inference 15 ms."""
    store = Store(":memory:")
    for reference in SPACES.get("random_small").sample(networks, 0):
        megabytes = build(reference).parameter_count * 4e-6
        moment = {"moment": {"load_ms": 5 + 2 * megabytes, "page_cache": page_cache}}
        store.add(Measurement(PLATFORM, reference, latency_ms=10.0, raw_latency_ms=10.0))
        store.add(Measurement(PLATFORM, reference, "start", (15.0,), latency_ms=15.0, raw_latency_ms=15.0, environment=moment))
    return store


def learned(store: Store) -> StartModel | None:
    platform = Platform.parse(PLATFORM)
    return learned_starts(store, platform, platform_rules(platform), store.keys(role="start"))


def test_starts_in_a_store_teach_loading_and_the_first_inference() -> None:
    with a_store(20) as store:
        found = learned(store)

    assert found is not None
    assert found.load is not None
    assert found.load.terms_ms["constant"] == pytest.approx(5, rel=0.02)
    assert found.load.terms_ms["weights_mb"] == pytest.approx(2, rel=0.1)
    assert "20 networks started here in fresh processes" in found.basis


@pytest.mark.parametrize(("networks", "page_cache"), [(FEWEST_STARTS - 1, "warm"), (20, "dropped")])
def test_nothing_is_learned_from_a_few_starts_or_from_files_read_from_the_disk(networks: int, page_cache: str) -> None:
    with a_store(networks, page_cache) as store:
        assert learned(store) is None
