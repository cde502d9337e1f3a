"""Spearman correlation coefficient selection (Ganesan et al., Algorithm 2, SCCS).

The network that the most others correlate with is taken, and they are removed. Networks of one space correlate highly, so the
algorithm may run out of networks before it has as many as were asked for; the paper does not say what then. Here each
further one is the network whose highest correlation with a chosen one is the lowest: what the chosen ones say least of.
"""

from __future__ import annotations

import numpy as np

from latcast.devices.signatures import check_size

THRESHOLD = 0.98
"""γ of Algorithm 2."""


def rank_correlations(latency_ms: np.ndarray) -> np.ndarray:
    """(networks, networks) Spearman correlations over the devices; 0 with a network that is alike on all devices."""
    from scipy.stats import rankdata

    ranks = rankdata(latency_ms, axis=0)
    ranks -= ranks.mean(axis=0)
    length = np.sqrt((ranks**2).sum(axis=0))
    ranks /= np.where(length > 0, length, 1)
    found: np.ndarray = ranks.T @ ranks
    return found


def distinct(correlations: np.ndarray, size: int, threshold: float = THRESHOLD) -> list[int]:
    """Algorithm 2 as it stands: ``size`` networks, or fewer where it runs out of them."""
    left = list(range(len(correlations)))
    chosen: list[int] = []
    while left and len(chosen) < size:
        alike = correlations[np.ix_(np.array(left), np.array(left))] >= threshold
        best = int(alike.sum(axis=1).argmax())
        chosen.append(left[best])
        left = [network for place, network in enumerate(left) if not alike[best, place] and place != best]
    return chosen


def select(latency_ms: np.ndarray, size: int, seed: int = 0, threshold: float = THRESHOLD) -> tuple[int, ...]:
    """See :class:`latcast.devices.signatures.Selection`; nothing is random."""
    check_size(latency_ms, size)
    correlations = rank_correlations(latency_ms)
    chosen = distinct(correlations, size, threshold)
    while len(chosen) < size:
        highest = correlations[:, chosen].max(axis=1)
        highest[chosen] = np.inf
        chosen.append(int(highest.argmin()))
    return tuple(chosen)
