"""Copies between layouts around convolutions: what misses which cache, and that networks teach what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from latcast.kernels.kernel import Kernel
from latcast.kernels.types import kernel_type
from latcast.kernels.types.kernel_type import missed
from latcast.predictors.analytical import FAR_CACHE, LAYOUT_TERMS, NEAR_CACHE, term_values
from latcast.predictors.network_priors import network_term_names
from latcast.predictors.network_terms import NetworkTerms
from latcast.predictors.whole_networks import fit_whole_networks, predictor_parts
from latcast.records import Platform

PHONE = Platform.parse("phone/pytorch-2.0/1large/fp32")


def conv(channels: int, side: int, out: int, window: int = 1) -> tuple[int, ...]:
    return (1, channels, side, side, out, side, side, window, window, 1, 1, 1, 1, 1, int(window > 1), 0, 0, 0)


@pytest.mark.parametrize(
    ("reads", "stride", "cache", "lines"),
    [
        # A stride of 49 lines comes to all 128 sets of 4 ways.
        (512, 28 * 28, NEAR_CACHE, 512),
        # 196 lines, a multiple of 4: to every fourth set.
        (128, 56 * 56, NEAR_CACHE, 128),
        # 784 lines, a multiple of 16: to 8 of the sets.
        (32, 112 * 112, NEAR_CACHE, 32),
        # 12 and a quarter lines: to all.
        (512, 14 * 14, NEAR_CACHE, 512),
        # 512 channels are 32 lines: to 16 of 512 sets of 16 ways; 368 are 23 lines, to all.
        (256, 512, FAR_CACHE, 256),
        (8192, 368, FAR_CACHE, 8192),
    ],
)
def test_as_many_reads_as_lines_stay_in_the_sets_that_a_stride_reaches_are_missed_half(
    reads: int, stride: int, cache: tuple[int, int], lines: int
) -> None:
    half, twice, few = missed(np.array([lines, 2 * lines, lines // 2]), np.array([stride] * 3), cache)

    assert reads == lines
    assert half == pytest.approx(0.5)
    assert twice == pytest.approx(16 / 17)
    assert few == pytest.approx(1 / 17)


def test_powers_of_two_are_dear_to_copy_back_and_large_maps_to_copy_in() -> None:
    rows = np.array([conv(512, 14, 512), conv(384, 14, 384), conv(144, 56, 24), conv(144, 28, 24)])

    near, _, back = term_values(kernel_type("conv"), rows, LAYOUT_TERMS).T

    # 196 pixels, of which 256 stay at a stride of 512 channels and 1024 at one of 384 (24 lines, to every eighth set).
    assert back[:2] == pytest.approx([196 * 512 / (1 + (256 / 196) ** 4), 196 * 384 / (1 + (1024 / 196) ** 4)])
    # 144 channels, of which 128 stay at the stride of a map of 56x56 and 512 at that of one of 28x28.
    assert near[2:] == pytest.approx([56**2 * 144 / (1 + (128 / 144) ** 4), 28**2 * 144 / (1 + (512 / 144) ** 4)])


def test_a_single_pixel_or_channel_lies_alike_in_both_layouts_and_other_kernels_copy_nothing() -> None:
    vector, one_channel = conv(4096, 1, 4096), conv(1, 224, 1)

    assert not term_values(kernel_type("conv"), np.array([vector, one_channel]), LAYOUT_TERMS).any()
    assert not term_values(kernel_type("linear"), np.array([[196, 512, 512, 0, 0, 0]]), LAYOUT_TERMS).any()


def test_cpus_under_pytorch_in_fp32_copy_and_no_others() -> None:
    names = ("pytorch-2.0/1large/int8", "tflite-2.10/1large/fp32", "pytorch-2.0/gpu/fp16")

    assert network_term_names(PHONE)[-3:] == LAYOUT_TERMS
    assert all(set(LAYOUT_TERMS).isdisjoint(network_term_names(Platform.parse(f"phone/{name}"))) for name in names)


def test_what_one_class_of_convolutions_shows_of_copies_holds_for_others() -> None:
    """1x1 convolutions at 0.02 ns a FLOP and 3x3 ones at 0.01, 20 ns an element copied back from memory."""
    terms = network_term_names(PHONE)
    true = dict.fromkeys(terms, 0.0) | {"moved": 5e-7, "laid_in_near": 5e-6, "laid_in_far": 2e-5, "laid_out_far": 2e-5}

    def true_ms(row: tuple[int, ...]) -> float:
        per_flop = 1e-8 if row[7] == 3 else 2e-8
        values = term_values(kernel_type("conv"), np.array([row]), terms)[0]
        return float(values @ [(true | {"flops": per_flop})[name] for name in terms])

    networks, latency_ms = [], []
    for index in range(48):
        channels, side = (32, 64, 128, 256, 512, 1024, 24, 56, 152, 368)[index % 10], (7, 14, 28, 56)[index % 4]
        narrow = (24, 40, 56, 72, 88, 104)[index % 6]  # 3x3 convolutions whose copies miss nothing
        rows = [conv(channels, side, channels), conv(narrow, 14, narrow, 3)]
        networks.append([Kernel("conv", row, str(row), (str(row),), ("Conv",)) for row in rows])
        latency_ms.append(0.1 + sum(map(true_ms, rows)))

    found = NetworkTerms.of(networks, terms)
    analytical, _, _ = predictor_parts(fit_whole_networks(found, np.array(latency_ms), PHONE), found)

    wide = conv(512, 28, 512, 3)
    computed_ms = 1e-8 * float(term_values(kernel_type("conv"), np.array([wide]), ("flops",))[0, 0])
    assert true_ms(wide) > 1.2 * computed_ms
    assert analytical.latency_ms(kernel_type("conv"), np.array([wide]))[0] == pytest.approx(true_ms(wide), rel=0.1)
    assert len({tuple(values[-3:]) for name, values in analytical.coefficients.items() if name.startswith("conv")}) == 1
