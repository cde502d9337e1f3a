"""Profiles within a budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.kernels import load_rules
from latcast.measure.campaign import CampaignItem
from latcast.measure.settings import WorkerSettings
from latcast.spaces import build
from latcast.training.profiling import (
    ProfileResult,
    network_items,
    profile,
    start_count,
    try_profiler,
)
from tests.measure.behaving import settings
from tests.training.made_up_campaign import made_up_runtime

RULES = load_rules("onnxruntime")

NETWORKS_S = 0.92 * 0.92 * 300
"""Seconds of a profile of five minutes for networks, without training and starts."""


@pytest.fixture(scope="module")
def items() -> list[CampaignItem]:
    """What 48 seconds of profiling are given."""
    found, part_s = network_items("operators", 48.0, 0, RULES)
    assert part_s == 48.0
    return found


def test_a_short_budget_leaves_networks_out_that_take_long_to_load(items: list[CampaignItem]) -> None:
    # 0.36 million weights for each second.
    assert max(build(item.reference).parameter_count for item in items) <= 17.3e6
    assert len(items) >= 48


def test_a_short_budget_has_small_batches_so_that_it_ends_in_time(items: list[CampaignItem]) -> None:
    shorter, _ = network_items("networks", 12.0, 0, RULES)

    assert {item.plan.batch_size for item in shorter} == {3}
    assert {item.plan.batch_size for item in items} == {4}


def test_only_learning_from_operators_asks_for_profiles() -> None:
    operators, _ = network_items("operators", 12.0, 0, RULES)
    networks, _ = network_items("networks", 12.0, 0, RULES)

    assert all(item.plan.profile for item in operators)
    assert not any(item.plan.profile for item in networks)
    assert [item.reference for item in operators] == [item.reference for item in networks]


def test_so_many_networks_are_drawn_as_are_asked_for() -> None:
    asked, few = (network_items("operators", 700.0, 0, RULES, count=count)[0] for count in (40, 5))

    assert len(asked) == 40
    assert len(few) == 30, "never fewer"


def test_a_seed_chooses_and_another_chooses_otherwise() -> None:
    first, again, other = (network_items("networks", 12.0, seed, RULES)[0] for seed in (1, 1, 2))

    assert first == again
    assert {item.reference.key for item in first}.isdisjoint(item.reference.key for item in other)


@pytest.mark.parametrize(("budget_s", "count"), [(60.0, 0), (90.0, 12), (276.0, 37), (3600.0, 48)])
def test_starts_are_timed_where_the_budget_gives_twelve(budget_s: float, count: int) -> None:
    # 8 % of the budget, 0.6 s for each.
    assert start_count(WorkerSettings("onnxruntime"), budget_s) == count


def test_no_starts_are_timed_of_a_runtime_that_runs_no_files() -> None:
    assert start_count(settings(), 3600.0) == 0


class TestTheProfiler:
    def test_a_runtime_that_names_its_kernels_has_one(self) -> None:
        found = try_profiler(settings())

        assert (found.no_profiler, found.warning, found.learn_from) == (None, None, "operators")
        assert str(found.platform) == "local/behaving-1.2/cpu1/fp32"

    def test_of_one_without_the_reason_is_given(self) -> None:
        found = try_profiler(settings(runtime="silent"))

        assert found.no_profiler == "its kernels cannot be read"
        assert found.learn_from == "kernels"
        assert found.warning is not None
        assert "kernels are timed alone" in found.warning


@pytest.mark.slow
class TestOnAMadeUpRuntime:
    """Five minutes of its clock; latencies are what kernels add up to, bent by their configuration or blurred by chance."""

    def profile(self, folder: Path) -> ProfileResult:
        return profile(
            WorkerSettings(), budget_minutes=5.0, learn_from="operators", store=folder / "kept.sqlite", output=folder / "b.zip"
        )

    def test_the_whole_budget_is_measured_in(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        runtime = made_up_runtime(monkeypatch, bend=0.8, network_s=0.8)

        self.profile(tmp_path)

        # All of 92 % of five minutes but the part of starts, which take no time here; the last batch included.
        assert NETWORKS_S <= runtime.clock.now_s < NETWORKS_S + 8 * 0.8

    def test_another_one_measures_nothing_twice_and_adds(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made_up_runtime(monkeypatch, noise=0.08, network_s=0.736)

        first, second = self.profile(tmp_path), self.profile(tmp_path)

        assert second.reports[0].added > 0
        keys = [{sample.reference.key for sample in found.data.networks} for found in (first, second)]
        assert keys[0] < keys[1]
