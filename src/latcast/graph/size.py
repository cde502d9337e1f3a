"""How large a network is: counted on its graph, or while it is written down, where the graph itself is not wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from latcast.graph.builder import GraphBuilder, Size, pair
from latcast.graph.ir import AttributeValue, Graph, Shape, Tensor
from latcast.graph.operators import graph_macs, lookup, names_of, operators, view_among
from latcast.graph.operators.elementwise import infer_same
from latcast.graph.operators.table import no_flops

_ELEMENTWISE = names_of(row for row in operators() if row.arithmetic)


@dataclass(frozen=True)
class NetworkSize:
    """What decides whether a space wants a network.

    Attributes:
        macs: Multiply-accumulates, as :func:`graph_macs` counts them.
        parameters: Learned values, as :attr:`Graph.parameter_count` counts them.
    """

    macs: int
    parameters: int


def size_of(graph: Graph) -> NetworkSize:
    """The size of a graph."""
    return NetworkSize(graph_macs(graph), graph.parameter_count)


class SizeCounter(GraphBuilder):
    """A builder that adds up what its network computes and learns, ten times as fast as the graph is built.

    It follows shapes alone: an operator that keeps its input's shape returns its input, and usual operators are no nodes. What it
    counts is what :func:`size_of` finds in the graph that the same calls build, and what they refuse, it refuses.

    Attributes:
        macs: Multiply-accumulates so far.
        parameters: Learned values so far.
    """

    macs: int = 0
    parameters: int = 0

    @property
    def counted(self) -> NetworkSize:
        """Of what was added so far."""
        return NetworkSize(self.macs, self.parameters)

    def finish(self, *outputs: str) -> Graph:
        raise NotImplementedError("a counter has no graph; use GraphBuilder")

    def weight(self, shape: Sequence[int], *, stem: str = "weight") -> str:
        self.parameters += prod(shape)
        return super().weight(shape, stem=stem)

    def op(
        self,
        op_type: str,
        inputs: Sequence[str],
        attributes: Mapping[str, AttributeValue] | None = None,
        *,
        outputs: int = 1,
        name: str | None = None,
    ) -> tuple[str, ...]:
        entry = lookup(op_type)
        if entry is not None and outputs == 1 and (entry.infer is infer_same or self._broadcasts(op_type, inputs)):
            return (inputs[0],)
        names = super().op(op_type, inputs, attributes, outputs=outputs, name=name)
        if entry is not None and entry.macs is not no_flops:
            made = tuple(self._tensors[each] for each in names)
            self.macs += entry.macs(view_among(self._nodes[-1], self._tensors, self._constants, made))
        return names

    def _broadcasts(self, op_type: str, inputs: Sequence[str]) -> bool:
        """Whether an operator works element by element on two tensors, the second of which takes the shape of the first."""
        if op_type not in _ELEMENTWISE:
            return False
        a, b = (self.shape(name) for name in inputs)
        return a == b or (len(b) <= len(a) and all(size in (1, whole) for whole, size in zip(a[::-1], b[::-1], strict=False)))

    def _shaped(self, shape: Shape) -> str:
        """An activation of a shape."""
        name = f"shape_{len(self._tensors)}"
        self._tensors[name] = Tensor(shape)
        return name

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
        batch, channels, *size = self.shape(x)
        k, s, d = pair(kernel), pair(stride), pair(dilation)
        p = (d[0] * (k[0] - 1) // 2, d[1] * (k[1] - 1) // 2) if padding is None else pair(padding)
        room = [size[a] + 2 * p[a] - d[a] * (k[a] - 1) - 1 for a in (0, 1)]
        if min(room) < 0 or channels % groups or out_channels % groups:
            return super().conv(
                x, out_channels, kernel, stride=stride, padding=padding, groups=groups, dilation=dilation, bias=bias
            )
        height, width = room[0] // s[0] + 1, room[1] // s[1] + 1
        weights = out_channels * (channels // groups) * k[0] * k[1]
        self.parameters += weights + (out_channels if bias else 0)
        self.macs += batch * height * width * weights
        return self._shaped((batch, out_channels, height, width))

    def linear(self, x: str, out_features: int, *, bias: bool = True) -> str:
        *rows, features = self.shape(x)
        self.parameters += features * out_features + (out_features if bias else 0)
        self.macs += prod(rows) * features * out_features
        return self._shaped((*rows, out_features))

    def batch_norm(self, x: str) -> str:
        self.parameters += 4 * self.channels(x)
        return x

    def layer_norm(self, x: str) -> str:
        self.parameters += 2 * self.shape(x)[-1]
        return x

    def global_average_pool(self, x: str) -> str:
        batch, channels, *size = self.shape(x)
        return self._shaped((batch, channels, *(1 for _ in size)))

    def attention(
        self,
        x: str,
        heads: int,
        *,
        head_size: int | None = None,
        biases: Sequence[str] = (),
        four_axes: bool = False,
    ) -> str:
        batch, tokens, channels = self.shape(x)
        inner = heads * (head_size or channels // heads)
        self.linear(x, 3 * inner)
        scores = self._shaped((batch, heads, tokens, tokens))
        for bias in biases:
            scores = self.add(scores, bias)
        self.macs += 2 * batch * tokens**2 * inner
        return self.linear(self._shaped((batch, tokens, inner)), channels)

    def clip(self, x: str, low: float, high: float) -> str:
        return x

    def gelu(self, x: str) -> str:
        return x

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        wanted = tuple(shape)
        return self._shaped(wanted) if prod(wanted) == prod(self.shape(x)) else super().reshape(x, shape)

    def transpose(self, x: str, order: Sequence[int]) -> str:
        shape = self.shape(x)
        return self._shaped(tuple(shape[axis] for axis in order))
