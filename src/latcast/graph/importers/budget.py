"""What one import may take, whatever the file asks for.

A few hundred bytes can ask for a loop in a loop, for functions that call each other twice, or for a sum of constants that
takes 64 GiB. Every import has one budget for all of it, which is spent before the work is done: an import ends within seconds
and below 2 GiB, or is refused with what was asked for. The limits are several times what the largest networks that people
export take (a language model of 96 layers: 15,000 nodes).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from latcast.errors import ModelError
from latcast.graph.limits import written

MAX_DEPTH = 32
"""Of branches and loops within each other."""


@dataclass(frozen=True)
class _Limit:
    most: int
    unit: str
    advice: str


class Resource(Enum):
    """What a budget is spent on: the most of it, and what to do about a file that asks for more."""

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
    """What is left for one import."""

    def __init__(self) -> None:
        self._spent = dict.fromkeys(Resource, 0)
        self._depth = 0

    def take(self, resource: Resource, amount: int = 1) -> None:
        """Spends before the work is done.

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

    def check(self, resource: Resource, amount: int) -> None:
        """Like :meth:`take` for what will be taken bit by bit later."""
        self.take(resource, amount)
        self._spent[resource] -= amount

    def enter(self) -> None:
        """One branch or loop deeper.

        Raises:
            ModelError: Deeper than :data:`MAX_DEPTH`.
        """
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ModelError(f"branches and loops lie more than {MAX_DEPTH} deep in each other; export the model without them")

    def leave(self) -> None:
        self._depth -= 1
