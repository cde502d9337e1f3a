from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from papers.iiswc20 import experiments, pieces
from papers.iiswc20.pieces import Kept, Piece, Row, run_pieces
from papers.iiswc20.published import Published
from tests.papers.iiswc20.made_up_phones import made_up

WANTED = [Piece("static", seed) for seed in range(3)]


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Seeds of the pieces that are computed; the third one fails while it is the first time."""
    found: list[int] = []

    def experiment(piece: Piece, published: Published) -> Sequence[Row]:
        found.append(piece.seed)
        if piece.seed == 2 and found.count(2) == 1:
            raise KeyboardInterrupt
        return [{"r2": 0.5, "nothing": float("nan")}]

    monkeypatch.setattr(experiments, "EXPERIMENTS", {"static": experiment})
    return found


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path, done: list[int]) -> None:
    kept = Kept(tmp_path, "data")
    with pytest.raises(KeyboardInterrupt):
        run_pieces(WANTED, made_up(), kept)

    found = run_pieces(WANTED, made_up(), kept)

    assert done == [0, 1, 2, 2]
    assert found[WANTED[0]] == [{"r2": 0.5, "nothing": None}]


def test_other_data_and_other_code_compute_anew(tmp_path: Path, done: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    run_pieces(WANTED[:1], made_up(), Kept(tmp_path, "data"))
    run_pieces(WANTED[:1], made_up(), Kept(tmp_path, "data"))
    assert done == [0]

    run_pieces(WANTED[:1], made_up(), Kept(tmp_path, "other data"))
    monkeypatch.setattr(pieces, "code_digest", lambda: "other code")
    run_pieces(WANTED[:1], made_up(), Kept(tmp_path, "data"))
    run_pieces(WANTED[:1], made_up(), Kept(tmp_path, "data", fresh=True))

    assert done == [0] * 4


def test_a_broken_file_is_computed_again(tmp_path: Path, done: list[int]) -> None:
    kept = Kept(tmp_path, "data")
    run_pieces(WANTED[:1], made_up(), kept)
    for file in tmp_path.iterdir():
        file.write_text('[{"r2": 0.')

    run_pieces(WANTED[:1], made_up(), kept)

    assert done == [0, 0]


def test_progress_is_told_of_what_is_missing(tmp_path: Path, done: list[int]) -> None:
    kept, shares = Kept(tmp_path, "data"), []
    run_pieces(WANTED[:1], made_up(), kept)

    run_pieces([*WANTED[:2], *WANTED[:2]], made_up(), kept, watch=lambda stage: shares.append(stage.share))

    assert shares == [1.0]
