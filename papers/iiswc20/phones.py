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
    from sklearn.cluster import KMeans

    labels = KMeans(len(names), n_init=20, random_state=0).fit_predict(rows)
    order = np.argsort([rows[labels == label].mean() for label in range(len(names))])
    named = dict(zip(order.tolist(), names, strict=True))
    return np.array([named[label] for label in labels], dtype=object)


def speed_clusters(latency_ms: np.ndarray) -> np.ndarray:
    """(phones,) "fast", "medium" or "slow"."""
    return k_means(latency_ms, CLUSTERS)


def network_clusters(latency_ms: np.ndarray) -> np.ndarray:
    """(networks,) "small", "large" or "giant"."""
    return k_means(latency_ms.T, NETWORK_CLUSTERS)
