"""A device that is not known, from the latencies of some networks on it, from none to a hundred: a predictor like any other.

A value that does not fit the others counts less and is named; none is dropped. Many of them mean that the device is unlike all
known ones, which is said, and the interval is wider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from latcast.chips.chip_names import chip_of, facts, nearest, vendor_of
from latcast.chips.chip_table import Chip, chip_of_die
from latcast.chips.name_matching import joined
from latcast.devices.covariates import FACTS, covariates_of, kind_of, network_kernels
from latcast.devices.device_model import DescribedNetworks, DeviceModel
from latcast.devices.known_rows import Twin, most_like, traits_of
from latcast.devices.measured_networks import MeasuredNetworks, in_milliseconds
from latcast.devices.members import MEMBERS, Candidate
from latcast.errors import DatasetError, LatcastError, one_line
from latcast.kernels.rules import FusionRules
from latcast.predictors.card import POSTERIOR, TRAINING_KEYS, TRAINING_LINEAGES
from latcast.predictors.device_forecast import DeviceForecast
from latcast.predictors.intervals import LEVEL_DEVIATIONS, Interval
from latcast.predictors.metrics import judge
from latcast.predictors.network_features import NetworkFeatures, network_rules
from latcast.predictors.platform_posterior import linearised
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import UNIT_KINDS, Platform, Reference, Unit
from latcast.spaces.lineages import lineage_of

MISFIT_WEIGHT = 0.4
"""Student's weight below which a measured network is named."""

UNLIKE_SCALE = 3.0
"""Factor on the variances from which on a device is said to be unlike all known ones."""

UNLIKE_SHARE, FEWEST_MISFITS = 0.25, 2
"""Part of the measured networks that do not fit, from which on the same is said; of at least so many."""

NEAREST_SHOWN = 5

TWIN_WITHIN = 0.1
"""Deviation, of logarithms after a factor, up to which a known platform is named as the twin; any, on the same chip."""

FEWEST_FOR_A_TWIN = 3
"""Measured networks from which on their pattern names a twin on another chip."""

FEWEST_JUDGED = 5
"""Measured networks from which on the card says how well each is predicted from the others."""


@dataclass(frozen=True)
class Misfit:
    """A measured network that the others contradict.

    Attributes:
        name: Of the network.
        measured_ms: What was measured.
        expected_ms: What the others say.
        places: Where the value stands.
    """

    name: str
    measured_ms: float
    expected_ms: float
    places: tuple[str, ...]

    def __str__(self) -> str:
        at = f" ({', '.join(self.places)})" if self.places else ""
        return f"{self.name}{at}: {self.measured_ms:.4g} ms, where the others say {self.expected_ms:.4g}"


@dataclass(frozen=True)
class NewDevice:
    """A device that was added.

    Attributes:
        predictor: Of its platform; :func:`latcast.save_bundle` writes it.
        nearest: Known platforms that are most like it, the nearest first.
        twin: The first of them, where it is so near that it is named.
        misfits: Measured networks that the others contradict.
        notes: What was assumed and left out, a sentence each.
        warnings: Reasons to doubt the forecasts, a sentence each; the predictor's card has them too.
    """

    predictor: PlatformPredictor
    nearest: tuple[Twin, ...]
    twin: Twin | None
    misfits: tuple[Misfit, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in ("notes", "warnings"):
            object.__setattr__(self, name, tuple(map(one_line, getattr(self, name))))


def add_device(
    platform: Platform,
    measured: MeasuredNetworks,
    model: DeviceModel,
    *,
    device_text: str = "",
    chip_text: str = "",
    latency_unit: str = "",
) -> NewDevice:
    """Return a predictor of a platform from the latencies measured on it.

    Args:
        platform: The new one.
        measured: Latencies of networks; none for a device of which only the chip is known.
        model: Of known devices.
        device_text: What the device is called, where its name in the platform id does not say.
        chip_text: Its chip, where the device is not in the table.
        latency_unit: "ms", "s" or "us" where the user said it.

    Raises:
        DatasetError: No measured network has a graph, the unit is of no known kind, runs no networks or is of a batch of which
            nothing was measured, or the latencies are hardly milliseconds.
    """
    kind = kind_of(platform, {})
    covariates = covariates_of(platform, kind, device_text, chip_text)
    chip = chip_of(device_text or platform.device, chip_text, kind, vendor_of(platform))
    if chip is not None and kind == "gpu" and chip.gpu and not chip.has("gpu") and not measured.networks:
        others = ", ".join(each for each in UNIT_KINDS if chip.has(each))
        raise DatasetError(f"the {chip.gpu} of {chip.name} draws, and runs no networks; expected another of its units: {others}")
    batch = Unit.parse(platform.unit).batch
    if batch > 1 and not measured.networks:
        raise DatasetError(
            f"the unit is of a batch of {batch}, and only single images are known of; leave +b{batch} out, or measure networks"
        )
    die = chip.die if chip is not None else ""
    rules = network_rules(platform)
    known, features, notes = _with_graphs(measured, rules)
    described = model.described(features)
    if known.networks:
        nothing = described.rows(np.zeros(0, dtype=int))
        before = model.forecast(kind, covariates, nothing, np.zeros(0), die)
        typical_ms = np.exp(described.log_ms(before)[0]) * np.sqrt(batch)  # between that of one image and that of one by one
        known = in_milliseconds(known, typical_ms, latency_unit)
    log_ms = np.log([each.latency_ms for each in known.networks])
    candidates = model.candidates(kind, covariates, described, log_ms, die)
    forecast = model.arbitrated(kind, covariates, candidates, len(log_ms))
    forecast, (error, weight, scale) = with_own_networks(forecast, candidates, described, log_ms)
    # As a bundle keeps it, in single precision: what is written predicts what this predicts.
    forecast = DeviceForecast.from_arrays(forecast.member_names, forecast.arrays())
    misfits = tuple(
        Misfit(each.name, each.latency_ms, each.latency_ms / float(np.exp(error[row])), each.places)
        for row, each in enumerate(known.networks)
        if weight[row] < MISFIT_WEIGHT
    )
    alike = _nearest(model, kind, covariates, described, log_ms, die)
    twin = _named(alike, len(log_ms))
    warnings = _warnings(kind, len(log_ms), misfits, scale, alike, chip)
    runtime = next(name for name in covariates if name.startswith("runtime "))
    if runtime not in model.covariates:
        warnings.append(f"no known platform has the {runtime}: what others do counts; latcast platforms lists them")
    card = _card(known, model, error, warnings, alike, twin, device_text, chip_text)
    predictor = PlatformPredictor.of_device(platform.id, rules, forecast, typical_interval(model, forecast, kind), card)
    return NewDevice(predictor, alike, twin, misfits, (*measured.notes, *notes), tuple(warnings))


def _with_graphs(measured: MeasuredNetworks, rules: FusionRules) -> tuple[MeasuredNetworks, NetworkFeatures, list[str]]:
    """Return the networks whose kernels are known, their features, and what is left out."""
    kept, kernels, notes = [], [], []
    for each in measured.networks:
        try:
            kernels.append(network_kernels(each.reference, rules))
            kept.append(each)
        except LatcastError as problem:
            notes.append(f"{each.name} is left out: {problem}")
    if measured.networks and not kept:
        raise DatasetError(f"none of the {len(measured.networks)} measured networks has a graph here: {notes[0]}")
    return replace(measured, networks=tuple(kept)), NetworkFeatures.of(kernels), notes


class LeftOut(NamedTuple):
    """How well each measured network fits the others.

    Attributes:
        error: (networks,) logarithm of what was measured over what the others predict.
        weight: (networks,) Student's weight by the members that weigh networks; 1 without one.
        scale: Factor on the members' variances.
    """

    error: np.ndarray
    weight: np.ndarray
    scale: float


def with_own_networks(
    forecast: DeviceForecast, candidates: Sequence[Candidate], seen: DescribedNetworks, log_ms: np.ndarray
) -> tuple[DeviceForecast, LeftOut]:
    """Answer with what was measured where the device ran a network, and narrow intervals towards it, as these are calibrated to.

    A network that the others contradict is not kept.

    Args:
        forecast: From ``candidates``.
        seen: The measured networks.
        log_ms: (networks,) logarithms of their latencies.
    """
    by_name = {each.name: each for each in candidates}
    count = len(log_ms)
    error, scale, total = np.zeros(count), 0.0, 0.0
    weight, weighing = np.zeros(count), 0.0
    for member in forecast.members:
        found = by_name[member.name]
        error += member.weight * found.error
        scale, total = scale + member.weight * found.scale, total + member.weight
        if count and np.ptp(found.weight) > 0:
            weight, weighing = weight + member.weight * found.weight, weighing + member.weight
    left = LeftOut(error / total, weight / weighing if weighing else np.ones(count), scale / total)
    credible = left.weight >= MISFIT_WEIGHT
    memory = forecast.memory.with_measured(seen.place[credible], log_ms[credible])
    return replace(forecast, memory=memory), left


def _nearest(
    model: DeviceModel, kind: str, covariates: Mapping[str, float], described: DescribedNetworks, log_ms: np.ndarray, die: str
) -> tuple[Twin, ...]:
    if len(log_ms):
        return tuple(most_like(model, kind, covariates, described, log_ms, die, NEAREST_SHOWN))
    chip, group = chip_of_die(die), traits_of(covariates)[0]
    relation = nearest(chip, kind) if chip is not None else (lambda _: (0, 0, 0))
    known = [model.platforms[row] for row in model.rows_of_kind[kind]]
    known.sort(key=lambda each: (relation(chip_of_die(each.silicon)), len(group ^ traits_of(each.covariates)[0])))
    return tuple(Twin(each.name, None, None, bool(die) and each.silicon == die) for each in known[:NEAREST_SHOWN])


def _named(alike: Sequence[Twin], measured: int) -> Twin | None:
    """Return the nearest platform where it is near enough to be named as the twin."""
    for first in alike[:1]:
        near = measured >= FEWEST_FOR_A_TWIN and first.deviation is not None and first.deviation <= TWIN_WITHIN
        if measured and (first.same_chip or near):
            return first
    return None


def _warnings(
    kind: str, measured: int, misfits: Sequence[Misfit], scale: float, alike: Sequence[Twin], chip: Chip | None
) -> list[str]:
    found = []
    if not measured:
        called = "" if chip is None else chip.name if joined(chip.id) in joined(chip.name) else f"{chip.name} ({chip.id})"
        like = "platforms of its chip are known" if any(each.same_chip for each in alike) else "no platform of its chip is known"
        found.append(
            f"nothing was measured on this device: {like}, the interval is that of what is known of "
            + (f"the chip {called}" if called else f"any {kind}")
        )
        if chip is not None and (estimated := _not_known_of(chip)):
            found.append(f"not known of it, and estimated from chips that are alike: {', '.join(estimated)}")
    elif chip is None:
        found.append("its chip is not known; --chip names it, which counts where few networks were measured")
    many = len(misfits) >= FEWEST_MISFITS and len(misfits) > UNLIKE_SHARE * measured
    if measured and (many or (scale > UNLIKE_SCALE and not misfits)):
        found.append("the device is unlike all known ones, which makes its intervals wider; more measured networks narrow them")
    elif misfits:
        found.append(f"counted for little, as the others contradict it: {'; '.join(map(str, misfits))}")
    return found


def _not_known_of(chip: Chip) -> list[str]:
    """Return what the facts are called that are filled in of any of a chip's units: one warning is right for all."""
    units = [kind for kind in FACTS if getattr(chip, kind)]
    called = [words for kind in units for name, words in FACTS[kind].items() if name not in facts(chip, kind)]
    return [words for words in dict.fromkeys(called) if chip.cpu or words != "CPU clock"]


def typical_interval(model: DeviceModel, forecast: DeviceForecast, kind: str) -> Interval:
    """Return the interval of a network like those of the pool, on which it is calibrated; each network has its own."""
    opened = [member.scale * member.noise**2 for member in forecast.members]
    spread = forecast.factors[0][0] * float(np.median(forecast.coefficient_deviation) ** 2)
    deviation = float(np.sqrt(spread + forecast.factors[0][1] * forecast.weights @ np.array(opened)))
    known = len(model.known_places) if model.arbitration.get(kind) else 0
    return Interval(float(np.exp(-LEVEL_DEVIATIONS * deviation)), float(np.exp(LEVEL_DEVIATIONS * deviation)), known, 0.0)


def _card(
    known: MeasuredNetworks,
    model: DeviceModel,
    error: np.ndarray,
    warnings: Sequence[str],
    alike: Sequence[Twin],
    twin: Twin | None,
    device_text: str,
    chip_text: str,
) -> dict[str, Any]:
    networks = [each.reference for each in known.networks]
    card: dict[str, Any] = {
        "trained_on": f"{len(networks)} networks measured there, and {len(model.platforms)} known platforms",
        "learn_from": "networks",
        "model": POSTERIOR,
        "measurements": len(networks),
        TRAINING_KEYS: sorted(each.key for each in networks),
        TRAINING_LINEAGES: sorted({lineage_of(each) for each in networks}),
        "environment": {"device": {"name": device_text}, "chip": chip_text} if device_text or chip_text else {},
    }
    if len(networks) >= FEWEST_JUDGED:
        actual_ms = np.array([each.latency_ms for each in known.networks])
        card |= judge(actual_ms / np.exp(error), actual_ms).to_json() | {"held_out_by": "network, each from the others"}
        # The interval rests on the known platforms, not on these.
        card.pop("interval_coverage", None)
        card.pop("networks", None)
    card["nearest"] = [vars(each) for each in alike]
    if twin is not None:
        card["twin"] = vars(twin)
    if warnings:
        card["warning"] = "; ".join(warnings)
    return card


# What to measure next


@dataclass(frozen=True)
class Suggestion:
    """A network worth measuring.

    Attributes:
        reference: The network.
        deviation: Of the logarithms of the wanted networks' latencies once it is measured as well, the mean.
    """

    reference: Reference
    deviation: float


def suggest_networks(
    forecast: DeviceForecast, choices: Sequence[Reference], among: NetworkFeatures, wanted: NetworkFeatures, count: int
) -> tuple[float, list[Suggestion]]:
    """Choose the networks whose measurement would narrow the intervals of others most, each given those before it.

    The variance that remains does not depend on what will be measured, but on where: each choice lowers that of the wanted
    networks by ``(a' V b)² / (b' V b + σ²)``, with V the covariance of the leading member's state, a
    and b the derivatives of both.

    Args:
        forecast: What is known of the device.
        choices: Networks that can be measured.
        among: Their features.
        wanted: Features of the networks whose intervals count.
        count: How many.

    Returns:
        The mean deviation of the wanted networks now, and the suggestions.
    """
    leader = max(forecast.members, key=lambda member: member.weight * (member.name in MEMBERS))
    noise = leader.noise**2 * forecast.factors[0][1]

    def design(networks: NetworkFeatures) -> tuple[np.ndarray, np.ndarray]:
        basis, network_open, kernel_open = forecast.basis.of_networks(networks)
        left = forecast.network_scale**2 * network_open + forecast.kernel_scale**2 * kernel_open
        return linearised(leader.mean, networks.terms, basis)[1], left

    (first, first_open), (second, second_open) = design(among), design(wanted)
    covariance = leader.covariance * forecast.factors[0][0] * leader.scale
    shared = second @ covariance @ first.T
    mine = first @ covariance @ first.T
    variance = (second @ covariance * second).sum(axis=1) + forecast.factors[0][0] * second_open + noise
    own = np.diag(mine) + forecast.factors[0][0] * first_open + noise
    start = float(np.sqrt(np.maximum(variance, 0)).mean())
    found: list[Suggestion] = []
    free = np.ones(len(choices), dtype=bool)
    for _ in range(min(count, len(choices))):
        left = np.sqrt(np.maximum(variance[:, None] - shared**2 / own[None], 1e-9)).mean(axis=0)
        best = int(np.argmin(np.where(free, left, np.inf)))
        free[best] = False
        found.append(Suggestion(choices[best], float(left[best])))
        variance = variance - shared[:, best] ** 2 / own[best]
        shared, mine, own = (
            shared - np.outer(shared[:, best], mine[best]) / own[best],
            mine - np.outer(mine[:, best], mine[best]) / own[best],
            own - mine[:, best] ** 2 / own[best],
        )
    return start, found
