"""What known platforms measured of each network: a new device is known by its likeness to others.

Every platform of a kind of unit is a row over the networks: measured, or else what its state says. The device is one of them,
times a factor, and deviates from it in the directions in which platforms deviate from each other (depthwise convolutions that
are slower, say) as far as the measured networks show: a Gaussian around each row, with a share of the rows' covariance. Each row
counts as it explains the measured networks. Two members rest on this:

``twin``
    Without such deviations: one factor alone.
``likeness``
    With :data:`SHARES` of the covariance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from latcast.devices.members import TERM_COUNT, Candidate, left_out_score, on_diagonal, priced_as, stated_prices, stated_variance
from latcast.predictors.platform_posterior import linearised

if TYPE_CHECKING:
    from latcast.devices.device_model import DescribedNetworks, DeviceModel

TWIN, LIKENESS = "twin", "likeness"

SHARES = {TWIN: 0.0, LIKENESS: 0.3}
"""Part of the rows' covariance with which the device deviates from the row that it is like."""

SAME_SILICON, OTHER_GROUP, OTHER_WORD, TWICE_THE_THREADS = 10.0, 0.1, 0.45, 0.5
"""How much a platform counts against another: of the same silicon; of another runtime or precision; for each name of a core or
unit that only one of the two has; for each doubling of threads."""

UNMEASURED = 0.05
"""What is added to the part of the measured networks that a platform measured: how much one counts that measured none."""

SHAPE, SCALE = 1.0, 0.5
"""Prior of the factor on the variances between a device and its row: an inverse gamma distribution."""

CONTRADICTED = 2.5
"""Deviations beyond which a measured network that the others contradict counts less: it may be a slip."""

FOUR_FIFTHS, DEVIATIONS_OF_FOUR_FIFTHS = 0.8, 1.28
"""Part of the measured networks by which the likeness to a platform is judged, and within how many deviations that many lie."""

LEVEL_VARIANCE, OWN_VARIANCE = 2.0, 0.0025
"""Variance of a device's level, and of what is a device's own in one network (8 %), in logarithms."""

PRIOR_VARIANCE, PRIOR_COUNT = 0.003, 1.0
"""Variance of a forecast by rows before it is judged by left-out networks, and how many of those it counts as."""

ALONE_ERROR = 0.5
"""Logarithmic error by which a member is judged when one network was measured, and none is left to predict it from."""


@dataclass(frozen=True)
class Twin:
    """A known platform that a device is like.

    Attributes:
        platform: Its id.
        factor: How many times slower the device is; None where nothing was measured.
        deviation: Standard deviation of the logarithms of measured over its latencies, after the factor, by the four fifths that
            deviate least; None where no two networks were measured.
        same_chip: Whether it is the same silicon.
    """

    platform: str
    factor: float | None
    deviation: float | None
    same_chip: bool


class Rows(NamedTuple):
    """Rows of one kind of unit.

    Attributes:
        states: (platforms, state).
        known: (platforms, known networks) logarithms.
        away: (platforms, known networks) by how much these deviate from what the states say.
    """

    states: np.ndarray
    known: np.ndarray
    away: np.ndarray


@dataclass(frozen=True)
class _Likeness:
    """Rows of one kind of unit beside a device.

    Attributes:
        states: (platforms, state).
        known: (platforms, known networks) logarithms.
        seen: (platforms, measured networks) logarithms.
        prior: (platforms,) how probable each is before anything is measured.
        foreign: (platforms,) whether each is of another runtime than the device.
    """

    states: np.ndarray
    known: np.ndarray
    seen: np.ndarray
    prior: np.ndarray
    foreign: np.ndarray


class _Forecast(NamedTuple):
    """A member's forecast.

    Attributes:
        mean: (state,) of networks that no platform ran.
        known: (known networks,) logarithms.
        error: (measured networks,) measured logarithms less what the others say.
        weight: (platforms,) how much each row counts.
        foreign: Part of that of rows of other runtimes.
    """

    mean: np.ndarray
    known: np.ndarray
    error: np.ndarray
    weight: np.ndarray
    foreign: float


def row_members(
    model: DeviceModel, kind: str, covariates: Mapping[str, float], seen: DescribedNetworks, log_ms: np.ndarray, silicon: str
) -> list[Candidate]:
    """Return the members that rest on rows; none where nothing was measured or no rows are known.

    Args:
        model, kind, covariates, silicon: As for :meth:`latcast.devices.device_model.DeviceModel.forecast`.
        seen: The measured networks.
        log_ms: (networks,) logarithms of their latencies.
    """
    found = _likeness(model, kind, covariates, seen, silicon) if len(log_ms) else None
    if found is None:
        return []
    return [_candidate(model, kind, covariates, seen, name, _by_rows(found, log_ms, share)) for name, share in SHARES.items()]


def most_like(
    model: DeviceModel, kind: str, covariates: Mapping[str, float], seen: DescribedNetworks, log_ms: np.ndarray, silicon: str,
    count: int,
) -> list[Twin]:  # fmt: skip
    """Return the known platforms that explain the measured networks best, the likeliest first; arguments as above."""
    found = _likeness(model, kind, covariates, seen, silicon) if len(log_ms) else None
    if found is None:
        return []
    weight = _by_rows(found, log_ms, SHARES[TWIN]).weight
    listed = []
    for row in np.argsort(-weight, kind="stable")[:count].tolist():
        known = model.platforms[model.rows_of_kind[kind][row]]
        apart = log_ms - found.seen[row]
        factor = np.median(apart)
        off = np.abs(apart - factor)
        deviation = float(np.quantile(off, FOUR_FIFTHS) / DEVIATIONS_OF_FOUR_FIFTHS) if len(off) > 1 else None
        same_chip = bool(silicon) and known.silicon == silicon
        listed.append(Twin(known.name, float(np.exp(factor)), deviation, same_chip))
    return listed


def _likeness(
    model: DeviceModel, kind: str, covariates: Mapping[str, float], seen: DescribedNetworks, silicon: str
) -> _Likeness | None:
    places = model.rows_of_kind[kind]
    if not len(model.known_terms) or not len(places):
        return None
    listed = [model.platforms[place] for place in places]
    states, known, away = model.rows_under(kind, covariates)
    nearest, alike = model.memory(kind, covariates).nearest(seen.place)
    own = states_log_ms(states, seen.terms, seen.basis) + alike * away[:, nearest]
    measured = (alike * model.ran[kind][:, nearest]).mean(axis=1)
    group, words, threads = traits_of(covariates)
    of_each = [traits_of(each.covariates) for each in listed]
    prior = np.array([1.0 if each[0] == group else OTHER_GROUP for each in of_each]) * (UNMEASURED + measured)
    prior *= OTHER_WORD ** np.array([len(words ^ each[1]) for each in of_each])
    prior *= TWICE_THE_THREADS ** np.array([abs(threads - each[2]) for each in of_each])
    prior *= np.array([SAME_SILICON if silicon and each.silicon == silicon else 1.0 for each in listed])
    foreign = np.array([any(word.startswith("runtime ") for word in each[0] ^ group) for each in of_each])
    return _Likeness(states, known, own, prior / prior.sum(), foreign)


def traits_of(covariates: Mapping[str, float]) -> tuple[frozenset[str], frozenset[str], float]:
    """Return the words of a platform's runtime and precision, those of its cores and units, and the logarithm of its threads."""
    words = frozenset(name for name in covariates if "=" in name and " vendor=" not in name)
    group = frozenset(name for name in covariates if name.startswith(("runtime ", "precision ")))
    return group, words, covariates.get("cpu threads", 0.0)


def states_log_ms(states: np.ndarray, terms: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Return what platforms' states say of networks, (platforms, networks) logarithms."""
    prices = np.exp(np.clip(states[:, :TERM_COUNT], -25, 25))
    return np.asarray(np.log(prices @ terms.T) + states[:, TERM_COUNT:] @ basis.T)


def complete_rows(model: DeviceModel, kind: str) -> np.ndarray:
    """Return the rows of a kind of unit, (platforms, networks) logarithms: measured, or what states and memory say."""
    places = model.rows_of_kind[kind]
    found = states_log_ms(model.states[places], model.known_terms, model.known_basis)
    for row, place in enumerate(places):
        each = model.platforms[place]
        ran = model.same_network[each.networks]
        count = np.bincount(ran, minlength=found.shape[1])
        mean = np.bincount(ran, each.log_ms, minlength=found.shape[1]) / np.maximum(count, 1)
        offsets = model.memory(kind, each.covariates).offsets
        found[row] = np.where(count > 0, mean, found[row] + offsets)[model.same_network]
    return found


def rows_as_under(model: DeviceModel, kind: str, covariates: Mapping[str, float]) -> Rows:
    """Return the rows of a kind of unit as they would be under a device's runtime: with the prices that are stated there."""
    places = model.rows_of_kind[kind]
    away = model.rows_log_ms[kind] - states_log_ms(model.states[places], model.known_terms, model.known_basis)
    stated = stated_prices(covariates)
    own = [model.platforms[each].covariates for each in places]
    states = np.array(
        [priced_as(model.states[row], each, stated, stated_prices(each)) for row, each in zip(places, own, strict=True)]
    )
    return Rows(states, away + states_log_ms(states, model.known_terms, model.known_basis), away)


def _by_rows(rows: _Likeness, log_ms: np.ndarray, share: float) -> _Forecast:
    """Forecast a device as each row and a Gaussian around it, and weigh these by how well they explain what was measured."""
    count, prior = len(log_ms), rows.prior
    # Between rows, levels do not count: the device has one of its own.
    level = (rows.known - rows.known.mean(axis=0)).mean(axis=1)
    level -= prior @ level
    known, seen = rows.known - level[:, None], rows.seen - level[:, None]
    centred = np.sqrt(prior)[:, None] * (seen - prior @ seen)
    shared = share * centred.T @ centred + LEVEL_VARIANCE
    apart = log_ms - rows.seen
    own = np.full(count, OWN_VARIANCE)
    for _ in range(2):
        precision = np.linalg.inv(shared + np.diag(own))
        diagonal = np.diag(precision)
        dual = apart @ precision
        square = (dual * apart).sum(axis=1)
        weight = _weights(prior[:, None], square[:, None], count)[:, 0]
        by_others = _weights(prior[:, None], square[:, None] - dual**2 / diagonal, count - 1)
        error = (by_others * dual / diagonal).sum(axis=0)
        own = OWN_VARIANCE * np.maximum(1.0, error**2 * diagonal / CONTRADICTED**2)
    by_row = weight @ dual
    direction = np.sqrt(prior) * (share * centred @ by_row)
    direction -= prior * direction.sum()
    shift = LEVEL_VARIANCE * float(by_row.sum())
    mean = (weight + direction) @ rows.states
    mean[:TERM_COUNT] += shift - direction @ level
    if count == 1:
        error = np.full(1, ALONE_ERROR)
    return _Forecast(mean, weight @ rows.known + direction @ known + shift, error, weight, float(weight @ rows.foreign))


def _weights(prior: np.ndarray, square: np.ndarray, count: int) -> np.ndarray:
    """Return the rows' probabilities, (rows, ...), from their squared deviations over so many networks."""
    power = np.log(prior) - (SHAPE + (count - 1) / 2) * np.log(SCALE + np.maximum(square, 0.0) / 2)
    weight = np.exp(power - power.max(axis=0))
    return np.asarray(weight / weight.sum(axis=0))


def _candidate(
    model: DeviceModel, kind: str, covariates: Mapping[str, float], seen: DescribedNetworks, name: str, found: _Forecast
) -> Candidate:
    mean, known, error = found[:3]
    memory = model.memory(kind, covariates)
    judged = error if len(error) > 1 else np.zeros(0)
    variance = (PRIOR_COUNT * PRIOR_VARIANCE + float((np.minimum(np.abs(judged), 1.0) ** 2).sum())) / (PRIOR_COUNT + len(judged))
    own = known - states_log_ms(mean[None], model.known_terms, model.known_basis)[0] - memory.offsets
    noise = float(np.sqrt(variance / (1 - memory.explained)))
    score = left_out_score(error)
    # A row of another runtime says nothing of what is priced by runtime, until the device itself ran some of it.
    stated = stated_variance(stated_prices(covariates))
    seen_share = linearised(mean, seen.terms, seen.basis)[1][:, :TERM_COUNT]
    left = stated / (1 + stated * (seen_share**2).sum(axis=0) / variance)
    prior_covariance, covariance = (on_diagonal(each, len(mean)) for each in (stated, found.foreign * left))
    return Candidate(name, mean, covariance, noise, 1.0, score, error, np.ones(len(error)), prior_covariance, own)
