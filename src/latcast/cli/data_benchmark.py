"""``latcast data import benchmark``: what the runtimes' own benchmark tools printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latcast.cli.latency_units import OPTION, milliseconds_of
from latcast.cli.output import milliseconds, print_json, print_table, warn

if TYPE_CHECKING:
    from latcast.records import Measurement

NAME = "benchmark"

PlatformId = Annotated[
    str | None,
    typer.Option(
        "--platform", help="benchmark: where the tools ran, device/runtime-version/unit/precision, where they do not say it."
    ),
]
Kit = Annotated[
    Path | None,
    typer.Option("--kit", help="benchmark: the folder of the kit that was run, by which networks are known.", file_okay=False),
]


def import_outputs(
    paths: Sequence[Path], *, platform: str | None, kit: Path | None, latency_unit: str, store: str | None, output: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Reads files and keeps their measurements."""
    from latcast.datasets.importers.benchmark_tools import MANIFEST_FILE, KitManifest, output_files, read_outputs
    from latcast.records import Platform

    if kit is None and len(paths) == 1 and (paths[0] / MANIFEST_FILE).is_file():
        kit = paths[0]
    found = read_outputs(
        output_files(paths),
        kit=None if kit is None else KitManifest.read(kit),
        platform=None if platform is None else Platform.parse(platform),
    )
    found = replace(found, measurements=_in_milliseconds(found.measurements, latency_unit))
    if output is not None:
        from latcast.datasets import jsonlines

        added, place = jsonlines.write(output, found.measurements), str(output)
    else:
        added, place = stored(NAME, store, found.measurements)
    for note in found.notes:
        warn(note)
    if as_json:
        print_json(
            {
                "measurements": len(found.measurements),
                "networks": len({item.reference.key for item in found.measurements}),
                "platforms": sorted({item.platform for item in found.measurements}),
                "executed_kernels": sum(len(item.executed) for item in found.measurements),
                "files": [{"name": name, "tools": list(tools)} for name, tools in found.tools.items()],
                "notes": list(found.notes),
                "added": added,
                "store": place,
            }
        )
        return
    print_table(
        "",
        ("network", "platform", "latency ms", "what it is"),
        [
            (item.reference.name, item.platform, milliseconds(item.latency_ms or 0.0), item.statistic)
            for item in found.measurements
        ],
    )
    print(f"{len(found.measurements)} measurements, {added} of them new, in {place}")


def _in_milliseconds(measurements: Sequence[Measurement], unit: str) -> tuple[Measurement, ...]:
    """With the latencies that people wrote down in milliseconds; tools say their unit themselves."""
    from latcast.datasets.importers.benchmark_tools.latencies_csv import CsvReader
    from latcast.devices.latency_table import table_of

    stated = [item.environment["tool"] == CsvReader.name for item in measurements]
    if not any(stated):
        if unit:
            raise typer.BadParameter("only a CSV file's latencies can be of another unit", param_hint=OPTION)
        return tuple(measurements)
    table = table_of(compress(measurements, stated))
    latencies = {
        name: {network: float(value) for network, value in zip(table.networks, row, strict=True) if value == value}
        for name, row in zip(table.platforms, table.latency_ms, strict=True)
    }
    scale = milliseconds_of(unit, latencies, "the CSV file")
    return tuple(
        replace(item, latency_ms=scale * (item.latency_ms or 0.0), raw_latency_ms=scale * (item.raw_latency_ms or 0.0))
        if is_stated
        else item
        for item, is_stated in zip(measurements, stated, strict=True)
    )


def stored(dataset: str, store: str | None, measurements: Sequence[Measurement]) -> tuple[int, str]:
    """Adds measurements to a store, by default the dataset's in the user's folder.

    Returns:
        How many are new, and where the store is.
    """
    from latcast.datasets.store import Store
    from latcast.folders import made, measurements_folder

    if store is None:
        file = measurements_folder() / f"{dataset}.sqlite"
        made(file.parent)
        store = str(file)
    with Store(store) as kept:
        return kept.add_all(measurements), kept.location
