"""Mutual information selection (Ganesan et al., Algorithm 1, MIS).

Each network's latencies become three levels over the devices (below the first tercile, between, above). A network is added
whose levels, together with those chosen, tell the devices apart best beyond what the network says alone: the released code
maximises ``H(chosen, new) - H(new)``, which is ``H(chosen) - I(chosen; new)``, so the network that repeats least of what the
chosen ones say. Of equal ones the last is taken, as in the algorithm.
"""

from __future__ import annotations

import numpy as np

from latcast.devices.signatures import check_size

LEVELS = 3


def levels(latency_ms: np.ndarray) -> np.ndarray:
    """(devices, networks) integers 0 to 2: the tercile of each network's latencies that a device lies in."""
    cuts = np.quantile(latency_ms, np.arange(1, LEVELS) / LEVELS, axis=0)
    found: np.ndarray = (latency_ms[None] >= cuts[:, None]).sum(axis=0)
    return found


def entropy(codes: np.ndarray) -> float:
    """Of the distribution of codes over devices, in nats."""
    _, counts = np.unique(codes, return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def select(latency_ms: np.ndarray, size: int, seed: int = 0) -> tuple[int, ...]:
    """See :class:`latcast.devices.signatures.Selection`; the first network is random, as in the algorithm."""
    check_size(latency_ms, size)
    table = levels(latency_ms)
    networks = table.shape[1]
    alone = np.array([entropy(column) for column in table.T])
    first = int(np.random.default_rng(seed).integers(networks))
    chosen, joint = [first], table[:, first]
    while len(chosen) < size:
        best, index = -np.inf, -1
        for candidate in range(networks):
            if candidate in chosen:
                continue
            gain = entropy(joint * LEVELS + table[:, candidate]) - alone[candidate]
            if gain >= best:
                best, index = gain, candidate
        chosen.append(index)
        # Codes renumbered, so that they stay small however many networks are joined.
        joint = np.unique(joint * LEVELS + table[:, index], return_inverse=True)[1]
    return tuple(chosen)
