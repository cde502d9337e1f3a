"""Variants as nn-Meter draws them: published structure, every width and kernel size drawn."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.graph.ir import Graph
from latcast.spaces.catalogue import build, model
from latcast.spaces.families.variants import KERNEL_SIZES
from latcast.spaces.nn_meter_variants import NN_METER_FAMILIES, drawn_width, structure_of

EACH_FAMILY = pytest.mark.parametrize("name", sorted(NN_METER_FAMILIES))

INPUT = (1, 3, 224, 224)


def flat(value: Any) -> list[Any]:
    return [number for item in value for number in flat(item)] if isinstance(value, (list, tuple)) else [value]


@given(seed=st.integers(0, 2**32), width=st.integers(1, 5000))
def test_a_width_stays_between_a_fifth_and_nine_fifths(seed: int, width: int) -> None:
    assert 0.2 * width <= drawn_width(Random(seed), width) <= 1.8 * width


@EACH_FAMILY
def test_the_base_is_the_published_network(name: str) -> None:
    variants = NN_METER_FAMILIES[name]
    assert variants.structure == structure_of(build(model(variants.base)))


@EACH_FAMILY
def test_variants_have_the_structure_of_the_published_network_and_other_sizes(name: str) -> None:
    variants = NN_METER_FAMILIES[name]
    graphs: list[Graph] = []
    references = variants.sample(3, 11, graphs.append)
    assert len({reference.key for reference in references}) == 3
    for reference, graph in zip(references, graphs, strict=True):
        assert build(reference).structure_key == graph.structure_key
        assert structure_of(graph) == variants.structure
        assert graph.shape(graph.inputs[0]) == INPUT
    assert len({graph.parameter_count for graph in graphs}) == 3


@EACH_FAMILY
def test_kernel_sizes_are_one_to_nine_and_widths_are_within_the_range(name: str) -> None:
    variants = NN_METER_FAMILIES[name]
    [reference] = variants.sample(1, 3)
    sizes = flat(reference.parameters["kernels"])
    assert set(sizes) <= set(KERNEL_SIZES)
    published = flat(variants.published["widths"]) if "widths" in variants.published else []
    tied = 1 if name == "mobilenet_v3" else 0
    for width, base in list(zip(flat(reference.parameters.get("widths", [])), published, strict=True))[tied:]:
        # An even number for ShuffleNetV2 may be one above the range.
        assert 0.2 * base <= width <= 1.8 * base + (name == "shufflenet_v2")
