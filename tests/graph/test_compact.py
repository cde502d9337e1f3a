"""Graphs as bytes."""

from __future__ import annotations

import json
import lzma
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latcast.errors import ModelError
from latcast.graph import compact
from latcast.graph.builder import GraphBuilder
from latcast.graph.compact import pack, unpack, with_derived_names
from latcast.graph.ir import Graph, Node, Tensor
from latcast.spaces.catalogue import build, model


def assert_same(found: Graph, expected: Graph) -> None:
    """Graphs are equal in everything, the types of numbers included."""
    assert found.structure_key == expected.structure_key
    for name in ("name", "nodes", "inputs", "outputs", "weights", "standardised", "precision"):
        assert getattr(found, name) == getattr(expected, name), name
    assert dict(found.tensors) == dict(expected.tensors)
    assert repr([node.attributes for node in found.nodes]) == repr([dict(sorted(n.attributes.items())) for n in expected.nodes])
    assert found.constants.keys() == expected.constants.keys()
    for name, value in expected.constants.items():
        assert (found.constants[name].dtype, found.constants[name].shape) == (value.dtype, value.shape)
        assert found.constants[name].tobytes() == value.tobytes()


@pytest.mark.parametrize(
    "name", ["resnet18", "mobilenet_v3_small", "ghostnet_x0_5", "deit_tiny_16", "swin_tiny", "mobilevit_xxs"]
)
def test_a_network_is_read_back_as_it_was(name: str) -> None:
    graph = build(model(name))

    assert_same(unpack(pack(graph), graph.name), graph)


def test_standardised_filters_are_told_from_others() -> None:
    graph = build(model("resnet18"))
    marked = replace(graph, standardised=frozenset({node.inputs[1] for node in graph.nodes_of_type["Conv"][:2]}))

    assert_same(unpack(pack(marked), marked.name), marked)


def test_repeated_blocks_take_few_bytes() -> None:
    named = with_derived_names(build(model("resnet50")))

    assert len(pack(named)) < 3000


_NAMES = st.sampled_from(["", "a", "conv1", "conv007", "/layers/layers.2/Add_1", "0", "x_output_0", "12345678901", "é#\n1"])
_ATTRIBUTES = st.one_of(
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False),
    st.text(max_size=4),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
    st.tuples(st.text(max_size=3)),
    st.just(()),
)
_ARRAYS = st.sampled_from(
    [
        np.array([1, -1], np.int64),
        np.array(np.inf, np.float32),
        np.array([np.nan, -0.0, 1 / 3], np.float32),
        np.array([0.1], np.float16),
        np.array([[True, False]]),
        np.zeros((0, 3), np.int32),
        np.arange(200, dtype=np.int64).reshape(2, 100),
    ]
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Graphs of made-up operators: any names, inputs left out, weights that several nodes read."""
    tensors, weights, constants, activations, nodes = {"image": Tensor((1, 3))}, set(), {}, ["image"], []
    for index in range(draw(st.integers(1, 8))):
        name = f"{draw(_NAMES)}{draw(st.sampled_from(['/', '.']))}{index}"
        inputs = []
        for position in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from(["activation", "weight", "constant", "known", "none"]))
            known = sorted(weights | constants.keys())
            if kind == "none":
                inputs.append("")
            elif kind == "known" and known:
                inputs.append(draw(st.sampled_from(known)))
            elif kind == "weight":
                weight = draw(st.sampled_from([f"{name}_input_{position}", f"w{index}.{position}"]))
                tensors[weight] = Tensor((draw(st.integers(0, 3)), 2), draw(st.sampled_from(["float32", "int8"])))
                weights.add(weight)
                inputs.append(weight)
            elif kind == "constant":
                value = draw(_ARRAYS)
                constant = f"c{index}.{position}"
                tensors[constant], constants[constant] = Tensor(value.shape, str(value.dtype)), value
                inputs.append(constant)
            else:
                inputs.append(draw(st.sampled_from(activations)))
        outputs = []
        for position in range(draw(st.integers(1, 2))):
            output = draw(st.sampled_from([f"{name}_output_{position}", f"y{index}.{position}", ""]))
            outputs.append(output)
            if output:
                tensors[output] = Tensor((draw(st.integers(1, 3)),))
                activations.append(output)
        attributes = draw(st.dictionaries(st.sampled_from(["axis", "mode", "pads"]), _ATTRIBUTES, max_size=2))
        nodes.append(Node(draw(st.sampled_from(["Conv", "Add"])), name, tuple(inputs), tuple(outputs), attributes, ""))
    return Graph("net", tuple(nodes), ("image",), (activations[-1],), tensors, frozenset(weights), constants)


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_any_graph_is_read_back_as_it_was(graph: Graph) -> None:
    assert_same(unpack(pack(graph), "net"), graph)
    named = with_derived_names(graph)
    assert named.structure_key == graph.structure_key
    assert_same(unpack(pack(named), "net"), named)


def _packed(**changes: object) -> bytes:
    b = GraphBuilder("small")
    packed = pack(b.finish(b.relu(b.conv(b.input((1, 4, 8, 8)), 8, 3))))
    document = json.loads(lzma.decompress(packed, format=lzma.FORMAT_RAW, filters=compact._FILTERS))
    return lzma.compress(json.dumps({**document, **changes}).encode(), format=lzma.FORMAT_RAW, filters=compact._FILTERS)


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"no graph at all", "damaged|cut off"),
        (_packed()[:-9], "damaged|cut off"),
        (_packed(version=1), "has version 1; expected 2"),
        (_packed(nodes=[[0, "a", [2], [3]]]), "is made by no node before 'a'"),
        (_packed(nodes=[[0, "a", [0], [99]]]), "IndexError"),
        (_packed(nodes=[[99, "a", [0], [1]]]), "IndexError"),
        (_packed(nodes=[]), "are not those that its nodes read and make"),
        (_packed(types=[["float32", 0, -3]]), "found the shape"),
        (_packed(types=[["float32", 0, 2**41]]), "would hold"),
        (_packed(types=[["object", 0, 3]]), "'object' is not an element type"),
        (_packed(operators=[["Relu", "", {"axis": None}]]), "attribute 'axis' is not a number"),
        (_packed(constants={"a": ["object", [1], ""]}), "constant 'a' holds object"),
        (_packed(constants={"a": ["int64", [2**40], "AAAA"]}), "ValueError"),
        (_packed(nodes=None), "TypeError"),
    ],
)
def test_a_damaged_graph_is_refused_with_its_name(packed: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=f"(?s)the graph of net.*({message})"):
        unpack(packed, "net")
