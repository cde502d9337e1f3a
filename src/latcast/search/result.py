"""The outcome of a search: networks of which none is both slower and worse than another; measured here, and drawn."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from latcast.drawing import drawn, pareto
from latcast.errors import LatcastError
from latcast.folders import replacing
from latcast.graph.writers.onnx import to_onnx
from latcast.measure.settings import WorkerSettings
from latcast.measure.single import measure
from latcast.records import Measurement, Platform, Reference
from latcast.runtimes import RUNTIMES, check_runtime
from latcast.search.encodings import EncodingPredictor
from latcast.spaces import build
from latcast.tables import Rows, Tabular, plain_fields


@dataclass(frozen=True)
class Evaluated:
    """Networks with their objective and latency, arrays by network.

    Attributes:
        encodings: (networks, columns).
        objective: More is better.
        latency_ms, low_ms, high_ms: Predicted, with the 90 % interval.
    """

    encodings: np.ndarray
    objective: np.ndarray
    latency_ms: np.ndarray
    low_ms: np.ndarray
    high_ms: np.ndarray

    def __len__(self) -> int:
        return len(self.encodings)

    def take(self, rows: np.ndarray) -> Evaluated:
        """Return some of them, by index or by booleans."""
        return Evaluated(*(values[rows] for values in vars(self).values()))

    def joined(self, other: Evaluated) -> Evaluated:
        """Return both as one."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Evaluated(*(np.concatenate(pair) for pair in pairs))

    def limited_ms(self, *, confident: bool) -> np.ndarray:
        """Return the latency that is limited: the upper bound where the search is to be confident."""
        return self.high_ms if confident else self.latency_ms


def no_networks(columns: int) -> Evaluated:
    """Return an empty set of networks."""
    empty = np.zeros(0)
    return Evaluated(np.zeros((0, columns), dtype=np.int16), empty, empty, empty, empty)


def pareto_front(found: Evaluated) -> Evaluated:
    """Return the networks of which no other is at least as good and as fast, best objective first; equal ones once."""
    order = np.lexsort((-found.objective, found.latency_ms))
    objective = found.objective[order]
    best_before = np.concatenate([[-np.inf], np.maximum.accumulate(objective)[:-1]])
    return found.take(order[objective > best_before][::-1])


@dataclass(frozen=True)
class FoundNetwork:
    """A network that a search found.

    Attributes:
        reference: The network: ``latcast.build`` makes its graph.
        objective: More is better.
        latency_ms, low_ms, high_ms: Predicted, with the 90 % interval.
    """

    reference: Reference
    objective: float
    latency_ms: float
    low_ms: float
    high_ms: float

    def to_json(self) -> dict[str, Any]:
        """Return the network for scripts."""
        return {
            "name": self.reference.name, "space": self.reference.space, "parameters": dict(self.reference.parameters),
            "objective": self.objective, "latency_ms": self.latency_ms, "low_ms": self.low_ms, "high_ms": self.high_ms,
        }  # fmt: skip


@dataclass(frozen=True)
class SearchResult(Tabular):
    """The outcome of a search.

    Attributes:
        predictor: Of the platform and the space.
        objective: Name of the objective.
        max_latency_ms: The limit.
        confident: Whether the limit is for the upper bound of the interval.
        evaluations: Networks looked at.
        exhaustive: Whether these were all that there are.
        front: Networks within the limit of which none is both slower and worse than another, best objective first.
    """

    predictor: EncodingPredictor
    objective: str
    max_latency_ms: float
    confident: bool
    evaluations: int
    exhaustive: bool
    front: Evaluated

    def _rows(self) -> Rows:
        return [{**plain_fields(each), **each.reference.parameters} for each in self.networks()]

    def __repr__(self) -> str:
        return (
            f"<SearchResult {self.space} on {self.platform}: {len(self.front)} networks within {self.max_latency_ms:g} ms, "
            f"of {self.evaluations} looked at>"
        )

    def plot(self, path: str | os.PathLike[str] | None = None, *, measured_ms: np.ndarray | None = None) -> Any:
        """Draw predicted latency with its interval against the objective, the limit, and measured picks as crosses.

        Args:
            path: A PNG, or another format by its suffix; nothing is written where None.
            measured_ms: Latencies of the first networks of the front, measured; NaN where that failed.

        Returns:
            The Matplotlib figure.

        Raises:
            MissingExtraError: Matplotlib is not installed.
            LatcastError: The file cannot be written.
        """
        front = self.front
        figure = pareto(
            front.latency_ms, front.objective, quality_name=self.objective, bounds_ms=(front.low_ms, front.high_ms),
            measured_ms=measured_ms, max_latency_ms=self.max_latency_ms, below=f"latency on {self.platform}, ms",
            title=f"{self.space}: {self.evaluations} networks looked at",
        )  # fmt: skip
        return drawn(figure, path)

    @property
    def space(self) -> str:
        """Name of the space."""
        return self.predictor.supernet.name

    @property
    def platform(self) -> str:
        """Id of the platform that it was searched for."""
        return self.predictor.predictor.platform.id

    def networks(self, count: int | None = None) -> list[FoundNetwork]:
        """Return the best networks of the front, best first; all of it where None."""
        best = self.front.take(np.arange(len(self.front))[:count])
        figures = zip(*(values.tolist() for values in (best.objective, best.latency_ms, best.low_ms, best.high_ms)), strict=True)
        return [
            FoundNetwork(self.predictor.supernet.reference(encoding), *numbers)
            for encoding, numbers in zip(best.encodings, figures, strict=True)
        ]

    def export(self, folder: str | os.PathLike[str], count: int | None = None) -> list[Path]:
        """Write the best networks as ONNX files with made-up weights, to be trained, measured or opened elsewhere.

        Args:
            folder: Made where there is none; files of the same names are replaced.
            count: How many, best first; the whole front where None.

        Returns:
            The files, best first.

        Raises:
            LatcastError: A file cannot be written.
        """
        found = []
        for network in self.networks(count):
            data = to_onnx(build(network.reference))
            file = Path(folder) / f"{network.reference.name}.onnx"
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                with replacing(file) as draft:
                    draft.write_bytes(data)
            except OSError as problem:
                raise LatcastError(f"cannot write {file}: {problem.strerror}") from problem
            found.append(file)
        return found

    def to_json(self, picks: int) -> dict[str, Any]:
        """Return settings, the front, and the first so many of it as picks."""
        front = [found.to_json() for found in self.networks()]
        names = ("space", "platform", "objective", "max_latency_ms", "confident", "evaluations", "exhaustive")
        return {**{name: getattr(self, name) for name in names}, "picks": front[:picks], "front": front}


def check_measurable(platform: Platform) -> None:
    """Raise if a platform cannot be measured on this machine.

    Raises:
        LatcastError: The platform's runtime or unit does not run here, or the runtime is not installed.
    """
    unit = platform.unit.partition("+")[0]
    if platform.runtime not in RUNTIMES or unit != f"cpu{platform.threads}":
        raise LatcastError(
            f"{platform.id} cannot be measured here; expected a platform cpuN of one of the runtimes "
            + ", ".join(RUNTIMES.names())
        )
    check_runtime(platform.runtime)


def measure_found(
    networks: Sequence[FoundNetwork], settings: WorkerSettings, *, watch: Callable[[float], None] | None = None
) -> list[Measurement]:
    """Measure networks one after the other, each in its own process; a failed one is a record with its error.

    Args:
        networks: To measure.
        settings: Runtime, threads and precision of the platform; CPUs and priority.
        watch: Called before each with the share that is done.
    """
    found = []
    for index, network in enumerate(networks):
        if watch is not None:
            watch(index / len(networks))
        found.append(measure(network.reference, settings))
    return found


def share_within(measurements: Sequence[Measurement], limit_ms: float) -> float | None:
    """Return the share, 0 to 1, of the measured networks that met a limit; None where none could be measured."""
    measured = np.array([found.latency_ms for found in measurements if found.ok], dtype=np.float64)
    return float((measured <= limit_ms).mean()) if len(measured) else None
