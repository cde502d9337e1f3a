"""``latcast device``: a device from a few networks timed there, or from little measuring under a runtime here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from latcast.cli import device_fusion, options
from latcast.cli.device_adapt import adapt
from latcast.cli.lazy_group import command_group
from latcast.cli.output import StageProgress, interval_column, milliseconds, print_json, print_table, warn

if TYPE_CHECKING:
    from latcast.devices.latency_table import LatencyTable
    from latcast.devices.new_device import DeviceForecasts
    from latcast.devices.shared_terms import SharedTerms
    from latcast.devices.signature_selection import SignatureSet
    from latcast.graph.ir import Graph
    from latcast.records import Reference

SHIPPED_MODEL = "shipped"
"""What the option ``--device-model`` calls the model that comes with the package."""

app = command_group("""A new device: from a few networks timed there, or from minutes of measuring under a runtime here.

\b
Examples:
  latcast device select
  latcast device kit -o kit --formats tflite
  latcast device predict resnet18 --measured few.jsonl
  latcast device adapt --runtime litert
  latcast device fusion detect --runtime litert
""")


def _methods() -> Sequence[str]:
    from latcast.devices.signature_selection import SELECTIONS

    return SELECTIONS.names()


def _kit_precisions() -> Sequence[str]:
    from latcast.devices.signature_kit import PRECISIONS

    return PRECISIONS


def _formats(text: str) -> str:
    from latcast.devices.signature_kit import FORMATS

    unknown = [name for name in options.names_in(text) if name not in FORMATS]
    if unknown:
        raise typer.BadParameter(f"'{unknown[0]}' is none of {', '.join(FORMATS)}")
    return text


Data = Annotated[
    list[str] | None,
    Option(
        "--data", "-d",
        help="Latencies of known devices: a store, a JSON Lines file, the folder of a published dataset, or the name of an "
        "imported one; several add up. [default: the shipped model of phones]",
    ),
]  # fmt: skip
Known = Annotated[
    str | None,
    Option(
        "--known",
        metavar="PATTERN",
        help="Which platforms of --data, as a pattern of ids: '*/tflite-*/*/fp32'. [default: all; to predict, those of the new "
        "one's kind]",
    ),
]
Count = Annotated[int, Option("--count", "-n", help="How many networks.", min=1)]
Method = Annotated[str, Option("--method", help="How they are chosen from --data.", callback=options.one_of(_methods))]


@app.command()
def select(
    data: Data = None,
    count: Count = 10,
    method: Method = "prediction_error",
    known: Known = None,
    buildable: Annotated[bool, Option("--buildable", help="Only networks that can be built here.")] = False,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Which networks to measure on a new device.

    \b
    Examples:
      latcast device select
      latcast device select --data phones.jsonl.gz -n 5 --known '*/tflite-*/*/fp32' --buildable
    """
    from latcast.devices.signature_selection import choose_signature, small_signature

    if data:
        table = _known_table(data, known)
        choice = choose_signature(table, count, method=method, seed=seed, buildable=buildable)
    else:
        shared = _shared_terms(SHIPPED_MODEL, known)
        table, choice, method = shared.table, small_signature(shared, count), SHIPPED_MODEL
    if as_json:
        print_json({"method": method, "seed": seed, **_chosen_json(choice, table)})
        return
    way = method.replace("_", " ") if data else "the shipped model of phones"
    print_table(
        f"{count} networks that describe a device, by {way}",
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


@app.command()
def predict(
    measured: Annotated[
        Path,
        Option(
            "--measured",
            "-m",
            help="What was measured on the new device: a JSON Lines file, a store, or a CSV file with the header "
            "model,latency_ms (a file or a name) together with --on.",
        ),
    ],
    models: Annotated[
        list[str] | None,
        Argument(
            metavar="[MODEL]...",
            help="What to predict: model files, or names of known or published networks; all known ones where none is named.",
        ),
    ] = None,
    data: Data = None,
    known: Known = None,
    on: Annotated[
        str | None,
        Option("--on", metavar="PLATFORM", help="One of several that were measured. [default: all]"),
    ] = None,
    shape: options.Shape = None,
    device_model: Annotated[
        str | None,
        Option(
            "--device-model",
            metavar="FILE",
            help="A fitted model of known platforms instead of --data. [default: the shipped one of phones]",
        ),
    ] = None,
    latency_unit: options.LatencyUnit = "",
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """A new device from a few measured networks: any network, with a 90 % interval.

    \b
    Examples:
      latcast device predict --measured few.jsonl my_network.onnx resnet18
      latcast device predict --measured few.csv --on s11/tflite-2.10/cpu1/fp32 --latency-unit ms
    """
    from latcast.devices.new_device import measured_latencies

    named = models or []
    shapes = options.parse_shapes(shape)
    if shapes and not named:
        raise typer.BadParameter("name the networks that have these sizes", param_hint="--shape")
    if device_model and (data or known):
        raise typer.BadParameter("a fitted model knows its platforms; leave out --data and --known", param_hint="--device-model")
    latencies = measured_latencies(measured, on, tell=warn)
    scale = options.milliseconds_of(latency_unit, latencies, str(measured))
    latencies = {name: {network: scale * value for network, value in given.items()} for name, given in latencies.items()}
    found: list[tuple[str, int, LatencyTable, DeviceForecasts]] = []
    with StageProgress() as progress:
        if data:
            progress.show("reading known latencies", 0.0)
            everything = _known_table(data, known)
            for device, given in latencies.items():
                progress.show("learning known devices", (0.3 + len(found)) / len(latencies))
                table, forecasts = _learned(everything, device, given, named, shapes, alike=not known, seed=seed)
                found.append((device, len(given), table, forecasts))
        else:
            progress.show("reading the model", 0.0)
            shared = _shared_terms(device_model or SHIPPED_MODEL, known)
            wanted = _wanted(named, shared.table, shapes)
            for device, given in latencies.items():
                progress.show("predicting", (0.3 + len(found)) / len(latencies))
                found.append((device, len(given), shared.table, shared.predict(device, given, wanted)))
    for device, _, _, forecasts in found:
        for text in forecasts.warnings:
            warn(text if len(found) == 1 else f"{device}: {text}")
    if as_json:
        documents = [_predicted_json(*each) for each in found]
        print_json(documents[0] if len(documents) == 1 else {"platforms": documents})
        return
    for index, each in enumerate(found):
        if index:
            print()
        _print_predicted(*each)


def _learned(
    table: LatencyTable,
    device: str,
    given: Mapping[Reference, float],
    named: Sequence[str],
    shapes: dict[str, tuple[int, ...]],
    *,
    alike: bool,
    seed: int,
) -> tuple[LatencyTable, DeviceForecasts]:
    """What was learned from of a table, and the forecasts; ``alike`` keeps to platforms of the new one's kind."""
    from latcast.devices.known_latencies import comparable
    from latcast.devices.new_device import KnownDevices
    from latcast.records import Platform

    keys = {reference.key for reference in given}
    if alike:
        table = comparable(table, Platform.parse(device), keys)
    known = KnownDevices.learn(table, seed=seed, needed=keys)
    return known.table, known.predict(given, _wanted(named, known.table, shapes))


@app.command()
def kit(
    output: Annotated[Path, Option("--output", "-o", help="The kit's folder.", file_okay=False)],
    networks: Annotated[
        list[str] | None,
        Argument(metavar="[NETWORK]...", help="Published networks, instead of choosing some."),
    ] = None,
    data: Data = None,
    count: Count = 10,
    method: Method = "prediction_error",
    known: Known = None,
    precision: Annotated[
        str, Option("--precision", "-p", help="fp32 or int8.", callback=options.one_of(_kit_precisions))
    ] = "fp32",
    formats: Annotated[str, Option("--formats", help="Which of tflite, onnx and ncnn.", callback=_formats)] = "",
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Networks as files and a script that times them, for devices on which latcast does not run.

    \b
    Examples:
      latcast device kit -o kit --formats tflite
      latcast device kit resnet18 mobilenet_v2 -o kit --precision int8
    """
    from latcast.devices.signature_kit import FORMATS, write_kit

    references, chosen = _kit_networks(networks, data, count, method, known, seed)
    wanted = [name for name in FORMATS if not formats or name in options.names_in(formats)]
    done: list[str] = []
    with StageProgress() as progress:

        def watch(name: str) -> None:
            progress.show(f"writing {name}", len(done) / len(references))
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
        f"    latcast data import benchmark {output} -o few.jsonl\n"
        "    latcast device predict --measured few.jsonl my_network.onnx"
    )


def _kit_networks(
    names: Sequence[str] | None, data: Sequence[str] | None, count: int, method: str, known: str | None, seed: int
) -> tuple[Sequence[Reference], dict[str, Any]]:
    """The networks of a kit, and how they were chosen."""
    from latcast.devices.signature_selection import choose_signature, small_signature
    from latcast.spaces.catalogue import network_named

    if names:
        return [network_named(name) for name in names], {"by": "name"}
    if data:
        choice = choose_signature(_known_table(data, known), count, method=method, seed=seed, buildable=True)
        return choice.networks, {"by": method, "seed": seed, "platforms": len(choice.table.platforms)}
    choice = small_signature(_shared_terms(SHIPPED_MODEL, known), count)
    return choice.networks, {"by": SHIPPED_MODEL, "platforms": len(choice.table.platforms)}


def _shared_terms(model: str, known: str | None = None) -> SharedTerms:
    from latcast.devices.shared_terms_file import SHIPPED, load_shared_terms

    if known:
        raise typer.BadParameter("it chooses among the platforms of --data; name that too", param_hint="--known")
    return load_shared_terms(SHIPPED if model == SHIPPED_MODEL else model)


def _known_table(data: Sequence[str], known: str | None) -> LatencyTable:
    from latcast.devices.known_latencies import known_table

    return known_table(data, known or "*")


def _wanted(names: Sequence[str], table: LatencyTable, shapes: dict[str, tuple[int, ...]]) -> list[tuple[str, Reference | Graph]]:
    """What a user calls a network: the name of a known one first, then a file or another name; all known ones where none is."""
    from latcast.spaces.catalogue import family_member, is_model_name, network_named, resized
    from latcast.spaces.models import as_graph

    if not names:
        return [(each.name, each) for each in table.networks]
    known = {network.name: network for network in table.networks}
    found: list[tuple[str, Reference | Graph]] = []
    for name in names:
        if name in known or is_model_name(name):
            reference = known[name] if name in known else network_named(name)
            found.append((name, resized(family_member(name) or reference, shapes) if shapes else reference))
        else:
            found.append((name, as_graph(name, shapes=shapes or None)))
    return found


def _chosen_json(choice: SignatureSet, table: LatencyTable) -> dict[str, Any]:
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
                "high_ms": each.high_ms, "level": each.level, "measured_ms": each.measured_ms,
            }
            for each in found.forecasts
        ],
        "warnings": list(found.warnings),
    }  # fmt: skip


def _print_predicted(device: str, measured: int, table: LatencyTable, found: DeviceForecasts) -> None:
    heading, intervals = interval_column([(each.low_ms, each.high_ms, each.level) for each in found.forecasts])
    print_table(
        f"{device}, from {measured} measured networks",
        ("network", "latency ms", heading, "measured ms", ""),
        [
            (
                each.name, milliseconds(each.latency_ms), interval,
                "-" if each.measured_ms is None else milliseconds(each.measured_ms), "known" if each.known else "new",
            )
            for each, interval in zip(found.forecasts, intervals, strict=True)
        ],
    )  # fmt: skip
    print(
        f"learned from {len(table.networks)} networks on {len(table.platforms)} platforms; the most alike is {found.nearest} "
        f"({found.distance:.2f} median distances of two devices away; usual: up to {found.usual_distance:.2f})"
    )


app.command()(adapt)
app.add_typer(device_fusion.app, name="fusion")
