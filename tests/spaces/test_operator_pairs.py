"""Test networks: chains of operators between walls."""

from __future__ import annotations

import pytest

from latcast.errors import ModelError, UnknownNameError
from latcast.graph.idioms import choose_idioms
from latcast.kernels.kernel import operator_class
from latcast.spaces.catalogue import SPACES, build
from latcast.spaces.operator_pairs import (
    OPERATORS,
    ROWS,
    WALL,
    WALLS,
    chain_network,
    chain_reference,
    input_shape,
    operator,
)

PATTERNS = ("silu", "gelu", "mish", "layer_norm", "channel_shuffle", "unscaled_attention")
SPELLED_OUT = {"decomposed_hard_swish": "hard_swish", "decomposed_hard_sigmoid": "hard_sigmoid"}
NOT_ONE_NODE = (*PATTERNS, *SPELLED_OUT, "squeeze", "flatten")


@pytest.mark.parametrize(
    ("chain", "blocks", "types"),
    [
        (["conv", "relu", WALL], 2, ["AveragePool", "Conv", "Relu", "AveragePool", "Conv", "Relu", "AveragePool"]),
        (["conv", WALL, "relu", WALL], 1, ["AveragePool", "Conv", "AveragePool", "Relu", "AveragePool"]),
        # A changed shape is brought back behind a wall and before another: half the channels go, and are there twice then.
        (["slice", "relu", WALL], 1, ["AveragePool", "Slice", "Relu", "AveragePool", "Concat", "AveragePool"]),
    ],
)
def test_blocks_stand_between_walls(chain: list[str], blocks: int, types: list[str]) -> None:
    assert [node.op_type for node in chain_network(chain, blocks=blocks).graph.nodes] == types


def test_steps_tell_which_nodes_an_element_became() -> None:
    steps = chain_network(["silu", "relu", WALL], blocks=2).steps

    assert [(step.block, step.element, step.nodes) for step in steps[:3]] == [
        (0, "silu", ("sigmoid_0", "mul_0")),
        (0, "relu", ("relu_0",)),
        (0, WALL, ("averagepool_1",)),
    ]
    assert [step.block for step in steps] == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("name", [name for name in OPERATORS if not operator(name).keeps_shape])
def test_every_block_begins_with_the_same_shape(name: str) -> None:
    graph = chain_network([name, WALL], blocks=3).graph

    assert graph.shape(graph.outputs[0]) == (1, 16, 8, 8)


@pytest.mark.parametrize(("name", "form"), [(name, form) for name in OPERATORS for form in operator(name).forms])
def test_operators_say_rightly_whether_they_keep_the_shape(name: str, form: str) -> None:
    network = chain_network([name], wall="softmax", blocks=1, form=form)
    [last] = [node for node in network.graph.nodes if node.name == network.steps[0].nodes[-1]]

    assert (network.graph.shape(last.outputs[0]) == input_shape(form, 8, 16)) == operator(name).keeps_shape


@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in NOT_ONE_NODE])
def test_operators_are_called_as_fusion_rules_call_them(name: str) -> None:
    form = operator(name).forms[0]
    network = chain_network([name], wall="softmax", blocks=1, form=form)
    nodes = {node.name: node for node in network.graph.nodes}

    assert [operator_class(network.graph, nodes[node]) for node in network.steps[0].nodes] == [name]


@pytest.mark.parametrize("name", [*PATTERNS, *SPELLED_OUT])
def test_patterns_are_spelled_as_kernel_search_knows_them(name: str) -> None:
    network = chain_network([name], wall="softmax", blocks=1)
    found = choose_idioms(network.graph, [SPELLED_OUT.get(name, name)])

    assert [tuple(node.name for node in idiom.nodes) for idiom in found] == [network.steps[0].nodes]


def test_the_second_operand_has_passed_a_wall_and_is_one_for_all_blocks() -> None:
    graph = chain_network(["add", "mul", WALL], blocks=3).graph

    assert len(graph.inputs) == 2
    readers = [node for node in graph.nodes if node.op_type in ("Add", "Mul")]
    [operand] = set.intersection(*(set(node.inputs) for node in readers))
    assert graph.producers[operand].op_type == "AveragePool"


def test_networks_with_a_second_operand_end_alike_whether_or_not_an_operator_reads_it() -> None:
    idle = chain_network([WALL], blocks=1, operand=True).graph
    used = chain_network(["mul", WALL], blocks=1).graph

    assert len(idle.inputs) == len(used.inputs) == 2
    assert [node.op_type for node in idle.nodes] == ["AveragePool", "AveragePool", "AveragePool", "Add"]
    assert [node.op_type for node in used.nodes] == ["AveragePool", "AveragePool", "Mul", "AveragePool", "Add"]


def test_branches_are_fed_with_one_tensor_and_joined() -> None:
    network = chain_network([["add", ["conv"], [WALL]], WALL], blocks=1)
    first, wall, join = network.graph.nodes[1:4]

    assert (first.op_type, wall.op_type, join.op_type) == ("Conv", "AveragePool", "Add")
    assert first.inputs[0] == wall.inputs[0]
    assert join.inputs == (first.outputs[0], wall.outputs[0])


@pytest.mark.parametrize(("wall", "form"), [(wall, form) for wall in WALLS for form in WALLS[wall].forms])
def test_walls_keep_the_shape(wall: str, form: str) -> None:
    graph = chain_network([WALL], wall=wall, blocks=1, form=form).graph

    assert {graph.shape(node.outputs[0]) for node in graph.nodes} == {input_shape(form, 8, 16)}


def test_references_build_the_same_network_again() -> None:
    reference = chain_reference(["conv", ["add", ["relu", WALL], [WALL]]], wall="softmax", blocks=2)

    assert reference.name == "conv add(relu wall | wall)"
    assert build(reference).structure_key == chain_network(**reference.parameters).graph.structure_key


def test_more_pairs_than_there_are_cannot_be_drawn() -> None:
    with pytest.raises(ModelError, match="ordered pairs"):
        SPACES.get("operator_pairs").sample(10**6, seed=0)


@pytest.mark.parametrize(
    ("arguments", "problem", "words"),
    [
        ({"chain": ["convolve"]}, UnknownNameError, "conv"),
        ({"chain": ["relu"], "wall": "hedge"}, UnknownNameError, "average_pool"),
        ({"chain": ["conv"], "form": ROWS, "wall": "softmax"}, ModelError, "form"),
        ({"chain": ["relu"], "form": ROWS}, ModelError, "wall"),
        ({"chain": ["relu"], "form": "cube"}, ModelError, "form"),
        ({"chain": ["relu"], "size": 7}, ModelError, "even"),
    ],
)
def test_chains_that_cannot_be_built_are_refused(arguments: dict, problem: type[Exception], words: str) -> None:
    with pytest.raises(problem, match=words):
        chain_network(**arguments)
