"""A regressor for each group of recorded operations, and networks as their sums (Li et al. §4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from latcast.errors import TrainingError
from latcast.predictors.regressors import Regressor, fit_regressor
from latcast.records import ExecutedKernel
from papers.peva.operation_features import ELEMENTWISE, FEATURES, GROUPINGS, matrix

FEWEST_OPERATIONS = 10
"""A group with fewer to learn from is learned together with all groups of the same features; one that was not seen at all is
priced by the regressor of all operations."""

Network = Sequence[ExecutedKernel]


@dataclass(frozen=True)
class OperationModels:
    """Attributes:
    regressors: Group to its regressor.
    rest: Of operations of all groups, by the size of their input.
    grouping: Key of :data:`GROUPINGS`.
    overhead_ms: What networks take beyond their operations, on average over those trained on; 0 where it is ignored.
    """

    regressors: Mapping[str, Regressor]
    rest: Regressor
    grouping: str
    overhead_ms: float

    def kernel_latency_ms(self, kernels: Network) -> np.ndarray:
        """Latency of operations, (kernels,)."""
        result = np.zeros(len(kernels))
        for group, (places, features) in grouped(kernels, self.grouping).items():
            chosen = [kernels[place] for place in places]
            regressor = self.regressors.get(group)
            if regressor is None:
                result[places] = self.rest.predict(matrix(chosen, FEATURES[ELEMENTWISE]))
            else:
                result[places] = regressor.predict(matrix(chosen, features))
        return result

    def latency_ms(self, kernels: Network) -> float:
        """Latency of a network of these operations."""
        return self.overhead_ms + float(self.kernel_latency_ms(kernels).sum())


def grouped(kernels: Network, grouping: str) -> dict[str, tuple[list[int], Sequence[str]]]:
    """Group to the places of its operations and the features they are seen by."""
    found: dict[str, tuple[list[int], Sequence[str]]] = {}
    of = GROUPINGS[grouping]
    for place, kernel in enumerate(kernels):
        group, features = of(kernel)
        found.setdefault(group, ([], features))[0].append(place)
    return found


def fit_operations(
    networks: Sequence[Network],
    latency_ms: Sequence[float],
    *,
    model: str,
    grouping: str = "kernels",
    with_overhead: bool = True,
    seed: int = 0,
    tune: bool = True,
) -> OperationModels:
    """Trains the regressors and takes the mean difference between networks and the sums of their operations as overhead.

    Args:
        networks: Recorded operations of each network.
        latency_ms: Of each network as a whole.
        model: One of the four regressors.
        grouping: Key of :data:`GROUPINGS`.
        with_overhead: Whether networks take longer than their operations by a constant.
        seed: For every random choice.
        tune: Whether to choose hyper-parameters by cross-validation, from the 3 to 8 settings of the regressor.

    Raises:
        TrainingError: No operations.
    """
    kernels = [kernel for network in networks for kernel in network]
    if not kernels:
        raise TrainingError("no operations to learn from; the platform's were not published")
    actual = np.array([kernel.latency_ms for kernel in kernels])
    regressors = {}
    groups = grouped(kernels, grouping)
    alike: dict[Sequence[str], list[int]] = {}
    for places, features in groups.values():
        alike.setdefault(features, []).extend(places)
    for group, (own, features) in sorted(groups.items()):
        places = own if len(own) >= FEWEST_OPERATIONS else alike[features]
        if len(places) >= FEWEST_OPERATIONS:
            inputs = matrix([kernels[place] for place in places], features)
            regressors[group] = fit_regressor(model, inputs, actual[places], seed=seed, tune=tune)
    rest = fit_regressor("lasso", matrix(kernels, FEATURES[ELEMENTWISE]), actual, seed=seed, tune=False)
    overhead_ms = 0.0
    if with_overhead:
        sums = np.array([sum(kernel.latency_ms for kernel in network) for network in networks])
        overhead_ms = float(np.mean(np.asarray(latency_ms) - sums))
    return OperationModels(regressors, rest, grouping, overhead_ms)
