"""Training from each source, on latencies whose truth is known, and the mean of two predictors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import TrainingError
from latcast.kernels import find_kernels, kernel_type, load_rules
from latcast.kernels.kernel import Kernel, KernelTable
from latcast.predictors.analytical import DEPTH, POOLED, TERMS, AnalyticalTerms, term_values
from latcast.predictors.bundle import load_bundle, save_bundle
from latcast.predictors.calibration_terms import LEVELS, CalibrationTerms, Coldness
from latcast.predictors.intervals import (
    OUTSIDE_GROWTH,
    VARIANCE,
    HeldOut,
    conformal_interval,
    group_folds,
    unseen_bounds_ms,
)
from latcast.predictors.kernel_predictor import ANALYTICAL, KernelPredictor, Seen
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform, Reference
from latcast.spaces.catalogue import SPACES, build, model
from latcast.training.fitting import LEARN_FROM, Trainer, kernel_term_names
from latcast.training.from_store import trained_with_card
from latcast.training.samples import KernelObservation, NetworkSample, TrainingData, lineages_of, restrict
from tests.predictors.made_up_platform import RULES, TRUTH

PLATFORM = Platform.parse("local/onnxruntime-1.31/cpu1/fp32")
OVERHEAD_MS = 0.2
EXACT = {"operators": "analytical", "kernels": "analytical", "networks": "analytical_gp"}
"""Kinds of samples, each with a model that fits them exactly if kernels follow the analytical terms."""


def true_ms(kernel: Kernel) -> float:
    return float((term_values(kernel_type(kernel.kernel_type), np.array([kernel.configuration])) @ TRUTH)[0])


@pytest.fixture(scope="module")
def data() -> TrainingData:
    """Thirty-four networks of six families, their kernels timed alone and inside, all exactly as :data:`TRUTH` has it."""
    counts = {"mobilenet_v2": 8, "resnet": 8, "shufflenet_v2": 6, "googlenet": 4, "densenet": 4, "squeezenet": 4}
    profiled: list[KernelObservation] = []
    networks = []
    for space, count in counts.items():
        for reference in SPACES.get(space).sample(count, seed=3):
            kernels = find_kernels(build(reference), RULES)
            timed = [KernelObservation(kernel, true_ms(kernel), reference.key) for kernel in kernels if not kernel.free]
            profiled += timed
            networks.append(NetworkSample(reference, kernels, OVERHEAD_MS + sum(one.latency_ms for one in timed)))
    isolated = tuple(replace(observation, network="") for observation in profiled)
    return TrainingData(isolated, tuple(profiled), tuple(networks))


def errors(predicted_ms: np.ndarray, networks: Sequence[NetworkSample]) -> np.ndarray:
    return np.abs(predicted_ms / np.array([sample.latency_ms for sample in networks]) - 1)


def _lineages(data: TrainingData) -> list[str]:
    return [sample.lineage for sample in data.networks]


class TestEachSource:
    # How the latency of whole networks is shared between overhead and kernels, their prior says.
    @pytest.mark.parametrize(("learn_from", "overhead_error"), [("operators", 0.15), ("kernels", 0.15), ("networks", 0.8)])
    def test_a_family_that_was_left_out_is_predicted_within_three_percent(
        self, data: TrainingData, learn_from: str, overhead_error: float
    ) -> None:
        held_out = [sample for sample in data.networks if sample.family == "googlenet"]
        rest = restrict(data, lambda sample: sample.family != "googlenet")

        predictor = Trainer(PLATFORM, RULES, learn_from, EXACT[learn_from]).fit(rest)

        assert errors(predictor.estimate([sample.kernels for sample in held_out]).latency_ms, held_out).max() < 0.03
        assert predictor.network.constant_ms == pytest.approx(OVERHEAD_MS, rel=overhead_error)

    def test_kernels_that_were_scaled_to_their_networks_keep_their_latencies(self, data: TrainingData) -> None:
        """Concatenations read half as long again: a weight would be two thirds, but for how little of a network they are."""
        longer = tuple(
            replace(each, latency_ms=each.latency_ms * (1.5 if each.kernel.kernel_type == "concat" else 1.0))
            for each in data.profiled
        )
        fit = Trainer(PLATFORM, RULES, model="analytical").fit

        free, scaled = (fit(replace(data, profiled=longer, scaled=each)).network.weights["concat"] for each in (False, True))

        assert free < 0.95
        assert scaled > 0.98

    @pytest.mark.parametrize("learn_from", LEARN_FROM)
    def test_the_kinds_and_the_most_work_trained_on_are_kept_for_every_type(self, data: TrainingData, learn_from: str) -> None:
        predictor = Trainer(PLATFORM, RULES, learn_from, EXACT[learn_from]).fit(data)

        functions = {
            kernel.configuration[2] for each in data.networks for kernel in each.kernels if kernel.kernel_type == "activation"
        }
        assert all(found.seen is not None for found in predictor.kernels.values())
        assert predictor.kernels["activation"].seen is not None
        assert set(predictor.kernels["activation"].seen.kinds["function"]) == functions

    @pytest.mark.parametrize("learn_from", LEARN_FROM)
    def test_the_same_seed_gives_the_same_predictor(self, data: TrainingData, learn_from: str) -> None:
        few = restrict(data, lambda sample: sample.family in ("googlenet", "densenet", "resnet"))
        few = replace(few, isolated=few.isolated[:300])

        first, second = (Trainer(PLATFORM, RULES, learn_from, seed=7).fit(few) for _ in range(2))

        kernels = [sample.kernels for sample in data.networks]
        assert first.estimate(kernels).latency_ms.tolist() == second.estimate(kernels).latency_ms.tolist()

    def test_kernels_that_are_faster_the_warmer_their_network_are_learned_as_such(self, data: TrainingData) -> None:
        caches = Coldness()
        cold_ms = np.array([sample.latency_ms - OVERHEAD_MS for sample in data.networks])
        # All that a network runs takes between a third of its time, where nothing was overwritten, and all of it.
        latency_ms = caches.latency_ms(cold_ms[:, None] * (1 + 2 * LEVELS) / 3)
        share = dict(zip([sample.reference.key for sample in data.networks], latency_ms / cold_ms, strict=True))
        warmed = TrainingData(
            profiled=tuple(replace(each, latency_ms=share[each.network] * each.latency_ms) for each in data.profiled),
            networks=tuple(replace(each, latency_ms=float(took)) for each, took in zip(data.networks, latency_ms, strict=True)),
        )

        trainer, held_out = Trainer(PLATFORM, RULES).chosen(warmed, _lineages(warmed))
        predictor = trainer.fit(warmed)

        assert trainer.by_coldness
        without = Trainer(PLATFORM, RULES).held_out(warmed)
        assert errors(held_out.latency_ms, warmed.networks).mean() < errors(without.latency_ms, warmed.networks).mean()
        assert share[min(share, key=lambda key: share[key])] < 0.6 < 0.9 < max(share.values())
        found_ms = predictor.estimate([sample.kernels for sample in data.networks]).latency_ms
        assert np.abs(found_ms / latency_ms - 1).mean() < 0.03
        assert predictor.network.coldness == caches

    def test_convolutions_count_for_whole_blocks_where_the_rules_have_blocks(self, data: TrainingData) -> None:
        blocks_of_8 = Trainer(PLATFORM, load_rules("onnxruntime-cpu-avx2-fp32"), model="analytical").fit(data)

        assert (blocks_of_8.analytical.block, Trainer(PLATFORM, RULES, model="analytical").fit(data).analytical.block) == (8, 0)

    def test_a_gpus_kernels_take_as_long_in_any_network(self, data: TrainingData) -> None:
        platform = Platform.parse("local/onnxruntime-1.31/gpu/fp32")

        assert Trainer(platform, RULES, model="analytical").chosen(data, _lineages(data))[0].by_coldness is False

    def test_no_coldness_is_kept_where_kernels_do_not_show_any(self, data: TrainingData) -> None:
        trainer = Trainer(PLATFORM, RULES, model="analytical")

        chosen, held_out = trainer.chosen(data, _lineages(data))

        assert chosen == trainer
        assert held_out.latency_ms.tolist() == trainer.held_out(data).latency_ms.tolist()
        assert chosen.fit(data).network.coldness is None

    def test_to_a_regressor_all_networks_of_more_than_four_milliseconds_are_as_cold(self, data: TrainingData) -> None:
        predictor = Trainer(PLATFORM, RULES, by_coldness=True).fit(data)
        conv, rows = predictor.kernels["conv"], KernelTable.of([data.networks[0].kernels]).configurations["conv"]
        levels = np.array([0.25, 0.75, 0.9, 1.0])

        took_ms = conv.latency_by_coldness_ms(predictor.analytical, rows, levels)

        # A regressor gives a factor on the prices: from 0.75 on the same one.
        factor = took_ms / predictor.analytical.latency_by_coldness_ms(kernel_type("conv"), rows, levels)
        assert factor[2] == pytest.approx(factor[1])
        assert factor[3] == pytest.approx(factor[1])

    def test_what_cannot_be_learned_from_is_named_with_those_there_are(self, data: TrainingData) -> None:
        with pytest.raises(TrainingError, match="cannot learn from 'guess'; expected one of operators, kernels, networks"):
            Trainer(PLATFORM, RULES, "guess").fit(data)

    @pytest.mark.parametrize(("learn_from", "model"), [("networks", "analytical"), ("kernels", "analytical_gp")])
    def test_a_model_that_is_learned_from_something_else_is_refused(
        self, data: TrainingData, learn_from: str, model: str
    ) -> None:
        with pytest.raises(TrainingError, match=model):
            Trainer(PLATFORM, RULES, learn_from, model).fit(data)

    @pytest.mark.parametrize(
        ("learn_from", "needed"),
        [("operators", "profiled operators"), ("kernels", "isolated kernels"), ("networks", "measured networks")],
    )
    def test_too_few_samples_are_counted_and_more_asked_for(self, data: TrainingData, learn_from: str, needed: str) -> None:
        few = TrainingData(data.isolated[:9], data.profiled[:9], data.networks[:9])

        with pytest.raises(TrainingError, match=rf"at least 10 {needed} of {PLATFORM}, found 9; measure more"):
            Trainer(PLATFORM, RULES, learn_from).fit(few)


class TestCrossPrediction:
    @pytest.mark.parametrize("learn_from", ["operators", "networks"])
    def test_no_network_is_predicted_from_its_own_fold(self, data: TrainingData, learn_from: str) -> None:
        """With one fold's labels tripled, its own predictions stay and those of others move."""
        fold = group_folds([sample.lineage for sample in data.networks], 5, 0)
        own = fold == fold[-1]
        keys = {sample.reference.key for sample, chosen in zip(data.networks, own, strict=True) if chosen}
        poisoned = replace(
            data,
            networks=tuple(
                replace(sample, latency_ms=3 * sample.latency_ms) if sample.reference.key in keys else sample
                for sample in data.networks
            ),
            profiled=tuple(replace(one, latency_ms=3 * one.latency_ms) if one.network in keys else one for one in data.profiled),
        )

        clean, dirty = (
            Trainer(PLATFORM, RULES, learn_from, EXACT[learn_from]).held_out(each).latency_ms for each in (data, poisoned)
        )

        assert 0 < own.sum() < len(own)
        np.testing.assert_allclose(dirty[own], clean[own], rtol=1e-12)
        assert np.abs(dirty[~own] / clean[~own] - 1).max() > 0.01

    def test_the_card_has_the_error_of_what_was_chosen(self, data: TrainingData) -> None:
        rng = np.random.default_rng(0)
        few = replace(
            data, profiled=tuple(replace(one, latency_ms=one.latency_ms * rng.uniform(0.7, 1.4)) for one in data.profiled[::5])
        )
        chosen, held_out = Trainer(PLATFORM, RULES).chosen(few, _lineages(few))
        card = trained_with_card(Trainer(PLATFORM, RULES), few).card

        assert held_out.latency_ms.tolist() == chosen.held_out(few).latency_ms.tolist()
        assert card["mape"] == pytest.approx(100 * errors(held_out.latency_ms, few.networks).mean())

    def test_every_network_is_predicted(self, data: TrainingData) -> None:
        predicted = Trainer(PLATFORM, RULES, model="analytical").held_out(data).latency_ms

        assert errors(predicted, data.networks).max() < 0.02


class TestIntervals:
    def test_an_interval_covers_nine_of_ten_networks_that_vary_by_a_tenth(self) -> None:
        rng = np.random.default_rng(0)
        samples = []
        for reference in SPACES.get("mobilenet_v2").sample(160, seed=5):
            kernels = find_kernels(build(reference), RULES)
            truth = OVERHEAD_MS + sum(true_ms(kernel) for kernel in kernels if not kernel.free)
            samples.append(NetworkSample(reference, kernels, truth * float(np.exp(rng.normal(0, 0.1)))))

        predictor = trained_with_card(Trainer(PLATFORM, RULES, "networks"), TrainingData(networks=tuple(samples[:80])))
        estimates = predictor.estimate([sample.kernels for sample in samples[80:]])
        low, high = predictor.bounds_ms(estimates)

        actual = np.array([sample.latency_ms for sample in samples[80:]])
        assert predictor.interval.networks == 80
        assert 0.82 <= np.mean((low <= actual) & (actual <= high)) <= 0.98
        # 1.64 standard deviations of a tenth are 16 %.
        assert 1.1 < np.median(high / estimates.latency_ms) < 1.35

    def test_an_interval_and_its_coverage_know_what_lay_outside_the_range_of_training(self, data: TrainingData) -> None:
        # All is predicted exactly but for DenseNets, large parts of which other lineages do not teach: they take twice as long.
        factor = {"densenet": 2.0}
        networks = tuple(replace(one, latency_ms=factor.get(one.family, 1.0) * one.latency_ms) for one in data.networks)
        given = replace(data, networks=networks)
        _, held_out = Trainer(PLATFORM, RULES, model="analytical").chosen(given, _lineages(given))
        actual, lineages = np.array([one.latency_ms for one in networks]), lineages_of(networks)

        predictor = trained_with_card(Trainer(PLATFORM, RULES, model="analytical"), given)

        unwidened = HeldOut(held_out.latency_ms, np.zeros(len(networks)))
        assert held_out.outside_share.max() > 0.2
        growth = OUTSIDE_GROWTH
        assert predictor.interval == conformal_interval(actual, held_out, lineages, outside_growth=growth)
        assert predictor.interval.high < conformal_interval(actual, unwidened, lineages).high
        low, high = unseen_bounds_ms(actual, held_out, lineages, outside_growth=growth) or (actual, actual)
        assert predictor.card["interval_coverage"] == pytest.approx(100 * np.mean((low <= actual) & (actual <= high)))

    def test_networks_teach_an_interval_that_grows_with_how_unlike_kernels_are(self, data: TrainingData, tmp_path: Path) -> None:
        predictor = trained_with_card(Trainer(PLATFORM, RULES, "networks"), data)

        assert predictor.interval.novelty == VARIANCE
        assert predictor.estimate([one.kernels for one in data.networks]).outside_share == pytest.approx(0, abs=1e-3)
        known, wider, unknown = predictor.estimate(
            [find_kernels(build(model(name)), RULES) for name in ("mobilenet_v2", "efficientnet_b4", "deit_tiny_16")]
        ).outside_share
        assert known < wider < unknown
        again = load_bundle(save_bundle(predictor, tmp_path / "bundle"))
        assert again.interval == predictor.interval
        assert {sample.lineage for sample in data.networks} & set(predictor.card["lineages"])
        assert 0 <= predictor.card["random_networks"]["interval_coverage"] <= 100

    def test_segments_do_not_change_the_overhead_of_networks(self, data: TrainingData) -> None:
        """Segments that take twice as long as their kernels leave the overhead and the weights as whole networks have them."""
        segments = tuple(
            replace(
                sample,
                reference=Reference("published_segments", {"network": f"timm/beit_{index}"}),
                latency_ms=2 * sample.latency_ms,
            )
            for index, sample in enumerate(data.networks)
        )
        alone = Trainer(PLATFORM, RULES, model="analytical").fit(data)

        beside = Trainer(PLATFORM, RULES, model="analytical").fit(replace(data, networks=(*data.networks, *segments)))

        assert beside.network == alone.network

    def test_with_fewer_than_ten_networks_nothing_is_calibrated(self, data: TrainingData) -> None:
        few = replace(data, networks=data.networks[:9])

        assert trained_with_card(Trainer(PLATFORM, RULES, model="analytical"), few).interval.networks == 0


PHONE = Platform.parse("pixel4/tflite-2.10/gpu/fp16")
UNFUSED = load_rules("none")
KERNELS = find_kernels(build(model("resnet18")), UNFUSED)


def predictor(flop_ms: float, network: CalibrationTerms, types: tuple[str, ...]) -> PlatformPredictor:
    """Every FLOP and every kernel at one latency, for some kernel types."""
    widths = {kernel.kernel_type: len(kernel.configuration) for kernel in KERNELS}
    known = {
        name: KernelPredictor(
            name, ANALYTICAL, None, np.ones(widths[name], int), np.full(widths[name], 9), 5, Seen({}, 1e12, 1e12)
        )
        for name in types
    }
    return PlatformPredictor(PHONE, UNFUSED, AnalyticalTerms({POOLED: np.array([flop_ms, 0.0, 0.0, 0.01])}), known, network)


SECOND = predictor(4e-9, CalibrationTerms(2.0, 0.0, {}), ("conv", "linear"))


def test_kernels_of_gpus_teach_their_depth_and_bundles_keep_it(tmp_path: Path) -> None:
    assert kernel_term_names(PHONE) == (*TERMS, DEPTH)
    assert kernel_term_names(PLATFORM) == TERMS
    deep = replace(SECOND, analytical=AnalyticalTerms({POOLED: np.array([4e-9, 0.0, 0.0, 0.01, 2e-6])}, (*TERMS, DEPTH)))

    again = load_bundle(save_bundle(deep, tmp_path / "deep"))

    assert again.analytical.terms == (*TERMS, DEPTH)
    assert again.estimate([KERNELS]).latency_ms == pytest.approx(deep.estimate([KERNELS]).latency_ms)
