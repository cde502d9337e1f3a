"""Putting a graph together from the operators of a file, whatever its format.

Nodes arrive one at a time, in an order in which they could run. What can be computed from the file alone is computed at
once, so that the shape arithmetic that exporters write disappears; results of weights alone become weights, as runtimes
fold them when they load a model.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, overload

import numpy as np

from latcast.errors import ModelError, UnknownOperatorError
from latcast.graph.ir import AttributeValue, Graph, Node, Tensor, Values, live_nodes
from latcast.graph.limits import Budget, Resource, check_graph, check_tensor
from latcast.graph.operators import Kind, Operator, OperatorView, lookup
from latcast.graph.operators.evaluation import MAX_ELEMENTS, evaluate
from latcast.graph.operators.table import never

Array = np.ndarray[Any, Any]
Shapes = Mapping[str, Sequence[int]]
LoadValue = Callable[[str], "Array | None"]
InferUnknown = Callable[[Node, "Sequence[Tensor | None]"], "list[Tensor] | None"]
Recorded = Callable[[Node], "list[Tensor] | None"]

_NORMALISING = (Kind.NORMALISATION, Kind.REDUCTION)

_KEPT_WITHOUT_ACTIVATIONS = frozenset({"QuantizeLinear", "DequantizeLinear"})
"""Operators on weights that a later pass wants to see."""

MALFORMED = (
    ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError, struct.error,
)  # fmt: skip
"""Errors that code meets in a file that can be parsed but that no exporter wrote."""


def shortest(value: float) -> float:
    """Return a number of single precision as people write it: 1e-05, not 9.999999747378752e-06."""
    return float(f"{value:.7g}")


class _LazyValues(Sequence["Array | None"]):
    """The known values of a node's inputs, read from the file when they are first used."""

    __slots__ = ("_assembly", "_names")

    def __init__(self, assembly: Assembly, names: tuple[str, ...]) -> None:
        self._assembly = assembly
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> Array | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[Array | None]: ...
    def __getitem__(self, index: int | slice) -> Array | list[Array | None] | None:
        if isinstance(index, slice):
            return [self._assembly.value(name) for name in self._names[index]]
        return self._assembly.value(self._names[index])


@contextmanager
def errors_of(source: object) -> Iterator[None]:
    """Name the source in the errors of reading it.

    Raises:
        ModelError: It cannot be read, or is damaged.
    """
    try:
        yield
    except ModelError as error:
        raise type(error)(f"{source}: {error}") from error
    except MALFORMED as error:
        reason = str(error).partition("\n")[0][:200] or type(error).__name__
        raise ModelError(f"{source}: the model is damaged or malformed ({reason})") from error


class Assembly:
    """A graph in the making.

    Args:
        name: Of the graph.
        load: Reads a stored tensor's values, or gives None where the file does not hold them.
        infer_unknown: Output tensors of an operator outside the table, or None where they are unknown.
        recorded: Output tensors of an operator as the file notes them, or None where it does not; taken where its sizes depend on
            values that are computed at run time.
        strict: Whether an operator outside the table is an error.
        reserved: Names of the file's tensors, which no tensor made up here takes.
        budget: What the import may take; nodes and known values are taken from it here.
        values: Tensor to its value: an input, in the input's shape and type, or what the network computes.
    """

    def __init__(
        self,
        name: str,
        *,
        load: LoadValue = lambda name: None,
        infer_unknown: InferUnknown = lambda node, inputs: None,
        recorded: Recorded = lambda node: None,
        strict: bool = False,
        reserved: Collection[str] = (),
        budget: Budget | None = None,
        values: Values | None = None,
    ) -> None:
        self.name = name
        self.notes: list[str] = []
        """Assumptions made in reading, a sentence each."""
        self.budget = budget or Budget()
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.has_empty_outputs = False
        """Whether the finished graph lacks an output that holds no elements."""
        self.run_time_sizes: list[str] = []
        self.inputs: list[str] = []
        self._load = load
        self._infer_unknown = infer_unknown
        self._recorded = recorded
        self.strict = strict
        self._reserved = reserved
        self._aliases: dict[str, str] = {}
        self._static: set[str] = set()
        self._normalised: set[str] = set()
        """Static tensors into which a normalisation or a reduction of others went."""
        self.given: set[str] = set()
        self._to_give = dict(values or {})
        self._computed: list[str] = []
        """Tensors with a value given, which the network computes all the same."""
        self._frozen: dict[str, str] = {}
        self.stored: set[str] = set()
        self._values: dict[str, Array | None] = {}
        self._node_names: set[str] = set()
        self._counts: dict[str, int] = {}

    # What there is

    def resolve(self, name: str) -> str:
        """Return the tensor that a name stands for: identities are seen through."""
        return self._aliases.get(name, name)

    def exists(self, name: str) -> bool:
        return name in self.tensors or name in self._aliases

    def tensor(self, name: str) -> Tensor:
        return self.tensors[self.resolve(name)]

    def value(self, name: str) -> Array | None:
        """Return the values of a tensor that are known without running the network, where they are few."""
        name = self._aliases.get(name, name)
        if name in self._values:
            return self._values[name]
        if name not in self.stored or self.tensors[name].elements > MAX_ELEMENTS:
            return None
        value = self._load(name)
        if value is not None:
            self.budget.take(Resource.FOLDED_BYTES, value.nbytes)
        self._values[name] = value
        return value

    def is_static(self, name: str) -> bool:
        """Return whether a tensor does not depend on the network's inputs."""
        return self.resolve(name) in self._static

    # Tensors

    def _define(self, name: str, tensor: Tensor) -> None:
        if name in self.tensors or name in self._aliases:
            raise ModelError(f"tensor '{name}' is defined twice; every tensor must have one producer")
        check_tensor(name, tensor)
        self.tensors[name] = tensor

    def add_input(self, name: str, tensor: Tensor) -> None:
        """Add an input; a few numbers that are given for it are known from here on, but are no constant of the network.

        One without elements (the cache before the first step) is known, and no input of the graph.
        """
        value: Any = self._to_give.pop(name, None)
        if not tensor.elements:
            self._add_empty(name, tensor)
            return
        self._define(name, tensor)
        self.inputs.append(name)
        if value is not None and value.size <= MAX_ELEMENTS and value.dtype != object:
            self._give(name, value)

    def _give(self, name: str, value: Array) -> None:
        """Note the values of a tensor that follow from those given for inputs."""
        self.budget.take(Resource.FOLDED_BYTES, value.nbytes)
        self.given.add(name)
        self._values[name] = value

    def _constant_of(self, name: str) -> str:
        """Return a constant with the values that follow from those given, for an operator that takes no others."""
        if name not in self._frozen:
            self._frozen[name] = self.fresh(f"{name}_value")
            self.add_value(self._frozen[name], self._values[name])  # type: ignore[arg-type]
        return self._frozen[name]

    def has_name(self, name: str) -> bool:
        """Return whether a name may be that of a tensor of the file: one that it holds, or one in a body of it."""
        return name in self._reserved or "/" in name

    def _add_empty(self, name: str, tensor: Tensor) -> None:
        """Add a tensor without elements, whose values are known whatever computes it."""
        try:
            self.add_value(name, np.empty(tensor.shape, tensor.dtype))
        except TypeError:  # of a type that numpy lacks
            self.add_static(name, tensor)

    def add_stored(self, name: str, tensor: Tensor) -> None:
        """Add a tensor that the file holds; its readers decide whether it is a weight or a constant."""
        self._define(name, tensor)
        self._static.add(name)
        self.stored.add(name)

    def add_value(self, name: str, value: Array) -> None:
        """Add a tensor whose values are known now."""
        self.budget.take(Resource.FOLDED_BYTES, value.nbytes)
        self._define(name, Tensor(tuple(value.shape), str(value.dtype)))
        self._static.add(name)
        self._values[name] = value

    def add_static(self, name: str, tensor: Tensor) -> None:
        """Add a tensor that does not depend on the inputs and whose values are not needed."""
        self._define(name, tensor)
        self._static.add(name)

    def constant(self, value: object, dtype: str) -> str:
        """Add a small tensor made up by the importer and return its name."""
        name = self.fresh("constant")
        self.add_value(name, np.asarray(value, dtype=dtype))
        return name

    def alias(self, name: str, target: str) -> None:
        """Make a name stand for another tensor."""
        if name in self.tensors or name in self._aliases:
            raise ModelError(f"tensor '{name}' is defined twice; every tensor must have one producer")
        self._aliases[name] = self.resolve(target)

    def fresh(self, stem: str) -> str:
        """Return a tensor name that is not taken yet."""
        while True:
            count = self._counts.get(stem, 0)
            self._counts[stem] = count + 1
            name = f"{stem}_{count}"
            if name not in self.tensors and name not in self._aliases and name not in self._reserved:
                return name

    def node_name(self, wanted: str, op_type: str) -> str:
        """Return a unique name for a node: the wanted one where it is given and free."""
        name = wanted
        while not name or name in self._node_names:
            stem = wanted or op_type.lower()
            count = self._counts.get(f"{stem} node", 0)
            self._counts[f"{stem} node"] = count + 1
            name = f"{stem}_{count}"
        self._node_names.add(name)
        return name

    # Nodes

    def op(
        self,
        op_type: str,
        inputs: Sequence[str],
        attributes: dict[str, AttributeValue] | None = None,
        *,
        name: str,
        output: str | None = None,
    ) -> str:
        """Add an operator with one output, named after the node of the file that it is a part of."""
        output = self.fresh(f"{name}_{op_type.lower()}") if output is None else output
        self.add(Node(op_type, name, tuple(inputs), (output,), attributes or {}))
        return output

    def add(self, node: Node) -> None:
        """Add an operator, or only its result where that is a constant or an alias.

        Raises:
            ModelError: Its inputs are missing or do not fit, or the shape of its outputs is unknown.
            UnknownOperatorError: It is not in the table, in strict mode.
        """
        self.budget.take(Resource.NODES)
        row, inputs = lookup(node.op_type), tuple([self._aliases.get(name, name) for name in node.inputs])
        for name in inputs:
            if name and name not in self.tensors:
                raise ModelError(f"node '{node.name}' ({node.op_type}) reads '{name}', which no node, input or weight provides")
        if row is not None and row.passes and not any(node.outputs[1:]):
            self.alias(node.outputs[0], inputs[0])
            return
        is_static = bool(inputs) and all(name in self._static or not name for name in inputs)
        if self.given and row is not None:
            inputs = tuple(
                [
                    self._constant_of(name) if at in row.constants and name in self.given else name
                    for at, name in enumerate(inputs)
                ]
            )
        if node.op_type == "Concat" and not node.domain and any(not self.tensors[name].elements for name in inputs if name):
            # Whatever is empty adds nothing, and a concatenation of one part is that part.
            inputs = tuple(name for name in inputs if self.tensors[name].elements) or inputs[:1]
            if len(inputs) == 1:
                self.alias(node.outputs[0], inputs[0])
                return
        node = Node(node.op_type, node.name, inputs, node.outputs, node.attributes, node.domain)
        view = OperatorView(node, tuple([self.tensors.get(name) if name else None for name in inputs]), _LazyValues(self, inputs))
        is_folded = is_static and node.op_type not in _KEPT_WITHOUT_ACTIVATIONS
        if is_static and row is not None and (row.kind in _NORMALISING or not self._normalised.isdisjoint(inputs)):
            self._normalised.update(node.outputs)
        if is_folded and (values := evaluate(view)) is not None:
            for output, value in zip(node.outputs, values, strict=False):
                if output:
                    self.add_value(output, value)
            return
        known = self._values_from_given(view) if self.given and not is_static else None
        # Another domain's operator must not be taken for the one of the same name.
        is_foreign = row is not None and node.domain not in ("", row.domain)
        if known is not None:
            tensors = [Tensor(tuple(value.shape), str(value.dtype)) for value in known][: len(node.outputs)]
        else:
            tensors = self._infer_outside_table(node, view) if row is None or is_foreign else self._infer(row, view)
        if is_folded and row is not None and not is_foreign:
            for output, tensor in zip(node.outputs, tensors, strict=True):
                if output:
                    self.add_static(output, tensor)
            return
        self._define_outputs(node, tensors)
        for output, value in zip(node.outputs, known or (), strict=False):
            if output:
                self._give(output, value)
        if any(not tensor.elements for tensor in tensors):
            parts = {output: tensor for output, tensor in zip(node.outputs, tensors, strict=True) if output and tensor.elements}
            if not parts:
                return
            node = self._without_empty(node, parts)
        op_type = f"{node.domain}.{node.op_type}" if is_foreign else node.op_type
        self.nodes.append(replace(node, op_type=op_type, name=self.node_name(node.name, node.op_type)))

    def _define_outputs(self, node: Node, tensors: Sequence[Tensor]) -> None:
        """Add what an operator computes as the network runs; one without elements is known, one with a value given, too."""
        for output, tensor in zip(node.outputs, tensors, strict=True):
            if not output:
                continue
            if min(tensor.shape, default=1) > 0:
                self._define(output, tensor)
                if output in self._to_give:
                    from latcast.graph.input_values import fitted

                    self._computed.append(output)
                    self._give(output, fitted(output, self._to_give.pop(output), tensor.shape, tensor.dtype))
            elif min(tensor.shape) < 0:
                raise ModelError(
                    f"node '{node.name}' ({node.op_type}) has an output of shape {list(tensor.shape)}; "
                    "do the sizes of the inputs fit the network?"
                )
            else:
                self._add_empty(output, tensor)

    def _without_empty(self, node: Node, parts: Mapping[str, Tensor]) -> Node:
        """Return an operator without those of its outputs that hold no elements; what is left of them is given."""
        if node.op_type != "Split":
            return replace(node, outputs=tuple(name if name in parts else "" for name in node.outputs))
        axis = node.integer("axis")
        sizes = self.constant([tensor.shape[axis] for tensor in parts.values()], "int64")
        attributes = {name: value for name, value in node.attributes.items() if name == "axis"}
        return replace(node, inputs=(node.inputs[0], sizes), outputs=tuple(parts), attributes=attributes)

    def _values_from_given(self, view: OperatorView) -> list[Array] | None:
        """Return the outputs of an operator whose inputs all follow from given values, or None."""
        if not all(not name or name in self._static or name in self.given for name in view.node.inputs):
            return None
        found = evaluate(view)
        return found if found is not None and all(value.size for value in found) else None

    def _infer(self, entry: Operator, view: OperatorView) -> list[Tensor]:
        node = view.node
        try:
            tensors = entry.infer(view)
        except ModelError:
            deciding = [name for at, name in enumerate(node.inputs) if name and at in entry.constants]
            recorded = None if entry.at_most is never and all(map(self.is_static, deciding)) else self._recorded(node)
            if recorded is None:
                from latcast.graph.importers.value_advice import explain_missing_value

                explain_missing_value(self, entry, node)
                raise
            return recorded
        except MALFORMED as error:
            raise view.fail(f"the operator is malformed ({error})") from error
        if len(tensors) < len(node.outputs):
            raise view.fail(f"it has {len(node.outputs)} outputs, {len(tensors)} were expected")
        return tensors[: len(node.outputs)]

    def _infer_outside_table(self, node: Node, view: OperatorView) -> list[Tensor]:
        title = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        if self.strict:
            raise UnknownOperatorError(
                f"node '{node.name}' is a '{title}', which the operator table does not have; "
                "without strictness it is kept and its latency estimated"
            )
        tensors = self._infer_unknown(node, view.inputs)
        if tensors is None:
            raise ModelError(
                f"node '{node.name}' is a '{title}', which the operator table does not have, and the file does not "
                f"say what shape its output '{next(filter(None, node.outputs), '')}' has"
            )
        return tensors

    # The graph

    def finish(self, outputs: Iterable[str], *, precision: str = "fp32") -> Graph:
        """Return the graph of the operators that the outputs depend on; none where they are constants, inputs or empty.

        Raises:
            ModelError: An output that nothing makes, or numbers that no network has.
        """
        wanted = [*outputs, *self._computed]
        if self._to_give:
            raise ModelError(
                f"a value is given for '{next(iter(self._to_give))}', which is no input and nothing that the network computes; "
                f"the inputs are: {', '.join(self.inputs)}"
            )
        for name in wanted:
            if self.resolve(name) not in self.tensors:
                raise ModelError(f"output '{name}' is made by no node; the file is incomplete")
        self.has_empty_outputs = any(not self.tensor(name).elements for name in wanted)
        wanted = [name for name in wanted if not self.is_static(name)]
        nodes = live_nodes(self.nodes, map(self.resolve, wanted))
        final = self._output_names(wanted, {name for node in nodes for name in node.outputs})
        if final:
            nodes = [node.renamed(final) for node in nodes]
        constants, weights = self._classify(nodes)
        used = {name for node in nodes for name in (*node.inputs, *node.outputs) if name}
        used.update(self.inputs)
        original = {new: old for old, new in final.items()}
        resolved = [self.resolve(name) for name in wanted]
        graph = Graph(
            name=self.name,
            nodes=tuple(nodes),
            inputs=tuple(self.inputs),
            outputs=tuple(dict.fromkeys(final.get(name, name) for name in resolved)),
            tensors={name: self.tensors[original.get(name, name)] for name in used},
            weights=frozenset(weights),
            standardised=frozenset(name for name in weights & self._normalised if len(self.tensors[name].shape) > 1),
            constants=constants,
            precision=precision,
            run_time_sizes=tuple(dict.fromkeys(self.run_time_sizes)),
            notes=tuple(dict.fromkeys(self.notes)),
        )
        return check_graph(graph)

    def _output_names(self, outputs: list[str], produced: set[str]) -> dict[str, str]:
        """Return the tensors that take the name of the graph output that stood behind an identity."""
        final: dict[str, str] = {}
        for name in outputs:
            target = self.resolve(name)
            if target != name and target in produced and target not in outputs and target not in final:
                final[target] = name
        return final

    def _classify(self, nodes: Iterable[Node]) -> tuple[dict[str, Array], set[str]]:
        """Split what the nodes read from the file into constants (values kept) and weights."""
        constants: dict[str, Array] = {}
        weights: set[str] = set()
        for node in nodes:
            row = lookup(node.op_type)
            semantic, learned = (row.constants, row.learned) if row is not None else (frozenset(), frozenset())
            for position, name in enumerate(node.inputs):
                if name not in self._static or name in constants:
                    continue
                if position in semantic or (position not in learned and self._is_literal(name)):
                    value = self.value(name)
                    if value is not None:
                        constants[name] = value
                        continue
                weights.add(name)
        return constants, weights - constants.keys()

    def _is_literal(self, name: str) -> bool:
        """Return whether a value was not learned: scalars and integers; vectors of reals are learned."""
        tensor = self.tensors[name]
        return tensor.elements == 1 or "float" not in tensor.dtype
