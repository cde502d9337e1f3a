"""Parts of the training networks that are left out in turn, whole lineages together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latcast.spaces.catalogue import SYNTHETIC_NAMES

FOLDS = 5
"""Parts, wherever nothing else is said."""

LARGEST_SHARE = 0.5
"""Of the networks: what is left without a larger group would not teach."""


def held_out_by(groups: Sequence[str], parts: int, seed: int) -> str:
    """What :func:`group_folds` holds out, in words: "lineage (random_mixed by network)"."""
    fold, labels = group_folds(groups, parts, seed), np.array(groups)
    split = [name for name in sorted(set(groups)) if len(set(fold[labels == name].tolist())) > 1]
    return "lineage" + (f" ({', '.join(split)} by network)" if split else "")


def group_folds(groups: Sequence[str], parts: int, seed: int) -> np.ndarray:
    """Fold of each network, (networks,). Groups stay whole, so that a fold is as large as the largest lineage in it.

    Two kinds are split instead: more than :data:`LARGEST_SHARE` of all networks, and a synthetic space larger than a fold, whose
    networks are each drawn anew and share no blocks.
    """
    rng = np.random.default_rng(seed)
    names, counts = np.unique(groups, return_counts=True)
    fold = np.zeros(len(groups), dtype=int)
    load = np.zeros(parts)
    labels = np.array(groups)
    for index in np.argsort(-counts, kind="stable"):
        members = np.flatnonzero(labels == names[index])
        largest = len(groups) / parts if names[index] in SYNTHETIC_NAMES else LARGEST_SHARE * len(groups)
        if counts[index] > largest:
            fold[members] = rng.permutation(np.arange(len(members)) % parts)
            load += len(members) / parts
        else:
            target = int(np.argmin(load))
            fold[members] = target
            load[target] += len(members)
    return fold
