"""``latcast data variants`` and ``latcast data export``: the benchmark of variants."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latcast.cli.options import (
    AsJson,
    Cpus,
    DeviceName,
    Precision,
    Realtime,
    Runtime,
    Scheduler,
    Seed,
    Threads,
    default_store_path,
    worker_settings,
)
from latcast.cli.output import print_json, print_table, warn
from latcast.cli.progress import StageProgress

if TYPE_CHECKING:
    from latcast.datasets.variants import Variant
    from latcast.measure.campaign import CampaignReport
    from latcast.measure.settings import WorkerSettings

KEPT_WHEN_INTERRUPTED = "what was measured is kept: the same command goes on with it"

EXPORTS = (".onnx", ".tflite")


def add_commands(app: typer.Typer) -> None:
    """Puts both commands into ``latcast data``."""
    app.command(name="variants")(variants)
    app.command(name="export")(export)


def variants(
    output: Annotated[Path, typer.Option("--output", "-o", help="The Parquet file.")],
    count: Annotated[int, typer.Option("--count", help="Networks of each family.", min=1)] = 2000,
    seed: Seed = 0,
    measure: Annotated[
        int, typer.Option("--measure", help="Measure so many of them, spread over families and sizes.", min=0)
    ] = 0,
    runtime: Runtime = "onnxruntime",
    threads: Threads = 1,
    precision: Precision = "fp32",
    processes: Annotated[
        int,
        typer.Option("--processes", help="Measurements of each network, each in a process of its own; 3 make a label.", min=1),
    ] = 1,
    budget: Annotated[float | None, typer.Option("--budget", help="Minutes to measure at most.", min=0.05)] = None,
    most_macs: Annotated[float, typer.Option("--most-macs", help="Measure networks of at most so many G MACs.", min=0.01)] = 16.0,
    most_weights: Annotated[
        float, typer.Option("--most-weights", help="Measure networks of at most so many million weights.", min=0.1)
    ] = 160.0,
    store: Annotated[
        Path | None, typer.Option("--store", help="SQLite file that keeps the measurements. [default: the user's folder]")
    ] = None,
    cpus: Cpus = "",
    realtime: Realtime = None,
    device: DeviceName = "local",
    scheduler: Scheduler = "",
    as_json: AsJson = False,
) -> None:
    """Make the benchmark of variants: 2,000 networks of each of 12 families, and cells of NAS-Bench-201."""
    found = _made(output, count, seed)
    if as_json:
        document = {"file": str(output), "rows": len(found), "seed": seed, "count": count, "families": _summary(found)}
    else:
        _print_summary(output, found)
    if measure:
        from latcast.datasets.variants import no_larger_than

        settings = worker_settings(runtime, threads, precision, cpus, realtime, device, scheduler)
        if store is None:
            store = default_store_path(settings, "variants")
        small = no_larger_than(found, 1e9 * most_macs, 1e6 * most_weights)
        report, wanted = _measured(small, measure, settings, store, processes, budget)
        if as_json:
            document["measured"] = {
                "platform": report.platform.id, "store": str(store), "networks": wanted, "added": report.added,
                "missing": report.missing, "failures": dict(report.failures), "seconds": report.seconds,
            }  # fmt: skip
        else:
            print(
                f"\n{report.platform.id}: {report.added} measurements of {wanted} networks taken in {report.seconds:.0f} s, "
                f"{report.missing} still to take; kept in {store}"
            )
        for name, reason in list(report.failures.items())[:3]:
            warn(f"{name} could not be measured: {reason}")
    if as_json:
        print_json(document)


def _made(output: Path, count: int, seed: int) -> list[Variant]:
    """The benchmark's networks: from the file where it holds just these, made anew and written otherwise."""
    from latcast import __version__
    from latcast.datasets.variants import FAMILIES, draw_variants
    from latcast.datasets.variants_file import Recipe, read_recipe, read_variants, require_parquet, write_variants
    from latcast.predictors.profiling import Stage

    require_parquet()
    recipe = Recipe(seed, count, version=__version__)
    if output.exists() and read_recipe(output) == recipe:
        return read_variants(output)
    with StageProgress() as progress:
        found = draw_variants(
            count, seed, progress=lambda family, done: progress(Stage(f"drawing {family}", done / (count * len(FAMILIES))))
        )
    write_variants(output, found, recipe)
    return found


def _measured(
    found: list[Variant], measure: int, settings: WorkerSettings, store: Path, processes: int, budget: float | None
) -> tuple[CampaignReport, int]:
    from latcast.datasets.store import Store
    from latcast.datasets.variants import stratified
    from latcast.datasets.variants_campaign import measure_variants
    from latcast.predictors.profiling import Stage

    part = stratified(found, measure)
    with StageProgress() as progress, Store(store) as kept:
        report = measure_variants(
            part, settings, kept, processes=processes, budget_s=None if budget is None else 60 * budget,
            progress=lambda step: progress(Stage("timing networks", step.done / max(step.total, 1), step)),
        )  # fmt: skip
    return report, len(part)


def _summary(found: list[Variant]) -> list[dict[str, object]]:
    """What each family holds."""
    rows = []
    for name in dict.fromkeys(variant.family for variant in found):
        members = [variant.facts for variant in found if variant.family == name]
        macs = [member.macs for member in members]
        rows.append(
            {
                "family": name, "networks": len(members), "structures": len({member.structure for member in members}),
                "mean_macs": sum(macs) / len(macs), "least_macs": min(macs), "most_macs": max(macs),
                "mean_parameters": sum(member.parameters for member in members) / len(members),
            }
        )  # fmt: skip
    return rows


def _print_summary(output: Path, found: list[Variant]) -> None:
    print(f"{output}: {len(found)} networks\n")
    print_table(
        "",
        ("family", "networks", "graphs", "mean MMACs", "MMACs", "mean million weights"),
        [
            (
                str(row["family"]), str(row["networks"]), str(row["structures"]), f"{_million(row['mean_macs']):.0f}",
                f"{_million(row['least_macs']):.0f} to {_million(row['most_macs']):.0f}",
                f"{_million(row['mean_parameters']):.1f}",
            )
            for row in _summary(found)
        ],
    )  # fmt: skip


def _million(value: object) -> float:
    return float(value) / 1e6  # type: ignore[arg-type]


def _export_file(path: Path) -> Path:
    if path.suffix not in EXPORTS:
        raise typer.BadParameter(f"'{path.name}' must end in {' or '.join(EXPORTS)}")
    return path


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Parquet file of latcast data variants.")],
    row: Annotated[int, typer.Option("--row", help="Which network, counted from 0.", min=0)],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file, .onnx or .tflite.", callback=_export_file)],
    precision: Precision = "fp32",
    as_json: AsJson = False,
) -> None:
    """Write one network of the benchmark of variants as a model file, with made-up weights."""
    from latcast.datasets.variants_file import read_variant
    from latcast.errors import DatasetError
    from latcast.spaces import build

    variant = read_variant(file, row)
    graph = build(variant.reference)
    if output.suffix == ".onnx":
        from latcast.graph.writers.onnx import to_onnx

        data = to_onnx(graph, precision=precision)
    else:
        from latcast.graph.writers.tflite import to_tflite

        data = to_tflite(graph, precision=precision)
    try:
        output.write_bytes(data)
    except OSError as problem:
        raise DatasetError(f"cannot write {output}: {problem.strerror}") from problem
    described = {
        "name": variant.reference.name, "family": variant.family, "index": variant.index, "file": str(output),
        "size_bytes": len(data), "macs": variant.facts.macs, "parameters": dict(variant.reference.parameters),
    }  # fmt: skip
    if as_json:
        print_json(described)
    else:
        print(f"{output}: {variant.reference.name}, {variant.facts.macs / 1e6:.0f} MMACs, {len(data) / 1e6:.1f} MB")
