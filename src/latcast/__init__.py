"""Forecasts how long a neural network takes on a device, without the device at hand.

The names below are imported when first used, so ``import latcast`` is quick and pulls in no framework.

Example:
    >>> import latcast
    >>> latcast.__version__
    '0.1.0'
    >>> latcast.load("pixel4/tflite-2.10/gpu/fp16").predict("resnet18")
    <Prediction resnet18 on pixel4/tflite-2.10/gpu/fp16: 20.3 ms, 90 % interval 19.5 to 22.1 ms, 100 % covered>
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_WHERE = {
    "advise": "latcast.report.advise",
    "build": "latcast.spaces.catalogue",
    "check": "latcast.report.check",
    "choose": "latcast.search.choose",
    "compare": "latcast.report.compare",
    "evaluate": "latcast.predictors.evaluation",
    "explain": "latcast.report.explain",
    "find_devices": "latcast.devices.device_search",
    "find_kernels": "latcast.kernels.search",
    "from_torch": "latcast.graph.importers",
    "hub": "latcast.hub.client",
    "load": "latcast.predictors.forecast",
    "load_graph": "latcast.graph.importers",
    "load_rules": "latcast.kernels.rules",
    "measure": "latcast.measure.single",
    "memory": "latcast.predictors.memory",
    "model": "latcast.spaces.catalogue",
    "models": "latcast.spaces.models",
    "platforms": "latcast.predictors.bundle_index",
    "plot": "latcast.drawing",
    "predict": "latcast.predictors.forecast",
    "predict_many": "latcast.predictors.forecast",
    "profile": "latcast.predictors.profiling",
    "report": "latcast.report.html",
    "save_bundle": "latcast.predictors.bundle",
    "search": "latcast.search.constrained_search",
    "sweep": "latcast.report.sweep",
    "train": "latcast.predictors.training_from_store",
    "Advice": "latcast.report.advise",
    "CheckReport": "latcast.report.check",
    "Choice": "latcast.search.choose",
    "Comparison": "latcast.report.compare",
    "Evaluation": "latcast.predictors.evaluation",
    "Explanation": "latcast.report.explain",
    "FoundDevice": "latcast.devices.device_search",
    "FusionRules": "latcast.kernels.rules",
    "Graph": "latcast.graph.ir",
    "GraphBuilder": "latcast.graph.builder",
    "Kernel": "latcast.kernels.kernel",
    "KernelLatency": "latcast.predictors.prediction",
    "LatcastError": "latcast.errors",
    "LatencyCallback": "latcast.search.callback",
    "MeasurePlan": "latcast.measure.settings",
    "Measurement": "latcast.records",
    "Memory": "latcast.kernels.memory",
    "NetworkSummary": "latcast.spaces.models",
    "Platform": "latcast.records",
    "PlatformPredictor": "latcast.predictors.platform_predictor",
    "PlatformSummary": "latcast.predictors.bundle_index",
    "Prediction": "latcast.predictors.prediction",
    "Reference": "latcast.records",
    "SearchResult": "latcast.search.result",
    "Store": "latcast.datasets.store",
    "Sweep": "latcast.report.sweep",
    "WorkerSettings": "latcast.measure.settings",
}

if TYPE_CHECKING:
    from latcast.datasets.store import Store as Store
    from latcast.devices.device_search import FoundDevice as FoundDevice
    from latcast.devices.device_search import find_devices as find_devices
    from latcast.drawing import plot as plot
    from latcast.errors import LatcastError as LatcastError
    from latcast.graph.builder import GraphBuilder as GraphBuilder
    from latcast.graph.importers import from_torch as from_torch
    from latcast.graph.importers import load_graph as load_graph
    from latcast.graph.ir import Graph as Graph
    from latcast.hub.client import hub as hub
    from latcast.kernels.kernel import Kernel as Kernel
    from latcast.kernels.memory import Memory as Memory
    from latcast.kernels.rules import FusionRules as FusionRules
    from latcast.kernels.rules import load_rules as load_rules
    from latcast.kernels.search import find_kernels as find_kernels
    from latcast.measure.settings import MeasurePlan as MeasurePlan
    from latcast.measure.settings import WorkerSettings as WorkerSettings
    from latcast.measure.single import measure as measure
    from latcast.predictors.bundle import save_bundle as save_bundle
    from latcast.predictors.bundle_index import PlatformSummary as PlatformSummary
    from latcast.predictors.bundle_index import platforms as platforms
    from latcast.predictors.evaluation import Evaluation as Evaluation
    from latcast.predictors.evaluation import evaluate as evaluate
    from latcast.predictors.forecast import load as load
    from latcast.predictors.forecast import predict as predict
    from latcast.predictors.forecast import predict_many as predict_many
    from latcast.predictors.memory import memory as memory
    from latcast.predictors.platform_predictor import PlatformPredictor as PlatformPredictor
    from latcast.predictors.prediction import KernelLatency as KernelLatency
    from latcast.predictors.prediction import Prediction as Prediction
    from latcast.predictors.profiling import profile as profile
    from latcast.predictors.training_from_store import train as train
    from latcast.records import Measurement as Measurement
    from latcast.records import Platform as Platform
    from latcast.records import Reference as Reference
    from latcast.report.advise import Advice as Advice
    from latcast.report.advise import advise as advise
    from latcast.report.check import CheckReport as CheckReport
    from latcast.report.check import check as check
    from latcast.report.compare import Comparison as Comparison
    from latcast.report.compare import compare as compare
    from latcast.report.explain import Explanation as Explanation
    from latcast.report.explain import explain as explain
    from latcast.report.html import report as report
    from latcast.report.sweep import Sweep as Sweep
    from latcast.report.sweep import sweep as sweep
    from latcast.search.callback import LatencyCallback as LatencyCallback
    from latcast.search.choose import Choice as Choice
    from latcast.search.choose import choose as choose
    from latcast.search.constrained_search import search as search
    from latcast.search.result import SearchResult as SearchResult
    from latcast.spaces.catalogue import build as build
    from latcast.spaces.catalogue import model as model
    from latcast.spaces.models import NetworkSummary as NetworkSummary
    from latcast.spaces.models import models as models

__all__ = ["__version__", *_WHERE]  # noqa: PLE0604


class _CalledRoom(ModuleType):
    """A room of the package whose name users know as a function: called, it is that function."""

    def __call__(self, *arguments: object, **options: object) -> object:
        return _found(self.__name__.rpartition(".")[2])(*arguments, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(_found(self.__name__.rpartition(".")[2]))


for _room in ("hub", "measure", "report", "search"):
    # Importing a room binds its name here, over that of the function.
    importlib.import_module(f"latcast.{_room}").__class__ = _CalledRoom


def _found(name: str) -> Callable[..., object]:
    try:
        module = importlib.import_module(_WHERE[name])
    except ModuleNotFoundError as problem:
        from latcast.extras import explained

        raise explained(problem, f"latcast.{name}") or problem from problem
    found: Callable[..., object] = getattr(module, name)
    return found


if not TYPE_CHECKING:
    # Type checkers would take any name for one of the package where they saw this.
    def __getattr__(name):
        if name not in _WHERE:
            raise AttributeError(f"module 'latcast' has no attribute '{name}'")
        globals()[name] = _found(name)
        return globals()[name]


def __dir__() -> list[str]:
    return sorted(__all__)
