"""Factors beside other programs are learned from one half of the networks under one runtime, and judged on the other half."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.beside import LEARNED_UNDER, NETWORKS, SCENARIOS, Factors, judge_beside
from benchmarks.outsiders import HALVES, NAMES, half_of

KNOWN, HELD_OUT = ([name for name in NAMES[:NETWORKS] if half_of(name) == half] for half in HALVES)

OTHER = "ncnn"


def slowed(by: float, known: Mapping[str, float] | None = None) -> Factors:
    """Return networks that all programs slow alike, those held out by one factor and the others by 1.2 or as said."""
    factors = {name: (known or {}).get(name, 1.2) for name in KNOWN} | dict.fromkeys(HELD_OUT, by)
    return {name: dict.fromkeys(SCENARIOS, factor) for name, factor in factors.items()}


def judged(measured: Mapping[str, Factors], scenario: str, shares: Mapping[str, float] | None = None) -> Mapping[str, Any]:
    equal = dict.fromkeys(NAMES[:NETWORKS], 0.5)
    [row] = [each for each in judge_beside(measured, {**equal, **(shares or {})}) if each["beside"] == scenario]
    return row


@pytest.mark.filterwarnings("ignore:Polyfit may be poorly conditioned")
class TestHeldOut:
    def test_the_factor_is_that_of_the_known_half(self) -> None:
        row = judged({LEARNED_UNDER: slowed(by=1.5)}, "memory")

        assert row["factor"] == pytest.approx(1.2)
        assert (row["learned_from"], row["networks"]) == (len(KNOWN), len(HELD_OUT))
        # 1.2 of 1.5, and 1 of 1.5 where nothing is said.
        assert row["mape"] == pytest.approx(20)
        assert row["rivals"]["unchanged"] == pytest.approx(100 / 3)

    def test_networks_held_out_and_other_runtimes_do_not_enter_it(self) -> None:
        fast = judged({LEARNED_UNDER: slowed(by=1.5), OTHER: slowed(by=9.0, known=dict.fromkeys(KNOWN, 7.0))}, "memory")

        assert fast["factor"] == pytest.approx(1.2)
        assert fast["networks"] == 2 * len(HELD_OUT)

    def test_two_programs_on_the_core_take_a_third_each(self) -> None:
        row = judged({LEARNED_UNDER: slowed(by=3.0, known=dict.fromkeys(KNOWN, 2.0))}, "compute:same+compute:same")

        # Beside one, 2 times as long: its share of the core alone. Beside two, 3 times.
        assert row["factor"] == pytest.approx(3)
        assert [row["mape"], row["rivals"]["its share of the core"]] == pytest.approx([0, 0], abs=1e-6)

    def test_a_slope_over_memory_bound_time_is_learned_from_the_known_half_too(self) -> None:
        shares = {name: place / (len(KNOWN) - 1) for place, name in enumerate(KNOWN)}
        measured = {LEARNED_UNDER: slowed(by=1.5, known={name: 1 + share for name, share in shares.items()})}

        row = judged(measured, "memory", shares)

        # 1 + 0.5, the share of those held out.
        assert row["rivals"]["a factor and a slope"] == pytest.approx(0, abs=1e-6)
