"""Advice for a convolution, and the default sizes of TFLite."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.workgroups.advice import advise, kfast
from latcast.workgroups.devices import load_profile
from latcast.workgroups.sizes import Grid, SizeLimits, WorkGroup
from latcast.workgroups.workloads import CONV, DEPTHWISE_CONV, KernelDescriptor, convolution

LIMITS = SizeLimits(1024, 1024, 1024, 1024)


@pytest.mark.parametrize(
    ("kernel", "grid", "size"),
    [
        (CONV, (28, 56, 64), (16, 1, 16)),  # 16 divides 64, 256 / 16 items are left for x
        (CONV, (4, 7, 128), (4, 4, 16)),
        (CONV, (56, 56, 3), (56, 1, 3)),  # 85 in the plane
        (CONV, (4, 8, 1), (4, 4, 1)),  # a whole even column is halved
        (CONV, (4, 7, 1), (4, 7, 1)),  # an odd one is not
        (CONV, (9, 9, 17), (9, 9, 1)),
        (DEPTHWISE_CONV, (56, 56, 32), (28, 4, 8)),
        (DEPTHWISE_CONV, (56, 56, 36), (28, 9, 4)),
        (DEPTHWISE_CONV, (7, 7, 240), (4, 7, 8)),
        (DEPTHWISE_CONV, (56, 56, 6), (28, 18, 2)),
        (DEPTHWISE_CONV, (56, 56, 15), (28, 7, 5)),
    ],
)
def test_kfast(kernel: KernelDescriptor, grid: tuple[int, int, int], size: tuple[int, int, int]) -> None:
    assert kfast(Grid(*grid), kernel, LIMITS).shape == size


whole = st.integers(1, 300)


@given(
    st.tuples(whole, whole, whole),
    st.integers(1, 1024),
    st.tuples(st.integers(1, 1024), st.integers(1, 1024), st.integers(1, 64)),
)
def test_kfast_can_always_be_launched(grid: tuple[int, int, int], items: int, most: tuple[int, int, int]) -> None:
    limits = SizeLimits(items, *most)

    for kernel in (CONV, DEPTHWISE_CONV):
        found = kfast(Grid(*grid), kernel, limits)
        assert limits.allow(found)
        assert found.x <= grid[0]
        assert found.y <= grid[1]
        assert grid[2] % found.z == 0


def test_the_papers_convolution_on_a_phone_of_its_table() -> None:
    found = advise(convolution(56, 56, 256, 256), load_profile("hikey970"), 9)

    assert found.candidates == 5364
    assert found.survivors == 9
    assert found.applied == ("V", "III", "IV")
    assert "K_ac" in found.why["II"]
    first = found.shortlist[0]
    # 2 · 2 · 8 = 4 · 8, and each of 64 items reads 32 + 32 vectors with 127 others: 64 / 128.
    assert (first.size, first.accesses, first.padding) == (WorkGroup(2, 8, 8), 0.5, 0.0)
    assert first.verdicts == {"I": "fails", "II": "cannot be evaluated", "III": "passes", "IV": "passes", "V": "passes"}
    assert found.default.size == WorkGroup(16, 1, 16)


def test_accesses_that_were_not_counted_are_not_given() -> None:
    kernel = replace(CONV, accesses_counted=False)
    found = advise(convolution(8, 8, 16, 16, descriptor=kernel), load_profile("mi9"))

    assert found.shortlist[0].accesses is None
    assert found.default.verdicts["V"] == "cannot be evaluated"


def test_advice_is_json() -> None:
    found = advise(convolution(8, 8, 16, 16), load_profile("mi9"), 3).to_json()

    assert len(json.loads(json.dumps(found))["shortlist"]) == 3
    assert found["tflite_kfast"]["items"] == 4 * 4 * 4
