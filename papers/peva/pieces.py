"""The evaluation in pieces: one predictor on one split each, computed once and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from latcast.predictors.profiling import Stage
from papers.kept_pieces import KeptPieces, files_digest, one_thread, source_digest
from papers.peva.published import Published


@dataclass(frozen=True, order=True)
class Piece:
    """One predictor on one split.

    Attributes:
        platform: Id.
        learner: One of :data:`papers.peva.learners.LEARNERS`.
        size: Networks to learn from; 0 for all that the split leaves.
        seed: Of the split and of training.
        kind: Kind of networks.
        held_out: "network" or "lineage".
        tuned: Whether the hyper-parameters of all regressors are chosen by cross-validation; Lasso's always are.
    """

    platform: str
    learner: str
    size: int = 0
    seed: int = 0
    kind: str = "real"
    held_out: str = "network"
    tuned: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a piece came to.

    Attributes:
        predicted_ms, actual_ms: Of the networks held out, by name.
        operations: Group to (actual, predicted) milliseconds of each operation of those networks.
        trained_on: Number of networks learned from.
        overhead_ms: What was added to the sum of operations.
        unfused_ms: Predictions that price what PyTorch fuses as kernels of their own; empty where none was made.
    """

    predicted_ms: Mapping[str, float]
    actual_ms: Mapping[str, float]
    operations: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    trained_on: int = 0
    overhead_ms: float = 0.0
    unfused_ms: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Outcome:
        """Reads what :meth:`to_json` gave.

        Raises:
            TypeError: Something else.
        """
        return cls(**data)  # type: ignore[arg-type]


ROOMS = ("latcast.kernels", "latcast.datasets.importers.usc", "latcast.predictors", "papers.peva")
"""Packages whose source decides what a piece comes to."""


@cache
def code_digest() -> str:
    """Of the source in :data:`ROOMS`."""
    return source_digest(ROOMS, (".py", ".json"))


def data_digest(folder: Path) -> str:
    """Of the CSV files of a folder."""
    return files_digest(folder.glob("*.csv"))


class Kept(KeptPieces[Outcome]):
    """A folder of finished pieces."""

    def code(self) -> str:
        return code_digest()

    def encode(self, result: Outcome) -> Any:
        return result.to_json()

    def decode(self, document: Any) -> Outcome:
        return Outcome.from_json(document)


def run_pieces(
    pieces: Iterable[Piece],
    published: Published,
    kept: Kept,
    *,
    jobs: int = 1,
    watch: Callable[[Stage], None] = lambda stage: None,
) -> dict[Piece, Outcome]:
    """Computes the pieces that are not kept yet.

    Args:
        pieces: What is wanted; the same one several times is computed once.
        published: The measurements.
        kept: Takes each piece as it is done.
        jobs: Processes to compute with; 1 computes in this one.
        watch: Told how far it is.
    """
    wanted = list(dict.fromkeys(pieces))
    found = {piece: outcome for piece in wanted if (outcome := kept.get(piece)) is not None}
    waiting: dict[tuple[str, str], list[Piece]] = {}
    for piece in wanted:
        if piece not in found:
            waiting.setdefault((piece.kind, piece.platform), []).append(piece)
    done = 0
    missing = sum(map(len, waiting.values()))

    def step(some: Mapping[Piece, Outcome]) -> None:
        nonlocal done
        found.update(some)
        done += len(some)
        watch(Stage(f"training and testing, {TENTH * (100 * done // missing // TENTH)} % done", done / missing))

    tasks = [
        (part, Published({(kind, platform): published.of_platform(platform, kind)}), kept)
        for (kind, platform), group in sorted(waiting.items())
        for part in _parts(group)
    ]
    # The longest first, so that no process is left alone with one at the end.
    tasks.sort(key=lambda task: -sum(_cost(piece) for piece in task[0]))
    if jobs == 1:
        for task in tasks:
            step(_compute(*task))
    elif tasks:
        with ProcessPoolExecutor(min(jobs, len(tasks)), get_context("spawn"), initializer=one_thread) as pool:
            running = [pool.submit(_compute, *task) for task in tasks]
            try:
                for future in as_completed(running):
                    step(future.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return {piece: found[piece] for piece in wanted}


PART_SECONDS = 20.0
"""What a process is given at once."""

TENTH = 10


def _cost(piece: Piece) -> float:
    """Seconds, roughly."""
    from papers.peva.learners import LEARNERS

    return LEARNERS[piece.learner].seconds * (0.3 if 0 < piece.size < 100 else 1.0) * (4.0 if piece.tuned else 1.0)


def _parts(group: Sequence[Piece]) -> list[list[Piece]]:
    """Pieces of one platform in tasks of about :data:`PART_SECONDS`."""
    parts: list[list[Piece]] = [[]]
    spent = 0.0
    for piece in group:
        if parts[-1] and spent + _cost(piece) > PART_SECONDS:
            parts.append([])
            spent = 0.0
        parts[-1].append(piece)
        spent += _cost(piece)
    return parts


def _compute(pieces: Sequence[Piece], published: Published, kept: Kept) -> dict[Piece, Outcome]:
    from papers.peva.learners import compute

    found = {}
    for piece in pieces:
        found[piece] = compute(piece, published)
        kept.put(piece, found[piece])
    return found
