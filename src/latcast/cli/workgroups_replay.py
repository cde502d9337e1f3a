"""``latcast workgroups replay``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latcast.cli.options import AsJson
from latcast.cli.output import milliseconds, percent, print_json, print_table, warn

if TYPE_CHECKING:
    from latcast.workgroups.audit import Audit, Summary


def command(
    cache: Annotated[
        Path, typer.Argument(metavar="CACHE", help="Cache file of Kernel Tuner (.json, .json.gz), or what measure wrote.")
    ],
    device: Annotated[
        str, typer.Option("--device", "-d", help="Device profile. [default: found by the device's name in the file]")
    ] = "",
    each: Annotated[bool, typer.Option("--each", help="Show every kernel variant.")] = False,
    as_json: AsJson = False,
) -> None:
    """What a measured sweep says: how repeatable it is, and what rules, defaults and tuning would have given."""
    from latcast.workgroups.audit import audit, summarise
    from latcast.workgroups.devices import load_profile
    from latcast.workgroups.kernel_tuner_cache import read_cache

    sweeps = read_cache(cache, load_profile(device) if device else None)
    found = [audit(sweep) for sweep in sweeps]
    if as_json:
        print_json({"cache": str(cache), "device": sweeps[0].device.to_json(), "sweeps": [item.to_json() for item in found]})
        return
    if each or len(found) == 1:
        _print_each(found)
    _print_summary(summarise(f"{sweeps[0].operator} on {sweeps[0].device.title}", found))
    for item in found:
        if item.refused:
            warn(item.refused)


def _print_each(found: Sequence[Audit]) -> None:
    rows = []
    for item in found:
        sweep = item.sweep
        best = "-" if item.refused else str(sweep.sizes[int(sweep.latency_ms.argmin())])
        rows.append(
            [
                sweep.variant_name or sweep.operator,
                str(len(sweep.sizes)),
                "-" if sweep.rounds < 2 else f"{sweep.repeatability:.2f}",
                best,
                milliseconds(float(sweep.latency_ms.min())),
                f"{sweep.relative.max():.2f}",
                "-" if item.refused else percent(100 * sweep.competitive_share),
            ]
        )
    print_table("", ("variant", "sizes", "repeatability", "best", "ms", "worst over best", "within 15 % of best %"), rows)
    print()


def _print_summary(found: Summary) -> None:
    variants = f"{found.ranked} of {found.sweeps} sweeps ranked, {found.sizes:.0f} sizes each on average"
    repeated = "-" if found.repeatability is None else "{:.2f}, least {:.2f}".format(*found.repeatability)
    print_table(
        f"{found.title}: {variants}",
        ("", ""),
        [
            ["repeatability (split-half rank correlation)", repeated],
            ["worst over best", _number(found.worst_over_best)],
            ["sizes within 15 % of the best", f"{percent(None if found.competitive is None else 100 * found.competitive)} %"],
        ],
    )
    if not found.ranked:
        return
    scores = [["random filter", _number(found.chance), "0.00"]]
    scores += [
        [f"rule {rule}", *(("-", "-") if pair is None else (f"{pair[0]:.2f}", f"{pair[1]:+.2f}"))]
        for rule, pair in found.scores.items()
    ]
    print_table("\nimportance (eq. 8)", ("", "score", "above chance"), scores)
    ways = [
        [way, f"{values[0]:.2f}", f"{values[1]:.2f}", f"{values[2]:.0f}", "-" if values[3] is None else f"{values[3] / 1e3:.1f}"]
        for way, values in found.ways.items()
        if values is not None
    ]
    print_table("\nlatency over the best size's", ("way", "mean", "worst", "sizes tried", "tuning s"), ways)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
