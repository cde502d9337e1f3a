"""Devices as vectors: what a data sheet says of them, or what they did (Ganesan et al. §III-C)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latcast.errors import TrainingError


@dataclass(frozen=True)
class StaticFeatures:
    """CPU model, frequency and memory.

    Attributes:
        cpus: The known CPU models; a device with another one has none.
    """

    cpus: tuple[str, ...]

    @classmethod
    def of(cls, devices: Sequence[Mapping[str, Any]]) -> StaticFeatures:
        """For some known devices.

        Args:
            devices: What is known of each: ``cpu`` or ``cpu_code``, ``ghz``, ``ram_gb``.
        """
        return cls(tuple(sorted({_cpu(device) for device in devices})))

    def features(self, devices: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """(devices, CPU models + 2).

        Raises:
            TrainingError: A device's frequency or memory is not known.
        """
        table = np.zeros((len(devices), len(self.cpus) + 2))
        for index, device in enumerate(devices):
            if "ghz" not in device or "ram_gb" not in device:
                name = device.get("model", index)
                raise TrainingError(
                    f"frequency and memory of the device '{name}' are not known; its signature describes it better"
                )
            name = _cpu(device)
            if name in self.cpus:
                table[index, self.cpus.index(name)] = 1.0
            table[index, -2:] = float(device["ghz"]), float(device["ram_gb"])
        return table


def _cpu(device: Mapping[str, Any]) -> str:
    return str(device.get("cpu_code", device.get("cpu", "unknown")))
