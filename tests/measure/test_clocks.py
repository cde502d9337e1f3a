"""Clocks of CPUs: read, fixed, put back, in a folder that stands for /sys."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.errors import LatcastError, MeasurementError
from latcast.kernels.rules import unit_kind
from latcast.measure import clocks
from latcast.measure.environment import affinity, describe_moment
from latcast.measure.opened_runtime import open_runtime
from latcast.records import Platform
from tests.measure.behaving import BehavingRuntime

LISTED = (600_000, 1_000_000, 1_500_000, 1_800_000)


def system(folder: Path, cpus: tuple[int, ...] = (0, 1), governor: str = "ondemand") -> Path:
    """A /sys whose CPUs share one clock, as a board's do."""
    policy = folder / "devices/system/cpu/cpufreq/policy0"
    policy.mkdir(parents=True)
    for name, text in {
        "scaling_governor": governor,
        "scaling_available_governors": "ondemand powersave performance",
        "scaling_available_frequencies": " ".join(map(str, LISTED)),
        "scaling_min_freq": "600000",
        "scaling_max_freq": "1800000",
        "scaling_cur_freq": "1000000",
        "cpuinfo_min_freq": "600000",
        "cpuinfo_max_freq": "1800000",
    }.items():
        (policy / name).write_text(text + "\n")
    for cpu in cpus:
        (folder / f"devices/system/cpu/cpu{cpu}").mkdir()
        (folder / f"devices/system/cpu/cpu{cpu}/cpufreq").symlink_to(policy)
    return folder


def settings_of(root: Path) -> tuple[str, ...]:
    policy = root / "devices/system/cpu/cpufreq/policy0"
    return tuple((policy / name).read_text().strip() for name in ("scaling_governor", "scaling_min_freq", "scaling_max_freq"))


def kernel(refuse: Callable[[Path, str], bool] = lambda path, text: False) -> clocks.Write:
    """Writes as Linux does: a lower limit above the upper one, or the reverse, is invalid."""

    def write(path: Path, text: str) -> None:
        other = {"scaling_min_freq": "scaling_max_freq", "scaling_max_freq": "scaling_min_freq"}.get(path.name)
        if other is not None:
            values = {path.name: int(text), other: int((path.parent / other).read_text())}
            if values["scaling_min_freq"] > values["scaling_max_freq"]:
                raise OSError(22, "Invalid argument")
        if refuse(path, text):
            raise KeyboardInterrupt
        path.write_text(text)

    return write


def test_a_clock_is_fixed_and_put_back(tmp_path: Path) -> None:
    root, kept = system(tmp_path / "sys"), tmp_path / "clocks.json"
    before = settings_of(root)

    done = clocks.pin(1_500_000, [1], root=root, kept=kept, write=kernel())

    assert settings_of(root) == ("performance", "1500000", "1500000")
    assert [(clock.cpu, clock.fixed_khz) for clock in done] == [(1, 1_500_000)]
    assert clocks.fixed_khz([0, 1], root) == 1_500_000
    assert clocks.release(kept=kept, write=kernel()) == 1
    assert settings_of(root) == before
    assert clocks.fixed_khz([0, 1], root) is None
    assert clocks.release(kept=kept) == 0


@hypothesis.settings(max_examples=15)
@given(st.lists(st.sampled_from(LISTED), min_size=1, max_size=5))
def test_however_often_it_is_set_what_was_first_comes_back(frequencies: list[int]) -> None:
    with TemporaryDirectory() as folder:
        root, kept = system(Path(folder) / "sys"), Path(folder) / "clocks.json"
        before = settings_of(root)
        for khz in frequencies:
            clocks.pin(khz, root=root, kept=kept, write=kernel())
            assert settings_of(root)[1:] == (str(khz), str(khz))
        clocks.release(kept=kept, write=kernel())
        assert settings_of(root) == before


@pytest.mark.parametrize("name", ["scaling_governor", "scaling_min_freq", "scaling_max_freq"])
def test_an_interruption_leaves_everything_as_it_was(tmp_path: Path, name: str) -> None:
    root, kept = system(tmp_path / "sys"), tmp_path / "clocks.json"
    before = settings_of(root)
    interrupted: list[Path] = []

    def once(path: Path, text: str) -> bool:
        if path.name == name and not interrupted:
            interrupted.append(path)
            return True
        return False

    with pytest.raises(KeyboardInterrupt):
        clocks.pin(1_000_000, root=root, kept=kept, write=kernel(once))
    assert interrupted
    assert settings_of(root) == before
    assert not kept.exists()


def test_what_was_before_is_on_disk_before_anything_changes(tmp_path: Path) -> None:
    root, kept = system(tmp_path / "sys"), tmp_path / "clocks.json"
    seen: list[bool] = []

    def watched(path: Path, text: str) -> None:
        seen.append(kept.exists())
        kernel()(path, text)

    clocks.pin(root=root, kept=kept, write=watched)
    assert seen[0]
    assert settings_of(root) == ("performance", "1800000", "1800000"), "the highest by default"
    # Killed here: another process puts it back.
    clocks.release(kept=kept, write=kernel())
    assert settings_of(root) == ("ondemand", "600000", "1800000")


def test_what_cannot_be_set_is_said(tmp_path: Path) -> None:
    root, kept = system(tmp_path / "sys"), tmp_path / "clocks.json"
    with pytest.raises(MeasurementError, match=r"CPU 0 does not run at 1.2GHz; it has 0.6GHz, 1GHz, 1.5GHz, 1.8GHz"):
        clocks.pin(1_200_000, root=root, kept=kept)
    with pytest.raises(MeasurementError, match="there is no clock of a CPU 7; there are those of 0, 1"):
        clocks.pin(None, [7], root=root, kept=kept)
    with pytest.raises(MeasurementError, match="no frequency to set"):
        clocks.pin(root=tmp_path / "empty", kept=kept)
    assert not kept.exists()

    def denied(path: Path, text: str) -> None:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(LatcastError, match=r"cannot set .*scaling_governor \(permission denied\); do it as root, or with --sudo"):
        clocks.pin(root=root, kept=kept, write=denied)

    def deaf(path: Path, text: str) -> None:
        if path.name == "scaling_governor":
            path.write_text(text)

    with pytest.raises(MeasurementError, match=r"was set to 1GHz and stays between 0.6GHz and 1.8GHz"):
        clocks.pin(1_000_000, root=root, kept=kept, write=deaf)
    assert settings_of(root)[0] == "ondemand"


def test_frequencies_are_read_as_people_write_them() -> None:
    assert (
        clocks.parse_frequency("1.5GHz") == clocks.parse_frequency("1500 mhz") == clocks.parse_frequency("1500000") == 1_500_000
    )
    assert [clocks.gigahertz(khz) for khz in (1_500_000, 2_000_000, 1_416_000)] == ["1.5GHz", "2GHz", "1.416GHz"]
    for text in ("", "fast", "1.5", "-1GHz", "1e3GHz", "99GHz"):
        with pytest.raises(MeasurementError, match="is no frequency of a CPU"):
            clocks.parse_frequency(text)


def test_a_fixed_frequency_is_part_of_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from latcast.runtimes import RUNTIMES

    monkeypatch.setitem(RUNTIMES._targets, "behaving", "")
    monkeypatch.setitem(RUNTIMES._loaded, "behaving", BehavingRuntime)
    root = system(tmp_path / "sys", affinity())

    def platform() -> str:
        return open_runtime("behaving", cpus=(), probe=False, system=root, qualifiers=("sse42",)).platform.id

    assert platform() == "local/behaving-1.2/cpu1+sse42/fp32"
    clocks.pin(1_500_000, root=root, kept=tmp_path / "clocks.json", write=kernel())
    assert platform() == "local/behaving-1.2/cpu1@1.5GHz+sse42/fp32"


def test_hardware_of_one_frequency_is_not_fixed_by_anybody(tmp_path: Path) -> None:
    root = system(tmp_path / "sys")
    for name in ("cpuinfo_min_freq", "cpuinfo_max_freq", "scaling_min_freq", "scaling_max_freq"):
        (root / "devices/system/cpu/cpufreq/policy0" / name).write_text("1000000")
    assert clocks.fixed_khz([0], root) is None


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


def test_a_frequency_is_read_from_what_there_is(tmp_path: Path) -> None:
    root = system(tmp_path / "sys")
    assert clocks.frequency_mhz([0, 1], root) == 1000.0
    assert clocks.frequency_mhz([0], tmp_path / "empty") is None
    processors = tmp_path / "cpuinfo"
    processors.write_text("processor\t: 0\ncpu MHz\t\t: 2600.000\n\nprocessor\t: 1\ncpu MHz\t\t: 2400.500\n")
    assert clocks.stated_mhz([0, 1], processors) == pytest.approx(2500.25)
    assert clocks.stated_mhz([5], processors) is None


@pytest.mark.skipif(os.geteuid() == 0 and clocks.clocks() != (), reason="would set this machine's clocks")
def test_this_machine_is_pinned_or_says_why_not(tmp_path: Path) -> None:
    with pytest.raises(LatcastError, match=r"no frequency to set|cannot set"):
        clocks.pin(kept=tmp_path / "clocks.json")
    assert not (tmp_path / "clocks.json").exists()


def test_what_is_kept_is_read_again_or_refused(tmp_path: Path) -> None:
    kept = tmp_path / "clocks.json"
    kept.write_text(json.dumps({"schema": 1, "before": {str(tmp_path / "gone"): {}}}))
    with pytest.raises(MeasurementError, match="not what latcast wrote"):
        clocks.release(kept=kept)
