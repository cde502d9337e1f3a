"""Dimensions that a file leaves open: of which kind each is, which get one size together, and usual sizes of each kind."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from latcast.graph.importers.input_sizes import ModelInput, Sizes, is_known
from latcast.graph.ir import Shape

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
