"""Graphs: what they know of themselves, their order, their key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.errors import ModelError
from latcast.graph import Graph, GraphBuilder, Node, Tensor, topological_order


def diamond() -> Graph:
    """x -> relu -> (conv, sigmoid) -> add."""
    b = GraphBuilder("diamond")
    x = b.relu(b.input((1, 4, 6, 6)))
    return b.finish(b.add(b.conv(x, 4, 3, bias=True), b.sigmoid(x)))


def test_a_tensor_knows_its_elements_and_bytes() -> None:
    assert Tensor((2, 3, 4)).elements == 24
    assert Tensor((2, 3, 4)).size_bytes == 96
    assert Tensor((2, 3), "float16").size_bytes == 12
    assert Tensor((3,), "int4").size_bytes == 1.5
    assert Tensor(()).elements == 1


def test_producers_and_consumers_name_the_nodes_around_a_tensor() -> None:
    graph = diamond()

    assert graph.producers["relu_0_out"].op_type == "Relu"
    assert [node.op_type for node in graph.consumers["relu_0_out"]] == ["Conv", "Sigmoid"]
    assert "input" not in graph.producers


def test_activations_weights_and_constants_are_distinguished() -> None:
    b = GraphBuilder("kinds")
    x = b.clip(b.add(b.input((1, 3)), b.weight((3,))), 0.0, 6.0)
    graph = b.finish(b.op("Resize", [b.reshape(x, (1, 1, 1, 3)), "", "", b.constant([1, 1, 2, 6], dtype="int64")])[0])
    add, clip, *_, resize = graph.nodes

    assert graph.activation_inputs(add) == ["input"]
    assert graph.activation_inputs(clip) == ["add_0_out"]
    assert graph.activation_inputs(resize) == ["reshape_0_out"]
    assert not graph.is_activation("")


def test_other_nodes_leave_no_unused_tensors() -> None:
    graph = diamond()

    smaller = graph.with_nodes(graph.nodes[:1], outputs=("relu_0_out",))

    assert set(smaller.tensors) == {"input", "relu_0_out"}
    assert not smaller.weights
    assert len(graph.tensors) == 7


# Order


@given(data=st.data())
def test_any_order_is_sorted_so_that_producers_come_first(data: st.DataObject) -> None:
    b = GraphBuilder("random")
    live = [b.input((1, 4))]
    for _ in range(data.draw(st.integers(1, 12))):
        live.append(b.add(data.draw(st.sampled_from(live)), data.draw(st.sampled_from(live))))
    graph = b.finish(live[-1])

    ordered = topological_order(data.draw(st.permutations(graph.nodes)), graph.inputs)

    ready = set(graph.inputs)
    for node in ordered:
        assert ready.issuperset(node.inputs)
        ready.update(node.outputs)
    assert sorted(node.name for node in ordered) == sorted(node.name for node in graph.nodes)


def test_a_cycle_and_a_missing_tensor_are_named() -> None:
    a, b = Node("Relu", "a", ("y",), ("x",)), Node("Relu", "b", ("x",), ("y",))

    with pytest.raises(ModelError, match=r"cycle through node 'a' \(Relu\)"):
        topological_order([a, b], [])
    with pytest.raises(ModelError, match=r"node 'a' \(Relu\) reads 'y', which no node"):
        topological_order([a], [])


def test_a_missing_optional_input_does_not_block_sorting() -> None:
    node = Node("Resize", "r", ("x", "", "", "s"), ("y", ""))

    assert topological_order([node], ["x", "s"]) == [node]


# Keys


def key(build: Callable[[GraphBuilder, str], str], shape: tuple[int, ...] = (1, 4, 8, 8)) -> str:
    b = GraphBuilder("any")
    return b.finish(build(b, b.input(shape))).structure_key


def test_names_do_not_enter_the_key() -> None:
    graph = diamond()
    names = {name: f"renamed_{index}" for index, name in enumerate(sorted(graph.tensors))}
    renamed = Graph(
        name="another",
        nodes=tuple(
            replace(
                node,
                name=f"node_{index}",
                inputs=tuple(names[name] for name in node.inputs),
                outputs=tuple(names[name] for name in node.outputs),
            )
            for index, node in enumerate(graph.nodes)
        ),
        inputs=tuple(names[name] for name in graph.inputs),
        outputs=tuple(names[name] for name in graph.outputs),
        tensors={names[name]: tensor for name, tensor in graph.tensors.items()},
        weights=frozenset(names[name] for name in graph.weights),
    )

    assert renamed.structure_key == graph.structure_key


DIFFERENT: dict[str, Callable[[GraphBuilder, str], str]] = {
    "convolution": lambda b, x: b.conv(x, 4, 3),
    "more channels": lambda b, x: b.conv(x, 5, 3),
    "larger kernel": lambda b, x: b.conv(x, 4, 5),
    "a bias": lambda b, x: b.conv(x, 4, 3, bias=True),
    "steps": lambda b, x: b.conv(x, 4, 3, stride=2),
    "sum with the input": lambda b, x: b.add(b.relu(x), x),
    "sum with itself": lambda b, x: b.add(b.relu(x), b.relu(x)),
    "bounds": lambda b, x: b.clip(x, 0.0, 6.0),
    "other bounds": lambda b, x: b.clip(x, 0.0, 1.0),
    "one shape": lambda b, x: b.reshape(x, (4, 64)),
    "another shape": lambda b, x: b.reshape(x, (64, 4)),
    "first half": lambda b, x: b.slice(x, (0,), (4,), (2,)),
    "second half": lambda b, x: b.slice(x, (4,), (8,), (2,)),
    "slope": lambda b, x: b.leaky_relu(x, 0.1),
    "another slope": lambda b, x: b.leaky_relu(x, 0.2),
}


def test_everything_that_may_change_the_latency_enters_the_key() -> None:
    keys = {name: key(build) for name, build in DIFFERENT.items()}

    assert len(set(keys.values())) == len(DIFFERENT)
    assert key(DIFFERENT["convolution"], (1, 4, 9, 9)) != keys["convolution"]
    assert key(DIFFERENT["convolution"]) == keys["convolution"]


def test_precision_types_and_outputs_enter_the_key() -> None:
    graph = diamond()
    half = {name: replace(tensor, dtype="float16") for name, tensor in graph.tensors.items()}
    variants = [graph, replace(graph, precision="int8"), replace(graph, tensors=half), replace(graph, outputs=("relu_0_out",))]

    assert len({variant.structure_key for variant in variants}) == 4


def test_numbers_that_are_equal_in_single_precision_have_one_key() -> None:
    def sloped(alpha: float) -> str:
        return key(lambda b, x: b.leaky_relu(x, alpha))

    assert sloped(1 / 6) == sloped(0.1666666716337204)
    assert sloped(1 / 6) != sloped(0.1667)


def test_attributes_are_read_by_their_type_with_what_is_left_out() -> None:
    node = Node("Conv", "c", ("x", "w"), ("y",), {"group": 2, "alpha": 1, "pads": (1, 0), "auto_pad": "VALID"})

    assert (node.integer("group"), node.real("alpha"), node.integers("pads"), node.text("auto_pad")) == (2, 1.0, (1, 0), "VALID")
    assert isinstance(node.real("alpha"), float)
    assert (node.integer("axis"), node.integer("axis", -1), node.integers("strides", (1, 1))) == (0, -1, (1, 1))
