"""What a shorter profile would have given."""

from dataclasses import replace

from benchmarks.budgets import first_part
from latcast.records import Measurement, Reference


def test_first_part_holds_what_was_taken_in_the_first_part_of_the_time() -> None:
    times = ("2026-01-01T00:00:40+00:00", "2026-01-01T00:00:00+00:00", "2026-01-01T00:00:10+00:00")
    network = Measurement("pixel4/tflite-2.10/cpu1/fp32", Reference("example", {"depth": 1}), latency_ms=12.5)
    taken = [replace(network, taken_at=each) for each in times]
    # A quarter of 40 s is 10 s, that one included.
    assert [each.taken_at[-8:-6] for each in first_part(taken, 0.25)] == ["00", "10"]
    assert len(first_part(taken, 1.0)) == 3
    assert first_part([], 0.5) == []
