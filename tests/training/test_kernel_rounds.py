"""Rounds of timing single kernels, on a device whose latencies are made up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from latcast.datasets.store import Store
from latcast.environment import MOMENT
from latcast.errors import TrainingError, UnknownNameError
from latcast.kernels import find_kernels, kernel_type, load_rules
from latcast.kernels.kernel import Configuration
from latcast.kernels.search import SingleKernels
from latcast.measure.campaign import CampaignItem, CampaignReport
from latcast.predictors.analytical import term_values
from latcast.records import Measurement, Platform
from latcast.samplers.sampler import LARGE_ERROR
from latcast.spaces.catalogue import build, model
from latcast.spaces.kernel_space import KernelSpace, kernel_reference
from latcast.spaces.kernel_zoo import collect_zoo
from latcast.spaces.training_mix import published_networks
from latcast.training.fitting import Trainer
from latcast.training.from_store import collect_stored
from latcast.training.kernel_rounds import KernelRounds, draw_rounds, measure_rounds, stored_rounds
from latcast.training.samples import known_kernels, stored_kernels
from tests.predictors.made_up_platform import TRUTH
from tests.samplers.convolutions import conv

RULES = load_rules("onnxruntime")
PLATFORM = Platform.parse("local/onnxruntime-1.31/cpu1/fp32")
ZOO = {
    "conv": {conv(8 * ins, 8 * outs, size=size): 1 for ins in (2, 5, 9) for outs in (3, 8) for size in (14, 28)},
    "linear": {(1, 64 * ins, 64 * outs, 0, 0, 0): 1 for ins in range(1, 4) for outs in range(1, 4)},
}
TYPES = tuple(ZOO)


def made_up_ms(name: str, row: Configuration) -> float:
    """The analytical terms of the made-up platform, and twice as much for windows of 7 and for wide layers."""
    kind = kernel_type(name)
    values = np.array([row])
    base = float((term_values(kind, values) @ TRUTH)[0])
    fields = dict(zip(kind.fields, row, strict=True))
    return base * (2 if fields.get("kernel_h") == 7 or fields.get("out_features", 0) > 128 else 1)


def kernel_of(item: CampaignItem) -> tuple[str, Configuration]:
    name = item.reference.space.removeprefix("kernel/")
    return name, kernel_type(name).configuration(item.reference.parameters)


class MadeUpCampaign:
    """Fills a store as a campaign does: what is there is passed over; it may be killed after some measurements."""

    def __init__(self, store: Store, killed_after: int | None = None, fails: Callable[[str], bool] = lambda name: False) -> None:
        self.store = store
        self.measured: list[str] = []
        self.runs: list[float] = []
        self._killed_after = killed_after
        self._fails = fails

    def __call__(self, items: Sequence[CampaignItem], until: float) -> CampaignReport:
        self.runs.append(until)
        tallies = self.store.tallies(PLATFORM.id, "kernel")
        for item in items:
            if item.reference.key in tallies:
                continue
            if len(self.measured) == self._killed_after:
                raise KeyboardInterrupt
            name, row = kernel_of(item)
            failed = self._fails(name)
            latency_ms = None if failed else made_up_ms(name, row)
            self.store.add(
                Measurement(
                    PLATFORM.id, item.reference, "kernel", latency_ms=latency_ms, error="refused" if failed else None,
                    runs_ms=() if failed else (1.0,), taken_at=f"2026-01-01T00:00:{len(self.measured):06d}",
                    environment={MOMENT: dict(item.moment)},
                )
            )  # fmt: skip
            self.measured.append(item.reference.key)
        return CampaignReport(PLATFORM, len(items), {}, 0, 0.0)


def rounds_of(count: int = 120, **options: object) -> KernelRounds:
    return KernelRounds(RULES, ZOO, count, **{"types": TYPES, **options})  # type: ignore[arg-type]


def clock(rounds: int) -> Callable[[], float]:
    """Time that is over after so many rounds."""
    readings = iter([index / rounds for index in range(rounds + 1)])
    return lambda: next(readings)


def known_of(items: Sequence[CampaignItem]) -> dict[str, dict[Configuration, float]]:
    found: dict[str, dict[Configuration, float]] = {}
    for name, row in map(kernel_of, items):
        found.setdefault(name, {})[row] = made_up_ms(name, row)
    return found


def test_the_beginning_is_the_test_sets_and_initial_samples_by_the_shares_of_types() -> None:
    rounds = rounds_of(210)
    rows = [kernel_of(item) for item in rounds.beginning()]

    # 25 of each, and of the other 160 by 12 listed convolutions and 9 products: 116 and 94 planned.
    # A fifth of them is tested and two fifths are measured first.
    assert [len(rounds.test_set(name)) for name in TYPES] == [23, 19]
    assert [sum(name == found for found, _ in rows) for name in TYPES] == [23 + 46, 19 + 38]
    assert len(set(rows)) == len(rows)
    assert {row for name, row in rows if name == "conv"} >= set(rounds.test_set("conv"))
    # Any beginning of it holds some of everything.
    assert {name for name, _ in rows[:10]} == set(TYPES)


def test_a_round_samples_around_the_test_points_that_the_fit_is_wrong_on() -> None:
    rounds = rounds_of()
    known = known_of(rounds.beginning())
    space = KernelSpace("conv", RULES)

    def cell(row: Configuration) -> tuple[int, ...]:
        values = space.dimensions(row)
        return tuple(values[name] for name in ("in_h", "kernel_h", "stride_h"))

    rows, relative = rounds.assess(known)["conv"]
    wrong = {cell(row) for row, error in zip(rows, relative, strict=True) if error > LARGE_ERROR}
    chosen = [row for name, row in map(kernel_of, rounds.next_round(known)) if name == "conv"]

    assert wrong
    assert len(chosen) >= 3
    assert {cell(row) for row in chosen} <= wrong
    assert set(chosen).isdisjoint(known["conv"])


def test_no_fit_sees_the_test_set() -> None:
    rounds = rounds_of()
    known = known_of(rounds.beginning())
    predicted = []
    for scale in (100.0, 200.0):
        scaled = {
            name: {row: ms * (scale if row in rounds.test_set(name) else 1) for row, ms in rows.items()}
            for name, rows in known.items()
        }
        rows, relative = rounds.assess(scaled)["conv"]
        # Far below what was measured, a prediction is the measured value less its error.
        predicted.append(np.array([scaled["conv"][row] for row in rows]) * (1 - relative))

    assert predicted[0] == pytest.approx(predicted[1], rel=1e-6)


def test_what_comes_next_follows_from_what_is_known_and_the_seed_alone() -> None:
    first = rounds_of()
    known = known_of(first.beginning())
    more = known_of(first.next_round(known))
    known = {name: rows | more[name] for name, rows in known.items()}

    again, other = rounds_of(), rounds_of(seed=1)

    assert first.next_round(known) == again.next_round(known)
    assert other.next_round(known) != again.next_round(known)


@pytest.mark.parametrize("killed_after", [10, 80])
def test_a_campaign_that_was_killed_goes_on_and_repeats_nothing(killed_after: int) -> None:
    store = Store(":memory:")
    killed = MadeUpCampaign(store, killed_after)
    with pytest.raises(KeyboardInterrupt):
        measure_rounds(rounds_of(), store, killed, clock(3))
    assert len(store) == killed_after

    going_on = MadeUpCampaign(store)
    measure_rounds(rounds_of(), store, going_on, clock(3))

    assert set(killed.measured).isdisjoint(going_on.measured)
    assert len(set(going_on.measured)) == len(going_on.measured)
    # 72 to begin with, then rounds of 20.
    assert len(store) >= 70 + 3 * 15
    assert {item.reference.key for item in rounds_of().beginning()} <= set(store.keys(role="kernel"))


def test_killed_in_its_beginning_it_measures_what_it_would_have() -> None:
    at_once, in_two = Store(":memory:"), Store(":memory:")
    measure_rounds(rounds_of(), at_once, MadeUpCampaign(at_once), clock(2))
    with pytest.raises(KeyboardInterrupt):
        measure_rounds(rounds_of(), in_two, MadeUpCampaign(in_two, 40), clock(2))

    measure_rounds(rounds_of(), in_two, MadeUpCampaign(in_two), clock(2))

    assert in_two.keys(role="kernel") == at_once.keys(role="kernel")


def test_rounds_follow_each_other_until_the_time_is_over() -> None:
    store = Store(":memory:")
    campaign = MadeUpCampaign(store)
    rounds = rounds_of()

    reports = measure_rounds(rounds, store, campaign, clock(4))

    assert len(reports) == 1 + 4
    assert campaign.runs == [0.7, 1.0, 1.0, 1.0, 1.0]
    assert set(rounds.errors) == set(TYPES)
    assert rounds.errors_to_json()["conv"]["kernels"] == len(rounds.test_set("conv"))


def test_a_store_has_the_rounds_with_the_error_after_each() -> None:
    store = Store(":memory:")
    campaign, rounds = MadeUpCampaign(store), rounds_of()
    measure_rounds(rounds, store, campaign, clock(3))

    found = stored_rounds(store, PLATFORM, RULES)

    assert [each.number for each in found] == [0, 1, 2, 3]
    # Two fifths of the plan, 120 kernels, at first; twenty a round, the least. The test sets are of no round.
    assert [sum(map(len, each.sampled.values())) for each in found] == [48, 20, 20, 20]
    assert sum(len(rounds.test_set(name)) for name in TYPES) == len(campaign.measured) - 108
    assert {name: each.mape for name, each in found[-1].errors.items()} == pytest.approx(
        {name: each.mape for name, each in rounds.errors.items()}
    )
    assert not set(found[1].sampled["conv"]) & set(rounds.test_set("conv"))


def test_rounds_that_go_on_are_counted_on() -> None:
    store = Store(":memory:")
    measure_rounds(rounds_of(), store, MadeUpCampaign(store), clock(2))
    measure_rounds(rounds_of(), store, MadeUpCampaign(store), clock(1))

    assert [each.number for each in stored_rounds(store, PLATFORM, RULES)] == [0, 1, 2, 3]


def test_a_store_whose_kernels_name_no_round_is_refused() -> None:
    with Store(":memory:") as store:
        store.add(Measurement(PLATFORM.id, kernel_reference("conv", conv(8, 16)), "kernel", latency_ms=1.0))
        with pytest.raises(TrainingError, match="found 1 without"):
            stored_rounds(store, PLATFORM, RULES)


def test_rounds_are_drawn_with_a_line_and_a_bar_a_type() -> None:
    store = Store(":memory:")
    measure_rounds(rounds_of(), store, MadeUpCampaign(store), clock(2))

    errors, counts = draw_rounds(stored_rounds(store, PLATFORM, RULES), "here").axes

    assert {line.get_label() for line in errors.lines} == set(TYPES)
    assert len(counts.patches) == 2 * 3


def test_a_target_ends_the_rounds_early() -> None:
    store = Store(":memory:")

    reports = measure_rounds(rounds_of(target_error=10.0), store, MadeUpCampaign(store), clock(50))

    assert len(reports) == 1


def test_a_type_that_has_reached_the_target_gets_no_more() -> None:
    rounds = rounds_of(target_error=0.0)
    beginning = rounds.beginning()
    known = known_of(beginning)
    errors = {name: float(np.minimum(relative, 1).mean()) for name, (_, relative) in rounds.assess(known).items()}
    worse, better = sorted(errors, key=lambda name: -errors[name])
    between = (errors[worse] + errors[better]) / 2

    chosen = rounds_of(target_error=between).next_round(known)

    assert {name for name, _ in map(kernel_of, chosen)} == {worse}


def test_failed_kernels_are_neither_retried_nor_learned_from() -> None:
    store = Store(":memory:")
    campaign = MadeUpCampaign(store, fails=lambda name: name == "linear")
    rounds = rounds_of()

    measure_rounds(rounds, store, campaign, clock(2))

    assert len(set(campaign.measured)) == len(campaign.measured)
    assert set(rounds.errors) == {"conv"}


@pytest.mark.parametrize("sampler", ["random", "prior", "adaptive"])
def test_every_sampler_can_lead_the_rounds(sampler: str) -> None:
    store = Store(":memory:")
    rounds = rounds_of(60, sampler=sampler)

    measure_rounds(rounds, store, MadeUpCampaign(store), clock(2))

    assert set(rounds.errors) == set(TYPES)


def test_several_measurements_of_a_kernel_are_known_by_their_median_and_failed_ones_as_nan() -> None:
    row, failed = conv(8, 16), conv(16, 16)
    with Store(":memory:") as store:
        for index, latency_ms in enumerate((3.0, 1.0, 2.0)):
            store.add(
                Measurement(PLATFORM.id, kernel_reference("conv", row), "kernel", latency_ms=latency_ms, taken_at=str(index))
            )
        store.add(Measurement(PLATFORM.id, kernel_reference("conv", failed), "kernel", error="refused"))
        found = known_kernels(stored_kernels(store, PLATFORM), SingleKernels(RULES))

    assert found["conv"][row] == 2.0
    assert np.isnan(found["conv"][failed])
    assert len(found["conv"]) == 2


@pytest.mark.slow
def test_kernels_timed_alone_leave_no_kernel_of_real_networks_without_a_predictor() -> None:
    # As on a runtime that runs squeeze-and-excitation, attention and channel shuffles as one kernel each.
    rules = replace(RULES, runtime="everything", patterns=(*RULES.patterns, "squeeze_excite", "attention", "channel_shuffle"))
    zoo = collect_zoo(published_networks(("mobilenet_v3", "shufflenet_v2", "vit"), 1), rules)
    store = Store(":memory:")
    rounds = KernelRounds(rules, zoo, 400)
    measure_rounds(rounds, store, MadeUpCampaign(store), clock(1))

    predictor = Trainer(PLATFORM, rules, "kernels", "analytical").fit(collect_stored(store, PLATFORM, rules))

    names = ("mobilenet_v3_large", "shufflenet_v2_x1_0", "densenet121", "googlenet", "vgg16", "deit_tiny_16", "efficientnet_b0")
    predictions = [predictor.predict(build(model(name))) for name in names]
    found = {kernel.kernel_type for name in names for kernel in find_kernels(build(model(name)), rules) if not kernel.free}
    assert found <= set(predictor.kernels)
    kinds = {kernel.kernel_type for prediction in predictions for kernel in prediction.kernels}
    assert {
        "squeeze_excite",
        "attention",
        "channel_shuffle",
        "batch_norm",
        "concat",
        "average_pool",
        "max_pool",
        "reduce",
    } <= kinds


def test_samplers_and_types_that_do_not_exist_are_named() -> None:
    with pytest.raises(UnknownNameError, match="no sampler is called 'adaptiv'; known: adaptive"):
        rounds_of(sampler="adaptiv")
    with pytest.raises(TrainingError, match="none of attention is a kernel type that onnxruntime has kernels of"):
        rounds_of(types=("attention",))
