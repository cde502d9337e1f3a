"""Broken files out of valid ones, and what a reader may do with them: read them, or refuse them in one line."""

from __future__ import annotations

import json
import os
import random
import resource
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from latcast.errors import LatcastError

CASES_VARIABLE = "LATCAST_FUZZ_CASES"
"""How many cases all fuzz tests together try, 2,000 where it is not set."""

USUAL_CASES = 2_000

SEED_VARIABLE = "LATCAST_FUZZ_SEED"
"""Any text; another one tries other cases."""

MOST_MEMORY_BYTES = 2 << 30
"""What reading a case may take beyond what the process has."""

INTERESTING_BYTES = (
    b"\x00", b"\xff", b"\x7f", b"\x80", b"\n", b'"', b"{", b"[", b"]", b"}", b",", b"-", b"\x1b[31m", b"\xed\xa0\x80",
)  # fmt: skip
INTERESTING_NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**63, 2**64 - 1)
INTERESTING_TEXTS = (
    b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1", b"0", b"9" * 25, b"9" * 5000, b"1e308", b"null", b"true", b"[]", b"{}",
    b'""', b'"\\ud800"', b'"\\u001b[31m"', b"[" * 2000, "١٢".encode(), b"0x10", b"inf", b"nan", b"a" * 20_000,
)  # fmt: skip
INTERESTING_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 0.0, -0.5, 1e-320, 1e308, float("inf"), float("nan"), "", "x",
    "\x1b[31m\u202e", "\ud800", "a" * 20_000, [], [None], [[]], {}, {"": None}, [1] * 1000,
)  # fmt: skip


def case_count(share: float) -> int:
    """How many cases one test tries, given its share of all."""
    return max(1, round(share * int(os.environ.get(CASES_VARIABLE, USUAL_CASES))))


def chance_of(test: str) -> random.Random:
    """The random choices of one test."""
    return random.Random(f"{os.environ.get(SEED_VARIABLE, '')} {test}")


def mutated(data: bytes, chance: random.Random) -> bytes:
    """One to eight changes of bytes: flipped, replaced, removed, doubled, moved, cut off, or made an odd number or text."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        place = chance.randrange(len(found) + 1)
        length = min(chance.choice((1, 2, 4, 8, 64, 1000)), len(found) - place)
        change = chance.randrange(9)
        if change == 0 and length:
            found[place] ^= 1 << chance.randrange(8)
        elif change == 1:
            found[place : place + length] = bytes(chance.randrange(256) for _ in range(length))
        elif change == 2:
            del found[place : place + length]
        elif change == 3:
            found[place:place] = found[place : place + length] * chance.choice((1, 2, 50))
        elif change == 4:
            piece = found[place : place + length]
            del found[place : place + length]
            other = chance.randrange(len(found) + 1)
            found[other:other] = piece
        elif change == 5 and chance.random() < 0.3:
            del found[place:]
        elif change == 6:
            width = chance.choice((1, 2, 4, 8))
            number = chance.choice(INTERESTING_NUMBERS) % (1 << 8 * width)
            found[place : place + width] = number.to_bytes(width, chance.choice(("little", "big")))
        elif change == 7:
            found[place : place + length] = chance.choice(INTERESTING_BYTES)
        else:
            found[place : place + length] = chance.choice(INTERESTING_TEXTS)
    return bytes(found)


def mutated_value(value: Any, chance: random.Random) -> Any:
    """A JSON value with one value in it replaced, removed, doubled or put under another's name."""
    paths = [path for path in _paths(value) if path]
    if not paths:
        return chance.choice(INTERESTING_VALUES)
    path = chance.choice(paths)
    copied = json.loads(json.dumps(value))
    holder = copied
    for step in path[:-1]:
        holder = holder[step]
    change = chance.randrange(6)
    last = path[-1]
    if change == 0:
        del holder[last]
    elif change == 1 and isinstance(holder, list):
        holder.extend([holder[last]] * chance.choice((1, 3, 200)))
    elif change == 2 and isinstance(holder, dict):
        holder[chance.choice(["", "x" * 5000, "\x1b[0m", *holder])] = holder.pop(last)
    elif change == 3 and type(holder[last]) in (int, float):
        holder[last] *= chance.choice((-1, 0, 1e-300, 1e300, 2**40))
    elif change == 4:
        holder[last] = [holder[last]]
    else:
        holder[last] = chance.choice(INTERESTING_VALUES)
    return copied


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from _paths(child, (*path, key))


def try_cases(
    cases: Iterator[bytes], read: Callable[[Path], object], paths: Sequence[Path], *, sound: bytes, count: int
) -> Mapping[str, int]:
    """Writes each case to a file and reads it.

    Args:
        cases: Contents; each is written to the paths in turn.
        read: The reader.
        paths: Where cases are written, for readers that go by the name's ending.
        sound: What cases were made from; it must be read, or every refusal could be of the test's own making.
        count: How many cases are tried.

    Returns:
        How many were read, and how many refused.

    Raises:
        AssertionError: Something else than a LatcastError escaped, or its text is no printable line of at most 500 characters;
            the file is left at its path, and the message names it.
    """
    outcomes: Counter[str] = Counter()
    with limited_memory():
        for path in paths:
            path.write_bytes(sound)
            assert outcome(lambda path=path: read(path), str(path)) == "read", f"{path} is refused unchanged"  # type: ignore[misc]
        for number in range(count):
            path = paths[number % len(paths)]
            path.write_bytes(next(cases))
            outcomes[outcome(lambda path=path: read(path), str(path))] += 1  # type: ignore[misc]
    print(f"{count} cases: {outcomes['read']} read, {outcomes['refused']} refused")  # for pytest -rP
    return outcomes


def outcome(act: Callable[[], object], what: str) -> str:
    """Gives "read" or "refused"; see :func:`try_cases`."""
    try:
        act()
    except LatcastError as problem:
        text, most = str(problem), problem.most_characters
        assert text.isprintable(), f"{what}: {text!r}"
        assert 0 < len(text) <= most, f"{what}: {len(text)} characters"
        return "refused"
    except Exception as problem:
        raise AssertionError(f"{what}: {type(problem).__name__} escaped: {str(problem)[:300]!r}") from problem
    return "read"


@contextmanager
def limited_memory() -> Iterator[None]:
    """A MemoryError instead of a machine that swaps."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MOST_MEMORY_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
