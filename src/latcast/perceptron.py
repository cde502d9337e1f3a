"""Dense layers with rectifiers between them, their gradient, and Adam, in numpy: importing a framework would cost more time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

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
