"""The kernels of all named networks of known accuracy, as one table for a runtime's fusion rules.

Building their graphs and finding their kernels takes minutes; their table is read in a fraction of a second. Tables for the rules
of shipped platforms come with the package (``python -m benchmarks choose --ship`` writes them); others are made when they are
first asked for and kept in the user's cache. A table that was made from other networks, rules or fields is not used. Tables of
crossings under a delegate's rules are made and kept as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from latcast.graph.ir import Graph
from latcast.graph.operators.table import graph_macs
from latcast.kernels.delegates import Delegate
from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.memory import elements_3x3, memory_of
from latcast.kernels.partitioning import partition
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels
from latcast.kernels.selection import selection_of
from latcast.records import ACTIVATION_BYTES, WEIGHT_BYTES
from latcast.spaces.catalogue import NetworkSummary, build, model, models
from latcast.spaces.kernel_table_files import CHECKED, counted, keep, keys_of, read_table, small, stored, table_file

SCHEMA = 2

SHIPPED_TABLES = Path(__file__).parent / "graphs" / "kernels"

Watch = Callable[[int, int], None]
"""Told how many networks are done, and of how many."""


GRAPH_FACTS = ("nodes", "macs", "weights_3x3", "weights", "other_bytes")
"""Numbers of a graph that no rules change: nodes, multiply-accumulates, weights of dense 3x3 convolutions and of all operators,
and bytes of weights that are no real numbers."""


@dataclass(frozen=True)
class NamedKernels:
    """The networks and their kernels; row i of each array is network i.

    Attributes:
        networks: What is known of each, all with an accuracy.
        table: Their kernels.
        reserved_bytes, peak_bytes: (networks, 2) held for activations, and needed at most, in fp32 and in int8: see
            :class:`latcast.kernels.memory.Memory`.
        graphs: Each of :data:`GRAPH_FACTS` to (networks,).
    """

    networks: tuple[NetworkSummary, ...]
    table: KernelTable
    reserved_bytes: np.ndarray
    peak_bytes: np.ndarray
    graphs: Mapping[str, np.ndarray]

    def memory_bytes(self, precision: str) -> np.ndarray:
        """(networks,) held for activations and weights on a platform of a precision."""
        parameters = np.array([1e6 * each.million_parameters for each in self.networks])
        return np.asarray(_in_precision(self.reserved_bytes, precision) + WEIGHT_BYTES.get(precision, 4) * parameters)

    def activations_bytes(self, precision: str) -> np.ndarray:
        """(networks,) needed at most for activations on a platform of a precision."""
        return _in_precision(self.peak_bytes, precision)


def _in_precision(activations_bytes: np.ndarray, precision: str) -> np.ndarray:
    whole, quarter = activations_bytes.T
    return np.asarray(quarter if precision == "int8" else whole * ACTIVATION_BYTES.get(precision, 4) / 4)


def rated_networks() -> tuple[NetworkSummary, ...]:
    """Return the named networks whose accuracy was published, sorted by name."""
    return tuple(each for each in models() if each.top1_percent is not None)


def named_kernels(rules: FusionRules, watch: Watch = lambda *_: None) -> NamedKernels:
    """Return the kernels of the rated networks under fusion rules, from a table where there is one."""
    networks = rated_networks()
    made_from = _fingerprint(networks, rules)
    name = _file_name("named", made_from)
    for content, is_shipped in stored(SHIPPED_TABLES / name):
        read = read_table(content, made_from)
        if read is not None:
            configurations, arrays = read
            network = np.repeat(np.arange(len(networks)), arrays["occurring"].astype(np.int64))
            counts, kernel = arrays["counts"].astype(np.int64), arrays["kernel"].astype(np.int64)
            table = KernelTable(configurations, np.repeat(network, counts), np.repeat(kernel, counts), len(networks))
            found = NamedKernels(networks, table, arrays["reserved_bytes"], arrays["peak_bytes"], _graph_facts(arrays["graphs"]))
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
    memories: list[list[list[tuple[int, int]]]] = [[] for _ in rules]
    facts = []
    for place, network in enumerate(networks):
        graph = build(model(network.name))
        facts.append((len(graph.nodes), graph_macs(graph), elements_3x3(graph), *_weights_of(graph)))
        for index, each in enumerate(rules):
            found = find_kernels(graph, _searched(each))
            kernels[index].append(found)
            memory = [memory_of(graph, each, kind, found) for kind in ("fp32", "int8")]
            memories[index].append([(each.reserved_bytes, each.peak_activations_bytes) for each in memory])
        watch(place + 1, len(networks))
    held = np.array(memories, dtype=np.int64).reshape(len(rules), len(networks), 2, 2)
    graphs = _graph_facts(np.array(facts, dtype=np.int64).reshape(len(networks), -1))
    return [
        NamedKernels(tuple(networks), KernelTable.of(found), memory[..., 0], memory[..., 1], graphs)
        for found, memory in zip(kernels, held, strict=True)
    ]


def _weights_of(graph: Graph) -> tuple[int, int]:
    """Return the number of weights that are real numbers, and the bytes of others."""
    found = [graph.tensors[name] for name in graph.weights]
    real = sum(each.elements for each in found if "float" in each.dtype)
    return real, int(sum(each.size_bytes for each in found if "float" not in each.dtype))


def _graph_facts(columns: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(GRAPH_FACTS, columns.T, strict=True))


def named_crossings(delegate: Delegate, watch: Watch = lambda *_: None) -> np.ndarray:
    """Return how often the rated networks cross between a delegate's unit and the CPU, and how many bytes, (networks, 2)."""
    networks = rated_networks()
    made_from = _made_from(networks, delegate.partitioned_by())
    name = _file_name("crossings", made_from)
    for content, _ in stored(SHIPPED_TABLES / name):
        read = read_table(content, made_from)
        if read is not None:
            return read[1]["crossings"]
    [found] = make_named_crossings(networks, [delegate], watch)
    keep(name, crossings_file(found, networks, delegate))
    return found


def make_named_crossings(
    networks: Sequence[NetworkSummary], delegates: Sequence[Delegate], watch: Watch = lambda *_: None
) -> np.ndarray:
    """Build every network once and count the crossings under each of several delegates, (delegates, networks, 2)."""
    found = np.zeros((len(delegates), len(networks), 2))
    for place, network in enumerate(networks):
        graph = build(model(network.name))
        for index, each in enumerate(delegates):
            parts = partition(graph, each)
            found[index, place] = len(parts.crossings), parts.crossing_bytes
        watch(place + 1, len(networks))
    return found


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
        peak_bytes=found.peak_bytes,
        graphs=np.stack([found.graphs[name] for name in GRAPH_FACTS], axis=1),
    )


def crossings_file(crossings: np.ndarray, networks: Sequence[NetworkSummary], delegate: Delegate) -> bytes:
    """Return the file of a delegate's crossings."""
    return table_file(_made_from(networks, delegate.partitioned_by()), {}, crossings=crossings)


def table_name(networks: Sequence[NetworkSummary], rules: FusionRules) -> str:
    """Return the name of a table's file."""
    return _file_name("named", _fingerprint(networks, rules))


def crossings_name(networks: Sequence[NetworkSummary], delegate: Delegate) -> str:
    """Return the name of the file of a delegate's crossings."""
    return _file_name("crossings", _made_from(networks, delegate.partitioned_by()))


def _file_name(kind: str, made_from: str) -> str:
    return f"{kind}-{made_from[:16]}.npz"


def _fingerprint(networks: Sequence[NetworkSummary], rules: FusionRules) -> str:
    """Return the fingerprint of a table: its networks and their sizes, the rules, and the runtime with its planner."""
    said = {key: value for key, value in _searched(rules).to_json().items() if key not in ("schema", "version", "evidence")}
    return _made_from(networks, [said, bool(rules.selection)])


def _made_from(networks: Sequence[NetworkSummary], further: Sequence[Any]) -> str:
    """Return the fingerprint of networks and of what else decides a table."""
    listed = [(each.name, each.million_parameters, each.million_macs) for each in networks]
    return hashlib.sha256(json.dumps([SCHEMA, listed, *further], sort_keys=True).encode()).hexdigest()
