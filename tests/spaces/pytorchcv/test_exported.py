"""Exported networks in the user's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.errors import MissingExtraError, ModelError
from latcast.graph import GraphBuilder
from latcast.graph.writers.onnx import to_onnx
from latcast.spaces.pytorchcv import build, exported
from latcast.spaces.pytorchcv.exported import cached_file


class Exporter:
    """Stands for pytorchcv and PyTorch: writes a convolution and counts."""

    def __init__(self) -> None:
        self.exported: list[tuple[str, int, int | None, int]] = []

    def __call__(self, name: str, resolution: int, classes: int | None, batch: int, file: Path) -> None:
        self.exported.append((name, resolution, classes, batch))
        b = GraphBuilder(name)
        x = b.pad(b.input((batch, 3, resolution, resolution)), (0, 0, 1, 1, 0, 0, 1, 1))
        file.write_bytes(to_onnx(b.finish(b.conv(x, 512, 3, padding=0))))


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Exporter:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))
    monkeypatch.setattr(exported, "version", lambda package: "0.0.74")
    stand_in = Exporter()
    monkeypatch.setattr(exported, "_export", stand_in)
    return stand_in


def test_a_network_is_exported_once(exporter: Exporter) -> None:
    first, second = build("net10"), build("net10")

    assert exporter.exported == [("net10", 224, None, 1)]
    assert first.name == second.name == "net10"
    assert first.structure_key == second.structure_key


def test_what_is_kept_has_no_weights(exporter: Exporter) -> None:
    graph = build("net10")

    assert graph.parameter_count == 512 * 3 * 9
    assert cached_file("net10", 224, None, 1).stat().st_size < 2000


def test_padding_before_a_convolution_is_part_of_it(exporter: Exporter) -> None:
    [convolution] = build("net10").nodes
    assert convolution.attributes["pads"] == (1, 1, 1, 1)


def test_other_sizes_are_other_networks(exporter: Exporter) -> None:
    assert build("net10", resolution=64, batch=2).shape(build("net10").inputs[0]) == (2, 3, 64, 64)
    build("net10", classes=10)

    assert exporter.exported == [("net10", 64, None, 2), ("net10", 224, None, 1), ("net10", 224, 10, 1)]


def test_a_new_pytorchcv_exports_anew(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    build("net10")
    monkeypatch.setattr(exported, "version", lambda package: "0.0.75")
    build("net10")

    assert len(exporter.exported) == 2


@pytest.mark.parametrize("content", [b"", b"\x08", b"not a model"])
def test_a_damaged_file_is_made_anew(exporter: Exporter, content: bytes) -> None:
    build("net10")
    kept = cached_file("net10", 224, None, 1)
    whole = kept.read_bytes()
    kept.write_bytes(content)

    assert len(build("net10").nodes) == 1
    assert kept.read_bytes() == whole
    assert [file.name for file in kept.parent.iterdir()] == [kept.name]


def test_a_cache_that_cannot_be_written_costs_time_only(exporter: Exporter, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")

    assert build("net10").structure_key == build("net10").structure_key
    assert len(exporter.exported) == 2


@pytest.mark.parametrize("parameters", [{"resolution": 0}, {"classes": -1}, {"batch": 1.5}])
def test_sizes_that_are_none_are_refused(exporter: Exporter, parameters: dict[str, int]) -> None:
    with pytest.raises(ModelError, match=r"of net10 is .*; expected a whole number from 1 on"):
        build("net10", **parameters)
    assert exporter.exported == []


def test_without_pytorchcv_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(package: str) -> str:
        raise exported.PackageNotFoundError(package)

    monkeypatch.setattr(exported, "version", not_installed)
    with pytest.raises(MissingExtraError, match=r"latcast\[pytorchcv\]"):
        build("net10")
