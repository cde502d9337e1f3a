"""Campaigns behind the tables of this machine: their test networks, labels and profiles."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks import campaigns
from benchmarks.campaigns import Bench, label_plan, profile_taken
from latcast.errors import MeasurementError
from latcast.graph.operators import graph_macs
from latcast.measure.labels import LABEL_PROCESSES, LABEL_ROUNDS
from latcast.spaces import build
from latcast.spaces.training_mix import TRAINING_FAMILIES, published_networks


class TestTestNetworks:
    def test_there_are_up_to_three_of_each_of_the_twelve_families_that_training_leaves_out(self) -> None:
        counts = Counter(reference.space for reference in campaigns.test_networks())

        assert len(counts) == 12
        assert max(counts.values()) == 3
        assert set(counts).isdisjoint(TRAINING_FAMILIES)
        assert len({reference.key for reference in campaigns.test_networks()}) == counts.total()

    def test_their_sizes_are_not_the_smallest(self) -> None:
        published = {each.key for each in published_networks()}
        smallest = {each.key for each in published_networks(per_family=4)}

        assert any(each.key in published and each.key not in smallest for each in campaigns.test_networks())

    def test_none_takes_seconds_or_gigabytes(self) -> None:
        graphs = [build(each) for each in campaigns.test_networks()]

        assert max(graph_macs(graph) for graph in graphs) <= 20e9
        assert max(graph.parameter_count for graph in graphs) <= 150e6

    def test_a_label_has_ten_rounds_or_more_in_three_processes_or_more(self) -> None:
        assert campaigns.LABEL_PROCESSES >= LABEL_PROCESSES
        assert campaigns.LABEL_PROCESSES * label_plan().rounds >= LABEL_ROUNDS


def test_without_a_profile_nothing_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigns, "FOLDER", tmp_path)

    with pytest.raises(MeasurementError, match="onnxruntime-fp32 is not profiled yet: python -m benchmarks outsiders"):
        profile_taken(Bench("onnxruntime"))
