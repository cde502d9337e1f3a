"""Latency inside the caller's loop."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.errors import LatcastError
from latcast.forecast import predict
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.search.encodings import EncodingPredictor, LatencyCallback


def test_encodings_parameters_and_graphs_give_the_same(platform: PlatformPredictor) -> None:
    callback = LatencyCallback(platform, "autoformer")
    assert callback.encoded is not None
    supernet = callback.encoded.supernet
    encodings = supernet.sample_encodings(3, 0)
    by_encoding = callback(encodings)
    parameters = [supernet.decode(row) for row in encodings]
    assert callback(parameters) == pytest.approx(by_encoding)
    assert LatencyCallback(platform)([supernet.build(**each) for each in parameters]) == pytest.approx(by_encoding)


def test_a_confident_callback_gives_the_upper_bound(platform: PlatformPredictor) -> None:
    encodings = EncodingPredictor(platform, "autoformer").supernet.sample_encodings(3, 0)
    bound = LatencyCallback(platform, "autoformer", confident=True)(encodings)
    assert (bound > LatencyCallback(platform, "autoformer")(encodings)).all()


def test_one_model_gives_one_latency(platform: PlatformPredictor) -> None:
    callback = LatencyCallback(platform)

    assert callback("resnet18").shape == ()
    assert callback("resnet18") == predict("resnet18", platform).latency_ms == callback(["resnet18"])[0]


def test_excess_is_relative_and_zero_within_the_limit(platform: PlatformPredictor) -> None:
    callback = LatencyCallback(platform, "autoformer")
    encodings = EncodingPredictor(platform, "autoformer").supernet.sample_encodings(2, 0)
    latency_ms = callback(encodings)
    limit_ms = float(latency_ms[0]) / 1.5
    assert callback.excess(encodings, limit_ms)[0] == pytest.approx(0.5)
    assert callback.excess(encodings, float(latency_ms.max())).tolist() == [0, 0]


def test_encodings_without_a_space_are_refused(platform: PlatformPredictor) -> None:
    with pytest.raises(LatcastError, match="name it"):
        LatencyCallback(platform)(np.zeros((1, 3), dtype=np.int16))
