"""A multi-layer perceptron on the squared percentage error (Li et al. §4.2), trained by Adam, kept as arrays.

Its layers, with rectifiers between them, and their gradient are numpy's: importing a framework would cost more time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from latcast.predictors.regressors import Arrays
from papers.tuning import Tuned

FIRST_MOMENT, SECOND_MOMENT, EPSILON = 0.9, 0.999, 1e-8

ALONE = 262_144
"""Multiply-accumulates of a product that OpenBLAS computes on the calling thread, whatever the layout of its factors."""


def product(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return the product of (rows, inner) and (inner, columns), in portions of rows that are computed on the calling thread.

    OpenBLAS hands larger products to its other threads, which is far slower on a machine whose cores are busy.
    """
    rows = ALONE // b.size
    if not rows or rows >= len(a):
        return np.matmul(a, b, out=out)
    found = np.empty((len(a), b.shape[1]), dtype=np.result_type(a, b)) if out is None else out
    for start in range(0, len(a), rows):
        np.matmul(a[start : start + rows], b, out=found[start : start + rows])
    return found


def forward(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray], x: np.ndarray) -> list[np.ndarray]:
    """Return the input and the output of each layer, (samples, width) each; a rectifier follows all but the last."""
    outputs = [x]
    for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        linear = product(outputs[-1], weight) + bias
        outputs.append(np.maximum(linear, 0) if place < len(weights) - 1 else linear)
    return outputs


class Layers:
    """Layers whose weights and biases are views of one vector, so that the optimiser takes one step for all of them.

    Args:
        sizes: Widths of the input and of each layer's output.
        parameters, gradient: (parameters,) of all layers; the passes read the former and write the latter.
    """

    def __init__(self, sizes: Sequence[int], parameters: np.ndarray, gradient: np.ndarray) -> None:
        self.weights, self.biases = _split(parameters, sizes)
        self.weight_gradients, self.bias_gradients = _split(gradient, sizes)
        self._outputs: list[np.ndarray] = []

    @staticmethod
    def count(sizes: Sequence[int]) -> int:
        """Return the number of parameters."""
        return sum((before + 1) * after for before, after in pairwise(sizes))

    def start(self, rng: np.random.Generator, reach: Callable[[np.ndarray], float]) -> None:
        """Draw parameters evenly between plus and minus ``reach(weights)`` of each layer."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            limit = reach(weight)
            weight[:] = rng.uniform(-limit, limit, weight.shape)
            bias[:] = rng.uniform(-limit, limit, bias.shape)

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Map (batch, inputs) to (batch, outputs)."""
        self._outputs = forward(self.weights, self.biases, x)
        return self._outputs[-1]

    def backward(self, change: np.ndarray) -> np.ndarray:
        """Map derivatives of the loss by the last outputs, (batch, outputs), to those by the inputs; keep those by parameters."""
        for place in reversed(range(len(self.weights))):
            x = self._outputs[place]
            product(x.T, change, out=self.weight_gradients[place])
            np.sum(change, axis=0, out=self.bias_gradients[place])
            change = product(change, self.weights[place].T)
            if place:
                change *= x > 0
        return change


def _split(vector: np.ndarray, sizes: Sequence[int]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    weights, biases, start = [], [], 0
    for before, after in pairwise(sizes):
        middle = start + before * after
        weights.append(vector[start:middle].reshape(before, after))
        biases.append(vector[middle : middle + after])
        start = middle + after
    return weights, biases


class Adam:
    """Adam (Kingma and Ba, ICLR 2015, Algorithm 1) on a vector of parameters and that of their gradient."""

    def __init__(self, parameters: np.ndarray, gradient: np.ndarray) -> None:
        self._parameters, self._gradient = parameters, gradient
        self._first, self._second = np.zeros_like(parameters), np.zeros_like(parameters)
        self._steps = 0

    def step(self, rate: float) -> None:
        """Change the parameters by one step at a learning rate."""
        self._steps += 1
        self._first += (1 - FIRST_MOMENT) * (self._gradient - self._first)
        self._second += (1 - SECOND_MOMENT) * (self._gradient**2 - self._second)
        unbiased = rate * np.sqrt(1 - SECOND_MOMENT**self._steps) / (1 - FIRST_MOMENT**self._steps)
        self._parameters -= self._parameters.dtype.type(unbiased) * self._first / (np.sqrt(self._second) + EPSILON)


CONSTANT = 1e-6
"""Standard deviation of a log feature below which it tells samples apart by rounding alone."""

MOST_EPOCHS, PATIENCE_EPOCHS, LEAST_GAIN = 300, 20, 1e-4
BATCH_SAMPLES = 200
WEIGHT_DECAY = 1e-3
LEARNING_RATE = 5e-3
FEWEST_TO_HOLD_OUT, HELD_OUT_SHARE = 50, 0.2
"""From so many samples on, so large a share is held out, to stop when it gets no better."""


class _Network(Layers):
    """Layers that read features and give one number."""

    def __init__(self, sizes: Sequence[int], rng: np.random.Generator) -> None:
        self.values, self.gradient = np.zeros((2, Layers.count(sizes)))
        super().__init__(sizes, self.values, self.gradient)
        # Glorot and Bengio, AISTATS 2010, eq. 16.
        self.start(rng, lambda weight: (6 / sum(weight.shape)) ** 0.5)

    def error(self, x: np.ndarray, target: np.ndarray) -> float:
        """Return the mean squared error."""
        return float(np.mean((forward(self.weights, self.biases, x)[-1][:, 0] - target) ** 2))

    def differentiate(self, x: np.ndarray, target: np.ndarray) -> float:
        """Set the gradient of half the mean squared error with weight decay; return that loss."""
        delta = self.forward(x) - target[:, None]
        self.backward(delta)
        loss = float(np.mean(delta**2))
        for weight, gradient in zip(reversed(self.weights), reversed(self.weight_gradients), strict=True):
            loss += WEIGHT_DECAY * float(np.vdot(weight, weight)) / len(x)
            gradient += WEIGHT_DECAY * weight
        self.gradient /= len(x)
        return loss / 2


def _train(hidden: Sequence[int], x: np.ndarray, target: np.ndarray, seed: int) -> _Network:
    """Train by Adam on (samples, features) and (samples,), until nothing has been gained for
    ``PATIENCE_EPOCHS``: on held-out samples, whose best state is kept, or on the training loss where there are few samples."""
    rng = np.random.default_rng(seed)
    network = _Network((x.shape[1], *hidden, 1), rng)
    order, held_out = rng.permutation(len(x)), 0
    if len(x) >= FEWEST_TO_HOLD_OUT:
        held_out = int(np.ceil(HELD_OUT_SHARE * len(x)))
    tests, rows = order[:held_out], order[held_out:]
    variance = float(target[tests].var()) if held_out else 1.0
    adam = Adam(network.values, network.gradient)
    best, best_values, since = np.inf, network.values.copy(), 0
    for _ in range(MOST_EPOCHS):
        rng.shuffle(rows)
        loss = 0.0
        for start in range(0, len(rows), BATCH_SAMPLES):
            batch = rows[start : start + BATCH_SAMPLES]
            loss += network.differentiate(x[batch], target[batch]) * len(batch) / len(rows)
            adam.step(LEARNING_RATE)
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
        return np.exp(np.clip(forward(self.weights, self.biases, x)[-1][:, 0], self.low, self.high))

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
