"""Lazy lookup of plug-ins by name.

A registry knows where a plug-in lives (``"package.module:attribute"``) and imports it only when it is asked for, so that
listing runtimes imports none of them. Third parties add their own through entry points of the registry's group.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from latcast.errors import UnknownNameError

Plugin = TypeVar("Plugin")


def nearest_names(name: str, known: list[str], count: int = 3) -> list[str]:
    """The known names most alike to ``name``, best first, for "did you mean" messages."""
    return difflib.get_close_matches(name, known, n=count, cutoff=0.3)


def beginning_with(text: str, names: Iterable[str]) -> list[str]:
    """The name itself; or names that go on after whole parts of an id; or after whole words; or anywhere. Sorted."""
    known = set(names)
    if text in known:
        return [text]
    for separator in ("/", "-", ""):
        found = sorted(name for name in known if text and name.startswith(text + separator))
        if found:
            return found
    return []


def matching(pattern: str | None, names: Iterable[str]) -> list[str]:
    """The names that a pattern stands for, sorted.

    Args:
        pattern: Part of a name; a glob of whole names where it has one of ``*?[`` (``"pixel4/*/gpu/*"``, in which ``*`` also
            takes slashes); None for all.
        names: The names that there are.
    """
    if pattern is None:
        return sorted(names)
    if any(character in pattern for character in "*?["):
        return sorted(name for name in names if fnmatchcase(name, pattern))
    return sorted(name for name in names if pattern in name)


class Registry(Generic[Plugin]):
    """Names mapped to lazily imported objects of one kind.

    Args:
        kind: What the plug-ins are, in the singular, for error messages ("runtime").
        builtin: Name to ``"module:attribute"``.
        group: Entry-point group in which other distributions announce theirs (``"latcast.runtimes"``).
    """

    def __init__(self, kind: str, builtin: Mapping[str, str], group: str) -> None:
        self.kind = kind
        self.group = group
        self._targets: dict[str, str | EntryPoint] = dict(builtin)
        self._loaded: dict[str, Plugin] = {}
        self._scanned = False

    def _scan(self) -> None:
        if not self._scanned:
            for entry in entry_points(group=self.group):
                self._targets.setdefault(entry.name, entry)
            self._scanned = True

    def names(self) -> list[str]:
        """All names, sorted; nothing is imported."""
        self._scan()
        return sorted(self._targets)

    def register(self, name: str, plugin: Plugin) -> None:
        """Adds an object made at run time (tests, notebooks)."""
        self._targets[name] = f"{type(plugin).__module__}:{type(plugin).__qualname__}"
        self._loaded[name] = plugin

    def get(self, name: str) -> Plugin:
        """The plug-in of this name, imported on first use.

        Raises:
            UnknownNameError: No such name; the message lists the nearest ones.
        """
        self._scan()
        if name in self._loaded:
            return self._loaded[name]
        if name not in self._targets:
            near = nearest_names(name, list(self._targets)) or self.names()
            raise UnknownNameError(f"no {self.kind} is called '{name}'; known: {', '.join(near)}")
        target = self._targets[name]
        plugin: Any
        if isinstance(target, EntryPoint):
            plugin = target.load()
        else:
            module, _, attribute = target.partition(":")
            plugin = getattr(importlib.import_module(module), attribute)
        self._loaded[name] = plugin
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        self._scan()
        return name in self._targets

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())
