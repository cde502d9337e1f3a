"""Training samples from measurements."""

from __future__ import annotations

import pytest

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.kernels import find_kernels
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import load_rules
from latcast.kernels.search import kernel_of
from latcast.kernels.types import kernel_type
from latcast.records import ExecutedKernel, Measurement, Reference
from latcast.spaces.catalogue import build
from latcast.training.samples import (
    SCALE_LIMIT,
    KernelObservation,
    NetworkSample,
    ProfileOverheads,
    TrainingData,
    attribute_executed,
    collect,
    kernel_samples,
    profile_overheads,
    restrict,
)
from tests.predictors.made_up_platform import RULES

PLATFORM = "local/onnxruntime-1.31/cpu1/fp32"
NETWORK = Reference("example", {"depth": 2}, "two convolutions")
KERNEL = Reference("kernel/linear", {"rows": 1, "in_features": 8, "out_features": 4})


def two_convolutions() -> Graph:
    """conv_0, batchnormalization_0, relu_0, flatten_0 (a view), gemm_0."""
    b = GraphBuilder("two convolutions")
    x = b.conv_bn(b.input((1, 3, 8, 8)), 4, 3)
    return b.finish(b.linear(b.flatten(x), 5))


def residual() -> Graph:
    """conv_0 (the shortcut), conv_1, their sum add_0, relu_0."""
    b = GraphBuilder("residual")
    x = b.input((1, 4, 8, 8))
    shortcut = b.conv(x, 8, 1)
    return b.finish(b.relu(b.add(b.conv(x, 8, 3), shortcut)))


def executed(latency_ms: float, *nodes: str) -> ExecutedKernel:
    return ExecutedKernel("+".join(nodes) or "reorder", "kind", nodes, latency_ms)


def reordered(latency_ms: float) -> ExecutedKernel:
    return ExecutedKernel("reorder", "Reorder jit_uni_f32", (), latency_ms)


def measured(
    reference: Reference, latency_ms: float | None = 1.0, *kernels: ExecutedKernel, error: str | None = None
) -> Measurement:
    role = "kernel" if reference.space.startswith("kernel/") else "network"
    return Measurement(PLATFORM, reference, role, latency_ms=latency_ms, executed=kernels, error=error)


def build_example(reference: Reference) -> Graph:
    return two_convolutions() if reference.space == "example" else build(reference)


@pytest.fixture
def kernels() -> tuple[Kernel, ...]:
    return find_kernels(two_convolutions(), RULES)


def named(kernel: Kernel) -> dict[str, int]:
    return dict(zip(kernel_type(kernel.kernel_type).fields, kernel.configuration, strict=True))


def names(pairs: list[tuple[Kernel, float]]) -> dict[str, float]:
    return {kernel.name: latency_ms for kernel, latency_ms in pairs}


class TestAttribution:
    def test_several_executed_kernels_of_one_of_ours_add_up(self, kernels: tuple[Kernel, ...]) -> None:
        measurement = measured(NETWORK, 1.0, executed(0.5, "conv_0", "batchnormalization_0"), executed(0.25, "relu_0"))

        pairs, given, whole = attribute_executed(kernels, measurement)

        assert names(pairs) == {"conv_0": 0.75}
        assert (given, whole) == (0.75, 0.75)

    def test_a_kernel_spanning_two_gives_a_sample_of_neither(self, kernels: tuple[Kernel, ...]) -> None:
        measurement = measured(NETWORK, 1.0, executed(0.5, "relu_0", "gemm_0"), executed(0.25, "conv_0"))

        pairs, given, whole = attribute_executed(kernels, measurement)

        assert pairs == []
        assert (given, whole) == (0.0, 0.75)

    def test_a_kernel_spanning_two_is_a_sample_of_itself(self) -> None:
        """The runtime fused the sum into the shortcut, the rules into the branch: the time of neither is lost."""
        graph = residual()
        kernels = find_kernels(graph, RULES)
        assert [kernel.nodes for kernel in kernels] == [("conv_0",), ("conv_1", "add_0", "relu_0")]
        measurement = measured(NETWORK, 1.0, executed(0.5, "conv_1"), executed(0.25, "conv_0", "add_0", "relu_0"))

        pairs, given, whole = attribute_executed(kernels, measurement, lambda nodes: kernel_of(graph, RULES, nodes))

        assert sorted((kernel.nodes, latency_ms) for kernel, latency_ms in pairs) == [
            (("conv_0", "add_0", "relu_0"), 0.25), (("conv_1",), 0.5),
        ]  # fmt: skip
        fused = {kernel.nodes[0]: named(kernel)["fused_inputs"] for kernel, _ in pairs}
        assert fused == {"conv_0": 1, "conv_1": 0}
        assert (given, whole) == (0.75, 0.75)

    def test_a_kernel_spanning_two_products_gives_no_sample(self, kernels: tuple[Kernel, ...]) -> None:
        graph = two_convolutions()
        measurement = measured(NETWORK, 1.0, executed(0.5, "conv_0", "gemm_0"), executed(0.25, "relu_0"))

        pairs, _, _ = attribute_executed(kernels, measurement, lambda nodes: kernel_of(graph, RULES, nodes))

        assert [kernel.nodes for kernel, _ in pairs] == [("relu_0",)]

    def test_a_view_inside_an_executed_kernel_does_not_spoil_it(self, kernels: tuple[Kernel, ...]) -> None:
        pairs, _, _ = attribute_executed(kernels, measured(NETWORK, 1.0, executed(0.5, "flatten_0", "gemm_0")))

        assert names(pairs) == {"gemm_0": 0.5}

    def test_a_kernel_inserted_by_the_runtime_is_charged_to_the_next(self, kernels: tuple[Kernel, ...]) -> None:
        measurement = measured(NETWORK, 1.0, executed(0.5, "gemm_0"), executed(0.1), executed(0.2, "unknown"))

        pairs, given, whole = attribute_executed(kernels, measurement)

        assert names(pairs) == {"gemm_0": 0.5}
        assert (given, whole) == (0.5, pytest.approx(0.8))

    def test_a_quantisation_belongs_to_the_kernel_before_it(self, kernels: tuple[Kernel, ...]) -> None:
        quantised = ExecutedKernel("relu_0_quantized", "QuantizeLinear", (), 0.25)
        first = "conv_0", "batchnormalization_0", "relu_0"
        measurement = measured(NETWORK, 1.0, executed(1.0, *first), quantised, executed(0.125), executed(0.5, "gemm_0"))

        pairs, given, whole = attribute_executed(kernels, measurement)

        # 1 + 1/4 before, and 1/8 + 1/2 behind.
        assert [latency_ms for _, latency_ms in pairs] == [1.25, 0.625]
        assert given == whole == 1.875

    def test_a_quantisation_of_the_input_belongs_to_the_first_kernel(self, kernels: tuple[Kernel, ...]) -> None:
        quantised = ExecutedKernel("input_QuantizeLinear", "QuantizeLinear", (), 0.25)
        measurement = measured(NETWORK, 1.0, quantised, executed(0.5, "gemm_0"))

        pairs, _, _ = attribute_executed(kernels, measurement)

        assert names(pairs) == {"gemm_0": 0.75}


class TestReorders:
    """Image in, convolution, rows of channels, linear: two reorders by OpenVINO's rules."""

    @pytest.fixture
    def kernels(self) -> tuple[Kernel, ...]:
        b = GraphBuilder("rows")
        rows = b.reshape(b.conv(b.input((1, 4, 4, 4)), 8, 1), (1, 8, 16))
        return find_kernels(b.finish(b.linear(rows, 4)), load_rules("openvino"))

    def test_what_reorders_took_is_given_to_those_of_the_rules(self, kernels: tuple[Kernel, ...]) -> None:
        measurement = measured(
            NETWORK, 1.0, reordered(0.1), executed(0.5, "conv_0"), reordered(0.2), executed(0.3, "matmul_0")
        )  # fmt: skip

        pairs, given, whole = attribute_executed(kernels, measurement)

        assert {kernel.kernel_type: latency_ms for kernel, latency_ms in pairs} == {
            "transpose.to_channels_last": 0.1, "conv": 0.5, "transpose.to_channels_first": 0.2, "linear": 0.3,
        }  # fmt: skip
        assert (given, whole) == (pytest.approx(1.1), pytest.approx(1.1))

    def test_one_that_the_rules_do_not_have_is_charged_to_the_kernel_behind_it(self, kernels: tuple[Kernel, ...]) -> None:
        computing = tuple(kernel for kernel in kernels if kernel.nodes)
        measurement = measured(NETWORK, 1.0, executed(0.5, "conv_0"), reordered(0.2), executed(0.3, "matmul_0"))

        pairs, _, _ = attribute_executed(computing, measurement)

        assert names(pairs) == {"conv_0": 0.5, "matmul_0": 0.5}

    def test_a_reorder_that_did_not_run_gives_no_sample(self, kernels: tuple[Kernel, ...]) -> None:
        measurement = measured(NETWORK, 1.0, executed(0.5, "conv_0"), reordered(0.2), executed(0.3, "matmul_0"))

        pairs, _, _ = attribute_executed(kernels, measurement)

        assert {kernel.kernel_type for kernel, _ in pairs} == {"conv", "transpose.to_channels_first", "linear"}

    @pytest.mark.parametrize(("before_first", "expected"), [(0.0, 0.25), (0.125, 0.375)])
    def test_one_before_a_later_part_of_a_kernel_is_that_of_the_rules_too(self, before_first: float, expected: float) -> None:
        """The runtime runs the sum apart from its convolution, and lays its other side out just before it."""
        b = GraphBuilder("residual")
        x = b.conv(b.input((1, 4, 4, 4)), 8, 1)
        kernels = find_kernels(b.finish(b.add(b.conv(x, 8, 1), b.softmax(x, axis=1))), load_rules("openvino"))
        [reorder] = [kernel for kernel in kernels if kernel.name == "add_0" and not kernel.nodes][:1]
        parts = (reordered(before_first), executed(1.0, "conv_1"), reordered(0.25), executed(0.5, "add_0"))
        measurement = measured(NETWORK, 3.0, executed(0.5, "conv_0"), executed(0.5, "softmax_0"), *parts)

        pairs, _, _ = attribute_executed(kernels, measurement)

        taken = {kernel.nodes or kernel.name: latency_ms for kernel, latency_ms in pairs}
        assert taken == {("conv_0",): 0.5, ("softmax_0",): 0.5, ("conv_1", "add_0"): 1.5, "add_0": expected}
        assert (reorder, expected) in pairs

    def test_one_for_two_kernels_runs_before_whichever_the_runtime_has_first(self) -> None:
        b = GraphBuilder("two readers")
        x = b.conv(b.input((1, 4, 4, 4)), 8, 1)
        kernels = find_kernels(b.finish(b.add(b.softmax(x, axis=1), b.softmax(x, axis=3))), load_rules("openvino"))
        measurement = measured(
            NETWORK, 1.0, executed(0.5, "conv_0"), reordered(0.25), executed(0.125, "softmax_1"), executed(0.125, "softmax_0")
        )

        pairs, _, _ = attribute_executed(kernels, measurement)

        [(reorder, latency_ms)] = [(kernel, latency_ms) for kernel, latency_ms in pairs if not kernel.nodes]
        assert (reorder.name, latency_ms) == ("softmax_0", 0.25)

    def test_one_of_an_output_is_executed_behind_what_makes_it(self) -> None:
        b = GraphBuilder("two ends")
        x = b.conv(b.input((1, 3, 4, 4)), 8, 1)
        kernels = find_kernels(b.finish(b.conv(x, 4, 1), b.conv(x, 2, 1)), load_rules("openvino"))
        parts = (executed(0.5, "conv_1"), reordered(0.25), executed(0.5, "conv_2"), reordered(0.125))

        pairs, given, whole = attribute_executed(kernels, measured(NETWORK, 2.0, executed(0.5, "conv_0"), *parts))

        taken = {kernel.nodes or kernel.name: latency_ms for kernel, latency_ms in pairs}
        assert taken == {("conv_0",): 0.5, ("conv_1",): 0.5, "conv_1": 0.25, ("conv_2",): 0.5, "conv_2": 0.125}
        assert given == whole

    def test_several_share_by_their_elements_what_was_spent_before_one_kernel(self) -> None:
        b = GraphBuilder("sum")
        x = b.relu(b.conv(b.input((1, 4, 4, 4)), 8, 1))
        wide, narrow = b.reshape(x, (1, 8, 16)), b.reshape(b.conv(x, 4, 1), (1, 4, 16))
        kernels = find_kernels(b.finish(b.concat([wide, narrow], axis=1)), load_rules("openvino"))
        measurement = measured(
            NETWORK, 1.0, executed(0.5, "conv_0", "relu_0", "conv_1"), reordered(0.3), executed(0.1, "concat_0")
        )

        pairs, _, _ = attribute_executed(kernels, measurement)

        shared = {kernel.configuration[0]: latency_ms for kernel, latency_ms in pairs if not kernel.nodes}
        assert shared == {128: pytest.approx(0.2), 64: pytest.approx(0.1)}


class TestCollecting:
    def test_measurements_become_kernels_networks_and_skipped_ones(self) -> None:
        data = collect(
            [
                measured(KERNEL, 0.01),
                measured(NETWORK, 2.0, executed(1.0, "conv_0", "batchnormalization_0", "relu_0"), executed(0.25)),
                measured(NETWORK, 4.0),
                measured(NETWORK, 9.0),
                measured(Reference("example", {"depth": 3}, "broken"), None, error="out of memory"),
            ],
            RULES,
            build_example,
        )

        assert [(o.kernel.kernel_type, o.latency_ms) for o in data.isolated] == [("linear", 0.01)]
        # The profiler saw 1.25 ms of a network that took 2.0 without it.
        assert [(o.kernel.name, o.latency_ms, o.network) for o in data.profiled] == [("conv_0", 1.6, NETWORK.key)]
        assert [(n.reference.name, n.latency_ms, n.family) for n in data.networks] == [("two convolutions", 4.0, "example")]
        assert data.skipped == ("broken: out of memory",)

    def test_a_segment_is_known_by_the_kernels_that_do_not_read_its_input(self) -> None:
        """Of 3 ms without the profiler, 2 with it, 1.5 were the change of layout and the convolution at the segment's input."""
        segment = Reference("published_segments", {"nodes": 4}, "segment")
        first = executed(1.2, "conv_0", "batchnormalization_0", "relu_0")
        measurement = measured(segment, 3.0, executed(0.3), first, executed(0.5, "gemm_0"))

        data = collect([measurement], RULES, lambda reference: two_convolutions())

        assert [(o.kernel.name, o.latency_ms) for o in data.profiled] == [("gemm_0", pytest.approx(0.75))]
        assert [[kernel.name for kernel in n.kernels] for n in data.networks] == [["gemm_0"]]
        assert [(n.latency_ms, n.whole) for n in data.networks] == [(pytest.approx(0.75), False)]

    def test_profiled_kernels_add_up_to_what_their_network_took(self) -> None:
        """The profiler costs a quarter in the first network; in the second it saw another state of the host."""
        whole = executed(1.25, "conv_0", "batchnormalization_0", "relu_0")
        odd = executed(1.8, "conv_0", "batchnormalization_0", "relu_0")
        second = Reference("example", {"depth": 3}, "second")

        data = collect([measured(NETWORK, 1.0, whole), measured(second, 1.0, odd)], RULES, build_example)

        assert [observation.latency_ms for observation in data.profiled] == pytest.approx([1.0, 1.0])
        assert data.scaled
        assert restrict(data, lambda sample: sample.reference is NETWORK).scaled

    def test_without_a_profiler_nothing_is_scaled(self) -> None:
        assert not collect([measured(NETWORK, 1.0)], RULES, build_example).scaled

    def test_a_profile_out_of_all_proportion_is_scaled_by_the_limit_only(self) -> None:
        absurd = executed(5.0, "conv_0", "batchnormalization_0", "relu_0")

        (observation,) = collect([measured(NETWORK, 1.0, absurd)], RULES, build_example).profiled

        assert observation.latency_ms == pytest.approx(5.0 / SCALE_LIMIT)

    def test_a_kernel_that_the_rules_split_is_no_sample_of_one(self) -> None:
        two = Reference("kernel/concat", {"inputs": 2, "elements": 64, "run": 32, "channels": 4, "fused_flops": 5})

        data = collect([measured(two, 0.01)], RULES, build_example)

        assert data.isolated == ()

    def test_the_same_configuration_is_one_sample_its_median(self, kernels: tuple[Kernel, ...]) -> None:
        conv, _, gemm = kernels
        observations = [
            KernelObservation(conv, 1.0, "net a"),
            KernelObservation(gemm, 9.0, "net b"),
            KernelObservation(conv, 5.0, "net b"),
            KernelObservation(conv, 2.0),
        ]

        found = kernel_samples(observations)

        assert found["conv"].latency_ms.tolist() == [2.0]
        assert found["conv"].configurations.tolist() == [list(conv.configuration)]
        assert found["linear"].latency_ms.tolist() == [9.0]

    def test_a_kernel_of_a_cold_and_of_a_warm_network_is_two_samples(self, kernels: tuple[Kernel, ...]) -> None:
        observations = [KernelObservation(kernels[0], took, network) for took, network in ((3.0, "a"), (1.0, "b"), (2.0, "c"))]

        found = kernel_samples(observations, {"a": 0.9, "b": 0.10, "c": 0.11})["conv"]

        assert (found.latency_ms.tolist(), found.coldness.tolist()) == ([3.0, 1.5], [0.9, pytest.approx(0.105)])
        assert kernel_samples(observations)["conv"].coldness.tolist() == [1.0]

    def test_leaving_a_network_out_leaves_out_what_was_profiled_in_it(self) -> None:
        other = Reference("example", {"depth": 3}, "other")
        whole = executed(1.0, "conv_0", "batchnormalization_0", "relu_0")
        data = collect([measured(KERNEL), measured(NETWORK, 1.0, whole), measured(other, 2.0, whole)], RULES, build_example)

        rest = restrict(data, lambda sample: sample.reference.name != "other")

        assert [sample.reference.name for sample in rest.networks] == ["two convolutions"]
        assert [observation.network for observation in rest.profiled] == [NETWORK.key]
        assert rest.isolated == data.isolated

    def test_leaving_a_network_out_leaves_out_its_kernels_timed_alone_unless_a_kept_one_has_them(self) -> None:
        def conv(channels: int) -> Kernel:
            return Kernel("conv", (channels,), "conv", (), ())

        kept = NetworkSample(NETWORK, (conv(8), conv(16)), 1.0)
        refused = NetworkSample(Reference("example", {"depth": 3}, "other"), (conv(16), conv(32)), 1.0)
        # 64 channels are of neither: drawn from a space of configurations.
        alone = tuple(KernelObservation(conv(channels), 1.0) for channels in (8, 16, 32, 64))

        rest = restrict(TrainingData(isolated=alone, networks=(kept, refused)), lambda sample: sample is kept)

        assert [each.kernel.configuration for each in rest.isolated] == [(8,), (16,), (64,)]


class TestProfilerOverhead:
    def profiled(self, count: int, kernel_ms: float, added_ms: float, factor: float = 1.0) -> Measurement:
        """A network of equal kernels, whose profiler adds a constant to each and ran while the host was slower by a factor."""
        kernels = [executed(factor * kernel_ms + added_ms, f"conv_{index}") for index in range(count)]
        return measured(NETWORK, count * kernel_ms, *kernels)

    def test_what_is_added_to_each_kernel_is_found_from_networks_of_small_and_large_kernels(self) -> None:
        networks = [self.profiled(20, 0.005 * 2**size, 0.003) for size in range(10)]

        assert profile_overheads(networks).profiler_ms == pytest.approx(0.003)
        assert profile_overheads(networks).constant_ms == 0.0

    def test_a_slower_host_gives_no_overhead(self) -> None:
        networks = [self.profiled(20, 0.005 * 2**size, 0.0, factor=1.3) for size in range(10)]

        assert profile_overheads(networks) == ProfileOverheads(0.0, 0.0, pytest.approx(1 / 1.3))

    def test_implausible_profiles_do_not_change_the_overhead(self) -> None:
        """Of thirteen networks three have 20 kernels of 8 µs, and took a hundredth of what these add up to."""
        networks = [self.profiled(20, 0.005 * 2**size, 0.003) for size in range(10)]
        wild = measured(NETWORK, 0.0016, *(executed(0.008, f"conv_{index}") for index in range(20)))

        assert profile_overheads([*networks, wild, wild, wild]).profiler_ms == pytest.approx(0.003)

    def test_few_networks_give_no_overhead(self) -> None:
        assert profile_overheads([self.profiled(20, 0.005, 0.003)] * 9) == ProfileOverheads()

    def test_what_a_gpu_takes_beside_its_kernels_is_found_from_short_and_long_networks(self) -> None:
        # Twenty kernels of 0.01 to 5.12 ms, and 0.2 ms for the network: the shortest takes 0.4 ms, half of it beside its kernels.
        networks = []
        for size in range(10):
            kernels = [executed(0.01 * 2**size, f"conv_{index}") for index in range(20)]
            networks.append(measured(NETWORK, 20 * 0.01 * 2**size + 0.2, *kernels))

        found = profile_overheads(networks)

        assert found == ProfileOverheads(0.0, pytest.approx(0.2), pytest.approx(1.0))
        assert found.scale(latency_ms=0.4, kernels_ms=0.1) == pytest.approx(1.0)  # three quarters of it were not recorded

    def test_without_a_constant_kernels_add_up_to_their_network(self) -> None:
        assert ProfileOverheads(0.001, 0.0, 1.3).scale(latency_ms=3.0, kernels_ms=2.0) == pytest.approx(1.5)
        assert ProfileOverheads().scale(latency_ms=9.0, kernels_ms=2.0) == 2.0  # no more than that
        assert ProfileOverheads().scale(latency_ms=9.0, kernels_ms=0.0) == 1.0

    def test_it_is_taken_off_before_kernels_are_scaled_to_their_network(self) -> None:
        # Ten networks, the convolution 0.01 to 5.12 ms and the linear layer 0.04 ms, 4 µs added to each.
        networks = []
        for size in range(10):
            reference = Reference("example", {"depth": size}, "two convolutions")
            convolution, linear = 0.01 * 2**size, 0.04
            kernels = (executed(convolution + 0.004, "conv_0"), executed(linear + 0.004, "gemm_0"))
            networks.append(measured(reference, convolution + linear, *kernels))

        found = collect(networks, RULES, build_example).profiled

        smallest = [observation.latency_ms for observation in found[:2]]
        assert smallest == pytest.approx([0.01, 0.04], rel=1e-3)
