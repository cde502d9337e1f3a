"""What a search found: networks of which none is both slower and worse than another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from latcast.search.encodings import EncodingPredictor


@dataclass(frozen=True)
class Evaluated:
    """Networks with what the search knows of them, arrays by network.

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
        """Some of them, by index or by booleans."""
        return Evaluated(*(values[rows] for values in vars(self).values()))

    def joined(self, other: Evaluated) -> Evaluated:
        """These and others."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Evaluated(*(np.concatenate(pair) for pair in pairs))

    def limited_ms(self, *, confident: bool) -> np.ndarray:
        """The latency that the limit is for: the upper bound where the search is to be confident."""
        return self.high_ms if confident else self.latency_ms


def nothing(columns: int) -> Evaluated:
    """No networks."""
    empty = np.zeros(0)
    return Evaluated(np.zeros((0, columns), dtype=np.int16), empty, empty, empty, empty)


def pareto_front(found: Evaluated) -> Evaluated:
    """Those of which no other is at least as good and as fast, best objective first; equal ones once."""
    order = np.lexsort((-found.objective, found.latency_ms))
    objective = found.objective[order]
    best_before = np.concatenate([[-np.inf], np.maximum.accumulate(objective)[:-1]])
    return found.take(order[objective > best_before][::-1])


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        space, platform, objective: What was searched, for what, by what.
        max_latency_ms: The limit.
        confident: Whether the limit is for the upper bound of the interval.
        evaluations: Networks looked at.
        exhaustive: Whether these were all that there are.
        front: Networks within the limit of which none is both slower and worse than another, best objective first.
    """

    space: str
    platform: str
    objective: str
    max_latency_ms: float
    confident: bool
    evaluations: int
    exhaustive: bool
    front: Evaluated

    def picks(self, count: int) -> Evaluated:
        """The best networks within the limit, best first."""
        return self.front.take(np.arange(min(count, len(self.front))))


def network_json(found: Evaluated, index: int, predictor: EncodingPredictor) -> dict[str, Any]:
    """One network as JSON."""
    reference = predictor.supernet.reference(found.encodings[index])
    return {
        "name": reference.name,
        "space": reference.space,
        "parameters": dict(reference.parameters),
        "objective": float(found.objective[index]),
        "latency_ms": float(found.latency_ms[index]),
        "low_ms": float(found.low_ms[index]),
        "high_ms": float(found.high_ms[index]),
    }


def result_json(result: SearchResult, predictor: EncodingPredictor, picks: int) -> dict[str, Any]:
    """A result as JSON: settings, front and picks."""
    front = [network_json(result.front, index, predictor) for index in range(len(result.front))]
    settings: Mapping[str, Any] = {
        name: getattr(result, name)
        for name in ("space", "platform", "objective", "max_latency_ms", "confident", "evaluations", "exhaustive")
    }
    return {**settings, "picks": front[:picks], "front": front}
