"""Predicting for models as users have them: files, modules, graphs, or names of published networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from latcast.errors import ModelError, UnknownNameError, UnknownOperatorError
from latcast.graph.importers import from_torch, is_torch_module, load_graph
from latcast.graph.ir import Graph
from latcast.graph.operators.table import unknown_operators
from latcast.graph.passes.reshape_inputs import reshape_inputs
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Prediction
from latcast.spaces.catalogue import build, is_model_name, resized
from latcast.spaces.catalogue import model as published_model

Model = str | Path | Graph | object
"""A path, the name of a published network ("resnet50"), a graph, a torch module with its inputs, or an object that an importer
takes (``onnx.ModelProto``, ``torch.export.ExportedProgram``)."""


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
    from latcast.predictors.bundle_index import find_bundle

    path = find_bundle(str(platform))
    return _load_cached(path, path.stat().st_mtime)


def as_graph(
    model: Model,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    strict: bool = False,
    trust: bool = False,
    example_inputs: Any = None,
) -> Graph:
    """Turns whatever a user calls a model into a graph, with the name that the user gave: the text of a name or a path.

    Args:
        model: See :data:`Model`.
        shapes: Input name to shape: sizes for dynamic dimensions, or other sizes than the model has.
        strict: Whether an operator outside the operator table is an error.
        trust: Whether a ``.pt2`` file may run the code it may hold.
        example_inputs: For a ``torch.nn.Module``, and for nothing else: its inputs, see :func:`latcast.from_torch`.

    Raises:
        ModelError: The model cannot be read, or cannot take inputs of these shapes.
        UnknownOperatorError: ``strict``, and an operator has no entry in the operator table.
    """
    if example_inputs is not None:
        graph = from_torch(model, example_inputs, shapes=shapes, strict=strict)
    elif isinstance(model, Graph):
        graph = reshape_inputs(model, shapes) if shapes else model
    elif isinstance(model, str) and is_model_name(model):
        try:
            graph = build(resized(published_model(model), shapes or {}))
        except UnknownNameError as problem:
            raise ModelError(f"there is no file '{model}', and {problem}") from problem
    else:
        graph = load_graph(Path(model) if isinstance(model, str) else model, shapes=shapes, strict=strict, trust=trust)
    if isinstance(model, str | Path):
        graph = replace(graph, name=str(model))
    if strict and (unknown := unknown_operators(graph)):
        raise UnknownOperatorError(
            f"{graph.name}: no entry in the operator table for {', '.join(unknown)}; "
            "without --strict they are estimated and listed in the coverage"
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
    example_inputs: Any = None,
) -> Prediction:
    """How long a network takes on a platform.

    Args:
        model: See :data:`Model`.
        on: A platform id, a bundle's path, or a loaded predictor.
        shapes: Input name to shape: sizes for dynamic dimensions, or other sizes than the model has.
        strict: Whether an operator outside the operator table is an error.
        trust: Whether a ``.pt2`` file may run the code it may hold.
        breakdown: Whether to list the kernels.
        example_inputs: The inputs of a ``torch.nn.Module``, see :func:`latcast.from_torch`.

    Returns:
        Milliseconds, with an interval (of 90 % where it is calibrated: ``level``), coverage and warnings; ``model`` is what the
        user called it.

    Raises:
        ModelError: See :func:`as_graph`.
        UnknownPlatformError: See :func:`load_predictor`.
    """
    predictor = on if isinstance(on, PlatformPredictor) else load_predictor(on)
    graph = as_graph(model, shapes=shapes, strict=strict, trust=trust, example_inputs=example_inputs)
    return predictor.predict(graph, breakdown=breakdown)


def predict_many(
    models: Sequence[Model],
    on: str | Path | PlatformPredictor,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    strict: bool = False,
    trust: bool = False,
    breakdown: bool = False,
    example_inputs: Any = None,
) -> list[Prediction]:
    """Like :func:`predict` for many networks; kernels they share are priced once.

    Raises:
        ModelError: See :func:`as_graph`; or the models are not a list.
    """
    if isinstance(models, str | Path | Graph) or is_torch_module(models) or not isinstance(models, Iterable):
        raise ModelError(f"expected a list of models, found one of type {type(models).__name__}; put it into a list")
    predictor = on if isinstance(on, PlatformPredictor) else load_predictor(on)
    given: dict[str, Any] = {"shapes": shapes, "strict": strict, "trust": trust, "example_inputs": example_inputs}
    graphs = [as_graph(model, **given) for model in models]
    return predictor.predict_many(graphs, breakdown=breakdown)
