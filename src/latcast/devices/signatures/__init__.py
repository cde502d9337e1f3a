"""Which networks to measure on a new device: the signature set (Ganesan et al. §III-C).

A selection sees the latencies of known devices alone and names networks, best first, so that the head of a longer list is a
shorter one where the method allows it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from latcast.registry import Registry


class Selection(Protocol):
    """A way to choose networks; what a plug-in of the group ``latcast.signatures`` is."""

    def __call__(self, latency_ms: np.ndarray, size: int, seed: int = 0) -> tuple[int, ...]:
        """Chooses networks.

        Args:
            latency_ms: (devices, networks) of known devices, complete.
            size: How many.
            seed: For what is random.

        Returns:
            ``size`` different indices of networks.

        Raises:
            TrainingError: There are not as many networks.
        """


SELECTIONS: Registry[Selection] = Registry(
    "signature selection",
    {
        "random": "latcast.devices.signatures.random:select",
        "mutual_information": "latcast.devices.signatures.mutual_information:select",
        "spearman": "latcast.devices.signatures.spearman:select",
        "prediction_error": "latcast.devices.signatures.prediction_error:select",
    },
    group="latcast.signatures",
)


def check_size(latency_ms: np.ndarray, size: int) -> None:
    """Refuses a size that cannot be had.

    Raises:
        TrainingError: Fewer networks than asked for, none asked for, or cells without a value.
    """
    from latcast.errors import TrainingError

    if not 1 <= size <= latency_ms.shape[1]:
        raise TrainingError(f"a signature of {size} networks was asked for; expected 1 to {latency_ms.shape[1]}")
    if np.isnan(latency_ms).any():
        raise TrainingError("a signature is chosen from a complete table; leave out networks and devices without a value")
