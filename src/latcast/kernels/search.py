"""Finding all kernels of a network (nn-Meter §4.2, Algorithm 1), with idioms of several operators beside the pair rules.

The traversal visits operators in topological order and fuses each into the kernel of an operator it reads, where the rules
allow the pair. As in the paper the fused operator keeps the class of its first member, an operator whose result has several
readers is not fused with any of them unless ``multi_outbound`` says so, and of several inputs one is chosen by ``multi_inbound``.
With one reader only, no path can leave a kernel and come back, so fusion never makes a cycle; where a kernel may have more
readers, a fusion that would make one is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import cast

from latcast.graph.idioms import COMMUTATIVE, Idiom, choose_idioms
from latcast.graph.ir import Graph, Node, topological_order
from latcast.graph.moves import with_moved, with_movers
from latcast.kernels.blocks import Unit, images_in_blocks
from latcast.kernels.kernel import LINEAR_OF_IMAGES, OF_IMAGES, Configuration, Kernel, operator_class
from latcast.kernels.layouts import layout_class, layouts, with_reorders
from latcast.kernels.rules import WRITTEN_LAST_FIRST, FusionRules, QuantisationRules
from latcast.kernels.selection import Selection, selection_of
from latcast.kernels.types import describe, kernel_graph, kernel_type
from latcast.kernels.types.elementwise import OF_FILTERS


def chosen_idioms(graph: Graph, rules: FusionRules) -> dict[str, Idiom]:
    """Return operator's name to its idiom, for idioms that the rules run as one kernel."""
    limits: Mapping[str, int] = {}
    if rules.selection and "depthwise_pointwise" in rules.patterns:
        limits = selection_of(rules.selection).thresholds.get("depthwise_pointwise", {})

    def small_enough(idiom: Idiom) -> bool:
        sizes = idiom.attributes or {}
        return idiom.name != "depthwise_pointwise" or all(cast(int, sizes[name]) <= most for name, most in limits.items())

    return {node.name: idiom for idiom in choose_idioms(graph, rules.patterns, small_enough) for node in idiom.nodes}


HEAVY = frozenset({"conv", "depthwise_conv", "grouped_conv", "conv_transpose", "linear", LINEAR_OF_IMAGES, "matmul"})
"""Classes that give a kernel its type wherever they stand in it."""


def may_share_a_kernel(rules: FusionRules, classes: Iterable[str]) -> bool:
    """Return whether the rules fuse each operator of :data:`HEAVY` into the one before it.

    The type of another kernel with several of them would not describe its work.
    """
    return all(rules.fuses(*pair) for pair in pairwise(name for name in classes if name in HEAVY))


class _Group:
    """Operators fused so far; ``first`` gives the class, ``nodes`` stay in execution order, ``start`` and ``order`` are the
    places of the first and of the last of them."""

    __slots__ = ("first", "last", "nodes", "order", "own_count", "start")

    def __init__(self, first: str, nodes: list[Node], order: int) -> None:
        self.first = first
        self.nodes = nodes
        self.own_count = len(nodes)
        self.last = nodes[-1]
        self.start = self.order = order


def units_of(graph: Graph, rules: FusionRules, classes: Mapping[str, str]) -> list[Unit]:
    """Return the operators with their classes in order, those of an idiom that the rules run as one kernel as one."""
    idiom_of = chosen_idioms(graph, rules)
    found: list[Unit] = []
    for node in graph.nodes:
        idiom = idiom_of.get(node.name)
        if idiom is None:
            found.append((classes[node.name], [node]))
        elif node is idiom.nodes[-1]:
            found.append((idiom.name, list(idiom.nodes)))
    return found


class _Search:
    """A traversal of one graph."""

    def __init__(self, graph: Graph, rules: FusionRules, classes: Mapping[str, str]) -> None:
        self.graph = graph
        self.rules = rules
        self.classes = classes
        self.units = units_of(graph, rules, classes)
        layouts = rules.layouts
        self.pairs_in_blocks = layouts.pairs if layouts else {}
        self.blocked = images_in_blocks(graph, self.units, layouts) if layouts and layouts.block else frozenset[str]()
        self.inert = graph.static_names
        self.group_of: dict[str, _Group] = {}
        """Tensor to the kernel that computes it."""
        self.readers: dict[str, list[str]] = {}
        """Activation to the names of the operators that read it; ``graph.consumers`` lists those of weights too."""
        for node in graph.nodes:
            for name in node.inputs:
                if name not in self.inert:
                    self.readers.setdefault(name, []).append(node.name)

    def run(self) -> Sequence[_Group]:
        rules = self.rules
        followers = rules.chains.union(*rules.pairs.values(), *self.pairs_in_blocks.values())
        groups: list[_Group] = []
        for order, (second, members) in enumerate(self.units):
            target = self._absorbing(members, second) if second in followers else None
            if target is None:
                target = _Group(second, list(members), order)
                groups.append(target)
            else:
                target.nodes.extend(members)
                target.last = members[-1]
                target.order = order
            for output in target.last.outputs:
                self.group_of[output] = target
        if rules.multi_outbound:
            # Others read inner results, too: each kernel comes after all that it reads.
            listed = sorted(groups, key=lambda group: group.order)
            whole = [
                Node(
                    group.first,
                    str(index),
                    tuple(self._outside_inputs(group.nodes)),
                    tuple(output for node in group.nodes for output in node.outputs),
                )
                for index, group in enumerate(listed)
            ]
            return [listed[int(node.name)] for node in topological_order(whole, self.graph.inputs)]
        return sorted(groups, key=lambda group: group.order)

    def _absorbing(self, members: Sequence[Node], second: str) -> _Group | None:
        """Return the kernel that takes these operators in, or None."""
        graph, rules = self.graph, self.rules
        inputs = self._outside_inputs(members)
        candidates = inputs
        if len(inputs) > 1:
            if rules.multi_inbound == 0:
                return None
            if rules.multi_inbound == 1:
                candidates = inputs[:1]
            elif rules.multi_inbound == 2:
                candidates = inputs[-1:]
            elif rules.multi_inbound == 3:
                candidates = sorted(inputs, key=lambda name: -self._order_of(name))
            elif rules.multi_inbound == WRITTEN_LAST_FIRST:
                candidates = self._first_for_delegate(members[-1], inputs)
        for name in candidates:
            group = self.group_of.get(name)
            if group is None or name not in group.last.outputs or not self._fuses(group.first, second, name, members[-1]):
                continue
            if any(output in graph.outputs for output in group.last.outputs):
                continue
            if second in HEAVY and not may_share_a_kernel(rules, (self.classes[node.name] for node in (*group.nodes, *members))):
                continue
            behind = [self.classes[node.name] for node in group.nodes[group.own_count :]]
            if second in rules.once and group.first in HEAVY and second in behind:
                continue
            if rules.stages and rules.comes_too_late(second, behind):
                continue
            if not self._may_leave(group.last, members):
                continue
            # Only a kernel with several readers can be reached again from its own result.
            if rules.multi_outbound and self._needs((other for other in inputs if other != name), group):
                continue
            return group
        return None

    def _fuses(self, first: str, second: str, tensor: str, node: Node) -> bool:
        """Return whether the rules fuse a pair over a tensor; both must work in the same layout."""
        blocked = tensor in self.blocked
        if blocked != (node.outputs[0] in self.blocked):
            return False
        return self.rules.fuses(first, second) or (blocked and second in self.pairs_in_blocks.get(first, ()))

    def _outside_inputs(self, members: Sequence[Node]) -> list[str]:
        """Return the activations that the operators read from elsewhere, each once."""
        names = [name for node in members for name in node.inputs if name not in self.inert]
        if len(members) == 1:
            return names if len(names) < 2 else list(dict.fromkeys(names))
        inside = {output for node in members for output in node.outputs}
        return [name for name in dict.fromkeys(names) if name not in inside]

    def _first_for_delegate(self, node: Node, inputs: Sequence[str]) -> list[str]:
        """Return the only input whose kernel TFLite's delegate may fuse an operator into; empty where another comes too late.

        Of a sum or product of equal shapes the operand written last is put first, of unequal ones the larger.
        """
        first = inputs[0]
        if node.op_type in COMMUTATIVE:
            shapes = [self.graph.shape(name) for name in inputs]
            equal = all(shape == shapes[0] for shape in shapes)
            first = max(inputs, key=self._order_of if equal else lambda name: self.graph.tensors[name].elements)
        group = self.group_of.get(first)
        starts = [other.start for name in inputs if name != first and (other := self.group_of.get(name)) is not None]
        return [] if group is None or any(start > group.start for start in starts) else [first]

    def _order_of(self, tensor: str) -> int:
        group = self.group_of.get(tensor)
        return -1 if group is None else group.order

    def _may_leave(self, last: Node, members: Sequence[Node]) -> bool:
        """Return whether a kernel that ends in ``last`` may take the operators in, given who else reads its result."""
        readers = [name for output in last.outputs for name in self.readers.get(output, ())]
        if len(readers) == 1:
            return True  # the operators at hand
        inside = {node.name for node in members}
        if inside.issuperset(readers):
            return True
        if not self.rules.multi_outbound:
            return False
        return readers[0 if self.rules.multi_outbound == 1 else -1] in inside

    def _needs(self, tensors: Iterable[str], target: _Group) -> bool:
        """Return whether computing the tensors takes a result of the kernel ``target``."""
        waiting = [group for name in tensors if (group := self.group_of.get(name)) is not None]
        seen: set[int] = set()
        while waiting:
            group = waiting.pop()
            if group is target:
                return True
            if id(group) not in seen:
                seen.add(id(group))
                names = self._outside_inputs(group.nodes)
                waiting.extend(found for name in names if (found := self.group_of.get(name)) is not None)
        return False


def find_kernels(graph: Graph, rules: FusionRules) -> tuple[Kernel, ...]:
    """Return the kernels that a runtime with these rules executes, in execution order.

    Every operator of the graph is in exactly one kernel; reorders, where the rules have layouts, and standardisations of filters,
    where they repeat these, compute none.

    Raises:
        LatcastError: The rules name an idiom that does not exist.

    Example:
        >>> import latcast
        >>> graph = latcast.build(latcast.model("resnet18"))
        >>> kernels = latcast.find_kernels(graph, latcast.load_rules("onnxruntime"))
        >>> kernels[0].kernel_type, kernels[0].operators
        ('conv', ('Conv', 'BatchNormalization', 'Relu'))
    """
    classes = operator_classes(graph, rules)
    search = _Search(graph, rules, classes)
    kernels = tuple(_kernel(graph, rules, group) for group in search.run())
    quantisation = rules.quantisation
    quantised = quantised_nodes(graph, classes, quantisation) if quantisation else []
    if rules.layouts is not None:
        on_integers = quantisation.on_integers if quantisation else frozenset[str]()
        found = layouts(graph, kernels, classes, rules.layouts, on_integers, search.blocked)
        readers = with_movers(graph, quantised) if quantised else frozenset[str]()
        kernels = with_reorders(graph, kernels, found, rules.layouts, readers)
    if quantisation is not None:
        kernels = with_conversions(graph, kernels, classes, quantisation, quantised)
    if rules.standardises and graph.standardised:
        kernels = tuple(each for kernel in kernels for each in (*_standardisations(graph, kernel), kernel))
    if not rules.selection:
        return kernels
    selection = selection_of(rules.selection)
    return tuple(_selected(kernel, selection) for kernel in kernels)


def _standardisations(graph: Graph, kernel: Kernel) -> Iterator[Kernel]:
    """Yield the kernels that standardise the filters which a kernel reads."""
    for name in kernel.nodes:
        for weight in graph.nodes[graph.positions[name]].inputs:
            if weight in graph.standardised:
                filters = graph.tensors[weight]
                values = {"rows": filters.shape[0], "columns": filters.elements // filters.shape[0]}
                yield Kernel(OF_FILTERS.name, OF_FILTERS.configuration(values), name, (), ())


def kernel_of(graph: Graph, rules: FusionRules, names: Iterable[str]) -> Kernel | None:
    """Return the kernel of just these operators, wherever the rules would draw its borders.

    Args:
        graph: The network.
        rules: For the operators' idioms and the backend's selection.
        names: Operators of the graph.

    Returns:
        None where no operator of the graph is named, or heavy ones that share no kernel (:func:`may_share_a_kernel`).
    """
    wanted = frozenset(names)
    nodes = [node for node in graph.nodes if node.name in wanted]
    classes = [_class_of(graph, rules, node) for node in nodes]
    if not nodes or not may_share_a_kernel(rules, classes):
        return None
    first, own = classes[0], nodes[:1]
    idiom = chosen_idioms(graph, rules).get(own[0].name)
    if idiom is not None and wanted.issuperset(node.name for node in idiom.nodes):
        first, own = idiom.name, list(idiom.nodes)
    group = _Group(first, own, 0)
    group.nodes.extend(node for node in nodes if node not in own)
    kernel = _kernel(graph, rules, group)
    return _selected(kernel, selection_of(rules.selection)) if rules.selection else kernel


def _selected(kernel: Kernel, selection: Selection) -> Kernel:
    """Return the kernel that the backend selects."""
    if kernel.free:
        return kernel
    name, configuration = selection.kernel(kernel.kernel_type, kernel.configuration)
    return kernel if name == kernel.kernel_type else replace(kernel, kernel_type=name, configuration=configuration)


def _kernel(graph: Graph, rules: FusionRules, group: _Group) -> Kernel:
    nodes = group.nodes
    name, configuration = describe(graph, group.first, nodes, group.own_count)
    return Kernel(
        name,
        configuration,
        nodes[0].name,
        tuple([node.name for node in nodes]),
        tuple([node.op_type for node in nodes]),
        free=group.first in rules.free and len(nodes) == group.own_count,
    )


def operator_classes(graph: Graph, rules: FusionRules) -> dict[str, str]:
    """Return each operator's class by its name (:func:`_class_of`)."""
    return {node.name: _class_of(graph, rules, node) for node in graph.nodes}


def _class_of(graph: Graph, rules: FusionRules, node: Node) -> str:
    """Return an operator's class. Transposes are split by what they do to a layout where the rules call that free, operators of
    :data:`OF_IMAGES` by their axes where the rules have separate pairs for them."""
    name = operator_class(graph, node)
    if node.op_type == "Transpose":
        layout = layout_class(graph, node)
        return layout if layout is not None and layout in rules.free else name
    finer = OF_IMAGES.get(name)
    if finer is not None and finer in rules.pairs and len(graph.shape(node.outputs[0])) > 3:
        return finer
    return name


class SingleKernels:
    """Kernels built as networks of one kernel, under the fusion rules of one runtime; each is built and searched once."""

    def __init__(self, rules: FusionRules) -> None:
        self.rules = rules
        self._found: dict[tuple[str, Configuration], tuple[Kernel, ...]] = {}

    def busy(self, type_name: str, configuration: Configuration) -> tuple[Kernel, ...]:
        """Return the kernels that the network of one kernel really falls into, without free ones and reorders.

        Raises:
            LatcastError: There is no such kernel, see :func:`kernel_graph`.
        """
        key = (type_name, configuration)
        if key not in self._found:
            graph = kernel_graph(type_name, dict(zip(kernel_type(type_name).fields, configuration, strict=True)))
            self._found[key] = tuple(each for each in find_kernels(graph, self.rules) if each.nodes and not each.free)
        return self._found[key]


def quantised_nodes(graph: Graph, classes: Mapping[str, str], rules: QuantisationRules) -> list[Node]:
    """Return products and the operators that the rules compute on integers, whatever stands beside them."""
    # No operator inside a GELU is quantised.
    floating = {node.name for idiom in choose_idioms(graph, ("gelu",)) for node in idiom.nodes}
    computed = HEAVY | rules.on_integers
    return [node for node in graph.nodes if classes[node.name] in computed and node.name not in floating]


FLOATING = "floating"
"""Variant of a kernel type: in floats, between conversions where its neighbours work on integers."""


def with_conversions(
    graph: Graph, kernels: Iterable[Kernel], classes: Mapping[str, str], rules: QuantisationRules, quantised: Sequence[Node]
) -> tuple[Kernel, ...]:
    """Return kernels with those between conversions as variants (:data:`FLOATING`), where the rules name their type.

    Args:
        graph: The network.
        kernels: Of the network.
        classes: Its operators' names to their classes.
        rules: Of the runtime.
        quantised: From :func:`quantised_nodes`.
    """
    integers = with_moved(graph, (tensor for node in quantised for tensor in (*node.inputs, *node.outputs)))
    on_integers = {node.name for node in quantised} | {
        node.name
        for node in graph.nodes
        if classes[node.name] in rules.between_integers and integers.issuperset((*node.inputs, *node.outputs))
    }

    def as_run(kernel: Kernel) -> Kernel:
        return kernel if kernel.name in on_integers else replace(kernel, kernel_type=f"{kernel.kernel_type}.{FLOATING}")

    return tuple(as_run(kernel) if kernel.kernel_type in rules.converted else kernel for kernel in kernels)
