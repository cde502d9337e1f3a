"""``latcast measure``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from latcast.cli import options
from latcast.cli.model_kinds import split_models
from latcast.cli.output import for_each, milliseconds, percent, print_json, print_table, warn
from latcast.errors import LatcastError, MeasurementError
from latcast.folders import made, measurements_folder, remember_measurements
from latcast.records import Measurement

if TYPE_CHECKING:
    from latcast.measure.settings import MeasurePlan, WorkerSettings
    from latcast.measure.single import MeasuredStart

MOST_KEPT = 1000
"""Measurements that are kept for latcast share; the oldest go first."""


def command(
    call: typer.Context,
    models: options.Models,
    runtime: options.Runtime = "onnxruntime",
    threads: options.Threads = 1,
    unit: options.ComputeUnit = "",
    precision: options.Precision = "fp32",
    shape: options.Shape = None,
    signature: options.Signature = "",
    given: Annotated[
        list[str] | None,
        Option(
            "--input",
            metavar="NAME=VALUE|FILE.npy",
            help="Value of an input: rate=16000, config=10,0.45,0.25 or image=FILE.npy. [default: random numbers]",
            show_default=False,
        ),
    ] = None,
    rounds: Annotated[int, Option("--rounds", help="Bursts of runs, spread over the time.", min=1)] = 4,
    runs_per_round: Annotated[int, Option("--runs-per-round", help="Timed runs in each.", min=1)] = 12,
    warmup_runs: Annotated[int, Option("--warmup-runs", help="Untimed runs before.", min=0)] = 5,
    cpus: options.Cpus = "",
    realtime: options.Realtime = None,
    device: options.Device = "local",
    library_path: options.LibraryPath = None,
    trust: options.Trust = False,
    made_up_weights: Annotated[
        bool,
        Option(
            "--made-up-weights", help="Write a model file anew, with made-up weights, also where the runtime runs it as it is."
        ),
    ] = False,
    breakdown: Annotated[bool, Option("--breakdown", help="Show the kernels that the runtime executed.")] = False,
    prompt: options.PromptTokens = 128,
    generate: options.GeneratedTokens = 32,
    start: options.Start = False,
    sustain: options.Sustain = "",
    beside: options.Beside = "",
    as_json: options.AsJson = False,
) -> None:
    """Measure the real latency, here or on a device: as on a quiet host, with the raw figure beside it.

    \b
    Examples:
      latcast measure mobilenet_v2.onnx resnet18
      latcast measure mobilenet_v2.onnx --runtime openvino --threads 2 --breakdown
      latcast measure mobilenet_v2.onnx resnet18 --beside all
      latcast measure mobilenet_v2.onnx --device ssh://pi@board
      latcast measure qwen2.5-0.5b.gguf llama-3.2-1b:q4_0 --prompt 256
    """
    models, language = split_models(call, models)
    if start + bool(sustain) + bool(beside) > 1:
        raise typer.BadParameter("found several of --start, --sustain and --beside; measure under one of them at a time")
    from latcast.measure.settings import MeasurePlan
    from latcast.networks import models_listed, parse_shapes

    models = [str(each) for each in models_listed(models)]
    document: dict[str, list[dict[str, Any]]] = {}
    if language:
        from latcast.cli import language_models

        document["measurements"] = language_models.measure(language, threads, prompt, generate, as_json=as_json)
    if models:
        settings = replace(
            options.worker_settings(
                runtime, threads, precision, cpus, realtime, device, library_path=library_path, unit=unit, trust=trust
            ),
            made_up_weights=made_up_weights,
        )
        reading = {"shapes": parse_shapes(shape), "values": options.parse_values(given, "--input"), "signature": signature}
        if sustain:
            minutes = options.parse_minutes(sustain)
            document["sustained"] = _sustain(models, settings, minutes, as_json=as_json, **reading)
        elif beside:
            document["beside"] = _beside(models, settings, beside, as_json=as_json, **reading)
        else:
            plan = MeasurePlan(rounds=rounds, runs_per_round=runs_per_round, warmup_runs=warmup_runs, profile=breakdown)
            found = _steady(models, settings, plan, as_json=as_json, start=start, **reading)
            document["measurements"] = [*found, *document.get("measurements", ())]
    if as_json:
        print_json(document)
    if sum(map(len, document.values())) < len(models) + len(language):
        raise typer.Exit(1)


def _steady(
    models: list[str], settings: WorkerSettings, plan: MeasurePlan, *, as_json: bool, start: bool, **reading: Any
) -> list[dict[str, Any]]:
    """Measure each model, and its start where asked; keep the measurements and show them."""
    from latcast.measure.single import measure, measure_start
    from latcast.measure.statistics import stability_warnings

    def measured(model: str) -> Measurement:
        measurement = measure(model, settings, plan, **reading)
        if not measurement.ok:
            raise MeasurementError(f"{model} could not be measured: {measurement.error}")
        return measurement

    found = for_each(models, measured)
    starts = {model: measure_start(model, settings, **reading) for model, _ in (found if start else ())}
    _keep([measurement for _, measurement in found])
    if found and not as_json:
        print_table(
            "",
            ("model", "platform", "latency ms", "raw ms", "variation %", "runs"),
            [
                (
                    model,
                    measurement.platform,
                    milliseconds(measurement.latency_ms or 0.0),
                    milliseconds(measurement.raw_latency_ms or 0.0),
                    percent(None if measurement.variation is None else 100 * measurement.variation),
                    str(len(measurement.runs_ms)),
                )
                for model, measurement in found
            ],
        )
        if any(_differs(measurement) for _, measurement in found):
            warn("raw is the median of the runs as they were; latency is what they would take with nothing else running")
        if start:
            _print_starts(starts)
        for model, measurement in found if plan.profile else ():
            _print_kernels(model, measurement)
    for _, measurement in found:
        for text in stability_warnings(measurement):
            warn(text)
    return [{**_json(*each, breakdown=plan.profile), **({"start": asdict(starts[each[0]])} if start else {})} for each in found]


def _sustain(
    models: list[str], settings: WorkerSettings, minutes: float, *, as_json: bool, **reading: Any
) -> list[dict[str, Any]]:
    """Run each model for some minutes, keep its curve for predictions on this device, and show it."""
    from latcast.measure.single import measure_sustained
    from latcast.measure.statistics import round_medians
    from latcast.predictors.sustained import keep_curve
    from latcast.records import Platform
    from latcast.tables import signed

    documents = []
    for model, (found, curve) in for_each(models, lambda model: measure_sustained(model, settings, minutes=minutes, **reading)):
        keep_curve(Platform.parse(found.platform), curve)
        points_ms = round_medians(found.runs_ms, found.rounds).tolist()
        documents.append({"model": model, "platform": found.platform, "round_ms": points_ms, "curve": asdict(curve)})
        if not as_json:
            shown = [round(place * (len(points_ms) - 1) / MOST_POINTS) for place in range(MOST_POINTS + 1)]
            rows = [(f"{curve.minutes * place / (len(points_ms) - 1):.1f}", milliseconds(points_ms[place])) for place in shown]
            print_table(f"{model} on {found.platform}", ("minute", "latency ms"), rows)
            print(curve.basis if curve.rise == 0 else f"{curve.basis}: {signed(100 * curve.rise)} % at last")
    return documents


def _beside(models: list[str], settings: WorkerSettings, beside: str, *, as_json: bool, **reading: Any) -> list[dict[str, Any]]:
    """Time each model alone and beside other programs, keep the factors for predictions on this device, and show them."""
    from latcast.measure.single import measure_beside

    found = for_each(models, lambda model: measure_beside(model, settings, beside, **reading))
    if found and not as_json:
        print_table(
            "how many times as long a run takes beside other programs",
            ("model", "platform", "alone ms", *found[0][1][1]),
            [
                (model, alone.platform, milliseconds(alone.latency_ms or 0.0), *(f"{each:.2f}" for each in factors.values()))
                for model, (alone, factors) in found
            ],
        )  # fmt: skip
    return [
        {"model": model, "platform": alone.platform, "alone_ms": alone.latency_ms, "factors": factors}
        for model, (alone, factors) in found
    ]


MOST_POINTS = 10
"""Steps of a curve that are printed."""


def _keep(measurements: list[Measurement]) -> None:
    """Add measurements to the latest ones in the user's folder, where latcast share finds them."""
    from latcast.datasets import jsonlines

    if measurements:
        with suppress(LatcastError):
            path = made(measurements_folder()) / "measured.jsonl"
            jsonlines.append(path, measurements, most=MOST_KEPT)
            remember_measurements(path)


def _differs(measurement: Measurement) -> bool:
    """Return whether a raw latency is shown otherwise than what the host's state leaves of it."""
    raw_ms, latency_ms = measurement.raw_latency_ms, measurement.latency_ms
    return raw_ms is not None and latency_ms is not None and milliseconds(raw_ms) != milliseconds(latency_ms)


def _json(model: str, measurement: Measurement, *, breakdown: bool) -> dict[str, Any]:
    from latcast.measure.statistics import stability_warnings

    record = measurement.to_json()
    executed = {"kernels": record.pop("executed")}
    warnings = stability_warnings(measurement)
    return {"model": model, **record, "warnings": warnings, **(executed if breakdown else {})}


def _print_starts(starts: Mapping[str, MeasuredStart]) -> None:
    print_table(
        "\nStart: the median of fresh processes, as on a quiet host; the file in the system's memory, and dropped from it",
        ("model", "load ms", "first ms", "load ms, dropped", "first ms, dropped", "processes"),
        [
            (
                model, milliseconds(found.load_ms), milliseconds(found.first_ms), milliseconds(found.dropped_load_ms),
                milliseconds(found.dropped_first_ms), str(found.processes),
            )
            for model, found in starts.items()
        ],
    )  # fmt: skip


def _print_kernels(model: str, measurement: Measurement) -> None:
    total_ms = sum(kernel.latency_ms for kernel in measurement.executed)
    unnamed = "(inserted by the runtime)" if any(kernel.nodes for kernel in measurement.executed) else "-"
    rows = [
        (
            f"{kernel.latency_ms:.4f}",
            f"{100 * kernel.latency_ms / total_ms if total_ms else 0.0:.1f}",
            kernel.kind,
            kernel.name,
            " ".join(kernel.nodes) or unnamed,
        )
        for kernel in measurement.executed
    ]
    print_table(
        f"\n{model}: {len(rows)} kernels, {milliseconds(total_ms)} ms under the profiler",
        ("ms", "%", "kind", "name", "nodes"),
        rows,
    )
