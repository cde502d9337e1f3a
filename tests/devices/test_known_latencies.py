"""Where latencies of known devices come from, and which of them a new device compares with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from latcast.datasets import jsonlines
from latcast.datasets.store import Store
from latcast.devices.known_latencies import known_table
from latcast.devices.latency_table import LatencyTable
from latcast.errors import DatasetError
from tests.devices.runtimes import made_up_devices, records

NCNN_BOARDS = """\
board,note,block,num_threads,powersave,gpu_device,loop_count,model,min_ms,max_ms,avg_ms
A board,,1,4,0,-1,8,squeezenet,1,3,2
A board,,1,4,0,-1,8,mobilenet,4,6,5
"""


def few() -> LatencyTable:
    return made_up_devices().rows(range(3)).columns(range(4))


def test_a_store_and_a_file_hold_the_same(tmp_path: Path) -> None:
    jsonlines.write(tmp_path / "known.jsonl.gz", records(few()))
    with Store(tmp_path / "known.sqlite") as store:
        store.add_all(records(few()))

    for name in ("known.jsonl.gz", "known.sqlite"):
        found = known_table([str(tmp_path / name)])
        rows = [found.platforms.index(name) for name in few().platforms]
        columns = [found.networks.index(network) for network in few().networks]
        assert found.latency_ms[np.ix_(rows, columns)] == pytest.approx(few().latency_ms)


def test_several_places_add_up(tmp_path: Path) -> None:
    jsonlines.write(tmp_path / "a.jsonl", records(few().rows([0])))
    jsonlines.write(tmp_path / "b.jsonl", records(few().rows([1, 2])))

    assert set(known_table([str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]).platforms) == set(few().platforms)


def test_only_platforms_of_a_pattern(tmp_path: Path) -> None:
    file = str(tmp_path / "known.jsonl")
    jsonlines.write(file, records(few()))

    assert known_table([file], "made[12]/*").platforms == few().platforms[1:]
    with pytest.raises(DatasetError, match="whose id is of the pattern 'pixel4/"):
        known_table([file], "pixel4/*")


def test_an_imported_dataset_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatasetError, match="the dataset usc has not been imported; download it and run: latcast data import usc"):
        known_table(["usc"])
    (tmp_path / "measurements").mkdir()
    with Store(tmp_path / "measurements" / "usc.sqlite") as store:
        store.add_all(records(few()))

    assert known_table(["usc"]).latency_ms.shape == (3, 4)


def test_a_folder_is_read_by_the_importer_that_knows_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "downloaded"
    folder.mkdir()
    with pytest.raises(DatasetError, match="holds none of the published datasets"):
        known_table([str(folder)])
    # The same name as the file of another dataset, whose header it has not.
    (folder / "latency_ms.csv").write_text(NCNN_BOARDS)

    found = known_table([str(folder)])

    assert found.platforms == ("a-board/ncnn-unstated/cpu4/fp32",)
    assert [network.name for network in found.networks] == ["squeezenet", "mobilenet"]
    assert found.latency_ms.tolist() == [[2.0, 5.0]]


def test_a_folder_of_a_dataset_s_name_that_is_malformed_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "ncnn_boards"
    folder.mkdir()
    (folder / "latency_ms.csv").write_text(NCNN_BOARDS.replace("1,3,2", "1,3,-2"))

    with pytest.raises(DatasetError, match=r"latency_ms.csv:2: avg_ms is -2"):
        known_table([str(folder)])


def test_a_place_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="cannot read measurements from"):
        known_table([str(tmp_path / "nothing.jsonl")])
