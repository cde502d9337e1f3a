"""The model that travels with the package."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.datasets.splits import device_of
from latcast.devices.shared_terms import SharedTerms
from latcast.devices.shared_terms_file import SHIPPED, load_shared_terms


@pytest.fixture(scope="module")
def model() -> SharedTerms:
    return load_shared_terms()


def test_it_is_small_and_says_where_it_is_from() -> None:
    assert SHIPPED.stat().st_size < 3_000_000
    assert "MIT licence" in SHIPPED.with_name("NOTICE.txt").read_text()


def test_it_knows_the_published_phones(model: SharedTerms) -> None:
    assert len(model.platforms) == 174
    assert {device_of(name) for name in model.platforms} == {"a03s", "iphone7", "iphonexs", "mi8se", "pixel4", "s10"}
    assert "MIT" in model.card["licence"]
    assert model.card["platforms"] == 174
    assert model.reach.predictions > 1000


def test_a_phone_taken_out_of_it_is_predicted_from_ten_of_its_networks(model: SharedTerms) -> None:
    name = "pixel4/tflite-2.10/1large/fp32"
    actual = model.log_ms[model.platforms.index(name)]
    without = model.without_devices(["pixel4"])
    chosen = np.array(without.signature(10, name))

    found = without.predict_platform(name, chosen, actual[chosen])

    rest = np.setdiff1d(np.arange(len(actual)), chosen)
    assert np.abs(np.exp(found.log_ms - actual)[rest] - 1).mean() < 0.05
    assert found.dropped == ()
