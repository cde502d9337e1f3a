"""Tables and figures from made-up sweeps, and from the published ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.errors import DatasetError
from latcast.workgroups.kernel_tuner_cache import write_cache
from latcast.workgroups.sizes import Grid, WorkGroup
from papers.harness import PaperTable
from papers.workgroups import paper
from papers.workgroups.groups import grouped, read_groups
from papers.workgroups.tables import AuditedGroups, audit_all, draw, figure_6, network_operators, reproduce
from tests.workgroups.made_up_sweep import many_sizes, sweep_of

SIZES = many_sizes(Grid(8, 16, 8), 40)


@pytest.fixture(scope="module")
def audited() -> AuditedGroups:
    by_x = [sweep_of(lambda size, f=f: f * (size.x + 1 / size.items), SIZES, rounds=5) for f in (1.0, 3.0)]
    noise = sweep_of(lambda size: 1.0, SIZES, noise=0.3, seed=4, operator="conv:8x8x8,k3,s1,c8")
    few = sweep_of(lambda size: size.x, SIZES[:10])
    return audit_all(grouped([*by_x, noise, few]))


def test_sweeps_are_grouped_and_small_ones_left_out(audited: AuditedGroups) -> None:
    ((group, audits),) = audited

    assert group.title == "Made-up GPU, Conv"
    assert (len(group.sweeps), group.left_out) == (3, 1)
    assert [bool(audit.refused) for audit in audits] == [False, False, True]


def item(audited: AuditedGroups, name: str) -> PaperTable:
    (found,) = reproduce(audited, (name,))
    return found


def test_figure_5_says_how_far_the_order_can_be_trusted(audited: AuditedGroups) -> None:
    found = item(audited, "figure 5")

    assert found.column("sweeps") == [3]
    assert found.column("ranked") == [2]
    latencies = [size.x + 1 / size.items for size in SIZES]
    assert found.column("worst over best") == [pytest.approx(max(latencies) / min(latencies))]
    assert any("the order of the sizes is noise" in note for note in found.notes)
    assert any("unavailable" in note for note in found.notes)


def test_table_3_has_chance_beside_the_rules_and_the_papers_scores(audited: AuditedGroups) -> None:
    found = item(audited, "table 3")
    score, above = found.rows[0], found.rows[1]

    assert above[2] == pytest.approx(score[2] - score[-1])  # type: ignore[operator]
    assert found.rows[-2][2:7] == paper.TABLE_3["conv"]
    assert found.rows[-1][2:7] == (0.88, 0.90, 0.86, 0.90, 0.99)


def test_defaults_are_relative_to_the_best(audited: AuditedGroups) -> None:
    found = item(audited, "defaults")
    by_strategy = dict(zip(found.column("strategy"), found.column("x best"), strict=True))

    latencies = [size.x + 1 / size.items for size in SIZES]
    assert by_strategy["random"] == pytest.approx(sum(latencies) / len(latencies) / min(latencies))
    assert any("no phone was measured" in note for note in found.notes)


def test_table_2_has_the_papers_initialisation_beside_ours(audited: AuditedGroups) -> None:
    found = item(audited, "table 2")
    divisors = [size for size in SIZES if size.items >= 32 and 8 % size.x == 16 % size.y == 8 % size.z == 0]

    assert found.rows[0][2] == len(divisors) > 0
    # 100 ms a size, of which four runs of five are not needed.
    assert found.rows[0][3] == pytest.approx(len(divisors) * 0.1, rel=0.5)
    assert ("paper, Hikey 970", "initialisation of VGG19", None, 1467.829) in found.rows


def test_figure_6_is_the_sum_over_a_networks_convolutions(audited: AuditedGroups) -> None:
    operator = "conv:16x16x32,k3,s1,c32"
    found = figure_6(audited, {"tiny": {operator: 3}, "other": {operator: 1, "conv:1x1x8,k1,s1,c8": 1}})

    # Of two sweeps of the operator the last counts.
    best_ms = 3 * 3 * min(size.x + 1 / size.items for size in SIZES)
    assert found.column("network") == ["tiny"]
    assert found.column("best ms") == [pytest.approx(best_ms)]
    assert any(note.startswith("other: 1 of its 2 distinct convolutions") for note in found.notes)


def test_the_papers_networks_have_their_convolutions() -> None:
    found = network_operators()

    assert sum(found["VGG16"].values()) == 13
    assert sum(found["MobileNetsV1"].values()) == 27
    assert found["VGG16"]["conv:28x28x512,k3,s1,c512"] == 2


def test_a_folder_is_read_and_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_cache(tmp_path / "made_up.json.gz", sweep_of(lambda size: size.x + 1 / size.items, SIZES, rounds=5))

    audited = audit_all(read_groups(tmp_path))

    (path,) = draw(audited, tmp_path / "plots")
    assert path.name == "figure-5.png"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_folder_without_sweeps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="expected sweeps of work-group sizes"):
        read_groups(tmp_path)
    write_cache(tmp_path / "few.json", sweep_of(lambda size: size.x, [WorkGroup(1), WorkGroup(2)]))
    with pytest.raises(DatasetError, match="no sweep has 20 sizes"):
        read_groups(tmp_path)


@pytest.mark.slow
def test_on_published_gpus_rules_are_little_better_than_chance_but_for_padding(published_data: Path) -> None:
    folder = published_data / "workgroup_sweeps"
    if not folder.is_dir():
        pytest.skip(f"no work-group sweeps at {folder}")
    (table,) = reproduce(audit_all(read_groups(folder)), ("table 3",))
    above = {row[0]: row[2:6] for row in table.rows if row[1] == "minus that of chance"}

    nvidia, amd = above["NVIDIA RTX A4000, convolution_kernel"], above["AMD Radeon PRO W6600, convolution_kernel"]
    assert all(abs(score) < 0.06 for score in nvidia if isinstance(score, float))
    assert amd[3] == pytest.approx(0.27, abs=0.02)


def test_sweeps_that_ran_once_are_listed_without_figures() -> None:
    once = audit_all(grouped([sweep_of(lambda size: size.x + 1 / size.items, SIZES, rounds=1)]))

    (row,) = item(once, "figure 5").rows

    assert row[1:3] == (1, 0)
    assert row[4:8] == (None, None, None, None)
