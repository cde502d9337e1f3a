"""Pricing very many encodings on the workers of a Dask scheduler: the same numbers as here, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from latcast.cluster import PREDICTS, connected, spread
from latcast.predictors.spread import bundle_bytes, predictor_of
from latcast.search.encodings import EncodedLatencies, EncodingPredictor

ENCODINGS_AT_ONCE = 50_000
"""Architectures of one task: a worker prices that many in about a second."""


@lru_cache(maxsize=8)
def _priced(content: bytes, supernet: str) -> EncodingPredictor:
    return EncodingPredictor(predictor_of(content), supernet)


def price_part(content: bytes, part: tuple[str, np.ndarray]) -> EncodedLatencies:
    """Latencies of some encodings, on a worker, which keeps what it learns of the space's kernels."""
    supernet, encodings = part
    return _priced(content, supernet).predict_many(encodings)


def price_spread(
    predictor: EncodingPredictor, encodings: np.ndarray, scheduler: str, *, watch: Callable[[int], None] = lambda done: None
) -> EncodedLatencies:
    """Like ``predictor.predict_many``, over the workers of a scheduler.

    Args:
        predictor: Of a platform, for a search space that is in the registry.
        encodings: (networks, columns) indices of choices.
        scheduler: Address of a Dask scheduler.
        watch: Called with the number of networks done, from time to time.

    Raises:
        ClusterError: The scheduler cannot be reached, or no worker of it predicts.
    """
    starts = range(0, len(encodings), ENCODINGS_AT_ONCE)
    parts = [(predictor.supernet.name, encodings[start : start + ENCODINGS_AT_ONCE]) for start in starts]
    found: dict[int, EncodedLatencies] = {}
    done = 0
    with connected(scheduler) as client:
        for part, latencies in spread(client, price_part, parts, PREDICTS, shared=bundle_bytes(predictor.predictor)):
            found[part] = latencies
            done += len(latencies.latency_ms)
            watch(done)
    ordered = [found[part] for part in range(len(parts))]
    fields = ("latency_ms", "low_ms", "high_ms", "covered_share")
    empty = [np.zeros(0)]
    return EncodedLatencies(*(np.concatenate([getattr(each, name) for each in ordered] or empty) for name in fields))
