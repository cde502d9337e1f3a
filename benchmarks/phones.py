"""Predictors of real phones from the published measurements of Li et al., as they are shipped with the package.

CPUs are learned from whole networks alone, CNNs and most transformers, as nothing else was published of them; GPUs from recorded
operations of CNNs, with what is fitted to whole networks on top. TFLite ran the transformers at version 2.15 and the CNNs at
2.10, and no network at both; the platform of 2.10 learns from both as they are. Every figure on a card is of networks held out:
by whole lineages, and beside it by random networks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command import Store as StorePath
from benchmarks.judge import Row, table, target_cell
from latcast.datasets.importers.usc.networks import RUNTIMES, TRANSFORMER_RUNTIMES
from latcast.datasets.store import Store
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import platform_rules, unit_kind
from latcast.predictors.bundle import save_bundle
from latcast.predictors.bundle_index import SHIPPED_FOLDER, file_name, scan_bundles
from latcast.records import Platform, Reference
from latcast.spaces.catalogue import build
from latcast.training.fitting import Trainer
from latcast.training.from_store import AT_RANDOM, judged_at_random, trained_with_card
from latcast.training.samples import TrainingData, collect

LICENCE = "MIT (qed-usc/mobile-ml-benchmark, commit 40ba833)"

SOURCE = "Li, Paolieri and Golubchik, Performance Evaluation 2024: published measurements"

CNNS, TRANSFORMERS = "pytorchcv", "huggingface"
"""Spaces of the networks."""

FEWEST_NETWORKS = 30

POOR_SHARE = 70.0
"""Percent of held-out networks within ±10 % below which a platform's predictions carry a warning."""


# Command


def phones(
    store: StorePath,
    folder: Annotated[Path, typer.Option(help="Where bundles go; the package's own folder by default.")] = SHIPPED_FOLDER,
    jobs: Annotated[int | None, typer.Option(help="Processes; one a CPU by default.")] = None,
    only: Annotated[str, typer.Option(help='Platforms to train, such as "*/gpu/*,*/1large/fp32".')] = "*",
) -> None:
    """Train the shipped predictors of phones and print their mean figures; bundles that are there are kept."""
    for found in build_all(store, folder, jobs, only.split(",")):
        print(f"{found['platform']}: {found['learn_from']}, MAPE {found['mape']:.1f} by lineage, "
              f"{found['random_networks']['mape']:.1f} at random", flush=True)  # fmt: skip
    for row in summary(folder):
        print(json.dumps(row))


# Measurements


def phone_platforms(store: Store) -> list[str]:
    """Return the platforms of which enough buildable networks were measured."""
    from latcast.spaces.measured_only import can_build

    counts: dict[str, int] = {}
    for measurement in store.measurements(role="network", space=CNNS):
        if can_build(measurement.reference):
            counts[measurement.platform] = counts.get(measurement.platform, 0) + 1
    return sorted(name for name, count in counts.items() if count >= FEWEST_NETWORKS)


@cache
def _graph(reference: Reference) -> Graph:
    """Build a network once for all platforms."""
    return build(reference)


@cache
def _known_kernels(rules: str) -> dict[str, tuple[Kernel, ...]]:
    """Return a place for the kernels of networks by key, found once for all platforms with these rules (JSON)."""
    return {}


def measured(path: Path, platform: Platform, space: str = CNNS) -> TrainingData:
    """Return what a store holds of the networks of one space on a platform."""
    rules = platform_rules(platform)
    known = _known_kernels(json.dumps(rules.to_json()))
    with Store(path) as store:
        return collect(store.measurements(platform=platform.id, space=space), rules, _graph, known=known)


_TRANSFORMER_RUNTIME_OF = {RUNTIMES[name]: TRANSFORMER_RUNTIMES[name] for name in RUNTIMES}


def transformer_platform(platform: Platform) -> Platform:
    """Return where the transformers were measured that a platform of CNNs learns from too."""
    runtime, version = _TRANSFORMER_RUNTIME_OF[platform.runtime, platform.runtime_version]
    return replace(platform, runtime=runtime, runtime_version=version)


def learns_from_transformers(platform: Platform) -> bool:
    """Return whether the shipped predictor of a platform also learns from what :func:`transformer_platform` ran, as on CPUs."""
    return unit_kind(platform.unit) == "cpu"


def learned_from(path: Path, platform: Platform) -> TrainingData:
    """Return what the shipped predictor of a platform learns from: its CNNs, and on CPUs the transformers of the same cores."""
    data = measured(path, platform)
    if not learns_from_transformers(platform):
        return data
    return replace(data, networks=(*data.networks, *measured(path, transformer_platform(platform), TRANSFORMERS).networks))


def source_of(data: TrainingData) -> str:
    """Return "operators" where they were recorded, else "networks"."""
    return "operators" if len(data.profiled) > 100 else "networks"


# Training


def build_bundle(path: Path, platform_id: str, folder: Path) -> dict[str, Any]:
    """Train and write the bundle of one platform; return its figures."""
    platform = Platform.parse(platform_id)
    rules = platform_rules(platform)
    data = learned_from(path, platform)
    learn_from = source_of(data)
    predictor = trained_with_card(Trainer(platform, rules, learn_from), data)
    at_random = predictor.card.get("random_networks")
    if not at_random:
        keys = [sample.reference.key for sample in data.networks]
        predicted = Trainer(platform, predictor.rules, learn_from).held_out(data, keys)
        at_random = judged_at_random(predictor, data.networks, predicted)
    beside = transformer_platform(platform)
    learns = any(sample.reference.space == TRANSFORMERS for sample in data.networks)
    elsewhere = f"{beside.runtime}-{beside.runtime_version}" if learns and beside != platform else None
    card = {
        **predictor.card,
        "licence": LICENCE,
        "source": SOURCE if elsewhere is None else f"{SOURCE}, transformers under {elsewhere}",
        "held_out_by": "lineage",
        "random_networks": at_random,
    }
    if card["within_10"] < POOR_SHARE:
        card["warning"] = (
            f"rough for networks unlike those trained on: {card['within_10']:.0f} % of lineages held out were predicted within "
            f"±10 % (MAPE {card['mape']:.1f} %), {at_random['within_10']:.0f} % of random networks"
        )
    save_bundle(predictor.with_card(card), folder / file_name(platform), compressed=True)
    return {
        "platform": platform.id,
        "learn_from": learn_from,
        **{name: card[name] for name in _FIGURES},
        "random_networks": at_random,
    }


KINDS_FIGURES = ("mape", "within_10", "interval_coverage")
"""Figures of CNNs and of transformers in a summary."""

_FIGURES = ("networks", "mape", "within_5", "within_10", "rmse_ms", "rmspe", "spearman", "interval_coverage")


def build_all(
    path: Path, folder: Path = SHIPPED_FOLDER, jobs: int | None = None, only: Sequence[str] = ("*",)
) -> Iterator[dict[str, Any]]:
    """Yield the figures of every platform as its bundle is written; platforms whose bundle is there are left alone.

    Args:
        jobs: Processes; 1 computes in this one.
        only: Patterns of platform ids.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with Store(path) as store:
        wanted = [
            name
            for name in phone_platforms(store)
            if not (folder / file_name(name)).exists() and any(fnmatchcase(name, pattern) for pattern in only)
        ]
    if jobs == 1:
        yield from (build_bundle(path, name, folder) for name in wanted)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(jobs or os.cpu_count()) as pool:
        yield from pool.map(build_bundle, [path] * len(wanted), wanted, [folder] * len(wanted))


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean; None without values, as GPUs ran no transformers and their cards lack some figures of random networks."""
    return float(np.mean(values)) if values else None


TARGETS: dict[str, dict[str, float]] = {
    "tflite cpu fp32": {"cnn": 4.5, "transformer": 10.0}, "tflite cpu int8": {"cnn": 6.0, "transformer": 15.0},
    "tflite gpu fp16": {"cnn": 4.5}, "pytorch cpu fp32": {"cnn": 6.0, "transformer": 10.0},
    "pytorch cpu int8": {"cnn": 6.0, "transformer": 15.0}, "pytorch gpu fp16": {"cnn": 5.0},
}  # fmt: skip
"""MAPE aimed at for networks of lineages held out, by group of :func:`summary` and kind of network."""


def summary(folder: Path = SHIPPED_FOLDER) -> list[dict[str, Any]]:
    """Return mean figures by runtime, kind of unit and precision, of the bundles in a folder."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for entry in scan_bundles([folder]).entries:
        platform = Platform.parse(entry.platform)
        groups.setdefault(f"{platform.runtime} {unit_kind(platform.unit)} {platform.precision}", []).append(dict(entry.card))
    rows = []
    for name, cards in sorted(groups.items()):
        at_random = [card["random_networks"] for card in cards]
        # The figures of a card without spaces are those of CNNs, which alone were learned from.
        of_cnns = [card.get("spaces", {CNNS: card})[CNNS] for card in cards]
        of_transformers = [card["spaces"][TRANSFORMERS] for card in cards if "spaces" in card]
        rows.append(
            {
                "group": name,
                "platforms": len(cards),
                **{f"lineage_{key}": float(np.mean([card[key] for card in cards])) for key in _FIGURES[1:]},
                **{f"cnn_{key}": _mean([found[key] for found in of_cnns]) for key in KINDS_FIGURES},
                **{f"transformer_{key}": _mean([found[key] for found in of_transformers]) for key in KINDS_FIGURES},
                **{f"random_{key}": _mean([figures[key] for figures in at_random if key in figures]) for key in AT_RANDOM},
                "warned": sum("warning" in card for card in cards),
            }
        )
    return rows


# Tables


def phones_table() -> str:
    """Return means over the shipped phones by runtime, kind of unit and precision, from the cards: MAPE / ±10 % / coverage."""
    columns: dict[str, Any] = {"platforms": "{group} ({platforms})"}
    for kind, title in (("cnn", "CNNs"), ("transformer", "transformers")):

        def target(row: Row, kind: str = kind) -> str:
            mape = row[f"{kind}_mape"]
            return "-" if mape is None else target_cell(TARGETS[row["group"]].get(kind), mape)

        figures = f"{{{kind}_mape:.1f}} / {{{kind}_within_10:.0f}} / {{{kind}_interval_coverage:.0f}}"
        columns |= {f"{title} of lineages held out": figures, f"{title}, target: MAPE %": target}
    return table(summary(), columns | {"random networks held out": "{random_mape:.1f} / {random_within_10:.0f}"})
