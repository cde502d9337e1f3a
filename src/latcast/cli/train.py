"""``latcast train``."""

from __future__ import annotations

from typing import Annotated

import typer

from latcast.cli.options import AsJson, BundleOutput, KernelModel, Replace, Rules, Seed, Way
from latcast.cli.output import print_json
from latcast.cli.profile import described, keep, summarise


def command(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="SQLite file, JSON Lines file (.jsonl, .jsonl.gz) or database URL.")
    ],
    platform: Annotated[
        str | None, typer.Option("--platform", help="Id of the platform; needed where there are several.")
    ] = None,
    way: Way = "operators",
    model: KernelModel = "physical_residual",
    rules: Rules = None,
    leave_out: Annotated[
        str,
        typer.Option("--leave-out", help="Families, spaces or lineages not to train on, with commas between."),
    ] = "",
    licence: Annotated[str | None, typer.Option("--licence", help="Of the measurements, for the bundle's card.")] = None,
    tune: Annotated[bool, typer.Option("--tune", help="Choose hyper-parameters by cross-validation; takes longer.")] = False,
    seed: Seed = 0,
    output: BundleOutput = None,
    replace: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Train a bundle from stored measurements."""
    from latcast.datasets.opening import only_platform, open_measurements
    from latcast.fusion.detected_rules import chosen_rules
    from latcast.predictors.stored import train_stored

    left_out = frozenset(name.strip() for name in leave_out.split(",") if name.strip())
    with open_measurements(store) as kept:
        chosen = only_platform(kept, platform)
        predictor = train_stored(
            kept, chosen, way=way, model=model, seed=seed, tune=tune, leave_out=left_out, licence=licence,
            rules=chosen_rules(rules, chosen),
        )  # fmt: skip
    bundle = keep(predictor, output, replace)
    if as_json:
        print_json(described(predictor, bundle))
    else:
        summarise(predictor, bundle)
