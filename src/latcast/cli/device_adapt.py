"""``latcast device adapt``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from latcast.cli import options
from latcast.cli.output import StageProgress, kept_when_interrupted, percent, print_json, print_table, warn, warn_of_failures
from latcast.cli.profile import described, keep, summarise

if TYPE_CHECKING:
    from latcast.training.adaptation import AdaptationResult
    from latcast.training.pool import Pool


@kept_when_interrupted("what was measured is kept: the same command goes on with it")
def adapt(
    measured: Annotated[
        str | None,
        Argument(
            metavar="[STORE]", help="Measured before: SQLite file, JSON Lines file or database URL. Nothing is measured then."
        ),
    ] = None,
    on: Annotated[str | None, Option("--on", metavar="PLATFORM", help="Which of STORE; needed where there are several.")] = None,
    runtime: options.Runtime = "onnxruntime",
    threads: options.Threads = 1,
    unit: options.ComputeUnit = "",
    precision: options.Precision = "fp32",
    pool: Annotated[
        list[Path] | None,
        Option(
            "--pool",
            help="Folder of bundles to transfer from; repeatable. [default: your own, and the shipped ones of such a unit]",
        ),
    ] = None,
    target: Annotated[
        str | None,
        Option("--target", help='Stop when each kernel type is this accurate: "±10=95": 95 % within ±10 %.'),
    ] = None,
    budget: options.Budget = 5.0,
    rules: options.Rules = None,
    gpu_family: options.GpuFamilyName = "",
    sampler: options.Sampler = "prior",
    seed: options.Seed = 0,
    cpus: options.Cpus = "",
    realtime: options.Realtime = None,
    device: options.Device = "local",
    library_path: options.LibraryPath = None,
    store: options.StoreFile = None,
    output: options.BundleOutput = None,
    replace: options.Replace = False,
    as_json: options.AsJson = False,
) -> None:
    """Transfer known predictors to a new platform: a little is measured, the most similar predictors are adapted to it.

    A predictor of the measurements alone is kept unless transfer is better by more than chance; with five minutes or more, use
    latcast profile.

    \b
    Examples:
      latcast device adapt --runtime litert --pool bundles --budget 1
      latcast device adapt --runtime openvino --target '±10=95'
      latcast device adapt measurements.sqlite --on rpi5/tflite
    """
    start = time.monotonic()
    from latcast.datasets.opening import default_store_path
    from latcast.datasets.store import Store
    from latcast.fusion.detected_rules import chosen_rules
    from latcast.training.adaptation import adapt as adapt_predictors
    from latcast.training.adaptation_rounds import parse_target
    from latcast.training.pool import open_pool
    from latcast.training.profiling import try_profiler

    if measured is not None:
        if target is not None or store is not None:
            raise typer.BadParameter(f"--target and --store are for measuring, and {measured} holds what was measured")
        _report(*_adapted_to(measured, on, pool, rules, seed), measured, output, replace, as_json)
        return
    if on is not None:
        raise typer.BadParameter("--on names a platform of a STORE; to measure, give --runtime and --device")
    wanted = None if target is None else parse_target(target)
    settings = options.worker_settings(runtime, threads, precision, cpus, realtime, device, library_path=library_path, unit=unit)
    if store is None:
        store = default_store_path(settings, "adapt")
    kernel_rules = chosen_rules(rules, settings)
    known = open_pool(pool, like=(settings.unit_name, settings.precision))
    trial = try_profiler(settings)
    if trial.warning:
        warn(trial.warning)
    with StageProgress() as progress, Store(store) as kept:
        found = adapt_predictors(
            settings, kept, known, budget_s=60 * budget, target=wanted, rules=kernel_rules, sampler=sampler or "prior", seed=seed,
            trial=trial, start=start, watch=progress,
        )  # fmt: skip
    _report(found, known, str(store), output, replace, as_json)


def _adapted_to(
    measured: str, on: str | None, pool: Sequence[Path] | None, rules: str | None, seed: int
) -> tuple[AdaptationResult, Pool]:
    """Adapt the pool to a platform of a store."""
    from latcast.datasets.opening import only_platform, opened
    from latcast.training.adaptation import adapt_stored
    from latcast.training.pool import open_pool

    with opened(measured) as kept:
        platform = only_platform(kept, on)
        known = open_pool(pool, like=(platform.unit, platform.precision))
        return adapt_stored(kept, platform, known, rules=rules, seed=seed), known


def _report(found: AdaptationResult, known: Pool, store: str, output: Path | None, replace: bool, as_json: bool) -> None:
    """Save the bundle and print the result."""
    for problem in known.problems[:3]:
        warn(f"not in the pool: {problem}")
    warn_of_failures(found.failures)
    if found.rounds.unlike:
        warn(_unlike(found))
    bundle = keep(found.predictor, output, replace)
    if as_json:
        print_json(_document(found, bundle, store))
    else:
        summarise(found.predictor, bundle)
        print(f"measurements: {store}")
        _print_transfer(found)


def _unlike(found: AdaptationResult) -> str:
    """Say why nothing was transferred."""
    from latcast.training.adaptation_rounds import UNLIKE_DIVERGENCE

    best = found.rounds.nearest
    if best is None:
        return "no predictor of the pool knows convolutions: profiled from scratch instead"
    return (
        f"unlike every platform of the pool (the nearest, {best.platform}, has a divergence of {best.divergence:.2f}, "
        f"at most {UNLIKE_DIVERGENCE:g} is alike): profiled from scratch instead"
    )


def _document(found: AdaptationResult, bundle: Path, store: str) -> dict[str, Any]:
    card = found.predictor.card
    return {
        **described(found.predictor, bundle),
        "store": store,
        "failed": len(found.failures),
        "unlike": found.rounds.unlike,
        "pool": card["pool"],
        "target": card["target"],
        "held_out_errors": card.get("held_out_errors", {}),
        "transfer": card["transfer"],
        "kernel_errors": card["kernel_errors"],
    }


def _print_transfer(found: AdaptationResult) -> None:
    """Print how each kernel type was learned, and its error on the fixed test set before that was trained on too."""
    card = found.predictor.card
    if "held_out_errors" in card:
        print(
            "networks held out: " + ", ".join(f"{way} {percent(error)} % off" for way, error in card["held_out_errors"].items())
        )
    if not card["transfer"]:
        return
    rows = []
    for name, each in sorted(card["transfer"].items()):
        similar = each["similar"][0] if each["similar"] else None
        errors = card["kernel_errors"].get(name)
        nearest = [similar["platform"], f"{similar['divergence']:.3f}"] if similar else ["-", "-"]
        figures = [percent(errors["mape"]), percent(errors["within_10"], 0)] if errors else ["-", "-"]
        rows.append([name, each["way"], *nearest, str(each["samples"]), *figures])
    head = ["kernel type", "learned", "most similar", "divergence", "samples", "MAPE %", "within ±10 %"]
    print_table("kernels, judged on their fixed test sets", head, rows)
