"""Forecasts how long a neural network takes on a device, without the device at hand.

The names below are imported when first used, so ``import latcast`` is quick and pulls in no framework.

Example:
    >>> import latcast
    >>> latcast.__version__
    '0.1.0'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "LatcastError": "latcast.errors",
    "Measurement": "latcast.records",
    "Platform": "latcast.records",
    "Prediction": "latcast.records",
    "Reference": "latcast.records",
    "Graph": "latcast.graph.ir",
    "GraphBuilder": "latcast.graph.builder",
    "load_graph": "latcast.graph.importers",
    "from_torch": "latcast.graph.importers",
    "build": "latcast.spaces.catalogue",
    "model": "latcast.spaces.catalogue",
    "find_kernels": "latcast.kernels.search",
    "measure_graph": "latcast.measure.single",
    "predict": "latcast.predictors.forecast",
    "predict_many": "latcast.predictors.forecast",
    "load_predictor": "latcast.predictors.forecast",
    "platforms": "latcast.predictors.bundle_index",
    "profile": "latcast.predictors.profiling",
    "train": "latcast.predictors.training",
    "evaluate": "latcast.predictors.evaluation",
    "load_bundle": "latcast.predictors.bundle",
    "save_bundle": "latcast.predictors.bundle",
}

if TYPE_CHECKING:
    from latcast.errors import LatcastError as LatcastError
    from latcast.graph.builder import GraphBuilder as GraphBuilder
    from latcast.graph.importers import from_torch as from_torch
    from latcast.graph.importers import load_graph as load_graph
    from latcast.graph.ir import Graph as Graph
    from latcast.kernels.search import find_kernels as find_kernels
    from latcast.measure.single import measure_graph as measure_graph
    from latcast.predictors.bundle import load_bundle as load_bundle
    from latcast.predictors.bundle import save_bundle as save_bundle
    from latcast.predictors.bundle_index import platforms as platforms
    from latcast.predictors.evaluation import evaluate as evaluate
    from latcast.predictors.forecast import load_predictor as load_predictor
    from latcast.predictors.forecast import predict as predict
    from latcast.predictors.forecast import predict_many as predict_many
    from latcast.predictors.profiling import profile as profile
    from latcast.predictors.training import train as train
    from latcast.records import Measurement as Measurement
    from latcast.records import Platform as Platform
    from latcast.records import Prediction as Prediction
    from latcast.records import Reference as Reference
    from latcast.spaces.catalogue import build as build
    from latcast.spaces.catalogue import model as model

__all__ = ["__version__", *_WHERE]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'latcast' has no attribute '{name}'")
    value = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
