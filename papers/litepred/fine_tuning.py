"""LitePred's own transfer (Feng et al., NSDI 2024, §4.3 and §5): of perceptrons of the known phones, the one whose latencies have
the most similar distribution is fine-tuned on the new phone, by kind of block.

As published are 16 layers, the loss (mean absolute percentage error), the similarity and that all weights are tuned. Reduced is
the width, to 64; a level comes first, the median ratio of the measured blocks, without which few of them err more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from papers.perceptron import Adam, Layers, forward

if TYPE_CHECKING:
    from papers.litepred.blocks import Blocks

LAYERS, WIDTH = 16, 64

EPOCHS, TUNING_EPOCHS = 60, 150
"""Passes over a known phone's blocks and over those measured on the new one; chosen with Xiaomi 11 as the new phone."""

BATCH, TUNING_BATCH = 128, 32
RATE = 1e-3
FEWEST_TO_COMPARE = 2


class _Perceptron(Layers):
    """Layers from features to the logarithm of a latency, in single precision."""

    def __init__(self, inputs: int, seed: int) -> None:
        sizes = (inputs, *[WIDTH] * (LAYERS - 1), 1)
        self.values, self._gradient = np.zeros((2, Layers.count(sizes)), dtype=np.float32)
        super().__init__(sizes, self.values, self._gradient)
        # He et al., ICCV 2015, eq. 10.
        self.start(np.random.default_rng(seed), lambda weight: (6 / weight.shape[0]) ** 0.5)
        for bias in self.biases:
            bias[:] = 0

    def fit(self, x: np.ndarray, log_ms: np.ndarray, epochs: int, batch: int, seed: int) -> None:
        """Minimise the mean absolute percentage error by Adam, at a rate that falls to 0 as a cosine does."""
        rng, adam = np.random.default_rng(seed), Adam(self.values, self._gradient)
        steps, done = epochs * -(-len(x) // batch), 0
        for _ in range(epochs):
            order = rng.permutation(len(x))
            for start in range(0, len(x), batch):
                rows = order[start : start + batch]
                ratio = np.exp(np.clip(self.forward(x[rows])[:, 0] - log_ms[rows], -5, 3))
                self.backward((np.sign(ratio - 1) * ratio / len(rows)).astype(np.float32)[:, None])
                done += 1
                adam.step(RATE * (1 + np.cos(np.pi * done / steps)) / 2)

    def log_ms(self, x: np.ndarray) -> np.ndarray:
        """Return logarithms of latencies, (blocks,)."""
        return np.asarray(forward(self.weights, self.biases, x)[-1][:, 0], dtype=float)


@dataclass(frozen=True)
class FineTuned:
    """Perceptrons of the known phones.

    Attributes:
        rows: By kind of block, the indices of its blocks.
        inputs: By kind, (blocks of the kind, features) of mean 0 and deviation 1.
        weights: By kind and phone, the parameters.
        log_ms: By kind and phone, (blocks of the kind,) what they give.
    """

    rows: tuple[np.ndarray, ...]
    inputs: tuple[np.ndarray, ...]
    weights: tuple[tuple[np.ndarray, ...], ...]
    log_ms: tuple[tuple[np.ndarray, ...], ...]

    @classmethod
    def of(cls, blocks: Blocks) -> FineTuned:
        """Train a perceptron for each kind of block on each known phone."""
        rows = tuple(np.flatnonzero(blocks.kinds == kind) for kind in range(blocks.kinds.max() + 1))
        inputs = tuple(_standardised(blocks.features[own]) for own in rows)
        weights, log_ms = [], []
        for own, x in zip(rows, inputs, strict=True):
            fitted = []
            for phone, latency_ms in enumerate(blocks.sources_ms[own].T):
                fitted.append(_Perceptron(x.shape[1], phone))
                fitted[-1].biases[-1][:] = np.log(latency_ms).mean()
                fitted[-1].fit(x, np.log(latency_ms), EPOCHS, BATCH, phone)
            weights.append(tuple(each.values for each in fitted))
            log_ms.append(tuple(each.log_ms(x) for each in fitted))
        return cls(rows, inputs, tuple(weights), tuple(log_ms))

    def __call__(self, blocks: Blocks, train: np.ndarray, *, seed: int = 0) -> np.ndarray:
        """Return latency of all blocks on the new phone, (blocks,), from some that were measured there.

        Args:
            train: Indices of those whose latency may be looked at.
        """
        levels = np.median(np.log(blocks.latency_ms[train, None] / blocks.sources_ms[train]), axis=0)
        found = np.zeros(len(blocks.latency_ms))
        for own, x, weights, log_ms in zip(self.rows, self.inputs, self.weights, self.log_ms, strict=True):
            measured = np.flatnonzero(np.isin(own, train))
            target = np.log(blocks.latency_ms[own[measured]])
            distances = [divergence(each[measured], target) for each in log_ms]
            phone = int(np.argmin(distances)) if len(measured) >= FEWEST_TO_COMPARE else 0
            tuned = _Perceptron(x.shape[1], seed)
            tuned.values[:] = weights[phone]
            tuned.biases[-1][:] += levels[phone]
            if len(measured):
                tuned.fit(x[measured], target, TUNING_EPOCHS, TUNING_BATCH, seed)
            found[own] = np.exp(tuned.log_ms(x))
        return found


def divergence(predicted_log_ms: np.ndarray, measured_log_ms: np.ndarray) -> float:
    """Return the Kullback-Leibler divergence of predicted latencies from measured ones, each (blocks,) divided by its sum (§5.1).

    >>> round(divergence(np.log([1.0, 1.0]), np.log([1.0, 3.0])), 4)
    0.1438
    >>> round(divergence(np.log([1.0, 3.0]), np.log([2.0, 6.0])), 4)
    0.0
    """
    predicted, measured = np.exp(predicted_log_ms), np.exp(measured_log_ms)
    predicted, measured = predicted / predicted.sum(), measured / measured.sum()
    return float((predicted * np.log(predicted / measured)).sum())


def _standardised(features: np.ndarray) -> np.ndarray:
    """Return logarithms of a block's numbers, and its words one-hot, (blocks, features) of mean 0 and deviation 1."""
    words = [features == code for code in np.unique(features[features < 0])]
    x = np.hstack([np.log1p(np.maximum(features, 0)), *words])
    varied = x.std(axis=0) > 1e-6
    x = x[:, varied]
    return np.asarray((x - x.mean(axis=0)) / x.std(axis=0), dtype=np.float32)
