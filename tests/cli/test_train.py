"""``latcast train`` and ``latcast evaluate`` on a small real dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from latcast.datasets import jsonlines
from latcast.datasets.store import Store
from latcast.predictors.bundle import load_bundle
from latcast.records import Measurement, Reference
from tests.cli.conftest import Latcast
from tests.cli.dataset import ALL_NETWORKS, DATASET, PLATFORM, UNSEEN, UNSEEN_NETWORKS


def test_a_bundle_is_trained_and_used_by_the_name_of_its_platform(latcast: Latcast, home: Path) -> None:
    found = latcast("train", DATASET, "--learn-from", "networks", "--licence", "CC0-1.0", "--json")

    document = found.json
    assert (document["platform"], document["learn_from"], document["licence"]) == (PLATFORM, "networks", "CC0-1.0")
    assert document["trained_on"].startswith(f"{ALL_NETWORKS} networks (")
    assert Path(document["bundle"]) == home / "bundles" / f"{PLATFORM.replace('/', '__')}.zip"
    assert latcast("predict", "resnet18", "--on", "local/onnxruntime").code == 0
    first, *_, last = latcast("train", DATASET, "--learn-from", "networks", "-o", "b").out.splitlines()
    assert first.startswith(f"{PLATFORM}: trained on {ALL_NETWORKS} networks (")
    assert last == "bundle: b"


def test_a_bundle_that_learned_from_more_stays_unless_the_user_says_otherwise(latcast: Latcast, home: Path) -> None:
    whole = ("train", DATASET, "--learn-from", "networks", "--json")
    # Eleven networks of ResNet and ShuffleNetV2 are left.
    part = (*whole, "--leave-out", ",".join((*UNSEEN, "mobilenet_v1", "mobilenet_v3")))
    kept = Path(latcast(*whole).json["bundle"])
    before = kept.read_bytes()

    lesser = latcast(*part)

    assert f"{PLATFORM}: kept the bundle that was there ({ALL_NETWORKS} networks, MAPE " in lesser.err
    assert "this one (11 networks, its error on others unknown)" in lesser.err
    assert "with --replace the command puts its bundle in that place" in lesser.err
    assert Path(lesser.json["bundle"]) == home / "bundles" / "aside" / kept.name
    assert kept.read_bytes() == before

    assert Path(latcast(*part, "--replace").json["bundle"]) == kept
    assert kept.read_bytes() != before


@pytest.mark.usefixtures("bundle")
def test_only_networks_that_were_not_trained_on_are_judged(latcast: Latcast) -> None:
    found = latcast("evaluate", "local", DATASET, "--json").json

    keys = ("mape", "within_5", "within_10", "rmse_ms", "rmspe", "spearman", "label_error", "interval_coverage")
    assert all(isinstance(found[key], float) for key in keys)
    # Training knows the inverted residuals of MobileNetV2 and MnasNet from MobileNetV3.
    assert (found["platform"], found["held_out_by"], found["networks"]) == (PLATFORM, "network", UNSEEN_NETWORKS)
    assert set(found["baselines"]) == {"flops", "flops_mac"}
    errors = [abs(each["latency_ms"] / each["measured_ms"] - 1) for each in found["per_network"]]
    assert found["mape"] == pytest.approx(100 * sum(errors) / len(errors))
    assert found["mape"] < found["baselines"]["flops"]["mape"]


@pytest.mark.usefixtures("bundle")
def test_families_narrow_the_judgement(latcast: Latcast) -> None:
    found = latcast("evaluate", "local", DATASET, "--families", "squeezenet, ghostnet", "--json").json

    assert found["held_out_by"] == "lineage"
    assert {each["model"] for each in found["per_network"]} == {"squeezenet1_0", "squeezenet1_1", "ghostnet_x0_5"}


@pytest.mark.usefixtures("bundle")
def test_people_get_baselines_label_error_and_a_line_for_each_network(latcast: Latcast) -> None:
    lines = latcast("evaluate", "local", DATASET).out.splitlines()

    assert lines[0] == f"{PLATFORM}: {UNSEEN_NETWORKS} networks, held out by network"
    assert [line.split()[0] for line in lines[3:6]] == ["latcast", "flops", "flops_mac"]
    assert any(line.startswith("label error: ") for line in lines)
    assert sum(line.startswith(("mobilenet_v2_0_", "squeezenet1_", "ghostnet_x0_5", "mnasnet0_5")) for line in lines) == 6


@pytest.mark.usefixtures("bundle")
def test_test_and_training_networks_may_come_from_two_stores(latcast: Latcast, tmp_path: Path) -> None:
    seen, unseen = tmp_path / "seen.sqlite", tmp_path / "unseen.sqlite"
    with Store(":memory:") as store:
        store.add_all(jsonlines.read(DATASET))
        records = list(store.measurements(as_taken=True))
    for path, wanted in ((seen, False), (unseen, True)):
        with Store(path) as store:
            store.add_all(record for record in records if (record.reference.space in UNSEEN) is wanted)

    apart = latcast("evaluate", "local", unseen, "--json").json
    together = latcast("evaluate", "local", unseen, seen, "--json").json

    assert (apart["networks"], apart["baselines"]) == (UNSEEN_NETWORKS, {})
    assert set(together.pop("baselines")) == {"flops", "flops_mac"}
    assert together.pop("held_out_by") == "network"
    assert together == {key: value for key, value in apart.items() if key not in ("baselines", "held_out_by")}


def with_a_lost_file(path: Path) -> Path:
    """The dataset, and a network whose file nothing holds any more."""
    lost = Reference("file", {"path": "gone.onnx", "sha256": "0" * 64}, "gone.onnx")
    records = list(jsonlines.read(DATASET))
    jsonlines.write(path, [*records, Measurement(records[0].platform, lost, latency_ms=3.0)])
    return path


@pytest.mark.usefixtures("bundle")
def test_a_network_without_a_graph_is_a_line_and_the_others_are_judged(latcast: Latcast, tmp_path: Path) -> None:
    path = with_a_lost_file(tmp_path / "more.jsonl")

    found, before = latcast("evaluate", "local", path, "--json"), latcast("evaluate", "local", DATASET, "--json").json

    assert found.code == 0
    [refused] = found.json.pop("refused")
    assert refused["model"] == "gone.onnx"
    assert "left out: gone.onnx: " in found.err
    assert {key: value for key, value in found.json.items() if key != "refused"} == {
        key: value for key, value in before.items() if key != "refused"
    }


@pytest.mark.usefixtures("bundle")
def test_measurements_that_call_the_platform_otherwise_are_named_with_as(latcast: Latcast, tmp_path: Path) -> None:
    path, other = tmp_path / "other.jsonl", "board/tflite-2.17/cpu4/fp32"
    jsonlines.write(path, [replace(each, platform=other) for each in jsonlines.read(DATASET)])

    refused = latcast("evaluate", "local", path)
    found = latcast("evaluate", "local", path, "--as", "board", "--json")

    assert refused.reason.endswith(f"it holds {other}; where one of these is the bundle's platform: --as PLATFORM")
    assert found.json["mape"] == latcast("evaluate", "local", DATASET, "--json").json["mape"]


@pytest.mark.usefixtures("home")
def test_a_network_without_a_graph_is_a_line_and_the_others_are_trained_on(latcast: Latcast, tmp_path: Path) -> None:
    path = with_a_lost_file(tmp_path / "more.jsonl")

    found = latcast("train", path, "--learn-from", "networks", "-o", tmp_path / "more.zip")

    assert found.code == 0
    assert "left out: gone.onnx: " in found.err
    assert len(load_bundle(tmp_path / "more.zip").card["training_networks"]) == ALL_NETWORKS


@pytest.mark.usefixtures("bundle")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("evaluate", "local", DATASET, "--families", "resnet"), "found no measured network of resnet to judge"),
        (("train", DATASET, "--leave-out", "vgg"), "found no networks of 'vgg' to leave out; there are 1x1 + 1x1 + depthwise, "),
    ],
)
def test_a_wrong_store_family_or_place_is_one_line(latcast: Latcast, arguments: tuple[str, ...], expected: str) -> None:
    assert expected in latcast(*arguments).reason
