"""One model of all platforms: a new device from a few networks, any network predicted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.devices.latency_table import LatencyTable
from latcast.devices.shared_terms import SharedTerms
from latcast.devices.shared_terms_fit import fit_shared_terms, usable_part
from latcast.errors import DatasetError, TrainingError
from latcast.records import Reference
from latcast.spaces.catalogue import build
from tests.devices.made_up_phones import PHONES, UNSEEN, fitted, networks, phones, true_ms

NEW = f"phone{PHONES - 1}/tflite-2.10/1large/fp32"


@pytest.fixture(scope="module")
def model() -> SharedTerms:
    return fitted().calibrated()


def truth(factor: float = 1.0) -> dict[str, float]:
    latencies = factor * true_ms(PHONES - 1, "fp32")
    return {network.key: float(value) for network, value in zip(networks(), latencies, strict=True)}


def measured(model: SharedTerms, count: int = 8, factor: float = 1.0) -> dict[Reference, float]:
    return {model.networks[column]: truth(factor)[model.networks[column].key] for column in model.signature(count, NEW)}


def test_networks_that_no_platform_ran_are_predicted_on_a_phone_that_nobody_measured(model: SharedTerms) -> None:
    wanted = [(network.key, network) for network in networks()[::UNSEEN]]

    found = model.predict(NEW, measured(model), wanted).forecasts

    errors = [abs(each.latency_ms / truth()[each.name] - 1) for each in found]
    assert np.mean(errors) < 0.1
    assert not any(each.known for each in found)
    assert all(each.low_ms < each.latency_ms < each.high_ms for each in found)


def test_networks_that_known_platforms_ran_are_predicted_more_surely(model: SharedTerms) -> None:
    given = measured(model)
    wanted = [(network.key, network) for network in model.networks if network not in given]

    found = model.predict(NEW, given, wanted).forecasts

    assert np.mean([abs(each.latency_ms / truth()[each.name] - 1) for each in found]) < 0.08
    assert all(each.known for each in found)


def test_a_graph_is_predicted_as_the_reference_it_was_built_from(model: SharedTerms) -> None:
    unseen = networks()[UNSEEN]

    [by_reference, by_graph] = model.predict(NEW, measured(model), [("a", unseen), ("b", build(unseen))]).forecasts

    assert by_graph.latency_ms == pytest.approx(by_reference.latency_ms)


def test_a_phone_twice_as_slow_takes_twice_as_long(model: SharedTerms) -> None:
    wanted = [(network.key, network) for network in networks()[:10]]

    once, twice = (model.predict(NEW, measured(model, factor=factor), wanted).forecasts for factor in (1.0, 2.0))

    assert [b.latency_ms / a.latency_ms for a, b in zip(once, twice, strict=True)] == pytest.approx([2.0] * 10)


def test_a_measured_network_that_no_platform_ran_makes_its_own_forecast_sure(model: SharedTerms) -> None:
    unseen = networks()[UNSEEN]
    known = measured(model)
    wanted = [("unseen", unseen)]

    [before] = model.predict(NEW, known, wanted).forecasts
    [after] = model.predict(NEW, {**known, unseen: truth()[unseen.key]}, wanted).forecasts

    assert after.measured_ms == truth()[unseen.key]
    assert after.high_ms / after.low_ms < before.high_ms / before.low_ms
    assert abs(np.log(after.latency_ms / truth()[unseen.key])) <= abs(np.log(before.latency_ms / truth()[unseen.key])) + 0.005


def test_the_nearest_known_platform_is_named(model: SharedTerms) -> None:
    row = model.platforms.index("phone2/tflite-2.10/1large/int8")
    given = {network: float(np.exp(value)) for network, value in zip(model.networks, model.log_ms[row], strict=True)}

    found = model.predict("other/tflite-2.10/1large/int8", given, [("first", networks()[0])])

    assert found.nearest == "phone2/tflite-2.10/1large/int8"
    assert found.distance == pytest.approx(0, abs=1e-6)


def test_a_device_unlike_all_others_is_said_to_be_so(model: SharedTerms) -> None:
    given = measured(model, 10)
    rng = np.random.default_rng(0)
    strange = {network: value * float(np.exp(rng.normal(0, 1.0))) for network, value in given.items()}

    ordinary, odd = (model.predict(NEW, each, [("first", networks()[0])]).warnings for each in (given, strange))

    assert not any("unlike" in text for text in ordinary)
    assert any("unlike all 8 known platforms" in text for text in odd)


def test_little_or_unknown_measurements_are_warned_about(model: SharedTerms) -> None:
    unseen = networks()[UNSEEN]

    warnings = model.predict(NEW, {unseen: truth()[unseen.key]}, [("unseen", unseen)]).warnings

    assert any(text.startswith("1 measured networks say little") for text in warnings)
    assert any("no known platform ran any" in text for text in warnings)


def test_a_device_left_out_takes_all_its_platforms_along(model: SharedTerms) -> None:
    left = model.without_devices(["phone0", "phone3"])

    assert {name.split("/")[0] for name in left.platforms} == {"phone1", "phone2"}
    assert left.log_ms.shape == (4, len(model.networks))
    row = model.platforms.index(left.platforms[0])
    assert left.log_ms[0].tolist() == model.log_ms[row].tolist()


def test_intervals_are_calibrated_on_devices_left_out(model: SharedTerms) -> None:
    assert model.reach.predictions > 100
    assert fitted().model.reach.predictions == 0
    assert model.reach.known > 0
    assert model.reach.standardised_residual > 0


def test_what_cannot_be_predicted_is_refused(model: SharedTerms) -> None:
    given = measured(model)
    with pytest.raises(TrainingError, match="0 measured networks"):
        model.predict(NEW, {}, [("first", networks()[0])])
    with pytest.raises(TrainingError, match="0 to predict"):
        model.predict(NEW, given, [])
    with pytest.raises(TrainingError, match=r"-1\.0 ms"):
        model.predict(NEW, {networks()[0]: -1.0}, [("first", networks()[0])])
    with pytest.raises(DatasetError, match="are not known"):
        model.predict(NEW, given, [("nas", Reference("usc_nas", {"name": "NAS0"}, "NAS0"))])


def test_what_cannot_be_learned_from_is_left_out_or_refused() -> None:
    table = phones()
    extra = LatencyTable(
        (*table.platforms, "odd/nobody-1.0/cpu1/fp32"),
        (*table.networks, Reference("usc_nas", {"name": "NAS0"}, "NAS0")),
        np.pad(table.latency_ms, ((0, 1), (0, 1)), constant_values=1.0),
    )

    found = usable_part(extra)

    assert found.platforms == table.platforms
    assert found.networks == table.networks
    with pytest.raises(TrainingError, match="found 2 platforms"):
        usable_part(table.rows([0, 1]))
    with pytest.raises(TrainingError, match="found 0 platforms"):
        usable_part(extra.columns([len(table.networks)]))


def test_accidents_among_known_latencies_are_drawn_in() -> None:
    table = phones().rows([0, 2, 4]).columns(range(1, 21))
    spoiled = table.latency_ms.copy()
    spoiled[1, 3] *= 4

    found = fit_shared_terms(replace(table, latency_ms=spoiled), calibrate=False).model

    assert found.log_ms[1, 3] == pytest.approx(np.log(table.latency_ms[1, 3]), abs=0.35)
    assert np.delete(found.log_ms[1], 3) == pytest.approx(np.delete(np.log(table.latency_ms[1]), 3), abs=0.06)
