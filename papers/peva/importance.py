"""Which features Lasso weighs most: the end of §5.5.2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latcast.predictors.regressors import fit_regressor
from papers.comparison import Cell, Comparison
from papers.peva.breakdown import gpus_with_operations
from papers.peva.operation_features import CATEGORY_OF_KIND, CONVOLUTION, DEPTHWISE, FEATURES, GROUPED, matrix
from papers.peva.published import RUNTIME_TITLES, Published, soc_of

LISTED = 3
"""Features that are listed."""

FEWEST = 50
"""Operations that a weight takes to say something."""


def standardised_weights(features: np.ndarray, latency_ms: np.ndarray, names: Sequence[str]) -> dict[str, float]:
    """Each feature's part of Lasso's weights on standardised features, in percent, the largest first; zeros are left out."""
    from latcast.predictors.regressors.lasso import Lasso

    fitted = fit_regressor("lasso", features, latency_ms)
    assert isinstance(fitted, Lasso)
    weights = fitted.weights[:-1]
    whole = weights.sum()
    order = np.argsort(-weights, kind="stable")
    return {names[place]: 100 * float(weights[place] / whole) for place in order if weights[place] > 0}


def importances(published: Published) -> Comparison:
    """The features of convolutions that weigh most, on every GPU."""
    rows: list[tuple[Cell, ...]] = []
    for platform in gpus_with_operations(published):
        kernels = [kernel for each in published.of_platform(platform).values() for kernel in each.executed]
        for kind in sorted({kernel.kind for kernel in kernels}):
            category = CATEGORY_OF_KIND.get(kind)
            of_kind = [kernel for kernel in kernels if kernel.kind == kind]
            if category not in (CONVOLUTION, GROUPED, DEPTHWISE) or len(of_kind) < FEWEST:
                continue
            names = FEATURES[category]
            found = standardised_weights(matrix(of_kind, names), np.array([each.latency_ms for each in of_kind]), names)
            listed = [f"{name} ({share:.0f} %)" for name, share in list(found.items())[:LISTED]]
            cells = [*listed, *[None] * (LISTED - len(listed))]
            rows.append((RUNTIME_TITLES[platform.runtime], soc_of(platform), kind, len(of_kind), *cells))
    return Comparison(
        "feature importance", "Features of convolutions by their weight in Lasso, real networks on GPUs",
        ("runtime", "system on chip", "kernel", "operations", "first", "second", "third"), tuple(rows),
        ("the paper finds FLOPs and kernel size to weigh most, and FLOPs and input size for depthwise convolutions (§5.5.2)",
         "shares of the sum of all weights; features are divided by their standard deviation"),
    )  # fmt: skip
