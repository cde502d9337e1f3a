"""Judging predictors on what they did not see, beside FLOPs, and FLOPs with memory traffic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latcast.datasets.store import Store
from latcast.errors import DatasetError
from latcast.graph.builder import GraphBuilder
from latcast.kernels import Kernel, find_kernels
from latcast.measure.labels import Label, LabelError
from latcast.predictors.card import TRAINING_KEYS, TRAINING_LINEAGES
from latcast.predictors.intervals import Interval
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Measurement, Reference
from latcast.spaces.catalogue import SPACES, build
from latcast.spaces.lineages import lineage_of
from latcast.training.evaluation import BASELINES, evaluate, evaluate_on_labels, evaluate_samples, fit_baseline
from latcast.training.samples import NetworkSample
from tests.predictors.made_up_platform import RULES

TRAINED = SPACES.get("mobilenet_v2").sample(4, seed=8)
UNSEEN = SPACES.get("resnet").sample(2, seed=8)


@pytest.fixture
def judged(predictor: PlatformPredictor) -> PlatformPredictor:
    """Names what it was trained on; its interval is ±20 % everywhere."""
    card = {TRAINING_KEYS: [reference.key for reference in TRAINED]}
    return replace(predictor, interval=Interval(0.8, 1.2, 40, 0.0)).with_card(card)


def label(predictor: PlatformPredictor, reference: Reference, factor: float, halves: tuple[float, float] | None = None) -> Label:
    """A network that took so many times what the predictor says."""
    latency_ms = factor * predictor.predict(build(reference)).latency_ms
    return Label(predictor.platform.id, reference, "network", latency_ms, latency_ms, halves, 2, 1, 0.0)


def sample(label: Label, predictor: PlatformPredictor) -> NetworkSample:
    return NetworkSample(label.reference, find_kernels(build(label.reference), predictor.rules), label.latency_ms)


def test_figures_are_of_predictions_against_labels(judged: PlatformPredictor) -> None:
    test = [sample(label(judged, UNSEEN[0], 1.0), judged), sample(label(judged, UNSEEN[1], 2.0), judged)]

    found = evaluate_samples(judged, test)

    # Errors of 0 and -50 %; 0.5 is below 1/1.2, so one of two is inside the interval.
    assert found.metrics.mape == pytest.approx(25.0)
    assert found.metrics.within_5 == found.metrics.interval_coverage == 50.0
    assert found.baselines == {}
    assert repr(found).endswith(": 2 networks, held out by unknown, MAPE 25.0 %, 50 % within ±5 %, 50 % within ±10 %>")
    assert (found.actual_ms / found.predicted_ms).tolist() == pytest.approx([1.0, 2.0])
    assert (found.low_ms / found.predicted_ms).tolist() == pytest.approx([0.8, 0.8])


def test_networks_of_the_card_fit_the_baselines_and_only_the_others_judge(judged: PlatformPredictor) -> None:
    # What was trained on is off by far; it must not count.
    labels = [label(judged, reference, 9.0) for reference in TRAINED]
    labels += [label(judged, UNSEEN[0], 1.0, (0.9, 1.1)), label(judged, UNSEEN[1], 1.0)]

    found = evaluate_on_labels(judged, labels)

    assert found.metrics.networks == 2
    assert found.metrics.mape == pytest.approx(0.0, abs=1e-9)
    assert found.held_out_by == "lineage"
    assert set(found.baselines) == {"flops", "flops_mac"}
    # Fitted to latencies nine times too long.
    assert found.baselines["flops"].mape > 100
    # Halves of one label: 0.2 apart around 1.0, of which half is the label's own.
    assert found.label_error is not None
    assert found.label_error.percent == pytest.approx(10.0)


def test_families_also_trained_on_are_held_out_by_network_only(judged: PlatformPredictor) -> None:
    sibling = SPACES.get("mobilenet_v2").sample(5, seed=9)[0]

    found = evaluate_on_labels(judged, [label(judged, TRAINED[0], 1.0), label(judged, sibling, 1.0)])

    assert found.held_out_by == "network"
    assert found.label_error is None


def test_lineages_are_held_out_only_where_all_that_were_trained_on_are_known(judged: PlatformPredictor) -> None:
    unseen = label(judged, UNSEEN[0], 1.0)
    trained = [label(judged, reference, 1.0) for reference in TRAINED]
    said = judged.with_card({**judged.card, TRAINING_LINEAGES: ["1x1 + 1x1 + depthwise"]})
    resnet_too = judged.with_card({**judged.card, TRAINING_LINEAGES: ["1x1 + 1x1 + depthwise", lineage_of(UNSEEN[0])]})
    silent = judged.with_card({})

    # The card names networks by their hashes, and one of the four is not at hand.
    assert evaluate_on_labels(judged, [unseen]).held_out_by == "unknown"
    assert evaluate_on_labels(judged, [unseen, *trained[1:]]).held_out_by == "unknown"
    assert evaluate_on_labels(judged, [unseen, *trained]).held_out_by == "lineage"
    assert evaluate_on_labels(said, [unseen]).held_out_by == "lineage"
    assert evaluate_on_labels(resnet_too, [unseen]).held_out_by == "network"
    assert evaluate_on_labels(silent, [unseen]).held_out_by == "unknown"
    assert evaluate_samples(judged, [sample(unseen, judged)]).held_out_by == "unknown"


def test_chosen_families_alone_judge(judged: PlatformPredictor) -> None:
    vit = SPACES.get("vit").sample(1, seed=8)[0]

    found = evaluate_on_labels(judged, [label(judged, UNSEEN[0], 1.0), label(judged, vit, 2.0)], families={"resnet"})

    assert found.metrics.networks == 1
    assert found.names == (UNSEEN[0].name or UNSEEN[0].key,)


@pytest.mark.parametrize("families", [None, {"swin"}])
def test_nothing_to_judge_by_is_an_error_that_counts(judged: PlatformPredictor, families: set[str] | None) -> None:
    labels = [label(judged, reference, 1.0) for reference in TRAINED]

    with pytest.raises(DatasetError, match=r"it was trained on 4 of the 4 there; families or spaces of the others: none"):
        evaluate_on_labels(judged, labels, families=families)


def test_the_json_form_has_every_network(judged: PlatformPredictor) -> None:
    error = LabelError(1.5, (1.25, 1.75), 9)
    data = evaluate_samples(
        judged, [sample(label(judged, UNSEEN[0], 2.0), judged)], held_out_by="device", label_error=error
    ).to_json()

    [row] = data["per_network"]
    assert (data["platform"], data["held_out_by"]) == (judged.platform.id, "device")
    assert (data["label_error"], data["label_error_interval"]) == (1.5, [1.25, 1.75])
    assert row["measured_ms"] == pytest.approx(2 * row["latency_ms"])
    # A rank correlation of one network is none.
    assert data["spearman"] is None
    assert np.isfinite(data["mape"])


def test_stored_networks_judge_as_their_labels_do(judged: PlatformPredictor, tmp_path: Path) -> None:
    labels = [label(judged, reference, factor) for reference, factor in zip(UNSEEN, (1.0, 2.0), strict=True)]
    stores = [tmp_path / "first.sqlite", tmp_path / "second.sqlite"]
    for path, known in zip(stores, labels, strict=True):
        with Store(path) as store:
            store.add(Measurement(judged.platform.id, known.reference, latency_ms=known.latency_ms))

    found = evaluate(judged, stores)

    assert found.to_json() == evaluate_on_labels(judged, labels).to_json()
    with Store(stores[1]) as store:
        assert evaluate(judged, store).metrics.mape == pytest.approx(50.0)
    with pytest.raises(DatasetError, match="others: resnet"):
        evaluate(judged, stores, families={"swin"})


SIZES = ((8, 4, 4), (8, 8, 16), (16, 4, 8), (16, 16, 16), (32, 8, 4), (32, 3, 32))
"""Height and width, input channels, output channels of a pointwise convolution."""


def pointwise(size: int, channels: int, filters: int) -> tuple[Kernel, ...]:
    b = GraphBuilder("pointwise")
    return find_kernels(b.finish(b.conv(b.input((1, channels, size, size)), filters, 1, bias=False)), RULES)


NETWORKS = [pointwise(*size) for size in SIZES]
FLOPS = np.array([2 * size * size * channels * filters for size, channels, filters in SIZES], dtype=float)
ACCESSED = np.array([size * size * (channels + filters) + channels * filters for size, channels, filters in SIZES], dtype=float)


def test_flops_recovers_a_throughput_and_an_overhead() -> None:
    fitted = fit_baseline("flops", NETWORKS, 2e-7 * FLOPS + 0.05)

    assert fitted.coefficients == pytest.approx([2e-7, 0.05], rel=1e-3)
    # 2 · 10² · 5 · 7 = 7000 FLOPs.
    assert fitted.latency_ms([pointwise(10, 5, 7)]) == pytest.approx([0.0514], rel=1e-3)


def test_flops_mac_prices_every_element_read_written_and_of_weights_alike() -> None:
    fitted = fit_baseline("flops_mac", NETWORKS, 1e-7 * FLOPS + 3e-6 * ACCESSED + 0.02)

    assert fitted.coefficients == pytest.approx([1e-7, 3e-6, 0.02], rel=0.01)


def test_the_flops_baseline_ignores_memory_traffic() -> None:
    latency_ms = 3e-6 * ACCESSED + 0.001

    error = {name: np.abs(fit_baseline(name, NETWORKS, latency_ms).latency_ms(NETWORKS) / latency_ms - 1) for name in BASELINES}

    assert error["flops_mac"].max() < 0.01 < error["flops"].max()
