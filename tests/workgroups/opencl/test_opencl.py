"""OpenCL: sessions where there is a driver, and the messages where there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from latcast.errors import MeasurementError, MissingExtraError
from latcast.testing.contracts import GpuInterfaceContract
from latcast.workgroups import opencl
from latcast.workgroups.gpu_interfaces import find_device
from latcast.workgroups.opencl import build_options, kernel_source
from latcast.workgroups.workloads import convolution


class TestOpenClSession(GpuInterfaceContract):
    interface_name = "opencl"


@pytest.fixture
def nothing_remembered() -> Iterator[None]:
    remembered = opencl._devices, opencl._drivers_devices, opencl._refusal
    for function in remembered:
        function.cache_clear()
    yield
    for function in remembered:
        function.cache_clear()


def test_a_missing_package_names_the_extra(nothing_remembered: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'latcast\[opencl\]'"):
        find_device("opencl")


def test_a_missing_driver_says_what_to_install(nothing_remembered: None, monkeypatch: pytest.MonkeyPatch) -> None:
    cl = pytest.importorskip("pyopencl")

    def none() -> list[Any]:
        raise cl.LogicError("clGetPlatformIDs", -1001, "PLATFORM_NOT_FOUND_KHR")

    monkeypatch.setattr(cl, "get_platforms", none)
    with pytest.raises(MeasurementError, match=r"opencl finds no device here; install .* pip install pocl-binary-distribution"):
        find_device("opencl")


def test_a_device_whose_driver_compiles_no_kernel_is_left_out_with_the_reason(
    nothing_remembered: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cl = pytest.importorskip("pyopencl")

    class Refused:
        def __init__(self, *given: Any) -> None:
            pass

        def build(self) -> None:
            raise cl.RuntimeError("clBuildProgram failed\nerror: unknown target CPU 'generic'\nDevice failed")

    class Device:
        name, type = "pthread-new ", cl.device_type.CPU

    monkeypatch.setattr(cl, "get_platforms", lambda: [SimpleNamespace(get_devices=lambda: [Device()])])
    monkeypatch.setattr(cl, "Context", lambda devices: None)
    monkeypatch.setattr(cl, "Program", Refused)

    said = r"no device here; the driver of pthread-new compiles no kernel \(error: unknown target CPU 'generic'\); install"
    with pytest.raises(MeasurementError, match=said):
        find_device("opencl")


def test_a_profile_tells_all_that_opencl_knows() -> None:
    try:
        profile = find_device("opencl")[2]
    except (MissingExtraError, MeasurementError) as problem:
        pytest.skip(str(problem))

    assert profile.name == "opencl"
    assert profile.compute_units is not None
    assert profile.simultaneous_items is not None
    assert profile.max_work_group_size >= profile.simultaneous_items
    assert "preferred work-group size multiple" in profile.source


def test_the_constants_reach_the_compiler() -> None:
    assert "-DBLOCK_X=2" in build_options(convolution(4, 4, 4, 4))
    assert "__kernel void conv(" in kernel_source("conv")
    assert "__kernel void dwconv(" in kernel_source("depthwise_conv")
