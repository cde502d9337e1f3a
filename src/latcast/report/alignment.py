"""Aligns the kernels of two networks: the same, changed, gone, or new; and prints that as a diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from latcast.predictors.prediction import KernelLatency
from latcast.tables import milliseconds

SAME, CHANGED, WENT, CAME = "same", "changed", "went", "came"

CONTEXT = 2
"""Kernels that are the same, before and behind what changed, in a text."""

MOST_ALIGNED = 4_000_000
"""Pairs of kernels between those at the beginning and the end that are the same, above which places alone decide."""


@dataclass(frozen=True)
class KernelChange:
    """A kernel of A and the corresponding one of B.

    Attributes:
        change: "same", "changed" (another configuration, or other operators fused), "went" (of A alone) or "came" (of B alone).
        a, b: The kernels; None where there is none.
        fields: What is changed of the configuration: name to the numbers of A and of B.
    """

    change: str
    a: KernelLatency | None
    b: KernelLatency | None
    fields: dict[str, tuple[float, float]] = field(default_factory=dict, hash=False)

    @property
    def kernel_type(self) -> str:
        return (self.a or self.b).kernel_type  # type: ignore[union-attr]

    @property
    def difference_ms(self) -> float:
        """Milliseconds that the kernel takes in B beyond A."""
        return (self.b.latency_ms if self.b else 0.0) - (self.a.latency_ms if self.a else 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that scripts rely on."""
        return {
            "change": self.change,
            "kernel_type": self.kernel_type,
            "a": self.a.name if self.a else None,
            "b": self.b.name if self.b else None,
            "a_ms": self.a.latency_ms if self.a else 0.0,
            "b_ms": self.b.latency_ms if self.b else 0.0,
            "difference_ms": self.difference_ms,
            "configuration": {name: list(values) for name, values in self.fields.items()},
        }


def align(a: Sequence[KernelLatency], b: Sequence[KernelLatency]) -> tuple[KernelChange, ...]:
    """Aligns two networks' kernels, each in execution order, which the result keeps (Needleman and Wunsch).

    Only kernels of one type correspond. As many as can are the same; of several choices it is the one with the same
    names and the closest configurations.
    """
    shorter = min(len(a), len(b))
    first = next((place for place in range(shorter) if not _same(a[place], b[place])), shorter)
    last = next((place for place in range(shorter - first) if not _same(a[-1 - place], b[-1 - place])), shorter - first)
    a_end, b_end = len(a) - last, len(b) - last
    pairs = [(place, place) for place in range(first)]
    pairs += [(first + row, first + column) for row, column in _between(a[first:a_end], b[first:b_end])]
    pairs += [(a_end + place, b_end + place) for place in range(last)]
    found: list[KernelChange] = []
    a_done = b_done = 0
    for row, column in [*pairs, (len(a), len(b))]:
        found += (KernelChange(WENT, gone, None) for gone in a[a_done:row])
        found += (KernelChange(CAME, None, new) for new in b[b_done:column])
        if row < len(a):
            same = _same(a[row], b[column])
            changed = {name: values for name, values in _both(a[row], b[column]).items() if values[0] != values[1]}
            found.append(KernelChange(SAME if same else CHANGED, a[row], b[column], {} if same else changed))
        a_done, b_done = row + 1, column + 1
    return tuple(found)


def _same(a: KernelLatency, b: KernelLatency) -> bool:
    return (a.kernel_type, a.operators) == (b.kernel_type, b.operators) and a.configuration == b.configuration


def _between(a: Sequence[KernelLatency], b: Sequence[KernelLatency]) -> list[tuple[int, int]]:
    """Places of corresponding kernels between those at the beginning and the end that are the same."""
    if len(a) * len(b) > MOST_ALIGNED:
        return [(place, place) for place, (one, other) in enumerate(zip(a, b, strict=False)) if _likeness(one, other)]
    likeness = [[_likeness(one, other) for other in b] for one in a]
    rows, columns = len(likeness), len(likeness[0]) if likeness else 0
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(rows - 1, -1, -1):
        for column in range(columns - 1, -1, -1):
            matched = best[row + 1][column + 1] + likeness[row][column] if likeness[row][column] else 0.0
            best[row][column] = max(best[row + 1][column], best[row][column + 1], matched)
    pairs, row, column = [], 0, 0
    while row < rows and column < columns:
        if likeness[row][column] and best[row][column] == best[row + 1][column + 1] + likeness[row][column]:
            pairs.append((row, column))
            row, column = row + 1, column + 1
        elif best[row][column] == best[row + 1][column]:
            row += 1
        else:
            column += 1
    return pairs


def _likeness(a: KernelLatency, b: KernelLatency) -> float:
    """0 for kernels of two types, which do not correspond; from 1 to 2 for others, and 3 or more for the same."""
    if a.kernel_type != b.kernel_type:
        return 0.0
    named = 0.5 * (a.name == b.name)
    if _same(a, b):
        return 3.0 + named
    numbers = [min(x, y) / max(x, y) if x != y else 1.0 for x, y in _both(a, b).values() if max(x, y) > 0]
    return 1.0 + named + 0.5 * (sum(numbers) / len(numbers) if numbers else 1.0)


def _both(a: KernelLatency, b: KernelLatency) -> dict[str, tuple[float, float]]:
    return {name: (value, b.configuration[name]) for name, value in a.configuration.items() if name in b.configuration}


def diff_lines(changes: Sequence[KernelChange]) -> Iterator[str]:
    """Kernels as a diff shows lines: "-" of A, "+" of B, "!" changed, " " the same, a hunk's line where some are left out."""
    shown = [False] * len(changes)
    for index, change in enumerate(changes):
        if change.change != SAME:
            for place in range(max(0, index - CONTEXT), min(len(changes), index + CONTEXT + 1)):
                shown[place] = True
    previous = -1
    for index, change in enumerate(changes):
        if not shown[index]:
            continue
        if index != previous + 1:
            left = changes[previous + 1 : index]
            yield f"@@ {len(left)} the same, {milliseconds(sum(each.difference_ms for each in left))} ms @@"
        previous = index
        kernel = change.b or change.a
        assert kernel is not None
        if change.change == CHANGED and change.a is not None:
            fused = change.a.operators != kernel.operators
            said = [
                f"{name} {old:g} -> {new:g}" for name, (old, new) in change.fields.items() if not (fused and _of_fusion(name))
            ]
            if fused:
                said.append(f"{'+'.join(change.a.operators)} -> {'+'.join(kernel.operators)}")
            latency = f"{milliseconds(change.a.latency_ms)} -> {milliseconds(kernel.latency_ms)} ms"
        else:
            numbers = {} if change.change == SAME else kernel.configuration
            said = [f"{name} {value:g}" for name, value in numbers.items() if value not in (0, 1) and not _of_fusion(name)]
            latency = f"{milliseconds(kernel.latency_ms)} ms"
        yield (f"{_SIGNS[change.change]} {kernel.name}: {kernel.kernel_type}{' ' if said else ''}{', '.join(said)}: {latency}")
    left = changes[previous + 1 :]
    if left:
        yield f"@@ {len(left)} the same, {milliseconds(sum(each.difference_ms for each in left))} ms @@"


_SIGNS = {SAME: " ", CHANGED: "!", WENT: "-", CAME: "+"}


def _of_fusion(field: str) -> bool:
    """Return whether a field of a configuration counts fused operators, which are listed by name."""
    return field.startswith("fused_")
