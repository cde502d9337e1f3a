"""What known platforms measured of each network: a new device is known by its likeness to others.

Every platform of a kind of unit is a row over the networks: measured, or else what its state says. Three members rest on them:

``twin``
    The device is one of them, times a factor: each counts as much as it explains the measured networks. Where one does so
    alone, it is used alone.
``rows``
    The device is a sum of all of them: Gaussian regression with the covariance of the rows.
``likeness``
    The mean of both, whose errors are mostly unlike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from latcast.devices.members import TERM_COUNT, Candidate, left_out_score

if TYPE_CHECKING:
    from latcast.devices.device_model import DescribedNetworks, DeviceModel

TWIN, ROWS, LIKENESS = "twin", "rows", "likeness"

OTHER_GROUP, SAME_SILICON = 0.1, 10.0
"""How much a platform of another runtime or precision counts, and one of the same silicon, against one of the same."""

UNMEASURED = 0.05
"""What is added to the part of the measured networks that a platform measured: how much one counts that measured none."""

TWIN_SHAPE, TWIN_VARIANCE = 1.0, 0.002
"""Prior of the variance between twins after a factor: an inverse gamma distribution's shape and scale, in logarithms."""

MOST_APART = 0.3
"""Logarithm beyond which one measured network does not tell platforms apart any further: it may be a slip."""

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
        factor: How many times slower the device is.
        weight: Probability that it is this one, among all known ones.
        deviation: Standard deviation of the logarithms of measured over its latencies, after the factor.
        same_chip: Whether it is the same silicon.
    """

    platform: str
    factor: float
    weight: float
    deviation: float
    same_chip: bool


@dataclass(frozen=True)
class _Likeness:
    """Rows of one kind of unit beside a device.

    Attributes:
        states: (platforms, state).
        known: (platforms, known networks) logarithms.
        seen: (platforms, measured networks) logarithms.
        prior: (platforms,) how much each counts before anything is measured.
    """

    states: np.ndarray
    known: np.ndarray
    seen: np.ndarray
    prior: np.ndarray


class _Forecast(NamedTuple):
    """A member's forecast.

    Attributes:
        mean: (state,) of networks that no platform ran.
        known: (known networks,) logarithms.
        error: (measured networks,) measured logarithms less what the others say.
    """

    mean: np.ndarray
    known: np.ndarray
    error: np.ndarray


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
    parts = {TWIN: _by_twins(found, log_ms), ROWS: _by_covariance(found, log_ms)}
    parts[LIKENESS] = _Forecast(*(np.mean(each, axis=0) for each in zip(*parts.values(), strict=True)))
    return [_candidate(model, kind, covariates, name, each) for name, each in parts.items()]


def twin_of(
    model: DeviceModel, kind: str, covariates: Mapping[str, float], seen: DescribedNetworks, log_ms: np.ndarray, silicon: str
) -> Twin | None:
    """Return the known platform that explains the measured networks best; None where nothing was measured."""
    found = _likeness(model, kind, covariates, seen, silicon) if len(log_ms) else None
    if found is None:
        return None
    weight, level = _twin_weights(found.seen, found.prior, log_ms)
    best = int(np.argmax(weight))
    known = model.platforms[model.rows_of_kind[kind][best]]
    apart = float((log_ms - found.seen[best] - level[best]).std())
    return Twin(known.name, float(np.exp(level[best])), float(weight[best]), apart, bool(silicon) and known.silicon == silicon)


def _likeness(
    model: DeviceModel, kind: str, covariates: Mapping[str, float], seen: DescribedNetworks, silicon: str
) -> _Likeness | None:
    from latcast.devices.device_model import group_of

    places = model.rows_of_kind[kind]
    if not len(model.known_terms) or not len(places):
        return None
    listed = [model.platforms[place] for place in places]
    states, known = model.states[places], model.rows_log_ms[kind]
    by_state = states_log_ms(states, seen.terms, seen.basis)
    by_state_known = states_log_ms(states, model.known_terms, model.known_basis)
    nearest, alike = model.memory(kind, covariates).nearest(seen.place)
    own = by_state + alike * (known - by_state_known)[:, nearest]
    same = model.same_network
    measured = np.array([(alike * np.isin(same[nearest], same[each.networks])).mean() for each in listed])
    group = group_of(kind, covariates)
    same_group = np.array([group_of(kind, each.covariates) == group for each in listed])
    die = np.array([bool(silicon) and each.silicon == silicon for each in listed])
    prior = np.where(same_group, 1.0, OTHER_GROUP) * np.where(die, SAME_SILICON, 1.0) * (UNMEASURED + measured)
    return _Likeness(states, known, own, prior)


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


def _twin_weights(rows: np.ndarray, prior: np.ndarray, log_ms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each platform's probability to be the twin, and the device's level above it, each (platforms,)."""
    apart = log_ms - rows
    middle = np.median(apart, axis=1, keepdims=True)
    held = middle + np.clip(apart - middle, -MOST_APART, MOST_APART)
    level = held.mean(axis=1)
    squares = TWIN_VARIANCE + ((held - level[:, None]) ** 2).sum(axis=1) / 2
    shape = TWIN_SHAPE + (len(log_ms) - 1) / 2
    power = np.log(prior) - shape * np.log(squares)
    weight = np.exp(power - power.max())
    return weight / weight.sum(), level


def _by_twins(rows: _Likeness, log_ms: np.ndarray) -> _Forecast:
    weight, level = _twin_weights(rows.seen, rows.prior, log_ms)
    state = rows.states.copy()
    state[:, :TERM_COUNT] += level[:, None]
    error = np.full(len(log_ms), ALONE_ERROR)
    for out in range(len(log_ms) if len(log_ms) > 1 else 0):
        kept = np.arange(len(log_ms)) != out
        by_others, level_of = _twin_weights(rows.seen[:, kept], rows.prior, log_ms[kept])
        error[out] = log_ms[out] - by_others @ (rows.seen[:, out] + level_of)
    return _Forecast(weight @ state, weight @ (rows.known + level[:, None]), error)


def _by_covariance(rows: _Likeness, log_ms: np.ndarray) -> _Forecast:
    part = rows.prior / rows.prior.sum()
    level = (rows.known - rows.known.mean(axis=0)).mean(axis=1)
    level -= part @ level
    known, seen = rows.known - level[:, None], rows.seen - level[:, None]
    state = rows.states.copy()
    state[:, :TERM_COUNT] -= level[:, None]
    root = np.sqrt(part)[:, None]
    centred = root * (seen - part @ seen)
    shared = centred.T @ centred + LEVEL_VARIANCE
    difference = log_ms - part @ seen
    own = np.full(len(log_ms), OWN_VARIANCE)
    for _ in range(2):
        precision = np.linalg.inv(shared + np.diag(own))
        dual = precision @ difference
        error = dual / np.diag(precision)
        # A value that the others contradict counts less.
        own = OWN_VARIANCE * np.maximum(1.0, (error * np.sqrt(np.diag(precision)) / 2.5) ** 2)
    by_row = root[:, 0] * (centred @ dual)
    weight = part + by_row - part * by_row.sum()
    shift = LEVEL_VARIANCE * float(dual.sum())
    mean = weight @ state
    mean[:TERM_COUNT] += shift
    if len(log_ms) == 1:
        error = np.full(1, ALONE_ERROR)
    return _Forecast(mean, weight @ known + shift, error)


def _candidate(model: DeviceModel, kind: str, covariates: Mapping[str, float], name: str, found: _Forecast) -> Candidate:
    mean, known, error = found
    memory = model.memory(kind, covariates)
    judged = error if len(error) > 1 else np.zeros(0)
    variance = (PRIOR_COUNT * PRIOR_VARIANCE + float((np.minimum(np.abs(judged), 1.0) ** 2).sum())) / (PRIOR_COUNT + len(judged))
    own = known - states_log_ms(mean[None], model.known_terms, model.known_basis)[0] - memory.offsets
    noise = float(np.sqrt(variance / (1 - memory.explained)))
    score = left_out_score(error, np.full(len(error), variance))
    certain = np.zeros((len(mean), len(mean)))
    return Candidate(name, mean, certain, noise, 1.0, score, error, np.ones(len(error)), certain, own)
