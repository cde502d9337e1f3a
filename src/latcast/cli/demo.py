"""``latcast demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from latcast.cli import options
from latcast.cli.output import (
    StageProgress,
    kept_when_interrupted,
    percent,
    print_json,
    warn,
)
from latcast.cli.profile import say_which_was_kept
from latcast.cli.train import print_errors
from latcast.folders import home_folder

if TYPE_CHECKING:
    from latcast.training.demonstration import Demonstration


@kept_when_interrupted("what was measured is kept: latcast demo --resume goes on with it")
def command(
    budget: options.Budget = 3.0,
    runtime: options.Runtime = "onnxruntime",
    realtime: options.Realtime = None,
    device: options.Device = "local",
    seed: options.Seed = 0,
    resume: Annotated[bool, Option("--resume", help="Learn also from what the last demo measured.")] = False,
    replace: options.Replace = False,
    as_json: options.AsJson = False,
) -> None:
    """Profile this machine or a device, predict networks it never ran, check by running them.

    \b
    Examples:
      latcast demo
      latcast demo --runtime openvino --budget 2
    """
    from latcast.folders import measurements_folder
    from latcast.training.demonstration import demonstrate

    folder = measurements_folder()
    settings = options.worker_settings(runtime, realtime=realtime, device=device)
    name = "-".join(part for part in ("demo", settings.place, runtime) if part)
    with StageProgress() as progress:
        found = demonstrate(
            settings,
            store=folder / f"{name}.sqlite",
            checks=folder / f"{name}-checks.sqlite",
            budget_s=60 * budget,
            seed=seed,
            resume=resume,
            replace=replace,
            watch=progress,
        )
    if as_json:
        print_json(found.to_json())
    else:
        _print(found)
    say_which_was_kept(found.predictor, found.indexed)
    for name, reason in found.failures.items():
        warn(f"{name} could not be run: {reason}")


def _print(found: Demonstration) -> None:
    from latcast.predictors.bundle_index import shortest_name

    platform = found.predictor.platform.id
    print(f"{platform}: learned from {found.profiled} networks; these, of other families, were predicted, then run:\n")
    predictions = [each.prediction for each in found.networks]
    print_errors(
        [each.model for each in predictions],
        [each.latency_ms for each in predictions],
        [(each.low_ms, each.high_ms, each.level) for each in predictions],
        [each.label.latency_ms for each in found.networks],
    )
    metrics = found.metrics
    print(
        f"\nMAPE {percent(metrics.mape)} %; within ±5 %: {percent(metrics.within_5, 0)} %, within ±10 %: "
        f"{percent(metrics.within_10, 0)} % of {metrics.networks} networks; {percent(metrics.interval_coverage, 0)} % inside "
        f"the interval; label error {found.label_error}; {found.seconds:.0f} s in all"
    )
    if found.resembled:
        print(found.resembled)
    print(f"\nThe predictor is kept in {found.indexed.path}; use it:\n")
    name = shortest_name(found.predictor.platform) if found.indexed.is_current else _short(found.indexed.path)
    print(f"    latcast predict {found.networks[0].prediction.model} --on {name}")
    print(f"    latcast platforms show {name}")
    print(f"    latcast evaluate {name} {_short(found.checks)}")


def _short(path: Path) -> str:
    home = home_folder()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
