"""Normalising opsets: one form for every operator, whatever opset and exporter it comes from.

Newer opsets move attributes to inputs, exporters write defaults out or leave them out. Networks that are the same should
become the same graph, so operators take the form in which :class:`latcast.graph.builder.GraphBuilder` writes them: bounds,
targets and sizes as constant inputs, the axes of reductions as attributes, windows with explicit pads, defaults left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from latcast.graph.importers.assembly import Assembly
from latcast.graph.ir import AttributeValue, Node
from latcast.graph.operators import Kind, OperatorView, lookup, operators
from latcast.graph.operators.elementwise import CAST_TYPES
from latcast.graph.operators.linear import halved_pads, spatial_pads, transposed_surplus

Attributes = dict[str, AttributeValue]
Normaliser = Callable[[Node, Assembly, int], Node]

_BROADCASTING_OPSET = 7
"""The first opset with today's broadcasting; before, operators say from which axis on a smaller operand repeats."""


NEWEST_OPSET = 1 << 16
"""Stands for the newest form of every operator."""


def normalise_opset(node: Node, assembly: Assembly, opset: int) -> Node:
    """Return the node in the form that a graph has it in.

    Args:
        node: Of the standard domain, in the form of ``opset``.
        assembly: Where the inputs' shapes are, and where constants go that were attributes.
        opset: Version of the standard domain that the file was written for.
    """
    if opset < _BROADCASTING_OPSET:
        node = _modernised(node, assembly, opset)
    function = _NORMALISERS.get(node.op_type)
    return node if function is None else function(node, assembly, opset)


def _modernised(node: Node, assembly: Assembly, opset: int) -> Node:
    """Return a node of the opsets 1 to 6 as opset 7 has it, where names or the meaning of an axis changed."""
    attributes = {name: value for name, value in node.attributes.items() if name != "consumed_inputs"}
    node = replace(node, attributes=attributes)
    function = _OLD_FORMS.get(node.op_type)
    if function is not None:
        return function(node, assembly, opset)
    row = lookup(node.op_type)
    return _from_axis(node, assembly) if row is not None and row.kind is Kind.BINARY and len(node.inputs) == 2 else node


def _from_axis(node: Node, assembly: Assembly) -> Node:
    """Return an operator of two operands, the second with further axes of size 1 where it repeats from an axis on."""
    kept = {name: value for name, value in node.attributes.items() if name not in ("axis", "broadcast")}
    first, second = (assembly.tensor(name).shape for name in node.inputs)
    starts = "axis" in node.attributes or (node.op_type == "PRelu" and second != (1,))
    rest = len(first) - node.integer("axis", 1) % max(len(first), 1) - len(second) if starts and second else 0
    if rest < 1:
        return replace(node, attributes=kept)
    target = assembly.constant((*second, *(1,) * rest), "int64")
    aligned = assembly.op("Reshape", [node.inputs[1], target], name=f"{node.name}_axis")
    return replace(node, inputs=(node.inputs[0], aligned), attributes=kept)


def _old_cast(node: Node, assembly: Assembly, opset: int) -> Node:
    """Return a Cast to a type by its number; the first one names it."""
    to = node.attributes.get("to", 1)
    codes = {"float": 1, "double": 11, **{name: code for code, name in CAST_TYPES.items()}}
    return replace(node, attributes={"to": codes.get(to.lower(), 1) if isinstance(to, str) else to})


def _old_pad(node: Node, assembly: Assembly, opset: int) -> Node:
    pads = node.attributes.get("paddings")
    return node if pads is None else replace(node, attributes={**node.attributes, "pads": pads})


def _old_tile(node: Node, assembly: Assembly, opset: int) -> Node:
    """Return a Tile whose second input repeats every axis; the first one has a number of tiles and an axis."""
    if len(node.inputs) < 3:
        return node
    tiles, axis = (assembly.value(name) for name in node.inputs[1:3])
    if tiles is None or axis is None:
        return node
    repeats = [1] * _rank(node, assembly)
    repeats[int(axis.reshape(-1)[0])] = int(tiles.reshape(-1)[0])
    return replace(node, inputs=(node.inputs[0], assembly.constant(repeats, "int64")))


def _old_upsample(node: Node, assembly: Assembly, opset: int) -> Node:
    scales = tuple(node.real(f"{side}_scale", 1.0) for side in ("height", "width"))
    kept = {name: value for name, value in node.attributes.items() if not name.endswith("_scale")}
    return replace(node, attributes={"scales": (1.0, 1.0, *scales), **kept})


def _rank(node: Node, assembly: Assembly) -> int:
    return len(assembly.tensor(node.inputs[0]).shape)


def _explicit_pads(node: Node, assembly: Assembly, kernel: tuple[int, ...]) -> tuple[int, ...]:
    rank = len(kernel)
    if node.attributes.get("auto_pad", "NOTSET") in ("NOTSET", ""):
        return node.integers("pads", (0,) * (2 * rank))
    sizes = assembly.tensor(node.inputs[0]).shape[2:]
    strides, dilations = (node.integers(name, (1,) * rank) for name in ("strides", "dilations"))
    return spatial_pads(OperatorView(node, ()), sizes, kernel, strides, dilations)


def _conv(node: Node, assembly: Assembly, opset: int) -> Node:
    kernel = assembly.tensor(node.inputs[1]).shape[2:]
    rank = len(kernel)
    return replace(
        node,
        inputs=without_trailing_gaps(node.inputs),
        attributes={
            "kernel_shape": kernel,
            "strides": node.integers("strides", (1,) * rank),
            "pads": _explicit_pads(node, assembly, kernel),
            "dilations": node.integers("dilations", (1,) * rank),
            "group": node.integer("group", 1),
        },
    )


def _conv_transpose(node: Node, assembly: Assembly, opset: int) -> Node:
    kernel = assembly.tensor(node.inputs[1]).shape[2:]
    rank = len(kernel)
    attributes: Attributes = {"kernel_shape": kernel, "strides": node.integers("strides", (1,) * rank)}
    attributes |= _unless(node, "dilations", (1,) * rank) | _unless(node, "output_padding", (0,) * rank)
    attributes |= _unless(node, "group", 1)
    automatic = node.attributes.get("auto_pad", "NOTSET")
    if "output_shape" in node.attributes or automatic in ("SAME_UPPER", "SAME_LOWER"):
        pads = _transposed_pads(node, assembly, kernel)
    else:
        pads = (0,) * (2 * rank) if automatic == "VALID" else node.integers("pads", (0,) * (2 * rank))
    if any(pads):
        attributes["pads"] = pads
    return replace(node, inputs=without_trailing_gaps(node.inputs), attributes=attributes)


def _transposed_pads(node: Node, assembly: Assembly, kernel: tuple[int, ...]) -> tuple[int, ...]:
    """Return the pads that give a transposed convolution the output size that it states (ONNX, ConvTranspose)."""
    rank = len(kernel)
    sizes = assembly.tensor(node.inputs[0]).shape[2:]
    strides, dilations = (node.integers(name, (1,) * rank) for name in ("strides", "dilations"))
    extra = node.integers("output_padding", (0,) * rank)
    stated = node.integers("output_shape")[-rank:]
    wanted = stated or tuple(size * stride for size, stride in zip(sizes, strides, strict=True))
    surplus = transposed_surplus(sizes, kernel, strides, dilations, wanted)
    totals = [total + more if stated else max(total + more, 0) for total, more in zip(surplus, extra, strict=True)]
    return halved_pads(totals, upper=node.attributes.get("auto_pad") == "SAME_UPPER")


def _unless(node: Node, name: str, default: AttributeValue) -> Attributes:
    value = node.attributes.get(name, default)
    return {} if value == default else {name: value}


def _pool(node: Node, assembly: Assembly, opset: int) -> Node:
    kernel = node.integers("kernel_shape")
    rank = len(kernel)
    pads = _explicit_pads(node, assembly, kernel)
    attributes: Attributes = {"kernel_shape": kernel, "strides": node.integers("strides", (1,) * rank), "pads": pads}
    attributes |= _unless(node, "ceil_mode", 0) | _unless(node, "dilations", (1,) * rank) | _unless(node, "p", 2)
    if any(pads) or "ceil_mode" in attributes:
        attributes |= _unless(node, "count_include_pad", 0)
    return replace(node, attributes=attributes)


def _gemm(node: Node, assembly: Assembly, opset: int) -> Node:
    attributes = _unless(node, "transA", 0) | _unless(node, "transB", 0)
    attributes |= _unless(node, "alpha", 1.0) | _unless(node, "beta", 1.0)
    return replace(node, inputs=without_trailing_gaps(node.inputs), attributes=attributes)


def _layer_norm(node: Node, assembly: Assembly, opset: int) -> Node:
    axis = _from_end(node.integer("axis", -1), _rank(node, assembly))
    epsilon = node.attributes.get("epsilon", 1e-5)
    return replace(node, inputs=without_trailing_gaps(node.inputs), attributes={"axis": axis, "epsilon": epsilon})


def _from_end(axis: int, rank: int) -> int:
    """Return an axis counted from the end if it is the last one, else from the front."""
    axis = axis % max(rank, 1)
    return -1 if axis == rank - 1 else axis


def _softmax(node: Node, assembly: Assembly, opset: int) -> Node:
    axis = node.integer("axis", -1 if opset >= 13 else 1)
    return replace(node, attributes={"axis": _from_end(axis, _rank(node, assembly))})


def _with_axis(default: int) -> Normaliser:
    """Normalise operators with an ``axis``, which is written out and counted from the front."""

    def function(node: Node, assembly: Assembly, opset: int) -> Node:
        axis = node.integer("axis", default)
        return replace(node, attributes={**node.attributes, "axis": axis % max(_rank(node, assembly), 1)})

    return function


def _dft(node: Node, assembly: Assembly, opset: int) -> Node:
    """Make the axis an input, as since opset 20, which also changed the default."""
    if opset >= 20:
        return node
    inputs = (*node.inputs, *[""] * (2 - len(node.inputs)), assembly.constant(node.integer("axis", 1), "int64"))
    return replace(node, inputs=inputs, attributes={name: value for name, value in node.attributes.items() if name != "axis"})


def _grid_sample(node: Node, assembly: Assembly, opset: int) -> Node:
    """Rename the modes as since opset 20, for maps and for volumes."""
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(node.text("mode", "linear"))
    return node if mode is None else replace(node, attributes={**node.attributes, "mode": mode})


def _flatten(node: Node, assembly: Assembly, opset: int) -> Node:
    axis = node.integer("axis", 1)
    return replace(node, attributes={"axis": axis + _rank(node, assembly) if axis < 0 else axis})


def _clip(node: Node, assembly: Assembly, opset: int) -> Node:
    if opset >= 11:
        return replace(node, inputs=without_trailing_gaps(node.inputs), attributes={})
    dtype = assembly.tensor(node.inputs[0]).dtype
    bounds = [assembly.constant(node.attributes[name], dtype) if name in node.attributes else "" for name in ("min", "max")]
    return replace(node, inputs=without_trailing_gaps((node.inputs[0], *bounds)), attributes={})


def _to_input(attribute: str) -> Normaliser:
    """Normalise operators whose attribute of older opsets is the second input in newer ones."""

    def function(node: Node, assembly: Assembly, opset: int) -> Node:
        if attribute not in node.attributes:
            return replace(node, inputs=without_trailing_gaps(node.inputs))
        given = assembly.constant(node.integers(attribute), "int64")
        kept = {name: value for name, value in node.attributes.items() if name != attribute}
        return replace(node, inputs=(node.inputs[0], given, *node.inputs[2:]), attributes=kept)

    return function


_split_sizes_to_input = _to_input("split")


def _split(node: Node, assembly: Assembly, opset: int) -> Node:
    node = _split_sizes_to_input(node, assembly, opset)
    shape = assembly.tensor(node.inputs[0]).shape
    axis = node.integer("axis") % len(shape)
    inputs = node.inputs
    if len(inputs) < 2:
        step = -(-shape[axis] // len(node.outputs))
        sizes = [min(step, shape[axis] - step * part) for part in range(len(node.outputs))]
        inputs = (inputs[0], assembly.constant(sizes, "int64"))
    return replace(node, inputs=inputs, attributes={"axis": axis})


def _slice(node: Node, assembly: Assembly, opset: int) -> Node:
    if opset >= 10:
        return replace(node, inputs=without_trailing_gaps(node.inputs))
    starts = node.integers("starts")
    parts = (starts, node.integers("ends"), node.integers("axes", tuple(range(len(starts)))))
    inputs = (node.inputs[0], *(assembly.constant(part, "int64") for part in parts))
    return replace(node, inputs=inputs, attributes={})


def _pad(node: Node, assembly: Assembly, opset: int) -> Node:
    inputs = node.inputs
    if opset < 11:
        inputs = (inputs[0], assembly.constant(node.integers("pads"), "int64"))
        if node.attributes.get("value", 0.0) != 0.0:
            dtype = assembly.tensor(inputs[0]).dtype
            inputs = (*inputs, assembly.constant(node.attributes["value"], dtype))
    return replace(node, inputs=without_trailing_gaps(inputs), attributes=_unless(node, "mode", "constant"))


def _reduce(node: Node, assembly: Assembly, opset: int) -> Node:
    rank = _rank(node, assembly)
    axes: tuple[int, ...] | None = None
    if len(node.inputs) > 1 and node.inputs[1]:
        value = assembly.value(node.inputs[1])
        if value is None:
            return node
        axes = tuple(int(axis) for axis in value.reshape(-1))
    elif "axes" in node.attributes:
        axes = node.integers("axes")
    if not axes:
        if node.integer("noop_with_empty_axes"):
            return Node("Identity", node.name, node.inputs[:1], node.outputs)
        axes = tuple(range(rank))
    attributes: Attributes = {
        "axes": tuple(sorted(axis % max(rank, 1) for axis in axes)),
        "keepdims": node.integer("keepdims", 1),
    }
    return replace(node, inputs=node.inputs[:1], attributes=attributes)


def _reshape(node: Node, assembly: Assembly, opset: int) -> Node:
    """Return the target without placeholders: every size a number."""
    entry = lookup("Reshape")
    target = assembly.value(node.inputs[1])
    if target is None or entry is None or assembly.is_static(node.inputs[0]):
        return node
    view = OperatorView(node, (assembly.tensor(node.inputs[0]), None), (None, target))
    shape = entry.infer(view)[0].shape
    if not node.attributes and tuple(int(size) for size in target.reshape(-1)) == shape:
        return node
    return replace(node, inputs=(node.inputs[0], assembly.constant(shape, "int64")), attributes={})


def _resize(node: Node, assembly: Assembly, opset: int) -> Node:
    """Replace scales by output sizes."""
    entry = lookup(node.op_type)
    inputs = node.inputs
    if opset < 11 and len(inputs) == 2 and node.op_type == "Resize":
        inputs = (inputs[0], "", inputs[1])
    values = [None, *(assembly.value(name) if name else None for name in inputs[1:])]
    if entry is None or (all(value is None for value in values) and "scales" not in node.attributes):
        return node
    view = OperatorView(replace(node, inputs=inputs), (assembly.tensor(inputs[0]), *(None for _ in inputs[1:])), values)
    shape = entry.infer(view)[0].shape
    mode = node.attributes.get("mode", "nearest")
    old = opset < 11 or node.op_type == "Upsample"
    placement = node.attributes.get("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    rounding = node.attributes.get("nearest_mode", "floor" if old else "round_prefer_floor")
    attributes: Attributes = {
        "mode": mode,
        "coordinate_transformation_mode": placement,
        "nearest_mode": rounding if mode == "nearest" else "floor",
    }
    attributes |= _unless(node, "antialias", 0)
    return Node("Resize", node.name, (inputs[0], "", "", assembly.constant(shape, "int64")), node.outputs, attributes)


def _keep(*names: str, **defaults: AttributeValue) -> Normaliser:
    """Normalise operators whose other attributes do not matter; those with a default are always written out."""

    def function(node: Node, assembly: Assembly, opset: int) -> Node:
        kept = {name: node.attributes[name] for name in (*names, *defaults) if name in node.attributes}
        return replace(node, attributes={**defaults, **kept})

    return function


def _drop_defaults(**defaults: AttributeValue) -> Normaliser:
    def function(node: Node, assembly: Assembly, opset: int) -> Node:
        kept = {name: value for name, value in node.attributes.items() if defaults.get(name) != value}
        return replace(node, attributes=kept)

    return function


def without_trailing_gaps(inputs: tuple[str, ...]) -> tuple[str, ...]:
    """Return inputs up to the last one that is not left out."""
    count = len(inputs)
    while count and not inputs[count - 1]:
        count -= 1
    return inputs[:count]


def _top_k(node: Node, assembly: Assembly, opset: int) -> Node:
    inputs = node.inputs
    if "k" in node.attributes:
        inputs = (inputs[0], assembly.constant([node.attributes["k"]], "int64"))
    axis = node.integer("axis", -1) % max(_rank(node, assembly), 1)
    attributes: Attributes = {"axis": axis, **_unless(node, "largest", 1), **_unless(node, "sorted", 1)}
    return replace(node, inputs=inputs, attributes=attributes)


_OLD_FORMS: Mapping[str, Normaliser] = {
    "Cast": _old_cast,
    "Concat": lambda node, assembly, opset: replace(node, attributes={"axis": 1, **node.attributes}) if opset < 4 else node,
    "Pad": _old_pad,
    "Reshape": _to_input("shape"),
    "Tile": _old_tile,
    "Upsample": _old_upsample,
}

_NORMALISERS: Mapping[str, Normaliser] = {
    "DFT": _dft,
    "GridSample": _grid_sample,
    **{row.op_type: _reduce for row in operators(Kind.REDUCTION)},
    **{row.op_type: _keep(**row.attributes) for row in operators() if row.attributes},
    "ArgMax": _with_axis(0),
    "ArgMin": _with_axis(0),
    "AveragePool": _pool,
    "BatchNormalization": _keep(epsilon=1e-5),
    "Cast": _keep(to=1),
    "Clip": _clip,
    "Concat": _with_axis(0),
    "Conv": _conv,
    "ConvInteger": _conv,
    "ConvTranspose": _conv_transpose,
    "Flatten": _flatten,
    "Gather": _with_axis(0),
    "Gelu": _drop_defaults(approximate="none"),
    "Gemm": _gemm,
    "LayerNormalization": _layer_norm,
    "LogSoftmax": _softmax,
    "LpPool": _pool,
    "MaxPool": _pool,
    "Pad": _pad,
    "RMSNormalization": _layer_norm,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Softmax": _softmax,
    "Split": _split,
    "Squeeze": _to_input("axes"),
    "TopK": _top_k,
    "Transpose": lambda node, assembly, opset: replace(
        node, attributes={"perm": node.integers("perm", tuple(reversed(range(_rank(node, assembly)))))}
    ),
    "Unsqueeze": _to_input("axes"),
    "Upsample": _resize,
}
