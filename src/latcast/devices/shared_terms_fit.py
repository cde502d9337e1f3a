"""Fitting the model of all platforms, and its intervals on devices and networks that were left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from latcast.datasets.splits import by_group, by_network, device_of, lineage_of
from latcast.devices.few_measurements import FEWEST_PLATFORMS
from latcast.devices.latency_table import LatencyTable
from latcast.devices.network_kernels import network_kernels
from latcast.devices.network_novelty import NetworkNovelty
from latcast.devices.platform_terms import PlatformTerms, learn_platforms
from latcast.devices.shared_terms import Columns, Reach, SharedTerms
from latcast.errors import LatcastError, TrainingError
from latcast.graph.ir import Graph
from latcast.kernels.rules import FusionRules, platform_rules
from latcast.predictors.intervals import LEVEL, conformal_quantile
from latcast.predictors.network_terms import NetworkTerms
from latcast.records import Platform, Reference
from latcast.spaces import build
from latcast.spaces.measured_only import can_build

FEWEST_NETWORKS = 10

ACCIDENT = 0.05
"""Logarithm by which a known latency may lie off what its platform's terms say; the rest is an accident of the measurement."""

FOLD_SHARE = 0.25
"""Of the networks, how many are left out to calibrate intervals, once at random and once by lineage for each seed."""

FOLD_SEEDS = (0,)

NOVELTY_LEVELS = 3
"""In how many parts, by how little is known of a network, intervals are calibrated."""

FEWEST_DEVICES = 3
"""With fewer devices none can be left out, and intervals are Gaussian."""

SIGNATURE_SIZE = 10

EVERY = 2
"""Of the platforms of a kind, each so-many-th is learned again without some networks: one device's platforms are much alike."""


@dataclass(frozen=True)
class Kinds:
    """A table's platforms by the kernels they run.

    Attributes:
        rules: One for each kind.
        terms: The table's networks under each.
        rows: Rows of the table of each kind.
    """

    rules: tuple[FusionRules, ...]
    terms: tuple[NetworkTerms, ...]
    rows: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, table: LatencyTable) -> Kinds:
        """Raises LatcastError where a network cannot be built, or a platform's runtime has no rules."""
        rules: list[FusionRules] = []
        rows: list[list[int]] = []
        for row, name in enumerate(table.platforms):
            found = platform_rules(Platform.parse(name))
            if found not in rules:
                rules.append(found)
                rows.append([])
            rows[rules.index(found)].append(row)
        graphs = [_built(network) for network in table.networks]
        terms = [NetworkTerms.of([network_kernels(graph, each) for graph in graphs]) for each in rules]
        return cls(tuple(rules), tuple(terms), tuple(np.array(each) for each in rows))

    @property
    def order(self) -> np.ndarray:
        """Rows of the table in the order of the kinds."""
        return np.concatenate(self.rows)

    def thinned(self, every: int) -> Kinds:
        """Each so-many-th platform of each kind."""
        return replace(self, rows=tuple(rows[::every] for rows in self.rows))


@dataclass(frozen=True)
class Fold:
    """What was predicted without some networks.

    Attributes:
        model: Learned from the others.
        kept: Columns of the table that it was learned from.
        held_out: The other columns.
        columns: The kept networks, then those held out.
        log_ms: (platforms, networks) measured logarithms, the networks as in ``columns``, NaN where not.
    """

    model: SharedTerms
    kept: np.ndarray
    held_out: np.ndarray
    columns: Columns
    log_ms: np.ndarray

    def without_devices(self, devices: Sequence[str]) -> Fold:
        """As if some devices had never been seen."""
        kept = np.array([device_of(name) not in devices for name in self.model.platforms])
        columns = replace(self.columns, log_ms=self.columns.log_ms[kept])
        return replace(self, model=self.model.without_devices(devices), columns=columns, log_ms=self.log_ms[kept])


@dataclass(frozen=True)
class Fitted:
    """A model with what its intervals are calibrated by.

    Attributes:
        model: Not calibrated.
        folds: The same learned without some networks.
        log_ms: (platforms, networks) measured logarithms in the model's order, NaN where not.
    """

    model: SharedTerms
    folds: tuple[Fold, ...]
    log_ms: np.ndarray

    def without_devices(self, devices: Sequence[str]) -> Fitted:
        """As if some devices had never been seen."""
        kept = np.array([device_of(name) not in devices for name in self.model.platforms])
        folds = tuple(fold.without_devices(devices) for fold in self.folds)
        return Fitted(self.model.without_devices(devices), folds, self.log_ms[kept])

    def calibrated(self, size: int = SIGNATURE_SIZE) -> SharedTerms:
        """The model with intervals that hold what they say on devices, and networks, left out.

        Args:
            size: Measured networks of a device.
        """
        devices = sorted({device_of(name) for name in self.model.platforms})
        if len(devices) < FEWEST_DEVICES or not self.folds:
            return self.model
        known, unseen, novelty, residuals = [], [], [], []
        for fold in self.folds:
            seen = len(fold.kept)
            for device in devices:
                rest = fold.without_devices([device])
                for row, name in enumerate(fold.model.platforms):
                    if device_of(name) != device:
                        continue
                    actual = fold.log_ms[row]
                    chosen = _signature(rest.model, name, actual[:seen], size)
                    if not len(chosen):
                        continue
                    found = rest.model.predict_platform(name, chosen, actual[chosen], rest.columns)
                    score = np.abs(actual - found.log_ms) / found.deviation
                    score[chosen] = np.nan
                    known.append(score[:seen])
                    unseen.append(score[seen:])
                    novelty.append(np.sqrt(rest.columns.variance))
                    residuals.append(found.standardised_residual)
        if not known:
            return self.model
        of_known = np.concatenate(known)
        of_known = of_known[~np.isnan(of_known)]
        levels, reaches = _by_novelty(np.concatenate(novelty), np.concatenate(unseen))
        if not len(of_known) or not levels:
            return self.model
        count = len(of_known) + int((~np.isnan(np.concatenate(unseen))).sum())
        reach = Reach(conformal_quantile(of_known, LEVEL), levels, reaches, float(np.quantile(residuals, 0.95)), count)
        return replace(self.model, reach=reach)


def _by_novelty(novelty: np.ndarray, score: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Middle novelty, and the reach that holds :data:`LEVEL` of the scores, of equally large parts ordered by novelty."""
    order = np.argsort(novelty, kind="stable")
    order = order[~np.isnan(score[order])]
    parts = [part for part in np.array_split(order, NOVELTY_LEVELS) if len(part)]
    return tuple(float(np.median(novelty[part])) for part in parts), tuple(
        conformal_quantile(score[part], LEVEL) for part in parts
    )


def _signature(model: SharedTerms, platform: str, actual: np.ndarray, size: int) -> np.ndarray:
    """The networks to measure, of those that were measured on a platform."""
    measured = np.flatnonzero(~np.isnan(actual))
    part = replace(model, log_ms=model.log_ms[:, measured])
    return measured[part.signature(size, platform)] if len(measured) else measured


def usable_part(table: LatencyTable) -> LatencyTable:
    """Networks that can be built and platforms whose runtime has rules, with enough measured of each.

    Raises:
        TrainingError: Too little is left.
    """
    columns = [index for index, network in enumerate(table.networks) if can_build(network) and _builds(network)]
    rows = [index for index, name in enumerate(table.platforms) if _has_rules(name)]
    part = table.columns(columns).rows(rows) if columns and rows else table
    if columns and rows:
        part = part.rows(np.flatnonzero((~np.isnan(part.latency_ms)).sum(axis=1) >= FEWEST_NETWORKS))
    if not columns or len(part.platforms) < FEWEST_PLATFORMS:
        raise TrainingError(
            f"found {len(part.platforms) if columns and rows else 0} platforms with at least {FEWEST_NETWORKS} networks that can "
            f"be built, expected {FEWEST_PLATFORMS}; give more latencies"
        )
    return part.columns(np.flatnonzero(~np.isnan(part.latency_ms).all(axis=0)))


@lru_cache(maxsize=512)
def _built(network: Reference) -> Graph:
    return build(network)


def _builds(network: Reference) -> bool:
    try:
        _built(network)
    except LatcastError:
        return False
    return True


def _has_rules(name: str) -> bool:
    try:
        platform_rules(Platform.parse(name))
    except LatcastError:
        return False
    return True


def fit_shared_terms(
    table: LatencyTable,
    *,
    card: Mapping[str, Any] | None = None,
    kinds: Kinds | None = None,
    calibrate: bool = True,
    report: Callable[[str, float], None] = lambda _name, _share: None,
) -> Fitted:
    """Learns every platform of a table, and again without some networks.

    Args:
        table: Latencies; see :func:`usable_part`.
        card: What it was learned from.
        kinds: The table's platforms by kind, where that was worked out before.
        calibrate: Whether to learn the folds that intervals are calibrated by, too (:meth:`Fitted.calibrated`).
        report: Told what is done and how far it is, from 0 to 1.

    Raises:
        LatcastError: A network cannot be built, or a platform's runtime has no rules.
    """
    kinds = kinds or Kinds.of(table)
    everything = np.arange(len(table.networks))
    held = list(_folds(table.networks)) if calibrate else []
    steps = 1 + len(held)
    report("learning known platforms", 0.0)
    model = replace(_learn(table, kinds, everything), card=dict(card or {}))
    folds = []
    thin = kinds.thinned(EVERY)
    for index, held_out in enumerate(held):
        report("learning them without some networks", (1 + index) / steps)
        kept = np.setdiff1d(everything, held_out)
        if (~np.isnan(table.latency_ms[:, kept])).sum(axis=1).min() < FEWEST_NETWORKS / 2:
            continue
        part = _learn(table, thin, kept)
        rows = [platforms.log_ms(terms.only(held_out)) for platforms, terms in zip(part.parts, thin.terms, strict=True)]
        place = kinds.rules.index(part.novelty.reference.rules)
        columns = Columns.of(part.log_ms, np.concatenate(rows), part.novelty, kinds.terms[place].only(held_out))
        log_ms = np.log(table.latency_ms[np.ix_(thin.order, np.concatenate([kept, held_out]))])
        folds.append(Fold(part, kept, held_out, columns, log_ms))
    return Fitted(model, tuple(folds), np.log(table.latency_ms[kinds.order]))


def _folds(networks: Sequence[Reference]) -> Iterator[np.ndarray]:
    """Columns to leave out: at random, and by lineage where there are several."""
    place = {network.key: index for index, network in enumerate(networks)}
    lineages = {network.key: lineage_of(network) for network in networks}
    for seed in FOLD_SEEDS:
        splits = [by_network(place, seed, FOLD_SHARE)]
        if len(set(lineages.values())) > 1:
            splits.append(by_group(lineages, seed, FOLD_SHARE))
        for split in splits:
            yield np.array(sorted(place[key] for key in split.test))


def _learn(table: LatencyTable, kinds: Kinds, columns: np.ndarray) -> SharedTerms:
    """The model of some of the networks."""
    latency_ms = table.latency_ms[:, columns]
    parts: list[PlatformTerms] = []
    tables = []
    for rules, terms, rows in zip(kinds.rules, kinds.terms, kinds.rows, strict=True):
        names = [table.platforms[row] for row in rows]
        part = learn_platforms(names, rules, terms.only(columns), latency_ms[rows])
        parts.append(part)
        tables.append(_steadied(np.log(latency_ms[rows]), part.log_ms(terms.only(columns))))
    largest = int(np.argmax([len(rows) for rows in kinds.rows]))
    novelty = NetworkNovelty.of(parts[largest], kinds.terms[largest].only(columns))
    return SharedTerms(tuple(parts), tuple(table.networks[column] for column in columns), np.concatenate(tables), novelty)


def _steadied(measured: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Measured logarithms, accidents drawn in to what the terms say, missing ones as the terms say."""
    return np.where(np.isnan(measured), expected, np.clip(measured, expected - ACCIDENT, expected + ACCIDENT))
