"""A multi-layer perceptron on the squared percentage error (Li et al. §4.2), trained by scikit-learn, kept as arrays."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from latcast.predictors.regressors.cross_validation import Predict, choose
from latcast.predictors.regressors.regressor import Arrays

CONSTANT = 1e-6
"""Standard deviation of a log feature below which it tells samples apart by rounding alone."""


@dataclass(frozen=True)
class MultiLayerPerceptron:
    """ReLU layers from standardised log features to log latency.

    The paper trains on latency itself; in its logarithm a squared error is, for small errors, the squared percentage
    error, and no prediction can be negative. A feature that never varied in training has an infinite deviation, and so no say.
    """

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    mean: np.ndarray
    deviation: np.ndarray
    low: float
    high: float
    kind: ClassVar[str] = "mlp"
    SETTINGS: ClassVar = ((64,), (64, 64), (128, 128))

    @classmethod
    def fit(cls, features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0, tune: bool = True) -> MultiLayerPerceptron:
        def fit_one(layers: tuple[int, ...], x: np.ndarray, y: np.ndarray) -> Predict:
            return cls._fit(layers, x, y, seed).predict

        layers = choose(cls.SETTINGS, fit_one, features, latency_ms, seed=seed, parts=3) if tune else cls.SETTINGS[1]
        return cls._fit(layers, features, latency_ms, seed)

    @classmethod
    def _fit(cls, layers: tuple[int, ...], features: np.ndarray, latency_ms: np.ndarray, seed: int) -> MultiLayerPerceptron:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPRegressor

        logs = np.log1p(np.maximum(features, 0))
        mean, spread = logs.mean(axis=0), logs.std(axis=0)
        # Divided by almost nothing, the first other value of a feature that was constant would outweigh all others.
        deviation = np.where(spread > CONSTANT, spread, np.inf)
        target = np.log(latency_ms)
        model = MLPRegressor(
            hidden_layer_sizes=layers, alpha=1e-3, learning_rate_init=5e-3, max_iter=300, random_state=seed,
            early_stopping=len(target) >= 50, n_iter_no_change=20, validation_fraction=0.2,
        )  # fmt: skip
        with warnings.catch_warnings():
            # Stopping at max_iter is meant: the budget is part of the method.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit((logs - mean) / deviation, target)
        return cls(
            tuple(model.coefs_),
            tuple(model.intercepts_),
            mean,
            deviation,
            float(target.min()) - 1,
            float(target.max()) + 1,
        )

    def predict(self, features: np.ndarray) -> np.ndarray:
        x = (np.log1p(np.maximum(features, 0)) - self.mean) / self.deviation
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = x @ weight + bias
            if index < len(self.weights) - 1:
                x = np.maximum(x, 0)
        return np.exp(np.clip(x[:, 0], self.low, self.high))

    def arrays(self) -> Arrays:
        layers = {f"weight_{index}": weight for index, weight in enumerate(self.weights)}
        layers |= {f"bias_{index}": bias for index, bias in enumerate(self.biases)}
        return {**layers, "mean": self.mean, "deviation": self.deviation, "range": np.array([self.low, self.high])}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> MultiLayerPerceptron:
        count = sum(1 for name in arrays if name.startswith("weight_"))
        return cls(
            tuple(arrays[f"weight_{index}"] for index in range(count)),
            tuple(arrays[f"bias_{index}"] for index in range(count)),
            arrays["mean"], arrays["deviation"], float(arrays["range"][0]), float(arrays["range"][1]),
        )  # fmt: skip
