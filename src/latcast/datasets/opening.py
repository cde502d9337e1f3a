"""Opening a store or a JSON Lines file of measurements."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from latcast.datasets import jsonlines
from latcast.errors import DatasetError
from latcast.folders import made, measurements_folder
from latcast.measure.probe import settle
from latcast.measure.settings import WorkerSettings
from latcast.measure.statistics import probe_settings
from latcast.reading import require_regular
from latcast.records import Platform
from latcast.registry import beginning_with

if TYPE_CHECKING:
    from latcast.datasets.store import Store
    from latcast.records import Measurement

SQLITE, _GZIP = b"SQLite format 3\0", b"\x1f\x8b"
"""First bytes of a SQLite store and of a gzip file."""

MOST_LOOKED_AT, _DOCUMENT_START = 4096, 200
"""Bytes of a file that are looked at to tell what it is, and of those its first words."""


def records_of(path: Path, start: bytes) -> list[Measurement] | None:
    """Return the measurements of a file that latcast wrote, which begins so; None for one of tools or people."""
    from latcast.datasets.importers.benchmark_tools.stated import JsonReader

    if b'"measurements"' in start[:_DOCUMENT_START]:
        return jsonlines.read_document(path)
    first = start.lstrip().partition(b"\n")[0].decode("utf-8", errors="replace")
    written = path.suffix in (".jsonl", ".gz") or start.startswith(_GZIP) or first[:1] == "{"
    return list(jsonlines.read(path)) if written and not JsonReader().begins(first) else None


def open_measurements(location: str | os.PathLike[str], of: Platform | None = None) -> Store:
    """Return a store that exists, or the records of a file in a store in memory.

    Args:
        location: A SQLite file, a JSON Lines file (``.gz`` where compressed), what ``latcast measure --json`` printed, or a
            database URL.
        of: Where it is given, a table or a tool's output is read as well: of this platform.

    Raises:
        DatasetError: The file does not exist, or has another format.
    """
    from latcast.datasets.store import Store

    text = os.fspath(location)
    if "://" in text:
        return Store(text)
    path = Path(os.path.expanduser(text))
    require_regular(path, error=DatasetError, what="measurements from ")
    try:
        with path.open("rb") as file:
            start = file.read(MOST_LOOKED_AT)
    except OSError as problem:
        raise DatasetError(
            f"cannot read measurements from {path}: {problem.strerror}; expected a SQLite or JSON Lines file"
        ) from problem
    if start.startswith(SQLITE):
        return Store(path)
    records = records_of(path, start)
    if records is None and of is not None:
        from latcast.datasets.importers.benchmark_tools import read_outputs

        records = list(read_outputs([path], platform=of).measurements)
    records = list(jsonlines.read(path)) if records is None else records
    if not records:
        raise DatasetError(f"{path} holds no measurements")
    store = Store(":memory:")
    store.location = str(path)
    store.add_all(records)
    # The file may have been joined from several: one quiet time for each probe, so that all compare.
    for record in records:
        settings = probe_settings(record)
        if settings and settings.get("quiet_ms"):
            key = str(settings["key"])
            store.keep_quiet_ms(key, settle(store.quiet_ms(key), settings["quiet_ms"]))
    return store


@contextmanager
def opened(store: Store | str | os.PathLike[str], of: Platform | None = None) -> Iterator[Store]:
    """Yield a store as it is, which stays open; or what :func:`open_measurements` opens, until the context ends."""
    from latcast.datasets.store import Store

    if isinstance(store, Store):
        yield store
        return
    with open_measurements(store, of) as found:
        yield found


def default_store_path(settings: WorkerSettings, kind: str = "") -> Path:
    """Return where the user's folder keeps measurements of a platform; ``kind`` sets those of another purpose apart."""
    parts = [kind, settings.place, settings.runtime, settings.unit or f"cpu{settings.threads}", settings.precision]
    return made(measurements_folder()) / ("-".join(part for part in parts if part) + ".sqlite")


def only_platform(store: Store, platform_id: str | None = None) -> Platform:
    """Return the platform of this id or beginning of one (``rpi5/tflite``), or the only one of a store.

    Raises:
        DatasetError: The store does not hold it, or holds several that begin so, or several and none was named.
    """
    known = list(store.platforms())
    if platform_id is None:
        if len(known) != 1:
            raise DatasetError(f"{store.location} holds {len(known)} platforms, name one with --on: {', '.join(known)}")
        return Platform.parse(known[0])
    found = beginning_with(platform_id.rstrip("/"), known)
    if not found:
        raise DatasetError(f"{store.location} holds no measurements of {platform_id}; it holds {', '.join(known) or 'none'}")
    if len(found) > 1:
        raise DatasetError(
            f"'{platform_id}' is the beginning of {len(found)} platforms in {store.location}; give more of the id: "
            f"{', '.join(found)}"
        )
    return Platform.parse(found[0])
