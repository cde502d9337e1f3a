"""Choosing signature networks from tables as they come."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.devices import signature_choice
from latcast.devices.latency_table import LatencyTable
from latcast.devices.signature_choice import choose_signature
from latcast.errors import TrainingError, UnknownNameError
from latcast.records import Reference
from tests.devices.runtimes import made_up_devices

MYSTERY = Reference("usc_nas", {"name": "net7"}, "net7")


def with_mystery() -> LatencyTable:
    """Five networks that can be built here, and one of which only the name is known."""
    table = made_up_devices().columns(range(5))
    return LatencyTable(table.platforms, (*table.networks, MYSTERY), np.hstack([table.latency_ms, np.full((16, 1), 3.0)]))


def test_networks_come_with_their_typical_latency() -> None:
    table = made_up_devices()

    found = choose_signature(table, 3)

    for network, typical_ms in zip(found.networks, found.typical_ms, strict=True):
        assert typical_ms == np.median(table.latency_ms[:, table.networks.index(network)])


def test_what_was_not_measured_everywhere_is_left_out() -> None:
    table = made_up_devices()
    table = LatencyTable(table.platforms, table.networks, table.latency_ms.copy())
    table.latency_ms[:9, 4] = np.nan

    found = choose_signature(table, 14)

    assert len(found.table.platforms) == 16
    assert table.networks[4] not in found.networks


def test_only_networks_that_can_be_built_where_they_are_to_be_run() -> None:
    assert MYSTERY in choose_signature(with_mystery(), 6).networks
    assert MYSTERY not in choose_signature(with_mystery(), 5, buildable=True).networks
    with pytest.raises(
        TrainingError, match="5 networks were measured on every one of 16 platforms, too few for a signature of 6"
    ):
        choose_signature(with_mystery(), 6, buildable=True)


def test_names_alone_cannot_be_run_on_another_device() -> None:
    with pytest.raises(TrainingError, match="none of the 1 known networks can be built here"):
        choose_signature(with_mystery().columns([5]), 1, buildable=True)


def test_of_many_networks_some_are_drawn_that_most_platforms_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signature_choice, "MOST_CANDIDATES", 6)
    table = made_up_devices()
    table = LatencyTable(table.platforms, table.networks, table.latency_ms.copy())
    table.latency_ms[0, :9] = np.nan

    found = choose_signature(table, 3)

    assert found.table.networks == table.networks[9:]


def test_another_seed_draws_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signature_choice, "MOST_CANDIDATES", 6)

    drawn = {choose_signature(made_up_devices(), 2, seed=seed).table.networks for seed in range(5)}

    assert len(drawn) > 1


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no signature selection is called 'magic'"):
        choose_signature(made_up_devices(), 3, method="magic")
