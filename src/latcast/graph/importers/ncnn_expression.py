"""ncnn's expressions for sizes: ``"*(0w,0h),0c"`` is the width of input 0 times its height, then its number of channels.

Operators stand before their operands, as ncnn's ``src/expression.cpp`` reads them; numbers that are not whole have 32 bits.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from latcast.errors import ModelError
from latcast.graph.ir import Shape

_AXES: Mapping[int, str] = {1: "w", 2: "hw", 3: "chw", 4: "cdhw"}
"""The axes that a blob of a rank has, outermost first."""

_LARGEST = 2**31


def _whole_quotient(a: float, b: float) -> float:
    return math.trunc(a / b) if isinstance(a, int) and isinstance(b, int) else math.floor(a / b)


def _remainder(a: float, b: float) -> float:
    rest = math.fmod(a, b)
    return rest + b if a * b < 0 else rest


_UNARY: Mapping[str, Callable[[float], float]] = {
    "abs": abs,
    "neg": operator.neg,
    "sign": lambda a: (a > 0) - (a < 0),
    "square": lambda a: a * a,
    "trunc": math.trunc,
    "ceil": math.ceil,
    "floor": math.floor,
    "round": lambda a: math.trunc(a + math.copysign(0.5, a)),
    "reciprocal": lambda a: 1.0 / a,
    "rsqrt": lambda a: 1.0 / math.sqrt(a),
    **{name: getattr(math, name) for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp")},
    **{name: getattr(math, name) for name in ("log", "log10", "sin", "sinh", "sqrt", "tan", "tanh")},
}
_BINARY: Mapping[str, Callable[..., float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: float(a / b),
    "//": _whole_quotient,
    "max": max,
    "min": min,
    "atan2": math.atan2,
    "fmod": math.fmod,
    "pow": lambda a, b: float(a) ** b,
    "remainder": _remainder,
    "logaddexp": lambda a, b: float(np.logaddexp(a, b)),
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": lambda a, b: a << min(b, 32),
    "rshift": operator.rshift,
}


def evaluate_sizes(text: str, shapes: Sequence[Shape]) -> list[int]:
    """Return the numbers that an expression lists.

    Args:
        text: The expression.
        shapes: The sizes of each input, outermost first.

    Raises:
        ModelError: It is none, or names an input that is not there.
    """
    stack: list[float] = []
    try:
        for token in reversed(re.findall(r"[^(),]+", text)):
            token = token.strip()
            size = re.fullmatch(r"([0-9])([whdcn])", token)
            if size:
                shape = shapes[int(size[1])]
                value: float = dict(zip(_AXES[len(shape)], shape, strict=True)).get(size[2], 1)
            elif token in _UNARY:
                value = _UNARY[token](stack.pop())
            elif token in _BINARY:
                value = _BINARY[token](stack.pop(), stack.pop())
            else:
                value = int(token) if re.fullmatch(r"[+-]?[0-9]+", token) else float(token)
            if abs(value) > _LARGEST:
                raise ValueError
            stack.append(value if isinstance(value, int) else float(np.float32(value)))
    except (ArithmeticError, IndexError, TypeError, ValueError) as error:
        raise ModelError(f"its expression '{text[:80]}' cannot be worked out for inputs of {[*map(list, shapes)]}") from error
    return [math.trunc(value) for value in reversed(stack)]
