"""Lazy lookup of plug-ins by name.

A registry knows where a plug-in lives (``"package.module:attribute"``) and imports it only when it is asked for, so that
listing runtimes imports none of them. Other distributions add their own through entry points of the registry's group; they
are looked for when a name is asked for that latcast does not have itself, or when all names are.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from latcast.errors import LatcastError, UnknownNameError

Plugin = TypeVar("Plugin")


def nearest_names(name: str, known: list[str], likeness: float = 0.3) -> list[str]:
    """Return the known names most similar to ``name``, best first, for "did you mean" messages; ``likeness`` is from 0 to 1."""
    return difflib.get_close_matches(name, known, cutoff=likeness)


def beginning_with(text: str, names: Iterable[str]) -> list[str]:
    """Return the name itself, else names that begin with it as whole parts of an id, as whole words, or at all; sorted."""
    known = set(names)
    if text in known:
        return [text]
    for separator in ("/", "-", ""):
        found = sorted(name for name in known if text and name.startswith(text + separator))
        if found:
            return found
    return []


def is_pattern(text: str) -> bool:
    """Return whether a text is a glob of names: it has one of ``*?[``."""
    return any(sign in text for sign in "*?[")


def matching(pattern: str | None, names: Iterable[str]) -> list[str]:
    """Return the names that match a pattern, sorted.

    The pattern is a part of a name; a glob of whole names where it has one of ``*?[`` (``"pixel4/*/gpu/*"``, in which ``*`` also
    takes slashes); None for all.
    """
    if pattern is None:
        return sorted(names)
    if is_pattern(pattern):
        return sorted(name for name in names if fnmatchcase(name, pattern))
    return sorted(name for name in names if pattern in name)


def matched(pattern: str, names: Iterable[str], kind: str, listing: str) -> list[str]:
    """Return the names that match a pattern as in :func:`matching`, at least one.

    Raises:
        UnknownNameError: There is none; the message lists the nearest, names their ``kind`` ("platform") and the command
            ``listing`` all.
    """
    known = list(names)
    found = matching(pattern, known)
    if not found:
        near = nearest_names(pattern, known)
        nearest = f"nearest: {', '.join(near)}; " if near else ""
        raise UnknownNameError(f"no {kind} matches '{pattern}'; {nearest}all: {listing}")
    return found


@cache
def _all_entry_points() -> Any:
    """Return the entry points of every installed distribution, read once."""
    return entry_points()


def entry_points_of(group: str) -> Iterable[EntryPoint]:
    """Return the entry points of a group."""
    found: Iterable[EntryPoint] = _all_entry_points().select(group=group)
    return found


class Registry(Generic[Plugin]):
    """Names mapped to objects of one kind, each imported on first use.

    Iterating gives the names in the order of latcast's own table, then those of other distributions, sorted.

    Args:
        kind: Name of one plug-in for error messages ("runtime").
        builtin: Name to ``"module:attribute"``.
        group: Entry-point group of other distributions' plug-ins (``"latcast.runtimes"``).
    """

    def __init__(self, kind: str, builtin: Mapping[str, str], group: str) -> None:
        self.kind = kind
        self.group = group
        self._targets: dict[str, str | EntryPoint] = dict(builtin)
        self._loaded: dict[str, Plugin] = {}
        self._scanned = False

    def _scan(self) -> None:
        if not self._scanned:
            for entry in sorted(entry_points_of(self.group), key=lambda entry: entry.name):
                self._targets.setdefault(entry.name, entry)
            self._scanned = True

    def names(self) -> list[str]:
        """Return all names, sorted; nothing is imported."""
        return sorted(self)

    def plugged(self) -> list[str]:
        """Return the names that other distributions add, sorted; nothing is imported."""
        self._scan()
        return sorted(name for name, target in self._targets.items() if isinstance(target, EntryPoint))

    def register(self, name: str, plugin: Plugin) -> None:
        """Add an object, for instance of a test or a notebook."""
        self._targets[name] = f"{type(plugin).__module__}:{type(plugin).__qualname__}"
        self._loaded[name] = plugin

    def find(self, name: str) -> Plugin | None:
        """Return the plug-in of this name, imported on first use; None for an unknown name.

        Raises:
            LatcastError: It is another distribution's and cannot be imported.
        """
        if name in self._loaded:
            return self._loaded[name]
        if name not in self._targets:
            self._scan()
        target = self._targets.get(name)
        if target is None:
            return None
        if isinstance(target, str):
            module, _, attribute = target.partition(":")
            self._loaded[name] = getattr(importlib.import_module(module), attribute)
            return self._loaded[name]
        try:
            self._loaded[name] = target.load()
        except LatcastError:
            raise
        except Exception as problem:
            package = target.dist.name if target.dist is not None else target.module
            raise LatcastError(
                f"the {self.kind} '{target.name}' of the package {package} cannot be imported ({target.value}): "
                f"{type(problem).__name__}: {problem}; repair or remove that package"
            ) from problem
        return self._loaded[name]

    def get(self, name: str) -> Plugin:
        """Return the plug-in of this name, imported on first use.

        Raises:
            UnknownNameError: No such name; the message lists the nearest ones.
            LatcastError: It is another distribution's and cannot be imported.
        """
        found = self.find(name)
        if found is None:
            near = nearest_names(name, list(self._targets)) or self.names()
            raise UnknownNameError(f"no {self.kind} is called '{name}'; known: {', '.join(near)}")
        return found

    def __contains__(self, name: object) -> bool:
        if name not in self._targets:
            self._scan()
        return name in self._targets

    def __iter__(self) -> Iterator[str]:
        self._scan()
        return iter(list(self._targets))
