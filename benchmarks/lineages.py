"""Blocks that networks of different lineages share: all networks that come with latcast, by the operators of their blocks."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.judge import Columns, table
from benchmarks.result_files import keep, kept
from latcast.graph.blocks import cuts, main_block
from latcast.graph.ir import Graph, Node
from latcast.graph.operators import node_macs
from latcast.records import Reference
from latcast.spaces import build
from latcast.spaces.catalogue import FAMILY_NAMES, model
from latcast.spaces.iiswc20 import buildable
from latcast.spaces.lineages import TABLE, lineage_of
from latcast.spaces.named_graphs import all_networks
from latcast.spaces.training_mix import published_networks

OF_SUBSTANCE = 0.1
"""Share of a network's multiply-accumulates from which on one of its blocks counts as learned from it."""

HALF = 0.5

FEWEST_SHOWN = 100
"""Networks of a lineage that has a line of its own."""


def lineages() -> None:
    """Write the table of main blocks that splits hold networks out by, and what lineages have in common; nothing is measured."""
    found: dict[str, dict[str, list[str]]] = {}
    for reference in map(model, all_networks()):
        names = found.setdefault(reference.space, {}).setdefault(main_block(build(reference)), [])
        names.append(str(reference.parameters["name"]))
    ordered = {space: {block: sorted(found[space][block]) for block in sorted(found[space])} for space in sorted(found)}
    TABLE.write_text(json.dumps(ordered, indent=0) + "\n")
    keep("lineages", judged(list(every_network())))
    print(lineages_table())


def operator_of(graph: Graph, node: Node) -> str:
    """Return an operator's type, with the window and the kind of a convolution."""
    if node.op_type != "Conv":
        return node.op_type
    _, inputs_of_group, *window = graph.shape(node.inputs[1])
    groups = node.attributes.get("group", 1)
    return f"Conv {window} {'dense' if groups == 1 else 'depthwise' if inputs_of_group == 1 else 'grouped'}"


def blocks_by_operators(graph: Graph) -> Counter[tuple[str, ...]]:
    """Count the multiply-accumulates between two cuts by the sequence of operators there, where these are several."""
    found = Counter[tuple[str, ...]]()
    for (first, _), (last, _) in pairwise(cuts(graph)):
        if last - first > 1:
            nodes = graph.nodes[first:last]
            found[tuple(operator_of(graph, node) for node in nodes)] += sum(node_macs(graph, node) for node in nodes)
    return found


def every_network() -> Iterator[Reference]:
    """Yield the networks of the collections, published members of the families, and the networks of Ganesan et al."""
    yield from map(model, all_networks())
    yield from published_networks(FAMILY_NAMES)
    yield from buildable().values()


def judged(references: Sequence[Reference]) -> dict[str, Any]:
    """Measure which blocks networks share with networks of other lineages.

    Returns:
        ``networks``; ``close``: names of those that have half of their multiply-accumulates in common with one of another
        lineage, each block counting as much as the one that has less of it; ``in_common``: percent in blocks that are of
        substance in some network of another lineage, the mean; ``lineages``: to each, its networks and the same mean.
    """
    column: dict[tuple[str, ...], int] = {}
    rows = []
    for reference in references:
        graph = build(reference)
        whole = max(sum(node_macs(graph, node) for node in graph.nodes), 1)
        rows.append({column.setdefault(block, len(column)): macs / whole for block, macs in blocks_by_operators(graph).items()})
    shares = np.zeros((len(rows), len(column)), dtype=np.float32)
    for row, found in enumerate(rows):
        shares[row, list(found)] = list(found.values())
    labels = np.array([lineage_of(reference) for reference in references])
    in_common, close = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool)
    for name in np.unique(labels):
        own, others = shares[labels == name], shares[labels != name]
        in_common[labels == name] = own @ (others >= OF_SUBSTANCE).any(axis=0)
        close[labels == name] = [bool((np.minimum(each, others).sum(axis=1) >= HALF).any()) for each in own]
    return {
        "networks": len(rows),
        "close": sorted(str(reference.name) for reference, near in zip(references, close, strict=True) if near),
        "in_common": 100 * float(in_common.mean()),
        "lineages": {
            str(name): {"networks": int((labels == name).sum()), "in_common": 100 * float(in_common[labels == name].mean())}
            for name in np.unique(labels)
        },
    }


def lineages_table(found: dict[str, Any] | None = None) -> str:
    """Return a line for each large lineage, the largest first, one for all, and how many networks lie between two."""
    found = kept("lineages") if found is None else found
    examples: dict[str, dict[str, None]] = defaultdict(dict)
    for reference in published_networks(FAMILY_NAMES):
        examples[lineage_of(reference)][reference.space] = None
    shown = sorted(found["lineages"].items(), key=lambda each: -each[1]["networks"])
    rows = [{"name": name, **each} for name, each in shown if each["networks"] >= FEWEST_SHOWN]
    rows.append({"name": f"all {len(found['lineages'])}", **found})
    between = f"{len(found['close'])} have half of their multiply-accumulates in common with one of another lineage."
    columns: Columns = {
        "lineage": "{name}", "families of it": lambda row: ", ".join(examples.get(row["name"], ())), "networks": "{networks}",
        "multiply-accumulates in blocks that other lineages have %": "{in_common:.0f}",
    }  # fmt: skip
    return f"{table(rows, columns)}\n\n{between}"
