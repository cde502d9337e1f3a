"""``latcast device adapt``: what it refuses at once, and the whole way for real."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Latcast


def test_a_target_that_is_none_is_refused_before_anything_is_measured(latcast: Latcast) -> None:
    assert "found the target 'soon', expected such as ±10=95" in latcast("device", "adapt", "--target", "soon").reason


def test_a_pool_that_does_not_exist_is_refused(latcast: Latcast, tmp_path: Path) -> None:
    assert "to take predictors from" in latcast("device", "adapt", "--pool", tmp_path / "nowhere").reason


def test_an_unknown_sampler_is_a_wrong_call(latcast: Latcast) -> None:
    found = latcast("device", "adapt", "--sampler", "nosuch")

    assert found.code == 2
    assert "'nosuch' is none of adaptive, prior, random, vae" in " ".join(found.err.split())


@pytest.mark.slow
def test_with_an_empty_pool_it_says_so_and_profiles_from_scratch(latcast: Latcast, tmp_path: Path) -> None:
    (tmp_path / "pool").mkdir()

    found = latcast("device", "adapt", "--pool", tmp_path / "pool", "--budget", "0.5", "-o", tmp_path / "b.zip", "--json")

    assert found.json["unlike"] is True
    assert "profiled from scratch instead" in found.err
    assert {each["way"] for each in found.json["transfer"].values()} == {"from scratch"}


@pytest.mark.slow
def test_a_known_runtime_is_transferred_to_another_number_of_threads(latcast: Latcast, bundle: Path, tmp_path: Path) -> None:
    found = latcast(
        "device", "adapt", "--threads", "2", "--pool", bundle.parent, "--budget", "0.5", "-o", tmp_path / "b.zip", "--json"
    )

    document = found.json
    assert document["platform"].endswith("/cpu2/fp32")
    assert document["pool"] == ["local/onnxruntime-1.31/cpu1/fp32"]
    assert document["transfer"]["conv"]["similar"][0]["platform"] == "local/onnxruntime-1.31/cpu1/fp32"
    # As in the table of docs/adapt.md: most kernels are timed inside networks.
    assert document["learn_from"] == "operators"
    alone, inside = (int(found) for found in re.findall(r"(\d+) (?:kernels timed alone|timed inside)", document["trained_on"]))
    assert inside > alone > 0
    assert document["kernel_errors"]["conv"]["mape"] > 0
