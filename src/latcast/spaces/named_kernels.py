"""The kernels of all named networks of known accuracy, as one table for a runtime's fusion rules.

Building their graphs and finding their kernels takes minutes; their table is read in a fraction of a second. Tables for the rules
of shipped platforms come with the package (``python -m benchmarks choose --ship`` writes them); others are made when they are
first asked for and kept in the user's cache. A table that was made from other networks, rules or fields is not used.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.memory import memory_of
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels
from latcast.kernels.selection import selection_of
from latcast.records import ACTIVATION_BYTES, WEIGHT_BYTES
from latcast.spaces.catalogue import NetworkSummary, build, model, models
from latcast.spaces.kernel_table_files import CHECKED, counted, keep, keys_of, read_table, small, stored, table_file

SCHEMA = 1

SHIPPED_TABLES = Path(__file__).parent / "graphs" / "kernels"

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
        held = quarter if precision == "int8" else whole * ACTIVATION_BYTES.get(precision, 4) / 4
        return np.asarray(held + WEIGHT_BYTES.get(precision, 4) * parameters)


def rated_networks() -> tuple[NetworkSummary, ...]:
    """Return the named networks whose accuracy was published, sorted by name."""
    return tuple(each for each in models() if each.top1_percent is not None)


def named_kernels(rules: FusionRules, watch: Watch = lambda *_: None) -> NamedKernels:
    """Return the kernels of the rated networks under fusion rules, from a table where there is one."""
    networks = rated_networks()
    name = table_name(networks, rules)
    for content, is_shipped in stored(SHIPPED_TABLES / name):
        read = read_table(content, _fingerprint(networks, rules))
        if read is not None:
            configurations, arrays = read
            network = np.repeat(np.arange(len(networks)), arrays["occurring"].astype(np.int64))
            counts, kernel = arrays["counts"].astype(np.int64), arrays["kernel"].astype(np.int64)
            table = KernelTable(configurations, np.repeat(network, counts), np.repeat(kernel, counts), len(networks))
            found = NamedKernels(networks, table, arrays["reserved_bytes"])
            # Tests see to the shipped tables.
            if is_shipped or _agrees(found, rules):
                return _selected(found, rules)
    [found] = make_named_kernels(networks, [rules], watch)
    keep(name, table_bytes(found, rules))
    return _selected(found, rules)


def make_named_kernels(
    networks: Sequence[NetworkSummary], rules: Sequence[FusionRules], watch: Watch = lambda *_: None
) -> list[NamedKernels]:
    """Build every network once and find its kernels under each of several rules, before a GPU's backend selects."""
    kernels: list[list[tuple[Kernel, ...]]] = [[] for _ in rules]
    memories: list[list[list[int]]] = [[] for _ in rules]
    for place, network in enumerate(networks):
        graph = build(model(network.name))
        for index, each in enumerate(rules):
            found = find_kernels(graph, _searched(each))
            kernels[index].append(found)
            memories[index].append([memory_of(graph, each, kind, found).reserved_bytes for kind in ("fp32", "int8")])
        watch(place + 1, len(networks))
    return [
        NamedKernels(tuple(networks), KernelTable.of(found), np.array(memory, dtype=np.int64).reshape(-1, 2))
        for found, memory in zip(kernels, memories, strict=True)
    ]


def _agrees(found: NamedKernels, rules: FusionRules) -> bool:
    """Return whether the smallest networks, searched for kernels as is done now, have those of a table."""
    order = sorted(range(len(found.networks)), key=lambda row: found.networks[row].million_macs or np.inf)[:CHECKED]
    listed = keys_of(found.table.configurations)
    for row in order:
        kernels = find_kernels(build(model(found.networks[row].name)), _searched(rules))
        there = Counter(listed[place] for place in found.table.kernel[found.table.network == row].tolist())
        if there != counted(kernels):
            return False
    return True


def _searched(rules: FusionRules) -> FusionRules:
    """Return the rules without a GPU backend's selection where each kernel alone decides it, so that GPUs share a table."""
    return rules if "depthwise_pointwise" in rules.patterns else replace(rules, selection="")


def _selected(found: NamedKernels, rules: FusionRules) -> NamedKernels:
    """Return the kernels that a GPU's backend runs for those of the table."""
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
    """Return the file of a table."""
    distinct = len(found.table.kernel_types)
    pairs, counts = np.unique(found.table.network * distinct + found.table.kernel, return_counts=True)
    return table_file(
        _fingerprint(found.networks, rules),
        found.table.configurations,
        occurring=small(np.bincount(pairs // distinct, minlength=found.table.networks)),
        kernel=small(pairs % distinct),
        counts=small(counts),
        reserved_bytes=found.reserved_bytes,
    )


def table_name(networks: Sequence[NetworkSummary], rules: FusionRules) -> str:
    """Return the name of a table's file."""
    return f"named-{_fingerprint(networks, rules)[:16]}.npz"


def _fingerprint(networks: Sequence[NetworkSummary], rules: FusionRules) -> str:
    """Return the fingerprint of a table: its networks and their sizes, the rules, and the runtime with its planner."""
    said = {key: value for key, value in _searched(rules).to_json().items() if key not in ("schema", "version", "evidence")}
    listed = [(each.name, each.million_parameters, each.million_macs) for each in networks]
    return hashlib.sha256(json.dumps([SCHEMA, listed, said, bool(rules.selection)], sort_keys=True).encode()).hexdigest()
