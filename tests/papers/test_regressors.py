"""Regressors of the papers: duties of each, and promises of single ones."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from latcast.testing.contracts import RegressorContract
from papers.perceptron import ALONE, MultiLayerPerceptron, _Network, product
from papers.regressors import Lasso, RandomForest, nonnegative_lasso
from papers.tuning import choose_setting, fit_regressor, folds, squared_percentage_error
from tests.known_function import TEST, TRAIN

KINDS = ["gbdt", "lasso", "mlp", "random_forest"]


@pytest.mark.parametrize("regressor_name", KINDS)
class TestContract(RegressorContract):
    @pytest.fixture(autouse=True)
    def named(self, regressor_name: str) -> None:
        self.regressor_name = regressor_name  # type: ignore[misc]


@pytest.mark.parametrize("kind", KINDS)
def test_a_feature_constant_in_training_is_ignored(kind: str) -> None:
    regressor = fit_regressor(kind, *TRAIN, seed=3, tune=False)
    assert set(TRAIN[0][:, 4]) == {1.0}
    other = TEST[0].copy()
    other[:, 4] = 8.0

    np.testing.assert_array_equal(regressor.predict(other), regressor.predict(TEST[0]))


@pytest.mark.parametrize("kind", ["gbdt", "lasso", pytest.param("mlp", marks=pytest.mark.slow), "random_forest"])
def test_hyper_parameters_are_chosen_on_request(kind: str) -> None:
    features, latency_ms = TRAIN
    tuned = fit_regressor(kind, features[:90], latency_ms[:90], seed=3, tune=True)

    error = squared_percentage_error(tuned.predict(TEST[0]), TEST[1])

    assert error < 0.5 * squared_percentage_error(np.full(200, latency_ms.mean()), TEST[1])


class TestLasso:
    def test_weights_are_not_negative(self) -> None:
        features, latency_ms = TRAIN
        # A feature that falls as latency grows is left out rather than given a negative weight.
        misleading = np.hstack([features, 1 / latency_ms[:, None]])

        fitted = Lasso.fit(misleading, latency_ms, tune=True)

        assert (fitted.weights >= 0).all()
        assert fitted.weights[5] == 0

    def test_an_exact_linear_law_is_recovered(self) -> None:
        features, latency_ms = TRAIN
        fitted = Lasso.fit_with(1e-9, features, latency_ms, 0)

        np.testing.assert_allclose(fitted.predict(TEST[0]), TEST[1], rtol=1e-3)
        # Constant features explain nothing; the intercept does.
        assert fitted.weights[-1] == pytest.approx(0.3, rel=0.02)

    def test_a_strong_penalty_empties_the_model(self) -> None:
        assert nonnegative_lasso(np.ones((5, 2)), alpha=3.0).tolist() == [0.0, 0.0]

    def test_one_term_has_the_solution_of_the_formula(self) -> None:
        # mean((2 w - 1)²) + w / 2: 8 w - 4 + 1/2 = 0.
        assert nonnegative_lasso(np.full((4, 1), 2.0), alpha=0.5) == pytest.approx([3.5 / 8], rel=1e-6)


class TestForest:
    def test_a_forest_is_the_mean_of_its_trees(self) -> None:
        features = np.array([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]] * 10)
        latency_ms = np.where(features[:, 0] > 0, 4.0, 2.0)

        forest = RandomForest.fit(features, latency_ms, tune=False)

        # The weights of the squared percentage error do not move the mean of equal latencies.
        assert forest.predict(np.array([[0.0], [1.0]])) == pytest.approx([2.0, 4.0], rel=1e-6)

    def test_trees_fit_the_squared_percentage_error_by_weights(self) -> None:
        latency_ms = np.array([1.0, 3.0] * 30)
        features = np.repeat(np.arange(2.0), 30)[:, None]

        forest = RandomForest.fit(features, latency_ms, tune=False)

        # Of latencies 1 and 3, Σ ((w - y) / y)² is least at (1/1 + 1/3) / (1/1 + 1/9) = 1.2, their mean is 2;
        # bootstrap samples hold them in changing shares.
        assert forest.predict(features).mean() == pytest.approx(1.2, abs=0.1)

    def test_samples_that_cannot_be_split_do_not_pull_the_forest_to_zero(self) -> None:
        varied, constant = np.arange(20.0)[:, None], np.ones((20, 1))

        for features in (varied, constant):
            forest = RandomForest.fit(features, np.full(20, 3.0), tune=False)
            assert forest.predict(features) == pytest.approx(np.full(20, 3.0), rel=1e-6)
        # The constant that is least wrong by the squared percentage error, as above.
        assert RandomForest.fit(constant, np.array([1.0, 3.0] * 10), tune=False).predict(constant[:1]) == pytest.approx([1.2])


class TestMultiLayerPerceptron:
    def test_the_gradient_is_that_of_the_loss(self) -> None:
        rng = np.random.default_rng(0)
        network = _Network((3, 5, 4, 1), rng)
        x, target = rng.normal(size=(7, 3)), rng.normal(size=7)
        network.differentiate(x, target)
        gradient = network.gradient.copy()

        def loss_beside(place: int, distance: float) -> float:
            network.values[place] += distance
            loss = network.differentiate(x, target)
            network.values[place] -= distance
            return loss

        numeric = [(loss_beside(place, 1e-6) - loss_beside(place, -1e-6)) / 2e-6 for place in range(len(gradient))]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-7)

    @pytest.mark.parametrize(("samples", "most"), [(30, 0.15), (90, 0.06), (300, 0.03)])
    def test_more_samples_make_it_better(self, samples: int, most: float) -> None:
        features, latency_ms = TRAIN
        errors = []
        for seed in range(5):
            fitted = MultiLayerPerceptron.fit(features[:samples], latency_ms[:samples], seed=seed, tune=False)
            errors.append(np.mean(np.abs(fitted.predict(TEST[0]) / TEST[1] - 1)))

        assert np.median(errors) < most

    def test_kernels_that_all_take_the_same_are_predicted_so(self) -> None:
        fitted = MultiLayerPerceptron.fit(TRAIN[0], np.full(300, 2.0), seed=0, tune=False)

        assert fitted.predict(TEST[0]) == pytest.approx(2.0, rel=0.1)


# 28 rows by 96 x 96 are 258,048 multiply-accumulates, 29 are more than 262,144.
@pytest.mark.parametrize("rows", [1, 28, 29, 64, 257])
def test_a_product_in_portions_is_the_product(rows: int) -> None:
    rng = np.random.default_rng(rows)
    a, b = rng.random((rows, 96)), rng.random((96, 96))
    out = np.empty((rows, 96))

    assert np.allclose(product(a, b), a @ b, rtol=1e-12)
    assert product(a, b.T, out=out) is out
    assert np.allclose(out, a @ b.T, rtol=1e-12)


def test_a_matrix_that_is_too_large_for_portions_is_multiplied_at_once() -> None:
    b = np.ones((600, 600))
    assert b.size > ALONE

    assert np.array_equal(product(np.ones((3, 600)), b), np.full((3, 600), 600.0))


def test_other_threads_take_no_part() -> None:
    code = """
import time
import numpy as np
from papers.perceptron import product
a, b = np.ones((64, 96)), np.ones((96, 96))
all_s, own_s = time.process_time(), time.thread_time()
for _ in range(100):
    product(a, b.T)
all_s, own_s = time.process_time() - all_s, time.thread_time() - own_s
print(all_s - own_s < 0.25 * own_s + 0.01)
"""
    threads = {"OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **threads}
    )
    assert found.stdout.strip() == "True"


class TestCrossValidation:
    def test_folds_are_balanced_and_of_the_seed(self) -> None:
        fold = folds(23, 5, seed=1)

        assert sorted(np.bincount(fold).tolist()) == [4, 4, 5, 5, 5]
        assert folds(23, 5, seed=1).tolist() == fold.tolist()
        assert folds(23, 5, seed=2).tolist() != fold.tolist()

    def test_the_error_is_relative_to_the_truth(self) -> None:
        # 10 % too much and 20 % too little.
        assert squared_percentage_error(np.array([1.1, 8.0]), np.array([1.0, 10.0])) == pytest.approx(0.025)

    def test_the_setting_that_does_best_on_left_out_samples_is_chosen(self) -> None:
        def fit(power: int, x: np.ndarray, y: np.ndarray):  # type: ignore[no-untyped-def]
            slope = (y / x[:, 0] ** power).mean()
            return lambda features: slope * features[:, 0] ** power

        x = np.linspace(1, 5, 40)[:, None]

        assert choose_setting((1, 2, 3), fit, x, 7 * x[:, 0] ** 2, seed=0) == 2

    def test_with_few_samples_the_first_setting_is_taken(self) -> None:
        def fit(setting: str, x: np.ndarray, y: np.ndarray):  # type: ignore[no-untyped-def]
            raise AssertionError("nothing should be trained")

        assert choose_setting(("first", "second"), fit, np.ones((10, 1)), np.ones(10), seed=0) == "first"
