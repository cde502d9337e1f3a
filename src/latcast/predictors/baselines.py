"""What people use today: FLOPs, and FLOPs with memory traffic (nn-Meter §7.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.types import kernel_type
from latcast.predictors.analytical import fit_nonnegative, term_values

BASELINES: Mapping[str, tuple[int, ...]] = {"flops": (0,), "flops_mac": (0, 1, 2)}
"""Name to the terms it uses; "mac" is memory access cost: elements read, written and of weights."""


@dataclass(frozen=True)
class Baseline:
    """Latency = constant + coefficients · totals, fitted on the squared percentage error."""

    name: str
    coefficients: np.ndarray

    def latency_ms(self, networks: Sequence[Sequence[Kernel]]) -> np.ndarray:
        return _totals(networks, self.name) @ self.coefficients


def _totals(networks: Sequence[Sequence[Kernel]], name: str) -> np.ndarray:
    table = KernelTable.of(networks)
    values = [term_values(kernel_type(kind), rows) for kind, rows in table.configurations.items()]
    sums = table.sum_by_network(np.concatenate(values))[:, BASELINES[name]]
    if sums.shape[1] == 3:
        sums = np.stack([sums[:, 0], sums[:, 1] + sums[:, 2]], axis=1)
    return np.hstack([sums, np.ones((len(sums), 1))])


def fit_baseline(name: str, networks: Sequence[Sequence[Kernel]], latency_ms: np.ndarray) -> Baseline:
    """Fits a baseline of :data:`BASELINES` to measured networks."""
    return Baseline(name, fit_nonnegative(_totals(networks, name), latency_ms, strength=1e-9))
