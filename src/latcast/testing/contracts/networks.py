"""The contracts of spaces of networks and of importers of model files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest

from latcast.errors import LatcastError
from latcast.graph.importers import IMPORTERS, Importer, load_graph
from latcast.graph.ir import Graph
from latcast.graph.limits import check_graph
from latcast.graph.operators.table import unknown_operators
from latcast.records import Reference
from latcast.spaces.catalogue import SPACES, Space, build

CUTS = 24


class SpaceContract:
    """The tests of a space of networks."""

    space_name: ClassVar[str]
    """Name in :data:`latcast.spaces.catalogue.SPACES`."""

    @pytest.fixture
    def space(self) -> Space:
        return SPACES.get(self.space_name)

    @pytest.fixture
    def members(self, space: Space) -> list[Reference]:
        return space.sample(5, 0)

    def test_as_many_different_members_as_asked_for(self, members: list[Reference]) -> None:
        assert len({reference.key for reference in members}) == len(members) == 5
        assert {reference.space for reference in members} == {self.space_name}

    def test_a_seed_gives_the_same_twice_and_another_something_else(self, space: Space, members: list[Reference]) -> None:
        assert space.sample(5, 0) == members
        assert space.sample(5, 1) != members

    def test_parameters_are_json(self, members: list[Reference]) -> None:
        for reference in members:
            again = Reference(reference.space, json.loads(json.dumps(dict(reference.parameters))), reference.name)

            assert again.key == reference.key
            assert build(again).structure_key == build(reference).structure_key

    def test_members_are_networks_of_known_operators(self, members: list[Reference]) -> None:
        for graph in map(build, members):
            check_graph(graph)
            assert unknown_operators(graph) == []
            assert graph.inputs
            assert graph.outputs


class ImporterContract:
    """The tests of an importer of files."""

    importer_name: ClassVar[str]
    """Name in :data:`latcast.graph.importers.IMPORTERS`."""

    def write(self, folder: Path) -> Path:
        """Write a small network in the format and return the file."""
        raise NotImplementedError

    @pytest.fixture
    def importer(self) -> Importer:
        return IMPORTERS.get(self.importer_name)()

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return self.write(tmp_path)

    def test_it_takes_its_own_files_and_no_others(self, importer: Importer, file: Path, tmp_path: Path) -> None:
        assert importer.accepts(file)
        assert not importer.accepts(tmp_path / "model.no_such_format")
        assert not importer.accepts(object())

    def test_a_file_is_read_as_the_same_network_twice(self, file: Path) -> None:
        graph = load_graph(file, strict=True)

        assert isinstance(graph, Graph)
        assert graph.nodes
        assert graph.structure_key == load_graph(file).structure_key

    def test_a_file_that_ends_early_is_refused_or_read(self, file: Path) -> None:
        content = file.read_bytes()
        for part in range(CUTS):
            file.write_bytes(content[: len(content) * part // CUTS])
            try:
                found: Graph | str = load_graph(file)
            except LatcastError as problem:
                found = str(problem)
            assert file.name in found if isinstance(found, str) else found.nodes
