"""A command whose subcommands live in modules of their own, each imported when it runs."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperGroup


class SuggestingGroup(TyperGroup):
    """A group that names the command which an unknown one most resembles, whether its module is imported or not."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], names)
            ctx.fail(f"No such command '{args[0]}'." + (f" Did you mean '{near[0]}'?" if near else ""))
        return super().resolve_command(ctx, args)


def lazy_group(modules: Mapping[str, tuple[str, str]], heading: str) -> type[TyperGroup]:
    """The class of a command's group.

    Args:
        modules: Subcommand to its module, which has a function ``command``, and one line of help.
        heading: What the subcommands are, above their list.
    """

    class LazySubcommands(SuggestingGroup):
        """Imports a module only when its subcommand is asked for."""

        def list_commands(self, ctx: Any) -> list[str]:
            return list(modules)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name not in modules:
                return None
            module = importlib.import_module(modules[cmd_name][0])
            single = typer.Typer(add_completion=False, rich_markup_mode=None)
            single.command(name=cmd_name)(module.command)
            command = typer.main.get_command(single)
            command.name = cmd_name
            return command

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            # Without the commands themselves, which would all be imported for their one line.
            with formatter.section(heading):
                formatter.write_dl([(name, text) for name, (_, text) in modules.items()])

    return LazySubcommands
