"""``python -m benchmarks.hub COMMAND``: a hub under load, attack and faults. Every command ends by itself; --json for scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.result_files import keep
from latcast.cli.output import print_table

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Keep = Annotated[bool, typer.Option("--keep", help="Write the rows to benchmarks/results/hub, of which pages are made.")]
Url = Annotated[str, typer.Option("--database", help="URL of an empty PostgreSQL database; a SQLite file of its own otherwise.")]


def _row(found: Any) -> dict[str, Any]:
    """Return the fields and properties of figures."""
    if isinstance(found, dict):
        return found
    derived = [name for name, each in vars(type(found)).items() if isinstance(each, property)]
    return {**asdict(found), **{name: getattr(found, name) for name in derived}}


def _show(found: Sequence[Any], as_json: bool) -> None:
    rows = [_row(each) for each in found]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    names = list(rows[0])
    cells = [[f"{row[name]:.4g}" if isinstance(row[name], float) else str(row[name]) for name in names] for row in rows]
    print_table("", names, cells)


@app.command()
def uploads(database: Url = "", count: int = 512, clients: int = 16, as_json: AsJson = False) -> None:
    """Upload while the server is killed twice with SIGKILL; count what is lost, doubled or strange afterwards."""
    from benchmarks.hub.serving import upload_under_fire

    _show([upload_under_fire(database or None, count, clients)], as_json)


@app.command()
def reads(database: Url = "", workers: int = 1, count: int = 3000, as_json: AsJson = False) -> None:
    """Measure reads a CPU-second at 1, 16 and 64 connections, with one upload in between."""
    from benchmarks.hub.serving import read_rates

    _show(read_rates(reads=count, database=database or None, workers=workers), as_json)


@app.command()
def fit(devices: int = 1000, networks: int = 500, as_json: AsJson = False) -> None:
    """Measure time and memory of a fit, of a new device's upload afterwards, and of the next fit."""
    from benchmarks.hub.fitting import fitting

    _show([fitting(devices, networks)], as_json)


@app.command()
def attack(honest: int = 66, fakes: int = 66, as_json: AsJson = False) -> None:
    """Measure how fake devices change the errors of others, and three records what is shown for a network."""
    from benchmarks.hub.attack import fake_devices, few_records

    devices, shown = fake_devices(honest, fakes), few_records()
    if as_json:
        print(json.dumps({"devices": [*map(_row, devices)], "shown": [*map(_row, shown)]}, indent=1))
        return
    _show(devices, False)
    _show(shown, False)


@app.command()
def poison(honest: int = 20, fakes: int = 20, kept: Keep = False, as_json: AsJson = False) -> None:
    """Measure how contributors whose latencies are all 1.3 times too long change what is shown and predicted of a platform."""
    from benchmarks.hub.attack import poisoned_platform

    found = poisoned_platform(honest, fakes)
    if kept:
        keep("hub/poison", [*map(_row, found)])
    _show(found, as_json)


@app.command()
def doubt(
    seeds: int = 3,
    phones: Annotated[Path | None, typer.Option(help="Folder of the dataset of Ganesan et al.: also count real phones.")] = None,
    kept: Keep = False,
    as_json: AsJson = False,
) -> None:
    """Count what is held back of strangers whose latencies are too long or too short by a factor, and of honest ones."""
    from benchmarks.hub.attack import doubts, phones_of_one_model

    found = [*doubts(seeds), *(phones_of_one_model(phones) if phones else [])]
    if kept:
        keep("hub/doubt", [*map(_row, found)])
    _show(found, as_json)


@app.command()
def starve(as_json: AsJson = False) -> None:
    """Measure how long a user waits while two strangers send twelve costly models at a time."""
    from benchmarks.hub.bombs import starve
    from benchmarks.hub.serving import Server, free_port, hub_location

    with hub_location(None) as (location, folder):
        server = Server(location, free_port(), folder / "server.log", limited=True)
        server.start()
        try:
            server.wait()
            _show([starve(server.url)], as_json)
        finally:
            server.stop()


@app.command()
def faults(as_json: AsJson = False) -> None:
    """Try a full disk, a locked database, wrong clocks and a killed server; exit with 1 where one of them does harm."""
    from benchmarks.hub.faults import clocks, disk_full, locked, orphans

    found = [disk_full(), locked(), clocks()]
    left = orphans()
    if as_json:
        _show([*found, left], True)
    else:
        _show(found, False)
        _show([left], False)
    if left["left"] or not all(each.passed for each in found):
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
