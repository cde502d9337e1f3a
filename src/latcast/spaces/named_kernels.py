"""The kernels of all named networks of known accuracy, as one table for a runtime's fusion rules.

Building 709 graphs and finding their kernels takes minutes; their table is read in a fraction of a second. Tables for the rules
of shipped platforms come with the package (``python -m benchmarks choose --ship`` writes them); others are made when they are
first asked for and kept in the user's cache. A table that was made from other networks, rules or fields is not used.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.memory import memory_of
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels
from latcast.kernels.selection import selection_of
from latcast.records import ACTIVATION_BYTES, WEIGHT_BYTES
from latcast.spaces.catalogue import build, model
from latcast.spaces.kernel_table_files import CHECKED, cached_path, counted, keep, keys_of, read_table, small, table_file
from latcast.spaces.models import NetworkSummary, models

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
    """Return the kernels of the rated networks under fusion rules, from a table where there is one.

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
            kept = _read(cached_path(_name(made_from)).read_bytes(), networks, made_from)
            found = kept if kept is not None and _agrees(kept, rules) else None
    if found is None:
        found = make_named_kernels(networks, [rules], watch)[0]
        keep(_name(made_from), table_bytes(found, rules))
    return _selected(found, rules)


def make_named_kernels(
    networks: Sequence[NetworkSummary], rules: Sequence[FusionRules], watch: Watch = lambda *_: None
) -> list[NamedKernels]:
    """Build every network once and find its kernels under each of several rules, before a GPU's backend selects."""
    kernels: list[list[tuple[Kernel, ...]]] = [[] for _ in rules]
    memories: list[list[tuple[int, int]]] = [[] for _ in rules]
    for place, network in enumerate(networks):
        graph = build(model(network.name))
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
    """Return whether the smallest networks, built and searched for kernels, have those of a table.

    How kernels are found may have changed since it was made; tests see to the shipped tables.
    """
    order = sorted(range(len(found.networks)), key=lambda row: found.networks[row].million_macs or np.inf)[:CHECKED]
    listed = keys_of(found.table.configurations)
    for row in order:
        kernels = find_kernels(build(model(found.networks[row].name)), _searched(rules))
        there = Counter(listed[place] for place in found.table.kernel[found.table.network == row].tolist())
        if there != counted(kernels):
            return False
    return True


def _reserved(graph: Graph, rules: FusionRules, kernels: Sequence[Kernel]) -> tuple[int, int]:
    whole, quarter = (memory_of(graph, rules, precision, kernels).reserved_bytes for precision in ("fp32", "int8"))
    return whole, quarter


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
    """Name of a shipped table's file."""
    return _name(_fingerprint(networks, rules))


def _name(made_from: str) -> str:
    return f"named-{made_from[:16]}.npz"


def _fingerprint(networks: Sequence[NetworkSummary], rules: FusionRules) -> str:
    """Return the fingerprint of a table: its networks and their sizes, the rules, and the runtime with its planner."""
    said = {key: value for key, value in _searched(rules).to_json().items() if key not in ("schema", "version", "evidence")}
    listed = [(each.name, each.million_parameters, each.million_macs) for each in networks]
    return hashlib.sha256(json.dumps([SCHEMA, listed, said, bool(rules.selection)], sort_keys=True).encode()).hexdigest()


def _read(content: bytes, networks: tuple[NetworkSummary, ...], made_from: str) -> NamedKernels | None:
    """Return a table, or None where the file is damaged or was made from something else."""
    read = read_table(content, made_from)
    if read is None:
        return None
    configurations, arrays = read
    network = np.repeat(np.arange(len(networks)), arrays["occurring"].astype(np.int64))
    counts = arrays["counts"].astype(np.int64)
    kernel = arrays["kernel"].astype(np.int64)
    table = KernelTable(configurations, np.repeat(network, counts), np.repeat(kernel, counts), len(networks))
    return NamedKernels(networks, table, arrays["reserved_bytes"])
