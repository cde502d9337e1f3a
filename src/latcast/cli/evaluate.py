"""``latcast evaluate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from latcast.cli.options import AsJson
from latcast.cli.output import interval_column, milliseconds, percent, print_json, print_table, warn

if TYPE_CHECKING:
    from latcast.predictors.evaluation import Evaluation
    from latcast.predictors.metrics import Metrics


def command(
    bundle: Annotated[str, typer.Argument(metavar="BUNDLE", help="A bundle's path, or a platform id or its beginning.")],
    stores: Annotated[
        list[str],
        typer.Argument(metavar="STORE", help="SQLite files, JSON Lines files (.jsonl, .jsonl.gz) or database URLs."),
    ],
    families: Annotated[
        str, typer.Option("--families", help="Judge on these families or spaces alone, separated by commas.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Judge a bundle on stored networks that it was not trained on; those that it was trained on fit the baselines."""
    from latcast.datasets.opening import only_platform, open_measurements
    from latcast.predictors.card import TRAINING_KEYS
    from latcast.predictors.evaluation import evaluate_on_labels
    from latcast.predictors.forecast import load

    predictor = load(bundle)
    labels = []
    for store in stores:
        with open_measurements(store) as kept:
            labels += kept.labels(platform=only_platform(kept, predictor.platform.id).id, role="network")
    chosen = {name.strip() for name in families.split(",") if name.strip()} or None
    if not predictor.card.get(TRAINING_KEYS):
        warn("the bundle does not say which networks it was trained on; all are taken for untrained")
    found = evaluate_on_labels(predictor, labels, families=chosen)
    if as_json:
        print_json(found.to_json())
    else:
        _print(found)


def _row(name: str, metrics: Metrics) -> tuple[str, ...]:
    return (
        name,
        percent(metrics.mape),
        percent(metrics.within_5),
        percent(metrics.within_10),
        milliseconds(metrics.rmse_ms),
        percent(metrics.rmspe),
        f"{metrics.spearman:.3f}",
        percent(metrics.interval_coverage),
    )


def _print(found: Evaluation) -> None:
    unknown = found.held_out_by == "unknown"
    held_out = "which lineages it was trained on is unknown" if unknown else f"held out by {found.held_out_by}"
    print_table(
        f"{found.platform}: {found.metrics.networks} networks, {held_out}\n",
        ("", "MAPE %", "±5 %", "±10 %", "RMSE ms", "RMSPE %", "Spearman", "in interval %"),
        [_row("latcast", found.metrics), *(_row(name, metrics) for name, metrics in found.baselines.items())],
    )
    print(f"\nlabel error: {found.label_error or 'not known, as no latency was measured twice'}")
    columns = zip(found.names, found.predicted_ms, found.low_ms, found.high_ms, found.actual_ms, strict=True)
    bounds = zip(found.low_ms.tolist(), found.high_ms.tolist(), strict=True)
    heading, intervals = interval_column([(low, high, found.level) for low, high in bounds])
    print_table(
        "",
        ("network", "predicted ms", heading, "measured ms", "error %", ""),
        [
            (
                name,
                milliseconds(predicted),
                interval,
                milliseconds(actual),
                f"{100 * (predicted / actual - 1):+.1f}",
                "" if low <= actual <= high else "outside",
            )
            for interval, (name, predicted, low, high, actual) in zip(intervals, columns, strict=True)
        ],
    )
