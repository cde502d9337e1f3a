"""What the sessions of all runtimes share: the setting that they are loaded at, inputs, outputs, refusals."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from latcast.errors import RuntimeFailure
from latcast.graph.ir import Graph
from latcast.runtimes.protocol import Runtime


def check_setting(runtime: Runtime, graph: Graph, threads: int, precision: str) -> None:
    """Refuse a setting at which a runtime cannot load a network.

    Raises:
        RuntimeFailure: The runtime does not have the precision here, or there is no thread.
    """
    if precision not in (known := runtime.precisions):
        raise RuntimeFailure(f"{runtime.name} cannot run '{graph.name}' in '{precision}' here; it can in {', '.join(known)}")
    if threads < 1:
        raise RuntimeFailure(f"'{graph.name}' cannot run with {threads} threads; at least 1 is needed")


def check_profiling(graph: Graph, profile: bool, runs: int) -> None:
    """Refuse to tell the kernels of a session that was not loaded for it, or of no run.

    Raises:
        RuntimeFailure: ``profile`` is false, or ``runs`` is below 1.
    """
    if not profile:
        raise RuntimeFailure(f"'{graph.name}' was not loaded with profile=True, so its kernels are not known")
    if runs < 1:
        raise RuntimeFailure(f"{runs} profiled runs give no latency; ask for at least 1")


def check_finite(runtime: str, graph: Graph, outputs: Sequence[np.ndarray]) -> None:
    """Refuse outputs that hold no finite numbers.

    Raises:
        RuntimeFailure: One does not; the message names it.
    """
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
        raise RuntimeFailure(f"'{graph.name}' has {len(graph.inputs)} input(s) ({names}); {len(inputs)} were given")
    arrays = []
    for name, given in zip(graph.inputs, inputs, strict=True):
        tensor = graph.tensors[name]
        if tuple(given.shape) != tensor.shape:
            raise RuntimeFailure(
                f"input '{name}' of '{graph.name}' has the shape {list(tensor.shape)}; an array of {list(given.shape)} was given"
            )
        arrays.append(np.ascontiguousarray(given, dtype=tensor.dtype).reshape(tensor.shape))
    return arrays


@contextmanager
def prints_kept() -> Iterator[Callable[[], str]]:
    """Keep what native code prints from the standard streams; yields a function that returns it.

    The reader of this process's output expects JSON there. The C library's buffers are emptied before the streams are put
    back, or their content would come out later.
    """
    flush = ctypes.CDLL(None).fflush if os.name == "posix" else None

    def emptied() -> None:
        for stream in (sys.stdout, sys.stderr):
            # None in a process without a terminal.
            if stream is not None:
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
