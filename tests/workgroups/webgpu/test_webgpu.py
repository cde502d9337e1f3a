"""WebGPU: sessions where there is an adapter, and the messages where there is none."""

from __future__ import annotations

import sys

import pytest

from latcast.errors import MeasurementError, MissingExtraError
from latcast.testing.contracts import GpuInterfaceContract
from latcast.workgroups import webgpu
from latcast.workgroups.gpu_interfaces import find_device
from latcast.workgroups.sizes import WorkGroup
from latcast.workgroups.webgpu import WebGpuSession, shader_source
from latcast.workgroups.workloads import convolution


class TestWebGpuSession(GpuInterfaceContract):
    interface_name = "webgpu"


class Adapter:
    """As much of an adapter as a profile asks for."""

    def __init__(self, device: str, kind: str, features: frozenset[str] = frozenset()) -> None:
        self.info = {"device": device, "description": "", "backend_type": "Vulkan", "adapter_type": kind}
        self.features = features
        self.limits = {
            "max-compute-invocations-per-workgroup": 256, "max-compute-workgroup-size-x": 128,
            "max-compute-workgroup-size-y": 64, "max-compute-workgroup-size-z": 32,
        }  # fmt: skip


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wgpu", None)
    monkeypatch.setattr(webgpu, "_adapters", webgpu._adapters.__wrapped__)
    with pytest.raises(MissingExtraError, match=r"pip install 'latcast\[webgpu\]'"):
        find_device("webgpu")


def test_a_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webgpu, "_adapters", lambda: ())

    with pytest.raises(MeasurementError, match=r"webgpu finds no device here; install .* apt install mesa-vulkan-drivers"):
        find_device("webgpu")


def test_a_profile_has_the_limits_and_says_that_it_knows_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webgpu, "_adapters", lambda: (Adapter("Made Up 9", "DiscreteGPU"),))

    profile = find_device("webgpu")[2]

    assert profile.title == "Made Up 9, Vulkan"
    assert (profile.max_work_group_size, profile.max_x, profile.max_y, profile.max_z) == (256, 128, 64, 32)
    assert (profile.compute_units, profile.simultaneous_items, profile.cache_line_bytes) == (None, None, None)
    assert "neither shader cores nor simultaneous items" in profile.source


def test_gpus_come_before_cpus_that_play_one() -> None:
    kinds = ("CPU", "IntegratedGPU", "something new", "DiscreteGPU")
    ranked = sorted((Adapter(kind, kind) for kind in kinds), key=webgpu._rank)

    assert [adapter.info["device"] for adapter in ranked] == ["DiscreteGPU", "IntegratedGPU", "something new", "CPU"]


def test_a_device_without_timestamps_is_refused() -> None:
    pytest.importorskip("wgpu")
    with pytest.raises(MeasurementError, match="Made Up 9 has no timestamp queries"):
        WebGpuSession(Adapter("Made Up 9", "DiscreteGPU"), convolution(4, 4, 4, 4))


def test_the_constants_stand_in_front_of_the_shader() -> None:
    text = shader_source(convolution(4, 4, 4, 4), WorkGroup(8, 4, 2))

    assert "const BLOCK_X: i32 = 2;" in text
    assert "const GROUP_Y: u32 = 4;" in text
    assert text.index("const GROUP_Z: u32 = 2;") < text.index("@compute")
