"""Normalisation, labels, their error, warnings: numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from latcast.errors import MeasurementError
from latcast.measure.record import failed, finished
from latcast.measure.statistics import (
    host_factors,
    memory_weight,
    normalised_runs,
    quartile_variation,
    renormalised,
    round_medians,
    stability_warnings,
    warm_up_length,
)
from latcast.measure.timing import RunLog
from latcast.records import ExecutedKernel, Measurement, Reference

PLATFORM = "local/onnxruntime-1.31/cpu1/fp32"
NETWORK = Reference("resnet", {"depth": 18}, "resnet18")
QUIET_MS = (0.01, 0.02)
PARTS = ("compute", "memory")


def record(
    *runs_ms: float,
    rounds: tuple[int, ...] | None = None,
    readings: list[tuple[float, float]] | None = None,
    weights: tuple[float, float] = (1.0, 0.5),
    quiet_ms: tuple[float, float] = QUIET_MS,
    worker: str = "w1",
    taken_at: str = "2026-01-01T00:00:00.000Z",
    moment: dict[str, Any] | None = None,
    **changes: Any,
) -> Measurement:
    """A finished record of runs, with a probe where readings are given."""
    log = RunLog(list(runs_ms), readings or [], list(rounds or range(len(runs_ms))))
    probe = {"key": "k", "parts": ["compute", "memory"], "quiet_ms": list(quiet_ms)} if readings else None
    environment = {
        "settings": {"probe": probe},
        "moment": {"worker": worker, "probe_weights": list(weights), **(moment or {})},
    }
    found = finished(
        log,
        platform=PLATFORM,
        reference=NETWORK,
        role="network",
        parts=("compute", "memory"),
        quiet_ms=quiet_ms,
        weights=weights,
        environment=environment,
    )
    return replace(found, taken_at=taken_at, **changes)


class TestHostFactors:
    def test_a_quiet_host_has_the_factor_one(self) -> None:
        assert host_factors([QUIET_MS, QUIET_MS], QUIET_MS, (1.0, 0.5), PARTS).tolist() == [1.0, 1.0]

    def test_a_host_at_half_speed_divides_the_runs_by_two_to_the_sum_of_the_weights(self) -> None:
        (factor,) = host_factors([(0.02, 0.04)], QUIET_MS, (0.5, 0.25), PARTS)
        assert factor == pytest.approx(2**0.75)

    def test_each_part_counts_by_its_weight(self) -> None:
        factors = host_factors([(0.01, 0.032), (0.012, 0.02)], QUIET_MS, (1.0, 0.5), PARTS)
        assert factors.tolist() == pytest.approx([1.6**0.5, 1.2])

    def test_a_host_faster_than_when_it_was_calibrated_lengthens_the_runs(self) -> None:
        assert host_factors([(0.008, 0.02)], QUIET_MS, (1.0, 0.5), PARTS).tolist() == pytest.approx([0.8])

    def test_a_memory_reading_of_page_faults_counts_as_quiet_and_a_slow_core_does_not(self) -> None:
        assert host_factors([(0.01, 0.16)], QUIET_MS, (1.0, 0.5), PARTS).tolist() == [1.0]
        assert host_factors([(0.04, 0.16)], QUIET_MS, (1.0, 0.5), PARTS).tolist() == pytest.approx([4.0])

    def test_a_clock_that_stands_still_is_refused(self) -> None:
        with pytest.raises(MeasurementError, match="not positive"):
            host_factors([(0.0, 0.02)], QUIET_MS, (1.0, 0.5), PARTS)

    def test_weights_of_another_probe_are_refused(self) -> None:
        with pytest.raises(MeasurementError, match="2 quiet times and 1 weights"):
            host_factors([QUIET_MS], QUIET_MS, (1.0,), PARTS)

    def test_a_working_set_of_twice_the_cache_has_half_the_largest_memory_weight(self) -> None:
        assert memory_weight(4 << 20, 2 << 20) == pytest.approx(0.06)
        assert memory_weight(0, 2 << 20) == 0


class TestRecord:
    def test_the_latency_is_the_median_of_runs_each_divided_by_its_own_probe(self) -> None:
        # The middle run took twice as long while the host was half as fast (weights 1 and 0).
        found = record(3.0, 6.4, 3.5, readings=[QUIET_MS, (0.02, 0.02), QUIET_MS])
        assert found.raw_latency_ms == pytest.approx(3.5)
        assert found.latency_ms == pytest.approx(3.2)
        assert normalised_runs(found).tolist() == pytest.approx([3.0, 3.2, 3.5])
        assert found.probe_parts_ms == {"compute": (0.01, 0.02, 0.01), "memory": (0.02, 0.02, 0.02)}

    def test_without_a_probe_it_is_the_median_of_the_runs_and_says_so(self) -> None:
        found = record(1.0, 2.0, 9.0)
        assert (found.latency_ms, found.raw_latency_ms, found.statistic) == (2.0, 2.0, "median of runs")
        assert found.probe_ms == ()

    def test_runs_that_take_no_time_are_a_failure_not_a_latency(self) -> None:
        found = record(0.0, 0.0, 0.0)
        assert not found.ok
        assert "0.000 ms" in str(found.error)
        assert found.latency_ms is None

    def test_variation_is_half_the_quartile_distance_over_the_median(self) -> None:
        assert quartile_variation([1, 2, 3, 4, 5]) == pytest.approx((4 - 2) / 2 / 3)


class TestRenormalisation:
    def test_renormalising_equals_measuring_with_the_other_quiet_time(self) -> None:
        readings = [(0.012, 0.03), (0.02, 0.035), (0.011, 0.022)]
        other = (0.008, 0.018)
        kernels = (ExecutedKernel("a", "Conv", ("conv_0",), 2.0),)
        first = record(3.0, 6.0, 3.3, readings=readings, executed=kernels)
        second = record(3.0, 6.0, 3.3, readings=readings, quiet_ms=other)
        found = renormalised(first, other)
        assert found.latency_ms == pytest.approx(second.latency_ms)
        assert found.probe_ms == pytest.approx(second.probe_ms)
        assert found.variation == pytest.approx(second.variation)
        assert found.environment["settings"]["probe"]["quiet_ms"] == [0.008, 0.018]
        assert first.latency_ms is not None
        assert second.latency_ms is not None
        assert found.executed[0].latency_ms == pytest.approx(2.0 * second.latency_ms / first.latency_ms)

    def test_a_record_that_an_earlier_version_normalised_is_normalised_as_now(self) -> None:
        now = record(3.0, 6.0, readings=[QUIET_MS, QUIET_MS])
        earlier = replace(now, latency_ms=2.0, probe_ms=(0.02, 0.02))
        assert renormalised(earlier, QUIET_MS).latency_ms == pytest.approx(4.5)
        assert renormalised(now, QUIET_MS) is now

    def test_raw_and_failed_records_stay_as_they_are(self) -> None:
        for found in (record(1.0, 2.0), failed("why", PLATFORM, NETWORK, "network")):
            assert renormalised(found, (1.0, 1.0)) is found

    def test_a_record_without_weights_cannot_be_renormalised(self) -> None:
        found = record(3.0, 6.0, readings=[QUIET_MS, QUIET_MS])
        bare = replace(found, environment={**found.environment, "moment": {}})
        with pytest.raises(MeasurementError, match="no readings or weights"):
            renormalised(bare, (0.5, 0.5))


class TestRoundsAndWarmUp:
    def test_each_round_has_its_own_median(self) -> None:
        assert round_medians([1, 2, 9, 4, 4], [0, 0, 0, 3, 3]).tolist() == [2, 4]

    def test_slow_runs_at_the_start_are_the_warm_up(self) -> None:
        assert warm_up_length([9.0, 7.0, 2.0, 2.01, 1.99, 2.0, 2.0, 2.02]) == 2

    def test_a_run_is_warm_within_three_deviations_and_at_least_five_percent(self) -> None:
        # The second half varies by 5 %, half of what lies between 1.9 and 2.1, over 2: 2.3 is warm; where it is steady, 2.1.
        varied, steady = [1.8, 1.9, 2.0, 2.1, 2.2], [2.0] * 5
        assert [warm_up_length([first, 2.0, *varied[:2], *varied]) for first in (2.29, 2.31)] == [0, 1]
        assert [warm_up_length([first, *steady, *steady]) for first in (2.09, 2.11)] == [0, 1]

    def test_a_slow_run_in_the_middle_is_not_warm_up(self) -> None:
        assert warm_up_length([2.0, 2.0, 9.0, 2.0, 2.0, 2.0, 2.0, 2.0]) == 0


class TestWarnings:
    def test_a_stable_measurement_has_no_warnings(self) -> None:
        assert stability_warnings(record(*[2.0] * 8, readings=[QUIET_MS] * 8)) == []

    def test_unstable_runs_give_the_number_and_the_option(self) -> None:
        (warning,) = stability_warnings(record(1.0, 1.4, 1.0, 1.4, 1.0, 1.4, 1.0, 1.4, rounds=(0, 0, 0, 0, 1, 1, 1, 1)))
        assert "resnet18 vary by 16.7 %" in warning
        assert "--rounds 4" in warning

    def test_slow_first_runs_ask_for_more_warm_ups(self) -> None:
        (warning,) = stability_warnings(record(9.0, *[2.0] * 19, warmup_runs=3))
        assert "first 1 of 20 runs" in warning
        assert "--warmup-runs 5" in warning

    def test_a_slow_host_is_named_with_its_factor(self) -> None:
        (warning,) = stability_warnings(record(*[4.0] * 8, readings=[(0.03, 0.02)] * 8))
        assert "3.0 times slower" in warning

    def test_a_host_faster_than_quiet_asks_for_calibration(self) -> None:
        (warning,) = stability_warnings(record(*[4.0] * 8, readings=[(0.005, 0.02)] * 8))
        assert "calibrate the probe again" in warning

    def test_pre_emption_is_warned_of_with_its_count(self) -> None:
        (warning,) = stability_warnings(record(*[4.0] * 8, moment={"preempted_runs": 7}))
        assert "took the CPU in 7 runs" in warning

    def test_a_failed_measurement_has_no_warnings(self) -> None:
        assert stability_warnings(failed("crash", PLATFORM, NETWORK, "network")) == []
