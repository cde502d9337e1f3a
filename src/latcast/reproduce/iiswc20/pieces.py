"""The experiments in pieces, each computed once and kept, so that an interrupted run goes on where it was.

A piece is kept under a name made of what it is, of the measurements and of the source code that computes it: no figure
outlives the code or the data that gave it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from latcast.predictors.profiling import Stage
from latcast.reproduce.iiswc20.published import Published

ROOMS = ("transfer", "reproduce/iiswc20", "datasets/importers/iiswc20")
"""Folders whose source decides what a piece comes to."""

Row = dict[str, Any]


@dataclass(frozen=True, order=True)
class Piece:
    """One part of an experiment.

    Attributes:
        experiment: One of :data:`latcast.reproduce.iiswc20.experiments.EXPERIMENTS`.
        seed: Of its split, or of what else is random in it.
        variant: What it is of several things that the experiment compares.
        size: Networks in the signature, or percent of them.
    """

    experiment: str
    seed: int = 0
    variant: str = ""
    size: int = 10


@cache
def code_digest() -> str:
    """Of the source in :data:`ROOMS`."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for room in ROOMS:
        for file in sorted((root / room).rglob("*.py")):
            digest.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return digest.hexdigest()


def data_digest(folder: Path) -> str:
    """Of the files of a folder."""
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.is_file():
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Kept:
    """A folder of finished pieces.

    Attributes:
        folder: Where they are; made when the first is kept.
        data: Digest of the measurements.
        fresh: Whether pieces that are there are computed again.
    """

    folder: Path
    data: str
    fresh: bool = False

    def _file(self, piece: Piece) -> Path:
        text = json.dumps([asdict(piece), self.data, code_digest()], sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def get(self, piece: Piece) -> list[Row] | None:
        """A finished piece; None where there is none, or its file is no good."""
        if self.fresh:
            return None
        try:
            rows = json.loads(self._file(piece).read_text())
        except (OSError, ValueError):
            return None
        return rows if isinstance(rows, list) else None

    def put(self, piece: Piece, rows: Sequence[Row]) -> None:
        """Keeps a piece, whole or not at all."""
        file = self._file(piece)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(rows))
        part.replace(file)


def run_pieces(
    pieces: Iterable[Piece],
    published: Published,
    kept: Kept,
    *,
    jobs: int = 1,
    watch: Callable[[Stage], None] = lambda stage: None,
) -> dict[Piece, list[Row]]:
    """Computes the pieces that are not kept yet.

    Args:
        pieces: What is wanted; the same one several times is computed once.
        published: The measurements.
        kept: Takes each piece as it is done.
        jobs: Processes to compute with; 1 computes in this one.
        watch: Told how far it is.
    """
    wanted = list(dict.fromkeys(pieces))
    found = {piece: rows for piece in wanted if (rows := kept.get(piece)) is not None}
    missing = [piece for piece in wanted if piece not in found]
    done = 0

    def step(piece: Piece, rows: list[Row]) -> None:
        nonlocal done
        kept.put(piece, rows)
        found[piece] = rows
        done += 1
        watch(Stage(f"training and testing, {100 * done // len(missing)} % done", done / len(missing)))

    if jobs == 1 or len(missing) < 2:
        for piece in missing:
            step(piece, compute(piece, published))
    else:
        _in_processes(missing, published, min(jobs, len(missing)), step)
    return {piece: found[piece] for piece in wanted}


def _in_processes(missing: Sequence[Piece], published: Published, jobs: int, step: Callable[[Piece, list[Row]], None]) -> None:
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_begin, initargs=(published,)) as pool:
        running = {pool.submit(_compute_here, piece): piece for piece in missing}
        try:
            for future in as_completed(running):
                step(running[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_OF_PROCESS: dict[str, Published] = {}


def _begin(published: Published) -> None:
    """Keeps the linear algebra of a process to its own core, and the measurements at hand."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    threadpool_limits(1)
    _OF_PROCESS["published"] = published


def _compute_here(piece: Piece) -> list[Row]:
    return compute(piece, _OF_PROCESS["published"])


def compute(piece: Piece, published: Published) -> list[Row]:
    """The rows of a piece; numbers that are not finite become None."""
    from latcast.reproduce.iiswc20.experiments import EXPERIMENTS

    return [_plain(row) for row in EXPERIMENTS[piece.experiment](piece, published)]


def _plain(row: Mapping[str, Any]) -> Row:
    plain: Row = {}
    for name, value in row.items():
        if isinstance(value, float):
            plain[name] = float(value) if value - value == 0 else None
        else:
            plain[name] = value.item() if hasattr(value, "item") else value
    return plain
