"""Learning from kernels timed alone, in rounds (nn-Meter §5.2, Algorithm 2): measure, fit, look where the fit is wrong, measure
more there.

What comes next follows from what is known and from the seed, and from nothing else. So a campaign that was killed goes on from
its store: what was measured is observed again, and the rest is suggested as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Any

import numpy as np

from latcast.drawing import COLOURS, new_figure, plain
from latcast.environment import MOMENT
from latcast.errors import TrainingError
from latcast.kernels.kernel import Configuration
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import SingleKernels
from latcast.kernels.types import kernel_type
from latcast.measure.campaign import CampaignItem, CampaignReport
from latcast.measure.settings import KERNEL_PLAN
from latcast.predictors.analytical import AnalyticalTerms, fit_from_kernels
from latcast.predictors.kernel_predictor import KernelPredictor, fit_kernel_predictor
from latcast.predictors.metrics import Metrics, judge
from latcast.records import Measurement, Platform
from latcast.samplers import SAMPLERS, Sampler
from latcast.samplers.sampler import fixed_test_set
from latcast.spaces.kernel_space import KernelSpace, kernel_reference, kernel_spaces
from latcast.spaces.kernel_zoo import KernelZoo
from latcast.spaces.parametrisations import PARAMETRISATIONS, RARE
from latcast.training.samples import KnownKernels, known_kernels, stored_kernels

TEST_SHARE, INITIAL_SHARE, ROUND_SHARE = 0.2, 0.4, 0.1
"""Parts of the planned kernels: the fixed test set, the initial samples, and each round."""

KERNELS_PER_SECOND = 5.0
"""Speed that a campaign is planned for; a faster one has more rounds."""

BEGINNING_SHARE = 0.7
"""Part of the time after which the first round begins, even where initial samples are missing."""

LEAST_OF_A_TYPE = 25
"""Kernels that each type is planned with, beside its share in networks."""

LEAST_OF_A_ROUND = 20
"""Kernels of a round, however short the campaign."""

LEAST_SHARE = 0.4
"""Most of a plan that goes to these least numbers; a short campaign lowers them."""

ROUND, TEST_SET = "round", "test set"
"""Key in a record's moment of the round that chose the kernel: its number, 0 of the initial samples, or :data:`TEST_SET`."""


@dataclass(frozen=True)
class _Plan:
    """How many kernels of one type a campaign is planned with, and what decides on them."""

    share: float
    test_set: tuple[Configuration, ...]
    initial: int
    sampler: Sampler


class KernelRounds:
    """Rounds of kernels to measure, of all kernel types of a runtime.

    Args:
        rules: Fusion rules of the runtime.
        zoo: Kernels of networks: what priors and shares of types are learned from.
        count: How many kernels the whole campaign is planned for.
        sampler: Name in :data:`latcast.samplers.SAMPLERS`.
        seed: Of every random choice.
        types: Only these kernel types.
        target_error: Mean relative error on its test set at which a type gets no more samples.
        weight_of: Gives a type's weight among the planned kernels; its share in networks where None.

    Raises:
        UnknownNameError: No such sampler.
        TrainingError: None of the types is one that the runtime has.
    """

    def __init__(
        self,
        rules: FusionRules,
        zoo: KernelZoo,
        count: int,
        *,
        sampler: str = "adaptive",
        seed: int = 0,
        types: Sequence[str] | None = None,
        target_error: float | None = None,
        weight_of: Callable[[str], float] | None = None,
    ) -> None:
        make = SAMPLERS.get(sampler)
        # Rare types are measured where networks of the zoo have them.
        usual = [name for name in PARAMETRISATIONS if name not in RARE or name in zoo]
        self.singles = SingleKernels(rules)
        spaces = kernel_spaces(rules, usual if types is None else types, self.singles)
        if not spaces:
            raise TrainingError(f"none of {', '.join(types or ())} is a kernel type that {rules.runtime} has kernels of")
        self._count = count
        self._seed = seed
        self._target_error = target_error
        self.number = 0
        """Number of the last round that was chosen."""
        self._plans: dict[str, _Plan] = {}
        # Some of each type, and the rest by their weights.
        sizes = {name: len(zoo.get(name, {})) if weight_of is None else weight_of(name) for name in spaces}
        least = min(LEAST_OF_A_TYPE, LEAST_SHARE * count / len(sizes))
        rest = (count - least * len(sizes)) / max(sum(sizes.values()), 1)
        counts = {name: max(round(least + rest * size), 1) for name, size in sizes.items()}
        self.spaces: Mapping[str, KernelSpace] = spaces
        for name, space in spaces.items():
            listed = zoo.get(name, {})
            test_set = fixed_test_set(space, listed, max(round(TEST_SHARE * counts[name]), 2), seed)
            maker = make(space, listed, seed)
            maker.observe(test_set)
            initial = max(round(INITIAL_SHARE * counts[name]), 2)
            self._plans[name] = _Plan(counts[name] / count, tuple(test_set), initial, maker)
        self.errors: Mapping[str, Metrics] = {}
        """How the last fit did on the test set of each type."""

    def beginning(self) -> list[CampaignItem]:
        """Return the fixed test sets and the initial samples, types mixed by their shares; always the same ones."""
        lists = []
        for name, plan in self._plans.items():
            initial = plan.sampler.suggest(plan.initial)
            held_out = set(plan.test_set)
            mixed = _mixed([plan.test_set, initial], Random(f"{name}/{self._seed}"))
            lists.append([_item(name, row, TEST_SET if row in held_out else 0) for row in mixed])
        return _mixed(lists, Random(self._seed))

    def test_set(self, type_name: str) -> tuple[Configuration, ...]:
        """Return the fixed test set of a kernel type, which no round fits to."""
        return self._plans[type_name].test_set

    def next_round(self, known: KnownKernels) -> list[CampaignItem]:
        """Fit a predictor to the known kernels, judge it on the test sets, and choose the next kernels.

        Returns:
            Nothing where every type has reached the target, or has no kernels left.
        """
        errors = self.assess(known)
        weights = {}
        for name, plan in self._plans.items():
            measured = known.get(name, {})
            plan.sampler.observe(list(measured), latency_ms=list(measured.values()))
            mean = 1.0
            if name in errors:
                rows, relative = errors[name]
                plan.sampler.observe(rows, errors=relative.tolist())
                mean = float(np.minimum(relative, 1.0).mean())
            # Where the fit is right there is little to gain, however many kernels of the type networks have.
            weights[name] = 0.0 if self.reached(name, errors[name][1] if name in errors else None) else plan.share * mean
        wanted = _portions(weights, max(round(ROUND_SHARE * self._count), LEAST_OF_A_ROUND))
        self.number += 1
        lists = [
            [_item(name, row, self.number) for row in self._plans[name].sampler.suggest(count)] for name, count in wanted.items()
        ]
        return _mixed(lists, Random(self._seed))

    def reached(self, type_name: str, relative: np.ndarray | None) -> bool:
        """Return whether a type needs no more samples, by the relative errors on its test set; None where they are not known."""
        if relative is None or self._target_error is None:
            return False
        return float(np.minimum(relative, 1.0).mean()) <= self._target_error

    def fit(self, samples: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> tuple[AnalyticalTerms, Mapping[str, KernelPredictor]]:
        """Return the predictors that the rounds are steered by, from configurations and milliseconds by type."""
        return _fit(samples, self._seed)

    def assess(self, known: KnownKernels) -> Mapping[str, tuple[list[Configuration], np.ndarray]]:
        """Judge a fit to all known kernels outside the test sets on these, and keep the metrics in :attr:`errors`.

        Returns:
            By type, the test configurations that are known and the relative error on each.
        """
        errors, self.errors = _judge(known, {name: plan.test_set for name, plan in self._plans.items()}, self.fit)
        return errors

    def errors_to_json(self) -> dict[str, dict[str, Any]]:
        """Return :attr:`errors` for cards."""
        return _errors_to_json(self.errors)


Run = Callable[[Sequence[CampaignItem], float], CampaignReport]
"""Measures items, for no longer than until this part of the time is over."""


def measure_rounds(rounds: KernelRounds, store: Any, run: Run, spent: Callable[[], float]) -> list[CampaignReport]:
    """Measure in rounds until the time is over or the target is met.

    Args:
        rounds: What to measure.
        store: A :class:`latcast.datasets.store.Store` that ``run`` fills.
        run: Measures.
        spent: Part of the time that is over.
    """
    # What the store holds of the beginning already, the campaign passes over.
    reports = [run(rounds.beginning(), BEGINNING_SHARE)]
    platform = reports[0].platform
    rounds.number = max(_by_round(stored_kernels(store, platform)), default=0)
    while spent() < 1:
        items = rounds.next_round(known_kernels(stored_kernels(store, platform), rounds.singles))
        if not items:
            break
        reports.append(run(items, 1.0))
    rounds.assess(known_kernels(stored_kernels(store, platform), rounds.singles))
    return reports


def _errors_to_json(errors: Mapping[str, Metrics]) -> dict[str, dict[str, Any]]:
    """Return by kernel type how many kernels were judged, and the figures."""
    found = {}
    for name, metrics in errors.items():
        figures = metrics.to_json()
        found[name] = {"kernels": figures.pop("networks"), **figures}
        del found[name]["interval_coverage"]
    return found


Samples = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""Configurations, (samples, fields), and their milliseconds, by kernel type."""

Fit = tuple[AnalyticalTerms, Mapping[str, KernelPredictor]]


def _fit(samples: Samples, seed: int) -> Fit:
    analytical = fit_from_kernels(samples)
    return analytical, {
        name: fit_kernel_predictor(name, rows, latency_ms, analytical, seed=seed) for name, (rows, latency_ms) in samples.items()
    }


def _judge(
    known: KnownKernels, test_sets: Mapping[str, Sequence[Configuration]], fit: Callable[[Samples], Fit]
) -> tuple[dict[str, tuple[list[Configuration], np.ndarray]], dict[str, Metrics]]:
    """Fit to the known kernels outside the test sets, and judge on these.

    Returns:
        By type, the test configurations that are known with the relative error on each; and the metrics.
    """
    samples, tests = {}, {}
    for name, test_set in test_sets.items():
        measured = {row: latency_ms for row, latency_ms in known.get(name, {}).items() if not np.isnan(latency_ms)}
        test_rows = [row for row in test_set if row in measured]
        # Sorted, so that a fit does not depend on the order of measuring.
        rows = sorted(measured.keys() - set(test_set))
        if rows:
            samples[name] = (np.array(rows), np.array([measured[row] for row in rows]))
            if test_rows:
                tests[name] = (test_rows, np.array([measured[row] for row in test_rows]))
    if not samples:
        return {}, {}
    analytical, fitted = fit(samples)
    errors, metrics = {}, {}
    for name, (test_rows, actual) in tests.items():
        predicted = fitted[name].latency_ms(analytical, np.array(test_rows))
        errors[name] = (test_rows, np.abs(predicted / actual - 1))
        metrics[name] = judge(predicted, actual)
    return errors, metrics


@dataclass(frozen=True)
class StoredRound:
    """A round as a store has it.

    Attributes:
        number: 0 of the initial samples.
        sampled: By kernel type, the configurations that were measured in it, with their milliseconds.
        errors: By kernel type, how a fit to all rounds so far does on the fixed test set.
    """

    number: int
    sampled: KnownKernels
    errors: Mapping[str, Metrics]

    def to_json(self) -> dict[str, Any]:
        """Return the round for scripts, with each configuration by the names of its fields."""
        sampled = {
            name: [
                {**dict(zip(kernel_type(name).fields, row, strict=True)), "latency_ms": None if np.isnan(ms) else ms}
                for row, ms in rows.items()
            ]
            for name, rows in self.sampled.items()
        }
        return {"round": self.number, "sampled": sampled, "errors": _errors_to_json(self.errors)}


def draw_rounds(rounds: Sequence[StoredRound], title: str) -> Any:
    """Draw the error of each kernel type on its test set by round, over how many kernels of the types were measured in it.

    Types are drawn in the order of their kernels; those beyond the colours are grey.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    counts = {name: [len(each.sampled.get(name, ())) for each in rounds] for name in {n for each in rounds for n in each.sampled}}
    numbers, below = [each.number for each in rounds], np.zeros(len(rounds))
    figure = new_figure(7.5, 6.0, title)
    above_axes, below_axes = figure.subplots(2, 1, sharex=True)
    for place, name in enumerate(sorted(counts, key=lambda name: (-sum(counts[name]), name))):
        colour, label = (COLOURS[place], name) if place < len(COLOURS) else ("lightgrey", "")
        mape = [each.errors[name].mape if name in each.errors else np.nan for each in rounds]
        above_axes.plot(numbers, mape, marker="o", markersize=3.5, color=colour, label=label)
        below_axes.bar(numbers, counts[name], bottom=below, color=colour)
        below = below + counts[name]
    plain(above_axes, "", "MAPE on the test set, %")
    plain(below_axes, "round", "kernels measured")
    above_axes.set_ylim(bottom=0)
    above_axes.legend(fontsize="small", frameon=False)
    below_axes.xaxis.get_major_locator().set_params(integer=True)
    return figure


def stored_rounds(store: Any, platform: Platform, rules: FusionRules, *, seed: int = 0) -> list[StoredRound]:
    """Return the rounds in which kernels of a platform were measured, each judged anew.

    Args:
        store: A :class:`latcast.datasets.store.Store`.
        platform: Measured on it.
        rules: Its fusion rules.
        seed: Of the fits.

    Raises:
        TrainingError: No record says which round chose it.
    """
    singles, kernels = SingleKernels(rules), stored_kernels(store, platform)
    rounds = _by_round(kernels)
    if not rounds:
        raise TrainingError(
            f"no kernel of {platform} in {store.location} says which round chose it; found {len(kernels)} without; measure with: "
            "latcast profile --learn-from kernels --store FILE"
        )
    so_far = [each for each in kernels if _round_of(each) == TEST_SET]
    test_sets = {name: sorted(rows) for name, rows in known_kernels(so_far, singles).items()}
    found = []
    for number, measured in sorted(rounds.items()):
        so_far += measured
        errors = _judge(known_kernels(so_far, singles), test_sets, lambda samples: _fit(samples, seed))[1]
        found.append(StoredRound(number, known_kernels(measured, singles), errors))
    return found


def _by_round(kernels: Sequence[Measurement]) -> dict[int, list[Measurement]]:
    """Return the kernels outside the test sets by the number of their round."""
    found: dict[int, list[Measurement]] = {}
    for each in kernels:
        if isinstance(number := _round_of(each), int):
            found.setdefault(number, []).append(each)
    return found


def _round_of(kernel: Measurement) -> int | str | None:
    number: int | str | None = kernel.environment.get(MOMENT, {}).get(ROUND)
    return number


def _portions(weights: Mapping[str, float], count: int) -> dict[str, int]:
    """Split a number into whole parts by weights (largest remainders); nothing where all weights are 0."""
    total = sum(weights.values())
    if not total:
        return {}
    exact = {name: count * weight / total for name, weight in weights.items()}
    portions = {name: int(value) for name, value in exact.items()}
    rest = count - sum(portions.values())
    for name in sorted(exact, key=lambda name: portions[name] - exact[name])[:rest]:
        portions[name] += 1
    return portions


def _item(name: str, configuration: Configuration, chosen_in: int | str) -> CampaignItem:
    return CampaignItem(kernel_reference(name, configuration), "kernel", KERNEL_PLAN, {ROUND: chosen_in})


def _mixed(lists: Sequence[Sequence[Any]], rng: Random) -> list[Any]:
    """Mix the lists so that every beginning holds about the same part of each."""

    def placed(elements: Sequence[Any]) -> Iterator[tuple[float, int, Any]]:
        for index, element in enumerate(elements):
            yield (index + rng.random()) / len(elements), index, element

    return [element for _, _, element in sorted(chain.from_iterable(map(placed, lists)), key=lambda entry: entry[:2])]
