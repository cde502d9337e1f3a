"""Energy counters in a folder that stands for /sys/class/powercap."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from latcast.errors import MeasurementError, RuntimeFailure
from latcast.measure.client import Item, MeasuringClient
from latcast.measure.energy import POWERCAP, energy_counters, energy_of
from latcast.measure.probe import QuietTimesFile
from latcast.measure.settings import MeasurePlan
from tests.measure.behaving import reference, settings

RANGE_UJ = 262_143_328_850


def package(root: Path, number: int, energy_uj: int, name: str | None = None) -> Path:
    folder = root / f"intel-rapl:{number}"
    folder.mkdir(parents=True)
    (folder / "name").write_text((name or f"package-{number}") + "\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
    return folder / "energy_uj"


class Ticking:
    """A clock that a run moves on."""

    def __init__(self) -> None:
        self.ms = 0.0

    def now_ms(self) -> float:
        return self.ms


def test_energy_is_what_the_packages_used_over_the_runs(tmp_path: Path) -> None:
    first, second = package(tmp_path, 0, 5_000_000), package(tmp_path, 1, 7_000_000)
    package(tmp_path, 2, 1, "psys")
    package(tmp_path, 3, 1).parent.rename(tmp_path / "intel-rapl:0:0")
    clock = Ticking()

    def run() -> None:
        """10 ms, 200 and 100 mJ."""
        clock.ms += 10
        for file, used_uj in ((first, 200_000), (second, 100_000)):
            file.write_text(str(int(file.read_text()) + used_uj))

    found = energy_of(run, energy_counters(tmp_path), clock, least_ms=50.0)

    assert found == {"energy_mj": 300.0, "power_mw": 30_000.0, "energy_runs": 5, "energy_of": ["package-0", "package-1"]}


def test_a_counter_that_begins_again_is_followed(tmp_path: Path) -> None:
    file = package(tmp_path, 0, RANGE_UJ - 100_000)
    clock = Ticking()

    def run() -> None:
        clock.ms += 100
        file.write_text(str((int(file.read_text()) + 60_000) % RANGE_UJ))

    assert energy_of(run, energy_counters(tmp_path), clock, least_ms=0.0)["energy_mj"] == 60.0


def test_what_counts_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="this machine counts no energy"):
        energy_counters(tmp_path)
    file = package(tmp_path, 0, 5)
    with pytest.raises(MeasurementError, match="the energy counters stand still"):
        energy_of(lambda: None, energy_counters(tmp_path), Ticking(), least_ms=0.0)
    file.write_text("many")
    with pytest.raises(MeasurementError, match=r"energy_uj holds 'many', no number"):
        energy_counters(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_counters_that_only_root_reads_are_refused(tmp_path: Path) -> None:
    package(tmp_path, 0, 5).chmod(0)
    with pytest.raises(MeasurementError, match="may not read"):
        energy_counters(tmp_path)


@pytest.mark.skipif(POWERCAP.is_dir(), reason="this machine may count energy")
def test_a_worker_without_counters_says_so(tmp_path: Path) -> None:
    plan = MeasurePlan(rounds=1, runs_per_round=1, warmup_runs=0, energy=True)
    with (
        MeasuringClient(settings(), QuietTimesFile(tmp_path / "quiet.json")) as client,
        pytest.raises(RuntimeFailure, match="this machine counts no energy"),
    ):
        list(client.measure([Item(reference())], plan))
