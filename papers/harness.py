"""What the evaluations of all papers share: tables beside the paper's, and trials that are computed once and kept.

A trial is one part of an evaluation, such as one regressor on one split. Its result is kept in a file whose name is a digest of
the trial, of the data and of the source code that computes it: an interrupted evaluation goes on where it was, and no figure
outlives the code or the data that gave it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.util import find_spec
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from latcast.errors import LatcastError
from latcast.measure.campaign import Campaign, CampaignItem, Progress
from latcast.measure.settings import MeasurePlan, WorkerSettings
from latcast.records import Platform, Reference
from latcast.training.profiling import Stage

if TYPE_CHECKING:
    from latcast.datasets.store import Store

Trial = TypeVar("Trial")
Data = TypeVar("Data")
Result = TypeVar("Result")

Cell = str | float | int | None
"""None where there is nothing to compare with, or nothing was measured."""

Watch = Callable[[Stage], None]
"""Told what is being done, and the share of it that is."""


def unwatched(stage: Stage) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper (or a figure, as a table) with ours in it.

    Attributes:
        name: What the paper calls it, in small letters: "table 8", "figure 9".
        title: What it shows.
        columns: With their units. Columns of the paper's own figures say so.
        rows: One cell a column.
        notes: What differs from the paper, what is missing and why, what the figures say; a sentence each.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.name}: a row of {len(row)} cells under {len(self.columns)} columns: {row}")

    def column(self, name: str) -> list[Cell]:
        """Return the cells of a column, from top to bottom."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def records(self) -> list[dict[str, Cell]]:
        """Return the rows by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "columns": list(self.columns),
            "rows": self.records(),
            "notes": list(self.notes),
        }


def mean(cells: Sequence[Cell]) -> float | None:
    """Return the mean of the cells that hold a number; None where none does."""
    numbers = [float(cell) for cell in cells if isinstance(cell, (int, float))]
    return sum(numbers) / len(numbers) if numbers else None


def measuring_seconds(moments: Iterable[str], pause_s: float) -> float:
    """Return the seconds from each record to the next, longer pauses left out.

    Args:
        moments: When each was taken, ISO 8601; empty where that is not known.
        pause_s: The longest time that counts.
    """
    taken = sorted(datetime.fromisoformat(moment.replace("Z", "+00:00")) for moment in moments if moment)
    gaps = [(after - before).total_seconds() for before, after in pairwise(taken)]
    return sum(gap for gap in gaps if gap <= pause_s)


def chosen_items(only: str, items: Collection[str]) -> tuple[str, ...]:
    """Return tables and figures named in ``--only``, whatever their case, in the paper's order; all where none is named.

    Raises:
        LatcastError: One is not among the items.
    """
    wanted = [name.strip().lower() for name in only.split(",") if name.strip()]
    unknown = sorted(set(wanted) - {name.lower() for name in items})
    if unknown:
        raise LatcastError(f"'{unknown[0]}' is not reproduced; there are {', '.join(items)}")
    return tuple(name for name in items if not wanted or name.lower() in wanted)


def make_tables(
    makers: Mapping[str, Callable[[], PaperTable]], chosen: Collection[str], watch: Watch = unwatched
) -> list[PaperTable]:
    """Return the chosen tables, in the order of their makers."""
    found = []
    for name, make in makers.items():
        if name in chosen:
            watch(Stage(name, 1.0))
            found.append(make())
    return found


def files_digest(files: Iterable[Path]) -> str:
    """Return the digest of files by their names and contents."""
    return _digest((file.name, file) for file in sorted(files) if file.is_file())


def source_digest(modules: Iterable[str]) -> str:
    """Return the digest of the source of modules, and of all source and JSON of packages (``latcast.kernels``).

    Raises:
        LatcastError: There is no such module.
    """
    named: list[tuple[str, Path]] = []
    for name in modules:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise LatcastError(f"no module '{name}', whose source results depend on")
        folder = Path(spec.origin).parent
        files = [Path(spec.origin)] if spec.submodule_search_locations is None else sorted(folder.rglob("*"))
        named += [(f"{name}/{file.relative_to(folder)}", file) for file in files if file.suffix in (".py", ".json")]
    return _digest(named)


def _digest(named: Iterable[tuple[str, Path]]) -> str:
    digest = hashlib.sha256()
    for name, file in named:
        digest.update(name.encode() + file.read_bytes())
    return digest.hexdigest()


def plain(value: Any) -> Any:
    """Return a JSON document with numbers of Python, and None for what is not finite."""
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and value - value != 0 else value


@dataclass(frozen=True)
class ResultFolder(Generic[Result]):
    """A folder of results of trials.

    Attributes:
        folder: Where they are; made when the first is kept.
        data: Digest of the measurements.
        code: Digest of the source that computes results.
        decode: A result, which is a dataclass or plain JSON, from its JSON; raises TypeError for something else.
        fresh: Whether results that are there are computed again.
    """

    folder: Path
    data: str
    code: str
    decode: Callable[[Any], Result]
    fresh: bool = False

    def _file(self, trial: Any) -> Path:
        text = json.dumps([asdict(trial), self.data, self.code], sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def get(self, trial: Any) -> Result | None:
        """Return the result of a trial, a dataclass; None where there is none, or its file is damaged."""
        if self.fresh:
            return None
        try:
            return self.decode(json.loads(self._file(trial).read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def put(self, trial: Any, result: Result) -> None:
        """Keep a result, whole or not at all."""
        file = self._file(trial)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(result, default=asdict))
        part.replace(file)


def run_trials(
    trials: Iterable[Trial],
    compute: Callable[[Trial, Data], Result],
    data: Data,
    results: ResultFolder[Result],
    *,
    jobs: int = 1,
    watch: Watch = unwatched,
) -> dict[Trial, Result]:
    """Compute the trials that have no result yet.

    Args:
        compute: A function at the top of a module, as other processes import it.
        data: The measurements; each process gets them once.
    """
    wanted = list(dict.fromkeys(trials))
    found = {trial: result for trial in wanted if (result := results.get(trial)) is not None}
    missing = [trial for trial in wanted if trial not in found]

    def done(trial: Trial, result: Result) -> None:
        results.put(trial, result)
        found[trial] = result
        share = 1 - (len(wanted) - len(found)) / len(missing)
        watch(Stage(f"training and testing, {10 * int(10 * share)} % done", share))

    if jobs == 1 or len(missing) < 2:
        for trial in missing:
            done(trial, compute(trial, data))
    else:
        with process_pool(min(jobs, len(missing)), _begin, compute, data) as pool:
            running = {pool.submit(_compute_here, trial): trial for trial in missing}
            try:
                for future in as_completed(running):
                    done(running[future], future.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return {trial: found[trial] for trial in wanted}


@contextmanager
def process_pool(jobs: int | None, begin: Callable[..., None] | None = None, *arguments: Any) -> Iterator[ProcessPoolExecutor]:
    """Start processes whose linear algebra keeps to one core each.

    Args:
        jobs: How many; one a core where None.
    """
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=begin, initargs=arguments) as pool:
            yield pool
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


ONE_THREAD: Mapping[str, str] = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Read by the libraries of linear algebra when they are loaded."""

_OF_PROCESS: dict[str, Any] = {}


def _begin(compute: Callable[[Trial, Data], Result], data: Data) -> None:
    _OF_PROCESS.update(compute=compute, data=data)


def _compute_here(trial: Any) -> Any:
    return _OF_PROCESS["compute"](trial, _OF_PROCESS["data"])


def measure(
    references: Sequence[Reference],
    plan: MeasurePlan,
    settings: WorkerSettings,
    store: Store,
    *,
    processes: int,
    budget_s: float,
    watch: Watch = unwatched,
    name: str = "timing networks",
) -> Platform:
    """Measures the networks that the store does not hold yet; run again, it goes on where it was.

    Args:
        budget_s: Seconds to measure at most, this time.

    Returns:
        What was measured on.

    Raises:
        RuntimeFailure: The runtime cannot be started.
    """

    def step(progress: Progress) -> None:
        watch(Stage(name, progress.done / progress.total if progress.total else 1.0, progress))

    items = [CampaignItem(reference, "network", plan) for reference in references]
    return Campaign(store, settings, items, processes=processes, budget_s=budget_s, progress=step).run().platform
