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
from latcast.records import decimal

if TYPE_CHECKING:
    from latcast.workgroups.devices import DeviceProfile
    from latcast.workgroups.gpu_interfaces import KernelSession
    from latcast.workgroups.measuring import SweepPlan
    from latcast.workgroups.sizes import WorkGroup
    from latcast.workgroups.sweep import Sweep
    from latcast.workgroups.workloads import Workload

Block = Annotated[str, Option("--block", metavar="X,Y,Z", help="Columns, rows and slices that a work item computes.")]
WHICH_SIZES = ("all", "divisors", "shortlist")

SHOWN = 10
"""Best sizes that people are shown, besides the recommended ones."""


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
            callback=options.one_of(lambda: WHICH_SIZES),
        ),
    ] = "all",
    max_sizes: Annotated[int, Option("--max-sizes", help="At most so many: recommended ones and a random sample.", min=2)] = 120,
    budget: Annotated[
        float,
        Option("--budget", metavar="MINUTES", help="Minutes for each operator; two rounds are always run.", min=0.0),
    ] = 5.0,
    block: Block = "2,1,1",
    shape: options.Shape = None,
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
    from latcast.workgroups.exporting import limited
    from latcast.workgroups.gpu_interfaces import find_device
    from latcast.workgroups.measuring import SweepPlan

    interface, index, profile = find_device(on)
    workloads = _workloads(what, block, shape)
    paths = _paths(output, on, sizes, workloads)
    plan = SweepPlan(rounds, 60 * budget, seed)
    measured: list[tuple[Sweep, Path]] = []
    with StageProgress() as progress:
        for workload, path in zip(workloads, paths, strict=True):
            try:
                session = interface.session(index, workload)
                try:
                    workload = session.workload
                    chosen = _chosen(workload, limited(profile, session.limits), sizes, max_sizes, seed)
                    if session.default is not None and session.default not in chosen:
                        chosen = [session.default, *chosen]
                    measured.append((_measured(session, profile, workload, chosen, plan, path, progress), path))
                finally:
                    session.close()
            except MeasurementError as problem:
                if len(workloads) == 1:
                    raise
                warn(f"{workload} is left out: {problem}")
    if not measured:
        raise MeasurementError(f"none of the {len(workloads)} convolutions of {what} could be measured on {profile.title}")
    if as_json:
        print_json({"device": profile.to_json(), "sweeps": [described(sweep, path) for sweep, path in measured]})
    else:
        for sweep, path in measured:
            summarise(sweep, path)
    refused = [sweep for sweep, _ in measured if not sweep.rankable]
    for sweep in refused:
        warn(sweep.why_not_rankable())
    if refused:
        # Everything ran, and the order of sizes is noise.
        raise typer.Exit(CHECK_FAILED)


def _measured(
    session: KernelSession, profile: DeviceProfile, workload: Workload, sizes: Sequence[WorkGroup], plan: SweepPlan,
    path: Path, progress: StageProgress,
) -> Sweep:  # fmt: skip
    from latcast.workgroups.kernel_tuner_cache import read_cache
    from latcast.workgroups.measuring import measure_sweep, save_sweep

    earlier = read_cache(path)[0] if path.exists() else None
    if earlier is not None and earlier.rounds >= plan.rounds:
        warn(f"{path} has {earlier.rounds} rounds of an earlier run already; a larger --rounds adds to them")
    return measure_sweep(
        session, profile, workload, sizes, plan,
        earlier=earlier,
        save=lambda sweep: save_sweep(path, sweep),
        watch=lambda doing, share: progress.show(f"{workload}: {doing}", share),
    )  # fmt: skip


def parse_block(text: str) -> tuple[int, int, int]:
    """What ``--block`` says that a work item computes: columns, rows and slices."""
    parts = text.replace("x", ",").split(",")
    if len(parts) != 3 or not all(part.strip().isdecimal() and int(part) for part in parts):
        raise typer.BadParameter(f"--block '{text}' is not of the form 2,1,1")
    x, y, z = (int(part) for part in parts)
    return (x, y, z)


def operator_workload(text: str, block: str) -> Workload:
    """The work of an operator, where a work item computes what ``--block`` says."""
    from latcast.workgroups.workloads import conv_kernel, parse_operator

    workload, shape = parse_operator(text), parse_block(block)
    if workload.kind == "conv" and shape != (2, 1, 1):
        return replace(workload, descriptor=conv_kernel(shape))
    return workload


def _workloads(what: str, block: str, shape: list[str] | None) -> list[Workload]:
    """What is to be computed, equal convolutions of a model once."""
    from latcast.networks import ModelOptions, read_model
    from latcast.workgroups.operands import require_supported
    from latcast.workgroups.workloads import is_operator, launches

    if is_operator(what):
        return [operator_workload(what, block)]
    found: list[Workload] = []
    graph = read_model(what, ModelOptions(options.parse_shapes(shape)))
    for launch in launches(graph, None, parse_block(block), direct=True):
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


def _paths(output: Path | None, device: str, sizes: str, workloads: Sequence[Workload]) -> list[Path]:
    """One file for each workload; all its rounds are found again there."""
    from latcast.folders import measurements_folder

    if output is not None and output.suffix in (".json", ".gz"):
        if len(workloads) > 1:
            raise LatcastError(f"{len(workloads)} convolutions do not go into one file; give a folder instead of {output}")
        return [output]
    folder = output or measurements_folder() / "workgroups"
    names = [f"{device}-{workload}-{workload.descriptor.name}-{sizes}" for workload in workloads]
    return [folder / f"{re.sub('[^A-Za-z0-9_.]+', '-', name)}.json" for name in names]


def _chosen(workload: Workload, profile: DeviceProfile, sizes: str, most: int, seed: int) -> list[WorkGroup]:
    from latcast.workgroups.measuring import divisor_sizes, sampled_sizes, shortlisted_sizes
    from latcast.workgroups.rules import Situation

    situation = Situation(workload.grid, workload.descriptor, profile)
    if sizes == "all":
        return sampled_sizes(situation, most, seed)
    return divisor_sizes(situation) if sizes == "divisors" else shortlisted_sizes(situation)


def described(sweep: Sweep, path: Path) -> dict[str, Any]:
    """For scripts; ``ranking`` and all that follows from it is null where the order of sizes is noise."""
    from latcast.workgroups.strategies import recommended_choices, rules

    ranking = None
    if sweep.rankable:
        ranking = [
            {"size": list(sweep.sizes[row].shape), "latency_ms": sweep.latency_ms[row], "relative": sweep.relative[row]}
            for row in sweep.latency_ms.argsort(kind="stable")
        ]
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
        "choices": [choice.to_json() for choice in recommended_choices(sweep)] if sweep.rankable else None,
        "rules_mean_relative": rules(sweep).relative if sweep.rankable else None,
        "cache": str(path),
    }


def summarise(sweep: Sweep, path: Path) -> None:
    """For people: the best sizes and the recommended ones, and how far the order can be trusted."""
    from latcast.workgroups.strategies import recommended_choices, rules

    print(f"{sweep.operator} on {sweep.device.title}: {len(sweep.sizes)} sizes of a {sweep.grid} grid, {sweep.rounds} rounds")
    for size, why in list(sweep.failed.items())[:3]:
        warn(f"{size} is left out: {why}")
    if sweep.rankable:
        choices = recommended_choices(sweep)
        whose: dict[WorkGroup, list[str]] = {choice.size: [] for choice in choices}
        for choice in choices:
            whose[choice.size].append(choice.name)
        order = sweep.latency_ms.argsort(kind="stable").tolist()
        rows = [
            [str(rank), str(sweep.sizes[row]), milliseconds(sweep.latency_ms[row]), f"{sweep.relative[row]:.2f}",
             ", ".join(whose.get(sweep.sizes[row], []))]
            for rank, row in enumerate(order, 1)
            if rank <= SHOWN or rank == len(order) or sweep.sizes[row] in whose
        ]  # fmt: skip
        print_table("", ("rank", "size", "latency ms", "x best", "recommended by"), rows)
        left = rules(sweep)
        print(f"a size that the rules leave: {left.relative:.2f} x best on average, {left.worst:.2f} at worst ({left.why})")
    print(
        f"split-half rank correlation {decimal(sweep.repeatability, 2)} (each size's least of every other round against that of "
        f"the rest, not corrected for length); worst {sweep.relative.max():.1f} x best"
    )
    print(f"sweep: {path}")
