"""``latcast device predict --device-model``: a fitted model of known platforms in place of their latencies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from latcast.cli.options import milliseconds_of
from latcast.datasets import jsonlines
from latcast.devices.latency_table import LatencyTable
from latcast.devices.shared_terms_file import save_shared_terms
from latcast.errors import DatasetError
from latcast.spaces.pytorchcv import reference_of
from tests.cli.conftest import Latcast
from tests.devices.made_up_phones import PHONES, fitted, networks, true_ms
from tests.devices.runtimes import records

NEW = f"phone{PHONES - 1}/tflite-2.10/1large/fp32"


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Eight networks on a phone that the model does not know."""
    columns = fitted().model.signature(8, NEW)
    given = [fitted().model.networks[column] for column in columns]
    latencies = dict(zip(networks(), true_ms(PHONES - 1, "fp32"), strict=True))
    table = LatencyTable((NEW,), tuple(given), np.array([[latencies[network] for network in given]]))
    jsonlines.write(tmp_path / "few.jsonl", records(table))
    return tmp_path / "few.jsonl"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return save_shared_terms(fitted().model, tmp_path / "phones.safetensors")


def test_known_networks_are_predicted_by_a_models_file(latcast: Latcast, few: Path, file: Path) -> None:
    found = latcast("device", "predict", "--measured", few, "--device-model", file, "--json").json

    assert (found["platform"], found["measured"], found["known_platforms"]) == (NEW, 8, 2 * PHONES - 2)
    assert len(found["predictions"]) == len(fitted().model.networks)
    assert all(each["low_ms"] < each["latency_ms"] < each["high_ms"] for each in found["predictions"])
    assert sum(each["measured_ms"] is not None for each in found["predictions"]) == 8


def test_a_model_and_known_latencies_are_one_too_many(latcast: Latcast, few: Path, file: Path) -> None:
    found = latcast("device", "predict", "--measured", few, "--device-model", file, "--data", few)

    assert found.code == 2
    assert "leave out --data" in found.err


def test_a_file_that_is_no_model_is_refused_in_one_line(latcast: Latcast, few: Path) -> None:
    found = latcast("device", "predict", "--measured", few, "--device-model", few)

    assert found.code == 1
    assert "no model of known platforms" in found.err


def test_sizes_without_networks_that_have_them_are_a_wrong_call(latcast: Latcast, few: Path, file: Path) -> None:
    found = latcast("device", "predict", "--measured", few, "--device-model", file, "--shape", "input=1,3,192,192")

    assert found.code == 2
    assert "name the networks that have these sizes" in found.err


def test_platforms_of_different_units_are_not_scaled_alike() -> None:
    networks_ms = {reference_of("resnet18"): 60.0, reference_of("mobilenetv2_w1"): 20.0}
    in_seconds = {network: latency_ms / 1000 for network, latency_ms in networks_ms.items()}
    latencies = {"a/tflite-2.10/1large/fp32": networks_ms, "b/tflite-2.10/1large/fp32": in_seconds}
    with pytest.raises(DatasetError, match=r"hardly of one unit \(those of a/.* ms, those of b/.* s\)"):
        milliseconds_of("", latencies, "both.jsonl")
