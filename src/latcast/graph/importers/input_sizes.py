"""The sizes of a model's inputs: as the file states them, as the user gives them, or a refusal that suggests the missing ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from latcast.errors import ModelError
from latcast.graph.importers import ModelOptions, Shapes
from latcast.graph.importers.assembly import Assembly
from latcast.graph.ir import Graph, Shape, check_input_names, shapes_by_input

Sizes = tuple["int | str", ...]

ANY_RANK: tuple[Sizes, ...] = (("",) * 4, ("",) * 2, ("",) * 3, ("",), ("",) * 5)
"""The forms of an input of which the file states nothing."""


def is_known(size: int | str) -> bool:
    """Return whether a size of a form is a number that holds."""
    return isinstance(size, int) and size > 0


@dataclass(frozen=True, slots=True)
class ModelInput:
    """An input as a file states it.

    Attributes:
        name: As in the file.
        forms: The sizes it may have; several where the file does not state how many dimensions there are. A size is a number, 0
            where the file holds a zero (which some exporters write for an unknown size), or the symbol that the file has in place
            of a number, which may be empty.
        dtype: numpy's name of its type; ``string`` for texts.
        channels_last: Whether an image's channels come last.
        open_batch: Whether a value may have another batch than the first size.
    """

    name: str
    forms: tuple[Sizes, ...]
    dtype: str = "float32"
    channels_last: bool = False
    open_batch: bool = False

    @property
    def integers(self) -> bool:
        """Whether its elements are integers, as tokens are."""
        return "int" in self.dtype

    def open_axes(self) -> list[int]:
        return [axis for axis, size in enumerate(self.forms[0]) if not is_known(size)]


class Reading(Protocol):
    """One attempt to read a file."""

    assembly: Assembly

    def graph(self) -> Graph:
        """Return the graph.

        Raises:
            ModelError: It cannot be read, perhaps since the sizes of its inputs do not fit.
        """


def read_sized(inputs: Sequence[ModelInput], options: ModelOptions, start: Callable[[ModelOptions], Reading]) -> Graph:
    """Return the graph of a model whose inputs all have sizes.

    Args:
        inputs: As the file states them.
        options: The shapes that the user gives come before those of the file, and may hold a 0. A value gives its shape where
            the file leaves sizes open.
        start: Returns a reading of the file with some shapes given, as if the user had given them, and values that fit them.

    Raises:
        DynamicShapeError: An input has a dimension without a size; the message suggests sizes for all inputs at once.
        ModelError: A shape or value is given for what is no input, or does not fit it; or the file cannot be read.
    """
    values = dict(options.values or {})
    names = [each.name for each in inputs]
    given = shapes_by_input(options.shapes or {}, names)
    for each in inputs:
        shape = given.get(each.name)
        if shape is None:
            continue
        if len(each.forms) == 1 and len(shape) != len(each.forms[0]):
            form = ",".join(map(str, each.forms[0]))
            raise ModelError(
                f"input '{each.name}' has {len(each.forms[0])} dimensions, {form}; the shape given for it has {len(shape)}"
            )
        if min(shape, default=0) < 0:
            raise ModelError(f"the shape {list(shape)} was given for input '{each.name}'; expected sizes that are not negative")
    for each in inputs:
        if each.name in values:
            from latcast.graph.input_values import fitted

            sizes = [int(size) if is_known(size) else -1 for size in each.forms[0]]
            sizes[:1] = [-1] * each.open_batch or sizes[:1]
            value = fitted(each.name, values[each.name], given.get(each.name, None if len(each.forms) > 1 else sizes), each.dtype)
            values[each.name] = value
            given.setdefault(each.name, value.shape)
    missing = [each for each in inputs if each.name not in given and (len(each.forms) > 1 or each.open_axes())]

    def begin(shapes: Shapes) -> Reading:
        reading = start(replace(options, shapes=shapes, values=values))
        check_input_names((name for name in values if not reading.assembly.has_name(name)), names, what="value")
        return reading

    if not missing:
        return begin(given).graph()
    graph = _read_with_zeros(missing, given, begin)
    if graph is not None:
        return graph
    from latcast.graph.importers.open_sizes import SizeSearch

    raise SizeSearch(inputs, missing, given, begin).refusal()


def _read_with_zeros(
    missing: Sequence[ModelInput], given: Mapping[str, Shape], start: Callable[[Shapes], Reading]
) -> Graph | None:
    """Return the graph with the zeros of the file taken at their word (an empty cache), where it still gives all its outputs."""
    for each in missing:
        sizes = each.forms[0]
        if len(each.forms) > 1 or sizes[0] == 0 or any(isinstance(sizes[axis], str) for axis in each.open_axes()):
            return None
    reading = start(given)
    try:
        graph = reading.graph()
    except ModelError:
        return None
    return None if reading.assembly.has_empty_outputs else graph
