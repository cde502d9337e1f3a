"""Reading an upload's body: never more of it than is allowed, compressed or not."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator

from latcast.errors import RepositoryError
from latcast.hub.validation import MAX_BODY_BYTES, MAX_CONTENT_BYTES

BODY_TIMEOUT_S = 60.0
"""A sender slower than that holds a connection for nothing."""


class TooLargeError(RepositoryError):
    """More than a request may hold."""


class UnreadableBodyError(RepositoryError):
    """Not compressed as its header says, or cut off."""


async def read_body(stream: AsyncIterator[bytes], encoding: str) -> bytes:
    """The uncompressed body of a request.

    Args:
        stream: Its portions.
        encoding: Its ``Content-Encoding``: "gzip", or empty.

    Raises:
        TooLargeError: It is larger than allowed, as it comes or uncompressed.
        UnreadableBodyError: Another encoding, damaged, or too slow.
    """
    if encoding not in ("", "identity", "gzip"):
        raise UnreadableBodyError(f"Content-Encoding '{encoding[:40]}'; expected gzip or none")
    try:
        return await asyncio.wait_for(_read(stream, zlib.decompressobj(wbits=31) if encoding == "gzip" else None), BODY_TIMEOUT_S)
    except asyncio.TimeoutError:
        raise UnreadableBodyError(f"the upload took longer than {BODY_TIMEOUT_S:.0f} s to arrive; send less at once") from None
    except zlib.error as problem:
        raise UnreadableBodyError(f"not gzip as its header says ({problem})") from problem


async def _read(stream: AsyncIterator[bytes], unpacker: zlib._Decompress | None) -> bytes:
    portions: list[bytes] = []
    wire_bytes = content_bytes = 0
    async for portion in stream:
        wire_bytes += len(portion)
        if wire_bytes > MAX_BODY_BYTES:
            raise TooLargeError(f"more than {MAX_BODY_BYTES} bytes; send several uploads")
        if unpacker is not None:
            portion = unpacker.decompress(portion, MAX_CONTENT_BYTES + 1 - content_bytes)
        content_bytes += len(portion)
        if content_bytes > MAX_CONTENT_BYTES:
            raise TooLargeError(f"more than {MAX_CONTENT_BYTES} bytes uncompressed; send several uploads")
        portions.append(portion)
    if unpacker is not None and (not unpacker.eof or unpacker.unused_data):
        raise UnreadableBodyError("gzip content that is cut off or followed by something else")
    return b"".join(portions)
