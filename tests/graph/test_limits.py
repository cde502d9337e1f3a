"""Limits of size hold for every way to ask for a network."""

from __future__ import annotations

import pytest

from latcast.errors import ModelError
from latcast.graph.passes.reshape_inputs import reshape_inputs
from latcast.spaces.catalogue import build, model, resized

HUGE = (1, 3, 100_000_000, 100_000_000)
ASTRONOMICAL = (1, 3, 224, 10**200)
BUSY = (200_000_000, 3, 32, 32)
"""Of 6.1e11 elements, within 2^40 = 1.1e12, but of 2^56 = 7.2e16 FLOPs and more; its maps of 64 channels are larger."""
SIZES = [(HUGE, "elements"), (ASTRONOMICAL, "elements"), (BUSY, "elements|FLOPs")]


@pytest.mark.parametrize(("shape", "words"), SIZES)
def test_a_published_network_of_any_size_is_refused_beyond_the_limits(shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        resized(model("resnet18"), {"input": shape})


@pytest.mark.parametrize(("shape", "words"), SIZES)
def test_a_graph_given_another_size_is_refused_beyond_the_limits(shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        reshape_inputs(build(model("resnet18")), {"input": shape})
