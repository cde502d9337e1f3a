"""Graphs in, latencies with intervals and reasons out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph, Node, Tensor
from latcast.kernels import KernelTable, find_kernels, kernel_type
from latcast.kernels.types.elementwise import ACTIVATIONS
from latcast.predictors.analytical import term_values
from latcast.predictors.calibration_terms import CalibrationTerms
from latcast.predictors.intervals import Interval
from latcast.predictors.kernel_predictor import KernelPredictor, Seen
from latcast.predictors.platform_predictor import (
    ASSUMED_SPREAD,
    CROSSING_SPREAD,
    UNPREDICTED_HIGH,
    UNPREDICTED_LOW,
    PlatformPredictor,
)
from latcast.records import Platform
from latcast.spaces.catalogue import build, model
from tests.predictors.made_up_platform import RULES, TRUTH, graphs_of


@pytest.fixture(scope="module")
def others() -> list[Graph]:
    """Networks that the predictor was not trained on."""
    return graphs_of({"mobilenet_v2": 12, "resnet": 5, "vit": 3}, seed=7)


def true_latency_ms(predictor: PlatformPredictor, graph: Graph) -> float:
    """What the made-up platform would take, its network model included."""
    table = KernelTable.of([find_kernels(graph, RULES)])
    raw = np.concatenate(
        [
            term_values(kernel_type(name), rows) @ TRUTH * np.exp(0.2 * np.sin(np.log1p(rows).sum(axis=1)))
            for name, rows in table.configurations.items()
        ]
    )
    inside = predictor.network.kernel_latency_ms(table.kernel_types, raw)
    kernels_ms = table.sum_by_network(inside)
    return float((predictor.network.short_network_factor(kernels_ms) * (kernels_ms + predictor.network.constant_ms))[0])


def conv_net(channels: int = 64, size: int = 28) -> Graph:
    b = GraphBuilder("conv net")
    return b.finish(b.conv_bn(b.input((1, channels, size, size)), channels, 3))


def with_unknown_operator(graph: Graph) -> Graph:
    """The same network with an operator behind it that no table knows."""
    [output] = graph.outputs
    node = Node("FancyNewOperator", "fancy", (output,), ("fancy_out",))
    tensors = {**graph.tensors, "fancy_out": Tensor(graph.shape(output))}
    return replace(graph, nodes=(*graph.nodes, node), outputs=("fancy_out",), tensors=tensors)


class TestLatency:
    def test_networks_it_never_saw_are_predicted_well(self, predictor: PlatformPredictor, others: list[Graph]) -> None:
        truth = np.array([true_latency_ms(predictor, graph) for graph in others])

        # Three variants of ViT are too few to learn all of it from, so the median rather than the mean.
        assert np.median(np.abs(predictor.latencies_ms(others) / truth - 1)) < 0.05

    def test_many_at_once_are_as_one_at_a_time(self, predictor: PlatformPredictor, others: list[Graph]) -> None:
        many = predictor.predict_many(others, breakdown=True)
        singly = [predictor.predict(graph) for graph in others]

        for one, alone in zip(many, singly, strict=True):
            for figure in ("latency_ms", "low_ms", "high_ms", "overhead_ms"):
                assert getattr(one, figure) == pytest.approx(getattr(alone, figure), rel=1e-6)
            assert one.coverage.share == pytest.approx(alone.coverage.share, rel=1e-6)
            assert one.coverage.uncovered == alone.coverage.uncovered
            assert one.warnings == alone.warnings
            assert [k.name for k in one.kernels] == [k.name for k in alone.kernels]
        assert [one.latency_ms for one in many] == pytest.approx(predictor.latencies_ms(others).tolist(), rel=1e-6)

    def test_the_kernels_and_the_overhead_add_up(self, predictor: PlatformPredictor, others: list[Graph]) -> None:
        for one in predictor.predict_many(others, breakdown=True):
            assert sum(kernel.latency_ms for kernel in one.kernels) + one.overhead_ms == pytest.approx(one.latency_ms)

    def test_the_interval_holds_the_prediction(self, predictor: PlatformPredictor, others: list[Graph]) -> None:
        for one in predictor.predict_many(others):
            assert one.low_ms < one.latency_ms < one.high_ms

    def test_a_breakdown_is_given_on_request(self, predictor: PlatformPredictor) -> None:
        [one] = predictor.predict_many([conv_net()])

        assert one.kernels == ()
        [kernel] = predictor.predict(conv_net()).kernels
        assert kernel.operators == ("Conv", "BatchNormalization", "Relu")
        assert kernel.configuration["in_channels"] == 64
        assert kernel.covered

    def test_predicting_no_networks_gives_no_predictions(self, predictor: PlatformPredictor) -> None:
        assert predictor.predict_many([]) == []
        assert predictor.latencies_ms([]).tolist() == []

    def test_a_network_of_views_alone_costs_the_overhead(self, predictor: PlatformPredictor) -> None:
        b = GraphBuilder("view")
        graph = b.finish(b.flatten(b.input((1, 8, 6, 6))))

        one = predictor.predict(graph)
        free = replace(predictor, network=CalibrationTerms()).predict(graph)

        # Shorter than the shortest network of 0.5 ms: (0.5 / 2) ^ 0.02 · (0.5 / 8) ^ 0.04 of the constant.
        assert one.latency_ms == pytest.approx(0.25**0.02 * 0.0625**0.04 * predictor.network.constant_ms)
        assert one.overhead_ms == one.latency_ms
        assert [kernel.latency_ms for kernel in one.kernels] == [0.0]
        assert (free.latency_ms, free.coverage.share) == (0.0, 1.0)


class TestCoverage:
    def test_a_trained_network_is_covered(self, predictor: PlatformPredictor, training_graphs: list[Graph]) -> None:
        coverage = predictor.predict(training_graphs[0]).coverage

        assert coverage.share == pytest.approx(1.0)
        assert coverage.uncovered == ()

    def test_an_operator_outside_the_table_is_listed_and_priced(self, predictor: PlatformPredictor) -> None:
        one = predictor.predict(with_unknown_operator(conv_net()))
        fancy = one.kernels[-1]

        assert one.coverage.uncovered == ("FancyNewOperator",)
        assert (fancy.kernel_type, fancy.covered) == ("other", False)
        assert fancy.latency_ms > 0
        assert one.coverage.share == pytest.approx(1 - fancy.latency_ms / one.latency_ms)
        assert "of unknown operators only what they read and write counts: FancyNewOperator" in one.warnings
        # It may take as long as all others.
        assert one.high_ms > 1.9 * predictor.predict(conv_net()).high_ms

    def test_what_a_classic_model_adds_to_a_network_is_named(self, predictor: PlatformPredictor) -> None:
        b = GraphBuilder("scaled")
        x = b.op("Scaler", [b.input((1, 64))], {"offset": (0.0,), "scale": (2.0,)})[0]

        found = predictor.predict(b.finish(b.linear(x, 10)))

        assert found.warnings[0] == "classic models are not predicted, only their arithmetic counts: Scaler"
        assert not any("classic" in each for each in predictor.predict(conv_net()).warnings)

    def test_a_type_without_a_predictor_is_listed_and_priced(self, predictor: PlatformPredictor) -> None:
        b = GraphBuilder("shrunk")
        graph = b.finish(b.resize(b.input((1, 64, 28, 28)), 14))

        one = predictor.predict(graph)

        assert "resize" not in predictor.kernels
        assert one.coverage.uncovered == ("Resize",)
        assert one.kernels[0].latency_ms > 0
        assert one.coverage.share < 1

    def test_a_predictor_of_all_other_operators_does_not_cover_them(self, predictor: PlatformPredictor) -> None:
        """What it learned of some operators says nothing of a new one."""
        low = np.zeros(6, dtype=np.int64)
        other = KernelPredictor("other", "analytical", None, low, low + 10**9, 30, Seen({}, 1e12, 1e12))

        one = replace(predictor, kernels={**predictor.kernels, "other": other}).predict(with_unknown_operator(conv_net()))

        assert one.coverage.uncovered == ("FancyNewOperator",)
        assert one.coverage.share < 1
        assert not one.kernels[-1].covered

    def test_a_kernel_far_outside_its_training_range_is_not_covered(self, predictor: PlatformPredictor) -> None:
        one = predictor.predict(conv_net(channels=16384, size=7))

        assert one.coverage.share == 0.0
        assert one.coverage.uncovered == ("BatchNormalization", "Conv", "Relu")
        assert not one.kernels[0].covered

    def test_an_activation_whose_code_lies_between_trained_ones_is_not_covered(self, predictor: PlatformPredictor) -> None:
        one = with_activations(predictor).predict(leaky())

        assert one.coverage.uncovered == ("LeakyRelu",)
        assert not one.kernels[0].covered
        share = 100 * (1 - one.overhead_ms / one.latency_ms)
        assert one.notes[0] == (
            f"{share:.0f} % of the latency comes from kernels outside the training data: "
            f"activation {share:.0f} % (leaky_relu, not trained on)"
        )


class TestTinyNetworks:
    """An overhead of 1 ms, and kernels of next to nothing."""

    def test_overhead_that_their_kernels_do_not_show_is_not_covered_and_the_interval_reaches_down_to_the_kernels(
        self, predictor: PlatformPredictor
    ) -> None:
        slow_to_start = replace(predictor, network=CalibrationTerms(constant_ms=1.0))
        one = slow_to_start.predict(conv_net(channels=64, size=7))
        kernels_ms = one.latency_ms - one.overhead_ms

        assert kernels_ms < 0.1
        assert one.kernels[0].covered
        assert one.coverage.share < 0.1
        assert kernels_ms / 2 < one.low_ms < 2 * kernels_ms
        assert one.high_ms > 1.0
        assert "is overhead that larger networks showed" in one.warnings[-1]

    def test_overhead_is_covered_where_kernels_take_a_quarter_of_it(self, predictor: PlatformPredictor) -> None:
        graph = conv_net()
        kernels_ms = replace(predictor, network=CalibrationTerms()).predict(graph).latency_ms

        one = replace(predictor, network=CalibrationTerms(constant_ms=3.9 * kernels_ms)).predict(graph)

        assert one.coverage.share == pytest.approx(1.0)
        assert one.low_ms > 0.5 * one.latency_ms
        assert one.warnings == ()


def test_the_interval_of_kernels_without_a_predictor_is_as_wide_as_types_differ(predictor: PlatformPredictor) -> None:
    b = GraphBuilder("shrunk")
    graph = b.finish(b.resize(b.input((1, 512, 112, 112)), 448))

    one = replace(predictor, network=CalibrationTerms()).predict(graph)

    assert one.low_ms <= UNPREDICTED_LOW * one.latency_ms * 1.001
    assert one.high_ms >= UNPREDICTED_HIGH * one.latency_ms * 0.999


def test_the_interval_widens_with_the_distance_from_what_was_trained_on(predictor: PlatformPredictor) -> None:
    plain, most = replace(predictor, network=CalibrationTerms()), predictor.kernels["conv"].high.tolist()
    channels = most[kernel_type("conv").fields.index("out_channels")]

    def widths() -> Iterator[float]:
        for factor in (1, 3, 5, 8):
            b = GraphBuilder("wide")
            one = plain.predict(b.finish(b.conv(b.input((1, 64, 14, 14)), factor * channels, 1)))
            yield one.high_ms / one.low_ms

    trained, three, five, eight = widths()

    assert trained < three < five < eight
    assert eight >= 0.999 * UNPREDICTED_HIGH / UNPREDICTED_LOW


def with_activations(predictor: PlatformPredictor) -> PlatformPredictor:
    """The predictor, with one of activations that was trained on ReLU and on hard-swish."""
    codes = [ACTIVATIONS.index("relu"), ACTIVATIONS.index("hard_swish")]
    rows = np.array([[elements, 64, code, 0, 0, 0] for elements in (6272, 200704) for code in codes])
    seen = Seen.of("activation", rows)
    found = KernelPredictor("activation", "analytical", None, rows.min(axis=0), rows.max(axis=0), 4, seen)
    return replace(predictor, kernels={**predictor.kernels, "activation": found})


def leaky() -> Graph:
    """An activation between the two by its code."""
    b = GraphBuilder("leaky")
    return b.finish(b.op("LeakyRelu", [b.input((1, 64, 14, 14))])[0])


class TestWarnings:
    def test_a_network_inside_the_training_range_raises_none(
        self, predictor: PlatformPredictor, training_graphs: list[Graph]
    ) -> None:
        assert predictor.predict(training_graphs[0]).warnings == ()

    def test_a_size_somewhat_outside_the_range_is_named_with_the_range(self, predictor: PlatformPredictor) -> None:
        highest = int(predictor.kernels["conv"].high[kernel_type("conv").fields.index("in_channels")])

        b = GraphBuilder("wide")
        graph = b.finish(b.conv_bn(b.input((1, 2 * highest, 7, 7)), 32, 3))

        [note] = predictor.predict(graph).notes

        assert "% of the latency is outside the training range, by no more than a factor of 2: conv" in note
        assert f"(in_channels {2 * highest}, trained on" in note
        assert f"to {highest})" in note

    def test_a_size_far_outside_the_range_is_named_with_the_range(self, predictor: PlatformPredictor) -> None:
        highest = int(predictor.kernels["conv"].high[kernel_type("conv").fields.index("in_channels")])

        [warning] = predictor.predict(conv_net(channels=4 * highest)).warnings

        assert "% of the latency comes from kernels outside the training data: conv" in warning
        assert f"(in_channels {4 * highest}, trained on" in warning

    def test_outside_the_range_the_interval_is_wider(self, predictor: PlatformPredictor) -> None:
        inside = predictor.predict(build(model("mobilenet_v2")))
        outside = predictor.predict(conv_net(channels=8192, size=7))

        assert outside.high_ms / outside.low_ms > 1.2 * inside.high_ms / inside.low_ms

    def test_a_kernel_type_without_a_predictor_is_named_as_the_reason(self, predictor: PlatformPredictor) -> None:
        b = GraphBuilder("large resize")
        graph = b.finish(b.resize(b.input((1, 512, 112, 112)), 448))

        [warning] = predictor.predict(graph).warnings

        assert warning.startswith("98 % of the latency comes from kernels outside the training data: resize 98 % (no predictor)")

    def test_a_quantised_file_on_a_platform_of_real_numbers_is_remarked(self, predictor: PlatformPredictor) -> None:
        as_real, as_stored = (predictor.predict(replace(conv_net(), precision=precision)) for precision in ("fp32", "int8"))

        assert as_stored.warnings[0].startswith("the file is quantised to int8, the platform runs fp32; ")
        assert "'DEVICE int8'" in as_stored.warnings[0]
        assert as_stored.grade.why == "its file is of another precision"
        assert as_stored.grade.expected_error_pct > 2 * as_real.grade.expected_error_pct
        # It may run in int8: with a quarter of the bytes, at most four times as fast.
        assert (as_stored.low_ms, as_stored.high_ms) == pytest.approx((as_real.low_ms / 4, as_real.high_ms))

    def test_weights_of_four_bits_lower_the_bound_by_their_bytes(self, predictor: PlatformPredictor) -> None:
        b = GraphBuilder("linear")
        graph = b.finish(b.linear(b.input((1, 256)), 256, bias=False))
        [weight] = graph.weights
        packed = replace(graph, tensors={**graph.tensors, weight: Tensor(graph.shape(weight), "uint4")})

        as_real, as_stored = (predictor.predict(each) for each in (graph, packed))

        assert as_stored.warnings[0].startswith("the weights of the file are stored in 4 bits")
        # Half a byte in place of four.
        assert (as_stored.low_ms, as_stored.high_ms) == pytest.approx((as_real.low_ms / 8, as_real.high_ms), rel=1e-3)

    def test_a_weakness_on_the_card_is_repeated_where_the_prediction_is_not_good(self, predictor: PlatformPredictor) -> None:
        weak = predictor.with_card({"warning": "trained on 12 networks"})
        sure, unsure = (replace(weak, interval=Interval(low, 1 / low, 50)).predict(conv_net()) for low in (0.95, 0.5))

        assert (sure.grade.word, sure.warnings, sure.notes) == ("good", (), ("trained on 12 networks",))
        assert (unsure.grade.word, unsure.warnings) == ("rough", ("trained on 12 networks",))
        assert predictor.predict(conv_net()).warnings == ()


class TestFallback:
    """TFLite's GPU delegate takes no Erf and runs one partition: of three operators on either side, the first."""

    @staticmethod
    def graph() -> Graph:
        b = GraphBuilder("erf in the middle")
        (x,) = b.op("Erf", [b.conv_bn(b.input((1, 64, 28, 28)), 64, 3)])
        return b.finish(b.conv_bn(x, 64, 3))

    def test_is_a_warning_and_a_record_on_a_gpu(self, predictor: PlatformPredictor) -> None:
        one = replace(predictor, platform=Platform.parse("pixel4/tflite-2.10/gpu/fp32")).predict(self.graph())

        [warning] = [text for text in one.warnings if "on the CPU" in text]
        assert warning.startswith(
            "Erf runs on the CPU (4 of 7 operators, 3 of them only because they lie outside the GPU's partitions): 1 partition "
            "on the GPU, 1 crossing of 0.201 MB together, about 0.550 ms of the latency (an estimate)"
        )
        assert one.fallback is not None
        assert one.to_json()["delegate"]["on_cpu"] == ["Erf"]
        assert (one.fallback.partitions, one.fallback.operators_on_cpu, one.fallback.crossing_bytes) == (1, 4, 64 * 28 * 28 * 4)

    def test_kernels_that_fall_back_are_uncovered_whatever_was_trained_on(self, predictor: PlatformPredictor) -> None:
        one = replace(predictor, platform=Platform.parse("pixel4/tflite-2.10/gpu/fp32")).predict(self.graph())
        first, *_, last = one.kernels

        assert (first.kernel_type, first.covered) == ("conv", True)
        assert (last.kernel_type, last.covered) == ("conv", False)
        assert one.fallback is not None
        covered_ms = (
            sum(kernel.latency_ms for kernel in one.kernels if kernel.covered) + one.overhead_ms - one.fallback.crossing_ms
        )
        assert one.coverage.share == pytest.approx(covered_ms / one.latency_ms)
        assert {"Conv", "Erf"} <= set(one.coverage.uncovered)

    def test_adds_a_crossing_to_the_latency_and_to_both_bounds(self, predictor: PlatformPredictor) -> None:
        """A synchronisation of 0.5 ms, and 64 maps of 28 x 28 numbers of four bytes at 4 GB/s."""
        here = predictor.predict(self.graph())
        on_gpu = replace(predictor, platform=Platform.parse("pixel4/tflite-2.10/gpu/fp32")).predict(self.graph())
        crossing_ms = 0.5 + 64 * 28 * 28 * 4 / 4e6

        assert on_gpu.latency_ms == pytest.approx(here.latency_ms + crossing_ms)
        assert on_gpu.overhead_ms == pytest.approx(here.overhead_ms + crossing_ms)
        assert on_gpu.low_ms == pytest.approx(here.low_ms + crossing_ms / CROSSING_SPREAD)
        assert on_gpu.high_ms == pytest.approx(here.high_ms + crossing_ms * CROSSING_SPREAD)
        assert on_gpu.to_json()["delegate"]["crossing_ms"] == pytest.approx(crossing_ms)
        assert (here.overhead_name, on_gpu.overhead_name) == ("overhead", "overhead and crossings")

    def test_kernels_and_overhead_sum_to_the_latency(self, predictor: PlatformPredictor) -> None:
        one = replace(predictor, platform=Platform.parse("pixel4/tflite-2.10/gpu/fp32")).predict(self.graph())

        assert sum(kernel.latency_ms for kernel in one.kernels) + one.overhead_ms == pytest.approx(one.latency_ms)

    def test_nothing_is_covered_and_no_overhead_added_where_all_falls_back(self, predictor: PlatformPredictor) -> None:
        b = GraphBuilder("erf")
        graph = b.finish(*b.op("Erf", [b.input((1, 64, 28, 28))]))

        one = replace(predictor, platform=Platform.parse("pixel4/tflite-2.10/gpu/fp32")).predict(graph)

        assert (one.coverage.share, one.overhead_ms) == (0.0, 0.0)
        assert one.latency_ms == pytest.approx(one.kernels[0].latency_ms)
        assert one.low_ms <= UNPREDICTED_LOW * one.latency_ms
        assert "100 % of it runs on the CPU or crosses to it" in one.grade.in_words()

    def test_there_is_none_on_a_cpu(self, predictor: PlatformPredictor) -> None:
        one = predictor.predict(self.graph())

        assert one.fallback is None
        assert "delegate" not in one.to_json()

    def test_a_network_that_is_taken_whole_is_one_partition_without_a_warning(self, predictor: PlatformPredictor) -> None:
        one = replace(predictor, platform=Platform.parse("pixel4/tflite-2.10/gpu/fp32")).predict(conv_net())

        assert one.fallback is not None
        assert (one.fallback.partitions, one.fallback.operators_on_cpu) == (1, 0)
        assert one.warnings == predictor.predict(conv_net()).warnings
        assert one.latency_ms == predictor.predict(conv_net()).latency_ms


def test_an_assumed_gpu_widens_the_interval_and_is_said(predictor: PlatformPredictor, others: list[Graph]) -> None:
    told = predictor.predict(others[0])
    assumed = replace(predictor, rules=replace(predictor.rules, assumed="which GPU it has is not known")).predict(others[0])
    assert assumed.latency_ms == told.latency_ms
    assert assumed.low_ms == pytest.approx(told.low_ms / ASSUMED_SPREAD)
    assert assumed.high_ms == pytest.approx(told.high_ms * ASSUMED_SPREAD)
    assert "which GPU it has is not known" in assumed.warnings
