"""``latcast train`` and ``latcast evaluate``: stored measurements to a bundle, and a bundle on stored measurements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from latcast.cli import options
from latcast.cli.output import interval_column, milliseconds, percent, print_json, print_table, warn
from latcast.cli.profile import described, keep, summarise
from latcast.tables import decimal, signed

if TYPE_CHECKING:
    from latcast.predictors.metrics import Metrics
    from latcast.training.evaluation import Evaluation


MOST_NAMED = 20
"""Networks left out that have a line each."""


def train(
    store: Annotated[str, Argument(metavar="STORE", help="SQLite file, JSON Lines file or database URL.")],
    on: Annotated[str | None, Option("--on", metavar="PLATFORM", help="Which platform; needed where there are several.")] = None,
    learn_from: options.LearnFrom = "operators",
    model: options.KernelModel = None,
    rules: options.Rules = None,
    gpu_family: options.GpuFamilyName = "",
    leave_out: Annotated[str, Option("--leave-out", help="Families, spaces or lineages to leave out, with commas.")] = "",
    licence: Annotated[str | None, Option("--licence", help="Of the measurements, for the bundle's card.")] = None,
    seed: options.Seed = 0,
    output: options.BundleOutput = None,
    replace: options.Replace = False,
    as_json: options.AsJson = False,
) -> None:
    """Train a bundle from stored measurements.

    \b
    Examples:
      latcast train measurements.jsonl.gz -o mine.zip
      latcast train phones.sqlite --on pixel4/tflite-2.10/gpu/fp16 --leave-out mobilenet_v2,squeezenet
    """
    from latcast.training.from_store import train

    predictor = train(
        store, platform=on, learn_from=learn_from or "operators", model=model, rules=rules, leave_out=options.names_in(leave_out),
        licence=licence, seed=seed,
    )  # fmt: skip
    bundle = keep(predictor, output, replace)
    _warn_left_out(predictor.card.get("left_out") or [])
    if as_json:
        print_json(described(predictor, bundle))
    else:
        summarise(predictor, bundle)


def evaluate(
    bundle: Annotated[
        str,
        Argument(
            metavar="BUNDLE",
            help="A bundle's path, or a platform.",
            autocompletion=options.complete_platforms,
        ),
    ],
    stores: Annotated[
        list[str],
        Argument(metavar="STORE", help="SQLite files, JSON Lines files, tables as device add takes them, or database URLs."),
    ],
    families: Annotated[str, Option("--families", help="Families or spaces to judge on, with commas.")] = "",
    measured_as: Annotated[
        str | None, Option("--as", metavar="PLATFORM", help="What the stores call the bundle's platform, where they differ.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge a bundle on stored networks that it was not trained on; those that it was trained on fit the baselines.

    \b
    Examples:
      latcast evaluate mine.zip measurements.jsonl.gz
      latcast evaluate rpi5.zip others.csv
      latcast evaluate local/onnxruntime measurements.sqlite --families mobilenet_v2,ghostnet
      latcast evaluate pi5.zip measured.jsonl.gz --as rpi5/tflite-2.17/cpu4/fp32
    """
    from latcast.platforms import load
    from latcast.predictors.card import TRAINING_KEYS
    from latcast.training.evaluation import evaluate

    predictor = load(bundle)
    if not predictor.card.get(TRAINING_KEYS):
        warn("the bundle does not say which networks it was trained on; all are taken for untrained")
    found = evaluate(predictor, stores, families=options.names_in(families) or None, measured_as=measured_as)
    if as_json:
        print_json(found.to_json())
    else:
        _print_evaluation(found)
    _warn_left_out([f"{name}: {reason}" for name, reason in found.refused.items()])


def _warn_left_out(texts: Sequence[str]) -> None:
    """Print a line for each of the first, and the number of the rest."""
    for text in texts[:MOST_NAMED]:
        warn(f"left out: {text}")
    if len(texts) > MOST_NAMED:
        warn(f"left out in all: {len(texts)}")


def _row(name: str, metrics: Metrics) -> tuple[str, ...]:
    return (
        name,
        percent(metrics.mape),
        percent(metrics.within_5),
        percent(metrics.within_10),
        milliseconds(metrics.rmse_ms),
        percent(metrics.rmspe),
        decimal(metrics.spearman, 3),
        percent(metrics.interval_coverage),
    )


def _print_evaluation(found: Evaluation) -> None:
    unknown = found.held_out_by == "unknown"
    held_out = "which lineages it was trained on is unknown" if unknown else f"held out by {found.held_out_by}"
    print_table(
        f"{found.platform}: {found.metrics.networks} networks, {held_out}\n",
        ("", "MAPE %", "±5 %", "±10 %", "RMSE ms", "RMSPE %", "Spearman", "in interval %"),
        [_row("latcast", found.metrics), *(_row(name, metrics) for name, metrics in found.baselines.items())],
    )
    print(f"\nlabel error: {found.label_error or 'not known, as no latency was measured twice'}")
    bounds = zip(found.low_ms.tolist(), found.high_ms.tolist(), strict=True)
    print_errors(found.names, found.predicted_ms, [(low, high, found.level) for low, high in bounds], found.actual_ms)


def print_errors(
    names: Sequence[str], predicted_ms: Iterable[float], intervals: Sequence[tuple[float, float, float | None]],
    measured_ms: Iterable[float],
) -> None:  # fmt: skip
    """Predictions beside measurements; intervals are low, high and level."""
    heading, shown = interval_column(intervals)
    rows = zip(names, predicted_ms, shown, intervals, measured_ms, strict=True)
    print_table(
        "",
        ("network", "predicted ms", heading, "measured ms", "error %", ""),
        [
            (
                name, milliseconds(predicted), interval, milliseconds(measured), signed(100 * (predicted / measured - 1)),
                "" if low <= measured <= high else "outside",
            )
            for name, predicted, interval, (low, high, _), measured in rows
        ],
    )  # fmt: skip
