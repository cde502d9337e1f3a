"""How much of each size of memory a program can count on, and what is said where it does not fit."""

from __future__ import annotations

import os

import pytest

from latcast.chips.chip_table import chips, devices
from latcast.chips.device_memory import memory_shortage, usable_memory_gb


def test_an_app_counts_on_most_of_a_phones_memory() -> None:
    assert usable_memory_gb("Galaxy S23", chips()["sm8550"]) == pytest.approx({8: 4.8})
    assert usable_memory_gb("raspberry-pi-4", None) == pytest.approx({1: 0.6, 2: 1.2, 4: 2.4, 8: 4.8})


def test_the_memory_of_a_graphics_card_is_its_own() -> None:
    assert usable_memory_gb("rtx-4090", chips()["rtx-4090"]) == {24: 24}


def test_a_device_does_not_take_the_sizes_of_others_with_its_chip() -> None:
    assert usable_memory_gb("mac-m4", chips()["apple-m4"]) == pytest.approx({16: 9.6, 24: 14.4, 32: 19.2})
    assert usable_memory_gb("iPad Pro M4", chips()["apple-m4"]) == {}


def test_a_size_that_the_user_states_is_the_only_one() -> None:
    assert usable_memory_gb("MacBook Air M2", chips()["apple-m2"], "macbook air m2 16gb") == pytest.approx({16: 9.6})
    assert usable_memory_gb("rtx-3060", chips()["rtx-3060"], "RTX 3060 8 GB") == {8: 8}


def test_the_memory_of_this_machine_is_read() -> None:
    (installed_gb,) = usable_memory_gb("local/llama.cpp/cpu1/unstated", None, "local/llama.cpp/cpu1/unstated")
    assert installed_gb == pytest.approx(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, abs=0.1)


@pytest.mark.parametrize(
    ("takes_gb", "usable", "said"),
    [
        (4, {8: 4.8}, ()),
        (9, {}, ()),
        (6, {8: 4.8}, ("tight", "4.8 GB")),
        (7, {8: 4.8, 16: 9.6}, ("8 or 16 GB", "needs 16 GB")),
        (0.37, {0.5: 0.3}, ("tight", "0.3 GB")),  # the system keeps a quarter
    ],
)
def test_what_does_not_fit_in_every_size_is_said(takes_gb: float, usable: dict[float, float], said: tuple[str, ...]) -> None:
    found = memory_shortage(takes_gb, usable)
    assert (found is not None) == bool(said)
    assert found is None or (not found.unfit and all(part in found.sentence for part in said))


@pytest.mark.parametrize(("takes_gb", "usable"), [(7.5, {8: 4.8}), (25, {24: 24}), (40, {8: 4.8, 16: 9.6})])
def test_what_no_size_holds_is_unfit(takes_gb: float, usable: dict[float, float]) -> None:
    found = memory_shortage(takes_gb, usable)
    assert found is not None
    assert found.unfit
    assert f"{takes_gb:.1f} GB" in found.sentence


def test_sizes_of_memory_are_sorted_and_those_of_existing_devices() -> None:
    known = [each.ram_gb for each in (*devices().values(), *chips().values()) if each.ram_gb]
    assert len(known) >= 150
    assert all(list(sizes) == sorted(set(sizes)) and sizes[0] >= 0.25 and sizes[-1] <= 512 for sizes in known)
