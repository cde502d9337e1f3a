"""Options that several commands of ``python -m benchmarks`` share, and how they report progress on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from latcast.cli.output import console
from latcast.measure.campaign import Progress

Cpu = Annotated[int | None, typer.Option(help="CPU to pin to; the last one by default.")]
Cap = Annotated[str, typer.Option(help="Newest instruction set that all processes see: sse42, avx, avx2 or avx512; empty: all.")]
Minutes = Annotated[float, typer.Option(help="Budget of the profile that is judged.", min=0.1)]
Processes = Annotated[int, typer.Option(help="Passes over the networks, a process each.", min=1)]
Rounds = Annotated[int, typer.Option(help="Rounds in each pass.", min=1)]
Judge = Annotated[bool, typer.Option(help="Judge at the end.")]
Data = Annotated[Path, typer.Option(help="Folder of the published datasets, a folder each.")]
Seed = Annotated[int, typer.Option(help="Of folds and draws.")]
Store = Annotated[Path, typer.Argument(help="Store that `latcast data import usc DIR --store` wrote.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

PUBLISHED = Path("../shared/data")
"""Default folder of the published datasets."""

SAY_EVERY_S = 10.0
"""Enough for a log, little for a terminal."""


def say(text: object) -> None:
    """Print a line on standard error."""
    console(stderr=True).print(text)


def print_campaign(name: str) -> Callable[[Progress], None]:
    """Return a watch of campaigns that prints a line every :data:`SAY_EVERY_S`."""
    last = 0.0

    def watch(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last > SAY_EVERY_S:
            last = time.monotonic()
            say(f"{name}: {progress.done}/{progress.total}, {progress.failed} failed, {progress.seconds:.0f} s, {progress.name}")

    return watch


def print_stages() -> Callable[[str, int, int], None]:
    """Return a watch of long computations that prints each stage when it is done, and each fold of the splits."""
    last = ""

    def watch(what: str, done: int, total: int) -> None:
        nonlocal last
        line = f"{what}: {100 * done // max(total, 1)} %"
        if line != last and (done == total or "leaving" in what):
            say(line)
        last = line

    return watch
