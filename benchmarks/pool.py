"""Platforms of the shipped pool on networks held out: by kind of unit, by what is held out, CNNs and transformers apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.phones import learns_from_transformers, transformer_platform
from benchmarks.result_files import keep
from benchmarks.tables import markdown_table
from latcast.devices.arbitration import NEW_LINEAGES, NEW_NETWORKS, NOTHING, Tried
from latcast.devices.device_model import KnownPlatform
from latcast.devices.device_model_fit import FEWEST_NETWORKS, Watch, fit_device_model, unwatched
from latcast.devices.known_forecasts import (
    UNSTABLE_PERCENT,
    About,
    HeldOut,
    about_platforms,
    held_out,
    known_arbitration,
    pool_members,
    try_known,
)
from latcast.devices.known_platforms import KnownPlatforms, known_platforms
from latcast.errors import LatcastError
from latcast.predictors.bundle_index import SHIPPED_FOLDER, pool_path, scan_bundles, shipped_pool
from latcast.predictors.network_features import TERM_NAMES
from latcast.predictors.pool_file import save_pool
from latcast.records import Measurement, Platform
from latcast.spaces.iiswc20 import NAME as IISWC20

CASES: Mapping[str, str] = {
    NOTHING: "that others ran and it did not",
    NEW_NETWORKS: "that nobody ran, of lineages that it may have run",
    NEW_LINEAGES: "of lineages that nobody ran",
}

WITHOUT_DRAWN = "cpu, without drawn networks"
"""The kind of a row of CPUs without those of Ganesan et al., which are many and ran the same networks, nearly all of them drawn
from one block."""

KINDS_OF_ROWS = ("cpu", WITHOUT_DRAWN, "gpu", "npu")


def kinds_of_rows(platform: KnownPlatform) -> tuple[str, ...]:
    """The kinds of rows that a platform is judged in."""
    drawn = platform.kind != "cpu" or platform.source == IISWC20
    return (platform.kind,) if drawn else (platform.kind, WITHOUT_DRAWN)


def unit_title(kind: str, plural: str = "") -> str:
    """A kind of rows as tables name it: "CPUs, without drawn networks"."""
    unit, comma, rest = kind.partition(",")
    return unit.upper() + plural + comma + rest


FEWEST_DEVICES, FEWEST_PLATFORMS = 140, 500
LEAST_COVERAGE, MOST_COVERAGE = 85, 95
MOST_BYTES = 25_000_000


def read_pool(
    measurements: Sequence[tuple[str, Measurement]], watch: Watch
) -> tuple[KnownPlatforms, dict[str, About], frozenset[str], dict[str, int]]:
    """The pool, what is said of its platforms, those to ship, and reason to how many others there are."""
    about = about_platforms(measurements)
    pool = known_platforms(measurements, watch)
    bundles = {name for entry in scan_bundles([SHIPPED_FOLDER]).entries for name in _learned_by_bundle(entry.platform)}
    reasons = {"fewer than four networks with a graph": 0, "unstable": 0, "a bundle of its own": 0}
    wanted = set()
    for each in pool.platforms:
        if each.name in bundles:
            reasons["a bundle of its own"] += 1
        elif about[each.name].unstable:
            reasons["unstable"] += 1
        elif len(each.networks) < FEWEST_NETWORKS:
            reasons["fewer than four networks with a graph"] += 1
        else:
            wanted.add(each.name)
    # An unstable platform teaches the others nothing either.
    stable = tuple(each for each in pool.platforms if each.name in bundles or not about[each.name].unstable)
    return replace(pool, platforms=stable), about, frozenset(wanted), reasons


def _learned_by_bundle(name: str) -> tuple[str, ...]:
    """The platform of a shipped bundle, and the one at another version whose transformers the bundle learned from."""
    platform = Platform.parse(name)
    return (name, transformer_platform(platform).id) if learns_from_transformers(platform) else (name,)


def rows_of(pool: KnownPlatforms, judged: Mapping[tuple[str, str], HeldOut]) -> list[dict[str, Any]]:
    """Rows of the table: kind of unit, what is held out, which networks, and the figures."""
    place = TERM_NAMES.index("flops matmul")
    matmul = pool.features.terms[:, place] > 0
    every = (("all", None), ("CNNs", ~matmul), ("transformers", matmul))
    rows = []
    platforms = {each.name: each for each in pool.platforms}
    for kind in KINDS_OF_ROWS:
        for case in CASES:
            among = [found for (name, held), found in judged.items() if held == case and kind in kinds_of_rows(platforms[name])]
            for title, chosen in every[:1] if kind == WITHOUT_DRAWN else every:
                parts = [_of(found, chosen) for found in among]
                parts = [part for part in parts if len(part.error)]
                if parts:
                    rows.append({"kind": kind, "held_out": case, "networks": title, **_figures(parts)})
    return rows


def _of(found: HeldOut, chosen: np.ndarray | None) -> HeldOut:
    if chosen is None:
        return found
    part = chosen[found.networks]
    return HeldOut(
        found.error[part], found.deviation[part], found.log_ms[part], found.networks[part], found.simple_error[part],
    )  # fmt: skip


def _figures(parts: Sequence[HeldOut]) -> dict[str, float]:
    """Means over platforms, each weighing the same; coverage over all predictions."""
    apes = [100 * np.abs(np.expm1(-part.error)) for part in parts]
    simple = [100 * np.abs(np.expm1(-part.simple_error)).mean() for part in parts]
    inside = np.concatenate([part.inside for part in parts])
    width = np.concatenate([part.deviation for part in parts])
    return {
        "platforms": len(parts),
        "predictions": len(inside),
        "mape": float(np.mean([ape.mean() for ape in apes])),
        "median_mape": float(np.median([ape.mean() for ape in apes])),
        "within_5": float(np.mean([100 * (ape <= 5).mean() for ape in apes])),
        "within_10": float(np.mean([100 * (ape <= 10).mean() for ape in apes])),
        "coverage": 100 * float(inside.mean()),
        "width": float(np.exp(2 * 1.645 * np.median(width))),
        "flops_and_memory_mape": float(np.mean(simple)),
    }


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table, FLOPs and memory beside."""
    head = ["unit", "tested networks", "which", "platforms", "predictions", "MAPE mean (median) %", "±5 %", "±10 %",
            "in the 90 % interval %", "high/low", "FLOPs+MAC MAPE %"]  # fmt: skip
    return markdown_table(
        head,
        [
            [
                unit_title(row["kind"]), CASES[row["held_out"]], row["networks"], str(row["platforms"]), str(row["predictions"]),
                f"{row['mape']:.1f} ({row['median_mape']:.1f})", f"{row['within_5']:.0f}", f"{row['within_10']:.0f}",
                f"{row['coverage']:.0f}", f"{row['width']:.2f}", f"{row['flops_and_memory_mape']:.1f}",
            ]
            for row in rows
        ],
    )  # fmt: skip


def sources_table() -> str:
    """What the shipped pool holds, by data set."""
    pool = shipped_pool()
    if pool is None:
        raise LatcastError("no pool is here; write it with: python -m benchmarks pool --ship")
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for name in pool.platforms:
        card = pool.card(name)
        found.setdefault(card["source"], []).append((name, card))
    rows = []
    for source, listed in sorted(found.items()):
        kinds = Counter(card["unit_kind"] for _, card in listed)
        errors = [card["label_error"] for _, card in listed if "label_error" in card]
        rows.append(
            [
                source, str(len({name.partition("/")[0] for name, _ in listed})),
                ", ".join(f"{count} {kind.upper()}" for kind, count in sorted(kinds.items())),
                f"{np.median([card['measurements'] for _, card in listed]):.0f}",
                f"{np.median(errors):.1f} ({len(errors)})" if errors else "not known",
                re.sub(r", commit [^,()]*\)$", ")", str(listed[0][1]["licence"])),
            ]
        )  # fmt: skip
    head = ["data set", "devices", "platforms", "networks (median)", "label error % (platforms)", "licence"]
    return markdown_table(head, rows)


def missed_coverage(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each row whose interval misses its aim."""
    return [
        f"{row['kind']}, networks {CASES[row['held_out']]}: {row['coverage']:.1f} % inside the interval, aimed at "
        f"{LEAST_COVERAGE} to {MOST_COVERAGE}"
        for row in rows
        if row["networks"] == "all" and not LEAST_COVERAGE <= row["coverage"] <= MOST_COVERAGE
    ]


def missed(rows: Sequence[Mapping[str, Any]], platforms: Collection[str], size_bytes: int | None) -> list[str]:
    """Aims that are missed, a sentence each."""
    found = missed_coverage(rows)
    devices = {name.partition("/")[0] for name in platforms}
    if len(platforms) < FEWEST_PLATFORMS or len(devices) < FEWEST_DEVICES:
        found.append(f"{len(platforms)} platforms of {len(devices)} devices, aimed at {FEWEST_PLATFORMS} of {FEWEST_DEVICES}")
    if size_bytes is not None and size_bytes > MOST_BYTES:
        found.append(f"{size_bytes / 1e6:.1f} MB, aimed at {MOST_BYTES / 1e6:.0f}")
    return found


def ship(
    pool: KnownPlatforms, tried: Sequence[Tried], wanted: Collection[str], about: Mapping[str, About], *, seed: int, watch: Watch
) -> Path:
    """Fits the model to the whole pool and writes the posterior of every platform to ship."""
    model = replace(fit_device_model(pool.platforms, pool.features, seed=seed, watch=watch), arbitration=known_arbitration(tried))
    cards = {name: found.card for name, found in about.items()}
    members = list(pool_members(pool, model, held_out(tried), wanted, cards, watch))
    return save_pool(members, pool_path())


def save(
    rows: Sequence[Mapping[str, Any]], wanted: Collection[str], reasons: Mapping[str, int], about: Mapping[str, About]
) -> None:
    """Keep the rows and what they are of."""
    percents = [about[name].repeat_percent for name in wanted]
    errors = [percent / 2 for percent in percents if percent is not None]
    document = {
        "platforms": len(wanted), "devices": len({name.partition("/")[0] for name in wanted}), "left_out": dict(reasons),
        "unstable_percent": UNSTABLE_PERCENT, "label_error": {"platforms": len(errors), "median": float(np.median(errors))},
        "rows": list(rows),
    }  # fmt: skip
    keep("pool", document)


def run(
    measurements: Sequence[tuple[str, Measurement]], *, seed: int = 0, shipped: bool = False, watch: Watch = unwatched
) -> tuple[str, list[str]]:
    """Judges the pool, keeps what was found, and ships it where that is asked for.

    Returns:
        The table, and what misses its aim.
    """
    pool, about, wanted, reasons = read_pool(measurements, watch)
    tried = try_known(pool, wanted, seed=seed, watch=watch)
    rows = rows_of(pool, held_out(tried))
    path = ship(pool, tried, wanted, about, seed=seed, watch=watch) if shipped else None
    save(rows, wanted, reasons, about)
    return markdown(rows), missed(rows, wanted, None if path is None else path.stat().st_size)
