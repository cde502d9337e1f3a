"""Networks of pytorchcv, whose graphs come with latcast."""

from __future__ import annotations

import pytest

from latcast.errors import ModelError
from latcast.graph.operators import graph_macs
from latcast.records import Reference
from latcast.spaces.catalogue import build, model
from latcast.spaces.pytorchcv import has_network, reference_of, shipped_names


def test_resnet18_has_its_published_size() -> None:
    graph = build(reference_of("resnet18"))

    assert (graph.name, graph.shape(graph.inputs[0]), graph.shape(graph.outputs[0])) == ("resnet18", (1, 3, 224, 224), (1, 1000))
    # torchvision's table: 11.69 M parameters, 1.81 G multiply-accumulates; batch normalisation folded away.
    assert graph.parameter_count == pytest.approx(11.69e6, rel=2e-3)
    assert graph_macs(graph) == pytest.approx(1.814e9, rel=2e-3)


def test_a_name_with_the_collection_means_the_same_network() -> None:
    assert model("pytorchcv/resnet18").key == reference_of("resnet18").key == Reference("pytorchcv", {"name": "resnet18"}).key


def test_measured_networks_are_told_from_the_others() -> None:
    assert len(shipped_names()) == 78
    assert "resnet18" in shipped_names()
    assert has_network("resnet34")
    assert "resnet34" not in shipped_names()


def test_an_unknown_network_is_refused() -> None:
    assert not has_network("resnet18x")
    with pytest.raises(ModelError, match="'resnet18x' cannot be built"):
        build(reference_of("resnet18x"))
