"""Training with a card: what was trained on, and how well it does on what was held out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.datasets.store import Store
from latcast.kernels import KernelTable, find_kernels, kernel_type, load_rules
from latcast.kernels.rules import platform_rules
from latcast.predictors.analytical import term_values
from latcast.predictors.card import TRAINING_KEYS, TRAINING_LINEAGES
from latcast.predictors.intervals import Interval
from latcast.records import Measurement, Platform
from latcast.spaces import SPACES, build
from latcast.spaces.catalogue import model
from latcast.training.fitting import Trainer
from latcast.training.from_store import _describe_samples, rules_of_host, rules_of_store, trained_with_card
from latcast.training.samples import KernelObservation, NetworkSample, TrainingData

PLATFORM = Platform.parse("local/onnxruntime-1.31/cpu1/fp32")
RULES = load_rules("onnxruntime")
TRAINER = Trainer(PLATFORM, RULES, "networks")


def test_with_too_few_networks_to_hold_some_out_the_card_has_no_figures() -> None:
    references = SPACES.get("mobilenet_v2").sample(11, seed=0)
    networks = tuple(
        NetworkSample(reference, tuple(find_kernels(build(reference), RULES)), 1.0 + index)
        for index, reference in enumerate(references)
    )

    predictor = trained_with_card(TRAINER, TrainingData(networks=networks))

    assert predictor.card["trained_on"] == "11 networks (11 mobilenet_v2)"
    assert "mape" not in predictor.card
    assert predictor.interval == Interval(novelty="variance")


def networks_of_three_lineages(times: float = 1.0) -> TrainingData:
    """10 picoseconds a FLOP and 2 µs a kernel, whatever the kernel; networks of RegNet take so many times as long."""
    references = [
        reference for space in ("mobilenet_v2", "resnet", "regnet") for reference in SPACES.get(space).sample(6, seed=0)
    ]
    kernels = [tuple(find_kernels(build(reference), RULES)) for reference in references]
    table = KernelTable.of(kernels)
    estimates = [
        term_values(kernel_type(name), rows) @ np.array([1e-8, 0.0, 0.0, 0.002]) for name, rows in table.configurations.items()
    ]
    latency_ms = table.sum_by_network(np.concatenate(estimates)[:, None])[:, 0]
    latency_ms *= np.where([reference.space == "regnet" for reference in references], times, 1.0)
    return TrainingData(networks=tuple(map(NetworkSample, references, kernels, latency_ms.tolist())))


GROUPED = "1x1 + 1x1 + grouped"


def test_a_lineage_is_judged_by_what_was_learned_without_it() -> None:
    """Ten and thirty times as long as the other lineages say: predicted is a tenth or so, and exactly a third of that part."""
    tenth, thirtieth = (
        trained_with_card(TRAINER, networks_of_three_lineages(times)).card["lineages"][GROUPED] for times in (10.0, 30.0)
    )

    assert tenth["networks"] == thirtieth["networks"] == 6
    assert 5 < 100 - tenth["mape"] < 20
    assert 100 - thirtieth["mape"] == pytest.approx((100 - tenth["mape"]) / 3, rel=1e-6)


def test_the_card_names_what_was_trained_on_and_how_it_did_on_what_was_held_out() -> None:
    data = networks_of_three_lineages()

    predictor = trained_with_card(TRAINER, data)

    assert predictor.card[TRAINING_KEYS] == sorted(sample.reference.key for sample in data.networks)
    assert predictor.card[TRAINING_LINEAGES] == sorted({sample.lineage for sample in data.networks})
    assert predictor.card["networks"] == 18
    assert predictor.card["mape"] < 10
    assert predictor.interval.networks == 18


@pytest.mark.parametrize(
    ("learn_from", "kernels"),
    [
        ("operators", "; 3 kernels timed inside networks"),
        ("kernels", "; 2 kernels timed alone"),
        ("networks", ""),
    ],
)
def test_what_was_trained_on_is_counted_by_family_and_by_what_is_learned_from(learn_from: str, kernels: str) -> None:
    references = [*SPACES.get("vit").sample(1, seed=0), *SPACES.get("mobilenet_v2").sample(2, seed=0)]
    found = find_kernels(build(references[0]), RULES)
    networks = tuple(NetworkSample(reference, found, 1.0) for reference in references)
    seen = tuple(KernelObservation(kernel, 0.1) for kernel in found[:3])

    assert _describe_samples(TrainingData(seen[:2], seen, networks), learn_from) == f"3 networks (2 mobilenet_v2, 1 vit){kernels}"


def test_a_profile_that_had_no_time_for_networks_says_which_kernels_it_was_trained_on() -> None:
    found = find_kernels(build(SPACES.get("vit").sample(1, seed=0)[0]), RULES)
    seen = tuple(KernelObservation(kernel, 0.1) for kernel in found[:3])

    assert _describe_samples(TrainingData(seen, (), ()), "kernels") == "3 kernels timed alone"


def test_a_measured_device_says_by_its_driver_which_gpu_it_has() -> None:
    platform = Platform.parse("somephone/tflite-2.10/gpu/fp16")
    assumed = platform_rules(platform)
    said = {"device": {"gpu": "Qualcomm,_Adreno_(TM)_640,_OpenGL_ES_3.2_V@0502.0"}}
    assert rules_of_host(said, platform, assumed).selection == "tflite_gpu:adreno6xx"
    assert rules_of_host(said, platform, assumed).assumed == ""
    assert rules_of_host({"host": {"gpu": "unheard of"}}, platform, assumed) == assumed
    assert rules_of_host({}, platform, assumed) == assumed
    known = platform_rules(Platform.parse("s10/tflite-2.10/gpu/fp16"))
    assert rules_of_host(said, platform, known) == known


OPENVINO = Platform.parse("local/openvino-2026.4/cpu1/fp32")
AVX2 = {"host": {"cpu": {"flags": "fpu sse4_2 avx fma avx2"}}}


def test_rules_of_a_processor_are_those_of_its_instruction_set() -> None:
    shipped = platform_rules(OPENVINO)

    assert shipped.selection == "openvino"
    assert rules_of_host(AVX2, OPENVINO, shipped) == platform_rules(OPENVINO, cpu_flags="avx2 fma avx sse4_2")
    assert rules_of_host(AVX2, OPENVINO, shipped).selection == ""
    assert rules_of_host({"host": {"cpu": {"flags": ""}}}, OPENVINO, shipped) == shipped


def test_rules_of_a_store_are_those_of_the_machine_that_was_measured() -> None:
    measured = Measurement(
        OPENVINO.id, model("mobilenet_v2"), runs_ms=(5.0,), latency_ms=5.0, raw_latency_ms=5.0, environment=AVX2
    )
    with Store(":memory:") as store:
        store.add(measured)
        assert rules_of_store(store, OPENVINO) == platform_rules(OPENVINO, cpu_flags="avx2 fma avx sse4_2")
    with Store(":memory:") as store:
        store.add(replace(measured, environment={}))
        assert rules_of_store(store, OPENVINO) == platform_rules(OPENVINO)


def test_rules_that_a_user_gave_stay_whatever_the_processor() -> None:
    given = replace(platform_rules(OPENVINO), version="own")

    assert rules_of_host(AVX2, OPENVINO, given) == given
