"""The experiments in pieces, each computed once and kept, so that an interrupted run goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from latcast.predictors.profiling import Stage
from papers.iiswc20.published import Published
from papers.kept_pieces import KeptPieces, files_digest, one_thread, source_digest

ROOMS = ("latcast.devices", "latcast.datasets.importers.iiswc20", "papers.iiswc20")
"""Packages whose source decides what a piece comes to."""

Row = dict[str, Any]


@dataclass(frozen=True, order=True)
class Piece:
    """One part of an experiment.

    Attributes:
        experiment: One of :data:`papers.iiswc20.experiments.EXPERIMENTS`.
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
    return source_digest(ROOMS)


def data_digest(folder: Path) -> str:
    """Of the files of a folder."""
    return files_digest(folder.iterdir())


class Kept(KeptPieces[list[Row]]):
    """A folder of finished pieces, each a list of rows."""

    def code(self) -> str:
        return code_digest()

    def encode(self, result: list[Row]) -> Any:
        return result

    def decode(self, document: Any) -> list[Row]:
        if not isinstance(document, list):
            raise TypeError(f"found {type(document).__name__}, expected a list of rows")
        return document


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
    """Keeps a process to its own core, and the measurements at hand."""
    one_thread()
    _OF_PROCESS["published"] = published


def _compute_here(piece: Piece) -> list[Row]:
    return compute(piece, _OF_PROCESS["published"])


def compute(piece: Piece, published: Published) -> list[Row]:
    """The rows of a piece; numbers that are not finite become None."""
    from papers.iiswc20.experiments import EXPERIMENTS

    return [_plain(row) for row in EXPERIMENTS[piece.experiment](piece, published)]


def _plain(row: Mapping[str, Any]) -> Row:
    plain: Row = {}
    for name, value in row.items():
        if isinstance(value, float):
            plain[name] = float(value) if value - value == 0 else None
        else:
            plain[name] = value.item() if hasattr(value, "item") else value
    return plain
