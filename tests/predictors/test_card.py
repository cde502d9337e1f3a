"""Cards of two predictors of one platform, and their warnings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from latcast.kernels.rules import load_rules
from latcast.predictors.analytical import POOLED, AnalyticalTerms
from latcast.predictors.card import (
    POSTERIOR,
    TRAINING_KEYS,
    TRAINING_LINEAGES,
    card_text,
    card_warnings,
    evidence,
    graded,
    is_better,
)
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform


def card(networks: int, mape: float | None = None, held_out: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "trained_on": "measurements",
        TRAINING_KEYS: [str(number) for number in range(networks)],
        "measurements": networks,
        "mape": mape,
        "networks": held_out,
        **more,
    }


class TestTheBetterOfTwo:
    def test_a_card_with_an_error_is_better_than_one_without(self) -> None:
        assert is_better(card(12, 15.0, 12), card(100))
        assert not is_better(card(100), card(12, 15.0, 12))

    def test_without_errors_it_is_the_one_that_learned_from_more_networks(self) -> None:
        assert not is_better(card(3), card(9))
        assert is_better(card(9), card(3))

    def test_errors_that_differ_by_chance_leave_it_to_the_number_of_networks(self) -> None:
        # Over 25 networks a MAPE is known to a fifth: 5.6 to 8.4 and 6.4 to 9.6.
        short, long = card(40, 7.0, 25), card(260, 8.0, 25)

        assert not is_better(short, long)
        assert is_better(long, short)

    def test_an_error_that_is_lower_beyond_chance_decides(self) -> None:
        # 6.48 to 9.72 against 9.6 to 14.4 overlap; 4.8 to 7.2 against 9.6 to 14.4 do not.
        assert not is_better(card(130, 8.1, 25), card(260, 12.0, 25))
        assert is_better(card(130, 6.0, 25), card(260, 12.0, 25))
        assert not is_better(card(260, 12.0, 25), card(130, 6.0, 25))

    def test_an_error_on_less_than_half_as_many_networks_does_not_decide(self) -> None:
        assert not is_better(card(129, 6.0, 25), card(260, 12.0, 25))
        assert is_better(card(260, 12.0, 25), card(129, 6.0, 25))

    def test_where_a_card_lists_no_networks_errors_decide(self) -> None:
        assert not is_better(card(12, 30.0, 20), card(0, 5.0, 100, measurements=900))
        assert is_better(card(0, 5.0, 100, measurements=900), card(12, 30.0, 20))

    def test_of_equally_many_networks_more_kernels_decide_and_of_equal_ones_the_first(self) -> None:
        assert not is_better(card(40, 7.0, 25), card(40, 7.0, 25, measurements=900))
        assert is_better(card(40, 7.0, 25), card(40, 7.0, 25))


class TestWarnings:
    def test_a_few_networks_without_an_error_are_warned_about(self) -> None:
        [warning] = card_warnings(card(3))

        assert warning == (
            "the predictor learned from 3 networks; how well it predicts others is not known; measure longer (latcast profile)"
        )

    @pytest.mark.parametrize(("held_out", "warned"), [(10, True), (19, True), (20, False)])
    def test_an_error_on_fewer_than_twenty_networks_is_warned_about(self, held_out: int, warned: bool) -> None:
        found = card_warnings(card(held_out, 7.0, held_out))

        assert bool(found) is warned
        assert all(f"rest on {held_out} networks alone" in text for text in found)

    def test_the_own_warning_of_a_card_comes_first(self) -> None:
        assert card_warnings({"warning": "poor"}) == ("poor",)
        assert card_warnings(card(3, warning="poor"))[0] == "poor"

    def test_a_card_that_says_nothing_is_not_warned_about(self) -> None:
        assert card_warnings({}) == ()


class TestGrades:
    """Of a prediction of 1 ms whose 90 % interval has these bounds."""

    PHONE = card(
        60, 12.0, 60, **{TRAINING_LINEAGES: ["wide"], "same_lineages": {"mape": 4.0, "networks": 40}}, learn_from="networks"
    )

    def test_without_a_card_it_is_that_of_the_width_alone(self) -> None:
        found = graded({}, 0.8, 1.25, 90.0)

        assert found.expected_error_pct == pytest.approx(24 * np.log(1.25 / 0.8))
        assert str(found) == "fair, ±11 %"
        assert found.in_words() == "fair, ±11 %"

    def test_a_network_of_a_kind_that_was_measured_has_the_error_of_such(self) -> None:
        known, new = (graded(self.PHONE, 0.9, 1.1, 90.0, lineage=lineage) for lineage in ("wide", "depthwise"))

        assert (known.word, known.why) == ("good", "4.0 % off on 40 held out")
        assert new.why == "12.0 % off on 60 held out, of unseen kinds"
        assert known.expected_error_pct < 4.9 < new.expected_error_pct

    def test_an_error_of_each_network_from_the_others_is_of_as_many_as_were_measured(self) -> None:
        device = {"model": POSTERIOR, "mape": 20.0, "measurements": 10, TRAINING_KEYS: [str(place) for place in range(10)]}

        assert graded(device, 0.5, 2.0, 90.0).why == "20.0 % off on 10 held out"

    def test_many_networks_held_out_count_more_than_the_width_and_few_less(self) -> None:
        many, few = (graded(card(60, 40.0, count), 0.9, 1.1, 90.0).expected_error_pct for count in (100, 2))

        assert 4.9 < few < 10 < many < 40

    def test_networks_held_out_say_nothing_of_kernels_unlike_those_learned_from(self) -> None:
        known, half, unlike = (graded(card(60, 2.0, 100), 0.5, 2.0, 90.0, unlike=share) for share in (0.0, 0.5, 1.0))

        assert known.expected_error_pct < half.expected_error_pct < unlike.expected_error_pct
        assert unlike.expected_error_pct == pytest.approx(24 * np.log(4))

    def test_few_networks_are_the_reason_of_a_rough_one(self) -> None:
        found = graded(card(4, 63.0, 4, model=POSTERIOR), 0.5, 2.0, 90.0)

        assert found.rough
        assert found.in_words() == f"{found}: learned from 4 networks"
        assert graded(card(0, model=POSTERIOR), 0.2, 5.0, 90.0).why == "no network measured there"

    def test_an_interval_as_wide_as_any_is_the_reason_before_others(self) -> None:
        assert graded(card(0, model=POSTERIOR), 0.1, 10.0, 90.0, unlike=1.0).why.startswith("hardly known")
        assert graded(card(0, model=POSTERIOR), 0.11, 10.0, 90.0).why == "no network measured there"

    def test_an_erratic_platform_is_rough_for_networks_that_others_ran_too(self) -> None:
        erratic = card(60, 81.0, 60, networks_of_others={"mape": 3.0, "networks": 30})

        assert graded(erratic, 0.9, 1.1, 90.0, recalled=True).rough

    def test_overhead_is_no_reason_for_a_good_one(self) -> None:
        half, most = (graded({}, 0.9, 1.1, 90.0, overhead=share) for share in (0.5, 0.98))

        assert half.word == "good"
        assert (most.word, most.why) == ("rough", "98 % of it is overhead")

    def test_a_network_measured_there_is_as_good_as_its_interval_is_narrow(self) -> None:
        found = graded({"mape": 300.0, "networks": 100}, 9.5, 10.5, 0.9, measured=True, overhead=0.9, elsewhere=0.9)

        assert found.in_words().startswith("good, ")
        assert found.in_words().endswith(": measured there")

    def test_what_runs_elsewhere_and_what_is_unlike_are_named(self) -> None:
        assert graded({}, 0.9, 1.1, 90.0, elsewhere=0.5).in_words().endswith(": 50 % of it runs on the CPU or crosses to it")
        assert graded({}, 0.9, 1.1, 90.0, unlike=0.2).why == "20 % of it is by unseen kernels"
        assert graded({}, 0.5, 2.0, None).in_words() == "rough, ±33 %: never calibrated"


def test_what_a_predictor_rests_on_is_said_in_a_few_words() -> None:
    assert evidence(card(260, 5.12, 40)) == "260 networks, MAPE 5.1 % on 40 held out"
    assert evidence(card(3)) == "3 networks, its error on others unknown"
    assert evidence({}) == "an unknown number of measurements, its error on others unknown"


def test_the_text_of_a_card_says_all_that_the_card_states() -> None:
    stated = {
        "trained_on": "networks of a phone", "learn_from": "networks", "model": "gbdt", "measurements": 120, "seconds": 900,
        "licence": "CC-BY-4.0",
    }  # fmt: skip
    predictor = PlatformPredictor(
        Platform.parse("phone/tflite-2.10/gpu/fp16"), load_rules("tflite"), AnalyticalTerms({POOLED: np.zeros(4)}), {}
    )

    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in card_text(replace(predictor, card=stated)).splitlines()
    ]

    for meaning, value in [
        ("trained on", "networks of a phone"), ("learned from", "networks"), ("model of a kernel type", "gbdt"),
        ("measurements", "120"), ("seconds of measuring", "900"), ("licence of the data", "CC-BY-4.0"),
    ]:  # fmt: skip
        assert [meaning, value] in rows
