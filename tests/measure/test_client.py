"""Worker processes, real ones: measuring, failing, crashing, hanging."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from latcast.errors import MeasurementError, RuntimeFailure
from latcast.measure.client import Item, MeasuringClient
from latcast.measure.probe import QuietTimesFile
from latcast.measure.settings import MeasurePlan, WorkerSettings
from latcast.records import Measurement
from tests.measure.behaving import RUN_MS, reference, settings

PLAN = MeasurePlan(rounds=2, runs_per_round=3, warmup_runs=1)


@pytest.fixture
def quiet_times(tmp_path: Path) -> QuietTimesFile:
    return QuietTimesFile(tmp_path / "quiet.json")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuringClient]:
    """One for all tests, as one campaign has: what a test does to its worker must not matter to the next."""
    with MeasuringClient(settings(), QuietTimesFile(tmp_path_factory.mktemp("client") / "quiet.json")) as opened:
        yield opened


def measure(client: MeasuringClient, *behaviours: str, plan: MeasurePlan = PLAN) -> dict[str, Measurement]:
    """Behaviour to record, for one network of each."""
    items = [Item(reference(behaviour)) for behaviour in behaviours]
    found = {behaviours[number]: measurement for number, measurement in client.measure(items, plan)}
    assert set(found) == set(behaviours), "each has exactly one record"
    return found


def test_records_hold_runs_rounds_and_environment(client: MeasuringClient) -> None:
    assert client.platform.id == "local/behaving-1.2/cpu1/fp32"
    measurement = measure(client, "runs")["runs"]
    assert measurement.platform == client.platform.id
    assert measurement.reference == reference()
    assert len(measurement.runs_ms) == 6
    assert measurement.rounds == (0, 0, 0, 1, 1, 1)
    assert min(measurement.runs_ms) >= RUN_MS
    assert measurement.latency_ms == measurement.raw_latency_ms
    assert measurement.environment["settings"]["runtime_version"] == "1.2.3"
    assert len(measurement.environment["settings"]["cpus"]) == 1
    assert measurement.environment["moment"]["process"] != os.getpid()


def test_a_probed_record_is_normalised_with_a_quiet_time_that_is_kept(quiet_times: QuietTimesFile) -> None:
    with MeasuringClient(settings(probe=True), quiet_times) as client:
        measurement = measure(client, "runs")["runs"]
        assert len(client.quiet_ms) == 2
    assert len(measurement.probe_ms) == len(measurement.runs_ms)
    assert set(measurement.probe_parts_ms) == {"compute", "memory"}
    probe = measurement.environment["settings"]["probe"]
    assert quiet_times.quiet_ms(probe["key"]) == tuple(probe["quiet_ms"]) == client.quiet_ms
    compute_weight, memory_weight = measurement.environment["moment"]["probe_weights"]
    # A ReLU on 16 floats fits into any cache.
    assert compute_weight > 0
    assert memory_weight < 0.01


def test_native_prints_do_not_reach_the_answers(client: MeasuringClient) -> None:
    assert measure(client, "prints")["prints"].ok


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        ("refused", "this network is refused"),
        ("fails_later", "the fourth run went wrong"),
        ("buggy", "unexpected ZeroDivisionError: a bug in the plug-in"),
    ],
)
def test_a_failing_subject_has_a_record_with_its_error(client: MeasuringClient, behaviour: str, expected: str) -> None:
    found = measure(client, behaviour, "runs")
    assert found[behaviour].error == expected
    assert not found[behaviour].ok
    assert found["runs"].ok


def test_a_reference_that_cannot_be_built_has_a_failed_record(client: MeasuringClient) -> None:
    from latcast.records import Reference

    ((_, measurement),) = client.measure([Item(Reference("no_such_space"))], PLAN)
    assert "no space is called 'no_such_space'" in str(measurement.error)


@pytest.mark.parametrize("behaviour", ["dies_loading", "dies_closing"])
def test_a_crash_is_blamed_on_its_subject_alone(client: MeasuringClient, behaviour: str) -> None:
    found = measure(client, "runs", behaviour, "slow")
    assert "killed by SIGABRT" in str(found[behaviour].error)
    assert behaviour.removeprefix("dies_") in str(found[behaviour].error)
    assert found["runs"].ok
    assert found["slow"].ok


def test_a_hanging_subject_is_given_up_and_the_others_go_on(client: MeasuringClient) -> None:
    plan = MeasurePlan(rounds=1, runs_per_round=2, warmup_runs=1, timeout_s=2.0)
    found = measure(client, "runs", "hangs", "slow", plan=plan)
    assert found["hangs"].error == "no sign of life for 2 s while running"
    assert found["runs"].ok
    assert found["slow"].ok


def test_small_batches_give_the_same_records(client: MeasuringClient) -> None:
    plan = MeasurePlan(rounds=1, runs_per_round=2, batch_size=20, batch_bytes=0)
    found = measure(client, "runs", "prints", "refused", plan=plan)
    assert [measurement.ok for measurement in found.values()] == [True, True, False]


def test_executed_kernels_come_with_a_profiling_plan(client: MeasuringClient) -> None:
    plan = MeasurePlan(rounds=1, runs_per_round=2, profile=True)
    (kernel,) = measure(client, "runs", plan=plan)["runs"].executed
    assert (kernel.name, kernel.nodes, kernel.latency_ms) == ("relu", ("relu_0",), RUN_MS)


def test_a_restarted_client_measures_in_another_process(client: MeasuringClient) -> None:
    first = measure(client, "runs")["runs"]
    client.restart()
    second = measure(client, "runs")["runs"]
    assert first.environment["moment"]["worker"] != second.environment["moment"]["worker"]


def test_a_measurement_that_is_abandoned_leaves_no_answers_behind(client: MeasuringClient) -> None:
    answers = client.measure([Item(reference(number=number)) for number in range(3)], PLAN)
    next(answers)
    answers.close()
    assert measure(client, "slow")["slow"].reference == reference("slow")


def test_a_runtime_that_is_missing_says_how_to_add_it(quiet_times: QuietTimesFile) -> None:
    with pytest.raises(RuntimeFailure, match="pip install absent"):
        MeasuringClient(settings(runtime="absent"), quiet_times)


def test_a_worker_that_dies_at_the_start_is_quoted(quiet_times: QuietTimesFile) -> None:
    with pytest.raises(
        RuntimeFailure,
        match=r"dying could not be started: the worker ended with status 7 .*cannot find libdying\.so",
    ):
        MeasuringClient(settings(runtime="dying"), quiet_times)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"runtime": "onnxruntimes"}, "no runtime is called 'onnxruntimes'; known: onnxruntime"),
        ({"precision": "int8"}, "behaving cannot run int8 here; it can run fp32"),
        ({"imports": ("tests.measure.not_there",)}, "cannot import 'tests.measure.not_there'"),
    ],
)
def test_settings_that_cannot_be_met_are_refused(quiet_times: QuietTimesFile, changes: dict[str, object], expected: str) -> None:
    with pytest.raises(RuntimeFailure, match=expected):
        MeasuringClient(settings(**changes), quiet_times)


def test_settings_that_make_no_sense_are_refused_at_once() -> None:
    with pytest.raises(MeasurementError, match="0 threads"):
        WorkerSettings(threads=0)
    with pytest.raises(MeasurementError, match="no precision is called 'fp8'"):
        WorkerSettings(precision="fp8")


def test_qualifiers_and_variables_make_another_platform(quiet_times: QuietTimesFile) -> None:
    given = settings(device="bench", qualifiers=("sse42",))
    changed = settings(device="bench", qualifiers=("sse42",), variables={**given.variables, "ONEDNN_MAX_CPU_ISA": "SSE41"})
    with MeasuringClient(changed, quiet_times) as client:
        assert client.platform.id == "bench/behaving-1.2/cpu1+sse42/fp32"
        variables = measure(client, "runs")["runs"].environment["settings"]["variables"]
    assert variables["ONEDNN_MAX_CPU_ISA"] == "SSE41"
    assert variables["OMP_NUM_THREADS"] == "1"
