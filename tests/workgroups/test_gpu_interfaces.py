"""Naming a device that is here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latcast.errors import MeasurementError, UnknownNameError
from latcast.workgroups.gpu_interfaces import GPU_INTERFACES, find_device, is_queried
from tests.workgroups.made_up_gpu import PROFILE, MadeUpInterface

SECOND = replace(PROFILE, title="Mali-G76 of a phone")


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> MadeUpInterface:
    found = MadeUpInterface((PROFILE, SECOND))
    monkeypatch.setattr(GPU_INTERFACES, "_targets", {"made-up": "nowhere:at_all"})
    monkeypatch.setattr(GPU_INTERFACES, "_loaded", {"made-up": found})
    return found


@pytest.mark.parametrize(("name", "index"), [("made-up", 0), ("made-up:0", 0), ("made-up:1", 1), ("made-up:mali", 1)])
def test_a_device_is_named_by_its_interface_its_number_or_a_part_of_its_title(
    two: MadeUpInterface, name: str, index: int
) -> None:
    assert find_device(name) == (two, index, (PROFILE, SECOND)[index])


@pytest.mark.parametrize("name", ["made-up:2", "made-up:adreno"])
def test_an_absent_device_is_an_error_that_lists_the_devices_here(two: MadeUpInterface, name: str) -> None:
    with pytest.raises(MeasurementError, match="made-up:0 is made-up GPU; made-up:1 is Mali-G76 of a phone"):
        find_device(name)


def test_an_interface_without_devices_says_what_to_install(monkeypatch: pytest.MonkeyPatch, two: MadeUpInterface) -> None:
    two._profiles = ()

    with pytest.raises(MeasurementError, match="made-up finds no device here; make one up"):
        find_device("made-up")


def test_an_unknown_interface_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="no GPU interface is called 'cuda'; known: litert, opencl, webgpu"):
        find_device("cuda:0")


@pytest.mark.parametrize(("name", "queried"), [("opencl", True), ("webgpu:1", True), ("opencl:mali", True), ("mi9", False)])
def test_a_device_of_this_machine_is_not_a_profile(name: str, queried: bool) -> None:
    assert is_queried(name) is queried
