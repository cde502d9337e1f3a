"""Parts of the training networks that are left out in turn, whole families together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FOLDS = 5
"""Parts, wherever nothing else is said."""


def group_folds(groups: Sequence[str], parts: int, seed: int) -> np.ndarray:
    """Fold of each network. Groups (families, spaces) stay whole unless one is larger than a fold, which is then spread."""
    rng = np.random.default_rng(seed)
    names, counts = np.unique(groups, return_counts=True)
    fold = np.zeros(len(groups), dtype=int)
    load = np.zeros(parts)
    labels = np.array(groups)
    for index in np.argsort(-counts, kind="stable"):
        members = np.flatnonzero(labels == names[index])
        if counts[index] > len(groups) / parts:
            fold[members] = rng.permutation(np.arange(len(members)) % parts)
            load += len(members) / parts
        else:
            target = int(np.argmin(load))
            fold[members] = target
            load[target] += len(members)
    return fold
