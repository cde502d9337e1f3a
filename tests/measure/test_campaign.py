"""Campaigns: resumed, killed, cut short, never repeated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from latcast.datasets.store import Store
from latcast.errors import MeasurementError
from latcast.measure.campaign import Campaign, CampaignItem, Progress
from latcast.measure.settings import MeasurePlan
from tests.measure.behaving import PYTHON_PATH, reference, settings
from tests.measure.campaigning import ITEMS

PLAN = MeasurePlan(rounds=2, runs_per_round=2, warmup_runs=0)


def items(*behaviours: str, plan: MeasurePlan = PLAN) -> list[CampaignItem]:
    return [CampaignItem(reference(behaviour), plan=plan) for behaviour in behaviours]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def wait_until(condition: object, seconds: float = 30) -> None:
    """Waits for something another process does."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_each_subject_is_measured_by_as_many_processes_as_asked(store: Store) -> None:
    report = Campaign(store, settings(), items("runs", "prints"), processes=3).run()
    assert (report.added, report.missing, report.complete) == (6, 0, True)
    for label in store.labels(platform=report.platform.id):
        assert (label.rounds, label.processes) == (6, 3)


@pytest.mark.parametrize(("process_s", "workers"), [(None, 1), (0.0, 2)])
def test_a_batch_that_begins_after_a_process_has_had_its_time_gets_a_fresh_one(
    store: Store, process_s: float | None, workers: int
) -> None:
    given = [replace(item, plan=replace(PLAN, batch_size=2)) for item in items("runs", "prints", "slow", "refused")]
    report = Campaign(store, settings(), given, process_s=process_s).run()

    measured = list(store.measurements(failed=True))
    assert report.complete
    assert len(measured) == 4
    assert len({each.environment["moment"]["process"] for each in measured if each.ok}) == workers


def test_failures_are_records_and_end_nothing(store: Store) -> None:
    report = Campaign(store, settings(), items("refused", "dies_running", "runs"), processes=2).run()
    assert report.complete
    assert set(report.failures) == {"refused_0", "dies_running_0"}
    assert report.failures["refused_0"] == "this network is refused"
    counts = Counter((item.reference.name, item.ok) for item in store.measurements(failed=True))
    assert counts == {("refused_0", False): 1, ("dies_running_0", False): 1, ("runs_0", True): 2}


def test_running_again_repeats_nothing_and_more_processes_add_to_it(store: Store) -> None:
    given = items("runs", "refused")
    Campaign(store, settings(), given).run()
    before = list(store.measurements(failed=True))
    again = Campaign(store, settings(), given).run()
    assert (again.added, again.complete) == (0, True)
    assert list(store.measurements(failed=True)) == before
    assert Campaign(store, settings(), given, processes=2).run().added == 1


def test_equal_references_are_one_subject_and_roles_are_two(store: Store) -> None:
    given = [
        *items("runs"),
        *items("runs"),
        CampaignItem(reference("runs"), "kernel", PLAN),
    ]
    assert Campaign(store, settings(), given).run().added == 2
    assert len(list(store.measurements(role="kernel"))) == 1


def test_a_budget_of_0_begins_no_batch_and_reports_missing_records(store: Store) -> None:
    report = Campaign(store, settings(), items("runs", "slow"), processes=2, budget_s=0).run()
    assert (report.added, report.missing, report.complete) == (0, 4, False)


def test_a_budget_ends_the_campaign_between_batches(store: Store) -> None:
    single = MeasurePlan(rounds=1, runs_per_round=1, warmup_runs=0, batch_size=1)
    given = [CampaignItem(reference("slow", number), plan=single) for number in range(200)]
    # 200 subjects of two runs of 50 ms each take at least 20 s; starting a worker on a busy machine takes a few.
    report = Campaign(store, settings(), given, budget_s=4.0).run()
    assert 0 < report.added < 200
    assert report.missing == 200 - report.added == 200 - len(store)


def test_a_batch_that_would_end_after_the_budget_is_cut_or_not_begun(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = replace(PLAN, batch_size=3)
    given = [CampaignItem(reference("runs", number), plan=plan) for number in range(6)]
    now_s = [0.0]
    monkeypatch.setattr(sys.modules[Campaign.__module__], "time", SimpleNamespace(monotonic=lambda: now_s[0]))

    def watch(progress: Progress) -> None:
        now_s[0] += 10.0 * (progress.stage == "measured")

    report = Campaign(store, settings(), given, budget_s=45.0, progress=watch).run()

    assert (report.added, report.complete) == (4, False)  # three in 30 s; of the next three 15 s are enough for one


def test_progress_counts_up_to_the_total(store: Store) -> None:
    steps: list[Progress] = []
    Campaign(store, settings(), items("runs", "refused", "slow"), processes=2, progress=steps.append).run()
    measured = [step for step in steps if step.stage == "measured"]
    # The refused one, loaded first to last, is reported while the others still run; it leaves the total.
    assert [(step.name, step.done, step.total, step.failed) for step in measured] == [
        ("refused_0", 0, 4, 1), ("runs_0", 1, 4, 1), ("slow_0", 2, 4, 1), ("runs_0", 3, 4, 1), ("slow_0", 4, 4, 1),
    ]  # fmt: skip
    assert [step.seconds for step in steps] == sorted(step.seconds for step in steps)
    assert {"loading", "running", "closing"} <= {step.stage for step in steps}


def test_plans_of_one_campaign_may_differ(store: Store) -> None:
    longer = MeasurePlan(rounds=3, runs_per_round=2)
    Campaign(store, settings(), [*items("runs"), *items("prints", plan=longer)]).run()
    assert {item.reference.name: len(item.runs_ms) for item in store.measurements()} == {"runs_0": 4, "prints_0": 6}


def test_a_campaign_over_no_process_is_refused(store: Store) -> None:
    with pytest.raises(MeasurementError, match="0 processes"):
        Campaign(store, settings(), items("runs"), processes=0)


def process_exists(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    # A killed child that nobody has waited for still has a number.
    status = Path(f"/proc/{number}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_killed_campaign_loses_nothing_repeats_nothing_and_leaves_no_worker(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with Store(path) as store:
        environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
        campaign = subprocess.Popen([sys.executable, "-m", "tests.measure.campaigning", str(path)], env=environment)
        wait_until(lambda: len(store) >= 2)
        os.kill(campaign.pid, signal.SIGKILL)
        campaign.wait()
        kept = list(store.measurements())
        assert 2 <= len(kept) < len(ITEMS)
        worker = int(kept[0].environment["moment"]["process"])
        wait_until(lambda: not process_exists(worker))

        report = Campaign(store, settings(), ITEMS).run()
        everything = list(store.measurements())
        assert report.added == len(ITEMS) - len(kept)
        assert everything[: len(kept)] == kept
        assert Counter(item.reference.key for item in everything) == {item.reference.key: 1 for item in ITEMS}
