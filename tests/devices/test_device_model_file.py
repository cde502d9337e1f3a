from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latcast.devices.device_model import Arbitration, DeviceModel, Weighing
from latcast.devices.device_model_file import load_device_model
from latcast.errors import DatasetError
from shipping.files import save_device_model
from tests.devices.made_up_devices import features, fitted, networks, platforms

NEW, KNOWN = Weighing({"learned": 0.75, "tied": 0.25}, 0.5, 1.5, 0.5), Weighing({"likeness": 1.0}, 1.0, 2.0, 3.0)
ARBITRATION = {"cpu": (Arbitration(3, NEW, KNOWN),)}


@pytest.fixture(scope="module")
def model() -> DeviceModel:
    return replace(fitted(), arbitration=ARBITRATION, signature=networks()[:3])


@pytest.fixture(scope="module")
def file(model: DeviceModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_device_model(model, tmp_path_factory.mktemp("model") / "devices.safetensors")


def test_a_model_that_was_written_forecasts_the_same(model: DeviceModel, file: Path) -> None:
    again = load_device_model(file)

    new, chosen = platforms()[0], np.arange(6)
    found = []
    for each in (model, again):
        described = each.described(features())
        forecast = each.forecast("cpu", new.covariates, described.rows(chosen), new.log_ms[chosen], new.silicon)
        found.append(described.log_ms(forecast))
    (log_ms, deviation), (log_ms_again, deviation_again) = found
    assert log_ms_again == pytest.approx(log_ms, rel=1e-3)
    # The weights of members that rest on rows of latencies feel their single precision.
    assert deviation_again == pytest.approx(deviation, rel=1e-2)


def test_what_is_known_of_platforms_is_kept_with_their_latencies(model: DeviceModel, file: Path) -> None:
    again = load_device_model(file)

    assert [(each.name, each.kind, each.silicon) for each in again.platforms] == [
        (each.name, each.kind, each.silicon) for each in model.platforms
    ]
    assert [dict(each.covariates) for each in again.platforms] == [dict(each.covariates) for each in model.platforms]
    for mine, theirs in zip(again.platforms, model.platforms, strict=True):
        assert mine.networks.tolist() == theirs.networks.tolist()
        assert mine.log_ms == pytest.approx(theirs.log_ms, abs=6e-4)
    assert again.known_terms == pytest.approx(model.known_terms, rel=1e-6)
    assert again.known_basis == pytest.approx(model.known_basis, rel=1e-5, abs=1e-5)
    assert again.arbitration == ARBITRATION
    assert [each.key for each in again.signature] == [each.key for each in networks()[:3]]


@pytest.mark.parametrize("kept", [0, 20, 2000, -10])
def test_a_damaged_file_is_refused_in_a_sentence(file: Path, tmp_path: Path, kept: int) -> None:
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(file.read_bytes()[:kept])

    with pytest.raises(DatasetError):
        load_device_model(damaged)


def test_arrays_of_another_model_are_refused(model: DeviceModel, tmp_path: Path) -> None:
    wrong = save_device_model(replace(model, states=model.states[:, :-1]), tmp_path / "wrong.safetensors")

    with pytest.raises(DatasetError, match="found no model of devices"):
        load_device_model(wrong)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"cannot read .*nowhere"):
        load_device_model(tmp_path / "nowhere")
