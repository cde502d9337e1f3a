from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from latcast.predictors.platform_posterior import (
    PRIOR_SCALE_WEIGHT,
    Observed,
    Posterior,
    Prior,
    linearised,
    posterior,
)

DEGREES_5 = 1.25
"""Student's weight of an observation that fits: (4 + 1) / 4."""


def of_one_term(log_ms: list[float], *, deviation: float, noise: float, mean: float = 0.0) -> Posterior:
    """A platform of one coefficient, of which the same network of 1 ms was observed several times."""
    n = len(log_ms)
    prior = Prior(np.array([mean]), np.array([[deviation**2]]), noise)
    return posterior(prior, Observed(np.ones((n, 1)), np.zeros((n, 0)), np.zeros(n), np.array(log_ms)))


def linear(n: int, seed: int = 0) -> tuple[Prior, Observed]:
    """One term that all have, which is linear in logarithms, and a basis of three."""
    rng = np.random.default_rng(seed)
    basis = rng.normal(size=(n, 3))
    log_ms = 1.0 + basis @ np.array([0.3, -0.2, 0.1]) + rng.normal(0.0, 0.05, n)
    prior = Prior(np.zeros(4), np.diag([4.0, 1.0, 1.0, 1.0]), 0.1)
    return prior, Observed(np.full((n, 1), 2.0), basis, np.zeros(n), log_ms)


def without(observed: Observed, row: int) -> Observed:
    return Observed(
        *(np.delete(part, row, axis=0) for part in (observed.terms, observed.basis, observed.novelty, observed.log_ms))
    )


def test_of_one_term_and_one_measurement_the_mean_lies_between_prior_and_measured() -> None:
    # Weighted 1.25, the noise's variance is 0.1² / 1.25 = 0.008; 0.2² / (0.2² + 0.008) = 5/6 of the way from 0 to 0.06.
    found = of_one_term([0.06], deviation=0.2, noise=0.1)

    assert found.weights == pytest.approx([DEGREES_5], rel=0.01)
    assert found.mean == pytest.approx([0.05], rel=0.01)
    assert found.covariance == pytest.approx(np.array([[0.04 * 0.008 / 0.048]]), rel=0.01)


def test_without_measurements_the_prior_stays() -> None:
    found = of_one_term([], deviation=0.2, noise=0.1, mean=0.7)

    assert found.mean == pytest.approx([0.7])
    assert found.covariance == pytest.approx(np.array([[0.04]]))
    assert found.scale == 1.0


def test_a_latency_is_the_sum_of_terms_times_prices_and_its_derivatives_are_their_shares() -> None:
    log_ms, design = linearised(np.array([0.0, np.log(2.0), 0.5]), np.array([[1.0, 1.5]]), np.array([[0.2]]))

    assert log_ms == pytest.approx([np.log(4.0) + 0.1])
    assert design == pytest.approx(np.array([[0.25, 0.75, 0.2]]))


def test_more_observations_only_shrink_the_covariance() -> None:
    prior, observed = linear(12)

    found = [posterior(prior, Observed(observed.terms[:n], observed.basis[:n], observed.novelty[:n], observed.log_ms[:n]))
             for n in (1, 4, 12)]  # fmt: skip

    for less, more in pairwise(found):
        # Weights of observations move a little with the others, which the factor allows for.
        assert np.linalg.eigvalsh(1.3 * less.covariance - more.covariance).min() > -1e-9
    assert np.trace(found[-1].covariance) < np.trace(found[0].covariance) < np.trace(prior.covariance)


def test_an_outlier_counts_less_and_barely_moves_the_state() -> None:
    prior, observed = linear(12)
    wild = observed.log_ms.copy()
    wild[5] += np.log(8.0)

    calm, found = posterior(prior, observed), posterior(prior, replace(observed, log_ms=wild))

    assert 0 < found.weights[5] < 0.1
    assert np.delete(found.weights, 5).min() > 0.5
    assert np.abs(found.mean - calm.mean).max() < 0.05
    assert found.left_out_error[5] == pytest.approx(np.log(8.0), abs=0.2)
    assert found.scale > calm.scale


def test_errors_of_the_left_out_are_those_of_a_fit_without_them() -> None:
    prior, observed = linear(10, seed=2)

    found = posterior(prior, observed)

    for row in range(10):
        fitted = posterior(prior, without(observed, row), start=found.mean)
        one = slice(row, row + 1)
        expected = fitted.log_ms(observed.terms[one], observed.basis[one], observed.novelty[one])[0]
        assert found.left_out_error[row] == pytest.approx(float(observed.log_ms[row] - expected[0]), abs=0.02)


def test_the_dense_and_the_information_form_agree() -> None:
    prior, observed = linear(3)
    twice = Observed(
        *(np.concatenate([part, part, part]) for part in (observed.terms, observed.basis, observed.novelty, observed.log_ms))
    )
    # Three observations are fewer than the four numbers of a state; nine, of three times the noise variance, say the same.
    dense, information = posterior(prior, observed), posterior(replace(prior, noise=prior.noise * 3**0.5), twice)

    assert information.mean == pytest.approx(dense.mean, abs=0.01)
    assert information.covariance == pytest.approx(dense.covariance, abs=0.01)


def test_a_platform_unlike_the_prior_has_wider_variances() -> None:
    usual, strange = (of_one_term([value], deviation=0.1, noise=0.05) for value in (0.1, 1.5))

    assert usual.scale < 1.1
    # One observation beside as many as the prior's own scale counts as; what lies 13 deviations off is beyond what it allows.
    assert strange.scale > 3 * PRIOR_SCALE_WEIGHT / (PRIOR_SCALE_WEIGHT + 1)


def test_what_is_predicted_varies_by_state_novelty_and_noise() -> None:
    prior, observed = linear(10)
    found = posterior(prior, observed)

    _, near = found.log_ms(observed.terms, observed.basis, np.zeros(10))
    _, far = found.log_ms(observed.terms, observed.basis, np.full(10, 0.5))

    assert far - near == pytest.approx(np.full(10, 0.5 * found.scale))
    assert (near > prior.noise**2 * found.scale).all()
