"""The model of devices as the hub's, on real latencies of five runtimes of one machine, with a made-up pool."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from latcast.datasets import jsonlines
from latcast.devices.added_device import add_device
from latcast.devices.measured_networks import MeasuredNetwork, MeasuredNetworks
from latcast.errors import TrainingError
from latcast.hub import model as hub_model
from latcast.hub import refitting
from latcast.hub.browser import CHECK, SIGNATURE, served_networks
from latcast.hub.model import HubModel
from latcast.hub.refitting import held_out_error
from latcast.hub.scales import Observation
from latcast.records import Platform, Reference
from tests.devices.made_up_devices import fitted, networks, platforms, true_ms
from tests.hub.made_up import RUNTIMES

HELD_OUT = "xeon/mnn-3.6/cpu1/fp32"


@pytest.fixture(scope="module", autouse=True)
def pool() -> Iterator[None]:
    """In place of the model that comes with latcast."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hub_model, "load_device_model", fitted)
        yield


@pytest.fixture(scope="module")
def observed() -> list[Observation]:
    return [Observation(item.platform, item.reference, item.latency_ms or 0.0) for item in jsonlines.read(RUNTIMES)]


@pytest.fixture(scope="module")
def model(observed: list[Observation]) -> HubModel:
    """Without one runtime, and without the networks that it is checked by."""
    return HubModel.fit([item for item in observed if item.platform != HELD_OUT and item.reference.name not in CHECK])


def latencies(observed: list[Observation], names: tuple[str, ...]) -> dict[str, float]:
    return {
        item.reference.key: item.latency_ms for item in observed if item.platform == HELD_OUT and item.reference.name in names
    }


def test_new_networks_are_predicted_on_a_new_platform(observed: list[Observation], model: HubModel) -> None:
    actual = latencies(observed, CHECK)

    found = model.predict(list(served_networks().values()), latencies(observed, SIGNATURE))

    errors = [abs(found[key].latency_ms / value - 1) for key, value in actual.items()]
    assert np.mean(errors) < 0.3
    assert all(found[key].low_ms < found[key].latency_ms < found[key].high_ms for key in actual)


def test_a_platform_is_predicted_as_a_device_that_was_added_with_the_same_latencies(observed: list[Observation]) -> None:
    """Known networks take what was measured, and intervals are narrower near them."""
    measured = [Observation(HELD_OUT, networks()[place], float(true_ms()[0, place])) for place in range(0, 20, 4)]
    added = add_device(
        Platform.parse(HELD_OUT),
        MeasuredNetworks(tuple(MeasuredNetwork(item.reference, item.latency_ms, (item.latency_ms,), ()) for item in measured)),
        fitted(),
    ).predictor
    model = HubModel.fit([Observation("a/onnxruntime-1/cpu1/fp32", networks()[0], 1.0)])
    assert added.device is not None

    found = model.predict(networks(), {item.reference.key: item.latency_ms for item in measured}, HELD_OUT)

    assert len(found) == 20
    for key, forecast in model.by(added.device, found).items():
        assert astuple(found[key]) == pytest.approx(astuple(forecast), rel=0.01)
    for item in measured:
        assert found[item.reference.key].latency_ms == pytest.approx(item.latency_ms)


def test_a_model_survives_json(observed: list[Observation], model: HubModel) -> None:
    networks, measured = list(served_networks().values()), latencies(observed, SIGNATURE)

    again = HubModel.from_json(json.loads(json.dumps(model.to_json(), allow_nan=False)))

    for key, forecast in model.predict(networks, measured).items():
        assert again.predict(networks, measured)[key].latency_ms == pytest.approx(forecast.latency_ms, rel=1e-6)


def test_a_network_without_kernels_is_predicted_by_one_scale_factor(observed: list[Observation]) -> None:
    mystery = Reference("usc_nas", {"name": "net7"}, "net7")
    doubled = [
        Observation(name, mystery, 10.0 * scale)
        for name, scale in (("xeon/onnxruntime-1.31/cpu1/fp32", 1.0), ("b/c-1/cpu1/fp32", 2.0))
    ]
    model = HubModel.fit([*observed, *doubled])

    found = model.predict([mystery], latencies(observed, SIGNATURE))

    assert found == model.scales.forecasts([mystery.key], latencies(observed, SIGNATURE))
    assert list(found) == [mystery.key]


def test_a_network_without_end_costs_a_fit_only_its_time_limit(
    observed: list[Observation], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert threading.current_thread() is threading.main_thread()
    monkeypatch.setattr(hub_model, "LONGEST_BUILD_S", 0.1)
    real = hub_model.network_kernels
    endless = Reference("resnet", {"endless": True}, "endless")

    def kernels(reference: Reference, rules: Any) -> Any:
        if reference.key == endless.key:
            while True:
                time.sleep(0.01)
        return real(reference, rules)

    monkeypatch.setattr(hub_model, "network_kernels", kernels)

    model = HubModel.fit([*observed, Observation(HELD_OUT, endless, 5.0)])

    assert endless.key not in model.networks.row
    assert endless.key in model.networks.unknown


def test_a_stranger_s_network_is_never_built_to_answer(model: HubModel, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(hub_model, "_build_kernels", lambda reference: asked.append(reference.name) or ())
    stranger = Reference("resnet", {"depths": [10**9]}, "stranger")

    assert stranger.key not in model.predict([stranger], {next(iter(model.networks.row)): 5.0})
    assert asked == []


def test_no_file_is_opened_because_a_stranger_names_it(observed: list[Observation], tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"never read")
    named = Reference("file", {"path": str(file), "sha256": "ab" * 32}, "model")

    model = HubModel.fit([*observed, Observation(HELD_OUT, named, 5.0)])

    assert named.key not in model.networks.row


def test_more_latencies_of_a_platform_change_nothing_of_the_others(observed: list[Observation], model: HubModel) -> None:
    others = [item for item in observed if item.platform != HELD_OUT and item.reference.name not in CHECK]
    more = [item for item in observed if item.platform == HELD_OUT and item.reference.name in SIGNATURE]

    again = HubModel.fit([*others, *more])

    kept = {each.name: state for each, state in zip(again.platforms, again.states, strict=True)}
    assert HELD_OUT in kept
    for each, state in zip(model.platforms, model.states, strict=True):
        assert kept[each.name] == pytest.approx(state)


def test_a_pool_that_holds_the_judged_devices_does_not_flatter_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six devices of the pool, two of each chip, are uploaded as they are; kept in the pool they would be predicted better."""

    def chip(device: str, *about: str) -> str:
        return f"chip{int(device[1:]) // 2}"

    monkeypatch.setattr(hub_model, "silicon", chip)
    monkeypatch.setattr(refitting, "silicon", chip)
    observed = [
        Observation(each.name, networks()[place], float(np.exp(log_ms)))
        for each in platforms()[2:8]
        for place, log_ms in zip(each.networks, each.log_ms, strict=True)
    ]
    left: list[set[str]] = []
    real = HubModel.without

    def without(model: HubModel, devices: set[str]) -> HubModel:
        found = real(model, devices)
        left.append({chip(each.name.split("/")[0]) for each in found.pool.platforms} & {chip(device) for device in devices})
        return found

    monkeypatch.setattr(HubModel, "without", without)
    error, _ = held_out_error(observed, HubModel.fit(observed))
    monkeypatch.setattr(HubModel, "without", lambda model, devices: model)
    leaking, _ = held_out_error(observed, HubModel.fit(observed))

    assert left == [set(), set(), set()]
    assert error is not None
    assert leaking is not None
    assert leaking["mape"] < error["mape"]


def test_states_of_another_basis_are_fitted_again(model: HubModel) -> None:
    content = model.to_json()
    content["states"] = content["states"][:-16]

    with pytest.raises(TrainingError, match="fit again"):
        HubModel.from_json(content)
