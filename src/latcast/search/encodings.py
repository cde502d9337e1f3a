"""Latencies of encodings: a million architectures of a search space, priced without building one.

Each segment of the space is priced once, from its kernels; the latency of a network is the sum of its segments' and of the
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
        self._priced = np.zeros((0, 3))
        """(segments in context, 3): latency, the part of it that is covered, and that is outside the training range."""

    def predict_many(self, encodings: np.ndarray, *, watch: Callable[[int], None] | None = None) -> EncodedLatencies:
        """Latencies of encodings.

        Args:
            encodings: (networks, columns) indices of choices.
            watch: Called with the number of networks done, from time to time.

        Raises:
            LatcastError: The encodings are not of this space.
        """
        total = len(encodings)
        sums = np.zeros((3, total))
        done = 0
        for part in self._chunks(encodings):
            sums[:, done : done + part.shape[1]] = part
            done += part.shape[1]
            if watch is not None:
                watch(done)
        network = self.predictor.network
        whole = sums[0] + network.constant_ms
        latency_ms = network.short_network_factor(sums[0]) * whole
        priceless = whole <= 0  # a network of views alone
        whole = np.where(priceless, 1.0, whole)
        low_ms, high_ms = self.predictor.interval.bounds_ms(latency_ms, sums[2] / whole)
        covered = np.where(priceless, 1.0, (sums[1] + network.constant_ms) / whole)
        return EncodedLatencies(latency_ms, low_ms, high_ms, covered)

    def latencies_ms(self, encodings: np.ndarray) -> np.ndarray:
        """Point predictions alone, (networks,)."""
        return self.predict_many(encodings).latency_ms

    def sizes(self, encodings: np.ndarray) -> SegmentSizes:
        """Multiply-accumulates and learned values, each (networks,)."""
        return self.kernels.sizes(encodings)

    def _chunks(self, encodings: np.ndarray) -> Iterator[np.ndarray]:
        """Sums of the networks of one chunk after the other, each (3, networks of the chunk)."""
        for start in range(0, len(encodings), AT_ONCE):
            found = self.kernels.lookup(encodings[start : start + AT_ONCE])
            self._price_new()
            yield np.stack([_sum_of_places(self._priced[:, column], found) for column in range(3)])

    def _price_new(self) -> None:
        """Prices the segments that were found since the last time."""
        first = len(self._priced)
        if first == self.kernels.segments:
            return
        table = self.kernels.segment_table(first)
        priced = self.predictor.price_table(table)
        each = np.stack([priced.kernel_ms, priced.kernel_ms * priced.covered, priced.kernel_ms * priced.outside], axis=1)
        self._priced = np.concatenate([self._priced, table.sum_by_network(each)])


def _sum_of_places(values: np.ndarray, found: np.ndarray) -> np.ndarray:
    total = np.zeros(found.shape[1])
    for place in found:
        total += values[place]
    return total
