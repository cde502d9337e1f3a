"""Reads uploads: the size of the body, then sizes, types and texts of the records are checked before any is used.

An upload with anything malformed is refused whole, with the line; whether a record is plausible is a matter of
:mod:`latcast.hub.plausibility`.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from latcast.errors import HubError, LatcastError
from latcast.reading import MOST_RATIO, parse_json
from latcast.records import Measurement, Platform, Reference

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_BODY_BYTES = 8_000_000
"""Maximum request size, compressed."""

MAX_CONTENT_BYTES = 40_000_000
"""Maximum request size after decompression."""

FREE_BYTES = 1_000_000
"""A compressed body of at most this size uncompressed may be packed as densely as it likes."""

HEAD_BYTES, TFLITE = 8, b"TFL3"
"""Length of a TFLite file's head, and how it ends. Its weights cannot be cut out, so it is sent with zeros for them, as dense as
it likes."""

SEVERAL = "send several uploads"

MAX_RECORDS, MAX_LINES = 1000, 2000
MAX_LINE_BYTES = 1_000_000
MAX_DEPTH = 12
MAX_TEXT = 4000
MAX_PARAMETERS_BYTES = 20_000

MAX_INTEGER = 2**53
"""Beyond it, a JSON number is not the same for every reader."""

_SPACE = re.compile(r"[a-z0-9_]{1,64}(?:/[a-z0-9_.+-]{1,35})?")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z")
_HASH = re.compile(r"[0-9a-f]{16,64}")
_UNSTORABLE = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff]")
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Characters without width, and those that turn the direction of writing: a name that holds one is not what it seems."""


def parse_upload(content: bytes) -> list[Measurement]:
    """Read the measurements of a JSON Lines document; blank lines are skipped.

    Files are stored by the hash of their content and their name: a path that comes along is dropped, unread.

    Raises:
        HubError: There are too many lines, or one is too long or not a measurement; says which and why.
    """
    lines = content.count(b"\n")
    if lines > MAX_LINES:
        raise HubError(f"{lines} lines, expected at most {MAX_RECORDS} records, one a line; send them in several uploads")
    found: list[Measurement] = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if len(line) > MAX_LINE_BYTES:
            raise HubError(f"line {number}: {len(line)} bytes, expected at most {MAX_LINE_BYTES}")
        if not line.strip():
            continue
        if len(found) == MAX_RECORDS:
            raise HubError(f"line {number}: more than {MAX_RECORDS} records; send them in several uploads")
        data = parse_json(line, f"line {number}", error=HubError)
        try:
            found.append(_measurement(data))
        except (LatcastError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
            known = isinstance(problem, LatcastError)
            text = str(problem) if known else f"not a measurement ({type(problem).__name__}: {problem})"
            raise HubError(f"line {number}: {text}") from problem
    if not found:
        raise HubError("no measurement in the upload; expected JSON Lines, one measurement a line")
    return found


def _measurement(data: Any) -> Measurement:
    """Return a record as :meth:`Measurement.from_json` reads it, within what a stranger may send."""
    if not isinstance(data, dict):
        raise HubError(f"a {type(data).__name__} where a JSON object was expected")
    _check_values(data)
    measurement = Measurement.from_json(data)
    platform = Platform.parse(measurement.platform)
    if platform.device == "local":
        raise HubError("the platform's device is 'local', which means another machine everywhere; name the device")
    if measurement.taken_at and not _MOMENT.fullmatch(measurement.taken_at):
        raise HubError(f"taken_at '{measurement.taken_at[:40]}', expected a time in UTC such as 2026-01-31T12:00:00.000Z")
    for what, found, most in (
        ("characters of the platform", len(measurement.platform), 200),
        ("characters of the device", len(platform.device), 100),
        ("characters of the runtime", len(platform.runtime), 100),
        ("characters of the version", len(platform.runtime_version), 50),
        ("characters of the unit", len(platform.unit), 100),
        ("characters of the name", len(measurement.reference.name), 200),
        ("characters of statistic", len(measurement.statistic), 100),
        ("warmup_runs", measurement.warmup_runs, 1_000_000),
        ("runs", len(measurement.runs_ms), 10_000),
        ("executed kernels", len(measurement.executed), 10_000),
        ("bytes of the environment", len(json.dumps(dict(measurement.environment))), 60_000),
    ):
        if found > most:
            raise HubError(f"{found} {what}, expected at most {most}")
    return replace(measurement, reference=without_path(measurement.reference))


def _check_values(value: Any, depth: int = 0) -> None:
    """Refuse values that a database or another reader could choke on, at any depth."""
    if depth > MAX_DEPTH:
        raise HubError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise HubError(f"a text of {len(value)} characters, expected at most {MAX_TEXT}")
        if _UNSTORABLE.search(value):
            raise HubError("a text with control characters or broken Unicode")
        if _UNSEEN.search(value):
            raise HubError("a text with characters that have no width or turn the direction of writing")
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise HubError(f"an integer beyond ±{MAX_INTEGER}")
    elif isinstance(value, (dict, list)):
        for item in value if isinstance(value, list) else (*value, *value.values()):
            _check_values(item, depth + 1)


def without_path(reference: Reference) -> Reference:
    """Return a network as strangers may know it: a file by its hash and name, without where it lies.

    Raises:
        HubError: A file has no hash, or the reference is malformed.
    """
    if not _SPACE.fullmatch(reference.space):
        raise HubError(f"'{reference.space[:40]}' is not the name of a space")
    parameters = dict(reference.parameters)
    if reference.space == "file":
        parameters = {name: value for name, value in parameters.items() if name in ("sha256", "shapes", "signature")}
        if not _HASH.fullmatch(str(parameters.get("sha256", ""))):
            raise HubError("a file without the sha256 of its content")
    if len(json.dumps(parameters)) > MAX_PARAMETERS_BYTES:
        raise HubError(f"parameters of more than {MAX_PARAMETERS_BYTES} bytes")
    return Reference(reference.space, parameters, reference.name.rpartition("/")[2])


async def unpacked(request: Request, most_bytes: int, advice: str, *, may_be_tflite: bool = False) -> AsyncIterator[bytes]:
    """Yield portions of a request's body, uncompressed.

    Args:
        request: Its ``Content-Encoding`` is gzip, identity or empty.
        advice: What to do about a body that is larger.
        may_be_tflite: Whether a TFLite file may be packed as densely as it likes.

    Raises:
        HubError: More than ``most_bytes``, or packed more densely than any measurement or model without weights (413); another
            encoding, damaged, or cut off (400).
    """
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise HubError(f"Content-Encoding '{encoding[:40]}'; expected gzip or none", 400)
    unpacker = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
    size = packed_bytes = 0
    head = b""
    try:
        async for portion in request.stream():
            packed_bytes += len(portion)
            densest = most_bytes
            if unpacker is not None:
                beginning = b""
                if len(head) < HEAD_BYTES:
                    beginning = unpacker.decompress(portion, HEAD_BYTES - len(head))
                    head, portion = head + beginning, unpacker.unconsumed_tail
                if not (may_be_tflite and head.endswith(TFLITE)):
                    densest = max(FREE_BYTES, MOST_RATIO * packed_bytes)
                portion = beginning + unpacker.decompress(portion, min(most_bytes, densest) + 1 - size)
            size += len(portion)
            if size > most_bytes:
                raise HubError(f"more than {most_bytes} bytes uncompressed; {advice}", 413)
            if size > densest:
                found = f"{size} bytes packed into {packed_bytes}"
                raise HubError(f"{found}, expected at most {MOST_RATIO} times as much; {advice}", 413)
            yield portion
    except zlib.error as problem:
        raise HubError(f"not gzip as its header says ({problem})", 400) from problem
    if unpacker is not None and (not unpacker.eof or unpacker.unused_data):
        raise HubError("gzip content that is cut off or followed by something else", 400)
