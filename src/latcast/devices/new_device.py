"""A device that is not known, from the latencies of a few networks on it (Ganesan et al. §III, §IV).

The known devices are those of a table; networks may be of the table or not, as long as their kernels are known. Intervals are
calibrated on known devices left out; a device that none of them is like is said to be so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from latcast.datasets.importers.benchmark_tools import read_outputs
from latcast.datasets.opening import only_platform, open_measurements
from latcast.devices.cross_device import CrossDeviceModel, DeviceDistances
from latcast.devices.cross_device_fit import fit_cross_device
from latcast.devices.latency_table import LatencyTable, table_of
from latcast.devices.network_covariance import LayerShareModel
from latcast.devices.network_kernels import common_rules, network_kernels
from latcast.errors import DatasetError, LatcastError, TrainingError
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import FusionRules
from latcast.records import Platform, Reference
from latcast.spaces.measured_only import can_build

if TYPE_CHECKING:
    from latcast.devices.interval_calibration import Calibration

FEWEST_MEASURED = 3
"""With fewer measured networks, what a device is like is hardly known beyond how fast it is."""

UNKNOWN_KIND_SHARE = 0.1
"""Part of a network's latency on kinds of kernels that no known network has, from which on it is said."""

MOST_NETWORKS = 400
"""Of a table with thousands of networks, so many are learned from; the others are predicted as if nobody had run them."""


@dataclass(frozen=True)
class DeviceForecast:
    """One network on the new device.

    Attributes:
        name: What the network is called.
        known: Whether known devices ran it.
        latency_ms, low_ms, high_ms: With the bounds of the interval.
        measured_ms: Where it is one of the measured networks.
        level: Percent of networks that the interval is to hold; None where too few devices are known to calibrate it.
    """

    name: str
    known: bool
    latency_ms: float
    low_ms: float
    high_ms: float
    measured_ms: float | None = None
    level: float | None = None


@dataclass(frozen=True)
class DeviceForecasts:
    """Attributes:
    forecasts: In the order of the networks asked for.
    nearest: Platform id of the known device that it is most like.
    distance: To that one, in units of the median distance of two known devices.
    usual_distance: Within which 95 % of the known devices have their nearest.
    warnings: Reasons why the forecasts are uncertain, a sentence each.
    """

    forecasts: tuple[DeviceForecast, ...]
    nearest: str
    distance: float
    usual_distance: float
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class KnownDevices:
    """The known devices, learned from.

    Attributes:
        table: What was learned from: networks without kernels left out, and of many networks only some.
        process: The fit.
        kernels: Of the table's networks.
        rules: The fusion rules that kernels are found by.
        seed: Of the calibration.
    """

    table: LatencyTable
    process: CrossDeviceModel
    kernels: tuple[tuple[Kernel, ...], ...]
    rules: FusionRules
    seed: int

    @classmethod
    def learn(cls, table: LatencyTable, *, seed: int = 0, needed: Collection[str] = ()) -> KnownDevices:
        """Fits the cross-device process.

        Args:
            table: Known latencies; cells may be missing.
            seed: For what is random.
            needed: Keys of networks to learn from in any case, such as the measured ones.

        Raises:
            TrainingError: Fewer than three platforms, or than three networks whose kernels are known.
        """
        rules = common_rules(table.platforms)
        usable = np.array([index for index, network in enumerate(table.networks) if can_build(network)], dtype=int)
        columns = _most_useful(table, usable, set(needed), seed)
        found = {index: each for index in columns if (each := _kernels_or_none(table.networks[index], rules))}
        part = table.columns(list(found))
        part = part.rows(np.flatnonzero(~np.isnan(part.latency_ms).all(axis=1)))
        if min(part.latency_ms.shape) < FEWEST_MEASURED:
            raise TrainingError(
                f"{len(part.platforms)} known platforms and {len(part.networks)} networks whose kernels are known, of "
                f"{len(table.networks)}; expected at least three of each: give more latencies with --data"
            )
        kernels = tuple(found.values())
        process = fit_cross_device(part.latency_ms, kernels, seed=seed)
        return cls(part, process, kernels, rules, seed)

    def _calibrated(self, measured: int) -> Calibration:
        """Intervals for a device with so many measured networks."""
        from latcast.devices.interval_calibration import calibrate_deviations

        size = min(measured, max(1, len(self.table.networks) // 2))
        return calibrate_deviations(self.process, self.kernels, size=size, seed=self.seed)

    def predict(self, measured: Mapping[Reference, float], wanted: Sequence[tuple[str, Reference | Graph]]) -> DeviceForecasts:
        """Predicts networks on a new device.

        Args:
            measured: Latencies (ms) of networks on it.
            wanted: Names and networks.

        Raises:
            TrainingError: Nothing was measured, or nothing was asked for.
            DatasetError: Of a network that known devices did not run nothing but the name is known.
            LatcastError: A network cannot be built.
        """
        if not measured or not wanted:
            raise TrainingError(f"{len(measured)} measured networks and {len(wanted)} to predict; expected at least one of each")
        column = self.table.column_of()
        others: dict[str, tuple[Kernel, ...]] = {}
        for network in (*measured, *(network for _, network in wanted)):
            key = _key(network)
            if key not in column and key not in others:
                others[key] = network_kernels(network, self.rules)
        place = {**column, **{key: len(column) + index for index, key in enumerate(others)}}
        chosen = [place[reference.key] for reference in measured]
        described = self.process.networks.describe(list(others.values())) if others else None
        predicted, distances = self.process.new_devices(chosen, np.array([list(measured.values())]), described)
        by_key = {reference.key: latency_ms for reference, latency_ms in measured.items()}
        calibration = self._calibrated(len(measured))
        unknown = (
            {key: found for key, found in zip(others, self._unknown_kinds(described), strict=True) if found} if others else {}
        )
        level = 90.0 if calibration.predictions else None
        forecasts = []
        for name, network in wanted:
            key = _key(network)
            reach = calibration.known if key in column else calibration.unseen
            centre = float(predicted.mean[0, place[key]])
            half = reach * float(predicted.deviation[0, place[key]])
            low_ms, latency_ms, high_ms = np.exp([centre - half, centre, centre + half]).tolist()
            forecasts.append(DeviceForecast(name, key in column, latency_ms, low_ms, high_ms, by_key.get(key), level))
        return DeviceForecasts(
            tuple(forecasts),
            self.table.platforms[int(distances.neighbour[0])],
            float(distances.nearest[0]),
            distances.usual,
            (
                *self._warnings(distances, [reference.key in column for reference in measured], calibration),
                *(f"{name}: {unknown[key]}" for name, network in wanted if (key := _key(network)) in unknown),
            ),
        )

    def _unknown_kinds(self, described: Any) -> list[str]:
        """Of networks that known devices did not run, what no known network has; empty where there is nothing of weight."""
        model = self.process.networks
        if not isinstance(model, LayerShareModel):
            return [""] * len(described.mean)
        unknown = np.array([name not in model.coefficients for name in described.traits.classes], dtype=bool)
        found = []
        for shares in described.shares:
            share = float(shares[unknown].sum())
            names = sorted(set(described.traits.classes[unknown & (shares > 0)]))
            reason = f"{100 * share:.0f} % of it are kernels of kinds that no known network has ({', '.join(names)})"
            found.append(f"{reason}, estimated like all others" if share > UNKNOWN_KIND_SHARE else "")
        return found

    def _warnings(self, distances: DeviceDistances, known: Sequence[bool], calibration: Calibration) -> list[str]:
        found = []
        count = len(self.table.platforms)
        if distances.unlike[0]:
            found.append(
                f"this device is unlike all {count} known ones: the nearest, "
                f"{self.table.platforms[int(distances.neighbour[0])]}, is {distances.nearest[0]:.1f} median distances of two "
                f"devices away, where 95 % of them have one within {distances.usual:.1f}; the intervals may be too narrow"
            )
        if len(known) < FEWEST_MEASURED:
            found.append(f"{len(known)} measured networks say little beyond how fast a device is; measure 5 to 10")
        if not any(known):
            found.append("no known device ran any of the measured networks; the comparison rests on predictions of them")
        if not calibration.predictions:
            found.append(f"the intervals are not calibrated: that takes at least 8 known platforms, here are {count}")
        return found


def measured_latencies(
    location: Path | str, platform: str | None = None, *, tell: Callable[[str], None] = lambda note: None
) -> dict[str, dict[Reference, float]]:
    """Latencies measured on a new device.

    Args:
        location: A JSON Lines file, a store, or a CSV file with the header ``model,latency_ms``.
        platform: Of a file or store: the only platform wanted, by its id or the beginning of one. Of a CSV file: where it was
            measured.
        tell: Given what a reader has to say, for instance which network a name was taken for.

    Returns:
        Platform ids, each with the latency (ms) of each network.

    Raises:
        DatasetError: There is no such file or platform, no network among them, or the CSV file's platform is not given.
        LatcastError: What is given for a CSV file is no platform id.
    """
    if Path(location).suffix.lower() == ".csv":
        wanted = None if platform is None else Platform.parse(platform)
        read = read_outputs([Path(location)], platform=wanted)
        for note in read.notes:
            tell(note)
        table = table_of(read.measurements)
        return {table.platforms[0]: dict(zip(table.networks, table.latency_ms[0].tolist(), strict=True))}
    found = {}
    with open_measurements(location) as store:
        names = list(store.platforms()) if platform is None else [only_platform(store, platform).id]
        for name in [name for name in names if store.keys(platform=name, role="network")]:
            table = table_of(store.measurements(platform=name, role="network"))
            found[name] = dict(zip(table.networks, table.latency_ms[0].tolist(), strict=True))
    if not found:
        raise DatasetError(f"{location} holds no measurement of a network that succeeded; expected at least one")
    return found


def _key(network: Reference | Graph) -> str:
    return network.key if isinstance(network, Reference) else f"graph {id(network)}"


def _most_useful(table: LatencyTable, usable: np.ndarray, needed: set[str], seed: int) -> list[int]:
    """Columns to learn from: those needed, and then those that the most platforms ran, in the table's order."""
    if len(usable) <= MOST_NETWORKS:
        return [int(index) for index in usable]
    missing = np.isnan(table.latency_ms[:, usable]).sum(axis=0).astype(float)
    missing[[table.networks[index].key in needed for index in usable]] = -1
    order = np.random.default_rng(seed).permutation(len(usable))
    return sorted(int(index) for index in usable[order[np.argsort(missing[order], kind="stable")][:MOST_NETWORKS]])


def _kernels_or_none(network: Reference, rules: FusionRules) -> tuple[Kernel, ...]:
    """None where a network cannot be built here: a file that has gone, an optional package that is not installed."""
    try:
        return network_kernels(network, rules)
    except LatcastError:
        return ()
