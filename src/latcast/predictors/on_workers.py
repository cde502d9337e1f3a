"""Predicting very many networks on the workers of a Dask scheduler: the same numbers as here, to the bit."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from latcast.cluster import PREDICTS, connected, map_over_workers
from latcast.graph.ir import Graph
from latcast.predictors.bundle import load_bundle, save_bundle
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.prediction import Prediction

GRAPHS_AT_ONCE = 64
"""Networks of one task."""


def bundle_bytes(predictor: PlatformPredictor) -> bytes:
    """Return a predictor's zipped bundle."""
    with tempfile.TemporaryDirectory(prefix="latcast-") as folder:
        return save_bundle(predictor, Path(folder) / "predictor.zip").read_bytes()


@lru_cache(maxsize=8)
def predictor_of(content: bytes) -> PlatformPredictor:
    """Return the predictor of a bundle's bytes; kept in memory once loaded."""
    with tempfile.TemporaryDirectory(prefix="latcast-") as folder:
        path = Path(folder) / "predictor.zip"
        path.write_bytes(content)
        return load_bundle(path)


def predict_part(content: bytes, part: tuple[tuple[Graph, ...], bool]) -> list[Prediction]:
    """Return the predictions of some graphs, on a worker."""
    graphs, breakdown = part
    return predictor_of(content).predict_many(list(graphs), breakdown=breakdown)


def predict_on_workers(
    predictor: PlatformPredictor,
    graphs: Sequence[Graph],
    scheduler: str,
    *,
    breakdown: bool = False,
    watch: Callable[[int], None] = lambda done: None,
) -> list[Prediction]:
    """Predict many networks over the workers of a scheduler.

    Args:
        predictor: Of the platform.
        graphs: The networks.
        scheduler: Address of a Dask scheduler.
        breakdown: Whether to list the kernels.
        watch: Called with the number of networks done, from time to time.

    Raises:
        ClusterError: The scheduler cannot be reached, or no worker of it predicts.
    """
    starts = range(0, len(graphs), GRAPHS_AT_ONCE)
    parts = [(tuple(graphs[start : start + GRAPHS_AT_ONCE]), breakdown) for start in starts]
    found: dict[int, list[Prediction]] = {}
    with connected(scheduler) as client:
        for part, predictions in map_over_workers(client, predict_part, parts, PREDICTS, shared=bundle_bytes(predictor)):
            found[part] = predictions
            watch(sum(map(len, found.values())))
    return [prediction for part in range(len(parts)) for prediction in found[part]]
