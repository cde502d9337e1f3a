"""WebGPU adapters: what they tell, and sessions on them."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

from latcast.errors import MissingExtraError
from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.webgpu.session import WebGpuSession
from latcast.workgroups.workloads import Workload

_BACKENDS = ("Vulkan", "Metal", "DX12")
"""Those with compute shaders and timestamps; OpenGL would list each device a second time, without them."""

_ORDER = ("DiscreteGPU", "IntegratedGPU", "Unknown", "CPU")


class WebGpuInterface:
    """See :class:`latcast.workgroups.gpu_interfaces.GpuInterface`."""

    def profiles(self) -> Sequence[DeviceProfile]:
        """Every adapter, GPUs first."""
        return [_profile(adapter) for adapter in _adapters()]

    def session(self, device: int, workload: Workload) -> WebGpuSession:
        """A session on the adapter of this index."""
        return WebGpuSession(_adapters()[device], workload)

    def missing_driver(self) -> str:
        """What to install."""
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
    kind = adapter.info.get("adapter_type", "Unknown")
    return _ORDER.index(kind) if kind in _ORDER else _ORDER.index("Unknown")


def _profile(adapter: Any) -> DeviceProfile:
    info, limits = adapter.info, adapter.limits
    title = ", ".join(part for part in (info.get("device"), info.get("description"), info.get("backend_type")) if part)
    return DeviceProfile(
        name="webgpu",
        title=title,
        max_work_group_size=limits["max-compute-invocations-per-workgroup"],
        max_x=limits["max-compute-workgroup-size-x"],
        max_y=limits["max-compute-workgroup-size-y"],
        max_z=limits["max-compute-workgroup-size-z"],
        source="queried from WebGPU, which tells the limits alone: neither shader cores nor simultaneous items nor cache lines",
    )
