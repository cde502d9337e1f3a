"""Judging predictors on networks, lineages or devices that training did not see, beside the baselines and the noise."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from latcast.errors import DatasetError, LatcastError
from latcast.extras import require
from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.search import find_kernels
from latcast.kernels.types import kernel_type
from latcast.measure.labels import Label, LabelError, label_error, label_error_to_json
from latcast.platforms import On, load
from latcast.predictors.analytical import fit_nonnegative, term_values
from latcast.predictors.card import TRAINING_KEYS, TRAINING_LINEAGES
from latcast.predictors.metrics import Metrics, judge
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.spaces.lineages import lineage_of
from latcast.tables import Rows, Tabular
from latcast.training.samples import NetworkSample

if TYPE_CHECKING:
    from latcast.datasets.store import Store

BASELINES: Mapping[str, tuple[int, ...]] = {"flops": (0,), "flops_mac": (0, 1, 2)}
"""Name to the terms it uses; "mac" is memory access cost: elements read, written and of weights."""


@dataclass(frozen=True)
class Baseline:
    """Latency = constant + coefficients · totals, fitted on the squared percentage error."""

    name: str
    coefficients: np.ndarray

    def latency_ms(self, networks: Sequence[Sequence[Kernel]]) -> np.ndarray:
        return _totals(networks, self.name) @ self.coefficients


def _totals(networks: Sequence[Sequence[Kernel]], name: str) -> np.ndarray:
    table = KernelTable.of(networks)
    values = [term_values(kernel_type(kind), rows) for kind, rows in table.configurations.items()]
    sums = table.sum_by_network(np.concatenate(values))[:, BASELINES[name]]
    if sums.shape[1] == 3:
        sums = np.stack([sums[:, 0], sums[:, 1] + sums[:, 2]], axis=1)
    return np.hstack([sums, np.ones((len(sums), 1))])


def fit_baseline(name: str, networks: Sequence[Sequence[Kernel]], latency_ms: np.ndarray) -> Baseline:
    """Fit a baseline of :data:`BASELINES` to measured networks."""
    return Baseline(name, fit_nonnegative(_totals(networks, name), latency_ms, strength=1e-9))


@dataclass(frozen=True)
class Evaluation(Tabular):
    """Errors of a predictor on networks it did not see.

    Attributes:
        platform: Its id.
        held_out_by: "network", "lineage", "device", or "unknown" where nothing says which lineages were trained on.
        metrics: Of the predictor.
        baselines: Of FLOPs and FLOPs+MAC, fitted to the training networks.
        label_error: Of the measured latencies; None where they were not repeated.
        names, predicted_ms, low_ms, high_ms, actual_ms: Network by network.
        level: Percent of networks that the interval is to hold; None where it is uncalibrated.
        refused: Name of each network that was left out to why: it has no graph here.
    """

    platform: str
    held_out_by: str
    metrics: Metrics
    baselines: Mapping[str, Metrics]
    label_error: LabelError | None
    names: tuple[str, ...]
    predicted_ms: np.ndarray
    low_ms: np.ndarray
    high_ms: np.ndarray
    actual_ms: np.ndarray
    level: float | None = None
    refused: Mapping[str, str] = field(default_factory=dict)

    def _rows(self) -> Rows:
        columns = zip(self.names, self.predicted_ms, self.low_ms, self.high_ms, self.actual_ms, strict=True)
        names = ("model", "predicted_ms", "low_ms", "high_ms", "actual_ms")
        return [dict(zip(names, (model, *map(float, numbers)), strict=True)) for model, *numbers in columns]

    def _notes(self) -> Sequence[str]:
        return [f"{name}: {reason}" for name, reason in self.refused.items()]

    def __repr__(self) -> str:
        found = self.metrics
        return (
            f"<Evaluation {self.platform}: {found.networks} networks, held out by {self.held_out_by}, MAPE {found.mape:.1f} %, "
            f"{found.within_5:.0f} % within ±5 %, {found.within_10:.0f} % within ±10 %>"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "platform": self.platform,
            "held_out_by": self.held_out_by,
            **self.metrics.to_json(),
            **label_error_to_json(self.label_error),
            "level": self.level,
            "baselines": {name: metrics.to_json() for name, metrics in self.baselines.items()},
            "per_network": [
                {"model": name, "latency_ms": p, "low_ms": low, "high_ms": high, "measured_ms": actual}
                for name, p, low, high, actual in zip(
                    self.names, self.predicted_ms.tolist(), self.low_ms.tolist(), self.high_ms.tolist(),
                    self.actual_ms.tolist(), strict=True,
                )
            ],
            "refused": [{"model": name, "reason": reason} for name, reason in self.refused.items()],
        }  # fmt: skip


def evaluate(
    on: On,
    stores: Store | str | os.PathLike[str] | Sequence[Store | str | os.PathLike[str]],
    *,
    families: Collection[str] | None = None,
    measured_as: str | None = None,
) -> Evaluation:
    """Judge a predictor on measured networks that it was not trained on; those that it was trained on fit the baselines.

    Args:
        on: A platform id, the beginning of one, a bundle's path, or a predictor.
        stores: A store, the path of one, of a JSON Lines file, or of a table with columns such as ``model`` and ``latency_ms``,
            or a database URL; or a list of these.
        families: Judge on networks of these families or spaces alone.
        measured_as: The platform, or the beginning of its id, that the stores call what the predictor is of, where they use
            another name.

    Raises:
        DatasetError: There is no such store, none holds the platform, or no network is left to judge by.
        UnknownPlatformError: See :func:`latcast.load`.
        MissingExtraError: A package of the extra ``local`` is not installed.

    Example:
        >>> import latcast
        >>> phone = latcast.load("pixel4/tflite-2.10/gpu/fp16")
        >>> with latcast.Store("measurements.sqlite") as store:
        ...     for name, latency_ms in {"resnet18": 20.9, "mobilenet_v2": 5.5}.items():
        ...         known = latcast.Measurement(phone.platform.id, latcast.model(name), latency_ms=latency_ms)
        ...         assert store.add(known)
        >>> found = latcast.evaluate(phone, "measurements.sqlite")
        >>> found.metrics.networks, found.metrics.mape < 10
        (2, True)
    """
    require("evaluating", "sqlalchemy", "scipy")
    from latcast.datasets.opening import only_platform, opened

    predictor = load(on)
    several = stores if isinstance(stores, Sequence) and not isinstance(stores, str) else [stores]
    labels: list[Label] = []
    for store in several:
        with opened(store, predictor.platform) as kept:
            try:
                platform = only_platform(kept, measured_as or predictor.platform.id)
            except DatasetError as problem:
                if measured_as is not None:
                    raise
                raise DatasetError(f"{problem}; where one of these is the bundle's platform: --as PLATFORM") from problem
            labels += kept.labels(platform=platform.id, role="network")
    return evaluate_on_labels(predictor, labels, families=families)


def evaluate_samples(
    predictor: PlatformPredictor,
    test: Sequence[NetworkSample],
    *,
    train: Sequence[NetworkSample] = (),
    held_out_by: str = "unknown",
    label_error: LabelError | None = None,
) -> Evaluation:
    """Judge a predictor on measured networks.

    Args:
        predictor: Trained without them.
        test: The networks, their kernels under the predictor's rules.
        train: Networks to fit the baselines to; without them no baselines are given.
        held_out_by: What was held out.
        label_error: See :class:`Evaluation`.
    """
    estimates = predictor.estimate([sample.kernels for sample in test])
    low, high = predictor.bounds_ms(estimates)
    actual = np.array([sample.latency_ms for sample in test])
    baselines = {}
    if len(train) >= 3:
        latency_ms = np.array([sample.latency_ms for sample in train])
        for name in BASELINES:
            fitted = fit_baseline(name, [sample.kernels for sample in train], latency_ms)
            baselines[name] = judge(fitted.latency_ms([sample.kernels for sample in test]), actual)
    return Evaluation(
        predictor.platform.id, held_out_by, judge(estimates.latency_ms, actual, low, high), baselines, label_error,
        tuple(sample.reference.name or sample.reference.key for sample in test), estimates.latency_ms, low, high, actual,
        predictor.interval.level,
    )  # fmt: skip


def evaluate_on_labels(
    predictor: PlatformPredictor, labels: Iterable[Label], *, families: Collection[str] | None = None
) -> Evaluation:
    """Judge a predictor on those measured networks that its card does not name as trained on.

    The others fit the baselines. Networks that have no graph are left out and named. Where the card names none, all are taken
    for untrained. That lineages are held out is said only where all lineages trained on are known: from the card, or from the
    labels of every network that it names.

    Args:
        predictor: Of the platform the labels are of.
        labels: Networks, from :meth:`latcast.datasets.store.Store.labels`.
        families: Judge on networks of these families or spaces alone.

    Raises:
        DatasetError: No network is left to judge by, or none of those left has a graph.
    """
    from latcast.spaces import build

    trained_on = set(predictor.card.get(TRAINING_KEYS) or ())
    trained: list[Label] = []
    unseen: list[Label] = []
    for label in labels:
        (trained if label.reference.key in trained_on else unseen).append(label)
    chosen = [label for label in unseen if families is None or label.reference.space in families]
    spaces = {label.reference.space for label in unseen}
    if not chosen or not spaces.issuperset(families or ()):
        wanted = f" of {', '.join(sorted(set(families) - spaces))}" if families else ""
        raise DatasetError(
            f"found no measured network{wanted} to judge {predictor.platform} by: it was trained on {len(trained)} of the "
            f"{len(trained) + len(unseen)} there; families or spaces of the others: {', '.join(sorted(spaces)) or 'none'}"
        )

    refused: dict[str, str] = {}

    def samples(labels: Iterable[Label]) -> list[NetworkSample]:
        found = []
        for label in labels:
            try:
                kernels = find_kernels(build(label.reference), predictor.rules)
            except LatcastError as problem:
                refused[label.reference.name or label.reference.key] = str(problem)
            else:
                found.append(NetworkSample(label.reference, tuple(kernels), label.latency_ms))
        return found

    judged = samples(chosen)
    if not judged:
        name, reason = next(iter(refused.items()))
        raise DatasetError(f"none of the {len(refused)} networks to judge {predictor.platform} by has a graph; {name}: {reason}")
    keys = {sample.reference.key for sample in judged}
    repeated = [label for label in chosen if label.halves_ms is not None and label.reference.key in keys]
    found = evaluate_samples(
        predictor,
        judged,
        train=samples(trained),
        held_out_by=_held_out_unit(predictor.card, trained, [label for label in chosen if label.reference.key in keys]),
        label_error=label_error(repeated) if repeated else None,
    )
    return replace(found, refused=refused)


def _held_out_unit(card: Mapping[str, Any], trained: Sequence[Label], tested: Sequence[Label]) -> str:
    """Describe which training networks the judged ones were held out from, as far as the card and labels tell."""
    stated = card.get(TRAINING_LINEAGES)
    lineages = {*(stated or ()), *(lineage_of(label.reference) for label in trained)}
    if not lineages.isdisjoint(lineage_of(label.reference) for label in tested):
        return "network"
    keys = set(card.get(TRAINING_KEYS) or ())
    # What a transferred predictor's sources were trained on, its own networks do not tell.
    told = bool(keys) and keys <= {label.reference.key for label in trained} and not card.get("transfer")
    known = stated is not None or told
    return "lineage" if known else "unknown"
