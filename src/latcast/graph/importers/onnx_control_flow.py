"""ONNX operators that are evaluated while a file is read: constants, shapes, branches, loops and sequences.

A branch whose condition is known is inlined, a loop whose number of rounds is known is unrolled. Where a condition depends
on an input there is no single latency to predict, unless the value of that input is given; the error says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import numpy_helper

from latcast.errors import ModelError
from latcast.graph.importers.onnx_file import attribute_of, node_of, tensor_dtype
from latcast.graph.ir import Node, Tensor
from latcast.graph.limits import Resource
from latcast.graph.operators.evaluation import MAX_ELEMENTS

if TYPE_CHECKING:
    from latcast.graph.importers.onnx import Reading

BATCHLESS_SCAN = 9
"""Opset from which Scan has no batch and no input of lengths."""

Scope = Mapping[str, str]
"""Names inside a body to names in the graph."""

_CONSTANT_KINDS: Mapping[str, tuple[str, str]] = {
    "value_float": ("f", "float32"),
    "value_floats": ("floats", "float32"),
    "value_int": ("i", "int64"),
    "value_ints": ("ints", "int64"),
}


def _constant(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    name = node.outputs[0]
    for attribute in proto.attribute:
        if attribute.name == "value":
            reading.add_stored(name, attribute.t)
            return
        if attribute.name in _CONSTANT_KINDS:
            field, dtype = _CONSTANT_KINDS[attribute.name]
            value = getattr(attribute, field)
            reading.assembly.add_value(name, np.asarray(value if field in "fi" else list(value), dtype=dtype))
            return
        if attribute.name == "sparse_value":
            values = attribute.sparse_tensor
            dtype = tensor_dtype(values.values.data_type, name)
            reading.assembly.add_static(name, Tensor(tuple(values.dims), dtype))
            return
    for attribute in proto.attribute:
        if attribute.name in ("value_string", "value_strings"):
            shape = (len(attribute.strings),) if attribute.name == "value_strings" else ()
            reading.assembly.add_static(name, Tensor(shape, "string"))
            return
    raise ModelError(f"node '{node.name}' (Constant) holds no value; is the file complete?")


def _constant_of_shape(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    """Add a constant, or where an input decides its shape one number that is expanded as the network runs."""
    attribute = attribute_of(proto, "value")
    fill = np.zeros(1, np.float32) if attribute is None else numpy_helper.to_array(attribute.t).reshape(-1)[:1]
    wanted, name, assembly = node.inputs[0], node.outputs[0], reading.assembly
    target = assembly.value(wanted) if assembly.is_static(wanted) else None
    if target is None:
        number = assembly.fresh(f"{name}_number")
        assembly.add_value(number, fill)
        assembly.add(Node("Expand", node.name, (number, wanted), node.outputs))
        return
    shape = tuple(int(size) for size in target.reshape(-1))
    if prod(shape) <= MAX_ELEMENTS:
        assembly.add_value(name, np.full(shape, fill[0], dtype=fill.dtype))
    else:
        assembly.add_static(name, Tensor(shape, str(fill.dtype)))


def _shape(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    shape = reading.assembly.tensor(node.inputs[0]).shape
    start, end = node.attributes.get("start", 0), node.attributes.get("end")
    part = shape[start if isinstance(start, int) else 0 : end if isinstance(end, int) else None]
    reading.assembly.add_value(node.outputs[0], np.asarray(part, dtype=np.int64))


def _size(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    elements = reading.assembly.tensor(node.inputs[0]).elements
    reading.assembly.add_value(node.outputs[0], np.asarray(elements, dtype=np.int64))


# Branches and loops


def _body(proto: onnx.NodeProto, name: str) -> onnx.GraphProto:
    attribute = attribute_of(proto, name)
    if attribute is None:
        raise ModelError(f"node '{proto.name}' ({proto.op_type}) lacks its body '{name}'")
    return attribute.g


def _inline(reading: Reading, body: onnx.GraphProto, bindings: Mapping[str, str], scope: Scope, prefix: str) -> list[str]:
    """Add the nodes of a body under new names.

    Args:
        reading: Where they go.
        body: The nodes.
        bindings: Inputs of the body to tensors of the graph.
        scope: Names that the body sees of what encloses it.
        prefix: Of the new names.

    Returns:
        The tensors that the body gives.
    """
    names = {**scope, **bindings}
    budget = reading.assembly.budget
    budget.enter()
    budget.take(Resource.NAME_CHARACTERS, len(prefix) * len(body.initializer))
    for tensor in body.initializer:
        names[tensor.name] = f"{prefix}{tensor.name}"
        reading.add_stored(names[tensor.name], tensor)
    for proto in body.node:
        node = node_of(proto)
        budget.take(Resource.NAME_CHARACTERS, len(prefix) * (1 + len(node.outputs)))
        inputs = tuple(names.get(name, name) for name in node.inputs)
        names.update({name: f"{prefix}{name}" for name in node.outputs if name})
        outputs = tuple(names[name] if name else "" for name in node.outputs)
        reading.visit(replace(node, name=f"{prefix}{node.name}", inputs=inputs, outputs=outputs), proto, names)
    budget.leave()
    return [names.get(value.name, value.name) for value in body.output]


def _known_flag(reading: Reading, name: str) -> bool | None:
    value = reading.assembly.value(name) if reading.assembly.resolve(name) in reading.assembly.tensors else None
    return None if value is None else bool(value.reshape(-1)[0])


def _title(node: Node) -> str:
    return f"node '{node.name or node.outputs[0]}' ({node.op_type})"


_FIXED_ROUNDS = "export the model with a fixed number of rounds"


def _undecided(reading: Reading, node: Node, what: str, name: str, otherwise: str, *, every_round: bool = False) -> ModelError:
    """Return the error of a branch or a loop that a tensor decides whose value is not known."""
    from latcast.graph.importers.value_advice import no_single_latency

    return no_single_latency(reading.assembly, f"{_title(node)} {what}", name, otherwise, every_round=every_round)


def _if(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    condition = _known_flag(reading, node.inputs[0])
    if condition is None:
        raise _undecided(
            reading, node, "chooses its branch at run time", node.inputs[0], "export the model with the branch fixed"
        )
    branch = "then_branch" if condition else "else_branch"
    results = _inline(reading, _body(proto, branch), {}, scope, f"{node.name or node.outputs[0]}/")
    for output, result in zip(node.outputs, results, strict=True):
        reading.alias(output, result)


def _loop(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    body = _body(proto, "body")
    rounds_name, condition_name, *carried = (*node.inputs, "", "")[: max(2, len(node.inputs))]
    rounds = reading.assembly.value(rounds_name) if rounds_name else None
    if rounds is None and rounds_name:
        raise _undecided(reading, node, "decides at run time how often it runs", rounds_name, _FIXED_ROUNDS)
    budget = reading.assembly.budget
    most = None if rounds is None else int(rounds.reshape(-1)[0])
    scanned: list[list[str]] = [[] for _ in body.output[1 + len(carried) :]]
    for index in count() if most is None else range(most):
        going = _known_flag(reading, condition_name) if condition_name else True
        if going is None and most is not None and most <= Resource.ROUNDS.value.most:
            going = True
            note = f"{_title(node)} runs at most {most} rounds, all of which are predicted"
            reading.assembly.notes += [note] * (note not in reading.assembly.notes)
        if going is None:
            raise _undecided(reading, node, "ends at run time", condition_name, _FIXED_ROUNDS, every_round=True)
        if not going:
            break
        budget.take(Resource.ROUNDS)
        budget.take(Resource.PARTS, len(body.output))
        counter = reading.assembly.constant(index, "int64")
        flag = reading.assembly.constant(True, "bool")
        bindings = dict(zip((value.name for value in body.input), (counter, flag, *carried), strict=True))
        prefix = f"{node.name or node.outputs[0]}/{index}/"
        condition_name, *results = _inline(reading, body, bindings, scope, prefix)
        carried, extra = results[: len(carried)], results[len(carried) :]
        for collected, result in zip(scanned, extra, strict=True):
            collected.append(result)
    for output, result in zip(node.outputs, carried, strict=False):
        if output:
            reading.alias(output, result)
    for output, parts in zip(node.outputs[len(carried) :], scanned, strict=False):
        if output:
            _stack(reading, node, parts, output)


def _stack(reading: Reading, node: Node, parts: list[str], output: str = "", axis: int = 0) -> str:
    """Join the results of rounds along a new axis; return the name of the whole."""
    if not parts:
        raise ModelError(f"node '{node.name}' ({node.op_type}) runs no round, so its output '{output}' is empty")
    assembly = reading.assembly
    axes = assembly.constant([axis], "int64")
    rows = [assembly.op("Unsqueeze", [part, axes], name=node.name) for part in parts]
    rank = len(assembly.tensor(rows[0]).shape)
    return assembly.op("Concat", rows, {"axis": axis % rank}, name=node.name, output=output or None)


def _scan(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    """Unroll a Scan; before opset 9 every item of a batch is scanned by itself, after an input of the lengths."""
    body = _body(proto, "body")
    first = 1 if reading.opset < BATCHLESS_SCAN else 0
    if not 0 < node.integer("num_scan_inputs") <= len(node.inputs) - first:
        raise ModelError(f"node '{node.name}' (Scan) does not say how many of its inputs it scans; is the file damaged?")
    if reading.opset >= BATCHLESS_SCAN:
        results = _scanned(reading, node, body, scope, node.inputs, "")
    else:
        if node.inputs[0]:
            raise ModelError(f"node '{node.name}' (Scan) has sequences of different lengths; export the model for one length")
        batch = range(reading.assembly.tensor(node.inputs[1]).shape[0])
        apart = [
            _scanned(reading, node, body, scope, [_item(reading, node, name, item) for name in node.inputs[1:]], f"{item}/")
            for item in batch
        ]
        results = [_stack(reading, node, list(parts)) for parts in zip(*apart, strict=True)]
    for output, result in zip(node.outputs, results, strict=False):
        if output:
            reading.alias(output, result)


def _scanned(reading: Reading, node: Node, body: onnx.GraphProto, scope: Scope, inputs: Sequence[str], prefix: str) -> list[str]:
    """Unroll one scan; return the final states and the stacked results of the rounds."""
    assembly = reading.assembly
    scan_count = node.integer("num_scan_inputs")
    carried, scanned = list(inputs[: len(inputs) - scan_count]), inputs[len(inputs) - scan_count :]
    axes = _per_item(node, "scan_input_axes", scan_count)
    backwards = _per_item(node, "scan_input_directions" if reading.opset >= BATCHLESS_SCAN else "directions", scan_count)
    lengths = {assembly.tensor(name).shape[axis] for name, axis in zip(scanned, axes, strict=True)}
    if len(lengths) != 1:
        raise ModelError(f"node '{node.name}' (Scan) has inputs of the lengths {sorted(lengths)}; expected one length")
    (length,) = lengths
    collected: list[list[str]] = [[] for _ in body.output[len(carried) :]]
    for index in range(length):
        assembly.budget.take(Resource.ROUNDS)
        assembly.budget.take(Resource.PARTS, len(body.output) + scan_count)
        slices = [
            _item(reading, node, name, length - 1 - index if back else index, axis)
            for name, axis, back in zip(scanned, axes, backwards, strict=True)
        ]
        bindings = dict(zip((value.name for value in body.input), (*carried, *slices), strict=True))
        results = _inline(reading, body, bindings, scope, f"{node.name or node.outputs[0]}/{prefix}{index}/")
        carried = results[: len(carried)]
        for parts, result in zip(collected, results[len(carried) :], strict=True):
            parts.append(result)
    output_axes = _per_item(node, "scan_output_axes", len(collected))
    reverse = _per_item(node, "scan_output_directions", len(collected))
    return carried + [
        _stack(reading, node, parts[::-1] if back else parts, axis=axis)
        for parts, axis, back in zip(collected, output_axes, reverse, strict=True)
    ]


def _item(reading: Reading, node: Node, name: str, index: int, axis: int = 0) -> str:
    """Return a part of a tensor at one place of an axis, without that axis."""
    place = reading.assembly.constant(index, "int64")
    return reading.assembly.op("Gather", [name, place], {"axis": axis}, name=node.name)


def _per_item(node: Node, name: str, wanted: int) -> list[int]:
    """Return an attribute's number for each of some inputs or outputs: 0 where it is left out."""
    return [*node.integers(name)] or [0] * wanted


# Sequences: lists of tensors, followed by name


def _sequence(reading: Reading, node: Node) -> list[str]:
    try:
        return reading.sequences[node.inputs[0]]
    except KeyError:
        raise ModelError(f"node '{node.name}' ({node.op_type}) reads a sequence that is only known at run time") from None


def _sequence_construct(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    reading.assembly.budget.take(Resource.PARTS, len(node.inputs))
    reading.sequences[node.outputs[0]] = list(node.inputs)


def _sequence_insert(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    items = list(_sequence(reading, node))
    reading.assembly.budget.take(Resource.PARTS, 1 + len(items))
    place = len(items) if len(node.inputs) < 3 or not node.inputs[2] else _known_index(reading, node, node.inputs[2])
    items.insert(place, node.inputs[1])
    reading.sequences[node.outputs[0]] = items


def _known_index(reading: Reading, node: Node, name: str) -> int:
    value = reading.assembly.value(name)
    if value is None:
        raise ModelError(f"node '{node.name}' ({node.op_type}) chooses a place in a sequence at run time")
    return int(value.reshape(-1)[0])


def _sequence_at(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    items = _sequence(reading, node)
    index = _known_index(reading, node, node.inputs[1])
    if not -len(items) <= index < len(items):
        raise ModelError(f"node '{node.name}' (SequenceAt) asks for item {index} of {len(items)}")
    reading.assembly.alias(node.outputs[0], items[index])


def _sequence_length(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    reading.assembly.add_value(node.outputs[0], np.asarray(len(_sequence(reading, node)), dtype=np.int64))


def _split_to_sequence(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    assembly = reading.assembly
    shape = assembly.tensor(node.inputs[0]).shape
    axis = node.integer("axis") % len(shape)
    sizes = _split_sizes(reading, node, shape[axis])
    parts = tuple(assembly.fresh(f"{node.name or node.outputs[0]}_part") for _ in sizes)
    inputs = (node.inputs[0], assembly.constant(sizes, "int64"))
    assembly.add(Node("Split", node.name, inputs, parts, {"axis": axis}))
    if not node.attributes.get("keepdims", 1) and (len(node.inputs) < 2 or not node.inputs[1]):
        axes = assembly.constant([axis], "int64")
        reading.sequences[node.outputs[0]] = [assembly.op("Squeeze", [part, axes], name=node.name) for part in parts]
    else:
        reading.sequences[node.outputs[0]] = list(parts)


def _split_sizes(reading: Reading, node: Node, size: int) -> list[int]:
    if len(node.inputs) < 2 or not node.inputs[1]:
        reading.assembly.budget.take(Resource.PARTS, size)
        return [1] * size
    value = reading.assembly.value(node.inputs[1])
    if value is None:
        raise ModelError(f"node '{node.name}' (SplitToSequence) computes its sizes at run time")
    if value.ndim:
        reading.assembly.budget.take(Resource.PARTS, len(value))
        return [int(part) for part in value]
    step = int(value)
    if step < 1:
        raise ModelError(f"node '{node.name}' (SplitToSequence) splits into parts of {step}; expected 1 or more")
    reading.assembly.budget.take(Resource.PARTS, -(-size // step))
    return [min(step, size - start) for start in range(0, size, step)]


def _sequence_empty(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    reading.sequences[node.outputs[0]] = []


def _sequence_erase(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    items = list(_sequence(reading, node))
    place = -1 if len(node.inputs) < 2 or not node.inputs[1] else _known_index(reading, node, node.inputs[1])
    if not -len(items) <= place < len(items):
        raise ModelError(f"node '{node.name}' (SequenceErase) erases item {place} of {len(items)}")
    del items[place]
    reading.sequences[node.outputs[0]] = items


def _sequence_map(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    """Add the body once for every item; what is no sequence is the same for all."""
    body, items = _body(proto, "body"), _sequence(reading, node)
    reading.assembly.budget.take(Resource.PARTS, len(items) * len(node.outputs))
    results: list[list[str]] = [[] for _ in node.outputs]
    for index in range(len(items)):
        reading.assembly.budget.take(Resource.ROUNDS)
        given = (reading.sequences[name][index] if name in reading.sequences else name for name in node.inputs)
        bindings = dict(zip((value.name for value in body.input), given, strict=True))
        prefix = f"{node.name or node.outputs[0]}/{index}/"
        for collected, name in zip(results, _inline(reading, body, bindings, scope, prefix), strict=True):
            collected.append(name)
    reading.sequences.update(zip(node.outputs, results, strict=True))


def _optional(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    """Let an optional stand for what it holds, or for nothing."""
    if node.inputs and node.inputs[0]:
        reading.alias(node.outputs[0], node.inputs[0])
    else:
        reading.absent.add(node.outputs[0])


def _optional_get(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    if node.inputs[0] in reading.absent:
        raise ModelError(f"node '{node.name}' (OptionalGetElement) reads '{node.inputs[0]}', which holds nothing")
    reading.alias(node.outputs[0], node.inputs[0])


def _optional_has(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    held = bool(node.inputs) and node.inputs[0] not in ("", *reading.absent)
    reading.assembly.add_value(node.outputs[0], np.asarray(held))


def _identity(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    if node.inputs[0] in reading.sequences:
        reading.alias(node.outputs[0], node.inputs[0])
    else:
        reading.assembly.add(node)


def _concat_from_sequence(reading: Reading, node: Node, proto: onnx.NodeProto, scope: Scope) -> None:
    items = _sequence(reading, node)
    axis, assembly = node.integer("axis"), reading.assembly
    rank = len(assembly.tensor(items[0]).shape)
    if node.attributes.get("new_axis", 0):
        rank += 1
        axes = assembly.constant([axis % rank], "int64")
        items = [assembly.op("Unsqueeze", [item, axes], name=node.name) for item in items]
    assembly.op("Concat", items, {"axis": axis % rank}, name=node.name, output=node.outputs[0])


Handle = Callable[["Reading", Node, onnx.NodeProto, Scope], None]

CONTROL_FLOW: Mapping[str, Handle] = {
    "ConcatFromSequence": _concat_from_sequence,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Identity": _identity,
    "If": _if,
    "Loop": _loop,
    "Optional": _optional,
    "OptionalGetElement": _optional_get,
    "OptionalHasElement": _optional_has,
    "Scan": _scan,
    "SequenceAt": _sequence_at,
    "SequenceConstruct": _sequence_construct,
    "SequenceEmpty": _sequence_empty,
    "SequenceErase": _sequence_erase,
    "SequenceInsert": _sequence_insert,
    "SequenceLength": _sequence_length,
    "SequenceMap": _sequence_map,
    "Shape": _shape,
    "Size": _size,
    "SplitToSequence": _split_to_sequence,
}
