"""A measurement on a double of a phone, through the worker's process: its records are the phone's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from latcast.errors import LatcastError, RuntimeFailure
from latcast.measure.settings import MeasurePlan, WorkerSettings
from latcast.measure.single import measure
from latcast.records import Measurement
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.runtimes.phone.android import SERIAL, Android, settings

pytest.importorskip("ai_edge_litert")

PLAN = MeasurePlan(rounds=2, runs_per_round=3, warmup_runs=1, profile=True, profiled_runs=2)


@pytest.fixture
def android(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Android]:
    with Android(tmp_path_factory.mktemp("a")) as double:
        for name in ("ADB", "LATCAST_ANDROID_TOOLS"):
            monkeypatch.setenv(name, settings(double)[name])
        yield double


def measured(**of: object) -> Measurement:
    return measure(CONTRACT_NETWORKS["residual"](), WorkerSettings("litert", address=f"adb:{SERIAL}", **of), PLAN)  # type: ignore[arg-type]


def test_a_record_of_a_phone_is_of_its_cores_its_clock_and_its_kernels(android: Android) -> None:
    found = measured(threads=2)
    assert found.error is None
    assert found.platform == "pixel-4/litert-2.17/2med/fp32"
    assert set(android.cores) == {"60"}
    assert set(found.rounds) == {0, 1}
    assert found.environment["host"]["soc.model"] == "SM8150"
    assert SERIAL not in str(found.to_json())
    moment = found.environment["moment"]
    assert moment["frequency_mhz"] == pytest.approx(2419.2)
    assert moment["thermal_status"] == 0
    assert moment["kept_throttled_bursts"] == 0
    assert moment["attributed"] >= 0.95
    assert sum(kernel.latency_ms for kernel in found.executed) > 0
    assert Measurement.from_json(found.to_json()) == found


def test_an_unsupported_unit_or_precision_of_a_phone_is_refused_before_measuring(android: Android) -> None:
    with pytest.raises(RuntimeFailure, match="would mix cores of different kinds"):
        measured(threads=5)
    with pytest.raises(LatcastError, match="cannot run bf16"):
        measured(precision="bf16")
    android.gone = 10**6
    with pytest.raises(RuntimeFailure, match="no phone '0123456789ABCDEF' answers"):
        measured()
