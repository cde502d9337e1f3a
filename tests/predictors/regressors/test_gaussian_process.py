"""Factors that vary smoothly with a kernel's sizes, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from latcast.errors import TrainingError
from latcast.predictors.regressors import regressor_from_arrays
from latcast.predictors.regressors.gaussian_process import GaussianProcessCorrection, SizeCovariance

# Two channel counts that differ after two doublings, and a filter's side after one.
COVARIANCE = SizeCovariance(np.array([2.0, 2.0, 1.0]), 1, level=0.25, path=0.2, smooth=0.3, own=0.1)


def test_equal_sizes_share_everything() -> None:
    sizes = np.array([[64, 128, 3]])

    assert COVARIANCE.between(sizes, sizes).item() == pytest.approx(0.25**2 + 0.2**2 + 0.3**2 + 0.1**2)


def test_doubling_channels_twice_keeps_the_level_the_path_and_part_of_the_smooth_covariance() -> None:
    found = COVARIANCE.between(np.array([[64, 128, 3]]), np.array([[256, 128, 3]])).item()

    assert found == pytest.approx(0.25**2 + 0.2**2 + 0.3**2 * math.exp(-0.5))


def test_another_filter_is_another_path() -> None:
    found = COVARIANCE.between(np.array([[64, 128, 1]]), np.array([[64, 128, 2]])).item()

    assert found == pytest.approx(0.25**2 + 0.3**2 * math.exp(-0.5))


def test_without_points_the_factor_is_one() -> None:
    factor = GaussianProcessCorrection.of(COVARIANCE, np.zeros((0, 3)), np.zeros(0))

    assert factor.predict(np.array([[64.0, 128.0, 3.0]])).tolist() == [1.0]


def test_novelty_is_the_variance_that_the_nearest_trained_kernel_leaves() -> None:
    kernels = np.array([[64, 128, 3], [32, 32, 1]])
    factor = GaussianProcessCorrection.of(COVARIANCE, kernels, np.array([0.5, -1.0]))
    whole = 0.25**2 + 0.2**2 + 0.3**2 + 0.1**2

    same, wider, far = factor.novelty(np.array([[64, 128, 3], [256, 128, 3], [2**20, 2**20, 9]]))

    assert same == pytest.approx(0.0)
    assert wider == pytest.approx(1 - (0.25**2 + 0.2**2 + 0.3**2 * math.exp(-0.5)) / whole)
    assert far == pytest.approx(1 - 0.25**2 / whole)
    nothing = GaussianProcessCorrection.of(COVARIANCE, np.zeros((0, 3)), np.zeros(0))
    assert nothing.novelty(kernels).tolist() == [1.0, 1.0]


def test_it_comes_back_from_its_arrays() -> None:
    factor = GaussianProcessCorrection.of(COVARIANCE, np.array([[64, 128, 3], [32, 32, 1]]), np.array([0.5, -1.0]))

    again = regressor_from_arrays("gaussian_process", factor.arrays())

    kernels = np.array([[48.0, 100.0, 3.0], [7.0, 7.0, 7.0]])
    assert again.predict(kernels).tolist() == factor.predict(kernels).tolist()


def test_fitting_to_single_kernels_is_refused() -> None:
    with pytest.raises(TrainingError, match="learned from whole networks"):
        GaussianProcessCorrection.fit(np.ones((3, 3)), np.ones(3))
