"""``latcast profile``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from latcast.cli import options
from latcast.cli.output import StageProgress, kept_when_interrupted, percent, print_json, print_table, warn, warn_of_failures
from latcast.folders import remember_measurements

if TYPE_CHECKING:
    from latcast.predictors.bundle_index import IndexedBundle
    from latcast.predictors.platform_predictor import PlatformPredictor


@kept_when_interrupted("what was measured is kept: the same command goes on with it")
def command(
    runtime: options.RuntimeOrLlama = "onnxruntime",
    threads: options.Threads = 1,
    unit: options.ComputeUnit = "",
    precision: options.Precision = "fp32",
    budget: options.Budget = 5.0,
    learn_from: options.LearnFrom = None,
    model: options.KernelModel = None,
    rules: options.Rules = None,
    gpu_family: options.GpuFamilyName = "",
    sampler: options.Sampler = None,
    target_error: Annotated[
        float | None,
        Option(
            "--target-error",
            help="Percent; a kernel type whose predictor is off by less on its test set is measured no further.",
            min=0.0,
        ),
    ] = None,
    seed: options.Seed = 0,
    cpus: options.Cpus = "",
    realtime: options.Realtime = None,
    device: options.Device = "local",
    scheduler: options.Scheduler = "",
    library_path: options.LibraryPath = None,
    store: options.StoreFile = None,
    output: options.BundleOutput = None,
    replace: options.Replace = False,
    as_json: options.AsJson = False,
) -> None:
    """Measure this machine and train a predictor bundle for it; run again, it adds to what was measured.

    --sampler and --target-error time kernels alone (--learn-from kernels).

    \b
    Examples:
      latcast profile
      latcast profile --runtime openvino --threads 2 --budget 10
      latcast profile --learn-from kernels --sampler adaptive --target-error 10
      latcast profile --runtime llama.cpp --budget 5
    """
    if runtime == options.LLAMA_CPP:
        from latcast.cli import language_models

        language_models.profile(budget, threads, device, store, as_json=as_json)
        return
    from latcast.training.profiling import DEFAULT_SAMPLER, profile, try_profiler

    if sampler is not None or target_error is not None:
        if learn_from == "networks":
            raise typer.BadParameter("--sampler and --target-error choose kernels to time alone: use --learn-from kernels")
        learn_from = "kernels"
    settings = options.worker_settings(runtime, threads, precision, cpus, realtime, device, scheduler, library_path, unit)
    if learn_from is None:
        trial = try_profiler(settings)
        learn_from = trial.learn_from
        if trial.warning:
            warn(trial.warning)
    with StageProgress() as progress:
        found = profile(
            settings, budget_minutes=budget, learn_from=learn_from, model=model, rules=rules,
            sampler=sampler or DEFAULT_SAMPLER, target_error=None if target_error is None else target_error / 100, seed=seed,
            store=store, output=output, replace=replace, watch=progress,
        )  # fmt: skip
    remember_measurements(found.store)
    bundle = found.bundle.path
    say_which_was_kept(found.predictor, found.bundle)
    warn_of_failures(found.failures)
    if as_json:
        counts = {"store": found.store, "failed": len(found.failures)}
        document = {**described(found.predictor, bundle), **counts}
        kept_errors = {key: found.predictor.card[key] for key in ("sampler", "kernel_errors") if key in found.predictor.card}
        print_json({**document, **kept_errors})
    else:
        summarise(found.predictor, bundle)
        print(f"measurements: {found.store}")
        if found.predictor.card.get("kernel_errors"):
            # Errors on the fixed test sets, before the kernel predictors were trained on these too.
            rows = [
                [name, str(figures["kernels"]), percent(figures["mape"]), percent(figures["within_10"], 0)]
                for name, figures in found.predictor.card["kernel_errors"].items()
            ]
            print_table("kernels of the fixed test sets", ["kernel type", "tested", "MAPE %", "within ±10 %"], rows)


def keep(predictor: PlatformPredictor, output: Path | None, replace: bool) -> Path:
    """Save a new bundle where the user says, or in the user's folder unless a better one is there; print which was kept."""
    from latcast.predictors.bundle_index import keep_bundle

    indexed = keep_bundle(predictor, output, replace=replace)
    say_which_was_kept(predictor, indexed)
    return indexed.path


def say_which_was_kept(predictor: PlatformPredictor, indexed: IndexedBundle) -> None:
    """Print a line on a new bundle and the one of the platform that was there before, if there was one."""
    from latcast.predictors.card import evidence

    if indexed.before is None:
        return
    new, old = evidence(predictor.card), evidence(indexed.before)
    warn(
        f"{predictor.platform}: this bundle ({new}) replaces the one before ({old})"
        if indexed.is_current
        else f"{predictor.platform}: kept the bundle that was there ({old}), the better one; this one ({new}) is in "
        f"{indexed.path}; with --replace the command puts its bundle in that place"
    )


def described(predictor: PlatformPredictor, bundle: Path) -> dict[str, Any]:
    """Return the JSON of a new bundle."""
    from latcast.predictors.card import FIELDS, FIGURES

    card = {key: predictor.card.get(key) for key in (*FIELDS, *FIGURES, "held_out_by")}
    return {"platform": predictor.platform.id, "bundle": str(bundle), **card}


def summarise(predictor: PlatformPredictor, bundle: Path) -> None:
    """Print a new bundle in a few lines."""
    card = predictor.card
    print(f"{predictor.platform.id}: trained on {card['trained_on']}")
    if card.get("mape") is None:
        print("too few networks to say how well it predicts others; measure longer")
    else:
        print(
            f"on networks held out by {card['held_out_by']}: MAPE {percent(card['mape'])} %, "
            f"{percent(card['within_5'], 0)} % within ±5 %, {percent(card['within_10'], 0)} % within ±10 %"
        )
    interval = predictor.interval
    print(f"{interval.kind} interval: {interval.in_words()}")
    print(f"bundle: {bundle}")
