"""Segments of published networks, to be trained on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from random import Random

import pytest

from benchmarks.lineages import blocks_by_operators
from latcast.errors import ModelError
from latcast.graph.operators import graph_macs
from latcast.records import Reference
from latcast.spaces import published_segments
from latcast.spaces.catalogue import build, model
from latcast.spaces.named_graphs import all_networks
from latcast.spaces.published_segments import (
    EDITIONS,
    HELD_OUT_DESIGNS,
    MOST_SEGMENT_MACS,
    NEAR_RELATIVES,
    NETWORK_MACS,
    REGISTRIES,
    SEGMENT_MACS,
    SPACE,
    covering_designs,
    covering_segments,
    design_of,
    networks_by_design,
)
from tests.graph.running import image
from tests.graph.running import run_first as run

WHOLE = build(model("timm/vovnet39a"))


def test_segments_one_after_the_other_are_the_network() -> None:
    cuts = [name for _, name in published_segments.cuts_of("timm/vovnet39a")]
    assert (cuts[0], cuts[-1]) == (WHOLE.inputs[0], WHOLE.outputs[0])
    chosen = [*cuts[:: len(cuts) // 5], cuts[-1]]

    parts = [SPACE.build(network="timm/vovnet39a", first=first, last=last) for first, last in pairwise(chosen)]

    assert sum(len(part.nodes) for part in parts) == len(WHOLE.nodes)
    assert sum(map(graph_macs, parts)) == graph_macs(WHOLE)
    assert sum(part.parameter_count for part in parts) == WHOLE.parameter_count


def test_a_segment_that_was_drawn_is_built_without_reading_its_network_again() -> None:
    drawn = SPACE.sample(8, 5)
    read = published_segments.graph_of.cache_info().misses

    for reference in drawn:
        assert build(reference).inputs == (reference.parameters["first"],)

    assert len({reference.parameters["network"] for reference in drawn}) == 8  # twice as many as are kept whole
    assert published_segments.graph_of.cache_info().misses == read


def test_no_cut_is_where_two_branches_are_open() -> None:
    # A one-shot aggregation concatenates what each of its convolutions made: within it more than one tensor is alive.
    concat = next(node for node in WHOLE.nodes if node.op_type == "Concat")
    cuts = {name for _, name in published_segments.cuts_of("timm/vovnet39a")}
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
        assert design_of(str(each.parameters["network"])) not in (*HELD_OUT_DESIGNS, *NEAR_RELATIVES)
        graph = build(Reference.from_json(each.to_json()))
        assert (len(graph.inputs), len(graph.outputs)) == (1, 1)
        assert SEGMENT_MACS[0] <= graph_macs(graph) <= MOST_SEGMENT_MACS
    chosen = build(Random(0).choice(drawn))
    assert run(chosen, image(chosen)).shape == chosen.shape(chosen.outputs[0])


def test_covering_segments_of_consecutive_seeds_differ_and_avoid_held_out_designs() -> None:
    chosen = [covering_segments(1000, seed) for seed in range(EDITIONS)]

    assert len({each.key for edition in chosen for each in edition}) == sum(map(len, chosen))
    for seed, edition in enumerate(chosen):
        assert covering_segments(10, seed + EDITIONS) == edition[:10]
        assert len(edition) > 40
        designs = {design_of(str(each.parameters["network"])) for each in edition}
        assert designs.isdisjoint({*HELD_OUT_DESIGNS, *NEAR_RELATIVES})
        assert designs <= covering_designs()


def test_the_first_covering_segments_are_quick_to_measure_though_their_networks_are_not() -> None:
    graphs = [build(each) for each in covering_segments(20, seed=0)]

    assert sum(map(graph_macs, graphs)) / 20 < 1.5 * MOST_SEGMENT_MACS
    assert max(graph.parameter_count for graph in graphs) <= 20e6
    whole = [all_networks()[str(each.parameters["network"])] for each in covering_segments(20, seed=0)]
    assert max(network.macs for network in whole) > 4 * NETWORK_MACS[1]


@pytest.mark.slow
def test_every_covering_segment_leads_from_one_tensor_to_one() -> None:
    for seed in range(EDITIONS):
        for each in sorted(covering_segments(1000, seed), key=lambda each: str(each.parameters["network"])):
            graph = build(each)
            assert (len(graph.inputs), len(graph.outputs)) == (1, 1)
            assert SEGMENT_MACS[0] <= graph_macs(graph) <= 4e9


@pytest.mark.slow
def test_drawn_designs_share_no_whole_set_of_blocks_with_held_out_ones() -> None:
    blocks = {design: blocks_of(names) for design, names in networks_by_design().items()}
    held_out = Counter[tuple[str, ...]]()
    for design in HELD_OUT_DESIGNS:
        held_out += blocks[design]

    relatives = {
        design
        for design in sorted(set(blocks) - set(HELD_OUT_DESIGNS))
        if share_in(held_out, blocks[design]) > 0.99
        or any(share_in(blocks[design], blocks[other]) > 0.99 for other in HELD_OUT_DESIGNS)
    }

    assert relatives == set(NEAR_RELATIVES)


@pytest.mark.slow
def test_designs_of_large_networks_alone_are_held_to_the_same_rule() -> None:
    drawn = networks_by_design()
    names: dict[str, list[str]] = defaultdict(list)
    for name in all_networks():
        if name.partition("/")[0] in REGISTRIES and design_of(name) not in drawn:
            names[design_of(name)].append(name)
    held_out = {design: blocks_of(drawn[design]) for design in HELD_OUT_DESIGNS}
    known = Counter[tuple[str, ...]]()
    for blocks in held_out.values():
        known += blocks

    for design in sorted(covering_designs() - set(drawn)):
        blocks = blocks_of(names[design])
        assert share_in(known, blocks) <= 0.99, design
        assert all(share_in(blocks, each) <= 0.99 for each in held_out.values()), design


def blocks_of(networks: Iterable[str]) -> Counter[tuple[str, ...]]:
    """Multiply-accumulates of the blocks of several networks."""
    found = Counter[tuple[str, ...]]()
    for network in networks:
        found += blocks_by_operators(published_segments.graph_of(network))
    return found


def share_in(known: Counter[tuple[str, ...]], blocks: Counter[tuple[str, ...]]) -> float:
    """Of the multiply-accumulates of blocks that have any."""
    return sum(macs for block, macs in blocks.items() if block in known) / max(blocks.total(), 1)
