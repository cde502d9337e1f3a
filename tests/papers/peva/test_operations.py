"""Features of Table 2, and the regressors that learn from them."""

from __future__ import annotations

import pytest

from latcast.errors import TrainingError
from latcast.records import ExecutedKernel
from papers.peva.operations import FEATURES, FEWEST_OPERATIONS, GROUPINGS, columns, fit_operations, grouped, matrix
from tests.papers.peva.made_up import OVERHEAD_MS, convolution, network


def test_a_convolution_has_the_features_of_table_2() -> None:
    found = columns([convolution(28, 64, 128)])
    assert found["input size"] == 28 * 28 * 64
    assert found["output size"] == 28 * 28 * 128
    assert found["kernel size"] == 3 * 3 * 64 * 128
    assert found["FLOPs"] == 2 * 3 * 3 * 64 * 128 * 28 * 28


def test_groups_divide_weights_and_flops_but_not_for_nn_meter() -> None:
    found = columns([convolution(28, 64, 128, groups=4)])
    assert found["kernel size"] == 3 * 3 * 16 * 128
    assert found["dense kernel size"] == 3 * 3 * 64 * 128
    assert found["dense FLOPs"] == 4 * found["FLOPs"]


def test_a_mean_has_a_window_as_high_as_its_input() -> None:
    mean = ExecutedKernel("mean_0", "mean", (), 1.0, {"operation": "MEAN", "input_size": 7, "input_channels": 32,
                                                      "output_size": 1, "output_channels": 32})  # fmt: skip
    assert matrix([mean], FEATURES["mean"]).tolist() == [[7, 32, 7, 7 * 7 * 32, 7 * 7 * 32]]


def test_kernels_of_one_operation_are_told_apart_only_where_the_selection_is_known() -> None:
    kernels = [convolution(28, 64, 64), convolution(28, 64, 64, "convolution_winograd_4x4_6x6")]
    assert set(grouped(kernels, "kernels")) == {"convolution_2d", "convolution_winograd_4x4_6x6"}
    assert set(grouped(kernels, "operations")) == {"convolution"}
    assert set(GROUPINGS) == {"kernels", "operations", "nn-meter"}


def test_lasso_finds_a_linear_law_and_the_overhead() -> None:
    networks = [network(place) for place in range(20)]
    latency_ms = [OVERHEAD_MS + sum(kernel.latency_ms for kernel in each) for each in networks]
    models = fit_operations(networks, latency_ms, model="lasso")
    unseen = network(21)
    assert models.overhead_ms == pytest.approx(OVERHEAD_MS)
    assert models.latency_ms(unseen) == pytest.approx(OVERHEAD_MS + sum(kernel.latency_ms for kernel in unseen), rel=0.05)


def test_a_rare_kind_is_learned_with_its_like_and_an_unseen_one_with_all() -> None:
    rare = convolution(14, 16, 16, "convolution_winograd_4x4_6x6")
    pool = ExecutedKernel(
        "pooling_2d_0", "pooling_2d", (), 1.0, {"operation": "MAX_POOL_2D", "input_size": 14, "input_channels": 16}
    )
    networks = [(*network(place), rare) if place == 0 else network(place) for place in range(20)]
    models = fit_operations(networks, [1.0] * 20, model="lasso", with_overhead=False)
    assert FEWEST_OPERATIONS > 1
    assert models.kernel_latency_ms([rare])[0] == pytest.approx(rare.latency_ms, rel=0.05)
    assert pool.kind not in models.regressors
    assert models.kernel_latency_ms([pool])[0] > 0


def test_without_operations_there_is_nothing_to_learn() -> None:
    with pytest.raises(TrainingError, match="not published"):
        fit_operations([(), ()], [1.0, 2.0], model="lasso")
