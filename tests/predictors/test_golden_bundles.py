"""Bundles that releases wrote: every later version reads them and predicts the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from latcast.predictors.bundle import load_bundle
from tests.predictors.golden_bundles.make import FOLDER

BUNDLES = sorted(FOLDER.glob("*/*.zip"))


def test_there_is_one_of_every_kind() -> None:
    assert {path.name for path in BUNDLES} == {"networks.zip", "kernels.zip"}


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_bundle_of_a_release_predicts_as_it_did(path: Path) -> None:
    expected = json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))[path.stem]

    found = load_bundle(path).predict_many(list(expected))

    for each in found:
        assert [each.latency_ms, each.low_ms, each.high_ms] == pytest.approx(expected[each.model], rel=1e-9)
