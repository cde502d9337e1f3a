"""How members are weighed and how wide intervals are, learned by leaving chips, networks and lineages out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from latcast.devices.device_model import (
    KINDS,
    Arbitration,
    DescribedNetworks,
    DeviceModel,
    KnownPlatform,
    Weighing,
    arbitration_at,
    member_weights,
)
from latcast.devices.members import Candidate
from latcast.predictors.device_forecast import LARGEST_DEVIATION, by_member, pooled
from latcast.predictors.intervals import LEVEL_DEVIATIONS
from latcast.predictors.network_features import NetworkFeatures
from latcast.predictors.network_memory import carried, nearness, squares_apart, variance_left
from latcast.spaces.iiswc20 import NAME as IISWC20
from shipping.device_model_fit import FEWEST_NETWORKS, Watch, fit_device_model, unwatched

MEASURED = (0, 1, 3, 10, 30)
"""Numbers of measured networks for which members are weighed and intervals calibrated; between them it is interpolated."""

FOLDS = 4

NOTHING, NEW_NETWORKS, NEW_LINEAGES = "nothing", "networks", "lineages"
"""Held out besides chips: nothing; networks that no known platform ran; these networks with their lineages."""


@dataclass(frozen=True)
class DeviceTrial:
    """A platform whose chip the model never saw, with some of its networks measured and others to predict.

    Attributes:
        platform: It.
        measured, tested: Networks.
        measured_log_ms, log_ms: Of the measured, and of the tested networks.
        held_out: What is held out.
        fold: Which fold its chip is in.
    """

    platform: KnownPlatform
    measured: np.ndarray
    tested: np.ndarray
    measured_log_ms: np.ndarray
    log_ms: np.ndarray
    held_out: str
    fold: int


def chip_folds(platforms: Sequence[KnownPlatform], parts: int, seed: int = 0) -> dict[str, int]:
    """Assign each silicon to a fold."""
    names = sorted({each.silicon for each in platforms})
    order = np.random.default_rng(seed).permutation(len(names))
    return {names[index]: place % parts for place, index in enumerate(order)}


def held_out_networks(lineages: Sequence[str], fold: int, seed: int = 0) -> np.ndarray:
    """Return which networks are held out in a fold, (networks,): whole lineages, about a third; a third of drawn ones.

    Args:
        lineages: Of the networks; "" for networks of a synthetic space, each of which is held out alone.
        fold: Of the chips; three folds hold every lineage out once.
        seed: Of the drawing.
    """
    rng = np.random.default_rng(1000 * seed + fold // 3)
    names = sorted(set(lineages) - {""})
    part = {name: place % 3 for name, place in zip(names, rng.permutation(len(names)), strict=True)}
    drawn = rng.integers(0, 3, len(lineages))
    return np.array([(part[name] if name else drawn[index]) == fold % 3 for index, name in enumerate(lineages)])


MOST_OF_A_CHIP = 2
"""Platforms of one chip, source and kind that are tried."""

FEWEST_TESTED = 4
"""Networks; platforms with fewer are not tried."""


def trials_of_fold(
    platforms: Sequence[KnownPlatform], out: np.ndarray, fold: int, measured: Sequence[int] = MEASURED, *, draws: int = 2,
    seed: int = 0,
) -> Iterator[DeviceTrial]:  # fmt: skip
    """Draw trials on platforms that a model has not seen, some of each chip and dataset.

    Args:
        platforms: Of the fold.
        out: (networks,) held out of the pool.
        fold: Its number.
        measured: Numbers of measured networks.
        draws: Of each number.
        seed: Of the drawing.
    """
    rng = np.random.default_rng([seed, fold])
    seen: Counter[tuple[str, str, str]] = Counter()
    for index in rng.permutation(len(platforms)):
        each = platforms[index]
        key = (each.silicon, each.source, each.kind)
        held = out[each.networks]
        if held.sum() < FEWEST_TESTED or seen[key] >= MOST_OF_A_CHIP:
            continue
        seen[key] += 1
        for held_out in (NOTHING, NEW_NETWORKS, NEW_LINEAGES):
            for count in measured:
                for _ in range(draws if count else 1):
                    among = np.arange(len(held)) if held_out == NEW_NETWORKS else np.flatnonzero(~held)
                    chosen = rng.permutation(among)[:count]
                    tested = np.setdiff1d(np.flatnonzero(~held if held_out == NOTHING else held), chosen)
                    if len(chosen) == count and len(tested) >= FEWEST_TESTED:
                        rows = each.networks[chosen], each.networks[tested], each.log_ms[chosen], each.log_ms[tested]
                        yield DeviceTrial(each, *rows, held_out, fold)


def without(platforms: Sequence[KnownPlatform], out: np.ndarray) -> list[KnownPlatform]:
    """Return the platforms without some networks, (networks,) booleans."""
    found = []
    for each in platforms:
        kept = ~out[each.networks]
        if kept.sum() >= FEWEST_NETWORKS:
            found.append(replace(each, networks=each.networks[kept], log_ms=each.log_ms[kept]))
    return found


@dataclass(frozen=True)
class MemberForecasts:
    """A trial with what every member made of it.

    Attributes:
        trial: It.
        names: Of the members.
        scores: (members,) how well each predicts every measured network from the others.
        log_ms: (members, tested) mean logarithm by each.
        open_variance, noise_variance: (members, tested) variances, as a forecast adds them up.
        known: (tested,) how far the pool knows each network.
        near: (tested,) how near each is to a measured one; see :func:`latcast.predictors.network_memory.nearness`.
        rivals: Other ways to forecast, by name: (tested,) logarithms.
        nearest: The same of the measured network that is nearest to each tested one; None where its residual does not count.
    """

    trial: DeviceTrial
    names: tuple[str, ...]
    scores: np.ndarray
    log_ms: np.ndarray
    open_variance: np.ndarray
    noise_variance: np.ndarray
    known: np.ndarray
    near: np.ndarray
    rivals: Mapping[str, np.ndarray] = field(default_factory=dict)
    nearest: MemberForecasts | None = None

    def of(self, part: np.ndarray, held_out: str) -> MemberForecasts:
        """Return the forecasts of some of the tested networks, of which something else is held out."""
        trial = replace(self.trial, tested=self.trial.tested[part], log_ms=self.trial.log_ms[part], held_out=held_out)
        return replace(
            self, trial=trial, log_ms=self.log_ms[:, part], open_variance=self.open_variance[:, part],
            noise_variance=self.noise_variance[:, part], known=self.known[part], near=self.near[part],
            nearest=None if self.nearest is None else self.nearest.of(part, held_out),
        )  # fmt: skip


def try_members(
    model: DeviceModel, described: DescribedNetworks, trial: DeviceTrial, *, with_nearest: bool = False
) -> MemberForecasts:
    """Apply all members to one trial; and to the measured networks nearest to the tested ones, if asked for."""
    platform, measured = trial.platform, described.rows(trial.measured)
    candidates = model.candidates(platform.kind, platform.covariates, measured, trial.measured_log_ms, platform.silicon)
    found = _by_candidates(model, described, trial, candidates)
    if not (with_nearest and len(trial.measured)):
        return found
    nearest = squares_apart(described.rows(trial.tested).place, measured.place).argmin(axis=1)
    again = replace(trial, tested=trial.measured[nearest], log_ms=trial.measured_log_ms[nearest])
    return replace(found, nearest=_by_candidates(model, described, again, candidates))


def _by_candidates(
    model: DeviceModel, described: DescribedNetworks, trial: DeviceTrial, candidates: Sequence[Candidate]
) -> MemberForecasts:
    platform = trial.platform
    seen = described.rows(trial.tested)
    novelty = seen.novelty(model.kinds[platform.kind])
    memory = model.memory(platform.kind, platform.covariates)
    nearest = memory.nearest(seen.place)
    offset, explained = memory.recalled_of(*nearest)
    log_ms, opened, noise = by_member(candidates, seen.terms, seen.basis, novelty, explained * memory.explained, nearest)
    names, scores = tuple(each.name for each in candidates), np.array([each.score for each in candidates])
    near = nearness(seen.place, described.rows(trial.measured).place)
    return MemberForecasts(trial, names, scores, log_ms + offset, opened, noise, memory.known(*nearest), near)


def try_fold(
    platforms: Sequence[KnownPlatform], networks: NetworkFeatures, lineages: Sequence[str], fold: int, *, folds: int = FOLDS,
    measured: Sequence[int] = MEASURED, seed: int = 0, draws: int = 2,
) -> tuple[DeviceModel, DescribedNetworks, list[MemberForecasts]]:  # fmt: skip
    """Return the model that never saw a fold's chips nor the networks held out with them, and the trials on them."""
    fold_of = chip_folds(platforms, folds, seed)
    out = held_out_networks(lineages, fold, seed)
    model = fit_device_model(without([each for each in platforms if fold_of[each.silicon] != fold], out), networks, seed=seed)
    described = model.described(networks)
    held = [each for each in platforms if fold_of[each.silicon] == fold]
    trials = trials_of_fold(held, out, fold, measured, draws=draws, seed=seed)
    return model, described, [try_members(model, described, trial) for trial in trials]


OTHER_KINDS = 0.15
"""Weight of trials on other kinds of units when widths of one kind are learned, and less where they are more than its own."""

MOST_ERROR = 3.0
"""Relative error from which on a network that is farther off costs no more."""

USUAL_TEMPER, CHIP_RIDGE = 0.1, 0.1
"""The temper before anything is learned; and the cost of a logarithm's distance, from that of the other members' weights or from
what is learned of all kinds of units, beside the mean error of one chip."""

MOST_TESTED = 25
"""Networks of a trial that weights are learned from."""

WIDTH_COST = 0.15
"""Cost of an interval e times as wide, against squared deviations from the level in units of 5 %."""

FACTORS = np.geomspace(0.3, 6.0, 14)


def learn_arbitration(tried: Sequence[MemberForecasts], counts: Sequence[int] = MEASURED) -> dict[str, tuple[Arbitration, ...]]:
    """Learn members' weights and variance factors, by kind of unit and number of measured networks.

    A trial counts for that of ``counts`` which is nearest to its number, by the logarithm.

    Weights, and how much the measured networks' evidence counts beside them, minimise the mixture's mean relative error on
    networks held out, every chip alike; factors are those with which 90 % lies inside, whatever is held out, each case alone.
    """
    found: dict[str, tuple[Arbitration, ...]] = dict.fromkeys(KINDS, ())
    logs = np.log(np.array(counts) + 0.5)
    measured = {len(each.trial.measured) for each in tried}
    nearest = {number: counts[int(np.abs(np.log(number + 0.5) - logs).argmin())] for number in measured}
    for count in counts:
        own = [each for each in tried if nearest[len(each.trial.measured)] == count]
        ran = [each for each in own if each.trial.held_out == NOTHING]
        unseen = [each for each in own if each.trial.held_out != NOTHING]
        if own:
            # Where one of the two was not tried, the other is the nearest to it.
            new, known = _weighings(unseen or ran), _weighings(ran or unseen)
            for kind in KINDS:
                found[kind] += (Arbitration(count, new[kind], known[kind]),)
    return found


def _weighings(tried: Sequence[MemberForecasts]) -> dict[str, Weighing]:
    """Return the weighing by kind of unit: what is best for all kinds alike, changed as far as the chips of one ask for it."""
    errors = _Errors.of(tried)
    # Each chip, and each kind of what is held out, has the same influence.
    keys = [(each.trial.platform.silicon, each.trial.platform.kind, each.trial.held_out) for each in tried]
    count = Counter(keys)
    trial_weights = 1 / np.array([count[key] for key in keys])
    chip_of, kind_of = (np.array(column) for column in list(zip(*keys, strict=True))[:2])
    own = {kind: np.where(kind_of == kind, trial_weights, 0.0) for kind in KINDS if kind in kind_of}
    start = np.append(np.zeros(len(errors.names)), np.log(USUAL_TEMPER))
    alike = sum((weights / weights.sum() for weights in own.values()), np.zeros(len(tried)))
    common = errors.minimum(alike, start, CHIP_RIDGE / len(set(chip_of)))
    found = {}
    for kind in KINDS:
        best = common
        if kind in own:
            best = errors.minimum(own[kind], common, CHIP_RIDGE / len(set(chip_of[kind_of == kind])))
        prior = np.exp(best[:-1] - best[:-1].max())
        learned = {name: float(weight) for name, weight in zip(errors.names, prior / prior.sum(), strict=True)}
        weighing = Weighing(learned, float(np.exp(best[-1])), 1.0, 1.0)
        widths = trial_weights.copy()
        other = kind_of != kind
        if other.any():
            widths[other] *= OTHER_KINDS * min(1.0, (widths[~other].sum() or np.inf) / widths[other].sum())
        found[kind] = Weighing(*weighing[:2], *_factors(tried, widths, weighing))
    return found


@dataclass(frozen=True)
class _Errors:
    """Errors of members on the tested networks of trials.

    Attributes:
        names: Of the members.
        error: (networks, members) logarithm of forecast over measured; 0 where a trial does not have the member.
        trial: (networks,) row of its trial.
        share: (networks,) part of its trial.
        scores: (trials, members) evidence beside the best member's; -inf where a trial lacks one.
    """

    names: tuple[str, ...]
    error: np.ndarray
    trial: np.ndarray
    share: np.ndarray
    scores: np.ndarray

    @classmethod
    def of(cls, tried: Sequence[MemberForecasts]) -> _Errors:
        names = sorted({name for one in tried for name in one.names})
        scores = np.full((len(tried), len(names)), -np.inf)
        errors = []
        for row, one in enumerate(tried):
            columns = [names.index(name) for name in one.names]
            scores[row, columns] = one.scores - one.scores.max()
            error = np.zeros((len(one.trial.log_ms), len(names)))
            error[:, columns] = (one.log_ms - one.trial.log_ms).T
            errors.append(error[:MOST_TESTED])
        size = np.array([len(error) for error in errors])
        trial = np.repeat(np.arange(len(tried)), size)
        return cls(tuple(names), np.concatenate(errors), trial, (1 / size)[trial], scores)

    def minimum(self, trial_weights: np.ndarray, start: np.ndarray, ridge: float) -> np.ndarray:
        """Find the logarithms of weights and of the temper, (members + 1,), of least mean relative error.

        Args:
            trial_weights: (trials,) influence of each.
            start: (members + 1,) where to begin, from which distances cost.
            ridge: Cost of these.
        """
        from scipy.optimize import minimize

        used = trial_weights[self.trial] > 0
        error, trial = self.error[used], self.trial[used]
        share = (trial_weights[self.trial] * self.share)[used]
        share /= share.sum()
        absent = np.isneginf(self.scores)
        finite = np.where(absent, 0.0, self.scores)

        def cost(parameters: np.ndarray) -> tuple[float, np.ndarray]:
            temper = np.exp(parameters[-1])
            power = np.where(absent, -np.inf, parameters[:-1] + temper * finite)
            weights = np.exp(power - power.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            spread = weights[trial]
            mean = (spread * error).sum(axis=1)
            grown = np.exp(np.minimum(mean, 5.0))
            missed = np.abs(grown - 1)
            slope = np.where(missed < MOST_ERROR, np.sign(mean) * grown, 0.0) * share
            by_logit = spread * (error - mean[:, None]) * slope[:, None]
            away = parameters - start
            away[:-1] -= away[:-1].mean()
            gradient = np.append(by_logit.sum(axis=0), temper * (by_logit * finite[trial]).sum()) + 2 * ridge * away
            return float((np.minimum(missed, MOST_ERROR) * share).sum() + ridge * (away**2).sum()), gradient

        bounds = [(-6, 6)] * len(self.names) + [(-4, 1)]
        return np.asarray(minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds).x)


def mixed(one: MemberForecasts, given: Arbitration) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean logarithm and calibrated variance, each (tested,), of the mixture."""
    weights = np.stack([member_weights(one.names, one.scores, each) for each in (given.new, given.known)], axis=1)
    factors = given.new[2:], given.known[2:]
    mean, variance = pooled(weights, factors, one.known, one.log_ms, one.open_variance, one.noise_variance)
    if one.nearest is not None:
        mean = mean + carried(one.nearest.trial.log_ms - mixed(one.nearest, given)[0], one.known, one.near)
    return mean, variance_left(one.near) * variance


def mixed_by_others(
    tried: Sequence[MemberForecasts], folds: int, counts: Sequence[int] = MEASURED
) -> Iterator[tuple[MemberForecasts, np.ndarray, np.ndarray]]:
    """Return each trial with its mixture's mean logarithm and calibrated variance, each (tested,).

    Weights of members and widths of intervals are learned from trials on chips of the other folds alone.

    Args:
        tried: Trials on chips of all folds.
        folds: Number of folds.
        counts: As for :func:`learn_arbitration`.
    """
    for fold in range(folds):
        others = [one for one in tried if one.trial.fold != fold]
        learned = learn_arbitration(others, counts)
        for one in tried:
            if one.trial.fold == fold:
                mean, variance = mixed(one, arbitration_at(learned[one.trial.platform.kind], len(one.trial.measured)))
                yield one, mean, np.minimum(variance, LARGEST_DEVIATION**2)


def _factors(tried: Sequence[MemberForecasts], trial_weights: np.ndarray, given: Weighing) -> tuple[float, float]:
    """Return the narrowest factors on both variances with which coverage is nearest to the level.

    Platforms that ran networks drawn from one search space are cases of their own, lest these, which are easily covered, hide
    that others are not.
    """
    by_case: dict[tuple[str, bool], list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]] = defaultdict(list)
    for one, weight in zip(tried, trial_weights, strict=True):
        only_open, only_noise = (
            mixed(one, Arbitration(0, *[given._replace(open_factor=a, noise_factor=b)] * 2)) for a, b in ((1.0, 0.0), (0.0, 1.0))
        )
        share = np.full(len(only_open[0]), weight / len(only_open[0]))
        case = one.trial.held_out, one.trial.platform.source == IISWC20
        by_case[case].append((np.abs(one.trial.log_ms - only_open[0]), only_open[1], only_noise[1], share))
    cases = [tuple(np.concatenate(part) for part in zip(*parts, strict=True)) for parts in by_case.values()]
    best, best_cost = (1.0, 1.0), np.inf
    for open_factor in FACTORS:
        for noise_factor in FACTORS:
            cost = 0.0
            for error, opened, noise, weight in cases:
                deviation = np.sqrt(open_factor * opened + noise_factor * noise)
                covered = np.average(error <= LEVEL_DEVIATIONS * deviation, weights=weight)
                off = (covered - 0.9) ** 2 * 400 + WIDTH_COST * np.average(np.log(deviation), weights=weight)
                cost += float(weight.sum() * off)
            if cost < best_cost:
                best, best_cost = (float(open_factor), float(noise_factor)), cost
    return best


def fit_calibrated(
    platforms: Sequence[KnownPlatform],
    networks: NetworkFeatures,
    lineages: Sequence[str],
    *,
    seed: int = 0,
    watch: Watch = unwatched,
) -> DeviceModel:
    """Fit the model of a pool with the arbitration of its members, learned by leaving chips and lineages out.

    Args:
        platforms, networks: As for :func:`fit_device_model`.
        lineages: (networks,) what is held out together; "" for those of a synthetic space.
        seed: Of all drawing.
        watch: Told of every step.
    """
    tried: list[MemberForecasts] = []
    for fold in range(FOLDS):
        watch("leaving chips and lineages out", fold, FOLDS)
        tried += try_fold(platforms, networks, lineages, fold, seed=seed)[2]
    watch("leaving chips and lineages out", FOLDS, FOLDS)
    return replace(fit_device_model(platforms, networks, seed=seed, watch=watch), arbitration=learn_arbitration(tried))
