"""``latcast signature``: a few networks describe a device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latcast.cli.options import AsJson, Seed, one_of
from latcast.cli.output import milliseconds, parse_shapes, print_json, print_table, warn
from latcast.cli.progress import StageProgress

if TYPE_CHECKING:
    from latcast.graph.ir import Graph
    from latcast.records import Reference
    from latcast.transfer.latency_table import LatencyTable
    from latcast.transfer.new_device import DeviceForecasts
    from latcast.transfer.shared_terms import SharedTerms
    from latcast.transfer.signature_choice import Choice

app = typer.Typer(help="A few networks describe a device.", no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def _methods() -> Sequence[str]:
    from latcast.transfer.signatures import SELECTIONS

    return SELECTIONS.names()


def _kit_precisions() -> Sequence[str]:
    from latcast.transfer.signature_kit import PRECISIONS

    return PRECISIONS


def _formats(text: str) -> str:
    from latcast.transfer.signature_kit import FORMATS

    unknown = [name for name in text.split(",") if text and name not in FORMATS]
    if unknown:
        raise typer.BadParameter(f"'{unknown[0]}' is none of {', '.join(FORMATS)}")
    return text


Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data", "-d",
        help="Latencies of known devices: a store, a JSON Lines file, the folder of a published dataset, or the name of an "
        "imported one; several add up. [default: the imported datasets]",
    ),
]  # fmt: skip
Platforms = Annotated[str, typer.Option("--platforms", help="Which known platforms, as a pattern of ids: '*/tflite-*/*/fp32'.")]
Size = Annotated[int, typer.Option("-k", "--size", help="How many networks.", min=1)]
Method = Annotated[
    str,
    typer.Option("--method", help="How they are chosen: see the documentation.", callback=one_of(_methods)),
]


@app.command("select")
def select(
    data: Data = None,
    size: Size = 10,
    method: Method = "prediction_error",
    platforms: Platforms = "*",
    buildable: Annotated[
        bool, typer.Option("--buildable", help="Only networks that can be built here, to run them elsewhere.")
    ] = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Which networks to measure on a new device."""
    from latcast.transfer.signature_choice import choose_signature

    table = _known(data, platforms)
    choice = choose_signature(table, size, method=method, seed=seed, buildable=buildable)
    if as_json:
        print_json({"method": method, "seed": seed, **_chosen_json(choice, table)})
        return
    print_table(
        f"{size} networks that describe a device, by {method.replace('_', ' ')}",
        ("network", "space", "typical ms"),
        [
            (network.name, network.space, milliseconds(latency_ms))
            for network, latency_ms in zip(choice.networks, choice.typical_ms, strict=True)
        ],
    )
    print(
        f"chosen from {len(choice.table.networks)} of {len(table.networks)} networks, measured on "
        f"{len(choice.table.platforms)} of {len(table.platforms)} platforms"
    )


@app.command("predict")
def predict(
    measured: Annotated[
        Path, typer.Option("--measured", "-m", help="What was measured on the new device: a JSON Lines file or a store.")
    ],
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="What to predict: model files, or names of known or published networks; all known ones where none is named.",
        ),
    ] = None,
    networks: Annotated[list[str] | None, typer.Option("--networks", help="The same; further ones may follow.")] = None,
    data: Data = None,
    platforms: Annotated[
        str,
        typer.Option("--platforms", help="Which known platforms, as a pattern of ids. [default: those of the new one's kind]"),
    ] = "",
    platform: Annotated[str | None, typer.Option("--platform", help="Which platform, where several were measured.")] = None,
    shape: Annotated[list[str] | None, typer.Option("--shape", help="Sizes of an input: input=1,3,224,224.")] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="A fitted model of known platforms instead of --data: a file, or 'shipped' for the phones."),
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """A new device from a few measured networks: any network, with a 90 % interval."""
    from latcast.predictors.profiling import Stage
    from latcast.records import Platform
    from latcast.transfer.known_latencies import comparable
    from latcast.transfer.new_device import KnownDevices, measured_latencies

    named = [*(networks or []), *(models or [])]
    shapes = parse_shapes(shape or [])
    device, given = measured_latencies(measured, platform)
    if model and (data or platforms):
        raise typer.BadParameter("a fitted model knows its platforms; leave out --data and --platforms", param_hint="--model")
    keys = {reference.key for reference in given}
    with StageProgress() as progress:
        if model:
            progress(Stage("reading the model", 0.0))
            shared = _shared_terms(model)
            table = shared.table
            wanted = _wanted(named, table, shapes) if named else [(each.name, each) for each in table.networks]
            progress(Stage("predicting", 0.3))
            found = shared.predict(device, given, wanted)
        else:
            progress(Stage("reading known latencies", 0.0))
            table = _known(data, platforms or "*")
            if not platforms:
                table = comparable(table, Platform.parse(device), keys)
            progress(Stage("learning known devices", 0.3))
            known = KnownDevices.learn(table, seed=seed, needed=keys)
            table = known.table
            wanted = _wanted(named, table, shapes) if named else [(each.name, each) for each in table.networks]
            progress(Stage("predicting", 0.7))
            found = known.predict(given, wanted)
    for text in found.warnings:
        warn(text)
    if as_json:
        print_json(_predicted_json(device, len(given), table, found))
    else:
        _print_predicted(device, len(given), table, found)


@app.command("kit")
def kit(
    output: Annotated[Path, typer.Option("--output", "-o", help="The kit's folder.", file_okay=False)],
    networks: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NETWORK]...", help="Names of published networks, instead of choosing some."),
    ] = None,
    data: Data = None,
    size: Size = 10,
    method: Method = "prediction_error",
    platforms: Platforms = "*",
    precision: Annotated[str, typer.Option("--precision", "-p", help="fp32 or int8.", callback=one_of(_kit_precisions))] = "fp32",
    formats: Annotated[str, typer.Option("--formats", help="Which of tflite, onnx and ncnn.", callback=_formats)] = "",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Networks as files and a script that times them, for devices on which latcast does not run."""
    from latcast.predictors.profiling import Stage
    from latcast.transfer.signature_kit import FORMATS, write_kit

    references, chosen = _kit_networks(networks, data, size, method, platforms, seed)
    wanted = [name for name in FORMATS if not formats or name in formats.split(",")]
    done: list[str] = []
    with StageProgress() as progress:

        def watch(name: str) -> None:
            progress(Stage(f"writing {name}", len(done) / len(references)))
            done.append(name)

        written = write_kit(references, output, formats=wanted, precision=precision, chosen=chosen, watch=watch)
    for name, kind, reason in written.left_out:
        warn(f"{name} is not written for {kind}: {reason}")
    if as_json:
        print_json(
            {
                "folder": str(output), "precision": precision, "size_bytes": written.size_bytes, "chosen": chosen,
                "networks": [network.to_json() for network in written.manifest.networks],
                "left_out": [dict(zip(("network", "format", "reason"), each, strict=True)) for each in written.left_out],
            }
        )  # fmt: skip
        return
    print_table(
        f"{output}: {len(written.manifest.networks)} networks in {precision}, {written.size_bytes / 1e6:.0f} MB",
        ("network", "input", "formats"),
        [
            (network.name, "x".join(map(str, network.input_shape)), ", ".join(network.files))
            for network in written.manifest.networks
        ],
    )
    print(
        f"\nPut the tools into {output / 'tools'} (its README.md says where they come from), then:\n\n"
        f"    sh {output / 'android.sh'} --threads 1                      on an Android phone, over adb\n"
        f"    sh {output / 'measure.sh'} --device rpi5 --threads 1        on this or another computer\n"
        f"    latcast data import benchmark {output} -o few.jsonl"
    )


def _kit_networks(
    names: Sequence[str] | None, data: Sequence[str] | None, size: int, method: str, platforms: str, seed: int
) -> tuple[Sequence[Reference], dict[str, Any]]:
    """The networks of a kit, and how they were chosen."""
    from latcast.spaces.catalogue import model
    from latcast.transfer.known_latencies import has_imported_datasets
    from latcast.transfer.signature_choice import choose_signature

    if names:
        return [model(name) for name in names], {"by": "name"}
    if not data and not has_imported_datasets():
        from latcast.repository.signature import SIGNATURE

        if size > len(SIGNATURE):
            raise typer.BadParameter(f"without --data there are {len(SIGNATURE)} networks, those of the shared repository")
        return [model(name) for name in SIGNATURE[:size]], {"by": "the shared repository"}
    choice = choose_signature(_known(data, platforms), size, method=method, seed=seed, buildable=True)
    return choice.networks, {"by": method, "seed": seed, "platforms": len(choice.table.platforms)}


def _shared_terms(model: str) -> SharedTerms:
    from latcast.transfer.shared_terms_file import SHIPPED, load_shared_terms

    return load_shared_terms(SHIPPED if model == "shipped" else model)


def _known(data: Sequence[str] | None, platforms: str) -> LatencyTable:
    from latcast.transfer.known_latencies import imported_datasets, known_table

    return known_table(data or imported_datasets(), platforms)


def _wanted(names: Sequence[str], table: LatencyTable, shapes: dict[str, tuple[int, ...]]) -> list[tuple[str, Reference | Graph]]:
    """What a user calls a network: the name of a known one first, then a file or a published one."""
    from latcast.predictors.forecast import as_graph
    from latcast.spaces.catalogue import is_model_name, model

    known = {network.name: network for network in table.networks}
    found: list[tuple[str, Reference | Graph]] = []
    for name in names:
        if name in known:
            found.append((name, known[name]))
        elif is_model_name(name):
            found.append((name, model(name)))
        else:
            found.append((name, as_graph(name, shapes=shapes or None)))
    return found


def _chosen_json(choice: Choice, table: LatencyTable) -> dict[str, Any]:
    return {
        "networks": [
            {**network.to_json(), "key": network.key, "typical_ms": latency_ms}
            for network, latency_ms in zip(choice.networks, choice.typical_ms, strict=True)
        ],
        "known_networks": len(table.networks),
        "known_platforms": len(table.platforms),
        "used_networks": len(choice.table.networks),
        "used_platforms": len(choice.table.platforms),
    }


def _predicted_json(device: str, measured: int, table: LatencyTable, found: DeviceForecasts) -> dict[str, Any]:
    return {
        "platform": device,
        "measured": measured,
        "known_platforms": len(table.platforms),
        "known_networks": len(table.networks),
        "nearest": {"platform": found.nearest, "distance": found.distance, "usual_distance": found.usual_distance},
        "predictions": [
            {
                "model": each.name, "known": each.known, "latency_ms": each.latency_ms, "low_ms": each.low_ms,
                "high_ms": each.high_ms, "measured_ms": each.measured_ms,
            }
            for each in found.forecasts
        ],
        "warnings": list(found.warnings),
    }  # fmt: skip


def _print_predicted(device: str, measured: int, table: LatencyTable, found: DeviceForecasts) -> None:
    print_table(
        f"{device}, from {measured} measured networks",
        ("network", "latency ms", "90 % interval ms", "measured ms", ""),
        [
            (
                each.name, milliseconds(each.latency_ms), f"{milliseconds(each.low_ms)} to {milliseconds(each.high_ms)}",
                "-" if each.measured_ms is None else milliseconds(each.measured_ms), "known" if each.known else "new",
            )
            for each in found.forecasts
        ],
    )  # fmt: skip
    print(
        f"learned from {len(table.networks)} networks on {len(table.platforms)} platforms; the most alike is {found.nearest} "
        f"({found.distance:.2f} median distances of two devices away; usual: up to {found.usual_distance:.2f})"
    )
