"""Random sampling (Ganesan et al. §III-C, RS)."""

from __future__ import annotations

import numpy as np

from latcast.devices.signatures import check_size


def select(latency_ms: np.ndarray, size: int, seed: int = 0) -> tuple[int, ...]:
    """See :class:`latcast.devices.signatures.Selection`."""
    check_size(latency_ms, size)
    order = np.random.default_rng(seed).permutation(latency_ms.shape[1])
    return tuple(int(index) for index in order[:size])
