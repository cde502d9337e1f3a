"""Stopping where measuring on would teach little."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.errors import TrainingError
from latcast.records import Reference
from latcast.spaces.training_mix import published_networks
from latcast.training.samples import NetworkSample, TrainingData, lineages_of
from latcast.training.stopping import (
    HELD_OUT_OF,
    Outlook,
    StoppingRule,
    fit_curves,
    held_out_third,
    outlook,
)


class TestCurves:
    def test_two_points_on_a_curve_give_it_back(self) -> None:
        # 16 = 9 + 700/100 and 13 = 9 + 700/175.
        floor, slope = fit_curves(np.array([100.0, 175.0]), np.array([[4.0, 13**0.5]]))

        assert (floor[0], slope[0]) == pytest.approx((9.0, 700.0))

    def test_an_error_that_does_not_fall_is_its_floor(self) -> None:
        # The mean of 16 and 18, as an error that rises is one that does not fall.
        floor, slope = fit_curves(np.array([100.0, 200.0]), np.array([[4.0, 18**0.5]]))

        assert (floor[0], slope[0]) == pytest.approx((17.0, 0.0))

    def test_one_that_falls_faster_than_the_networks_rise_has_no_floor(self) -> None:
        # 20 and 2 at 1/100 and 1/200: (0.2 + 0.01) / (0.0001 + 0.000025).
        floor, slope = fit_curves(np.array([100.0, 200.0]), np.array([[20**0.5, 2**0.5]]))

        assert (floor[0], slope[0]) == pytest.approx((0.0, 1680.0))


def off(*percent: float | Sequence[float], networks: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Predictions that are too long by so much, (sizes, networks), and latencies."""
    too_long = np.array([np.broadcast_to(each, networks) for each in percent])
    return 2.0 * (1 + too_long / 100), np.full(networks, 2.0)


class TestOutlook:
    def test_errors_that_fall_go_on_falling(self) -> None:
        # From sqrt(13) at 175 networks to sqrt(10) at 700; of networks that are all off by as much, so that nothing is chance.
        found = outlook([100, 175], *off(4.0, 13**0.5), 175, 700.0, 90.0)

        assert (found.error, found.gain) == pytest.approx((3.6056, 0.4433), abs=1e-4)
        assert found.in_words() == "expected error now 3.6 %, the remaining 90 s would bring 0.4 points at most; stopped"

    def test_predictions_that_move_are_still_being_learned_though_the_error_stands_still(self) -> None:
        # From 5 % too long to 5 % too short they move by 9.52 %, whose square is 90.7; 210 networks after 200 take
        # (1/200 - 1/210) / (1/100 - 1/200) of it, 4.319, off 25.
        found = outlook([100, 200], *off(5.0, -5.0), 200, 210.0, 90.0)

        assert (found.error, found.gain) == pytest.approx((5.0, 5 - (25 - 4.319) ** 0.5), abs=1e-4)

    def test_what_moved_is_what_the_last_two_predictors_differ_by(self) -> None:
        # As above, after a first predictor of 50 networks that was 9 % too long.
        found = outlook([50, 100, 200], *off(9.0, 5.0, -5.0), 200, 210.0, 90.0)

        assert found.gain == pytest.approx(found.error - (found.error**2 - 4.319) ** 0.5, abs=1e-3)

    def test_where_chance_may_hide_a_gain_it_is_one(self) -> None:
        # Half the networks get better by as much as the others get worse: 4 % on average before and after.
        found = outlook([100, 175], *off(4.0, [2.0, 6.0] * 20), 175, 700.0, 90.0)

        assert found.error == pytest.approx(4.0)
        assert found.gain > 0.2

    def test_few_networks_do_not_end_measuring(self) -> None:
        assert not Outlook(5.0, 0.0, 599, 60.0).enough

    def test_two_predictors_do_not_end_measuring(self) -> None:
        found = outlook([300, 600], *off(5.0, 5.0), 700, 900.0, 90.0)

        assert found.gain == pytest.approx(0.0)
        assert not found.enough
        assert outlook([300, 600, 650], *off(5.0, 5.0, 5.0), 700, 900.0, 90.0).enough

    def test_a_network_that_is_far_off_counts_as_half_its_latency(self) -> None:
        # 39 of 40 are exact, one takes ten times as long as said.
        predicted, actual = off(0.0, 0.0, 0.0)
        actual[0] *= 10

        assert outlook([50, 100, 175], predicted, actual, 175, 700.0, 90.0).error == pytest.approx(50 / 40)

    @given(
        too_long=st.lists(st.tuples(*[st.floats(-40.0, 60.0)] * 3), min_size=5, max_size=30),
        known=st.integers(150, 500),
        more=st.floats(0.0, 500.0),
    )
    def test_more_networks_never_gain_less(self, too_long: list[tuple[float, float, float]], known: int, more: float) -> None:
        predicted, actual = off(*np.array(too_long).T, networks=len(too_long))

        found = outlook([75, 150, 225], predicted, actual, known, known + more, 60.0)
        further = outlook([75, 150, 225], predicted, actual, known, known + more + 100, 60.0)

        assert found.gain >= -1e-9
        assert further.gain >= found.gain - 1e-9

    def test_it_is_said_to_scripts(self) -> None:
        assert Outlook(5.0, 0.2, 175, 90.0).to_json() == {
            "expected_error": 5.0, "gain": 0.2, "networks": 175, "left_seconds": 90.0,
        }  # fmt: skip


def samples(count: int, space: str = "random_mixed") -> tuple[NetworkSample, ...]:
    return tuple(NetworkSample(Reference(space, {"seed": number}), (), 2.0) for number in range(count))


class TestHeldOut:
    def test_it_is_a_third_and_always_the_same(self) -> None:
        held_out = held_out_third(samples(600))

        assert abs(held_out.sum() - 600 / HELD_OUT_OF) < 40
        assert held_out_third(samples(900))[:600].tolist() == held_out.tolist()

    def test_networks_of_a_lineage_are_on_one_side(self) -> None:
        networks = [NetworkSample(each, (), 2.0) for each in published_networks(per_family=3)]

        sides = set(zip(lineages_of(networks), held_out_third(networks).tolist(), strict=True))

        assert len(sides) == len(set(lineages_of(networks))) < len(networks)


@dataclass(frozen=True)
class MadeUp:
    """A predictor that is off by so much, whatever it is asked."""

    off: float

    def estimate(self, networks: Sequence[Any]) -> Any:
        return SimpleNamespace(latency_ms=np.full(len(networks), 2.0 * (1 + self.off)))


def falling(data: TrainingData) -> Any:
    """A predictor that is off by 10 % at a hundred networks, by 5 % at four hundred."""
    return MadeUp(len(data.networks) ** -0.5)


def flat(data: TrainingData) -> Any:
    """A predictor that learns nothing."""
    return MadeUp(0.1)


def look(rule: StoppingRule, networks: Sequence[NetworkSample], train: Any, spent_s: float = 60.0) -> Outlook | None:
    return rule.look(lambda: TrainingData(networks=tuple(networks)), train, spent_s, len(networks))


class TestALook:
    def test_predictors_of_half_and_of_all_but_a_third_show_how_the_error_falls(self) -> None:
        # 300 networks in 60 s: 600 at the end of 120.
        rule = StoppingRule(120.0)

        found = look(rule, samples(300), falling)

        kept = 300 - int(held_out_third(samples(300)).sum())
        assert rule.learned_from == [kept // 2, kept]
        # A hundred over the root of the number, of all 300 and of 600.
        assert found is not None
        assert (found.error, found.gain) == pytest.approx((100 / 300**0.5, 100 / 300**0.5 - 100 / 600**0.5))
        assert (found.predictors, found.left_s) == (2, 60.0)

    def test_a_later_one_trains_once_and_keeps_what_was_trained_before(self) -> None:
        rule = StoppingRule(120.0)
        look(rule, samples(300), flat)

        found = look(rule, samples(450), flat, 90.0)

        assert len(rule.predictors) == 3
        assert found is not None
        assert (found.error, found.gain, found.networks) == (pytest.approx(10.0), pytest.approx(0.0), 450)

    def test_few_networks_have_no_outlook(self) -> None:
        assert look(StoppingRule(120.0), samples(60), flat) is None

    def test_too_few_kernels_to_train_on_have_no_outlook(self) -> None:
        def failing(data: TrainingData) -> Any:
            raise TrainingError("too few operators")

        assert look(StoppingRule(120.0), samples(300), failing) is None

    def test_segments_are_learned_from_and_not_judged_on(self) -> None:
        segments = tuple(
            NetworkSample(Reference("published_segments", {"network": f"timm/{chr(97 + number % 26)}net_x", "start": 0}), (), 9.0)
            for number in range(40)
        )
        rule = StoppingRule(120.0)

        found = look(rule, (*samples(300), *segments), flat)

        # Judged on, they would be off by 76 %.
        assert found is not None
        assert found.error == pytest.approx(10.0)
        assert rule.learned_from[-1] > 300 - int(held_out_third(samples(300)).sum())

    def test_networks_known_before_do_not_raise_the_pace(self) -> None:
        # 4000 known before and three a second: 4600 after 200 s, 4840 after 280.
        rule = StoppingRule(280.0, known_at_start=4000)

        assert rule.expected(4600, 200.0, 280.0) == pytest.approx(4840.0)


def looks(known_at: Callable[[float], int], seconds: Sequence[float] = tuple(range(0, 280, 10))) -> list[float]:
    """Seconds of 280 at which a profile looks."""
    rule = StoppingRule(280.0, known_at(0.0))
    return [spent_s for spent_s in seconds if rule.due(spent_s) and rule.will_suffice(known_at(spent_s), spent_s)]


class TestTheMoments:
    def test_they_are_the_first_batches_after_the_shares_of_the_measuring(self) -> None:
        # 45.5 % and 70 % of 280 s are 127.4 and 196 s.
        assert looks(lambda spent_s: int(4 * spent_s)) == [130, 200]

    def test_those_that_passed_between_two_batches_are_one(self) -> None:
        assert looks(lambda spent_s: int(4 * spent_s), (0.0, 220.0, 230.0, 240.0)) == [220.0]

    def test_there_are_none_where_the_networks_will_be_too_few(self) -> None:
        # Two a second: 392 at the last moment.
        assert looks(lambda spent_s: int(2 * spent_s)) == []
