"""Platforms of the shipped pool on networks held out: by kind of unit, by what is held out, CNNs and transformers apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command import PUBLISHED, Data, print_stages, say
from benchmarks.judge import (
    LEAST_COVERAGE,
    MOST_COVERAGE,
    Row,
    absolute_percentage,
    figures_of_logarithms,
    is_off_level,
    mean_over_platforms,
    table,
)
from benchmarks.phones import learns_from_transformers, transformer_platform
from benchmarks.result_files import keep, kept
from latcast.devices.device_model import KnownPlatform
from latcast.errors import LatcastError
from latcast.predictors.bundle_index import SHIPPED_FOLDER, pool_path, scan_bundles, shipped_pool
from latcast.predictors.intervals import LEVEL_DEVIATIONS
from latcast.predictors.network_features import TERM_NAMES
from latcast.records import Measurement, Platform
from latcast.spaces.iiswc20 import NAME as IISWC20
from shipping.arbitration import NEW_LINEAGES, NEW_NETWORKS, NOTHING, MemberForecasts
from shipping.device_model_fit import FEWEST_NETWORKS, Watch, fit_device_model
from shipping.files import save_pool
from shipping.known_forecasts import (
    UNSTABLE_PERCENT,
    About,
    PlatformErrors,
    about_platforms,
    held_out,
    joined,
    known_arbitration,
    pool_members,
    try_known,
)
from shipping.known_platforms import KnownPlatforms, known_platforms, read_datasets

CASES: Mapping[str, str] = {
    NOTHING: "run by others only",
    NEW_NETWORKS: "not run, of lineages that it may have run",
    NEW_LINEAGES: "of lineages not run",
}
"""Case of holding out to the name of its tested networks in tables."""

WITHOUT_DRAWN = "cpu, without drawn networks"
"""The kind of a row of CPUs without those of Ganesan et al., which are many and ran the same networks, nearly all drawn from one
block."""

KINDS_OF_ROWS = ("cpu", WITHOUT_DRAWN, "gpu", "npu")

FEWEST_DEVICES, FEWEST_PLATFORMS = 140, 500
"""In the shipped pool."""

MOST_BYTES = 25_000_000
"""Largest size of the pool's file."""


# Command


def pool(
    data: Data = PUBLISHED,
    seeds: Annotated[int, typer.Option(help="Seeds of folds and draws; figures are means over them.", min=1)] = 2,
    ship: Annotated[bool, typer.Option("--ship", help="Write the shipped pool, too, with the first seed's folds.")] = False,
) -> None:
    """Judge platforms that others measured, on networks held out."""
    watch = print_stages()
    known, about, wanted, reasons = read_pool(list(read_datasets(data)), watch)
    tried = [try_known(known, wanted, seed=seed, watch=watch) for seed in range(seeds)]
    rows = rows_of(known, of_all_seeds([held_out(each) for each in tried]))
    percents = [about[name].repeat_percent for name in wanted]
    errors = [percent / 2 for percent in percents if percent is not None]
    document = {
        "platforms": len(wanted), "devices": len({name.partition("/")[0] for name in wanted}), "left_out": dict(reasons),
        "unstable_percent": UNSTABLE_PERCENT, "label_error": {"platforms": len(errors), "median": float(np.median(errors))},
        "rows": rows,
    }  # fmt: skip
    keep("pool", document)
    print(pool_table())
    size_bytes = ship_pool(known, tried[0], wanted, about, watch=watch).stat().st_size if ship else None
    for text in missed(rows, wanted, size_bytes):
        say(f"missed: {text}")


# Kinds of rows


def kinds_of_rows(platform: KnownPlatform) -> tuple[str, ...]:
    """Return the kinds of rows that a platform is judged in."""
    drawn = platform.kind != "cpu" or platform.source == IISWC20
    return (platform.kind,) if drawn else (platform.kind, WITHOUT_DRAWN)


def unit_title(kind: str, plural: str = "") -> str:
    """Return a kind of rows as tables name it: "CPUs, without drawn networks"."""
    unit, comma, rest = kind.partition(",")
    return unit.upper() + plural + comma + rest


def read_pool(
    measurements: Sequence[tuple[str, Measurement]], watch: Watch
) -> tuple[KnownPlatforms, dict[str, About], frozenset[str], dict[str, int]]:
    """Return the pool, facts about its platforms, the platforms to ship, and why how many others are left out."""
    about = about_platforms(measurements)
    pool = known_platforms(measurements, watch)
    bundles = set()
    for entry in scan_bundles([SHIPPED_FOLDER]).entries:
        bundles.add(entry.platform)
        platform = Platform.parse(entry.platform)
        if learns_from_transformers(platform):
            bundles.add(transformer_platform(platform).id)
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
    # Others do not learn from an unstable platform either.
    stable = tuple(each for each in pool.platforms if each.name in bundles or not about[each.name].unstable)
    return replace(pool, platforms=stable), about, frozenset(wanted), reasons


# Judging


def of_all_seeds(judged: Sequence[Mapping[tuple[str, str], PlatformErrors]]) -> dict[tuple[str, str], PlatformErrors]:
    """Join the predictions of each platform and what is held out, of each seed's folds."""
    return joined({key: [each[key] for each in judged if key in each] for key in dict.fromkeys(chain.from_iterable(judged))})


def rows_of(pool: KnownPlatforms, judged: Mapping[tuple[str, str], PlatformErrors]) -> list[dict[str, Any]]:
    """Return rows of kind of unit, what is held out, which networks, and the figures."""
    matmul = pool.features.terms[:, TERM_NAMES.index("flops matmul")] > 0
    which = {"all": matmul | True, "CNNs": ~matmul, "transformers": matmul}
    platforms = {each.name: each for each in pool.platforms}
    rows = []
    for kind in KINDS_OF_ROWS:
        for case in CASES:
            among = {
                name: found for (name, held), found in judged.items() if held == case and kind in kinds_of_rows(platforms[name])
            }
            for title in ("all",) if kind == WITHOUT_DRAWN else which:
                parts = {name: _of(found, which[title]) for name, found in among.items()}
                parts = {name: part for name, part in parts.items() if len(part.error)}
                if parts:
                    chips = [platforms[name].silicon for name in parts]
                    rows.append({"kind": kind, "held_out": case, "networks": title, **_figures([*parts.values()], chips)})
    return rows


def _of(found: PlatformErrors, chosen: np.ndarray) -> PlatformErrors:
    part = chosen[found.networks]
    arrays = (found.error, found.deviation, found.log_ms, found.networks, found.simple_error)
    return PlatformErrors(*(each[part] for each in arrays))


def _figures(parts: Sequence[PlatformErrors], chips: Sequence[str]) -> dict[str, Any]:
    """Return means over platforms, each weighing the same; coverage and width over all predictions."""
    figures = mean_over_platforms([figures_of_logarithms(part.error, part.deviation, part.log_ms) for part in parts], chips)
    shown = ("mape", "median_mape", "mape_interval", "within_5", "within_10")
    inside = np.concatenate([part.inside for part in parts])
    width = float(np.exp(2 * LEVEL_DEVIATIONS * np.median(np.concatenate([part.deviation for part in parts]))))
    simple = float(np.mean([absolute_percentage(part.simple_error).mean() for part in parts]))
    return {
        "platforms": len(parts), "predictions": len(inside), **{name: figures[name] for name in shown},
        "coverage": 100 * float(inside.mean()), "width": width, "flops_and_memory_mape": simple,
    }  # fmt: skip


def missed_coverage(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each row whose interval misses its aim."""
    return [
        f"{row['kind']}, networks {CASES[row['held_out']]}: {row['coverage']:.1f} % inside the interval, aimed at "
        f"{LEAST_COVERAGE:.0f} to {MOST_COVERAGE:.0f}"
        for row in rows
        if row["networks"] == "all" and is_off_level(row["coverage"])
    ]


def missed(rows: Sequence[Row], platforms: Collection[str], size_bytes: int | None) -> list[str]:
    """Return a sentence for each aim that is missed."""
    found = missed_coverage(rows)
    devices = {name.partition("/")[0] for name in platforms}
    if len(platforms) < FEWEST_PLATFORMS or len(devices) < FEWEST_DEVICES:
        found.append(f"{len(platforms)} platforms of {len(devices)} devices, aimed at {FEWEST_PLATFORMS} of {FEWEST_DEVICES}")
    if size_bytes is not None and size_bytes > MOST_BYTES:
        found.append(f"{size_bytes / 1e6:.1f} MB, aimed at {MOST_BYTES / 1e6:.0f}")
    return found


def ship_pool(
    pool: KnownPlatforms,
    tried: Sequence[MemberForecasts],
    wanted: Collection[str],
    about: Mapping[str, About],
    *,
    watch: Watch,
) -> Path:
    """Fit the model to the whole pool and write the posterior of every platform to ship."""
    model = replace(fit_device_model(pool.platforms, pool.features, watch=watch), arbitration=known_arbitration(tried))
    cards = {name: found.card for name, found in about.items()}
    members = list(pool_members(pool, model, held_out(tried), wanted, cards, watch))
    return save_pool(members, pool_path())


# Tables


def pool_table() -> str:
    """Return a line for each kind of unit and of tested networks, with transformers and FLOPs and memory beside."""
    found = kept("pool")["rows"]
    of_transformers = {(row["kind"], row["held_out"]): row for row in found if row["networks"] == "transformers"}
    rows = [
        row for row in found if row["networks"] == "all" and (row["kind"] != WITHOUT_DRAWN or row["held_out"] == NEW_LINEAGES)
    ]
    return table(
        [{**row, "transformers": of_transformers.get((row["kind"], row["held_out"]))} for row in rows],
        {
            "unit": lambda row: unit_title(row["kind"]), "tested networks": lambda row: CASES[row["held_out"]],
            "platforms": "{platforms}", "MAPE mean (median) %": "{mape:.1f} ({median_mape:.1f})", "±10 %": "{within_10:.0f}",
            "in the 90 % interval %": "{coverage:.0f}", "high/low": "{width:.2f}",
            "transformers: MAPE %": "{transformers[mape]:.0f}", "FLOPs+MAC MAPE %": "{flops_and_memory_mape:.0f}",
        },
    )  # fmt: skip


def sources_table() -> str:
    """Return what the shipped pool holds, by data set; licences without the commits, which cards have."""
    known = shipped_pool()
    if known is None:
        raise LatcastError("no pool is here; write it with: python -m benchmarks pool --ship")
    found: dict[str, list[tuple[str, Row]]] = {}
    for name in known.platforms:
        card = known.card(name)
        found.setdefault(card["source"], []).append((name, card))
    rows = []
    for source, listed in sorted(found.items()):
        kinds = Counter(card["unit_kind"] for _, card in listed)
        errors = [card["label_error"] for _, card in listed if "label_error" in card]
        rows.append(
            {
                "source": source, "devices": len({name.partition("/")[0] for name, _ in listed}),
                "platforms": ", ".join(f"{count} {kind.upper()}" for kind, count in sorted(kinds.items())),
                "networks": np.median([card["measurements"] for _, card in listed]),
                "error": f"{np.median(errors):.1f} ({len(errors)})" if errors else "not known",
                "licence": re.sub(r"(?:,| to)?(?: commit)? [0-9a-f]{7,40}\b(?: \([^()]*\))?", "", str(listed[0][1]["licence"])),
            }
        )  # fmt: skip
    return table(
        rows,
        {
            "data set": "{source}", "devices": "{devices}", "platforms": "{platforms}", "networks (median)": "{networks:.0f}",
            "label error % (platforms)": "{error}", "licence": "{licence}",
        },
    )  # fmt: skip
