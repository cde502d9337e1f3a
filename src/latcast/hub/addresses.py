"""Addresses that ask, and numbers kept of them in memory that all workers of a server share: a limit holds over all of them."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path

import numpy as np

FOLDER = "LATCAST_HUB_SHARED"
"""Environment variable with the folder that workers share; a single process has none."""

PLACE = "LATCAST_HUB_PLACE"
"""Environment variable with a worker's number among them, from 0 on."""

MOST_WORKERS = 64

SETS, WAYS = 1280, 8
"""Sets of places for addresses, and places of a set. Of a full set the place used longest ago is taken: an attacker with more
addresses than places is not held by counting."""


def network_of(address: str) -> str:
    """Return what counts as one address: of IPv6 a /64, which one customer has alone."""
    if ":" not in address:
        return address
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    assert isinstance(found, IPv6Address)
    return str(found.ipv4_mapped or ip_network((found, 64), strict=False))


def own_place() -> int:
    """Return this worker's number."""
    return int(os.environ.get(PLACE, "0"))


class AddressTable:
    """A row of numbers for each address that was seen lately.

    A worker that is killed leaves no lock behind. Where an address lies depends on a secret, so that none can push another out.

    Args:
        name: Of the table: workers see the same numbers under it.
        columns: Numbers of a row, 0 at first.
    """

    def __init__(self, name: str, columns: int) -> None:
        shape = (SETS, WAYS, 2 + columns)  # the address, when it was used, and its numbers
        folder = os.environ.get(FOLDER)
        self._file: int | None = None
        if folder is None:
            self._secret = os.urandom(16)
            self._rows: np.ndarray = np.zeros(shape)
        else:
            # The folder's name was drawn for this server, and others on the network do not see it.
            self._secret = blake2b(f"{folder}/{name}".encode(), digest_size=16).digest()
            descriptor = os.open(Path(folder) / f"{name}.addresses", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            size_bytes = 8 * math.prod(shape)
            os.ftruncate(descriptor, size_bytes)
            self._rows = np.frombuffer(mmap.mmap(descriptor, size_bytes), dtype=np.float64).reshape(shape)
            self._file = descriptor

    @contextmanager
    def row(self, address: str, now_s: float) -> Iterator[tuple[np.ndarray, bool]]:
        """Yield the numbers of an address, which may be changed, and whether they are new; other workers wait meanwhile.

        Args:
            address: As :func:`network_of` counts them.
            now_s: On a clock that all workers share.
        """
        digest = blake2b(address.encode("utf-8", "surrogatepass"), digest_size=6, key=self._secret).digest()
        wanted = int.from_bytes(digest, "big") + 1
        rows = self._rows[wanted % SETS]
        with self._locked():
            known = np.flatnonzero(rows[:, 0] == wanted)
            new = not len(known)
            # A free place, else that used longest ago.
            row = rows[np.argmin(np.where(rows[:, 0] == 0, -1.0, rows[:, 1])) if new else known[0]]
            if new:
                row[:] = 0.0
                row[0] = wanted
            row[1] = now_s
            yield row[2:], new

    def clear(self, column: int) -> None:
        """Set a column of all addresses to 0."""
        with self._locked():
            self._rows[:, :, 2 + column] = 0.0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._file is None:
            yield
            return
        import fcntl  # where there are no several workers there may be none

        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
