"""Analytical terms by hand, coefficients from what they made, and their rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.graph.ir import Graph
from latcast.kernels import KernelTable, find_kernels, kernel_type
from latcast.kernels.types.elementwise import ACTIVATIONS
from latcast.kernels.types.movement import COPY_FORMS
from latcast.predictors.analytical import (
    COLD_TERMS,
    DEPTH,
    GATHERED,
    LOOPS,
    POOLED,
    TERMS,
    AnalyticalTerms,
    coarse_class,
    compared,
    fit_from_kernels,
    fit_nonnegative,
    term_values,
    throughputs,
)
from tests.predictors.made_up_platform import RULES, TRUTH, graphs_of

LINEAR = kernel_type("linear")


class TestTerms:
    def test_a_linear_layer_by_hand(self) -> None:
        # 4 rows of 10 to 6: 480 FLOPs, 40 + 24 elements, 60 weights, one kernel.
        assert term_values(LINEAR, np.array([[4, 10, 6, 0, 0, 0]])).tolist() == [[480, 64, 60, 1]]

    def test_what_is_fused_counts_its_flops_and_what_else_it_reads(self) -> None:
        # Three FLOPs for each of 24 results, and one more activation of 24 elements.
        assert term_values(LINEAR, np.array([[4, 10, 6, 3, 1, 0]])).tolist() == [[480 + 72, 64 + 24, 60, 1]]

    def test_a_convolution_by_hand(self) -> None:
        row = [1, 16, 8, 8, 32, 8, 8, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, 0]

        # 2048 results of 144 products and a ReLU; 1024 elements in, 2048 out; 144 x 32 weights.
        assert term_values(kernel_type("conv"), np.array([row])).tolist() == [[2 * 2048 * 144 + 2048, 3072, 4608, 1]]

    def test_a_grouped_convolution_starts_an_inner_loop_for_each_result_and_tap(self) -> None:
        row = [1, 16, 8, 8, 32, 8, 8, 3, 3, 1, 1, 1, 1, 4, 1, 0, 0, 0]

        # 2048 results of 9 taps, each a loop over 4 channels.
        assert term_values(kernel_type("grouped_conv"), np.array([row]), (LOOPS,)).tolist() == [[2048 * 9]]
        assert term_values(LINEAR, np.array([[4, 10, 6, 0, 0, 0]]), ("flops", LOOPS)).tolist() == [[480, 0]]

    def test_a_dense_convolution_gathers_its_input_again_for_each_further_tap(self) -> None:
        dense = [1, 16, 8, 8, 32, 8, 8, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0]
        pointwise = [1, 16, 8, 8, 32, 8, 8, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]

        # 64 positions of 9 taps and 16 channels, of which the 1024 elements of the map are read anyway.
        assert term_values(kernel_type("conv"), np.array([dense, pointwise]), (GATHERED,)).tolist() == [[9216 - 1024], [0]]
        grouped = np.array([[1, 16, 8, 8, 32, 8, 8, 3, 3, 1, 1, 1, 1, 4, 1, 0, 0, 0]])
        assert term_values(kernel_type("grouped_conv"), grouped, (GATHERED,)).tolist() == [[0]]

    @pytest.mark.parametrize(
        ("matrices", "rows", "threads", "times"),
        [(8, 4, 4, 1), (5, 4, 4, 1.6), (5, 4, 2, 1.2), (4, 4, 8, 2), (3, 4, 4, 4), (8, 3, 4, 4)],
    )  # fmt: skip
    def test_threads_wait_for_the_one_with_the_most_matrices_or_for_the_only_one(
        self, matrices: int, rows: int, threads: int, times: float
    ) -> None:
        """With five matrices on four threads one thread computes two; in that time four threads could compute eight."""
        product, terms = np.array([[matrices, rows, 16, 32, 0, 0, 0]]), (f"flops_in_turn_of_{threads}",)

        flops = 2 * matrices * rows * 16 * 32
        assert term_values(kernel_type("matmul"), product, terms)[0, 0] == pytest.approx(times * flops)
        assert term_values(LINEAR, np.array([[4, 10, 6, 0, 0, 0]]), terms).tolist() == [[0]]

    def test_one_result_is_as_deep_as_its_products(self) -> None:
        vector = [1, 40, 1, 1, 960, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]

        # 40 products and sums, however many results; what is fused behind is not among them.
        assert term_values(kernel_type("conv"), np.array([vector]), (DEPTH,)).tolist() == [[80]]
        assert term_values(LINEAR, np.array([[4, 10, 6, 3, 1, 0]]), (DEPTH,)).tolist() == [[20]]


class TestPricing:
    def test_a_class_is_priced_by_its_coefficients_and_one_without_by_the_pooled_ones(self) -> None:
        vector, matrix = [1, 10, 6, 0, 0, 0], [40, 10, 6, 0, 0, 0]
        terms = AnalyticalTerms({POOLED: np.array([0, 0, 0, 7.0]), "linear vector": np.array([1.0, 0, 0, 0])})

        assert terms.latency_ms(LINEAR, np.array([vector, matrix])).tolist() == [120.0, 7.0]
        assert terms.knows(LINEAR, np.array([vector, matrix])).tolist() == [True, False]

    def test_more_terms_of_no_cost_change_nothing(self) -> None:
        rows = np.array([[1, 10, 6, 0, 0, 0], [40, 10, 6, 0, 0, 0]])
        terms = AnalyticalTerms({POOLED: np.array([1.0, 2.0, 3.0, 4.0]), "linear vector": np.array([5.0, 6.0, 7.0, 8.0])})

        wider = terms.over((*TERMS, LOOPS, DEPTH))

        assert wider.coefficients[POOLED].tolist() == [1.0, 2.0, 3.0, 4.0, 0.0, 0.0]
        assert wider.latency_ms(LINEAR, rows).tolist() == terms.latency_ms(LINEAR, rows).tolist()

    def test_no_kernel_costs_nothing(self) -> None:
        terms = AnalyticalTerms({POOLED: np.zeros(len(TERMS))})

        assert (terms.latency_ms(LINEAR, np.array([[1, 1, 1, 0, 0, 0]])) > 0).all()

    @pytest.mark.parametrize(
        ("name", "channels", "groups", "computed"),
        [
            # 24 channels are computed as 32, on both sides; an image's three are read as they are.
            ("conv", (24, 24), 1, 32 * 32 / (24 * 24)), ("conv", (3, 24), 1, 32 / 24), ("conv", (32, 16), 1, 1.0),
            # Each channel for itself: only the results fill blocks.
            ("depthwise_conv", (24, 24), 24, 32 / 24),
            # A transposed convolution has no blocks.
            ("conv_transpose", (24, 24), 1, 1.0),
        ],
    )  # fmt: skip
    def test_a_convolution_in_blocks_computes_whole_ones(
        self, name: str, channels: tuple[int, int], groups: int, computed: float
    ) -> None:
        row = np.array([[1, channels[0], 8, 8, channels[1], 8, 8, 3, 3, 1, 1, 1, 1, groups, 1, 0, 0, 0]])
        flops = AnalyticalTerms({POOLED: np.array([1.0, 0, 0, 0])})

        ratio = replace(flops, block=16).latency_ms(kernel_type(name), row) / flops.latency_ms(kernel_type(name), row)

        assert ratio == pytest.approx([computed])


@pytest.mark.parametrize(
    ("fine", "coarse"),
    [
        ("conv 1x1 strided", "conv 1x1"), ("conv 3x3 unaligned", "conv kxk"), ("conv kxk", "conv kxk"),
        ("conv first", "conv first"), ("conv on a vector", "linear vector"), ("depthwise pointwise 3x3", "depthwise pointwise"),
        ("depthwise kxk", "depthwise"), ("depthwise wide strided", "depthwise wide"),
        ("activation relu6", "activation"), ("activation gelu", "error function"),
        ("activation sigmoid", "exponential"), ("activation hard_swish", "hard activation"),
        ("max pool", "pool"), ("average pool", "pool"),
        ("softmax", "softmax"), ("softmax strided", "softmax"), ("softmax strided narrow", "softmax"),
        ("copy", "copy"), ("copy reflect pad", "copy"),
    ],
)  # fmt: skip
def test_fine_classes_share_the_throughput_of_a_coarse_one(fine: str, coarse: str) -> None:
    assert coarse_class(fine) == coarse


def test_a_class_without_coefficients_uses_those_of_its_coarse_class() -> None:
    older = AnalyticalTerms({POOLED: TRUTH, "activation": 2 * TRUTH})
    newer = AnalyticalTerms({**older.coefficients, "error function": 5 * TRUTH})
    kind = kernel_type("activation")
    gelu = np.array([kind.configuration({"elements": 1000, "channels": 10, "function": ACTIVATIONS.index("gelu")})])
    one_ms = float(term_values(kind, gelu)[0] @ TRUTH)

    assert older.latency_ms(kind, gelu)[0] == pytest.approx(2 * one_ms)
    assert newer.latency_ms(kind, gelu)[0] == pytest.approx(5 * one_ms)
    assert older.knows(kind, gelu).all()


def test_products_of_winograd_that_a_profile_lacks_are_as_fast_as_those_that_it_has() -> None:
    kind = kernel_type("grouped_conv.winograd6")
    sizes = {"batch": 1, "in_channels": 64, "out_channels": 64, "groups": 4, "in_h": 12, "in_w": 12, "out_h": 12, "out_w": 12}
    others = dict.fromkeys(("kernel_h", "kernel_w"), 3) | dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w"), 1)
    rows = np.array([kind.configuration({**sizes, **others, "padded": 1})])
    terms = AnalyticalTerms({POOLED: TRUTH, "conv winograd": 2 * TRUTH})

    assert terms.latency_ms(kind, rows)[0] == pytest.approx(2 * float(term_values(kind, rows)[0] @ TRUTH))


@pytest.mark.parametrize("known", ["conv grouped narrow", "conv grouped"])
def test_odd_narrow_groups_that_a_profile_lacks_are_as_fast_as_others(known: str) -> None:
    kind = kernel_type("grouped_conv.narrow")
    sizes = {"batch": 1, "in_channels": 24, "out_channels": 24, "groups": 4, "in_h": 12, "in_w": 12, "out_h": 12, "out_w": 12}
    others = dict.fromkeys(("kernel_h", "kernel_w"), 3) | dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w"), 1)
    rows = np.array([kind.configuration({**sizes, **others, "padded": 1})])
    terms = AnalyticalTerms({POOLED: TRUTH, known: 2 * TRUTH})

    assert terms.latency_ms(kind, rows)[0] == pytest.approx(2 * float(term_values(kind, rows)[0] @ TRUTH))


@pytest.mark.parametrize(
    ("type_name", "part", "whole", "values"),
    [
        ("softmax", "softmax strided", "softmax", {"rows": 16, "columns": 49, "inner": 16}),
        ("copy", "copy expand", "copy", {"elements": 640, "in_elements": 64, "form": COPY_FORMS.index("expand"), "run": 1}),
    ],
)
def test_a_part_of_a_class_has_the_coefficients_of_the_whole_where_these_alone_are_known(
    type_name: str, part: str, whole: str, values: dict[str, int]
) -> None:
    kind = kernel_type(type_name)
    rows = np.array([kind.configuration(values)])
    one_ms = float(term_values(kind, rows)[0] @ TRUTH)
    older = AnalyticalTerms({POOLED: TRUTH, whole: 2 * TRUTH})

    assert older.latency_ms(kind, rows)[0] == pytest.approx(2 * one_ms)
    assert older.knows(kind, rows).all()
    assert AnalyticalTerms({**older.coefficients, part: 5 * TRUTH}).latency_ms(kind, rows)[0] == pytest.approx(5 * one_ms)


def test_a_class_without_samples_uses_the_other_classes_of_its_coarse_class() -> None:
    copy, linear = kernel_type("copy"), kernel_type("linear")
    pads, expanded = (
        np.array([copy.configuration({"elements": 2 * size, "in_elements": size, "form": form, "run": 1}) for size in sizes])
        for form, sizes in ((COPY_FORMS.index("pad"), range(1000, 100_000, 3000)), (COPY_FORMS.index("expand"), (5000,)))
    )
    products = np.array([linear.configuration({"rows": 1, "in_features": 64, "out_features": n}) for n in range(10, 500, 10)])
    samples = {"copy": (pads, 3e-5 * pads[:, 0]), "linear": (products, 1e-9 * products[:, 2])}

    fitted = fit_from_kernels(samples)

    # The pads' price, not that of all kernels together.
    assert fitted.latency_ms(copy, expanded)[0] == pytest.approx(0.3, rel=0.05)


def test_wide_depthwise_filters_without_coefficients_use_those_of_smaller_ones() -> None:
    kind = kernel_type("depthwise_conv")
    sizes = {"batch": 1, "in_channels": 8, "in_h": 9, "in_w": 9, "out_channels": 8, "out_h": 9, "out_w": 9, "groups": 8}
    filters = {"stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1, "padded": 1, "kernel_h": 7, "kernel_w": 7}
    rows = np.array([kind.configuration({**sizes, **filters})])
    one_ms = float(term_values(kind, rows)[0] @ TRUTH)

    def latency_ms(name: str) -> float:
        return float(AnalyticalTerms({POOLED: TRUTH, "depthwise 3x3": 7 * TRUTH, name: 2 * TRUTH}).latency_ms(kind, rows)[0])

    assert [latency_ms(name) for name in ("depthwise wide", "depthwise kxk", "depthwise")] == pytest.approx([2 * one_ms] * 3)
    assert latency_ms("conv 1x1") == pytest.approx(one_ms)


class TestNonNegativeFit:
    @given(st.integers(0, 1000))
    def test_coefficients_that_made_the_observations_are_recovered(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        design, truth = rng.uniform(0.1, 1, (60, 3)), rng.uniform(0.1, 5, 3)

        assert fit_nonnegative(design, design @ truth, strength=1e-12) == pytest.approx(truth, rel=1e-3)

    def test_a_coefficient_that_would_be_negative_is_zero(self) -> None:
        x = np.linspace(1, 2, 20)
        design = np.stack([x, np.ones(20)], axis=1)

        slope, constant = fit_nonnegative(design, 3 - x, strength=1e-9)

        assert slope == 0
        assert 1 <= constant <= 2

    def test_a_strong_prior_is_kept_and_a_column_of_zeros_gets_it(self) -> None:
        design = np.array([[1.0, 0.0], [2.0, 0.0]])
        target = np.array([5.0, 10.0])

        assert fit_nonnegative(design, target, np.array([3.0, 7.0]), strength=1e6) == pytest.approx([3.0, 7.0], rel=1e-3)
        assert fit_nonnegative(design, target, np.array([3.0, 7.0]), strength=1e-9) == pytest.approx([5.0, 7.0], rel=1e-3)
        assert fit_nonnegative(0 * design, target).tolist() == [0.0, 0.0]

    def test_a_few_observations_that_are_far_off_hardly_move_the_others(self) -> None:
        """Three of twenty took ten times as long: squared errors alone would make the slope 2.31."""
        x = np.arange(1.0, 21.0)
        target = 2 * x
        target[[3, 8, 15]] *= 10

        (slope,) = fit_nonnegative(x[:, None], target, strength=1e-9)

        assert slope == pytest.approx(2.0, abs=0.06)

    def test_an_observation_that_took_next_to_nothing_hardly_moves_the_others(self) -> None:
        """One of thirty took a twentieth: squared relative errors alone would make the slope 0.23."""
        x = np.arange(1.0, 31.0)
        target = 2 * x
        target[4] /= 20

        (slope,) = fit_nonnegative(x[:, None], target, strength=1e-9)

        assert 1.8 < slope < 2.0

    def test_units_do_not_matter(self) -> None:
        design = np.random.default_rng(0).uniform(1, 2, (30, 2))
        target = design @ np.array([1.0, 2.0])

        in_millions = fit_nonnegative(design * np.array([1e6, 1.0]), 1e3 * target, strength=1e-3)

        assert in_millions == pytest.approx(fit_nonnegative(design, target, strength=1e-3) * np.array([1e-3, 1e3]), rel=1e-3)


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return graphs_of({"random_mobile": 40, "resnet": 15}, seed=2)


class TestFittingKernelsAndNetworks:
    def test_kernels_that_take_as_long_as_one_result_are_learned_with_the_depth_alone(self) -> None:
        """Vectors of 16 to 1024 channels at 2 µs and 1 ns a FLOP in a row, whatever the number of results."""
        sizes = [(1, inputs, outputs, 0, 0, 0) for inputs in (16, 64, 256, 1024) for outputs in (8, 90, 1000)]
        rows = np.array(sizes)
        latency_ms = 2e-3 + 1e-6 * 2 * rows[:, 1]

        found = fit_from_kernels({"linear": (rows, latency_ms)}, terms=(*TERMS, DEPTH)).latency_ms(LINEAR, rows)
        without = fit_from_kernels({"linear": (rows, latency_ms)}).latency_ms(LINEAR, rows)

        assert found == pytest.approx(latency_ms, rel=0.03)
        assert np.abs(without / latency_ms - 1).max() > 0.1

    def test_kernels_that_obey_the_terms_are_priced_as_they_were(self, graphs: list[Graph]) -> None:
        table = KernelTable.of([find_kernels(graph, RULES) for graph in graphs])
        latency = {name: term_values(kernel_type(name), rows) @ TRUTH for name, rows in table.configurations.items()}

        fitted = fit_from_kernels({name: (table.configurations[name], ms) for name, ms in latency.items()})

        for name, rows in table.configurations.items():
            error = fitted.latency_ms(kernel_type(name), rows) / latency[name] - 1
            assert np.abs(error).mean() < 0.02

    @pytest.mark.parametrize("terms", [TERMS, (*TERMS, *COLD_TERMS)])
    def test_long_kernels_do_not_decide_what_a_short_one_of_their_class_costs(self, terms: tuple[str, ...]) -> None:
        """Tanh was timed at large sizes that all take 0.4 ms, as if that were the cost of its start: that of others is 1 µs."""
        kind = kernel_type("activation")

        def rows(function: str, elements: Sequence[float]) -> np.ndarray:
            return np.array([[size, 10, ACTIVATIONS.index(function), 0, 0, 0] for size in elements])

        others, long = rows("relu", np.linspace(10, 40000, 200)), rows("tanh", np.linspace(300e3, 350e3, 30))
        samples = {"activation": (np.vstack([others, long]), np.append(1e-3 + 1e-6 * others[:, 0], np.full(30, 0.4)))}

        # Long kernels run in long networks, which leave the caches cold; that does not make their start dear either.
        coldness = {"activation": np.append(np.tile([0.2, 0.8], 100), np.full(30, 0.95))}
        fitted = fit_from_kernels(samples, terms, coldness)

        assert fitted.latency_ms(kind, rows("tanh", [8]))[0] < 0.01
        assert fitted.latency_ms(kind, long) == pytest.approx(np.full(30, 0.4), rel=0.15)

    @pytest.mark.parametrize(("samples", "expected"), [(1, 1.909), (30, 1.996)])
    def test_few_samples_of_a_class_lean_on_all_kernels_and_many_on_themselves(self, samples: int, expected: float) -> None:
        """A class that takes twice as long as two hundred others of the same size.

        One sample is weighed against the prior as 1 to 0.301, and three terms share the way ``w - 1``: ``(w - 2)² + 0.301 (w -
        1)² / 3`` is least at 1.909. Without the prior both would be 2.
        """
        kind = kernel_type("activation")

        def rows(function: str, elements: np.ndarray) -> np.ndarray:
            found = np.zeros((len(elements), 6))
            found[:, 0], found[:, 1], found[:, 2] = elements, 10, ACTIVATIONS.index(function)
            return found

        others = rows("relu", np.linspace(1000, 40000, 200))
        slow = rows("sqrt", np.full(samples, 20000.0) if samples == 1 else np.linspace(1000, 40000, samples))
        moved = np.array([0.0, 1e-6, 0.0, 0.0])
        latency_ms = np.concatenate([term_values(kind, others) @ moved, 2 * term_values(kind, slow) @ moved])

        fitted = fit_from_kernels({"activation": (np.concatenate([others, slow]), latency_ms)})

        one = rows("sqrt", np.array([20000.0]))
        assert fitted.latency_ms(kind, one) / (term_values(kind, one) @ moved) == pytest.approx([expected], abs=0.003)

    def test_operators_of_no_type_are_priced_as_any_kernel_however_long_some_of_them_took(self) -> None:
        """A hundred copies at 1e-6 ms an element; an operator of no type that took 5 ms says nothing of another one."""
        copies = np.array([[elements, elements, 0, 0, 0, 0, 0] for elements in np.linspace(1000, 40000, 100)])
        strange = np.array([[0, 10, 10, 0, 0, 0, 0]])

        fitted = fit_from_kernels({"copy": (copies, 2e-6 * copies[:, 0]), "other": (strange, np.array([5.0]))})

        assert "other" not in fitted.coefficients
        assert fitted.latency_ms(kernel_type("other"), np.array([[0, 1000, 1000, 0, 0, 0, 0]])) < 0.01

    def test_nothing_measured_gives_terms_that_still_price(self) -> None:
        assert fit_from_kernels({}).coefficients[POOLED].tolist() == [0.0, 0.0, 0.0, 0.0]


# 10⁻⁸ ms a FLOP, 10⁻⁷ ms an element, 4·10⁻⁷ ms a weight, 5 µs a kernel.
ANY = np.array([1e-8, 1e-7, 4e-7, 0.005])


def test_rates_are_inverse_coefficients() -> None:
    [found] = throughputs(AnalyticalTerms({POOLED: ANY}), "fp32")

    assert found.kernel_class == POOLED
    assert found.rates == pytest.approx((100.0, 40.0, 10.0))
    assert found.kernel_us == pytest.approx(5.0)


def test_elements_of_int8_are_a_byte_each() -> None:
    [found] = throughputs(AnalyticalTerms({POOLED: ANY}), "int8")

    assert found.rates == pytest.approx((100.0, 10.0, 2.5))


def test_rates_are_those_of_long_networks_in_which_all_caches_are_cold() -> None:
    [found] = throughputs(AnalyticalTerms({POOLED: np.append(ANY, [4e-7, 0.001])}, (*TERMS, *COLD_TERMS)), "fp32")

    assert found.rates == pytest.approx((100.0, 40.0, 5.0))
    assert found.kernel_us == pytest.approx(6.0)


def test_what_costs_nothing_has_no_rate() -> None:
    _, found = throughputs(AnalyticalTerms({POOLED: ANY, "add": np.array([0.0, 2e-7, 0.0, 0.001])}), "fp32")

    assert found.gflop_per_s is None
    assert found.weight_gb_per_s is None
    assert found.activation_gb_per_s == pytest.approx(20.0)


def test_a_term_that_a_class_lacks_has_no_rate() -> None:
    # A softmax has no weights, so its coefficient stays the pooled one.
    _, found = throughputs(AnalyticalTerms({POOLED: ANY, "softmax": np.array([2e-8, 2e-7, 4e-7, 0.001])}), "fp32")

    assert found.rates == (pytest.approx(50.0), pytest.approx(20.0), None)


def test_all_kernels_together_come_first_then_classes_by_name() -> None:
    found = throughputs(AnalyticalTerms({"b": 2 * ANY, POOLED: ANY, "a": 3 * ANY}), "fp32")

    assert [each.kernel_class for each in found] == [POOLED, "a", "b"]


def test_classes_are_paired_and_missing_ones_are_none() -> None:
    first = throughputs(AnalyticalTerms({POOLED: ANY, "a": 2 * ANY}), "fp32")
    second = throughputs(AnalyticalTerms({POOLED: ANY, "b": 2 * ANY}), "fp32")

    pairs = compared(first, second)

    assert pairs == [(first[0], second[0]), (first[1], None), (None, second[1])]
