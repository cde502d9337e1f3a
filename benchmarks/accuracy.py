"""Accuracy of each platform's predictor on real networks of families it never saw, and the ways to learn side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.campaigns import PROFILE_SECONDS, SEEDS, WAY_SECONDS, Bench, test_networks, way_keys
from latcast.errors import TrainingError
from latcast.kernels.rules import rules_for
from latcast.measure.statistics import Label, noise_floor
from latcast.predictors.evaluation import Evaluation, evaluate
from latcast.predictors.samples import NetworkSample, TrainingData, collect
from latcast.predictors.stored import environment_of, trained_with_card
from latcast.predictors.training import train
from latcast.records import Measurement
from latcast.spaces import build

RESULTS = Path(__file__).parent / "results"


def labels(bench: Bench) -> list[Label]:
    """Labels of the test networks, in order."""
    keys = {reference.key for reference in test_networks()}
    with bench.store() as store:
        return store.labels(platform=bench.platform().id, keys=keys)


def _first_seconds(measurements: list[Measurement], seconds: float) -> list[Measurement]:
    """The measurements taken while a campaign had this much measuring time, pauses between its pieces not counted."""
    from datetime import datetime

    kept: list[Measurement] = []
    spent = 0.0
    last: datetime | None = None
    for measurement in measurements:
        moment = datetime.fromisoformat(measurement.taken_at.replace("Z", "+00:00"))
        if last is not None:
            # A gap of a minute is a pause, not a slow network.
            gap = (moment - last).total_seconds()
            spent += gap if gap < 60 else 0.0
        last = moment
        if spent > seconds:
            break
        kept.append(measurement)
    return kept


def training_data(bench: Bench, way: str, seconds: float) -> TrainingData:
    """Samples of one way within its first seconds of measuring."""
    horizon = PROFILE_SECONDS if way == "operators" else WAY_SECONDS
    keys = way_keys(bench, way, horizon) - {reference.key for reference in test_networks()}
    with bench.store() as store:
        measurements = list(store.measurements(platform=bench.platform().id, role="network", keys=keys))
        alone = list(store.measurements(platform=bench.platform().id, role="kernel")) if way == "kernels" else []
    # Profiled networks may have been measured again, without a profile and in time of its own, for the interval.
    again = [item for item in measurements if not item.executed] if way == "operators" else []
    measurements = [item for item in measurements if bool(item.executed) == (way == "operators")]
    if way != "kernels":
        kept = _first_seconds(measurements, seconds)
        first = {item.reference.key for item in kept}
        kept += [item for item in again if item.reference.key in first]
        return collect(kept, rules_for(bench.runtime, bench.precision), build)
    kept = _first_seconds(alone, 0.8 * seconds) + _first_seconds(measurements, 0.2 * seconds)
    return collect(kept, rules_for(bench.runtime, bench.precision), build)


def test_samples(bench: Bench) -> tuple[list[NetworkSample], float]:
    """Test networks with their labels' kernels and latencies, and the labels' noise floor in percent."""
    found = labels(bench)
    rules = rules_for(bench.runtime, bench.precision)
    from latcast.kernels.search import find_kernels

    names = {reference.key: reference for reference in test_networks()}
    samples = [
        NetworkSample(names[label.reference.key], find_kernels(build(label.reference), rules), label.latency_ms)
        for label in found
    ]
    return samples, noise_floor(found)


def everything(bench: Bench) -> TrainingData:
    """What the judged predictor learns from: profiled networks, and the whole networks of the third way where measured."""
    data = training_data(bench, "operators", PROFILE_SECONDS)
    whole = training_data(bench, "networks", WAY_SECONDS)
    return replace(data, networks=data.networks + whole.networks)


def judge_way(
    bench: Bench, way: str, model: str, seconds: float, *, data: TrainingData | None = None, seed: int = 0
) -> tuple[Evaluation, dict[str, Any]]:
    """Trains by a way on its first seconds and judges on the test networks.

    Given data are trained on with everything a bundle has, interval and card included; the comparison of ways does without.
    """
    platform, rules = bench.platform(), rules_for(bench.runtime, bench.precision)
    if data is None:
        data = training_data(bench, way, seconds)
        predictor = train(data, platform, rules, way=way, model=model, seed=seed)
    else:
        with bench.store() as store:
            environment = environment_of(store, platform)
        predictor = trained_with_card(
            data, platform, rules, way=way, model=model, seed=seed, seconds=seconds, environment=environment
        )
    tests, floor = test_samples(bench)
    found = evaluate(predictor, tests, train=data.networks, held_out_by="lineage", noise_floor=floor)
    about = {
        "way": way, "model": model, "seconds": seconds, "training_networks": len(data.networks),
        "timed_kernels": len(data.profiled) + len(data.isolated), "matched": data.matched,
        "families_tested": len({sample.family for sample in tests}), "seed": SEEDS[way],
        "cross_validated_mape": predictor.card.get("mape"),
    }  # fmt: skip
    return found, about


def judge_platform(bench: Bench) -> dict[str, Any]:
    """The table of one platform: the shipped way at full time, and all ways at equal time."""
    data = everything(bench)
    final, about = judge_way(bench, "operators", "physical_residual", PROFILE_SECONDS + WAY_SECONDS, data=data)
    ways = {}
    for way, model in (
        ("operators", "physical_residual"), ("operators", "physical"), ("operators", "gbdt"), ("operators", "lasso"),
        ("operators", "random_forest"), ("operators", "mlp"), ("kernels", "physical_residual"), ("networks", "physical"),
        ("networks", "physical_residual"),
    ):  # fmt: skip
        try:
            found, said = judge_way(bench, way, model, WAY_SECONDS)
        except TrainingError as problem:  # a way whose pieces were not measured is reported as such
            ways[f"{way}, {model}"] = {"unavailable": str(problem)}
            continue
        ways[f"{way}, {model}"] = {**said, **found.metrics.to_json()}
    document = {**final.to_json(), "training": about, "ways": ways}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{bench.runtime}-{bench.precision}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    return document


def results() -> Mapping[str, dict[str, Any]]:
    """Every platform's document that was written so far."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*-*.json"))}
