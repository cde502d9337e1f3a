"""The protocol of a worker and its client: one JSON object a line, over a pair of pipes.

Client to worker (key ``request``): ``hello``, ``open``, ``calibrate``, ``measure``, ``close``. Worker to client (key ``event``):
``hello`` (its code and its clock), ``opened``, ``refused``, ``calibrated``, ``started`` (a subject is about to be loaded, run or
profiled: a worker that falls silent after it failed with this subject), ``measured``, ``idle`` (a request is done).

Between two machines a link may be cut without notice at either end. There the client says ``hello`` first, with the longest
silence (``silence_s``) after which the worker ends, so that it does not disturb the next one; and sends empty lines between.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from latcast.errors import MeasurementError
from latcast.version import VERSION

Message = Mapping[str, Any]

SILENCE_S = 60.0
"""Silence after which a worker on another machine takes its client for lost; the client sends every sixth of it."""

SILENCE_STATUS = 96
"""Exit status of a worker that ends for silence."""


@cache
def code_id() -> str:
    """Return the version of latcast and a hash of its modules: records of different ones do not compare."""
    digest = hashlib.sha256()
    package = Path(__file__).resolve().parents[1]
    for file in sorted(package.rglob("*.py")):
        digest.update(str(file.relative_to(package).as_posix()).encode() + b"\0" + file.read_bytes())
    return f"{VERSION}-{digest.hexdigest()[:8]}"


def encode(message: Message) -> bytes:
    """Return a message as one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Return a message from one line.

    Raises:
        MeasurementError: The line is not a JSON object, so something else writes into the pipe.
    """
    try:
        message = json.loads(line)
    except ValueError as problem:
        raise MeasurementError(f"a message is not JSON: {line[:80]!r}") from problem
    if not isinstance(message, dict):
        raise MeasurementError(f"a message is not a JSON object: {line[:80]!r}")
    return message


def send(descriptor: int, message: Message) -> None:
    """Write a message whole, however full the pipe is."""
    rest = memoryview(encode(message))
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class LineReader:
    """Splits what arrives on a descriptor into lines."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._searched = 0

    def take_line(self) -> bytes | None:
        """Return a line that has already arrived, or None."""
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def receive(self, patience_s: float | None = None) -> bool:
        """Wait for more bytes; False at the end of the stream.

        Raises:
            TimeoutError: None came in this time.
        """
        if patience_s is not None and not select.select([self._descriptor], [], [], patience_s)[0]:
            raise TimeoutError
        chunk = os.read(self._descriptor, 1 << 16)
        self._buffer += chunk
        return bool(chunk)
