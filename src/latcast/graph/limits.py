"""Limits: on the size of a network, and on what reading one file may take.

A few hundred bytes can ask for a loop in a loop, for functions that call each other twice, or for a sum of constants that
takes 64 GiB. Every import has one budget for all of it, which is spent before the work is done: an import ends within seconds
and below 2 GiB, or is refused with what was asked for. The limits are several times what the largest networks that people
export take (a language model of 96 layers: 15,000 nodes).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from math import prod

from latcast.errors import ModelError
from latcast.graph.ir import Graph, Tensor
from latcast.graph.operators import node_flops

MAX_TENSOR_ELEMENTS = 1 << 40
"""Elements of one tensor: 4 TiB of float32, more than any machine holds."""

MAX_FLOPS = 1 << 56
"""FLOPs of a network: a day of the fastest machine."""

MAX_ATTRIBUTE = 1 << 31
"""Upper bound of a window's sizes, strides, dilations and pads."""

MAX_RANK = 64
"""Dimensions of a tensor, which numpy limits so."""

MAX_DEPTH = 32
"""Maximum nesting of branches and loops."""

_WINDOW = ("kernel_shape", "strides", "dilations", "pads", "output_padding", "group")


def check_tensor(name: str, tensor: Tensor) -> None:
    """Refuse a tensor that is larger than any machine holds, before its size is used.

    Raises:
        ModelError: Too many elements or dimensions.
    """
    if len(tensor.shape) > MAX_RANK:
        raise ModelError(f"tensor '{name}' has {len(tensor.shape)} dimensions; at most {MAX_RANK} are read; is the file damaged?")
    if prod(tensor.shape) > MAX_TENSOR_ELEMENTS:
        raise ModelError(
            f"tensor '{name}' of shape {_shown(tensor.shape)} would hold {written(prod(tensor.shape))} elements; "
            f"at most {MAX_TENSOR_ELEMENTS:,} are read; is the file damaged, or a size given wrongly?"
        )


def check_graph(graph: Graph) -> Graph:
    """Return the graph, or raise if its numbers exceed those of any network.

    Raises:
        ModelError: They are not; everything that reckons with them may rely on it.
    """
    flops = 0
    for node in graph.nodes:
        for key in _WINDOW:
            value = node.attributes.get(key, 0)
            for number in value if isinstance(value, tuple) else (value,):
                if isinstance(number, int) and abs(number) >= MAX_ATTRIBUTE:
                    raise ModelError(
                        f"node '{node.name}' ({node.op_type}) has {written(number)} in its '{key}'; expected less than "
                        f"{MAX_ATTRIBUTE:,}; is the file damaged?"
                    )
        flops += node_flops(graph, node) or 0
    if flops > MAX_FLOPS:
        raise ModelError(
            f"the network would take {written(flops)} FLOPs; at most {written(MAX_FLOPS)} are believed; "
            "is the file damaged, or a size given wrongly?"
        )
    return graph


def _shown(shape: Iterable[int]) -> str:
    sizes = list(shape)
    return f"[{', '.join(map(written, sizes[:8]))}{', ...' if len(sizes) > 8 else ''}]"


def written(value: int) -> str:
    """Return a number in a few characters, however long it is."""
    return f"{value:,}" if abs(value) < 10**18 else f"about 2^{abs(value).bit_length() - 1}"


@dataclass(frozen=True)
class _Limit:
    most: int
    unit: str
    advice: str


class Resource(Enum):
    """A resource of a budget: its limit, and advice about a file that needs more."""

    NODES = _Limit(1 << 15, "nodes, with loops unrolled and functions inlined", "export a part of the network")
    ROUNDS = _Limit(1 << 12, "rounds of loops", "export the model with fewer rounds, or without the loop")
    PARTS = _Limit(1 << 17, "parts of sequences", "export the model without the sequence")
    FOLDED_BYTES = _Limit(
        256 << 20, "bytes of constants that are computed from constants", "simplify the model with onnxsim before"
    )
    STORED_OPERATORS = _Limit(1 << 14, "operators of a TFLite file", "convert a part of the network")
    STORED_TENSORS = _Limit(1 << 15, "tensors of a TFLite file", "convert a part of the network")
    CONNECTIONS = _Limit(1 << 18, "inputs and outputs of operators", "convert a part of the network")
    NAME_CHARACTERS = _Limit(64 << 20, "characters of names", "give the nodes of loops and branches shorter names")


class Budget:
    """The resources that one import has used."""

    def __init__(self) -> None:
        self._spent = dict.fromkeys(Resource, 0)
        self._depth = 0

    def take(self, resource: Resource, amount: int = 1) -> None:
        """Spend before the work is done.

        Raises:
            ModelError: More than there is; the message says how much was asked for, and what to do.
        """
        self._spent[resource] += amount
        limit = resource.value
        if self._spent[resource] > limit.most:
            raise ModelError(
                f"the model asks for at least {written(self._spent[resource])} {limit.unit}; at most {limit.most:,} are read; "
                f"{limit.advice}"
            )

    def spent(self, resource: Resource) -> int:
        """Return how much of a resource was taken."""
        return self._spent[resource]

    def share(self) -> float:
        """Return how much was taken of all resources together; 1 is all that there is of one."""
        return sum(amount / resource.value.most for resource, amount in self._spent.items())

    def check(self, resource: Resource, amount: int) -> None:
        """Raise as :meth:`take` would, without spending: the amount will be taken in parts later."""
        self.take(resource, amount)
        self._spent[resource] -= amount

    def enter(self) -> None:
        """Enter a branch or loop.

        Raises:
            ModelError: Deeper than :data:`MAX_DEPTH`.
        """
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ModelError(f"branches and loops lie more than {MAX_DEPTH} deep in each other; export the model without them")

    def leave(self) -> None:
        self._depth -= 1
