"""Files whose parts are changed as their format has them: fields, offsets, members, tables. Few are refused at the first byte."""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections.abc import Sequence

NUMBERS = (
    0, 1, 2, 3, 5, 7, 64, 127, 128, 255, 4096, 65535, 65537, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
TEXTS = (
    b"", b"x", b"\x1b[2J", b"\r\n", "\u202e".encode(), b"\xff\xfe", b"\xed\xa0\x80", b"a" * 3000, b"--on", b"/dev/zero", b"../x",
    b"NaN", b"1e400", b"-1", b"9" * 5000, b"\x00",
)  # fmt: skip

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Field = tuple[int, int, bytes]
"""Number, wire type and content of a field of protobuf; of a varint as it is encoded."""


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def _read_varint(data: bytes, at: int) -> int:
    """Where a varint ends."""
    while data[at] >= 0x80:
        at += 1
    return at + 1


def fields_of(data: bytes) -> list[Field] | None:
    """The fields of a message; None of what is none."""
    found: list[Field] = []
    at = 0
    try:
        while at < len(data):
            end = _read_varint(data, at)
            key = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(data[at:end]))
            at = end
            kind = key & 7
            if kind == _VARINT:
                end = _read_varint(data, at)
            elif kind == _BYTES:
                start = _read_varint(data, at)
                end = start + sum((byte & 0x7F) << 7 * place for place, byte in enumerate(data[at:start]))
                at = start
            elif kind in (_FIXED32, _FIXED64):
                end = at + (4 if kind == _FIXED32 else 8)
            else:
                return None
            if end > len(data) or not 0 < key >> 3 < 1 << 20:
                return None
            found.append((key >> 3, kind, data[at:end]))
            at = end
    except IndexError:
        return None
    return found


def written(fields: Sequence[Field]) -> bytes:
    return b"".join(
        varint(number << 3 | kind) + (varint(len(content)) if kind == _BYTES else b"") + content
        for number, kind, content in fields
    )


def changed_message(data: bytes, chance: random.Random, depth: int = 0) -> bytes:
    """One field changed, in the message or in one that lies in it."""
    fields = fields_of(data)
    if not fields:
        return chance.choice(TEXTS) if chance.random() < 0.5 else data + data
    inner = [place for place, (_, kind, content) in enumerate(fields) if kind == _BYTES and len(content) > 1]
    if inner and depth < 12 and chance.random() < 0.8:
        place = chance.choice(inner)
        number, kind, content = fields[place]
        fields[place] = (number, kind, changed_message(content, chance, depth + 1))
        return written(fields)
    place = chance.randrange(len(fields))
    number, kind, content = fields[place]
    action = chance.randrange(12)
    if action == 0:
        del fields[place]
    elif action == 1:
        fields[place:place] = [fields[place]] * chance.choice((1, 2, 40, 3000))
    elif action == 2:
        chance.shuffle(fields)
    elif action == 3:
        fields[place] = (chance.choice((1, 2, 3, 5, 6, 7, 8, 9, 11, 13, 14, 15, 20, 25, 4000)), kind, content)
    elif action == 4:
        fields[place] = (number, _VARINT, varint(chance.choice(NUMBERS)))
    elif action == 5:
        fields[place] = (number, _BYTES, chance.choice(TEXTS))
    elif action == 6:
        fields[place] = (number, _BYTES, written(fields[: chance.randrange(1, len(fields) + 1)]))  # the message in itself
    elif action == 7:
        nested = content
        for _ in range(chance.choice((2, 30, 200))):
            nested = written([(number, _BYTES, nested)])
        fields[place] = (number, _BYTES, nested)
    elif action == 8:
        fields[place] = (number, *chance.choice(((_FIXED32, b"\xff" * 4), (_FIXED64, b"\x7f" * 8))))
    elif action == 9 and kind == _BYTES:
        # A length that says another size than there is.
        lying = varint(number << 3 | kind) + varint(max(0, len(content) + chance.choice((-1, 1, 7, 2**31, 2**62)))) + content
        return written(fields[:place]) + lying + written(fields[place + 1 :])
    elif action == 10:
        other = chance.randrange(len(fields))
        fields[place], fields[other] = (number, *fields[other][1:]), (fields[other][0], kind, content)  # type: ignore[assignment]
    else:
        fields[place] = (number, _BYTES, varint(chance.choice(NUMBERS)) * chance.choice((1, 9, 70, 5000)))
    return written(fields)


def changed_flatbuffer(data: bytes, chance: random.Random) -> bytes:
    """Offsets, lengths of vectors and slots of tables of a flatbuffer changed, or made to share what they point to."""
    found = bytearray(data)
    words = range(0, len(found) - 3, 4)
    offsets = [at for at in words if 0 < int.from_bytes(found[at : at + 4], "little") < len(found) - at]
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.choice(offsets)
        target = at + int.from_bytes(found[at : at + 4], "little")
        action = chance.randrange(8)
        if action == 0:  # points to what another points to
            other = chance.choice(offsets)
            to = other + int.from_bytes(found[other : other + 4], "little")
            found[at : at + 4] = ((to - at) % (1 << 32)).to_bytes(4, "little")
        elif action == 1:  # points back, to itself, or out of the file
            found[at : at + 4] = (chance.choice((-at, 0, 4, len(found), len(found) - at - 2)) % (1 << 32)).to_bytes(4, "little")
        elif action == 2 and target + 4 <= len(found):  # a vector longer than the file, or than it was
            found[target : target + 4] = (chance.choice(NUMBERS) % (1 << 32)).to_bytes(4, "little")
        elif action == 3 and target + 4 <= len(found):  # a table with another table's slots
            found[target : target + 4] = (chance.choice((1, -1)) * chance.choice(words) % (1 << 32)).to_bytes(4, "little")
        elif action == 4:  # a slot of 16 bits
            found[at : at + 2] = (chance.choice(NUMBERS) % (1 << 16)).to_bytes(2, "little")
        elif action == 5:  # many pointers to one place
            length = 4 * chance.choice((2, 10, 100))
            for step in range(at, min(at + length, len(found) - 3), 4):
                found[step : step + 4] = ((target - step) % (1 << 32)).to_bytes(4, "little")
        elif action == 6:
            found[at : at + 4] = (chance.choice(NUMBERS) % (1 << 32)).to_bytes(4, "little")
        else:
            found[at] = chance.randrange(256)
    return bytes(found)


def changed_zip(data: bytes, chance: random.Random) -> bytes:
    """Fields of the directory, of the headers before members, or of the end of a zip changed, so that they disagree."""
    found = bytearray(data)
    kind = chance.choice((b"PK\x01\x02", b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"))
    places = [at for at in range(len(found) - 3) if found[at : at + 4] == kind]
    # Version, flags, method, ..., CRC, sizes, lengths of names, ..., attributes, where the member lies.
    fields = {
        b"PK\x01\x02": ((6, 2), (8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (32, 2), (38, 4), (42, 4), (46, 1)),
        b"PK\x03\x04": ((4, 2), (6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2), (30, 1)),
        b"PK\x05\x06": ((4, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)),
    }[kind]
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.choice(places)
        place, width = chance.choice(fields)
        number = chance.choice((*NUMBERS, 8, 9, 12, 14, 93, 95, chance.randrange(256))) % (1 << 8 * width)
        found[at + place : at + place + width] = number.to_bytes(width, "little")
    if chance.random() < 0.1:
        del found[chance.randrange(len(found)) :]
    if chance.random() < 0.1:
        found += found[-200:]
    return bytes(found)


def changed_gzip(content: bytes, chance: random.Random) -> bytes:
    """Gzip of a content in several members, cut, followed by something else, or with a header, sum or size that is not so."""
    cut = chance.randrange(len(content) + 1)
    found = bytearray(gzip.compress(content[:cut], mtime=0) + gzip.compress(content[cut:], mtime=0))
    action = chance.randrange(8)
    if action == 0:
        del found[chance.randrange(len(found)) :]
    elif action == 1:
        found += chance.choice((b"\x00" * 700, b"x", b"\x1f\x8b", bytes(found[:20])))
    elif action == 2:
        found[3] = chance.randrange(256)  # which further fields the header has
    elif action == 3:
        found[-8:] = struct.pack("<II", zlib.crc32(content), chance.choice(NUMBERS) % (1 << 32))
    elif action == 4:
        found[2] = chance.randrange(256)
    elif action == 5:
        found[0:0] = gzip.compress(b"\n" * chance.choice((1, 1000, 200_000)), mtime=0)
    elif action == 6:
        found[chance.randrange(10, len(found))] ^= 1 << chance.randrange(8)
    return bytes(found)


_TOML = (
    b"[tiers.%s]\n", b"%s = %s\n", b'"%s" = %s\n', b"%s.%s.%s = 1\n", b"[[tiers]]\n", b"[%s.%s]\n", b"%s = [%s, %s]\n",
    b"%s = {a = %s, %s = 2}\n", b'platforms = ["%s"]\n', b"# %s\n", b"max_ms = %s\n", b'"""%s', b"models = %s\n",
)  # fmt: skip
_TOML_VALUES = (
    *TEXTS, b"tiers", b"max_ms", b"platforms", b"a", b"inf", b"nan", b"0x" + b"f" * 5000, b"1e309", b"1_0", b"[" * 600,
    b"{a=" * 600, b"a." * 1000 + b"a", b"1979-05-27T07:32:00Z", b"true", b'"\\ud800"', b'"\\u001b"', b"[]", b"{}", b"20", b"-0",
)  # fmt: skip


def changed_toml(content: bytes, chance: random.Random) -> bytes:
    """Lines of a TOML file removed, doubled, moved, and put beside lines with odd keys and values."""
    lines = content.splitlines(keepends=True)
    for _ in range(chance.choice((1, 2, 5))):
        place = chance.randrange(len(lines) + 1)
        action = chance.randrange(5)
        if action == 0 and lines:
            del lines[min(place, len(lines) - 1)]
        elif action == 1 and lines:
            lines[place:place] = [chance.choice(lines)] * chance.choice((1, 1000))
        elif action == 2 and place < len(lines):
            key, equals, _ = lines[place].partition(b"=")
            lines[place] = key + equals + b" " + chance.choice(_TOML_VALUES) + b"\n"
        else:
            shape = chance.choice(_TOML)
            lines.insert(place, shape % tuple(chance.choice(_TOML_VALUES) for _ in range(shape.count(b"%s"))))
    return b"".join(lines)


def changed_table(content: bytes, chance: random.Random) -> bytes:
    """Cells of a CSV file replaced, quoted, removed or doubled; rows doubled; the separator or the ends of lines changed."""
    rows = [line.split(b",") for line in content.splitlines()]
    for _ in range(chance.choice((1, 1, 2, 5))):
        row = chance.choice(rows)
        action = chance.randrange(7)
        if action == 0 and row:
            row[chance.randrange(len(row))] = chance.choice(
                (*TEXTS, b'"', b'"a\nb"', b"1,5", b"[1]", b"{}", b"inf", b"0x10", b"1_0")
            )
        elif action == 1 and row:
            del row[chance.randrange(len(row))]
        elif action == 2:
            row += [chance.choice(TEXTS)[:20]] * chance.choice((1, 1, 200))
        elif action == 3:
            rows += [list(row)] * chance.choice((1, 1000))
        elif action == 4 and len(rows) > 1:
            rows.remove(row)
        elif action == 5 and row:
            place = chance.randrange(len(row))
            row[place] = b'"' + row[place] + b'"'
        else:
            chance.shuffle(rows)
    comma, end = chance.choice(((b",", b"\n"), (b",", b"\n"), (b",", b"\r\n"), (b";", b"\n"), (b"\t", b"\r"), (b",", b"\n\n")))
    return chance.choice((b"", b"", b"", b"\xef\xbb\xbf")) + end.join(comma.join(row) for row in rows) + end
