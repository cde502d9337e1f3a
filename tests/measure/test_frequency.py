"""Frequencies of CPUs, read from a folder that stands for /sys."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast import environment
from latcast.environment import affinity, describe_moment
from latcast.errors import LatcastError
from latcast.kernels.rules import unit_kind
from latcast.measure.opened_runtime import open_runtime
from latcast.records import Platform
from tests.measure.behaving import BehavingRuntime


def system(folder: Path, cpus: tuple[int, ...] = (0, 1)) -> Path:
    """Make a /sys whose CPUs share one clock between 0.6 and 1.8 GHz, and return its ``cpufreq`` policy."""
    policy = folder / "devices/system/cpu/cpufreq/policy0"
    policy.mkdir(parents=True)
    limits = {"scaling_min_freq": 600_000, "scaling_max_freq": 1_800_000, "scaling_cur_freq": 1_000_000}
    for name, khz in {**limits, "cpuinfo_min_freq": 600_000, "cpuinfo_max_freq": 1_800_000}.items():
        (policy / name).write_text(f"{khz}\n")
    for cpu in cpus:
        (folder / f"devices/system/cpu/cpu{cpu}").mkdir()
        (folder / f"devices/system/cpu/cpu{cpu}/cpufreq").symlink_to(policy)
    return policy


def test_a_fixed_frequency_is_part_of_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from latcast.runtimes import RUNTIMES

    monkeypatch.setitem(RUNTIMES._targets, "behaving", "")
    monkeypatch.setitem(RUNTIMES._loaded, "behaving", BehavingRuntime)
    policy = system(tmp_path, affinity())

    def platform() -> str:
        return open_runtime("behaving", cpus=(), probe=False, system=tmp_path, qualifiers=("sse42",)).platform.id

    assert platform() == "local/behaving-1.2/cpu1+sse42/fp32"
    for name in ("scaling_min_freq", "scaling_max_freq"):
        (policy / name).write_text("1500000")
    assert platform() == "local/behaving-1.2/cpu1@1.5GHz+sse42/fp32"


def test_hardware_of_one_frequency_is_not_fixed_by_an_administrator(tmp_path: Path) -> None:
    policy = system(tmp_path)
    for name in ("cpuinfo_min_freq", "cpuinfo_max_freq", "scaling_min_freq", "scaling_max_freq"):
        (policy / name).write_text("1000000")
    assert environment.fixed_khz([0], tmp_path) is None


def test_an_id_with_a_frequency_is_read() -> None:
    found = Platform.parse("pi5/onnxruntime-1.31/cpu4@2.4GHz+neon/int8")
    assert (found.threads, unit_kind(found.unit), found.id) == (4, "cpu", "pi5/onnxruntime-1.31/cpu4@2.4GHz+neon/int8")
    for unit in ("cpu4@", "cpu4@fast", "cpu4@2.4ghz", "cpu4@2.4GHz@1GHz"):
        with pytest.raises(LatcastError, match="is not a platform id"):
            Platform.parse(f"pi5/onnxruntime-1.31/{unit}/int8")
    with pytest.raises(LatcastError, match="is not a platform id"):
        Platform.parse("pi5@2GHz/onnxruntime-1.31/cpu4/int8")


def test_the_frequency_of_a_measurement_is_the_median_of_its_rounds() -> None:
    moment = describe_moment((0,), [1500.0, 1800.0, 1790.0])
    assert moment["frequency_mhz"] == 1790.0
    assert moment["frequency_range_mhz"] == [1500.0, 1800.0]


def test_a_frequency_is_read_from_cpufreq_or_from_the_list_of_processors(tmp_path: Path) -> None:
    system(tmp_path)
    assert environment.frequency_mhz([0, 1], tmp_path) == 1000.0
    assert environment.frequency_mhz([0], tmp_path / "empty") is None
    processors = tmp_path / "cpuinfo"
    processors.write_text("processor\t: 0\ncpu MHz\t\t: 2600.000\n\nprocessor\t: 1\ncpu MHz\t\t: 2400.500\n")
    assert environment.stated_mhz([0, 1], processors) == pytest.approx(2500.25)
    assert environment.stated_mhz([5], processors) is None
