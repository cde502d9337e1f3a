"""The predictor of one platform: graphs in, latencies with intervals and reasons out, one network or a million alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from latcast.graph.ir import Graph
from latcast.kernels.delegates import delegate_of
from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels
from latcast.kernels.types import kernel_type
from latcast.networks import Model, ModelKeywords, ModelOptions, read_models
from latcast.predictors.analytical import LIMIT_OF_TERM, LIMITS, AnalyticalTerms, ClassThroughput, throughputs
from latcast.predictors.calibration_terms import LEVELS, CalibrationTerms
from latcast.predictors.card import HELD_OUT, card_warnings, graded, graded_by_memory
from latcast.predictors.conditions import STEADY, Conditions
from latcast.predictors.intervals import LEVEL_DEVIATIONS, VARIANCE, Interval
from latcast.predictors.kernel_predictor import Familiarity, KernelPredictor
from latcast.predictors.network_warnings import network_memory_shortage, network_warnings
from latcast.predictors.prediction import Coverage, Grade, Prediction, kernel_latencies
from latcast.predictors.workload import Workload
from latcast.records import WEIGHT_BYTES, Platform, Unit
from latcast.tables import milliseconds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from latcast.kernels.partitioning import Partitioning
    from latcast.predictors.device_forecast import DeviceForecast, TableOnDevices
    from latcast.predictors.starts import StartModel

UNPREDICTED_LOW, UNPREDICTED_HIGH = 0.5, 9.0
"""Factors that 90 % of kernels lie between whose type has no predictor: quantiles of the errors where each type of profiled
kernels is priced by what the other types take (:data:`latcast.predictors.analytical.POOLED`)."""

UNKNOWN_HIGH = 2.0
"""Factor on the upper bound of a network with operators outside the table: they may take as long as all others."""

LEAST_PART_IN_KERNELS = 0.25
"""Kernels' part of the constant overhead below which a network is too small to show that it has that overhead: measured
networks reach down to a third."""

OVERHEAD_WARNING_SHARE = 0.5
"""Share of the latency that is an overhead which the network is too small to have shown, and that raises a warning."""

ASSUMED_SPREAD = 1.25
"""Factor on both sides of an interval where the GPU's selection of kernels is assumed, not known."""

BETWEEN_DEVICES = {"cpu": 0.45, "gpu": 0.4, "npu": 0.25}
"""Standard deviation of a latency's logarithm between devices with one silicon, under one runtime and precision, by kind of unit.
Of 21, 1 and 4 chips of which several devices are known it is 0.43, 0.37 and 0.16, each chip counted once; few say it."""

CROSSING_SPREAD = 10.0
"""Factor to either side of what crossings to the CPU are estimated to take: 10 of 12 networks of AI Hub's table lie within it,
with a rate from the others; not so those whose operators on the CPU compute much."""

RECALLED = 0.5
"""Similarity of two networks, from 0 to 1, from which on one counts as the other."""


@dataclass(frozen=True)
class NetworkEstimates:
    """Estimated latencies of networks, each (networks,).

    Attributes:
        latency_ms: Kernels and overhead, times the correction of short networks.
        correction: That factor; by coldness where the network has it (:class:`latcast.predictors.calibration_terms.Coldness`).
        covered_share: Part of the latency from kernels similar to those trained on, with the overhead that these show.
        outside_share: How novel it is, as :meth:`latcast.predictors.intervals.Interval.outside_share` counts it.
        unpredicted_share: Part of the latency from kernels whose type has no predictor; those far beyond what
            it was trained on count in part (:attr:`latcast.predictors.kernel_predictor.Familiarity.extrapolated`).
        doubtful_share: Part of the latency that is overhead which networks so small may not have.
        log_deviation: Standard deviation of the latency's logarithm, where each network has its own.
    """

    latency_ms: np.ndarray
    correction: np.ndarray
    covered_share: np.ndarray
    outside_share: np.ndarray
    unpredicted_share: np.ndarray
    doubtful_share: np.ndarray
    log_deviation: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class Estimates(NetworkEstimates):
    """Estimated latencies of networks and of their kernels.

    Attributes:
        table: The kernels.
        kernel_ms, covered, outside: By distinct kernel: latency in a long network; and how similar it is to the kernels
            trained on (:class:`latcast.predictors.kernel_predictor.Familiarity`).
        sums_ms: (networks, 4 or more) summed latency of all kernels, of the covered ones, of the novel ones, and of those without
            a predictor; behind them what else adds up over kernels and decides a network's latency: of a device its own columns,
            of kernels whose latency depends on coldness their latencies at each lower level.
        recalled: Whether known devices ran the same network.
        measured: Whether the device itself did, so that the latency is what was measured.
    """

    table: KernelTable
    kernel_ms: np.ndarray
    covered: np.ndarray
    outside: np.ndarray
    sums_ms: np.ndarray
    recalled: np.ndarray
    measured: np.ndarray


@dataclass(frozen=True, repr=False)
class PlatformPredictor:
    """Trained model of a platform, as :func:`latcast.load` returns it.

    Example:
        >>> import latcast
        >>> phone = latcast.load("pixel4/tflite-2.10/gpu/fp16")
        >>> phone
        <PlatformPredictor pixel4/tflite-2.10/gpu/fp16>
        >>> phone.predict("mobilenet_v2").latency_ms < phone.predict("resnet50").latency_ms
        True
        >>> phone.throughputs[0].kernel_class
        'any'

    Attributes:
        platform: What it predicts for.
        rules: Fusion rules of the runtime.
        analytical: Analytical terms; kernels without a predictor are estimated by them.
        kernels: Kernel type to its predictor.
        network: Calibration terms: from the latencies of kernels to that of a network.
        interval: Of 90 %, calibrated; a wide one of no known level where it is uncalibrated.
        card: What it was trained on and how well it does; see :mod:`latcast.predictors.bundle`.
        device: Where the platform is known by few measurements: their posterior, which then decides in place of ``kernels``.
        start: Of loading and first inferences; None where none was measured.
        stands_in: Whether it stands for another device than the one that was measured; see :meth:`standing_in`.
    """

    platform: Platform
    rules: FusionRules
    analytical: AnalyticalTerms
    kernels: Mapping[str, KernelPredictor]
    network: CalibrationTerms = field(default_factory=CalibrationTerms)
    interval: Interval = field(default_factory=Interval)
    card: Mapping[str, Any] = field(default_factory=dict)
    device: DeviceForecast | None = None
    start: StartModel | None = None
    stands_in: bool = False

    @classmethod
    def of_device(
        cls, platform: str, rules: FusionRules, forecast: DeviceForecast, interval: Interval, card: Mapping[str, Any]
    ) -> PlatformPredictor:
        """Return the predictor of a platform that a device's posterior decides; the interval is that of a typical network."""
        terms = CalibrationTerms(constant_ms=forecast.constant_ms)
        return cls(Platform.parse(platform), rules, forecast.analytical(), {}, terms, interval, card, forecast)

    def raw_kernel_latency_ms(self, configurations: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the latency of distinct kernels by themselves, in cold caches, types one after another."""
        if self.device is not None:
            return self.device.kernel_ms(self.device.features_of(configurations))
        return self.kernel_latency_by_coldness_ms(configurations, np.ones(1))[0]

    def kernel_latency_by_coldness_ms(self, configurations: Mapping[str, np.ndarray], levels: np.ndarray) -> np.ndarray:
        """Return the latency of distinct kernels by themselves at levels of coldness, (levels, kernels)."""
        parts = [np.zeros((len(levels), 0))]
        for name, rows in configurations.items():
            predictor = self.kernels.get(name)
            if predictor is None:
                parts.append(self.analytical.latency_by_coldness_ms(kernel_type(name), rows, levels))
            else:
                parts.append(predictor.latency_by_coldness_ms(self.analytical, rows, levels))
        return np.concatenate(parts, axis=1)

    def estimate(self, networks: Sequence[Sequence[Kernel]]) -> Estimates:
        """Estimate many networks at once: each distinct kernel once."""
        return self.estimate_table(KernelTable.of(networks))

    def estimate_table(self, table: KernelTable) -> Estimates:
        """Estimate a table, for configurations without graphs (the encodings of a search space)."""
        if self.device is not None:
            return self._device_estimates(self.device.on_table(table), self.device)
        levels = np.ones(1) if self.network.coldness is None else LEVELS
        *warmer, raw = self.kernel_latency_by_coldness_ms(table.configurations, levels)
        kernel_ms = self.network.kernel_latency_ms(table.kernel_types, raw) if len(raw) else raw
        found, novelties = [Familiarity.of_none(0)], [np.zeros(0)]
        for name, rows in table.configurations.items():
            predictor = self.kernel_predictor(name)
            found.append(Familiarity.of_none(len(rows)) if predictor is None else predictor.familiarity(rows))
            if self.interval.novelty == VARIANCE:
                novelties.append(np.ones(len(rows)) if predictor is None else predictor.novelty(rows))
        covered, outside, extrapolated = (
            np.concatenate([getattr(each, name) for each in found]) for name in ("covered", "outside", "extrapolated")
        )
        novel = np.concatenate(novelties) if self.interval.novelty == VARIANCE else outside
        by_kernel = [kernel_ms, kernel_ms * covered, kernel_ms * novel, kernel_ms * extrapolated]
        if self.network.coldness is not None:
            by_kernel += [self.network.kernel_latency_ms(table.kernel_types, latency_ms) for latency_ms in warmer]
        sums_ms = table.sum_by_network(np.stack(by_kernel, axis=1))
        networks, nowhere = vars(self.network_estimates(sums_ms)), np.zeros(len(sums_ms), dtype=bool)
        return Estimates(
            **networks, table=table, kernel_ms=kernel_ms, covered=covered, outside=outside, sums_ms=sums_ms,
            recalled=nowhere, measured=nowhere,
        )  # fmt: skip

    def _device_estimates(self, table: TableOnDevices, device: DeviceForecast) -> Estimates:
        kernel_ms = device.kernel_ms(table.features.kernels)
        sums, placed, covered = table.seen_by(device)
        # The device's own deviation holds what no known device ran.
        by_kernel = np.stack([kernel_ms, kernel_ms * covered, kernel_ms * ~covered, 0 * kernel_ms], axis=1)
        sums_ms = np.hstack([table.table.sum_by_network(by_kernel), sums])
        own = device.memory.nearest_measured(placed.place)
        networks = vars(self._network_estimates(sums_ms, device.of_placed(placed, own)))
        recalled = device.memory.known(placed.nearest, placed.alike) > RECALLED
        measured = (own.measured_ms > 0) & (not self.stands_in)
        networks["doubtful_share"] = np.where(measured, 0.0, networks["doubtful_share"])
        return Estimates(
            **networks, table=table.table, kernel_ms=kernel_ms, covered=covered, outside=~covered,
            sums_ms=sums_ms, recalled=recalled, measured=measured,
        )  # fmt: skip

    @property
    def sum_columns(self) -> int:
        """Columns of :attr:`Estimates.sums_ms`."""
        if self.device is not None:
            return 4 + self.device.sum_columns
        return 4 if self.network.coldness is None else 3 + len(LEVELS)

    def network_estimates(self, sums_ms: np.ndarray) -> NetworkEstimates:
        """Estimate networks whose kernels are added up already.

        Args:
            sums_ms: (networks, :attr:`sum_columns`) as in :class:`Estimates`.
        """
        return self._network_estimates(sums_ms, None if self.device is None else self.device.of_sums(sums_ms[:, 4:]))

    def _network_estimates(self, sums_ms: np.ndarray, forecast: tuple[np.ndarray, np.ndarray] | None) -> NetworkEstimates:
        """Estimate networks; ``forecast`` is a device's, of the logarithms, None where kernel predictors decide."""
        constant_ms = self.network.constant_ms
        total = sums_ms[:, 0] + constant_ms
        zero_cost = total <= 0  # a network of views alone, all of it by rule
        whole = np.where(zero_cost, 1.0, total)
        enough_ms = max(LEAST_PART_IN_KERNELS * constant_ms, 1e-12)
        # What kernels show of the overhead: that of all of them, and that of the covered ones.
        shown, shown_by_covered = np.minimum(sums_ms[:, :2] / enough_ms, 1.0).T ** 2
        covered_share = np.where(zero_cost, 1.0, (sums_ms[:, 1] + constant_ms * shown_by_covered) / whole)
        unpredicted_share, doubtful_share = sums_ms[:, 3] / whole, constant_ms * (1 - shown) / whole
        if forecast is not None:
            log_ms, deviation = forecast
            latency_ms = np.exp(log_ms)
            return NetworkEstimates(
                latency_ms, latency_ms / whole, covered_share, sums_ms[:, 2] / whole, unpredicted_share, doubtful_share, deviation
            )
        if self.network.coldness is None:
            factor = self.network.short_network_factor(sums_ms[:, 0])
        else:
            levels_ms = np.hstack([sums_ms[:, 4:], sums_ms[:, :1]]) + constant_ms
            factor = self.network.coldness.latency_ms(levels_ms) / whole
        outside_share = self.interval.outside_share(sums_ms[:, 2] / whole)
        return NetworkEstimates(factor * total, factor, covered_share, outside_share, unpredicted_share, doubtful_share)

    def kernel_predictor(self, name: str) -> KernelPredictor | None:
        """Return the predictor of a type; none for ``other``, whose kernels have nothing in common."""
        return None if name == "other" else self.kernels.get(name)

    def bounds_ms(self, estimates: NetworkEstimates, crossing_ms: np.ndarray | float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper bound of networks, each (networks,), wider for what was not calibrated.

        Args:
            estimates: Of the networks.
            crossing_ms: What crossings between the unit and the CPU add to each.
        """
        low_ms, high_ms = self.calibrated_bounds_ms(estimates)
        low_ms = np.minimum(low_ms, estimates.latency_ms * UNPREDICTED_LOW**estimates.unpredicted_share)
        high_ms = np.maximum(high_ms, estimates.latency_ms * UNPREDICTED_HIGH**estimates.unpredicted_share)
        low_ms = low_ms * (1 - estimates.doubtful_share)
        return low_ms + crossing_ms / CROSSING_SPREAD, high_ms + crossing_ms * CROSSING_SPREAD

    def calibrated_bounds_ms(self, estimates: NetworkEstimates) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds that networks like those trained on calibrated, each (networks,)."""
        if estimates.log_deviation is not None:
            reach = np.exp(LEVEL_DEVIATIONS * estimates.log_deviation)
            low_ms, high_ms = estimates.latency_ms / reach, estimates.latency_ms * reach
        else:
            low_ms, high_ms = self.interval.bounds_ms(estimates.latency_ms, estimates.outside_share)
        wider = ASSUMED_SPREAD if self.rules.assumed else 1.0
        if self.stands_in:
            apart = LEVEL_DEVIATIONS * BETWEEN_DEVICES.get(Unit.parse(self.platform.unit).kind, max(BETWEEN_DEVICES.values()))
            middle_ms = np.maximum(estimates.latency_ms, 1e-12)
            below, above = middle_ms / np.maximum(low_ms, 1e-12), np.maximum(high_ms, 1e-12) / middle_ms
            low_ms, high_ms = (
                middle_ms * np.exp(sign * np.hypot(np.log(each), apart)) for sign, each in ((-1, below), (1, above))
            )
        return low_ms / wider, high_ms * wider

    def latencies_ms(self, graphs: Iterable[Graph]) -> np.ndarray:
        """Return the point predictions alone, (networks,)."""
        return self.estimate([find_kernels(graph, self.rules) for graph in graphs]).latency_ms

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.platform}>"

    def grades(self, estimates: Estimates, lineages: Sequence[str]) -> list[Grade]:
        """Return the grade of each network by its lineage, without what a delegate leaves to the CPU."""
        low_ms, high_ms = self.bounds_ms(estimates)
        constant_ms = self.network.constant_ms
        overhead = constant_ms / np.maximum(estimates.sums_ms[:, 0] + constant_ms, 1e-12)
        columns = (low_ms, high_ms, estimates.recalled, estimates.measured, overhead, 1 - estimates.covered_share)
        return [
            graded(
                self.card, low, high, self.interval.level, lineage=lineage, recalled=seen, measured=ran, overhead=part,
                unlike=unlike,
            )
            for lineage, low, high, seen, ran, part, unlike in zip(lineages, *(each.tolist() for each in columns), strict=True)
        ]  # fmt: skip

    def limit_ms(self, configurations: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return what kernels take for arithmetic, for what they move, and for being started, (kernels, limits).

        Types stand one after another, the limits as in :data:`latcast.predictors.analytical.LIMITS`. Only the proportions count:
        these are the analytical terms alone, without what a regressor learned beside them.
        """
        if self.device is not None:
            return self.device.limit_ms(self.device.features_of(configurations))
        parts = [self.analytical.term_ms(kernel_type(name), rows) for name, rows in configurations.items()]
        term_ms = np.concatenate([np.zeros((0, len(self.analytical.terms))), *parts])
        places = [LIMITS.index(LIMIT_OF_TERM[name]) for name in self.analytical.terms]
        return np.asarray(term_ms @ np.eye(len(LIMITS))[places])

    @property
    def throughputs(self) -> tuple[ClassThroughput, ...]:
        """Throughput of the device by class of kernel, all kernels together first."""
        return tuple(throughputs(self.analytical, self.platform.precision))

    def predict(self, model: Model, *, breakdown: bool = True, **options: Unpack[ModelKeywords]) -> Prediction:
        """Predict one network; the arguments are those of :func:`latcast.predict`."""
        return self.predict_many([model], breakdown=breakdown, **options)[0]

    def predict_many(
        self,
        models: Iterable[Model] | Workload,
        *,
        breakdown: bool = False,
        conditions: Conditions = STEADY,
        **options: Unpack[ModelKeywords],
    ) -> list[Prediction]:
        """Predict many networks; kernels they share are estimated once.

        Args:
            models: The networks; a workload shares work between platforms with the same rules.
            breakdown: Whether to list the kernels of each.
            conditions: Further latencies that are asked for.
            shapes, strict, trust, example_inputs, values: As of :func:`latcast.predict`, the same for all.

        Raises:
            ModelError: A model cannot be read; or the models are not a list.
        """
        workload = models if isinstance(models, Workload) else Workload(read_models(models, ModelOptions(**options)), self.rules)
        if self.device is not None:
            estimates = self._device_estimates(workload.on_devices(self.device), self.device)
        else:
            estimates = self.estimate_table(workload.table)
        delegate = delegate_of(self.platform)
        crossings_ms = ~estimates.measured * workload.crossings_ms(delegate)
        low, high = self.bounds_ms(estimates, crossings_ms)
        limits: Sequence[str] = ()
        if breakdown:
            limit_ms = self.limit_ms(estimates.table.configurations)
            limits = [LIMITS[place] if most > 0 else "" for place, most in zip(limit_ms.argmax(1), limit_ms.max(1), strict=True)]
        predictions = []
        for index, graph in enumerate(workload.graphs):
            busy, places = workload.busy[index]
            kernel_ms = estimates.kernel_ms[places]
            covered, outside = estimates.covered[places], estimates.outside[places]
            parts: Partitioning | None = None
            left = left_with_reorders = np.zeros(len(busy), dtype=bool)
            if delegate is not None:
                parts, left, left_with_reorders = workload.partition(index, delegate)
            measured = bool(estimates.measured[index])
            idle = parts is not None and not parts.partitions and not parts.delegate.whole and not measured
            # Where nothing is handed to the delegate's unit, its overhead does not come up.
            constant_ms = 0.0 if idle else self.network.constant_ms
            factor, crossing_ms = float(estimates.correction[index]), float(crossings_ms[index])
            whole_ms = float(kernel_ms.sum()) + constant_ms + crossing_ms / factor or 1.0
            shares = kernel_ms / whole_ms
            warnings, notes = network_warnings(self, workload, index, shares, ~covered, covered & outside)
            latency_ms, low_ms, high_ms = factor * whole_ms, float(low[index]), float(high[index])
            converted = bool(workload.precision_remark(index, self.platform.precision))
            if converted:
                # A runtime may run the file as stored, faster or slower by at most the ratio of bytes.
                stored, run = (WEIGHT_BYTES.get(each, 4.0) for each in (graph.precision, self.platform.precision))
                fewest = min(stored, graph.mean_weight_bytes or stored)
                low_ms, high_ms = low_ms * min(fewest / run, 1.0), high_ms * max(stored / run, 1.0)
            if workload.unknown_operators[index]:
                high_ms *= UNKNOWN_HIGH
            if idle:
                low_ms, high_ms = min(low_ms, UNPREDICTED_LOW * latency_ms), max(high_ms, UNPREDICTED_HIGH * latency_ms)
            elif estimates.doubtful_share[index] > OVERHEAD_WARNING_SHARE:
                share = 100 * estimates.doubtful_share[index]
                warnings.append(
                    f"{share:.0f} % of the latency is overhead that larger networks showed; "
                    f"so small a network may take as little as {milliseconds(low_ms)} ms"
                )
            covered_share, on_cpu = (1 - crossing_ms / latency_ms) * float(estimates.covered_share[index]), 0.0
            if parts is not None and parts.on_cpu:
                # None of these kernels was measured on this platform, whatever their type.
                covered_share = 0.0 if idle else max(0.0, covered_share - float(shares[left & covered].sum()))
                on_cpu = float(shares[left].sum()) + crossing_ms / latency_ms
                covered = covered & ~left_with_reorders
                warnings = [parts.sentence(crossing_ms), *warnings]
            unlike = {name for kernel in compress(busy, ~covered) for name in kernel.operators}
            unlike.update(workload.unknown_operators[index])
            grade = graded(
                self.card, low_ms, high_ms, self.interval.level, lineage=workload.lineages[index],
                recalled=bool(estimates.recalled[index]), measured=measured,
                overhead=constant_ms / whole_ms, elsewhere=on_cpu, unlike=1 - covered_share, converted=converted,
            )  # fmt: skip
            shortage = network_memory_shortage(self, workload.memory_gb(index, self.platform.precision))
            grade = graded_by_memory(grade, shortage)
            warnings = [*([shortage.sentence] if shortage else []), *warnings]
            weak = card_warnings(self.card)
            # The platform's own weakness does not matter to a network that is predicted well all the same.
            own = bool(self.card.get("warning")) and grade.word == "good"
            notes += weak[:own]
            warnings += weak[own:]
            predictions.append(
                Prediction(
                    model=graph.name,
                    platform=self.platform.id,
                    latency_ms=latency_ms if idle else float(estimates.latency_ms[index]) + crossing_ms,
                    low_ms=low_ms,
                    high_ms=high_ms,
                    coverage=Coverage(covered_share, tuple(sorted(unlike))),
                    grade=grade,
                    warnings=tuple(warnings),
                    notes=tuple(notes),
                    kernels=kernel_latencies(
                        graph, workload.kernels[index], factor * kernel_ms, covered, [limits[place] for place in places]
                    )
                    if breakdown
                    else (),
                    overhead_ms=factor * constant_ms + crossing_ms,
                    level=self.interval.level,
                    fallback=None if parts is None else parts.summary(crossing_ms),
                )
            )
        return conditions.added_to(predictions, self, lambda: workload.start_features(self.platform.precision))

    def with_card(self, card: Mapping[str, Any]) -> PlatformPredictor:
        return replace(self, card=dict(card))

    def standing_in(self) -> PlatformPredictor:
        """Return it for another device with the same silicon.

        Intervals are wider by what such devices differ; measured latencies and held-out errors are not those of that device.
        """
        card = {key: value for key, value in self.card.items() if key not in HELD_OUT}
        card["warning"] = (
            f"measured on {self.platform.device}, which has the same silicon; the interval holds what such devices differ"
        )
        return replace(self, card=card, stands_in=True)
