"""The Gaussian process over devices and networks (:mod:`latcast.devices.cross_device`), as a :class:`latcast.hub.model.HubModel`.

It predicts networks that nobody has run, from their kernels. Networks of which nothing but latencies is known are left to one
scale factor per platform.
"""

from __future__ import annotations

import signal as signals
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from latcast.devices.cell_likelihood import Grid, Scattered
from latcast.devices.cross_device import CrossDeviceModel
from latcast.devices.cross_device_fit import fit_cross_device
from latcast.devices.device_covariance import DeviceScales
from latcast.devices.network_covariance import LayerShareFit
from latcast.devices.network_kernels import common_rules, network_kernels
from latcast.errors import LatcastError, TrainingError
from latcast.hub import browser
from latcast.hub.model import LOG_SCALE, Z_90, Forecast, LogScaleModel, Observation
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import FusionRules
from latcast.records import Reference
from latcast.spaces.measured_only import can_build

NAME = "gaussian-process"

LONGEST_BUILD_S = 2.0
"""For the graph and the kernels of one network. References come from strangers, and one may stand for a graph without end."""

KEPT_KERNELS = 5000

_CELLS: Mapping[str, type[Grid] | type[Scattered]] = {"grid": Grid, "scattered": Scattered}


@dataclass(frozen=True)
class GaussianProcessModel:
    """A fitted process with the networks that it knows.

    Attributes:
        process: The fit.
        platforms: Its rows.
        networks: Its columns.
        rules: The fusion rules that kernels were found by.
        screen: One scale factor per platform, over all networks: quick and robust.
    """

    process: CrossDeviceModel
    platforms: tuple[str, ...]
    networks: tuple[Reference, ...]
    rules: FusionRules
    screen: LogScaleModel
    name: str = NAME

    def predict(self, networks: Sequence[Reference], measured: Mapping[str, float]) -> dict[str, Forecast]:
        """See :class:`~latcast.hub.model.HubModel`."""
        column = {reference.key: index for index, reference in enumerate(self.networks)}
        given = [key for key in measured if key in column]
        found = self.screen.predict(networks, measured)
        if not given:
            return found
        # A server answers from here, so it builds none but published networks: a stranger's may be a graph without end. It is
        # among the columns once a fit, which has a time limit, has built it.
        published = browser.served_networks()
        others = {
            item.key: kernels
            for item in networks
            if item.key not in column and item.key in published and (kernels := _kernels(item, self.rules))
        }
        described = self.process.networks.describe(list(others.values())) if others else None
        predicted, _ = self.process.new_devices(
            [column[key] for key in given], np.array([[measured[key] for key in given]]), described
        )
        place = {**column, **{key: len(column) + index for index, key in enumerate(others)}}
        for item in networks:
            if item.key in place:
                centre = float(predicted.mean[0, place[item.key]])
                half = Z_90 * float(predicted.deviation[0, place[item.key]])
                low_ms, latency_ms, high_ms = np.exp([centre - half, centre, centre + half])
                found[item.key] = Forecast(float(latency_ms), float(low_ms), float(high_ms))
        return found

    def to_json(self) -> dict[str, Any]:
        """See :class:`~latcast.hub.model.HubModel`."""
        process = self.process
        return {
            "platforms": list(self.platforms),
            "networks": [reference.to_json() for reference in self.networks],
            "log_ms": _rows(process.log_ms),
            "filled": _rows(process.filled),
            "cells": "grid" if isinstance(process.cells, Grid) else "scattered",
            "values": _rows(np.asarray(process.cells.values)),
            "scales": process.scales.logarithms().tolist(),
            "noise": process.noise.tolist(),
            "signature": list(process.signature),
            "screen": self.screen.to_json(),
        }


class GaussianProcessFitter:
    """Fits the process to all networks whose kernels are known."""

    name = NAME
    min_platforms = 3

    def fit(self, observations: Sequence[Observation]) -> GaussianProcessModel:
        """See :class:`~latcast.hub.model.Fitter`."""
        screen = LOG_SCALE.fit(observations)
        rules = common_rules(sorted({item.platform for item in observations}))
        references = {item.reference.key: item.reference for item in observations}
        kernels = {key: found for key, item in references.items() if (found := _kernels(item, rules))}
        cells = [item for item in observations if item.reference.key in kernels]
        platforms = sorted({item.platform for item in cells})
        keys = sorted({item.reference.key for item in cells})
        latency_ms = np.full((len(platforms), len(keys)), np.nan)
        row, column = ({name: index for index, name in enumerate(names)} for names in (platforms, keys))
        for item in cells:
            latency_ms[row[item.platform], column[item.reference.key]] = item.latency_ms
        process = fit_cross_device(latency_ms, [kernels[key] for key in keys])
        return GaussianProcessModel(process, tuple(platforms), tuple(references[key] for key in keys), rules, screen)

    def load(self, content: Mapping[str, Any]) -> GaussianProcessModel:
        """See :class:`~latcast.hub.model.Fitter`.

        Raises:
            TrainingError: A network cannot be built any more.
        """
        platforms = tuple(content["platforms"])
        networks = tuple(Reference.from_json(item) for item in content["networks"])
        rules = common_rules(platforms)
        kernels = [_kernels(reference, rules) for reference in networks]
        if not all(kernels):
            raise TrainingError("a network that the model was fitted to cannot be built any more; fit again")
        return GaussianProcessModel(_restored(content, kernels), platforms, networks, rules, LOG_SCALE.load(content["screen"]))


FITTER = GaussianProcessFitter()


def _restored(content: Mapping[str, Any], kernels: Sequence[tuple[Kernel, ...]]) -> CrossDeviceModel:
    """The process with the variances that were found for it, which is what fitting takes its time for."""
    from latcast.devices.cross_device_fit import typical_pattern

    log_ms, filled, values = (_matrix(content[name]) for name in ("log_ms", "filled", "values"))
    typical, level = typical_pattern(log_ms)
    networks = LayerShareFit()(kernels, typical)
    described = networks.describe(kernels)
    covariance = networks.covariance(described, described)
    return CrossDeviceModel(
        networks,
        described,
        covariance,
        log_ms,
        filled,
        _CELLS[content["cells"]](covariance, values),
        typical,
        level,
        DeviceScales.of(np.array(content["scales"])),
        np.array(content["noise"]),
        tuple(content["signature"]),
    )


def _rows(values: np.ndarray) -> list[list[float | None]]:
    """A matrix as JSON: 9 digits, null for NaN."""
    return [[None if np.isnan(value) else float(f"{value:.9g}") for value in row] for row in values]


def _matrix(rows: Sequence[Sequence[float | None]]) -> np.ndarray:
    return np.array([[np.nan if value is None else value for value in row] for row in rows], dtype=np.float64)


class _TooLongError(Exception):
    pass


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Ends what takes too long, where this is a process's main thread, as it is in one made for a fit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _TooLongError

    before = signals.signal(signals.SIGALRM, ring)
    signals.setitimer(signals.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signals.setitimer(signals.ITIMER_REAL, 0)
        signals.signal(signals.SIGALRM, before)


class _KernelsOf:
    """Kernels of networks, kept: a model meets the same ones at each fit."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], tuple[Kernel, ...]] = OrderedDict()

    def __call__(self, reference: Reference, rules: FusionRules) -> tuple[Kernel, ...]:
        """None where they are not known, or the network cannot be built in time."""
        key = (reference.key, f"{rules.runtime} {rules.version} {rules.selection}")
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = _built(reference, rules)
            while len(self._kept) > KEPT_KERNELS:
                self._kept.popitem(last=False)
        return found


_kernels = _KernelsOf()


def _built(reference: Reference, rules: FusionRules) -> tuple[Kernel, ...]:
    if reference.space == "file" or not can_build(reference):
        return ()  # no file of this machine is opened because a stranger names it
    try:
        with _time_limit(LONGEST_BUILD_S):
            return network_kernels(reference, rules)
    except (LatcastError, _TooLongError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError, MemoryError):
        return ()
