"""Building graphs in plain code: what the families of networks and the tests are written with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from latcast.errors import ModelError, UnknownOperatorError
from latcast.graph.ir import AttributeValue, Graph, Node, Shape, Tensor
from latcast.graph.operators import lookup, view_among

Size = int | tuple[int, int]


def pair(size: Size) -> tuple[int, int]:
    """Return a square size as (height, width)."""
    return (size, size) if isinstance(size, int) else (size[0], size[1])


_dtype_name: Callable[[np.dtype], str] = cache(str)
"""numpy's name of an element type, cached, since numpy computes it slowly on each access."""


class GraphBuilder:
    """Adds operators one by one; each method returns the name of its output tensor.

    Shapes are inferred as operators are added, so a wrong shape fails at the line that made it. Activations are NCHW (or
    (N, tokens, channels) in transformers). Operators are spelled as PyTorch's exporters spell them, so that fusion sees what
    it would see in a file.

    Example:
        >>> import latcast
        >>> b = latcast.GraphBuilder("tiny")
        >>> x = b.input((1, 3, 32, 32))
        >>> x = b.relu(b.batch_norm(b.conv(x, 16, 3)))
        >>> b.finish(x).nodes[0].op_type
        'Conv'
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._nodes: list[Node] = []
        self._tensors: dict[str, Tensor] = {}
        self._inputs: list[str] = []
        self._weights: set[str] = set()
        self._constants: dict[str, np.ndarray] = {}
        self._counts: dict[str, int] = {}

    def shape(self, tensor: str) -> Shape:
        return self._tensors[tensor].shape

    def channels(self, tensor: str) -> int:
        return self.shape(tensor)[1]

    def _unique(self, stem: str) -> str:
        count = self._counts.get(stem, 0)
        self._counts[stem] = count + 1
        return f"{stem}_{count}"

    def input(self, shape: Sequence[int], *, dtype: str = "float32", name: str | None = None) -> str:
        """Add a network input and return its name."""
        name = name or ("input" if not self._inputs else self._unique("input"))
        self._tensors[name] = Tensor(tuple(int(size) for size in shape), dtype)
        self._inputs.append(name)
        return name

    def weight(self, shape: Sequence[int], *, stem: str = "weight") -> str:
        """Add a learned tensor and return its name; its values are not kept."""
        name = self._unique(stem)
        self._tensors[name] = Tensor(tuple(map(int, shape)))
        self._weights.add(name)
        return name

    def constant(self, value: object, *, dtype: str | None = None) -> str:
        """Add a small tensor whose value matters and return its name."""
        array = np.asarray(value, dtype=dtype)
        name = self._unique("constant")
        self._tensors[name] = Tensor(tuple(array.shape), _dtype_name(array.dtype))
        self._constants[name] = array
        return name

    def op(
        self,
        op_type: str,
        inputs: Sequence[str],
        attributes: Mapping[str, AttributeValue] | None = None,
        *,
        outputs: int = 1,
        name: str | None = None,
    ) -> tuple[str, ...]:
        """Add any operator of the table and return the names of its outputs.

        Raises:
            UnknownOperatorError: The operator table has no such operator.
            ModelError: The shapes do not fit, or an output would be empty.
        """
        entry = lookup(op_type)
        if entry is None:
            raise UnknownOperatorError(f"the operator table has no '{op_type}'; add it in latcast/graph/operators or a plug-in")
        name = name or self._unique(op_type.lower())
        names = (f"{name}_out",) if outputs == 1 else tuple(f"{name}_out{index}" for index in range(outputs))
        node = Node(op_type, name, tuple(inputs), names, dict(attributes or {}), entry.domain)
        view = view_among(node, self._tensors, self._constants)
        tensors = entry.infer(view)
        for output, tensor in zip(names, tensors, strict=True):
            if 0 in tensor.shape:
                raise ModelError(f"node '{name}' ({op_type}) has an empty output of shape {list(tensor.shape)}")
            self._tensors[output] = tensor
        self._nodes.append(node)
        return names

    def finish(self, *outputs: str) -> Graph:
        """Return the graph so far, with these outputs."""
        return Graph(
            name=self.name,
            nodes=tuple(self._nodes),
            inputs=tuple(self._inputs),
            outputs=tuple(outputs),
            tensors=dict(self._tensors),
            weights=frozenset(self._weights),
            constants=dict(self._constants),
        )

    # Convolutions and matrix products

    def conv(
        self,
        x: str,
        out_channels: int,
        kernel: Size = 1,
        *,
        stride: Size = 1,
        padding: Size | None = None,
        groups: int = 1,
        dilation: Size = 1,
        bias: bool = False,
    ) -> str:
        """Add a 2-D convolution. ``padding=None`` keeps the size at stride 1 (odd kernels)."""
        k, s, d = pair(kernel), pair(stride), pair(dilation)
        p = tuple(d[a] * (k[a] - 1) // 2 for a in (0, 1)) if padding is None else pair(padding)
        inputs = [x, self.weight((out_channels, self.channels(x) // groups, *k), stem="conv_weight")]
        if bias:
            inputs.append(self.weight((out_channels,), stem="conv_bias"))
        attributes: dict[str, AttributeValue] = {
            "kernel_shape": k, "strides": s, "pads": (*p, *p), "dilations": d, "group": groups,
        }  # fmt: skip
        return self.op("Conv", inputs, attributes)[0]

    def depthwise_conv(self, x: str, kernel: Size = 3, *, stride: Size = 1, bias: bool = False) -> str:
        return self.conv(x, self.channels(x), kernel, stride=stride, groups=self.channels(x), bias=bias)

    def conv_transpose(self, x: str, out_channels: int, kernel: Size = 2, *, stride: Size = 2) -> str:
        k, s = pair(kernel), pair(stride)
        inputs = [
            x,
            self.weight((self.channels(x), out_channels, *k), stem="conv_weight"),
            self.weight((out_channels,), stem="conv_bias"),
        ]
        return self.op("ConvTranspose", inputs, {"kernel_shape": k, "strides": s})[0]

    def linear(self, x: str, out_features: int, *, bias: bool = True) -> str:
        """Add a fully connected layer: Gemm on (N, features), MatMul + Add on anything of higher rank."""
        features = self.shape(x)[-1]
        if len(self.shape(x)) == 2:
            inputs = [x, self.weight((out_features, features), stem="linear_weight")]
            if bias:
                inputs.append(self.weight((out_features,), stem="linear_bias"))
            return self.op("Gemm", inputs, {"transB": 1})[0]
        x = self.op("MatMul", [x, self.weight((features, out_features), stem="linear_weight")])[0]
        return self.add(x, self.weight((out_features,), stem="linear_bias")) if bias else x

    def matmul(self, a: str, b: str) -> str:
        return self.op("MatMul", [a, b])[0]

    # Normalisation and activation

    def batch_norm(self, x: str) -> str:
        channels = (self.channels(x),)
        names = [self.weight(channels, stem=f"bn_{part}") for part in ("scale", "bias", "mean", "var")]
        return self.op("BatchNormalization", [x, *names], {"epsilon": 1e-5})[0]

    def layer_norm(self, x: str) -> str:
        """Add a layer normalisation over the last axis."""
        size = (self.shape(x)[-1],)
        inputs = [x, self.weight(size, stem="ln_scale"), self.weight(size, stem="ln_bias")]
        return self.op("LayerNormalization", inputs, {"axis": -1, "epsilon": 1e-5})[0]

    def relu(self, x: str) -> str:
        return self.op("Relu", [x])[0]

    def relu6(self, x: str) -> str:
        return self.clip(x, 0.0, 6.0)

    def clip(self, x: str, low: float, high: float) -> str:
        return self.op("Clip", [x, self.constant(low, dtype="float32"), self.constant(high, dtype="float32")])[0]

    def leaky_relu(self, x: str, alpha: float = 0.1) -> str:
        return self.op("LeakyRelu", [x], {"alpha": alpha})[0]

    def sigmoid(self, x: str) -> str:
        return self.op("Sigmoid", [x])[0]

    def hard_sigmoid(self, x: str) -> str:
        return self.op("HardSigmoid", [x], {"alpha": 1 / 6, "beta": 0.5})[0]

    def hard_swish(self, x: str) -> str:
        return self.op("HardSwish", [x])[0]

    def silu(self, x: str) -> str:
        """Add x * sigmoid(x), as two operators."""
        return self.mul(x, self.sigmoid(x))

    def gelu(self, x: str) -> str:
        """Add the exact GELU as exporters write it: 0.5 x (1 + erf(x / sqrt 2)), five operators."""
        inner = self.op("Div", [x, self.constant(2.0**0.5, dtype="float32")])[0]
        inner = self.op("Erf", [inner])[0]
        inner = self.add(inner, self.constant(1.0, dtype="float32"))
        return self.mul(self.mul(x, inner), self.constant(0.5, dtype="float32"))

    def activation(self, x: str, kind: str | None) -> str:
        """Add an activation by name: relu, relu6, hard_swish, hard_sigmoid, sigmoid, silu, gelu, leaky_relu; None adds none."""
        if kind is None:
            return x
        known = {
            "relu": self.relu, "relu6": self.relu6, "hard_swish": self.hard_swish, "hard_sigmoid": self.hard_sigmoid,
            "sigmoid": self.sigmoid, "silu": self.silu, "gelu": self.gelu, "leaky_relu": self.leaky_relu,
        }  # fmt: skip
        if kind not in known:
            raise ModelError(f"no activation is called '{kind}'; expected one of {', '.join(known)}")
        return known[kind](x)

    def softmax(self, x: str, axis: int = -1) -> str:
        return self.op("Softmax", [x], {"axis": axis})[0]

    # Element-wise

    def add(self, a: str, b: str) -> str:
        return self.op("Add", [a, b])[0]

    def mul(self, a: str, b: str) -> str:
        return self.op("Mul", [a, b])[0]

    def sub(self, a: str, b: str) -> str:
        return self.op("Sub", [a, b])[0]

    def div(self, a: str, b: str) -> str:
        return self.op("Div", [a, b])[0]

    # Pooling and reductions

    def max_pool(self, x: str, kernel: Size, stride: Size | None = None, padding: Size = 0, *, ceil: bool = False) -> str:
        return self._pool("MaxPool", x, kernel, stride, padding, ceil)

    def average_pool(self, x: str, kernel: Size, stride: Size | None = None, padding: Size = 0, *, ceil: bool = False) -> str:
        return self._pool("AveragePool", x, kernel, stride, padding, ceil)

    def _pool(self, op_type: str, x: str, kernel: Size, stride: Size | None, padding: Size, ceil: bool) -> str:
        k, p = pair(kernel), pair(padding)
        s = k if stride is None else pair(stride)
        attributes: dict[str, AttributeValue] = {"kernel_shape": k, "strides": s, "pads": (*p, *p)}
        if ceil:
            attributes["ceil_mode"] = 1
        return self.op(op_type, [x], attributes)[0]

    def global_average_pool(self, x: str) -> str:
        return self.op("GlobalAveragePool", [x])[0]

    def reduce_mean(self, x: str, axes: Sequence[int], *, keepdims: bool = True) -> str:
        attributes: dict[str, AttributeValue] = {"axes": tuple(axes), "keepdims": int(keepdims)}
        return self.op("ReduceMean", [x], attributes)[0]

    # Moving data

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        return self.op("Reshape", [x, self.constant(list(shape), dtype="int64")])[0]

    def flatten(self, x: str, axis: int = 1) -> str:
        return self.op("Flatten", [x], {"axis": axis})[0]

    def transpose(self, x: str, order: Sequence[int]) -> str:
        return self.op("Transpose", [x], {"perm": tuple(order)})[0]

    def concat(self, tensors: Sequence[str], axis: int = 1) -> str:
        return self.op("Concat", list(tensors), {"axis": axis})[0]

    def split(self, x: str, sizes: Sequence[int], axis: int = 1) -> tuple[str, ...]:
        return self.op("Split", [x, self.constant(list(sizes), dtype="int64")], {"axis": axis}, outputs=len(sizes))

    def slice(self, x: str, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int]) -> str:
        parts = [self.constant(list(numbers), dtype="int64") for numbers in (starts, ends, axes)]
        return self.op("Slice", [x, *parts])[0]

    def pad(self, x: str, pads: Sequence[int]) -> str:
        """Add a padding; ``pads`` are the begins of every axis, then the ends."""
        return self.op("Pad", [x, self.constant(list(pads), dtype="int64")])[0]

    def resize(self, x: str, size: Size, *, mode: str = "nearest") -> str:
        h, w = pair(size)
        n, c = self.shape(x)[:2]
        attributes: dict[str, AttributeValue] = {
            "mode": mode,
            "coordinate_transformation_mode": "asymmetric" if mode == "nearest" else "half_pixel",
            "nearest_mode": "floor",
        }
        return self.op("Resize", [x, "", "", self.constant([n, c, h, w], dtype="int64")], attributes)[0]

    def channel_shuffle(self, x: str, groups: int) -> str:
        """Add reshape, transpose and reshape, as ShuffleNet's exporters write it."""
        n, c, h, w = self.shape(x)
        x = self.reshape(x, (n, groups, c // groups, h, w))
        return self.reshape(self.transpose(x, (0, 2, 1, 3, 4)), (n, c, h, w))

    # Blocks that many families share

    def conv_bn(
        self,
        x: str,
        out_channels: int,
        kernel: Size = 1,
        *,
        stride: Size = 1,
        padding: Size | None = None,
        groups: int = 1,
        activation: str | None = "relu",
    ) -> str:
        """Add convolution, batch normalisation and activation."""
        x = self.batch_norm(self.conv(x, out_channels, kernel, stride=stride, padding=padding, groups=groups))
        return self.activation(x, activation)

    def squeeze_excite(self, x: str, squeezed: int, *, activation: str = "relu", gate: str = "sigmoid") -> str:
        """Add squeeze-and-excitation with 1x1 convolutions: pool, reduce, expand, gate, scale."""
        channels = self.channels(x)
        s = self.global_average_pool(x)
        s = self.activation(self.conv(s, squeezed, 1, bias=True), activation)
        s = self.activation(self.conv(s, channels, 1, bias=True), gate)
        return self.mul(x, s)

    def attention(
        self,
        x: str,
        heads: int,
        *,
        head_size: int | None = None,
        biases: Sequence[str] = (),
        four_axes: bool = False,
    ) -> str:
        """Add multi-head self-attention on (N, tokens, channels), as exporters write it.

        Args:
            x: Tokens.
            heads: Attention heads.
            head_size: Channels of a head; an equal share where not given.
            biases: Added to the scores before the softmax; each must broadcast to (N, heads, tokens, tokens).
            four_axes: Part queries, keys and values before the heads, as ``torch.nn.MultiheadAttention`` is written,
                instead of after them, as timm's models are. Same values from the same weights, and no tensor of five
                axes, which runtimes without a batch axis lack when N is above 1 (windows, patches).
        """
        n, tokens, channels = self.shape(x)
        size = head_size or channels // heads
        qkv = self.linear(x, 3 * heads * size)
        if four_axes:
            parts = self.split(qkv, (heads * size,) * 3, axis=2)
            q, k, v = (self.transpose(self.reshape(part, (n, tokens, heads, size)), (0, 2, 1, 3)) for part in parts)
        else:
            qkv = self.transpose(self.reshape(qkv, (n, tokens, 3, heads, size)), (2, 0, 3, 1, 4))
            q, k, v = (self.reshape(part, (n, heads, tokens, size)) for part in self.split(qkv, (1, 1, 1), axis=0))
        scores = self.matmul(self.mul(q, self.constant(size**-0.5, dtype="float32")), self.transpose(k, (0, 1, 3, 2)))
        for bias in biases:
            scores = self.add(scores, bias)
        mixed = self.transpose(self.matmul(self.softmax(scores), v), (0, 2, 1, 3))
        return self.linear(self.reshape(mixed, (n, tokens, heads * size)), channels)
