"""``python -m benchmarks platforms``: transfer over more than twenty platforms of one machine.

draw               lists what is measured (minutes of computing, no measuring)
list               every platform, and what was measured on it so far
measure NAME...    the pieces of some platforms that are missing; all of them without a name
judge              the results and tables from what was measured
tables             the tables again, from the results that are kept
"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from latcast.cli.output import console
from latcast.measure.campaign import Progress

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@app.command()
def draw() -> None:
    """Draws test networks, whole networks and kernels; what was drawn stays."""
    from benchmarks.platforms_campaign import draw

    draw(lambda name: console(stderr=True).print(f"drawing {name}"))


@app.command(name="list")
def listed() -> None:
    """Platforms and their pieces."""
    from benchmarks.platforms_campaign import PLATFORMS, progress_of

    for each in PLATFORMS:
        pieces = ", ".join(f"{name} {found['added']} in {found['seconds']:.0f} s" for name, found in progress_of(each).items())
        print(f"{each.name:<22} {'warm-up' if each.warm_up else 'target':<8} {pieces or 'nothing yet'}")


@app.command()
def measure(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Platforms, as list names them.")] = None,
    cpu: Annotated[int | None, typer.Option(help="CPU to pin to; the last one by default.")] = None,
) -> None:
    """Measures what is missing."""
    from benchmarks.platforms_campaign import PLATFORMS, bench_platform, measure

    last = 0.0
    for name in names or [each.name for each in PLATFORMS]:

        def watch(piece: str, progress: Progress, name: str = name) -> None:
            nonlocal last
            if time.monotonic() - last > 10:
                last = time.monotonic()
                console(stderr=True).print(
                    f"{name} {piece}: {progress.done}/{progress.total}, {progress.failed} failed, {progress.seconds:.0f} s"
                )

        measure(bench_platform(name), cpu, watch)


@app.command()
def judge() -> None:
    """Judges every platform that was measured, keeps the results and prints the tables."""
    from benchmarks.platforms import judge_all, platforms_table

    print(platforms_table(judge_all()))


@app.command()
def tables() -> None:
    """Prints the tables from the kept results, without what was measured."""
    from benchmarks.platforms import platforms_table
    from benchmarks.result_files import kept

    print(platforms_table(kept("platforms")))
