"""Latency inside the caller's loop."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.errors import LatcastError
from latcast.forecast import predict
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.search.callback import LatencyCallback
from latcast.search.encodings import EncodingPredictor
from latcast.search.surrogate import Surrogate, fit_surrogate


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


def test_choices_become_zeros_and_a_one() -> None:
    torch = pytest.importorskip("torch")
    surrogate = Surrogate(torch.nn.Identity(), np.array([2, 3]), 0.0)

    assert surrogate.one_hot(np.array([[1, 0], [0, 2]])).tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]


def test_a_surrogate_is_close_and_its_gradients_point_to_slow_choices(transformers: EncodingPredictor) -> None:
    torch = pytest.importorskip("torch")
    surrogate = fit_surrogate(transformers, networks=1500, epochs=8)
    assert surrogate.mape < 3
    probabilities = torch.full((1, int(surrogate.choices.sum())), 0.5, requires_grad=True)
    surrogate.module(probabilities).sum().backward()
    widths = probabilities.grad[0, :3]  # 192, 216 and 240 channels
    assert widths[2] > widths[1] > widths[0]


class SlowAtFirst(EncodingPredictor):
    """The first networks that it is asked for take so many times as long, which no encoding tells."""

    slow, times = 30, 1.0

    def latencies_ms(self, encodings: np.ndarray) -> np.ndarray:
        return super().latencies_ms(encodings) * np.where(np.arange(len(encodings)) < self.slow, self.times, 1.0)


def test_a_surrogate_is_judged_on_networks_that_it_has_not_learned_from(platform: PlatformPredictor) -> None:
    """Of 300 networks the first 30 are judged on. With five times their latency the surrogate is the same, and 80 % off."""
    torch = pytest.importorskip("torch")
    usual, slow = SlowAtFirst(platform, "autoformer"), SlowAtFirst(platform, "autoformer")
    slow.times = 5.0

    found, again = (fit_surrogate(each, networks=300, epochs=8) for each in (usual, slow))

    with torch.no_grad():
        inputs = found.one_hot(usual.supernet.sample_encodings(50, 1))
        assert torch.equal(found.module(inputs), again.module(inputs))
    assert again.mape == pytest.approx(80, abs=found.mape)


def test_modules_are_candidates_with_their_inputs(platform: PlatformPredictor) -> None:
    torch = pytest.importorskip("torch")
    narrow, wide = (torch.nn.Sequential(torch.nn.Conv2d(3, width, 3), torch.nn.ReLU()) for width in (8, 64))
    callback = LatencyCallback(platform, example_inputs=torch.zeros(1, 3, 64, 64))

    latencies_ms = callback([narrow, wide])

    assert latencies_ms.tolist() == [
        predict(module, platform, example_inputs=torch.zeros(1, 3, 64, 64)).latency_ms for module in (narrow, wide)
    ]
    assert latencies_ms[0] < latencies_ms[1]
    assert callback(narrow) == latencies_ms[0]
    assert callback.excess(narrow, float(latencies_ms[0]) / 2) == pytest.approx(1)
    with pytest.raises(LatcastError, match="needs the inputs to predict for"):
        LatencyCallback(platform)([narrow])
