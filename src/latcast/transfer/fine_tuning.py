"""LitePred's own transfer: the perceptron of the most similar platform, trained on with a few samples (§4.3, §5.2).

It stands beside :mod:`latcast.transfer.residual_transfer`, for comparison and for whoever has a pool of perceptrons; torch is
needed to train, not to predict.
"""

from __future__ import annotations

import numpy as np

from latcast.errors import TrainingError
from latcast.kernels.types import kernel_type
from latcast.predictors.features import feature_matrix, feature_names
from latcast.predictors.kernel_predictor import KERNEL_MLP, KernelPredictor, Seen
from latcast.predictors.regressors.kernel_mlp import KernelMlp


def fit_perceptron(type_name: str, configurations: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0) -> KernelPredictor:
    """Trains the perceptron of a kernel type from scratch: for warm-up platforms, and to compare with.

    Args:
        type_name: The kernel type.
        configurations: (samples, fields).
        latency_ms: (samples,).
        seed: Of weights and order.

    Raises:
        MissingExtraError: torch is not installed.
    """
    features = feature_matrix(kernel_type(type_name), configurations)
    return _predictor(type_name, configurations, KernelMlp.fit(features, latency_ms, seed=seed))


def fine_tune(source: KernelPredictor, configurations: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0) -> KernelPredictor:
    """Goes on training another platform's perceptron with samples of the new one.

    Args:
        source: A kernel predictor that is a perceptron.
        configurations: (samples, fields).
        latency_ms: (samples,).
        seed: Of the order.

    Raises:
        TrainingError: The source is no perceptron: trees cannot be trained on (§4.3).
        MissingExtraError: torch is not installed.
    """
    kind = kernel_type(source.kernel_type)
    if not isinstance(source.regressor, KernelMlp) or source.features not in (None, feature_names(kind)):
        raise TrainingError(
            f"a '{source.model}' predictor of {source.kernel_type} cannot be fine-tuned, expected a '{KERNEL_MLP}' of the same "
            "features; adapt it by residual transfer"
        )
    features = feature_matrix(kind, configurations)
    return _predictor(source.kernel_type, configurations, source.regressor.fine_tuned(features, latency_ms, seed=seed))


def _predictor(type_name: str, configurations: np.ndarray, regressor: KernelMlp) -> KernelPredictor:
    kind = kernel_type(type_name)
    low, high = configurations.min(axis=0), configurations.max(axis=0)
    seen = Seen.of(type_name, configurations)
    return KernelPredictor(type_name, KERNEL_MLP, regressor, low, high, len(configurations), feature_names(kind), seen=seen)
