"""Held-out predictions of language models' speeds: what training must not see, and what the intervals hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.llm.learned_prices import (
    ALL_KINDS,
    FAMILIAR,
    KNOWN,
    LONGER,
    NEW_OPERATORS,
    Evidence,
    learn,
    line_through,
    read_prices,
    timed,
    written,
)
from latcast.llm.prices import PriceList, Timed, effects_of, fit, price_list
from latcast.llm.speeds import SpeedMeasurement, machine_of
from shipping.language_speeds import HeldOut, held_out, lineage_of, with_widths

PHONES = {
    "galaxy-s23/llama.cpp-1/cpu4/unstated": 1.0, "pixel-6a/llama.cpp-1/cpu4/unstated": 2.0,
    "raspberry-pi-5/llama.cpp-1/cpu4/unstated": 4.0,
}  # fmt: skip

MODELS = ("qwen2.5-0.5b", "qwen2.5-1.5b", "qwen3-0.6b", "qwen3-1.7b", "llama-3.2-1b", "llama-3.2-3b", "gemma-3-1b")


def measured(platform: str, slowness: float) -> list[SpeedMeasurement]:
    """Speeds of a device on which a byte and a FLOP take the same time of any type, some percent of noise aside."""
    rng = np.random.default_rng(int(10 * slowness))
    found = []
    for model in MODELS:
        for quantisation in ("q4_0", "q8_0"):
            one = SpeedMeasurement(
                model, quantisation, platform, prompt_tokens=256, prefill_tokens_per_s=1, decode_tokens_per_s=1
            )
            token, prompt = (timed(phase, [one])[0].quantities for phase in ("decode", "prefill"))
            seconds = slowness * sum(value for term, value in token.items() if term[0] == "weights") / 30
            computing = slowness * sum(value for term, value in prompt.items() if term[0] == "multiply") * 1.5
            noise = np.exp(0.02 * rng.standard_normal(2))
            found.append(
                SpeedMeasurement(
                    model, quantisation, platform, prompt_tokens=256,
                    prefill_tokens_per_s=256 / computing * noise[0], decode_tokens_per_s=noise[1] / seconds,
                )
            )  # fmt: skip
    return found


def seconds(prices: PriceList, platform: str, rows: list[Timed]) -> np.ndarray:
    return np.array([sum(each.values()) for each in prices.seconds_by_term(platform, [row.quantities for row in rows])])


MEASUREMENTS = [each for platform, slowness in PHONES.items() for each in measured(platform, slowness)]
MACHINES = {platform: machine_of(platform) for platform in PHONES}


@pytest.fixture(scope="module")
def prices():
    return learn(MEASUREMENTS, MACHINES)


@pytest.fixture(scope="module")
def judged():
    return list(held_out(MEASUREMENTS, MACHINES))


def test_what_is_held_out_is_not_trained_on(judged):
    for each in judged:
        if each.split == "lineage":
            assert lineage_of(each.measurement.model) not in {lineage_of(one.model) for one in each.trained}
        elif each.split == "quantisation here":
            assert each.measurement.quantisation not in {one.quantisation for one in each.trained}
        elif each.split == "chip":
            assert each.measurement not in each.trained
            assert len({(one.model, one.quantisation) for one in each.trained}) == int(each.situation.split()[0])


def test_familiar_models_are_predicted_within_the_noise_and_a_new_chip_gains_by_each_pair(judged):
    def error(split: str, situation: str) -> float:
        found = [abs(each.error) for each in judged if (each.split, each.situation, each.phase) == (split, situation, "decode")]
        return float(np.mean(found))

    assert error("lineage", FAMILIAR) < 0.05
    assert error("chip", "0 pairs") > error("chip", "1 pairs") > error("chip", "10 pairs")


def test_widths_hold_nine_of_ten_held_out_errors_and_survive_the_file(prices, judged):
    known = with_widths(prices, judged)
    wide, _ = known.widths["decode"][FAMILIAR][ALL_KINDS]
    errors = [abs(each.error) for each in judged if (each.phase, each.situation) == ("decode", FAMILIAR)]
    assert np.mean(np.array(errors) <= wide + 1e-4) >= 0.9
    assert written(read_prices(written(known), "prices")) == written(known)


def test_adapting_moves_only_the_prices_of_the_new_platform(prices):
    new = machine_of("pi-copy/llama.cpp-1/cpu4/unstated", "bcm2712")
    adapted = prices.adapted(new, measured(new.platform, 3.0)[:4])
    old = prices.prices["decode"].effects
    assert {key: adapted.prices["decode"].effects[key] for key in old} == dict(old)
    rest = timed("decode", measured(new.platform, 3.0)[4:])
    predicted = seconds(adapted.prices["decode"], new.platform, rest)
    assert np.mean(np.abs(predicted / [each.seconds for each in rest] - 1)) < 0.15


@pytest.mark.parametrize(
    ("platform", "phases"),
    [
        ("galaxy-s23/llama.cpp-1/gpu+opencl/unstated", {"prefill"}),  # a token's time is that of unpacking its types
        ("core-ultra-7-258v/openvino-1/gpu/unstated", {"prefill", "decode"}),
    ],
)
def test_what_a_graph_takes_longer_is_carried_to_other_types_but_none_that_a_gpu_leaves_to_the_cpu(platform, phases) -> None:
    usual = measured(platform, 1.0)
    usual += [replace(each, quantisation="q2_k") for each in usual if each.quantisation == "q4_0"]

    def graphs(slow: str) -> dict[str, float]:
        rows = [
            replace(each, prefill_tokens_per_s=each.prefill_tokens_per_s / 3, decode_tokens_per_s=each.decode_tokens_per_s / 3)
            if each.model == slow and each.quantisation != "q2_k" else each for each in usual
        ]  # fmt: skip
        return dict(learn(rows, {platform: machine_of(platform)}).evidence[platform].graphs)

    before, after = graphs(""), graphs("qwen3-1.7b")
    grown = {key for key in before if after[key] > before[key] + 0.3}

    assert {key.split()[0] for key in before} == phases
    assert len(grown) == len(phases)
    assert any(key.endswith(" left") for key in before) == ("opencl" in platform)
    assert not any(key.endswith(" left") for key in grown)


def test_platforms_of_a_chip_have_one_vote_together() -> None:
    """A fast phone under four releases of a runtime says about as much of a third phone as under one."""
    new = "galaxy-s20/llama.cpp-1/cpu4/unstated"

    def seconds_on_a_third(releases: int) -> float:
        fast = [f"pixel-6a/llama.cpp-{1 + number}/cpu4/unstated" for number in range(releases)]
        rows = [*measured("galaxy-s23/llama.cpp-1/cpu4/unstated", 4.0), *(each for name in fast for each in measured(name, 1.0))]
        known = learn(rows, {each.platform: machine_of(each.platform) for each in rows}).with_machine(machine_of(new))
        return float(np.sum(seconds(known.prices["decode"], new, timed("decode", measured(new, 1.0)))))

    assert seconds_on_a_third(4) == pytest.approx(seconds_on_a_third(1), rel=0.1)


def test_intervals_widen_with_the_length_beyond_those_measured_without_a_step(prices, judged) -> None:
    known, (platform, *_) = with_widths(prices, judged), PHONES
    known = replace(known, widths={**known.widths, "decode": {**known.widths["decode"], LONGER: {ALL_KINDS: (0.9, 40.0)}}})
    context = known.evidence[platform].longest["decode"]

    def wide(times: float) -> float:
        return known.width("decode", platform, FAMILIAR, tokens=times * context)[0]

    assert known.times_as_long("decode", platform, 3 * context) == pytest.approx(3)
    assert wide(0.1) == wide(1) < wide(2) < wide(4) < wide(8) == pytest.approx(0.9)
    assert wide(2.001) == pytest.approx(wide(1.999), rel=0.01)
    assert wide(64) == pytest.approx(1.8)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("times", [20, 1 / 20])
@pytest.mark.parametrize(
    "platform",
    [
        "galaxy-s23/llama.cpp-1/cpu4/unstated", "galaxy-s23/llama.cpp-1/gpu+opencl/unstated",
        "galaxy-s23/llama.cpp-1/npu+hexagon/unstated", "mac-m4-max/mlx-1/gpu+metal/unstated",
        "core-ultra-7-258v/openvino-1/gpu/unstated",
    ],
)  # fmt: skip
def test_one_absurd_measurement_moves_little_on_any_unit(phase, times, platform) -> None:
    clean = timed(phase, measured(platform, 1.0))
    wild = [replace(clean[0], seconds=times * clean[0].seconds), *clean[1:]]
    start = price_list(phase, {platform: machine_of(platform)}, {})

    before, after = (seconds(fit(rows, start), platform, clean[2:]) for rows in (clean, wild))

    assert np.max(np.abs(after / before - 1)) < 0.1


def test_a_line_goes_through_what_was_measured_and_past_what_is_absurd() -> None:
    rows = [
        Timed("", {("weights", "q4_0"): work, ("kernel",): 9.0}, 0.01 + 0.02 * work) for work in (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
    ]

    assert line_through("decode", rows) == pytest.approx((0.01, 0.02))
    assert line_through("decode", [*rows, replace(rows[0], seconds=3.0)]) == pytest.approx((0.01, 0.02), rel=0.05)
    assert line_through("decode", rows[:2]) is None
    falling = [replace(row, seconds=1 / row.seconds) for row in rows]
    assert min(line_through("decode", falling)) == 0.0


def test_a_prediction_is_drawn_to_the_line_by_its_share(prices) -> None:
    (platform, *_), work = PHONES, timed("decode", MEASUREMENTS[:1])[0].quantities
    drawn = replace(
        prices,
        evidence={**prices.evidence, platform: Evidence(40, lines={"decode": (0.5, 0.0)})},
        shares={"decode": {KNOWN: {machine_of(platform).kind: 0.25}}},
    )

    ((own, *_),), ((parts, *_),) = prices.seconds("decode", platform, [work]), drawn.seconds("decode", platform, [work])

    assert sum(parts.values()) == pytest.approx(sum(own.values()) ** 0.75 * 0.5**0.25)
    assert parts["kernel",] / own["kernel",] == pytest.approx(sum(parts.values()) / sum(own.values()))


def test_the_fewer_lineages_of_a_kind_the_more_its_interval_borrows_from_all_kinds(prices) -> None:
    def wide(names: int) -> float:
        judged = [
            HeldOut(phase, MEASUREMENTS[0], "lineage", 0, kind, FAMILIAR, 1.0, float(np.exp(error)), None, f"{kind} {name}")
            for phase in ("prefill", "decode")
            for kind, error, lineages in (("cpu-arm", 0.1, names), ("gpu-vulkan", 0.4, 60))
            for name in range(lineages)
        ]
        return with_widths(prices, judged).widths["decode"][FAMILIAR]["cpu-arm"][0]

    assert 0.4 > wide(3) > ((0.1**2 + 0.4**2) / 2) ** 0.5  # three of its own and three borrowed, and few at that
    assert wide(3) > wide(12) > 0.1


def test_a_gpu_leaves_weights_of_types_that_it_lacks_to_the_cpu_and_pays_for_the_passing() -> None:
    gpu = "galaxy-s23/llama.cpp-1/gpu+opencl/unstated"
    path = effects_of("decode", {**MACHINES, gpu: machine_of(gpu)})

    assert path(gpu, ("passed", "q4_0")) == []
    assert path(gpu, ("passed", "q2_k"))
    assert {effect for effect, *_ in path("galaxy-s23/llama.cpp-1/cpu4/unstated", ("unpack", "q2_k"))} < {
        effect for effect, *_ in path(gpu, ("unpack", "q2_k"))
    }


def test_an_npu_leaves_the_kernels_of_recurrent_states_to_the_cpu_and_a_cpu_passes_nothing() -> None:
    npu, cpu = "galaxy-s23/llama.cpp-1/npu+hexagon/unstated", next(iter(PHONES))
    path = effects_of("decode", {**MACHINES, npu: machine_of(npu)})
    (token,) = timed("decode", [SpeedMeasurement("qwen3.5-0.8b", "q4_0", npu, decode_tokens_per_s=1.0)])

    assert token.quantities["passed", "recurrent"] == 18 * 18  # layers, and kernels of each
    assert path(npu, ("passed", "recurrent"))
    assert path(npu, ("passed", "recurrent")) != path(npu, ("passed", "q2_k"))  # a state is larger than a row
    assert path(cpu, ("passed", "recurrent")) == []


def test_a_release_that_does_not_lay_out_a_type_anew_says_nothing_of_one_that_does() -> None:
    old, new = (f"apple-m2-max/llama.cpp-{release}/cpu8/unstated" for release in ("b4384", "b6000"))

    def effects_of_kind(phase, platform, tensor_type) -> set[tuple[str, ...]]:
        path = effects_of(phase, {name: machine_of(name) for name in (old, new)})
        term = ("multiply" if phase == "prefill" else "unpack", tensor_type)
        return {effect for effect, *_ in path(platform, term) if platform not in effect}

    def alike(phase, tensor_type) -> bool:
        return effects_of_kind(phase, old, tensor_type) == effects_of_kind(phase, new, tensor_type)

    assert [alike("prefill", each) for each in ("q4_0", "q2_k", "q4_k", "q8_0")] == [True, True, False, False]
    assert alike("decode", "q4_k")


def test_an_operator_that_was_never_measured_is_new_however_short_it_is_expected_to_be(prices) -> None:
    seconds = {("weights", "q4_0"): 1.0, ("unpack", "q4_0"): 1.0, ("kernel",): 0.1}
    platform = next(iter(PHONES))

    assert prices.situation("decode", platform, seconds) == FAMILIAR
    assert prices.situation("decode", platform, {**seconds, ("state",): 1e-6}) == NEW_OPERATORS


def test_an_operator_that_was_never_measured_widens_the_interval_by_what_its_price_may_be_off(prices, judged) -> None:
    platform = "pixel-6a/llama.cpp-1/cpu4/unstated"
    ((_, familiar, none),) = prices.seconds("decode", platform, [timed("decode", MEASUREMENTS[:1])[0].quantities])
    ((_, new, doubt),) = prices.seconds("decode", platform, [{("state",): 1.0}])
    known = with_widths(prices, judged)

    assert (familiar, none, new) == (FAMILIAR, 0.0, NEW_OPERATORS)
    assert doubt == pytest.approx((0.7**2 + 0.5**2 + 0.7**2 + 0.5**2) ** 0.5)  # anywhere, on CPUs, on Arm's, on this platform
    alone = known.width("decode", platform, NEW_OPERATORS)[0]
    assert known.width("decode", platform, NEW_OPERATORS, doubt)[0] == pytest.approx((alone**2 + doubt**2) ** 0.5)


def test_few_pairs_are_drawn_to_the_line_as_other_units_say_and_known_platforms_as_their_kind_does(prices) -> None:
    def off_by_a_third(situation: str, kind: str, chip: int) -> HeldOut:
        return HeldOut("decode", MEASUREMENTS[0], "chip", chip, kind, situation, 1.0, 1.5, 1.0, f"chip {chip}")

    judged = [
        *(off_by_a_third("3 pairs", f"gpu-{chip}", chip) for chip in range(5)),
        *(off_by_a_third(FAMILIAR, "gpu-1", chip) for chip in range(5)),
        *(off_by_a_third(FAMILIAR, "gpu-2", chip) for chip in range(4)),
        *(off_by_a_third("0 pairs", "gpu-1", chip) for chip in range(5)),
    ]
    shares = with_widths(prices, [*judged, *(replace(each, phase="prefill") for each in judged)]).shares["decode"]

    assert shares == {KNOWN: {"gpu": 0.5, "gpu-1": 0.5}, "1 pairs": {}, "3 pairs": {"gpu": 0.5}}  # of gpu-2 too few are known


def test_a_kind_that_is_worse_than_all_keeps_its_own_interval(prices) -> None:
    def error(kind: str, number: int, size: float) -> HeldOut:
        return HeldOut("decode", MEASUREMENTS[0], "lineage", 0, kind, FAMILIAR, 1.0, float(np.exp(size)), None, f"{number}")

    judged = [
        *(error("gpu-opencl", number, 1.0) for number in range(4)),
        *(error("cpu-arm", number, 0.1) for number in range(4, 100)),
    ]
    widths = with_widths(prices, [*judged, *(replace(each, phase="prefill") for each in judged)]).widths["decode"][FAMILIAR]

    assert widths["gpu-opencl"][0] > 1.0
    assert 0.1 < widths["cpu-arm"][0] < 0.2
