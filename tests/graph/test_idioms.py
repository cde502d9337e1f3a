"""Several operators that mean one: reading spellings and finding them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from latcast.errors import LatcastError
from latcast.graph.builder import GraphBuilder
from latcast.graph.idioms import IDIOMS, Expression, choose_idioms, find_idioms, parse_spelling
from latcast.graph.ir import Graph


def found(graph: Graph, *names: str) -> list[tuple[str, tuple[str, ...]]]:
    """Names of the matches, each with the types of its operators in execution order."""
    return [(idiom.name, tuple(node.op_type for node in idiom.nodes)) for idiom in choose_idioms(graph, names or IDIOMS)]


def of(build: Callable[[GraphBuilder, str], str], shape: tuple[int, ...] = (1, 8, 6, 6)) -> Graph:
    b = GraphBuilder("one")
    return b.finish(build(b, b.input(shape)))


def scalar(b: GraphBuilder, value: float) -> str:
    return b.constant(value, dtype="float32")


class TestParsing:
    def test_an_expression_nests_operators_variables_and_constants(self) -> None:
        assert parse_spelling("Mul(x, Add( y ,#))") == Expression(
            "Mul", (Expression("x"), Expression("Add", (Expression("y"), Expression("#"))))
        )

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("Mul(x, $)", "has a character"),
            ("Mul(x,)", "lacks an operand"),
            ("", "lacks an operand"),
            ("Mul(x", "lacks a closing parenthesis"),
            ("Mul(", "lacks an operand"),
            ("Mul(x y)", r"expected '\)' at 'y'"),
            ("Mul(x) y", "goes on after its end"),
        ],
    )
    def test_a_malformed_expression_is_refused_with_its_text(self, text: str, problem: str) -> None:
        with pytest.raises(LatcastError, match=problem) as caught:
            parse_spelling(text)

        assert f"'{text}'" in str(caught.value)

    def test_an_unknown_name_is_an_error_that_lists_the_known_ones(self) -> None:
        with pytest.raises(LatcastError, match=r"no idiom is called 'gellu'; known: .*gelu"):
            choose_idioms(of(lambda b, x: b.relu(x)), ["gellu"])


def gelu_of_multiplied(b: GraphBuilder, x: str) -> str:
    """0.5 x first, and x / sqrt 2 as a product, its operands swapped."""
    inner = b.op("Erf", [b.mul(scalar(b, 0.5**0.5), x)])[0]
    return b.mul(b.mul(scalar(b, 0.5), x), b.add(scalar(b, 1.0), inner))


def gelu_by_tanh(b: GraphBuilder, x: str) -> str:
    cube = b.op("Pow", [x, scalar(b, 3.0)])[0]
    inner = b.mul(b.add(x, b.mul(cube, scalar(b, 0.044715))), scalar(b, 0.797885))
    return b.mul(b.mul(x, scalar(b, 0.5)), b.add(b.op("Tanh", [inner])[0], scalar(b, 1.0)))


def hard_swish_divided(b: GraphBuilder, x: str) -> str:
    return b.div(b.mul(x, b.relu6(b.add(x, scalar(b, 3.0)))), scalar(b, 6.0))


def hard_swish_scaled(b: GraphBuilder, x: str) -> str:
    return b.mul(b.mul(b.relu6(b.add(scalar(b, 3.0), x)), scalar(b, 1 / 6)), x)


def gate_of_another(b: GraphBuilder, x: str) -> str:
    return b.mul(b.input((1, 8, 6, 6)), b.div(b.relu6(b.add(x, scalar(b, 3.0))), scalar(b, 6.0)))


def clip_by_inputs(b: GraphBuilder, x: str) -> str:
    return b.mul(b.op("Clip", [b.add(x, scalar(b, 3.0)), b.input(()), b.input(())])[0], scalar(b, 1 / 6))


def turned(middle: tuple[int, ...], order: tuple[int, ...], end: tuple[int, ...]) -> Callable[[GraphBuilder, str], str]:
    return lambda b, x: b.reshape(b.transpose(b.reshape(x, middle), order), end)


def layer_norm_decomposed(b: GraphBuilder, x: str, *, twice: bool = False) -> str:
    mean = b.reduce_mean(x, (-1,))
    centred = b.sub(x, mean)
    again = b.sub(x, mean) if twice else centred
    variance = b.reduce_mean(b.op("Pow", [again, scalar(b, 2.0)])[0], (-1,))
    normal = b.div(centred, b.op("Sqrt", [b.add(variance, scalar(b, 1e-5))])[0])
    return b.add(b.mul(normal, b.weight((16,))), b.weight((16,)))


class TestMatching:
    @pytest.mark.parametrize("build", [lambda b, x: b.gelu(x), gelu_of_multiplied, gelu_by_tanh])
    def test_gelu_is_found_in_each_of_its_spellings(self, build: Callable[[GraphBuilder, str], str]) -> None:
        graph = of(build)

        [(name, operators)] = found(graph, "gelu")

        assert name == "gelu"
        assert sorted(operators) == sorted(node.op_type for node in graph.nodes)

    @pytest.mark.parametrize(
        ("build", "names", "expected"),
        [
            (hard_swish_divided, ["hard_sigmoid", "hard_swish"], ["hard_swish"]),
            (hard_swish_scaled, ["hard_sigmoid", "hard_swish"], ["hard_swish"]),
            # A gate over another tensor is neither hard swish nor SiLU.
            (gate_of_another, ["hard_sigmoid", "hard_swish", "silu"], ["hard_sigmoid"]),
            (lambda b, x: b.mul(b.input((1, 8, 6, 6)), b.sigmoid(x)), ["silu"], []),
            (lambda b, x: b.silu(x), ["silu"], ["silu"]),
            # A result that is read elsewhere keeps a match away.
            (lambda b, x: b.add(b.mul(x, gate := b.sigmoid(x)), gate), ["silu"], []),
            # Bounds must be constants.
            (clip_by_inputs, ["hard_sigmoid"], []),
            (lambda b, x: b.channel_shuffle(x, 2), ["channel_shuffle"], ["channel_shuffle"]),
            (turned((1, 2, 4, 6, 6), (0, 1, 2, 4, 3), (1, 8, 6, 6)), ["channel_shuffle"], []),
            (turned((1, 8, 36), (0, 2, 1), (1, 36, 8)), ["channel_shuffle"], []),
            (turned((1, 2, 4, 6, 6), (0, 2, 1, 3, 4), (1, 8, 36)), ["channel_shuffle"], []),
            (turned((8, 6, 6), (1, 2, 0), (1, 8, 6, 6)), ["channel_shuffle"], []),
        ],
    )
    def test_idioms_are_found_where_all_of_their_operators_mean_them(
        self, build: Callable[[GraphBuilder, str], str], names: list[str], expected: list[str]
    ) -> None:
        assert [name for name, _ in found(of(build), *names)] == expected

    def test_attention_ends_at_its_second_product(self) -> None:
        graph = of(lambda b, x: b.attention(x, 2), (1, 5, 8))

        assert found(graph, "attention") == [("attention", ("Mul", "MatMul", "Softmax", "MatMul"))]

    @pytest.mark.parametrize("twice", [False, True])
    def test_a_decomposed_layer_norm_is_found_whether_the_difference_is_shared_or_not(self, twice: bool) -> None:
        graph = of(lambda b, x: layer_norm_decomposed(b, x, twice=twice), (1, 4, 16))

        [(name, operators)] = found(graph, "layer_norm")

        assert name == "layer_norm"
        assert len(operators) == len(graph.nodes)

    def test_another_order_of_inner_operands_is_tried_when_the_outer_ones_do_not_fit(self) -> None:
        b = GraphBuilder("orders")
        p, q = b.input((4, 4)), b.input((4, 4))
        graph = b.finish(b.sub(b.add(p, q), q))

        # The inner Add binds x to p first, which the outer operand then contradicts.
        assert [idiom.name for [idiom] in find_idioms(graph, "t", ["Sub(Add(x, y), x)"]).values()] == ["t"]


class TestWhatAnIdiomSays:
    @pytest.mark.parametrize(
        ("build", "name", "attributes"),
        [
            (lambda b, x: b.gelu(x), "gelu", {"approximate": "none"}),
            (gelu_by_tanh, "gelu", {"approximate": "tanh"}),
            (lambda b, x: b.mul(b.hard_sigmoid(x), x), "hard_swish", {"alpha": 1 / 6, "beta": 0.5}),
            (lambda b, x: b.channel_shuffle(x, 2), "channel_shuffle", {"group": 2}),
            (lambda b, x: b.silu(x), "silu", {}),
        ],
    )
    def test_its_attributes_are_those_of_one_operator(
        self, build: Callable[[GraphBuilder, str], str], name: str, attributes: dict[str, object]
    ) -> None:
        graph = of(build)

        [idiom] = choose_idioms(graph, [name])

        assert idiom.attributes == pytest.approx(attributes) if name == "hard_swish" else idiom.attributes == attributes
        assert (idiom.inputs, idiom.output) == (graph.inputs, graph.outputs[0])

    def test_a_layer_norm_reads_its_weight_and_its_bias(self) -> None:
        graph = of(layer_norm_decomposed, (1, 4, 16))

        [idiom] = choose_idioms(graph, ["layer_norm"])

        scaled, shifted = graph.nodes[-2:]
        assert idiom.inputs == (*graph.inputs, scaled.inputs[1], shifted.inputs[1])
        assert idiom.attributes == {"axis": -1, "epsilon": pytest.approx(1e-5)}

    def test_constants_of_something_else_leave_it_without_attributes(self) -> None:
        graph = of(lambda b, x: b.div(b.clip(b.add(x, scalar(b, 3.0)), 0.0, 5.0), scalar(b, 6.0)))

        [idiom] = choose_idioms(graph, ["hard_sigmoid"])

        assert idiom.attributes is None
