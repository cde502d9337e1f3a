"""The contract that every selection of signature networks is tested against.

A plug-in's tests subclass :class:`SelectionContract` and name the selection; pytest then runs every test below on it::

    from latcast.testing.selection_contract import SelectionContract

    class TestMySelection(SelectionContract):
        selection_name = "myselection"

This module needs pytest and is imported by tests only.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from latcast.devices.signature_selection import SELECTIONS, SignatureSelection
from latcast.errors import TrainingError


def made_up_latencies(devices: int = 12, networks: int = 9, seed: int = 0) -> np.ndarray:
    """(devices, networks) milliseconds: speeds of devices times sizes of networks, with some of their own."""
    rng = np.random.default_rng(seed)
    speed, size = rng.normal(0, 0.7, devices), rng.normal(2, 1, networks)
    taste = rng.normal(0, 0.3, (devices, 2)) @ rng.normal(0, 1, (2, networks))
    latency_ms: np.ndarray = np.exp(speed[:, None] + size + taste + rng.normal(0, 0.05, (devices, networks)))
    return latency_ms


class SelectionContract:
    """What holds for any way to choose networks."""

    selection_name: ClassVar[str]
    nested: ClassVar[bool] = True
    """Whether the head of a longer signature is the shorter one."""

    @pytest.fixture
    def select(self) -> SignatureSelection:
        return SELECTIONS.get(self.selection_name)

    @pytest.mark.parametrize("size", [1, 2, 5, 9])
    def test_as_many_different_networks_as_asked_for(self, select: SignatureSelection, size: int) -> None:
        chosen = select(made_up_latencies(), size)

        assert len(chosen) == len(set(chosen)) == size
        assert all(type(index) is int and 0 <= index < 9 for index in chosen)

    @pytest.mark.parametrize("seed", [0, 1, 7])
    def test_the_same_seed_chooses_the_same_networks(self, select: SignatureSelection, seed: int) -> None:
        table = made_up_latencies()

        assert select(table, 4, seed) == select(table.copy(), 4, seed)

    def test_a_longer_signature_begins_with_the_shorter_one(self, select: SignatureSelection) -> None:
        if not self.nested:
            pytest.skip("this selection chooses each size anew")
        table = made_up_latencies()

        assert select(table, 6)[:3] == select(table, 3)

    def test_the_unit_of_time_does_not_matter(self, select: SignatureSelection) -> None:
        table = made_up_latencies()

        assert select(1024 * table, 5) == select(table, 5)

    def test_the_table_is_left_as_it_is(self, select: SignatureSelection) -> None:
        table = made_up_latencies()
        before = table.copy()

        select(table, 5)

        assert np.array_equal(table, before)

    @pytest.mark.parametrize("devices", [1, 2])
    def test_a_device_or_two_are_enough(self, select: SignatureSelection, devices: int) -> None:
        assert len(set(select(made_up_latencies(devices), 4))) == 4

    def test_networks_that_are_all_alike_are_no_hindrance(self, select: SignatureSelection) -> None:
        table = np.repeat(made_up_latencies()[:, :1], 6, axis=1)

        assert sorted(select(table, 6)) == [0, 1, 2, 3, 4, 5]

    @pytest.mark.parametrize("size", [0, -1, 10])
    def test_a_size_that_cannot_be_had_is_refused(self, select: SignatureSelection, size: int) -> None:
        with pytest.raises(TrainingError, match=rf"a signature of {size} networks was asked for; expected 1 to 9"):
            select(made_up_latencies(), size)

    def test_a_table_with_missing_cells_is_refused(self, select: SignatureSelection) -> None:
        table = made_up_latencies()
        table[2, 3] = np.nan

        with pytest.raises(TrainingError, match="complete table"):
            select(table, 3)
