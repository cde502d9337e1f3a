"""Phones and networks in clusters (Ganesan et al. §II-C)."""

from __future__ import annotations

import numpy as np

from papers.iiswc20.paper import CLUSTERS

NETWORK_CLUSTERS = ("small", "large", "giant")


def k_means(rows: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """(rows,) names of clusters, in order of their mean.

    Args:
        rows: (rows, columns).
        names: As many as there are clusters, smallest mean first.
    """
    from scipy.cluster.vq import kmeans2

    rng = np.random.default_rng(0)
    # Lloyd's steps end in the nearest of many optima: the tightest clusters of 20 starts.
    starts = [kmeans2(rows, len(names), iter=100, minit="++", missing="warn", rng=rng) for _ in range(20)]
    _, labels = min(starts, key=lambda found: float(((rows - found[0][found[1]]) ** 2).sum()))
    order = np.argsort([rows[labels == label].mean() for label in range(len(names))])
    named = dict(zip(order.tolist(), names, strict=True))
    return np.array([named[label] for label in labels], dtype=object)


def speed_clusters(latency_ms: np.ndarray) -> np.ndarray:
    """(phones,) "fast", "medium" or "slow"."""
    return k_means(latency_ms, CLUSTERS)


def network_clusters(latency_ms: np.ndarray) -> np.ndarray:
    """(networks,) "small", "large" or "giant"."""
    return k_means(latency_ms.T, NETWORK_CLUSTERS)
