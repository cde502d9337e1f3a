"""Finding all kernels of a network (nn-Meter §4.2, Algorithm 1), with multi-operator patterns beside the pair rules.

The traversal visits operators in topological order and fuses each into the kernel of an operator it reads, where the rules
allow the pair. As in the paper the fused operator keeps the class of its first member, an operator whose result has several
readers takes none of them in unless ``multi_outbound`` says so, and of several inputs one is chosen by ``multi_inbound``.
With one reader only, no path can leave a kernel and come back, so fusion never makes a cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from latcast.graph.ir import Graph, Node
from latcast.kernels.kernel import Kernel
from latcast.kernels.operator_class import operator_class
from latcast.kernels.patterns import Match, find_patterns, shipped_patterns
from latcast.kernels.rules import FusionRules
from latcast.kernels.types import describe


def _swaps_groups(graph: Graph, match: Match) -> bool:
    """A channel shuffle is a reshape to (N, groups, C/groups, ...) with these two axes swapped, and back."""
    transpose = next(node for node in match.nodes if node.op_type == "Transpose")
    order = transpose.attributes.get("perm", ())
    rank = len(graph.tensors[transpose.inputs[0]].shape)
    before, after = match.nodes[0].inputs[0], match.nodes[-1].outputs[0]
    return order == (0, 2, 1, *range(3, rank)) and graph.shape(before) == graph.shape(after) and rank == 5


_CONDITIONS: Mapping[str, Callable[[Graph, Match], bool]] = {"channel_shuffle": _swaps_groups}
"""What an expression alone cannot say."""


class _Group:
    """Operators fused so far; ``first`` gives the class, ``nodes`` stay in execution order."""

    __slots__ = ("first", "last", "nodes", "order", "own_count")

    def __init__(self, first: str, nodes: list[Node], order: int) -> None:
        self.first = first
        self.nodes = nodes
        self.own_count = len(nodes)
        self.last = nodes[-1]
        self.order = order


def find_kernels(graph: Graph, rules: FusionRules) -> tuple[Kernel, ...]:
    """The kernels that a runtime with these rules executes, in execution order.

    Every operator of the graph lands in exactly one kernel.
    """
    matches = [
        match
        for match in find_patterns(graph, rules.patterns, shipped_patterns())
        if match.pattern not in _CONDITIONS or _CONDITIONS[match.pattern](graph, match)
    ]
    pattern_of = {node.name: match for match in matches for node in match.nodes}
    group_of: dict[str, _Group] = {}
    groups: list[_Group] = []
    for order, node in enumerate(graph.nodes):
        match = pattern_of.get(node.name)
        if match is not None:
            if node is not match.nodes[-1]:
                continue
            second, members = match.pattern, list(match.nodes)
        else:
            second, members = operator_class(graph, node), [node]
        target = _absorbing_group(graph, rules, members, second, group_of)
        if target is None:
            target = _Group(second, members, order)
            groups.append(target)
        else:
            target.nodes.extend(members)
            target.last = members[-1]
            target.order = order
        for output in members[-1].outputs:
            group_of[output] = target
    groups.sort(key=lambda group: group.order)
    return tuple(_kernel(graph, rules, group) for group in groups)


def _absorbing_group(
    graph: Graph, rules: FusionRules, members: list[Node], second: str, group_of: Mapping[str, _Group]
) -> _Group | None:
    """The kernel that takes these operators in, or None."""
    inside = {output for node in members for output in node.outputs}
    inputs = [i for node in members for i in node.inputs if graph.is_activation(i) and i not in inside]
    distinct = list(dict.fromkeys(inputs))
    if len(distinct) > 1:
        if rules.multi_inbound == 0:
            return None
        if rules.multi_inbound == 1:
            distinct = distinct[:1]
        elif rules.multi_inbound == 2:
            distinct = distinct[-1:]
        else:
            distinct.sort(key=lambda name: -(group_of[name].order if name in group_of else -1))
    for name in distinct:
        group = group_of.get(name)
        if group is None or name not in group.last.outputs or not rules.fuses(group.first, second):
            continue
        if name in graph.outputs:
            continue
        readers = {reader.name for reader in graph.consumers.get(name, ())} - {node.name for node in members}
        if readers and not _may_fuse_outbound(graph, rules, name, members):
            continue
        return group
    return None


def _may_fuse_outbound(graph: Graph, rules: FusionRules, tensor: str, members: list[Node]) -> bool:
    if rules.multi_outbound == 0:
        return False
    readers = graph.consumers[tensor]
    chosen = readers[0] if rules.multi_outbound == 1 else readers[-1]
    return any(chosen is node for node in members)


def _kernel(graph: Graph, rules: FusionRules, group: _Group) -> Kernel:
    kernel_type, configuration = describe(graph, group.first, group.nodes, group.own_count)
    return Kernel(
        kernel_type,
        configuration,
        group.nodes[0].name,
        tuple(node.name for node in group.nodes),
        tuple(node.op_type for node in group.nodes),
        free=group.first in rules.free and len(group.nodes) == group.own_count,
    )
