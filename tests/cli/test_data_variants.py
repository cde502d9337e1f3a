"""``latcast data variants`` and ``latcast data export``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from latcast.datasets import variants
from latcast.datasets.store import Store
from latcast.datasets.variants import FAMILIES, Variant
from latcast.datasets.variants_file import read_variant, read_variants
from latcast.graph.importers import load_graph
from latcast.measure.campaign import CampaignReport
from latcast.measure.settings import WorkerSettings
from latcast.records import Platform
from latcast.spaces import build
from tests.cli.conftest import Latcast

pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")


@pytest.fixture
def file(latcast: Latcast, tmp_path: Path) -> Path:
    path = tmp_path / "variants.parquet"
    assert latcast("data", "variants", "-o", path, "--count", 1).code == 0
    return path


def test_one_command_makes_the_benchmark(latcast: Latcast, file: Path) -> None:
    found = read_variants(file)
    assert [variant.family for variant in found] == list(FAMILIES)
    made = file.stat().st_mtime_ns
    again = latcast("data", "variants", "-o", file, "--count", 1, "--json").json
    assert file.stat().st_mtime_ns == made, "the same file was made again"
    assert again["rows"] == 13
    assert [row["family"] for row in again["families"]] == list(FAMILIES)
    assert again["families"][0]["mean_macs"] == found[0].facts.macs


@pytest.mark.parametrize("suffix", [".onnx", ".tflite"])
def test_any_row_becomes_a_model_file(latcast: Latcast, file: Path, tmp_path: Path, suffix: str) -> None:
    row = FAMILIES.index("nas_bench_201")
    model = tmp_path / f"model{suffix}"
    found = latcast("data", "export", file, "--row", row, "-o", model, "--json").json
    variant = read_variant(file, row)
    assert found["name"] == variant.reference.name
    assert found["size_bytes"] == model.stat().st_size
    written = build(variant.reference)
    read = load_graph(model)
    assert [node.op_type for node in read.nodes if node.op_type == "Conv"] == [
        node.op_type for node in written.nodes if node.op_type == "Conv"
    ]
    assert read.parameter_count > 0


def test_a_row_that_is_not_there_is_one_line(latcast: Latcast, file: Path, tmp_path: Path) -> None:
    assert "rows 0 to 12; row 13" in latcast("data", "export", file, "--row", 13, "-o", tmp_path / "x.onnx").reason


class Campaign:
    """In place of measuring: what was asked for."""

    variants: Sequence[Variant]
    settings: WorkerSettings
    options: dict[str, Any]

    def __call__(self, variants: Sequence[Variant], settings: WorkerSettings, store: Store, **options: Any) -> CampaignReport:
        self.variants, self.settings, self.options = variants, settings, options
        return CampaignReport(Platform.parse("local/onnxruntime-1.31/cpu1/fp32"), 5, {"one": "broke"}, 1, 12.5)


@pytest.fixture
def campaign(monkeypatch: pytest.MonkeyPatch) -> Campaign:
    found = Campaign()
    monkeypatch.setattr(variants, "measure_variants", found)
    return found


def test_a_part_is_measured_into_a_store(latcast: Latcast, file: Path, tmp_path: Path, campaign: Campaign) -> None:
    store = tmp_path / "measured.sqlite"
    found = latcast(
        "data", "variants", "-o", file, "--count", 1, "--measure", 6, "--store", store, "--processes", 3, "--budget", 2,
        "--max-million-weights", 100, "--cpus", 0, "--json",
    )  # fmt: skip
    assert len(campaign.variants) == 6
    assert campaign.options["processes"] == 3
    assert campaign.options["budget_s"] == 120
    assert campaign.settings.cpus == (0,)
    assert found.json["measured"]["missing"] == 1
    assert found.json["measured"]["store"] == str(store)
    assert store.exists()
    assert "one could not be measured: broke" in found.err


def test_networks_beyond_the_limits_are_not_measured(latcast: Latcast, file: Path, campaign: Campaign) -> None:
    found = read_variants(file)
    limit = sorted(variant.facts.macs for variant in found)[6] / 1e9
    outcome = latcast(
        "data", "variants", "-o", file, "--count", 1, "--measure", 5, "--max-gmacs", limit, "--max-million-weights", 1000
    )
    assert outcome.code == 0
    assert all(variant.facts.macs <= 1e9 * limit for variant in campaign.variants)
    assert "5 measurements of 5 networks taken in 12 s, 1 still to take" in outcome.out


def test_a_family_beyond_the_limits_is_named_with_the_limit_that_leaves_it_out(
    latcast: Latcast, file: Path, campaign: Campaign
) -> None:
    least = min(variant.facts.macs for variant in read_variants(file)) / 1e9
    call = ("data", "variants", "-o", file, "--count", 1, "--measure", 1)

    some = latcast(*call, "--max-gmacs", 1.01 * least, "--max-million-weights", 1000)
    none = latcast(*call, "--max-gmacs", 1000, "--max-million-weights", 0.1)

    assert some.code == 0
    assert "0 of 1 variants of vgg are within the limits: 0 within --max-gmacs" in some.err
    assert ", 1 within --max-million-weights 1000; the family is left out" in some.err
    assert none.code == 1
    assert "no variant of any family is within --max-gmacs and --max-million-weights" in none.err


def test_more_than_is_drawn_is_refused_before_anything_is_drawn(latcast: Latcast, tmp_path: Path) -> None:
    # Fourteen of thirteen families are two of one of them.
    found = latcast("data", "variants", "-o", tmp_path / "x.parquet", "--count", 1, "--measure", 14)

    assert found.code == 2
    assert "--measure 14 are 2 of each of 13 families" in found.err
    assert not (tmp_path / "x.parquet").exists()


def test_without_pyarrow_the_extra_is_named_before_anything_is_drawn(
    latcast: Latcast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'latcast[parquet]'" in latcast("data", "variants", "-o", tmp_path / "x.parquet").reason
