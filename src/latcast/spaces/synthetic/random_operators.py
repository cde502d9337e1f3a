"""Random networks of rare operators, from which a predictor learns the latency of a Pad, a Gather or a TopK.

A network is a convolution, then steps on its map: one of :data:`STEPS` and a convolution in turn. A step gives a map of the same
size and channels, so that steps follow each other in any order. Results that are no map (the largest values and their places)
leave the network as outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.spaces.families.variants import DrawnSpace
from latcast.spaces.synthetic.mixed_blocks import log_uniform

NAME, MOVES_NAME, FORMS_NAME = "random_operators", "random_moves", "random_forms"
SIZES = (14, 16, 28, 32, 56, 64, 112)
CHANNELS = (16, 256)
MOST_ELEMENTS = 800_000
"""Elements of a map, as of a 56x56 one of 256 channels."""
MOST_ENLARGED = 3_000_000
"""Elements of a map that is made larger, as the last one of a network that marks objects."""
MOST_MACS = 500e6
MOST_CUBIC = 128
"""Side of an image that is resized over sixteen neighbours: one element after another takes long."""
MOST_BOXES = 800
"""Boxes of several classes."""
LENGTHS = (6, 14)
UNARY = ("Tanh", "Elu", "Softplus", "LeakyRelu", "HardSwish", "HardSigmoid", "Sigmoid", "Erf", "Exp", "Sqrt", "Abs", "Neg")
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")


class _Steps(GraphBuilder):
    """A builder that collects the results that leave the network."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.results: list[str] = []

    def size(self, x: str) -> tuple[int, int, int]:
        """Channels, height and width of a map."""
        _, channels, height, width = self.shape(x)
        return channels, height, width

    def indices(self, values: list[int]) -> str:
        return self.constant(values, dtype="int64")


def _unary(b: _Steps, x: str, rng: Random) -> str:
    if rng.random() < 0.1:
        return b.op("PRelu", [x, b.weight((b.channels(x), 1, 1), stem="slope")])[0]
    return b.op(rng.choice(UNARY), [x])[0]


def _binary(b: _Steps, x: str, rng: Random) -> str:
    """Add a binary operator of two maps, with a number, or with one number a channel."""
    kind, other = rng.choice(BINARY), rng.random()
    if other < 0.5:
        return b.op(kind, [x, b.relu(x)])[0]
    if other < 0.75:
        return b.op(kind, [x, b.constant(rng.choice((0.5, 2.0, 6.0)), dtype="float32")])[0]
    return b.op(kind, [x, b.weight((b.channels(x), 1, 1))])[0]


def _pad(b: _Steps, x: str, rng: Random, modes: Sequence[str] = ("constant", "reflect", "edge")) -> str:
    """Pad a map, then pool it back to its size."""
    amount = rng.choice((1, 1, 2, 3))
    padded = b.op("Pad", [x, b.indices([0, 0, amount, amount] * 2)], {"mode": rng.choice(modes)})[0]
    return b.max_pool(padded, 2 * amount + 1, 1)


def _resize(b: _Steps, x: str, rng: Random) -> str:
    """Smaller and larger again, each by the nearest pixel or by four."""
    _, height, width = b.size(x)
    factor = rng.choice((2, 2, 4))
    modes = rng.choice((("nearest", "nearest"), ("linear", "linear"), ("linear", "nearest")))
    small = b.resize(x, (max(height // factor, 1), max(width // factor, 1)), mode=modes[0])
    return b.resize(small, (height, width), mode=modes[1])


def _depth_to_space(b: _Steps, x: str, rng: Random) -> str:
    """Add a quarter of the channels on four times the pixels and back; maps of odd sizes take a plain convolution instead."""
    channels, height, width = b.size(x)
    if channels % 4 or height % 2 or width % 2:
        return b.conv_bn(x, channels, 1)
    if rng.random() < 0.5:
        return b.op("SpaceToDepth", [b.op("DepthToSpace", [x], {"blocksize": 2})[0]], {"blocksize": 2})[0]
    return b.op("DepthToSpace", [b.conv_bn(b.op("SpaceToDepth", [x], {"blocksize": 2})[0], 4 * channels, 1)], {"blocksize": 2})[0]


def _expand(b: _Steps, x: str, rng: Random) -> str:
    """Add the mean of each channel, or of each row, spread over the map."""
    axes = rng.choice(((2, 3), (3,), (1,)))
    spread = b.op("Expand", [b.reduce_mean(x, axes, keepdims=True), b.indices(list(b.shape(x)))])[0]
    return b.sub(x, spread)


def _gather(b: _Steps, x: str, rng: Random) -> str:
    """Channels, or rows of pixels, in another order."""
    axis = rng.choice((1, 1, 2, 3))
    order = list(range(b.shape(x)[axis]))
    rng.shuffle(order)
    return b.op("Gather", [x, b.indices(order)], {"axis": axis})[0]


def _normalise(b: _Steps, x: str, rng: Random) -> str:
    channels = b.channels(x)
    if rng.random() < 0.25:
        return b.op("LRN", [x], {"size": rng.choice((3, 5))})[0]
    return b.op("InstanceNormalization", [x, b.weight((channels,)), b.weight((channels,))])[0]


def _cum_sum(b: _Steps, x: str, rng: Random) -> str:
    return b.op("CumSum", [x, b.constant(rng.choice((1, 2, 3)), dtype="int64")])[0]


def _top_k(b: _Steps, x: str, rng: Random) -> str:
    """Add the largest of a few maps of scores."""
    _, height, width = b.size(x)
    rows = rng.choice((1, 4, 16))
    scores = b.reshape(b.conv(x, rows, 1), (1, rows, height * width))
    taken = b.indices([min(rng.choice((1, 5, 10, 100)), height * width)])
    b.results += b.op("TopK", [scores, taken], outputs=2)
    return x


def _grid_sample(b: _Steps, x: str, rng: Random) -> str:
    grid = b.transpose(b.op("Tanh", [b.conv(x, 2, 1)])[0], (0, 2, 3, 1))
    return b.op("GridSample", [x, grid], {"mode": rng.choice(("linear", "linear", "nearest"))})[0]


def _indexed(b: _Steps, x: str, rng: Random) -> str:
    """Pick some of the channels and write them where they were; and the largest of a few maps of scores, by their places."""
    channels, height, width = b.size(x)
    rows = b.reshape(x, (channels, height * width))
    places = b.constant([[place] for place in sorted(rng.sample(range(channels), rng.randint(1, channels)))], dtype="int64")
    written = b.op("ScatterND", [rows, places, b.op("GatherND", [rows, places])[0]])[0]
    _top_k(b, x, rng)
    taken = b.results[-1]
    scores = b.reshape(b.conv(x, b.shape(taken)[1], 1), (1, b.shape(taken)[1], height * width))
    picked = b.op("GatherElements", [scores, taken], {"axis": 2})[0]
    b.results.append(b.op("ScatterElements", [scores, taken, picked], {"axis": 2})[0])
    return b.reshape(written, (1, channels, height, width))


def _cubic(b: _Steps, x: str, rng: Random) -> str:
    """Add a few channels on more pixels, weighed over sixteen neighbours."""
    _, height, _ = b.size(x)
    size = min(rng.choice((2, 3, 4)) * height, MOST_CUBIC)
    b.results.append(b.resize(b.conv(x, rng.choice((1, 3, 8)), 1), (size, size), mode="cubic"))
    return x


def _transform(b: _Steps, x: str, rng: Random) -> str:
    """Add the spectra of a few maps."""
    _, height, width = b.size(x)
    maps = rng.choice((1, 4, 16))
    signals = b.reshape(b.conv(x, maps, 1), (maps, height * width, 1))
    b.results += b.op("DFT", [signals, "", b.constant(1, dtype="int64")], {"onesided": 1})
    return x


def _suppress(b: _Steps, x: str, rng: Random) -> str:
    """Add the boxes of a detector, of which those stay that do not overlap a better one."""
    _, height, width = b.size(x)
    classes = rng.choice((1, 4, 20)) if height * width <= MOST_BOXES else 1
    boxes = b.transpose(b.reshape(b.conv(x, 4, 1), (1, 4, height * width)), (0, 2, 1))
    scores = b.op("Sigmoid", [b.reshape(b.conv(x, classes, 1), (1, classes, height * width))])[0]
    limits = [b.indices([rng.choice((10, 50, 100))]), b.constant((0.5,), dtype="float32")]
    # How many boxes stay is known only when it runs, so that they cannot leave the network as they are.
    kept = b.op("NonMaxSuppression", [boxes, scores, *limits])
    b.results += b.op("ReduceMax", kept, {"axes": (0,)})
    return x


def _einsum(b: _Steps, x: str, rng: Random) -> str:
    """Products of a head's rows, as attention writes them."""
    channels, height, width = b.size(x)
    heads = rng.choice((1, 2, 4, 8))
    if channels % heads:
        heads = 1
    parts = b.reshape(x, (heads, channels // heads, height * width))
    scores = b.op("Einsum", [parts, parts], {"equation": "hcp,hdp->hcd"})[0]
    return b.reshape(b.op("Einsum", [b.softmax(scores), parts], {"equation": "hcd,hdp->hcp"})[0], (1, channels, height, width))


def _volume(b: _Steps, x: str, rng: Random) -> str:
    """Channels as the depth of a volume."""
    channels, height, width = b.size(x)
    depth = rng.choice((4, 8))
    if channels % depth:
        return b.conv_bn(x, channels, 3)
    inner = channels // depth
    weight = b.weight((inner, inner, 3, 3, 3))
    volume = b.reshape(x, (1, inner, depth, height, width))
    return b.reshape(b.op("Conv", [volume, weight], {"pads": (1,) * 6})[0], (1, channels, height, width))


def _patches(b: _Steps, x: str, rng: Random) -> str:
    """Add a convolution that steps by its own size, and its counterpart."""
    channels, height, width = b.size(x)
    size = rng.choice((2, 4, 7))
    if height % size or width % size:
        return b.conv_bn(x, channels, 3)
    return b.conv_transpose(b.conv(x, channels, size, stride=size, padding=0), channels, size, stride=size)


def _softmax(b: _Steps, x: str, rng: Random) -> str:
    """Over the channels of a map, its rows, or the tokens of a head, whose neighbours lie apart."""
    channels, height, width = b.size(x)
    if rng.random() < 0.6:
        return b.mul(x, b.softmax(x, axis=rng.choice((1, 1, 2))))
    heads = rng.choice((1, 2, 4))
    if channels % heads:
        heads = 1
    tokens = b.transpose(b.reshape(x, (1, heads, channels // heads, height * width)), (0, 1, 3, 2))
    return b.reshape(b.transpose(b.softmax(tokens, axis=2), (0, 1, 3, 2)), (1, channels, height, width))


def _multiplied(b: _Steps, x: str, rng: Random) -> str:
    """Add a depthwise convolution of several outputs a channel, and a 1x1 convolution back."""
    channels, height, width = b.size(x)
    stride = rng.choice((1, 1, 2))
    y = b.conv(x, rng.choice((2, 2, 3)) * channels, rng.choice((3, 3, 5, 7)), stride=stride, groups=channels)
    y = b.conv_bn(y, channels, 1)
    return y if stride == 1 else b.resize(y, (height, width))


def _grouped(b: _Steps, x: str, rng: Random) -> str:
    """Add a convolution in groups of a few channels."""
    channels = b.channels(x)
    widths = [width for width in (4, 8, 16, 32) if channels % width == 0 and width < channels]
    if not widths:
        return b.conv_bn(x, channels, 3)
    return b.relu(b.batch_norm(b.conv(x, channels, 3, groups=channels // rng.choice(widths))))


def _pool(b: _Steps, x: str, rng: Random) -> str:
    """Add a map less its local means."""
    size = rng.choice((3, 3, 5))
    return b.sub(b.average_pool(x, size, 1, size // 2), x)


def _gate(b: _Steps, x: str, rng: Random) -> str:
    """Scale each channel by a factor from the means of all, written as a reduction."""
    channels = b.channels(x)
    squeezed = b.relu(b.conv(b.reduce_mean(x, (2, 3)), max(channels // rng.choice((2, 4, 8)), 4), 1))
    return b.mul(x, b.op(rng.choice(("Sigmoid", "HardSigmoid")), [b.conv(squeezed, channels, 1)])[0])


def _enlarge(b: _Steps, x: str, rng: Random) -> str:
    """Add a few channels on four to 64 times the pixels, which leave the network."""
    _, height, width = b.size(x)
    factor, few = rng.choice((2, 4, 8)), rng.choice((8, 16, 21, 32))
    factor = max(min(factor, int((MOST_ENLARGED / (few * height * width)) ** 0.5)), 2)
    mode = rng.choice(("linear", "linear", "nearest"))
    b.results.append(b.resize(b.conv(x, few, 1), (factor * height, factor * width), mode=mode))
    return x


Step = Callable[[_Steps, str, Random], str]

STEPS: Mapping[str, tuple[Step, float]] = {
    "unary": (_unary, 2.0), "binary": (_binary, 2.0), "pad": (_pad, 1.5), "resize": (_resize, 2.0),
    "depth_to_space": (_depth_to_space, 1.5), "expand": (_expand, 1.5), "gather": (_gather, 2.0), "normalise": (_normalise, 1.5),
    "cum_sum": (_cum_sum, 1.0), "top_k": (_top_k, 1.0), "grid_sample": (_grid_sample, 0.7), "einsum": (_einsum, 0.7),
    "volume": (_volume, 0.7), "patches": (_patches, 1.0), "indexed": (_indexed, 1.0), "cubic": (_cubic, 0.7),
    "transform": (_transform, 0.5), "suppress": (_suppress, 0.7),
}  # fmt: skip
"""Steps by name, and their weights: operators of more models weigh more."""


MOVES: Mapping[str, tuple[Step, float]] = {
    **{name: STEPS[name] for name in ("resize", "depth_to_space", "expand", "gather", "patches")},
    "pad": (partial(_pad, modes=("constant", "reflect")), 1.5),
}
"""Steps that move data, of operators that all runtimes have; several run them by a plain loop over elements."""


FORMS: Mapping[str, tuple[Step, float]] = {
    "softmax": (_softmax, 1.0), "multiplied": (_multiplied, 1.0), "grouped": (_grouped, 1.5), "pool": (_pool, 1.0),
    "gate": (_gate, 1.5), "enlarge": (_enlarge, 1.0),
}  # fmt: skip
"""Steps of usual operators in forms that runtimes compute by other loops, and that other random networks lack."""


def _space(name: str, steps: Mapping[str, tuple[Step, float]]) -> DrawnSpace:
    def build(seed: int) -> Graph:
        rng = Random(f"{name}/{seed}")
        b = _Steps(f"{name}-{seed}")
        size = rng.choice(SIZES)
        most = min(CHANNELS[1], MOST_ELEMENTS // size**2)
        channels = max(round(log_uniform(rng, CHANNELS[0], most) / 4) * 4, 4)
        x = b.conv_bn(b.input((1, 3, size, size)), channels, 3)
        for index in range(rng.randint(*LENGTHS)):
            if index % 2:
                x = b.conv_bn(x, channels, rng.choice((1, 3)))
            else:
                step = rng.choices([step for step, _ in steps.values()], weights=[weight for _, weight in steps.values()])[0]
                x = step(b, x, rng)
        return b.finish(b.linear(b.flatten(b.global_average_pool(x)), 10), *b.results)

    return DrawnSpace(name, build, lambda rng: {"seed": rng.getrandbits(32)}, lambda graph: graph_macs(graph) <= MOST_MACS)


SPACE, MOVES_SPACE, FORMS_SPACE = _space(NAME, STEPS), _space(MOVES_NAME, MOVES), _space(FORMS_NAME, FORMS)
