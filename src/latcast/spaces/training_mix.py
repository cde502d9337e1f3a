"""The networks that a predictor is profiled on, and the families of real networks held out from it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from random import Random

from latcast.records import Reference
from latcast.spaces.catalogue import FAMILY_NAMES, SPACES, family
from latcast.spaces.families.variants import distinct_references
from latcast.spaces.published_segments import NAME as SEGMENTS
from latcast.spaces.published_segments import covering_segments
from latcast.spaces.published_segments import draw as draw_segment

TRAINING_FAMILIES = (
    "resnet", "resnext", "densenet", "mobilenet_v3", "shufflenet_v2", "mobilenet_v1", "vit", "googlenet",
)  # fmt: skip
"""Families whose variants are profiled: ``Random(0).sample(sorted(families), 8)``."""

MIXED = "random_mixed"
"""The space whose networks make room for rare operators."""

SHARES: Mapping[str, float] = {
    MIXED: 0.26, "published_segments": 0.3, "block_sequence": 0.05, "random_mobile": 0.05, "random_small": 0.1,
    "random_forms": 0.04, "random_rows": 0.04,
}  # fmt: skip
"""Shares of synthetic spaces in the mix; variants of the training families have the rest."""

COVERING_SHARE = 0.08
"""Share of segments that are chosen for what they cover, out of that of published segments; the others are drawn."""

RARE_OPERATORS: Mapping[str, Mapping[str, float]] = {
    "onnxruntime": {"random_operators": 0.06, "random_sequences": 0.05}, "openvino": {"random_moves": 0.06},
    "litert": {"random_moves": 0.06},
}  # fmt: skip
"""Runtime to the spaces of its rare operators, with their shares, taken from :data:`MIXED`: all of ONNX's, or those that move
data, as TFLite lacks most others."""


def unseen_families() -> tuple[str, ...]:
    """Families of real networks that the mix leaves out."""
    return tuple(name for name in FAMILY_NAMES if name not in TRAINING_FAMILIES)


def shares_of(runtime: str) -> Mapping[str, float]:
    """Shares of the mix on a runtime."""
    rare = RARE_OPERATORS.get(runtime, {})
    return {**SHARES, MIXED: SHARES[MIXED] - sum(rare.values()), **rare}


def training_mix(count: int, seed: int, *, runtime: str = "") -> list[Reference]:
    """Networks to profile, ordered so that any prefix has about the same shares.

    Args:
        count: How many.
        seed: Same seed, same networks.
        runtime: What will run them (:func:`shares_of`).
    """
    covering = covering_segments(round(count * COVERING_SHARE), seed)

    def drawn(name: str, wanted: int) -> list[Reference]:
        if name != SEGMENTS:
            return SPACES.get(name).sample(wanted, seed)
        known = {reference.key for reference in covering}
        return distinct_references(name, draw_segment, wanted - len(covering), seed, known=known)

    by_space = [drawn(name, round(count * share)) for name, share in shares_of(runtime).items()]
    parts = [part for part in (*by_space, covering) if part]
    rest = count - sum(len(part) for part in parts)
    each = -(-rest // len(TRAINING_FAMILIES))
    variants = [SPACES.get(name).sample(each, seed) for name in TRAINING_FAMILIES]
    parts.append([reference for row in zip_longest(*variants) for reference in row if reference is not None][:rest])
    rng = Random(seed)
    positions = sorted(
        ((index + rng.random()) / len(part), number, index) for number, part in enumerate(parts) for index in range(len(part))
    )
    return [parts[number][index] for _, number, index in positions]


def published_networks(names: tuple[str, ...] | None = None, per_family: int | None = None) -> list[Reference]:
    """Return published members of families (all unseen ones by default), the smaller ones first in each family."""
    found = []
    for name in names if names is not None else unseen_families():
        published = {model: paper for model, paper in family(name).published.items() if paper.drawn}
        ordered = sorted(published, key=lambda model: published[model].million_macs or 0.0)
        found += [Reference(name, dict(published[model].parameters), model) for model in ordered[:per_family]]
    return found
