"""ncnn's ``.param`` files: one layer a line, as ncnn's wiki describes them ("param and model file structure").

Weights lie in another file, which is not needed: their sizes are among the layers' parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from latcast.errors import ModelError
from latcast.graph.limits import Budget, Resource
from latcast.graph.ncnn_codes import ARRAY_KEY, MAGIC
from latcast.reading import read_bytes

Number = int | float

NOT_GIVEN = -233
"""Number that ncnn writes where it follows from the others."""

_PNNX = ("pnnx.Input", "pnnx.Attribute", "pnnx.Output")
"""What stands in the files in which PNNX keeps a network before it makes ncnn's of it, which begin with the same number."""

_MOST_BYTES = 16_000_000
_MOST_NAME, _MOST_DIGITS, _MOST_ITEMS = 255, 32, 4096
_MOST_INTEGER = 2**31
SHAPES = 30
"""The parameter in which tools state the shapes of what a layer writes: rank, w, h, c of each."""


@dataclass(frozen=True, slots=True)
class ParamLayer:
    """A layer: one line of the file.

    Attributes:
        line: Its number in the file, from 1.
        kind: ncnn's layer type ("Convolution").
        bottoms, tops: Names of the blobs it reads and writes.
        params: Parameter number to a number, numbers, or a text in quotation marks.
    """

    line: int
    kind: str
    name: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    params: Mapping[int, Number | tuple[Number, ...] | str] = field(default_factory=dict)

    def number(self, key: int, default: float) -> float:
        """Return a number; ``default`` where it is not given."""
        value = self.params.get(key, default)
        if isinstance(value, (tuple, str)):
            raise ModelError(f"parameter {key} is a list or a text, expected a number")
        return value

    def integer(self, key: int, default: int = 0) -> int:
        """Return a whole number; ``default`` where it is not given."""
        value = self.number(key, default)
        if value != int(value):
            raise ModelError(f"parameter {key} is {value}, expected a whole number")
        return int(value)

    def numbers(self, key: int) -> tuple[Number, ...]:
        """Return a list; empty where it is not given."""
        value = self.params.get(key, ())
        if isinstance(value, str):
            raise ModelError(f"parameter {key} is a text, expected a list of numbers")
        return value if isinstance(value, tuple) else (value,)

    def integers(self, key: int) -> tuple[int, ...]:
        """Return a list of whole numbers; empty where it is not given."""
        return tuple(int(value) for value in self.numbers(key))

    def stated_shapes(self) -> list[tuple[int, ...]] | None:
        """Return the shapes of its outputs, outermost axis first, where the file states them all."""
        numbers = self.integers(SHAPES)
        if len(numbers) != 4 * len(self.tops):
            return None
        shapes = [
            tuple(reversed(numbers[first + 1 : first + 1 + numbers[first]]))
            for first in range(0, len(numbers), 4)
            if 1 <= numbers[first] <= 3
        ]
        return shapes if len(shapes) == len(self.tops) and all(size > 0 for shape in shapes for size in shape) else None


def read_layers(path: Path, budget: Budget) -> Iterator[ParamLayer]:
    """Return the layers of a file, in their order.

    Raises:
        ModelError: It is another file, or damaged; the message names the line, not the file.
    """
    data = read_bytes(path, error=ModelError, most_bytes=_MOST_BYTES)
    try:
        lines = data.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise ModelError(f"not UTF-8 text (byte {error.start}), expected an ncnn param file") from error
    if lines[0].strip() != str(MAGIC):
        raise ModelError(f"line 1: found {lines[0].strip()[:40]!a}, expected {MAGIC}, with which ncnn's param files begin")
    counts = lines[1].split() if len(lines) > 1 else []
    if len(counts) != 2 or not all(count.isascii() and count.isdigit() and len(count) <= 9 for count in counts):
        raise ModelError("line 2: expected the number of layers and the number of blobs")
    wanted, found = int(counts[0]), 0
    for number, text in enumerate(lines[2:], start=3):
        if found == wanted:
            # ncnn reads no further either.
            return
        if not text.strip():
            continue
        found += 1
        budget.take(Resource.NODES)
        try:
            layer = _parse(number, text)
            budget.take(Resource.CONNECTIONS, len(layer.bottoms) + len(layer.tops))
        except ModelError as error:
            raise ModelError(f"line {number}: {error}") from error
        yield layer
    if found != wanted:
        raise ModelError(f"found {found} layers, expected {wanted} as line 2 says; is the file cut off?")


def _parse(number: int, text: str) -> ParamLayer:
    fields = text.split()
    if len(fields) < 4 or not all(count.isascii() and count.isdigit() and len(count) <= 6 for count in fields[2:4]):
        raise ModelError("expected a layer: type, name, number of inputs, number of outputs, their names, parameters")
    kind, name, reads, writes = fields[0], fields[1], int(fields[2]), int(fields[3])
    if kind in _PNNX:
        raise ModelError(f"found {kind}: this is PNNX's own file (.pnnx.param); give the .ncnn.param beside it")
    if len(fields) < 4 + reads + writes:
        raise ModelError(f"found {len(fields) - 4} fields after the counts, expected {reads} inputs and {writes} outputs first")
    names = fields[4 : 4 + reads + writes]
    for part in (kind, name, *names):
        if len(part) > _MOST_NAME or not part.isprintable():
            found = f"found a name of {len(part)} characters ({part[:20]!a}...)"
            raise ModelError(f"{found}, expected at most {_MOST_NAME} printable ones")
    params = dict(_parameter(part) for part in _parts(fields[4 + reads + writes :]))
    return ParamLayer(number, kind, name, tuple(names[:reads]), tuple(names[reads:]), params)


def _parts(fields: list[str]) -> Iterator[str]:
    """Yield the parameters; a text in quotation marks may hold spaces."""
    open_text: list[str] = []
    for part in fields:
        if open_text or ('="' in part and (part.count('"') == 1)):
            open_text.append(part)
            if part.endswith('"') and len(open_text) > 1:
                yield " ".join(open_text)
                open_text = []
        else:
            yield part
    if open_text:
        raise ModelError("a text has no closing quotation mark")


def _parameter(part: str) -> tuple[int, Number | tuple[Number, ...] | str]:
    key_text, equals, value = part.partition("=")
    if not equals:
        raise ModelError(f"found {part[:40]!a}, expected a parameter such as 0=64")
    key = _number(key_text)
    if not isinstance(key, int):
        raise ModelError(f"found {part[:40]!a}, expected the parameter's number before the equals sign")
    if value.startswith('"'):
        return key, value.strip('"')
    if key > ARRAY_KEY and "," not in value:
        return key, _number(value)
    items = value.split(",")
    if len(items) > _MOST_ITEMS:
        raise ModelError(f"found a list of {len(items)} numbers, expected at most {_MOST_ITEMS}")
    numbers = tuple(_number(item) for item in items if item)
    if key > ARRAY_KEY:
        return key, numbers
    if not numbers or numbers[0] != len(numbers) - 1:
        raise ModelError(f"found {part[:40]!a}, expected a list that begins with its length")
    return ARRAY_KEY - key, numbers[1:]


def _number(text: str) -> Number:
    try:
        if len(text) > _MOST_DIGITS or not text.isascii() or "_" in text:
            raise ValueError
        value = float(text) if any(letter in text for letter in ".eEnN") else int(text)
    except ValueError:
        raise ModelError(f"found {text[:40]!a}, expected a number") from None
    if not math.isfinite(value) or (isinstance(value, int) and abs(value) > _MOST_INTEGER):
        raise ModelError(f"found the number {text}, expected a finite one of 32 bits")
    return value
