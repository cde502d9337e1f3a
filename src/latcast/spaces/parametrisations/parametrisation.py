"""A kernel type in independent dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Values = Mapping[str, int]
"""A kernel in the dimensions of its parametrisation, or in its type's fields."""


@dataclass(frozen=True)
class Axis:
    """Dimensions that take their values together, out of a few.

    Attributes:
        names: The dimensions.
        values: One tuple for each choice, in the order of ``names``.
        cell: Whether it spans the grid of the fixed test set, as (HW, K, S) do; other axes are only drawn from.
    """

    names: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]
    cell: bool = True


@dataclass(frozen=True)
class Span:
    """A number of channels, or its equivalent: any whole number from ``low`` to ``high``."""

    name: str
    low: int
    high: int


@dataclass(frozen=True)
class Parametrisation:
    """The possible configurations of a kernel type.

    Attributes:
        axes: Dimensions on a grid of usual values (nn-Meter Table 5: sizes, kernels, strides).
        spans: Dimensions over ranges, which fine-grained sampling varies (nn-Meter §5.2).
        constants: Dimensions that every drawn kernel has at this value; kernels of networks may have another.
        read: Fields of the type (without those of fusion) to dimensions.
        write: Dimensions to fields; the inverse of ``read`` on whatever ``read`` gave.
        sensible: Whether a drawn combination is one that networks could have.
    """

    axes: tuple[Axis, ...]
    spans: tuple[Span, ...]
    constants: Values = field(default_factory=dict)
    read: Callable[[Values], dict[str, int]] = dict
    write: Callable[[Values], dict[str, int]] = dict
    sensible: Callable[[Values], bool] = lambda values: True


SIZES = (224, 112, 56, 32, 28, 27, 14, 13, 8, 7, 1)
"""Height and width (nn-Meter Table 5)."""

MAPS = (112, 56, 32, 28, 14, 8, 7)
"""Height and width of maps between convolutions."""

TOKENS = (16, 49, 64, 144, 196, 197, 256)
"""Lengths of sequences: windows and patches of images of usual sizes, with and without a class token."""

LEAST_CHANNELS, MOST_CHANNELS = 3, 2160
"""Channels of any map (nn-Meter Table 5)."""

MAP, SEQUENCE = range(2)
"""Form of a kernel that works on maps (channels, then pixels) or on sequences (tokens, then channels)."""


CODES = frozenset({"form", "function", "operation", "broadcast", "linear", "padded", "mode", "rule"})
"""Dimensions that name a kind, so that numbers near to each other mean nothing."""


def each(name: str, values: tuple[int, ...], *, cell: bool = True) -> Axis:
    """Return one dimension on a grid."""
    return Axis((name,), tuple((value,) for value in values), cell)


def square(values: tuple[int, ...], *names: str) -> Axis:
    """Return the same value in all of these dimensions."""
    return Axis(names, tuple((value,) * len(names) for value in values))


def pixels(sizes: tuple[int, ...]) -> Axis:
    """Elements of one channel of square maps."""
    return each("pixels", tuple(size * size for size in sizes))


def without(values: Values, *names: str) -> dict[str, int]:
    return {name: value for name, value in values.items() if name not in names}
