"""Networks by name, from files of graphs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from latcast.errors import ModelError, UnknownNameError
from latcast.graph.builder import GraphBuilder
from latcast.graph.compact import pack
from latcast.graph.ir import Graph
from latcast.networks import ModelOptions, read_model
from latcast.records import Reference
from latcast.spaces import model_names, named_graphs
from latcast.spaces.catalogue import FAMILY_NAMES, SPACES, build, family, find_model, model, models, resized
from latcast.spaces.measured_only import can_build, why_not
from latcast.spaces.named_graphs import GraphFile, NamedGraph, Origin, graph_file, write_graphs

ORIGIN = Origin("rknn 1.0", "https://example.org", "MIT")


def small(name: str, side: int, channels: int = 8) -> Graph:
    b = GraphBuilder(name)
    return b.finish(b.relu(b.conv(b.input((1, 3, side, side)), channels, 3)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of files in place of those of the package: one space, two networks, one of them at two inputs."""
    for name in FAMILY_NAMES:  # whose files stay those of the package
        assert family(name).published
    monkeypatch.setattr(named_graphs, "FOLDER", tmp_path)
    networks = [
        (NamedGraph("net", 32, 224, 221_184, ORIGIN), pack(small("net", 32))),
        (NamedGraph("net", 64, 224, 884_736, ORIGIN), pack(small("net", 64))),
        (NamedGraph("alias", 32, 224, 221_184, ORIGIN, 0.00022, 0.22, figures="a paper"), pack(small("alias", 32))),
    ]
    write_graphs(tmp_path / "rknn.graphs", networks)
    _forget()
    yield tmp_path
    _forget()


def _forget() -> None:
    named_graphs.graph_file.cache_clear()
    named_graphs.spaces_with_graphs.cache_clear()
    model_names.known_names.cache_clear()


def test_a_file_holds_what_was_written_and_equal_graphs_once(folder: Path) -> None:
    file = GraphFile(folder / "rknn.graphs")

    assert list(file.networks) == [("net", 32), ("net", 64), ("alias", 32)]
    assert file.networks["alias", 32] == NamedGraph("alias", 32, 224, 221_184, ORIGIN, 0.00022, 0.22, "a paper")
    assert file.graph(file.networks["net", 64]).structure_key == small("net", 64).structure_key
    assert file.graph(file.networks["alias", 32]).name == "alias"
    both = len(pack(small("net", 32))) + len(pack(small("net", 64)))
    assert file.path.stat().st_size < both + 700


def test_writing_a_network_again_replaces_it(folder: Path) -> None:
    path = folder / "rknn.graphs"
    known = [(network, GraphFile(path).packed(network)) for network in GraphFile(path).networks.values()]
    write_graphs(path, [*known, (NamedGraph("net", 32, 5, 6, ORIGIN), pack(small("net", 32, 16)))])

    file = GraphFile(path)
    assert list(file.networks) == [("net", 32), ("net", 64), ("alias", 32)]
    assert file.networks["net", 32].macs == 6
    written = file.graph(file.networks["net", 32])
    assert written.shape(written.outputs[0])[1] == 16


def test_a_reference_is_built_where_its_graph_is_there(folder: Path) -> None:
    wide = Reference("rknn", {"name": "net", "input": 64}, "rknn/net")

    assert can_build(wide)
    assert build(wide).shape("input") == (1, 3, 64, 64)
    assert build(Reference("rknn", {"name": "net"})).shape("input") == (1, 3, 32, 32)
    for unknown in ({"name": "net", "input": 65}, {"name": "other"}, {"name": "net", "input": 32, "more": 1}, {"name": ["net"]}):
        reference = Reference("rknn", unknown)
        assert not can_build(reference)
        with pytest.raises(ModelError, match="cannot be built, only its latencies are known: ") as raised:
            build(reference)
        assert str(raised.value).endswith(why_not(reference))


def test_a_name_with_its_space_stands_for_the_network(folder: Path) -> None:
    assert find_model("elsewhere/net") is None
    assert model("rknn/net") == model("rknn/net", as_measured=True) == Reference("rknn", {"name": "net", "input": 32}, "rknn/net")
    assert read_model("rknn/net").name == "rknn/net"
    with pytest.raises(UnknownNameError, match="no network is called 'rknn/nett'; nearest: rknn/net"):
        model("rknn/nett")
    with pytest.raises(ModelError, match="there is no file 'rknn/nett', and no network is called"):
        read_model("rknn/nett")
    assert model("Alias").name == "rknn/alias"


def test_another_size_is_that_of_its_graph_or_worked_out_from_that_of_the_usual_one(folder: Path) -> None:
    assert model("rknn/net@64") == Reference("rknn", {"name": "net", "input": 64}, "rknn/net")
    assert read_model("rknn/net", ModelOptions({"input": (1, 3, 64, 64)})).shape("input") == (1, 3, 64, 64)
    resized_graph, named_so = read_model("rknn/net", ModelOptions({"input": (2, 3, 48, 40)})), read_model("rknn/net@48")
    assert [each.shape(each.outputs[0]) for each in (resized_graph, named_so)] == [(2, 8, 48, 40), (1, 8, 48, 48)]
    with pytest.raises(ModelError, match="rknn/net takes images of 3 channels"):
        read_model("rknn/net", ModelOptions({"input": (1, 4, 48, 48)}))
    with pytest.raises(UnknownNameError, match="no network is called 'rknn/net@4x'"):
        model("rknn/net@4x")


def test_a_network_with_numbers_worked_out_from_its_size_has_that_size_alone() -> None:
    with pytest.raises(ModelError, match="cannot be built for"):
        resized(model("timm/vit_small_patch16_224"), {"": (1, 3, 288, 288)})


def test_they_are_listed_with_the_families(folder: Path) -> None:
    (alias, net) = models("rknn/*")

    assert (alias.name, net.name, net.family, net.source) == ("rknn/alias", "rknn/net", "rknn", "rknn 1.0")
    assert (net.million_parameters, net.million_macs, net.top1_percent) == (0.000224, 0.221184, None)


def test_networks_are_drawn_the_same_for_the_same_seed(folder: Path) -> None:
    space = SPACES.get("rknn")

    assert space.sample(2, 0)[:1] == space.sample(1, 0)
    assert {each.name for each in space.sample(2, 0)} == {"rknn/net", "rknn/alias"}
    with pytest.raises(ModelError, match="found 2 networks of rknn with graphs; expected to draw 3"):
        space.sample(3, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:-3], "the graph of net is damaged"),
        (lambda content: content.replace(b"graphs 1", b"graphs 2"), "expected 'latcast graphs 1 ': it is of another version"),
        (lambda content: content[:60], "its index is not the one that was written"),
        (lambda content: content[:40] + b"!" + content[41:], "damaged"),
        (lambda content: b"", "found b''"),
    ],
)
def test_damage_is_said(folder: Path, change: object, message: str) -> None:
    path = folder / "rknn.graphs"
    path.write_bytes(change(path.read_bytes()))  # type: ignore[operator]
    file = GraphFile(path)

    with pytest.raises(ModelError, match=message):
        file.graph(file.networks["net", 64])


def test_a_space_without_a_file_has_no_graphs(folder: Path) -> None:
    assert graph_file("hailo") is None
    with pytest.raises(ModelError, match="no network can be drawn from measurements alone"):
        SPACES.get("hailo").sample(1, 0)
