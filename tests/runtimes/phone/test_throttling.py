"""Slowdowns put into recorded series of bursts are found, and nothing is found where there is none."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from latcast.runtimes.adb import PhoneState
from latcast.runtimes.throttling import RisingLatencies, ThrottleWatch

RECORDED: list[list[float]] = json.loads((Path(__file__).parent / "recorded" / "bursts.json").read_text())["bursts_ms"]

INJECTED = 200
FROM, TO = 1.25, 2.0
"""The slowdowns; of those by 15 to 25 % half are found in these series, whose bursts scatter by 6 %."""


def slowed(series: list[float], rng: random.Random) -> tuple[list[float], int]:
    """A series that becomes slower at some burst, at once or over six bursts, and stays so; and that burst."""
    at = rng.randrange(8, 24)
    factor = math.exp(rng.uniform(math.log(FROM), math.log(TO)))
    over = rng.choice((1, 6))
    return [each * (1 + (factor - 1) * min(max(number - at + 1, 0) / over, 1)) for number, each in enumerate(series)], at


def flagged_from(latencies_ms: Sequence[float]) -> int | None:
    """The first burst of one network at which it is flagged as slow; None where none is."""
    watch = RisingLatencies()
    return next((number for number, latency_ms in enumerate(latencies_ms) if watch.add("network", latency_ms)), None)


def test_95_of_100_slowdowns_are_flagged_and_at_most_2_of_100_calm_series() -> None:
    rng = random.Random(0)
    found = 0
    for number in range(INJECTED):
        series, at = slowed(RECORDED[number % len(RECORDED)], rng)
        flagged = flagged_from(series)
        found += flagged is not None and flagged >= at
    false_alarms = sum(flagged_from(series) is not None for series in RECORDED)
    print(f"{found} of {INJECTED} slowdowns flagged, {false_alarms} of {len(RECORDED)} calm series")
    assert found >= 0.95 * INJECTED
    assert false_alarms <= 0.02 * len(RECORDED)


def test_bursts_that_scatter_without_a_trend_are_calm() -> None:
    rng = np.random.default_rng(0)
    alarms = sum(flagged_from(5 * np.exp(0.03 * rng.standard_normal(40))) is not None for _ in range(300))
    assert alarms <= 6


def test_one_slow_burst_is_not_a_slowdown() -> None:
    series = [10.0 + 0.1 * (number % 3) for number in range(30)]
    assert flagged_from([*series[:12], 50.0, *series[13:]]) is None
    assert flagged_from(series[:12] + [14.0] * 18) is not None


def test_a_slowdown_of_a_few_percent_is_let_pass() -> None:
    assert flagged_from([10.0] * 12 + [10.3] * 28) is None


def test_a_slowdown_ends_when_latencies_return() -> None:
    watch = RisingLatencies()
    assert [watch.add("anchor", each) for each in [10.0] * 10 + [15.0] * 12][-1]
    assert not [watch.add("anchor", 10.0) for _ in range(10)][-1]


def test_the_signs_that_a_phone_gives_are_read_for_the_cores_that_ran() -> None:
    watch = ThrottleWatch((4, 5))
    calm = PhoneState(0, {4: 2400.0, 5: 2400.0, 0: 300.0}, {4: 1.0, 5: 1.0, 0: 0.5})
    assert watch.reasons(calm) == ()
    assert watch.reasons(PhoneState(2)) == ("thermal status 2",)
    assert watch.reasons(PhoneState(0, {4: 2400.0, 5: 2400.0}, {4: 0.7, 5: 1.0})) == ("clocks are limited to 70%",)
    assert watch.reasons(PhoneState()) == ()


def test_a_clock_that_stays_low_is_a_sign_and_one_low_reading_is_none() -> None:
    watch = ThrottleWatch()
    fast, slow = PhoneState(None, {0: 2400.0}), PhoneState(None, {0: 1200.0})
    assert [watch.reasons(each) for each in (fast, slow, fast, fast, fast, slow, fast, fast)] == [()] * 8
    assert [watch.reasons(slow) for _ in range(3)][-1] == ("the clock fell to 1200 of 2400 MHz",)
    watch.forget()
    assert watch.reasons(slow) == ()
