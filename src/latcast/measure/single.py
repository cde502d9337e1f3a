"""A measurement of one network, now and without a store."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from latcast.environment import MOMENT
from latcast.errors import MeasurementError
from latcast.measure.client import Item
from latcast.measure.probe import QuietTimes, QuietTimesFile
from latcast.measure.record import loading_ms
from latcast.measure.remote import open_measurer
from latcast.measure.settings import NETWORK_PLAN, START_PLAN, MeasurePlan, WorkerSettings
from latcast.measure.statistics import renormalised, round_medians
from latcast.networks import Model, ModelOptions, Shapes, Values, read_model, resolve_model
from latcast.predictors.conditions import EACH_PROGRAM, parse_scenarios
from latcast.predictors.contention import keep_factors
from latcast.predictors.sustained import LEAST_RISE, Curve, fit_curve
from latcast.records import Measurement, Platform, Reference


def opened_platform(settings: WorkerSettings) -> Platform:
    """Return the platform of a worker with these settings, with the version of the library that it found.

    Raises:
        RuntimeFailure: The runtime cannot be started.
    """
    with open_measurer(settings, QuietTimesFile()) as client:
        return client.platform


def measure(
    model: Model,
    runtime: str | WorkerSettings = "onnxruntime",
    plan: MeasurePlan = NETWORK_PLAN,
    *,
    shapes: Shapes | None = None,
    values: Values | None = None,
    role: str = "network",
    example_inputs: object = None,
    signature: str = "",
    quiet_times: QuietTimes | None = None,
) -> Measurement:
    """Measure one network or kernel here, now, in a separate process.

    Args:
        model: As :func:`latcast.predict` takes it. A file that the runtime reads runs as it is, with its weights, also where
            latcast does not know its operators; anything else is written for the runtime, with random weights, first.
        runtime: Its name, for one thread and fp32; or settings, for everything else.
        plan: Rounds and runs.
        shapes: Input name to shape: sizes for dynamic dimensions, or other sizes than the model has.
        values: Input name to its value (a number, a list or an array); others are random.
        role: "network" or "kernel".
        example_inputs: The inputs of a ``torch.nn.Module``, see :func:`latcast.from_torch`.
        signature: Which signature of a ``.tflite`` file is meant, which is written anew; its main network by default.
        quiet_times: Where the probe's quiet times are kept; a file in the user's cache by default.

    Returns:
        The record, with ``error`` where the network could not be loaded or run.

    Raises:
        ModelError: There is no such file or network.
        UnsupportedOperatorError: A graph or module cannot be written as ONNX.
        RuntimeFailure: The runtime cannot be started.

    Example:
        >>> import latcast
        >>> b = latcast.GraphBuilder("small")
        >>> graph = b.finish(b.relu(b.conv(b.input((1, 3, 32, 32)), 8, 3)))
        >>> latcast.measure(graph)
        <Measurement small on local/onnxruntime-...: ... ms, ... runs>
    """
    settings = settings_of(runtime)
    kept = quiet_times if quiet_times is not None else QuietTimesFile()
    with ExitStack() as open_now:
        if isinstance(model, str | os.PathLike | Reference) and example_inputs is None:
            reference = resolve_model(model, ModelOptions(shapes, signature=signature))
            if reference.space == "file":
                reference = resolve_model(reference, ModelOptions(values=values))
        else:
            from latcast.graph.writers.onnx import to_onnx

            graph = read_model(model, ModelOptions(shapes, example_inputs=example_inputs, signature=signature))
            file = Path(open_now.enter_context(tempfile.TemporaryDirectory(prefix="latcast-")), "model.onnx")
            file.write_bytes(to_onnx(graph))
            reference = replace(resolve_model(file), name=graph.name)
        client = open_now.enter_context(open_measurer(settings, kept))
        ((_, measurement),) = client.measure([Item(reference, role, values=values or {})], plan)
        if not measurement.ok:
            return measurement
        # The host may have been in a slow state when the measurement began.
        client.calibrate()
        return renormalised(measurement, client.quiet_ms) if client.quiet_ms else measurement


START_PROCESSES: Mapping[str, int] = {"warm": 5, "dropped": 3}
"""Fresh processes that time a start, by what the system's memory holds of the file."""


@dataclass(frozen=True)
class MeasuredStart:
    """A measured start: medians over fresh processes, as on a quiet host, in milliseconds.

    Attributes:
        load_ms, first_ms: Loading and the first inference, the file in the system's memory.
        dropped_load_ms, dropped_first_ms: The file dropped from it before, where the system allows that.
        processes: Of the first two.
    """

    load_ms: float
    first_ms: float
    dropped_load_ms: float
    dropped_first_ms: float
    processes: int


def measure_start(
    model: Model,
    runtime: str | WorkerSettings = "onnxruntime",
    *,
    shapes: Shapes | None = None,
    values: Values | None = None,
    signature: str = "",
) -> MeasuredStart:
    """Time the start of a network: loading and the first inference, in processes that loaded nothing before.

    Args:
        model, runtime, shapes, values, signature: As for :func:`measure`.

    Raises:
        MeasurementError: It could not be loaded or run.
        LatcastError: What :func:`measure` raises.
    """
    found: dict[str, tuple[float, float]] = {}
    for page_cache, processes in START_PROCESSES.items():
        plan = replace(START_PLAN, start=page_cache)
        samples = [
            measure(model, runtime, plan, shapes=shapes, values=values, role="start", signature=signature)
            for _ in range(processes)
        ]
        for sample in samples:
            if not sample.ok:
                raise MeasurementError(f"the start of {model} could not be measured: {sample.error}")
        found[page_cache] = median(map(loading_ms, samples)), median(sample.latency_ms or 0.0 for sample in samples)
    return MeasuredStart(*found["warm"], *found["dropped"], START_PROCESSES["warm"])


def measure_beside(
    model: Model,
    runtime: str | WorkerSettings = "onnxruntime",
    beside: str = EACH_PROGRAM,
    *,
    shapes: Shapes | None = None,
    values: Values | None = None,
    signature: str = "",
) -> tuple[Measurement, dict[str, float]]:
    """Time a network alone and beside other programs, in turn; keep what each slows it by for predictions on this device.

    Args:
        model, runtime, shapes, values, signature: As for :func:`measure`.
        beside: Programs, as :func:`latcast.predictors.conditions.parse_scenarios` reads them; by default each by itself.

    Returns:
        The runs alone, and how many times as long a run takes, by scenario.

    Raises:
        MeasurementError: It could not be loaded or run, or there is no CPU for the programs.
        LatcastError: What :func:`measure` raises, or there is no such program.
    """
    plan = MeasurePlan(beside=",".join(parse_scenarios(beside)))
    found = measure(model, runtime, plan, shapes=shapes, values=values, role="beside", signature=signature)
    if not found.ok:
        raise MeasurementError(f"{model} could not be measured: {found.error}")
    factors: dict[str, float] = found.environment[MOMENT]["beside"]
    keep_factors(Platform.parse(found.platform), factors)
    return found, factors


SUSTAIN_ROUND_S, FEWEST_POINTS = 5.0, 12
"""Seconds of running without a pause whose median is one point of a curve, and the fewest points."""

MOST_RUNS_A_ROUND = 10_000
"""Every run is kept, so a network of less than half a millisecond runs for a shorter time."""


def measure_sustained(
    model: Model,
    runtime: str | WorkerSettings = "onnxruntime",
    *,
    minutes: float = 10.0,
    shapes: Shapes | None = None,
    values: Values | None = None,
    signature: str = "",
) -> tuple[Measurement, Curve]:
    """Run a network without a pause, and return its raw runs and how its latency rose; nothing is divided out for the host.

    Args:
        model, runtime, shapes, values, signature: As for :func:`measure`.
        minutes: How long.

    Raises:
        MeasurementError: It could not be loaded or run.
        LatcastError: What :func:`measure` raises.
    """
    # A real-time priority for longer than a second is throttled by the kernel.
    settings = replace(settings_of(runtime), probe=False, realtime=False)
    rounds = max(round(60 * minutes / SUSTAIN_ROUND_S), FEWEST_POINTS)
    round_ms = 60_000 * minutes / rounds
    plan = MeasurePlan(
        rounds=rounds, runs_per_round=MOST_RUNS_A_ROUND, warmup_runs=0, burst_runs=MOST_RUNS_A_ROUND, max_ms_per_round=round_ms,
        burst_ms=round_ms, batch_size=1,
    )  # fmt: skip
    found = measure(model, settings, plan, shapes=shapes, values=values, signature=signature)
    if not found.ok:
        raise MeasurementError(f"{model} could not be measured: {found.error}")
    points_ms = round_medians(found.runs_ms, found.rounds)
    taken_minutes = sum(found.runs_ms) / 60_000
    rise, unsure, constant_s = fit_curve(points_ms, taken_minutes)
    basis = f"one curve of {taken_minutes:.2g} minutes without a pause on this device, of {found.reference.name}"
    flat = abs(rise) < max(LEAST_RISE, 2 * unsure)
    if flat or rise < 0:
        said = f"flat within {100 * unsure:.1f} %" if flat else "it fell, so other programs ran; measure again"
        return found, Curve(0.0, -min(unsure, 0.5), unsure, constant_s, taken_minutes, f"{basis}: {said}")
    return found, Curve(rise, rise - unsure, rise + unsure, constant_s, taken_minutes, basis)


def settings_of(runtime: str | WorkerSettings) -> WorkerSettings:
    """Return settings unchanged; for a runtime's name one thread, fp32, at a real-time priority where permitted."""
    return runtime if isinstance(runtime, WorkerSettings) else WorkerSettings(runtime, realtime=None)
