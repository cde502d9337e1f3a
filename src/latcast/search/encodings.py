"""Latencies of encodings: a million architectures of a search space, estimated without building one.

Each segment of the space is estimated once, from its kernels; the latency of a network is the sum of its segments' and of the
platform's constant overhead, times the factor of short networks. The result is that of predicting each graph by itself, up to
rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.spaces.nas.member_kernels import SpaceKernels, kernels_of
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
        kernels: What is known of the space's kernels; grows with what is asked for.
    """

    def __init__(self, predictor: PlatformPredictor, supernet: Supernet | str, kernels: SpaceKernels | None = None) -> None:
        self.predictor = predictor
        self.supernet = SUPERNETS.get(supernet) if isinstance(supernet, str) else supernet
        self.kernels = kernels if kernels is not None else kernels_of(self.supernet, predictor.rules)
        self._sums_ms = np.zeros((0, predictor.sum_columns))
        """(segments in context, columns): see :class:`latcast.predictors.platform_predictor.Estimates`."""

    def predict_many(self, encodings: np.ndarray, *, watch: Callable[[int], None] | None = None) -> EncodedLatencies:
        """Latencies of encodings.

        Args:
            encodings: (networks, columns) indices of choices.
            watch: Called with the number of networks done, from time to time.

        Raises:
            LatcastError: The encodings are not of this space.
        """
        total = len(encodings)
        sums = np.zeros((self.predictor.sum_columns, total))
        done = 0
        for part in self._chunks(encodings):
            sums[:, done : done + part.shape[1]] = part
            done += part.shape[1]
            if watch is not None:
                watch(done)
        found = self.predictor.network_estimates(sums.T)
        low_ms, high_ms = self.predictor.bounds_ms(found)
        return EncodedLatencies(found.latency_ms, low_ms, high_ms, found.covered_share)

    def latencies_ms(self, encodings: np.ndarray) -> np.ndarray:
        """Point predictions alone, (networks,)."""
        return self.predict_many(encodings).latency_ms

    def sizes(self, encodings: np.ndarray) -> SegmentSizes:
        """Multiply-accumulates and learned values, each (networks,)."""
        return self.kernels.sizes(encodings)

    def _chunks(self, encodings: np.ndarray) -> Iterator[np.ndarray]:
        """Sums of the networks of one chunk after the other, each (columns, networks of the chunk)."""
        for start in range(0, len(encodings), AT_ONCE):
            found = self.kernels.lookup(encodings[start : start + AT_ONCE])
            self._estimate_new()
            yield np.stack([_sum_of_places(self._sums_ms[:, column], found) for column in range(self.predictor.sum_columns)])

    def _estimate_new(self) -> None:
        """Estimates the segments that were found since the last time."""
        first = len(self._sums_ms)
        if first < self.kernels.segments:
            estimates = self.predictor.estimate_table(self.kernels.segment_table(first))
            self._sums_ms = np.concatenate([self._sums_ms, estimates.sums_ms])


def _sum_of_places(values: np.ndarray, found: np.ndarray) -> np.ndarray:
    total = np.zeros(found.shape[1])
    for place in found:
        total += values[place]
    return total
