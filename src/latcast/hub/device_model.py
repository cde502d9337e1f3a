"""The model of devices (:mod:`latcast.devices.device_model`) as a :class:`latcast.hub.model.HubModel`.

The pool is the model that comes with latcast, and the contributed platforms beside it: each is one posterior, which more
latencies update and which needs no other platform to be looked at again. It predicts networks that nobody has run, from their
kernels. Networks of which nothing but latencies is known are left to one scale factor per platform.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import signal as signals
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from types import FrameType
from typing import Any

import numpy as np

from latcast.chips.chip_names import silicon
from latcast.datasets.splits import lineage_of
from latcast.devices.added_device import typical_interval
from latcast.devices.device_model import INTERCEPT, DescribedNetworks, DeviceModel, KnownPlatform
from latcast.devices.device_model_file import load_device_model
from latcast.devices.known_platforms import RULES, covariates_of, kind_of, network_kernels
from latcast.devices.members import Candidate
from latcast.errors import LatcastError, TrainingError
from latcast.hub import browser
from latcast.hub.model import LOG_SCALE, UNKNOWN_DEVIATION, Forecast, HubModel, LogScaleModel, Observation
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import load_rules
from latcast.predictors.calibration_terms import CalibrationTerms
from latcast.predictors.card import POSTERIOR, TRAINING_KEYS, TRAINING_LINEAGES
from latcast.predictors.device_forecast import DeviceForecast
from latcast.predictors.intervals import LEVEL_DEVIATIONS
from latcast.predictors.network_features import ADDED, NetworkFeatures, network_place, network_terms, network_totals
from latcast.predictors.platform_posterior import posterior
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform, Reference
from latcast.spaces.catalogue import model as published_model
from latcast.spaces.measured_only import can_build
from latcast.spaces.named_kernels import named_kernels

NAME = "devices"

LONGEST_BUILD_S = 2.0
"""For the graph and the kernels of one network. References come from strangers, and one may stand for a graph without end."""

LONGEST_BUILDING_S = 30.0
"""For all networks of one fit; the next fit builds those that are left."""

FEWEST_NETWORKS = 4
"""That a contributed platform needs, for others to be compared with it."""


class KnownNetworks:
    """Networks whose kernels are known, as what adds up over their kernels.

    Args:
        references: By key.
        sums: (networks, columns) of :meth:`latcast.predictors.device_forecast.DeviceForecast.sums`.
        unknown: Keys of networks that cannot be built.
    """

    def __init__(self, references: Mapping[str, Reference], sums: np.ndarray, unknown: frozenset[str] = frozenset()) -> None:
        self.references = dict(references)
        self.sums = sums
        self.unknown = unknown
        self.row = {key: row for row, key in enumerate(self.references)}

    def described(self, pool: DeviceModel, keys: Sequence[str]) -> DescribedNetworks:
        """Some of them on the model's basis."""
        sums = self.sums[[self.row[key] for key in keys]]
        own = sums[:, :ADDED]
        return DescribedNetworks(
            network_terms(own), *pool.basis.of_sums(own, sums[:, ADDED:]), network_totals(own), network_place(own)
        )

    def with_more(self, pool: DeviceModel, references: Iterable[Reference]) -> KnownNetworks:
        """These and others, as many as can be built in :data:`LONGEST_BUILDING_S`."""
        new = {item.key: item for item in references if item.key not in self.row and item.key not in self.unknown}
        if not new:
            return self
        found: dict[str, np.ndarray] = {}
        unknown = set(self.unknown)
        end_s = time.monotonic() + LONGEST_BUILDING_S
        for key, item in new.items():
            if time.monotonic() > end_s:
                break
            if kernels := _built(item):
                found[key] = _sums(pool, NetworkFeatures.of([kernels]))[0]
            else:
                unknown.add(key)
        known = self.references | {key: new[key] for key in found}
        return KnownNetworks(known, np.vstack([self.sums, *found.values()]), frozenset(unknown))


def _sums(pool: DeviceModel, features: NetworkFeatures) -> np.ndarray:
    return np.hstack([features.sums, pool.basis.kernel_sums(features)])


@cache
def _listed() -> tuple[Mapping[str, Reference], tuple[NetworkFeatures, ...]]:
    """Networks that every hub knows: those whose kernels are in a table that comes with latcast, and those that browsers run."""
    rules = load_rules(RULES)
    table = named_kernels(rules)
    own = list(browser.served_networks().values())
    listed = [*(published_model(each.name, as_measured=True) for each in table.networks), *own]
    kernels = [network_kernels(item, rules) for item in own]
    return {item.key: item for item in listed}, (NetworkFeatures.of_table(table.table), NetworkFeatures.of(kernels))


def listed_networks(pool: DeviceModel) -> KnownNetworks:
    """Those of :func:`_listed` on a model's basis."""
    references, features = _listed()
    return KnownNetworks(references, np.vstack([_sums(pool, each) for each in features]))


@dataclass(frozen=True)
class HubDeviceModel:
    """The model of devices with the platforms and networks of a hub.

    Attributes:
        pool: The model that comes with latcast.
        platforms: Contributed ones that others are likened to, without their latencies: of trusted contributors.
        states: (platforms, state) their posterior means.
        digests: (platforms) hashes of the latencies that these rest on.
        networks: Those of the hub whose kernels are known.
        screen: One scale factor per platform, over all networks: quick and robust.
    """

    pool: DeviceModel
    platforms: tuple[KnownPlatform, ...]
    states: np.ndarray
    digests: tuple[str, ...]
    networks: KnownNetworks
    screen: LogScaleModel
    name: str = NAME

    @cached_property
    def model(self) -> DeviceModel:
        """Of the known platforms and the contributed ones."""
        return replace(
            self.pool, platforms=(*self.pool.platforms, *self.platforms), states=np.vstack([self.pool.states, self.states])
        )

    @cached_property
    def described(self) -> DescribedNetworks:
        """The networks on the model's basis, in their order."""
        return self.networks.described(self.pool, list(self.networks.row))

    def connected(self, key: str) -> bool:
        """See :class:`~latcast.hub.model.HubModel`."""
        return key in self.networks.row

    def knows(self, key: str) -> bool:
        """See :class:`~latcast.hub.model.HubModel`."""
        return key in self.networks.row or self.screen.knows(key)

    def without(self, devices: Collection[str]) -> HubDeviceModel:
        """See :class:`~latcast.hub.model.HubModel`; priors that the pool learned for kinds of units stay."""
        dies = {silicon(device, "", kind) for device in devices for kind in (*self.pool.kinds, "")}
        rows = [
            row
            for row, each in enumerate(self.pool.platforms)
            if each.silicon not in dies and Platform.parse(each.name).device not in devices
        ]
        platforms = tuple(self.pool.platforms[row] for row in rows)
        return replace(self, pool=replace(self.pool, platforms=platforms, states=self.pool.states[rows]))

    def by(self, forecast: DeviceForecast, keys: Sequence[str]) -> dict[str, Forecast]:
        """See :class:`~latcast.hub.model.HubModel`."""
        known = [key for key in keys if key in self.networks.row]
        return _forecasts(forecast, known, self._rows(known))

    def predictor(self, platform: str, measured: Mapping[str, float]) -> PlatformPredictor | None:
        """See :class:`~latcast.hub.model.HubModel`."""
        given = {key: latency_ms for key, latency_ms in measured.items() if key in self.networks.row}
        if not given:
            return None
        forecast, _, kind = self._forecast(self._rows(given), np.log(list(given.values())), platform)
        card = {
            "trained_on": f"{len(given)} networks measured on a hub, and {len(self.model.platforms)} other platforms",
            "learn_from": "networks",
            "model": POSTERIOR,
            "measurements": len(given),
            TRAINING_KEYS: sorted(given),
            TRAINING_LINEAGES: sorted({lineage_of(self.networks.references[key]) for key in given}),
        }
        return PlatformPredictor(
            Platform.parse(platform), load_rules(RULES), forecast.analytical(), {},
            CalibrationTerms(constant_ms=forecast.constant_ms), typical_interval(self.pool, forecast, kind), card, forecast,
        )  # fmt: skip

    def predict(self, networks: Sequence[Reference], measured: Mapping[str, float], platform: str = "") -> dict[str, Forecast]:
        """See :class:`~latcast.hub.model.HubModel`; of a platform without a measured network of known kernels nothing is said of
        other such networks."""
        given = {key: latency_ms for key, latency_ms in measured.items() if key in self.networks.row}
        if not given:
            return self.screen.predict(networks, measured)
        forecast = self.forecast(self._rows(given), np.log(list(given.values())), platform)
        known = [item for item in networks if item.key in self.networks.row]
        found = _forecasts(forecast, [item.key for item in known], self._rows([item.key for item in known]))
        others = [item.key for item in networks if item.key not in self.networks.row and item.key in self.screen.level]
        if not others:
            return found
        # Groups of which this platform ran nothing are reached through their networks of known kernels.
        bridges = [key for key in self.screen.level if key in self.networks.row and key not in measured]
        expected = _forecasts(forecast, bridges, self._rows(bridges))
        return found | self.screen.scaled(others, measured, expected)

    def left_out(self, measured: Mapping[str, float], platform: str = "") -> dict[str, Forecast]:
        """See :class:`~latcast.hub.model.HubModel`; one forecast tells all, in which each network weighs a little itself."""
        found = self.screen.left_out({key: value for key, value in measured.items() if key not in self.networks.row}, platform)
        given = {key: latency_ms for key, latency_ms in measured.items() if key in self.networks.row}
        if not given:
            return found
        seen, log_ms = self._rows(given), np.log(list(given.values()))
        forecast, candidates, _ = self._forecast(seen, log_ms, platform)
        errors = {each.name: each.error for each in candidates}
        error = np.average([errors[each.name] for each in forecast.members], axis=0, weights=forecast.weights)
        deviation = seen.log_ms(forecast)[1]
        for row, key in enumerate(given):
            reach = LEVEL_DEVIATIONS * float(deviation[row])
            expected = float(log_ms[row] - error[row])
            found[key] = Forecast(math.exp(expected), math.exp(expected - reach), math.exp(expected + reach))
        return found

    def _rows(self, keys: Iterable[str]) -> DescribedNetworks:
        return self.described.rows(np.array([self.networks.row[key] for key in keys], dtype=int))

    def forecast(self, seen: DescribedNetworks, log_ms: np.ndarray, platform: str = "") -> DeviceForecast:
        """Of a platform by some latencies: of its kind of unit where its id is known, else of the kind that predicts each
        latency best from the others."""
        return self._forecast(seen, log_ms, platform)[0]

    def _forecast(
        self, seen: DescribedNetworks, log_ms: np.ndarray, platform: str
    ) -> tuple[DeviceForecast, list[Candidate], str]:
        """That, its candidates, and the kind of unit."""
        about = _without_latencies(platform) if platform else None
        if about is not None:
            model = self._apart_from(platform)
            candidates = model.candidates(about.kind, about.covariates, seen, log_ms, about.silicon)
            return model.arbitrated(about.kind, about.covariates, candidates, len(log_ms)), candidates, about.kind
        best: tuple[float, str, list[Candidate]] | None = None
        for kind in self.pool.kinds:
            candidates = self.model.candidates(kind, _any(kind), seen, log_ms)
            score = next(each.score for each in candidates if each.name == "learned")
            if best is None or score > best[0]:
                best = (score, kind, candidates)
        if best is None:
            raise TrainingError("the model of devices knows no kind of unit; get the file again")
        _, kind, candidates = best
        return self.model.arbitrated(kind, _any(kind), candidates, len(log_ms)), candidates, kind

    def _apart_from(self, platform: str) -> DeviceModel:
        """The model without the hub's own state of a platform: its latencies count once."""
        rows = [row for row, each in enumerate(self.platforms) if each.name != platform]
        if len(rows) == len(self.platforms):
            return self.model
        platforms = (*self.pool.platforms, *(self.platforms[row] for row in rows))
        return replace(self.pool, platforms=platforms, states=np.vstack([self.pool.states, self.states[rows]]))

    def to_json(self) -> dict[str, Any]:
        """See :class:`~latcast.hub.model.HubModel`."""
        own = list(self.networks.references.values())[len(_listed()[0]) :]
        return {
            "platforms": [[each.name, each.kind, each.silicon, dict(each.covariates)] for each in self.platforms],
            "states": _packed(self.states),
            "digests": list(self.digests),
            "networks": [reference.to_json() for reference in own],
            "sums": _packed(self.networks.sums[len(self.networks.row) - len(own) :]),
            "unknown": sorted(self.networks.unknown),
            "screen": self.screen.to_json(),
        }


class HubDeviceFitter:
    """A posterior of every contributed platform whose contributor is trusted."""

    name = NAME
    min_platforms = 1

    def seed(self) -> HubDeviceModel:
        """What comes with latcast, before anything was measured."""
        return self._fitted((), LogScaleModel({}, {}, {}, UNKNOWN_DEVIATION), None)

    def fit(self, observations: Sequence[Observation], known: HubModel | None = None) -> HubDeviceModel:
        """See :class:`~latcast.hub.model.Fitter`."""
        return self._fitted(observations, LOG_SCALE.fit(observations), known)

    def _fitted(self, observations: Sequence[Observation], screen: LogScaleModel, known: HubModel | None) -> HubDeviceModel:
        pool = load_device_model()
        before = known if isinstance(known, HubDeviceModel) else None
        networks = (listed_networks(pool) if before is None else before.networks).with_more(
            pool, {item.reference.key: item.reference for item in observations}.values()
        )
        latencies: dict[str, dict[str, float]] = {}
        for item in observations:
            if item.trusted and item.reference.key in networks.row:
                latencies.setdefault(item.platform, {})[item.reference.key] = item.latency_ms
        kept = {} if before is None else dict(zip(before.digests, before.states, strict=True))
        platforms, states, digests = [], [], []
        for name, found in sorted(latencies.items()):
            if len(found) >= FEWEST_NETWORKS and (platform := _without_latencies(name)) is not None:
                digest = hashlib.sha256(json.dumps([name, sorted(found.items())]).encode()).hexdigest()[:16]
                state = kept.get(digest)
                platforms.append(platform)
                digests.append(digest)
                states.append(_state(pool, platform, networks, found) if state is None else state)
        size = pool.effects.shape[1]
        return HubDeviceModel(
            pool, tuple(platforms), np.array(states).reshape(len(states), size), tuple(digests), networks, screen
        )

    def load(self, content: Mapping[str, Any]) -> HubDeviceModel:
        """See :class:`~latcast.hub.model.Fitter`.

        Raises:
            TrainingError: The model that comes with latcast is another one than at the fit.
        """
        pool = load_device_model()
        nothing = np.zeros(0)
        platforms = tuple(
            KnownPlatform(name, kind, die, covariates, nothing.astype(int), nothing)
            for name, kind, die, covariates in content["platforms"]
        )
        states = _unpacked(content["states"], len(platforms), pool.effects.shape[1], "states")
        references = [Reference.from_json(item) for item in content["networks"]]
        sums = _unpacked(content["sums"], len(references), ADDED + pool.basis.size_root.shape[1] + 2, "sums")
        listed = listed_networks(pool)
        own = {item.key: item for item in references}
        if not own.keys().isdisjoint(listed.row):
            raise TrainingError("latcast knows further networks than at the fit; fit again")
        networks = KnownNetworks({**listed.references, **own}, np.vstack([listed.sums, sums]), frozenset(content["unknown"]))
        return HubDeviceModel(pool, platforms, states, tuple(content["digests"]), networks, LOG_SCALE.load(content["screen"]))


FITTER = HubDeviceFitter()


def _state(pool: DeviceModel, platform: KnownPlatform, networks: KnownNetworks, latencies: Mapping[str, float]) -> np.ndarray:
    """(state,) posterior mean of a platform, in single precision, as it is kept."""
    seen = networks.described(pool, list(latencies))
    prior = pool.prior(platform.kind, platform.covariates)
    observed = seen.observed(pool.kinds[platform.kind], np.log(list(latencies.values())))
    return posterior(prior, observed).mean.astype(np.float32).astype(np.float64)


def _packed(array: np.ndarray) -> str:
    return base64.b64encode(array.astype("<f4").tobytes()).decode()


def _unpacked(text: str, rows: int, columns: int, what: str) -> np.ndarray:
    try:
        found = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4").astype(np.float64)
    except ValueError as problem:
        raise TrainingError(f"found no numbers of {what} ({problem}); fit again") from problem
    if found.size != rows * columns or not np.isfinite(found).all():
        raise TrainingError(f"found {found.size} numbers of {what}, expected {rows} times {columns}; fit again")
    return found.reshape(rows, columns)


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


def _forecasts(forecast: DeviceForecast, keys: Sequence[str], described: DescribedNetworks) -> dict[str, Forecast]:
    if not keys:
        return {}
    log_ms, deviation = described.log_ms(forecast)
    reach = LEVEL_DEVIATIONS * deviation
    values = np.exp([log_ms, log_ms - reach, log_ms + reach]).T.tolist()
    return {key: Forecast(*each) for key, each in zip(keys, values, strict=True)}


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


def _built(reference: Reference) -> tuple[Kernel, ...]:
    if reference.space == "file" or not can_build(reference):
        return ()  # no file of this machine is opened because a stranger names it
    try:
        with _time_limit(LONGEST_BUILD_S):
            return network_kernels(reference, load_rules(RULES))
    except (LatcastError, _TooLongError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError, MemoryError):
        return ()
