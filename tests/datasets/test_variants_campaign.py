"""Measuring a part of the benchmark of variants."""

from __future__ import annotations

from pathlib import Path

from latcast.datasets.store import Store
from latcast.datasets.variants import GraphFacts, Variant
from latcast.datasets.variants_campaign import VARIANT_PLAN, measure_variants
from latcast.measure.campaign import Progress
from tests.measure.behaving import reference, settings

FACTS = GraphFacts(1, 2, 3, 4, "0" * 12, {}, {})
VARIANTS = [Variant("behaving", number, reference("runs", number), FACTS) for number in range(2)]


def test_variants_are_measured_once_for_each_process_and_not_again(tmp_path: Path) -> None:
    steps: list[Progress] = []
    with Store(tmp_path / "store.sqlite") as store:
        first = measure_variants(VARIANTS, settings(), store, processes=2, profile=False, progress=steps.append)
        again = measure_variants(VARIANTS, settings(), store, processes=2, profile=False)
        labels = store.labels(platform=first.platform.id)
    assert (first.added, first.missing, again.added) == (4, 0, 0)
    assert [label.processes for label in labels] == [2, 2]
    assert [label.rounds for label in labels] == [2 * VARIANT_PLAN.rounds] * 2
    assert (steps[-1].done, steps[-1].total) == (4, 4)


def test_kernels_are_timed_unless_told_otherwise(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        report = measure_variants(VARIANTS[:1], settings(), store)
        [measured] = store.measurements(platform=report.platform.id)
    assert measured.executed


def test_nothing_is_begun_after_the_budget(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite") as store:
        report = measure_variants(VARIANTS, settings(), store, budget_s=0)
    assert (report.added, report.missing) == (0, 2)
