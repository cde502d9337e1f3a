"""OpenCL, WebGPU and LiteRT's delegate behind one protocol: each runs a kernel with one work-group size after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from latcast.errors import MeasurementError
from latcast.registry import Registry
from latcast.workgroups.devices import DeviceProfile
from latcast.workgroups.sizes import SizeLimits, WorkGroup
from latcast.workgroups.workloads import Convolution


class KernelSession(Protocol):
    """A convolution's kernel on a device, ready to be launched with one work-group size after another."""

    @property
    def workload(self) -> Convolution:
        """The convolution, with the kernel that is really launched: an engine has its own kernels."""

    @property
    def limits(self) -> SizeLimits:
        """Sizes that this kernel can be launched with: the device's limits, or less where it needs many registers."""

    @property
    def default(self) -> WorkGroup | None:
        """The size that the engine launches by itself; None for latcast's own kernels."""

    def prepare(self, size: WorkGroup) -> None:
        """Compile for a size, so that no timed launch does.

        Raises:
            MeasurementError: The device refuses the size.
        """

    def run(self, size: WorkGroup) -> float:
        """Launch once, wait, and return the milliseconds by the device's own clock.

        Raises:
            MeasurementError: The launch failed.
        """

    def result(self) -> np.ndarray:
        """Return what the last launch wrote, (out slices, out_h, out_w, 4), float32."""

    def clear(self) -> None:
        """Overwrite the result, so that the next one cannot be an old one."""

    def close(self) -> None:
        """Free the device's memory."""


class GpuInterface(Protocol):
    """A way to run kernels on the devices of this machine."""

    def profiles(self) -> Sequence[DeviceProfile]:
        """Return the devices here, best first; none where there is no driver.

        Raises:
            MissingExtraError: Its Python package is not installed.
        """

    def session(self, device: int, workload: Convolution) -> KernelSession:
        """Open a convolution on the device of this index in :meth:`profiles`.

        Raises:
            MissingExtraError: Its Python package is not installed.
            MeasurementError: The kernels do not compute the convolution, or the device refuses them.
        """

    def missing_driver(self) -> str:
        """Return what to install where there is no device."""


GPU_INTERFACES: Registry[GpuInterface] = Registry(
    "GPU interface",
    {
        "opencl": "latcast.workgroups.opencl:INTERFACE",
        "webgpu": "latcast.workgroups.webgpu:INTERFACE",
        "litert": "latcast.workgroups.litert_delegate:INTERFACE",
    },
    "latcast.gpu_interfaces",
)


def is_queried(device: str) -> bool:
    """Return whether an option names a device of this machine ("opencl", "webgpu:1") rather than a profile."""
    return device.partition(":")[0] in GPU_INTERFACES


def find_device(device: str) -> tuple[GpuInterface, int, DeviceProfile]:
    """Return the interface, the index there and the profile of the device that an option names.

    Args:
        device: ``opencl``, ``webgpu`` or ``litert``, for the first of its devices; ``opencl:1`` or ``opencl:mali`` for the second
            one, or the first whose title has this in it.

    Raises:
        UnknownNameError: No interface of this name.
        MissingExtraError: The interface's Python package is not installed.
        MeasurementError: No such device; the message lists those there are, or says what to install.
    """
    name, _, wanted = device.partition(":")
    interface = GPU_INTERFACES.get(name)
    profiles = interface.profiles()
    if not profiles:
        raise MeasurementError(f"{name} finds no device here; {interface.missing_driver()}")
    for index, profile in enumerate(profiles):
        if not wanted or wanted == str(index) or (not wanted.isdecimal() and wanted.lower() in profile.title.lower()):
            return interface, index, profile
    known = "; ".join(f"{name}:{index} is {profile.title}" for index, profile in enumerate(profiles))
    raise MeasurementError(f"{name} has no device '{wanted}' here; {known}")
