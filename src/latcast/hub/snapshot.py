"""Open data: all measurements of a hub as a version that stays as it is, with a licence and a citation."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from latcast.datasets import jsonlines
from latcast.environment import utc_now
from latcast.errors import HubError
from latcast.extras import unavailable
from latcast.folders import replacing
from latcast.hub.database import HubDatabase
from latcast.hub.queries import HubReader
from latcast.reading import parse_json
from latcast.records import Measurement, Platform
from latcast.version import VERSION

DEFAULT_LICENCE = "CC-BY-4.0"
"""SPDX identifier of what contributors agree to unless a hub says otherwise."""

MANIFEST = "manifest.json"
MEASUREMENTS, PARQUET = "measurements.jsonl.gz", "measurements.parquet"
FILES = (MEASUREMENTS, PARQUET, "CITATION.cff", "README.md", MANIFEST)

PARQUET_COLUMNS = (
    "platform", "device", "runtime", "runtime_version", "unit", "precision", "network", "key", "space", "parameters", "role",
    "latency_ms", "raw_latency_ms", "variation", "runs_ms", "statistic", "warmup_runs", "taken_at", "error", "environment",
)  # fmt: skip

PORTION = 2000
"""Records written to Parquet at once."""

_VERSION = re.compile(r"\d{4}-\d\d-\d\d(?:\.\d{1,4})?")


@dataclass(frozen=True)
class Snapshot:
    """A version of all measurements.

    Attributes:
        version: The day, with a number behind it from the second one of a day on.
        made_at: When.
        licence: SPDX identifier.
        measurements, platforms, networks, contributors: How many.
        model: Number of the hub's model, and its error on held-out devices.
        files: Name to size in bytes and SHA-256.
    """

    version: str
    made_at: str
    licence: str
    measurements: int
    platforms: int
    networks: int
    contributors: int
    model: dict[str, Any] | None
    files: dict[str, dict[str, Any]]


def make_snapshot(database: HubDatabase, folder: Path, *, licence: str = DEFAULT_LICENCE, url: str = "") -> Snapshot:
    """Write a new version below a folder: JSON Lines, and Parquet beside it where that is installed.

    Args:
        url: Where the hub is, for the citation.

    Raises:
        HubError: There is nothing to publish, or the folder cannot be written.
    """
    parquet = unavailable("Parquet", "pyarrow") is None
    reader = HubReader(database)
    counts = reader.counts()
    if not counts["measurements"]:
        raise HubError("there is nothing to publish; upload measurements first")
    made_at = utc_now()
    number, version = 1, made_at[:10]
    while (folder / version).exists():
        number += 1
        version = f"{made_at[:10]}.{number}"
    newest = next(iter(reader.models()), None)
    contributors = [item["name"] for item in reader.contributors()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / version) as draft:
            draft.mkdir()
            names = reader.all_references()
            records = database.measurements(failed=True, as_taken=True)
            # Under the names that all see; a network that was uploaded since they were read keeps its uploader's.
            named = (replace(item, reference=names.get(item.reference.key, item.reference)) for item in records)
            written = jsonlines.write(draft / MEASUREMENTS, named)
            if parquet:
                _write_parquet(draft / PARQUET, jsonlines.read(draft / MEASUREMENTS))
            (draft / "CITATION.cff").write_text(_citation(version, made_at, licence, url, contributors), encoding="utf-8")
            (draft / "README.md").write_text(_readme(version, licence, url, written, parquet), encoding="utf-8")
            files = {}
            for file in sorted(draft.iterdir()):
                digest = hashlib.sha256()
                with file.open("rb") as content:
                    while block := content.read(1 << 20):
                        digest.update(block)
                files[file.name] = {"size_bytes": file.stat().st_size, "sha256": digest.hexdigest()}
            found = Snapshot(
                version,
                made_at,
                licence,
                written,
                counts["platforms"],
                counts["networks"],
                len(contributors),
                None if newest is None else {"number": newest["number"], "held_out": newest["held_out"]},
                files,
            )
            (draft / MANIFEST).write_text(json.dumps(vars(found), indent=1) + "\n", encoding="utf-8")
    except OSError as problem:
        raise HubError(f"cannot write the snapshot {folder / version}: {problem.strerror or problem}") from problem
    return found


def list_snapshots(folder: Path) -> list[Snapshot]:
    """Return the versions below a folder, the newest first."""
    manifests = [path for path in folder.glob(f"*/{MANIFEST}") if _VERSION.fullmatch(path.parent.name)]
    found = [Snapshot(**parse_json(path.read_bytes(), str(path), error=HubError)) for path in manifests]
    return sorted(found, key=lambda each: each.made_at, reverse=True)


def snapshot_file(folder: Path, version: str, name: str) -> Path:
    """Return the path of a file of a version.

    Raises:
        HubError: No snapshot has this name (404).
    """
    path = folder / version / name
    if not _VERSION.fullmatch(version) or name not in FILES or not path.is_file():
        raise HubError(f"no snapshot '{version[:20]}' has a file '{name[:40]}'; /api/snapshots lists them", 404)
    return path


def drop_snapshot(folder: Path, version: str) -> None:
    """Remove a version, where someone asked for measurements to be removed that it holds.

    Raises:
        HubError: No snapshot has this name.
    """
    snapshot_file(folder, version, MANIFEST)
    shutil.rmtree(folder / version)


def _write_parquet(path: Path, measurements: Iterator[Measurement]) -> None:
    import pyarrow
    from pyarrow import parquet

    kinds = dict.fromkeys(("latency_ms", "raw_latency_ms", "variation"), pyarrow.float64())
    kinds |= {"runs_ms": pyarrow.list_(pyarrow.float64()), "warmup_runs": pyarrow.int64()}
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in PARQUET_COLUMNS])
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while portion := list(islice(measurements, PORTION)):
            rows = []
            for item in portion:
                reference = item.reference
                row = {**vars(item), **asdict(Platform.parse(item.platform))}
                row |= {"network": reference.name, "key": reference.key, "space": reference.space}
                row["parameters"] = json.dumps(dict(reference.parameters), sort_keys=True)
                row["environment"] = json.dumps(dict(item.environment), sort_keys=True)
                rows.append({name: row[name] for name in PARQUET_COLUMNS})
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))


def _citation(version: str, made_at: str, licence: str, url: str, names: Sequence[str]) -> str:
    lines = [
        "cff-version: 1.2.0",
        "message: If you use these measurements, please cite this version of them.",
        'title: "Latencies of neural networks on devices, a snapshot of a latcast hub"',
        "type: dataset",
        f'version: "{version}"',
        f"date-released: {made_at[:10]}",
        f"license: {licence}",
        *([f"url: {json.dumps(url)}"] if url else []),
        "authors:",
        *(f"  - name: {json.dumps(name, ensure_ascii=False)}" for name in names or ["The contributors"]),
    ]
    return "\n".join(lines) + "\n"


def _readme(version: str, licence: str, url: str, measurements: int, parquet: bool) -> str:
    columns = (
        f"\n`{PARQUET}` has a row for each record; runs are a list, parameters and environment JSON texts." if parquet else ""
    )
    return f"""# Latencies of neural networks on devices, {version}

{measurements} measurements of a latcast hub{f" ({url})" if url else ""}, as they were taken, failed ones too. Licence: {licence}.
Cite it as `CITATION.cff` says; `{MANIFEST}` has the size and the SHA-256 of every file.

`{MEASUREMENTS}` has a measurement on each line, as `latcast data` reads it:

    latcast data merge all.sqlite {MEASUREMENTS}
{columns}
Made by latcast {VERSION}.
"""
