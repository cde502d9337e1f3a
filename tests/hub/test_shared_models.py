"""Models behind a link: shapes alone, under the hash of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latcast.errors import HubError
from latcast.graph.compact import unpack
from latcast.graph.ir import Graph
from latcast.hub import database as hub_database
from latcast.hub import model_forecasts
from latcast.hub.database import HubDatabase
from latcast.hub.model_forecasts import packed_shapes
from latcast.networks import read_model


@pytest.fixture(scope="module")
def network() -> Graph:
    graph = read_model("squeezenet1_1")
    return replace(graph, name="secret", nodes=tuple(replace(node, name=f"secret/{node.name}") for node in graph.nodes))


def test_a_shared_model_has_the_same_shapes_and_no_names(network: Graph) -> None:
    packed = packed_shapes(network)
    found = unpack(packed, "model")

    assert found.structure_key == network.structure_key
    names = [found.name, *found.inputs, *found.tensors, *(node.name for node in found.nodes)]
    assert not [name for name in names if "secret" in name]
    assert not set(network.inputs) & set(found.inputs)
    assert len(packed) < 3000


def test_models_are_kept_until_they_are_removed_or_too_many(database: HubDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_database, "MAX_SHARED", 2)
    moments = iter(["2026-01-01", "2026-01-02", "2026-01-03"])
    monkeypatch.setattr(hub_database, "utc_now", lambda: next(moments))
    for key in ("a" * 16, "a" * 16, "b" * 16, "c" * 16):
        database.share_model(key, b"x")

    assert [database.shared_model(key) for key in ("a" * 16, "b" * 16, "c" * 16, "x\x00")] == [None, b"x", b"x", None]
    database.remove_shared_model("b" * 16)
    assert database.shared_model("b" * 16) is None


def test_a_model_of_too_many_shapes_gets_no_link(network: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_forecasts, "MAX_GRAPH_BYTES", 100)

    with pytest.raises(HubError, match="expected at most 100"):
        packed_shapes(network)
