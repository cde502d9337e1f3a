"""``latcast workgroups measure``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from latcast.cli import options
from latcast.cli.output import CHECK_FAILED, StageProgress, kept_when_interrupted, milliseconds, print_json, print_table, warn
from latcast.errors import LatcastError, MeasurementError
from latcast.tables import decimal

if TYPE_CHECKING:
    from latcast.networks import ModelKeywords
    from latcast.workgroups.sizes import WorkGroup
    from latcast.workgroups.sweep import SizeSweep
    from latcast.workgroups.workloads import Convolution

Block = Annotated[str, Option("--block", metavar="X,Y,Z", help="Columns, rows and slices that a work item computes.")]
WHICH_SIZES = ("all", "divisors", "shortlist")

SHOWN = 10
"""Best sizes that are printed, besides the recommended ones."""


@kept_when_interrupted("what was timed is kept: the same command goes on with it")
def measure(
    what: Annotated[
        str,
        Argument(
            metavar="MODEL|OP",
            help="An operator, conv:56x56x64,k3,s1,c128 or dwconv:112x112x32,k3,s2; or a model file or the name of a published "
            "network, whose convolutions are measured one after another.",
        ),
    ],
    on: Annotated[
        str, Option("--on", metavar="DEVICE", help="opencl, webgpu, litert, or one of their devices: webgpu:1, opencl:mali.")
    ],
    rounds: Annotated[int, Option("--rounds", help="Launches of each size, earlier ones included.", min=2)] = 20,
    sizes: Annotated[
        str,
        Option(
            "--sizes",
            metavar="all|divisors|shortlist",
            help="All that the device allows (see --max-sizes), those that TFLite's exhaustive tuning tries, which divide the "
            "grid exactly, or only those that the rules or TFLite recommend.",
            callback=options.one_of(*WHICH_SIZES),
        ),
    ] = "all",
    max_sizes: Annotated[int, Option("--max-sizes", help="At most so many: recommended ones and a random sample.", min=2)] = 120,
    budget: Annotated[
        float,
        Option("--budget", metavar="MINUTES", help="Minutes for each operator; two rounds are always run.", min=0.0),
    ] = 5.0,
    block: Block = "2,1,1",
    shape: options.Shape = None,
    value: options.InputValue = None,
    seed: options.Seed = 0,
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            help="Where the sweep is kept, in the cache format of Kernel Tuner: a file, or a folder for a model. "
            "[default: the user's folder]",
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Time own kernels with many work-group sizes, in interleaved rounds; run again, it goes on with the rounds there are.

    \b
    Examples:
      latcast workgroups measure conv:56x56x64,k3,s1,c128 --on opencl
      latcast workgroups measure mobilenet_v1 --on webgpu --sizes shortlist --budget 1
    """
    from latcast.workgroups.gpu_interfaces import find_device
    from latcast.workgroups.kernel_tuner_cache import read_cache
    from latcast.workgroups.measuring import SweepPlan, continue_sweep, divisor_sizes, sampled_sizes, shortlisted_sizes
    from latcast.workgroups.rules import Situation

    interface, index, profile = find_device(on)
    workloads = _read_workloads(what, block, options.reading(shape, value))
    paths = _name_files(output, on, sizes, workloads)
    plan = SweepPlan(rounds, 60 * budget, seed)
    measured: list[tuple[SizeSweep, Path]] = []
    with StageProgress() as progress:
        for workload, path in zip(workloads, paths, strict=True):
            try:
                session = interface.session(index, workload)
                try:
                    workload = session.workload
                    situation = Situation(workload.grid, workload.descriptor, profile.limited(session.limits))
                    if sizes == "all":
                        chosen = sampled_sizes(situation, max_sizes, seed)
                    else:
                        chosen = divisor_sizes(situation) if sizes == "divisors" else shortlisted_sizes(situation)
                    if session.default is not None and session.default not in chosen:
                        chosen = [session.default, *chosen]
                    if path.exists() and (kept := read_cache(path)[0].rounds) >= rounds:
                        warn(f"{path} has {kept} rounds of an earlier run already; a larger --rounds adds to them")
                    sweep = continue_sweep(
                        path, session, profile, chosen, plan,
                        lambda doing, share, workload=workload: progress.show(f"{workload}: {doing}", share),  # type: ignore[misc]
                    )  # fmt: skip
                    measured.append((sweep, path))
                finally:
                    session.close()
            except MeasurementError as problem:
                if len(workloads) == 1:
                    raise
                warn(f"{workload} is left out: {problem}")
    if not measured:
        raise MeasurementError(f"none of the {len(workloads)} convolutions of {what} could be measured on {profile.title}")
    if as_json:
        print_json({"device": profile.to_json(), "sweeps": [_describe(sweep, path) for sweep, path in measured]})
    else:
        for sweep, path in measured:
            _print_sweep(sweep, path)
    refused = [sweep for sweep, _ in measured if not sweep.rankable]
    for sweep in refused:
        warn(sweep.why_not_rankable())
    if refused:
        # Everything ran, and the order of sizes is noise.
        raise typer.Exit(CHECK_FAILED)


def parse_block(text: str) -> tuple[int, int, int]:
    """Read ``--block``: columns, rows and slices that a work item computes."""
    parts = text.replace("x", ",").split(",")
    if len(parts) != 3 or not all(part.strip().isdecimal() and int(part) for part in parts):
        raise typer.BadParameter(f"--block '{text}' is not of the form X,Y,Z; expected three whole numbers from 1, such as 2,1,1")
    x, y, z = (int(part) for part in parts)
    return (x, y, z)


def operator_workload(text: str, block: str) -> Convolution:
    """Read an operator whose kernel has the block of ``--block``."""
    from latcast.workgroups.workloads import conv_kernel, parse_operator

    workload, shape = parse_operator(text), parse_block(block)
    if workload.kind == "conv" and shape != (2, 1, 1):
        return replace(workload, descriptor=conv_kernel(shape))
    return workload


def _read_workloads(what: str, block: str, reading: ModelKeywords) -> list[Convolution]:
    """Read the convolutions to measure, equal ones of a model once."""
    from latcast.networks import ModelOptions, read_model
    from latcast.workgroups.operands import require_supported
    from latcast.workgroups.workloads import find_launches, is_operator

    if is_operator(what):
        return [operator_workload(what, block)]
    found: list[Convolution] = []
    graph = read_model(what, ModelOptions(**reading))
    for launch in find_launches(graph, None, parse_block(block), direct=True):
        try:
            if launch.workload is None:
                raise MeasurementError(launch.why)
            require_supported(launch.workload)
        except MeasurementError as problem:
            warn(f"{', '.join(launch.names)} is left out: {problem}")
            continue
        found.append(launch.workload)
    if not found:
        raise LatcastError(f"{what} has no convolution that the kernels here compute: plain and depthwise ones, one image")
    return list(dict.fromkeys(found))


def _name_files(output: Path | None, device: str, sizes: str, workloads: Sequence[Convolution]) -> list[Path]:
    """Return one file for each convolution, in which its rounds are found again."""
    from latcast.folders import measurements_folder

    if output is not None and output.suffix in (".json", ".gz"):
        if len(workloads) > 1:
            raise LatcastError(f"{len(workloads)} convolutions do not go into one file; give a folder instead of {output}")
        return [output]
    folder = output or measurements_folder() / "workgroups"
    names = [f"{device}-{workload}-{workload.descriptor.name}-{sizes}" for workload in workloads]
    return [folder / f"{re.sub('[^A-Za-z0-9_.]+', '-', name)}.json" for name in names]


def _describe(sweep: SizeSweep, path: Path) -> dict[str, Any]:
    """Return a sweep for scripts; ``ranking`` and all that follows from it is null where the order of sizes is noise."""
    from latcast.workgroups.strategies import follow_rules, recommend_sizes

    ranking: list[dict[str, Any]] | None = None
    choices: list[dict[str, Any]] | None = None
    if sweep.rankable:
        ranking = [
            {"size": list(sweep.sizes[row].shape), "latency_ms": sweep.latency_ms[row], "relative": sweep.relative[row]}
            for row in sweep.latency_ms.argsort(kind="stable")
        ]
        choices = []
        for name, size in recommend_sizes(sweep).items():
            row = sweep.index_of(size)
            rank = None if row is None else 1 + int((sweep.latency_ms < sweep.latency_ms[row]).sum())
            relative = None if row is None else float(sweep.relative[row])
            choices.append({"name": name, "size": list(size.shape), "rank": rank, "relative": relative})
    return {
        "operator": sweep.operator,
        "kernel": sweep.descriptor.name,
        "grid": list(sweep.grid.shape),
        "sizes": len(sweep.sizes),
        "failed": {str(size): why for size, why in sweep.failed.items()},
        "rounds": sweep.rounds,
        "split_half_spearman": None if sweep.repeatability != sweep.repeatability else sweep.repeatability,
        "why_not_ranked": sweep.why_not_rankable() or None,
        "worst_over_best": float(sweep.relative.max()),
        "ranking": ranking,
        "choices": choices,
        "rules_mean_relative": follow_rules(sweep).relative if sweep.rankable else None,
        "cache": str(path),
    }


def _print_sweep(sweep: SizeSweep, path: Path) -> None:
    """Print the best sizes and the recommended ones, and how far the order can be trusted."""
    from latcast.workgroups.strategies import follow_rules, recommend_sizes

    print(f"{sweep.operator} on {sweep.device.title}: {len(sweep.sizes)} sizes of a {sweep.grid} grid, {sweep.rounds} rounds")
    for size, why in list(sweep.failed.items())[:3]:
        warn(f"{size} is left out: {why}")
    if sweep.rankable:
        whose: dict[WorkGroup, list[str]] = {}
        for name, size in recommend_sizes(sweep).items():
            whose.setdefault(size, []).append(name)
        order = sweep.latency_ms.argsort(kind="stable").tolist()
        rows = [
            [str(rank), str(sweep.sizes[row]), milliseconds(sweep.latency_ms[row]), f"{sweep.relative[row]:.2f}",
             ", ".join(whose.get(sweep.sizes[row], []))]
            for rank, row in enumerate(order, 1)
            if rank <= SHOWN or rank == len(order) or sweep.sizes[row] in whose
        ]  # fmt: skip
        print_table("", ("rank", "size", "latency ms", "x best", "recommended by"), rows)
        left = follow_rules(sweep)
        print(f"a size that the rules leave: {left.relative:.2f} x best on average, {left.worst:.2f} at worst ({left.why})")
    print(
        f"split-half rank correlation {decimal(sweep.repeatability, 2)} (each size's least of every other round against that of "
        f"the rest, not corrected for length); worst {sweep.relative.max():.1f} x best"
    )
    print(f"sweep: {path}")
