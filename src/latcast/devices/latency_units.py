"""Checks whether stated latencies are milliseconds or a thousand times off.

Known phones lie within a factor of eight of the typical one of their kind of unit, so that what is more than a hundred times
off is hardly in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from latcast.devices.covariates import RULES, covariates_of, kind_of, network_kernels
from latcast.devices.device_model import DeviceModel
from latcast.errors import LatcastError
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import load_rules
from latcast.predictors.network_features import NetworkFeatures
from latcast.records import Platform, Reference
from latcast.spaces.measured_only import can_build

MILLISECONDS: Mapping[str, float] = {"ms": 1.0, "s": 1e3, "us": 1e-3}
"""Milliseconds in each unit that latencies may be stated in."""

MISMATCH_FACTOR = 100.0
"""A device is asked about that is so many times faster or slower than the typical known one."""

MOST_COMPARED = 10
"""Networks: building one takes a tenth of a second."""


@dataclass(frozen=True)
class UnitMismatch:
    """Attributes:
    times: How many times as long as on the typical known device the networks are said to take, on the median.
    unit: The unit that would explain it.
    """

    times: float
    unit: str

    def __str__(self) -> str:
        below = self.times < 1
        factor = 1 / self.times if below else self.times
        return (
            f"{factor:,.0f} times {'below' if below else 'above'} those of the typical known device, as "
            f"{'seconds' if below else 'microseconds'} taken for milliseconds would be"
        )


def unit_mismatch(model: DeviceModel, platform: str, measured: Mapping[Reference, float]) -> UnitMismatch | None:
    """Return why latencies are hardly milliseconds; None where they may be, or nothing can be compared.

    Args:
        model: Of known devices.
        platform: Where the networks were measured.
        measured: What is taken for milliseconds.
    """
    parsed = Platform.parse(platform)
    rules = load_rules(RULES)
    kernels: list[tuple[Kernel, ...]] = []
    stated_ms: list[float] = []
    try:
        kind = kind_of(parsed, {})
    except LatcastError:
        return None
    for reference, value in measured.items():
        if len(kernels) < MOST_COMPARED and can_build(reference):
            try:
                kernels.append(network_kernels(reference, rules))
            except LatcastError:
                continue  # whoever needs the network says why it cannot be built
            stated_ms.append(value)
    if not kernels:
        return None
    features = NetworkFeatures.of(kernels)
    nothing = model.described(features.rows(np.zeros(0, dtype=int)))
    typical = model.forecast(kind, covariates_of(parsed, kind), nothing, np.zeros(0))
    return mismatch_of(np.array(stated_ms), np.exp(typical.of_sums(typical.sums(features))[0]))


def mismatch_of(stated_ms: np.ndarray, typical_ms: np.ndarray) -> UnitMismatch | None:
    """Return why latencies are hardly milliseconds, from those on the typical known device.

    Args:
        stated_ms: (networks,) what is taken for milliseconds.
        typical_ms: (networks,) NaN where it is not known.
    """
    log_times = _log_times(stated_ms, typical_ms)
    if not len(log_times):
        return None
    times = float(np.exp(np.median(log_times)))
    if 1 / MISMATCH_FACTOR <= times <= MISMATCH_FACTOR:
        return None
    return UnitMismatch(times, "s" if times < 1 else "us")


def odd_ones(stated_ms: np.ndarray, typical_ms: np.ndarray) -> dict[int, float]:
    """Find latencies hardly of the others' unit: index, and how many times the others' device seems slower by it.

    Two that contradict each other are both odd.

    Args:
        stated_ms, typical_ms: See :func:`mismatch_of`.
    """
    log_times = _log_times(stated_ms, typical_ms)
    if len(log_times) < 2:
        return {}
    indices = np.flatnonzero(np.isfinite(typical_ms))
    off = log_times - np.median(log_times)
    # Of two, the median lies halfway.
    most = np.log(MISMATCH_FACTOR) / (2 if len(off) == 2 else 1)
    return {int(indices[at]): float(np.exp(off[at])) for at in np.flatnonzero(np.abs(off) > most)}


def _log_times(stated_ms: np.ndarray, typical_ms: np.ndarray) -> np.ndarray:
    known = np.isfinite(typical_ms)
    return np.asarray(np.log(stated_ms[known]) - np.log(typical_ms[known]))
