"""``latcast device``: a device from a few networks timed there, or from little measuring under a runtime here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from latcast.cli import device_fusion, options
from latcast.cli.device_adapt import adapt
from latcast.cli.device_reach import pin, prepare
from latcast.cli.lazy_group import command_group
from latcast.cli.output import StageProgress, milliseconds, print_json, print_table, warn

if TYPE_CHECKING:
    from latcast.devices.added_device import NewDevice, Suggestion
    from latcast.predictors.device_forecast import DeviceForecast
    from latcast.predictors.platform_predictor import PlatformPredictor
    from latcast.records import Platform, Reference

app = command_group("""A new device: from a few networks timed there, or from minutes of measuring under a runtime here.

\b
Examples:
  latcast device kit -o kit.zip --formats tflite
  latcast device add pi5 --unit cpu4 --runtime tflite --precision fp32 --measured few.csv -o pi5.zip
  latcast device show pi5.zip
  latcast device suggest pi5.zip
  latcast device fusion detect --runtime litert
""")

INFORMATION = "information"
"""What ``--method`` calls the choice of the model of devices; the others are those of the signature selections."""


def _methods() -> Sequence[str]:
    from latcast.devices.signature_selection import SELECTIONS

    return (INFORMATION, *SELECTIONS.names())


def _kit_precisions() -> Sequence[str]:
    from latcast.devices.signature_kit import PRECISIONS

    return PRECISIONS


def _precisions() -> Sequence[str]:
    from latcast.records import PUBLISHED_PRECISIONS

    return PUBLISHED_PRECISIONS


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
        help="Latencies of known devices to choose from: a store, a JSON Lines file, the folder of a published dataset, or the "
        "name of an imported one; several add up. [default: the model of devices]",
    ),
]  # fmt: skip
Known = Annotated[
    str | None,
    Option("--known", metavar="PATTERN", help="Which platforms of --data, as a pattern of ids: '*/tflite-*/*/fp32'."),
]
Count = Annotated[int, Option("--count", "-n", help="How many networks.", min=1)]
MaxMb = Annotated[float | None, Option("--max-mb", help="Only networks of at most so many MB in fp32.", min=0.1)]
Method = Annotated[
    str,
    Option(
        "--method",
        help="How they are chosen: information narrows the intervals of the model of devices; the others choose from --data.",
        callback=options.one_of(_methods),
    ),
]
DeviceModelFile = Annotated[
    Path | None, Option("--device-model", metavar="FILE", help="Another model of devices than the one that comes with latcast.")
]


@app.command()
def add(
    name: Annotated[
        str, Argument(metavar="NAME", help="What the device is called; known names and chips tell more: pi5, pixel6.")
    ],
    unit: Annotated[str, Option("--unit", "-u", help="What computes: cpu4, 2large, gpu, npu.")],
    runtime: Annotated[str, Option("--runtime", "-r", help="What ran them, with its version where known: tflite-2.16.")],
    precision: Annotated[str, Option("--precision", "-p", help="fp32, fp16, int8...", callback=options.one_of(_precisions))],
    output: Annotated[Path, Option("--output", "-o", help="Bundle to write: a folder, or a .zip.")],
    measured: Annotated[
        list[str] | None,
        Option(
            "--measured",
            "-m",
            help="What was measured there: CSV with the header model,latency_ms (files or names), JSON Lines, a store, tools' "
            "output, a kit's folder; several add up. [default: nothing, only what is known of its chip]",
        ),
    ] = None,
    chip: Annotated[str, Option("--chip", help="Its chip, where the device's name does not say: 'snapdragon 8 gen 3'.")] = "",
    latency_unit: options.LatencyUnit = "",
    gpu_family: options.GpuFamilyName = "",
    device_model: DeviceModelFile = None,
    as_json: options.AsJson = False,
) -> None:
    """A predictor of a device from none to a hundred networks timed there.

    \b
    Examples:
      latcast device add pi5 --unit cpu4 --runtime tflite --precision fp32 --measured few.csv -o pi5.zip
      latcast device add s24 -u npu -r qnn -p int8 --chip 'snapdragon 8 gen 3' -o s24.zip
    """
    from latcast.devices.added_device import add_device
    from latcast.devices.device_model_file import load_device_model
    from latcast.devices.measured_networks import MeasuredNetworks, read_measured
    from latcast.predictors.bundle import save_bundle

    platform = _platform(name, unit, runtime, precision)
    with StageProgress() as progress:
        progress.show("reading what was measured", 0.0)
        found = read_measured(measured, platform) if measured else MeasuredNetworks(())
        progress.show("learning the device", 0.4)
        model = load_device_model(device_model)
        added = add_device(
            platform, found, model, device_text=name, chip_text=chip, latency_unit=latency_unit, ask=options.asked_unit()
        )
        progress.show("writing the bundle", 0.9)
        written = save_bundle(added.predictor, output)
    for text in (*added.notes, *added.warnings):
        warn(text)
    document = {"bundle": str(written), **_device_json(added.predictor)}
    if as_json:
        print_json({**document, "misfits": [vars(each) for each in added.misfits], "notes": list(added.notes)})
        return
    _print_added(added, written)


@app.command()
def show(
    device: Annotated[str, Argument(metavar="BUNDLE", help="A bundle that device add wrote.")],
    as_json: options.AsJson = False,
) -> None:
    """What is known of a device: throughputs with their uncertainty, the nearest known platforms, what more networks would tell.

    \b
    Examples:
      latcast device show pi5.zip
    """
    from latcast.predictors.forecast import load

    predictor = load(device)
    if predictor.device is None:
        raise typer.BadParameter(
            f"{device} was profiled; latcast platforms show {device} says what it does well", param_hint="BUNDLE"
        )
    document = _device_json(predictor)
    with StageProgress() as progress:
        progress.show("asking what more networks would tell", 0.0)
        now, more = _suggested(predictor, 10)
    document["more"] = {
        "typical_high_over_latency": _reach(now),
        "with_ten_more": _reach(more[-1].deviation) if more else _reach(now),
        "networks": [each.reference.name for each in more],
    }
    if as_json:
        print_json(document)
        return
    _print_device(predictor, document)


@app.command()
def suggest(
    device: Annotated[
        str | None,
        Argument(metavar="[BUNDLE]", help="A bundle that device add wrote. [default: a device of which nothing is known]"),
    ] = None,
    count: Count = 10,
    models: Annotated[
        list[str] | None,
        Option("--for", metavar="MODEL", help="Networks whose intervals count: files or names. [default: all alike]"),
    ] = None,
    method: Method = INFORMATION,
    data: Data = None,
    known: Known = None,
    unit: Annotated[str, Option("--unit", "-u", help="Of a device of which nothing is known: cpu, gpu or npu.")] = "cpu",
    max_mb: MaxMb = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Which networks to measure next: those that would narrow the intervals most.

    \b
    Examples:
      latcast device suggest pi5.zip --for my_network.onnx
      latcast device suggest -n 5 --unit gpu
      latcast device suggest --method mutual_information --data phones.jsonl.gz --known '*/tflite-*/*/fp32'
    """
    if method != INFORMATION or data:
        _suggest_from_data(data, count, INFORMATION if method == INFORMATION else method, known, max_mb, seed, as_json=as_json)
        return
    predictor = _predictor_of(device, unit)
    with StageProgress() as progress:
        progress.show("weighing networks", 0.0)
        now, found = _suggested(predictor, count, models or (), max_mb)
    if as_json:
        print_json(
            {
                "method": INFORMATION,
                "high_over_latency": _reach(now),
                "networks": [
                    {**each.reference.to_json(), "key": each.reference.key, "high_over_latency": _reach(each.deviation)}
                    for each in found
                ],
            }
        )
        return
    what = "the networks asked for" if models else "networks"
    print_table(
        f"{len(found)} networks that tell most of {device or f'an unknown {unit}'}",
        ("network", "interval after it"),
        [(each.reference.name, _percent(each.deviation)) for each in found],
    )
    print(f"the typical 90 % interval of {what} is {_percent(now)} now")


def _suggest_from_data(
    data: Sequence[str] | None, count: int, method: str, known: str | None, max_mb: float | None, seed: int, *, as_json: bool
) -> None:
    from latcast.devices.known_latencies import known_table
    from latcast.devices.signature_selection import DEFAULT_METHOD, choose_signature

    if not data:
        raise typer.BadParameter(f"{method} chooses from measured latencies; name them with --data", param_hint="--method")
    method = DEFAULT_METHOD if method == INFORMATION else method
    table = known_table(data, known or "*")
    choice = choose_signature(table, count, method=method, seed=seed, most_parameters=_parameters(max_mb))
    if as_json:
        networks = [
            {**network.to_json(), "key": network.key, "typical_ms": latency_ms}
            for network, latency_ms in zip(choice.networks, choice.typical_ms, strict=True)
        ]
        counts = {"known_networks": len(table.networks), "known_platforms": len(table.platforms)}
        used = {"used_networks": len(choice.table.networks), "used_platforms": len(choice.table.platforms)}
        print_json({"method": method, "seed": seed, "networks": networks, **counts, **used})
        return
    print_table(
        f"{count} networks that describe a device, by {method.replace('_', ' ')}",
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
def kit(
    output: Annotated[Path, Option("--output", "-o", help="The kit's folder, or a .zip of it.")],
    networks: Annotated[
        list[str] | None,
        Argument(metavar="[NETWORK]...", help="Published networks, instead of choosing some."),
    ] = None,
    data: Data = None,
    count: Count = 10,
    method: Method = INFORMATION,
    known: Known = None,
    precision: Annotated[
        str, Option("--precision", "-p", help="fp32 or int8.", callback=options.one_of(_kit_precisions))
    ] = "fp32",
    formats: Annotated[str, Option("--formats", help="Which of tflite, onnx and ncnn.", callback=_formats)] = "",
    max_mb: MaxMb = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Networks as files and a script that times them, for devices on which latcast does not run.

    \b
    Examples:
      latcast device kit -o kit.zip --formats tflite
      latcast device kit resnet18 mobilenet_v2 -o kit --precision int8
    """
    from latcast.devices.signature_kit import FORMATS, write_kit

    references, chosen = _kit_networks(networks, data, count, method, known, seed, max_mb)
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
                "folder": str(output), "precision": precision, "size_bytes": written.size_bytes,
                "archive_bytes": written.archive_bytes, "chosen": chosen,
                "networks": [network.to_json() for network in written.manifest.networks],
                "left_out": [dict(zip(("network", "format", "reason"), each, strict=True)) for each in written.left_out],
            }
        )  # fmt: skip
        return
    size = f"{written.size_bytes / 1e6:.0f} MB"
    if written.archive_bytes is not None:
        size = f"{written.archive_bytes / 1e6:.1f} MB, unpacked {size}"
    print_table(
        f"{output}: {len(written.manifest.networks)} networks in {precision}, {size}",
        ("network", "input", "formats"),
        [
            (network.name, "x".join(map(str, network.input_shape)), ", ".join(network.files))
            for network in written.manifest.networks
        ],
    )
    folder, unpacking = output, ""
    if written.archive_bytes is not None:
        folder, unpacking = Path(output.stem), f"Unpack it (unzip {output}). "
    print(
        f"\n{unpacking}Put the tools into {folder / 'tools'} (its README.md says where they come from), then:\n\n"
        f"    sh {folder / 'android.sh'} --threads 1                      on an Android phone, over adb\n"
        f"    sh {folder / 'measure.sh'} --device rpi5 --threads 1        on this or another computer\n\n"
        "Each ends with the command that adds the device from what it measured:\n\n"
        f"    latcast device add rpi5 --unit cpu1 --runtime tflite-2.17 --precision {precision} --measured {folder} -o rpi5.zip\n"
        "    latcast predict my_network.onnx --on rpi5.zip"
    )


def _kit_networks(
    names: Sequence[str] | None,
    data: Sequence[str] | None,
    count: int,
    method: str,
    known: str | None,
    seed: int,
    max_mb: float | None,
) -> tuple[Sequence[Reference], dict[str, Any]]:
    """The networks of a kit, and how they were chosen."""
    from latcast.devices.known_latencies import known_table
    from latcast.devices.signature_selection import DEFAULT_METHOD, choose_signature
    from latcast.spaces.catalogue import network_named

    if names:
        return [network_named(name) for name in names], {"by": "name"}
    if data:
        method = DEFAULT_METHOD if method == INFORMATION else method
        table = known_table(data, known or "*")
        choice = choose_signature(table, count, method=method, seed=seed, buildable=True, most_parameters=_parameters(max_mb))
        return choice.networks, {"by": method, "seed": seed, "platforms": len(choice.table.platforms)}
    if method != INFORMATION:
        raise typer.BadParameter(f"{method} chooses from measured latencies; name them with --data", param_hint="--method")
    _, found = _suggested(_predictor_of(None, "cpu"), count, (), max_mb)
    return [each.reference for each in found], {"by": INFORMATION}


def _parameters(megabytes: float | None) -> float | None:
    """Of so many megabytes in single precision."""
    return None if megabytes is None else megabytes * 1e6 / 4


def _platform(name: str, unit: str, runtime: str, precision: str) -> Platform:
    from latcast.datasets.importers.latency_tables import slug
    from latcast.records import Platform

    _, dash, version = runtime.rpartition("-")
    versioned = runtime if dash and any(character.isdigit() for character in version) else f"{runtime}-unstated"
    return Platform.parse(f"{slug(name)}/{versioned}/{unit}/{precision}")


def _predictor_of(device: str | None, unit: str) -> PlatformPredictor:
    """Of a bundle, or of a unit of which nothing is known."""
    from latcast.devices.added_device import add_device
    from latcast.devices.device_model_file import load_device_model
    from latcast.devices.measured_networks import MeasuredNetworks
    from latcast.predictors.forecast import load
    from latcast.records import Platform

    if device is None:
        platform = Platform.parse(f"unknown/tflite-unstated/{unit}/fp32")
        return add_device(platform, MeasuredNetworks(()), load_device_model()).predictor
    found = load(device)
    if found.device is None:
        raise typer.BadParameter(
            f"{device} was profiled, not added from a few networks: profile it again for longer", param_hint="BUNDLE"
        )
    return found


def _suggested(
    predictor: PlatformPredictor, count: int, models: Sequence[str] = (), max_mb: float | None = None
) -> tuple[float, list[Suggestion]]:
    """Mean deviation now, and suggestions out of the networks that the model of devices keeps, without those measured already."""
    import numpy as np

    from latcast.devices.added_device import suggest_networks
    from latcast.devices.device_model_file import load_device_model
    from latcast.devices.known_platforms import RULES
    from latcast.devices.network_kernels import network_kernels
    from latcast.kernels.rules import load_rules
    from latcast.predictors.card import TRAINING_KEYS
    from latcast.predictors.network_features import NetworkFeatures
    from latcast.spaces import build
    from latcast.spaces.models import as_graph

    most, known = _parameters(max_mb), set(predictor.card.get(TRAINING_KEYS) or ())
    kept = [each for each in load_device_model().signature if most is None or build(each).parameter_count <= most]
    choices = [each for each in kept if each.key not in known]
    if not kept:
        raise typer.BadParameter(f"no network of at most {max_mb:g} MB is left to choose from", param_hint="--max-mb")
    rules = load_rules(RULES)
    features = NetworkFeatures.of([network_kernels(each, rules) for each in kept])
    among = features.rows(np.array([place for place, each in enumerate(kept) if each.key not in known], dtype=int))
    wanted = NetworkFeatures.of([network_kernels(as_graph(each), rules) for each in models]) if models else features
    assert predictor.device is not None
    return suggest_networks(predictor.device, choices, among, wanted, count)


def _reach(deviation: float) -> float:
    """Upper bound over latency."""
    import math

    from latcast.predictors.device_forecast import LEVEL_DEVIATIONS

    return math.exp(LEVEL_DEVIATIONS * deviation)


def _percent(deviation: float) -> str:
    return _percent_of(_reach(deviation))


def _device_json(predictor: PlatformPredictor) -> dict[str, Any]:
    """What ``add --json`` and ``show --json`` say of a device."""
    card = predictor.card
    document: dict[str, Any] = {
        "platform": predictor.platform.id,
        "measured": card.get("measurements"),
        "mape": card.get("mape"),
        "interval": predictor.interval.to_json(),
        "nearest": card.get("nearest") or [],
        "throughputs": [each.to_json() for each in predictor.throughputs],
        "overhead_ms": predictor.network.constant_ms,
        "warnings": [card["warning"]] if card.get("warning") else [],
    }
    if predictor.device is not None:
        document["members"] = {each.name: round(each.weight, 3) for each in predictor.device.members}
        document["coefficients"] = coefficients_of(predictor.device)
    return document


def coefficients_of(forecast: DeviceForecast) -> list[dict[str, Any]]:
    """What a device takes for each term, in milliseconds, and by which factor that is uncertain (one standard deviation)."""
    import numpy as np

    from latcast.predictors.network_features import TERM_NAMES, TERM_UNITS

    unit_ms = TERM_UNITS * np.exp(forecast.coefficients)
    return [
        {"term": name, "ms_per_unit": float(value), "factor_68": float(np.exp(deviation))}
        for name, value, deviation in zip(TERM_NAMES, unit_ms, forecast.coefficient_deviation, strict=True)
    ]


def _print_added(added: NewDevice, written: Path) -> None:
    predictor = added.predictor
    count = predictor.card["measurements"]
    mape = predictor.card.get("mape")
    judged = f"; each from the others: MAPE {mape:.1f} %" if mape is not None else ""
    print(f"{written}: {predictor.platform.id}, from {count} measured networks{judged}")
    _print_nearest(predictor)
    print(f"\n    latcast predict my_network.onnx --on {written}")


def _print_nearest(predictor: PlatformPredictor) -> None:
    print_table(
        "known platforms most like it",
        ("platform", "times slower here", "apart", ""),
        [
            (
                each["platform"],
                "-" if each["factor"] is None else f"{each['factor']:.2f}",
                "-" if each["deviation"] is None else f"{100 * each['deviation']:.0f} %",
                "same chip" if each["same_chip"] else "",
            )
            for each in predictor.card.get("nearest") or []
        ],
    )


def _print_device(predictor: PlatformPredictor, document: dict[str, Any]) -> None:
    from latcast.predictors.network_features import BASE_TERMS

    if predictor.card.get("nearest"):
        _print_nearest(predictor)
    rates = ("GFLOP/s", "G elements/s", "G weights/s", "µs each", "ms")
    rows = []
    for each, base in zip(document["coefficients"], BASE_TERMS.tolist(), strict=True):
        value = each["ms_per_unit"]
        shown = 1e-6 / value if base < 3 else 1e3 * value if base == 3 else value
        rows.append((each["term"], f"{shown:.3g} {rates[base]}", f"x/÷ {each['factor_68']:.2f}"))
    print_table(f"{predictor.platform.id}: what it achieves", ("term", "value", "uncertain by"), rows)
    more = document["more"]
    print(
        f"typical 90 % interval: {_percent_of(more['typical_high_over_latency'])}; with ten more networks "
        f"{_percent_of(more['with_ten_more'])} (latcast device suggest names them)"
    )
    for text in document["warnings"]:
        warn(text)


def _percent_of(reach: float) -> str:
    return f"-{100 * (1 - 1 / reach):.0f} to +{100 * (reach - 1):.0f} %"


app.command()(adapt)
app.command()(prepare)
app.command()(pin)
app.add_typer(device_fusion.app, name="fusion")
