"""Finding the kernels of a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latcast.graph.builder import GraphBuilder
from latcast.graph.idioms import IDIOMS
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_flops
from latcast.graph.operators.table import lookup, view_of
from latcast.kernels import KernelTable, find_kernels, kernel_type, load_rules
from latcast.kernels.kernel import Kernel, operator_class
from latcast.kernels.layouts import layouts
from latcast.kernels.rules import FusionRules, rules_for
from latcast.kernels.search import operator_classes
from latcast.predictors.analytical import term_values
from latcast.spaces.catalogue import SPACES, build, model


def rules(
    pairs: Mapping[str, Sequence[str]], *, patterns: Sequence[str] = (), inbound: int = 3, outbound: int = 0
) -> FusionRules:
    return FusionRules(
        "example",
        pairs={first: frozenset(seconds) for first, seconds in pairs.items()},
        patterns=tuple(patterns),
        free=frozenset({"flatten", "reshape"}),
        multi_inbound=inbound,
        multi_outbound=outbound,
    )


def spelled(graph: Graph, chosen: FusionRules) -> list[str]:
    """Each kernel as its operators joined by ``+``, without those that cost nothing."""
    return ["+".join(kernel.operators) for kernel in find_kernels(graph, chosen) if not kernel.free]


def of(build_graph: Callable[[GraphBuilder], str | tuple[str, ...]]) -> Graph:
    b = GraphBuilder("small")
    outputs = build_graph(b)
    return b.finish(*((outputs,) if isinstance(outputs, str) else outputs))


class TestResNet18:
    """nn-Meter, Table 4."""

    @pytest.mark.parametrize(
        ("behind", "different"),
        [
            (
                ("batch_normalization", "relu", "add"),
                {"Conv+BatchNormalization+Add+Relu": 8, "Conv+BatchNormalization": 3},
            ),  # GPU
            (("batch_normalization", "relu"), {"Conv+BatchNormalization": 11, "Add+Relu": 8}),
        ],
    )
    def test_the_kernels_of_gpu_and_of_cpu_and_vpu_are_those_of_the_paper(
        self, behind: Sequence[str], different: Mapping[str, int]
    ) -> None:
        found = Counter(spelled(build(model("resnet18")), rules({"conv": behind, "add": ("relu",)}, inbound=1)))

        assert found == {
            "Conv+BatchNormalization+Relu": 9, "MaxPool": 1, "GlobalAveragePool": 1, "Gemm": 1, **different,
        }  # fmt: skip

    def test_without_rules_each_operator_is_a_kernel(self) -> None:
        graph = build(model("resnet18"))

        assert [kernel.nodes for kernel in find_kernels(graph, load_rules("none"))] == [(node.name,) for node in graph.nodes]


IMAGE = (1, 8, 6, 6)

Outputs = str | tuple[str, ...]


def two_branches(b: GraphBuilder) -> str:
    """Pooling first, convolution second; the addition reads the convolution's result last."""
    x = b.input(IMAGE)
    return b.add(b.max_pool(x, 3, 1, 1), b.conv(x, 8))


def two_readers(b: GraphBuilder) -> str:
    y = b.conv(b.input(IMAGE), 8)
    return b.concat([b.relu(y), b.sigmoid(y)])


def figure_5(b: GraphBuilder) -> str:
    """The first block of ResNet-18; the pooling's result has two readers."""
    x = b.max_pool(b.input((1, 64, 112, 112)), 3, 2, 1)
    return b.relu(b.add(b.conv_bn(b.conv_bn(x, 64, 3), 64, 3, activation=None), x))


def split_parts(b: GraphBuilder) -> str:
    first, second = b.split(b.input(IMAGE), (4, 4))
    return b.add(first, b.conv(second, 4))


def outer_cycle(b: GraphBuilder) -> str:
    y = b.relu(b.input(IMAGE))
    return b.add(y, b.sigmoid(b.conv(y, 8)))


def inner_cycle(b: GraphBuilder) -> str:
    """The ReLU is taken in although the sigmoid reads its input too; the addition then needs both."""
    y = b.conv(b.input(IMAGE), 8)
    return b.add(b.relu(y), b.sigmoid(y))


def silu_behind(b: GraphBuilder) -> str:
    return b.silu(b.batch_norm(b.conv(b.input(IMAGE), 8)))


BOTH = {"max_pool": ("add",), "conv": ("add",)}


@pytest.mark.parametrize(
    ("build_graph", "chosen", "expected"),
    [
        (
            figure_5,
            rules({"max_pool": ("add",), "conv": ("batch_normalization", "relu", "add"), "add": ("relu",)}, inbound=1),
            ["MaxPool", "Conv+BatchNormalization+Relu", "Conv+BatchNormalization+Add+Relu"],
        ),
        # Of several inputs the rule says which takes the operator in; TFLite's is the first alone (Li et al., Algorithm B.2).
        (two_branches, rules(BOTH, inbound=0), ["MaxPool", "Conv", "Add"]),
        (two_branches, rules(BOTH, inbound=1), ["Conv", "MaxPool+Add"]),
        (two_branches, rules(BOTH, inbound=2), ["MaxPool", "Conv+Add"]),
        (two_branches, rules(BOTH, inbound=3), ["MaxPool", "Conv+Add"]),
        (two_branches, rules(BOTH, inbound=4), ["Conv", "MaxPool+Add"]),
        (two_branches, rules({"conv": ("add",)}, inbound=1), ["MaxPool", "Conv", "Add"]),
        (two_branches, rules({"max_pool": ("add",)}, inbound=3), ["Conv", "MaxPool+Add"]),
        (two_branches, rules({"conv": ("add",)}, inbound=4), ["MaxPool", "Conv+Add"]),
        (lambda b: b.add(y := b.conv(b.input(IMAGE), 8), y), rules({"conv": ("add",)}, inbound=0), ["Conv+Add"]),
        # Of several readers too.
        (two_readers, rules({"conv": ("relu", "sigmoid")}), ["Conv", "Relu", "Sigmoid", "Concat"]),
        (two_readers, rules({"conv": ("relu", "sigmoid")}, outbound=1), ["Conv+Relu", "Sigmoid", "Concat"]),
        (two_readers, rules({"conv": ("relu", "sigmoid")}, outbound=2), ["Conv+Sigmoid", "Relu", "Concat"]),
        (lambda b: (b.relu(y := b.conv(b.input(IMAGE), 8)), y), rules({"conv": ("relu",)}), ["Conv", "Relu"]),
        (split_parts, rules({"split": ("add",)}), ["Split", "Conv", "Add"]),
        # A fusion that would make a cycle is left out.
        (outer_cycle, rules({"relu": ("add",)}, inbound=1, outbound=2), ["Relu", "Conv", "Sigmoid", "Add"]),
        (inner_cycle, rules({"conv": ("relu", "add")}, outbound=1), ["Conv+Relu", "Sigmoid", "Add"]),
        # A pattern is one operator to the pairs.
        (
            silu_behind, rules({"conv": ("batch_normalization", "silu")}, patterns=("silu",)),
            ["Conv+BatchNormalization+Sigmoid+Mul"],
        ),
        (
            silu_behind, rules({"conv": ("batch_normalization",)}, patterns=("silu",)),
            ["Conv+BatchNormalization", "Sigmoid+Mul"],
        ),
        (lambda b: b.gelu(b.input((1, 5, 8))), rules({}, patterns=("gelu",)), ["Div+Erf+Add+Mul+Mul"]),
    ],
)  # fmt: skip
def test_pairs_and_patterns_are_fused_as_the_rules_say(
    build_graph: Callable[[GraphBuilder], Outputs], chosen: FusionRules, expected: list[str]
) -> None:
    assert spelled(of(build_graph), chosen) == expected


DELEGATE = rules({"*": ("add", "mul", "sub", "relu", "sigmoid", "batch_normalization", "mul_scalar")}, inbound=5)
"""TFLite's GPU delegate (Li et al., Algorithm B.2), with the swap of operands in its code."""


def joined(op_type: str, *, swapped: bool = False) -> Callable[[GraphBuilder], str]:
    """An operator on a pooling and a convolution behind it, or on these swapped."""

    def build_graph(b: GraphBuilder) -> str:
        x = b.input(IMAGE)
        operands = [b.max_pool(x, 3, 1, 1), b.conv(x, 8)]
        return b.op(op_type, operands[::-1] if swapped else operands)[0]

    return build_graph


def pre_activation(b: GraphBuilder) -> str:
    x = b.max_pool(b.input(IMAGE), 3, 1, 1)
    return b.relu(b.batch_norm(b.add(b.conv(b.relu(x), 8, 3), x)))


def gated(b: GraphBuilder) -> str:
    """The map has two readers, so nothing is linked to it; the gate comes second."""
    x = b.conv(b.input(IMAGE), 8)
    return b.relu(b.mul(b.sigmoid(b.conv(b.global_average_pool(x), 8)), x))


def late_chain(b: GraphBuilder) -> str:
    x = b.input(IMAGE)
    first, other = b.conv(x, 8), b.relu(b.max_pool(x, 3, 1, 1))
    return b.op("Sub", [b.relu(first), other])[0]


@pytest.mark.parametrize(
    ("build_graph", "expected"),
    [
        (
            lambda b: b.relu(b.batch_norm(b.concat([b.max_pool(x := b.input(IMAGE), 3, 1, 1), x]))),
            ["MaxPool", "Concat+BatchNormalization+Relu"],
        ),
        # Of a sum or product the operand written last comes first, of unequal ones the larger; a difference stays in place.
        (joined("Add"), ["MaxPool", "Conv+Add"]),
        (joined("Add", swapped=True), ["MaxPool", "Conv+Add"]),
        (joined("Mul"), ["MaxPool", "Conv+Mul"]),
        (joined("Mul", swapped=True), ["MaxPool", "Conv+Mul"]),
        (gated, ["Conv", "GlobalAveragePool", "Conv+Sigmoid", "Mul+Relu"]),
        (joined("Sub", swapped=True), ["MaxPool", "Conv+Sub"]),
        # An operand that is not there when the chain begins is not linked.
        (joined("Sub"), ["MaxPool", "Conv", "Sub"]),
        (late_chain, ["MaxPool+Relu", "Conv+Relu", "Sub"]),
        (pre_activation, ["MaxPool", "Relu", "Conv+Add+BatchNormalization+Relu"]),
    ],
)
def test_tflites_delegate_links_what_follows(build_graph: Callable[[GraphBuilder], str], expected: list[str]) -> None:
    assert spelled(of(build_graph), DELEGATE) == expected


class TestWhatIsFusedWithin:
    def test_operators_behind_count_their_flops_an_element_and_what_they_read(self) -> None:
        b = GraphBuilder("residual")
        x = b.input((1, 8, 6, 6))
        y = b.batch_norm(b.conv(b.relu(x), 8, 3))
        graph = b.finish(b.relu6(b.add(y, x)))

        *_, kernel = find_kernels(graph, rules({"conv": ("batch_normalization", "add", "relu6")}))

        values = dict(zip(kernel_type("conv").fields, kernel.configuration, strict=True))
        # Batch normalisation folds into the weights; the addition costs 1 and reads x, the Clip costs 2.
        assert (values["fused_flops"], values["fused_inputs"]) == (3, 1)

    def test_a_scale_before_a_product_leaves_it_a_product(self) -> None:
        b = GraphBuilder("scaled product")
        q, k = b.input((1, 2, 5, 4)), b.input((1, 2, 4, 5))
        graph = b.finish(b.matmul(b.mul(q, b.constant(0.5, dtype="float32")), k))

        [kernel] = find_kernels(graph, rules({"mul_scalar": ("matmul",)}))

        assert kernel.kernel_type == "matmul"
        # Batch 2, 5 rows, 4 inner, 5 columns; one FLOP an element for the scale, nothing read beside q and k.
        assert kernel.configuration == (2, 5, 4, 5, 1, 0, 0)

    def test_an_addition_before_a_normalisation_reads_one_activation_more(self) -> None:
        b = GraphBuilder("skip normalisation")
        x, y = b.input((1, 5, 16)), b.input((1, 5, 16))
        graph = b.finish(b.layer_norm(b.add(x, y)))

        [kernel] = find_kernels(graph, rules({"add": ("layer_normalization",)}))

        assert (kernel.kernel_type, kernel.configuration) == ("layer_norm", (5, 16, 1, 1, 0))

    def test_a_normalisation_takes_in_one_convolution_unless_a_pair_joins_two(self) -> None:
        b = GraphBuilder("normalised")
        graph = b.finish(b.conv(b.conv(b.batch_norm(b.input((1, 8, 6, 6))), 8), 16))
        behind = {"batch_normalization": ("conv",)}

        one, both = find_kernels(graph, rules(behind)), find_kernels(graph, rules({**behind, "conv": ("conv",)}))

        assert [kernel.nodes for kernel in one] == [("batchnormalization_0", "conv_0"), ("conv_1",)]
        assert [kernel.nodes for kernel in both] == [("batchnormalization_0", "conv_0", "conv_1")]

    def test_a_convolution_behind_another_keeps_its_flops(self) -> None:
        """Apple's GPUs run a small depthwise convolution and the 1x1 after it as one."""
        b = GraphBuilder("separable")
        graph = b.finish(b.conv(b.depthwise_conv(b.input((1, 8, 6, 6))), 16))

        [kernel] = find_kernels(graph, rules({"depthwise_conv": ("conv",)}))

        row = KernelTable.of([[kernel]]).configurations["depthwise_conv"]
        # 2*8*36*9 for the first, 2*16*36*8 for the second, which is 32 for each of the first one's 288 results.
        assert kernel.configuration[-3:] == (32, 0, 0)
        assert term_values(kernel_type("depthwise_conv"), row)[0, 0] == 2 * 8 * 36 * 9 + 2 * 16 * 36 * 8 == graph_flops(graph)

    def test_views_are_free_unless_something_is_fused_into_them(self) -> None:
        b = GraphBuilder("views")
        graph = b.finish(b.relu(b.reshape(b.input((1, 8, 6, 6)), (1, 8, 36))))

        assert [kernel.free for kernel in find_kernels(graph, rules({}))] == [True, False]
        assert [kernel.free for kernel in find_kernels(graph, rules({"reshape": ("relu",)}))] == [False]


class TestSelection:
    def test_kernels_carry_what_the_backend_runs(self) -> None:
        graph = build(model("resnet18"))

        mali = Counter(kernel.kernel_type for kernel in find_kernels(graph, rules_for("tflite", "fp16", "gpu", "s10")))
        adreno = Counter(kernel.kernel_type for kernel in find_kernels(graph, rules_for("tflite", "fp16", "gpu", "pixel4")))

        # Four convolutions of 64 maps of 56x56 and three of 128 of 28x28; on Adreno 49 tiles are too few.
        assert mali["conv.winograd"] == 7
        assert adreno["conv.winograd"] == 0
        assert mali["conv"] + 7 == adreno["conv"] == 20

    def test_nothing_else_changes(self) -> None:
        graph = build(model("mobilenet_v3_large"))
        chosen = rules_for("tflite", "fp16", "gpu", "s10")

        plain = find_kernels(graph, replace(chosen, selection=""))
        selected = find_kernels(graph, chosen)

        assert [kernel.nodes for kernel in plain] == [kernel.nodes for kernel in selected]
        changed = {(a.kernel_type, b.kernel_type) for a, b in zip(plain, selected, strict=True) if a.key != b.key}
        # The two convolutions of each of the eight gates work on 1x1 maps.
        assert changed == {("conv", "linear")}
        assert sum(a.key != b.key for a, b in zip(plain, selected, strict=True)) == 2 * 8


HEAVY = ("conv", "depthwise_conv", "depthwise_pointwise", "grouped_conv", "conv_transpose", "linear")
LIGHT = ("batch_normalization", "relu", "relu6", "sigmoid", "hard_swish", "add", "mul", "silu", "gelu", "bias_add")
CLASSES = (*HEAVY, *LIGHT, "matmul", "softmax", "concat", "split", "max_pool", "reduce_mean", "layer_normalization", "transpose")


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Random networks of the synthetic spaces, and variants of real ones with branches and attention."""
    space = draw(st.sampled_from(["block_sequence", "random_mixed", "googlenet", "shufflenet_v2", "mobilevit"]))
    [reference] = SPACES.get(space).sample(1, draw(st.integers(0, 10_000)))
    return build(reference)


@st.composite
def any_rules(draw: st.DrawFn, followers: Sequence[str] = CLASSES) -> FusionRules:
    pairs = draw(st.dictionaries(st.sampled_from(CLASSES), st.lists(st.sampled_from(followers)), max_size=12))
    return rules(
        pairs,
        patterns=draw(st.lists(st.sampled_from(IDIOMS.names()), unique=True)),
        inbound=draw(st.integers(0, 5)),
        outbound=draw(st.integers(0, 2)),
    )


def macs_of(graph: Graph) -> dict[str, int]:
    """Multiply-accumulates of each operator that is a matrix product, by the operator table."""
    found = {}
    for node in graph.nodes:
        entry = lookup(node.op_type)
        if entry is not None:
            found[node.name] = entry.macs(view_of(graph, node))
    return found


def matrix_flops(kernels: Sequence[Kernel]) -> float:
    table = KernelTable.of([kernels])
    kinds = [(kernel_type(name), rows) for name, rows in table.configurations.items() if name in HEAVY]
    counts = Counter(kernel.key for kernel in kernels)
    return sum(
        float(flops) * counts[(kind.name, tuple(row.tolist()))]
        for kind, rows in kinds
        for row, flops in zip(rows, kind.quantities(kind.columns(rows)).flops, strict=True)
    )


@settings(max_examples=60)
@given(networks(), any_rules())
def test_kernels_cover_every_operator_once_in_an_order_that_runs(graph: Graph, chosen: FusionRules) -> None:
    nodes, macs = {node.name: node for node in graph.nodes}, macs_of(graph)
    ready = set(graph.inputs) | set(graph.weights) | set(graph.constants) | {""}
    kernels = find_kernels(graph, chosen)

    assert Counter(node for kernel in kernels for node in kernel.nodes) == Counter(nodes.keys())
    for kernel in kernels:
        assert kernel.operators == tuple(nodes[name].op_type for name in kernel.nodes)
        assert len(kernel.configuration) == len(kernel_type(kernel.kernel_type).fields)
        assert all(type(value) is int and value >= 0 for value in kernel.configuration)
        made = {output for name in kernel.nodes for output in nodes[name].outputs}
        assert {name for node in kernel.nodes for name in nodes[node].inputs} <= ready | made
        ready |= made
        row = KernelTable.of([[kernel]]).configurations.get(kernel.kernel_type)
        if row is not None:
            charged = term_values(kernel_type(kernel.kernel_type), row)[0, 0]
            assert charged >= 2 * sum(macs[name] for name in kernel.nodes) * (1 - 1e-12)


@settings(max_examples=40)
@given(networks(), any_rules(followers=LIGHT))
def test_fusion_keeps_the_flops_of_convolutions_and_linear_layers(graph: Graph, chosen: FusionRules) -> None:
    macs = macs_of(graph)
    expected = 2 * sum(macs[node.name] for node in graph.nodes if operator_class(graph, node) in HEAVY)

    kernels = find_kernels(graph, rules(chosen.pairs, patterns=[p for p in chosen.patterns if p != "squeeze_excite"]))

    assert matrix_flops(kernels) == pytest.approx(expected, rel=1e-12)


@settings(max_examples=40)
@given(networks(), st.sampled_from(["openvino", "onnxruntime-int8"]))
def test_reorders_stand_between_unchanged_kernels_and_each_tensor_is_reordered_once(graph: Graph, name: str) -> None:
    rules = load_rules(name)
    kernels = find_kernels(graph, rules)
    plain = find_kernels(graph, replace(rules, layouts=None))

    assert [kernel.nodes for kernel in kernels if kernel.nodes] == [kernel.nodes for kernel in plain]
    assert rules.layouts is not None
    on_integers = rules.quantisation.on_integers if rules.quantisation else frozenset[str]()
    found = layouts(graph, plain, operator_classes(graph, rules), rules.layouts, on_integers).reorders
    assert len(found) == len({(each.tensor, each.channels_last) for each in found}) == sum(not each.nodes for each in kernels)


class TestLayouts:
    """Transposes between images and rows of channels, of a runtime that keeps channels last."""

    def block(self, last: str) -> Graph:
        b = GraphBuilder("tokens")
        x = b.conv(b.input((1, 8, 4, 4)), 16, 1)
        x = b.layer_norm(b.transpose(b.reshape(x, (1, 16, 16)), (0, 2, 1)))
        x = b.transpose(b.linear(x, 16), (0, 2, 1))
        return b.finish(b.conv(b.reshape(x, (1, 16, 4, 4)), 8, 1) if last == "conv" else b.relu(x))

    def busy(self, graph: Graph, chosen: FusionRules) -> list[str]:
        """Without reorders, of which :mod:`tests.kernels.test_layouts` speaks."""
        return [kernel.kernel_type for kernel in find_kernels(graph, chosen) if kernel.nodes and not kernel.free]

    def test_transposes_next_to_convolutions_cost_nothing_where_the_rules_say_so(self) -> None:
        kinds = ["conv", "layer_norm", "linear", "conv"]

        assert self.busy(self.block("conv"), rules_for("openvino", "fp32")) == kinds
        assert self.busy(self.block("conv"), rules_for("onnxruntime", "fp32")) == [
            "conv", "transpose", "layer_norm", "linear", "transpose", "conv",
        ]  # fmt: skip

    def test_a_transpose_of_rows_without_a_convolution_behind_costs_what_it_moves(self) -> None:
        kinds = ["conv", "layer_norm", "linear", "transpose", "activation"]

        assert self.busy(self.block("relu"), rules_for("openvino", "fp32")) == kinds

    def test_an_image_that_gets_its_channels_last_is_moved_and_the_way_back_is_free(self) -> None:
        b = GraphBuilder("image")
        x = b.transpose(b.conv(b.input((1, 8, 4, 4)), 16, 1), (0, 2, 3, 1))
        graph = b.finish(b.relu(b.transpose(b.relu(x), (0, 3, 1, 2))))

        assert self.busy(graph, rules_for("openvino", "fp32")) == ["conv", "transpose", "activation", "activation"]


def test_filters_are_standardised_before_their_convolution_where_constants_are_not_folded() -> None:
    b = GraphBuilder("two")
    graph = b.finish(b.conv(b.conv(b.input((1, 8, 32, 32)), 16, 3), 4, 1))
    second = graph.nodes[1]
    graph = replace(graph, standardised=frozenset({second.inputs[1]}))

    folded, unfolded = (find_kernels(graph, load_rules(name)) for name in ("tflite", "unfolded"))

    assert [kernel.kernel_type for kernel in folded] == ["conv", "conv"]
    assert [kernel.kernel_type for kernel in unfolded] == ["conv", "layer_norm.of_filters", "conv"]
    # Four filters of sixteen values, for the sake of the second convolution.
    assert (unfolded[1].configuration[:2], unfolded[1].name, unfolded[1].nodes) == ((4, 16), second.name, ())
