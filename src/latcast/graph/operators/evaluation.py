"""Computing small constants: what exporters write to work out shapes at run time is worked out here once.

Covers the integer arithmetic on shapes (Shape, Gather, Concat, Slice...) and the few scalar functions that exporters put
around it. An operator that is not covered, or an evaluation that numpy refuses, gives None: the caller then knows the
result's shape only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from latcast.graph.operators.elementwise import CAST_TYPES
from latcast.graph.operators.table import Kind, OperatorView, names_of, operators

Array = np.ndarray[Any, Any]
Evaluate = Callable[[OperatorView, list[Any]], "Array | Sequence[Array]"]

MAX_ELEMENTS = 4096
"""Larger results are not worked out: they are data, not arithmetic on shapes."""


def evaluate(view: OperatorView, limit: int | None = MAX_ELEMENTS) -> list[Array] | None:
    """The outputs of an operator whose inputs are all known, or None where they cannot be or need not be known.

    Args:
        view: The node; ``values`` holds an array for every input that is not left out.
        limit: Most elements of a result; None for any number.
    """
    function = _FUNCTIONS.get(view.node.op_type)
    if function is None:
        return None
    given = [view.value(index) for index in range(len(view.node.inputs))]
    if any(value is None and name for value, name in zip(given, view.node.inputs, strict=True)):
        return None
    try:
        if limit is not None and _result_elements(view, given) > limit:
            return None
        with np.errstate(all="ignore"):
            result = function(view, given)
    except (ArithmeticError, IndexError, TypeError, ValueError):
        # Wrong operands: the shape inference that comes next says so in the words of the model.
        return None
    outputs = [np.asarray(value) for value in (result if isinstance(result, (list, tuple)) else [result])]
    return outputs if limit is None or all(value.size <= limit for value in outputs) else None


def _result_elements(view: OperatorView, given: Sequence[Any]) -> int:
    """Elements of a result that may be larger than all the inputs, before it is computed."""
    shapes = [value.shape for value in given if value is not None]
    op_type = view.node.op_type
    if op_type in _BROADCASTING:
        return prod(np.broadcast_shapes(*shapes))
    if op_type == "Gather":
        axis = view.int_attribute("axis", 0)
        return prod(shapes[1]) * prod(size for index, size in enumerate(shapes[0]) if index != axis % len(shapes[0]))
    if op_type == "Concat":
        return sum(prod(shape) for shape in shapes)
    if op_type == "Expand":
        return prod(np.broadcast_shapes(shapes[0], tuple(int(size) for size in given[1].reshape(-1))))
    if op_type == "Tile":
        return int(given[0].size) * prod(int(count) for count in given[1].reshape(-1))
    if op_type == "Range":
        start, end, step = (float(value.reshape(-1)[0]) for value in given)
        return int(abs((end - start) / step))
    return 0


def _axes(view: OperatorView, given: list[Any], index: int = 1) -> tuple[int, ...] | None:
    if "axes" in view.node.attributes:
        return view.ints("axes", ())
    if index < len(given) and given[index] is not None:
        return tuple(int(axis) for axis in given[index].reshape(-1))
    return None


def _divide(view: OperatorView, given: list[Any]) -> Array:
    """Integers are divided towards zero, as ONNX says."""
    a, b = given
    if a.dtype.kind in "iu":
        quotient = np.abs(a) // np.abs(b)
        return np.asarray(quotient * np.sign(a) * np.sign(b), dtype=a.dtype)
    return np.asarray(a / b, dtype=a.dtype)


def _modulo(view: OperatorView, given: list[Any]) -> Array:
    return np.fmod(*given) if view.int_attribute("fmod", 0) else np.mod(*given)


def _power(view: OperatorView, given: list[Any]) -> Array:
    return np.asarray(np.power(given[0].astype(np.float64), given[1]), dtype=given[0].dtype)


def _cast(view: OperatorView, given: list[Any]) -> Array:
    return np.asarray(given[0], dtype=_numpy_type(CAST_TYPES[view.int_attribute("to", 1)]))


def _numpy_type(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def _gather(view: OperatorView, given: list[Any]) -> Array:
    return np.take(given[0], given[1], axis=view.int_attribute("axis", 0))


def _concat(view: OperatorView, given: list[Any]) -> Array:
    return np.concatenate(given, axis=view.int_attribute("axis", 0))


def _slice(view: OperatorView, given: list[Any]) -> Array:
    x, starts, ends = given[0], given[1].reshape(-1), given[2].reshape(-1)
    axes = _axes(view, given, 3) or tuple(range(len(starts)))
    steps = given[4].reshape(-1) if len(given) > 4 and given[4] is not None else [1] * len(starts)
    window = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        window[axis] = slice(*slice(int(start), int(end), int(step)).indices(x.shape[axis]))
        if step < 0 and window[axis].stop < 0:
            window[axis] = slice(window[axis].start, None, int(step))
    return np.asarray(x[tuple(window)])


def _split(view: OperatorView, given: list[Any]) -> list[Array]:
    sizes = view.ints_from("split", 1)
    axis = view.int_attribute("axis", 0)
    if sizes is None:
        step = -(-given[0].shape[axis] // len(view.node.outputs))
        return np.split(given[0], range(step, given[0].shape[axis], step), axis=axis)
    return np.split(given[0], np.cumsum(sizes)[:-1], axis=axis)


def _squeeze(view: OperatorView, given: list[Any]) -> Array:
    return np.squeeze(given[0], axis=_axes(view, given))


def _unsqueeze(view: OperatorView, given: list[Any]) -> Array:
    axes = _axes(view, given)
    if axes is None:
        raise ValueError("no axes")
    return np.expand_dims(given[0], axes)


def _reshape(view: OperatorView, given: list[Any]) -> Array:
    x, target = given[0], [int(size) for size in given[1].reshape(-1)]
    if not view.int_attribute("allowzero", 0):
        target = [x.shape[axis] if size == 0 else size for axis, size in enumerate(target)]
    return np.reshape(x, target)


def _flatten(view: OperatorView, given: list[Any]) -> Array:
    x, axis = given[0], view.int_attribute("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return np.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


def _transpose(view: OperatorView, given: list[Any]) -> Array:
    return np.transpose(given[0], view.ints("perm", tuple(reversed(range(given[0].ndim)))))


def _expand(view: OperatorView, given: list[Any]) -> Array:
    shape = np.broadcast_shapes(given[0].shape, tuple(int(size) for size in given[1].reshape(-1)))
    return np.array(np.broadcast_to(given[0], shape))


def _tile(view: OperatorView, given: list[Any]) -> Array:
    return np.tile(given[0], given[1].reshape(-1))


def _range(view: OperatorView, given: list[Any]) -> Array:
    start, limit, step = (value.reshape(-1)[0] for value in given)
    return np.arange(start, limit, step, dtype=given[0].dtype)


def _reduce(function: Callable[..., Any]) -> Evaluate:
    def evaluate_reduction(view: OperatorView, given: list[Any]) -> Array:
        axes = _axes(view, given)
        if not axes:
            if view.int_attribute("noop_with_empty_axes", 0):
                return np.asarray(given[0])
            axes = None
        keep = bool(view.int_attribute("keepdims", 1))
        return np.asarray(function(given[0], axis=axes, keepdims=keep), dtype=given[0].dtype)

    return evaluate_reduction


def _arg(function: Callable[..., Any]) -> Evaluate:
    def evaluate_arg(view: OperatorView, given: list[Any]) -> Array:
        keep = bool(view.int_attribute("keepdims", 1))
        return np.asarray(function(given[0], axis=view.int_attribute("axis", 0), keepdims=keep), dtype=np.int64)

    return evaluate_arg


def _nonzero(view: OperatorView, given: list[Any]) -> Array:
    return np.asarray(np.nonzero(given[0]), dtype=np.int64)


def _gather_elements(view: OperatorView, given: list[Any]) -> Array:
    return np.take_along_axis(given[0], given[1], axis=view.int_attribute("axis", 0))


def _scatter_nd(view: OperatorView, given: list[Any]) -> Array:
    if view.str_attribute("reduction", "none") != "none":
        raise ValueError("reductions are not evaluated")
    result = np.array(given[0])
    result[tuple(np.moveaxis(given[1], -1, 0))] = given[2]
    return result


def _cumsum(view: OperatorView, given: list[Any]) -> Array:
    if view.int_attribute("exclusive", 0) or view.int_attribute("reverse", 0):
        raise ValueError("only the plain sum is evaluated")
    return np.cumsum(given[0], axis=int(given[1].reshape(-1)[0]), dtype=given[0].dtype)


def _trilu(view: OperatorView, given: list[Any]) -> Array:
    offset = int(given[1].reshape(-1)[0]) if len(given) > 1 and given[1] is not None else 0
    return (np.triu if view.int_attribute("upper", 1) else np.tril)(given[0], offset)


def _clip(view: OperatorView, given: list[Any]) -> Array:
    low, high = ([*given[1:], None, None])[:2]
    return np.clip(given[0], low, high)


def _plain(function: Callable[..., Any]) -> Evaluate:
    """A numpy function of the inputs alone, whose result has their type."""

    def evaluate_plain(view: OperatorView, given: list[Any]) -> Array:
        return np.asarray(function(*given), dtype=given[0].dtype)

    return evaluate_plain


def _predicate(function: Callable[..., Any]) -> Evaluate:
    def evaluate_predicate(view: OperatorView, given: list[Any]) -> Array:
        return np.asarray(function(*given), dtype=np.bool_)

    return evaluate_predicate


def _fold(function: Callable[..., Any]) -> Evaluate:
    """A binary numpy function over any number of inputs."""

    def evaluate_fold(view: OperatorView, given: list[Any]) -> Array:
        result = given[0]
        for value in given[1:]:
            result = function(result, value)
        return np.asarray(result, dtype=given[0].dtype)

    return evaluate_fold


_FUNCTIONS: Mapping[str, Evaluate] = {
    "Add": _plain(np.add),
    "Sub": _plain(np.subtract),
    "Mul": _plain(np.multiply),
    "Div": _divide,
    "Mod": _modulo,
    "Pow": _power,
    "Neg": _plain(np.negative),
    "Abs": _plain(np.abs),
    "Sign": _plain(np.sign),
    "Sqrt": _plain(np.sqrt),
    "Reciprocal": _plain(lambda x: 1 / x),
    "Exp": _plain(np.exp),
    "Log": _plain(np.log),
    "Tanh": _plain(np.tanh),
    "Floor": _plain(np.floor),
    "Ceil": _plain(np.ceil),
    "Round": _plain(np.rint),
    "Relu": _plain(lambda x: np.maximum(x, 0)),
    "Min": _fold(np.minimum),
    "Max": _fold(np.maximum),
    "Sum": _fold(np.add),
    "Clip": _clip,
    "Cast": _cast,
    "CastLike": lambda view, given: np.asarray(given[0], dtype=given[1].dtype),
    "Equal": _predicate(np.equal),
    "Greater": _predicate(np.greater),
    "GreaterOrEqual": _predicate(np.greater_equal),
    "Less": _predicate(np.less),
    "LessOrEqual": _predicate(np.less_equal),
    "And": _predicate(np.logical_and),
    "Or": _predicate(np.logical_or),
    "Xor": _predicate(np.logical_xor),
    "Not": _predicate(np.logical_not),
    "Where": lambda view, given: np.where(*given),
    "Identity": lambda view, given: given[0],
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "ScatterND": _scatter_nd,
    "Concat": _concat,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Expand": _expand,
    "Tile": _tile,
    "Range": _range,
    "ReduceSum": _reduce(np.sum),
    "ReduceProd": _reduce(np.prod),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "ReduceMean": _reduce(np.mean),
    "ArgMax": _arg(np.argmax),
    "ArgMin": _arg(np.argmin),
    "NonZero": _nonzero,
    "CumSum": _cumsum,
    "Trilu": _trilu,
}

_BROADCASTING = {"Clip", *names_of(operators(Kind.BINARY))}.intersection(_FUNCTIONS)
"""Operators that bring their inputs to one shape."""

EVALUATED = frozenset(_FUNCTIONS)
"""Operators that can be evaluated."""
