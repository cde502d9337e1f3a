"""How often an address may ask."""

from __future__ import annotations

from latcast.hub import limits
from latcast.hub.limits import RateLimit


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_burst_is_allowed_and_then_a_steady_rate() -> None:
    clock = Clock()
    limit = RateLimit(60, burst=3, clock=clock)

    assert [limit.wait_s("a") for _ in range(5)] == [0, 0, 0, 1, 1]
    clock.now_s = 2.0
    assert [limit.wait_s("a") for _ in range(3)] == [0, 0, 1]


def test_addresses_do_not_share() -> None:
    limit = RateLimit(60, burst=1, clock=Clock())

    assert [limit.wait_s(key) for key in ("a", "a", "b")] == [0, 1, 0]


def test_the_wait_is_long_enough() -> None:
    clock = Clock()
    limit = RateLimit(6, burst=1, clock=clock)
    limit.wait_s("a")
    wait_s = limit.wait_s("a")

    clock.now_s = float(wait_s)

    assert wait_s == 10
    assert limit.wait_s("a") == 0


def test_no_limit_never_waits() -> None:
    assert not any(RateLimit(0).wait_s("a") for _ in range(1000))


def test_memory_is_bounded() -> None:
    limit = RateLimit(60, burst=1, clock=Clock())

    for index in range(limits.MAX_ADDRESSES + 50):
        limit.wait_s(str(index))

    assert len(limit._buckets) == limits.MAX_ADDRESSES
