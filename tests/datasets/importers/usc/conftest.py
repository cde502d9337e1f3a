"""The small dataset, and networks for its names."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.datasets.importers.usc import built
from latcast.errors import UnknownNameError
from latcast.graph import GraphBuilder
from latcast.graph.ir import Graph
from latcast.records import Reference
from tests.datasets.importers.usc.small_dataset import write_dataset


@pytest.fixture
def small_dataset(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "usc")


@pytest.fixture
def networks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Builds ``net10`` (a convolution and a relu) in pytorchcv's place; lists the names that were built."""
    names: list[str] = []

    def build(reference: Reference) -> Graph:
        names.append(reference.name)
        if reference.name != "net10":
            raise UnknownNameError(f"pytorchcv has no network called '{reference.name}'")
        b = GraphBuilder("net10")
        return b.finish(b.relu(b.conv(b.input((1, 3, 8, 8)), 4, 3)))

    monkeypatch.setattr(built, "build", build)
    return names
