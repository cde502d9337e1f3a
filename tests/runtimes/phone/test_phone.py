"""Runs, profiles and heat of a phone, on its double."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from latcast.errors import RuntimeFailure
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.runtimes import get_runtime
from latcast.runtimes.adb import PhoneGone, folder_name
from latcast.runtimes.phone import RETAKES, PhoneRuntime, PhoneSession
from latcast.runtimes.phone_tools import ATTRIBUTED, attributed
from latcast.spaces import build
from latcast.spaces.catalogue import model
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.runtimes.phone.android import SERIAL, Android

pytest.importorskip("ai_edge_litert")


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def phone(android: Android, slept: list[float], monkeypatch: pytest.MonkeyPatch) -> PhoneRuntime:
    # The anchor runs by the clock, which on a busy machine would decide what these tests see.
    monkeypatch.setattr("latcast.runtimes.phone.ANCHOR_EVERY_S", float("inf"))
    runtime = get_runtime("litert")
    assert isinstance(runtime, PhoneRuntime)
    runtime.sleep = slept.append
    return runtime


def loaded(phone: PhoneRuntime, graph: Graph | None = None, *, profile: bool = False, threads: int = 1) -> PhoneSession:
    return phone.load(graph or CONTRACT_NETWORKS["conv_stack"](), profile=profile, threads=threads)


def commands(android: Android) -> list[str]:
    """What the phone's shell was told, the tool's runs alone."""
    return [words[1] for words in android.calls if words[0] == "shell" and "--graph" in words[1]]


def test_the_phones_facts_say_nothing_of_its_owner(phone: PhoneRuntime) -> None:
    assert phone.device_name() == "pixel-4"
    assert phone.facts.gles == "Qualcomm, Adreno (TM) 640, OpenGL ES 3.2 V@0502.0"
    said = phone.environment()
    assert said["soc.model"] == "SM8150"
    assert said["cores"] == "1 large, 3 med, 4 small"
    assert SERIAL not in str(said)


def test_a_run_is_one_of_a_burst_on_a_clock_that_stands_still_otherwise(phone: PhoneRuntime, android: Android) -> None:
    session = loaded(phone)
    before, count = phone.clock.now_ms(), len(commands(android))
    session.run()
    first_ms = phone.clock.now_ms() - before
    assert first_ms > 0
    assert len(commands(android)) == count + 1
    session.run()
    assert phone.clock.now_ms() - before == pytest.approx(2 * first_ms)  # the tool prints the median of a burst
    assert len(commands(android)) == count + 1


def test_the_rest_of_a_burst_is_used_for_a_while(phone: PhoneRuntime, android: Android, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = loaded(phone), loaded(phone, CONTRACT_NETWORKS["linear_head"]())
    count = len(commands(android))
    for session in (first, second, first, second):
        session.run()
    assert len(commands(android)) == count + 2
    monkeypatch.setattr("latcast.runtimes.phone.STALE_S", 0.0)
    first.run()
    assert len(commands(android)) == count + 3


def test_the_phone_rests_between_bursts_which_grow(phone: PhoneRuntime, android: Android, slept: list[float]) -> None:
    session = loaded(phone, CONTRACT_NETWORKS["linear_head"]())
    for _ in range(15 + 30 + 60):
        session.run()
    assert len(slept) == 3
    assert all(0 < seconds <= 3 for seconds in slept)
    asked = [re.findall(r"--num_runs=(\d+)", command)[0] for command in commands(android)]
    assert asked == ["1", "15", "30", "60"]


def test_a_network_runs_on_the_cores_that_the_unit_names(phone: PhoneRuntime, android: Android) -> None:
    assert phone.place("cpu2") == "2med"
    loaded(phone, threads=2).run()
    assert set(android.cores) == {"60"}
    assert phone.place("4small") == "4small"
    loaded(phone, threads=4)
    assert android.cores[-1] == "f"
    with pytest.raises(RuntimeFailure, match="5 threads on 4 cores"):
        loaded(phone, threads=5)
    assert phone.place("1large1med") == "1large1med"
    loaded(phone, threads=2)
    assert android.cores[-1] == "c0"


def test_most_of_the_time_of_a_profile_is_of_known_nodes(phone: PhoneRuntime) -> None:
    session = loaded(phone, build(model("squeezenet1_1", as_measured=True)), profile=True)
    assert attributed(session.executed_kernels(runs=2)) >= ATTRIBUTED
    assert session.moment()["attributed"] >= ATTRIBUTED


@pytest.mark.parametrize("sign", ["status", "clocks"])
def test_a_burst_of_a_hot_phone_is_taken_again_when_it_has_cooled_down(
    phone: PhoneRuntime, android: Android, slept: list[float], sign: str
) -> None:
    session = loaded(phone)
    session.run()

    def heat(hot: bool) -> None:
        android.status = 2 if hot and sign == "status" else 0
        android.limit_clocks(0.6 if hot and sign == "clocks" else 1.0)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if slept.count(5.0) == 2:
            heat(False)

    heat(True)
    phone.sleep = sleep
    for _ in range(40):
        session.run()
    seen = session.moment()
    assert seen["throttled_bursts"] == 1
    assert seen["kept_throttled_bursts"] == 0
    assert slept.count(5.0) == 2
    assert {"status": "thermal status 2", "clocks": "clocks are limited to 60%"}[sign] == seen["throttled_by"]
    assert seen["frequency_mhz"] > 0


def test_a_phone_that_does_not_cool_down_is_measured_and_the_record_says_so(phone: PhoneRuntime, android: Android) -> None:
    session = loaded(phone)
    android.status = 3
    session.run()
    assert session.moment()["kept_throttled_bursts"] == 1
    assert session.moment()["thermal_status"] == 3


def test_heat_that_the_phone_does_not_tell_is_seen_by_the_anchor(
    phone: PhoneRuntime, android: Android, monkeypatch: pytest.MonkeyPatch
) -> None:
    android.status = None
    monkeypatch.setattr("latcast.runtimes.phone.ANCHOR_EVERY_S", 0.0)
    session = loaded(phone)
    for number in range(26):
        android.slowdown = 1.0 if number < 10 else 2.0
        session._waiting.clear()
        session.run()
    assert session.moment()["throttled_by"] == "latencies rise"
    assert session.moment()["throttled_bursts"] > 0


def test_a_link_that_breaks_is_waited_for(phone: PhoneRuntime, android: Android) -> None:
    session = loaded(phone)
    session.run()
    android.break_after = 0
    for _ in range(45):
        session.run()
    assert android.break_after is None
    assert android.gone <= 0


def test_a_missing_phone_is_one_line(phone: PhoneRuntime, android: Android) -> None:
    android.gone = 10**6
    assert "no phone '0123456789ABCDEF' answers" in str(phone.available())
    with pytest.raises(PhoneGone, match="USB debugging"):
        phone.load(CONTRACT_NETWORKS["conv_stack"]())


def test_a_phone_before_android_7_tells_no_status_of_commands(phone: PhoneRuntime, android: Android) -> None:
    android.modern = False
    before_ms = phone.clock.now_ms()
    loaded(phone).run()
    assert phone.clock.now_ms() > before_ms


def test_the_tool_is_pushed_once_and_networks_are_removed(phone: PhoneRuntime, android: Android) -> None:
    loaded(phone).close()
    again = get_runtime("litert")
    assert isinstance(again, PhoneRuntime)
    session = again.load(CONTRACT_NETWORKS["conv_stack"]())
    pushed = [words for words in android.calls if words[0] == "push" and words[1].endswith("benchmark_model")]
    assert len(pushed) == 1
    session.close()
    left = [each.name for each in (android.root / "data/local/tmp").iterdir()]
    assert left == ["latcast"]


def test_the_folder_of_a_killed_process_is_removed_by_the_next(phone: PhoneRuntime, android: Android) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    place = android.root / "data/local/tmp"
    ours = Path(folder_name()).name
    dead, foreign = ours.replace(f"-{os.getpid()}-", f"-{ended.pid}-"), "latcast-00000000-1-00000000"
    for name in (ours, dead, foreign):
        (place / name).mkdir()
    loaded(phone).close()
    assert {each.name for each in place.iterdir()} == {"latcast", ours, foreign}


def test_output_that_is_cut_off_is_refused(phone: PhoneRuntime, android: Android) -> None:
    android.overrides["benchmark_model"] = "INFO: STARTING!\nERROR: Failed to mmap\n"
    with pytest.raises(RuntimeFailure, match="ends before its summary"):
        loaded(phone)


def test_the_versions_of_tools_are_those_that_the_user_writes_down(phone: PhoneRuntime, android: Android) -> None:
    assert phone.version() == "2.17.0"
    (android.tools / "versions.txt").unlink()
    assert phone.version() == "unstated"


def test_a_tool_that_is_missing_is_asked_for(phone: PhoneRuntime, android: Android) -> None:
    (android.tools / "benchmark_model").unlink()
    assert "LATCAST_ANDROID_TOOLS" in str(phone.available())


def test_a_runtime_without_a_tool_for_phones_is_refused(android: Android) -> None:
    with pytest.raises(RuntimeFailure, match="openvino is not driven over adb"):
        get_runtime("openvino")


def test_a_burst_is_taken_again_so_often_at_most(phone: PhoneRuntime, android: Android, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PhoneRuntime, "cool_down", lambda self: True)
    session = loaded(phone)
    android.status = 1
    session.run()
    assert session.moment()["bursts"] == RETAKES + 1


def test_a_layer_of_a_graph_that_no_tool_can_be_given_is_refused_here(phone: PhoneRuntime, android: Android) -> None:
    b = GraphBuilder("batch")
    graph = b.finish(b.relu(b.input((2, 4, 8, 8))))
    ncnn = get_runtime("ncnn")
    count = len(android.calls)
    with pytest.raises(Exception, match="batch"):
        ncnn.load(graph)
    assert len(android.calls) == count
