"""Partitions between a delegate and the CPU, and the tensors that cross between them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.kernels.delegates import Delegate, OperatorRule, load_delegate
from latcast.kernels.partitioning import CPU, partition
from tests.random_networks import random_network


def delegate(*operators: str, **limits: object) -> Delegate:
    """One that takes these operators under all conditions."""
    rule = OperatorRule(frozenset(operators), {})
    return Delegate(
        "example", "an example", "GPU", (rule,), confidence="medium", synchronisation_ms=0.5, copy_gb_per_s=1.0, **limits
    )  # type: ignore[arg-type]


def top_k_in_the_middle() -> Graph:
    """Conv, Relu, TopK, Conv, Relu: 1x8x4x4 before TopK, 1x4x4x4 after it."""
    b = GraphBuilder("top k")
    x = b.relu(b.conv(b.input((1, 8, 4, 4)), 8, 3))
    values, _ = b.op("TopK", [x, b.constant([4], dtype="int64")], {"axis": 1}, outputs=2)
    return b.finish(b.relu(b.conv(values, 8, 3)))


def two_branches() -> Graph:
    """A Sigmoid beside a Conv, both from the input, and their sum: nothing needs to cross twice."""
    b = GraphBuilder("branches")
    x = b.input((1, 8, 4, 4))
    return b.finish(b.relu(b.add(b.conv(x, 8, 3), b.sigmoid(x))))


class TestAnOperatorInTheMiddle:
    def test_makes_two_partitions_and_two_crossings_of_its_input_and_its_output(self) -> None:
        found = partition(top_k_in_the_middle(), delegate("Conv", "Relu"))

        assert [(segment.unit, segment.nodes) for segment in found.segments] == [
            ("GPU", ("conv_0", "relu_0")), (CPU, ("topk_0",)), ("GPU", ("conv_1", "relu_1")),
        ]  # fmt: skip
        assert [(crossing.segment, crossing.tensors) for crossing in found.crossings] == [
            (1, ("relu_0_out",)),
            (2, ("topk_0_out0",)),
        ]
        assert [crossing.size_bytes for crossing in found.crossings] == [8 * 4 * 4 * 4, 4 * 4 * 4 * 4]
        assert found.refused == (("TopK", 1),)
        assert found.left == 0

    def test_costs_a_synchronisation_a_crossing_and_the_copy_of_the_bytes(self) -> None:
        found = partition(top_k_in_the_middle(), delegate("Conv", "Relu"))

        assert found.crossing_bytes == 768
        assert found.crossing_ms == pytest.approx(2 * 0.5 + 768 / 1e6)

    def test_costs_nothing_more_where_learned_latencies_hold_crossings(self) -> None:
        learned = replace(delegate("Conv", "Relu"), learned=True)

        assert partition(top_k_in_the_middle(), learned).crossing_ms == 0

    @pytest.mark.parametrize(("precision", "size_bytes"), [("fp32", 768), ("fp16", 768), ("w8a16", 384), ("int8", 192)])
    def test_quantised_activations_cross_in_their_own_width(self, precision: str, size_bytes: int) -> None:
        chosen = delegate("Conv", "Relu").at(precision=precision)

        assert partition(top_k_in_the_middle(), chosen).crossing_bytes == size_bytes

    def test_leaves_one_partition_where_no_more_are_run_and_the_other_falls_back_with_it(self) -> None:
        found = partition(top_k_in_the_middle(), delegate("Conv", "Relu", most_partitions=1))

        assert [(segment.unit, segment.nodes) for segment in found.segments] == [
            ("GPU", ("conv_0", "relu_0")), (CPU, ("topk_0", "conv_1", "relu_1")),
        ]  # fmt: skip
        assert found.left == 2
        assert [crossing.size_bytes for crossing in found.crossings] == [512]

    def test_leaves_the_first_partition_though_the_other_is_larger_where_partitions_are_run_in_order(self) -> None:
        b = GraphBuilder("erf")
        [x] = b.op("Erf", [b.relu(b.input((1, 8, 4, 4)))])
        graph = b.finish(b.relu(b.conv(x, 8, 3)))
        largest, first = (
            partition(graph, delegate("Conv", "Relu", most_partitions=1, in_order=in_order)) for in_order in (False, True)
        )

        assert [len(segment.nodes) for segment in largest.partitions] == [2]
        assert [segment.nodes for segment in first.partitions] == [("relu_0",)]

    def test_leaves_nothing_where_every_partition_is_too_small(self) -> None:
        found = partition(top_k_in_the_middle(), delegate("Conv", "Relu", least_operators=3))

        assert [segment.unit for segment in found.segments] == [CPU]
        assert (found.left, found.crossings, found.partitions) == (4, (), ())

    def test_stops_a_network_that_is_converted_whole(self) -> None:
        found = partition(top_k_in_the_middle(), delegate("Conv", "Relu", whole=True))

        assert found.partitions == ()
        assert found.sentence() == "the network does not run on the GPU: an example does not take TopK"


class TestWithoutRefusals:
    def test_the_network_is_one_partition_without_crossings(self) -> None:
        found = partition(top_k_in_the_middle(), delegate("Conv", "Relu", "TopK"))

        assert [segment.unit for segment in found.segments] == ["GPU"]
        assert (found.on_cpu, found.crossings, found.sentence()) == (frozenset(), (), "")

    def test_a_network_of_refused_operators_alone_runs_on_the_cpu(self) -> None:
        found = partition(two_branches(), delegate("TopK"))

        assert found.segments == (found.segments[0],)
        assert found.sentence().startswith("nothing runs on the GPU (4 of 4 operators on the CPU)")


def test_branches_are_gathered_unit_by_unit_and_what_both_need_crosses_once() -> None:
    found = partition(two_branches(), delegate("Conv", "Relu", "Add"))

    assert [(segment.unit, segment.nodes) for segment in found.segments] == [
        ("GPU", ("conv_0",)), (CPU, ("sigmoid_0",)), ("GPU", ("add_0", "relu_0")),
    ]  # fmt: skip
    assert [crossing.tensors for crossing in found.crossings] == [("sigmoid_0_out",)]


def test_an_idiom_is_judged_as_a_whole() -> None:
    b = GraphBuilder("gelu")
    graph = b.finish(b.gelu(b.conv(b.input((1, 8, 4, 4)), 8, 3)))

    assert partition(graph, delegate("Conv", "gelu")).on_cpu == frozenset()
    assert partition(graph, delegate("Conv", "Add", "Mul", "Div")).refused == (("Erf", 1),)


def test_an_operator_without_work_goes_with_its_reader() -> None:
    b = GraphBuilder("identity")
    (x,) = b.op("Identity", [b.sigmoid(b.input((1, 8, 4, 4)))])
    graph = b.finish(b.conv(x, 8, 3))
    found = partition(graph, delegate("Conv"))

    assert [(segment.unit, segment.nodes) for segment in found.segments] == [
        (CPU, ("sigmoid_0",)),
        ("GPU", ("identity_0", "conv_0")),
    ]
    assert found.refused == (("Sigmoid", 1),)


def test_a_sentence_names_operators_partitions_and_crossings() -> None:
    found = partition(top_k_in_the_middle(), delegate("Conv", "Relu"))

    assert found.sentence() == (
        "TopK runs on the CPU (1 of 5 operators): 2 partitions on the GPU, 2 crossings of 0.000768 MB together, which the "
        "latency holds"
    )
    assert found.sentence(1.25).endswith(" together, about 1.25 ms of the latency (an estimate)")


def test_a_network_with_a_size_that_only_values_decide_may_run_on_the_cpu_whole() -> None:
    graph = replace(top_k_in_the_middle(), run_time_sizes=("WHERE",))
    takes_any = partition(graph, delegate("Conv", "Relu"))
    found = partition(graph, delegate("Conv", "Relu", static_sizes=True))

    assert len(takes_any.partitions) == 2
    assert found.partitions == ()
    assert found.sentence() == (
        "nothing runs on the GPU (5 of 5 operators on the CPU): an example takes no network with tensors whose size is only "
        "known at run time, as WHERE gives"
    )
    assert found.summary(0.0).on_cpu == ("WHERE",)


@pytest.mark.parametrize(("name", "static"), [("tflite-gpu", True), ("tflite-nnapi", True), ("tflite-xnnpack", False)])
def test_delegates_of_tflite_take_only_static_sizes_unless_they_say_otherwise(name: str, static: bool) -> None:
    assert load_delegate(name).static_sizes == static


def test_a_sentence_says_where_the_rules_are_uncertain() -> None:
    chosen = replace(delegate("TopK"), confidence="low")

    assert partition(top_k_in_the_middle(), chosen).sentence().endswith("; these rules are uncertain")


def test_the_summary_counts_what_the_partitioning_lists() -> None:
    assert partition(top_k_in_the_middle(), delegate("Conv", "Relu", most_partitions=1)).summary(0.25).to_json() == {
        "name": "example", "unit": "gpu", "partitions": 1, "operators": 5, "operators_on_cpu": 3, "on_cpu": ["TopK"],
        "crossings": 1, "crossing_bytes": 512, "crossing_ms": 0.25, "confidence": "medium",
    }  # fmt: skip


TAKEN = st.sets(st.sampled_from(["Conv", "Relu", "Add", "Mul", "Concat", "Sigmoid", "BatchNormalization", "MaxPool", "Split"]))


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10_000), taken=TAKEN, most=st.none() | st.integers(1, 3), least=st.integers(1, 4))
def test_every_operator_is_placed_once_in_an_order_that_can_be_executed(
    seed: int, taken: set[str], most: int | None, least: int
) -> None:
    graph = random_network(seed)
    chosen = delegate(*taken, most_partitions=most, least_operators=least)
    found = partition(graph, chosen)
    order = [name for segment in found.segments for name in segment.nodes]

    assert sorted(order) == sorted(node.name for node in graph.nodes)
    place = {name: index for index, name in enumerate(order)}
    for node in graph.nodes:
        for tensor in node.inputs:
            if tensor in graph.producers:
                assert place[graph.producers[tensor].name] < place[node.name]
    assert len(found.partitions) <= (len(order) if most is None else most)
    assert all(len(segment.nodes) >= least for segment in found.partitions)
    assert all(one.unit != other.unit for one, other in zip(found.segments, found.segments[1:], strict=False))
    on_unit = {name for segment in found.partitions for name in segment.nodes}
    assert all(node.op_type in taken for node in graph.nodes if node.name in on_unit)
    assert all(segment.nodes for segment in found.segments)
    assert [crossing.segment for crossing in found.crossings] == sorted({crossing.segment for crossing in found.crossings})
