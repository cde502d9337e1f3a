"""The environment of a measurement."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

from latcast import environment
from latcast.environment import (
    affinity,
    describe_environment,
    describe_moment,
    environment_id,
    own_device_name,
    utc_now,
)
from latcast.measure import scheduling
from latcast.records import Platform


def test_an_environment_is_plain_json() -> None:
    environment = describe_environment(threads=2, cpus=(0, 1), packages=("onnxruntime",), realtime=False)
    assert json.loads(json.dumps(environment)) == environment
    assert environment["settings"]["threads"] == 2
    assert environment["settings"]["realtime"] is False
    assert environment["software"]["onnxruntime"].count(".") >= 1
    assert environment["host"]["cpus"] == os.cpu_count()
    assert environment["host"]["cpu"]["model"]


def test_a_package_that_is_missing_is_left_out() -> None:
    environment = describe_environment(threads=1, cpus=None, packages=("no-such-package",))
    assert "no-such-package" not in environment["software"]


def test_the_id_leaves_the_moment_out_and_nothing_else() -> None:
    environment = describe_environment(threads=1, cpus=None)
    same = {**environment, "moment": describe_moment()}
    other = {**environment, "settings": {**environment["settings"], "threads": 2}}
    assert environment_id(environment) == environment_id(same)
    assert environment_id(environment) != environment_id(other)


def test_the_id_is_the_same_in_whatever_order_a_store_gives_the_fields_back() -> None:
    described = describe_environment(threads=1, cpus=None)
    backwards = {name: dict(reversed(part.items())) for name, part in reversed(described.items())}

    assert environment_id(backwards) == environment_id(described)


def test_variables_that_change_speed_are_kept_and_folders_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("LD_PRELOAD", "/home/somebody/libmask.so")
    monkeypatch.setenv("SECRET_TOKEN", "x")
    variables = describe_environment(threads=1, cpus=None)["settings"]["variables"]
    assert variables["OMP_NUM_THREADS"] == "3"
    assert variables["LD_PRELOAD"] == "libmask.so"
    assert "SECRET_TOKEN" not in variables


def test_an_environment_does_not_name_the_machine() -> None:
    assert os.uname().nodename not in json.dumps(describe_environment(threads=1, cpus=None)).split('"')


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_the_cpus_that_a_container_may_use_are_its_quota_over_the_period(
    files: dict[str, str], expected: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of both versions of control groups; a machine has one, and its limit cannot be set here."""
    real = environment._read
    folder = "/sys/fs/cgroup/"
    monkeypatch.setattr(
        environment, "_read", lambda path: files.get(path.removeprefix(folder)) if path.startswith(folder) else real(path)
    )

    assert environment.host_environment()["cpu_quota"] == expected


@pytest.mark.parametrize(
    ("model", "host", "name"),
    [
        ("Raspberry Pi 5 Model B Rev 1.0\0", "pi", "raspberry-pi-5-model-b"),
        ("Hardkernel ODROID-N2+\0", "odroid", "hardkernel-odroid-n2+"),
        (None, "Build-Box.example.org", "build-box"),
        (None, "§§", "device"),
    ],
)
def test_a_device_is_named_for_its_board_or_its_host(tmp_path: Path, model: str | None, host: str, name: str) -> None:
    if model is not None:
        (tmp_path / "model").write_text(model)
    assert own_device_name(str(tmp_path / "model"), host) == name
    assert Platform(name, "litert", "2.1", "cpu1", "fp32") == Platform.parse(f"{name}/litert-2.1/cpu1/fp32")


def test_times_sort_as_texts() -> None:
    first, second = utc_now(), utc_now()
    assert first <= second
    assert first.endswith("Z")


class TestScheduling:
    def test_the_last_cpus_are_chosen(self) -> None:
        assert scheduling.default_cpus(1) == affinity()[-1:]

    @pytest.mark.parametrize(("threads", "expected"), [(1, (5,)), (2, (3, 5)), (3, (1, 3, 5)), (4, (1, 3, 4, 5))])
    def test_threads_get_cores_of_their_own_while_there_are_enough(
        self, threads: int, expected: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Three cores with two CPUs each.
        monkeypatch.setattr(scheduling, "affinity", lambda: (0, 1, 2, 3, 4, 5))
        monkeypatch.setattr(scheduling, "siblings", lambda cpu: f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}")

        assert scheduling.default_cpus(threads) == expected

    def test_the_ordinary_priority_returns_after_a_real_time_round(self) -> None:
        if not scheduling.realtime_permitted():
            pytest.skip("this process may not have a real-time priority")
        with scheduling.realtime():
            assert os.sched_getscheduler(0) == os.SCHED_RR
        assert os.sched_getscheduler(0) == os.SCHED_OTHER

    def test_every_thread_of_the_process_has_the_real_time_priority_in_a_round(self) -> None:
        if not scheduling.realtime_permitted():
            pytest.skip("this process may not have a real-time priority")
        done = Event()
        thread = Thread(target=done.wait)
        thread.start()
        assert thread.native_id is not None
        begun = Thread(target=done.wait)
        try:
            with scheduling.realtime():
                begun.start()
                during = [os.sched_getscheduler(each.native_id or 0) for each in (thread, begun)]
            after = [os.sched_getscheduler(each.native_id or 0) for each in (thread, begun)]
        finally:
            done.set()
            thread.join()
            begun.join()

        assert (during, after) == ([os.SCHED_RR] * 2, [os.SCHED_OTHER] * 2)

    def test_another_process_has_the_priority_as_long(self) -> None:
        if not scheduling.realtime_permitted():
            pytest.skip("this process may not have a real-time priority")
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            with scheduling.realtime([other.pid]):
                during = os.sched_getscheduler(other.pid)
            after = os.sched_getscheduler(other.pid)
            other.kill()

        assert (during, after) == (os.SCHED_RR, os.SCHED_OTHER)

    def test_pre_emptions_are_counted_upwards(self) -> None:
        count = scheduling.preemption_counter()
        assert 0 <= count() <= count()
