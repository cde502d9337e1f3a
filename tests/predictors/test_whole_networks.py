"""Kernels learned from the latencies of whole networks, where the truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.kernels import KernelTable, find_kernels, kernel_type
from latcast.kernels.kernel import Kernel
from latcast.predictors.analytical import LOOPS, TERMS, term_values, throughputs
from latcast.predictors.network_priors import network_term_names, prior_coefficients, smooth_deviations
from latcast.predictors.network_terms import NetworkTerms, size_covariance
from latcast.predictors.whole_networks import WholeNetworkFit, fit_whole_networks, predictor_parts
from latcast.records import Platform
from latcast.spaces.catalogue import SPACES, build
from tests.predictors.made_up_platform import RULES

PLATFORM = Platform.parse("phone/tflite-2.10/1large/fp32")

COUNTS = {"mobilenet_v2": 14, "resnet": 14, "squeezenet": 8, "shufflenet_v2": 8, "vgg": 6}


def true_ms(name: str, rows: np.ndarray) -> np.ndarray:
    """20 GFLOP/s and 8 GB/s, depthwise three times as slow, and bent by up to a fifth with the number of output channels."""
    kind = kernel_type(name)
    columns = kind.columns(rows)
    values = term_values(kind, rows)
    slow = 3.0 if name == "depthwise_conv" else 1.0
    bend = np.exp(0.2 * np.sin(np.log2(columns["out_channels"]))) if "out_channels" in columns else 1.0
    return np.asarray(bend * (values @ np.array([slow * 5e-8, 5e-7, 5e-7, 3e-3])))


@pytest.fixture(scope="module")
def networks() -> list[tuple[Kernel, ...]]:
    return [
        find_kernels(build(reference), RULES)
        for space, count in COUNTS.items()
        for reference in SPACES.get(space).sample(count, seed=5)
    ]


@pytest.fixture(scope="module")
def latency_ms(networks: list[tuple[Kernel, ...]]) -> np.ndarray:
    table = KernelTable.of(networks)
    estimates = np.concatenate([true_ms(name, rows) for name, rows in table.configurations.items()])
    return table.sum_by_network(estimates) + 0.3


def log_factors(learned: WholeNetworkFit, terms: NetworkTerms) -> np.ndarray:
    """Logarithm of the factor of each distinct kernel, (kernels,); 0 for types that nothing is known of."""
    found = np.zeros(len(terms.values))
    for kernels in terms.types:
        if kernels.name in learned.factors:
            found[kernels.rows] = learned.factors[kernels.name].log_factor(kernels.sizes)
    return found


def test_networks_left_out_are_predicted(networks: list[tuple[Kernel, ...]], latency_ms: np.ndarray) -> None:
    terms = NetworkTerms.of(networks)
    test = np.arange(len(networks)) % 4 == 0

    learned = fit_whole_networks(replace(terms, counts=terms.counts[np.flatnonzero(~test)]), latency_ms[~test], PLATFORM)
    coefficients = np.concatenate([learned.coefficients[name] for name in terms.classes])
    predicted = terms.counts @ (terms.kernel_latency_ms(coefficients) * np.exp(log_factors(learned, terms))) + learned.overhead_ms

    error = np.abs(predicted[test] / latency_ms[test] - 1)
    assert error.mean() < 0.05
    # The factors learn what the analytical terms cannot say.
    plain = terms.counts @ terms.kernel_latency_ms(coefficients) + learned.overhead_ms
    assert error.mean() < 0.8 * np.abs(plain[test] / latency_ms[test] - 1).mean()


def test_two_networks_measured_six_times_too_long_do_not_spoil_the_others(
    networks: list[tuple[Kernel, ...]], latency_ms: np.ndarray
) -> None:
    terms = NetworkTerms.of(networks)
    test = np.arange(len(networks)) % 4 == 0
    measured = latency_ms[~test].copy()
    measured[[5, 20]] *= 6

    learned = fit_whole_networks(replace(terms, counts=terms.counts[np.flatnonzero(~test)]), measured, PLATFORM)

    coefficients = np.concatenate([learned.coefficients[name] for name in terms.classes])
    predicted = terms.counts @ (terms.kernel_latency_ms(coefficients) * np.exp(log_factors(learned, terms))) + learned.overhead_ms
    # 17 % where the squares of all errors count.
    assert np.abs(predicted[test] / latency_ms[test] - 1).mean() < 0.09


def test_the_parts_of_a_predictor_price_kernels_alike(networks: list[tuple[Kernel, ...]], latency_ms: np.ndarray) -> None:
    terms = NetworkTerms.of(networks)
    learned = fit_whole_networks(terms, latency_ms, PLATFORM)
    analytical, kernels, network = predictor_parts(learned, terms)

    table = KernelTable.of(networks)
    estimated = np.concatenate([kernels[name].latency_ms(analytical, rows) for name, rows in table.configurations.items()])

    coefficients = np.concatenate([learned.coefficients[name] for name in terms.classes])
    expected = terms.kernel_latency_ms(coefficients) * np.exp(log_factors(learned, terms))
    np.testing.assert_allclose(estimated, expected, rtol=1e-9, atol=2e-7)
    assert network.constant_ms == learned.overhead_ms
    assert all(predictor.samples == 0 for predictor in kernels.values())


def test_terms_of_networks_add_up_by_class(networks: list[tuple[Kernel, ...]]) -> None:
    terms = NetworkTerms.of(networks[:3])

    sums = terms.class_sums[:, :-1].reshape(3, len(terms.classes), 4)

    for row, kernels in zip(sums, networks[:3], strict=True):
        busy = [kernel for kernel in kernels if not kernel.free]
        flops = sum(
            float(term_values(kernel_type(kernel.kernel_type), np.array([kernel.configuration]))[0, 0]) for kernel in busy
        )
        assert row[:, 0].sum() == pytest.approx(flops)
        assert row[:, 3].sum() == len(busy)


def test_networks_of_cpus_teach_what_an_inner_loop_costs() -> None:
    """A reference kernel of grouped convolutions: 4 ns an inner loop and 0.4 ns a FLOP; 1x1 convolutions at 0.05 ns a FLOP."""
    platform = Platform.parse("pixel4/tflite-2.10/1large/fp32")
    names, networks, latency_ms = network_term_names(platform), [], []
    for index in range(40):
        channels, groups, side = (32, 64, 128)[index % 3], (2, 4, 8, 16)[index % 4], (7, 14, 28, 56)[index % 5 % 4]
        grouped = (1, channels, side, side, channels, side, side, 3, 3, 1, 1, 1, 1, groups, 1, 0, 0, 0)
        plain = (1, channels, side, side, 2 * channels, side, side, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
        networks.append([Kernel("grouped_conv", grouped, "a", ("a",), ("Conv",)), Kernel("conv", plain, "b", ("b",), ("Conv",))])
        results = channels * side**2
        latency_ms.append(4e-6 * 9 * results + 4e-7 * 18 * channels / groups * results + 5e-8 * 4 * channels * results + 0.1)

    analytical = predictor_parts(
        fit_whole_networks(NetworkTerms.of(networks, names), np.array(latency_ms), platform), NetworkTerms.of(networks, names)
    )[0]

    assert LOOPS in analytical.terms
    # Groups of 32 channels, of which no network has any: 4 ns of a loop are spread over 64 FLOPs.
    wide = np.array([[1, 64, 28, 28, 64, 28, 28, 3, 3, 1, 1, 1, 1, 2, 1, 0, 0, 0]])
    true_ms = 9 * 64 * 784 * (4e-6 + 64 * 4e-7)
    assert analytical.latency_ms(kernel_type("grouped_conv"), wide)[0] == pytest.approx(true_ms, rel=0.15)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_groups_of_one_channel_teach_tflites_price_of_wider_ones(precision: str) -> None:
    """TFLite's one routine for groups, three times as slow against 1x1 convolutions as the prior has it."""
    platform = Platform.parse(f"phone/tflite-2.10/1large/{precision}")
    names, classes = network_term_names(platform), ["conv 1x1", "conv grouped", "conv grouped single"]
    prior, _ = prior_coefficients(platform, classes, names)
    plain, wide, single = prior[:-1].reshape(3, len(names))
    networks = [
        [
            one_kernel("grouped_conv", (1, width, side, side, width, side, side, 3, 3, 1, 1, 1, 1, width, 1, 0, 0, 0)),
            *[pointwise(width, side)] * count,
        ]
        for width in (32, 64, 128) for side in (7, 14, 28, 56) for count in (4, 16, 64)
    ]  # fmt: skip
    terms = NetworkTerms.of(networks, names)
    latency_ms = 0.1 + terms.counts @ (terms.values * np.where(terms.class_of[:, None] == 0, plain, 3 * single)).sum(axis=1)

    learned = fit_whole_networks(terms, latency_ms, platform).coefficients

    shared = [0, names.index(LOOPS)]
    slow = learned["conv grouped"][shared] / wide[shared]
    np.testing.assert_allclose(slow, learned["conv grouped single"][shared] / single[shared])
    assert slow[0] == pytest.approx(slow[1])
    assert slow[0] / (learned["conv 1x1"][0] / plain[0]) == pytest.approx(3, rel=0.2)


def test_networks_of_gpus_teach_no_loops() -> None:
    assert network_term_names(Platform.parse("iphonexs/pytorch-2.0/gpu/fp16")) == TERMS


@pytest.mark.parametrize(
    ("platform", "times"),
    [
        ("phone/pytorch-2.0/1large/fp32", 8), ("phone/tflite-2.10/1large/fp32", 1), ("iphonexs/pytorch-2.0/1large/int8", 8),
        ("pixel4/pytorch-2.0/1large/int8", 32 / 3), ("pixel4/pytorch-2.0/1small/int8", 24),
    ],
)  # fmt: skip
def test_depthwise_filters_of_more_than_25_taps_are_dearer_a_flop_where_a_channel_is_a_product(
    platform: str, times: float
) -> None:
    prior, _ = prior_coefficients(Platform.parse(platform), ["depthwise", "depthwise wide"])

    assert prior[len(TERMS)] / prior[0] == pytest.approx(times)


def test_kernels_of_one_stride_share_no_factor_beyond_that_of_close_sizes() -> None:
    """Two 1x1 convolutions at stride 1, of 8 and 1,024 channels, 3.5 lengths apart in each of two sizes."""
    covariance = size_covariance(kernel_type("conv"))

    near, far = covariance.between(np.array([[8.0, 8, 49, 1, 1]]), np.array([[8.0, 8, 49, 1, 1], [1024, 1024, 49, 1, 1]]))[0]

    assert far < 1e-4 * near


def test_types_that_are_not_bent_share_a_factor_among_the_same_sizes_alone() -> None:
    layers = [one_kernel("linear", (rows, 64, 256, 0, 0, 0)) for rows in (49, 50)]

    bent, unbent = (
        NetworkTerms.of([layers], smooth=smooth_deviations(Platform.parse(f"phone/{name}"))).types[0].covariance
        for name in ("pytorch-2.0/1small/fp32", "pytorch-2.0/1small/int8")
    )

    assert bent[0, 1] > 0.8 * bent[0, 0]
    assert unbent[0, 1] == 0 < unbent[0, 0]


def test_what_no_network_shows_to_cost_anything_keeps_a_tenth_of_its_prior(networks: list[tuple[Kernel, ...]]) -> None:
    table = KernelTable.of(networks)
    estimates = [(0.0 if name == "depthwise_conv" else 1.0) * true_ms(name, rows) for name, rows in table.configurations.items()]
    terms = NetworkTerms.of(networks)

    learned = fit_whole_networks(terms, table.sum_by_network(np.concatenate(estimates)) + 0.3, PLATFORM)

    # All of the prior at one level, as the general prior is no device's own.
    prior, _ = prior_coefficients(PLATFORM, list(terms.classes))
    shares = np.concatenate([learned.coefficients[name] for name in terms.classes]) / prior[:-1]
    level = shares.min() / 0.1
    assert shares.min() > 0
    assert learned.coefficients["depthwise"][0] == pytest.approx(0.1 * level * prior[4 * terms.classes.index("depthwise")])


def test_learning_leaves_the_terms_as_they_were(networks: list[tuple[Kernel, ...]], latency_ms: np.ndarray) -> None:
    terms = NetworkTerms.of(networks)
    before = terms.counts.toarray()

    fit_whole_networks(terms, latency_ms, PLATFORM)

    np.testing.assert_array_equal(terms.counts.toarray(), before)


def test_tflite_runs_groups_on_one_core_however_many_there_are() -> None:
    one, four = (
        prior_coefficients(Platform.parse(f"phone/tflite-2.10/{cores}/int8"), ["conv grouped", "conv kxk"], (*TERMS, LOOPS))[0]
        for cores in ("1small", "4small")
    )

    # FLOPs and loops of the groups; those of dense convolutions, and all else, are the same part of the level.
    assert (four / one).tolist() == pytest.approx([4, 1, 1, 1, 4, 1, 1, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("runtime", "slow", "times", "woken"), [("tflite-2.10", "concat", 4, 1), ("pytorch-2.0", "depthwise wide", 2, 4)]
)  # fmt: skip
def test_what_threads_do_not_share_is_dearer_beside_what_they_do(runtime: str, slow: str, times: int, woken: int) -> None:
    one, four = (
        prior_coefficients(Platform.parse(f"phone/{runtime}/{cores}/int8"), [slow, "conv 1x1"])[0]
        for cores in ("1small", "4small")
    )

    # FLOPs, elements, weights, and the start of a kernel, for which QNNPACK wakes all threads.
    expected = [*[times] * 3, times * woken, *[1] * 3, woken, 1]
    assert (four / one).tolist() == pytest.approx(expected)


def test_exponentials_one_after_another_lose_more_on_cores_that_do_more_at_once() -> None:
    in_order, other = (
        prior_coefficients(Platform.parse(f"pixel4/pytorch-2.0/{cores}/fp32"), ["conv 1x1", "softmax"])[0]
        for cores in ("1small", "1large")
    )

    assert in_order[0] == other[0] < in_order[len(TERMS)] < other[len(TERMS)]


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_products_that_pytorch_gives_to_one_thread_are_learned_from_those_that_threads_share(precision: str) -> None:
    """Products of 0.1 ns a FLOP and thread, beside 1x1 convolutions of half of that."""
    platform = Platform.parse(f"phone/pytorch-2.0/4small/{precision}")
    networks = [
        [one_kernel("matmul", (12, 49, inner, columns, 0, 0, 0)), pointwise(width, side)]
        for inner in (32, 64) for columns in (49, 197) for width in (32, 64, 128) for side in (7, 14, 28)
    ]  # fmt: skip
    terms = NetworkTerms.of(networks, network_term_names(platform))
    price = np.where(np.array(terms.classes)[terms.class_of] == "matmul", 1e-7, 5e-8) / 4
    latency_ms = 0.05 + terms.counts @ (terms.values[:, 0] * price)

    fit = fit_whole_networks(terms, latency_ms, platform)
    learned = fit.coefficients

    in_turn = terms.terms.index("flops_in_turn_of_4")
    assert learned["matmul"][in_turn] > 0 == learned["matmul"][0]
    assert learned["conv 1x1"][0] > 0 == learned["conv 1x1"][in_turn]
    assert learned["einsum"].tolist() == pytest.approx(learned["matmul"].tolist())
    rates = {found.kernel_class: found.gflop_per_s for found in throughputs(predictor_parts(fit, terms)[0], precision)}
    assert [rates["matmul"], rates["einsum"]] == pytest.approx([1e-6 / learned["matmul"][in_turn]] * 2)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_groups_that_no_network_had_take_what_the_clock_of_the_core_says(precision: str) -> None:
    """Small cores of one design run at 1.78 GHz in Pixel 4, at 1.95 in Galaxy S10; four compute all else 2.5 times as fast."""
    names = network_term_names(Platform.parse(f"pixel4/tflite-2.10/1small/{precision}"))
    terms = NetworkTerms.of([[pointwise(width, side)] for width in (32, 64, 128, 256) for side in (7, 14, 28)], names)
    latency_ms = 0.1 + 3e-8 * terms.values[terms.counts.indices, 0]

    one, four, other, wide, narrow = (
        fit_whole_networks(terms, latency_ms / faster, Platform.parse(f"{cores}/{precision}")).coefficients
        for cores, faster in (
            ("pixel4/tflite-2.10/1small", 1), ("pixel4/tflite-2.10/4small", 2.5), ("s10/tflite-2.10/1small", 1),
            ("pixel4/tflite-2.10/1med", 1), ("s10/tflite-2.10/1med", 1),
        )
    )  # fmt: skip

    shared = [0, names.index(LOOPS)]
    np.testing.assert_allclose(four["conv grouped"][shared], one["conv grouped"][shared])
    np.testing.assert_allclose(one["conv grouped"][shared], 1.95 / 1.78 * other["conv grouped"][shared])
    # A core that does not wait for each result takes fewer cycles, at 2.42 GHz; one of half its pipes, at 2.31 GHz, more again.
    cycles = [ghz * cores["conv grouped"][shared] for ghz, cores in ((2.42, wide), (2.31, narrow), (1.78, one))]
    assert (np.diff(cycles, axis=0) > 0).all()


@pytest.mark.parametrize("platform", ["pixel4/tflite-2.10/1small/fp32", "pixel4/pytorch-2.0/1small/int8"])
def test_convolutions_of_few_outputs_take_longer_a_flop_by_what_they_gather(platform: str) -> None:
    """0.05 ns a FLOP, and 1 ns an element that is read for a tap: of 16 outputs, 32 FLOPs share one, of 256 they are 512."""

    def convolution(outputs: int, side: int) -> Kernel:
        return one_kernel("conv", (1, 64, side, side, outputs, side, side, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0))

    def true_ms(outputs: int, side: int) -> float:
        return side**2 * (64 * 9 * (5e-8 * 2 * outputs + 1e-6) + 1e-6 * outputs)

    sizes = [(outputs, side) for outputs in (64, 128, 256) for side in (7, 14, 28, 56)]
    terms = NetworkTerms.of([[convolution(*size)] for size in sizes], network_term_names(Platform.parse(platform)))
    latency_ms = np.array([0.1 + true_ms(*size) for size in sizes])

    analytical = predictor_parts(fit_whole_networks(terms, latency_ms, Platform.parse(platform)), terms)[0]

    narrow = np.array([convolution(16, 28).configuration])
    assert analytical.latency_ms(kernel_type("conv"), narrow)[0] == pytest.approx(true_ms(16, 28), rel=0.1)


def test_groups_that_no_network_had_are_as_slow_as_the_runtime_is_known_to_be(
    networks: list[tuple[Kernel, ...]], latency_ms: np.ndarray
) -> None:
    plain = [not any(kernel.kernel_type == "grouped_conv" for kernel in kernels) for kernels in networks]
    terms = NetworkTerms.of([kernels for kernels, kept in zip(networks, plain, strict=True) if kept])

    tflite, pytorch = (
        fit_whole_networks(terms, latency_ms[plain], Platform.parse(f"phone/{runtime}/1large/fp32")).coefficients
        for runtime in ("tflite-2.10", "pytorch-2.0")
    )

    # Tens of times the prior of a dense convolution, which the made-up device is close to: 20 GFLOP/s.
    assert tflite["conv grouped"][0] > 20 * 5e-8
    np.testing.assert_allclose(pytorch["conv grouped"], pytorch["conv kxk"])


def one_kernel(kind: str, configuration: tuple[int, ...]) -> Kernel:
    return Kernel(kind, configuration, "a", ("a",), ("Conv",))


def pointwise(channels: int, side: int) -> Kernel:
    return one_kernel("conv", (1, channels, side, side, channels, side, side, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0))


@pytest.mark.parametrize(("runtime", "precision"), [("tflite-2.10", "fp32"), ("tflite-2.10", "int8"), ("pytorch-2.0", "fp32")])
def test_1x1_convolutions_teach_what_a_linear_layer_of_several_rows_costs(runtime: str, precision: str) -> None:
    platform = Platform.parse(f"pixel4/{runtime}/1large/{precision}")
    names = network_term_names(platform)
    networks = [[pointwise(channels, side)] for channels in (32, 64, 128, 256) for side in (7, 14, 28)]
    terms = NetworkTerms.of(networks, names)

    learned = fit_whole_networks(terms, 0.1 + 3e-8 * terms.values[terms.counts.indices, 0], platform).coefficients

    assert learned["conv 1x1"][0] == pytest.approx(3e-8, rel=0.2)
    np.testing.assert_allclose(learned["linear matrix"][:4], learned["conv 1x1"][:4])


def test_a_cut_off_is_far_cheaper_in_pytorchs_int8_than_a_number_converted_there_and_back() -> None:
    platform = Platform.parse("pixel4/pytorch-2.0/1large/int8")
    classes = ["activation", "add", "add floating", "batch norm floating", "activation floating"]

    prior, _ = prior_coefficients(platform, classes)
    rows = dict(zip(classes, prior[:-1].reshape(len(classes), len(TERMS)), strict=True))

    # FLOPs and elements moved a number: 1 and 2 of ReLU6, 1 and 3 of a sum, 2 and 2 of a batch normalisation.
    relu6, added, multiplied, normalised = (
        flops * rows[name][0] + moved * rows[name][1]
        for name, flops, moved in (
            ("activation", 1, 2), ("add", 1, 3), ("add floating", 1, 3), ("batch norm floating", 2, 2),
        )
    )  # fmt: skip
    assert 5 * relu6 < added < multiplied / 5
    assert normalised == pytest.approx(multiplied, rel=0.1)


def test_on_more_threads_what_is_known_counts_for_more_against_what_networks_show(
    networks: list[tuple[Kernel, ...]], latency_ms: np.ndarray
) -> None:
    """An element of a concatenation is known to take as long as ten FLOPs of a convolution; here it takes a hundred."""
    terms = NetworkTerms.of(networks)
    moved = terms.class_sums[:, list(terms.classes).index("concat") * len(TERMS) + 1]

    one, four = (
        fit_whole_networks(terms, latency_ms + 45e-7 * moved, Platform.parse(f"phone/pytorch-2.0/{cores}/fp32")).coefficients
        for cores in ("1large", "4large")
    )

    assert 10 < four["concat"][1] / four["conv 1x1"][0] < one["concat"][1] / one["conv 1x1"][0] / 2
