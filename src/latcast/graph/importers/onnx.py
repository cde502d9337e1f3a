"""Reading ONNX models: files of both PyTorch exporters, of tf2onnx, of optimisers and quantisers; all opsets.

Built on protobuf and not on onnx-ir, which reads every weight, wraps every tensor and node, and keeps metadata that a latency
does not depend on; :mod:`latcast.graph.importers.onnx_file` reads a file without its weights. ``onnx.shape_inference`` would have
to serialise the model twice and knows no values; shapes come from the operator table instead, node by node, interleaved with the
folding of constants.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import onnx

from latcast.errors import ModelError
from latcast.graph.importers import ModelOptions
from latcast.graph.importers.assembly import Array, Assembly, errors_of
from latcast.graph.importers.input_sizes import ANY_RANK, ModelInput, read_sized
from latcast.graph.importers.onnx_control_flow import CONTROL_FLOW
from latcast.graph.importers.onnx_file import (
    bodies_of,
    captured_names,
    check_texts,
    node_of,
    read_recorded_shapes,
    read_without_weights,
    small_array,
    tensor_dtype,
    tensor_type,
)
from latcast.graph.importers.onnx_opset import NEWEST_OPSET, normalise_opset
from latcast.graph.ir import Graph, Node, Tensor, topological_order
from latcast.graph.limits import MAX_DEPTH, Budget, Resource
from latcast.graph.operators import lookup
from latcast.graph.operators.elementwise import CAST_TYPES
from latcast.graph.passes import simplify
from latcast.graph.passes.folding import fold_padding, with_precision

_CODES = {dtype: code for code, dtype in CAST_TYPES.items()}


class OnnxImporter:
    """Imports ``.onnx`` files and ``onnx.ModelProto`` objects."""

    suffixes = (".onnx",)

    def accepts(self, source: object) -> bool:
        if isinstance(source, Path):
            return source.suffix.lower() in self.suffixes
        return isinstance(source, onnx.ModelProto)

    def load(self, source: Any, options: ModelOptions) -> Graph:
        """Return the graph of a file or of a model in memory; see :func:`latcast.graph.importers.load_graph`."""
        if isinstance(source, Path):
            model, path = read_without_weights(source), source
            name = source.stem
        else:
            model, path = source, None
            check_texts(source.graph.name)
            name = source.graph.name or "model"
        with errors_of(path or name):
            model = _inlined(model)
            inputs = _inputs_of(model.graph, options)
            graph = read_sized(inputs, options, lambda given: Reading(model, name, path, given))
            return with_precision(simplify(fold_padding(graph)))


class Reading:
    """State of the import of a model; handlers of control flow use it too."""

    def __init__(self, model: onnx.ModelProto, name: str, path: Path | None, options: ModelOptions) -> None:
        budget = Budget()
        budget.check(Resource.NODES, len(model.graph.node))
        self.graph_proto = model.graph
        self.path = path
        self.shapes = options.shapes or {}
        self.opsets = {entry.domain: entry.version for entry in model.opset_import}
        self.opset = self.opsets.get("", self.opsets.get("ai.onnx", 1))
        self.stored: dict[str, onnx.TensorProto] = {}
        made = {name for node in model.graph.node for name in node.output}
        self.assembly = Assembly(
            name, load=self._load, infer_unknown=self._infer_unknown, recorded=self._all_recorded, strict=options.strict,
            reserved=made, budget=budget, values=options.values,
        )  # fmt: skip
        self.sequences: dict[str, list[str]] = {}
        self.absent: set[str] = set()

    # Tensors

    def _load(self, name: str) -> Array | None:
        return small_array(self.stored[name], self.path)

    def add_stored(self, name: str, proto: onnx.TensorProto) -> None:
        """Add a tensor of the file: an initializer, or the value of a Constant node."""
        self.stored[name] = proto
        self.assembly.add_stored(name, Tensor(tuple(proto.dims), tensor_dtype(proto.data_type, name)))

    def alias(self, name: str, target: str) -> None:
        """Make a name stand for the result of a body: a tensor or a sequence."""
        if target in self.sequences:
            self.sequences[name] = self.sequences[target]
        else:
            self.assembly.alias(name, target)

    @cached_property
    def _recorded(self) -> dict[str, onnx.ValueInfoProto]:
        source = self.graph_proto if self.path is None else read_recorded_shapes(self.path)
        return {value.name: value for value in (*self.graph_proto.output, *source.value_info)}

    @cached_property
    def _given_sizes(self) -> list[tuple[Any, int]]:
        """The dimensions of inputs, as the file states them, with the sizes given for them."""
        given = [(value, self.shapes[value.name]) for value in self.graph_proto.input if value.name in self.shapes]
        return [pair for value, shape in given for pair in zip(value.type.tensor_type.shape.dim, shape, strict=False)]

    @property
    def _resized(self) -> bool:
        """Return whether an input has another size than the file says."""
        return any(size.HasField("dim_value") and size.dim_value not in (0, number) for size, number in self._given_sizes)

    def _recorded_tensors(self, node: Node) -> list[Tensor | None]:
        """Return the outputs as the exporter recorded them, which belongs to the input shapes of the file, not to others."""
        if self._resized:
            return [None for _ in node.outputs]
        symbols = {size.dim_param: int(number) for size, number in self._given_sizes if size.dim_param}
        return [tensor_type(self._recorded.get(name), symbols) if name else Tensor(()) for name in node.outputs]

    def _all_recorded(self, node: Node) -> list[Tensor] | None:
        found = [tensor for tensor in self._recorded_tensors(node) if tensor is not None]
        return found if len(found) == len(node.outputs) else None

    def _infer_unknown(self, node: Node, inputs: Sequence[Tensor | None]) -> list[Tensor] | None:
        """Return the shapes of an operator outside the table: from ONNX's own inference, else as the exporter recorded them."""
        inferred = _infer_by_schema(self._proto, node, inputs, self.opsets, self.assembly)
        if inferred is not None:
            return inferred
        recorded = self._recorded_tensors(node)
        missing = next((name for name, tensor in zip(node.outputs, recorded, strict=True) if tensor is None), None)
        if missing is not None:
            title = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            why = (
                "what the file says of its results holds for the sizes of the file, not for those of --shape; leave --shape out"
                if self._resized
                else f"the file does not say what shape its output '{missing}' has; say it in the file: model.graph.value_info"
                f".append(onnx.helper.make_tensor_value_info('{missing}', 1, [1, 64])), with its own sizes"
            )
            raise ModelError(f"node '{node.name}' is a '{title}', which the operator table does not have; {why}")
        return [tensor for tensor in recorded if tensor is not None]

    # Nodes

    def graph(self) -> Graph:
        graph = self.graph_proto
        if not graph.node:
            raise ModelError("the graph holds no operators; is the file complete?")
        for value in _input_values(self.graph_proto, self.shapes):
            stored = _stored_tensor(value)
            shape = self.shapes.get(value.name) or [size.dim_value for size in stored.shape.dim]
            tensor = Tensor(tuple(shape), tensor_dtype(stored.elem_type, value.name))
            self.assembly.add_input(value.name, tensor)
        for proto in graph.initializer:
            if proto.name not in self.shapes:
                self.add_stored(proto.name, proto)
        for sparse in graph.sparse_initializer:
            self.assembly.add_static(
                sparse.values.name, Tensor(tuple(sparse.dims), tensor_dtype(sparse.values.data_type, sparse.values.name))
            )
        outputs = [value.name for value in graph.output]
        for node, proto in self._ordered(outputs):
            self.visit(node, proto)
        return self.assembly.finish([item for name in outputs for item in self.sequences.get(name, [name])])

    def _ordered(self, outputs: Sequence[str]) -> Iterator[tuple[Node, onnx.NodeProto]]:
        """Return the nodes that the outputs depend on, in an order in which they can run."""
        nodes = [_Read(node_of(proto), proto, captured_names(proto)) for proto in self.graph_proto.node]
        producers = {name: read for read in nodes for name in read.node.outputs if name}
        needed = set(outputs)
        waiting = list(needed)
        while waiting:
            read = producers.get(waiting.pop())
            if read is not None:
                new = {*read.node.inputs, *read.captured} - needed
                needed |= new
                waiting += new
        nodes = [read for read in nodes if not needed.isdisjoint(read.node.outputs)]
        # What the bodies of a node read counts as its inputs.
        numbered = [
            replace(node, name=str(index), inputs=(*node.inputs, *sorted(captured)))
            for index, (node, _, captured) in enumerate(nodes)
        ]
        try:
            order = topological_order(numbered, self.assembly.tensors)
        except ModelError:
            # The same failure once more, in the names of the file.
            topological_order([read.node for read in nodes], self.assembly.tensors)
            raise
        for read in [nodes[int(node.name)] for node in order]:
            yield _without_unused_outputs(read.node, needed), read.proto

    def visit(self, node: Node, proto: onnx.NodeProto, scope: Mapping[str, str] = MappingProxyType({})) -> None:
        """Add one node of the file.

        Args:
            node: The node, its inputs and outputs named as in the graph.
            proto: What it was read from.
            scope: For a node in a body: names there to names in the graph.
        """
        special = CONTROL_FLOW.get(node.op_type) if not node.domain else None
        if special is not None:
            self.assembly.budget.take(Resource.NODES)
            special(self, node, proto, scope)
            return
        if node.domain:
            from latcast.graph.importers.foreign_files import refuse_compiled

            refuse_compiled(node.op_type)
        self._proto = proto
        if not all(not name or self.assembly.exists(name) for name in node.inputs):
            self.assembly.add(node)  # which says what is missing
            return
        self._add(node, self.opset)

    def _add(self, node: Node, opset: int) -> None:
        """Add a node in the form of an opset, or the operators that it stands for, which are in the form of the newest."""
        if node.domain or node.op_type == "Attention" or lookup(node.op_type) is None:
            from latcast.graph.importers.onnx_contrib import expand

            if expand(node, self.assembly, lambda part: self._add(part, NEWEST_OPSET)):
                return
        if not node.domain:
            try:
                node = normalise_opset(node, self.assembly, opset)
            except (ArithmeticError, IndexError, TypeError, ValueError) as error:
                raise ModelError(f"node '{node.name}' ({node.op_type}) is malformed: {error}") from error
        self.assembly.add(node)


class _Read(NamedTuple):
    """A node as read, what it was read from, and what its bodies read of the graph around them."""

    node: Node
    proto: onnx.NodeProto
    captured: frozenset[str]


def _input_values(graph: onnx.GraphProto, given: Collection[str]) -> list[onnx.ValueInfoProto]:
    """Return the inputs; one with a default is a constant, unless a shape or value is given for it."""
    initialized = {proto.name for proto in graph.initializer} | {proto.values.name for proto in graph.sparse_initializer}
    return [value for value in graph.input if value.name not in initialized or value.name in given]


def _stored_tensor(value: onnx.ValueInfoProto) -> Any:
    """Return the type of an input that is a tensor, or an optional one.

    Raises:
        ModelError: It is a sequence or a map.
    """
    given_type = value.type
    while given_type.HasField("optional_type"):
        given_type = given_type.optional_type.elem_type
    if not given_type.HasField("tensor_type"):
        kind = (given_type.WhichOneof("value") or "type").removesuffix("_type")
        raise ModelError(
            f"input '{value.name}' is a {kind}, whose length a file does not say; expected tensors: export the model with "
            "a tensor for each part"
        )
    return given_type.tensor_type


def _inputs_of(graph: onnx.GraphProto, options: ModelOptions) -> list[ModelInput]:
    """Return the inputs as the file states them.

    Raises:
        ModelError: One is no tensor of numbers.
    """
    found = []
    for value in _input_values(graph, {*(options.shapes or ()), *(options.values or ())}):
        check_texts(value.name)
        stored = _stored_tensor(value)
        sizes = tuple(size.dim_value if size.HasField("dim_value") else size.dim_param for size in stored.shape.dim)
        dtype = tensor_dtype(stored.elem_type, value.name)
        found.append(ModelInput(value.name, (sizes,) if stored.HasField("shape") else ANY_RANK, dtype))
    return found


def _without_unused_outputs(node: Node, needed: set[str]) -> Node:
    """Leave out outputs behind the first that are not read (statistics of normalisations, indices of pools)."""
    if len(node.outputs) == 1 or node.op_type in ("Split", "SplitToSequence", "Unique"):
        return node
    outputs = (node.outputs[0], *(name if name in needed else "" for name in node.outputs[1:]))
    count = len(outputs)
    while count > 1 and not outputs[count - 1]:
        count -= 1
    return replace(node, outputs=outputs[:count])


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with the calls of its own functions replaced by their bodies."""
    if not model.functions:
        return model
    from onnx.inliner import inline_local_functions

    budget = Budget()
    budget.check(Resource.NODES, len(model.graph.node))
    nodes, size_bytes = _inlined_size(model)
    budget.check(Resource.NODES, nodes)
    budget.check(Resource.FOLDED_BYTES, size_bytes)
    try:
        return inline_local_functions(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise ModelError(f"its functions cannot be inlined: {reason}") from error


_Called = tuple[str, str, str]
"""Domain, name and overload of a function."""


def _inlined_size(model: onnx.ModelProto) -> tuple[int, int]:
    """Return the nodes and bytes of the model once its functions are inlined, which may double with every line of a file.

    Raises:
        ModelError: A function calls itself, or calls lie deeper in each other than any exporter writes.
    """
    functions = {(each.domain, each.name, each.overload): each for each in model.functions}
    sizes: dict[_Called, tuple[int, int]] = {}
    open_: list[_Called] = []

    def size_of(nodes: Iterable[onnx.NodeProto]) -> tuple[int, int]:
        count, size_bytes = 0, 0
        for node in _with_bodies(nodes):
            called = (node.domain, node.op_type, node.overload)
            more = size_of_function(called) if called in functions else (0, 0)
            count, size_bytes = count + 1 + more[0], size_bytes + node.ByteSize() + more[1]
        return count, size_bytes

    def size_of_function(called: _Called) -> tuple[int, int]:
        if called not in sizes:
            if called in open_:
                raise ModelError(f"function '{called[1]}' calls itself; a network must be acyclic")
            open_.append(called)
            if len(open_) > MAX_DEPTH:
                raise ModelError(f"functions lie more than {MAX_DEPTH} deep in each other; export the model without them")
            sizes[called] = size_of(functions[called].node)
            open_.pop()
        return sizes[called]

    return size_of(model.graph.node)


def _with_bodies(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Return the nodes and those of their branches and loops, at any depth."""
    waiting = [iter(nodes)]
    while waiting:
        for node in waiting.pop():
            yield node
            waiting += [iter(body.node) for body in bodies_of(node)]


def _infer_by_schema(
    proto: onnx.NodeProto, node: Node, inputs: Sequence[Tensor | None], opsets: Mapping[str, int], assembly: Assembly
) -> list[Tensor] | None:
    """Return the output tensors by the inference of ONNX's own schema of the operator, or None where that does not know."""
    from onnx import defs, helper, numpy_helper, shape_inference

    version = opsets.get(node.domain, opsets.get("ai.onnx" if not node.domain else node.domain, 0))
    try:
        schema = defs.get_schema(node.op_type, version, node.domain)
    except defs.SchemaError:
        return None
    call = onnx.NodeProto()
    call.CopyFrom(proto)
    del call.input[:], call.output[:]
    call.input.extend(node.inputs)
    call.output.extend(node.outputs)
    types = {}
    data = {}
    for name, tensor in zip(node.inputs, inputs, strict=True):
        if name and tensor is not None:
            types[name] = helper.make_tensor_type_proto(_CODES[tensor.dtype], tensor.shape)
            value = assembly.value(name)
            if value is not None:
                data[name] = numpy_helper.from_array(value, name)
    try:
        found = shape_inference.infer_node_outputs(schema, call, types, data)
    except (RuntimeError, TypeError, ValueError, onnx.shape_inference.InferenceError, onnx.checker.ValidationError):
        return None
    tensors: list[Tensor] = []
    for name in node.outputs:
        value_type = found.get(name)
        value = onnx.ValueInfoProto(name=name, type=value_type) if value_type is not None else None
        tensor = tensor_type(value) if name else Tensor(())
        if tensor is None:
            return None
        tensors.append(tensor)
    return tensors
