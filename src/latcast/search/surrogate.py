"""A differentiable stand-in for the predictor over one search space, for searches by gradient (torch).

A small network learns the logarithm of predicted latencies from one-hot choices. Fed with probabilities instead, it gives a
latency that gradients flow through. Training data cost nothing: encodings are estimated, not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from latcast.extras import require
from latcast.search.encodings import EncodingPredictor

if TYPE_CHECKING:
    import torch

HIDDEN = 256
TEST_SHARE = 0.1


@dataclass(frozen=True)
class Surrogate:
    """A trained stand-in for the predictor.

    Attributes:
        module: From (networks, sum of the numbers of choices), one-hot or probabilities, to (networks,) milliseconds.
        choices: Number of choices of each column of an encoding.
        mape: Mean absolute percentage error against the predictor, on encodings that were not trained on.
    """

    module: torch.nn.Module
    choices: np.ndarray
    mape: float

    def one_hot(self, encodings: np.ndarray) -> torch.Tensor:
        """Return encodings as the module takes them, float32."""
        import torch

        return torch.from_numpy(_one_hot(encodings, self.choices))


def _one_hot(encodings: np.ndarray, choices: np.ndarray) -> np.ndarray:
    """Return choices as zeros and a one, (networks, sum of ``choices``), float32."""
    starts = np.cumsum(choices) - choices
    hot = np.zeros((len(encodings), int(choices.sum())), dtype=np.float32)
    hot[np.arange(len(encodings))[:, None], starts + encodings] = 1
    return hot


def fit_surrogate(predictor: EncodingPredictor, *, networks: int = 20_000, epochs: int = 30, seed: int = 0) -> Surrogate:
    """Train a surrogate on random encodings.

    Args:
        predictor: Of the platform and the space.
        networks: Encodings to learn from and to judge on.
        epochs: Passes over them.
        seed: Of encodings, weights and order.

    Raises:
        MissingExtraError: torch is not installed.
    """
    require("a differentiable surrogate", "torch")
    import torch

    supernet = predictor.supernet
    encodings = supernet.sample_encodings(networks, seed)
    logs = np.log(predictor.latencies_ms(encodings))
    held_out = max(1, int(TEST_SHARE * networks))
    centre, deviation = float(logs[held_out:].mean()), float(logs[held_out:].std()) or 1.0

    class LogLatency(torch.nn.Module):  # type: ignore[misc,unused-ignore]
        """Two hidden layers; the output is the exponential of a standardised logarithm."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(
                torch.nn.Linear(int(supernet.choices.sum()), HIDDEN), torch.nn.SiLU(),
                torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.SiLU(), torch.nn.Linear(HIDDEN, 1),
            )  # fmt: skip

        def forward(self, choices: torch.Tensor) -> torch.Tensor:
            return torch.exp(self.layers(choices)[:, 0] * deviation + centre)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = LogLatency()
        inputs = torch.from_numpy(_one_hot(encodings, supernet.choices))
        targets = torch.from_numpy(np.exp(logs).astype(np.float32))
        optimiser = torch.optim.Adam(module.parameters(), lr=2e-3)
        batches = max(1, (networks - held_out) // 256)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=epochs * batches)
        for _ in range(epochs):
            order = held_out + torch.randperm(networks - held_out)
            for batch in order.tensor_split(batches):
                optimiser.zero_grad()
                error = torch.log(module(inputs[batch]) / targets[batch]).square().mean()
                error.backward()
                optimiser.step()
                schedule.step()
    module.eval()
    with torch.no_grad():
        found = module(inputs[:held_out]).numpy()
    mape = 100 * float(np.abs(found / np.exp(logs[:held_out]) - 1).mean())
    return Surrogate(module, supernet.choices, mape)
