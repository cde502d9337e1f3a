"""Labels from several measurements, and how far they may be trusted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from latcast.errors import MeasurementError
from latcast.measure.labels import Label, combine, label_error, label_error_of_halves, label_error_to_json
from latcast.measure.record import failed
from latcast.records import ExecutedKernel, Measurement, Reference
from tests.measure.test_statistics import NETWORK, PLATFORM, QUIET_MS, record


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

    def test_failures_alone_have_no_label(self) -> None:
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

    @pytest.mark.parametrize(("processes", "process_noise"), [(3, 0.0), (4, 0.05)])
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


def test_a_published_mean_without_raw_runs_becomes_a_label_of_one_round() -> None:
    published = Measurement("pixel4/tflite-2.10/gpu/fp16", Reference("example", {"depth": 1}), latency_ms=12.5)

    label = combine([published])

    assert (label.latency_ms, label.raw_latency_ms, label.rounds, label.halves_ms) == (12.5, 12.5, 1, None)
