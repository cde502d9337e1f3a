"""How alike the efficiencies of kernels are, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.devices.kernel_covariance import CovarianceScales, KernelTraits, kernel_covariance
from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.types import kernel_type


def convolution(channels: int = 64, side: int = 28, window: int = 3, name: str = "conv") -> Kernel:
    values = {
        "batch": 1, "in_channels": channels, "out_channels": channels, "in_h": side, "in_w": side, "out_h": side, "out_w": side,
        "kernel_h": window, "kernel_w": window, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1,
        "groups": channels if name == "depthwise_conv" else 1, "padded": 1,
    }  # fmt: skip
    kind = kernel_type(name)
    return Kernel(name, kind.configuration({field: values.get(field, 0) for field in kind.fields}), "k", ("k",), (name,))


def pooling() -> Kernel:
    kind = kernel_type("max_pool")
    values = {
        "batch": 1, "channels": 64, "in_h": 28, "in_w": 28, "out_h": 28, "out_w": 28, "kernel_h": 3, "kernel_w": 3, "stride_h": 1,
        "stride_w": 1,
    }  # fmt: skip
    return Kernel(
        "max_pool", kind.configuration({field: values.get(field, 0) for field in kind.fields}), "p", ("p",), ("max_pool",)
    )


def covariance(first: Kernel, second: Kernel) -> float:
    a, b = (KernelTraits.of(KernelTable.of([[each]])) for each in (first, second))
    return float(kernel_covariance(a, b)[0, 0])


S = CovarianceScales()


def test_the_same_kernel_shares_all_that_is_not_about_misaligned_channels() -> None:
    expected = S.everything**2 + S.same_class**2 + S.near**2 + S.same_window**2 + S.near_window**2

    assert covariance(convolution(), convolution()) == pytest.approx(expected)


def test_kernels_of_different_families_share_what_is_common_to_all() -> None:
    assert covariance(convolution(), pooling()) == pytest.approx(S.everything**2)


def test_nearness_falls_off_with_octaves_of_size() -> None:
    # Maps of twice the side have 4 times the pixels, 2 octaves; channels are the same.
    near = np.exp(-0.5 * (2 / S.octaves) ** 2)
    expected = S.everything**2 + S.same_class**2 + S.near**2 * near + S.same_window**2 + S.near_window**2 * near

    assert covariance(convolution(side=28), convolution(side=56)) == pytest.approx(expected)


def test_channels_that_miss_the_vector_length_go_together() -> None:
    aligned, odd = convolution(64), convolution(65)

    # 65 is a multiple of neither 4 nor 8, for outputs and inputs; one class, so each counts in full.
    expected = sum(2 * strength**2 for strength in S.misaligned)
    assert covariance(odd, odd) - covariance(aligned, aligned) == pytest.approx(expected)
    assert covariance(aligned, odd) < covariance(aligned, aligned)


def test_a_covariance_of_any_kernels_has_no_negative_eigenvalue() -> None:
    kernels = [
        convolution(channels, side, window, name)
        for channels in (3, 8, 30, 64)
        for side in (7, 28)
        for window in (1, 3)
        for name in ("conv", "depthwise_conv")
    ]
    traits = KernelTraits.of(KernelTable.of([kernels]))

    found = kernel_covariance(traits, traits)

    assert found == pytest.approx(found.T)
    assert np.linalg.eigvalsh(found).min() > -1e-9


def test_no_kernels_have_no_covariance() -> None:
    none = KernelTraits.of(KernelTable.of([]))

    assert kernel_covariance(none, KernelTraits.of(KernelTable.of([[convolution()]]))).shape == (0, 1)
