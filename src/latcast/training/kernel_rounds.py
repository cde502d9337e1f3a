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

from latcast.errors import TrainingError
from latcast.kernels.kernel import Configuration
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import SingleKernels
from latcast.measure.campaign import CampaignItem, CampaignReport
from latcast.measure.settings import KERNEL_PLAN
from latcast.predictors.analytical import AnalyticalTerms, fit_from_kernels
from latcast.predictors.kernel_predictor import KernelPredictor, fit_kernel_predictor
from latcast.predictors.metrics import Metrics, judge
from latcast.samplers import SAMPLERS, Sampler
from latcast.samplers.test_set import fixed_test_set
from latcast.spaces.kernel_space import KernelSpace, kernel_reference, kernel_spaces
from latcast.spaces.kernel_zoo import KernelZoo
from latcast.spaces.parametrisations import PARAMETRISATIONS, RARE
from latcast.training.samples import KnownKernels, known_kernels

TEST_SHARE, INITIAL_SHARE, ROUND_SHARE = 0.2, 0.4, 0.1
"""Parts of the planned kernels: the fixed test set, the initial samples, and each round."""

KERNELS_PER_SECOND = 5.0
"""What a campaign is planned for; a faster one has more rounds."""

BEGINNING_SHARE = 0.7
"""Part of the time after which the first round begins, even where initial samples are missing."""

LEAST_OF_A_TYPE = 25
"""Kernels that each type is planned with, beside its share in networks."""

LEAST_OF_A_ROUND = 20
"""Kernels of a round, however short the campaign."""

LEAST_SHARE = 0.4
"""Most of a plan that goes to these least numbers; a short campaign lowers them."""


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
            mixed = _mixed([plan.test_set, initial], Random(f"{name}/{self._seed}"))
            lists.append([_item(name, row) for row in mixed])
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
        lists = [[_item(name, row) for row in self._plans[name].sampler.suggest(number)] for name, number in wanted.items()]
        return _mixed(lists, Random(self._seed))

    def reached(self, type_name: str, relative: np.ndarray | None) -> bool:
        """Return whether a type needs no more samples, by the relative errors on its test set; None where they are not known."""
        if relative is None or self._target_error is None:
            return False
        return float(np.minimum(relative, 1.0).mean()) <= self._target_error

    def fit(self, samples: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> tuple[AnalyticalTerms, Mapping[str, KernelPredictor]]:
        """Return the predictors that the rounds are steered by, from configurations and milliseconds by type."""
        analytical = fit_from_kernels(samples)
        return analytical, {
            name: fit_kernel_predictor(name, rows, latency_ms, analytical, seed=self._seed)
            for name, (rows, latency_ms) in samples.items()
        }

    def assess(self, known: KnownKernels) -> Mapping[str, tuple[list[Configuration], np.ndarray]]:
        """Judge a fit to all known kernels outside the test sets on these, and keep the metrics in :attr:`errors`.

        Returns:
            By type, the test configurations that are known and the relative error on each.
        """
        samples, tests = {}, {}
        for name, plan in self._plans.items():
            measured = {row: latency_ms for row, latency_ms in known.get(name, {}).items() if not np.isnan(latency_ms)}
            test_rows = [row for row in plan.test_set if row in measured]
            held_out = set(plan.test_set)
            # Sorted, so that a fit does not depend on the order of measuring.
            rows = sorted(row for row in measured if row not in held_out)
            if rows:
                samples[name] = (np.array(rows), np.array([measured[row] for row in rows]))
                if test_rows:
                    tests[name] = (test_rows, np.array([measured[row] for row in test_rows]))
        self.errors = {}
        if not samples:
            return {}
        analytical, fitted = self.fit(samples)
        errors, metrics = {}, {}
        for name, (test_rows, actual) in tests.items():
            predicted = fitted[name].latency_ms(analytical, np.array(test_rows))
            errors[name] = (test_rows, np.abs(predicted / actual - 1))
            metrics[name] = judge(predicted, actual)
        self.errors = metrics
        return errors

    def errors_to_json(self) -> dict[str, dict[str, Any]]:
        """Return :attr:`errors` for cards: by kernel type, how many kernels were judged, and the figures."""
        found = {}
        for name, metrics in self.errors.items():
            figures = metrics.to_json()
            found[name] = {"kernels": figures.pop("networks"), **figures}
            del found[name]["interval_coverage"]
        return found


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
    while spent() < 1:
        items = rounds.next_round(known_kernels(store, platform, rounds.singles))
        if not items:
            break
        reports.append(run(items, 1.0))
    rounds.assess(known_kernels(store, platform, rounds.singles))
    return reports


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


def _item(name: str, configuration: Configuration) -> CampaignItem:
    return CampaignItem(kernel_reference(name, configuration), "kernel", KERNEL_PLAN)


def _mixed(lists: Sequence[Sequence[Any]], rng: Random) -> list[Any]:
    """Mix the lists so that every beginning holds about the same part of each."""

    def placed(elements: Sequence[Any]) -> Iterator[tuple[float, int, Any]]:
        for index, element in enumerate(elements):
            yield (index + rng.random()) / len(elements), index, element

    return [element for _, _, element in sorted(chain.from_iterable(map(placed, lists)), key=lambda entry: entry[:2])]
