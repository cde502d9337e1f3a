"""A multi-layer perceptron on the squared percentage error (Li et al. §4.2), trained by Adam, kept as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from latcast.predictors.regressors.regressor import Arrays, Tuned

CONSTANT = 1e-6
"""Standard deviation of a log feature below which it tells samples apart by rounding alone."""

MOST_EPOCHS, PATIENCE_EPOCHS, LEAST_GAIN = 300, 20, 1e-4
BATCH_SAMPLES = 200
WEIGHT_DECAY = 1e-3
LEARNING_RATE = 5e-3
FIRST_MOMENT, SECOND_MOMENT, EPSILON = 0.9, 0.999, 1e-8
FEWEST_TO_HOLD_OUT, HELD_OUT_SHARE = 50, 0.2
"""From so many samples on, so large a share is held out, to stop when it gets no better."""


class _Network:
    """Layers whose weights and biases are views of one vector, so that the optimiser takes one step for all of them."""

    def __init__(self, sizes: Sequence[int], rng: np.random.Generator) -> None:
        count = sum(fan_in * fan_out + fan_out for fan_in, fan_out in pairwise(sizes))
        self.values, self.gradient = np.zeros(count), np.zeros(count)
        self.weights, self.biases = self._layers(self.values, sizes)
        self.weight_gradients, self.bias_gradients = self._layers(self.gradient, sizes)
        for weight, bias in zip(self.weights, self.biases, strict=True):
            # Glorot and Bengio, AISTATS 2010, eq. 16.
            bound = np.sqrt(6 / sum(weight.shape))
            weight[:] = rng.uniform(-bound, bound, weight.shape)
            bias[:] = rng.uniform(-bound, bound, bias.shape)

    @staticmethod
    def _layers(vector: np.ndarray, sizes: Sequence[int]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        weights, biases, start = [], [], 0
        for fan_in, fan_out in pairwise(sizes):
            middle = start + fan_in * fan_out
            weights.append(vector[start:middle].reshape(fan_in, fan_out))
            biases.append(vector[middle : middle + fan_out])
            start = middle + fan_out
        return weights, biases

    def error(self, x: np.ndarray, target: np.ndarray) -> float:
        """Mean squared error."""
        return float(np.mean((_forward(self.weights, self.biases, x)[-1][:, 0] - target) ** 2))

    def differentiate(self, x: np.ndarray, target: np.ndarray) -> float:
        """Sets the gradient of half the mean squared error with weight decay; returns that loss."""
        outputs = _forward(self.weights, self.biases, x)
        delta = outputs[-1] - target[:, None]
        loss = float(np.mean(delta**2))
        for index in range(len(self.weights) - 1, -1, -1):
            weight = self.weights[index]
            loss += WEIGHT_DECAY * float(np.vdot(weight, weight)) / len(x)
            np.matmul(outputs[index].T, delta, out=self.weight_gradients[index])
            self.weight_gradients[index] += WEIGHT_DECAY * weight
            np.sum(delta, axis=0, out=self.bias_gradients[index])
            if index:
                delta = (delta @ weight.T) * (outputs[index] > 0)
        self.gradient /= len(x)
        return loss / 2


def _forward(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray], x: np.ndarray) -> list[np.ndarray]:
    """The input and the output of each layer, (samples, width) each; ReLU after all but the last."""
    outputs = [x]
    for index, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        linear = outputs[-1] @ weight + bias
        outputs.append(np.maximum(linear, 0) if index < len(weights) - 1 else linear)
    return outputs


def _train(hidden: Sequence[int], x: np.ndarray, target: np.ndarray, seed: int) -> _Network:
    """Adam (Kingma and Ba, ICLR 2015, Algorithm 1) on (samples, features) and (samples,), until nothing has been gained for
    ``PATIENCE_EPOCHS``: on held-out samples, whose best state is kept, or on the training loss where there are few samples."""
    rng = np.random.default_rng(seed)
    network = _Network((x.shape[1], *hidden, 1), rng)
    order, held_out = rng.permutation(len(x)), 0
    if len(x) >= FEWEST_TO_HOLD_OUT:
        held_out = int(np.ceil(HELD_OUT_SHARE * len(x)))
    tests, rows = order[:held_out], order[held_out:]
    variance = float(target[tests].var()) if held_out else 1.0
    first, second = np.zeros_like(network.values), np.zeros_like(network.values)
    best, best_values, since, steps = np.inf, network.values.copy(), 0, 0
    for _ in range(MOST_EPOCHS):
        rng.shuffle(rows)
        loss = 0.0
        for start in range(0, len(rows), BATCH_SAMPLES):
            batch = rows[start : start + BATCH_SAMPLES]
            loss += network.differentiate(x[batch], target[batch]) * len(batch) / len(rows)
            steps += 1
            first += (1 - FIRST_MOMENT) * (network.gradient - first)
            second += (1 - SECOND_MOMENT) * (network.gradient**2 - second)
            rate = LEARNING_RATE * np.sqrt(1 - SECOND_MOMENT**steps) / (1 - FIRST_MOMENT**steps)
            network.values -= rate * first / (np.sqrt(second) + EPSILON)
        # Held out, the share of the variance that is left; an error of nothing where the samples are all alike.
        reached = network.error(x[tests], target[tests]) / max(variance, EPSILON) if held_out else loss
        since = 0 if reached < best - LEAST_GAIN else since + 1
        if reached < best:
            best = reached
            best_values[:] = network.values
        if since > PATIENCE_EPOCHS:
            break
    if held_out:
        network.values[:] = best_values
    return network


@dataclass(frozen=True)
class MultiLayerPerceptron(Tuned):
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
    USUAL: ClassVar = (64, 64)

    @classmethod
    def fit_with(cls, setting: tuple[int, ...], features: np.ndarray, latency_ms: np.ndarray, seed: int) -> MultiLayerPerceptron:
        logs = np.log1p(np.maximum(features, 0))
        mean, dispersion = logs.mean(axis=0), logs.std(axis=0)
        # Divided by almost nothing, the first other value of a feature that was constant would outweigh all others.
        deviation = np.where(dispersion > CONSTANT, dispersion, np.inf)
        target = np.log(latency_ms)
        network = _train(setting, (logs - mean) / deviation, target, seed)
        return cls(
            tuple(weight.copy() for weight in network.weights),
            tuple(bias.copy() for bias in network.biases),
            mean,
            deviation,
            float(target.min()) - 1,
            float(target.max()) + 1,
        )

    def predict(self, features: np.ndarray) -> np.ndarray:
        x = (np.log1p(np.maximum(features, 0)) - self.mean) / self.deviation
        return np.exp(np.clip(_forward(self.weights, self.biases, x)[-1][:, 0], self.low, self.high))

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
