"""``latcast data variants``, ``export``, ``sample`` and ``rounds``: networks and kernel configurations to measure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from latcast.cli import options
from latcast.cli.output import StageProgress, kept_when_interrupted, percent, print_json, print_table, warn, warn_of_failures

if TYPE_CHECKING:
    from latcast.datasets.variants import Variant
    from latcast.measure.campaign import CampaignReport
    from latcast.measure.settings import WorkerSettings

EXPORTS = (".onnx", ".tflite")


@kept_when_interrupted("what was measured is kept: the same command goes on with it")
def variants(
    output: Annotated[Path, Option("--output", "-o", help="The Parquet file.")],
    count: Annotated[int, Option("--count", "-n", help="Networks of each family.", min=1)] = 2000,
    seed: options.Seed = 0,
    measure: Annotated[int, Option("--measure", help="Measure so many of them, spread over families and sizes.", min=0)] = 0,
    runtime: options.Runtime = "onnxruntime",
    threads: options.Threads = 1,
    precision: options.Precision = "fp32",
    processes: Annotated[
        int,
        Option("--processes", help="Measurements of each network, a process each; 3 make a label.", min=1),
    ] = 1,
    budget: Annotated[float | None, Option("--budget", metavar="MINUTES", help="Minutes to measure at most.", min=0.05)] = None,
    max_gmacs: Annotated[float, Option("--max-gmacs", help="Measure networks of at most so many G MACs.", min=0.01)] = 16.0,
    max_million_weights: Annotated[
        float, Option("--max-million-weights", help="Measure networks of at most so many.", min=0.1)
    ] = 160.0,
    store: options.StoreFile = None,
    cpus: options.Cpus = "",
    realtime: options.Realtime = None,
    device: options.Device = "local",
    scheduler: options.Scheduler = "",
    as_json: options.AsJson = False,
) -> None:
    """Make the benchmark of variants: 2,000 networks of each of 12 families, and cells of NAS-Bench-201.

    \b
    Examples:
      latcast data variants -o variants.parquet
      latcast data variants -o variants.parquet --count 100 --measure 50 --runtime openvino
    """
    from latcast.datasets.variants import FAMILIES

    share = -(-measure // len(FAMILIES))
    if share > count:
        raise typer.BadParameter(
            f"--measure {measure} are {share} of each of {len(FAMILIES)} families, and --count {count} makes fewer"
        )
    found = _made(output, count, seed)
    if as_json:
        document = {"file": str(output), "rows": len(found), "seed": seed, "count": count, "families": _summary(found)}
    else:
        _print_summary(output, found)
    if measure:
        from latcast.datasets.opening import default_store_path

        settings = options.worker_settings(runtime, threads, precision, cpus, realtime, device, scheduler)
        if store is None:
            store = default_store_path(settings, "variants")
        small = _within_limits(found, max_gmacs, max_million_weights, share)
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
        warn_of_failures(report.failures)
    if as_json:
        print_json(document)


def _made(output: Path, count: int, seed: int) -> list[Variant]:
    """Return the benchmark's networks: from the file if it holds exactly these, else built and written."""
    from latcast import __version__
    from latcast.datasets.variants import FAMILIES, draw_variants
    from latcast.datasets.variants_file import Recipe, read_recipe, read_variants, require_parquet, write_variants

    require_parquet()
    recipe = Recipe(seed, count, version=__version__)
    if output.exists() and read_recipe(output) == recipe:
        return read_variants(output)
    with StageProgress() as progress:
        found = draw_variants(
            count, seed, progress=lambda family, done: progress.show(f"drawing {family}", done / (count * len(FAMILIES)))
        )
    write_variants(output, found, recipe)
    return found


def _within_limits(found: list[Variant], max_gmacs: float, max_million_weights: float, share: int) -> list[Variant]:
    """Return the variants within the user's limits; a family without any is left out and named.

    Raises:
        DatasetError: Fewer of a family are within the limits than its share, or none of any.
    """
    from latcast.datasets.variants import no_larger_than
    from latcast.errors import DatasetError

    macs, weights = 1e9 * max_gmacs, 1e6 * max_million_weights
    kept: list[Variant] = []
    for family in dict.fromkeys(variant.family for variant in found):
        members = [variant for variant in found if variant.family == family]
        small = no_larger_than(members, macs, weights)
        kept += small
        if len(small) < share:
            said = (
                f"{len(small)} of {len(members)} variants of {family} are within the limits: "
                f"{len(no_larger_than(members, macs, float('inf')))} within --max-gmacs {max_gmacs:g}, "
                f"{len(no_larger_than(members, float('inf'), weights))} within --max-million-weights {max_million_weights:g}"
            )
            if small:
                raise DatasetError(f"{said}; {share} are to be measured: raise the limits or --count, or measure fewer")
            warn(f"{said}; the family is left out")
    if not kept:
        raise DatasetError("no variant of any family is within --max-gmacs and --max-million-weights; raise them")
    return kept


def _measured(
    found: list[Variant], measure: int, settings: WorkerSettings, store: Path, processes: int, budget: float | None
) -> tuple[CampaignReport, int]:
    from latcast.datasets.store import Store
    from latcast.datasets.variants import measure_variants, stratified

    part = stratified(found, measure)
    with StageProgress() as progress, Store(store) as kept:
        report = measure_variants(
            part, settings, kept, processes=processes, budget_s=None if budget is None else 60 * budget,
            progress=lambda step: progress.show("timing networks", step.done / max(step.total, 1), step),
        )  # fmt: skip
    return report, len(part)


def _summary(found: list[Variant]) -> list[dict[str, object]]:
    """Print a row for each family."""
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
    file: Annotated[Path, Argument(metavar="FILE", help="A Parquet file of latcast data variants.")],
    row: Annotated[int, Option("--row", help="Which network, counted from 0.", min=0)],
    output: Annotated[Path, Option("--output", "-o", help="The model file, .onnx or .tflite.", callback=_export_file)],
    precision: options.Precision = "fp32",
    as_json: options.AsJson = False,
) -> None:
    """Write one network of the benchmark of variants as a model file, with made-up weights.

    \b
    Examples:
      latcast data export variants.parquet --row 7 -o variant.onnx
    """
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


def sample(
    kernel: Annotated[str, Argument(metavar="KERNEL", help="Kernel type: conv, depthwise_conv, linear, concat...")],
    count: Annotated[int, Option("--count", "-n", help="How many configurations.", min=1)] = 20,
    sampler: options.Sampler = "prior",
    seed: options.Seed = 0,
    runtime: options.Runtime = "onnxruntime",
    precision: options.Precision = "fp32",
    test_set: Annotated[
        bool, Option("--test-set", help="The fixed test set that rounds are judged on, instead of samples.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Draw configurations of a kernel type, as a campaign of isolated kernels would measure them.

    What is one kernel follows from the fusion rules of the runtime.

    \b
    Examples:
      latcast data sample conv -n 5
      latcast data sample depthwise_conv --sampler adaptive --json
    """
    from latcast.kernels.rules import rules_for
    from latcast.kernels.types import kernel_type
    from latcast.samplers import SAMPLERS
    from latcast.samplers.sampler import fixed_test_set
    from latcast.spaces.kernel_space import KernelSpace
    from latcast.spaces.kernel_zoo import kernel_zoo

    rules = rules_for(runtime, precision)
    space = KernelSpace(kernel, rules)
    space.check_drawable()
    with StageProgress() as progress:
        progress.show("finding kernels of networks", 0.0)
        # Even sampling needs no networks to learn from.
        listed = {} if sampler == "random" and not test_set else kernel_zoo(rules, seed=seed).get(kernel, {})
        progress.show(f"drawing {kernel} kernels", 0.5)
        found = (
            fixed_test_set(space, listed, count, seed)
            if test_set
            else SAMPLERS.get(sampler or "prior")(space, listed, seed).suggest(count)
        )
    if len(found) < count:
        warn(f"kernels of type '{kernel}' have hardly more than {len(found)} different configurations")
    fields = kernel_type(kernel).fields
    if as_json:
        print_json(
            {
                "kernel": kernel,
                "sampler": "test set" if test_set else sampler,
                "seed": seed,
                "runtime": runtime,
                "configurations": [dict(zip(fields, row, strict=True)) for row in found],
            }
        )
    else:
        print_table("", fields, [[str(value) for value in row] for row in found])


def rounds(
    store: Annotated[str, Argument(metavar="STORE", help="SQLite file, JSON Lines file or database URL.")],
    on: Annotated[str | None, Option("--on", metavar="PLATFORM", help="Which platform; needed where there are several.")] = None,
    plot: Annotated[Path | None, Option("--plot", help="Draw errors and numbers of kernels by round to this file.")] = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Show the rounds in which kernels were timed alone: how many of each type, and the error after each.

    A fit to all rounds so far is judged on the fixed test set.

    \b
    Examples:
      latcast data rounds measurements.sqlite
      latcast data rounds measurements.sqlite --plot rounds.png
    """
    from latcast.datasets.opening import only_platform, opened
    from latcast.drawing import check_drawable, write
    from latcast.kernels.rules import platform_rules
    from latcast.training.kernel_rounds import draw_rounds, stored_rounds

    if plot is not None:
        check_drawable()
    with opened(store) as kept:
        platform = only_platform(kept, on)
        found = stored_rounds(kept, platform, platform_rules(platform), seed=seed)
    if plot is not None:
        write(draw_rounds(found, platform.id), plot)
    if as_json:
        print_json({"platform": platform.id, "rounds": [each.to_json() for each in found]})
        return
    rows = [
        (str(each.number), name, str(len(kernels)), percent(each.errors[name].mape if name in each.errors else None))
        for each in found
        for name, kernels in sorted(each.sampled.items())
    ]
    print_table(platform.id, ("round", "kernel type", "measured", "MAPE on its test set %"), rows)
