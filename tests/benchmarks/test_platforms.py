"""The list of platforms, and the figures of the judgement that are more than a library call."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import platforms
from benchmarks.platforms import Measured, fewer_times
from benchmarks.platforms_campaign import PLATFORMS, bench_platform, pieces
from latcast.errors import MeasurementError
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import rules_for
from latcast.records import Platform, Reference
from latcast.training.samples import KernelObservation, NetworkSample


def measured(name: str, latencies_ms: list[float]) -> Measured:
    """A platform with these latencies of test networks, and ten kernels in each of four networks."""
    tests = tuple(NetworkSample(Reference("vgg", {"n": n}), (), latency_ms) for n, latency_ms in enumerate(latencies_ms))
    profiled = tuple(
        KernelObservation(Kernel("conv", (network, kernel % 8), "k", (), ()), 1.0, f"network {network}")
        for network in range(4)
        for kernel in range(10)
    )
    alone = tuple(KernelObservation(Kernel("linear", (n,), "k", (), ()), 1.0) for n in range(6))
    bench = replace(bench_platform("mnn"), name=name)
    platform = Platform("local", "mnn", "3.6", "cpu1", "fp32")
    return Measured(bench, platform, rules_for("mnn", "fp32"), alone, profiled, (), tests, 1.0, 60.0)


def test_there_are_more_than_twenty_platforms_five_of_them_for_warming_up() -> None:
    assert len({each.name for each in PLATFORMS}) == len(PLATFORMS) >= 20
    assert sum(each.warm_up for each in PLATFORMS) == 5
    assert sum(not each.warm_up for each in PLATFORMS) >= 12
    described = {(each.runtime, each.library, each.cap, each.precision) for each in PLATFORMS}
    assert len(described) == len(PLATFORMS)


def test_a_targets_kernels_and_networks_take_at_most_ninety_seconds_whatever_its_profiler() -> None:
    for each in PLATFORMS:
        found = dict(pieces(each))
        seconds = sum(value for name, value in found.items() if not name.startswith("labels"))
        assert each.warm_up or seconds <= 90
        assert ("operators" in found) == each.profiler
        # Passes over the test networks stand first and last, so that a label holds two moments.
        assert next(iter(found)) == "labels1"
        assert list(found)[-1] == "labels2"


def test_an_unknown_platform_is_refused() -> None:
    with pytest.raises(MeasurementError, match="no platform of this benchmark is called 'nnm'; there are onnxruntime, openvino"):
        bench_platform("nnm")


def test_a_part_of_what_was_measured_is_its_beginning_and_counts_different_kernels() -> None:
    whole = measured("one", [1.0])
    assert whole.kernels == 4 * 8 + 6
    assert whole.runs_of_networks == 4
    part = whole.first(networks=1, kernels=2)
    assert {each.network for each in part.profiled} == {"network 0"}
    assert [each.kernel.configuration for each in part.isolated] == [(0,), (1,)]


def test_what_the_tested_networks_took_does_not_change_what_ten_others_say_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """With three times the latencies of the tested networks, the predicted ones are a third of them as before."""
    learned = [Reference("resnet", {"n": n}) for n in range(4)]
    monkeypatch.setattr(platforms, "training_networks", lambda: learned)

    def with_company(name: str, factor: float, tests_ms: list[float]) -> Measured:
        company = tuple(NetworkSample(each, (), factor * (1 + n)) for n, each in enumerate(learned))
        return replace(measured(name, tests_ms), training_networks=company)

    warm_ups = [with_company(name, factor, [factor * 1.0, factor * 5.0]) for name, factor in (("a", 1.0), ("b", 2.0), ("c", 5.0))]
    usual, slower = (
        platforms._from_few_networks(with_company("new", 3.0, [100 * times, 500 * times]), warm_ups) for times in (1.0, 3.0)
    )

    assert set(usual) == {platforms.FEW_NETWORKS, platforms.ONE_FACTOR}
    for name, before in usual.items():
        assert 100 - slower[name]["mape"] == pytest.approx((100 - before["mape"]) / 3, rel=1e-9)


@pytest.mark.parametrize(
    ("points", "times"),
    [
        # From scratch 800 kernels give 10 %. The pool's error falls from 12 to 8 % between 100 and 400: 10 % at 200.
        ([(100, 12.0, 40.0), (400, 8.0, 20.0), (800, 7.0, 10.0)], 4.0),
        # From scratch is best, 8 %, with 400 kernels, and worse with 800; the pool has 8 % with 100.
        ([(100, 8.0, 40.0), (400, 7.0, 8.0), (800, 6.0, 10.0)], 4.0),
        # The pool may also need more: 9 % from scratch with 100 kernels, by the pool with 200.
        ([(100, 10.0, 9.0), (200, 9.0, 9.5)], 0.5),
        # A bound where the smallest part suffices, nothing where none does.
        ([(100, 9.0, 40.0), (800, 9.0, 10.0)], 8.0),
        ([(100, 12.0, 40.0), (800, 11.0, 10.0)], None),
    ],
)
def test_fewer_kernels_are_needed_for_the_least_error_from_scratch(
    points: list[tuple[int, float, float]], times: float | None
) -> None:
    curve = [{"kernels": count, "whole pool": {"mape": pool}, "from scratch": {"mape": own}} for count, pool, own in points]

    assert fewer_times(curve) == (None if times is None else pytest.approx(times))
