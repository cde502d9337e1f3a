"""The benchmark of variants as a Parquet file."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.datasets.variants import Variant, draw_variants
from latcast.datasets.variants_file import Recipe, read_recipe, read_variant, read_variants, write_variants
from latcast.errors import DatasetError
from latcast.spaces import build

pyarrow = pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")

FAMILIES = ("alexnet", "nas_bench_201")
RECIPE = Recipe(7, 3, FAMILIES, "0.1")


@pytest.fixture(scope="module")
def variants() -> list[Variant]:
    return draw_variants(3, 7, families=FAMILIES)


@pytest.fixture
def file(tmp_path: Path, variants: list[Variant]) -> Path:
    path = tmp_path / "variants.parquet"
    write_variants(path, variants, RECIPE)
    return path


def test_a_written_file_is_read_back(file: Path, variants: list[Variant]) -> None:
    assert read_variants(file) == variants
    assert read_variant(file, 4) == variants[4]
    assert read_recipe(file) == RECIPE


def test_the_same_rows_give_the_same_bytes(tmp_path: Path, file: Path) -> None:
    again = tmp_path / "again.parquet"
    write_variants(again, draw_variants(3, 7, families=FAMILIES), RECIPE)
    assert again.read_bytes() == file.read_bytes()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["again.parquet", "variants.parquet"]


def test_a_row_builds_the_network_that_its_columns_describe(file: Path) -> None:
    import pyarrow.parquet as parquet

    rows = parquet.read_table(file).to_pylist()
    for row, variant in zip(rows, read_variants(file), strict=True):
        graph = build(variant.reference)
        assert row["parameter_count"] == graph.parameter_count
        assert row["operators"] == len(graph.nodes)
        assert row["key"] == variant.reference.key
        assert 0 < row["kernels_onnxruntime"] <= row["operators"]


def test_another_file_is_refused(tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    text, other = tmp_path / "text.parquet", tmp_path / "other.parquet"
    text.write_text("not Parquet")
    parquet.write_table(pyarrow.table({"x": [1]}), other)
    with pytest.raises(DatasetError, match="expected a Parquet file"):
        read_variants(text)
    with pytest.raises(DatasetError, match="not of variants"):
        read_variants(other)
    with pytest.raises(DatasetError, match="cannot read"):
        read_recipe(tmp_path / "absent.parquet")


def test_a_newer_schema_is_refused(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latcast.datasets.variants_file.VARIANTS_SCHEMA", 0)
    with pytest.raises(DatasetError, match="found schema 1, expected 0 or older"):
        read_variants(file)


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("parameters", "{", "parameters: not JSON"),
        ("operator_counts", "[" * 5000, "operator_counts: "),
    ],
)
def test_a_malformed_row_is_refused(file: Path, column: str, value: str, reason: str) -> None:
    import pyarrow.parquet as parquet

    table = parquet.read_table(file)
    changed = table.set_column(table.column_names.index(column), column, pyarrow.array([value] * table.num_rows))
    parquet.write_table(changed, file)

    with pytest.raises(DatasetError, match=reason):
        read_variants(file)
