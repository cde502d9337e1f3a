"""What is known of the pool's own platforms: the posterior of each from all of its networks, and how well that predicts others.

It is what :func:`latcast.devices.added_device.add_device` does with a device's networks. Only what weighs members and calibrates
intervals differs: it is learned from platforms whose chip, and often whose twin, is known, on networks held out. Three folds
hold every lineage out of the whole pool once; for each platform they tell how networks are predicted

- of lineages that it did not run ("lineages"): no platform ran them,
- that no platform ran, where it ran others of their lineages ("networks"),
- that others ran and it did not ("nothing").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from latcast.chips.chip_table import chips
from latcast.devices.added_device import typical_interval
from latcast.devices.device_model import Arbitration, DescribedNetworks, DeviceModel, KnownPlatform
from latcast.devices.members import FLOPS_AND_MEMORY
from latcast.predictors.card import FEWEST_JUDGED, POSTERIOR, TRAINING_KEYS, TRAINING_LINEAGES
from latcast.predictors.device_forecast import Member
from latcast.predictors.intervals import LEVEL_DEVIATIONS
from latcast.predictors.metrics import judge
from latcast.predictors.network_features import network_rules
from latcast.predictors.platform_posterior import linearised
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Measurement, Platform
from latcast.spaces.lineages import lineage_of
from shipping.arbitration import (
    NEW_LINEAGES,
    NEW_NETWORKS,
    NOTHING,
    DeviceTrial,
    MemberForecasts,
    chip_folds,
    held_out_networks,
    learn_arbitration,
    mixed_by_others,
    try_members,
)
from shipping.device_model_fit import FEWEST_NETWORKS, Watch, fit_device_model, unwatched
from shipping.files import PoolMember
from shipping.known_platforms import KnownPlatforms

FOLDS = 3
"""Each holds a third of the lineages out, and every third chip judges what was learned on the others."""

HIDDEN_SHARE = 0.15
"""Part of a platform's latencies of other networks that a fold holds out as well."""

COUNTS = (4, 12, 40, 120)
"""Numbers of measured networks for which members are weighed and intervals calibrated; between them it is interpolated."""


UNSTABLE_PERCENT = 5.0
"""Median difference of two runs, in percent, above which a platform is unstable."""


@dataclass(frozen=True)
class About:
    """Facts that the measurements of a platform state besides latencies.

    Attributes:
        card: Source, licence, and the label error where networks were timed more than once.
        repeat_percent: Median difference between two runs of a network, after one factor; None where there is one run.
    """

    card: Mapping[str, Any]
    repeat_percent: float | None

    @property
    def unstable(self) -> bool:
        """Return whether two runs differ by more than :data:`UNSTABLE_PERCENT`."""
        return self.repeat_percent is not None and self.repeat_percent > UNSTABLE_PERCENT


def about_platforms(measurements: Iterable[tuple[str, Measurement]]) -> dict[str, About]:
    """Return the facts by platform id; arguments as of :func:`shipping.known_platforms.known_platforms`."""
    first: dict[str, Measurement] = {}
    halves: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _, item in measurements:
        first.setdefault(item.platform, item)
        if len(item.runs_ms) >= 2 * FEWEST_RUNS:
            middle = len(item.runs_ms) // 2
            halves[item.platform].append((float(np.median(item.runs_ms[:middle])), float(np.median(item.runs_ms[middle:]))))
    found = {}
    for name, item in first.items():
        dataset = item.environment.get("dataset") or {}
        stated = item.environment.get("repeat_percent")
        percent = float(stated) if stated is not None else repeat_percent(np.array(halves[name])) if name in halves else None
        commit = f", commit {dataset['commit']}" if dataset.get("commit") else ""
        card = {
            "source": dataset.get("name"),
            "licence": f"{dataset.get('licence')} ({dataset.get('source')}{commit})",
            **({} if percent is None else {"label_error": round(percent / 2, 3)}),
        }
        found[name] = About(card, percent)
    return found


FEWEST_RUNS = 5
"""In each half of a network's runs."""


def repeat_percent(halves: np.ndarray) -> float:
    """Return the median relative difference between two runs, (networks, 2), after one factor for the pair.

    >>> repeat_percent(np.array([[10.0, 11.0], [20.0, 22.0], [30.0, 36.3]]))  # one factor of 1.1, and one network 10 % off
    0.0
    """
    apart = np.log(halves[:, 1] / halves[:, 0])
    return 100 * round(float(np.median(np.abs(np.expm1(apart - np.median(apart))))), 6)


def apart_from(model: DeviceModel, name: str) -> DeviceModel:
    """Return the model without a platform, so that its own latencies count once."""
    kept = [row for row, each in enumerate(model.platforms) if each.name != name]
    return replace(model, platforms=tuple(model.platforms[row] for row in kept), states=model.states[kept])


def try_known(pool: KnownPlatforms, wanted: Collection[str], *, seed: int = 0, watch: Watch = unwatched) -> list[MemberForecasts]:
    """Try platforms of the pool by models that know the platform and none of what they are tested on.

    Args:
        pool: All platforms.
        wanted: Ids of those to try.
        seed: Of all drawing.
        watch: Told of every fold.
    """
    platforms = [each for each in pool.platforms if len(each.networks) >= FEWEST_NETWORKS]
    chip_fold = chip_folds(platforms, FOLDS, seed)
    found: list[MemberForecasts] = []
    for fold in range(FOLDS):
        watch("leaving networks out", fold, FOLDS)
        out = held_out_networks(pool.lineages, fold, seed)
        rng = np.random.default_rng([seed, fold])
        hidden = [rng.random(len(each.networks)) < HIDDEN_SHARE for each in platforms]
        kept = []
        for each, part in zip(platforms, hidden, strict=True):
            rows = ~(part | out[each.networks])
            kept.append(replace(each, networks=each.networks[rows], log_ms=each.log_ms[rows]))
        model = fit_device_model(kept, pool.features, seed=seed)
        described = model.described(pool.features)
        for each, known, part in zip(platforms, kept, hidden, strict=True):
            if each.name in wanted and len(known.networks):
                own = apart_from(model, each.name)
                for trial in _trials(each, known, out[each.networks], part, chip_fold[each.silicon], rng):
                    found += _by_held_out(try_members(own, described, trial, with_nearest=True), out)
    watch("leaving networks out", FOLDS, FOLDS)
    return found


def _trials(
    platform: KnownPlatform, known: KnownPlatform, held: np.ndarray, hidden: np.ndarray, fold: int, rng: np.random.Generator
) -> Iterator[DeviceTrial]:
    """Return trials from the known networks to all held out, and with half of the unseen ones to the other half."""
    tested = held | hidden
    if tested.any():
        yield DeviceTrial(
            platform, known.networks, platform.networks[tested], known.log_ms, platform.log_ms[tested], NEW_LINEAGES, fold
        )
    half = rng.permutation(np.flatnonzero(held))
    first, second = half[: len(half) // 2], half[len(half) // 2 :]
    if len(first):
        measured = np.concatenate([known.networks, platform.networks[first]])
        log_ms = np.concatenate([known.log_ms, platform.log_ms[first]])
        yield DeviceTrial(platform, measured, platform.networks[second], log_ms, platform.log_ms[second], NEW_NETWORKS, fold)


def _by_held_out(tried: MemberForecasts, out: np.ndarray) -> Iterator[MemberForecasts]:
    """Split a trial on both into one on unseen networks and one on networks that others ran."""
    if tried.trial.held_out != NEW_LINEAGES:
        yield tried
        return
    new = out[tried.trial.tested]
    for held_out, part in ((NEW_LINEAGES, new), (NOTHING, ~new)):
        if part.any():
            yield tried.of(part, held_out)


@dataclass(frozen=True)
class PlatformErrors:
    """Predictions of networks held out, on one platform; each array (networks,).

    Attributes:
        error: Logarithm of measured over predicted.
        deviation: Calibrated, of that.
        log_ms: Logarithms of what was measured.
        networks: Which of the pool's.
        simple_error: Of the regression on FLOPs and memory.
    """

    error: np.ndarray
    deviation: np.ndarray
    log_ms: np.ndarray
    networks: np.ndarray
    simple_error: np.ndarray

    @property
    def inside(self) -> np.ndarray:
        """Return whether each lies in the 90 % interval."""
        return np.abs(self.error) <= LEVEL_DEVIATIONS * self.deviation


def held_out(tried: Sequence[MemberForecasts]) -> dict[tuple[str, str], PlatformErrors]:
    """Judge by platform and what is held out; weights and widths are learned on chips of the other folds."""
    parts: dict[tuple[str, str], list[PlatformErrors]] = defaultdict(list)
    for one, mean, variance in mixed_by_others(tried, FOLDS, COUNTS):
        trial = one.trial
        simple = one.log_ms[one.names.index(FLOPS_AND_MEMORY)]
        parts[trial.platform.name, trial.held_out].append(
            PlatformErrors(trial.log_ms - mean, np.sqrt(variance), trial.log_ms, trial.tested, trial.log_ms - simple)
        )
    return joined(parts)


def joined(parts: Mapping[tuple[str, str], Sequence[PlatformErrors]]) -> dict[tuple[str, str], PlatformErrors]:
    """Join the predictions of each platform and what is held out."""
    arrays = {key: zip(*(vars(each).values() for each in listed), strict=True) for key, listed in parts.items()}
    return {key: PlatformErrors(*map(np.concatenate, columns)) for key, columns in arrays.items()}


def known_arbitration(tried: Sequence[MemberForecasts]) -> dict[str, tuple[Arbitration, ...]]:
    """Return the weights of members and factors of intervals, of all trials."""
    return learn_arbitration(tried, COUNTS)


LEAST_WEIGHT = 0.03
"""Members below it are left out of a shipped forecast."""

EVERY = 4
"""One in so many networks of the pool stands for all when a covariance is made small."""


def pool_members(
    pool: KnownPlatforms, model: DeviceModel, judged: Mapping[tuple[str, str], PlatformErrors], wanted: Collection[str],
    about: Mapping[str, Mapping[str, Any]], watch: Watch = unwatched,
) -> Iterator[PoolMember]:  # fmt: skip
    """Yield each wanted platform, learned from all of its networks, with its card.

    Args:
        pool: All platforms.
        model: Fitted to them, with :func:`known_arbitration`.
        judged: From :func:`held_out`.
        wanted: Ids.
        about: Id to what its card says besides.
        watch: Told of every hundredth platform.
    """
    described = model.described(pool.features)
    listed = [each for each in pool.platforms if each.name in wanted]
    coverage = _coverage_by_kind(listed, judged)
    typical = described.rows(np.arange(0, len(pool.references), EVERY))
    for done, each in enumerate(listed):
        if done % 100 == 0:
            watch("posteriors of platforms", done, len(listed))
        own = apart_from(model, each.name)
        seen = described.rows(each.networks)
        candidates = own.candidates(each.kind, each.covariates, seen, each.log_ms, each.silicon)
        forecast = own.arbitrated(each.kind, each.covariates, candidates, len(each.networks), least_weight=LEAST_WEIGHT)
        nearest, ones = forecast.memory.nearest(seen.place), np.ones(len(each.networks))
        known = forecast.memory.known(*nearest)
        said = forecast.of_described(seen.terms, seen.basis, ones, known, nearest)[0]
        said = said + forecast.memory.recalled_of(*nearest)[0]
        forecast = replace(forecast, memory=forecast.memory.with_measured(seen.place, each.log_ms, each.log_ms - said))
        prior_of = {candidate.name: candidate.prior_covariance for candidate in candidates}
        priors = tuple(prior_of[member.name] for member in forecast.members)
        references = [pool.references[row] for row in each.networks]
        card = _card(each, judged, coverage[each.kind]) | {
            "trained_on": f"{len(references)} networks measured there, and {len(model.platforms) - 1} other platforms",
            TRAINING_KEYS: sorted(reference.key for reference in references),
            TRAINING_LINEAGES: sorted({lineage_of(reference) for reference in references}),
            **about.get(each.name, {}),
        }
        rules, interval = network_rules(Platform.parse(each.name)), typical_interval(model, forecast, each.kind)
        predictor = PlatformPredictor.of_device(each.name, rules, forecast, interval, card)
        yield PoolMember(predictor, priors, tuple(_moments(member, typical) for member in forecast.members))
    watch("posteriors of platforms", len(listed), len(listed))


def _moments(member: Member, networks: DescribedNetworks) -> np.ndarray:
    design = linearised(member.mean, networks.terms, networks.basis)[1]
    return np.asarray(design.T @ design / len(design))


def _coverage_by_kind(
    platforms: Sequence[KnownPlatform], judged: Mapping[tuple[str, str], PlatformErrors]
) -> dict[str, dict[str, float]]:
    """Return percent of networks inside the interval, by kind of unit and what is held out."""
    inside: dict[str, dict[str, list[np.ndarray]]] = defaultdict(lambda: defaultdict(list))
    for each in platforms:
        for case in (NOTHING, NEW_NETWORKS, NEW_LINEAGES):
            if (each.name, case) in judged:
                inside[each.kind][case].append(judged[each.name, case].inside)
    return {
        kind: {case: round(100 * float(np.concatenate(parts).mean()), 1) for case, parts in cases.items()}
        for kind, cases in inside.items()
    }


def _card(
    platform: KnownPlatform, judged: Mapping[tuple[str, str], PlatformErrors], coverage: Mapping[str, float]
) -> dict[str, Any]:
    """Return the figures on networks held out, those of unseen lineages first."""
    chip = chips().get(platform.silicon)
    card: dict[str, Any] = {
        "learn_from": "networks",
        "model": POSTERIOR,
        "measurements": len(platform.networks),
        "unit_kind": platform.kind,
        "chip": platform.silicon if chip is None else chip.name,
        "interval_coverage_of_kind": dict(coverage),
    }
    for case, key in ((NEW_LINEAGES, ""), (NEW_NETWORKS, "same_lineages"), (NOTHING, "networks_of_others")):
        found = judged.get((platform.name, case))
        if found is None:
            continue
        actual_ms = np.exp(found.log_ms)
        figures = judge(actual_ms / np.exp(found.error), actual_ms).to_json()
        figures["interval_coverage"] = 100 * float(found.inside.mean()) if len(found.error) >= FEWEST_JUDGED else None
        # Without a number, such as the rank correlation of one network, null.
        rounded = {
            name: value if not isinstance(value, float) else round(value, 3) if np.isfinite(value) else None
            for name, value in figures.items()
        }
        if key:
            card[key] = {name: rounded[name] for name in ("networks", "mape", "within_10") if name in rounded}
        else:
            card |= rounded | {"held_out_by": "lineage"}
    return card
