"""Groups of commands, imported when they run; a misspelt name is answered with the nearest one."""

from __future__ import annotations

import difflib
import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from latcast.cli.output import Interrupted


class CommandGroup(TyperGroup):
    """A group that names the command which an unknown one most resembles."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            near = [name for name in _ALSO_CALLED.get(args[0], ()) if name in names] or difflib.get_close_matches(args[0], names)
            meant = f" Did you mean '{near[0]}'?" if near else ""
            ctx.fail(f"No such command '{args[0]}'.{_OPTION_MEANT.get(args[0], meant)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands: dict[str, Any] = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(200)) for name, command in commands.items()])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as problem:  # Typer would print another word, or nothing
            raise Interrupted("interrupted") from problem
        except Exception as problem:
            _say_what_is_meant(problem)
            raise


def _say_what_is_meant(problem: Any) -> None:
    """Complete the message of a call without ``--on``, or with an option that a command does not have but says otherwise."""
    if "--on" in getattr(getattr(problem, "param", None), "opts", ()) and not getattr(problem, "message", "-"):
        problem.message = "It names the device, as in --on 'Raspberry Pi 5 CPU'; latcast platforms lists what it may be."
    option, call = getattr(problem, "option_name", None), getattr(problem, "ctx", None)
    has = {name for each in call.command.params for name in each.opts} if option and call else set()
    for instead, tried in _SAID_OTHERWISE.items():
        for names, said in tried.items():
            if instead in has and option in names:
                problem.message, problem.possibilities = f"No such option: {option}. {said}", None


_ALSO_CALLED: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("benchmark", "bench", "run", "time"), ("measure",)), **dict.fromkeys(("devices", "list"), ("platforms",)),
    **dict.fromkeys(("estimate", "forecast", "latency"), ("predict",)), "info": ("explain",), "networks": ("models",),
}  # fmt: skip
"""Other names of commands to the commands that are meant."""

_OPTION_MEANT: Mapping[str, str] = {"help": " It is --help, behind a command too.", "version": " It is --version."}
"""Options that people type as commands, each with the sentence that answers it."""

_SAID_OTHERWISE: Mapping[str, Mapping[tuple[str, ...], str]] = {
    "--on": {
        ("-o", "--device", "--hardware", "--phone", "--platform", "--target"): "--on names the device, as in --on 'Pixel 7 GPU'.",
        (
            "--backend",
            "--delegate",
            "--dtype",
            "--framework",
            "--precision",
            "--runtime",
            "--threads",
            "--unit",
            "-p",
            "-r",
            "-t",
        ): ("Say it behind the device, as in --on 'Pixel 7 tflite gpu fp16' or --on 'Raspberry Pi 5 4 threads'."),
        ("--input", "--model", "--models", "--network", "--weights", "-i", "-m"): (
            "Models stand without an option, as in latcast predict model.onnx --on 'Pixel 7'."
        ),
    },
    "--shape": {
        (
            "--batch",
            "--batch-size",
            "--img",
            "--imgsz",
            "--img-size",
            "--input-shape",
            "--input-size",
            "--resolution",
            "--size",
        ): ("--shape 1,3,640,640 has the batch and the sizes."),
    },
    "--max-ms": {("--min-fps",): "--max-ms is the limit: 1000 over the frames a second."},
    "--json": {("--csv", "--format", "--out", "--output"): "--json prints JSON, and > FILE keeps it."},
}
"""Option to others that people try for what it says, with how it is said."""


def command_group(text: str, kind: type[CommandGroup] = CommandGroup) -> typer.Typer:
    """Return a group whose commands are in one module; ``text`` is its help."""
    return typer.Typer(help=text, cls=kind, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


Sections = Mapping[str, Mapping[str, tuple[str, str]]]
"""Heading -> command -> where it is, ``module`` (with a function ``command``) or ``module:attribute``, and one line of help.

The attribute is a function or a Typer group."""


def lazy_group(sections: Sections) -> type[TyperGroup]:
    """Return the class of a group whose commands are imported one at a time, so that each starts quickly.

    Args:
        sections: The commands, under the headings of the group's help.
    """
    commands = {name: entry for section in sections.values() for name, entry in section.items()}

    class LazyGroup(CommandGroup):
        """Imports a command's module when the command is asked for."""

        def list_commands(self, ctx: Any) -> list[str]:
            return list(commands)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            return _loaded(cmd_name, commands[cmd_name][0]) if cmd_name in commands else None

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            # Without the commands themselves, which would all be imported for their one line.
            width = max(map(len, commands))
            for heading, section in sections.items():
                with formatter.section(heading):
                    formatter.write_dl([(name.ljust(width), text) for name, (_, text) in section.items()])

    return LazyGroup


METAVARS = {"float": "NUMBER", "int": "COUNT", "path": "FILE", "str": "TEXT"}
"""Words in help for the values of options, by type; an option's metavar takes precedence."""


def _loaded(name: str, target: str) -> Any:
    module, _, attribute = target.partition(":")
    found = getattr(importlib.import_module(module), attribute or "command")
    if isinstance(found, typer.Typer):
        app = found
    else:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name=name)(found)
    command = typer.main.get_command(app)
    command.name = name
    for each in _with_those_in(command):
        for option in each.params:
            option.metavar = option.metavar or METAVARS.get(option.type.name.removesuffix(" range"))
            if option.type.name.startswith("float"):
                option.callback = _finite
            if option.metavar == "PLATFORM,...":  # given twice, it names the platforms of both
                option.multiple, option.default = True, option.default or None
                option.callback = lambda _context, _option, texts: ",".join(texts)
    return command


def _finite(_context: Any, _option: Any, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"found {value}, expected a finite number")
    return value


def _with_those_in(command: Any) -> Iterator[Any]:
    yield command
    for inner in getattr(command, "commands", {}).values():
        yield from _with_those_in(inner)
