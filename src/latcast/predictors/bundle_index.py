"""Finds platforms: bundles shipped with the package and in the user's folder (:mod:`latcast.folders`), and the pool."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from latcast.errors import BundleError, UnknownPlatformError, abridged, counted
from latcast.folders import bundles_folder
from latcast.predictors.bundle import read_summary, save_bundle
from latcast.predictors.bundle_files import is_bundle
from latcast.predictors.card import SUMMARY, is_better
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform
from latcast.registry import beginning_with, matching, nearest_names
from latcast.tables import Tabular

if TYPE_CHECKING:
    from latcast.predictors.pool_file import PoolFile

SHIPPED = "shipped"
"""The source of what comes with latcast."""

SHIPPED_FOLDER = Path(__file__).parent / "shipped"

LOCAL = "local"
"""Device name of the machine that latcast runs on."""


class IndexEntry(NamedTuple):
    """A bundle that was found, or a platform of the pool.

    Attributes:
        platform: Its platform id.
        path: Where it is; of a platform of the pool the pool's file.
        card: Its description; see :mod:`latcast.predictors.card`.
    """

    platform: str
    path: Path
    card: Mapping[str, Any]

    @property
    def source(self) -> str:
        """ "shipped" or "user"."""
        return SHIPPED if SHIPPED_FOLDER in self.path.parents or self.path == pool_path() else "user"


@dataclass(frozen=True)
class IndexedBundle:
    """The place of a saved bundle, and the bundle that was there before.

    Attributes:
        path: Where it is.
        is_current: Whether the platform's name means it; otherwise the one that was there before is the better and stays.
        before: The card of the one that was there before; None where there was none that can be read.
    """

    path: Path
    is_current: bool
    before: Mapping[str, Any] | None


class PooledPlatform(NamedTuple):
    """A platform of the shipped pool that was found."""

    pool: PoolFile
    platform: str


@dataclass(frozen=True)
class BundleIndex:
    """Bundles found in folders, and files that could not be read.

    Attributes:
        entries: Readable bundles, by platform id; of two for one platform the user's own stays.
        problems: Why the others cannot be read, a sentence each.
    """

    entries: tuple[IndexEntry, ...]
    problems: tuple[str, ...]


def file_name(platform: Platform | str) -> str:
    """Return the file name of a platform's bundle: a zip, named by the id with ``__`` for each slash."""
    return f"{str(platform).replace('/', '__')}.zip"


def bundle_path(platform: Platform | str) -> Path:
    """Return where the user's bundle of a platform belongs."""
    return bundles_folder() / file_name(platform)


def keep_bundle(
    predictor: PlatformPredictor, output: str | os.PathLike[str] | None = None, *, replace: bool = False
) -> IndexedBundle:
    """Save a bundle; without ``output``, put it aside where the stored bundle of the platform is better.

    No name finds a bundle in the folder ``aside``.

    Args:
        predictor: New.
        output: Where to; the user's folder where None.
        replace: Put it into the user's folder in any case.
    """
    if output is not None:
        return IndexedBundle(save_bundle(predictor, output), True, None)
    path = bundle_path(predictor.platform)
    before = None
    if is_bundle(path):
        with suppress(BundleError):
            _, before = read_summary(path)
    is_current = replace or before is None or is_better(predictor.card, before)
    if not is_current:
        path = path.parent / "aside" / path.name
        number, stem = 1, path.stem
        while path.exists():
            number += 1
            path = path.with_stem(f"{stem}-{number}")
    return IndexedBundle(save_bundle(predictor, path), is_current, before)


def scan_bundles(folders: Sequence[Path] | None = None) -> BundleIndex:
    """Summarise every bundle in folders (the user's and the shipped ones where None) without loading predictors."""
    entries: dict[str, IndexEntry] = {}
    problems: list[str] = []
    for folder in (bundles_folder(), SHIPPED_FOLDER) if folders is None else folders:
        # Sorted, so that of two bundles for one platform the same one is taken every time.
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.name.startswith(".") or not is_bundle(path):
                continue
            found = _entry_of(path, path.stat().st_mtime_ns)
            if isinstance(found, str):
                problems.append(found)
            else:
                entries.setdefault(found.platform, found)
    return BundleIndex(tuple(entries[name] for name in sorted(entries)), tuple(problems))


@lru_cache(maxsize=1024)
def _entry_of(path: Path, _stamp: int) -> IndexEntry | str:
    """Return what a bundle says of itself, or the reason why it cannot be read."""
    try:
        platform, card = read_summary(path)
    except BundleError as problem:
        return str(problem)
    return IndexEntry(platform.id, path, card)


def pool_path() -> Path:
    """Return where the shipped pool is: with the model of devices, whose sources it shares."""
    return SHIPPED_FOLDER.parents[1] / "devices" / "shipped" / "pool.safetensors"


def shipped_pool() -> PoolFile | None:
    """Return the pool that comes with the package; None in a copy without it."""
    path = pool_path()
    return _pool(path, path.stat().st_mtime_ns) if path.is_file() else None


@lru_cache(maxsize=2)
def _pool(path: Path, _stamp: int) -> PoolFile:
    from latcast.predictors.pool_file import PoolFile

    return PoolFile(path)


def available_platforms() -> list[IndexEntry]:
    """Return every platform that can be predicted for, sorted by id."""
    entries = {entry.platform: entry for entry in scan_bundles().entries}
    pool = shipped_pool()
    for name in pool.platforms if pool is not None else ():
        if name not in entries:
            assert pool is not None
            entries[name] = IndexEntry(name, pool.path, pool.card(name))
    return [entries[name] for name in sorted(entries)]


def cards_of(ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Return the cards of some platforms by id; no other shipped bundle is opened."""
    own = {entry.platform: entry.card for entry in scan_bundles([bundles_folder()]).entries}
    pool = shipped_pool()
    found: dict[str, Mapping[str, Any]] = {}
    for name in ids:
        path = SHIPPED_FOLDER / file_name(name)
        if name in own:
            found[name] = own[name]
        elif is_bundle(path):
            _, found[name] = read_summary(path)
        elif pool is not None:
            found[name] = pool.card(name)
    return found


def platform_ids() -> list[str]:
    """Return the id of every platform that can be predicted for, sorted; no shipped bundle is opened."""
    named = (path.stem.replace("__", "/") for path in SHIPPED_FOLDER.glob("*.zip"))
    own = (entry.platform for entry in scan_bundles([bundles_folder()]).entries)
    pool = shipped_pool()
    return sorted({*own, *named, *(pool.platforms if pool is not None else ())})


@dataclass(frozen=True)
class PlatformSummary(Tabular):
    """A platform that can be predicted for, and how well; percentages from 0 to 100.

    Attributes:
        id: Platform id.
        device: Its first part.
        chip: The system on chip or CPU; None where it is not stated.
        unit: The compute unit.
        source: "shipped" or "user".
        mape, within_5, within_10, interval_coverage: On networks that training did not see; None where they were too few.
        label_error: Of the latencies that these figures are against; None where no latency was measured twice.
        trained_on: In words.
        licence: Of the measurements trained on.
    """

    id: str
    device: str
    chip: str | None
    unit: str
    source: str
    mape: float | None
    within_5: float | None
    within_10: float | None
    interval_coverage: float | None
    label_error: float | None
    trained_on: str | None
    licence: str | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def platforms(pattern: str | None = None) -> list[PlatformSummary]:
    """Return every platform that can be predicted for and how well, sorted by id.

    Args:
        pattern: Part of the id, or a glob of the whole id (``"pixel4/*/gpu/*"``); all where None.

    Example:
        >>> import latcast
        >>> [platform.id for platform in latcast.platforms("pixel4/*/gpu/*")]
        ['pixel4/pytorch-2.0/gpu/fp16', 'pixel4/tflite-2.10/gpu/fp16']
        >>> latcast.platforms("pixel4/tflite-2.10/gpu/fp16")[0].chip
        'Snapdragon 855'
    """
    from latcast.chips.chip_names import chip_of

    entries = {entry.platform: entry for entry in available_platforms()}
    found = []
    for name in matching(pattern, entries):
        entry = entries[name]
        platform = Platform.parse(entry.platform)
        chip = entry.card.get("chip") or _cpu_model(entry.card)
        if not chip:
            known = chip_of(platform.device)
            chip = None if known is None else known.name
        figures = {key: entry.card.get(key) for key in SUMMARY}
        found.append(PlatformSummary(platform.id, platform.device, chip, platform.unit, entry.source, **figures))
    return found


def _cpu_model(card: Mapping[str, Any]) -> str | None:
    found: Any = card
    for name in ("environment", "host", "cpu", "model"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else None


def resolve_platform(platform: str | os.PathLike[str] | Platform) -> Path | PooledPlatform:
    """Return the bundle of the platform that a user means, or where it is in the pool.

    Args:
        platform: A bundle's path; a platform id; or the beginning of one where a single platform begins so
            (``local/onnxruntime``). ``local/...`` also means a bundle that was measured on a machine like this one
            (same CPU model), whatever name its device has. ``hub:https://host/ID`` is a platform of a hub.

    Raises:
        UnknownPlatformError: There is none, or several begin so; the message lists the nearest names.
    """
    text = platform.id if isinstance(platform, Platform) else os.fspath(platform)
    if text.startswith(("hub:http://", "hub:https://")):
        from latcast.predictors.hub_bundles import hub_bundle

        return hub_bundle(text)
    path = Path(os.path.expanduser(text))
    if is_bundle(path):
        return path
    if is_path_or_address(text):
        raise UnknownPlatformError(f"found no bundle at '{text}', expected a bundle (a folder or a .zip); check the path")
    wanted = text.rstrip("/")
    # A whole id is a file's name: of the many shipped bundles no other needs to be opened. The user's own go first.
    for folders, named in (((), bundle_path(wanted)), ((bundles_folder(),), SHIPPED_FOLDER / file_name(wanted))):
        if is_bundle(named) and not any(entry.platform == wanted for entry in scan_bundles(folders).entries):
            return named
    pool = shipped_pool()
    index = scan_bundles([bundles_folder()])
    if pool is not None and wanted in pool and not any(entry.platform == wanted for entry in index.entries):
        return PooledPlatform(pool, wanted)
    index = scan_bundles()
    names: dict[str, Path | PooledPlatform] = (
        {} if pool is None else {name: PooledPlatform(pool, name) for name in pool.platforms}
    )
    names |= {entry.platform: entry.path for entry in index.entries}
    known = list(names)
    found = beginning_with(wanted, names)
    if not found and wanted.partition("/")[0] == LOCAL:
        names = {f"{LOCAL}/{entry.platform.partition('/')[2]}": entry.path for entry in index.entries if _measured_here(entry)}
        found = beginning_with(wanted, names)
    if len(found) == 1:
        return names[found[0]]
    if found:
        raise UnknownPlatformError(
            f"'{text}' is the beginning of {len(found)} platforms, expected one; give more of the id: "
            f"{abridged(found, MOST_LISTED)}"
        )
    raise UnknownPlatformError(_nothing_found(text, known, index.problems))


def is_path_or_address(text: str) -> bool:
    """Return whether a text names a bundle's file or a platform of a hub, not one that is known here."""
    return text.endswith(".zip") or text.startswith((".", "/", "~", "hub:"))


def shortest_name(platform: Platform) -> str:
    """Return the shortest beginning of a platform's id that :func:`resolve_platform` resolves to it."""
    text, known = platform.id, platform_ids()
    beginnings = (f"{platform.device}/{platform.runtime}", text.rsplit("/", 2)[0], text.rsplit("/", 1)[0])
    return next((name for name in beginnings if beginning_with(name, known) == [text]), text)


def _measured_here(entry: IndexEntry) -> bool:
    """Return whether a bundle's measurements come from a machine with this CPU."""
    from latcast.environment import cpu_description

    model = _cpu_model(entry.card)
    return model is not None and model == cpu_description()["model"]


MOST_LISTED = 8
"""Platforms that a message lists."""


def _nothing_found(text: str, names: list[str], problems: Sequence[str]) -> str:
    damaged = f" ({counted(len(problems), 'bundle')} there cannot be read: {problems[0]})" if problems else ""
    if not names:
        return (
            f"no predictor for '{text}': found no bundles in {bundles_folder()}{damaged}; "
            "make one with: latcast profile, or put one there"
        )
    if text.partition("/")[0] == LOCAL:
        from latcast.kernels.rules import shipped_rules

        runtime = text.partition("/")[2].partition("/")[0].partition("-")[0]
        option = f" --runtime {runtime}" if runtime in shipped_rules() else ""
        command = f"latcast profile{option}"
        return f"no predictor for '{text}'{damaged}; measure this machine for one with: {command}; all: latcast platforms"
    near = nearest_names(text, names) or (names if len(names) <= MOST_LISTED else [])
    nearest = f"nearest: {abridged(near, MOST_LISTED)}; " if near else ""
    return f"no predictor for '{text}'{damaged}; {nearest}all: latcast platforms"
