"""A search space whose members are chains of segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from latcast.errors import ModelError, counted
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph, Shape
from latcast.records import Reference
from latcast.registry import Registry
from latcast.spaces.catalogue import SUPERNET_TARGETS
from latcast.spaces.families.variants import MOST_FRUITLESS, named_by_content, too_few

Columns = Mapping[str, np.ndarray]
"""Dimension's name to the values chosen, (networks, its count)."""


@dataclass(frozen=True)
class Dimension:
    """A choice that is made once, or once for each of several places (the kernel size of every block).

    Attributes:
        name: In the JSON parameters of a member; where ``count`` is 1 it holds a number, otherwise a list.
        choices: What can be chosen, in ascending order.
        count: How many times it is chosen.
    """

    name: str
    choices: tuple[float, ...]
    count: int = 1


Row = tuple[int, ...]
"""A segment: the values of its space's fields. The first is its kind, 0 where there is no segment."""

AT_ONCE = 32_768
"""Networks that are decoded together; bounds the memory whatever their number."""


def map_shape(row: Row) -> Shape:
    """Shape of the map that a segment reads whose second and third field are its size and its channels."""
    return (1, row[2], row[1], row[1])


class SegmentedBuilder(GraphBuilder):
    """A builder that tells which operators a segment has added."""

    @property
    def node_names(self) -> list[str]:
        return [node.name for node in self._nodes]


@dataclass(frozen=True)
class Supernet:
    """A search space of networks that are chains of segments (stem, blocks, head); a space of the catalogue.

    Attributes:
        name: In references.
        dimensions: Its choices; an encoding has a column for each.
        fields: What the numbers of a segment mean.
        segments: From chosen values to the segments of every network, (networks, places, fields) integers, vectorised. What
            a segment builds follows from its numbers alone.
        add_segment: Adds one segment behind a tensor.
        entry_shape: Shape of the tensor that a segment reads.
        inactive: Which columns decide nothing (blocks beyond a stage's depth): name to (networks, count) booleans.
        to_parameters, from_parameters: Where the JSON of a member is not its dimensions by name: from a dictionary of
            dimensions to it, and back.
    """

    name: str
    dimensions: tuple[Dimension, ...]
    fields: tuple[str, ...]
    segments: Callable[[Columns], np.ndarray]
    add_segment: Callable[[GraphBuilder, str, Row], str]
    entry_shape: Callable[[Row], Shape]
    inactive: Callable[[Columns], Mapping[str, np.ndarray]] = field(default=lambda values: {})
    to_parameters: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    from_parameters: Callable[[Mapping[str, Any]], dict[str, Any]] = dict

    @cached_property
    def choices(self) -> np.ndarray:
        """Number of choices of each column, int64."""
        return np.array([len(each.choices) for each in self.dimensions for _ in range(each.count)], dtype=np.int64)

    @property
    def size(self) -> float:
        """Number of encodings; several may encode the same network."""
        return float(np.prod(self.choices.astype(np.float64)))

    def checked(self, encodings: np.ndarray) -> np.ndarray:
        """Return encodings of this space, (networks, columns), as they are.

        Raises:
            ModelError: Another number of columns, or an index beyond the choices.
        """
        counts = self.choices
        if encodings.ndim != 2 or encodings.shape[1] != len(counts) or ((encodings < 0) | (encodings >= counts)).any():
            raise ModelError(
                f"found encodings of shape {encodings.shape}, expected (networks, {len(counts)}) indices of choices of the "
                f"space '{self.name}'"
            )
        return encodings

    def canonical(self, encodings: np.ndarray) -> np.ndarray:
        """Return encodings with the first choice wherever a choice decides nothing: equal networks have equal rows."""
        canonical = np.empty(np.shape(encodings), dtype=np.int16)
        for start in range(0, len(encodings), AT_ONCE):
            part = encodings[start : start + AT_ONCE]
            inactive = self.inactive(self._values(part))
            flags = [inactive.get(each.name, np.zeros((len(part), each.count), dtype=bool)) for each in self.dimensions]
            canonical[start : start + AT_ONCE] = np.where(np.concatenate(flags, axis=1), 0, part)
        return canonical

    def all_encodings(self) -> np.ndarray:
        """Every encoding, (encodings, columns), int16, the first column changing fastest; for small spaces."""
        return (np.arange(int(self.size))[:, None] // radices(self.choices) % self.choices).astype(np.int16)

    def all_members(self) -> np.ndarray:
        """Every network once, (networks, columns), int16; for small spaces."""
        everything = self.all_encodings()
        return everything[(self.canonical(everything) == everything).all(axis=1)]

    def sample_encodings(self, count: int, seed: int | np.random.Generator) -> np.ndarray:
        """Return ``count`` encodings, each choice equally likely, (count, columns), int16; they may repeat."""
        rng = np.random.default_rng(seed)
        return self.canonical(rng.integers(0, self.choices, size=(count, len(self.choices)), dtype=np.int16))

    def distinct_encodings(self, count: int, seed: int) -> np.ndarray:
        """Return ``count`` different networks, (count, columns), int16; a smaller count gives the head of a larger one's list.

        Raises:
            LatcastError: 1000 draws in a row gave nothing new; the space is smaller than ``count``.
        """
        rng = np.random.default_rng(seed)
        found: dict[bytes, np.ndarray] = {}
        fruitless = 0
        while len(found) < count:
            for row in self.sample_encodings(256, rng):
                key = row.tobytes()
                if key in found:
                    fruitless += 1
                elif len(found) < count:
                    found[key] = row
                    fruitless = 0
            if fruitless >= MOST_FRUITLESS:
                raise too_few(self.name, len(found), count)
        return np.stack(list(found.values())) if found else np.zeros((0, len(self.choices)), dtype=np.int16)

    def rows(self, encodings: np.ndarray) -> np.ndarray:
        """Return the segments of networks, (networks, places, fields), int64."""
        return np.asarray(self.segments(self._values(encodings)), dtype=np.int64)

    def decode(self, encoding: Sequence[int] | np.ndarray) -> dict[str, Any]:
        """Return the JSON parameters of one encoding, or raise a ModelError where this space does not have it."""
        values = self._values(np.asarray(encoding)[None, :])
        parameters: dict[str, Any] = {}
        for each in self.dimensions:
            listed = values[each.name][0].tolist()
            parameters[each.name] = listed if each.count > 1 else listed[0]
        return self.to_parameters(parameters)

    def encode(self, parameters: Mapping[str, Any]) -> np.ndarray:
        """Return the encoding of JSON parameters, (columns,), int16.

        Raises:
            ModelError: A parameter is unknown, missing, or none of the choices.
        """
        values = self._given(parameters)
        parts = []
        for each in self.dimensions:
            chosen = values[each.name][:, :, None] == np.asarray(each.choices)
            known = chosen.any(axis=2)
            if not known.all():
                unknown = values[each.name][~known][0]
                raise ModelError(f"'{each.name}' {unknown} is no choice of the space '{self.name}': {list(each.choices)}")
            parts.append(chosen.argmax(axis=2))
        return self.canonical(np.concatenate(parts, axis=1).astype(np.int16))[0]

    def _values(self, encodings: np.ndarray) -> dict[str, np.ndarray]:
        """Return what encodings choose in each dimension: integers where all its choices are, otherwise floats."""
        columns = np.cumsum([each.count for each in self.dimensions])[:-1]
        parts = np.split(self.checked(encodings), columns, axis=1)
        return {each.name: np.asarray(each.choices)[part] for each, part in zip(self.dimensions, parts, strict=True)}

    def _given(self, parameters: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return the JSON parameters of one member by dimension, each (1, count); a value need not be one of the choices."""
        parameters = self.from_parameters(parameters)
        names = [each.name for each in self.dimensions]
        if set(parameters) != set(names):
            found = ", ".join(sorted(parameters)) or "nothing"
            raise ModelError(f"the space '{self.name}' takes {', '.join(names)}; found {found}")
        values = {}
        for name, count in ((each.name, each.count) for each in self.dimensions):
            given = parameters[name]
            listed = given if isinstance(given, list | tuple) else [given]
            if len(listed) != count or not all(isinstance(value, int | float) for value in listed):
                raise ModelError(f"'{name}' of the space '{self.name}' is {given!r}; expected {counted(count, 'number')}")
            values[name] = np.asarray(listed)[None, :]
        return values

    def reference(self, encoding: Sequence[int] | np.ndarray) -> Reference:
        """Return the reference of one encoding, named by its content."""
        return named_by_content(self.name, self.decode(encoding))

    def build(self, **parameters: Any) -> Graph:
        """Build the member with these parameters; values between and beyond the choices are built too."""
        return self.graph_of_rows(np.asarray(self.segments(self._given(parameters)), dtype=np.int64)[0].tolist())

    def graph_of_rows(self, rows: Iterable[Sequence[int]]) -> Graph:
        """Build the graph of a chain of segments."""
        return self.segmented_graph([tuple(row) for row in rows if row[0]])[0]

    def segmented_graph(self, rows: Sequence[Row]) -> tuple[Graph, list[list[str]]]:
        """Build the graph of a chain of segments; return it and the names of the operators of each.

        Raises:
            ModelError: No segment.
        """
        if not rows:
            raise ModelError(f"a network of the space '{self.name}' needs segments; found none")
        b = SegmentedBuilder(self.name)
        x = b.input(self.entry_shape(rows[0]))
        ends = []
        for row in rows:
            x = self.add_segment(b, x, row)
            ends.append(len(b.node_names))
        names = b.node_names
        starts = [0, *ends[:-1]]
        return b.finish(x), [names[start:end] for start, end in zip(starts, ends, strict=True)]

    def sample(self, count: int, seed: int) -> list[Reference]:
        """Return ``count`` different members; see :class:`latcast.spaces.catalogue.Space`."""
        return [self.reference(encoding) for encoding in self.distinct_encodings(count, seed)]


def radices(counts: np.ndarray) -> np.ndarray:
    """Return what each digit of a number is multiplied by, for digits with so many values."""
    return np.concatenate([[1], np.cumprod(counts)[:-1]]).astype(np.int64) if len(counts) else np.zeros(0, dtype=np.int64)


SUPERNETS: Registry[Supernet] = Registry("search space", SUPERNET_TARGETS, group="latcast.supernets")
"""Spaces that can be searched and predicted by encoding."""
