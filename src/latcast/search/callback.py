"""Predicted latency inside the caller's search or pruning loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import numpy as np

from latcast.errors import LatcastError
from latcast.forecast import On, load, predict_many
from latcast.networks import Model, is_one_model
from latcast.search.encodings import EncodingPredictor
from latcast.spaces.nas.supernet import SUPERNETS, Supernet


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
