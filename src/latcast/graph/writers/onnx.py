"""Graph to ONNX file.

The graph's vocabulary is ONNX's, so nodes are written as they are and keep their names; what changed its form between
versions of ONNX (attributes that became inputs) is brought to the version written. Weights are made up
(:mod:`latcast.graph.weights`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from latcast.errors import LatcastError, ModelError, UnsupportedOperatorError, counted
from latcast.graph.idioms import IN_GROUPS
from latcast.graph.ir import AttributeValue, Graph, Node
from latcast.graph.operators import Kind, operators
from latcast.graph.weights import synthetic_weights

if TYPE_CHECKING:
    import onnx

LOWEST_OPSET = 17
"""Version written unless an operator needs a newer one: the first with LayerNormalization, read by every runtime."""

LARGEST_FILE_BYTES = 2_000_000_000
"""Protocol buffers end at 2 GiB; some of it is for the nodes."""

PRECISIONS = ("fp32", "int8")

_CONTRIBUTED_DOMAINS: Mapping[str, int] = {"com.microsoft": 1, "ai.onnx.ml": 3}
"""Domains beside ONNX's own, with the version that is written."""

_INPUT_OF_ATTRIBUTE: Mapping[tuple[str, str], tuple[int, str]] = {
    ("Squeeze", "axes"): (1, "int64"),
    ("Unsqueeze", "axes"): (1, "int64"),
    ("Split", "split"): (1, "int64"),
    ("Reshape", "shape"): (1, "int64"),
    ("Tile", "repeats"): (1, "int64"),
    ("Pad", "pads"): (1, "int64"),
    ("Pad", "value"): (2, "float32"),
    ("Clip", "min"): (1, "float32"),
    ("Clip", "max"): (2, "float32"),
    ("Slice", "starts"): (1, "int64"),
    ("Slice", "ends"): (2, "int64"),
    ("Slice", "axes"): (3, "int64"),
    ("TopK", "k"): (1, "int64"),
    **{(row.op_type, "axes"): (1, "int64") for row in operators(Kind.REDUCTION)},
}  # fmt: skip
"""Attributes that newer versions take as an input: operator and attribute to position and type."""

_OBSOLETE_ATTRIBUTES = frozenset(
    {
        ("BatchNormalization", "spatial"), ("BatchNormalization", "is_test"), ("Dropout", "ratio"), ("Dropout", "is_test"),
        ("Gemm", "broadcast"), ("Add", "broadcast"), ("Mul", "broadcast"), ("Sub", "broadcast"), ("Div", "broadcast"),
        ("Add", "axis"), ("Mul", "axis"), ("Sub", "axis"), ("Div", "axis"), ("Conv", IN_GROUPS),
    }
)  # fmt: skip
"""Attributes of old versions without a meaning in a newer one, and those that only this graph has."""


_GRID_MODES_RENAMED = 20
_OLD_GRID_MODES: Mapping[str, str] = {"linear": "bilinear", "cubic": "bicubic"}
"""Names of GridSample's modes before this version."""


class OnnxFile:
    """Collects the nodes and initialisers of one ONNX model and turns them into bytes."""

    def __init__(self, graph: Graph, opset: int) -> None:
        self.graph = graph
        self.opset = opset
        self._nodes: list[Any] = []
        self._initializers: list[Any] = []
        self._names: set[str] = set()
        self._domains: set[str] = set()
        self._size_bytes = 0

    def initializer(self, name: str, values: np.ndarray) -> str:
        """Add a constant tensor once and return its name."""
        from onnx import numpy_helper

        if name not in self._names:
            self._names.add(name)
            self._size_bytes += values.nbytes
            self._initializers.append(numpy_helper.from_array(np.ascontiguousarray(values).reshape(values.shape), name))
        return name

    def add(self, node: Node) -> None:
        """Add an operator in the form that the file's version of ONNX asks for.

        Raises:
            UnsupportedOperatorError: ONNX has no such operator, or not in this form; the message names the node.
        """
        from onnx import helper

        node = self._current_form(node)
        schema = find_schema(node, self.opset)
        attributes = []
        for key, value in sorted(node.attributes.items()):
            if schema is None:
                attributes.append(helper.make_attribute(key, value))
            else:
                kind = schema.attributes[key].type
                attributes.append(helper.make_attribute(key, _as_kind(value, kind.name), attr_type=kind.value))
        written = helper.make_node(node.op_type, node.inputs, node.outputs, name=node.name, domain=node.domain)
        written.attribute.extend(attributes)
        self._nodes.append(written)
        if node.domain not in ("", "ai.onnx"):
            self._domains.add(node.domain)

    def _current_form(self, node: Node) -> Node:
        """Return the node with renamed operators, and with attributes as inputs where this version has them so."""
        if node.op_type == "Upsample" or (node.op_type == "Resize" and len(node.inputs) == 2):
            node = self._as_resize(node)
        if node.op_type == "GridSample" and self.opset < _GRID_MODES_RENAMED:
            modes = {key: _OLD_GRID_MODES.get(str(mode), mode) for key, mode in node.attributes.items() if key == "mode"}
            node = replace(node, attributes={**node.attributes, **modes})
        schema = find_schema(node, self.opset)
        if schema is None:
            return node
        inputs, attributes = list(node.inputs), dict(node.attributes)
        for key, value in node.attributes.items():
            if key in schema.attributes:
                continue
            if (node.op_type, key) in _OBSOLETE_ATTRIBUTES:
                del attributes[key]
            elif (node.op_type, key) in _INPUT_OF_ATTRIBUTE:
                position, dtype = _INPUT_OF_ATTRIBUTE[node.op_type, key]
                inputs += [""] * (position + 1 - len(inputs))
                inputs[position] = self.initializer(f"{node.name}_{key}", np.asarray(value, dtype=dtype))
                del attributes[key]
        # Old files list the statistics of training as outputs.
        training = node.op_type == "BatchNormalization" and node.attributes.get("training_mode", 0)
        outputs = node.outputs[:1] if node.op_type == "BatchNormalization" and not training else node.outputs
        return Node(node.op_type, node.name, tuple(inputs), outputs, attributes, node.domain)

    def _as_resize(self, node: Node) -> Node:
        scales = node.inputs[1] if len(node.inputs) > 1 else ""
        if "scales" in node.attributes:
            scales = self.initializer(f"{node.name}_scales", np.asarray(node.attributes["scales"], np.float32))
        mode = node.text("mode", "nearest")
        attributes: dict[str, AttributeValue] = {
            "mode": "linear" if mode in ("linear", "bilinear") else mode,
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        }
        return Node("Resize", node.name, (node.inputs[0], "", scales), node.outputs, attributes)

    def names_read(self) -> set[str]:
        """Return every tensor that a node added so far reads."""
        return {name for node in self._nodes for name in node.input}

    def to_bytes(self) -> bytes:
        """Return the model.

        Raises:
            ModelError: It has more weights than fit into one file.
        """
        from onnx import TensorProto, helper

        if self._size_bytes >= LARGEST_FILE_BYTES:
            raise ModelError(
                f"'{self.graph.name}' has {self._size_bytes / 1e9:.1f} GB of weights; an ONNX file holds up to "
                f"{LARGEST_FILE_BYTES / 1e9:.1f} GB, so write its parts one by one"
            )
        types = {"float32": TensorProto.FLOAT, "bfloat16": TensorProto.BFLOAT16}

        def declare(name: str) -> onnx.ValueInfoProto:
            tensor = self.graph.tensors[name]
            kind = types.get(tensor.dtype) or helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
            return helper.make_tensor_value_info(name, kind, tensor.shape)

        body = helper.make_graph(
            self._nodes,
            self.graph.name or "network",
            [declare(name) for name in self.graph.inputs],
            [declare(name) for name in self.graph.outputs],
            self._initializers,
        )
        opsets = [
            helper.make_opsetid("", self.opset),
            *(helper.make_opsetid(name, _CONTRIBUTED_DOMAINS.get(name, 1)) for name in sorted(self._domains)),
        ]
        model = helper.make_model(body, opset_imports=opsets, producer_name="latcast")
        model.ir_version = helper.find_min_ir_version_for(opsets, ignore_unknown=True)
        data: bytes = model.SerializeToString()
        return data


def _as_kind(value: AttributeValue, kind: str) -> AttributeValue:
    """Return a value as the type that ONNX asks for: a graph may hold 1 for 1.0."""
    if kind == "FLOAT" and isinstance(value, int):
        return float(value)
    if kind == "FLOATS" and isinstance(value, tuple):
        return tuple(float(number) for number in value)
    return value


def find_schema(node: Node, opset: int) -> Any:
    """Return ONNX's definition of a node's operator, or None for one of a contributed domain.

    Raises:
        UnsupportedOperatorError: ONNX has no such operator.
    """
    from onnx import defs

    if node.domain in _CONTRIBUTED_DOMAINS:
        return None
    if node.domain not in ("", "ai.onnx") or not defs.has(node.op_type):
        label = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        raise UnsupportedOperatorError(
            f"node '{node.name}' is a {label}, which ONNX {defs.onnx_opset_version()} does not define; "
            "replace it by standard operators"
        )
    return defs.get_schema(node.op_type, max_inclusive_version=opset)


def _admits(node: Node, opset: int) -> str | None:
    """Return why a version of ONNX has no such node, or None where it has."""
    from onnx import defs

    if node.domain in _CONTRIBUTED_DOMAINS or node.op_type == "Upsample":
        return None
    try:
        schema = find_schema(node, opset)
    except defs.SchemaError:
        return f"{node.op_type} is newer"
    if schema.deprecated:
        return f"{node.op_type} was removed"
    if len(node.inputs) > schema.max_input:
        return f"{node.op_type} has at most {counted(schema.max_input, 'input')} there, this one {len(node.inputs)}"
    for key in node.attributes:
        allowed = (key in schema.attributes or (node.op_type, key) in _OBSOLETE_ATTRIBUTES
                   or (node.op_type, key) in _INPUT_OF_ATTRIBUTE)  # fmt: skip
        if not allowed:
            return f"{node.op_type} has no attribute '{key}' there"
    return None


def choose_opset(graph: Graph) -> int:
    """Return the lowest version of ONNX, from 17 on, in which every node of the graph can be written.

    Raises:
        UnsupportedOperatorError: No version has a node's operator in its form; the message names the node.
    """
    from onnx import defs

    opset, newest = LOWEST_OPSET, defs.onnx_opset_version()
    for node in graph.nodes:
        problem = first = _admits(node, opset)
        while problem is not None and opset < newest:
            opset += 1
            problem = _admits(node, opset)
        if problem is not None:
            raise UnsupportedOperatorError(
                f"node '{node.name}' cannot be written in any version of ONNX from {LOWEST_OPSET} to {newest}: {first}"
            )
    return opset


def typed_weights(graph: Graph, *, seed: int = 0, compressible: bool = False) -> dict[str, np.ndarray]:
    """Return the synthetic weights in the element types that the graph gives them (integers fill their range)."""
    typed = {}
    for name, values in synthetic_weights(graph, seed=seed, compressible=compressible).items():
        dtype = graph.tensors[name].dtype
        if dtype == "bfloat16":
            import ml_dtypes

            typed[name] = values.astype(ml_dtypes.bfloat16)
        elif dtype in ("int8", "uint8"):
            scaled = np.round(values / max(float(np.abs(values).max(initial=0.0)), 1e-9) * 127)
            typed[name] = (scaled + (128 if dtype == "uint8" else 0)).astype(dtype)
        else:
            typed[name] = values.astype(dtype)
    return typed


def to_onnx(graph: Graph, *, precision: str = "fp32", seed: int = 0, compressible: bool = False) -> bytes:
    """Write a graph as an ONNX file with synthetic weights.

    Args:
        graph: The network.
        precision: "fp32" writes the graph as it is; "int8" adds QuantizeLinear and DequantizeLinear as post-training
            quantisation does (:mod:`latcast.graph.writers.onnx_qdq`). A graph that is quantised already is written as it is.
        seed: Of the weights.
        compressible: Whether the weights repeat (:func:`latcast.graph.weights.synthetic_weights`).

    Returns:
        The bytes of the model. Nodes and tensors keep their names.

    Raises:
        UnsupportedOperatorError: An operator that ONNX does not define; the message names the node.
        LatcastError: An unknown precision.
    """
    if precision not in PRECISIONS:
        raise LatcastError(f"no ONNX file of precision '{precision}' can be written; expected one of {', '.join(PRECISIONS)}")
    if precision == "int8" and not any(node.op_type in ("QuantizeLinear", "QLinearConv") for node in graph.nodes):
        from latcast.graph.writers.onnx_qdq import to_qdq

        return to_qdq(graph, seed=seed, compressible=compressible)
    file = OnnxFile(graph, choose_opset(graph))
    for name, values in typed_weights(graph, seed=seed, compressible=compressible).items():
        file.initializer(name, values)
    for name, values in graph.constants.items():
        file.initializer(name, values)
    for node in graph.nodes:
        file.add(node)
    return file.to_bytes()
