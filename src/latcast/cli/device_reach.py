"""``latcast device prepare``: makes a device ready to be measured from here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from latcast.cli import options
from latcast.cli.output import StageProgress, kept_when_interrupted, print_json


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
