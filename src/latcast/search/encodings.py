"""Latencies of encodings: a million architectures of a search space, estimated without building one; and in a caller's own loop.

Each segment of the space is estimated once, from its kernels; the latency of a network is the sum of its segments' and of the
platform's constant overhead, corrected for what short networks save. The result is that of predicting each graph by itself, up
to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from latcast.errors import LatcastError
from latcast.forecast import predict_many
from latcast.networks import Model, is_one_model
from latcast.platforms import On, load
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


class LatencyCallback:
    """A function of candidates to their latencies on a platform: encodings, JSON parameters, or models.

    Example:
        >>> import latcast
        >>> latency_ms = latcast.LatencyCallback("pixel4/tflite-2.10/gpu/fp16")
        >>> latency_ms(["resnet18", "resnet34"]).shape
        (2,)
        >>> (latency_ms.excess(["resnet18", "resnet34"], max_latency_ms=30.0) > 0).tolist()
        [False, True]

    Args:
        on: A platform id, a bundle's path, or a loaded predictor.
        space: The search space of encodings and parameters; candidates are models where None (files, graphs, PyTorch modules
            as ``latcast.predict`` takes them: the network after each step of pruning).
        confident: Whether to give the upper bound of the 90 % interval instead of the prediction.
        example_inputs: The inputs of candidates that are PyTorch modules, see :func:`latcast.from_torch`; all candidates are
            modules then.
    """

    def __init__(
        self, on: On, space: str | Supernet | None = None, *, confident: bool = False, example_inputs: object = None
    ) -> None:
        self.predictor = load(on)
        self.confident = confident
        self.example_inputs = example_inputs
        supernet = SUPERNETS.get(space) if isinstance(space, str) else space
        self.encoded = None if supernet is None else EncodingPredictor(self.predictor, supernet)

    def __call__(self, candidates: object) -> np.ndarray:
        """Return milliseconds, (candidates,); a scalar where one model stands in place of a list.

        Args:
            candidates: Encodings, (networks, columns); or a list of JSON parameters; or a list of models, or one of them.

        Raises:
            LatcastError: Encodings or parameters without a space, or of another one; or a model that cannot be read.
        """
        listed = list(candidates) if isinstance(candidates, list | tuple) else None
        parameters = [each for each in listed or () if isinstance(each, Mapping)]
        if isinstance(candidates, np.ndarray) or (listed is not None and len(parameters) == len(listed)):
            if self.encoded is None:
                raise LatcastError("encodings or parameters without a search space; name it: LatencyCallback(platform, space)")
            rows = (
                candidates if isinstance(candidates, np.ndarray) else [self.encoded.supernet.encode(each) for each in parameters]
            )
            if not len(rows):
                return np.zeros(0)
            found = self.encoded.predict_many(np.asarray(rows))
            return found.high_ms if self.confident else found.latency_ms
        if is_one_model(candidates):
            return np.asarray(self([candidates])[0])
        models = listed if listed is not None else cast("Iterable[Model]", candidates)
        predictions = predict_many(models, self.predictor, example_inputs=self.example_inputs)
        return np.array([each.high_ms if self.confident else each.latency_ms for each in predictions])

    def excess(self, candidates: object, max_latency_ms: float) -> np.ndarray:
        """Return how far candidates are beyond a limit, relative to it, (candidates,); 0 within it: a penalty for a loss."""
        return np.maximum(self(candidates) / max_latency_ms - 1, 0)
