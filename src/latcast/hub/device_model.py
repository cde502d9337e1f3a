"""The model of devices (:mod:`latcast.devices.device_model`) as a :class:`latcast.hub.model.HubModel`.

The pool is the model that comes with latcast, and the contributed platforms beside it: each is one posterior, which more
latencies update and which needs no other platform to be looked at again. It predicts networks that nobody has run, from their
kernels. Networks of which nothing but latencies is known are left to one scale factor per platform.
"""

from __future__ import annotations

import signal as signals
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from types import FrameType
from typing import Any

import numpy as np

from latcast.devices.chips import silicon
from latcast.devices.device_model import INTERCEPT, Described, DeviceModel, KnownPlatform
from latcast.devices.device_model_file import load_device_model
from latcast.devices.known_platforms import RULES, covariates_of, kind_of
from latcast.devices.members import Candidate
from latcast.devices.network_kernels import network_kernels
from latcast.errors import LatcastError, TrainingError
from latcast.hub import browser
from latcast.hub.model import LOG_SCALE, Forecast, LogScaleModel, Observation
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import load_rules
from latcast.predictors.device_forecast import LEVEL_DEVIATIONS, DeviceForecast
from latcast.predictors.network_features import NetworkFeatures
from latcast.predictors.platform_posterior import posterior
from latcast.records import Platform, Reference
from latcast.spaces.measured_only import can_build

NAME = "devices"

LONGEST_BUILD_S = 2.0
"""For the graph and the kernels of one network. References come from strangers, and one may stand for a graph without end."""

KEPT_KERNELS = 5000

FEWEST_NETWORKS = 4
"""That a contributed platform needs, for others to be compared with it."""


@dataclass(frozen=True)
class HubDeviceModel:
    """The model of devices with the platforms and networks of a hub.

    Attributes:
        pool: The model that comes with latcast.
        platforms: Contributed ones, without their latencies.
        states: (platforms, state) their posterior means.
        networks: Those of the hub whose kernels are known.
        screen: One scale factor per platform, over all networks: quick and robust.
    """

    pool: DeviceModel
    platforms: tuple[KnownPlatform, ...]
    states: np.ndarray
    networks: tuple[Reference, ...]
    screen: LogScaleModel
    name: str = NAME

    @cached_property
    def model(self) -> DeviceModel:
        """Of the known platforms and the contributed ones."""
        return replace(
            self.pool, platforms=(*self.pool.platforms, *self.platforms), states=np.vstack([self.pool.states, self.states])
        )

    @cached_property
    def described(self) -> Described:
        """The networks on the model's basis."""
        return _described(self.pool, [_kernels(each) for each in self.networks])

    @cached_property
    def column(self) -> Mapping[str, int]:
        """Key of a network to its row in :attr:`described`."""
        return {reference.key: index for index, reference in enumerate(self.networks)}

    def predict(self, networks: Sequence[Reference], measured: Mapping[str, float]) -> dict[str, Forecast]:
        """See :class:`~latcast.hub.model.HubModel`."""
        found = self.screen.predict(networks, measured)
        given = {key: latency_ms for key, latency_ms in measured.items() if key in self.column}
        if not given:
            return found
        forecast = self.forecast(self.described.rows(self._rows(given)), np.log(list(given.values())))
        known = [item for item in networks if item.key in self.column]
        found |= _forecasts(forecast, known, self.described.rows(self._rows([item.key for item in known])))
        # A server answers from here, so it builds none but published networks: a stranger's may be a graph without end. It is
        # among those known once a fit, which has a time limit, has built it.
        published = browser.served_networks()
        others = [item for item in networks if item.key not in self.column and item.key in published and _kernels(item)]
        if others:
            found |= _forecasts(forecast, others, _described(self.pool, [_kernels(item) for item in others]))
        return found

    def _rows(self, keys: Mapping[str, float] | Sequence[str]) -> np.ndarray:
        return np.array([self.column[key] for key in keys], dtype=int)

    def forecast(self, seen: Described, log_ms: np.ndarray) -> DeviceForecast:
        """Of a platform of which nothing but latencies is known: its kind of unit is the one that predicts each best from the
        others."""
        best: tuple[float, str, list[Candidate]] | None = None
        for kind in self.pool.kinds:
            candidates = self.model.candidates(kind, _any(kind), seen, log_ms)
            score = next(each.score for each in candidates if each.name == "learned")
            if best is None or score > best[0]:
                best = (score, kind, candidates)
        if best is None:
            raise TrainingError("the model of devices knows no kind of unit; get the file again")
        return self.model.arbitrated(best[1], _any(best[1]), best[2], len(log_ms))

    def to_json(self) -> dict[str, Any]:
        """See :class:`~latcast.hub.model.HubModel`."""
        return {
            "platforms": [[each.name, each.kind, each.silicon, dict(each.covariates)] for each in self.platforms],
            "states": [[float(f"{value:.6g}") for value in row] for row in self.states.tolist()],
            "networks": [reference.to_json() for reference in self.networks],
            "screen": self.screen.to_json(),
        }


class HubDeviceFitter:
    """A posterior of every contributed platform."""

    name = NAME
    min_platforms = 1

    def fit(self, observations: Sequence[Observation]) -> HubDeviceModel:
        """See :class:`~latcast.hub.model.Fitter`."""
        pool = load_device_model()
        screen = LOG_SCALE.fit(observations)
        references = {item.reference.key: item.reference for item in observations}
        kernels = {key: found for key, item in references.items() if (found := _kernels(item))}
        if not kernels:
            raise TrainingError(f"none of the {len(references)} networks has a graph here; expected at least one")
        column = {key: index for index, key in enumerate(kernels)}
        described = _described(pool, list(kernels.values()))
        by_platform: dict[str, dict[int, float]] = {}
        for item in observations:
            if item.reference.key in column:
                by_platform.setdefault(item.platform, {})[column[item.reference.key]] = item.latency_ms
        platforms, states = [], []
        for name, latencies in sorted(by_platform.items()):
            if len(latencies) >= FEWEST_NETWORKS and (platform := _without_latencies(name)) is not None:
                seen = described.rows(np.array(list(latencies), dtype=int))
                prior = pool.prior(platform.kind, platform.covariates)
                observed = seen.observed(pool.kinds[platform.kind], np.log(list(latencies.values())))
                platforms.append(platform)
                states.append(posterior(prior, observed).mean)
        size = pool.effects.shape[1]
        return HubDeviceModel(
            pool, tuple(platforms), np.array(states).reshape(len(states), size), tuple(references[key] for key in kernels), screen
        )

    def load(self, content: Mapping[str, Any]) -> HubDeviceModel:
        """See :class:`~latcast.hub.model.Fitter`.

        Raises:
            TrainingError: A network cannot be built any more, or the model that comes with latcast is another one now.
        """
        pool = load_device_model()
        networks = tuple(Reference.from_json(item) for item in content["networks"])
        if not all(_kernels(reference) for reference in networks):
            raise TrainingError("a network that the model was fitted to cannot be built any more; fit again")
        nothing = np.zeros(0)
        platforms = tuple(
            KnownPlatform(name, kind, die, covariates, nothing.astype(int), nothing)
            for name, kind, die, covariates in content["platforms"]
        )
        size = pool.effects.shape[1]
        states = np.array(content["states"], dtype=np.float64).reshape(len(platforms), -1)
        if len(platforms) and states.shape[1] != size:
            raise TrainingError(f"found states of {states.shape[1]} numbers, expected {size}; fit again")
        return HubDeviceModel(pool, platforms, states.reshape(len(platforms), size), networks, LOG_SCALE.load(content["screen"]))


FITTER = HubDeviceFitter()


def _without_latencies(name: str) -> KnownPlatform | None:
    """What is known of a platform by its id; None where its unit is of no known kind."""
    platform = Platform.parse(name)
    try:
        kind = kind_of(platform, {})
    except LatcastError:
        return None
    nothing = np.zeros(0)
    covariates = covariates_of(platform, kind)
    return KnownPlatform(name, kind, silicon(platform.device, "", kind), covariates, nothing.astype(int), nothing, "hub")


def _any(kind: str) -> dict[str, float]:
    """Covariates of a platform of which the kind of unit is known."""
    return {INTERCEPT: 1.0, f"kind {kind}": 1.0}


def _described(pool: DeviceModel, kernels: Sequence[Sequence[Kernel]]) -> Described:
    return pool.described(NetworkFeatures.of(kernels))


def _forecasts(forecast: DeviceForecast, networks: Sequence[Reference], described: Described) -> dict[str, Forecast]:
    if not networks:
        return {}
    log_ms, deviation = described.log_ms(forecast)
    reach = LEVEL_DEVIATIONS * deviation
    values = np.exp([log_ms, log_ms - reach, log_ms + reach]).T.tolist()
    return {item.key: Forecast(*each) for item, each in zip(networks, values, strict=True)}


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
        self._kept: OrderedDict[str, tuple[Kernel, ...]] = OrderedDict()

    def __call__(self, reference: Reference) -> tuple[Kernel, ...]:
        """None where they are not known, or the network cannot be built in time."""
        found = self._kept.get(reference.key)
        if found is None:
            found = self._kept[reference.key] = _built(reference)
            while len(self._kept) > KEPT_KERNELS:
                self._kept.popitem(last=False)
        return found


_kernels = _KernelsOf()


def _built(reference: Reference) -> tuple[Kernel, ...]:
    if reference.space == "file" or not can_build(reference):
        return ()  # no file of this machine is opened because a stranger names it
    try:
        with _time_limit(LONGEST_BUILD_S):
            return network_kernels(reference, load_rules(RULES))
    except (LatcastError, _TooLongError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError, MemoryError):
        return ()
