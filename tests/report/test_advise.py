"""The fastest platform of a device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latcast.errors import LatcastError, UnknownPlatformError
from latcast.forecast import predict
from latcast.kernels.partitioning import Fallback
from latcast.platforms import platforms_named
from latcast.predictors.prediction import Coverage, Grade, KernelLatency, Prediction
from latcast.report.advise import Decision, advice_of, advise


def prediction(platform: str, latency_ms: float, *, reach: float = 1.05, conv_share: float = 1.0) -> Prediction:
    kernels = tuple(
        KernelLatency(name, kind, ("Conv",), {}, share * latency_ms, True)
        for name, kind, share in (("a", "conv.winograd", conv_share), ("b", "softmax", 1 - conv_share))
    )
    return Prediction(
        "net", platform, latency_ms, latency_ms / reach, latency_ms * reach, Coverage(1.0, ()), Grade.of(5.0, ""),
        kernels=kernels, level=90.0,
    )  # fmt: skip


PHONE = (
    prediction("phone/tflite-2.10/2large/int8", 10.0),
    prediction("phone/tflite-2.10/2large/fp32", 20.0),
    prediction("phone/tflite-2.10/1large/int8", 15.0),
    prediction("phone/tflite-2.10/1small/int8", 60.0),
    prediction("phone/pytorch-2.0/2large/int8", 30.0),
    prediction("phone/tflite-2.10/gpu/fp16", 40.0),
    prediction("phone/pytorch-2.0/gpu/fp16", 50.0),
)


def decisions(*predictions: Prediction) -> dict[tuple[str, str], Decision]:
    return {(each.question, each.other_platform): each for each in advice_of(["phone"], predictions).decisions}


def test_platforms_are_ranked_by_their_latency_over_that_of_the_first() -> None:
    found = advice_of(["phone"], PHONE[::-1])

    assert [each.platform.split("/", 1)[1] for each in found.choices[:3]] == [
        "tflite-2.10/2large/int8", "tflite-2.10/1large/int8", "tflite-2.10/2large/fp32",
    ]  # fmt: skip
    assert [each.times_first for each in found.choices] == [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert sum(each.fastest_probability or 0 for each in found.choices) == pytest.approx(1.0)
    assert found.choices[0].slower_probability is None
    assert found.choices[-1].slower_probability == pytest.approx(1.0, abs=0.001)


def test_a_platform_of_which_little_is_known_is_behind_one_that_is_surely_about_as_fast() -> None:
    # Within a factor of 3 to either side: a deviation of ln 3 / 1.645 = 0.668, and so a mean of 1.25 times the latency.
    known, rough = prediction("p/r-1/cpu4/fp32", 10.0), prediction("p/r-1/cpu4/int8", 8.1, reach=3.0)

    behind, ahead = (advice_of(["p"], [known, each]) for each in (rough, prediction("p/r-1/cpu4/int8", 7.9, reach=3.0)))

    assert [each.platform for each in behind.choices] == [known.platform, rough.platform]
    assert behind.choices[1].times_first == pytest.approx(0.81)
    assert [each.platform for each in ahead.choices] == [rough.platform, known.platform]


def test_of_each_unit_precision_threads_and_runtime_are_decided_with_the_rest_the_same() -> None:
    found = decisions(*PHONE)

    assert [(question, name.split("/", 1)[1]) for question, name in found] == [
        ("unit", "tflite-2.10/gpu/fp16"),
        ("precision", "tflite-2.10/2large/fp32"),
        ("threads", "tflite-2.10/1large/int8"),
        ("runtime", "pytorch-2.0/2large/int8"),
        ("runtime", "pytorch-2.0/gpu/fp16"),
    ]
    precision = found["precision", "phone/tflite-2.10/2large/fp32"]
    assert (precision.first, precision.other, precision.ratio, precision.sure) == ("int8", "fp32", 2.0, True)
    assert precision.low < 2.0 < precision.high
    assert found["runtime", "phone/pytorch-2.0/gpu/fp16"].first_platform == "phone/tflite-2.10/gpu/fp16"


def test_a_precision_is_compared_with_the_most_similar_platform() -> None:
    found = decisions(
        prediction("p/tflite-2/cpu4/int8", 1.0), prediction("p/armnn-1/cpu1/fp32", 2.0), prediction("p/tflite-2/cpu1/fp32", 3.0)
    )

    # Threads and runtimes of another precision are no answer to which threads or runtime to take.
    assert list(found) == [("precision", "p/tflite-2/cpu1/fp32")]


def test_devices_are_compared_by_the_fastest_of_each() -> None:
    found = decisions(
        prediction("a/tflite-2/cpu1/fp32", 1.0), prediction("b/tflite-2/cpu1/fp32", 3.0), prediction("b/tflite-2/gpu/fp16", 2.0)
    )

    assert list(found) == [("device", "b/tflite-2/gpu/fp16")]


def test_two_ids_of_one_board_are_one_device() -> None:
    found = decisions(prediction("pi/ncnn-1/cpu4/fp32", 1.0), prediction("pi.2/ncnn-1/gpu/fp32", 3.0))

    assert list(found) == [("unit", "pi.2/ncnn-1/gpu/fp32")]


def test_close_latencies_give_no_sure_decision() -> None:
    [decision] = decisions(
        prediction("p/r-1/cpu4/int8", 10.0, reach=1.5), prediction("p/r-1/cpu4/fp32", 10.5, reach=1.5)
    ).values()

    assert decision.probability is not None
    assert 0.5 < decision.probability < 0.8
    assert not decision.sure
    assert str(decision).startswith("int8 or fp32: unknown (")


def test_the_level_of_sureness_is_the_user_s() -> None:
    pair = (prediction("p/r-1/cpu4/int8", 10.0, reach=1.3), prediction("p/r-1/cpu4/fp32", 12.0, reach=1.3))
    [decision] = advice_of(["p"], pair, 60).decisions

    assert decision.sure
    assert not advice_of(["p"], pair, 99).decisions[0].sure
    assert str(decision).startswith("int8, not fp32: sure (")
    with pytest.raises(LatcastError, match="from 50 to 100"):
        advice_of(["p"], pair, 40)


def test_without_a_calibrated_interval_there_is_no_probability() -> None:
    found = advice_of(["phone"], [PHONE[0], replace(PHONE[1], level=None)])

    assert [each.fastest_probability for each in found.choices] == [None, None]
    [decision] = found.decisions
    assert (decision.probability, decision.level, decision.sure) == (None, None, False)
    assert str(decision) == "int8 or fp32: unknown, no probability"
    assert decision.reasons[-1] == "the interval of phone/tflite-2.10/2large/fp32 is not calibrated"


def test_a_rough_prediction_is_named_with_its_reason() -> None:
    rough = replace(PHONE[1], grade=Grade.of(60.0, "learned from 4 networks"))

    [decision] = advice_of(["phone"], [PHONE[0], rough]).decisions

    said = "the prediction on phone/tflite-2.10/2large/fp32 is rough, ±60 %: learned from 4 networks"
    assert decision.reasons[-1] == said


def test_reasons_are_kernel_types_that_gain_or_lose_and_what_falls_back() -> None:
    fallback = Fallback("d", "gpu", 2, 50, 3, ("TopK", "Gather"), 4, 1e6, 0.5, "high")
    [decision] = decisions(
        prediction("p/r-1/cpu4/int8", 10.0, conv_share=0.5), replace(prediction("p/r-1/gpu/fp16", 20.0), fallback=fallback)
    ).values()

    # Of 10 ms the convolutions take half, of 20 ms all; the softmax is only in the first.
    assert [(each.kernel_type, each.first_ms, each.other_ms) for each in decision.kernels[:2]] == [
        ("conv", 5.0, 20.0), ("softmax", 5.0, 0.0),
    ]  # fmt: skip
    assert decision.reasons == (
        "gained: conv 5.00 ms in place of 20.0",
        "lost: softmax 5.00 ms in place of 0.000",
        "on p/r-1/gpu/fp16 3 of 50 operators fall back to the CPU (TopK, Gather), 2 partitions",
    )


def test_a_unit_that_most_of_the_network_falls_back_from_is_last_and_unknown() -> None:
    fallback = Fallback("d", "gpu", 1, 50, 6, ("TopK",), 4, 1e6, 0.5, "high")
    found = advice_of(["p"], [replace(prediction("p/r-1/gpu/fp16", 5.0), fallback=fallback), prediction("p/r-1/cpu4/fp32", 10.0)])

    assert [(each.platform, each.fastest_probability) for each in found.choices] == [
        ("p/r-1/cpu4/fp32", 1.0), ("p/r-1/gpu/fp16", None),
    ]  # fmt: skip
    [decision] = found.decisions
    assert (decision.question, decision.probability, decision.sure) == ("unit", None, False)
    assert decision.reasons[-1].endswith("(TopK), 1 partition; its latency is of all of them on the gpu")


def test_advice_without_predictions_is_an_error() -> None:
    with pytest.raises(LatcastError, match="found no prediction"):
        advice_of(["phone"], [])


def test_a_device_is_named_as_in_platform_ids_as_people_call_it_or_by_a_pattern() -> None:
    whole, _ = platforms_named("pixel4")

    assert len(whole) > 30
    assert set(platforms_named("Pixel 4")[0]) >= set(whole)
    assert platforms_named("pixel4/*/gpu/*") == (["pixel4/pytorch-2.0/gpu/fp16", "pixel4/tflite-2.10/gpu/fp16"], False)
    assert platforms_named("pixel4/tflite-2.10/gpu") == (["pixel4/tflite-2.10/gpu/fp16"], False)
    assert platforms_named("oneplus 11 gpu") == (["qualcomm-sm8550-ab-snapdragon-8-gen-2/ncnn-unstated/gpu/fp32"], True)
    with pytest.raises(UnknownPlatformError, match=r"'pixle4'.*nearest.*Pixel 4"):
        platforms_named("pixle4")


def test_advice_for_a_shipped_phone_is_that_of_its_predictions() -> None:
    found = advise("squeezenet1_1", on=["pixel4/tflite-2.10/1large/*", "pixel4/*/gpu/*"])
    predictions = predict("squeezenet1_1", on=[each.platform for each in found.choices])

    assert [each.latency_ms for each in found.choices] == [each.latency_ms for each in predictions]
    assert found.model == "squeezenet1_1"
    assert repr(found).startswith("<Advice squeezenet1_1: pixel4/tflite-2.10/gpu/fp16 of 4, ")
