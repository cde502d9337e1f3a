"""Dimensions that a file leaves open: their kinds, usual sizes of each, and the search for sizes with which it can be read.

Usual sizes mostly fit. Where reading fails at an operator, other usual sizes are tried, and those that the file's weights have,
for as long as the reading comes farther. What is suggested was read.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import inf

from latcast.errors import DynamicShapeError, ModelError
from latcast.graph.importers import Shapes
from latcast.graph.importers.assembly import MALFORMED
from latcast.graph.importers.input_sizes import ModelInput, Reading, Sizes, is_known
from latcast.graph.ir import Shape
from latcast.graph.limits import Resource

LARGEST = 1 << 20
"""Upper bound of a suggested size: a minute of sound at 16 kHz."""

USUAL: Mapping[str, tuple[int, ...]] = {
    "batch": (1, 2, 4, 8, 16, 32),
    "channels": (3, 1, 4, 2, 6, 12, 64),
    "side": (
        224, 256, 320, 416, 512, 640, 192, 128, 160, 384, 448, 480, 288, 299, 300, 227, 240, 112, 105, 96, 64, 48, 32, 28, 1024,
        16, 8,
    ),
    "length": (128, 16, 64, 256, 512, 100, 77, 50, 32, 1000, 3000, 16000, 48000, 8, 4, 2, 1),
    "sound": (16000, 48000, 80000, 512, 1024, 160, 128),
    "features": (128, 768, 512, 256, 80, 64, 40, 32, 1024, 16, 3000, 16000, 48000, 10, 8, 4, 3, 2, 1),
}  # fmt: skip
"""Usual sizes by the kind of a dimension, the first one first."""

USUAL_SIDES = (
    (480, 640), (256, 128), (32, 128), (32, 100), (32, 320), (48, 192), (48, 320), (64, 256), (128, 256), (384, 640), (512, 1024),
    (720, 1280), (256, 192), (384, 288), (128, 64), (112, 96),
)  # fmt: skip
"""Usual heights and widths of images that are not square."""

_WORDS: Mapping[str, str] = {
    "batch": r"batch|^b$|^bs$|^n$|beam",
    "side": r"height|width|^h$|^w$|img|image_?size|resolution|rows|cols",
    "channels": r"chan|^c$",
    "sound": r"audio|sample|wave|sound",
    "length": r"seq|len|time|frame|token|step|past|posi|total|cache|chunk|patch|^t$|^l$|^s$",
    "features": r"feat|hidden|dim$|embed|^d$|^f$",
}
"""Words in the symbols that exporters write, by kind."""

_STATE = re.compile(r"past|cache|present|\bkey|value\b|state|hidden|cell|mem|^[hc]n?_?\d*$|^h_|^c_", re.IGNORECASE)
"""Names of inputs that hold what a network remembers from one step to the next."""

Values = dict[str, int]
"""Sizes by symbol, or by input and axis."""


def _kind_of(each: ModelInput, sizes: Sizes, axis: int, *, channels_last: bool) -> str:
    """Return the kind of an open dimension: by its symbol, else by its place."""
    symbol, rank = str(sizes[axis] or "").lower(), len(sizes)
    for kind, words in _WORDS.items():
        if symbol and re.search(words, symbol):
            return kind
    if rank > 1 and axis == 0:
        return "batch"
    state = _STATE.search(each.name) is not None
    if rank >= 4 and not state:
        return "channels" if axis == (rank - 1 if channels_last else 1) else "side"
    if rank == 3 and not state:
        if sizes[0] == 3:
            return "side"
        return "length" if axis == 1 or is_known(sizes[1]) else "features"
    if rank == 3:
        return "batch" if axis == 1 else "features"
    if rank == 2:
        return "length" if each.integers else "features"
    return "batch" if each.integers or (symbol and symbol != f"{each.name}[0]".lower()) else "length"


def _terms(symbol: str) -> ast.expr | None:
    """Return what a symbol computes from others ("past_length + 1"); None where it is a name of its own."""
    try:
        body = ast.parse(symbol.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(body, ast.BinOp) or re.search(r"\S-|-\S", symbol):
        return None
    known = (ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Name, ast.Load, ast.Constant)
    nodes = list(ast.walk(body))
    whole = all(isinstance(node.value, int) for node in nodes if isinstance(node, ast.Constant))
    return body if whole and all(isinstance(node, known) for node in nodes) else None


def _worked_out(term: ast.expr, values: Mapping[str, int]) -> int:
    if isinstance(term, ast.BinOp):
        left, right = _worked_out(term.left, values), _worked_out(term.right, values)
        if isinstance(term.op, ast.Add):
            return left + right
        if isinstance(term.op, ast.Sub):
            return left - right
        return left * right if isinstance(term.op, ast.Mult) else left // max(right, 1)
    return values[term.id] if isinstance(term, ast.Name) else int(term.value)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Group:
    """Open dimensions of one kind that get the same size."""

    kind: str
    keys: tuple[str, ...]

    def resized(self, values: Values, size: int) -> Values:
        """Return values with one size for the group."""
        return {**values, **dict.fromkeys(self.keys, size)}

    @property
    def least(self) -> int:
        """The least size that an operator is believed to ask for, since 1 fits many by accident."""
        return 8 if self.kind == "side" else min(2, len(self.keys))


class Layout:
    """Open dimensions by one guess at what the file leaves unsaid.

    Args:
        inputs: All inputs.
        missing: Those that need a size.
        given: Shapes of others, which fix the symbols that they share.
        form: Which of the forms inputs have.
        channels_last: Whether the channels of images come last.
        shared: Whether the same symbol stands for the same size everywhere; some exporters use one for all.
    """

    def __init__(
        self,
        inputs: Sequence[ModelInput],
        missing: Sequence[ModelInput],
        given: Mapping[str, Shape],
        form: int,
        *,
        channels_last: bool,
        shared: bool,
    ) -> None:
        self.fixed: Values = {}
        self.sizes: dict[str, Sizes] = {}
        self.kinds: dict[str, str] = {}
        self.sides: list[tuple[str, ...]] = []
        for each in inputs:
            if each.name in given and len(each.forms) == 1:
                for size, value in zip(each.forms[0], given[each.name], strict=True):
                    if isinstance(size, str) and size and shared:
                        self.fixed.setdefault(size, value)
        for each in missing:
            sizes = each.forms[min(form, len(each.forms) - 1)]
            last = each.channels_last or channels_last
            last |= len(sizes) > 3 and not is_known(sizes[1]) and sizes[-1] in (1, 2, 3, 4)
            keys: list[int | str] = []
            sides = []
            for axis, size in enumerate(sizes):
                if is_known(size):
                    keys.append(size)
                    continue
                symbol = size if isinstance(size, str) and size.strip(" ?-01") not in ("", "None") and shared else ""
                key = symbol or f"{each.name}[{axis}]"
                keys.append(key)
                term = _terms(symbol) if symbol else None
                for name in [key] if term is None else [node.id for node in ast.walk(term) if isinstance(node, ast.Name)]:
                    if name not in self.fixed:
                        place = sizes if name == symbol else (*sizes[:axis], name, *sizes[axis + 1 :])
                        self.kinds.setdefault(name, _kind_of(each, place, axis, channels_last=last))
                if self.kinds.get(key) == "side":
                    sides.append(key)
            self.sizes[each.name] = tuple(keys)
            self.sides.append(tuple(dict.fromkeys(sides)))

    def usual(self) -> Values:
        """Return the first values to try."""
        values = {key: USUAL[kind][0] for key, kind in self.kinds.items()}
        for sizes in self.sizes.values():
            if len(sizes) == 3 and isinstance(sizes[2], str) and self.kinds.get(sizes[2]) == "features":
                values[sizes[2]] = 768
        return values

    def shapes(self, values: Values) -> dict[str, Shape]:
        """Return the shapes of the inputs that have open dimensions."""
        known = {**values, **self.fixed}

        def size_of(size: int | str) -> int:
            if isinstance(size, int):
                return size
            if size in known:
                return known[size]
            term = _terms(size)
            return max(1, 1 if term is None else _worked_out(term, known))

        return {name: tuple(map(size_of, sizes)) for name, sizes in self.sizes.items()}

    def groups(self) -> list[Group]:
        """Return what is moved together: all dimensions of a kind, and the sides of one image; then single ones, batches last."""
        kinds = [kind for kind in USUAL if kind != "batch"]
        of_kind = {kind: tuple(key for key, found in self.kinds.items() if found == kind) for kind in USUAL}
        joint = [Group(kind, of_kind[kind]) for kind in kinds if of_kind[kind]]
        joint += [Group("side", keys) for keys in self.sides if keys]
        single = [Group(kind, (key,)) for kind in (*kinds, "batch") for key in of_kind[kind]]
        return list(dict.fromkeys((*joint, *single)))


def layouts_of(inputs: Sequence[ModelInput], missing: Sequence[ModelInput], given: Mapping[str, Shape]) -> Iterator[Layout]:
    """Yield a layout for each guess at what a file leaves unsaid, the likeliest first."""
    symbols = [size for each in inputs for size in each.forms[0] if isinstance(size, str) and size]
    repeated = len(set(symbols)) < len(symbols)
    forms = range(max(len(each.forms) for each in missing))
    ambiguous = any(
        not each.channels_last and len(form) == 4 and not any(map(is_known, form[1:])) for each in missing for form in each.forms
    )
    for shared, form, last in product((True, False)[: 1 + repeated], forms, (False, True)[: 1 + ambiguous]):
        yield Layout(inputs, missing, given, form, channels_last=last, shared=shared)


_MOST_READINGS = 10.0
"""Readings of the largest file that a search may take, about 10 s of a laptop; a hub stops a request after 20 s."""

_MOST_TRIALS = 400
"""Sizes that are tried, so that small networks are answered at once."""


@dataclass(frozen=True)
class _Outcome:
    """How far a file was read with some sizes; ``progress`` is infinite where it was read to the end.

    ``stored`` are the sizes of what the file holds, as far as it was read.
    """

    progress: float
    problem: str = ""
    stored: tuple[int, ...] = ()


class SizeSearch:
    """The search for sizes with which a file can be read.

    Args:
        inputs: All inputs.
        missing: Those that need a size.
        given: Shapes of others.
        start: Returns a reading of the file with these shapes.
    """

    def __init__(
        self,
        inputs: Sequence[ModelInput],
        missing: Sequence[ModelInput],
        given: Mapping[str, Shape],
        start: Callable[[Shapes], Reading],
    ) -> None:
        self._inputs, self._missing, self._given, self._start = inputs, missing, given, start
        self._tried: dict[tuple[Shape, ...], _Outcome] = {}
        self._most_trials = _MOST_TRIALS
        self._readings = 0.0

    def refusal(self) -> DynamicShapeError:
        """Return the error that asks for the missing sizes, with a suggestion where one can be read."""
        layouts = list(layouts_of(self._inputs, self._missing, self._given))
        first = layouts[0].shapes(layouts[0].usual())
        for number, layout in enumerate(layouts):
            self._most_trials = len(self._tried) + (_MOST_TRIALS - len(self._tried)) // (len(layouts) - number)
            values: Values | None = layout.usual()
            while values is not None:
                outcome = self._try(layout, values)
                if outcome.progress == inf:
                    shapes = layout.shapes(values)
                    texts = [f"{name}={','.join(map(str, shape))}" for name, shape in shapes.items()]
                    listed = " ".join(f"--shape {shlex.quote(text)}" for text in texts)
                    return DynamicShapeError(f"{self._complaint()}; give {'it' if len(shapes) == 1 else 'them'}: {listed}")
                values = self._better(layout, values, outcome)
        listed = ", ".join(f"'{name}' of shape {list(shape)}" for name, shape in first.items())
        return DynamicShapeError(
            f"{self._complaint()}; give the sizes it was made for with --shape: latcast found none that can be read in "
            f"{len(self._tried)} tries ({listed}: {self._tried[tuple(first.values())].problem})"
        )

    def _complaint(self) -> str:
        each = self._missing[0]
        if len(each.forms) > 1:
            text = f"input '{each.name}' has no shape"
        else:
            axis = each.open_axes()[0]
            symbol = each.forms[0][axis]
            text = f"input '{each.name}' has dimension {axis}{f' {symbol!r}' if symbol else ''} without a size"
        others = len(self._missing) - 1
        return text if not others else f"{text}, as {others} other input{'s have' if others > 1 else ' has'}"

    def _try(self, layout: Layout, values: Values) -> _Outcome:
        shapes = layout.shapes(values)
        key = tuple(shapes.values())
        if key not in self._tried:
            reading = self._start({**self._given, **shapes})
            assembly, problem = reading.assembly, ""
            try:
                reading.graph()
                if assembly.has_empty_outputs:
                    problem = "an output holds no elements"
            except (ModelError, *MALFORMED) as error:
                problem = str(error)
            stored = {size for name, each in assembly.tensors.items() if assembly.is_static(name) for size in each.shape}
            progress = assembly.budget.spent(Resource.NODES) if problem else inf
            self._tried[key] = _Outcome(progress, problem, tuple(sorted(stored)))
            self._readings += assembly.budget.share()
        return self._tried[key]

    def _better(self, layout: Layout, values: Values, at: _Outcome) -> Values | None:
        """Return sizes with which the reading comes farther, or None."""
        for there in _candidates(layout, values, at):
            if len(self._tried) >= self._most_trials or self._readings >= _MOST_READINGS:
                return None
            if self._try(layout, there).progress > at.progress:
                return there
        return None


def _candidates(layout: Layout, values: Values, at: _Outcome) -> Iterator[Values]:
    """Yield values with another size of one group: the sum of two lengths (a past and what is new), usual ones, stored ones."""
    for group in layout.groups():
        sums = [values[one] + values[two] for one, two in combinations(layout.kinds, 2)] if group.kind == "length" else []
        stored = at.stored if group.kind != "batch" else ()
        for size in dict.fromkeys((*sums, *USUAL[group.kind], *stored)):
            if group.least <= size <= LARGEST and size != values[group.keys[0]]:
                yield group.resized(values, size)
        if group.kind == "side" and len(group.keys) == 2:
            for pair in USUAL_SIDES:
                yield {**values, **dict(zip(group.keys, pair, strict=True))}
