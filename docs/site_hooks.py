"""Pages of the reference that are made from the code while MkDocs builds the site (mkdocs.yml names this file)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import griffe

COLUMNS = "100"
"""Width of the commands' help."""


def names_of_the_package() -> str:
    """Every exported name of latcast, functions first, as directives of mkdocstrings."""
    import latcast

    names = [name for name in latcast.__all__ if name != "__version__"]
    classes = [name for name in names if name[0].isupper()]
    functions = [name for name in names if name not in classes]
    parts = []
    for title, listed in (("Functions", functions), ("Classes", classes)):
        parts += [f"## {title}", *(f"::: {_defined_at(name)}" for name in sorted(listed))]
    return "\n\n".join(parts)


def _defined_at(name: str) -> str:
    import latcast

    return f"{latcast._MODULES[name]}.{name}"


def help_of_the_commands() -> str:
    """Return what ``--help`` prints, of every command."""
    os.environ["COLUMNS"] = os.environ["TERMINAL_WIDTH"] = COLUMNS
    from latcast.cli.main import _main

    return "\n\n".join(_helps(_main(), ["latcast"]))


def _helps(command: Any, path: list[str], parent: Any = None) -> Iterator[str]:
    context = command.make_context(path[-1], [], parent=parent, resilient_parsing=True)
    text = re.sub(r"\x1b\[[0-9;]*m", "", command.get_help(context)).strip()
    yield f"{'#' * min(len(path) + 1, 4)} {' '.join(path)}\n\n```text\n{text}\n```"
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            yield from _helps(command.get_command(context, name), [*path, name], context)


MADE = {"<!-- names of the package -->": names_of_the_package, "<!-- help of the commands -->": help_of_the_commands}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Change a page; MkDocs calls it for each."""
    for mark, make in MADE.items():
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return markdown


class DocstringsAsMarkdown(griffe.Extension):
    """Shows ``Example:`` of a docstring as code, as Griffe does ``Examples:``, and names without their role, as of Sphinx."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = re.sub(r":[a-z]+:(?=`)", "", text)
