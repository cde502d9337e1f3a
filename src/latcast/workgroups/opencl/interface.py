"""OpenCL devices: what their drivers tell, and sessions on them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from latcast.errors import MissingExtraError
from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.opencl.session import OpenClSession
from latcast.workgroups.workloads import Workload

_PROBE = "__kernel void probe(__global float4* out) { out[get_global_id(0)] *= 2.0f; }"


class OpenClInterface:
    """See :class:`latcast.workgroups.gpu_interfaces.GpuInterface`."""

    def profiles(self) -> Sequence[DeviceProfile]:
        """Every device of every platform, GPUs first."""
        return [_profile(device) for device in _devices()]

    def session(self, device: int, workload: Workload) -> OpenClSession:
        """A session on the device of this index."""
        return OpenClSession(_devices()[device], workload)

    def missing_driver(self) -> str:
        """What to install."""
        return (
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
    title = f"{device.name.strip()}, {device.version.strip()}"
    return DeviceProfile(
        name="opencl",
        title=title,
        max_work_group_size=device.max_work_group_size,
        max_x=most[0],
        max_y=most[1],
        max_z=most[2],
        compute_units=device.max_compute_units or None,
        simultaneous_items=_preferred_multiple(device),
        cache_line_bytes=device.global_mem_cacheline_size or None,
        source="queried from OpenCL; simultaneous_items is the preferred work-group size multiple, which says how many items "
        "run in step and not how many a core holds",
    )


def _preferred_multiple(device: Any) -> int | None:
    """A property of compiled kernels only; the device needs no work for it."""
    cl = _opencl()
    try:
        program = cl.Program(cl.Context([device]), _PROBE).build()
        wanted = cl.kernel_work_group_info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE
        return int(cl.Kernel(program, "probe").get_work_group_info(wanted, device)) or None
    except cl.Error:
        return None
