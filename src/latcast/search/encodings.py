"""Latencies of encodings: a million architectures of a search space, estimated without building one.

Each segment of the space is estimated once, from its kernels; the latency of a network is the sum of its segments' and of the
platform's constant overhead, corrected for what short networks save. The result is that of predicting each graph by itself, up
to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.spaces.nas.member_kernels import kernels_of
from latcast.spaces.nas.segment_kernels import SegmentSizes
from latcast.spaces.nas.supernet import AT_ONCE, SUPERNETS, Supernet


@dataclass(frozen=True)
class EncodedLatencies:
    """Predictions for encodings, each (networks,).

    Attributes:
        latency_ms: Point prediction.
        low_ms, high_ms: The 90 % interval.
        covered_share: Part of the latency, 0 to 1, that a trained predictor gave.
    """

    latency_ms: np.ndarray
    low_ms: np.ndarray
    high_ms: np.ndarray
    covered_share: np.ndarray


class EncodingPredictor:
    """Predicts a platform's latency of the networks of one search space from their encodings.

    Attributes:
        predictor: Of the platform.
        supernet: The space.
        kernels: The known kernels of the space; grows with each query.
    """

    def __init__(self, predictor: PlatformPredictor, supernet: Supernet | str) -> None:
        self.predictor = predictor
        self.supernet = SUPERNETS.get(supernet) if isinstance(supernet, str) else supernet
        self.kernels = kernels_of(self.supernet, predictor.rules)
        self._sums_ms = np.zeros((0, predictor.sum_columns))
        """(segments in context, columns): see :class:`latcast.predictors.platform_predictor.Estimates`."""

    def predict_many(self, encodings: np.ndarray, *, watch: Callable[[int], None] | None = None) -> EncodedLatencies:
        """Predict the latencies of encodings.

        Args:
            encodings: (networks, columns) indices of choices.
            watch: Called with the number of networks done, from time to time.

        Raises:
            LatcastError: The encodings are not of this space.
        """
        sums = np.zeros((self.predictor.sum_columns, len(encodings)))
        for start in range(0, len(encodings), AT_ONCE):
            chunk = encodings[start : start + AT_ONCE]
            places = self.kernels.lookup(chunk)  # (segments, networks)
            first = len(self._sums_ms)
            if first < self.kernels.segments:
                estimates = self.predictor.estimate_table(self.kernels.segment_table(first))
                self._sums_ms = np.concatenate([self._sums_ms, estimates.sums_ms])
            for column, values in enumerate(self._sums_ms.T):
                for place in places:
                    sums[column, start : start + len(chunk)] += values[place]
            if watch is not None:
                watch(start + len(chunk))
        found = self.predictor.network_estimates(sums.T)
        low_ms, high_ms = self.predictor.bounds_ms(found)
        return EncodedLatencies(found.latency_ms, low_ms, high_ms, found.covered_share)

    def latencies_ms(self, encodings: np.ndarray) -> np.ndarray:
        """Return the point predictions alone, (networks,)."""
        return self.predict_many(encodings).latency_ms

    def sizes(self, encodings: np.ndarray) -> SegmentSizes:
        """Return multiply-accumulates and learned values, each (networks,)."""
        return self.kernels.sizes(encodings)
