"""LitePred's perceptron: what is trained, kept and trained on elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.errors import BundleError
from latcast.predictors.regressors import kernel_mlp, regressor_from_arrays
from latcast.predictors.regressors.kernel_mlp import WIDTHS, KernelMlp

pytest.importorskip("torch", reason="the perceptron is trained with torch")


@pytest.fixture(scope="module", autouse=True)
def short_trainings() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_mlp, "MOST_STEPS", 120)
        patch.setattr(kernel_mlp, "WIDTHS", (16, 32, 32, 16, 1))
        yield


def features_and_latencies(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A latency that is a product of two sizes."""
    features = np.random.default_rng(seed).integers(1, 512, (count, 2)).astype(np.float64)
    return features, 1e-4 * features[:, 0] * features[:, 1]


@pytest.fixture(scope="module")
def trained() -> KernelMlp:
    return KernelMlp.fit(*features_and_latencies(300, 0))


def mape(found: KernelMlp, features: np.ndarray, latency_ms: np.ndarray) -> float:
    return 100 * float(np.abs(found.predict(features) / latency_ms - 1).mean())


def test_the_paper_has_sixteen_layers() -> None:
    assert (len(WIDTHS), WIDTHS[-1]) == (16, 1)


def test_it_learns_and_never_predicts_less_than_nothing(trained: KernelMlp) -> None:
    features, latency_ms = features_and_latencies(200, 1)

    constant = 100 * float(np.abs(np.exp(np.log(latency_ms).mean()) / latency_ms - 1).mean())
    assert mape(trained, features, latency_ms) < 0.3 * constant
    assert (trained.predict(1e9 * features) > 0).all()


def test_ten_samples_of_a_device_five_times_as_slow_suffice_to_go_on_from(trained: KernelMlp) -> None:
    features, latency_ms = features_and_latencies(10, 2)
    test, actual = features_and_latencies(200, 3)

    tuned = trained.fine_tuned(features, 5 * latency_ms)

    assert tuned.scale_ms == pytest.approx(5 * trained.scale_ms, rel=0.3)
    assert mape(tuned, test, 5 * actual) < 0.5 * mape(KernelMlp.fit(features, 5 * latency_ms), test, 5 * actual)


def test_a_seed_gives_the_same_weights_twice() -> None:
    features, latency_ms = features_and_latencies(40, 4)

    first, again, other = (KernelMlp.fit(features, latency_ms, seed=seed) for seed in (1, 1, 2))

    np.testing.assert_array_equal(first.predict(features), again.predict(features))
    assert (first.predict(features) != other.predict(features)).any()


def test_its_arrays_bring_it_back(trained: KernelMlp) -> None:
    features, _ = features_and_latencies(20, 5)

    again = regressor_from_arrays("kernel_mlp", trained.arrays())

    np.testing.assert_array_equal(again.predict(features), trained.predict(features))
    assert {array.dtype for name, array in trained.arrays().items() if name.startswith("weight")} == {np.dtype(np.float32)}


def test_layers_that_do_not_fit_together_are_refused(trained: KernelMlp) -> None:
    arrays = {**trained.arrays(), "weight_1": np.zeros((3, 4), dtype=np.float32)}

    with pytest.raises(BundleError, match=r"a layer of a perceptron has the shape \(3, 4\) behind 16 values"):
        regressor_from_arrays("kernel_mlp", arrays)
