"""The predictor of one kernel type: a physical base and what a regressor learned on top of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latcast.kernels.types import kernel_type
from latcast.predictors.features import feature_matrix, feature_names
from latcast.predictors.physical import PhysicalTerms
from latcast.predictors.regressors import Regressor, fit_regressor
from latcast.predictors.transferred_base import TransferredBase

PHYSICAL = "physical"
"""Way to model a kernel type by its physical terms alone."""

RESIDUAL = "physical_residual"
"""By physical terms and boosted trees on the logarithm of what they leave."""

MODELS = (RESIDUAL, PHYSICAL, "lasso", "random_forest", "gbdt", "mlp")

TRANSFERRED = "transferred"
"""By physical terms with the predictions of other platforms beside them, and boosted trees where they help."""

KERNEL_MLP = "kernel_mlp"
"""LitePred's perceptron."""

STORED_MODELS = (*MODELS, TRANSFERRED, KERNEL_MLP)
"""What a bundle may hold; the last two come from transfer."""

FEW_SAMPLES = 12
"""Below this many samples a type keeps its physical terms alone."""

RESIDUAL_LIMIT = 20.0
"""A learned residual may change the physical latency by at most this factor (the trees cannot extrapolate anyway)."""


@dataclass(frozen=True)
class KernelPredictor:
    """Latency of kernels of one type.

    Attributes:
        kernel_type: Its name.
        model: One of :data:`STORED_MODELS`.
        regressor: None where the physical terms, or the base, stand alone.
        low, high: (fields,) the range of configurations trained on.
        samples: How many distinct configurations it was trained on; 0 where only networks were.
        features: Names of what the regressor sees, in its order; all features of the type where None.
        base: What stands in the place of the platform's physical terms where it was transferred; None where it was not.
    """

    kernel_type: str
    model: str
    regressor: Regressor | None
    low: np.ndarray
    high: np.ndarray
    samples: int
    features: tuple[str, ...] | None = None
    base: TransferredBase | None = None

    def latency_ms(self, physical: PhysicalTerms, configurations: np.ndarray) -> np.ndarray:
        """Latency of kernels, (kernels,)."""
        kind = kernel_type(self.kernel_type)
        if self.regressor is None:
            return self._base_ms(physical, configurations)
        features = feature_matrix(kind, configurations, self.features)
        if self.model in (RESIDUAL, TRANSFERRED):
            factor = np.clip(self.regressor.predict(features), 1 / RESIDUAL_LIMIT, RESIDUAL_LIMIT)
            return self._base_ms(physical, configurations) * factor
        return self.regressor.predict(features)

    def _base_ms(self, physical: PhysicalTerms, configurations: np.ndarray) -> np.ndarray:
        if self.base is not None:
            return self.base.latency_ms(self.kernel_type, configurations)
        return physical.latency_ms(kernel_type(self.kernel_type), configurations)

    def outside(self, configurations: np.ndarray) -> np.ndarray:
        """Whether each kernel has a field outside the range trained on, (kernels,)."""
        return np.asarray(((configurations < self.low) | (configurations > self.high)).any(axis=1))


def fit_kernel_predictor(
    name: str,
    configurations: np.ndarray,
    latency_ms: np.ndarray,
    physical: PhysicalTerms,
    *,
    model: str = RESIDUAL,
    seed: int = 0,
    tune: bool = False,
) -> KernelPredictor:
    """Trains the predictor of one kernel type.

    Args:
        name: The kernel type.
        configurations: (samples, fields).
        latency_ms: (samples,).
        physical: Terms already fitted to these samples.
        model: One of :data:`MODELS`.
        seed: For bootstrap and shuffling.
        tune: Whether to choose hyper-parameters by cross-validation.
    """
    kind = kernel_type(name)
    low, high = configurations.min(axis=0), configurations.max(axis=0)
    regressor: Regressor | None = None
    if model != PHYSICAL and len(latency_ms) >= FEW_SAMPLES:
        features = feature_matrix(kind, configurations)
        if model == RESIDUAL:
            from latcast.predictors.regressors.residual import LogResidual

            base = physical.latency_ms(kind, configurations)
            regressor = LogResidual.fit(features, latency_ms / base, seed=seed, tune=tune)
        else:
            regressor = fit_regressor(model, features, latency_ms, seed=seed, tune=tune)
    return KernelPredictor(
        name, model if regressor is not None else PHYSICAL, regressor, low, high, len(latency_ms), feature_names(kind)
    )
