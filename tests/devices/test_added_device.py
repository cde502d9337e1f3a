from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from latcast.devices.added_device import NewDevice, add_device, suggest_networks, typical_interval
from latcast.devices.device_model import Arbitration, KnownPlatform, Weighing
from latcast.devices.measured_networks import MeasuredNetwork, MeasuredNetworks
from latcast.errors import DatasetError
from latcast.predictors.bundle import load_bundle, save_bundle
from latcast.records import Platform, Reference
from latcast.search.encodings import EncodingPredictor
from latcast.spaces import build
from latcast.spaces.catalogue import model
from tests.devices.made_up_devices import features, fitted, networks, platforms, true_ms

PLATFORM = Platform.parse("new/tflite-2.14/cpu1/fp32")

CHOSEN = (0, 2, 5, 8, 11, 13, 16, 19)


def measured(factor: float = 1.0, wild: dict[int, float] | None = None) -> MeasuredNetworks:
    """On a device like the first one of the pool's, whose chip the model never saw."""
    found = []
    for row in CHOSEN:
        latency_ms = factor * float(true_ms()[0, row]) * (wild or {}).get(row, 1.0)
        found.append(MeasuredNetwork(networks()[row], latency_ms, (latency_ms,), (f"few.csv:{row}",)))
    return MeasuredNetworks(tuple(found))


@pytest.fixture(scope="module")
def added() -> NewDevice:
    return add_device(PLATFORM, measured(), fitted())


def test_networks_that_were_not_measured_are_predicted(added: NewDevice) -> None:
    rest = [row for row in range(20) if row not in CHOSEN]

    predictions = added.predictor.predict_many([build(networks()[row]) for row in rest])

    errors = [abs(found.latency_ms / true_ms()[0, row] - 1) for row, found in zip(rest, predictions, strict=True)]
    assert np.mean(errors) < 0.1
    assert all(found.low_ms < found.latency_ms < found.high_ms for found in predictions)
    assert added.misfits == ()
    assert added.predictor.card["measurements"] == len(CHOSEN)
    assert added.predictor.card["mape"] < 10


def test_a_bundle_of_it_predicts_the_same(added: NewDevice, tmp_path: Path) -> None:
    graphs = [build(networks()[row]) for row in (1, 4)]

    again = load_bundle(save_bundle(added.predictor, tmp_path / "new.zip"))

    for mine, theirs in zip(again.predict_many(graphs), added.predictor.predict_many(graphs), strict=True):
        assert (mine.latency_ms, mine.low_ms, mine.high_ms) == pytest.approx(
            (theirs.latency_ms, theirs.low_ms, theirs.high_ms), rel=1e-3
        )


def test_standardising_filters_takes_time_where_constants_are_not_folded(tmp_path: Path) -> None:
    graph = build(model("resnet34"))
    filters = frozenset(node.inputs[1] for node in graph.nodes_of_type["Conv"])
    graphs = [graph, replace(graph, standardised=filters)]

    found = []
    for unit in ("cpu", "cpu+dynamo"):
        new = add_device(Platform.parse(f"new/pytorch-2.4.0/{unit}/fp32"), measured(), fitted())
        again = load_bundle(save_bundle(new.predictor, tmp_path / f"{unit}.zip"))
        found.append([each.latency_ms for each in again.predict_many(graphs)])

    (folded, as_folded), (compiled, standardised) = found
    assert as_folded == pytest.approx(folded)
    assert compiled == pytest.approx(folded)
    assert standardised > 1.01 * compiled


def test_a_search_estimates_encodings_as_it_predicts_their_graphs(added: NewDevice) -> None:
    encoded = EncodingPredictor(added.predictor, "ofa_mobilenet_v3")
    encodings = encoded.supernet.sample_encodings(3, 5)

    found = encoded.predict_many(encodings)

    singly = added.predictor.predict_many([encoded.supernet.build(**encoded.supernet.decode(row)) for row in encodings])
    for name in ("latency_ms", "low_ms", "high_ms"):
        assert getattr(found, name) == pytest.approx([getattr(each, name) for each in singly], rel=1e-6)


def test_a_value_that_the_others_contradict_is_named_and_barely_counts(added: NewDevice) -> None:
    found = add_device(PLATFORM, measured(wild={8: 6.0}), fitted())

    [misfit] = found.misfits
    assert misfit.name == networks()[8].name
    assert misfit.measured_ms == pytest.approx(6 * misfit.expected_ms, rel=0.4)
    assert "few.csv:8" in str(misfit)
    assert found.warnings
    graph = build(networks()[1])
    assert found.predictor.predict(graph).latency_ms == pytest.approx(added.predictor.predict(graph).latency_ms, rel=0.1)


def test_one_wild_value_does_not_hide_what_the_device_is_like(added: NewDevice) -> None:
    found = add_device(PLATFORM, measured(wild={8: 10.0}), fitted())

    before = max(each.deviation or 0.0 for each in added.nearest)
    assert max(each.deviation or 9.0 for each in found.nearest) < 2 * before < 0.7  # that of all eight is above ln(10) / 8 ** 0.5


def test_nothing_measured_is_a_wide_interval_and_is_said() -> None:
    found = add_device(PLATFORM, MeasuredNetworks(()), fitted())

    prediction = found.predictor.predict(build(networks()[3]))
    assert prediction.high_ms > 2 * prediction.low_ms
    assert any("nothing was measured on this device" in warning for warning in found.warnings)
    assert all(each.deviation is None and each.factor is None for each in found.nearest)


def test_the_interval_counts_the_networks_that_the_pool_ran() -> None:
    model = fitted()
    weighing = Weighing({"learned": 1.0}, 1.0, 1.0, 1.0)
    twice = replace(
        model,
        arbitration={"cpu": (Arbitration(1, weighing, weighing),)},
        known_places=np.vstack([model.known_places, model.known_places]),
        known_offsets={kind: np.tile(offsets, 2) for kind, offsets in model.known_offsets.items()},
        known_terms=np.zeros((0, 0)),
    )

    # 20 networks stand for all in the basis of the process; the pool ran 40 here.
    assert add_device(PLATFORM, measured(), twice).predictor.interval.networks == 40
    assert add_device(PLATFORM, measured(), model).predictor.interval.networks == 0


@pytest.mark.parametrize(("factor", "unit"), [(1e-3, "s"), (1e3, "us")])
def test_latencies_in_another_unit_are_doubted_until_it_is_said(factor: float, unit: str) -> None:
    with pytest.raises(DatasetError, match="say what they are with --latency-unit"):
        add_device(PLATFORM, measured(factor), fitted())

    found = add_device(PLATFORM, measured(factor), fitted(), latency_unit=unit)
    latency_ms = found.predictor.predict(build(networks()[1])).latency_ms
    assert latency_ms == pytest.approx(float(true_ms()[0, 1]), rel=0.2)


def test_networks_without_a_graph_are_left_out_and_said() -> None:
    mystery = MeasuredNetwork(Reference("usc_nas", {"name": "net7"}, "net7"), 5.0, (5.0,), ("few.csv:9",))

    found = add_device(PLATFORM, MeasuredNetworks((*measured().networks, mystery)), fitted())

    assert any(note.startswith("net7 is left out") for note in found.notes)
    assert found.predictor.card["measurements"] == len(CHOSEN)
    with pytest.raises(DatasetError, match="none of the 1 measured networks has a graph here"):
        add_device(PLATFORM, MeasuredNetworks((mystery,)), fitted())


def test_of_a_batch_latencies_are_taken_as_they_are_and_nothing_is_known_without_them() -> None:
    batch = Platform.parse("new/tflite-2.14/cpu1+b1024/fp32")

    # 500 times a single image's are those of 1,024 in parallel; of one image they are hardly milliseconds.
    found = add_device(batch, measured(500.0), fitted())

    assert found.predictor.predict(build(networks()[1])).latency_ms == pytest.approx(500 * float(true_ms()[0, 1]), rel=0.2)
    with pytest.raises(DatasetError, match="say what they are with --latency-unit"):
        add_device(PLATFORM, measured(500.0), fitted())
    with pytest.raises(DatasetError, match=r"a batch of 1024, .* leave \+b1024 out, or measure networks"):
        add_device(batch, MeasuredNetworks(()), fitted())


def test_a_runtime_that_no_known_platform_has_is_said(added: NewDevice) -> None:
    other = add_device(Platform.parse("new/mytool-1.0/cpu1/fp32"), measured(), fitted())

    assert any("no known platform has the runtime mytool" in warning for warning in other.warnings)
    assert not any("runtime" in warning for warning in added.warnings)


def test_without_measurements_the_nearest_platforms_are_of_its_silicon_then_of_its_runtime() -> None:
    def known(name: str, silicon: str, runtime: str) -> KnownPlatform:
        covariates = {**platforms()[2].covariates, f"runtime {runtime}": 1.0}
        return replace(platforms()[2], name=name, silicon=silicon, covariates=covariates)

    # No chip has the id of the silicon of the Ryzen 5000 on desktops.
    names = [("a", "bcm2711", "ncnn"), ("b", "vermeer", "ncnn"), ("c", "bcm2711", "tflite"), ("d", "vermeer", "tflite")]
    model = replace(fitted(), platforms=tuple(known(*each) for each in names), states=fitted().states[:4])

    found = add_device(Platform.parse("ryzen-9-5950x/tflite-2.14/cpu1/fp32"), MeasuredNetworks(()), model)

    assert [each.platform for each in found.nearest] == ["d", "b", "c", "a"]
    assert [each.same_chip for each in found.nearest] == [True, True, False, False]


def test_one_network_says_the_factor_to_each_platform_and_not_how_well_it_fits() -> None:
    found = add_device(PLATFORM, MeasuredNetworks(measured().networks[:1]), fitted())

    assert all(each.deviation is None and each.factor is not None for each in found.nearest)


def test_the_nearest_platforms_are_known_with_their_factor(added: NewDevice) -> None:
    best = added.nearest[0]

    assert best.deviation is not None
    assert best.factor is not None
    assert best.deviation <= max(each.deviation or 0.0 for each in added.nearest)
    row = int(best.platform.split("/")[0].removeprefix("d"))
    assert best.factor == pytest.approx(float(np.median(true_ms()[0] / true_ms()[row])), rel=0.3)


def test_what_is_suggested_narrows_most_and_each_less_than_the_one_before(added: NewDevice) -> None:
    assert added.predictor.device is not None

    now, found = suggest_networks(added.predictor.device, networks(), features(), features(), 5)

    deviations = [now, *(each.deviation for each in found)]
    assert deviations == sorted(deviations, reverse=True)
    assert len({each.reference.key for each in found}) == 5


def test_the_typical_interval_is_that_of_what_is_open_and_of_the_noise() -> None:
    """One member without anything open, with a noise of 10 % and variances four times as large: a deviation of 20 %."""
    nothing = fitted().described(features()).rows(np.zeros(0, dtype=int))
    known = fitted().forecast("cpu", {}, nothing, np.zeros(0))
    member = replace(known.members[0], weight=1.0, known_weight=1.0, noise=0.1, scale=4.0)

    def deviation(open_factor: float, noise_factor: float) -> float:
        forecast = replace(known, members=(member,), factors=((open_factor, noise_factor), (9.0, 9.0)))
        found = typical_interval(fitted(), forecast, "cpu")
        assert found.low * found.high == pytest.approx(1.0)
        assert (found.networks, found.outside_growth) == (0, 0.0)
        return float(np.log(found.high)) / 1.645

    assert deviation(0.0, 1.0) == pytest.approx(0.2)
    assert deviation(0.0, 0.25) == pytest.approx(0.1)
    spread = deviation(1.0, 0.0)
    assert deviation(1.0, 1.0) == pytest.approx((spread**2 + 0.04) ** 0.5)
    assert deviation(4.0, 0.0) == pytest.approx(2 * spread)
