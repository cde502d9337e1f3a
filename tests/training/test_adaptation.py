"""Adapting to a new platform in rounds, on latencies that a law gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import TrainingError
from latcast.kernels.kernel import Configuration, Kernel
from latcast.kernels.types import kernel_type
from latcast.measure.campaign import CampaignItem
from latcast.predictors.bundle import load_bundle, save_bundle
from latcast.predictors.card import TRAINING_KEYS, TRAINING_LINEAGES
from latcast.predictors.intervals import HeldOut
from latcast.records import Platform, Reference
from latcast.training.adaptation import ADAPTED, FEWEST_INSIDE, TRAINED, beats_training, transferred_predictor
from latcast.training.adaptation_rounds import AccuracyTarget, AdaptationRounds, parse_target
from latcast.training.pool import Pool
from latcast.training.residual_transfer import SCRATCH
from latcast.training.samples import KernelObservation, NetworkSample, TrainingData
from tests.devices.made_up_pool import COMPUTE, MEMORY, RULES, conv, law_ms, platform_of

ZOO = {"conv": {conv(size, ins, outs): 1 + ins // 32 for size in (7, 14, 28, 56) for ins in (16, 32, 64) for outs in (32, 96)}}
PLATFORM = Platform.parse("new/onnxruntime-1.31/cpu1/fp32")


@pytest.fixture(scope="module")
def pool() -> Pool:
    return Pool.of([platform_of("phone", COMPUTE), platform_of("board", MEMORY)])


def rounds_of(pool: Pool, count: int = 60, target: AccuracyTarget | None = None) -> AdaptationRounds:
    return AdaptationRounds(RULES, ZOO, count, pool, target=target, types=("conv",))


def measured(items: list[CampaignItem], coefficients: np.ndarray) -> Mapping[str, dict[Configuration, float]]:
    """What a campaign over these items would find on a platform of this law."""
    rows = [kernel_type("conv").configuration(item.reference.parameters) for item in items]
    return {"conv": dict(zip(rows, law_ms(np.array(rows), coefficients).tolist(), strict=True))}


class TestTargets:
    @pytest.mark.parametrize("text", ["±10=95", "10=95", "+-10=95", " ±10 % = 95 % "])
    def test_a_target_is_a_tolerance_and_a_share(self, text: str) -> None:
        assert parse_target(text) == AccuracyTarget(0.1, 0.95)
        assert str(parse_target(text)) == "±10=95"

    @pytest.mark.parametrize("text", ["", "95", "±10", "±0=95", "±10=0", "±10=101", "ten=95", "±1.2.3=95"])
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(TrainingError, match=r"expected such as ±10=95"):
            parse_target(text)

    def test_it_is_met_by_nineteen_of_twenty_within_ten_percent(self) -> None:
        relative = np.full(20, 0.09)
        relative[0] = 0.5

        assert AccuracyTarget(0.1, 0.95).met(relative)
        relative[1] = 0.11
        assert not AccuracyTarget(0.1, 0.95).met(relative)


class TestRounds:
    def test_the_beginning_has_representative_kernels_first_and_nothing_twice(self, pool: Pool) -> None:
        items = rounds_of(pool).beginning()

        keys = [item.reference.key for item in items]
        # A fifth of 60 is representative, another the test set, two fifths are samples.
        assert 40 <= len(items) <= 48
        assert len(set(keys)) == len(keys)
        assert [item.reference.key for item in rounds_of(pool).beginning()] == keys

    def test_without_a_pool_nothing_is_representative_and_the_platform_is_unlike(self) -> None:
        rounds = rounds_of(Pool({}))

        known = measured(rounds.beginning(), COMPUTE)
        rounds.assess(known)

        assert rounds.unlike
        assert {found.way for found in rounds.transferred.values()} == {SCRATCH}

    def test_the_platform_of_the_same_law_is_found_and_transferred_from(self, pool: Pool) -> None:
        rounds = rounds_of(pool)

        rounds.assess(measured(rounds.beginning(), 3 * COMPUTE))

        assert not rounds.unlike
        assert rounds.similar["conv"][0].platform == "phone/onnxruntime-1.31/cpu1/fp32"
        transfer = rounds.transfer_to_json()["conv"]
        assert transfer["sources"][0] == "phone/onnxruntime-1.31/cpu1/fp32"
        assert transfer["similar"][0]["scale"] == pytest.approx(3, rel=0.1)
        assert rounds.errors["conv"].mape < 15

    def test_a_type_that_meets_its_target_gets_no_more_samples(self, pool: Pool) -> None:
        easy, hard = rounds_of(pool, target=AccuracyTarget(10.0, 0.5)), rounds_of(pool, target=AccuracyTarget(1e-9, 1.0))

        items = easy.beginning()
        known = measured(items, COMPUTE)

        assert easy.next_round(known) == []
        more = [item.reference.key for item in hard.next_round(known)]
        assert len(more) >= 10
        assert set(more).isdisjoint(item.reference.key for item in items)

    def test_new_rounds_continue_from_stored_measurements(self, pool: Pool) -> None:
        first, again = rounds_of(pool), rounds_of(pool)
        known = measured(first.beginning(), COMPUTE)

        expected = [item.reference.key for item in first.next_round(known)]
        again.beginning()

        assert [item.reference.key for item in again.next_round(known)] == expected


class TestThePredictor:
    def test_its_card_names_sources_similarity_and_samples_and_survives_a_bundle(self, pool: Pool, tmp_path: Path) -> None:
        rounds = rounds_of(pool, 25)
        known = measured(rounds.beginning(), 3 * COMPUTE)
        rounds.assess(known)
        kernels = [(Kernel("conv", row, "conv", ("conv",), ("Conv",)), ms) for row, ms in known["conv"].items()]
        isolated = tuple(KernelObservation(*each) for each in kernels)

        predictor = transferred_predictor(TrainingData(isolated=isolated), PLATFORM, RULES, rounds)
        path = save_bundle(predictor, tmp_path / "bundle")

        text = (path / "CARD.md").read_text()
        assert "transferred from phone/onnxruntime-1.31/cpu1/fp32" in text or "transferred from board" in text
        assert "## Transferred from" in text
        assert f"| {len(isolated)} |" in text
        rows = {"conv": np.array(list(known["conv"]))}
        np.testing.assert_allclose(
            load_bundle(path).raw_kernel_latency_ms(rows), predictor.raw_kernel_latency_ms(rows), rtol=1e-9
        )

    def test_its_card_names_the_lineages_that_it_and_its_sources_were_trained_on_where_they_say(self, pool: Pool) -> None:
        said = {name: each.with_card({TRAINING_LINEAGES: ["1x1 + wide"]}) for name, each in pool.predictors.items()}
        for sources, expected in ((Pool.of(list(said.values())), ["1x1 + wide", "vgg"]), (pool, None)):
            rounds = rounds_of(sources, 25)
            known = measured(rounds.beginning(), 3 * COMPUTE)
            rounds.assess(known)
            kernels = [(Kernel("conv", row, "conv", ("conv",), ("Conv",)), ms) for row, ms in known["conv"].items()]
            network = NetworkSample(Reference("vgg", {"n": 1}), (kernels[0][0],), 1.0)
            inside = KernelObservation(*kernels[0], network.reference.key)
            isolated = tuple(KernelObservation(*each) for each in kernels[1:])
            data = TrainingData(isolated=isolated, profiled=(inside,), networks=(network,))

            card = transferred_predictor(data, PLATFORM, RULES, rounds).card

            assert card.get(TRAINING_LINEAGES) == expected
            # Kernels timed inside a network are learned from it, too.
            assert card[TRAINING_KEYS] == [network.reference.key]

    def test_too_few_kernels_are_refused_with_what_to_do(self, pool: Pool) -> None:
        with pytest.raises(TrainingError, match=r"at least 10 measured kernels, found 0; give it a longer --budget"):
            transferred_predictor(TrainingData(), PLATFORM, RULES, rounds_of(pool))

    def test_kernels_timed_inside_networks_replace_those_timed_alone_where_they_are_enough(self, pool: Pool) -> None:
        rounds = rounds_of(pool)
        known = measured(rounds.beginning(), COMPUTE)["conv"]
        kernels = [Kernel("conv", row, "conv", ("conv",), ("Conv",)) for row in known]
        # Alone, everything takes twice as long as inside networks.
        alone = tuple(KernelObservation(kernel, 2 * ms) for kernel, ms in zip(kernels, known.values(), strict=True))
        network = NetworkSample(Reference("vgg", {"n": 1}), tuple(kernels), 1.0)
        inside = tuple(
            KernelObservation(kernel, ms, network.reference.key) for kernel, ms in zip(kernels, known.values(), strict=True)
        )
        rows, actual = {"conv": np.array(list(known))}, np.array(list(known.values()))

        for count, least, most in ((len(inside), 0.95, 1.05), (FEWEST_INSIDE - 1, 1.5, 2.1)):
            data = TrainingData(isolated=alone, profiled=inside[:count], networks=(network,))
            predictor = transferred_predictor(data, PLATFORM, RULES, rounds)
            ratio = predictor.raw_kernel_latency_ms(rows)[FEWEST_INSIDE:] / actual[FEWEST_INSIDE:]
            assert least < np.median(ratio) < most
            # The network's own latency is known through its kernels alone.
            assert f"{count} timed inside 1 networks, 0 whole networks" in predictor.card["trained_on"]
            # And it is none to judge by.
            assert predictor.card[TRAINING_KEYS] == [network.reference.key]
            assert predictor.card["learn_from"] == "operators"

    def test_some_networks_that_kernels_were_timed_in_are_set_aside_where_there_are_no_others(self, pool: Pool) -> None:
        rounds = rounds_of(pool)
        known = list(measured(rounds.beginning(), COMPUTE)["conv"].items())
        networks, inside = [], []
        for place in range(60):
            pairs = [known[(place * 3 + each) % len(known)] for each in range(3)]
            kernels = tuple(Kernel("conv", row, "conv", ("conv",), ("Conv",)) for row, _ in pairs)
            # A network takes a millisecond more than its kernels.
            network = NetworkSample(Reference(f"family{place}", {"n": 1}), kernels, 1.0 + sum(ms for _, ms in pairs))
            networks.append(network)
            inside += [
                KernelObservation(*each, network.reference.key) for each in zip(kernels, (ms for _, ms in pairs), strict=True)
            ]

        predictor = transferred_predictor(TrainingData(profiled=tuple(inside), networks=tuple(networks)), PLATFORM, RULES, rounds)

        # A fifth of 60, with three kernels each, is not learned from.
        assert "144 timed inside 48 networks, 12 whole networks" in predictor.card["trained_on"]
        assert ADAPTED in predictor.card["held_out_errors"]
        estimates = predictor.estimate([network.kernels for network in networks])
        np.testing.assert_allclose(estimates.latency_ms, [network.latency_ms for network in networks], rtol=0.2)
        # All 60 were seen, the ones that were set aside too.
        assert len(predictor.card[TRAINING_KEYS]) == 60

    @pytest.mark.parametrize(("alone", "inside_of", "best"), [(COMPUTE, 4, ADAPTED), (20 * MEMORY, 12, TRAINED)])
    def test_what_predicts_networks_held_out_best_is_kept_and_the_card_says_so(
        self, pool: Pool, alone: np.ndarray, inside_of: int, best: str
    ) -> None:
        """Where kernels timed alone take another time than inside networks, what is trained on the latter is better."""
        rounds = rounds_of(pool)
        rows = np.array(list(measured(rounds.beginning(), COMPUTE)["conv"]))
        kernels = [Kernel("conv", tuple(row), "conv", ("conv",), ("Conv",)) for row in rows.tolist()]
        isolated = tuple(map(KernelObservation, kernels, law_ms(rows, alone)))
        took_ms = law_ms(rows, COMPUTE)
        networks, inside = [], []
        for place in range(26):
            chosen = [(2 * place + each) % len(rows) for each in range(2)]
            parts = tuple(kernels[row] for row in chosen)
            networks.append(NetworkSample(Reference(f"family{place}", {"n": 1}), parts, 0.05 + took_ms[chosen].sum()))
            if place < inside_of:
                key = networks[-1].reference.key
                inside += [KernelObservation(kernels[row], float(took_ms[row]), key) for row in chosen]
        data = TrainingData(isolated=isolated, profiled=tuple(inside), networks=tuple(networks))

        card = transferred_predictor(data, PLATFORM, RULES, rounds).card

        errors = card["held_out_errors"]
        assert best == min(errors, key=lambda way: errors[way])
        assert errors[best] < 10
        assert f"; {best}, of {ADAPTED} {errors[ADAPTED]:.1f} %" in card["trained_on"]
        assert bool(card["transfer"]) == (best == ADAPTED)


def test_training_alone_is_kept_unless_adapting_is_better_by_more_than_chance() -> None:
    """Compare forecasts of four networks of 10 ms, of which training alone predicts 12 ms each.

    What is 0, 30, 0 and 30 % off gains 5 +- 8.7 points in the mean, less than two standard errors; what is 10 % off gains 10.
    """
    latency_ms = np.full(4, 10.0)
    trained, unsure, sure = (HeldOut(np.array(each), np.zeros(4)) for each in ([12.0] * 4, [10.0, 13.0, 10.0, 13.0], [11.0] * 4))

    assert not beats_training(unsure, trained, latency_ms)
    assert beats_training(sure, trained, latency_ms)
