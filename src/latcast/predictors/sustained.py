"""The latency after minutes of running: a device that gets hot lowers its clocks.

A class of devices has two numbers: by how much a latency grows in the end, and how fast:
``latency(t) = latency * (1 + rise * (1 - exp(-t / constant)))``. ``sustained.json`` has those of phones' GPUs and NPUs, learned
from published curves; ``latcast measure --sustain`` keeps one of the device that it runs on. Other classes are not predicted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from latcast.chips.chip_names import chip_of
from latcast.errors import LatcastError
from latcast.predictors.conditions import Sustained, found_out, keep_found
from latcast.predictors.prediction import Prediction
from latcast.reading import read_json
from latcast.records import Platform, Unit

SHIPPED = Path(__file__).with_name("sustained.json")

PHONE_CHIPS = r"Snapdragon (?!X|8cx)|Exynos|Kirin|Dimensity|Helio|Tensor G|Apple A\d+(?![\dXZ])"
"""Beginnings of the names of chips in phones, which are cooled alike: by their case alone: not those of laptops."""

LEAST_RISE = 0.05
"""Smallest rise that counts as heat: other programs and the host cause less."""

LAST_SHARE, LEAST_CONSTANT_S = 0.25, 5.0
"""Part of a curve that shows how well its end is met, and the shortest time constant that is looked for."""


@dataclass(frozen=True)
class Curve:
    """How latencies rise while a class of devices, or one device, runs without a pause.

    Attributes:
        rise, rise_low, rise_high: Part by which they are longer at last, with the range of what was measured.
        constant_s: Seconds after which 63 % of that has come about.
        minutes: Length of the curves; later it is taken as at their end.
        basis: What was measured, for people.
    """

    rise: float
    rise_low: float
    rise_high: float
    constant_s: float
    minutes: float
    basis: str

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Curve:
        """Read the fields; raise a LatcastError for others, or numbers out of range."""
        try:
            rise, low, high = (float(data[name]) for name in ("rise", "rise_low", "rise_high"))
            found = cls(rise, low, high, float(data["constant_s"]), float(data["minutes"]), str(data["basis"]))
        except (KeyError, TypeError, ValueError) as problem:
            raise LatcastError(f"found a curve with {', '.join(data)}: {problem}; measure it again") from problem
        if not (-1 < found.rise_low <= found.rise <= found.rise_high < math.inf and found.constant_s > 0 and found.minutes > 0):
            raise LatcastError(
                f"found a curve with {found}; expected positive numbers and bounds around the rise; measure it again"
            )
        return found

    def factors(self, minutes: float) -> tuple[float, float, float]:
        """Return by how much a latency is longer after some minutes: the expected factor, and the range."""
        share = 1 - math.exp(-60 * min(minutes, self.minutes) / self.constant_s)
        return 1 + share * self.rise, 1 + share * self.rise_low, 1 + share * self.rise_high


def fit_curve(latency_ms: Sequence[float] | np.ndarray, minutes: float) -> tuple[float, float, float]:
    """Return the rise of latencies over a time, its uncertainty, and the time constant in seconds.

    Args:
        latency_ms: At equal distances, the first when cool.
        minutes: From the first to the last.
    """
    values = np.asarray(latency_ms, dtype=np.float64)
    times_s = np.linspace(0.0, 60 * minutes, len(values))
    best = (math.inf, 0.0, LEAST_CONSTANT_S, 0.0)
    last = max(round(LAST_SHARE * len(values)), 1)
    for constant_s in np.geomspace(LEAST_CONSTANT_S, 60 * minutes, 40):
        columns = np.stack([np.ones(len(values)), 1 - np.exp(-times_s / constant_s)], axis=1)
        (cool, rise), *_ = np.linalg.lstsq(columns, values, rcond=None)
        left = (values - columns @ (cool, rise)) / cool
        unsure = 2 * max(float(np.median(np.abs(left))), abs(float(np.median(left[-last:]))))
        best = min(best, (float(np.abs(left).sum()), float(rise / cool), float(constant_s), unsure))
    _, rise, constant_s, unsure = best
    return rise, unsure, constant_s


def keep_curve(platform: Platform, curve: Curve) -> None:
    """Keep a curve of a device's unit in the user's folder, in place of an earlier one."""
    keep_found(SHIPPED.name, platform, asdict(curve))


@cache
def _shipped() -> Mapping[str, Any]:
    return dict(read_json(SHIPPED, error=LatcastError))


def curve_of(platform: Platform) -> Curve | None:
    """Return the curve of a platform: the user's own of this device, else that of its class; None where none was measured."""
    own = found_out(SHIPPED.name, platform)
    if own is not None:
        return Curve.from_json(own)
    kind = Unit.parse(platform.unit).kind
    chip = chip_of(platform.device, unit_kind=kind)
    of_phones = chip is not None and re.match(PHONE_CHIPS, chip.name) is not None
    return Curve.from_json(_shipped()[kind]) if of_phones and kind in _shipped() else None


def sustained(found: Prediction, minutes: float, fps: float | None = None) -> Prediction:
    """Return a prediction with the latency after some minutes of running, without a pause or paced.

    How much less a paced network heats was not measured: its latency lies between that of a cool device and that of one that
    runs without a pause, and no point is given.
    """
    platform = Platform.parse(found.platform)
    curve = curve_of(platform)
    if curve is None:
        mend = "; record one: latcast measure MODEL --sustain 10m" if platform.device == "local" else ""
        kind = Unit.parse(platform.unit).kind.upper()
        basis = f"no {kind} like that of {platform} was measured under lasting load{mend}"
        return replace(found, sustained=Sustained(minutes, fps, basis))
    factor, low, high = curve.factors(minutes)
    paced = fps is not None and fps * found.latency_ms < 1e3
    if paced:
        low = min(low, 1.0)
    hot_ms, *bounds_ms = found.slowed_ms(factor, low, high)
    basis = curve.basis
    if minutes > curve.minutes:
        basis += f"; later than {curve.minutes:g} min is taken as then"
    if paced:
        basis += "; a paced network heats less, by how much was not measured"
    return replace(found, sustained=Sustained(minutes, fps, basis, None if paced else hot_ms, *bounds_ms))
