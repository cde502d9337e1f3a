"""Tables of a paper beside ours, and trials that are computed once and kept."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from latcast.errors import LatcastError
from papers.harness import PaperTable, ResultFolder, chosen_items, mean, measuring_seconds, plain, run_trials, source_digest


def test_rows_become_objects_by_column() -> None:
    found = PaperTable("table 1", "Sizes", ("what", "ms"), (("a", 1.5), ("b", None)), ("a note",))
    assert found.to_json()["rows"] == [{"what": "a", "ms": 1.5}, {"what": "b", "ms": None}]
    assert found.to_json()["notes"] == ["a note"]
    assert found.column("ms") == [1.5, None]


def test_a_row_of_another_length_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="a row of 1 cells under 2 columns"):
        PaperTable("table 1", "Sizes", ("what", "ms"), (("a",),))


def test_a_mean_is_of_the_numbers_there_are() -> None:
    assert mean([1, None, 2.0]) == 1.5
    assert mean([None, "-"]) is None


def test_items_are_found_whatever_their_case_and_given_in_the_papers_order() -> None:
    items = ("figure 2", "table C.4", "figure 3")

    assert chosen_items("TABLE c.4, Figure 2", items) == ("figure 2", "table C.4")
    assert chosen_items("", items) == items
    with pytest.raises(LatcastError, match="'figure 99' is not reproduced; there are figure 2, table"):
        chosen_items("figure 2,figure 99", items)


def test_pauses_are_not_measuring() -> None:
    moments = ["2026-01-01T05:00:00Z", "2026-01-01T00:00:00+00:00", "", "2026-01-01T00:00:30+00:00", "2026-01-01T05:01:00+00:00"]

    assert measuring_seconds(moments, 60) == 90
    assert measuring_seconds([], 60) == 0


def test_numbers_become_those_of_json() -> None:
    assert plain([{"a": np.float64(0.5), "b": float("nan"), "c": np.int64(3), "d": "x"}]) == [
        {"a": 0.5, "b": None, "c": 3, "d": "x"}
    ]


@dataclass(frozen=True)
class Trial:
    seed: int


WANTED = [Trial(seed) for seed in range(3)]


def square(trial: Trial, data: int) -> list[int]:
    return [trial.seed**2 + data]


class Compute:
    """Counts what is computed; the third trial is interrupted while it is the first time."""

    def __init__(self) -> None:
        self.done: list[int] = []

    def __call__(self, trial: Trial, data: int) -> list[int]:
        self.done.append(trial.seed)
        if trial.seed == 2 and self.done.count(2) == 1:
            raise KeyboardInterrupt
        return square(trial, data)


def folder(path: Path, data: str = "data", code: str = "code", *, fresh: bool = False) -> ResultFolder[list[int]]:
    def decode(document: Any) -> list[int]:
        if not isinstance(document, list):
            raise TypeError
        return document

    return ResultFolder(path, data, code, decode, fresh)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    compute = Compute()
    with pytest.raises(KeyboardInterrupt):
        run_trials(WANTED, compute, 1, folder(tmp_path))

    found = run_trials(WANTED, compute, 1, folder(tmp_path))

    assert compute.done == [0, 1, 2, 2]
    assert found == {WANTED[0]: [1], WANTED[1]: [2], WANTED[2]: [5]}


def test_other_data_and_other_code_compute_anew(tmp_path: Path) -> None:
    compute = Compute()
    for _ in range(2):
        run_trials(WANTED[:1], compute, 1, folder(tmp_path))
    assert compute.done == [0]

    for results in (folder(tmp_path, "other data"), folder(tmp_path, code="other code"), folder(tmp_path, fresh=True)):
        run_trials(WANTED[:1], compute, 1, results)

    assert compute.done == [0] * 4


@pytest.mark.parametrize("text", ["[0.", "{}"])
def test_a_broken_file_is_computed_again(tmp_path: Path, text: str) -> None:
    compute = Compute()
    run_trials(WANTED[:1], compute, 1, folder(tmp_path))
    for file in tmp_path.iterdir():
        file.write_text(text)

    run_trials(WANTED[:1], compute, 1, folder(tmp_path))

    assert compute.done == [0, 0]


def test_progress_is_told_of_what_is_missing(tmp_path: Path) -> None:
    shares: list[float] = []
    run_trials(WANTED[:1], square, 1, folder(tmp_path))

    run_trials([*WANTED[:2], *WANTED[:2]], square, 1, folder(tmp_path), watch=lambda stage: shares.append(stage.share))

    assert shares == [1.0]


def test_several_processes_give_what_one_gives_and_leave_the_environment_alone(tmp_path: Path) -> None:
    before = dict(os.environ)

    found = run_trials(WANTED, square, 1, folder(tmp_path), jobs=2)

    assert found == {trial: square(trial, 1) for trial in WANTED}
    assert list(found) == WANTED
    assert dict(os.environ) == before


def test_a_digest_of_source_tells_packages_and_modules_apart() -> None:
    assert source_digest(["papers"]) == source_digest(["papers"])
    assert source_digest(["papers.peva"]) != source_digest(["papers.litepred"])
    assert source_digest(["papers.harness"]) != source_digest(["papers.command"])
    with pytest.raises(LatcastError, match="no module 'papers"):
        source_digest(["papers.nothing"])
