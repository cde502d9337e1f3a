"""The accuracy benchmark judges what a user gets: the bundle of ``latcast profile``, by ``latcast evaluate``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks import accuracy, campaigns, result_files
from benchmarks.accuracy import WITHOUT, blocks_table, judge_platform, platform_table
from benchmarks.campaigns import Bench, is_published, label_plan, profile_taken, take_labels, take_profile
from latcast.datasets.store import Store
from latcast.errors import MeasurementError
from latcast.graph.operators import graph_macs
from latcast.measure.labels import LABEL_PROCESSES, LABEL_ROUNDS
from latcast.records import Reference
from latcast.spaces import build
from latcast.spaces.catalogue import model
from latcast.spaces.training_mix import TRAINING_FAMILIES, published_networks, training_mix

TRAINED = [*training_mix(60, 0), *(Reference(name) for name in TRAINING_FAMILIES)]


class TestTestNetworks:
    def test_there_are_up_to_three_of_each_of_the_twelve_families_that_training_leaves_out(self) -> None:
        counts = Counter(reference.space for reference in campaigns.test_networks())

        assert len(counts) == 12
        assert max(counts.values()) == 3
        assert set(counts).isdisjoint(TRAINING_FAMILIES)
        assert len({reference.key for reference in campaigns.test_networks()}) == counts.total()

    def test_their_sizes_are_not_the_smallest(self) -> None:
        smallest = {each.key for each in published_networks(per_family=4)}

        assert any(is_published(each) and each.key not in smallest for each in campaigns.test_networks())

    def test_none_takes_seconds_or_gigabytes(self) -> None:
        graphs = [build(each) for each in campaigns.test_networks()]

        assert max(graph_macs(graph) for graph in graphs) <= 20e9
        assert max(graph.parameter_count for graph in graphs) <= 150e6

    def test_a_label_has_ten_rounds_or_more_in_three_processes_or_more(self) -> None:
        assert campaigns.LABEL_PROCESSES >= LABEL_PROCESSES
        assert campaigns.LABEL_PROCESSES * label_plan().rounds >= LABEL_ROUNDS


class TestWhatIsLeftOut:
    def test_the_spaces_of_mixed_blocks(self) -> None:
        assert WITHOUT["random networks of mixed blocks"](TRAINED) == [
            "published_segments", "random_mixed", "random_mobile", "random_small",
        ]  # fmt: skip

    def test_and_every_family_of_a_tested_lineage(self) -> None:
        # SE-ResNet is a ResNet, RegNet a ResNeXt, Swin a ViT; MobileNetV2 is of the lineage of MobileNetV3 and ShuffleNetV2.
        assert WITHOUT["anything that shares blocks"](TRAINED) == [
            "block_sequence", "mobilenet_v3", "published_segments", "random_mixed", "random_mobile", "random_small", "resnet",
            "resnext", "shufflenet_v2", "vit",
        ]  # fmt: skip

    def test_nothing_that_was_not_trained_on(self) -> None:
        assert WITHOUT["random networks of mixed blocks"]([Reference("vit")]) == []


def test_without_a_profile_nothing_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigns, "FOLDER", tmp_path)

    with pytest.raises(MeasurementError, match="onnxruntime-fp32 is not profiled yet: python -m benchmarks accuracy"):
        profile_taken(Bench("onnxruntime"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_bundle_that_profile_wrote_is_judged_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = (model("squeezenet1_1"), model("mobilenet_v2_0_5"))
    for module in (campaigns, accuracy):
        monkeypatch.setattr(module, "test_networks", lambda: tests)
    monkeypatch.setattr(campaigns, "FOLDER", tmp_path / "bench")
    monkeypatch.setattr(result_files, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(result_files, "_commit", lambda: "0" * 40)  # the folder of this test is no repository
    bench = Bench("onnxruntime")

    take_labels(bench, 1, 2, lambda _: None)
    profiled = take_profile(bench, 0.5)
    document = judge_platform(bench)

    bundle = Path(profiled["bundle"])
    assert bundle.is_relative_to(bench.home.absolute())
    assert profiled["command"] == "latcast profile --runtime onnxruntime --precision fp32 --budget 0.5"
    assert document["training"]["wall_seconds"] == profiled["wall_seconds"] > 0
    with Store(profiled["store"]) as store:
        assert len(store.references()) == document["training"]["training_networks"]
    assert {row["model"] for row in document["per_network"]} == {"squeezenet1_1", "mobilenet_v2_0_5"}
    printed = bench.latcast("predict", "squeezenet1_1", "--on", "local/onnxruntime")["predictions"][0]
    assert printed["latency_ms"] in [pytest.approx(row["latency_ms"]) for row in document["per_network"]]
    # Which lineages half a minute trains on depends on the machine's speed.
    assert "lineages not trained on" in document["kinds"]
    fewer = document["without"]["random networks of mixed blocks"]
    assert fewer is None or fewer["training_networks"] < document["training"]["training_networks"]
    assert "squeezenet1_1" in platform_table(document)
    assert blocks_table({"onnxruntime-fp32": document}).count("\n") == 2
    # Done once, it is not done again.
    assert take_profile(bench, 0.5) == profiled
