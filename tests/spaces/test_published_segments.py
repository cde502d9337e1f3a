"""Segments of published networks, to be trained on."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from latcast.errors import ModelError
from latcast.graph.operators import graph_macs
from latcast.records import Reference
from latcast.spaces import published_segments
from latcast.spaces.catalogue import build, model
from latcast.spaces.published_segments import HELD_OUT_DESIGNS, MOST_SEGMENT_MACS, SEGMENT_MACS, SPACE, design_of
from tests.spaces.families.running import image, run

WHOLE = build(model("timm/vovnet39a"))


def test_segments_one_after_the_other_are_the_network() -> None:
    cuts = [name for _, name in published_segments._cuts("timm/vovnet39a")]
    assert (cuts[0], cuts[-1]) == (WHOLE.inputs[0], WHOLE.outputs[0])
    chosen = [*cuts[:: len(cuts) // 5], cuts[-1]]

    parts = [SPACE.build(network="timm/vovnet39a", first=first, last=last) for first, last in pairwise(chosen)]

    assert sum(len(part.nodes) for part in parts) == len(WHOLE.nodes)
    assert sum(map(graph_macs, parts)) == graph_macs(WHOLE)
    assert sum(part.parameter_count for part in parts) == WHOLE.parameter_count


def test_no_cut_is_where_two_branches_are_open() -> None:
    # A one-shot aggregation concatenates what each of its convolutions made: within it more than one tensor is alive.
    concat = next(node for node in WHOLE.nodes if node.op_type == "Concat")
    cuts = {name for _, name in published_segments._cuts("timm/vovnet39a")}
    assert set(concat.outputs) <= cuts
    assert set(concat.inputs) & cuts == {concat.inputs[0]}  # which enters the block

    with pytest.raises(ModelError, match=r"found no segment of timm/vovnet39a from .* expected two of its cuts"):
        SPACE.build(network="timm/vovnet39a", first=WHOLE.inputs[0], last=concat.inputs[1])
    with pytest.raises(ModelError, match="found no segment"):
        SPACE.build(network="timm/vovnet39a", first=WHOLE.outputs[0], last=WHOLE.inputs[0])


def test_drawn_segments_run_are_of_a_usual_size_and_of_no_held_out_design() -> None:
    drawn = SPACE.sample(60, seed=3)

    assert len({design_of(str(each.parameters["network"])) for each in drawn}) > 25
    for each in drawn:
        assert design_of(str(each.parameters["network"])) not in HELD_OUT_DESIGNS
        graph = build(Reference.from_json(each.to_json()))
        assert (len(graph.inputs), len(graph.outputs)) == (1, 1)
        assert SEGMENT_MACS[0] <= graph_macs(graph) <= MOST_SEGMENT_MACS
    chosen = build(Random(0).choice(drawn))
    assert run(chosen, image(chosen)).shape == chosen.shape(chosen.outputs[0])
