"""Planners of the memory that runtimes hold for results: from steps with their sizes to bytes.

- Greedy by size (XNNPACK and TFLite's arena): all lifetimes are known before the first run; the largest block is placed first,
  each into the smallest gap that fits. Source: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference".
- Pattern (ONNX Runtime's ``MemPatternPlanner``): blocks are placed in the order in which kernels run, each into the smallest gap
  that fits; a freed one is taken over whole by a result of equal shape. An arena (``BFCArena``) takes regions of powers of two
  from the system, for the blocks of the first run one by one, then for the plan in one piece.
- Alive: the sum of what is alive at once, which no allocator goes below.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

ALIGNMENT = 64
"""Bytes to a multiple of which blocks are rounded."""

FIRST_REGION_BYTES = 1 << 20
"""First region that ONNX Runtime's arena takes from the system."""

_SLOT_BYTES = 256
"""Unit of an arena's blocks."""


def aligned(size: int, to: int = ALIGNMENT) -> int:
    """Return the next multiple."""
    return -(-size // to) * to


Result = tuple[tuple[int, ...], int]
"""Shape and bytes."""


@dataclass(frozen=True)
class Step:
    """A kernel, or an operator that a runtime puts in front of one.

    Attributes:
        reads: Tensors that it reads, each once.
        writes: Tensors that it makes, with their shapes as laid out and sizes in bytes.
        view: Whether the result lies where the input lies.
        in_place: Inputs over which the first result may be written.
        segment: The part of the network, of those that a delegate runs, that it belongs to; None for what it does not run.
    """

    reads: tuple[str, ...]
    writes: Mapping[str, Result]
    view: bool = False
    in_place: tuple[str, ...] = ()
    segment: int | None = None


@dataclass(frozen=True)
class Block:
    """Memory that results take, one after the other.

    Attributes:
        size_bytes: Of the largest.
        first, last: Steps at which it is first written and last read.
    """

    size_bytes: int
    first: int
    last: int


def blocks_of(steps: Sequence[Step], outside: frozenset[str]) -> list[Block]:
    """Return the blocks of all results but those of the caller."""
    last = {name: index for index, step in enumerate(steps) for name in step.reads}
    readers = Counter(name for step in steps for name in step.reads)
    place: dict[str, int] = {}
    blocks: list[list[int]] = []
    size_of: dict[str, int] = {}
    for index, step in enumerate(steps):
        for order, (name, (_, size)) in enumerate(step.writes.items()):
            size_of[name] = size
            if name in outside:
                continue
            over = step.reads[:1] if step.view else step.in_place if order == 0 else ()
            taken = next((each for each in over if each in place and readers[each] == 1 and size_of[each] == size), None)
            end = last.get(name, index)
            if taken is None:
                place[name] = len(blocks)
                blocks.append([size, index, end])
            else:
                place[name] = place[taken]
                blocks[place[name]][2] = max(blocks[place[name]][2], end)
    return [Block(*block) for block in blocks]


def delegated_bytes(steps: Sequence[Step], outside: frozenset[str]) -> int:
    """Return the memory of a delegate and of the interpreter around it: each tensor is kept by one of them."""
    parts: dict[int, list[Step]] = {}
    around: list[Step] = []
    for step in steps:
        if step.segment is None:
            around.append(step)
        elif step.segment in parts:
            parts[step.segment].append(step)
        else:
            parts[step.segment] = [step]
            around.append(step)
    readers = [(name, step.segment) for step in steps for name in step.reads]
    segment_of = {name: step.segment for step in steps for name in step.writes}
    crossing = outside | {name for name, segment in readers if segment_of.get(name, segment) != segment}
    whole = [step if step.segment is None else _joined(parts[step.segment], crossing) for step in around]
    inside = max((greedy_bytes(blocks_of(part, crossing)) for part in parts.values()), default=0)
    return inside + greedy_bytes(blocks_of(whole, outside))


def _joined(steps: Sequence[Step], crossing: frozenset[str]) -> Step:
    """Return the steps as one that reads and writes only what crosses."""
    made = {name: result for step in steps for name, result in step.writes.items()}
    reads = dict.fromkeys(name for step in steps for name in step.reads if name in crossing and name not in made)
    return Step(tuple(reads), {name: result for name, result in made.items() if name in crossing})


def greedy_bytes(blocks: Iterable[Block]) -> int:
    """Return the size of an arena that takes the largest blocks first, each in the smallest gap between live ones.

    >>> greedy_bytes([Block(64, 0, 1), Block(128, 1, 2), Block(64, 2, 3)])
    192
    """
    placed: list[tuple[int, int, int, int]] = []
    peak = 0
    for block in sorted(blocks, key=lambda each: (-each.size_bytes, each.first)):
        size = aligned(block.size_bytes)
        beside = sorted((at, end) for at, end, first, last in placed if first <= block.last and block.first <= last)
        at = _smallest_gap(beside, size, None)
        placed.append((at, at + size, block.first, block.last))
        peak = max(peak, at + size)
    return peak


def _smallest_gap(taken: Iterable[tuple[int, int]], size: int, end: int | None) -> int:
    """Return where the smallest gap that fits begins, or the end.

    Args:
        taken: (start, end) in use, sorted.
        size: Wanted.
        end: Of all memory, behind which there is no gap but new memory; None where none has an end.
    """
    best, waste, free_from = None, None, 0
    for start, stop in taken:
        gap = start - free_from
        if gap >= size and (waste is None or gap - size < waste):
            best, waste = free_from, gap - size
        free_from = max(free_from, stop)
    if end is not None and end - free_from >= size and (waste is None or end - free_from - size < waste):
        best = free_from
    return free_from if best is None else best


def alive_bytes(blocks: Iterable[Block]) -> int:
    """Return the most bytes that are alive at once.

    >>> alive_bytes([Block(64, 0, 1), Block(128, 1, 2), Block(64, 2, 3)])
    192
    """
    changes: dict[int, int] = {}
    for block in blocks:
        changes[block.first] = changes.get(block.first, 0) + block.size_bytes
        changes[block.last + 1] = changes.get(block.last + 1, 0) - block.size_bytes
    alive = peak = 0
    for step in sorted(changes):
        alive += changes[step]
        peak = max(peak, alive)
    return peak


def pattern_bytes(steps: Sequence[Step], outside: frozenset[str]) -> tuple[int, int]:
    """Return the size of ONNX Runtime's plan, and of the regions that its arena takes for the first run and for the plan."""
    events = _events(steps, outside)
    taken: dict[int, tuple[int, int]] = {}
    peak = 0
    for block, size in events:
        if not size:
            del taken[block]
            continue
        at = _smallest_gap(sorted(taken.values()), size, peak)
        taken[block] = (at, at + size)
        peak = max(peak, at + size)
    arena = Arena()
    held: dict[int, tuple[int, int]] = {}
    for block, size in events:
        if size:
            held[block] = arena.take(size)
        else:
            arena.give_back(held.pop(block))
    if peak:
        arena.take(peak)
    return peak, arena.regions_bytes


def _events(steps: Sequence[Step], outside: frozenset[str]) -> list[tuple[int, int]]:
    """Return (block, bytes) where a block is taken, (block, 0) where it is given back, in order.

    A block that a later result of equal size takes over stays taken in between, as ONNX Runtime decides before it runs.
    """
    uses = Counter(name for step in steps for name in step.reads)
    block_of: dict[str, int] = {}
    open_uses: dict[int, int] = {}
    results: list[Result] = []
    free: list[tuple[int, Result]] = []
    taken_at: dict[int, int] = {}
    given_at: dict[int, int] = {}
    for index, step in enumerate(steps):
        fresh = []
        for order, (name, result) in enumerate(step.writes.items()):
            if name in outside or not result[1]:
                continue
            over = step.reads[:1] if step.view else step.in_place if order == 0 else ()
            block = next(
                (block_of[each] for each in over if each in block_of
                 and (step.view or (open_uses[block_of[each]] == 1 and results[block_of[each]] == result))),
                None,
            )  # fmt: skip
            if block is None:
                found = next((place for place, (_, kept) in enumerate(free) if kept == result), None)
                if found is None:
                    block = len(results)
                    results.append(result)
                    taken_at[block] = index
                else:
                    block = free.pop(found)[0]
            block_of[name] = block
            open_uses[block] = open_uses.get(block, 0) + uses.get(name, 0)
            fresh.append(name)
        done = []
        for name in step.reads:
            if name in block_of:
                open_uses[block_of[name]] -= 1
                done.append(block_of[name])
        done += [block_of[name] for name in fresh if not uses.get(name)]
        for block in dict.fromkeys(done):
            if not open_uses[block]:
                free.insert(0, (block, results[block]))
                given_at[block] = index
    events: list[tuple[int, int, int, int]] = []
    for block, (_, size) in enumerate(results):
        events.append((taken_at[block], 0, block, aligned(size)))
        events.append((given_at.get(block, len(steps)), 1, block, 0))
    return [(block, size) for _, _, block, size in sorted(events)]


class Arena:
    """Regions of memory of which blocks are taken and given back, as ONNX Runtime's default arena does.

    A block goes into the smallest free piece that fits, which it parts if at least half of it is left over; where none fits, a
    region is taken from the system, each at least twice as large as the last one but for those that had to grow.
    """

    def __init__(self) -> None:
        self.regions_bytes = 0
        self._next_bytes = FIRST_REGION_BYTES
        self._free: list[tuple[int, int]] = []
        """(start, bytes) of free pieces; regions do not touch."""

    def take(self, size_bytes: int) -> tuple[int, int]:
        """Return (start, bytes) of a block."""
        size = aligned(size_bytes, _SLOT_BYTES)
        fitting = [piece for piece in self._free if piece[1] >= size]
        if not fitting:
            fitting = [self._grown(size)]
        start, length = min(fitting, key=lambda piece: (piece[1], piece[0]))
        self._free.remove((start, length))
        if length >= 2 * size:
            self._free.append((start + size, length - size))
            return start, size
        return start, length

    def give_back(self, block: tuple[int, int]) -> None:
        """Join a block with the free pieces that it touches."""
        start, length = block
        for piece in [each for each in self._free if each[0] + each[1] == start or each[0] == start + length]:
            self._free.remove(piece)
            start, length = min(start, piece[0]), length + piece[1]
        self._free.append((start, length))

    def _grown(self, size: int) -> tuple[int, int]:
        grew = self._next_bytes < size
        while self._next_bytes < size:
            self._next_bytes *= 2
        # A gap keeps pieces of different regions apart.
        piece = (2 * self.regions_bytes + _SLOT_BYTES, self._next_bytes)
        self.regions_bytes += self._next_bytes
        if not grew:
            self._next_bytes *= 2
        self._free.append(piece)
        return piece
