"""``latcast device``: a device from a few networks timed there, or from little measuring under a runtime here."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from latcast.cli import device_fusion, device_language, options
from latcast.cli.device_adapt import adapt
from latcast.cli.device_choice import kit, percent_of, reach, suggest, suggested
from latcast.cli.lazy_group import command_group
from latcast.cli.output import StageProgress, kept_when_interrupted, print_json, print_table, warn
from latcast.cli.platforms import coefficients_of
from latcast.errors import DatasetError, counted
from latcast.records import PUBLISHED_PRECISIONS, UNIT_KINDS, Unit

if TYPE_CHECKING:
    from latcast.predictors.platform_predictor import PlatformPredictor

app = command_group("""A new device: from a few networks timed there, or from minutes of measuring under a runtime here.

\b
Examples:
  latcast device kit -o kit.zip --formats tflite
  latcast device add pi5 --unit cpu4 --runtime tflite --precision fp32 --measured few.csv -o pi5.zip
  latcast device show pi5.zip
  latcast device suggest pi5.zip
  latcast device fusion detect --runtime litert
""")


def _unit(text: str) -> str:
    text = text.lower() if text.isalnum() else text
    unit = Unit.parse(text)
    if unit.kind not in UNIT_KINDS or not (unit.cores or re.match(r"(cpu|gpu|npu)\d*(?![a-z0-9])", text)):
        raise typer.BadParameter(f"'{text}' is no unit; expected one such as cpu4 (of four threads), 2large (cores), gpu or npu")
    return text


def _chip(text: str) -> str:
    from latcast.chips.chip_names import chip_of
    from latcast.devices.naming_advice import may_mean, whole_name

    found = whole_name(text) if text else text
    if found and chip_of(found, found) is None:
        raise typer.BadParameter(f"no one chip is called '{text}'{may_mean(text)}; leave it out where it is not known")
    return found


def _precision(text: str) -> str:
    from latcast.spaces.model_names import PRECISIONS

    return options.one_of("", *PUBLISHED_PRECISIONS)(PRECISIONS.get(text.lower(), text))


@app.command()
def add(
    name: Annotated[
        str, Argument(metavar="NAME", help="What the device is called; known names and chips tell more: pi5, pixel6.")
    ],
    unit: Annotated[str, Option("--unit", "-u", help="What computes: cpu4, 2large, gpu, npu.", callback=_unit)],
    runtime: Annotated[str, Option("--runtime", "-r", help="What ran them, with its version where known: tflite-2.16.")],
    precision: Annotated[
        str,
        Option(
            "--precision",
            "-p",
            help="fp32, fp16, int8...; not of language models.",
            callback=_precision,
        ),
    ] = "",
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            help="Bundle to write: a folder, a .zip, or of language models a .json.  [default: known by its name]",
        ),
    ] = None,
    measured: Annotated[
        list[str] | None,
        Option(
            "--measured",
            "-m",
            help="What was measured there: a table with columns such as model (files or names) and latency_ms, JSON, a store, "
            "tools' output, a kit's folder; several add up. Of language models: llama-bench's output, records of PocketPal or "
            "edge-llm-bench. [default: nothing, only what is known of its chip]",
        ),
    ] = None,
    chip: Annotated[
        str, Option("--chip", help="Its chip, where the device's name does not say: 'snapdragon 8 gen 3'.", callback=_chip)
    ] = "",
    latency_unit: Annotated[
        str,
        Option(
            "--latency-unit",
            help="Unit of latencies whose table does not say it: ms, s or us. [default: ms]",
            callback=options.one_of("", "latcast.devices.measured_networks:MILLISECONDS"),
            metavar="ms|s|us",
        ),
    ] = "",
    gpu_family: options.GpuFamilyName = "",
    device_model: Annotated[
        Path | None,
        Option("--device-model", metavar="FILE", help="Another model of devices than the one that comes with latcast."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Make a predictor of a device from none to a hundred networks timed there.

    \b
    Examples:
      latcast device add pi5 --unit cpu4 --runtime tflite --precision fp32 --measured few.csv -o pi5.zip
      latcast device add s24 -u npu -r qnn -p int8 --chip 'snapdragon 8 gen 3' -o s24.zip
      latcast device add myphone -u cpu6 -r llama.cpp --chip 'snapdragon 8 gen 3' --measured llama-bench.json
    """
    from latcast.datasets.importers.measured_speeds import holds_speeds

    files = [Path(text) for text in measured or () if Path(text).is_file()]
    if files and len(files) == len(measured or ()) and all(map(holds_speeds, files)):
        device_language.add(name, unit, runtime, chip, files, output, as_json=as_json)
        return
    if not precision:
        for text in measured or ():
            if "://" not in text and not os.path.exists(os.path.expanduser(text)):
                raise DatasetError(f"cannot read what was measured: there is no file '{text}'")
        raise typer.BadParameter("expected fp32, fp16, int8...", param_hint="--precision")
    from latcast.chips.chip_names import chip_of, vendor_of
    from latcast.devices.added_device import add_device
    from latcast.devices.covariates import kind_of
    from latcast.devices.device_model_file import load_device_model
    from latcast.devices.measured_files import read_measured
    from latcast.devices.measured_networks import MeasuredNetworks
    from latcast.devices.naming_advice import may_mean, whole_name
    from latcast.predictors.bundle import save_bundle
    from latcast.predictors.bundle_index import bundle_path
    from latcast.predictors.platform_names import runtime_called
    from latcast.records import Platform

    platform = Platform.stated(name, runtime_called(runtime), unit, precision)
    called = name if chip else whole_name(name, vendor_of(platform))
    if not measured and chip_of(called, chip, kind_of(platform, {}), vendor_of(platform)) is None:
        raise typer.BadParameter(
            f"nothing was measured on '{name}', and its chip is not known{may_mean(name)}; name it with --chip, or time some "
            "networks: latcast device kit",
            param_hint="NAME",
        )
    with StageProgress() as progress:
        progress.show("reading what was measured", 0.0)
        found = read_measured(measured, platform) if measured else MeasuredNetworks(())
        progress.show("learning the device", 0.4)
        model = load_device_model(device_model)
        added = add_device(platform, found, model, device_text=called, chip_text=chip, latency_unit=latency_unit)
        progress.show("writing the bundle", 0.9)
        written = save_bundle(added.predictor, output or bundle_path(platform))
    for text in (*added.notes, *added.warnings):
        warn(text)
    document = {"bundle": str(written), **_device_json(added.predictor)}
    if as_json:
        print_json({**document, "misfits": [vars(each) for each in added.misfits], "notes": list(added.notes)})
        return
    predictor = added.predictor
    mape = predictor.card.get("mape")
    judged = f"; each from the others: MAPE {mape:.1f} %" if mape is not None else ""
    print(f"{written}: {predictor.platform.id}, from {counted(predictor.card['measurements'], 'measured network')}{judged}")
    _print_nearest(predictor)
    print(f"\n    latcast predict my_network.onnx --on {platform.id if output is None else written}")


@app.command()
def show(
    device: Annotated[str, Argument(metavar="BUNDLE", help="A bundle that device add wrote.")],
    as_json: options.AsJson = False,
) -> None:
    """Show a device: throughputs with their uncertainty, the nearest platforms, what more networks would tell.

    \b
    Examples:
      latcast device show pi5.zip
    """
    from latcast.platforms import load

    predictor = load(device)
    if predictor.device is None:
        raise typer.BadParameter(
            f"{device} was profiled; latcast platforms show {device} says what it does well", param_hint="BUNDLE"
        )
    document = _device_json(predictor)
    with StageProgress() as progress:
        progress.show("asking what more networks would tell", 0.0)
        now, more = suggested(predictor, 10)
    document["more"] = {
        "typical_high_over_latency": reach(now),
        "with_ten_more": reach(more[-1].deviation) if more else reach(now),
        "networks": [each.reference.name for each in more],
    }
    if as_json:
        print_json(document)
        return
    _print_device(predictor, document)


def _device_json(predictor: PlatformPredictor) -> dict[str, Any]:
    """Return the JSON of ``add --json`` and ``show --json``."""
    card = predictor.card
    document: dict[str, Any] = {
        "platform": predictor.platform.id,
        "measured": card.get("measurements"),
        "mape": card.get("mape"),
        "interval": predictor.interval.to_json(),
        "nearest": card.get("nearest") or [],
        "twin": card.get("twin"),
        "throughputs": [each.to_json() for each in predictor.throughputs],
        "overhead_ms": predictor.network.constant_ms,
        "warnings": [card["warning"]] if card.get("warning") else [],
    }
    if predictor.device is not None:
        document["members"] = {each.name: round(each.weight, 3) for each in predictor.device.members}
        document["coefficients"] = coefficients_of(predictor.device)
    return document


def _print_nearest(predictor: PlatformPredictor) -> None:
    twin = predictor.card.get("twin")
    if twin:
        apart = "" if twin["deviation"] is None else f" ({100 * twin['deviation']:.0f} % apart)"
        print(f"as {twin['platform']}, times {twin['factor']:.2f}{apart}")
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
        print()
    rates = ("GFLOP/s", "G elements/s", "G weights/s", "µs each", "ms")
    rows = []
    for each, base in zip(document["coefficients"], BASE_TERMS.tolist(), strict=True):
        value = each["ms_per_unit"]
        shown = 1e-6 / value if base < 3 else 1e3 * value if base == 3 else value
        rows.append((each["term"], f"{shown:.3g} {rates[base]}", f"x/÷ {each['factor_68']:.2f}"))
    print_table(f"{predictor.platform.id}: what it achieves", ("term", "value", "uncertain by"), rows)
    more = document["more"]
    print(
        f"typical 90 % interval: {percent_of(more['typical_high_over_latency'])}; with ten more networks "
        f"{percent_of(more['with_ten_more'])} (latcast device suggest names them)"
    )
    for text in document["warnings"]:
        warn(text)


@kept_when_interrupted("the same command goes on with it")
def prepare(
    device: Annotated[str, Argument(metavar="ADDRESS", help="ssh://user@host[:port]")],
    runtime: Annotated[
        list[str] | None, Option("--runtime", "-r", help="To install there; repeatable. [default: onnxruntime]")
    ] = None,
    python: Annotated[
        str, Option("--python", help="The Python there that the environment uses. [default: python3]", metavar="PATH")
    ] = "",
    carry: Annotated[
        bool, Option("--carry", help="Fetch what it needs here and carry it: for a device without network.")
    ] = False,
    wheels: Annotated[
        Path | None,
        Option("--wheels", help="Carry the wheels of this folder, and install nothing from elsewhere.", metavar="FOLDER"),
    ] = None,
    system_packages: Annotated[
        bool, Option("--system-packages", help="Let the environment see what is installed there for that Python.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Put latcast, as it is here, and a runtime into an environment on a device that ssh reaches.

    \b
    Examples:
      latcast device prepare ssh://pi@board
      latcast device prepare ssh://pi@board --runtime litert --carry
    """
    from latcast.measure.prepare import prepare as prepare_device

    with StageProgress() as progress:
        found = prepare_device(
            device, runtime or ("onnxruntime",), python=python, carry=carry, wheels=wheels, system_packages=system_packages,
            watch=progress.show,
        )  # fmt: skip
    if as_json:
        print_json(found.to_json())
        return
    versions = ", ".join(f"{name} {version}" for name, version in found.runtimes.items())
    print(f"{found.address} has latcast {found.latcast} under Python {found.python}, with {versions}; measure there:\n")
    print(f"    latcast measure resnet18 --device {found.address} --runtime {next(iter(found.runtimes))}")


app.command()(suggest)
app.command()(kit)
app.command()(adapt)
app.command()(prepare)
app.add_typer(device_fusion.app, name="fusion")
