"""The sizes that an operator takes where those that it got do not fit, and the sizes of inputs with which it gets them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log, prod

import numpy as np

from latcast.errors import ModelError
from latcast.graph.importers.assembly import MALFORMED
from latcast.graph.importers.open_sizes import LARGEST
from latcast.graph.ir import Shape
from latcast.graph.operators import MisfitError, OperatorView, lookup

_MOST_CONSTANTS = 16
"""Numbers of a constant that may be sizes; larger ones hold data."""

_MOST_OPERANDS = 8
"""Inputs of an operator that are looked at, since a concatenation may have thousands."""


@dataclass(frozen=True)
class Outcome:
    """How far the reading of a suggestion came: all the way where ``progress`` is infinite."""

    progress: float
    problem: str = ""
    view: OperatorView | None = None


@dataclass(frozen=True)
class Target:
    """Sizes that an operator would take for some axes of one of its inputs; without ``sizes`` only their product counts."""

    position: int
    axes: tuple[int, ...]
    elements: int
    sizes: tuple[int, ...] = ()

    def found(self, outcome: Outcome, at: Outcome) -> tuple[int, ...] | None:
        """Return what stands there in another reading that came as far; one product where only that counts."""
        view = outcome.view
        if outcome.progress != at.progress or view is None or not view.has_input(self.position):
            return None
        shape = view.shape(self.position)
        if max(self.axes) >= len(shape):
            return None
        found = tuple(shape[axis] for axis in self.axes)
        return found if self.sizes else (prod(found),)

    def size(self, at: Outcome, now: int, other: Outcome, then: int) -> float | None:
        """Return the size of an input with which the operator gets what it takes, by two readings; None without influence.

        Only the axes that differ between the readings count: others follow from other sizes.
        """
        before, after = self.found(at, at), self.found(other, at)
        if before is None or after is None or now == then:
            return None
        wanted = self.sizes or (self.elements,)
        moved = [index for index, (one, two) in enumerate(zip(before, after, strict=True)) if one != two]
        start, end, goal = (prod(each[index] for index in moved) for each in (before, after, wanted))
        if not moved or min(start, end, goal) < 1 or start == end:
            return None
        exponent = log(goal / start) / log(end / start) * log(then / now)
        return float(min(max(now * exp(min(exponent, 30.0)), 1), LARGEST))


def view_of(error: BaseException | None) -> OperatorView | None:
    """Return the operator that refused its inputs; errors on the way up repeat its message only."""
    while error is not None:
        if isinstance(error, MisfitError) and error.view is not None:
            return error.view
        error = error.__cause__ or error.__context__
    return None


def targets_of(view: OperatorView | None) -> Iterator[Target]:
    """Yield the sizes that an operator takes where those that it got do not fit: one axis, several, or all elements of an input.

    The operator's own shape inference decides, among the numbers that its weights, constants and other inputs hold.
    """
    row = None if view is None else lookup(view.node.op_type)
    if view is None or row is None:
        return

    def fits(position: int, shape: Shape) -> bool:
        inputs = list(view.inputs)
        tensor = inputs[position]
        assert tensor is not None
        inputs[position] = replace(tensor, shape=shape)
        try:
            found = row.infer(replace(view, inputs=tuple(inputs)))
        except (ModelError, *MALFORMED):
            return False
        return all(min(each.shape, default=1) > 0 for each in found)

    constants = [
        value for value in map(view.value, range(len(view.inputs))) if value is not None and value.size <= _MOST_CONSTANTS
    ]
    whole = [np.abs(value).reshape(-1) for value in constants if value.dtype.kind in "iu"]
    whole += [np.abs(value) for value in view.node.attributes.values() if isinstance(value, tuple) and _are_sizes(value)]
    products = {int(prod(int(size) for size in value if size > 1)) for value in whole}
    numbers = {size for tensor in view.inputs[:_MOST_OPERANDS] if tensor is not None for size in tensor.shape}
    numbers |= {int(size) for value in whole for size in value}
    factors = {value for value in view.node.attributes.values() if isinstance(value, int) and value > 1}
    numbers |= {number * factor for number in numbers for factor in factors}
    for position, tensor in enumerate(view.inputs[:_MOST_OPERANDS]):
        if tensor is None or not tensor.shape or fits(position, tensor.shape):
            continue
        shape = tensor.shape
        for number in sorted(numbers, reverse=True):
            for axis in range(len(shape)):
                if number > 0 and number != shape[axis] and fits(position, (*shape[:axis], number, *shape[axis + 1 :])):
                    yield Target(position, (axis,), number, (number,))
        for other in _shapes_of_others(view, position):
            changed = tuple(axis for axis, (old, new) in enumerate(zip(shape, other, strict=True)) if old != new)
            if len(changed) > 1 and fits(position, other):
                sizes = tuple(other[axis] for axis in changed)
                yield Target(position, changed, prod(sizes), sizes)
        for elements in sorted(products, reverse=True):
            if elements > 1 and fits(position, (*(1,) * (len(shape) - 1), elements)):
                yield Target(position, tuple(range(len(shape))), elements)


def _are_sizes(values: Sequence[object]) -> bool:
    return 0 < len(values) <= _MOST_CONSTANTS and all(isinstance(value, int) for value in values)


def _shapes_of_others(view: OperatorView, position: int) -> Iterable[Shape]:
    """Return an input's shape with its last axes as those of each other input."""
    shape = view.shape(position)
    for tensor in view.inputs[:_MOST_OPERANDS]:
        if tensor is not None and 2 <= len(tensor.shape) <= len(shape):
            yield (*shape[: len(shape) - len(tensor.shape)], *tensor.shape)
