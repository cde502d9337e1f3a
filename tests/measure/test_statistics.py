"""Normalisation, labels, their error, warnings: numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.errors import MeasurementError
from latcast.measure.record import failed, finished
from latcast.measure.statistics import (
    Label,
    combine,
    host_factors,
    label_error,
    label_error_of_halves,
    label_error_to_json,
    memory_weight,
    normalised_runs,
    quartile_variation,
    renormalised,
    round_medians,
    shrink,
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

    def test_a_host_at_half_speed_divides_the_runs_by_almost_as_much(self) -> None:
        # ln 2 = 0.6931; shrunk: 0.6931**3 / (0.6931**2 + 0.09) = 0.5838
        (factor,) = host_factors([(0.02, 0.02)], QUIET_MS, (1.0, 0.5), PARTS)
        assert factor == pytest.approx(exp(0.5838), rel=1e-4)

    def test_the_memory_part_counts_by_its_weight(self) -> None:
        # ln(1.9) / 2 = 0.3209; shrunk: 0.3209**3 / (0.3209**2 + 0.09) = 0.1713
        (factor,) = host_factors([(0.01, 0.038)], QUIET_MS, (1.0, 0.5), PARTS)
        assert factor == pytest.approx(exp(0.1713), rel=1e-3)

    def test_a_memory_reading_of_page_faults_counts_as_quiet_and_a_slow_core_does_not(self) -> None:
        assert host_factors([(0.01, 0.16)], QUIET_MS, (1.0, 0.5), PARTS).tolist() == [1.0]
        # ln 4 = 1.3863; shrunk: 1.3863**3 / (1.3863**2 + 0.09) = 1.3243
        (factor,) = host_factors([(0.04, 0.16)], QUIET_MS, (1.0, 0.5), PARTS)
        assert factor == pytest.approx(exp(1.3243), rel=1e-3)

    def test_a_deviation_of_the_probes_own_uncertainty_counts_half(self) -> None:
        assert shrink(np.array([0.3, -0.3])).tolist() == pytest.approx([0.15, -0.15])

    @given(st.floats(-3, 3))
    def test_shrinking_never_adds_nor_turns_a_deviation_round(self, deviation: float) -> None:
        (shrunk,) = shrink(np.array([deviation]))
        assert abs(shrunk) <= abs(deviation)
        assert shrunk * deviation >= 0

    def test_a_clock_that_stands_still_is_refused(self) -> None:
        with pytest.raises(MeasurementError, match="not positive"):
            host_factors([(0.0, 0.02)], QUIET_MS, (1.0, 0.5), PARTS)

    def test_weights_of_another_probe_are_refused(self) -> None:
        with pytest.raises(MeasurementError, match="2 quiet times and 1 weights"):
            host_factors([QUIET_MS], QUIET_MS, (1.0,), PARTS)

    def test_a_working_set_of_twice_the_cache_has_half_the_largest_memory_weight(self) -> None:
        assert memory_weight(4 << 20, 2 << 20) == pytest.approx(0.15)
        assert memory_weight(0, 2 << 20) == 0

    def test_a_cache_that_is_not_known_is_taken_to_hold_a_mebibyte(self) -> None:
        assert memory_weight(2 << 20) == pytest.approx(0.15)


class TestRecord:
    def test_the_latency_is_the_median_of_runs_each_divided_by_its_own_probe(self) -> None:
        # The middle run took twice as long while the host was half as fast (divisor 1.7928).
        found = record(3.0, 6.0, 3.5, readings=[QUIET_MS, (0.02, 0.02), QUIET_MS])
        assert found.raw_latency_ms == pytest.approx(3.5)
        assert found.latency_ms == pytest.approx(6.0 / 1.7928, rel=1e-4)
        assert normalised_runs(found).tolist() == pytest.approx([3.0, 6.0 / 1.7928, 3.5], rel=1e-4)
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

    def test_it_survives_json_exactly(self) -> None:
        found = record(3.0, 6.0, 3.3, readings=[QUIET_MS, (0.02, 0.021), QUIET_MS])
        assert Measurement.from_json(found.to_json()) == found

    def test_variation_is_half_the_quartile_distance_over_the_median(self) -> None:
        assert quartile_variation([1, 2, 3, 4, 5]) == pytest.approx((4 - 2) / 2 / 3)


class TestRenormalisation:
    def test_another_quiet_time_gives_what_measuring_with_it_would_have_given(self) -> None:
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

    def test_a_record_without_weights_says_what_is_missing(self) -> None:
        found = record(3.0, 6.0, readings=[QUIET_MS, QUIET_MS])
        bare = replace(found, environment={**found.environment, "moment": {}})
        with pytest.raises(MeasurementError, match="no readings or weights"):
            renormalised(bare, (0.5, 0.5))


class TestRoundsAndWarmUp:
    def test_each_round_has_its_own_median(self) -> None:
        assert round_medians([1, 2, 9, 4, 4], [0, 0, 0, 3, 3]).tolist() == [2, 4]

    def test_as_many_rounds_as_runs_are_needed(self) -> None:
        with pytest.raises(MeasurementError, match="3 runs but 2 round numbers"):
            round_medians([1, 2, 3], [0, 1])

    def test_slow_runs_at_the_start_are_the_warm_up(self) -> None:
        assert warm_up_length([9.0, 7.0, 2.0, 2.01, 1.99, 2.0, 2.0, 2.02]) == 2

    def test_a_slow_run_in_the_middle_is_none(self) -> None:
        assert warm_up_length([2.0, 2.0, 9.0, 2.0, 2.0, 2.0, 2.0, 2.0]) == 0

    def test_five_runs_are_too_few_to_tell(self) -> None:
        assert warm_up_length([9.0, 2.0, 2.0, 2.0, 2.0]) == 0

    @given(st.lists(st.floats(0.1, 10), min_size=1, max_size=40))
    def test_it_never_swallows_the_second_half_by_mistake(self, values: list[float]) -> None:
        assert 0 <= warm_up_length(values) <= len(values)


class TestLabels:
    def test_the_label_is_the_median_of_the_rounds_of_all_processes(self) -> None:
        first = record(1.0, 3.0, 2.0, 2.0, rounds=(0, 0, 1, 1), worker="a", taken_at="1")
        second = record(5.0, 4.0, rounds=(0, 1), worker="b", taken_at="2")
        label = combine([second, first])
        # Rounds in order of time: 2, 2, 5, 4; halves: 2 and 4.5.
        assert label.latency_ms == 3.0
        assert label.halves_ms == (2.0, 4.5)
        assert (label.rounds, label.processes) == (4, 2)
        assert not label.complete

    def test_ten_rounds_in_three_processes_make_it_complete(self) -> None:
        parts = [record(*[1.0] * 4, worker=worker) for worker in "abc"]
        assert combine(parts).complete
        assert not combine([replace(part, environment=parts[0].environment) for part in parts]).complete

    def test_failed_measurements_count_nothing(self) -> None:
        label = combine([failed("crash", PLATFORM, NETWORK, "network"), record(2.0, 2.0)])
        assert label.latency_ms == 2.0
        assert label.rounds == 2

    def test_nothing_but_failures_has_no_label_and_says_why(self) -> None:
        with pytest.raises(MeasurementError, match="none of 1 measurements succeeded: crash"):
            combine([failed("crash", PLATFORM, NETWORK, "network")])

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ({"platform": "local/openvino-2026.4/cpu1/fp32"}, "platform"),
            ({"role": "kernel"}, "role"),
            ({"reference": Reference("resnet", {"depth": 50})}, "reference"),
        ],
    )
    def test_unlike_measurements_are_refused(self, change: dict[str, Any], named: str) -> None:
        with pytest.raises(MeasurementError, match=f"different {named} cannot be combined"):
            combine([record(1.0), replace(record(1.0), **change)])

    def test_different_quiet_times_of_one_probe_are_refused(self) -> None:
        first = record(1.0, readings=[QUIET_MS])
        with pytest.raises(MeasurementError, match="different quiet times"):
            combine([first, record(1.0, readings=[QUIET_MS], quiet_ms=(0.02, 0.02))])

    def test_executed_kernels_are_kernelwise_medians(self) -> None:
        def with_kernels(*latencies: float) -> Measurement:
            kernels = tuple(ExecutedKernel(str(i), "Conv", (), value) for i, value in enumerate(latencies))
            return record(1.0, executed=kernels)

        label = combine([with_kernels(1, 10), with_kernels(2, 30), with_kernels(6, 20)])
        assert [kernel.latency_ms for kernel in label.executed] == [2, 20]

    def test_the_label_error_is_half_the_mean_difference_of_halves_in_per_cent(self) -> None:
        def label(halves: tuple[float, float] | None) -> Label:
            return Label(PLATFORM, NETWORK, "network", 1.0, 1.0, halves, 10, 3, 0.01)

        # |9 - 11| / 10 = 20 %, equal halves 0 %: 10 %, of which half; the third has no halves.
        found = label_error([label((9.0, 11.0)), label((5.0, 5.0)), label(None)])
        assert (found.percent, found.networks) == (pytest.approx(5.0), 2)
        # Drawn again, the two networks are twice the first (10 %), twice the second (0 %) or both.
        assert found.interval == pytest.approx((0.0, 10.0))
        assert str(found) == "5.0 % (0.0 to 10.0)"
        assert label_error_to_json(found) == {"label_error": found.percent, "label_error_interval": [0.0, 10.0]}

    def test_one_network_has_a_label_error_without_an_interval(self) -> None:
        found = label_error_of_halves(np.array([9.0]), np.array([11.0]))
        assert (found.percent, found.interval) == (pytest.approx(10.0), None)
        assert str(found) == "10.0 %"
        assert label_error_to_json(found)["label_error_interval"] is None

    def test_a_label_error_needs_two_rounds(self) -> None:
        with pytest.raises(MeasurementError, match="at least two rounds"):
            label_error([combine([record(1.0)])])

    @pytest.mark.parametrize("processes", [3, 4])
    @pytest.mark.parametrize("process_noise", [0.0, 0.02, 0.05])
    def test_the_label_error_is_that_of_labels_with_known_noise(self, processes: int, process_noise: float) -> None:
        # Twelve rounds of networks that truly take 1 ms, with 2 % of noise a round and some a process.
        rng = np.random.default_rng(0)
        networks = 4000
        of_process = process_noise * rng.standard_normal((networks, processes, 1))
        rounds = 1 + of_process + 0.02 * rng.standard_normal((networks, processes, 12 // processes))
        rounds = rounds.reshape(networks, 12)
        own_error = 100 * float(np.abs(np.median(rounds, axis=1) - 1).mean())
        halves = np.median(rounds[:, :6], axis=1), np.median(rounds[:, 6:], axis=1)
        found = label_error_of_halves(*halves)
        # The whole difference would be twice as much.
        assert 0.86 * own_error < found.percent < 1.04 * own_error

    def test_the_interval_of_a_label_error_holds_it_nine_times_in_ten(self) -> None:
        rng = np.random.default_rng(1)
        truth = 50 * 0.02 * np.sqrt(2) * np.sqrt(2 / np.pi)
        held = 0
        for _ in range(200):
            found = label_error_of_halves(1 + 0.02 * rng.standard_normal(36), 1 + 0.02 * rng.standard_normal(36))
            assert found.interval is not None
            held += found.interval[0] <= truth <= found.interval[1]
        # Binomial: 90 % of 200 is 180, give or take 13 (three deviations).
        assert held / 200 == pytest.approx(0.9, abs=0.065)

    def test_networks_measured_on_several_platforms_are_averaged_before_they_are_drawn(self) -> None:
        first, second = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([[1.0, 1.1], [1.0, 0.9]])
        found = label_error_of_halves(first, second)
        assert found.networks == 2
        # 0.1 / 1.05 and 0.1 / 0.95 of the second network, half of each, over both networks.
        assert found.percent == pytest.approx(50 * (0.1 / 1.05 + 0.1 / 0.95) / 4)

    @given(st.lists(st.floats(0.5, 2), min_size=2, max_size=12), st.floats(0.1, 10))
    def test_a_label_scales_with_its_runs(self, runs: list[float], scale: float) -> None:
        label, scaled = combine([record(*runs)]), combine([record(*(run * scale for run in runs))])
        # Records keep whole nanoseconds.
        assert scaled.latency_ms == pytest.approx(label.latency_ms * scale, abs=1e-5)
        assert scaled.variation == pytest.approx(label.variation, abs=1e-4)


class TestWarnings:
    def test_a_stable_measurement_has_none(self) -> None:
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
        factor = exp(log(3) ** 3 / (log(3) ** 2 + 0.09))
        assert f"{factor:.1f} times slower" in warning

    def test_a_host_faster_than_quiet_asks_for_calibration(self) -> None:
        (warning,) = stability_warnings(record(*[4.0] * 8, readings=[(0.005, 0.02)] * 8))
        assert "calibrate the probe again" in warning

    def test_pre_emption_is_told_with_its_count(self) -> None:
        (warning,) = stability_warnings(record(*[4.0] * 8, moment={"preempted_runs": 7}))
        assert "took the CPU in 7 runs" in warning

    def test_a_failed_measurement_has_none(self) -> None:
        assert stability_warnings(failed("crash", PLATFORM, NETWORK, "network")) == []


def test_a_published_mean_without_raw_runs_becomes_a_label_of_one_round() -> None:
    published = Measurement("pixel4/tflite-2.10/gpu/fp16", Reference("example", {"depth": 1}), latency_ms=12.5)

    label = combine([published])

    assert (label.latency_ms, label.raw_latency_ms, label.rounds, label.halves_ms) == (12.5, 12.5, 1, None)
