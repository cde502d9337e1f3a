"""Broken files out of valid ones, and what a reader may do with them: read them, or refuse them in one line."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

from latcast.errors import LatcastError

CASES_VARIABLE = "LATCAST_FUZZ_CASES"
"""How many cases all fuzz tests together try, 2,000 where it is not set."""

USUAL_CASES = 2_000

INTERESTING_BYTES = (
    b"\x00", b"\xff", b"\x7f", b"\x80", b"\n", b'"', b"{", b"[", b"]", b"}", b",", b"-", b"\x1b[31m", b"\xed\xa0\x80",
)  # fmt: skip
INTERESTING_NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**63, 2**64 - 1)
INTERESTING_TEXTS = (
    b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1", b"0", b"9" * 25, b"9" * 5000, b"1e308", b"null", b"true", b"[]", b"{}",
    b'""', b'"\\ud800"', b'"\\u001b[31m"', b"[" * 2000, "١٢".encode(), b"0x10", b"inf", b"nan", b"a" * 20_000,
)  # fmt: skip


def case_count(share: float) -> int:
    """How many cases one test tries, given its share of all."""
    return max(1, round(share * int(os.environ.get(CASES_VARIABLE, USUAL_CASES))))


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


def outcome(act: Callable[[], object], what: str) -> str:
    """ "read" or "refused"; anything else that comes out of ``act`` fails, and the message says of ``what``."""
    try:
        act()
    except LatcastError as problem:
        text = str(problem)
        assert text.isprintable(), f"{what}: {text!r}"
        assert 0 < len(text) <= 500, f"{what}: {len(text)} characters"
        return "refused"
    except Exception as problem:
        raise AssertionError(f"{what}: {type(problem).__name__} escaped: {str(problem)[:300]!r}") from problem
    return "read"
