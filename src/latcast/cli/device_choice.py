"""``latcast device suggest`` and ``latcast device kit``: which networks to time on a device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from latcast.cli import device_language, options
from latcast.cli.output import StageProgress, print_json, print_table, warn
from latcast.errors import counted
from latcast.tables import signed

if TYPE_CHECKING:
    from latcast.devices.added_device import Suggestion
    from latcast.predictors.platform_predictor import PlatformPredictor
    from latcast.records import Reference


def _formats(text: str) -> str:
    from latcast.devices.signature_kit import FORMATS

    unknown = [name for name in options.names_in(text) if name not in FORMATS]
    if unknown:
        raise typer.BadParameter(f"'{unknown[0]}' is not one of: {', '.join(FORMATS)}")
    return text


Count = Annotated[int, Option("--count", "-n", help="How many networks.", min=1)]


MaxMb = Annotated[float | None, Option("--max-mb", help="Only networks of at most this many MB in fp32.", min=0.1)]


Llm = Annotated[bool, Option("--llm", help="Of language models: pairs of a model and a quantisation.")]


def suggest(
    device: Annotated[
        str | None,
        Argument(metavar="[BUNDLE]", help="A bundle that device add wrote. [default: a device of which nothing is known]"),
    ] = None,
    count: Count = 10,
    models: Annotated[
        list[str] | None,
        Option("--for", metavar="MODEL", help="Networks whose intervals count: files or names. [default: all]"),
    ] = None,
    unit: Annotated[str, Option("--unit", "-u", help="Of a device of which nothing is known: cpu, gpu or npu.")] = "cpu",
    max_mb: MaxMb = None,
    llm: Llm = False,
    as_json: options.AsJson = False,
) -> None:
    """Suggest which networks to measure next: those that would narrow the intervals most.

    On devices held out, ten networks drawn at random did about as well (docs/new_device.md).

    \b
    Examples:
      latcast device suggest pi5.zip --for my_network.onnx
      latcast device suggest -n 5 --unit gpu
    """
    if llm:
        device_language.suggest(device, count, as_json=as_json)
        return
    predictor = _predictor_of(device, unit)
    with StageProgress() as progress:
        progress.show("weighing networks", 0.0)
        now, found = suggested(predictor, count, models or (), max_mb)
    if as_json:
        print_json(
            {
                "high_over_latency": reach(now),
                "networks": [
                    {**each.reference.to_json(), "key": each.reference.key, "high_over_latency": reach(each.deviation)}
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


def kit(
    output: Annotated[Path, Option("--output", "-o", help="The kit's folder, or a .zip of it.")],
    networks: Annotated[
        list[str] | None,
        Argument(metavar="[NETWORK]...", help="Published networks, instead of choosing some."),
    ] = None,
    count: Count = 10,
    precision: Annotated[
        str,
        Option("--precision", "-p", help="fp32 or int8.", callback=options.one_of("latcast.devices.signature_kit:PRECISIONS")),
    ] = "fp32",
    formats: Annotated[str, Option("--formats", help="Which of tflite, onnx and ncnn.", callback=_formats)] = "",
    max_mb: MaxMb = None,
    llm: Llm = False,
    as_json: options.AsJson = False,
) -> None:
    """Networks as files and a script that times them, for devices on which latcast does not run.

    \b
    Examples:
      latcast device kit -o kit.zip --formats tflite
      latcast device kit resnet18 mobilenet_v2 -o kit --precision int8
    """
    if llm:
        device_language.kit(output, as_json=as_json)
        return
    from latcast.devices.signature_kit import FORMATS, example_of, write_kit
    from latcast.spaces.catalogue import model as published_model

    chosen: dict[str, Any]
    references: Sequence[Reference]
    if networks:
        references, chosen = [published_model(name, as_measured=True) for name in networks], {"by": "name"}
    else:
        _, found = suggested(_predictor_of(None, "cpu"), count, (), max_mb)
        references, chosen = [each.reference for each in found], {"by": "information"}
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
        f"{output}: {counted(len(written.manifest.networks), 'network')} in {precision}, {size}",
        ("network", "input", "formats"),
        [
            (network.name, "x".join(map(str, network.input_shape)), ", ".join(network.files))
            for network in written.manifest.networks
        ],
    )
    folder, unpacking, runtime = output, "", "-".join(example_of(written.manifest))
    if written.archive_bytes is not None:
        folder, unpacking = Path(output.stem), f"Unpack it (unzip {output}). "
    print(
        f"\n{unpacking}Put the tools into {folder / 'tools'} (its README.md says where they come from), then:\n\n"
        f"    sh {folder / 'android.sh'} --threads 1      on an Android phone, over adb (not tried on a real phone)\n"
        f"    sh {folder / 'measure.sh'} --device rpi5 --threads 1        on this or another computer\n\n"
        "Each ends with the command that adds the device from what it measured:\n\n"
        f"    latcast device add rpi5 --unit cpu1 --runtime {runtime} --precision {precision} --measured {folder} -o rpi5.zip\n"
        "    latcast predict my_network.onnx --on rpi5.zip"
    )


def _predictor_of(device: str | None, unit: str) -> PlatformPredictor:
    """Return the posterior of a bundle, or of a unit of which nothing is known."""
    from latcast.devices.added_device import add_device
    from latcast.devices.device_model_file import load_device_model
    from latcast.devices.measured_networks import MeasuredNetworks
    from latcast.platforms import load
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


def suggested(
    predictor: PlatformPredictor, count: int, models: Sequence[str] = (), max_mb: float | None = None
) -> tuple[float, list[Suggestion]]:
    """Mean deviation now, and suggestions out of the networks that the model of devices keeps, without those measured already."""
    import numpy as np

    from latcast.devices.added_device import suggest_networks
    from latcast.devices.covariates import network_kernels
    from latcast.devices.device_model_file import load_device_model
    from latcast.networks import read_model
    from latcast.predictors.card import TRAINING_KEYS
    from latcast.predictors.network_features import NetworkFeatures
    from latcast.spaces import build

    most = None if max_mb is None else max_mb * 1e6 / 4  # parameters, in single precision
    known = set(predictor.card.get(TRAINING_KEYS) or ())
    kept = [each for each in load_device_model().signature if most is None or build(each).parameter_count <= most]
    choices = [each for each in kept if each.key not in known]
    if not kept:
        raise typer.BadParameter(f"no network of at most {max_mb:g} MB is left to choose from", param_hint="--max-mb")
    rules = predictor.rules
    features = NetworkFeatures.of([network_kernels(each, rules) for each in kept])
    among = features.rows(np.array([place for place, each in enumerate(kept) if each.key not in known], dtype=int))
    wanted = NetworkFeatures.of([network_kernels(read_model(each), rules) for each in models]) if models else features
    assert predictor.device is not None
    return suggest_networks(predictor.device, choices, among, wanted, count)


def reach(deviation: float) -> float:
    """Upper bound over latency."""
    import math

    from latcast.predictors.intervals import LEVEL_DEVIATIONS

    return math.exp(LEVEL_DEVIATIONS * deviation)


def _percent(deviation: float) -> str:
    return percent_of(reach(deviation))


def percent_of(over: float) -> str:
    """Format the interval whose upper bound is so many times the latency."""
    return f"{signed(100 * (1 / over - 1), 0)} to {signed(100 * (over - 1), 0)} %"
