"""The ``latcast`` command: its subcommands, and how errors are printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from errno import ENOSPC
from typing import Annotated, Any

import typer
from typer import Option

from latcast import __version__
from latcast.cli.lazy_group import Sections, lazy_group
from latcast.cli.output import Interrupted, PrintableOutput, WatchedStream, warn
from latcast.errors import LatcastError

SECTIONS: Sections = {
    "Commands": {
        "predict": ("latcast.cli.predict:predict", "Latency of models on platforms, with interval and breakdown."),
        "compare": ("latcast.cli.compare:compare", "Which of two models or platforms is faster, how surely."),
        "check": ("latcast.cli.check:check", "Whether models keep to a budget, or grow against a base."),
        "explain": ("latcast.cli.explain:explain", "Where the time goes, what limits it, what changes would bring."),
        "sweep": ("latcast.cli.sweep:sweep", "Latency over resolution, batch or length."),
        "report": ("latcast.cli.report:report", "A model on platforms as one HTML file."),
        "advise": (
            "latcast.cli.advise:advise",
            "A device's fastest precision, unit, threads, how surely.",
        ),
        "choose": ("latcast.cli.choose:choose", "The most accurate networks under a latency and memory budget."),
        "platforms": ("latcast.cli.platforms:app", "What can be predicted for, and how well."),
        "models": ("latcast.cli.platforms:models", "Published networks that can be predicted by name."),
        "measure": ("latcast.cli.measure", "The real latency here."),
        "profile": ("latcast.cli.profile", "Measure this machine and train a predictor bundle for it."),
        "share": ("latcast.cli.share:share", "Contribute what was measured here to a hub."),
        "search": ("latcast.cli.search", "The best networks of a search space under a latency limit."),
        "doctor": ("latcast.cli.doctor", "What works here, what is missing and how to add it."),
        "demo": ("latcast.cli.demo", "Profile this machine, predict other networks, check by running."),
    },
    "Further commands": {
        "device": (
            "latcast.cli.device:app",
            "A new device: kit, add, show, suggest, adapt, fusion.",
        ),
        "hub": ("latcast.cli.hub:app", "A shared hub of measurements: serve, administer."),
        "data": ("latcast.cli.data:app", "Published measurements in; networks and kernels to measure."),
        "train": ("latcast.cli.train:train", "Train a bundle from stored measurements."),
        "evaluate": ("latcast.cli.train:evaluate", "Judge a bundle on stored measurements it was not trained on."),
        "workgroups": ("latcast.cli.workgroups:app", "GPU work-group sizes: advice, measuring, replaying sweeps."),
        "worker": ("latcast.cli.worker", "Measure and predict here for a Dask scheduler."),
    },
}

DEBUG_VARIABLE = "LATCAST_DEBUG"
"""Set to anything, it shows the traceback of an error instead of one line."""

FAILURE, INTERRUPTED = 1, 130
"""Exit codes; a wrong call exits with 2, which Typer sees to."""


def _show_version(asked: bool) -> None:
    if asked:
        print(f"latcast {__version__}")
        raise typer.Exit


def _options(
    context: typer.Context,
    version: Annotated[
        bool, Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Forecast how long a network takes on a device: milliseconds, with an interval and a reason.

    \b
    Examples:
      latcast demo
      latcast predict model.onnx --on "Raspberry Pi 5 CPU"
      latcast choose --on "Pixel 4 GPU" --max-ms 15
      latcast platforms "Galaxy S25"
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


def _main() -> Any:
    app = typer.Typer(
        name="latcast",
        cls=lazy_group(SECTIONS),
        callback=_options,
        invoke_without_command=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    return typer.main.get_command(app)


def run(arguments: Sequence[str] | None = None, main: Callable[[], Any] = _main, program: str = "latcast") -> int:
    """Run one command.

    Args:
        arguments: Without the program's name; those of the process where None.
        main: The group of commands.
        program: Its name in usage and help.

    Returns:
        The exit code: 0; 1 for an error, printed as one line; 2 for a wrong call, with usage; 130 after Ctrl-C.
    """
    _open_closed_streams()
    output, messages = WatchedStream(sys.stdout), WatchedStream(sys.stderr, raising=False)
    with redirect_stderr(messages):
        code = _run(arguments, main, program, output)
        lost = output.give_up()
        if lost is not None:
            warn(f"standard output takes no more ({lost.strerror}); give it a file, a pipe or a terminal with room")
    messages.give_up()
    return code or (FAILURE if lost is not None else 0)


def _open_closed_streams() -> None:
    """Replace streams that were closed before the start, so that no file takes their number.

    Reading finds the end, messages are dropped, and results fail to be written.
    """
    for name, flags, mode in (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, flags), mode))  # noqa: SIM115 - open until the process ends


def _run(arguments: Sequence[str] | None, main: Callable[[], Any], program: str, output: WatchedStream) -> int:
    debugging = bool(os.environ.get(DEBUG_VARIABLE))
    try:
        with redirect_stdout(PrintableOutput(output)):
            main()(None if arguments is None else list(arguments), prog_name=program)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILURE if end.code else 0
    except LatcastError as problem:
        if debugging:
            raise
        warn(problem)
    except (Interrupted, KeyboardInterrupt) as problem:
        warn(str(problem) or "interrupted")
        return INTERRUPTED
    except Exception as problem:
        if debugging:
            raise
        from latcast.extras import explained

        asked = _command_asked(program, sys.argv[1:] if arguments is None else arguments)
        missing = explained(problem, asked) if isinstance(problem, ModuleNotFoundError) else None
        if missing is not None:
            warn(str(missing))
        elif isinstance(problem, OSError) and problem.filename is not None and problem.strerror:
            warn(f"{problem.filename}: {problem.strerror}; check that it is there and can be read or written")
        elif output.problem is not None:
            pass  # reported once nothing more is written
        elif isinstance(problem, OSError) and problem.errno == ENOSPC:
            warn(f"{problem.strerror}; free some and run the same command again")
        else:
            warn(f"unexpected {type(problem).__name__}: {problem}; {DEBUG_VARIABLE}=1 shows where, please report it")
    return FAILURE


def _command_asked(program: str, arguments: Sequence[str]) -> str:
    """Return the program with the command that was called; for a group, also its own command."""
    name = next(iter(arguments), "")
    targets = {command: target for section in SECTIONS.values() for command, (target, _) in section.items()}
    words = 2 if targets.get(name, "").endswith(":app") else 1
    return " ".join([program, *arguments[:words]])


if __name__ == "__main__":
    sys.exit(run())
