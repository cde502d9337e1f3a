"""``latcast workgroups``."""

from __future__ import annotations

from pathlib import Path

import pytest

from latcast.workgroups.kernel_tuner_cache import write_cache
from latcast.workgroups.sizes import Grid
from tests.cli.conftest import Latcast
from tests.workgroups.made_up_sweep import many_sizes, sweep_of

SIZES = many_sizes(Grid(8, 16, 8), 30)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = sweep_of(lambda size: size.x + 1 / size.items, SIZES, rounds=5)
    return write_cache(tmp_path_factory.mktemp("sweeps") / "made_up.json", made)


def test_an_operator_is_advised_with_every_rules_verdict(latcast: Latcast) -> None:
    found = latcast("workgroups", "advise", "conv:56x56x256,k3,s1,c256", "--on", "hikey970", "-n", "2", "--direct")

    assert found.code == 0, found
    rows = [line.split() for line in found.out.splitlines()]
    first = "conv:56x56x256,k3,s1,c256 conv 28x56x64 9 of 5364 1 2x8x8 no ? yes yes yes 0.0 0.50"
    assert first.split() in rows
    assert ["kFast", "16x1x16", "no", "?", "yes", "no", "no", "12.5", "0.38"] in rows
    assert "?: rule II cannot be evaluated: how many items a core executes at once (K_ac) is not known" in found.out
    assert "no latency was measured or predicted here" in found.out


def test_a_networks_launches_are_json(latcast: Latcast) -> None:
    document = latcast("workgroups", "advise", "mobilenet_v1", "--on", "mi9", "-n", "3", "--json").json

    assert document["device"]["simultaneous_items"] is None
    assert sum(len(launch["names"]) for launch in document["launches"]) == 27
    kinds = {launch["kernel_type"] for launch in document["launches"]}
    assert kinds == {"conv", "depthwise_conv"}
    for launch in document["launches"]:
        assert len(launch["advice"]["shortlist"]) == 3
        assert launch["advice"]["tflite_kfast"]["rules"]["II"] == "cannot be evaluated"


def test_winograd_is_named(latcast: Latcast) -> None:
    found = latcast("workgroups", "advise", "conv:56x56x256,k3,s1,c256", "--on", "pixel3xl")

    assert "runs as Winograd" in found.out


def test_a_profile_of_ones_own_and_another_block(latcast: Latcast, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("max_work_group_size = 64\nmax_x = 64\nmax_y = 64\nmax_z = 64\nsimultaneous_items = 8\n")

    found = latcast("workgroups", "advise", "conv:8x8x16,k3,s1,c16", "--on", path, "--block", "2,2,1", "--json").json

    (launch,) = found["launches"]
    assert launch["advice"]["grid"] == [4, 4, 4]
    assert launch["advice"]["rules"]["V"] == "4·wx·wy about 4·wz"
    assert launch["advice"]["rules"]["I"].endswith("is not known")


def test_a_sweep_is_replayed(latcast: Latcast, cache: Path) -> None:
    found = latcast("workgroups", "replay", cache)

    assert found.code == 0, found
    assert "1 of 1 sweeps ranked, 30 sizes each" in found.out
    assert "repeatability (split-half rank correlation)  1.00, least 1.00" in found.out
    assert "single-shot tuning" in found.out


def test_a_folder_of_sweeps_is_replayed_as_its_files(latcast: Latcast, cache: Path, tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(cache.read_bytes())
    (tmp_path / "notes.txt").write_text("none of them")

    found = latcast("workgroups", "replay", tmp_path)

    assert found.code == 0, found
    assert "2 of 2 sweeps ranked, 30 sizes each" in found.out
    assert len(latcast("workgroups", "replay", tmp_path, "--json").json["sweeps"]) == 2


def test_a_replay_is_json(latcast: Latcast, cache: Path) -> None:
    (sweep,) = latcast("workgroups", "replay", cache, "--json").json["sweeps"]

    best = min(SIZES, key=lambda size: size.x + 1 / size.items)
    assert sweep["best"] == list(best.shape)
    assert [rule["rule"] for rule in sweep["rules"]] == ["I", "II", "III", "IV", "V"]
    assert sweep["utilisation"].startswith("unavailable")


def test_a_sweep_of_noise_is_not_ranked(latcast: Latcast, tmp_path: Path) -> None:
    path = write_cache(tmp_path / "noise.json", sweep_of(lambda size: 1.0, SIZES, noise=0.3))

    found = latcast("workgroups", "replay", path)

    assert "0 of 1 sweeps ranked" in found.out
    assert "the order of the sizes is noise" in found.err
    assert "single-shot" not in found.out
