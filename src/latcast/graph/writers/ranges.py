"""Quantised numbers: plausible ranges of activations, worked out without running the network; integer weights.

A quantised file needs a scale for every tensor. Real tools run calibration data; here a network has synthetic weights, so a
range is right when values neither saturate nor vanish. Every tensor is stood in for by a sample of its values: element-wise
operators act on the sample, convolutions and matrix products draw a new one with the variance that the synthetic weights
give (2 / fan-in), and so on through the graph.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from latcast.graph.ir import Graph, Node
from latcast.graph.operators import Kind, names_of, operators

SAMPLE_SIZE = 512
HEADROOM = 1.5
"""A range reaches this much further than the sample: a tensor has more elements than the sample and so larger extremes."""
LARGEST_WINDOW = 4
"""Values of a pooling window taken as independent: neighbours are correlated, and channels differ in their means."""

Sample = np.ndarray


def _sigmoid(x: Sample) -> Sample:
    return 1.0 / (1.0 + np.exp(-np.clip(x, -60.0, 60.0)))


_UNARY: Mapping[str, Callable[[Sample], Sample]] = {
    "Relu": lambda x: np.maximum(x, 0.0),
    "Sigmoid": _sigmoid,
    "HardSigmoid": lambda x: np.clip(x / 6.0 + 0.5, 0.0, 1.0),
    "HardSwish": lambda x: x * np.clip(x / 6.0 + 0.5, 0.0, 1.0),
    "Swish": lambda x: x * _sigmoid(x),
    "Mish": lambda x: x * np.tanh(np.log1p(np.exp(np.clip(x, -60.0, 60.0)))),
    "Gelu": lambda x: 0.5 * x * (1.0 + np.tanh(0.7979 * (x + 0.0447 * x**3))),
    "Tanh": np.tanh,
    "Erf": lambda x: np.tanh(1.1284 * (x + 0.0895 * x**3)),
    "LeakyRelu": lambda x: np.where(x > 0, x, 0.1 * x),
    "PRelu": lambda x: np.where(x > 0, x, 0.25 * x),
    "Elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
    "Selu": lambda x: 1.05 * np.where(x > 0, x, 1.67 * np.expm1(np.minimum(x, 0.0))),
    "Softplus": lambda x: np.logaddexp(0.0, x),
    "Exp": lambda x: np.exp(np.minimum(x, 20.0)),
    "Log": lambda x: np.log(np.maximum(np.abs(x), 1e-6)),
    "Sqrt": lambda x: np.sqrt(np.abs(x)),
    "Abs": np.abs,
    "Neg": np.negative,
    "Reciprocal": lambda x: 1.0 / np.where(np.abs(x) < 1e-3, 1e-3, x),
}

_BINARY: Mapping[str, Callable[[Sample, Sample], Sample]] = {
    "Add": np.add,
    "Sum": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": lambda a, b: a / np.where(np.abs(b) < 1e-3, 1e-3, b),
    "Min": np.minimum,
    "Max": np.maximum,
    "Pow": lambda a, b: np.power(np.abs(a), np.clip(b, -4.0, 4.0)),
}

_BOUNDS = {row.op_type: row.bounds for row in operators() if row.bounds is not None}

_PRODUCTS = names_of(operators(Kind.PRODUCT))
_NORMALISATIONS = names_of(operators(Kind.NORMALISATION))
_MEANS, _MAXIMA = (names_of(row for row in operators() if row.combines == how) for how in ("mean", "max"))
_TERMS: Mapping[str, Callable[[Sample], Sample]] = {"magnitudes": np.abs, "squares": np.square}
_NORMS = {row.op_type: _TERMS[row.combines] for row in operators() if row.combines in _TERMS}
"""Operator to what it adds up."""


class _Sampler:
    """Carries samples through a graph."""

    def __init__(self, graph: Graph, weights: Mapping[str, np.ndarray], seed: int) -> None:
        self.graph = graph
        self.weights = weights
        self.seed = seed
        self.samples: dict[str, Sample] = {}

    def draw(self, name: str) -> Sample:
        """Return a sample of the standard normal distribution that depends on the tensor's name alone."""
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())]).standard_normal(SAMPLE_SIZE)

    def of(self, name: str) -> Sample:
        """Return a tensor's sample; weights and constants are resampled from their values."""
        if name not in self.samples:
            values = self.weights.get(name, self.graph.constants.get(name))
            if values is None:
                self.samples[name] = self.draw(name)
            else:
                flat = np.asarray(values, dtype=np.float64).reshape(-1)
                rng = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
                chosen = rng.integers(0, flat.size, SAMPLE_SIZE) if flat.size else np.zeros(SAMPLE_SIZE, int)
                self.samples[name] = flat[chosen] if flat.size else np.zeros(SAMPLE_SIZE)
        return self.samples[name]

    def product(self, node: Node) -> Sample:
        """Sample a normal distribution, as sums of products have; a weight's variance is already divided by half the fan-in."""
        a, b = self.of(node.inputs[0]), self.of(node.inputs[1])
        shape = self.graph.shape(node.inputs[1])
        if node.op_type == "Conv":
            terms = prod(shape[1:])
        elif node.op_type == "ConvTranspose":
            terms = max(1, shape[0] // node.integer("group", 1))
        else:
            terms = shape[-1] if node.attributes.get("transB") else shape[-2] if len(shape) > 1 else shape[0]
        # Of a weight all values count: the mean of a sample, however small, would be added up ``terms`` times.
        weight = self.weights.get(node.inputs[1])
        factors = b if weight is None else np.asarray(weight, dtype=np.float32)
        factor_mean, factor_square = float(factors.mean(dtype=np.float64)), float(np.square(factors).mean(dtype=np.float64))
        mean = terms * a.mean() * factor_mean
        variance = terms * max((a**2).mean() * factor_square - (a.mean() * factor_mean) ** 2, 0.0)
        result = mean + np.sqrt(variance) * self.draw(node.outputs[0])
        return result + self.of(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else result

    def window(self, node: Node, reduce: Callable[..., Sample]) -> Sample:
        """Sample a pool: means (or maxima) over as many values as the window holds."""
        before, after = (self.graph.tensors[name].elements for name in (node.inputs[0], node.outputs[0]))
        kernel = node.integers("kernel_shape")
        inside = prod(kernel) if kernel else before // max(after, 1)
        rng = np.random.default_rng([self.seed, zlib.crc32(node.outputs[0].encode())])
        return reduce(rng.choice(self.of(node.inputs[0]), (SAMPLE_SIZE, min(max(inside, 1), LARGEST_WINDOW))), axis=1)

    def norm(self, node: Node, terms: Sample) -> Sample:
        """Sample a normal distribution, as sums of many terms are."""
        count = self.graph.tensors[node.inputs[0]].elements / self.graph.tensors[node.outputs[0]].elements
        sums = np.maximum(count * terms.mean() + np.sqrt(count) * terms.std() * self.draw(node.outputs[0]), 0.0)
        return np.sqrt(sums) if node.op_type == "ReduceL2" else sums

    def node(self, node: Node) -> Sample:
        """Return a sample of a node's first output; an operator without a rule here keeps its input's values."""
        op_type = node.op_type
        x = self.of(node.inputs[0]) if node.inputs and node.inputs[0] else self.draw(node.outputs[0])
        if op_type in _UNARY:
            return _UNARY[op_type](x)
        if op_type in _BINARY:
            for other in node.inputs[1:]:
                x = _BINARY[op_type](x, self.of(other))
            return x
        if op_type in _PRODUCTS:
            return self.product(node)
        if op_type == "Clip":
            return np.clip(x, *self.bounds(node))
        if op_type == "BatchNormalization":
            scale, bias, mean, variance = (self.of(name) for name in node.inputs[1:5])
            return (x - mean) / np.sqrt(np.abs(variance) + 1e-5) * scale + bias
        if op_type in _NORMALISATIONS:
            return self.draw(node.outputs[0])
        if op_type in ("Softmax", "LogSoftmax"):
            return self.softmax(node, x)
        if op_type in _MEANS:
            return self.window(node, np.mean)
        if op_type in _MAXIMA:
            return self.window(node, np.max)
        if op_type in _NORMS:
            return self.norm(node, _NORMS[op_type](x))
        if op_type == "Concat":
            return self.mixture(node)
        return x

    def bounds(self, node: Node | None) -> tuple[float, float]:
        """Return the interval that a node's results cannot leave."""
        if node is None or node.op_type != "Clip":
            return _BOUNDS.get(node.op_type if node else "", (-np.inf, np.inf))
        inputs = (*node.inputs, "", "")
        limits = []
        for key, name, free in (("min", inputs[1], -np.inf), ("max", inputs[2], np.inf)):
            limits.append(self.of(name)[0] if name else node.real(key, free))
        return float(limits[0]), float(limits[1])

    def mixture(self, node: Node) -> Sample:
        """Mix values of all inputs in equal shares and keep the extremes."""
        pool = np.sort(np.concatenate([self.of(name) for name in node.inputs]))
        rng = np.random.default_rng([self.seed, zlib.crc32(node.outputs[0].encode())])
        return rng.permutation(pool[np.linspace(0, pool.size - 1, SAMPLE_SIZE).round().astype(int)])

    def softmax(self, node: Node, x: Sample) -> Sample:
        axis = node.integer("axis", -1)
        count = self.graph.shape(node.inputs[0])[axis]
        powers = np.exp(x - x.max())
        shares = np.minimum(powers / (powers.mean() * count), 1.0)
        return np.asarray(np.log(shares + 1e-12) if node.op_type == "LogSoftmax" else shares)


def activation_ranges(graph: Graph, weights: Mapping[str, np.ndarray], *, seed: int = 0) -> Mapping[str, tuple[float, float]]:
    """Return the lowest and highest value to expect of every activation, inputs being normal.

    Args:
        graph: The network.
        weights: Values of its weights (:func:`latcast.graph.weights.synthetic_weights`).
        seed: Of the samples.

    Returns:
        Tensor name to (low, high) with low <= 0 <= high, as affine quantisation needs it, and low < high.
    """
    sampler = _Sampler(graph, weights, seed)
    for name in graph.inputs:
        sampler.of(name)
    for node in graph.nodes:
        with np.errstate(all="ignore"):
            values = np.nan_to_num(sampler.node(node), posinf=1e6, neginf=-1e6)
        for output in node.outputs:
            if output:
                sampler.samples[output] = values
    ranges = {}
    for name in (*graph.inputs, *(output for node in graph.nodes for output in node.outputs if output)):
        values = sampler.samples[name]
        least, most = sampler.bounds(graph.producers.get(name))
        low = min(max(float(values.min()) * HEADROOM, least), 0.0)
        high = max(min(float(values.max()) * HEADROOM, most), 0.0)
        ranges[name] = (low, high) if high - low > 1e-6 else (0.0, 1e-6)
    return ranges


def int8_weights(values: np.ndarray, axis: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return symmetric int8 weights with one scale per index of ``axis``, or one for all.

    Returns:
        The integers, of the shape of the weights, and the scales, (channels,) or of no axis.
    """
    others = None if axis is None else tuple(a for a in range(values.ndim) if a != axis)
    scales = np.maximum(np.abs(values).max(axis=others), 1e-8) / 127.0
    spread = scales if axis is None else scales.reshape([-1 if a == axis else 1 for a in range(values.ndim)])
    return np.clip(np.round(values / spread), -127, 127).astype(np.int8), np.asarray(scales)


def int32_bias(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return a bias in units of the input's scale times the weight's."""
    return np.clip(np.round(values / scales), -(2**31) + 1, 2**31 - 1).astype(np.int32)
