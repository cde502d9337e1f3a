"""The kernels of all named networks of known accuracy, as one table for a runtime's fusion rules.

Building 709 graphs and finding their kernels takes minutes; their table is read in a fraction of a second. Tables for the rules
of shipped platforms come with the package (``python -m benchmarks choose --ship`` writes them); others are made when they are
first asked for and kept in the user's cache. A table that was made from other networks, rules or fields is not used.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import UnknownNameError
from latcast.folders import cache_folder, replacing
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.memory import FLOAT_BYTES, WEIGHT_BYTES, memory_of
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels
from latcast.kernels.selection import selection_of
from latcast.kernels.types.kernel_type import kernel_type
from latcast.spaces.models import NetworkSummary, as_graph, models

SCHEMA = 1

SHIPPED_TABLES = Path(__file__).parent / "graphs" / "kernels"

CHECKED = 3
"""Networks that are built to see whether a table of the user's cache still holds."""

_TYPE = "type."
"""What the names of arrays of configurations begin with."""

Watch = Callable[[int, int], None]
"""Told how many networks are done, and of how many."""


@dataclass(frozen=True)
class NamedKernels:
    """The networks and their kernels; row i of each array is network i.

    Attributes:
        networks: What is known of each, all with an accuracy.
        table: Their kernels.
        reserved_bytes: (networks, 2) held for activations in fp32 and in int8: see :class:`latcast.kernels.memory.Memory`.
    """

    networks: tuple[NetworkSummary, ...]
    table: KernelTable
    reserved_bytes: np.ndarray

    def memory_bytes(self, precision: str) -> np.ndarray:
        """(networks,) held for activations and weights on a platform of a precision."""
        parameters = np.array([1e6 * each.million_parameters for each in self.networks])
        whole, quarter = self.reserved_bytes[:, 0], self.reserved_bytes[:, 1]
        held = quarter if precision == "int8" else whole * FLOAT_BYTES.get(precision, 4) / 4
        return np.asarray(held + WEIGHT_BYTES.get(precision, 4) * parameters)


def rated_networks() -> tuple[NetworkSummary, ...]:
    """The named networks whose accuracy was published, sorted by name."""
    return tuple(each for each in models() if each.top1_percent is not None)


def named_kernels(rules: FusionRules, watch: Watch = lambda *_: None) -> NamedKernels:
    """The kernels of the rated networks under fusion rules, from a table where there is one.

    Args:
        rules: Of the platform's runtime.
        watch: Called while a table is made.
    """
    networks = rated_networks()
    made_from = _fingerprint(networks, rules)
    found = None
    with suppress(OSError):
        found = _read((SHIPPED_TABLES / _name(made_from)).read_bytes(), networks, made_from)
    if found is None:
        with suppress(OSError):
            kept = _read(_cached_path(made_from).read_bytes(), networks, made_from)
            found = kept if kept is not None and _agrees(kept, rules) else None
    if found is None:
        found = make_named_kernels(networks, [rules], watch)[0]
        path = _cached_path(made_from)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as draft:
                draft.write_bytes(table_bytes(found, rules))
    return _selected(found, rules)


def make_named_kernels(
    networks: Sequence[NetworkSummary], rules: Sequence[FusionRules], watch: Watch = lambda *_: None
) -> list[NamedKernels]:
    """Builds every network once and finds its kernels under each of several rules, before a GPU's backend selects."""
    kernels: list[list[tuple[Kernel, ...]]] = [[] for _ in rules]
    memories: list[list[tuple[int, int]]] = [[] for _ in rules]
    for place, network in enumerate(networks):
        graph = as_graph(network.name)
        for index, each in enumerate(rules):
            found = find_kernels(graph, _searched(each))
            kernels[index].append(found)
            memories[index].append(_reserved(graph, each, found))
        watch(place + 1, len(networks))
    return [
        NamedKernels(tuple(networks), KernelTable.of(found), np.array(memory, dtype=np.int64).reshape(-1, 2))
        for found, memory in zip(kernels, memories, strict=True)
    ]


def _agrees(found: NamedKernels, rules: FusionRules) -> bool:
    """Whether the smallest networks, built and searched for kernels, have those of a table: how these are found may have changed
    since it was made. Tests see to the tables that are shipped."""
    order = sorted(range(len(found.networks)), key=lambda row: found.networks[row].million_macs or np.inf)[:CHECKED]
    listed = [(name, tuple(row)) for name, rows in found.table.configurations.items() for row in rows.tolist()]
    for row in order:
        kernels = find_kernels(as_graph(found.networks[row].name), _searched(rules))
        there = Counter(listed[place] for place in found.table.kernel[found.table.network == row].tolist())
        if there != Counter(kernel.key for kernel in kernels if not kernel.free):
            return False
    return True


def _reserved(graph: Graph, rules: FusionRules, kernels: Sequence[Kernel]) -> tuple[int, int]:
    whole, quarter = (memory_of(graph, rules, precision, kernels).reserved_bytes for precision in ("fp32", "int8"))
    return whole, quarter


def _searched(rules: FusionRules) -> FusionRules:
    """The rules without what a GPU's backend selects, where that is known from each kernel alone: GPUs then share a table."""
    return rules if "depthwise_pointwise" in rules.patterns else replace(rules, selection="")


def _selected(found: NamedKernels, rules: FusionRules) -> NamedKernels:
    """The kernels that a GPU's backend runs for those of the table."""
    if not rules.selection or _searched(rules) is rules:
        return found
    selection = selection_of(rules.selection)
    known: dict[str, dict[tuple[int, ...], int]] = {}
    places = []
    for name, rows in found.table.configurations.items():
        for row in rows.tolist():
            chosen, configuration = selection.kernel(name, tuple(row))
            place = known.setdefault(chosen, {}).setdefault(configuration, len(known[chosen]))
            places.append((chosen, place))
    starts = dict(zip(known, np.cumsum([0, *(len(each) for each in known.values())]), strict=False))
    moved = np.array([starts[name] + place for name, place in places], dtype=np.int64)
    configurations = {name: np.array(list(each), dtype=np.int64) for name, each in known.items()}
    table = KernelTable(configurations, found.table.network, moved[found.table.kernel], found.table.networks)
    return replace(found, table=table)


# Files


def table_bytes(found: NamedKernels, rules: FusionRules) -> bytes:
    """The file of a table: arrays of numbers, compressed (``.npz`` without objects)."""
    distinct = len(found.table.kernel_types)
    pairs, counts = np.unique(found.table.network * distinct + found.table.kernel, return_counts=True)
    arrays: dict[str, Any] = {_TYPE + name: _small(rows) for name, rows in found.table.configurations.items()}
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        fingerprint=np.array(_fingerprint(found.networks, rules)),
        fields=np.array(json.dumps(_fields(found.table.configurations))),
        occurring=_small(np.bincount(pairs // distinct, minlength=found.table.networks)),
        kernel=_small(pairs % distinct),
        counts=_small(counts),
        reserved_bytes=found.reserved_bytes,
        **arrays,
    )
    return buffer.getvalue()


def table_name(networks: Sequence[NetworkSummary], rules: FusionRules) -> str:
    """Name of a shipped table's file."""
    return _name(_fingerprint(networks, rules))


def _small(values: np.ndarray) -> np.ndarray:
    least = np.int32 if values.size and values.min() < 0 else np.min_scalar_type(int(values.max(initial=0)))
    return values.astype(least)


def _name(made_from: str) -> str:
    return f"named-{made_from[:16]}.npz"


def _cached_path(made_from: str) -> Path:
    return cache_folder() / "tables" / _name(made_from)


def _fingerprint(networks: Sequence[NetworkSummary], rules: FusionRules) -> str:
    """Of what a table depends on: the networks and their sizes, the rules, and the runtime, whose planner the memory follows."""
    said = {key: value for key, value in _searched(rules).to_json().items() if key not in ("version", "evidence")}
    listed = [(each.name, each.million_parameters, each.million_macs) for each in networks]
    return hashlib.sha256(json.dumps([SCHEMA, listed, said, bool(rules.selection)], sort_keys=True).encode()).hexdigest()


def _read(content: bytes, networks: tuple[NetworkSummary, ...], made_from: str) -> NamedKernels | None:
    """A table, or None where the file is damaged or was made from something else."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            configurations = {
                name.removeprefix(_TYPE): file[name].astype(np.int64) for name in file.files if name.startswith(_TYPE)
            }
            if (str(file["fingerprint"]), json.loads(str(file["fields"]))) != (made_from, _fields(configurations)):
                return None
            network = np.repeat(np.arange(len(networks)), file["occurring"].astype(np.int64))
            counts = file["counts"].astype(np.int64)
            table = KernelTable(
                configurations,
                np.repeat(network, counts),
                np.repeat(file["kernel"].astype(np.int64), counts),
                len(networks),
            )
            return NamedKernels(networks, table, file["reserved_bytes"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, UnknownNameError):
        return None


def _fields(configurations: Mapping[str, np.ndarray]) -> dict[str, list[str]]:
    """What the numbers of each kernel type's configurations mean."""
    return {name: list(kernel_type(name).fields) for name in sorted(configurations)}
