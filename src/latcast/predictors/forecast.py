"""Predicting for models as users have them: files, modules, graphs, or names of published networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from latcast.errors import ModelError, UnknownNameError, UnknownOperatorError
from latcast.graph.ir import Graph
from latcast.graph.operators.table import unknown_operators
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Prediction
from latcast.spaces.catalogue import is_model_name

Model = str | Path | Graph | object
"""A path, the name of a published network ("resnet50"), a graph, or an object that an importer takes (ONNX, PyTorch)."""


@lru_cache(maxsize=64)
def _load_cached(path: Path, stamp: float) -> PlatformPredictor:
    from latcast.predictors.bundle import load_bundle

    return load_bundle(path)


def load_predictor(platform: str | Path) -> PlatformPredictor:
    """The predictor of a platform, by its id, a prefix of it, or the path of a bundle; kept in memory once loaded.

    Raises:
        UnknownPlatformError: No such platform; the message suggests the nearest names.
        BundleError: The bundle is damaged.
    """
    from latcast.predictors.shelf import find_bundle

    path = find_bundle(str(platform))
    return _load_cached(path, path.stat().st_mtime)


def as_graph(
    model: Model, *, shapes: Mapping[str, Sequence[int]] | None = None, strict: bool = False, trust: bool = False
) -> Graph:
    """Turns whatever a user calls a model into a graph.

    Args:
        model: See :data:`Model`.
        shapes: Sizes for inputs with dynamic dimensions.
        strict: Whether an operator outside the operator table is an error.
        trust: Whether a ``.pt2`` file may run the code it may hold.

    Raises:
        ModelError: The model cannot be read.
        UnknownOperatorError: ``strict``, and an operator has no entry in the operator table.
    """
    if isinstance(model, Graph):
        graph = model
    elif isinstance(model, str) and is_model_name(model):
        from latcast.spaces.catalogue import build
        from latcast.spaces.catalogue import model as published

        try:
            graph = build(published(model))
        except UnknownNameError as problem:
            raise ModelError(f"there is no file '{model}', and {problem}") from problem
    else:
        from latcast.graph.importers import load_graph

        graph = load_graph(Path(model) if isinstance(model, str) else model, shapes=shapes, strict=strict, trust=trust)
    if strict and (unknown := unknown_operators(graph)):
        raise UnknownOperatorError(
            f"{graph.name}: no entry in the operator table for {', '.join(unknown)}; "
            "without --strict they are priced by the fallback and listed in the coverage"
        )
    return graph


def predict(
    model: Model,
    on: str | Path | PlatformPredictor,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    strict: bool = False,
    trust: bool = False,
    breakdown: bool = True,
) -> Prediction:
    """How long a network takes on a platform.

    Args:
        model: See :data:`Model`.
        on: A platform id, a bundle's path, or a loaded predictor.
        shapes: Sizes for inputs with dynamic dimensions.
        strict: Whether an operator outside the operator table is an error.
        trust: Whether a ``.pt2`` file may run the code it may hold.
        breakdown: Whether to list the kernels.

    Returns:
        Milliseconds, with a 90 % interval, coverage and warnings.
    """
    predictor = on if isinstance(on, PlatformPredictor) else load_predictor(on)
    return predictor.predict(as_graph(model, shapes=shapes, strict=strict, trust=trust), breakdown=breakdown)


def predict_many(
    models: Sequence[Model], on: str | Path | PlatformPredictor, *, breakdown: bool = False, **options: Any
) -> list[Prediction]:
    """Like :func:`predict` for many networks; kernels they share are priced once."""
    predictor = on if isinstance(on, PlatformPredictor) else load_predictor(on)
    return predictor.predict_many([as_graph(model, **options) for model in models], breakdown=breakdown)
