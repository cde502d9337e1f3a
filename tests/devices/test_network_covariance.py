"""What is expected of a network, and how far networks go together."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.devices.network_covariance import POOLED, FeatureFit, LayerShareFit, LayerShareModel
from latcast.errors import TrainingError
from latcast.kernels.kernel import Kernel
from latcast.kernels.types import kernel_type
from tests.devices.test_kernel_covariance import convolution


def sigmoid(elements: int) -> Kernel:
    kind = kernel_type("activation")
    values = {"elements": elements, "channels": 1, "function": 1}
    return Kernel(
        "activation", kind.configuration({field: values.get(field, 0) for field in kind.fields}), "s", ("s",), ("sigmoid",)
    )


def flops_only(per_flop: float = 1e-9, overhead: float = 0.0) -> LayerShareModel:
    return LayerShareModel({POOLED: np.array([per_flop, 0.0, 0.0, 0.0])}, overhead)


def macs(kernel: Kernel) -> float:
    return float(64 * 64 * 9 * 28 * 28 if kernel == convolution() else 0)


def test_a_typical_latency_is_the_sum_of_the_kernels_prices_and_the_overhead() -> None:
    one = flops_only().describe([[convolution()]]).mean[0]
    two = flops_only().describe([[convolution(), convolution()]]).mean[0]
    with_overhead = flops_only(overhead=float(np.exp(one))).describe([[convolution()]])

    assert np.exp(two) == pytest.approx(2 * np.exp(one))
    assert np.exp(one) == pytest.approx(1e-9 * 2 * macs(convolution()), rel=0.01)
    assert np.exp(with_overhead.mean[0]) == pytest.approx(2 * np.exp(one))
    # The kernel has half of the latency, the overhead the other half.
    assert with_overhead.shares.tolist() == [[pytest.approx(0.5)]]


def test_shares_are_of_the_whole_latency() -> None:
    found = flops_only().describe([[convolution(), convolution(), convolution(64, 14)]])

    # A quarter of the pixels, a quarter of the FLOPs: two of 4 and one of 1.
    assert sorted(found.shares[0].tolist()) == pytest.approx([1 / 9, 8 / 9], rel=0.01)


def test_networks_go_together_as_far_as_their_shares_do() -> None:
    model = flops_only()
    described = model.describe([[convolution()], [convolution(), convolution()], [convolution(512, 7, 1)]])

    found = model.covariance(described, described)

    assert found[0, 1] == pytest.approx(found[0, 0])  # the same kernel, however often
    assert found[0, 2] < 0.5 * found[0, 0]
    assert model.variance(described) == pytest.approx(np.diag(found))


def test_coefficients_are_found_again() -> None:
    rng = np.random.default_rng(0)
    networks = [
        [
            convolution(int(channels), int(side))
            for channels, side in zip(rng.choice([16, 32, 64, 128], 5), rng.choice([7, 14, 28], 5), strict=True)
        ]
        for _ in range(30)
    ]
    pattern = flops_only(per_flop=2e-9).describe(networks).mean

    found = LayerShareFit()(networks, pattern).describe(networks).mean

    # Up to the constant that a pattern does not have.
    assert found - found.mean() == pytest.approx(pattern - pattern.mean(), abs=0.02)


def test_tiny_kernels_of_a_class_do_not_price_its_first_large_one_a_thousand_times_too_high() -> None:
    rng = np.random.default_rng(1)
    widths = rng.choice([32, 48, 64, 96], (20, 4))
    plain = [[convolution(int(width)) for width in row] for row in widths]
    latency = np.exp(flops_only().describe(plain).mean)
    # Half of the networks have a sigmoid on a vector of channels, and take a tenth longer for reasons of their own.
    attended = rng.uniform(size=20) < 0.5
    networks = [[*kernels, sigmoid(64)] if has else kernels for kernels, has in zip(plain, attended, strict=True)]
    pattern = np.log(latency * np.where(attended, 1.1, 1.0))

    model = LayerShareFit()(networks, pattern)

    small, large = np.exp(model.describe([[convolution()], [convolution(), sigmoid(64 * 28 * 28)]]).mean)
    # A sigmoid over the convolution's output computes and moves a small part of what the convolution does.
    assert large < 1.5 * small


def test_a_class_that_no_network_has_is_priced_like_all_together() -> None:
    networks = [[convolution(width), convolution(side)] for width in (16, 32, 64) for side in (24, 48)]
    model = LayerShareFit()(networks, flops_only().describe(networks).mean)

    found = model.describe([[sigmoid(10**5)]])

    assert "activation sigmoid" not in model.coefficients
    assert np.exp(found.mean[0]) > model.overhead


def test_a_network_without_kernels_is_refused() -> None:
    with pytest.raises(TrainingError, match="a network without kernels has no typical latency"):
        LayerShareFit()([[convolution()], []], np.zeros(2))


class TestFeatures:
    VALUES = np.array(
        [[0.0, 1.0, 5.0, 0.0], [1.0, 0.0, 5.0, 0.0], [2.0, 1.0, 5.0, 0.0], [3.0, 0.0, 5.0, 1.0], [4.0, 1.0, 5.0, 0.0]]
    )

    def test_are_standardised_and_those_that_tell_nothing_left_out(self) -> None:
        model = FeatureFit(fewest=2)(self.VALUES.tolist(), np.zeros(5))
        found = model.describe(self.VALUES.tolist())

        # The third is alike everywhere, and only one network has the fourth.
        assert np.count_nonzero(model.scale) == 2
        assert found.mean.tolist() == [0.0] * 5
        assert found.values.mean(axis=0) == pytest.approx(np.zeros(4))
        assert (found.values**2).sum(axis=1).mean() == pytest.approx(1.0)

    def test_of_three_networks_two_must_have_a_feature_where_four_of_many_must(self) -> None:
        few = np.array([[1.0, 1.0], [2.0, 1.0], [3.0, 2.0]])
        many = np.stack([np.arange(9) > 4, np.arange(9) > 5], axis=1).astype(float)

        assert (FeatureFit()(few.tolist(), np.zeros(3)).scale > 0).tolist() == [True, False]
        assert (FeatureFit()(many.tolist(), np.zeros(9)).scale > 0).tolist() == [True, False]

    def test_far_out_networks_are_drawn_in(self) -> None:
        model = FeatureFit(fewest=2)(self.VALUES.tolist(), np.zeros(5))

        assert np.abs(model.describe([[1e9, 0.0, 5.0, 0.0]]).values).max() == pytest.approx(4 / np.sqrt(2))

    def test_the_variance_is_the_diagonal_and_the_nearest_covary_most(self) -> None:
        model = FeatureFit(fewest=2)(self.VALUES.tolist(), np.zeros(5))
        described = model.describe(self.VALUES.tolist())

        covariance = model.covariance(described, described)

        assert model.variance(described) == pytest.approx(np.diag(covariance))
        assert np.linalg.eigvalsh(covariance).min() > -1e-9
        assert covariance[0, 2] > covariance[0, 4]
