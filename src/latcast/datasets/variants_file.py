"""The benchmark of variants as one Parquet file: a row a network, and how it was made in the file's metadata.

The same rows give the same bytes with the same version of PyArrow; no time, user or machine enters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latcast.datasets.variants import FAMILIES, RUNTIMES, GraphFacts, Variant
from latcast.errors import DatasetError, MeasurementError
from latcast.extras import require
from latcast.folders import replacing
from latcast.reading import check_schema, parse_json, require_regular
from latcast.records import Reference

if TYPE_CHECKING:
    import pyarrow

VARIANTS_SCHEMA = 1
"""Raised when a column changes its meaning."""

MOST_ROWS = 1_000_000

_METADATA = b"latcast.variants"

_COMPRESSION, _LEVEL = "zstd", 9

_KERNELS = "kernels_"
"""Prefix of the columns with a runtime's number of kernels."""


@dataclass(frozen=True)
class Recipe:
    """The arguments of :func:`latcast.datasets.variants.draw_variants` that make a file again with latcast's ``version``."""

    seed: int
    count: int
    families: tuple[str, ...] = FAMILIES
    version: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": VARIANTS_SCHEMA, "seed": self.seed, "count": self.count, "families": list(self.families),
            "version": self.version, "licence": "CC0-1.0",
        }  # fmt: skip


def require_parquet() -> None:
    """Raise a MissingExtraError if PyArrow is missing, before minutes of drawing."""
    require("the benchmark of variants", "pyarrow")


def _parquet() -> Any:
    require_parquet()
    import pyarrow
    import pyarrow.parquet

    return pyarrow


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def write_variants(path: Path | str, variants: Sequence[Variant], recipe: Recipe) -> None:
    """Write the file; it appears only when it is whole. Raise a DatasetError if it cannot be written."""
    arrow = _parquet()
    file = Path(path)
    facts = [variant.facts for variant in variants]
    columns = {
        "family": ("string", [variant.family for variant in variants]),
        "index": ("int32", [variant.index for variant in variants]),
        "name": ("string", [variant.reference.name for variant in variants]),
        "key": ("string", [variant.reference.key for variant in variants]),
        "parameters": ("string", [_text(dict(variant.reference.parameters)) for variant in variants]),
        "macs": ("int64", [one.macs for one in facts]),
        "flops": ("int64", [one.flops for one in facts]),
        "parameter_count": ("int64", [one.parameters for one in facts]),
        "activation_elements": ("int64", [one.activations for one in facts]),
        "structure": ("string", [one.structure for one in facts]),
        "operators": ("int32", [sum(one.operators.values()) for one in facts]),
        **{_KERNELS + name: ("int32", [sum(one.kernels[name].values()) for one in facts]) for name in RUNTIMES},
        "operator_counts": ("string", [_text(one.operators) for one in facts]),
        "kernel_counts": ("string", [_text(one.kernels) for one in facts]),
    }
    schema = arrow.schema(
        [(name, arrow.type_for_alias(kind)) for name, (kind, _) in columns.items()],
        metadata={_METADATA: _text(recipe.to_json()).encode()},
    )
    table = arrow.table({name: values for name, (_, values) in columns.items()}, schema=schema)
    try:
        with replacing(file) as draft:
            arrow.parquet.write_table(
                table, draft, compression=_COMPRESSION, compression_level=_LEVEL, row_group_size=len(variants) or 1
            )
    except OSError as problem:
        raise DatasetError(f"cannot write {file}: {problem.strerror or problem}") from problem


def _opened(path: Path | str) -> pyarrow.parquet.ParquetFile:
    arrow = _parquet()
    require_regular(Path(path), error=DatasetError)
    try:
        file = arrow.parquet.ParquetFile(path)
    except (OSError, arrow.ArrowInvalid) as problem:
        raise DatasetError(f"cannot read {path}: {str(problem).strip().splitlines()[0]}; expected a Parquet file") from problem
    said = (file.schema_arrow.metadata or {}).get(_METADATA)
    if said is None:
        raise DatasetError(f"{path} is a Parquet file, but not of variants; make one with: latcast data variants -o {path}")
    recipe = parse_json(said, str(path), error=DatasetError)
    schema = recipe.get("schema") if isinstance(recipe, dict) else None
    if type(schema) is not int or file.metadata.num_rows > MOST_ROWS:
        raise DatasetError(
            f"{path} has the schema {schema!r} and {file.metadata.num_rows} rows; expected a number and at most {MOST_ROWS} rows"
        )
    check_schema(schema, VARIANTS_SCHEMA, str(path), error=DatasetError)
    return file


def read_recipe(path: Path | str) -> Recipe:
    """Return a file's recipe; raises as :func:`read_variants` does."""
    with _opened(path) as file:
        said = json.loads(file.schema_arrow.metadata[_METADATA])
    try:
        return Recipe(said["seed"], said["count"], tuple(said["families"]), said["version"])
    except (KeyError, TypeError) as problem:
        raise DatasetError(f"{path} does not say how it was made ({problem!r}); make it again") from problem


def read_variants(path: Path | str) -> list[Variant]:
    """Return all rows of a file, in order; raise a DatasetError if it is not of variants, a MissingExtraError without PyArrow."""
    with _opened(path) as file:
        rows = file.read().to_pylist()
    return [_variant(row, path) for row in rows]


def read_variant(path: Path | str, row: int) -> Variant:
    """Return one row of a file, counted from 0; raises as :func:`read_variants` does, and where there is no such row."""
    with _opened(path) as file:
        if not 0 <= row < file.metadata.num_rows:
            raise DatasetError(f"{path} has the rows 0 to {file.metadata.num_rows - 1}; row {row} was asked for")
        [found] = file.read().slice(row, 1).to_pylist()
    return _variant(found, path)


def _variant(row: Mapping[str, Any], path: Path | str) -> Variant:
    try:
        operators, kernels, parameters = (
            parse_json(row[name], f"{path}: {name}", error=DatasetError)
            for name in ("operator_counts", "kernel_counts", "parameters")
        )
        facts = GraphFacts(
            row["macs"], row["flops"], row["parameter_count"], row["activation_elements"], row["structure"], operators, kernels
        )
        reference = Reference.from_json({"space": row["family"], "parameters": parameters, "name": row["name"]})
        return Variant(row["family"], row["index"], reference, facts)
    except (KeyError, TypeError, MeasurementError) as problem:
        raise DatasetError(f"{path}: a row that is not a variant ({problem!r}); make the file again") from problem
