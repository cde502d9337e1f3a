"""The latencies of known devices, wherever they are kept: a store, a file, a published dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from latcast.datasets.importers import IMPORTERS
from latcast.datasets.opening import open_measurements
from latcast.devices.latency_table import LatencyTable, table_of
from latcast.errors import DatasetError
from latcast.folders import measurements_folder
from latcast.records import Measurement


def read_known(location: str, platforms: str = "*") -> Iterator[Measurement]:
    """Read measurements of networks.

    Args:
        location: A SQLite file, a JSON Lines file, a database URL; the folder of a published dataset; or the name of one that
            ``latcast data import`` has read into the user's folder.
        platforms: Which platforms, as a pattern of their ids (``*/tflite-*/*/fp32``).

    Raises:
        DatasetError: There is nothing of that name, or it is malformed.
    """
    path = Path(location).expanduser()
    if path.is_dir():
        # By the importer of the folder's name, or by the first one that knows its files.
        names = sorted(IMPORTERS.names(), key=lambda name: name != path.name)
        for name in names:
            try:
                found = IMPORTERS.get(name).read(path).measurements
            except DatasetError:
                if name == path.name:
                    raise
                continue
            return (item for item in found if fnmatchcase(item.platform, platforms))
        raise DatasetError(f"the folder {path} holds none of the published datasets {', '.join(sorted(names))}")
    if not path.exists() and location in IMPORTERS:
        kept = measurements_folder() / f"{location}.sqlite"
        if not kept.is_file():
            raise DatasetError(
                f"the dataset {location} has not been imported; download it and run: latcast data import {location} DIR"
            )
        path = kept
    with open_measurements(location if "://" in location else path) as store:
        wanted = [name for name in store.platforms() if fnmatchcase(name, platforms)]
        # All at once: the store closes.
        return iter([item for name in wanted for item in store.measurements(platform=name, role="network")])


def known_table(locations: Iterable[str], platforms: str = "*") -> LatencyTable:
    """Tabulate all known latencies of networks.

    Args:
        locations: See :func:`read_known`.
        platforms: See :func:`read_known`.

    Raises:
        DatasetError: See :func:`read_known`; or no network was measured on a platform of that pattern.
    """
    named = list(locations)
    try:
        return table_of(chain.from_iterable(read_known(location, platforms) for location in named))
    except DatasetError as problem:
        if platforms == "*":
            raise
        raise DatasetError(f"{problem} in {', '.join(named)} whose id is of the pattern '{platforms}'") from problem
