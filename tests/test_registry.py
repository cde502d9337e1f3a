"""Names that a pattern stands for."""

from __future__ import annotations

import pytest

from latcast.registry import matching

IDS = ("pixel4/tflite-2.10/gpu/fp16", "s10/tflite-2.10/gpu/fp16", "pixel4/tflite-2.10/1large/fp32")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (None, sorted(IDS)),
        ("pixel4", [IDS[2], IDS[0]]),
        ("gpu/fp16", [IDS[0], IDS[1]]),
        ("pixel4/*/gpu/*", [IDS[0]]),
        ("*/fp16", [IDS[0], IDS[1]]),
        # A glob stands for whole names.
        ("tflite*", []),
        ("s[0-9]0/*", [IDS[1]]),
        ("Pixel4", []),
    ],
)
def test_a_pattern_is_part_of_a_name_or_a_glob_of_whole_names(pattern: str | None, found: list[str]) -> None:
    assert matching(pattern, IDS) == found
