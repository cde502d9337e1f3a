"""A device from a few of its latencies."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from latcast.datasets import jsonlines
from latcast.devices import new_device
from latcast.devices.latency_table import LatencyTable
from latcast.devices.new_device import KnownDevices, measured_latencies
from latcast.errors import DatasetError, TrainingError
from latcast.records import Measurement, Reference
from latcast.spaces.catalogue import build, model
from tests.devices.runtimes import HELD_OUT, made_up_devices, records, runtimes, without

NEW = 3
"""The made-up device that is taken for a new one."""


@pytest.fixture(scope="module")
def known() -> KnownDevices:
    """Made-up devices without the new one, and without the last five networks."""
    table = made_up_devices()
    return KnownDevices.learn(table.rows([row for row in range(16) if row != NEW]).columns(range(10)))


def measured(count: int = 5, factor: float = 1.0) -> dict[Reference, float]:
    table = made_up_devices()
    return {table.networks[column]: factor * float(table.latency_ms[NEW, column]) for column in range(count)}


def truth() -> dict[str, float]:
    table = made_up_devices()
    return {network.name: float(value) for network, value in zip(table.networks, table.latency_ms[NEW], strict=True)}


def test_networks_that_known_devices_ran_are_predicted(known: KnownDevices) -> None:
    wanted = [(network.name, network) for network in made_up_devices().networks[5:10]]

    found = known.predict(measured(), wanted).forecasts

    errors = [abs(each.latency_ms / truth()[each.name] - 1) for each in found]
    assert np.mean(errors) < 0.15
    assert all(each.low_ms < each.latency_ms < each.high_ms for each in found)
    assert all(each.known and each.measured_ms is None for each in found)


def test_networks_that_nobody_ran_are_predicted_from_references_and_graphs_alike(known: KnownDevices) -> None:
    networks = made_up_devices().networks[10:]
    wanted = [(network.name, network) for network in networks]

    by_reference = known.predict(measured(10), wanted).forecasts
    by_graph = known.predict(measured(10), [(name, build(network)) for name, network in wanted]).forecasts

    errors = [abs(each.latency_ms / truth()[each.name] - 1) for each in by_reference]
    assert np.mean(errors) < 0.25
    assert not any(each.known for each in by_reference)
    assert [each.latency_ms for each in by_graph] == pytest.approx([each.latency_ms for each in by_reference])


def test_a_device_twice_as_slow_takes_about_twice_as_long(known: KnownDevices) -> None:
    wanted = [(network.name, network) for network in made_up_devices().networks[5:]]

    once, twice = (known.predict(measured(factor=factor), wanted).forecasts for factor in (1.0, 2.0))

    assert [b.latency_ms / a.latency_ms for a, b in zip(once, twice, strict=True)] == pytest.approx([2.0] * 10, rel=0.1)


def test_a_measured_network_keeps_what_was_measured_beside_the_forecast(known: KnownDevices) -> None:
    network = made_up_devices().networks[0]

    [found] = known.predict(measured(), [(network.name, network)]).forecasts

    assert found.measured_ms == truth()[network.name]
    assert found.latency_ms == pytest.approx(found.measured_ms, rel=0.05)


def test_a_network_that_no_known_device_ran_may_be_measured_too(known: KnownDevices) -> None:
    table = made_up_devices()
    given = {table.networks[column]: float(table.latency_ms[NEW, column]) for column in (0, 1, 2, 12)}

    found = known.predict(given, [(table.networks[12].name, table.networks[12])]).forecasts[0]

    assert not found.known
    assert found.latency_ms == pytest.approx(truth()[found.name], rel=0.1)


def test_more_measured_networks_make_narrower_intervals(known: KnownDevices) -> None:
    wanted = [(network.name, network) for network in made_up_devices().networks[9:]]

    def widths(count: int) -> float:
        return float(np.mean([np.log(each.high_ms / each.low_ms) for each in known.predict(measured(count), wanted).forecasts]))

    assert widths(8) < widths(3)


def test_a_like_device_gives_no_warning_and_names_the_nearest(known: KnownDevices) -> None:
    found = known.predict(measured(), [("x", made_up_devices().networks[9])])

    assert found.warnings == ()
    assert found.nearest in known.table.platforms
    assert found.distance < 2 * found.usual_distance


def test_a_device_unlike_all_is_said_to_be_so(known: KnownDevices) -> None:
    odd = {network: value * (10.0 if index % 2 else 0.1) for index, (network, value) in enumerate(measured().items())}

    found = known.predict(odd, [("x", made_up_devices().networks[9])])

    assert found.distance > 2 * found.usual_distance
    [warning] = found.warnings
    assert warning.startswith(f"this device is unlike all 15 known ones: the nearest, {found.nearest}, is ")


def test_two_measured_networks_are_said_to_be_few(known: KnownDevices) -> None:
    [warning] = known.predict(measured(2), [("x", made_up_devices().networks[9])]).warnings

    assert warning == "2 measured networks say little beyond how fast a device is; measure 5 to 10"


def test_a_network_of_kinds_of_kernels_that_no_known_network_has_is_said() -> None:
    table = made_up_devices().rows(range(4))
    convolutional = [index for index, network in enumerate(table.networks) if "vit" not in network.name]
    known = KnownDevices.learn(table.columns(convolutional[:8]))

    found = known.predict(measured(), [("vit", model("deit_tiny_16")), ("x", table.networks[convolutional[9]])])

    said = [warning for warning in found.warnings if "kinds that no known network has" in warning]
    assert len(said) == 1
    assert re.match(
        r"vit: \d+ % of it are kernels of kinds that no known network has \(.*softmax.*\), estimated like all others", said[0]
    )


def test_with_few_known_devices_the_intervals_are_said_not_to_be_calibrated() -> None:
    table = without(runtimes(), HELD_OUT)
    known = KnownDevices.learn(table)
    row = runtimes().latency_ms[runtimes().platforms.index(HELD_OUT)]
    given = {network: float(value) for network, value in list(zip(runtimes().networks, row, strict=True))[:10]}

    found = known.predict(given, [(network.name, network) for network in table.networks])

    assert "the intervals are not calibrated: that takes at least 8 known platforms, here are 4" in found.warnings
    assert {each.level for each in found.forecasts} == {None}


def test_missing_cells_are_no_hindrance() -> None:
    table = made_up_devices()
    values = table.latency_ms.copy()
    values[np.random.default_rng(0).uniform(size=values.shape) < 0.3] = np.nan
    known = KnownDevices.learn(LatencyTable(table.platforms, table.networks, values).rows([*range(NEW), *range(NEW + 1, 16)]))

    found = known.predict(measured(), [(network.name, network) for network in table.networks[5:]]).forecasts

    assert np.mean([abs(each.latency_ms / truth()[each.name] - 1) for each in found]) < 0.12


def test_networks_of_which_only_names_are_known_are_left_out_of_learning() -> None:
    mystery = Reference("usc_nas", {"name": "net7"}, "net7")
    table = made_up_devices().rows(range(4))
    wider = LatencyTable(
        table.platforms, (*table.networks[:4], mystery), np.hstack([table.latency_ms[:, :4], np.full((4, 1), 3.0)])
    )
    known = KnownDevices.learn(wider)

    assert mystery not in known.table.networks
    assert len(known.table.networks) == 4
    with pytest.raises(DatasetError, match="the kernels of 'net7' are not known: Li et al"):
        known.predict(measured(), [("net7", mystery)])


def test_of_a_large_table_measured_networks_are_always_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_device, "MOST_NETWORKS", 5)
    table = made_up_devices().rows(range(4))
    needed = {table.networks[column].key for column in (2, 14)}

    known = KnownDevices.learn(table, needed=needed)

    assert len(known.table.networks) == 5
    assert needed <= {network.key for network in known.table.networks}


@pytest.mark.parametrize(("rows", "columns"), [(2, 5), (5, 2)])
def test_a_table_too_small_to_learn_from_is_refused(rows: int, columns: int) -> None:
    with pytest.raises(TrainingError, match=f"{rows} known platforms and {columns} networks .* expected at least three of each"):
        KnownDevices.learn(made_up_devices().rows(range(rows)).columns(range(columns)))


def test_without_measurements_there_is_nothing_to_predict_from(known: KnownDevices) -> None:
    with pytest.raises(TrainingError, match="0 measured networks and 1 to predict"):
        known.predict({}, [("x", model("squeezenet1_1"))])


class TestMeasuredLatencies:
    def test_are_those_of_the_only_platform(self, tmp_path: Path) -> None:
        table = made_up_devices().rows([NEW]).columns(range(3))
        jsonlines.write(tmp_path / "few.jsonl", records(table))

        [(platform, found)] = measured_latencies(tmp_path / "few.jsonl").items()

        assert platform == f"made{NEW}/tflite-2.10/cpu1/fp32"
        assert {reference.name: value for reference, value in found.items()} == pytest.approx(
            {network.name: truth()[network.name] for network in table.networks}
        )

    def test_are_those_of_all_platforms_or_of_the_one_that_is_named(self, tmp_path: Path) -> None:
        table = made_up_devices().rows([0, 1]).columns(range(3))
        file = tmp_path / "two.jsonl"
        jsonlines.write(file, records(table))

        assert list(measured_latencies(file)) == list(table.platforms)
        assert list(measured_latencies(file, "made1/tflite")) == [table.platforms[1]]
        with pytest.raises(DatasetError, match=r"two\.jsonl holds no measurements of made2"):
            measured_latencies(file, "made2")

    def test_failed_measurements_alone_are_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "failed.jsonl"
        jsonlines.write(file, [Measurement(HELD_OUT, model("squeezenet1_1"), error="out of memory")])

        with pytest.raises(DatasetError, match="no measurement of a network that succeeded"):
            measured_latencies(file)
