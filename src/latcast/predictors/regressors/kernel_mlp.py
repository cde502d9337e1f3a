"""LitePred's latency model of a kernel type: a perceptron of 16 layers, trained on the percentage error, fine-tuned on another
platform (§4.3, §5.2).

Trained by torch, kept as arrays and evaluated by numpy. Widths are those of the released code (0.49 million parameters; the
paper says about a million), which feeds in raw features. Here they are standardised logarithms, and what is learned is the
logarithm of a factor on the geometric mean latency: on raw features a sixteen-layer network without normalisation seldom
leaves its starting point with the few hundred samples of a kernel type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from latcast.errors import BundleError, MissingExtraError
from latcast.predictors.regressors.regressor import Arrays

WIDTHS = (16, 32, 64, 128, 128, 256, 256, 256, 256, 256, 256, 256, 128, 64, 16, 1)
"""Outputs of each layer."""

EPOCHS, LEARNING_RATE = 350, 1e-3
FINE_TUNING_EPOCHS, FINE_TUNING_RATE = 300, 5e-4
"""LitePred §6: AdamW with a cosine schedule."""

BATCH = 32

MOST_STEPS = 6_000
"""Gradient steps of one training, for which epochs are cut: about half a minute of one core. Its 10,000 samples would take
109,000 steps."""

LOG_RANGE = 8.0
"""No prediction is further than this from the mean latency of training, in logarithms."""


@dataclass(frozen=True)
class KernelMlp:
    """ReLU layers from standardised log features to the logarithm of a factor on ``scale_ms``.

    Attributes:
        weights: (inputs, outputs) of each layer, float32.
        biases: (outputs,) of each layer, float32.
        mean, deviation: (features,) of the features' logarithms on the platform that was first trained on.
        scale_ms: Geometric mean latency of the samples.
    """

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    mean: np.ndarray
    deviation: np.ndarray
    scale_ms: float
    kind: ClassVar[str] = "kernel_mlp"

    @classmethod
    def fit(cls, features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0, tune: bool = True) -> KernelMlp:
        """Trains from scratch; there is nothing to tune, the paper's settings stand.

        Raises:
            MissingExtraError: torch is not installed.
        """
        logs = np.log1p(np.maximum(features, 0))
        scale_ms = float(np.exp(np.log(latency_ms).mean()))
        start = cls((), (), logs.mean(axis=0), logs.std(axis=0) + 1e-3, scale_ms)
        return start._trained(features, latency_ms, EPOCHS, LEARNING_RATE, seed)

    def fine_tuned(self, features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0) -> KernelMlp:
        """Goes on from these weights with the samples of another platform (§5.2).

        The level is set to the new platform's first, so that a phone that is three times slower is no error to be learned.

        Args:
            features: (samples, features), the same ones in the same order.
            latency_ms: (samples,).
            seed: Of the order of the samples.

        Raises:
            MissingExtraError: torch is not installed.
        """
        factor = float(np.exp(np.median(np.log(latency_ms / self.predict(features)))))
        moved = replace(self, scale_ms=self.scale_ms * factor)
        return moved._trained(features, latency_ms, FINE_TUNING_EPOCHS, FINE_TUNING_RATE, seed)

    def predict(self, features: np.ndarray) -> np.ndarray:
        x = self._inputs(features)
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = x @ weight + bias
            if index < len(self.weights) - 1:
                x = np.maximum(x, 0)
        return self.scale_ms * np.exp(np.clip(x[:, 0].astype(np.float64), -LOG_RANGE, LOG_RANGE))

    def arrays(self) -> Arrays:
        layers = {f"weight_{index}": weight for index, weight in enumerate(self.weights)}
        layers |= {f"bias_{index}": bias for index, bias in enumerate(self.biases)}
        return {**layers, "mean": self.mean, "deviation": self.deviation, "scale_ms": np.array([self.scale_ms])}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> KernelMlp:
        count = sum(1 for name in arrays if name.startswith("weight_"))
        weights = tuple(np.asarray(arrays[f"weight_{index}"], dtype=np.float32) for index in range(count))
        biases = tuple(np.asarray(arrays[f"bias_{index}"], dtype=np.float32) for index in range(count))
        inputs = len(arrays["mean"])
        for weight, bias in zip(weights, biases, strict=True):
            if weight.ndim != 2 or weight.shape[0] != inputs or bias.shape != weight.shape[1:]:
                raise BundleError(f"a layer of a perceptron has the shape {weight.shape} behind {inputs} values; it is damaged")
            inputs = weight.shape[1]
        return cls(weights, biases, arrays["mean"], arrays["deviation"], float(arrays["scale_ms"][0]))

    def _inputs(self, features: np.ndarray) -> np.ndarray:
        return np.asarray((np.log1p(np.maximum(features, 0)) - self.mean) / self.deviation, dtype=np.float32)

    def _trained(self, features: np.ndarray, latency_ms: np.ndarray, epochs: int, rate: float, seed: int) -> KernelMlp:
        torch = _torch()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = self._module(torch, features.shape[1])
            inputs = torch.from_numpy(self._inputs(features))
            target = torch.from_numpy(np.asarray(latency_ms / self.scale_ms, dtype=np.float32))
            steps = min(epochs * -(-len(target) // BATCH), MOST_STEPS)
            optimiser = torch.optim.AdamW(module.parameters(), lr=rate)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
            order = torch.randperm(len(target))
            place = 0
            for _ in range(steps):
                if place >= len(order):
                    order, place = torch.randperm(len(target)), 0
                batch = order[place : place + BATCH]
                place += BATCH
                predicted = torch.exp(torch.clamp(module(inputs[batch])[:, 0], -LOG_RANGE, LOG_RANGE))
                optimiser.zero_grad()
                loss = (predicted / target[batch] - 1).abs().mean()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
                optimiser.step()
                schedule.step()
            linear = [layer for layer in module if isinstance(layer, torch.nn.Linear)]
            weights = tuple(np.ascontiguousarray(layer.weight.detach().numpy().T) for layer in linear)
            biases = tuple(layer.bias.detach().numpy().copy() for layer in linear)
        return replace(self, weights=weights, biases=biases)

    def _module(self, torch: Any, inputs: int) -> Any:
        """The layers as torch has them, with the present weights where there are any."""
        sizes = [inputs, *WIDTHS]
        layers: list[Any] = []
        for index, (before, after) in enumerate(pairwise(sizes)):
            layer = torch.nn.Linear(before, after)
            if self.weights:
                layer.weight.data = torch.from_numpy(self.weights[index].T.copy())
                layer.bias.data = torch.from_numpy(self.biases[index].copy())
            else:
                torch.nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                torch.nn.init.zeros_(layer.bias)
            layers.append(layer)
            if index < len(sizes) - 2:
                layers.append(torch.nn.ReLU())
        return torch.nn.Sequential(*layers)


def _torch() -> Any:
    try:
        import torch
    except ImportError as problem:
        raise MissingExtraError("torch", "torch", "training LitePred's perceptron") from problem
    return torch
