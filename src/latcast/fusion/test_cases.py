"""Test cases: the operators that detection asks about, the networks timed to answer, and the sums of costs that answer.

Every quantity (the cost of an operator by itself, the saving of two neighbours) is a sum of costs of networks with coefficients.
Inequation 1 of nn-Meter §4.1, T(1) + T(2) - T(1, 2) > α min(T(1), T(2)), is two such sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latcast.records import Reference
from latcast.spaces import operator_pairs
from latcast.spaces.operator_pairs import MAP, ROWS, TOKENS, WALL, Element, chain_reference, operator

Costs = Mapping[str, np.ndarray]
"""Reference key to its cost in each round (:mod:`latcast.fusion.quantities`); all taken in the same rounds."""


@dataclass(frozen=True)
class Combination:
    """A sum of costs with coefficients."""

    terms: tuple[tuple[Reference, float], ...]

    @classmethod
    def of(cls, blocks: float, *terms: tuple[float, Reference]) -> Combination:
        """Return the sum divided by the number of blocks; equal networks are put together, those that cancel left out."""
        coefficients: dict[str, float] = {}
        references: dict[str, Reference] = {}
        for coefficient, reference in terms:
            references[reference.key] = reference
            coefficients[reference.key] = coefficients.get(reference.key, 0.0) + coefficient / blocks
        return cls(tuple((references[key], value) for key, value in coefficients.items() if value))

    def __add__(self, other: Combination) -> Combination:
        return Combination.of(1, *((c, r) for r, c in (*self.terms, *other.terms)))

    def __mul__(self, factor: float) -> Combination:
        return Combination(tuple((reference, factor * coefficient) for reference, coefficient in self.terms))

    def __sub__(self, other: Combination) -> Combination:
        return self + other * -1.0

    @property
    def networks(self) -> tuple[Reference, ...]:
        return tuple(reference for reference, _ in self.terms)

    def known(self, costs: Mapping[str, Any]) -> bool:
        """Return whether all its networks are among those measured."""
        return all(reference.key in costs for reference, _ in self.terms)

    def value(self, costs: Costs) -> np.ndarray:
        """Return the sum in each round."""
        return np.sum([coefficient * costs[reference.key] for reference, coefficient in self.terms], axis=0)

    def standard_deviation(self, levels: Mapping[str, float], noise: float) -> float:
        """Return the standard deviation of the sum in one round, if every cost had this relative noise, independently."""
        return noise * sum((coefficient * levels[r.key]) ** 2 for r, coefficient in self.terms) ** 0.5


@dataclass(frozen=True)
class ChainSetting:
    """Surroundings in which operators are tested; see :func:`latcast.spaces.operator_pairs.chain_network`."""

    wall: str = "average_pool"
    form: str = MAP
    blocks: int = 4
    size: int = 8
    channels: int = 16

    def network(self, *chain: Element, operand: bool = False) -> Reference:
        """Return the reference of a network in these surroundings."""
        parameters: dict[str, Any] = {
            "wall": self.wall, "form": self.form, "blocks": self.blocks, "size": self.size, "channels": self.channels,
        }  # fmt: skip
        return chain_reference(chain, **parameters, **({"operand": True} if operand else {}))


@dataclass(frozen=True)
class TestCase:
    """A question whose answer is whether a time is saved.

    Attributes:
        question: ``("conv", "relu")``, or the name of a pattern.
        setting: The surroundings.
        elements: The elements of the chain that it is about, in order.
        together: The network in which they may become one kernel.
        saved: The time that is saved where the answer is yes; 0 otherwise.
        shares: Times of which a fusion saves the smallest (min(T1, T2) of Inequation 1).
    """

    __test__ = False  # pytest would collect it

    question: tuple[str, ...]
    setting: ChainSetting
    elements: tuple[str, ...]
    together: Reference
    saved: Combination
    shares: tuple[Combination, ...]
    networks: tuple[Reference, ...] = field(init=False)

    def __post_init__(self) -> None:
        found = {r.key: r for combination in (self.saved, *self.shares) for r in combination.networks}
        object.__setattr__(self, "networks", tuple(found.values()))

    def known(self, costs: Mapping[str, Any]) -> bool:
        """Return whether all its networks are among those measured."""
        return all(reference.key in costs for reference in self.networks)


def wall_time(setting: ChainSetting) -> Combination:
    """Return the cost of one more wall."""
    return Combination.of(setting.blocks, (1, setting.network(WALL, WALL)), (-1, setting.network(WALL)))


def own_time(name: str, setting: ChainSetting) -> Combination:
    """Return the cost of an operator between two walls; with those that restore the shape, less a wall, if it changes it."""
    found = operator(name)
    base = setting.network(WALL, operand=found.two_inputs)
    if found.keeps_shape:
        return Combination.of(setting.blocks, (1, setting.network(name, WALL)), (-1, base))
    once, twice = setting.network(name, WALL), setting.network(name, WALL, WALL)
    return Combination.of(setting.blocks, (2, once), (-1, twice), (-1, base))


def pair_case(first: str, second: str, setting: ChainSetting) -> TestCase:
    """Ask whether two operators run as one kernel when the second reads the first's result (single in- and outbound).

    Where the first keeps the shape, the two are timed apart and together: T(1) + T(2) - T(1, 2), each between walls.
    Where it does not, the second is timed on the shape that it makes, behind a wall and directly.
    """
    f, s = operator(first), operator(second)
    network, blocks = setting.network, setting.blocks
    together = network(first, second, WALL)
    if f.keeps_shape:
        base = network(WALL, operand=f.two_inputs and s.two_inputs)
        saved = Combination.of(
            blocks, (1, network(first, WALL)), (1, network(second, WALL)), (-1, together), (-1, base)
        )  # fmt: skip
        shares = (own_time(first, setting), own_time(second, setting))
        return TestCase((first, second), setting, (first, second), together, saved, shares)
    once, twice, apart = network(first, WALL), network(first, WALL, WALL), network(first, WALL, second, WALL)
    saved = Combination.of(blocks, (1, apart), (-1, together), (-1, twice), (1, once))
    own_second = Combination.of(blocks, (1, apart), (-1, twice)) if s.keeps_shape else own_time(second, setting)
    shares = (own_time(first, setting), own_second)
    return TestCase((first, second), setting, (first, second), together, saved, shares)


def pattern_case(pattern: str, spelling: str, setting: ChainSetting) -> TestCase:
    """Ask whether the operators of a pattern run as one kernel, which saves at least all but the longest of them."""
    apart = [own_time(name, setting) for name in operator(spelling).members]
    whole = Combination(())
    for part in apart:
        whole = whole + part
    shares = tuple(whole - part for part in apart)
    together, saved = setting.network(spelling, WALL), whole - own_time(spelling, setting)
    return TestCase((pattern,), setting, (spelling,), together, saved, shares)


def inbound_case(first: str, join: str, side: int, setting: ChainSetting) -> TestCase:
    """Ask whether an operator with two inputs is fused into its first (0) or last (1) input's kernel; the other is a wall."""

    def network(*branch: str) -> Reference:
        branches = (list(branch), [WALL])
        return setting.network([join, *(branches if side == 0 else branches[::-1])], WALL)

    joined, apart, further = network(first), network(first, WALL), network(first, WALL, WALL)
    # apart - joined holds one wall and what was saved; further - apart is one wall.
    saved = Combination.of(setting.blocks, (2, apart), (-1, joined), (-1, further))
    question = (first, join, "first input" if side == 0 else "last input")
    shares = (own_time(first, setting), own_time(join, setting))
    return TestCase(question, setting, (first, join), joined, saved, shares)


def outbound_case(first: str, second: str, side: int, setting: ChainSetting) -> TestCase:
    """Ask whether an operator whose result has two readers takes the first (0) or last (1) in; the other is a wall."""
    branches = ([second, WALL], [WALL])
    readers = ["add", *(branches if side == 0 else branches[::-1])]
    together = setting.network(first, readers, WALL)
    apart, further = setting.network(first, WALL, readers, WALL), setting.network(first, WALL, WALL, readers, WALL)
    saved = Combination.of(setting.blocks, (2, apart), (-1, together), (-1, further))
    question = (first, second, "first reader" if side == 0 else "last reader")
    shares = (own_time(first, setting), own_time(second, setting))
    return TestCase(question, setting, (first, second), together, saved, shares)


def view_time(name: str, setting: ChainSetting) -> Combination:
    """Return the cost of a view; all but identity and dropout come in twos, there and back."""
    network, blocks = setting.network, setting.blocks
    if not operator(name).keeps_shape:
        # The shape is restored by another view, behind another wall.
        return Combination.of(2 * blocks, (1, network(name, WALL)), (-1, network(WALL, WALL)))
    views = 1 if name in ("identity", "dropout") else 2
    return Combination.of(views * blocks, (1, network(name, WALL)), (-1, network(WALL)))


def distinct_networks(cases: Iterable[TestCase]) -> list[Reference]:
    """Return the networks of several cases, each once."""
    return list({reference.key: reference for case in cases for reference in case.networks}.values())


def in_batches(cases: Sequence[TestCase], most: int) -> list[list[TestCase]]:
    """Group cases that share networks, with at most so many in a group (unless one case alone has more)."""
    batches: list[list[TestCase]] = []
    keys: set[str] = set()
    setting: ChainSetting | None = None
    for case in sorted(cases, key=lambda case: (case.setting.form, case.setting.wall)):
        new = {reference.key for reference in case.networks}
        if not batches or case.setting != setting or len(keys | new) > most:
            batches.append([])
            keys, setting = set(), case.setting
        keys |= new
        batches[-1].append(case)
    return batches


OPERATORS = (
    "conv", "depthwise_conv", "relu", "batch_normalization", "relu6", "add", "hard_swish", "sigmoid", "silu", "gelu", "linear",
    "leaky_relu", "max_pool", "average_pool", "concat", "global_average_pool", "mul", "bias_add", "grouped_conv", "tanh",
    "hard_sigmoid", "clip", "p_relu", "softmax", "layer_normalization", "transpose", "matmul", "conv_transpose", "resize",
    "pad", "reduce_mean", "split", "slice",
)  # fmt: skip
"""Every ordered pair of these is a test case; those of real networks first, because a budget may end early."""

PATTERNS: Mapping[str, str] = {
    **{name: name for name in ("silu", "gelu")},
    "hard_swish": "decomposed_hard_swish",
    "hard_sigmoid": "decomposed_hard_sigmoid",
    **{name: name for name in ("mish", "layer_norm", "channel_shuffle", "unscaled_attention")},
}
"""Pattern of several operators (:mod:`latcast.graph.idioms`) to the element of a chain that consists of them; ``attention``,
``squeeze_excite`` and ``scaled_matmul`` are not tested."""

VIEWS = ("reshape", "flatten", "squeeze", "identity", "dropout")
"""Operators that may cost nothing; ``squeeze`` includes ``unsqueeze``."""

SHRINKING = ("global_average_pool", "reduce_mean", "split", "slice")
"""Operators whose result has fewer elements than their input."""


def tested_operators() -> tuple[str, ...]:
    """Return :data:`OPERATORS`, and the single operators that other distributions add to test networks."""
    return (*OPERATORS, *(name for name in operator_pairs.OPERATORS.plugged() if not operator(name).members))


def tested_patterns() -> Mapping[str, str]:
    """Return :data:`PATTERNS`, and those of other distributions, whose elements have their names."""
    return {**PATTERNS, **{name: name for name in operator_pairs.OPERATORS.plugged() if operator(name).members}}


def forms(first: str, second: str) -> tuple[str, ...]:
    """Return the forms of tensors on which a pair is tested, the preferred one first; empty where they never meet.

    Maps where both work on them. A linear layer multiplies rows; where the next operator adds its bias, it multiplies
    tokens and has no bias, as exporters write it. A runtime without a batch axis takes tokens for rows.
    """
    both = [form for form in (MAP, ROWS, TOKENS) if form in operator(first).forms and form in operator(second).forms]
    if MAP in both:
        return (MAP,)
    if first == "linear" and second == "bias_add":
        return (TOKENS,)
    return tuple(both)


def connectable(first: str, second: str) -> bool:
    """Return whether the second can read the result of the first."""
    if first == "reduce_mean" and second == "matmul":
        return False  # a column has no square second factor
    return bool(forms(first, second))
