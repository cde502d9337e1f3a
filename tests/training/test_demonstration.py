"""The demonstration's choice of what to check; the whole of it is run by the tests of ``latcast demo``."""

from __future__ import annotations

import pytest

from benchmarks.result_files import kept_parts
from latcast.measure.labels import Label
from latcast.measure.settings import MeasurePlan
from latcast.predictors.prediction import Coverage, Grade, Prediction
from latcast.records import Platform, Reference
from latcast.spaces.catalogue import family, model
from latcast.spaces.training_mix import unseen_families
from latcast.training.demonstration import (
    CHECKED_NETWORKS,
    EXPECTED_MAPE,
    FEWEST_CHECKED,
    CheckedNetwork,
    affordable,
    resembled_processor,
)

PLATFORM = "local/onnxruntime-1.31/cpu1/fp32"
REFERENCES = [model(name) for name in CHECKED_NETWORKS]


def prediction(latency_ms: float) -> Prediction:
    return Prediction("m", PLATFORM, latency_ms, 0.9 * latency_ms, 1.2 * latency_ms, Coverage(1.0, ()), Grade.of(5.0, ""))


def checked(predicted_ms: float, measured_ms: float) -> CheckedNetwork:
    label = Label(PLATFORM, Reference("resnet"), "network", measured_ms, measured_ms, None, 12, 3, 0.01)
    return CheckedNetwork(prediction(predicted_ms), label)


class TestChosenNetworks:
    def test_training_sees_none_of_their_families(self) -> None:
        assert {reference.space for reference in REFERENCES} <= set(unseen_families())


class TestAffordable:
    def test_a_dozen_is_checked_however_little_time_there_is(self) -> None:
        assert affordable(REFERENCES, [prediction(1000.0)] * len(REFERENCES), 0.0) == FEWEST_CHECKED

    def test_all_are_checked_where_there_is_time(self) -> None:
        assert affordable(REFERENCES, [prediction(10.0)] * len(REFERENCES), 600.0) == len(REFERENCES)

    def test_more_time_never_checks_fewer(self) -> None:
        predictions = [prediction(20.0)] * len(REFERENCES)

        counts = [affordable(REFERENCES, predictions, seconds) for seconds in range(0, 200, 5)]

        assert counts == sorted(counts)
        assert len(set(counts)) > 3

    def test_the_time_is_that_of_starting_loading_and_running_in_three_processes(self) -> None:
        # 100 ms a run: 3 warm-ups and 2 rounds of 4 runs, 1.1 s; loading 0.15 s and 0.045 s a million weights.
        plan = MeasurePlan(rounds=2, runs_per_round=4, warmup_runs=3, max_ms_per_round=1e6)
        million = [family(reference.space).published[reference.name].million_parameters for reference in REFERENCES[:13]]
        seconds = 3 * (2.0 + 13 * (1.1 + 0.15) + 0.045 * sum(million))

        predictions = [prediction(100.0)] * len(REFERENCES)

        assert affordable(REFERENCES, predictions, seconds + 0.01, plan) == 13
        assert affordable(REFERENCES, predictions, seconds - 0.01, plan) == 12


class TestCheckedNetwork:
    def test_the_error_is_relative_to_what_was_measured(self) -> None:
        assert checked(12.0, 10.0).error == pytest.approx(20.0)
        assert checked(9.0, 10.0).error == pytest.approx(-10.0)

    @pytest.mark.parametrize(("measured_ms", "inside"), [(8.9, False), (9.0, True), (12.0, True), (12.1, False)])
    def test_the_interval_holds_its_ends(self, measured_ms: float, inside: bool) -> None:
        assert checked(10.0, measured_ms).inside is inside


class TestResembledProcessor:
    @pytest.mark.parametrize(
        ("platform", "flags", "said"),
        [
            (
                "local/openvino-2026.4/cpu1/fp32",
                "sse4_2 avx avx2 fma",
                "up to avx2, where a profile of five minutes",
            ),
            ("local/openvino-2026.4/cpu1/fp32", "avx2 fma avx512f avx512bw avx512dq avx512vl", "up to avx512, where"),
            ("local/onnxruntime-1.31/cpu1+avx2/fp32", "avx2 fma avx512f avx512bw avx512dq avx512vl", "had a MAPE of 7.4 %"),
        ],
    )
    def test_it_is_told_by_the_newest_instruction_set(self, platform: str, flags: str, said: str) -> None:
        assert said in resembled_processor(Platform.parse(platform), flags)

    def test_nothing_is_said_of_other_processors_and_runtimes(self) -> None:
        assert resembled_processor(Platform.parse("local/onnxruntime-1.31/cpu1/fp32"), "neon asimd") == ""
        assert resembled_processor(Platform.parse("local/ncnn-1.0/cpu1/fp32"), "avx2 fma") == ""

    @pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
    def test_the_figures_with_avx512_are_the_benchmarks(self, runtime: str) -> None:
        profiles = [found for name, found in kept_parts("outsiders").items() if name.startswith(f"{runtime}-fp32")]
        mapes = [found["reported"]["mape"] for found in profiles if found["platform"].endswith("/cpu1/fp32")]

        assert mapes
        assert EXPECTED_MAPE["avx512"][runtime] == round(sum(mapes) / len(mapes), 1)
