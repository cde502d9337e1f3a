"""``latcast device prepare`` and ``pin``: what makes a device ready to be measured from here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from latcast.cli import options
from latcast.cli.output import StageProgress, kept_when_interrupted, print_json, print_table

if TYPE_CHECKING:
    from latcast.measure.clocks import Clock


@kept_when_interrupted("the same command goes on with it")
def prepare(
    device: Annotated[str, Argument(metavar="ADDRESS", help="ssh://user@host[:port]")],
    runtime: Annotated[
        list[str] | None, Option("--runtime", "-r", help="To install there; repeatable. [default: onnxruntime]")
    ] = None,
    python: Annotated[
        str, Option("--python", help="The interpreter there to make it of. [default: python3]", metavar="PATH")
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


@kept_when_interrupted("the clocks are as they were before")
def pin(
    frequency: Annotated[
        str,
        Option("--frequency", "-f", help="1.5GHz, 1500MHz... [default: the highest]", metavar="FREQUENCY", show_default=False),
    ] = "",
    cpus: Annotated[
        str,
        Option(
            "--cpus", help="CPUs whose clocks to set, such as 2,3. [default: all]", callback=options.cpu_list, show_default=False
        ),
    ] = "",
    release: Annotated[bool, Option("--release", help="Put back what was set before.")] = False,
    show: Annotated[bool, Option("--show", help="Change nothing.")] = False,
    sudo: Annotated[bool, Option("--sudo", help="Write the system's files through sudo, without a password.")] = False,
    device: Annotated[str, Option("--device", help="Of this device instead: ssh://user@host.", metavar="ADDRESS")] = "",
    as_json: options.AsJson = False,
) -> None:
    """Fix the clocks of CPUs, so that latencies repeat and platform ids say at which frequency; and put them back.

    \b
    Examples:
      latcast device pin --frequency 1.5GHz --sudo
      latcast device pin --release --sudo
      latcast device pin --frequency 1.5GHz --device ssh://root@board
    """
    from latcast.measure import clocks

    if release and (show or frequency):
        raise typer.BadParameter("--release puts back what was set before; it goes with no frequency and not with --show")
    numbers = options.cpu_numbers(cpus)
    wanted_khz = clocks.parse_frequency(frequency) if frequency else None
    if device:
        found = _on(device, frequency=frequency, cpus=cpus, release=release, show=show, sudo=sudo)
    else:
        write = clocks.write_by_sudo if sudo else clocks.write_directly
        released = clocks.release(write=write) if release else 0
        done = clocks.clocks() if release or show else clocks.pin(wanted_khz, numbers, write=write)
        found = {"released": released, "pinned": clocks.kept_file().exists(), "clocks": [_clock_json(each) for each in done]}
    if as_json:
        print_json(found)
        return
    if release:
        print(f"{found['released']} clocks are as they were before" if found["released"] else "no clock was pinned by latcast")
    elif not found["clocks"]:
        print("the system shows no clocks of CPUs")
    rows = [
        (
            str(each["cpu"]),
            each["governor"],
            "-" if each["mhz"] is None else f"{each['mhz']:g}",
            "-" if each["fixed_mhz"] is None else f"{each['fixed_mhz']:g}",
            f"{each['limits_mhz'][0]:g} to {each['limits_mhz'][1]:g}",
        )
        for each in found["clocks"]
    ]
    if rows:
        print_table("", ("CPU", "governor", "MHz", "fixed to", "limits MHz"), rows)
    if found["pinned"] and not show:
        print("\nput them back with: latcast device pin --release" + (f" --device {device}" if device else ""))


def _clock_json(clock: Clock) -> dict[str, Any]:
    return {
        "cpu": clock.cpu,
        "governor": clock.governor,
        "mhz": None if clock.khz is None else clock.khz / 1e3,
        "fixed_mhz": None if clock.fixed_khz is None else clock.fixed_khz / 1e3,
        "limits_mhz": [clock.least_khz / 1e3, clock.most_khz / 1e3],
        "available_mhz": [khz / 1e3 for khz in clock.listed_khz],
    }


def _on(device: str, **chosen: str | bool) -> dict[str, Any]:
    """The same command on a device, by its own latcast."""
    from latcast.measure.ssh import run_latcast

    arguments: list[str] = []
    for name, value in chosen.items():
        if value:
            arguments += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    found: dict[str, Any] = json.loads(run_latcast(device, ["device", "pin", "--json", *arguments]))
    return found
