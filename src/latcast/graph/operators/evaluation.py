"""Computing small constants: what exporters write to work out shapes at run time is worked out here once.

The integer arithmetic on shapes (Shape, Gather, Concat, Slice...) and the few scalar functions that exporters put around it are
computed by ONNX's reference implementation. An operator that is not covered, or an evaluation that numpy refuses, gives None:
the caller then knows the result's shape only.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from latcast.errors import ModelError
from latcast.graph.operators.elementwise import CAST_TYPES
from latcast.graph.operators.table import Kind, OperatorView, lookup, names_of, operators

Array = np.ndarray[Any, Any]

MAX_ELEMENTS = 4096
"""Elements of a result above which it is not computed: it is data, not arithmetic on shapes."""

EVALUATED = names_of(operators(Kind.BINARY)) - {"Mean", "PRelu", "SwiGLU"} | {
    "Neg", "Abs", "Sign", "Sqrt", "Reciprocal", "Exp", "Log", "Sin", "Cos", "Tanh", "Floor", "Ceil", "Round", "Relu", "Clip",
    "Cast", "CastLike", "Not", "IsNaN", "IsInf", "Identity", "Gather", "GatherElements", "GatherND", "ScatterElements",
    "ScatterND", "Concat", "Slice", "Split", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Transpose", "Expand", "Tile", "Pad",
    "Range", "ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean", "ArgMax", "ArgMin", "TopK", "Unique", "Compress",
    "NonZero", "CumSum", "Trilu", "MatMul",
}  # fmt: skip
"""Operators that can be evaluated."""

_SCALARS = {"CumSum": (1,), "Range": (0, 1, 2), "Trilu": (1,)}
"""Inputs that are scalars by the standard, and of which exporters write vectors of one number."""


def evaluate(view: OperatorView, limit: int | None = MAX_ELEMENTS) -> list[Array] | None:
    """Return the outputs of an operator whose inputs are all known, or None where they cannot be or need not be known.

    Args:
        view: The node; ``values`` holds an array for every input that is not left out.
        limit: Most elements of a result; None for any number.
    """
    row = lookup(view.node.op_type)
    if row is None or view.node.op_type not in EVALUATED:
        return None
    given = [view.value(index) for index in range(len(view.node.inputs))]
    if any(value is None and name for value, name in zip(given, view.node.inputs, strict=True)):
        return None
    try:
        if limit is not None and any(tensor.elements > limit for tensor in row.infer(view)):
            return None
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the mean of nothing
            outputs = _computed(view, given)
    except (ModelError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        # Wrong operands: the shape inference that comes next says so in the words of the model.
        return None
    return outputs


def _computed(view: OperatorView, given: Sequence[Any]) -> list[Array]:
    node = view.node
    if node.op_type == "Identity":
        return [given[0]]
    if node.op_type in ("Cast", "CastLike"):  # ONNX's versions differ in how they hold types that numpy lacks
        target = given[1].dtype if node.op_type == "CastLike" else _numpy_type(CAST_TYPES[view.node.integer("to", 1)])
        return [np.asarray(given[0], dtype=target)]
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    attributes = dict(node.attributes)
    for name in {"axes", "split"} & attributes.keys():  # as in older versions of ONNX
        given = [given[0], np.asarray(attributes.pop(name), np.int64)]
    scalars = _SCALARS.get(node.op_type, ())
    given = [value.reshape(-1)[0] if index in scalars and value is not None else value for index, value in enumerate(given)]
    feed = {f"input_{index}": value for index, value in enumerate(given) if value is not None}
    inputs = [f"input_{index}" if value is not None else "" for index, value in enumerate(given)]
    outputs = [f"output_{index}" for index in range(len(node.outputs))]
    evaluator = ReferenceEvaluator(helper.make_node(node.op_type, inputs, outputs, **attributes))
    return [np.asarray(value) for value in evaluator.run(outputs, feed)]


def _numpy_type(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
