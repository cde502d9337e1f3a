"""The ``latcast`` command. Each command lives in a module of its own, imported when it runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping

import click
import typer
from typer.core import TyperGroup

from latcast.errors import LatcastError

COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("latcast.cli.demo", "Profile this machine, predict networks it never ran, check by running them."),
    "predict": ("latcast.cli.predict", "Latency of models on platforms, with interval and breakdown."),
    "platforms": ("latcast.cli.platforms", "What can be predicted for, and how well."),
    "measure": ("latcast.cli.measure", "The real latency here."),
    "profile": ("latcast.cli.profile", "Measure this machine and train a predictor bundle for it."),
    "train": ("latcast.cli.train", "Train a bundle from stored measurements."),
    "evaluate": ("latcast.cli.evaluate", "Judge a bundle on stored measurements it was not trained on."),
    "doctor": ("latcast.cli.doctor", "What works here, what is missing and how to add it."),
}
"""Command -> its module (with a Typer ``app`` or a function ``command``) and one line of help."""


class LazyGroup(TyperGroup):
    """Imports a command's module only when the command is run, so that each starts quickly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return _load(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Typer's rich help would import every command for its one line.
        click.Group.format_help(self, ctx, formatter)


def _load(name: str) -> click.Command:
    module_name, text = COMMANDS[name]
    module = importlib.import_module(module_name)
    app: typer.Typer | None = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, help=text)
        app.command(name=name, help=text)(module.command)
    command = typer.main.get_command(app)
    command.name = name
    return command


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="latcast", prog_name="latcast")
def main() -> None:
    """How long will this network take on that device? In milliseconds, with an interval and a reason."""


def run() -> None:
    """Entry point: one line for an error of latcast's own (exit 1), click's usage message for a wrong call (exit 2)."""
    try:
        code = main.main(standalone_mode=False)
    except LatcastError as problem:
        text = " ".join(str(problem).split())
        print(f"latcast: {text}", file=sys.stderr)
        sys.exit(1)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as problem:
        problem.show()
        sys.exit(problem.exit_code)
    except (click.Abort, KeyboardInterrupt):
        print("latcast: interrupted; what was measured is kept, the same command resumes", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)
