from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latcast.devices.covariates import covariates_of
from latcast.devices.device_model import INTERCEPT, DeviceModel, Weighing, member_weights
from latcast.devices.members import (
    AND_IMAGE,
    FLOPS_AND_MEMORY,
    MEMBERS,
    Candidate,
    fit_totals,
    flops_and_memory,
    left_out_score,
    priced_alike,
    regressions,
    unmeasured,
    with_stated_prices,
)
from latcast.predictors.network_features import BASE_TERMS, TERM_NAMES, TERM_UNITS
from latcast.predictors.platform_posterior import linearised, posterior
from latcast.records import Platform
from tests.devices.made_up_devices import features, fitted

COVARIATES = {INTERCEPT: 1.0, "kind cpu": 1.0, "runtime tflite": 1.0, "precision cpu fp32": 1.0}


def test_weights_follow_the_evidence_and_the_pool() -> None:
    # Evidence counts half: a factor of e² in density is one of e in weight.
    names, scores = ("learned", "tied"), np.array([2.0, 0.0])

    def weights(prior: dict[str, float]) -> np.ndarray:
        return member_weights(names, scores, Weighing(prior, 0.5, 1.0, 1.0))

    assert weights({}) == pytest.approx([np.e / (1 + np.e), 1 / (1 + np.e)])
    assert weights({"learned": 0.2, "tied": 0.8}) == pytest.approx(np.array([0.2 * np.e, 0.8]) / (0.2 * np.e + 0.8))
    assert weights({"learned": 1.0})[1] < 1e-4


def test_evidence_falls_with_the_mean_error_on_networks_left_out() -> None:
    # 2 % of every error is no difference; a logarithm of 1 and more is far off.
    near, far = (left_out_score(np.array(error)) for error in ([0.1, -0.2, 0.06], [0.3, 0.3, -0.12]))

    assert near == pytest.approx(-3 * np.log(0.12 + 0.02))
    assert near - far == pytest.approx(3 * np.log(0.26 / 0.14))
    assert left_out_score(np.array([2.0])) == left_out_score(np.array([-1.0]))
    assert left_out_score(np.zeros(0)) == 0.0


def test_flops_and_memory_recovers_prices_from_exact_latencies() -> None:
    prices = np.array([2e-9, 3e-8, 0.5])
    totals = features().totals

    assert fit_totals(totals, totals @ prices) == pytest.approx(prices, rel=1e-6)

    found = flops_and_memory(totals, np.log(totals @ prices), basis=4)
    assert np.exp(found.mean[TERM_NAMES.index("flops conv 3x3")]) * TERM_UNITS[0] == pytest.approx(prices[0], rel=1e-6)
    assert np.exp(found.mean[TERM_NAMES.index("network")]) * TERM_UNITS[-1] == pytest.approx(prices[2], rel=1e-6)
    assert np.abs(found.error).max() < 1e-6
    assert len(found.mean) == len(TERM_NAMES) + 4


def test_on_npus_elements_of_the_image_have_a_price_of_their_own_once_a_dozen_networks_are_measured() -> None:
    prices, image = np.array([2e-9, 3e-8, 0.5]), TERM_NAMES.index("moved image")
    known = features()
    terms = known.terms.copy()
    # Images of 100,000 elements and more, at 4e-6 ms each beyond what any element costs.
    elements = 1e5 * (1 + np.arange(len(terms)) % 4)
    terms[:, image] = elements * TERM_UNITS[image]
    log_ms = np.log(known.totals @ prices + 4e-6 * elements)

    def named(kind: str, count: int) -> dict[str, Candidate]:
        covariates = {INTERCEPT: 1.0, f"kind {kind}": 1.0}
        found = regressions(kind, covariates, known.totals[:count], terms[:count], log_ms[:count], basis=2)
        return {each.name: each for each in found}

    assert named("cpu", len(terms)).keys() == named("npu", 11).keys() == {FLOPS_AND_MEMORY}
    found = named("npu", len(terms))
    price = np.exp(found[AND_IMAGE].mean[: len(TERM_NAMES)]) * TERM_UNITS
    assert price[image] == pytest.approx(4e-6 + 3e-8, rel=1e-3)
    assert price[TERM_NAMES.index("moved conv")] == pytest.approx(3e-8, rel=1e-3)
    assert np.abs(found[AND_IMAGE].error).max() < 1e-3 < np.abs(found[FLOPS_AND_MEMORY].error).max()


def test_a_regression_has_the_stated_price_of_volumes_until_it_was_fitted_to_some() -> None:
    volume, image = (TERM_NAMES.index(f"flops {name}") for name in ("volume", "conv 3x3"))
    covariates = {**COVARIATES, "runtime onnxruntime": 1.0}
    found = flops_and_memory(features().totals, np.log(features().totals[:, 0]), basis=2)
    of_volumes = features().terms.copy()
    of_volumes[0] = np.eye(len(TERM_NAMES))[volume]

    new, fitted_to_some = (with_stated_prices(found, covariates, terms) for terms in (features().terms, of_volumes))

    # e^0.4 = 1.5 times that of a 3x3 convolution, with a deviation of 0.3.
    assert new.mean[volume] - new.mean[image] == pytest.approx(0.4)
    assert np.sqrt(new.covariance[volume, volume]) == pytest.approx(0.3)
    assert fitted_to_some.mean[volume] == found.mean[volume]
    assert fitted_to_some.covariance[volume, volume] == 0.0


def test_of_one_network_only_a_price_of_flops_is_known() -> None:
    assert fit_totals(np.array([[1e9, 1e6, 1.0]]), np.array([20.0])) == pytest.approx([2e-8, 0.0, 0.0])


def test_a_regression_is_as_sure_as_networks_that_it_has_not_seen_are_near() -> None:
    totals, prices = features().totals, np.array([2e-9, 3e-8, 0.5])
    exact = np.log(totals @ prices)

    # One network alone is taken for 0.5 off; the median error of a normal distribution is 0.67 deviations. None is below 2 %.
    assert flops_and_memory(totals[:1], exact[:1], basis=0).noise == pytest.approx(0.5 / 0.67)
    assert flops_and_memory(totals, exact, basis=0).noise == 0.02


def test_one_slow_network_does_not_change_the_prices() -> None:
    prices = np.array([2e-9, 3e-8, 0.5])
    latency_ms = features().totals @ prices
    latency_ms[4] *= 20

    # A fourth of the error that it would be shared among all.
    assert fit_totals(features().totals, latency_ms)[0] == pytest.approx(prices[0], rel=0.25)


@pytest.fixture(scope="module")
def model() -> DeviceModel:
    return fitted()


def test_every_prior_can_be_drawn_from(model: DeviceModel) -> None:
    for make in MEMBERS.values():
        assert np.linalg.eigvalsh(make(model, "cpu", COVARIATES).covariance).min() > -1e-9


def test_a_device_unlike_all_has_one_price_for_a_kind_of_work(model: DeviceModel) -> None:

    found = MEMBERS["tied"](model, "cpu", COVARIATES)

    a, b, c = (TERM_NAMES.index(name) for name in ("flops pointwise", "flops depthwise", "moved conv"))
    # 1.5² of the whole device, 1² of FLOPs or elements each, 0.7² of a single price.
    assert found.covariance[[a, a, a], [a, b, c]] == pytest.approx([2.25 + 1 + 0.49, 2.25 + 1, 2.25])
    known = model.mean(COVARIATES)
    of_flops = known[[TERM_NAMES.index(f"flops {name}") for name in ("pointwise", "conv 3x3", "conv kxk")]].mean()
    apart = ("flops volume", "flops grouped", "flops grouped wide")
    images = [place for place, name in enumerate(TERM_NAMES) if BASE_TERMS[place] == 0 and name not in apart]
    assert found.mean[images] == pytest.approx(of_flops)


def test_linear_layers_have_the_price_of_convolutions_unless_the_runtime_has_code_of_its_own_for_them(model: DeviceModel) -> None:
    linear, pointwise = (TERM_NAMES.index(f"flops {name}") for name in ("linear", "pointwise"))

    for make in MEMBERS.values():
        alike = make(model, "cpu", COVARIATES)
        apart = make(model, "cpu", {**COVARIATES, "runtime ncnn": 1.0})
        assert alike.mean[linear] == alike.mean[pointwise]
        # Of the difference of both logarithms.
        same, own = (
            each.covariance[linear, linear] + each.covariance[pointwise, pointwise] - 2 * each.covariance[linear, pointwise]
            for each in (alike, apart)
        )
        assert same < 0.01 < own


@pytest.mark.parametrize(
    ("term", "like", "deviation"),
    [
        ("flops matmul", "flops linear", 0.3), ("moved matmul", "moved conv", 0.3),
        ("moved normalisation", "moved elementwise", 0.3), ("moved image", "moved conv", 0.03),
        ("moved resize", "moved pool", 0.03), ("moved join", "moved movement", 0.03),
    ],
)  # fmt: skip
def test_work_that_few_networks_have_much_of_has_the_price_of_what_it_is_like(
    model: DeviceModel, term: str, like: str, deviation: float
) -> None:
    place, other = TERM_NAMES.index(term), TERM_NAMES.index(like)

    for make in MEMBERS.values():
        found = make(model, "cpu", COVARIATES)
        apart = np.eye(len(found.mean))[place] - np.eye(len(found.mean))[other]
        assert apart @ found.mean == pytest.approx(0.0)
        assert apart @ found.covariance @ apart == pytest.approx(deviation**2)

    # NPUs have units of their own for these, whose prices are learned.
    learned = replace(
        model.prior("cpu", COVARIATES), mean=np.arange(len(found.mean)), covariance=np.diag(np.arange(len(found.mean)))
    )
    of_npu = priced_alike(learned, {INTERCEPT: 1.0, "kind npu": 1.0, "runtime qairt": 1.0})
    assert of_npu.mean[place] == of_npu.covariance[place, place] == place


def test_what_few_networks_with_a_little_of_a_kind_of_work_are_slow_in_is_not_its_price(model: DeviceModel) -> None:
    described = model.described(features())
    product, share = TERM_NAMES.index("flops matmul"), 0.01
    terms = described.terms.copy()
    terms[:, product] = 0.0
    terms[:3, product] = share * terms[:3].sum(axis=1)
    seen = replace(described, terms=terms)
    prior = model.prior("cpu", COVARIATES)
    log_ms = linearised(prior.mean, seen.terms, seen.basis)[0]
    log_ms[:3] += np.log(1.5)

    found = posterior(prior, seen.observed(model.kinds["cpu"], log_ms)).mean[product] - prior.mean[product]

    # At a share of 1 %, half as long again would be e^3.9 times the price.
    assert np.log(1 + 0.5 / share) == pytest.approx(3.9, abs=0.05)
    assert found < 1.0


@pytest.mark.parametrize(
    ("platform", "least", "most"),
    [
        ("s25/qairt-2.42.0/npu+qnn_dlc/fp16", 1.2, 2.0),
        ("s25/onnxruntime-1.23.0/npu+onnx+qairt-2.37.1/int8", 1.2, 2.0),
        ("rz/drp-ai-tvm-2.4.0/npu/fp16", 4.0, 8.0),
    ],
)
def test_volumes_have_the_price_of_images_as_far_as_it_is_known_how_a_runtime_computes_them(
    model: DeviceModel, platform: str, least: float, most: float
) -> None:
    volume, image = (TERM_NAMES.index(f"flops {name}") for name in ("volume", "conv 3x3"))

    for make in MEMBERS.values():
        found = make(model, "npu", covariates_of(Platform.parse(platform), "npu"))
        # By which factor the 90 % interval of one price over the other reaches beyond its middle.
        deviation = np.sqrt(np.array([1, 1, -2]) @ found.covariance[[volume, image, volume], [volume, image, image]])
        assert least < np.exp(1.645 * deviation) < most


def test_a_volume_s_price_follows_no_other_where_a_runtime_emulates_it(model: DeviceModel) -> None:
    volume, image = (TERM_NAMES.index(f"flops {name}") for name in ("volume", "conv 3x3"))

    covariates = covariates_of(Platform.parse("s25/tflite-2.17.0/npu+qairt-2.42.0/fp16"), "npu")
    found = MEMBERS["learned"](model, "npu", covariates)

    assert found.covariance[volume, image] == 0
    # The networks of 40 and 43 GMACs that took 142 to 585 ms on nine chips lie inside of three deviations.
    reach = 3 * np.sqrt(found.covariance[volume, volume])
    for ms, gflops in ((142, 81), (585, 87)):
        assert abs(np.log(ms / gflops * 1e-9 / TERM_UNITS[0]) - found.mean[volume]) < reach


@pytest.mark.parametrize("platform", ["phone/ncnn-1/cpu4/fp32", "phone/tflite-2.10/gpu/fp16"])
def test_wide_groups_have_the_price_of_dense_convolutions(model: DeviceModel, platform: str) -> None:
    kind = "gpu" if "gpu" in platform else "cpu"
    dense, wide = (TERM_NAMES.index(f"flops {name}") for name in ("conv 3x3", "grouped wide"))

    mean = model.prior(kind, covariates_of(Platform.parse(platform), kind)).mean

    assert mean[wide] == pytest.approx(mean[dense])


def test_groups_follow_no_other_price_where_another_processor_computes_them(model: DeviceModel) -> None:
    covariates = covariates_of(Platform.parse("rz/drp-ai-tvm-2.4.0/npu/fp16"), "npu") | {"npu npu=drp-ai": 1.0}
    dense, *groups = (TERM_NAMES.index(f"flops {name}") for name in ("conv 3x3", "grouped", "grouped wide"))

    prior = model.prior("npu", covariates)

    reach = 1.645 * np.sqrt(np.diag(prior.covariance)[groups])
    for taken_ns in (0.4, 1.0, 1.7):  # Of three chips.
        assert (np.abs(np.log(taken_ns * 1e-6 / TERM_UNITS[0]) - prior.mean[groups]) < reach).all()
    assert (prior.covariance[dense, groups] == 0).all()


def test_a_loop_over_groups_in_one_thread_is_the_slower_beside_dense_convolutions_the_more_threads_these_have(
    model: DeviceModel,
) -> None:
    dense, *groups = (TERM_NAMES.index(f"flops {name}") for name in ("conv 3x3", "grouped", "grouped wide"))

    def times_dense(unit: str) -> np.ndarray:
        platform = Platform.parse(f"phone/tflite-2.10/{unit}/fp32")
        mean = model.prior("cpu", covariates_of(platform, "cpu")).mean
        return np.asarray(np.exp(mean[groups] - mean[dense]))

    # Between 10 and 28 times on six phones.
    assert (times_dense("cpu1") > 10).all()
    assert (times_dense("cpu1") < 28).all()
    assert times_dense("cpu4") / times_dense("cpu1") == pytest.approx(4.0)


def test_narrow_groups_take_a_phone_s_gpu_three_times_as_long_as_dense_convolutions(model: DeviceModel) -> None:
    dense, grouped = (TERM_NAMES.index(f"flops {name}") for name in ("conv 3x3", "grouped"))

    prior = model.prior("gpu", covariates_of(Platform.parse("phone/tflite-2.10/gpu/fp16"), "gpu"))

    ratio = prior.mean[grouped] - prior.mean[dense]
    deviation = np.sqrt(np.array([1, 1, -2]) @ prior.covariance[[grouped, dense, grouped], [grouped, dense, dense]])
    for times_as_long in (2.5, 3.1, 4.1):  # Of six phones.
        assert abs(np.log(times_as_long) - ratio) < 1.645 * deviation
    assert deviation < 0.5


def test_the_prior_is_judged_by_the_measured_networks_and_not_changed_by_them(model: DeviceModel) -> None:
    prior = model.prior("cpu", COVARIATES)
    seen = model.described(features()).rows(np.arange(3))
    away = np.array([1.0, -0.5, 0.0])
    log_ms = linearised(prior.mean, seen.terms, seen.basis)[0] + away

    found = unmeasured(prior, seen.observed(model.kinds["cpu"], log_ms))

    assert found.error == pytest.approx(away)
    assert found.score == left_out_score(away)
    assert (found.mean == prior.mean).all()
    assert (found.covariance == prior.covariance).all()


def test_products_of_activations_follow_no_other_price_where_an_npu_leaves_them_to_the_cpu(model: DeviceModel) -> None:
    linear, product = (TERM_NAMES.index(f"flops {name}") for name in ("linear", "matmul"))

    prior = model.prior("npu", covariates_of(Platform.parse("board/tflite-2.17/npu+ethos-u/int8"), "npu"))

    # ViT-tiny's 12 products of 0.36 GFLOPs in all take most of 413 ms on an i.MX 93.
    reach = 1.645 * np.sqrt(prior.covariance[product, product])
    assert abs(np.log(413 / 0.36e9 / TERM_UNITS[product]) - prior.mean[product]) < reach
    assert prior.covariance[linear, product] == 0
