"""What the repository needs of a cross-device model, whichever it is.

Such a model learns from the latencies of many networks on many platforms, and predicts a platform that it has never seen
from a few of its latencies (Ganesan et al., §III: the signature set).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from latcast.records import Reference


@dataclass(frozen=True)
class Observation:
    """The latency that stands for a network on a platform: the median over its measurements."""

    platform: str
    reference: Reference
    latency_ms: float


@dataclass(frozen=True)
class Forecast:
    """A latency with its 90 % interval, in milliseconds."""

    latency_ms: float
    low_ms: float
    high_ms: float


class CrossDeviceModel(Protocol):
    """A fitted model."""

    name: str

    @property
    def screen(self) -> CrossDeviceModel:
        """A quick and robust model of the same latencies, by which outliers are told; itself where it is one."""

    def predict(self, networks: Sequence[Reference], measured: Mapping[str, float]) -> dict[str, Forecast]:
        """Latencies of networks on one platform.

        Args:
            networks: What to predict.
            measured: Latencies (ms) known of that platform, by reference key.

        Returns:
            Forecasts by reference key; a network that the model cannot predict is missing, never guessed.
        """

    def to_json(self) -> dict[str, Any]:
        """The model as JSON values, from which its fitter's ``load`` makes it again."""


class Fitter(Protocol):
    """A way to fit such a model."""

    name: str
    min_platforms: int
    """Platforms below which it is not worth trying."""

    def fit(self, observations: Sequence[Observation]) -> CrossDeviceModel:
        """The model of these latencies.

        Raises:
            TrainingError: It cannot be fitted to them.
        """

    def load(self, content: Mapping[str, Any]) -> CrossDeviceModel:
        """What :meth:`CrossDeviceModel.to_json` wrote."""
