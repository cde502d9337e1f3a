"""Accuracy of what a user gets: the bundle that ``latcast profile`` wrote, judged by ``latcast evaluate`` on real networks of
families it never saw; the same without what shares their blocks; and what is learned from side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.campaigns import LEARN_FROM_SECONDS, LEARN_FROM_SEEDS, Bench, examined, is_published, test_networks
from benchmarks.result_files import keep
from latcast.datasets.splits import lineage_of
from latcast.errors import TrainingError
from latcast.kernels.rules import rules_for
from latcast.kernels.search import find_kernels
from latcast.measure.labels import Label
from latcast.predictors.evaluation import evaluate_samples
from latcast.predictors.metrics import judge
from latcast.predictors.samples import NetworkSample
from latcast.predictors.training import fit_predictor
from latcast.predictors.training_from_store import collect_stored
from latcast.records import Reference
from latcast.spaces import build
from latcast.spaces.training_mix import TRAINING_FAMILIES, published_networks

MIXED_BLOCKS = ("random_mixed", "random_small", "random_mobile", "published_segments")
"""Spaces of the training mix whose networks are made of the blocks of all published families, the tested ones included."""

WITHOUT: Mapping[str, Callable[[Sequence[Reference]], list[str]]] = {
    "random networks of mixed blocks": lambda trained: _spaces(trained, MIXED_BLOCKS),
    "anything that shares blocks": lambda trained: _spaces(trained, (*MIXED_BLOCKS, "block_sequence", *_relatives())),
}
"""What is left out of training to see how much the tested families' own blocks helped: name to the spaces and families.
``block_sequence`` has MobileNetV2's block among its own."""

CARD_FIGURES = ("mape", "within_10", "interval_coverage", "networks", "held_out_by")
"""What the bundle's own card says, to stand beside what was found."""

COMPARED = (
    ("operators", "analytical_gbdt"), ("operators", "analytical"), ("operators", "gbdt"), ("operators", "lasso"),
    ("operators", "random_forest"), ("operators", "mlp"), ("kernels", "analytical_gbdt"), ("networks", "analytical"),
    ("networks", "analytical_gp"),
)  # fmt: skip


def _relatives() -> tuple[str, ...]:
    """Families of training with a published member of the lineage of a tested network."""
    tested = {lineage_of(reference) for reference in test_networks()}
    return tuple(name for name in TRAINING_FAMILIES if not tested.isdisjoint(map(lineage_of, published_networks((name,)))))


def _spaces(trained: Sequence[Reference], names: Sequence[str]) -> list[str]:
    """Those of the names that something was trained on from."""
    return sorted({reference.space for reference in trained} & set(names))


def judge_platform(bench: Bench) -> dict[str, Any]:
    """Judge one platform from what was measured, and keep what was found.

    Raises:
        MeasurementError: Something is not measured yet.
    """
    seen = examined(bench, bench)
    profiled, trained = seen.profiled, seen.trained
    found = seen.evaluate(profiled["platform"])
    [shown] = bench.latcast("platforms", "show", profiled["platform"])["platforms"]
    kinds: Mapping[str, Callable[[Reference], bool]] = {
        "published members": is_published,
        "drawn variants": lambda reference: not is_published(reference),
        "lineages not trained on": _is_of_new_lineage(trained),
    }
    document = {
        **{key: value for key, value in found.items() if key != "schema"},
        "interval": shown["interval"],
        "training": {
            "command": profiled["command"], "minutes": profiled["minutes"], "wall_seconds": profiled["wall_seconds"],
            "training_networks": len(shown["card"]["training_networks"]), "trained_on": shown["card"]["trained_on"],
            "families_tested": len({label.reference.space for label in seen.labels}),
            "card": {key: shown["card"].get(key) for key in CARD_FIGURES},
        },
        "labels": _about_labels(seen.labels),
        "kinds": {name: _part(found["per_network"], belongs) for name, belongs in kinds.items()},
        "without": {name: _without(bench, profiled, choose(trained), seen.evaluate) for name, choose in WITHOUT.items()},
    }  # fmt: skip
    keep(f"accuracy/{bench.name}", document)
    return document


def _is_of_new_lineage(trained: Sequence[Reference]) -> Callable[[Reference], bool]:
    known = {lineage_of(reference) for reference in trained}
    return lambda reference: lineage_of(reference) not in known


def _about_labels(found: Sequence[Label]) -> dict[str, Any]:
    return {
        "networks": len(found),
        "processes": min(label.processes for label in found),
        "rounds": min(label.rounds for label in found),
        "longest_ms": max(label.latency_ms for label in found),
    }


def _part(rows: Sequence[Mapping[str, Any]], belongs: Callable[[Reference], bool]) -> dict[str, Any] | None:
    """The figures of some of the test networks; None where there is none."""
    names = {reference.name for reference in test_networks() if belongs(reference)}
    part = [row for row in rows if row["model"] in names]
    if not part:
        return None
    columns = ("latency_ms", "measured_ms", "low_ms", "high_ms")
    return judge(*(np.array([row[column] for row in part]) for column in columns)).to_json()


def _without(
    bench: Bench, profiled: Mapping[str, Any], names: Sequence[str], judged: Callable[[str], Mapping[str, Any]]
) -> dict[str, Any] | None:
    """The same measurements without those of some spaces and families, trained by the same command; None: too few are left."""
    if not names:
        return None
    bundle = str((bench.folder / "without.zip").absolute())
    leave_out = ",".join(names)
    bench.latcast("train", profiled["store"], "--on", profiled["platform"], "--leave-out", leave_out, "--output", bundle)
    [shown] = bench.latcast("platforms", "show", bundle)["platforms"]
    figures = judged(bundle)
    return {
        **{key: value for key, value in figures.items() if key not in ("schema", "per_network", "baselines")},
        "leave_out": leave_out, "training_networks": len(shown["card"]["training_networks"]),
    }  # fmt: skip


def judge_what_is_learned_from(bench: Bench) -> dict[str, Any]:
    """Training on each source at equal measuring time, on the labels that were taken; kept."""
    platform, rules = bench.platform(), rules_for(bench.runtime, bench.precision)
    with bench.store("labels") as store:
        known = {label.reference.key: label.latency_ms for label in store.labels(platform=platform.id)}
    tests = [
        NetworkSample(reference, find_kernels(build(reference), rules), known[reference.key])
        for reference in test_networks()
        if reference.key in known
    ]
    compared: dict[str, Any] = {}
    for learn_from, model in COMPARED:
        with bench.store(learn_from) as store:
            data = collect_stored(store, platform, rules)
        try:
            predictor = fit_predictor(data, platform, rules, learn_from=learn_from, model=model)
        except TrainingError as problem:  # what was not measured is reported as such
            compared[f"{learn_from}, {model}"] = {"unavailable": str(problem)}
            continue
        compared[f"{learn_from}, {model}"] = {
            "learn_from": learn_from, "model": model, "seconds": LEARN_FROM_SECONDS, "seed": LEARN_FROM_SEEDS[learn_from],
            "training_networks": len(data.networks), "timed_kernels": len(data.profiled) + len(data.isolated),
            **evaluate_samples(predictor, tests).metrics.to_json(),
        }  # fmt: skip
    keep(f"learn_from/{bench.name}", compared)
    return compared
