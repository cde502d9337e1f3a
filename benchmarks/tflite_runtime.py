"""TensorFlow Lite as it was before LiteRT (the package tflite-runtime), as a platform of benchmarks.

A worker imports this module (``WorkerSettings.imports``) and then has a runtime ``tflite``. The two libraries have one interface,
so that LiteRT's module runs this one's interpreter. It has no profiler here.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version as installed_version
from importlib.util import find_spec

from latcast.graph.ir import Graph
from latcast.runtimes import RUNTIMES
from latcast.runtimes.litert import LiteRt, LiteRtSession


class TfliteRuntime(LiteRt):
    """The interpreter of tflite-runtime with XNNPACK, which it applies by default."""

    name = "tflite"

    def available(self) -> str | None:
        if find_spec("tflite_runtime") is None:
            return "tflite-runtime is not installed; put it, with numpy<2, into a folder and name that as the library path"
        return None

    def version(self) -> str:
        return installed_version("tflite-runtime")

    def load(self, graph: Graph, *, threads: int = 1, precision: str = "fp32", profile: bool = False) -> LiteRtSession:
        """Load as LiteRT does, never with a profile: the profiler is read through LiteRT's own library."""
        sys.modules["ai_edge_litert.interpreter"] = import_module("tflite_runtime.interpreter")
        return super().load(graph, threads=threads, precision=precision, profile=profile)


RUNTIMES.register("tflite", TfliteRuntime)
