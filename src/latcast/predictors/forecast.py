"""Predicting for models and platforms as users name them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard, cast, overload

from latcast.graph.ir import Graph
from latcast.kernels.rules import FusionRules
from latcast.predictors.platform_predictor import PlatformPredictor, Workload
from latcast.predictors.prediction import Prediction
from latcast.records import Platform
from latcast.spaces.models import Model, Shapes, as_graph, as_graphs

if TYPE_CHECKING:
    from latcast.predictors.bundle_index import PooledPlatform
    from latcast.predictors.pool_file import Pool

On = str | os.PathLike[str] | Platform | PlatformPredictor
"""A platform: its id, a beginning of it that no other has, a bundle's path, or a loaded predictor."""


@lru_cache(maxsize=64)
def _load_cached(path: Path, stamp: float) -> PlatformPredictor:
    from latcast.predictors.bundle import load_bundle
    from latcast.predictors.bundle_index import SHIPPED_FOLDER

    return load_bundle(path, check=SHIPPED_FOLDER not in path.parents)


@lru_cache(maxsize=64)
def _from_pool(pool: Pool, platform: str) -> PlatformPredictor:
    return pool.predictor(platform)


def load(platform: On) -> PlatformPredictor:
    """The predictor of a platform; kept in memory once loaded.

    Args:
        platform: Its id, a beginning of it that no other has (``"local/onnxruntime"``), or a bundle's path.

    Raises:
        UnknownPlatformError: No such platform; the message suggests the nearest names.
        BundleError: The bundle is damaged.

    Example:
        >>> import latcast
        >>> phone = latcast.load("pixel4/tflite-2.10/gpu/fp16")
        >>> phone.predict("resnet18")
        <Prediction resnet18 on pixel4/tflite-2.10/gpu/fp16: 20.3 ms, 90 % interval 19.5 to 22.1 ms, 100 % covered>
    """
    return platform if isinstance(platform, PlatformPredictor) else _loaded(_found(platform))


def _found(platform: str | os.PathLike[str] | Platform) -> Path | PooledPlatform:
    from latcast.predictors.bundle_index import find_platform

    return find_platform(platform.id if isinstance(platform, Platform) else os.fspath(platform))


def _loaded(found: Path | PooledPlatform) -> PlatformPredictor:
    return _load_cached(found, found.stat().st_mtime) if isinstance(found, Path) else _from_pool(*found)


def is_one(on: On | Sequence[On]) -> TypeGuard[On]:
    """Whether ``on`` is a platform, not a list of them."""
    return isinstance(on, str | os.PathLike | Platform | PlatformPredictor)


def load_all(on: On | Sequence[On]) -> list[PlatformPredictor]:
    """The predictors of one or several platforms; see :func:`load`."""
    return [load(on)] if is_one(on) else [load(platform) for platform in cast("Sequence[On]", on)]


@overload
def predict(  # type: ignore[overload-overlap]  # a text is a sequence of texts too; the first form is meant
    model: Model,
    on: On,
    *,
    shapes: Shapes | None = None,
    strict: bool = False,
    trust: bool = False,
    breakdown: bool = True,
    example_inputs: object = None,
) -> Prediction: ...


@overload
def predict(
    model: Model,
    on: Sequence[On],
    *,
    shapes: Shapes | None = None,
    strict: bool = False,
    trust: bool = False,
    breakdown: bool = True,
    example_inputs: object = None,
) -> list[Prediction]: ...


def predict(
    model: Model,
    on: On | Sequence[On],
    *,
    shapes: Shapes | None = None,
    strict: bool = False,
    trust: bool = False,
    breakdown: bool = True,
    example_inputs: object = None,
) -> Prediction | list[Prediction]:
    """How long a network takes on a platform.

    Args:
        model: A path, the name of a published network, a graph, a reference, or a ``torch.nn.Module`` with ``example_inputs``.
        on: A platform id, a beginning of it that no other has, a bundle's path, or a loaded predictor; or a list of these.
        shapes: Input name to shape: sizes for dynamic dimensions, or other sizes than the model has.
        strict: Whether an operator outside the operator table is an error.
        trust: Whether a ``.pt2`` file may run the code it may hold.
        breakdown: Whether to list the kernels.
        example_inputs: The inputs of a ``torch.nn.Module``, see :func:`latcast.from_torch`.

    Returns:
        Milliseconds, with an interval (of 90 % where it is calibrated: ``level``), coverage and warnings; ``model`` is what the
        user called it. A list of them, one a platform, where ``on`` is a list.

    Raises:
        ModelError: The model cannot be read, or cannot take inputs of these shapes.
        UnknownPlatformError: See :func:`latcast.load`.

    Example:
        >>> import latcast
        >>> found = latcast.predict("resnet18", on="pixel4/tflite-2.10/gpu/fp16")
        >>> found.low_ms < found.latency_ms < found.high_ms
        True
        >>> latcast.predict("resnet18", on=["pixel4/tflite-2.10/gpu/fp16", "s10/tflite-2.10/gpu/fp16"])[1].platform
        's10/tflite-2.10/gpu/fp16'
    """
    listed = _each(on)
    graph = as_graph(model, shapes=shapes, strict=strict, trust=trust, example_inputs=example_inputs)
    found = [predictions[0] for predictions in _predictions([graph], listed, breakdown=breakdown)]
    return found[0] if is_one(on) else found


def predict_many(
    models: Iterable[Model],
    on: On | Sequence[On],
    *,
    shapes: Shapes | None = None,
    strict: bool = False,
    trust: bool = False,
    breakdown: bool = False,
    example_inputs: object = None,
) -> list[Prediction]:
    """Like :func:`predict` for many networks, which is faster than one by one; of several platforms one after the other.

    Args:
        models: Each as :func:`predict` takes it.
        on: As :func:`predict` takes it.
        shapes, strict, trust, example_inputs: See :func:`predict`; the same for all.
        breakdown: Whether to list the kernels of each.

    Raises:
        ModelError: A model cannot be read; or the models are not a list.
        UnknownPlatformError: See :func:`latcast.load`.

    Example:
        >>> import latcast
        >>> phone = "pixel4/tflite-2.10/gpu/fp16"
        >>> [found.model for found in latcast.predict_many(["resnet18", "mobilenet_v2"], on=phone)]
        ['resnet18', 'mobilenet_v2']
    """
    listed = _each(on)
    graphs = as_graphs(models, shapes=shapes, strict=strict, trust=trust, example_inputs=example_inputs)
    return [found for predictions in _predictions(graphs, listed, breakdown=breakdown) for found in predictions]


def _each(on: On | Sequence[On]) -> list[PlatformPredictor | Path | PooledPlatform]:
    """Where each platform is."""
    listed = [on] if is_one(on) else cast("Sequence[On]", on)
    return [each if isinstance(each, PlatformPredictor) else _found(each) for each in listed]


def _predictions(
    graphs: Sequence[Graph], platforms: Iterable[PlatformPredictor | Path | PooledPlatform], *, breakdown: bool
) -> Iterator[list[Prediction]]:
    """Of each platform; those with the same rules share what is the same on all, and none is in memory longer than needed."""
    workloads: list[tuple[FusionRules, Workload]] = []
    for each in platforms:
        predictor = each if isinstance(each, PlatformPredictor) else _loaded(each)
        workload = next((known for rules, known in workloads if rules == predictor.rules), None)
        if workload is None:
            workload = Workload(graphs, predictor.rules)
            workloads.append((predictor.rules, workload))
        yield predictor.predict_workload(workload, breakdown=breakdown)
