"""Networks that others published, by name: their graphs as they were built once, kept in files that come with the package.

A file holds the networks of one space (``timm``, ``torchvision``, ...): a line with its version and the size and checksum of an
index; the index, JSON compressed by zlib; then one packed graph after the other (:mod:`latcast.graph.compact`). Reading a network
reads the index and that network. Neither PyTorch nor the package that it was built by is needed;
``python -m benchmarks.named_networks`` builds the files.

A network's key is its name and its input, as published measurements name them: ``224`` for an image of 224x224, a text otherwise.
A name alone means the first of several inputs.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from latcast.errors import ModelError, UnknownNameError
from latcast.folders import replacing
from latcast.graph.compact import unpack
from latcast.graph.ir import Graph
from latcast.graph.passes.reshape_inputs import reshape_inputs
from latcast.records import Reference
from latcast.registry import nearest_names
from latcast.spaces.accuracies import USUAL_SIDE

FOLDER = Path(__file__).with_name("graphs")
SUFFIX = ".graphs"

_MAGIC = b"latcast graphs 1 "
_MOST_INDEX_BYTES = 32_000_000

Input = int | str | None
Member = TypeVar("Member")


@dataclass(frozen=True)
class Origin:
    """The origin of networks.

    Attributes:
        source: What built them, with its version: ``timm 1.0.31``.
        address: Where that is to be had.
        licence: Of its code, by its SPDX identifier.
    """

    source: str
    address: str
    licence: str


@dataclass(frozen=True)
class NamedGraph:
    """A network's name, figures and origin, without its graph.

    Attributes:
        name: Without the space.
        input: See the module.
        parameters: Learned values, as the origin's module counts them; buffers and what is computed from weights are none.
        macs: Multiply-accumulates of the graph, one image.
        origin: Where it is from.
        published_million_parameters, published_million_macs: Figures that others published, in millions, or None.
        figures: Where the published figures stand.
        counted_macs: What compares with the published figure, where that counts other operators (timm's counts normalisations and
            no recurrent layers); None where it counts as ``macs``.
    """

    name: str
    input: Input
    parameters: int
    macs: int
    origin: Origin
    published_million_parameters: float | None = None
    published_million_macs: float | None = None
    figures: str = ""
    counted_macs: int | None = None

    @property
    def key(self) -> tuple[str, Input]:
        return self.name, self.input

    @property
    def side(self) -> int | None:
        """Pixels of a side of the square image; None where the key names another input."""
        if not isinstance(self.input, str):
            return USUAL_SIDE if self.input is None else self.input
        height, _, rest = self.input.partition("x")
        return int(height) if height.isdecimal() and rest.split("x")[0] == height else None


@dataclass(frozen=True)
class _Index:
    """The head of a file, before the graphs, which begin at ``start``.

    ``places`` has begin, bytes and checksum of each different graph; ``rows`` has of each network the number of its place, then
    its ``fields`` of :class:`NamedGraph`, its origin as a number.
    """

    start: int
    fields: Sequence[str]
    origins: Sequence[Origin]
    places: Sequence[tuple[int, int, int]]
    rows: Mapping[tuple[str, Input], Sequence[Any]]


_FIELDS = tuple(each.name for each in fields(NamedGraph))


class GraphFile:
    """A file of named graphs; a ModelError is raised where it is damaged, unreadable, or of another version."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def networks(self) -> Mapping[tuple[str, Input], NamedGraph]:
        """The networks by name and input, in the order in which they were written."""
        return {key: self._network(key) for key in self._index.rows}

    @cached_property
    def names(self) -> Mapping[str, Input]:
        """Name to the input that it means alone."""
        found: dict[str, Input] = {}
        for name, given in self._index.rows:
            found.setdefault(name, given)
        return found

    def find(self, name: object, given: object = None) -> NamedGraph | None:
        """Return the network of a name and an input; of the name alone where no input is given. None where there is none."""
        if not isinstance(name, str) or not isinstance(given, int | str | None):
            return None
        key = name, self.names.get(name) if given is None else given
        return self._network(key) if key in self._index.rows else None

    def packed(self, network: NamedGraph) -> bytes:
        """Return the packed graph of one of the networks."""
        index = self._index
        begin, size_bytes, checksum = index.places[index.rows[network.key][0]]
        with self.path.open("rb") as file:
            file.seek(index.start + begin)
            content = file.read(size_bytes)
        if zlib.crc32(content) != checksum:
            raise ModelError(f"{self.path}: the graph of {network.name} is damaged; install latcast again")
        return content

    def graph(self, network: NamedGraph) -> Graph:
        """Return the graph of one of the networks."""
        return unpack(self.packed(network), network.name)

    def _network(self, key: tuple[str, Input]) -> NamedGraph:
        index = self._index
        known = dict(zip(index.fields, index.rows[key][1:], strict=True))
        return NamedGraph(**{**known, "origin": index.origins[known["origin"]]})

    @cached_property
    def _index(self) -> _Index:
        try:
            with self.path.open("rb") as file:
                line = file.readline(200)
                if not line.startswith(_MAGIC):
                    raise ModelError(f"{self.path}: found {line[:40]!r}, expected {_MAGIC.decode()!r}: it is of another version")
                index_bytes, checksum = (int(part) for part in line[len(_MAGIC) :].split())
                content = file.read(min(index_bytes, _MOST_INDEX_BYTES))
                start = file.tell()
        except OSError as problem:
            raise ModelError(f"{self.path} cannot be read: {problem.strerror}") from problem
        except ValueError as problem:
            raise ModelError(f"{self.path} is damaged: {problem}; install latcast again") from problem
        if len(content) != index_bytes or zlib.crc32(content) != checksum:
            raise ModelError(f"{self.path} is damaged: its index is not the one that was written; install latcast again")
        try:
            data = json.loads(zlib.decompressobj().decompress(content, _MOST_INDEX_BYTES))
            if data["fields"][:2] != ["name", "input"] or not set(data["fields"]) <= set(_FIELDS):
                raise ModelError(f"{self.path}: found the fields {data['fields']}, expected some of {list(_FIELDS)}")
            return _Index(
                start,
                data["fields"],
                [Origin(*row) for row in data["origins"]],
                [(begin, size_bytes, checksum) for begin, size_bytes, checksum in data["places"]],
                {(row[1], row[2]): row for row in data["networks"]},
            )
        except (zlib.error, ValueError, TypeError, LookupError) as problem:
            raise ModelError(f"{self.path} is damaged ({type(problem).__name__}: {problem}); install latcast again") from problem


def write_graphs(path: Path, networks: Iterable[tuple[NamedGraph, bytes]]) -> None:
    """Write a file of named graphs in one step; of several with the same name and input the last is kept."""
    last = {network.key: (network, packed) for network, packed in networks}
    origins: dict[Origin, int] = {}
    numbers: dict[bytes, int] = {}
    places: list[tuple[int, int, int]] = []
    rows: list[list[object]] = []
    at = 0
    for network, packed in last.values():
        if packed not in numbers:
            numbers[packed] = len(places)
            places.append((at, len(packed), zlib.crc32(packed)))
            at += len(packed)
        row = {name: getattr(network, name) for name in _FIELDS}
        row["origin"] = origins.setdefault(network.origin, len(origins))
        rows.append([numbers[packed], *row.values()])
    data = {"fields": _FIELDS, "origins": [astuple(each) for each in origins], "places": places, "networks": rows}
    index = zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 9)
    with replacing(path) as draft, draft.open("wb") as file:
        file.write(_MAGIC + f"{len(index)} {zlib.crc32(index)}\n".encode() + index)
        file.writelines(numbers)


@cache
def graph_file(space: str) -> GraphFile | None:
    """Return the file of a space, or None."""
    path = FOLDER / f"{space}{SUFFIX}"
    return GraphFile(path) if path.is_file() else None


@cache
def spaces_with_graphs() -> tuple[str, ...]:
    """Return the spaces that have a file, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}")))


def find_named(text: str) -> Reference | None:
    """Return the network of a name with its space, ``timm/convnext_tiny``; None where no space begins the text.

    The weights that timm names behind a point, ``timm/convnext_tiny.fb_in1k``, are left out; ``timm/convnext_tiny@288`` takes
    images of 288x288.

    Raises:
        UnknownNameError: The space has no such network; the message suggests the nearest names.
    """
    space, slash, name = text.partition("/")
    name, _, side = name.partition("@")
    file = graph_file(space) if slash and name and space in spaces_with_graphs() else None
    if file is None:
        return None
    found = file.find(name) or (file.find(name.partition(".")[0]) if space == "timm" else None)
    if found is None or not re.fullmatch(r"|[1-9]\d{1,3}", side):
        known = ", ".join(f"{space}/{each}" for each in nearest_names(name, list(file.names)))
        raise UnknownNameError(f"no network is called '{text}'; nearest: {known or 'none'}; all: latcast models '{space}/*'")
    if not side or found.side == int(side):
        return _reference(space, *found.key)
    other = file.find(found.name, int(side))
    if other is not None:
        return _reference(space, *other.key)
    usual = _reference(space, *found.key)
    shape = [1, 3, int(side), int(side)]
    return Reference(space, {**usual.parameters, "shape": shape}, f"{usual.name}_{side}")


def all_networks() -> dict[str, NamedGraph]:
    """Every network by its name with the space, at the input that the name means."""
    found: dict[str, NamedGraph] = {}
    for space in spaces_with_graphs():
        file = graph_file(space)
        if file is not None:
            found |= {f"{space}/{name}": file.networks[name, given] for name, given in file.names.items()}
    return found


def _reference(space: str, name: str, given: Input) -> Reference:
    parameters = {"name": name} if given is None else {"name": name, "input": given}
    return Reference(space, parameters, f"{space}/{name}")


def shuffled_head(space: str, members: Iterable[Member], count: int, seed: int) -> list[Member]:
    """Return the first ``count`` members of a space in an order that the seed decides.

    Raises:
        ModelError: There are fewer.
    """
    found = list(members)
    if count > len(found):
        raise ModelError(f"found {len(found)} networks of {space} with graphs; expected to draw {count}")
    Random(f"{space}/{seed}").shuffle(found)
    return found[:count]


class NamedNetworks:
    """A space whose members have names, and graphs where its file has them; of the others at most latencies are known.

    Args:
        space: Its name.
        reason: Why a network without a graph cannot be built, as the end of a sentence.
    """

    def __init__(self, space: str, reason: str) -> None:
        self.space = space
        self.reason = reason

    def why_not(self, parameters: Mapping[str, Any]) -> str:
        """Return why there is no graph of a member, as the end of a sentence; empty where there is one."""
        return "" if self._find(parameters) else self.reason

    def build(self, **parameters: Any) -> Graph:
        """Return the graph of the member ``name``, at ``input`` where that is not the usual one, with the ``shape`` of its image.

        Raises:
            ModelError: It has no graph, or cannot take the shape; the message says why.
        """
        found = self._find(parameters)
        file = graph_file(self.space)
        if found is None or file is None:
            raise ModelError(
                f"'{parameters.get('name', 'this network')}' cannot be built, only its latencies are known: {self.reason}"
            )
        graph = file.graph(found)
        return reshape_inputs(graph, {graph.inputs[0]: parameters["shape"]}) if "shape" in parameters else graph

    def sample(self, count: int, seed: int) -> list[Reference]:
        """Return different members with graphs; see :class:`latcast.spaces.catalogue.Space`."""
        file = graph_file(self.space)
        if file is None:
            raise ModelError(f"no network can be drawn from measurements alone: {self.reason}")
        known = [_reference(self.space, name, given) for name, given in file.names.items()]
        return shuffled_head(self.space, known, count, seed)

    def _find(self, parameters: Mapping[str, Any]) -> NamedGraph | None:
        file = graph_file(self.space)
        if file is None or not set(parameters) <= {"name", "input", "shape"}:
            return None
        return file.find(parameters.get("name"), parameters.get("input"))
