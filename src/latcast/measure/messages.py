"""The protocol of a worker and its client: one JSON object a line, over a pair of pipes.

Client to worker (key ``request``): ``open``, ``calibrate``, ``measure``, ``close``. Worker to client (key ``event``):
``opened``, ``refused``, ``calibrated``, ``started`` (a subject is about to be loaded, run or profiled: a worker that
falls silent after it failed with this subject), ``measured``, ``idle`` (a request is done).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from latcast.errors import MeasurementError

Message = Mapping[str, Any]


def encode(message: Message) -> bytes:
    """A message as one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """A message from one line.

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
    """Writes a message whole, however full the pipe is."""
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
        """A line that has already arrived, or None."""
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def receive(self) -> bool:
        """Waits for more bytes; False at the end of the stream."""
        chunk = os.read(self._descriptor, 1 << 16)
        self._buffer += chunk
        return bool(chunk)
