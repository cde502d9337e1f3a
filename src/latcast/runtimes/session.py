"""Shared parts of the runtimes and their sessions: settings, inputs, outputs, quantisation, kept prints."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from latcast.errors import RuntimeFailure, counted
from latcast.graph.ir import Graph
from latcast.runtimes.protocol import Runtime

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from latcast.runtimes.model_file import ModelFile

_Runtime = TypeVar("_Runtime", bound="UnitRuntime")


class UnitRuntime:
    """A runtime of this machine on one kind of unit."""

    units: tuple[str, ...] = ("cpu", "gpu")

    def __init__(self, unit: str = "cpu") -> None:
        self._unit = unit

    def on(self: _Runtime, unit: str) -> _Runtime:
        """Return the same runtime on another kind of unit."""
        return type(self)(unit)


def check_setting(runtime: Runtime, graph: Graph | ModelFile, threads: int, precision: str) -> None:
    """Raise a RuntimeFailure if the runtime does not have the precision here, or for less than one thread."""
    if precision not in (known := runtime.precisions):
        raise RuntimeFailure(f"{runtime.name} cannot run '{graph.name}' in '{precision}' here; it can in {', '.join(known)}")
    if threads < 1:
        raise RuntimeFailure(f"'{graph.name}' cannot run with {threads} threads; at least 1 is needed")


def check_profiling(graph: Graph, profile: bool, runs: int) -> None:
    """Raise a RuntimeFailure if ``profile`` is false, or ``runs`` is below 1."""
    if not profile:
        raise RuntimeFailure(f"'{graph.name}' was not loaded with profile=True, so its kernels are not known")
    if runs < 1:
        raise RuntimeFailure(f"{runs} profiled runs give no latency; ask for at least 1")


def check_finite(runtime: str, graph: Graph, outputs: Sequence[np.ndarray]) -> None:
    """Raise a RuntimeFailure that names the first output with values that are not finite."""
    for name, output in zip(graph.outputs, outputs, strict=True):
        if not np.isfinite(output).all():
            raise RuntimeFailure(f"{runtime} computed values that are not finite in output '{name}' of '{graph.name}'")


def message(problem: Exception) -> str:
    """Return a native library's error message, without line ends."""
    return " ".join(str(problem).split())


def random_inputs(graph: Graph, *, seed: int = 0) -> list[np.ndarray]:
    """Return seeded inputs in the graph's order: standard normal, or 0 and 1 where the network reads integers; always float32."""
    rng = np.random.default_rng(seed)
    inputs = []
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if "float" in tensor.dtype:
            inputs.append(rng.standard_normal(tensor.shape, dtype=np.float32))
        else:
            inputs.append(rng.integers(0, 2, tensor.shape).astype(np.float32))
    return inputs


def checked_inputs(graph: Graph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the inputs as arrays in the element types that the graph gives them.

    Raises:
        RuntimeFailure: Their number or a shape is not the graph's.
    """
    if len(inputs) != len(graph.inputs):
        names = ", ".join(graph.inputs)
        raise RuntimeFailure(f"'{graph.name}' has {counted(len(graph.inputs), 'input')} ({names}); {len(inputs)} were given")
    arrays = []
    for name, given in zip(graph.inputs, inputs, strict=True):
        tensor = graph.tensors[name]
        if tuple(given.shape) != tensor.shape:
            raise RuntimeFailure(
                f"input '{name}' of '{graph.name}' has the shape {list(tensor.shape)}; an array of {list(given.shape)} was given"
            )
        arrays.append(np.ascontiguousarray(given, dtype=tensor.dtype).reshape(tensor.shape))
    return arrays


def quantised(values: np.ndarray, affine: tuple[float, float], dtype: DTypeLike) -> np.ndarray:
    """Return int8 values of real ones by scale and zero point; with a scale of 0 the values themselves, in ``dtype``."""
    scale, zero_point = affine
    if scale:
        values = np.clip(np.round(values / scale) + zero_point, -128, 127)
    return np.ascontiguousarray(values, dtype=dtype)


def dequantised(values: np.ndarray, affine: tuple[float, float]) -> np.ndarray:
    """Return the real values of quantised ones, float32, by scale and zero point; with a scale of 0 the values themselves."""
    scale, zero_point = affine
    real = values.astype(np.float32)
    return (real - np.float32(zero_point)) * np.float32(scale) if scale else real


@contextmanager
def prints_kept() -> Iterator[Callable[[], str]]:
    """Keep native code's prints from the standard streams, where a reader expects JSON; yield a function that returns them."""
    flush = ctypes.CDLL(None).fflush if os.name == "posix" else None

    def emptied() -> None:
        # The C library's buffers too, or their content would come out after the streams are put back.
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # as in a process without a terminal
                stream.flush()
        if flush is not None:
            flush(None)

    with tempfile.TemporaryFile(prefix="latcast-prints-") as log:

        def kept() -> str:
            emptied()
            # The position is the one that native code writes at: reading moves it, and leaves it at the end.
            log.seek(0)
            return log.read().decode("utf-8", errors="replace")

        emptied()
        saved = [(number, os.dup(number)) for number in (1, 2)]
        try:
            for number, _ in saved:
                os.dup2(log.fileno(), number)
            yield kept
        finally:
            emptied()
            for number, copy in saved:
                os.dup2(copy, number)
                os.close(copy)
