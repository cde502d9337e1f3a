"""From nothing to a predictor of this machine, for real: about a quarter of a minute."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.datasets.store import Store
from tests.cli.conftest import Latcast


@pytest.mark.slow
def test_a_profile_is_predicted_with_listed_and_judged(latcast: Latcast, home: Path, tmp_path: Path) -> None:
    found = latcast("profile", "--budget", "0.25", "--seed", "3", "--json")

    document = found.json
    platform, bundle, store = document["platform"], Path(document["bundle"]), Path(document["store"])
    assert bundle.parent == home / "bundles"
    assert document["learn_from"] == "operators"
    assert any(line.startswith("latcast: timing networks") for line in found.err.splitlines())

    [prediction] = latcast("predict", "mobilenet_v2", "--on", "local/onnxruntime", "--json").json["predictions"]
    assert prediction["platform"] == platform
    assert 0 < prediction["low_ms"] < prediction["latency_ms"] < prediction["high_ms"]

    [listed] = latcast("platforms", "--json").json
    assert (listed["id"], listed["mape"]) == (platform, document["mape"])

    assert "it was trained on " in latcast("evaluate", bundle, store).reason
    judged = latcast("evaluate", _trained_on_half(latcast, store, tmp_path), store, "--json").json
    assert judged["networks"] >= 1
    assert judged["mape"] > 0


def _trained_on_half(latcast: Latcast, store: Path, folder: Path) -> Path:
    """A bundle that knows nothing of one of the store's spaces."""
    with Store(store) as kept:
        spaces = sorted({measurement.reference.space for measurement in kept.measurements()} - {"random_mixed"})
    assert latcast("train", store, "--leave-out", spaces[0], "-o", folder / "half.zip").code == 0
    return folder / "half.zip"


@pytest.mark.slow
def test_a_second_profile_adds_to_the_first(latcast: Latcast, tmp_path: Path) -> None:
    store = tmp_path / "kept.sqlite"
    arguments = ("profile", "--budget", "0.2", "--learn-from", "networks", "--store", store, "-o", tmp_path / "b.zip", "--json")

    first = latcast(*arguments).json["measurements"]
    second = latcast(*arguments).json["measurements"]

    assert second > first
    with Store(store) as kept:
        assert len(kept) == second


@pytest.mark.slow
def test_kernels_timed_alone_in_rounds_make_a_bundle_that_says_how_well_each_type_is_known(
    latcast: Latcast, tmp_path: Path
) -> None:
    store = tmp_path / "kernels.sqlite"

    document = latcast(
        "profile", "--sampler", "adaptive", "--target-error", "3", "--budget", "0.6", "--store", store, "-o", tmp_path / "b.zip",
        "--json",
    ).json  # fmt: skip

    assert (document["learn_from"], document["sampler"]) == ("kernels", "adaptive")
    assert document["kernel_errors"]["conv"]["kernels"] >= 2
    assert document["kernel_errors"]["conv"]["mape"] > 0
    with Store(store) as kept:
        spaces = {reference.space for reference in kept.references(space="kernel/")}
    assert {"kernel/conv", "kernel/depthwise_conv", "kernel/linear", "kernel/conv_transpose", "kernel/resize"} <= spaces


def test_a_sampler_is_refused_where_networks_are_learned_from(latcast: Latcast) -> None:
    outcome = latcast("profile", "--learn-from", "networks", "--sampler", "random")

    assert outcome.code == 2
    assert "use --learn-from kernels" in outcome.err


def test_a_store_that_cannot_be_made_is_one_line(latcast: Latcast) -> None:
    assert latcast("profile", "--store", "nowhere/x.sqlite").reason == (
        "cannot make the store nowhere/x.sqlite: there is no folder nowhere"
    )
