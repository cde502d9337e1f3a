"""WebGPU adapters: their profiles, and convolutions on them, timed by timestamp queries."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np

from latcast.errors import MeasurementError, MissingExtraError
from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.operands import SOURCES, constants, make_operands, size_arguments
from latcast.workgroups.sizes import SizeLimits, WorkGroup
from latcast.workgroups.workloads import Convolution

_NEEDED = "timestamp-query"
_LIMITS = ("max-compute-invocations-per-workgroup", *(f"max-compute-workgroup-size-{axis}" for axis in "xyz"))
_RAISED = (*_LIMITS, "max-storage-buffer-binding-size", "max-buffer-size")
_TIMESTAMPS = 16
"""Bytes of the two timestamps of a launch."""


def shader_source(workload: Convolution, size: WorkGroup) -> str:
    """Return the WGSL of a convolution's kernel for one work-group size: the constants, then the file."""
    values = [f"const {name}: i32 = {value};" for name, value in constants(workload).items()]
    groups = [f"const GROUP_{axis}: u32 = {value};" for axis, value in zip("XYZ", size.shape, strict=True)]
    file = resources.files("latcast.workgroups.webgpu").joinpath(f"{SOURCES[workload.kind]}.wgsl")
    return "\n".join([*values, *groups, file.read_text(encoding="utf-8")])


class WebGpuSession:
    """See :class:`latcast.workgroups.gpu_interfaces.KernelSession`.

    Args:
        adapter: A ``wgpu.GPUAdapter``.
        workload: The convolution.

    Raises:
        MeasurementError: The kernels here do not compute it, or the device refuses them or has no timestamps.
    """

    def __init__(self, adapter: Any, workload: Convolution) -> None:
        import wgpu

        if _NEEDED not in adapter.features:
            raise MeasurementError(
                f"WebGPU on {adapter.info['device']} has no timestamp queries; expected some: try another device"
            )
        self._problems = (wgpu.GPUError, RuntimeError, ValueError)
        self.workload = workload
        operands = make_operands(workload)
        limits = adapter.limits
        self.limits = SizeLimits(*(limits[name] for name in _LIMITS))
        usage = wgpu.BufferUsage
        try:
            self._device = adapter.request_device_sync(
                required_features=[_NEEDED], required_limits={name: limits[name] for name in _RAISED}
            )
            make = self._device.create_buffer_with_data
            inputs = [
                make(data=np.ascontiguousarray(array), usage=usage.STORAGE)
                for array in (operands.source, operands.weights, operands.bias)
            ]
            self._shape = operands.expected.shape
            self._nothing = np.full(self._shape, np.nan, np.float32)
            self._result = make(data=self._nothing, usage=usage.STORAGE | usage.COPY_SRC | usage.COPY_DST)
            sizes = make(data=np.array(size_arguments(workload), np.int32), usage=usage.UNIFORM)
            self._queries = self._device.create_query_set(type=wgpu.QueryType.timestamp, count=2)
            resolved = usage.QUERY_RESOLVE | usage.COPY_SRC
            self._timestamps = self._device.create_buffer(size=_TIMESTAMPS, usage=resolved)
            self._layout, self._bound = self._bind([*inputs, self._result, sizes])
        except self._problems as problem:
            raise MeasurementError(f"WebGPU on {adapter.info['device']} cannot prepare {workload}: {problem}") from problem
        self._pipelines: dict[WorkGroup, Any] = {}

    def _bind(self, buffers: list[Any]) -> tuple[Any, Any]:
        """Return one layout for the pipelines of all sizes, and the buffers in it."""
        import wgpu

        kinds = [wgpu.BufferBindingType.read_only_storage] * 3 + [wgpu.BufferBindingType.storage, wgpu.BufferBindingType.uniform]
        entries = [
            {"binding": index, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}}
            for index, kind in enumerate(kinds)
        ]
        layout = self._device.create_bind_group_layout(entries=entries)
        whole = [
            {"binding": index, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
            for index, buffer in enumerate(buffers)
        ]
        return (
            self._device.create_pipeline_layout(bind_group_layouts=[layout]),
            self._device.create_bind_group(layout=layout, entries=whole),
        )

    default = None

    def prepare(self, size: WorkGroup) -> None:
        """Compile the shader and launch it once, since drivers compile at the first launch too."""
        try:
            module = self._device.create_shader_module(code=shader_source(self.workload, size))
            self._pipelines[size] = self._device.create_compute_pipeline(
                layout=self._layout, compute={"module": module, "entry_point": "main"}
            )
        except self._problems as problem:
            raise MeasurementError(f"WebGPU cannot compile {self.workload} for {size}: {problem}") from problem
        self.run(size)

    def run(self, size: WorkGroup) -> float:
        if size not in self._pipelines:
            self.prepare(size)
        try:
            encoder = self._device.create_command_encoder()
            writes = {"query_set": self._queries, "beginning_of_pass_write_index": 0, "end_of_pass_write_index": 1}
            launch = encoder.begin_compute_pass(timestamp_writes=writes)
            launch.set_pipeline(self._pipelines[size])
            launch.set_bind_group(0, self._bound)
            launch.dispatch_workgroups(*self.workload.grid.groups(size))
            launch.end()
            encoder.resolve_query_set(self._queries, 0, 2, self._timestamps, 0)
            self._device.queue.submit([encoder.finish()])
            begin_ns, end_ns = np.frombuffer(self._device.queue.read_buffer(self._timestamps), np.uint64).tolist()
        except self._problems as problem:
            raise MeasurementError(f"WebGPU cannot launch {self.workload} with {size}: {problem}") from problem
        return (end_ns - begin_ns) * 1e-6

    def result(self) -> np.ndarray:
        return np.frombuffer(self._device.queue.read_buffer(self._result), np.float32).reshape(self._shape).copy()

    def clear(self) -> None:
        self._device.queue.write_buffer(self._result, 0, self._nothing)

    def close(self) -> None:
        self._pipelines.clear()
        self._device.destroy()


_BACKENDS = ("Vulkan", "Metal", "DX12")
"""APIs with compute shaders and timestamps; OpenGL would list each device a second time, without them."""

_ORDER = ("DiscreteGPU", "IntegratedGPU", "Unknown", "CPU")


class WebGpuInterface:
    """See :class:`latcast.workgroups.gpu_interfaces.GpuInterface`."""

    def profiles(self) -> Sequence[DeviceProfile]:
        """Return every adapter, GPUs first."""
        return [_profile(adapter) for adapter in _adapters()]

    def is_cpu(self, device: int) -> bool:
        """Return whether an adapter is a CPU that plays a GPU."""
        return _adapters()[device].info.get("adapter_type") == "CPU"

    def session(self, device: int, workload: Convolution) -> WebGpuSession:
        """Open a session on the adapter of this index."""
        return WebGpuSession(_adapters()[device], workload)

    def missing_driver(self) -> str:
        """Return what to install."""
        return "install the GPU's Vulkan driver, or run on the CPU with Mesa's lavapipe: apt install mesa-vulkan-drivers"


INTERFACE = WebGpuInterface()


@functools.cache
def _adapters() -> Sequence[Any]:
    try:
        import wgpu
        from wgpu.backends.wgpu_native.extras import set_instance_extras
    except ImportError as problem:
        raise MissingExtraError("wgpu", "webgpu", "timing work-group sizes with WebGPU") from problem
    # Mesa's layer that picks a default adapter asks a display server for it, and complains where there is none.
    os.environ.setdefault("NODEVICE_SELECT", "1")
    # Timestamps would be in the device's ticks otherwise, and wgpu does not tell how long one is.
    set_instance_extras(backends=list(_BACKENDS), flags=["AutomaticTimestampNormalization"])
    return tuple(sorted(wgpu.gpu.enumerate_adapters_sync(), key=_rank))


def _rank(adapter: Any) -> int:
    kind = adapter.info.get("adapter_type")
    return _ORDER.index(kind if kind in _ORDER else "Unknown")


def _profile(adapter: Any) -> DeviceProfile:
    info = adapter.info
    title = ", ".join(part for part in (info.get("device"), info.get("description"), info.get("backend_type")) if part)
    most_items, *most = (adapter.limits[name] for name in _LIMITS)
    source = "queried from WebGPU, which tells the limits alone: neither shader cores nor simultaneous items nor cache lines"
    return DeviceProfile("webgpu", title, most_items, most[0], most[1], most[2], source=source)
