"""The ``latcast`` command. Each command lives in a module of its own, imported when it runs."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Annotated, Any

import typer

from latcast import __version__
from latcast.cli.lazy_group import SuggestingGroup
from latcast.cli.output import PrintableOutput, warn
from latcast.errors import LatcastError

COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("latcast.cli.demo", "Profile this machine, predict networks it never ran, check by running them."),
    "predict": ("latcast.cli.predict", "Latency of models on platforms, with interval and breakdown."),
    "platforms": ("latcast.cli.platforms", "What can be predicted for, and how well."),
    "measure": ("latcast.cli.measure", "The real latency here."),
    "profile": ("latcast.cli.profile", "Measure this machine and train a predictor bundle for it."),
    "adapt": ("latcast.cli.adapt", "Transfer known predictors to a new platform from few samples."),
    "fusion": ("latcast.cli.fusion", "Which operators a runtime fuses, found by timing."),
    "sample": ("latcast.cli.sample", "Draw configurations of a kernel type to measure."),
    "train": ("latcast.cli.train", "Train a bundle from stored measurements."),
    "evaluate": ("latcast.cli.evaluate", "Judge a bundle on stored measurements it was not trained on."),
    "data": ("latcast.cli.data", "Published measurements in, and the benchmark of variants."),
    "serve": ("latcast.cli.serve", "The shared repository: upload, query, predictions, pages."),
    "share": ("latcast.cli.share", "Contribute measurements to a shared repository."),
    "repository": ("latcast.cli.repository", "Keep a shared repository: tokens, quarantine, refitting."),
    "signature": ("latcast.cli.signature", "A few networks describe a device: choose them, run them there, predict the rest."),
    "search": ("latcast.cli.search", "The best networks of a search space under a latency limit."),
    "workgroups": ("latcast.cli.workgroups", "GPU work-group sizes: advice by rules, measuring, replaying sweeps."),
    "worker": ("latcast.cli.worker", "Measure and predict here for a Dask scheduler."),
    "doctor": ("latcast.cli.doctor", "What works here, what is missing and how to add it."),
}
"""Command -> its module (with a Typer ``app`` or a function ``command``) and one line of help."""

DEBUG_VARIABLE = "LATCAST_DEBUG"
"""Set to anything, it shows the traceback of an error instead of one line."""

FAILURE, INTERRUPTED = 1, 130
"""Exit codes; a wrong call exits with 2, which Typer sees to."""


class Interrupted(Exception):
    """Ctrl-C; the message says what becomes of the work done so far."""


class LazyGroup(SuggestingGroup):
    """Imports a command's module only when the command is run, so that each starts quickly."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _load(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        # Without the commands themselves, which would all be imported for their one line.
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as problem:  # Typer would print a word of its own, or nothing
            module_name, _ = COMMANDS.get(ctx.invoked_subcommand, ("", ""))
            kept = getattr(sys.modules.get(module_name), "KEPT_WHEN_INTERRUPTED", None)
            raise Interrupted("interrupted" if kept is None else f"interrupted; {kept}") from problem


def _load(name: str) -> Any:
    module = importlib.import_module(COMMANDS[name][0])
    app: typer.Typer | None = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name=name)(module.command)
    command = typer.main.get_command(app)
    command.name = name
    return command


def _show_version(asked: bool) -> None:
    if asked:
        print(f"latcast {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """How long will this network take on that device? In milliseconds, with an interval and a reason."""


def _main() -> Any:
    app = typer.Typer(
        name="latcast",
        cls=LazyGroup,
        callback=_options,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    return typer.main.get_command(app)


def run(arguments: Sequence[str] | None = None, main: Callable[[], Any] = _main, program: str = "latcast") -> int:
    """Runs one command.

    Args:
        arguments: Without the program's name; those of the process where None.
        main: The group of commands.
        program: Its name in usage and help.

    Returns:
        The exit code: 0; 1 for an error, printed as one line; 2 for a wrong call, with usage; 130 after Ctrl-C.
    """
    debugging = bool(os.environ.get(DEBUG_VARIABLE))
    try:
        with redirect_stdout(PrintableOutput(sys.stdout)):
            main()(None if arguments is None else list(arguments), prog_name=program)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILURE if end.code else 0
    except LatcastError as problem:
        if debugging:
            raise
        warn(str(problem))
    except (Interrupted, KeyboardInterrupt) as problem:
        warn(str(problem) or "interrupted")
        return INTERRUPTED
    except Exception as problem:
        if debugging:
            raise
        if isinstance(problem, OSError) and problem.filename is not None and problem.strerror:
            warn(f"{problem.filename}: {problem.strerror}; check that it is there and can be read or written")
        else:
            warn(f"unexpected {type(problem).__name__}: {problem}; {DEBUG_VARIABLE}=1 shows where, please report it")
    return FAILURE


if __name__ == "__main__":
    sys.exit(run())
