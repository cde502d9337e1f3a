"""LiteRT's GPU delegate: its own convolutions with one work-group size after another, by way of its program cache.

As in an application the delegate chooses the kernel and how much an item computes, and takes the size from its program cache. It
has no clock: a latency is one run from outside, without copying the input, with reading the output.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version as installed_version
from pathlib import Path
from time import perf_counter_ns, process_time_ns

import numpy as np

from latcast.errors import MeasurementError, RuntimeFailure
from latcast.extras import require
from latcast.graph.writers.tflite.flatbuffer import TfliteModel, TfliteOperator, TfliteTensor, serialise
from latcast.runtimes.litert_native import GpuModel, gpu_library
from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.operands import VECTOR, Operands, make_operands
from latcast.workgroups.program_cache import SUFFIX, ProgramCache, read_program_cache
from latcast.workgroups.sizes import SizeLimits, WorkGroup
from latcast.workgroups.workloads import Convolution

_PURPOSE = "timing LiteRT's GPU delegate"

KEY = "latcast"


def write_program_cache(data: bytes, folder: Path, key: str = KEY) -> ProgramCache:
    """Prepare a ``.tflite`` file for the GPU here with LiteRT, and return the cache that it keeps in ``folder`` under ``key``.

    Raises:
        RuntimeFailure: No GPU, another version of LiteRT, or it refused the network.
        MissingExtraError: LiteRT is not installed.
    """
    require(_PURPOSE, "ai_edge_litert")
    path = folder / f"{key}{SUFFIX}"
    path.unlink(missing_ok=True)
    GpuModel(data, folder, key).close()
    if not path.is_file():
        raise RuntimeFailure(f"LiteRT wrote no {path.name}; expected one, with its option serialize_program_cache on")
    return read_program_cache(path)


def clock_of(device_is_cpu: bool) -> Callable[[], int]:
    """Return the clock that runs are timed with, in ns.

    On a driver that computes on one CPU, to which the process is pinned, it is that CPU's time, which other processes do not
    lengthen; else the time by the wall.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    return process_time_ns if device_is_cpu and affinity is not None and len(affinity(0)) == 1 else perf_counter_ns


def load_resized(data: bytes, cache: bytes, folder: Path) -> GpuModel:
    """Start a network in LiteRT from a program cache.

    Args:
        data: The ``.tflite`` file.
        cache: The program cache's content.
        folder: An empty folder for the cache.

    Raises:
        RuntimeFailure: LiteRT did not take the cache: it is of another network, device or version.
    """
    path = folder / f"{KEY}{SUFFIX}"
    path.write_bytes(cache)
    model = GpuModel(data, folder, KEY)
    # Where LiteRT does not take a cache it starts from the network and overwrites the file.
    if path.read_bytes() != cache:
        model.close()
        raise RuntimeFailure(
            f"LiteRT did not take the program cache {path.name} and wrote its own; a cache is of one network, device and "
            "version: make one for these"
        )
    return model


class DelegateSession:
    """See :class:`latcast.workgroups.gpu_interfaces.KernelSession`; each size is a network of one convolution.

    Args:
        workload: The convolution; the kernel that it names is replaced by the delegate's.
        limits: Of the device.
        clock_ns: See :func:`clock_of`.

    Raises:
        MeasurementError: The delegate does not run it as one kernel whose size can be changed, or cannot be given its input.
    """

    def __init__(self, workload: Convolution, limits: SizeLimits, clock_ns: Callable[[], int] = perf_counter_ns) -> None:
        self._clock_ns = clock_ns
        if workload.in_channels % VECTOR:
            # LiteRT 2.3 does not clear the rest of the last slice of a network's input, which may get into the result.
            raise MeasurementError(
                f"LiteRT's GPU delegate may compute wrong results from an input of {workload.in_channels} channels: give "
                f"{workload} a multiple of {VECTOR}"
            )
        operands = make_operands(workload)
        self._shape = operands.expected.shape
        pixels = operands.source.transpose(1, 2, 0, 3).reshape(1, workload.in_h, workload.in_w, -1)
        self._input = np.ascontiguousarray(pixels)
        self._data = one_convolution(workload, operands)
        self._folder = tempfile.TemporaryDirectory(prefix="latcast-litert-")
        self._models: dict[WorkGroup, GpuModel] = {}
        self._result = np.full(self._shape, np.nan, np.float32)
        try:
            self._cache = write_program_cache(self._data, Path(self._folder.name))
        except RuntimeFailure as problem:
            self.close()
            raise MeasurementError(f"{workload}: {problem}") from problem
        kernels = [number for number, kernel in enumerate(self._cache.kernels) if kernel.kind == workload.kind]
        if len(kernels) != 1:
            self.close()
            names = ", ".join(kernel.name for kernel in self._cache.kernels)
            raise MeasurementError(f"LiteRT runs {workload} as {names}; expected one kernel whose work-group size can be changed")
        (self._number,) = kernels
        kernel = self._cache.kernels[self._number]
        self.workload = replace(workload, descriptor=kernel.descriptor)
        self.limits = kernel.limits(limits)
        self.default = kernel.size

    def prepare(self, size: WorkGroup) -> None:
        if not self.limits.allow(size):
            raise MeasurementError(f"LiteRT cannot launch {self.workload} with {size}: the device or the shader allows less")
        folder = Path(self._folder.name, str(size))
        folder.mkdir(exist_ok=True)
        try:
            model = load_resized(self._data, self._cache.resized({self._number: size}), folder)
            self._models[size] = model
            model.set_inputs([self._input])
        except RuntimeFailure as problem:
            raise MeasurementError(f"LiteRT cannot launch {self.workload} with {size}: {problem}") from problem

    def run(self, size: WorkGroup) -> float:
        if size not in self._models:
            self.prepare(size)
        model = self._models[size]
        begin_ns = self._clock_ns()
        model.run()
        (flat,) = model.outputs()
        spent_ms = (self._clock_ns() - begin_ns) * 1e-6
        slices, height, width, _ = self._shape
        pixels = np.zeros((height, width, slices * VECTOR), np.float32)
        pixels[..., : self.workload.out_channels] = flat.reshape(height, width, -1)
        self._result = pixels.reshape(height, width, slices, VECTOR).transpose(2, 0, 1, 3)
        return spent_ms

    def result(self) -> np.ndarray:
        return self._result

    def clear(self) -> None:
        self._result = np.full(self._shape, np.nan, np.float32)

    def close(self) -> None:
        for model in self._models.values():
            model.close()
        self._models.clear()
        self._folder.cleanup()


class LiteRtInterface:
    """See :class:`latcast.workgroups.gpu_interfaces.GpuInterface`."""

    def profiles(self) -> Sequence[DeviceProfile]:
        """Return the first device of WebGPU, which LiteRT takes too and tells nothing of by itself."""
        from latcast.workgroups.webgpu import INTERFACE as WEBGPU

        require(_PURPOSE, "ai_edge_litert")
        if not gpu_library().is_file():
            return ()
        name = f"LiteRT {installed_version('ai-edge-litert')}"
        return [replace(found, name="litert", title=f"{name} on {found.title}") for found in WEBGPU.profiles()[:1]]

    def session(self, device: int, workload: Convolution) -> DelegateSession:
        """Open a session on the only device."""
        from latcast.workgroups.webgpu import INTERFACE as WEBGPU

        return DelegateSession(workload, self.profiles()[device].limits, clock_of(WEBGPU.is_cpu(device)))

    def missing_driver(self) -> str:
        """Return what to install."""
        return (
            "LiteRT's GPU delegate comes with the wheels of ai-edge-litert for Linux on x86_64 and needs a Vulkan driver with "
            "dynamic indexing of images: a GPU's, Mesa 25's lavapipe or SwiftShader"
        )


INTERFACE = LiteRtInterface()


def one_convolution(workload: Convolution, operands: Operands) -> bytes:
    """Return a ``.tflite`` file of one convolution, with the weights of its operands.

    Raises:
        MeasurementError: Its padding is neither TFLite's SAME nor VALID.
    """
    w = workload
    sides = ((w.in_h, w.out_h, w.kernel_h, w.stride_h), (w.in_w, w.out_w, w.kernel_w, w.stride_w))
    if all(out == -(-size // stride) for size, out, _, stride in sides):
        padding = 0  # SAME
    elif all(out == -(-(size - kernel + 1) // stride) for size, out, kernel, stride in sides):
        padding = 1  # VALID
    else:
        raise MeasurementError(f"{w} makes {w.out_h}x{w.out_w} pixels; expected those of TFLite's padding SAME or VALID")
    slices = operands.expected.shape[0]
    options = {"padding": padding, "stride_w": w.stride_w, "stride_h": w.stride_h}
    if w.kind == "conv":
        builtin = "CONV_2D"
        # (out slices, kernel_h, kernel_w, in slices, 4 in, 4 out) to (out, kernel_h, kernel_w, in).
        weights = operands.weights[:slices].transpose(0, 5, 1, 2, 3, 4)
        weights = weights.reshape(-1, w.kernel_h, w.kernel_w, 4 * operands.source.shape[0])
        weights = weights[: w.out_channels, ..., : w.in_channels]
    else:
        builtin = "DEPTHWISE_CONV_2D"
        options["depth_multiplier"] = 1
        weights = operands.weights[:slices].transpose(1, 2, 0, 3).reshape(1, w.kernel_h, w.kernel_w, -1)[..., : w.out_channels]
    bias = operands.bias[:slices].reshape(-1)[: w.out_channels]
    model = TfliteModel("one convolution")
    tensors = (
        TfliteTensor("source", (1, w.in_h, w.in_w, w.in_channels)),
        TfliteTensor("weights", weights.shape, data=np.ascontiguousarray(weights)),
        TfliteTensor("bias", bias.shape, data=np.ascontiguousarray(bias)),
        TfliteTensor("result", (1, w.out_h, w.out_w, w.out_channels)),
    )
    source, filters, added, result = (model.add_tensor(tensor) for tensor in tensors)
    model.operators.append(TfliteOperator(builtin, (source, filters, added), (result,), options))
    model.inputs, model.outputs = (source,), (result,)
    return serialise(model)
