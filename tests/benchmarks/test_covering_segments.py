"""Choosing segments for what they cover."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from benchmarks.covering_segments import (
    Coverage,
    Range,
    Segment,
    choose,
    may_be_drawn,
    may_steer,
    rows_of,
    segments_of,
    wanted_of,
)
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import load_rules
from latcast.kernels.search import find_kernels
from latcast.spaces.published_segments import SPACE, cuts_of, graph_of

RULES = load_rules("onnxruntime")


def softmax(rows: int, columns: int = 64) -> Kernel:
    return Kernel("softmax", (rows, columns, 0, 0, 0, 0), "softmax", ("softmax",), ("Softmax",))


def segment(name: str, seconds: float, *kernels: Kernel) -> Segment:
    rows = np.array([each.configuration for each in kernels])
    return Segment((name, "first", "last"), seconds, {"ncnn": {"softmax": Range.of("softmax", rows)}})


def coverage(*networks: list[Kernel]) -> Coverage:
    start = Range.of("softmax", np.array([softmax(100).configuration]))
    return Coverage({"ncnn": wanted_of(networks)}, len(networks), {"ncnn": {"softmax": start}})


def test_what_is_within_twice_the_range_is_covered_from_the_start() -> None:
    found = coverage([softmax(200), softmax(201)], [softmax(50), softmax(49), softmax(49), softmax(49)])

    assert found.left["ncnn"].tolist() == [0.5, 0.75]


def test_a_segment_gains_the_more_the_less_else_of_a_network_is_uncovered() -> None:
    found = coverage([softmax(100), softmax(400)], [softmax(400), softmax(9000)])

    assert found.gain(segment("a", 1.0, softmax(100), softmax(200))) == pytest.approx(log(0.52 / 0.02) + log(1.02 / 0.52))
    assert found.gain(segment("inside", 1.0, softmax(100))) == 0.0


def test_what_covers_most_for_each_second_comes_first_and_what_covers_nothing_more_not_at_all() -> None:
    """The slow one and the quick one cover the same; a third one what nothing else does, at a price."""
    found = coverage([softmax(400)], [softmax(100, 1000)])
    slow, quick = segment("slow", 2.0, softmax(400)), segment("quick", 1.0, softmax(300))
    wide = segment("wide", 3.0, softmax(100, 900))

    assert choose([slow, wide, quick], found, 3, seed=0) == [quick, wide]
    assert found.left["ncnn"].tolist() == [0.0, 0.0]


def test_what_predictors_are_judged_on_neither_steers_nor_is_drawn_from() -> None:
    # ConvNeXt is a held-out design, SAM 2 has the blocks of one, Swin is a family that the mix leaves out, ViT one whose variants
    # are in it, BEiT a design that is drawn from.
    names = ("convnext_tiny", "sam2_hiera_tiny", "swin_base_patch4_window7_224", "vit_base_patch16_224", "beit_base_patch16_224")

    assert [may_steer(f"timm/{name}") for name in names] == [False, False, False, True, True]
    assert [may_be_drawn(f"timm/{name}") for name in names] == [False, False, False, False, True]


def test_segments_hold_a_kernel_that_is_not_covered_and_their_ranges_leave_out_what_reads_their_input() -> None:
    name = "timm/vovnet39a"
    kernels = {"onnxruntime": find_kernels(graph_of(name), RULES)}
    wanted = {"onnxruntime": wanted_of([kernels["onnxruntime"]])}

    found = list(segments_of(name, kernels, Coverage(wanted, 1, {}), set()))
    own = {kind: Range.of(kind, rows) for kind, rows in rows_of(kernels["onnxruntime"]).items()}
    everything = Coverage(wanted, 1, {"onnxruntime": own})

    cuts = [tensor for _, tensor in cuts_of(name)]
    assert found
    assert {each.place[0] for each in found} == {name}
    assert all(cuts.index(first) < cuts.index(last) for _, first, last in (each.place for each in found))
    outputs_of = {node.name: node.outputs[0] for node in graph_of(name).nodes}
    borders = {outputs_of[kernel.nodes[-1]] for kernel in kernels["onnxruntime"]}
    between = [each for each in found if {*each.place[1:]} <= borders and "conv" in each.ranges["onnxruntime"]]
    assert len(between) > 3
    for each in between[:3]:
        graph = SPACE.build(network=name, first=each.place[1], last=each.place[2])
        reading = {node.name for node in graph.consumers[graph.inputs[0]]}
        kept = [kernel for kernel in find_kernels(graph, RULES) if reading.isdisjoint(kernel.nodes) and not kernel.free]
        convolutions = np.array([kernel.configuration for kernel in kept if kernel.kernel_type == "conv"])
        assert each.ranges["onnxruntime"]["conv"].low.tolist() == convolutions.min(axis=0).tolist()
        assert each.ranges["onnxruntime"]["conv"].high.tolist() == convolutions.max(axis=0).tolist()
    assert list(segments_of(name, kernels, everything, set())) == []
