"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from latcast.measure.settings import WorkerSettings
from latcast.records import PRECISIONS


def one_of(values: Callable[[], Sequence[str]]) -> Callable[[str], str]:
    """A check that an option's value is one of some names, which are asked for only when the option is parsed."""

    def check(value: str) -> str:
        if value not in values():
            raise typer.BadParameter(f"'{value}' is none of {', '.join(values())}")
        return value

    return check


def _runtimes() -> Sequence[str]:
    from latcast.runtimes import RUNTIMES

    return RUNTIMES.names()


def _ways() -> Sequence[str]:
    from latcast.predictors.training import WAYS

    return WAYS


def _models() -> Sequence[str]:
    from latcast.predictors.kernel_predictor import kernel_models

    return kernel_models()


def _cpus(text: str) -> str:
    if text and not all(part.strip().isdecimal() for part in text.split(",")):
        raise typer.BadParameter(f"'{text}' is no list of CPU numbers such as 2,3")
    return text


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Runtime = Annotated[
    str, typer.Option("--runtime", "-r", help="Inference framework: see latcast doctor.", callback=one_of(_runtimes))
]
Threads = Annotated[int, typer.Option("--threads", "-t", help="Threads of one inference.", min=1)]
Precision = Annotated[
    str, typer.Option("--precision", "-p", help=f"One of {', '.join(PRECISIONS)}.", callback=one_of(lambda: PRECISIONS))
]
Cpus = Annotated[str, typer.Option("--cpus", help="CPUs to pin to, such as 2,3; the last ones by default.", callback=_cpus)]
Realtime = Annotated[
    bool | None,
    typer.Option(
        "--realtime/--no-realtime",
        help="Run at a real-time priority, which keeps other processes out of the runs; 1 thread only. "
        "[default: where it is permitted]",
    ),
]
Scheduler = Annotated[
    str,
    typer.Option(
        "--scheduler", help="Address of a Dask scheduler, whose workers do the work: see latcast worker.", metavar="ADDRESS"
    ),
]
LibraryPath = Annotated[
    Path | None,
    typer.Option(
        "--library-path",
        help="Folder with another version of the runtime's library, as pip install --no-deps --target FOLDER puts it there.",
        metavar="FOLDER",
    ),
]
Trust = Annotated[bool, typer.Option("--trust", help="Let a .pt2 file run the code it may hold: only if you know who made it.")]
DeviceName = Annotated[str, typer.Option("--device", help="What the machine that measures is called in platform ids.")]
Seed = Annotated[int, typer.Option("--seed", help="Of every random choice.", min=0)]
Budget = Annotated[float, typer.Option("--budget", help="Minutes to spend.", min=0.05)]
Way = Annotated[
    str,
    typer.Option(
        "--way",
        "--from",
        help="Learn from operators profiled inside networks, from kernels timed alone, or from whole networks.",
        metavar="operators|kernels|networks",
        callback=one_of(_ways),
    ),
]
KernelModel = Annotated[
    str,
    typer.Option(
        "--model",
        help="How a kernel type is modelled: physical_residual, analytical, lasso, random_forest, gbdt or mlp.",
        callback=one_of(_models),
    ),
]
Rules = Annotated[
    str | None,
    typer.Option(
        "--rules",
        help="Fusion rules by which networks fall into kernels: shipped, detected (what latcast fusion detect found here), "
        "or a file. [default: shipped]",
        metavar="shipped|detected|FILE",
    ),
]
BundleOutput = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Where to save the bundle: a folder, or a .zip. [default: the user's folder]"),
]
Replace = Annotated[
    bool,
    typer.Option("--replace", help="Put the new bundle in the place of the user's own, even where that one is the better."),
]


def worker_settings(
    runtime: str,
    threads: int = 1,
    precision: str = "fp32",
    cpus: str = "",
    realtime: bool | None = None,
    device: str = "local",
    scheduler: str = "",
    library_path: Path | None = None,
    *,
    trust: bool = False,
) -> WorkerSettings:
    """The platform that the options ask for. Where a scheduler is given, its workers choose CPUs and priority."""
    from latcast.measure.scheduling import realtime_permitted

    if realtime is None:
        realtime = threads == 1 and realtime_permitted()
    chosen = tuple(int(part) for part in cpus.split(",")) if cpus else None
    return WorkerSettings(
        runtime, threads, precision, device, cpus=chosen, realtime=realtime, scheduler=scheduler,
        library_path="" if library_path is None else str(library_path), trust=trust,
    )  # fmt: skip


def parse_block(text: str) -> tuple[int, int, int]:
    """What ``--block`` says that a work item computes: columns, rows and slices."""
    parts = text.replace("x", ",").split(",")
    if len(parts) != 3 or not all(part.strip().isdecimal() and int(part) for part in parts):
        raise typer.BadParameter(f"--block '{text}' is not of the form 2,1,1")
    x, y, z = (int(part) for part in parts)
    return (x, y, z)


def default_store_path(settings: WorkerSettings, kind: str = "") -> Path:
    """Where the user's folder keeps measurements of a platform; ``kind`` sets those of another purpose apart."""
    from latcast.folders import made, measurements_folder

    parts = [
        kind,
        "" if settings.device == "local" else settings.device,
        settings.runtime,
        f"cpu{settings.threads}",
        settings.precision,
    ]
    path = measurements_folder() / ("-".join(part for part in parts if part) + ".sqlite")
    made(path.parent)
    return path
