"""``latcast train``."""

from __future__ import annotations

from typing import Annotated

import typer

from latcast.cli.options import AsJson, BundleOutput, KernelModel, Seed, Way
from latcast.cli.output import print_json
from latcast.cli.profile import described, summarise


def command(
    store: Annotated[str, typer.Argument(metavar="STORE", help="SQLite file, JSON Lines file (.jsonl, .jsonl.gz) or database URL.")],
    platform: Annotated[str | None, typer.Option("--platform", help="Id of the platform; needed where there are several.")] = None,
    way: Way = "operators",
    model: KernelModel = "physical_residual",
    tune: Annotated[bool, typer.Option("--tune", help="Choose hyper-parameters by cross-validation; takes longer.")] = False,
    seed: Seed = 0,
    output: BundleOutput = None,
    as_json: AsJson = False,
) -> None:
    """Train a bundle from stored measurements."""
    from latcast.datasets.opening import only_platform, open_measurements
    from latcast.kernels.rules import rules_for
    from latcast.predictors.bundle import save_bundle
    from latcast.predictors.profiling import collect_stored, environment_of, trained_with_card
    from latcast.predictors.shelf import bundle_path

    with open_measurements(store) as kept:
        chosen = only_platform(kept, platform)
        rules = rules_for(chosen.runtime, chosen.precision)
        data, environment = collect_stored(kept, chosen, rules), environment_of(kept, chosen)
    predictor = trained_with_card(data, chosen, rules, way=way, model=model, seed=seed, tune=tune, environment=environment)
    bundle = save_bundle(predictor, output or bundle_path(chosen))
    if as_json:
        print_json(described(predictor, bundle))
    else:
        summarise(predictor, bundle)
