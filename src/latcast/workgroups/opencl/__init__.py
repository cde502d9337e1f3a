"""OpenCL devices: their profiles, and convolutions on them, timed by the device's own events."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np

from latcast.errors import MeasurementError, MissingExtraError
from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.operands import SOURCES, constants, make_operands, size_arguments
from latcast.workgroups.sizes import SizeLimits, WorkGroup
from latcast.workgroups.workloads import Convolution, Kind


def kernel_source(kind: Kind) -> str:
    """Return the OpenCL C of the kernel of a kind."""
    return resources.files("latcast.workgroups.opencl").joinpath(f"{SOURCES[kind]}.cl").read_text(encoding="utf-8")


def build_options(workload: Convolution) -> list[str]:
    """Return the compiler options that fix a convolution's constants."""
    return [f"-D{name}={value}" for name, value in constants(workload).items()]


class OpenClSession:
    """See :class:`latcast.workgroups.gpu_interfaces.KernelSession`.

    Args:
        device: A ``pyopencl.Device``.
        workload: The convolution.

    Raises:
        MeasurementError: The kernels here do not compute it, or the device refuses them.
    """

    def __init__(self, device: Any, workload: Convolution) -> None:
        import pyopencl as cl

        self._cl = cl
        self.workload = workload
        operands = make_operands(workload)
        try:
            self._context = cl.Context([device])
            profiling = cl.command_queue_properties.PROFILING_ENABLE
            self._queue = cl.CommandQueue(self._context, properties=profiling)
            program = cl.Program(self._context, kernel_source(workload.kind)).build(build_options(workload))
            self._kernel = cl.Kernel(program, SOURCES[workload.kind])
            kept = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            self._result = np.empty_like(operands.expected)
            written = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, self._result.nbytes)
            inputs = [
                cl.Buffer(self._context, kept, hostbuf=np.ascontiguousarray(array))
                for array in (operands.source, operands.weights, operands.bias)
            ]
            # The kernel does not keep its buffers alive: launching after one of them is collected crashes the process.
            self._buffers = [*inputs, written]
            self._kernel.set_args(*self._buffers, *(np.int32(value) for value in size_arguments(workload)))
            most = int(self._kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device))
        except cl.Error as problem:
            raise MeasurementError(f"OpenCL on {device.name.strip()} cannot prepare {workload}: {problem}") from problem
        self.limits = SizeLimits(min(most, device.max_work_group_size), *device.max_work_item_sizes[:3])

    default = None

    def prepare(self, size: WorkGroup) -> None:
        """Launch once: drivers that specialise a kernel for its local size do so at its first launch.

        Raises:
            MeasurementError: The size is beyond the device's limits, which some drivers launch, or not to be launched.
        """
        if not self.limits.allow(size):
            raise MeasurementError(f"OpenCL cannot launch {self.workload} with {size}: the device or the kernel allows less")
        self.run(size)

    def run(self, size: WorkGroup) -> float:
        try:
            event = self._cl.enqueue_nd_range_kernel(self._queue, self._kernel, self.workload.grid.padded(size), size.shape)
            event.wait()
            return (event.profile.end - event.profile.start) * 1e-6
        except self._cl.Error as problem:
            raise MeasurementError(f"OpenCL cannot launch {self.workload} with {size}: {problem}") from problem

    def result(self) -> np.ndarray:
        self._cl.enqueue_copy(self._queue, self._result, self._buffers[-1])
        self._queue.finish()
        return self._result.copy()

    def clear(self) -> None:
        self._cl.enqueue_copy(self._queue, self._buffers[-1], np.full_like(self._result, np.nan))
        self._queue.finish()

    def close(self) -> None:
        self._queue.finish()
        for buffer in self._buffers:
            buffer.release()


_PROBE = "__kernel void probe(__global float4* out) { out[get_global_id(0)] *= 2.0f; }"


class OpenClInterface:
    """See :class:`latcast.workgroups.gpu_interfaces.GpuInterface`."""

    def profiles(self) -> Sequence[DeviceProfile]:
        """Return every device of every platform, GPUs first."""
        return [_profile(device) for device in _devices()]

    def session(self, device: int, workload: Convolution) -> OpenClSession:
        """Open a session on the device of this index."""
        return OpenClSession(_devices()[device], workload)

    def missing_driver(self) -> str:
        """Return what to install, and which devices have a driver that compiles nothing."""
        return "".join(f"{reason}; " for reason in map(_refusal, _drivers_devices()) if reason) + (
            "install the GPU's OpenCL driver, or run on the CPU with: pip install pocl-binary-distribution "
            "(part of the extra latcast[opencl])"
        )


INTERFACE = OpenClInterface()


def _opencl() -> Any:
    try:
        import pyopencl
    except ImportError as problem:
        raise MissingExtraError("pyopencl", "opencl", "timing work-group sizes with OpenCL") from problem
    return pyopencl


@functools.cache
def _devices() -> Sequence[Any]:
    """Return the devices whose driver compiles a kernel: PoCL's refuses all on processors that are newer than it."""
    return tuple(device for device in _drivers_devices() if _refusal(device) is None)


@functools.cache
def _probe(device: Any) -> Any:
    """Build a small kernel for a device.

    Raises:
        pyopencl.Error: Its driver compiles nothing.
    """
    cl = _opencl()
    return cl.Kernel(cl.Program(cl.Context([device]), _PROBE).build(), "probe")


@functools.cache
def _refusal(device: Any) -> str | None:
    """Return why a device's driver compiles nothing; None where it compiles."""
    try:
        _probe(device)
    except _opencl().Error as problem:
        said = next((line for line in str(problem).splitlines() if line.startswith("error:")), str(problem).splitlines()[0])
        return f"the driver of {device.name.strip()} compiles no kernel ({said})"
    return None


@functools.cache
def _drivers_devices() -> Sequence[Any]:
    cl = _opencl()
    try:
        platforms = cl.get_platforms()
    except cl.Error:  # a loader without a single driver raises instead of listing none
        return ()
    found = []
    for platform in platforms:
        try:
            found += platform.get_devices()
        except cl.Error:  # a driver whose device is absent
            continue
    return tuple(sorted(found, key=lambda device: not device.type & cl.device_type.GPU))


@functools.cache
def _profile(device: Any) -> DeviceProfile:
    most = device.max_work_item_sizes
    cl = _opencl()
    wanted = cl.kernel_work_group_info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE
    try:
        multiple = int(_probe(device).get_work_group_info(wanted, device)) or None
    except cl.Error:  # the multiple is a property of compiled kernels only
        multiple = None
    return DeviceProfile(
        "opencl", f"{device.name.strip()}, {device.version.strip()}", device.max_work_group_size, most[0], most[1], most[2],
        compute_units=device.max_compute_units or None,
        simultaneous_items=multiple,
        cache_line_bytes=device.global_mem_cacheline_size or None,
        source="queried from OpenCL; simultaneous_items is the preferred work-group size multiple, which says how many items "
        "run in step and not how many a core holds",
    )  # fmt: skip
