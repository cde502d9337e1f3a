"""Samples of a known function, which regressors learn."""

from __future__ import annotations

import numpy as np


def known_function(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Features a, b, c, a·b and 1; latency 0.01 a b + 0.2 c + 0.3, from 0.3 to 3.3 milliseconds."""
    a, b, c = np.random.default_rng(seed).uniform(1, 10, (3, count))
    return np.stack([a, b, c, a * b, np.ones(count)], axis=1), 0.01 * a * b + 0.2 * c + 0.3


TRAIN = known_function(0, 300)
TEST = known_function(1, 200)
