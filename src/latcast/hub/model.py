"""The cross-device model of a hub: the model of devices that comes with latcast, with the platforms contributed here beside it.

Each platform is one posterior, which more latencies update and which needs no look at other platforms. A new platform
is predicted from a few of its latencies (Ganesan et al., §III: the signature set), and a network that was never run from its
kernels. Networks of which only latencies are known are left to one scale factor per platform.
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
from latcast.devices.added_device import typical_interval, with_own_networks
from latcast.devices.covariates import covariates_of, kind_of, network_kernels
from latcast.devices.device_model import INTERCEPT, DescribedNetworks, DeviceModel, KnownPlatform
from latcast.devices.device_model_file import load_device_model
from latcast.errors import LatcastError, TrainingError
from latcast.hub.scales import UNKNOWN_DEVIATION, Forecast, Observation, ScaleFactors
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import load_rules
from latcast.predictors.card import POSTERIOR, TRAINING_KEYS, TRAINING_LINEAGES
from latcast.predictors.device_forecast import DeviceForecast
from latcast.predictors.intervals import LEVEL_DEVIATIONS
from latcast.predictors.network_features import ADDED, RULES, NetworkFeatures, network_place, network_terms, network_totals
from latcast.predictors.network_memory import nearness, variance_left
from latcast.predictors.platform_posterior import posterior
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform, Reference
from latcast.spaces.catalogue import model as published_model
from latcast.spaces.lineages import lineage_of
from latcast.spaces.measured_only import can_build
from latcast.spaces.named_kernels import named_kernels

NAME = "devices"
"""Key under which versions are kept."""

LONGEST_BUILD_S = 2.0
"""Limit for the graph and the kernels of one network: a stranger's reference may build an endless graph."""

LONGEST_BUILDING_S = 30.0
"""Limit for all networks of one fit; the next fit builds the rest."""

FEWEST_NETWORKS = 4
"""Networks that a contributed platform needs for others to be compared with it."""

_NOTHING = np.zeros(0)


class KnownNetworks:
    """Networks whose kernels are known, as sums over their kernels.

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

    @classmethod
    def listed(cls, pool: DeviceModel) -> KnownNetworks:
        """Return the networks that every hub knows, described in the model's basis."""
        references, features = _listed_features()
        return cls(references, _kernel_sums(pool, features))

    def described(self, pool: DeviceModel, keys: Iterable[str]) -> DescribedNetworks:
        """Return some of them, described in the model's basis."""
        sums = self.sums[[self.row[key] for key in keys]]
        own = sums[:, :ADDED]
        return DescribedNetworks(
            network_terms(own), *pool.basis.of_sums(own, sums[:, ADDED:]), network_totals(own), network_place(own)
        )

    def with_more(self, pool: DeviceModel, references: Iterable[Reference]) -> KnownNetworks:
        """Return these networks plus ``references``; stops after :data:`LONGEST_BUILDING_S`."""
        new = {item.key: item for item in references if item.key not in self.row and item.key not in self.unknown}
        found: dict[str, np.ndarray] = {}
        unknown = set(self.unknown)
        end_s = time.monotonic() + LONGEST_BUILDING_S
        for key, item in new.items():
            if time.monotonic() > end_s:
                break
            if kernels := _build_kernels(item):
                found[key] = _kernel_sums(pool, NetworkFeatures.of([kernels]))[0]
            else:
                unknown.add(key)
        known = self.references | {key: new[key] for key in found}
        return KnownNetworks(known, np.vstack([self.sums, *found.values()]), frozenset(unknown))


def _kernel_sums(pool: DeviceModel, features: NetworkFeatures) -> np.ndarray:
    return np.hstack([features.sums, pool.basis.kernel_sums(features)])


@cache
def _listed_features() -> tuple[Mapping[str, Reference], NetworkFeatures]:
    """Return the networks whose kernels are in a table that comes with latcast; those that browsers run are among them."""
    found = named_kernels(load_rules(RULES))
    listed = [published_model(each.name) for each in found.networks]
    return {item.key: item for item in listed}, NetworkFeatures.of_table(found.table)


class _TooLongError(Exception):
    pass


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Interrupt what takes too long, where this is the main thread, as it is in a process made for a fit."""
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


def _build_kernels(reference: Reference) -> tuple[Kernel, ...]:
    """Return a network's kernels; none where it cannot be built, or is a file: a stranger names no file of this machine."""
    if reference.space == "file" or not can_build(reference):
        return ()
    try:
        with _time_limit(LONGEST_BUILD_S):
            return network_kernels(reference, load_rules(RULES))
    except (LatcastError, _TooLongError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError, MemoryError):
        return ()


@dataclass(frozen=True)
class HubModel:
    """The model of devices with the platforms and networks of a hub.

    Attributes:
        pool: The model that comes with latcast.
        platforms: Contributed by trusted contributors, without their latencies; other devices are compared with them.
        states: (platforms, state) their posterior means.
        digests: (platforms) hashes of the latencies that these rest on.
        networks: Networks of the hub whose kernels are known.
        scales: One scale factor per platform, over all networks.
    """

    pool: DeviceModel
    platforms: tuple[KnownPlatform, ...]
    states: np.ndarray
    digests: tuple[str, ...]
    networks: KnownNetworks
    scales: ScaleFactors

    # Fitting

    @classmethod
    def seed(cls) -> HubModel:
        """Return what comes with latcast, before anything was measured."""
        pool = load_device_model()
        states = np.zeros((0, pool.effects.shape[1]))
        return cls(pool, (), states, (), KnownNetworks.listed(pool), ScaleFactors({}, {}, {}, UNKNOWN_DEVIATION))

    @classmethod
    def fit(cls, observations: Sequence[Observation], before: HubModel | None = None) -> HubModel:
        """Fit to all latencies of a hub.

        Args:
            before: An earlier model; what rests on the same latencies is taken from it.

        Raises:
            TrainingError: There are none.
        """
        scales = ScaleFactors.fit(observations)
        before = before or cls.seed()
        pool = load_device_model()
        networks = before.networks.with_more(pool, {item.reference.key: item.reference for item in observations}.values())
        latencies: dict[str, dict[str, float]] = {}
        for item in observations:
            if item.trusted and item.reference.key in networks.row:
                latencies.setdefault(item.platform, {})[item.reference.key] = item.latency_ms
        states_before = dict(zip(before.digests, before.states, strict=True))
        platforms, states, digests = [], [], []
        for name, found in sorted(latencies.items()):
            if len(found) < FEWEST_NETWORKS or (platform := _platform_without_latencies(name)) is None:
                continue
            digest = hashlib.sha256(json.dumps([name, sorted(found.items())]).encode()).hexdigest()[:16]
            state = states_before.get(digest)
            if state is None:
                observed = networks.described(pool, found).observed(pool.kinds[platform.kind], np.log(list(found.values())))
                mean = posterior(pool.prior(platform.kind, platform.covariates), observed).mean
                state = mean.astype(np.float32).astype(np.float64)  # as it is kept
            platforms.append(platform)
            states.append(state)
            digests.append(digest)
        size = pool.effects.shape[1]
        return cls(pool, tuple(platforms), np.array(states).reshape(len(states), size), tuple(digests), networks, scales)

    def without(self, devices: Collection[str]) -> HubModel:
        """Return the model without what the pool knows of devices and of all others of their silicon; priors for kinds of
        units stay."""
        dies = {silicon(device, "", kind) for device in devices for kind in (*self.pool.kinds, "")}
        rows = [
            row
            for row, each in enumerate(self.pool.platforms)
            if each.silicon not in dies and Platform.parse(each.name).device not in devices
        ]
        platforms = tuple(self.pool.platforms[row] for row in rows)
        return replace(self, pool=replace(self.pool, platforms=platforms, states=self.pool.states[rows]))

    # Predicting

    def connected(self, key: str) -> bool:
        """Return whether the kernels of a network are known, through which it compares with every other such network."""
        return key in self.networks.row

    def knows(self, key: str) -> bool:
        """Return whether measurements of a network were there when the model was fitted, or its kernels are known."""
        return key in self.networks.row or key in self.scales.level

    def predict(self, networks: Sequence[Reference], measured: Mapping[str, float], platform: str = "") -> dict[str, Forecast]:
        """Predict networks on one platform.

        Args:
            measured: Latencies (ms) known of that platform, by reference key.
            platform: Its id, where it is known.

        Returns:
            Forecasts by reference key; a network whose scale on this platform nothing tells is missing, never guessed.
        """
        keys = [item.key for item in networks]
        given = self._connected_part(measured)
        if not given:
            return self.scales.forecasts(keys, measured)
        forecast = self._forecast(given, platform)[0]
        found = self.by(forecast, keys)
        others = [key for key in keys if key not in self.networks.row and key in self.scales.level]
        if others:
            # Groups of which this platform ran nothing are reached through their networks of known kernels.
            expected = self.by(forecast, [key for key in self.scales.level if key not in measured])
            found |= self.scales.forecasts(others, measured, expected)
        return found

    def left_out(self, measured: Mapping[str, float], platform: str = "") -> dict[str, Forecast]:
        """Predict each of some latencies (ms) of one platform from the others; those whose scale none tells are missing."""
        found = self.scales.left_out({key: value for key, value in measured.items() if key not in self.networks.row})
        given = self._connected_part(measured)
        if not given:
            return found
        # One forecast serves all: each network weighs a little in its own, which the members' errors take out again.
        forecast, error, _ = self._forecast(given, platform)
        seen = self._described(given)
        near = [nearness(seen.place[[row]], np.delete(seen.place, row, axis=0))[0] for row in range(len(given))]
        unmeasured = replace(forecast, memory=forecast.memory.with_measured(seen.place[:0], np.zeros(0)))
        reach = LEVEL_DEVIATIONS * np.sqrt(variance_left(np.array(near))) * seen.log_ms(unmeasured)[1]
        for row, (key, latency_ms) in enumerate(given.items()):
            found[key] = Forecast.around(math.log(latency_ms) - float(error[row]), float(reach[row]))
        return found

    def by(self, forecast: DeviceForecast, keys: Iterable[str]) -> dict[str, Forecast]:
        """Return the forecast of one platform for networks; of those whose kernels are known."""
        known = [key for key in keys if key in self.networks.row]
        if not known:
            return {}
        log_ms, deviation = self._described(known).log_ms(forecast)
        reach = LEVEL_DEVIATIONS * deviation
        values = np.exp([log_ms, log_ms - reach, log_ms + reach]).T.tolist()
        return {key: Forecast(*each) for key, each in zip(known, values, strict=True)}

    def predictor(self, platform: str, measured: Mapping[str, float]) -> PlatformPredictor | None:
        """Return the predictor of a platform with these latencies (ms); None where no kernels are known of what it ran."""
        given = self._connected_part(measured)
        if not given:
            return None
        forecast, _, kind = self._forecast(given, platform)
        card = {
            "trained_on": f"{len(given)} networks measured on a hub, and {len(self._devices.platforms)} other platforms",
            "learn_from": "networks",
            "model": POSTERIOR,
            "measurements": len(given),
            TRAINING_KEYS: sorted(given),
            TRAINING_LINEAGES: sorted({lineage_of(self.networks.references[key]) for key in given}),
        }
        interval = typical_interval(self.pool, forecast, kind)
        return PlatformPredictor.of_device(platform, load_rules(RULES), forecast, interval, card)

    def _connected_part(self, measured: Mapping[str, float]) -> dict[str, float]:
        return {key: latency_ms for key, latency_ms in measured.items() if key in self.networks.row}

    @cached_property
    def _devices(self) -> DeviceModel:
        """The model of the known platforms and the contributed ones."""
        return replace(
            self.pool, platforms=(*self.pool.platforms, *self.platforms), states=np.vstack([self.pool.states, self.states])
        )

    @cached_property
    def _all_described(self) -> DescribedNetworks:
        return self.networks.described(self.pool, self.networks.row)

    def _described(self, keys: Iterable[str]) -> DescribedNetworks:
        return self._all_described.rows(np.array([self.networks.row[key] for key in keys], dtype=int))

    def _forecast(self, given: Mapping[str, float], platform: str) -> tuple[DeviceForecast, np.ndarray, str]:
        """Return the forecast of a platform with these latencies, the logarithm of each over what the others predict, and the
        kind of unit: that of its id, else the kind that predicts each latency best from the others."""
        seen, log_ms = self._described(given), np.log(list(given.values()))
        about = _platform_without_latencies(platform) if platform else None
        if about is not None:
            kind, covariates = about.kind, about.covariates
            rows = [row for row, each in enumerate(self.platforms) if each.name != platform]
            model = self._devices
            if len(rows) < len(self.platforms):  # its latencies count once: not in the hub's own state of it too
                model = replace(self, platforms=tuple(self.platforms[row] for row in rows), states=self.states[rows])._devices
            candidates = model.candidates(kind, covariates, seen, log_ms, about.silicon)
        else:
            model = self._devices
            by_kind = {kind: model.candidates(kind, _covariates_of_any(kind), seen, log_ms) for kind in self.pool.kinds}
            kind = max(by_kind, key=lambda kind: next(each.score for each in by_kind[kind] if each.name == "learned"))
            covariates, candidates = _covariates_of_any(kind), by_kind[kind]
        forecast = model.arbitrated(kind, covariates, candidates, len(log_ms))
        forecast, left_out = with_own_networks(forecast, candidates, seen, log_ms)
        return forecast, left_out.error, kind

    # Storing

    def to_json(self) -> dict[str, Any]:
        own = list(self.networks.references.values())[len(_listed_features()[0]) :]
        return {
            "platforms": [[each.name, each.kind, each.silicon, dict(each.covariates)] for each in self.platforms],
            "states": _packed(self.states),
            "digests": list(self.digests),
            "networks": [reference.to_json() for reference in own],
            "sums": _packed(self.networks.sums[len(self.networks.row) - len(own) :]),
            "unknown": sorted(self.networks.unknown),
            "scales": vars(self.scales),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> HubModel:
        """Read what :meth:`to_json` wrote.

        Raises:
            TrainingError: The model that comes with latcast is another one than at the fit.
        """
        pool = load_device_model()
        platforms = tuple(
            KnownPlatform(name, kind, die, covariates, _NOTHING.astype(int), _NOTHING)
            for name, kind, die, covariates in content["platforms"]
        )
        states = _unpacked(content["states"], len(platforms), pool.effects.shape[1], "states")
        own = {item.key: item for item in map(Reference.from_json, content["networks"])}
        sums = _unpacked(content["sums"], len(own), ADDED + pool.basis.size_root.shape[1] + 2, "sums")
        listed = KnownNetworks.listed(pool)
        if not own.keys().isdisjoint(listed.row):
            raise TrainingError("latcast knows further networks than at the fit; fit again")
        networks = KnownNetworks({**listed.references, **own}, np.vstack([listed.sums, sums]), frozenset(content["unknown"]))
        return cls(pool, platforms, states, tuple(content["digests"]), networks, ScaleFactors(**content["scales"]))


def _platform_without_latencies(name: str) -> KnownPlatform | None:
    """Return the covariates of a platform by its id; None where the kind of its unit is not known."""
    platform = Platform.parse(name)
    try:
        kind = kind_of(platform, {})
    except LatcastError:
        return None
    die = silicon(platform.device, "", kind)
    return KnownPlatform(name, kind, die, covariates_of(platform, kind), _NOTHING.astype(int), _NOTHING, "hub")


def _covariates_of_any(kind: str) -> dict[str, float]:
    """Return the covariates of a platform of which the kind of unit is known."""
    return {INTERCEPT: 1.0, f"kind {kind}": 1.0}


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
