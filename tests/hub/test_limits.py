"""Limits of how often an address may ask."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from latcast.hub import addresses
from latcast.hub.connections import Door
from latcast.hub.limits import RateLimit


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_burst_of_an_address_is_allowed_and_then_a_steady_rate() -> None:
    clock = Clock()
    limit = RateLimit("test", 6, burst=3, clock=clock)

    assert [limit.wait_s("a") for _ in range(5)] == [0, 0, 0, 10, 10]
    assert limit.wait_s("b") == 0
    clock.now_s = 20.0
    assert [limit.wait_s("a") for _ in range(3)] == [0, 0, 10]


def test_the_cost_of_an_answer_delays_the_next_one() -> None:
    """A burst of 3 at one a second: one taken and 4.5 charged leave -2.5, so that the next waits 3.5 seconds."""
    clock = Clock()
    limit = RateLimit("test", 60, burst=3, clock=clock)
    limit.wait_s("a")
    limit.charge("a", 4.5)

    assert (limit.wait_s("a"), limit.wait_s("a", 0.0), limit.wait_s("b")) == (4, 3, 0)
    clock.now_s = 2.6
    assert (limit.wait_s("a"), limit.wait_s("a", 0.0)) == (1, 0)
    clock.now_s = 3.5
    assert limit.wait_s("a") == 0
    limit.charge("a", -5.0)  # what cost less than was taken gives nothing back
    assert limit.wait_s("a") == 1


def test_of_many_addresses_those_that_asked_last_are_counted() -> None:
    clock = Clock()
    limit = RateLimit("test", 60, burst=1, clock=clock)
    many = 2 * addresses.SETS * addresses.WAYS
    for index in range(many):
        clock.now_s += 1e-6
        limit.wait_s(str(index))

    last = [limit.wait_s(str(index)) for index in range(many - 100, many)]

    assert sum(last) > 95  # of each set of places the oldest goes, and sets are filled by chance
    assert limit.wait_s("0") == 0


@pytest.fixture
def as_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes of this process a worker of this number."""
    monkeypatch.setenv(addresses.FOLDER, str(tmp_path))

    def become(place: int) -> None:
        monkeypatch.setenv(addresses.PLACE, str(place))

    return become


def test_workers_count_the_requests_of_an_address_together(as_worker: Callable[[int], None]) -> None:
    clock = Clock()
    limits = []
    for place in range(3):
        as_worker(place)
        limits.append(RateLimit("reads", 60, burst=3, clock=clock))

    assert [limits[index % 3].wait_s("a") for index in range(5)] == [0, 0, 0, 1, 1]
    assert limits[2].wait_s("b") == 0
    assert RateLimit("writes", 60, burst=3, clock=clock).wait_s("a") == 0


def test_workers_count_the_connections_of_an_address_together(as_worker: Callable[[int], None]) -> None:
    doors = [Door(per_address=3), Door(per_address=3)]

    def entered(place: int, address: str = "10.0.0.1") -> bool:
        as_worker(place)
        return doors[place].enter(address)

    assert [entered(place) for place in (0, 1, 1, 0, 1)] == [True, True, True, False, False]
    assert entered(0, "10.0.0.2")
    as_worker(1)
    doors[1].leave("10.0.0.1")
    assert entered(0)
    assert not entered(1)
    doors[0] = Door(per_address=3)  # a worker was killed, and another one begins in its place
    assert entered(0)
    assert entered(0)
    assert not entered(1)


def test_a_killed_worker_leaves_no_lock(as_worker: Callable[[int], None]) -> None:
    as_worker(0)
    limit = RateLimit("reads", 60, burst=3)
    code = (
        "import os, signal; from latcast.hub.addresses import AddressTable\n"
        "with AddressTable('reads', 2).row('a', 0.0): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL

    assert limit.wait_s("b") == 0
