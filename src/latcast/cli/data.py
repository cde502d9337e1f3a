"""``latcast data``: published measurements in, what is in them, what stock tools printed; the benchmark of variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from latcast.cli import options
from latcast.cli.data_variants import export, rounds, sample, variants
from latcast.cli.lazy_group import command_group
from latcast.cli.output import CHECK_FAILED, StageProgress, milliseconds, print_json, print_table, warn
from latcast.errors import abridged
from latcast.extras import require
from latcast.tables import signed

if TYPE_CHECKING:
    from latcast.datasets.importers import Imported, NetworkCheck
    from latcast.records import Measurement

BENCHMARK = "benchmark"
"""What stock tools printed, in place of a published dataset's name."""

app = command_group("""Published measurements in, and what is in them; networks and kernels to measure.

\b
Examples:
  latcast data list
  latcast data import usc DIR
  latcast data import benchmark kit -o few.jsonl
  latcast data variants -o variants.parquet --count 100
  latcast data sample conv -n 5
""")


IMPORTERS_TABLE = "latcast.datasets.importers:IMPORTERS"

Dataset = Annotated[
    str,
    Argument(
        metavar="DATASET",
        help="A published dataset (latcast data list).",
        callback=options.one_of(IMPORTERS_TABLE),
        show_default=False,
    ),
]
Folder = Annotated[
    Path, Argument(metavar="DIR", help="Folder with the dataset's files.", exists=True, file_okay=False, show_default=False)
]


Source = Annotated[
    str,
    Argument(
        metavar="DATASET",
        help="Name of a published dataset (latcast data list), or benchmark: what stock tools printed.",
        callback=options.one_of(IMPORTERS_TABLE, BENCHMARK),
        show_default=False,
    ),
]
Paths = Annotated[
    list[Path],
    Argument(
        metavar="DIR|FILE...",
        help="Folder with the dataset's files; or files that tools printed, or folders of such.",
        exists=True,
        show_default=False,
    ),
]


@app.command(name="list")
def list_datasets(as_json: options.AsJson = False) -> None:
    """List the published datasets that can be imported, with source and licence; nothing is fetched.

    \b
    Examples:
      latcast data list
    """
    from latcast.datasets.importers import IMPORTERS

    titles = {name: IMPORTERS.get(name).title for name in IMPORTERS}
    if as_json:
        print_json([{"dataset": name, "source": title} for name, title in titles.items()])
        return
    print_table("", ("dataset", "source and licence"), list(titles.items()))


@app.command(name="import")
def import_dataset(
    dataset: Source,
    paths: Paths,
    store: Annotated[
        str | None,
        Option("--store", metavar="FILE|URL", help="SQLite file or URL to add to. [default: the user's folder]"),
    ] = None,
    output: Annotated[Path | None, Option("--output", "-o", help="JSON Lines file (.jsonl, .jsonl.gz) instead.")] = None,
    nodes: Annotated[
        bool,
        Option(
            "--nodes/--no-nodes",
            help="Match executed kernels with the networks' graphs; builds the networks, which takes minutes the first time.",
        ),
    ] = True,
    on: Annotated[
        str | None,
        Option(
            "--on",
            metavar="PLATFORM",
            help="benchmark: where the tools ran, device/runtime-version/unit/precision, where they do not say it.",
        ),
    ] = None,
    kit: Annotated[
        Path | None,
        Option(
            "--kit",
            metavar="DIR",
            help="benchmark: the folder of the kit that was run, by which networks are known.",
            file_okay=False,
        ),
    ] = None,
    gpu_family: options.GpuFamilyName = "",
    as_json: options.AsJson = False,
) -> None:
    """Read a published dataset, or what stock tools printed, into the one schema; what the store holds is not added again.

    \b
    Examples:
      latcast data import usc DIR --store phones.sqlite
      latcast data import benchmark kit -o few.jsonl
      latcast data import benchmark run.txt --on pixel4/tflite-2.17/cpu1/fp32
    """
    from latcast.datasets.importers import IMPORTERS

    if store is not None and output is not None:
        raise typer.BadParameter("--store and --output exclude each other")
    if output is None:
        require("latcast data import", "sqlalchemy")
    if dataset == BENCHMARK:
        _import_outputs(paths, platform=on, kit=kit, store=store, output=output, as_json=as_json)
        return
    if on is not None or kit is not None:
        raise typer.BadParameter("--on and --kit are for benchmark; a published dataset says itself what it measured")
    importer = IMPORTERS.get(dataset)
    if len(paths) != 1 or not paths[0].is_dir():
        raise typer.BadParameter(f"'{paths[-1]}' is not a folder; expected the folder of the dataset's files")
    imported = importer.read(paths[0])
    if nodes:
        with StageProgress() as progress:
            imported = importer.complete(imported, _watcher(imported, progress))
    added, place = _kept(dataset, store, output, imported.measurements)
    if as_json:
        print_json({**_described(dataset, importer.title, imported), "added": added, "store": place})
        return
    _print_files(importer.title, imported)
    print(f"{len(imported.measurements)} measurements, {added} of them new, in {place}")


@app.command(name="check")
def check_dataset(dataset: Dataset, folder: Folder, as_json: options.AsJson = False) -> None:
    """Say what a published dataset holds, what is missing or malformed, and whether its networks can be built here.

    Exits with 3 where a row is malformed or a network that is built here is not the one that was measured.

    \b
    Examples:
      latcast data check usc DIR
    """
    from latcast.datasets.importers import IMPORTERS

    importer = IMPORTERS.get(dataset)
    imported = importer.read(folder, strict=False)
    with StageProgress() as progress:
        found = importer.check(imported, _watcher(imported, progress))
    if as_json:
        refused = [vars(row) for row in imported.refused]
        print_json({**_described(dataset, importer.title, imported), "refused": refused, "networks_built": found.to_json()})
    else:
        _print_files(importer.title, imported)
        _print_networks(found)
        for row in imported.refused:
            warn(f"refused: {row}")
    if imported.refused or found.exceptions:
        raise typer.Exit(CHECK_FAILED)


def _watcher(imported: Imported, progress: StageProgress) -> Callable[[str], None]:
    """Show which network is being built, of how many."""
    from latcast.spaces.measured_only import can_build

    total = len({item.reference.key for item in imported.measurements if can_build(item.reference)})
    names: list[str] = []

    def watch(name: str) -> None:
        progress.show("building networks", len(names) / max(total, 1))
        names.append(name)

    return watch


def _described(dataset: str, title: str, imported: Imported) -> dict[str, Any]:
    measurements = imported.measurements
    return {
        "dataset": dataset,
        "source": title,
        "measurements": len(measurements),
        "networks": len({item.reference.key for item in measurements}),
        "platforms": len({item.platform for item in measurements}),
        "executed_kernels": sum(len(item.executed) for item in measurements),
        "files": [{"name": name, **vars(summary)} for name, summary in imported.files.items()],
        "absent": list(imported.absent),
        "notes": list(imported.notes),
    }


def _print_files(title: str, imported: Imported) -> None:
    print_table(
        title,
        ("file", "rows", "records", "missing cells"),
        [(name, str(each.rows), str(each.records), str(each.missing)) for name, each in imported.files.items()]
        + [(name, "-", "-", "absent") for name in imported.absent],
    )
    for note in imported.notes:
        print(f"note: {note}")
    measurements = imported.measurements
    networks, platforms = ({getattr(item, part) for item in measurements} for part in ("reference", "platform"))
    print(f"{len(networks)} networks on {len(platforms)} platforms")


def _print_networks(found: NetworkCheck) -> None:
    if found.figures:
        print(
            f"\n{len({each.name for each in found.figures})} networks can be built here; products and parameters against the "
            "dataset's own figures:"
        )
        for label, ratios in (
            ("FLOPs", [each.flops_ratio for each in found.figures]),
            ("size", [each.size_ratio for each in found.figures]),
        ):
            print(f"  {label}: {_off(min(ratios))} to {_off(max(ratios))}")
        print(f"  more than {100 * found.tolerance:.0f} % off: {len(found.exceptions) or 'none'}")
    for each in found.exceptions:
        print(f"    {each.name} ({each.file}): FLOPs {_off(each.flops_ratio)}, size {_off(each.size_ratio)}")
    for reason, names in found.not_buildable.items():
        print(f"{len(names)} cannot be built ({abridged(names, 3)}): {reason}")


def _off(ratio: float) -> str:
    return f"{signed(100 * (ratio - 1))} %"


def _import_outputs(
    paths: Sequence[Path], *, platform: str | None, kit: Path | None, store: str | None, output: Path | None, as_json: bool
) -> None:
    """Read files and keep their measurements."""
    from latcast.datasets.importers.benchmark_tools import MANIFEST_FILE, KitManifest, output_files, read_outputs
    from latcast.records import Platform

    if kit is None and len(paths) == 1 and (paths[0] / MANIFEST_FILE).is_file():
        kit = paths[0]
    found = read_outputs(
        output_files(paths),
        kit=None if kit is None else KitManifest.read(kit),
        platform=None if platform is None else Platform.parse(platform),
    )
    added, place = _kept(BENCHMARK, store, output, found.measurements)
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


def _kept(dataset: str, store: str | None, output: Path | None, measurements: Sequence[Measurement]) -> tuple[int, str]:
    """Write measurements to a JSON Lines file, or add them to a store, by default the dataset's in the user's folder.

    Returns:
        How many are new, and where they are.
    """
    from latcast.datasets import jsonlines
    from latcast.folders import made, measurements_folder

    if output is not None:
        return jsonlines.write(output, measurements), str(output)

    from latcast.datasets.store import Store

    if store is None:
        file = measurements_folder() / f"{dataset}.sqlite"
        made(file.parent)
        store = str(file)
    with Store(store) as kept:
        return kept.add_all(measurements), kept.location


app.command()(variants)
app.command()(export)
app.command()(sample)
app.command()(rounds)
