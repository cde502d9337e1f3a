"""Addresses that ask, and numbers kept of them in memory that all workers of a server share: a limit holds over all of them."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path

FOLDER = "LATCAST_HUB_SHARED"
"""Environment variable with the folder that workers share; a single process has none."""

PLACE = "LATCAST_HUB_PLACE"
"""Environment variable with a worker's number among them, from 0 on."""

MOST_WORKERS = 64

ROWS, WAYS = 10_240, 8
"""Addresses that are kept, and places that one may have. Of a full set of places the one used longest ago is taken: an attacker
with more addresses than that is not held by counting."""


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
        self._stride = columns + 2  # the address, and when it was used
        size = ROWS * self._stride * 8
        folder = os.environ.get(FOLDER)
        self._file = -1
        if folder is None:
            self._secret = os.urandom(16)
        else:
            # The folder's name was drawn for this server, and others on the network do not see it.
            self._secret = blake2b(f"{folder}/{name}".encode(), digest_size=16).digest()
            self._file = os.open(Path(folder) / f"{name}.addresses", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.ftruncate(self._file, size)
        self._numbers = memoryview(mmap.mmap(self._file, size)).cast("d")

    @contextmanager
    def row(self, address: str, now_s: float) -> Iterator[tuple[memoryview[float], bool]]:
        """Yield the numbers of an address, which may be changed, and whether they are new; other workers wait meanwhile.

        Args:
            address: As :func:`network_of` counts them.
            now_s: On a clock that all workers share.
        """
        digest = blake2b(address.encode("utf-8", "surrogatepass"), digest_size=6, key=self._secret).digest()
        wanted = float(int.from_bytes(digest, "big") + 1)
        first = int(wanted) % (ROWS // WAYS) * WAYS * self._stride
        places = range(first, first + WAYS * self._stride, self._stride)
        with self._locked():
            numbers = self._numbers
            found = next((place for place in places if numbers[place] == wanted), None)
            new = found is None
            if found is None:
                found = min(places, key=lambda place: (numbers[place] != 0, numbers[place + 1]))
                for column in range(self._stride):
                    numbers[found + column] = 0.0
                numbers[found] = wanted
            numbers[found + 1] = now_s
            yield numbers[found + 2 : found + self._stride], new

    def clear(self, column: int) -> None:
        """Set a column of all addresses to 0."""
        with self._locked():
            for place in range(2 + column, len(self._numbers), self._stride):
                self._numbers[place] = 0.0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._file < 0:
            yield
            return
        import fcntl  # where there are no several workers there may be none

        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
