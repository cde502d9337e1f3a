"""Small networks from whose latencies the operators that a runtime fuses are found (nn-Meter §4.1).

A network is a chain of operators between *walls*, repeated in blocks. A wall is an operator that runtimes do not fuse (a
narrow pooling, a softmax, a transposition): ``conv, relu, wall`` and ``conv, wall, relu, wall`` differ in whether the
two may become one kernel, and in nothing else that counts. Tensors are small, so that an operator costs about as much as
starting a kernel, whatever it computes; blocks in series make the sum long enough to be timed. Inside a chain all data are
in the caches and in the layout that the runtime prefers; what the outside costs (copying inputs and outputs, changing their
layout) is there once, in every network alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from random import Random
from typing import Any, TypeAlias

from latcast.errors import ModelError, UnknownNameError
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph, Shape
from latcast.records import Reference
from latcast.registry import Registry

NAME = "operator_pairs"

WALL = "wall"
"""Placeholder of the network's wall in a chain."""

MAP, ROWS, TOKENS = "map", "rows", "tokens"
"""Forms of the tensors: (1, C, H, W), (rows, columns), (1, tokens, columns)."""

EVERY_FORM = (MAP, ROWS, TOKENS)
VECTORS = (ROWS, TOKENS)

Element: TypeAlias = "str | list[Any]"
"""An operator's name, ``"wall"``, or a join of branches: ``["add", ["conv"], ["wall"]]`` feeds both branches with what came
before and adds their results."""


@dataclass(frozen=True)
class ChainStep:
    """An element of a built chain: its block, its name (of a join the operator that joins), and the nodes that it became."""

    block: int
    element: str
    nodes: tuple[str, ...]


class ChainBuilder(GraphBuilder):
    """Adds the operators of a chain and keeps which nodes each became."""

    def __init__(self, name: str, wall: Callable[[ChainBuilder, str], str]) -> None:
        super().__init__(name)
        self.steps: list[ChainStep] = []
        self._wall = wall
        self.operands: dict[Shape, str] = {}
        self._operand_nodes: set[str] = set()

    def wall(self, x: str) -> str:
        return self._wall(self, x)

    def operand(self, x: str) -> str:
        """Return a second input for an operator on ``x``: one tensor for each shape, behind a wall as ``x`` is."""
        shape = self.shape(x)
        if shape not in self.operands:
            start = len(self._nodes)
            y = self.wall(self.input(shape))
            self.operands[shape] = y if self.shape(y) == shape else self.wall(y)
            self._operand_nodes.update(node.name for node in self._nodes[start:])
        return self.operands[shape]

    def _nodes_since(self, start: int) -> tuple[str, ...]:
        """Names of the nodes from index ``start`` on, without those of second inputs."""
        return tuple(node.name for node in self._nodes[start:] if node.name not in self._operand_nodes)

    def add_element(self, element: Element, x: str, block: int) -> str:
        """Add one element of a chain and return its result."""
        if isinstance(element, str):
            start = len(self._nodes)
            y = self.wall(x) if element == WALL else operator(element).add(self, x)
            self.steps.append(ChainStep(block, element, self._nodes_since(start)))
            return y
        join, *branches = element
        ends = []
        for branch in branches:
            y = x
            for part in branch:
                y = self.add_element(part, y, block)
            ends.append(y)
        start = len(self._nodes)
        y = self.concat(ends) if join == "concat" else self.op(join.capitalize(), ends)[0]
        self.steps.append(ChainStep(block, join, self._nodes_since(start)))
        return y

    def restore(self, x: str, shape: Shape) -> str:
        """Bring a tensor back to a shape: by a view where the elements are as many, by cutting and repeating else."""
        if prod(self.shape(x)) == prod(shape):
            return self.reshape(x, shape)
        for axis, wanted in enumerate(shape):
            found = self.shape(x)[axis]
            if found > wanted:
                x = self.slice(x, [0], [wanted], [axis])
            elif found < wanted and wanted % found == 0 and (axis < 2 or len(shape) < 4):
                x = self.concat([x] * (wanted // found), axis)
        if len(shape) == 4 and self.shape(x)[2:] != shape[2:]:
            x = self.resize(x, (shape[2], shape[3]))
        return x


Adder = Callable[[ChainBuilder, str], str]


@dataclass(frozen=True)
class ChainOperator:
    """An operator of a chain, how it is added, and on which forms.

    Attributes:
        keeps_shape: Whether its result has the shape of what it reads.
        two_inputs: Whether it reads a second activation.
        members: The operators that it is made of, where it is a pattern of several.
    """

    add: Adder
    forms: tuple[str, ...] = EVERY_FORM
    keeps_shape: bool = True
    two_inputs: bool = False
    members: tuple[str, ...] = ()


def _unary(op_type: str) -> ChainOperator:
    return ChainOperator(lambda b, x: b.op(op_type, [x])[0])


def _with_scalar(op_type: str, value: float) -> ChainOperator:
    return ChainOperator(lambda b, x: b.op(op_type, [x, b.constant(value, dtype="float32")])[0])


def _activation(name: str, *members: str) -> ChainOperator:
    return ChainOperator(lambda b, x: b.activation(x, name), members=members)


def _channel_weight(b: ChainBuilder, x: str, stem: str) -> str:
    """Add a weight with a value for each channel of a map, or for each column of anything else."""
    shape = b.shape(x)
    return b.weight((shape[1], 1, 1) if len(shape) == 4 else (shape[-1],), stem=stem)


def _conv_transpose(b: ChainBuilder, x: str) -> str:
    channels = b.channels(x)
    inputs = [x, b.weight((channels, channels, 3, 3), stem="conv_weight"), b.weight((channels,), stem="conv_bias")]
    return b.op("ConvTranspose", inputs, {"kernel_shape": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1)})[0]


def _swap_last_axes(b: ChainBuilder, x: str) -> str:
    rank = len(b.shape(x))
    return b.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def _feature_axis(b: ChainBuilder, x: str) -> int:
    """Channels of a map, columns of anything else."""
    return 1 if len(b.shape(x)) == 4 else len(b.shape(x)) - 1


def _halves(b: ChainBuilder, x: str) -> tuple[int, int]:
    size = b.shape(x)[_feature_axis(b, x)]
    return size // 2, size - size // 2


def _reshape(b: ChainBuilder, x: str) -> str:
    """Another view of the same rank; twice is back."""
    *head, before, last = b.shape(x)
    return b.reshape(x, (*head, before // 2, 2 * last) if before >= last else (*head, 2 * before, last // 2))


def _squeeze(b: ChainBuilder, x: str) -> str:
    axis = b.constant([0], dtype="int64")
    return b.op("Squeeze", [b.op("Unsqueeze", [x, axis])[0], axis])[0]


def _layer_norm(b: ChainBuilder, x: str) -> str:
    """Layer normalisation as exporters without an operator for it write it: nine operators."""
    columns = (b.shape(x)[-1],)
    centred = b.sub(x, b.reduce_mean(x, (-1,)))
    square = b.op("Pow", [centred, b.constant(2.0, dtype="float32")])[0]
    variance = b.add(b.reduce_mean(square, (-1,)), b.constant(1e-5, dtype="float32"))
    scaled = b.mul(b.div(centred, b.op("Sqrt", [variance])[0]), b.weight(columns, stem="ln_scale"))
    return b.add(scaled, b.weight(columns, stem="ln_bias"))


def _attention(b: ChainBuilder, x: str) -> str:
    """softmax(x yᵀ) z of three tensors of one shape."""
    other = b.operand(x)
    return b.matmul(b.softmax(b.matmul(x, _swap_last_axes(b, other))), other)


_SHIPPED: Mapping[str, ChainOperator] = {
    "conv": ChainOperator(lambda b, x: b.conv(x, b.channels(x), 1, bias=True), (MAP,)),
    "depthwise_conv": ChainOperator(lambda b, x: b.depthwise_conv(x, 3, bias=True), (MAP,)),
    "grouped_conv": ChainOperator(lambda b, x: b.conv(x, b.channels(x), 1, groups=2, bias=True), (MAP,)),
    "conv_transpose": ChainOperator(_conv_transpose, (MAP,)),
    "linear": ChainOperator(lambda b, x: b.linear(x, b.shape(x)[-1], bias=len(b.shape(x)) == 2), VECTORS),
    "matmul": ChainOperator(lambda b, x: b.matmul(x, b.operand(x)), two_inputs=True),
    "batch_normalization": ChainOperator(lambda b, x: b.batch_norm(x), (MAP,)),
    "layer_normalization": ChainOperator(lambda b, x: b.layer_norm(x)),
    "relu": _activation("relu"),
    "relu6": _activation("relu6"),
    "clip": ChainOperator(lambda b, x: b.clip(x, -1.0, 1.0)),
    "leaky_relu": _activation("leaky_relu"),
    "p_relu": ChainOperator(lambda b, x: b.op("PRelu", [x, _channel_weight(b, x, "slope")])[0]),
    "hard_swish": _activation("hard_swish"),
    "hard_sigmoid": _activation("hard_sigmoid"),
    "sigmoid": _activation("sigmoid"),
    "tanh": _unary("Tanh"),
    "silu": _activation("silu", "sigmoid", "mul"),
    # TFLite has no error function that stands alone; a hyperbolic tangent takes as long.
    "gelu": _activation("gelu", "div_scalar", "tanh", "add_scalar", "mul", "mul_scalar"),
    "mish": ChainOperator(
        lambda b, x: b.mul(x, b.op("Tanh", [b.op("Softplus", [x])[0]])[0]), members=("softplus", "tanh", "mul")
    ),
    "decomposed_hard_swish": ChainOperator(lambda b, x: b.mul(x, b.hard_sigmoid(x)), members=("hard_sigmoid", "mul")),
    "decomposed_hard_sigmoid": ChainOperator(
        lambda b, x: b.div(b.relu6(b.add(x, b.constant(3.0, dtype="float32"))), b.constant(6.0, dtype="float32")),
        members=("add_scalar", "relu6", "div_scalar"),
    ),
    "softplus": _unary("Softplus"),
    "add": ChainOperator(lambda b, x: b.add(x, b.operand(x)), two_inputs=True),
    "mul": ChainOperator(lambda b, x: b.mul(x, b.operand(x)), two_inputs=True),
    "bias_add": ChainOperator(lambda b, x: b.add(x, _channel_weight(b, x, "bias"))),
    "add_scalar": _with_scalar("Add", 1.0),
    "mul_scalar": _with_scalar("Mul", 0.5),
    "div_scalar": _with_scalar("Div", 2.0),
    "max_pool": ChainOperator(lambda b, x: b.max_pool(x, 3, 1, 1), (MAP,)),
    "average_pool": ChainOperator(lambda b, x: b.average_pool(x, 3, 1, 1), (MAP,)),
    "global_average_pool": ChainOperator(lambda b, x: b.global_average_pool(x), (MAP,), keeps_shape=False),
    "reduce_mean": ChainOperator(lambda b, x: b.reduce_mean(x, (-1,)), keeps_shape=False),
    "softmax": ChainOperator(lambda b, x: b.softmax(x)),
    "concat": ChainOperator(lambda b, x: b.concat([x, b.operand(x)], _feature_axis(b, x)), keeps_shape=False, two_inputs=True),
    "split": ChainOperator(lambda b, x: b.split(x, _halves(b, x), _feature_axis(b, x))[0], keeps_shape=False),
    "slice": ChainOperator(lambda b, x: b.slice(x, [0], [_halves(b, x)[0]], [_feature_axis(b, x)]), keeps_shape=False),
    "transpose": ChainOperator(_swap_last_axes),
    "resize": ChainOperator(lambda b, x: b.resize(x, (2 * b.shape(x)[2], 2 * b.shape(x)[3])), (MAP,), keeps_shape=False),
    "pad": ChainOperator(lambda b, x: b.pad(x, (0, 0, 1, 1, 0, 0, 1, 1)), (MAP,), keeps_shape=False),
    "reshape": ChainOperator(_reshape, keeps_shape=False),
    "flatten": ChainOperator(lambda b, x: b.reshape(b.flatten(x), b.shape(x))),
    "squeeze": ChainOperator(_squeeze),
    "identity": _unary("Identity"),
    "dropout": _unary("Dropout"),
    # The subtractions take as long as an addition or a bias, the square root as long as a sigmoid.
    "layer_norm": ChainOperator(
        _layer_norm,
        members=("reduce_mean", "add", "mul_scalar", "reduce_mean", "add_scalar", "sigmoid", "mul", "bias_add", "bias_add"),
    ),
    # Flattening and back represents the two reshapes.
    "channel_shuffle": ChainOperator(lambda b, x: b.channel_shuffle(x, 2), (MAP,), members=("flatten", "transpose")),
    "unscaled_attention": ChainOperator(
        _attention, two_inputs=True, members=("transpose", "matmul", "softmax", "matmul")
    ),
}  # fmt: skip

OPERATORS: Registry[ChainOperator] = Registry("operator of test networks", {}, group="latcast.fusion_cases")
"""Operators by the class that fusion rules know them by (:mod:`latcast.kernels.kernel`), or by their pattern's name."""

for _name, _operator in _SHIPPED.items():
    OPERATORS.register(_name, _operator)

WALLS: Mapping[str, ChainOperator] = {
    "average_pool": ChainOperator(lambda b, x: b.average_pool(x, (1, 3), 1, (0, 1)), (MAP,)),
    "max_pool": ChainOperator(lambda b, x: b.max_pool(x, (1, 3), 1, (0, 1)), (MAP,)),
    "softmax": _SHIPPED["softmax"],
    "transpose": _SHIPPED["transpose"],
    "p_relu": replace(_SHIPPED["p_relu"], forms=(MAP,)),
    "hard_swish": ChainOperator(lambda b, x: b.hard_swish(x), VECTORS),
}
"""No wall suits every runtime. A pooling works in whatever layout convolutions like; some runtimes move activations past a
maximum, or fuse them into either. A softmax works in the plain layout. A transposition and the activations with which hardly
anything is fused take little time where they are not themselves fused or cancelled."""


def stands_behind(wall: str, name: str, form: str) -> bool:
    """Return whether a wall keeps the shape of what an operator makes: a transposition does where the last two axes are equal."""
    if wall != "transpose" or operator(name).keeps_shape:
        return form in WALLS[wall].forms
    return form == MAP and name not in ("reduce_mean", "reshape")


def operator(name: str) -> ChainOperator:
    """Return the operator of this name, or raise an UnknownNameError with the nearest names."""
    return OPERATORS.get(name)


@dataclass(frozen=True)
class ChainNetwork:
    """A test network with what each element of its chain became."""

    graph: Graph
    steps: tuple[ChainStep, ...]


def input_shape(form: str, size: int, channels: int) -> Shape:
    """Return the shape of the tensors in a chain, of about ``channels * size**2`` elements, with equal last two axes."""
    if size < 4 or channels < 4 or size % 2 or channels % 2:
        raise ModelError(f"test networks have even sizes and channels of at least 4, not {size} and {channels}")
    if form == MAP:
        return (1, channels, size, size)
    side = 2 * round(size * channels**0.5 / 2)
    if form == ROWS:
        return (side, side)
    if form == TOKENS:
        return (1, side, side)
    raise ModelError(f"no form is called '{form}'; expected one of {', '.join(EVERY_FORM)}")


def chain_network(
    chain: Sequence[Element],
    *,
    wall: str = "average_pool",
    blocks: int = 4,
    size: int = 8,
    channels: int = 16,
    form: str = MAP,
    operand: bool = False,
) -> ChainNetwork:
    """Build a test network of so many blocks of a chain, in series.

    Args:
        chain: The elements of a block, in order.
        wall: One of :data:`WALLS`, which stands for ``"wall"``. One also stands before the first block, and one behind each block
            whose result had to be brought back to the shape it began with.
        size, channels: Height and width, and channels, of maps.
        form: ``map``, ``rows`` or ``tokens``.
        operand: Whether the network has the second input that operators with two inputs read, even where none is there. Where
            it has one, the last result is added to it, so that networks with and without such operators end alike.

    Raises:
        UnknownNameError: An operator or a wall of unknown name.
        ModelError: An operator does not work on the form, or the shapes do not fit.
    """
    shape = input_shape(form, size, channels)
    for name in _names(chain):
        if form not in operator(name).forms:
            raise ModelError(f"'{name}' does not work on the form '{form}'; it does on {', '.join(operator(name).forms)}")
    if wall not in WALLS:
        raise UnknownNameError(f"no wall is called '{wall}'; known: {', '.join(WALLS)}")
    if form not in WALLS[wall].forms:
        raise ModelError(f"a '{wall}' wall does not work on the form '{form}'; it does on {', '.join(WALLS[wall].forms)}")
    builder = ChainBuilder(f"{' '.join(map(_text, chain))} x{blocks}", WALLS[wall].add)
    x = builder.wall(builder.input(shape))
    if operand:
        builder.operand(x)
    for block in range(blocks):
        for element in chain:
            x = builder.add_element(element, x, block)
        if builder.shape(x) != shape:
            x = builder.wall(builder.restore(x, shape))
    if shape in builder.operands:
        x = builder.add(x, builder.operand(x))
    return ChainNetwork(builder.finish(x), tuple(builder.steps))


def _text(element: Element) -> str:
    """Return a name, or a join as ``add(conv | max_pool)``."""
    if isinstance(element, str):
        return element
    join, *branches = element
    return f"{join}({' | '.join(' '.join(map(_text, branch)) for branch in branches)})"


def _names(chain: Sequence[Element]) -> list[str]:
    """Names of all operators in a chain, those inside joins too."""
    found: list[str] = []
    for element in chain:
        if isinstance(element, str):
            found += [element] if element != WALL else []
        else:
            found += [name for branch in element[1:] for name in _names(branch)]
    return found


def chain_reference(chain: Sequence[Element], **parameters: Any) -> Reference:
    """Return the reference of a test network; parameters as for :func:`chain_network`."""
    return Reference(NAME, {"chain": list(chain), **parameters}, " ".join(map(_text, chain)))


class OperatorPairs:
    """The space of test networks."""

    name = NAME

    def build(self, **parameters: Any) -> Graph:
        return chain_network(**parameters).graph

    def sample(self, count: int, seed: int) -> list[Reference]:
        """Different ordered pairs, each followed by a wall."""
        on_maps = [name for name in OPERATORS if MAP in operator(name).forms]
        pairs = [(first, second) for first, second in product(on_maps, on_maps) if operator(first).keeps_shape]
        if count > len(pairs):
            raise ModelError(f"{count} test networks were asked for and there are {len(pairs)} ordered pairs")
        return [chain_reference([*chosen, WALL]) for chosen in Random(seed).sample(pairs, count)]


SPACE = OperatorPairs()
