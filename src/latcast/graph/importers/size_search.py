"""The search for sizes with which a file can be read, where its inputs leave some open.

Usual sizes mostly fit. Where reading fails at an operator, its own shape inference says which sizes of its inputs would fit, and
the open sizes are moved until these come out there. What is suggested was read.
"""

from __future__ import annotations

import ast
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import exp, inf, log, prod

import numpy as np

from latcast.errors import DynamicShapeError, ModelError
from latcast.graph.importers import Shapes
from latcast.graph.importers.assembly import MALFORMED
from latcast.graph.importers.input_sizes import ModelInput, Reading, Sizes, is_known
from latcast.graph.ir import Shape
from latcast.graph.limits import Resource
from latcast.graph.operators import MisfitError, OperatorView, lookup

_MOST_SECONDS = 6.0
"""Seconds after which no further suggestion is tried; a hub stops a request after some more."""

_MOST_TRIALS = 400
"""Suggestions that are tried, so that small networks are answered at once."""

_LARGEST = 1 << 20
"""Upper bound of a suggested size: a minute of sound at 16 kHz."""

_MOST_CONSTANTS = 16
"""Numbers of a constant that may be sizes; larger ones hold data."""

_MOST_OPERANDS = 8
"""Inputs of an operator that are looked at, since a concatenation may have thousands."""

_USUAL: Mapping[str, tuple[int, ...]] = {
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

_SIDES = (
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


def _kind(each: ModelInput, sizes: Sizes, axis: int, *, channels_last: bool) -> str:
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
    return "batch" if each.integers or symbol else "length"


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
class _Outcome:
    """How far the reading of a suggestion came: all the way where ``progress`` is infinite."""

    progress: float
    problem: str = ""
    view: OperatorView | None = None


@dataclass(frozen=True)
class _Target:
    """Sizes that an operator would take for some axes of one of its inputs; without ``sizes`` only their product counts."""

    position: int
    axes: tuple[int, ...]
    elements: int
    sizes: tuple[int, ...] = ()

    def found(self, outcome: _Outcome, at: _Outcome) -> tuple[int, ...] | None:
        """Return what stands there in another reading that came as far; one product where only that counts."""
        view = outcome.view
        if outcome.progress != at.progress or view is None or not view.has_input(self.position):
            return None
        shape = view.shape(self.position)
        if max(self.axes) >= len(shape):
            return None
        found = tuple(shape[axis] for axis in self.axes)
        return found if self.sizes else (prod(found),)

    def size(self, at: _Outcome, now: int, other: _Outcome, then: int) -> float | None:
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
        return float(min(max(now * exp(min(exponent, 30.0)), 1), _LARGEST))


_Values = dict[str, int]
_Moved = tuple[_Values, _Outcome]


class _Layout:
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
        self.fixed: _Values = {}
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
                        self.kinds.setdefault(name, _kind(each, place, axis, channels_last=last))
                if self.kinds.get(key) == "side":
                    sides.append(key)
            self.sizes[each.name] = tuple(keys)
            self.sides.append(tuple(dict.fromkeys(sides)))

    def usual(self) -> _Values:
        """Return the first values to try."""
        values = {key: _USUAL[kind][0] for key, kind in self.kinds.items()}
        for sizes in self.sizes.values():
            if len(sizes) == 3 and isinstance(sizes[2], str) and self.kinds.get(sizes[2]) == "features":
                values[sizes[2]] = 768
        return values

    def shapes(self, values: _Values) -> dict[str, Shape]:
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

    def groups(self) -> tuple[list[_Group], list[_Group]]:
        """Return what is moved together: all dimensions of a kind, and the sides of one image; then single ones, batches last."""
        kinds = [kind for kind in _USUAL if kind != "batch"]
        of_kind = {kind: tuple(key for key, found in self.kinds.items() if found == kind) for kind in _USUAL}
        joint = [_Group(kind, of_kind[kind]) for kind in kinds if of_kind[kind]]
        joint += [_Group("side", keys) for keys in self.sides if keys]
        single = [_Group(kind, (key,)) for kind in (*kinds, "batch") for key in of_kind[kind]]
        joint = list(dict.fromkeys(joint))
        return joint, [each for each in single if each not in joint]


@dataclass(frozen=True)
class _Group:
    """Open dimensions of one kind that get the same size."""

    kind: str
    keys: tuple[str, ...]

    def sizes(self, now: int) -> list[int]:
        """Return usual sizes but the present one."""
        return [size for size in _USUAL[self.kind] if size != now]

    @property
    def least(self) -> int:
        """Return the least size that an operator is believed to ask for, since 1 fits many by accident."""
        return 8 if self.kind == "side" else min(2, len(self.keys))


class SizeSearch:
    """The search for sizes with which a file can be read."""

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
        self._ends_s = time.monotonic() + _MOST_SECONDS

    def refusal(self) -> DynamicShapeError:
        """Return the error that asks for the missing sizes, with a suggestion where one can be read."""
        first: tuple[_Outcome, dict[str, Shape]] | None = None
        layouts = list(self._layouts())
        for number, layout in enumerate(layouts):
            self._most_trials = len(self._tried) + (_MOST_TRIALS - len(self._tried)) // (len(layouts) - number)
            values = layout.usual()
            outcome = self._try(layout, values)
            first = first or (outcome, layout.shapes(values))
            while outcome.progress < inf and self._goes_on():
                moved = self._better(layout, values, outcome)
                if moved is None:
                    break
                values, outcome = moved
            if outcome.progress == inf:
                return self._suggesting(layout.shapes(values))
        assert first is not None
        outcome, shapes = first
        listed = ", ".join(f"'{name}' of shape {list(shape)}" for name, shape in shapes.items())
        return DynamicShapeError(
            f"{self._complaint()}; give the sizes it was made for with --shape: latcast found none that can be read in "
            f"{len(self._tried)} tries ({listed}: {outcome.problem})"
        )

    def _layouts(self) -> Iterator[_Layout]:
        ambiguous = any(_ambiguous_image(each) for each in self._missing)
        symbols = [size for each in self._inputs for size in each.forms[0] if isinstance(size, str) and size]
        forms = range(max(len(each.forms) for each in self._missing))
        for shared, form, last in product(
            (True, False) if len(set(symbols)) < len(symbols) else (True,), forms, (False, True) if ambiguous else (False,)
        ):
            yield _Layout(self._inputs, self._missing, self._given, form, channels_last=last, shared=shared)

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

    def _suggesting(self, shapes: Mapping[str, Shape]) -> DynamicShapeError:
        texts = [f"{name}={','.join(map(str, shape))}" for name, shape in shapes.items()]
        listed = " ".join(f"--shape {shlex.quote(text)}" for text in texts)
        return DynamicShapeError(f"{self._complaint()}; give {'it' if len(shapes) == 1 else 'them'}: {listed}")

    def _goes_on(self) -> bool:
        return len(self._tried) < self._most_trials and time.monotonic() < self._ends_s

    def _try(self, layout: _Layout, values: _Values) -> _Outcome:
        shapes = layout.shapes(values)
        key = tuple(shapes.values())
        if key not in self._tried:
            reading = self._start({**self._given, **shapes})
            try:
                reading.graph()
                self._tried[key] = _Outcome(inf)
            except (ModelError, *MALFORMED) as error:
                self._tried[key] = _Outcome(reading.assembly.budget.spent(Resource.NODES), str(error), _view_of(error))
        return self._tried[key]

    def _better(self, layout: _Layout, values: _Values, at: _Outcome) -> _Moved | None:
        """Return values with which the reading comes farther: what the operator asks for, then usual sizes, then a search."""
        targets = list(_targets(at.view))
        movable: list[tuple[_Group, list[tuple[_Target, float]]]] = []
        for tier in layout.groups():
            first = len(movable)
            for group in tier:
                if not self._goes_on():
                    return None
                asked = self._asked(layout, values, at, group, targets)
                if isinstance(asked, tuple):
                    return asked
                if asked is not None:
                    movable.append((group, asked))
            together = self._together(layout, values, at, movable[first:], targets)
            if together is not None:
                return together
        for (group, asked), step in product(movable, (32, 8, 1)):
            found = self._bisected(layout, values, at, group, asked[0][0], step) if asked else None
            if found is not None:
                return found
        for group, _ in movable:
            for there in self._usual(layout, values, group):
                outcome = self._try(layout, there)
                if outcome.progress > at.progress:
                    return there, outcome
                if not self._goes_on():
                    return None
        return None

    def _asked(
        self, layout: _Layout, values: _Values, at: _Outcome, group: _Group, targets: Sequence[_Target]
    ) -> _Moved | list[tuple[_Target, float]] | None:
        """Return values that come farther, else the targets that a group can reach and at which size; None without influence."""
        now = values[group.keys[0]]
        reachable: list[tuple[_Target, float]] = []
        has_influence = False
        for size in group.sizes(now)[:2]:
            there = {**values, **dict.fromkeys(group.keys, size)}
            outcome = self._try(layout, there)
            if outcome.progress > at.progress:
                return there, outcome
            has_influence |= (outcome.progress, outcome.problem) != (at.progress, at.problem)
            if not reachable:
                found = [(target, target.size(at, now, outcome, size)) for target in targets]
                reachable = [(target, goal) for target, goal in found if goal is not None]
        if not has_influence or (targets and not reachable and outcome.progress == at.progress):
            return None
        reachable.sort(key=lambda each: abs(log(each[1] / now)))
        for _, goal in reachable:
            for size in _near(goal, group):
                there = {**values, **dict.fromkeys(group.keys, size)}
                outcome = self._try(layout, there)
                if outcome.progress > at.progress:
                    return there, outcome
        return reachable

    def _together(
        self,
        layout: _Layout,
        values: _Values,
        at: _Outcome,
        movable: Sequence[tuple[_Group, list[tuple[_Target, float]]]],
        targets: Sequence[_Target],
    ) -> _Moved | None:
        """Return values that come farther where several groups have to move for one target, as frames and sides of a video."""
        for target in targets:
            reached = [(group, round(size)) for group, asked in movable for each, size in asked if each == target]
            goals = {key: size for group, size in reached for key in group.keys}
            if len(reached) > 1 and all(size >= group.least for group, size in reached):
                outcome = self._try(layout, {**values, **goals})
                if outcome.progress > at.progress:
                    return {**values, **goals}, outcome
        return None

    def _usual(self, layout: _Layout, values: _Values, group: _Group) -> Iterator[_Values]:
        """Yield values with usual sizes for a group, or for a length the sums of two others (a past and what is new)."""
        sums = [values[one] + values[two] for one, two in combinations(layout.kinds, 2)] if group.kind == "length" else []
        for size in dict.fromkeys((*sums, *group.sizes(values[group.keys[0]]))):
            yield {**values, **dict.fromkeys(group.keys, size)}
        if group.kind == "side" and len(group.keys) == 2:
            for pair in _SIDES:
                yield {**values, **dict(zip(group.keys, pair, strict=True))}

    def _bisected(
        self, layout: _Layout, values: _Values, at: _Outcome, group: _Group, target: _Target, step: int
    ) -> _Moved | None:
        """Return the multiple of a step with which an operator gets the size that it asks for; sizes grow with the inputs'."""
        low, high = -(-group.least // step), 4096 // step
        while low <= high and self._goes_on():
            middle = (low + high) // 2
            there = {**values, **dict.fromkeys(group.keys, middle * step)}
            outcome = self._try(layout, there)
            if outcome.progress > at.progress:
                return there, outcome
            found = target.found(outcome, at)
            if found is not None and prod(found) == target.elements:
                return None
            if found is None or prod(found) < target.elements:
                low = middle + 1
            else:
                high = middle - 1
        return None


def _near(goal: float, group: _Group) -> list[int]:
    """Return sizes near one that was reckoned: usual ones, then even ones, then itself."""
    usual = sorted(_USUAL[group.kind], key=lambda size: abs(log(size / goal)))[:4]
    rounded = [round(goal / step) * step for step in (32, 16, 8, 4, 2, 1) if step <= goal]
    exact = [round(goal)] if group.kind != "side" else []
    near = [size for size in usual if abs(log(size / goal)) < 0.7]
    most = 4096 if group.kind == "side" else _LARGEST
    return [size for size in dict.fromkeys((*exact, *near, *rounded)) if group.least <= size <= most]


def _view_of(error: BaseException | None) -> OperatorView | None:
    """Return the operator that refused its inputs; errors on the way up repeat its message only."""
    while error is not None:
        if isinstance(error, MisfitError) and error.view is not None:
            return error.view
        error = error.__cause__ or error.__context__
    return None


def _ambiguous_image(each: ModelInput) -> bool:
    return any(len(form) == 4 and not any(map(is_known, form[1:])) for form in each.forms) and (not each.channels_last)


def _targets(view: OperatorView | None) -> Iterator[_Target]:
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
                    yield _Target(position, (axis,), number, (number,))
        for other in _shapes_of_others(view, position):
            changed = tuple(axis for axis, (old, new) in enumerate(zip(shape, other, strict=True)) if old != new)
            if len(changed) > 1 and fits(position, other):
                sizes = tuple(other[axis] for axis in changed)
                yield _Target(position, changed, prod(sizes), sizes)
        for elements in sorted(products, reverse=True):
            if elements > 1 and fits(position, (*(1,) * (len(shape) - 1), elements)):
                yield _Target(position, tuple(range(len(shape))), elements)


def _are_sizes(values: Sequence[object]) -> bool:
    return 0 < len(values) <= _MOST_CONSTANTS and all(isinstance(value, int) for value in values)


def _shapes_of_others(view: OperatorView, position: int) -> Iterable[Shape]:
    """Return an input's shape with its last axes as those of each other input."""
    shape = view.shape(position)
    for tensor in view.inputs[:_MOST_OPERANDS]:
        if tensor is not None and 2 <= len(tensor.shape) <= len(shape):
            yield (*shape[: len(shape) - len(tensor.shape)], *tensor.shape)
