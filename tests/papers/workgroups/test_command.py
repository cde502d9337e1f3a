"""``python -m papers workgroups``."""

from __future__ import annotations

from pathlib import Path

from latcast.workgroups.kernel_tuner_cache import write_cache
from latcast.workgroups.sizes import Grid
from tests.cli.conftest import Latcast
from tests.workgroups.made_up_sweep import many_sizes, sweep_of


def test_the_tables_are_json(papers: Latcast, tmp_path: Path) -> None:
    made = sweep_of(lambda size: size.x + 1 / size.items, many_sizes(Grid(8, 16, 8), 30), rounds=5)
    (tmp_path / "sweeps").mkdir()
    write_cache(tmp_path / "sweeps" / "made_up.json", made)

    found = papers(
        "workgroups", "--data", tmp_path / "sweeps", "--only", "table 3,figure 5", "--plot", tmp_path / "plots", "--json"
    )

    assert [item["name"] for item in found.json["comparisons"]] == ["table 3", "figure 5"]
    assert len(found.json["sweeps"]) == 1
    assert Path(found.json["plots"][0]).is_file()
