"""Random networks made of the blocks of all published ones: what a predictor for any network is trained on.

A network is a stem, four or five stages at falling resolutions, and a head. Each network has a palette of a few kinds of
blocks, and conventions of its own for activation, normalisation and the rounding of widths; input sizes, square or not,
and widths are drawn too. A seed gives the structure; one multiplier scales the widths, so that sampling can aim at a
number of multiply-accumulates and a reference stays two numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log
from random import Random
from typing import Any

from latcast.errors import ModelError
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.records import Reference
from latcast.spaces.families.variants import checked_call, distinct_references
from latcast.spaces.synthetic.mixed_builder import MixedBuilder, log_uniform, weighted
from latcast.spaces.synthetic.mixed_convolutions import CONVOLUTIONAL, Block
from latcast.spaces.synthetic.mixed_ends import CLASSES, HEADS, STEMS
from latcast.spaces.synthetic.mixed_tokens import FITS, TOKENS

NAME = "random_mixed"
MAC_RANGE = (20e6, 5e9)
MAX_PARAMETERS = 150e6
SIZES: Mapping[int, float] = dict.fromkeys(range(96, 257, 16), 1.0) | {192: 2.0, 224: 4.0, 256: 2.0}
"""Usual input sizes and how much more often some occur; sizes between them occur too."""
MULTIPLIER_LIMITS = (0.3, 3.0)
"""Widths further than this from the drawn ones are no longer those of real networks."""

BLOCKS: Mapping[str, Block] = {**CONVOLUTIONAL, **TOKENS}
PALETTE_WEIGHTS: Mapping[str, float] = {
    **{kind: 1.2 if kind in TOKENS else 1.0 for kind in BLOCKS},
    "grouped_bottleneck": 1.5,
}
"""Blocks on tokens do not fit every resolution and grouped convolutions come in many shapes: both are drawn more."""


def block_kinds() -> tuple[str, ...]:
    """Names of all kinds of stems, blocks and heads."""
    return (*STEMS, *BLOCKS, *HEADS)


def kinds_in(**parameters: Any) -> Counter[str]:
    """How often each kind occurs in the member with these parameters."""
    return Counter(_assemble(**parameters).kinds)


def build(seed: int, width: float = 1.0, kinds: Sequence[str] | None = None, input_size: tuple[int, int] | None = None) -> Graph:
    """A member of the space.

    Args:
        seed: Decides the structure.
        width: Multiplier of all drawn widths.
        kinds: The kinds of blocks to use (of ``block_kinds``); drawn from the seed where None.
        input_size: Height and width of the input; drawn from the seed where None.

    Raises:
        ModelError: An unknown kind of block.
    """
    b = _assemble(seed, width, kinds, input_size)
    return b.finish(b.last)


class _Assembly(MixedBuilder):
    """A builder that remembers its last tensor."""

    last: str = ""


def _assemble(
    seed: int, width: float = 1.0, kinds: Sequence[str] | None = None, input_size: tuple[int, int] | None = None
) -> _Assembly:
    for kind in kinds or ():
        if kind not in BLOCKS:
            raise ModelError(f"no kind of block is called '{kind}'; expected some of {', '.join(BLOCKS)}")
    rng = Random(seed)
    b = _Assembly(NAME, rng, width)
    palette = tuple(kinds) if kinds else _palette(rng)
    drawn_size = _input_size(rng)
    x = b.input((1, 3, *(input_size or drawn_size)))
    input_height = b.size(x)[0]
    stem = weighted(rng, {kind: share for kind, (_, share) in STEMS.items()})
    b.kinds.append(stem)
    x = STEMS[stem][0](b, x, b.scaled(log_uniform(rng, 12, 96)), _branch(rng))
    for stage in range(rng.choice((4, 5))):
        total_stride = input_height / b.size(x)[0]
        shrinks = min(b.size(x)) >= 8 and rng.random() < (0.6 if stage == 0 else 0.9)
        stride = 2 if shrinks else 1
        # Widths grow with the total stride about as they do from VGG's first stage to ResNet's last.
        base = log_uniform(rng, 8, 64) * (total_stride * stride) ** rng.uniform(0.6, 0.95)
        favoured = rng.sample(palette, min(len(palette), rng.choice((1, 2, 2, 3))))
        for index in range(rng.choice((1, 2, 2, 3, 3, 4))):
            wanted = base if rng.random() < 0.75 else base * log_uniform(rng, 0.5, 2)
            x = _add_block(b, x, b.scaled(wanted), stride if index == 0 else 1, favoured, palette, rng)
    head = weighted(rng, {kind: share for kind, (_, share) in HEADS.items()})
    b.kinds.append(head)
    x = HEADS[head][0](b, x, weighted(rng, CLASSES), _branch(rng))
    b.last = b.softmax(x) if rng.random() < 0.15 else x
    return b


def _branch(rng: Random) -> Random:
    """A stream of its own for a block, so that what the block draws does not shift what follows."""
    return Random(rng.getrandbits(64))


def _palette(rng: Random) -> tuple[str, ...]:
    """Four to seven different kinds."""
    waiting = dict(PALETTE_WEIGHTS)
    chosen = []
    for _ in range(rng.randint(4, 7)):
        kind = weighted(rng, waiting)
        del waiting[kind]
        chosen.append(kind)
    return tuple(chosen)


def _input_size(rng: Random) -> tuple[int, int]:
    height = weighted(rng, SIZES) if rng.random() < 0.9 else rng.randint(min(SIZES), max(SIZES))
    return height, height if rng.random() < 0.8 else weighted(rng, SIZES)


def _add_block(
    b: MixedBuilder, x: str, width: int, stride: int, favoured: Sequence[str], palette: Sequence[str], rng: Random
) -> str:
    size = tuple(-(-side // stride) for side in b.size(x))
    fitting = [kind for kind in favoured if _fits(kind, (size[0], size[1]))]
    fitting = fitting or [kind for kind in palette if _fits(kind, (size[0], size[1]))] or ["plain"]
    stream = _branch(rng)
    kind = stream.choice(fitting)
    b.kinds.append(kind)
    return BLOCKS[kind](b, x, width, stride, stream)


def _fits(kind: str, size: tuple[int, int]) -> bool:
    return kind not in FITS or FITS[kind](size)


def fitted_multiplier(seed: int, target_macs: float, input_size: tuple[int, int] | None = None) -> float | None:
    """The width multiplier that brings a structure near a number of multiply-accumulates; None if beyond its limits.

    They grow with the square of the width where convolutions dominate and less where limits on widths bite, so one trial
    at the squared estimate shows the true exponent.
    """
    low, high = MULTIPLIER_LIMITS
    at_one = graph_macs(build(seed, input_size=input_size))
    trial = (target_macs / at_one) ** 0.5
    if not low <= trial <= high:
        return None
    at_trial = graph_macs(build(seed, trial, input_size=input_size))
    exponent = 2.0
    if abs(log(trial)) > 0.05 and at_trial != at_one:
        exponent = min(max(log(at_trial / at_one) / log(trial), 0.7), 2.0)
    fitted = trial * (target_macs / at_trial) ** (1 / exponent)
    return round(fitted, 3) if low <= fitted <= high else None


def draw(rng: Random) -> dict[str, Any]:
    """A target, then structures until one reaches it: small networks come from small structures, not from thin ones."""
    target = log_uniform(rng, *MAC_RANGE)
    while True:
        seed = rng.getrandbits(32)
        multiplier = fitted_multiplier(seed, target)
        if multiplier is not None:
            return {"seed": seed, "width": multiplier}


def within_limits(graph: Graph) -> bool:
    """Whether a network has as many multiply-accumulates and no more weights than the space allows."""
    return MAC_RANGE[0] <= graph_macs(graph) <= MAC_RANGE[1] and graph.parameter_count <= MAX_PARAMETERS


class RandomMixedSpace:
    """The space as the catalogue sees it."""

    name = NAME

    def build(self, **parameters: Any) -> Graph:
        return checked_call(NAME, build, parameters)

    def sample(self, count: int, seed: int) -> list[Reference]:
        """``count`` different members, their multiply-accumulates about log-uniform from 20 million to 5 billion."""
        return distinct_references(NAME, draw, count, seed, accept=lambda parameters: within_limits(build(**parameters)))


SPACE = RandomMixedSpace()
