"""A campaign in a process of its own, for tests that kill it: ``python -m tests.measure.campaigning STORE``."""

from __future__ import annotations

import sys
from pathlib import Path

from latcast.datasets.store import Store
from latcast.measure.campaign import Campaign, CampaignItem
from latcast.measure.settings import MeasurePlan
from tests.measure.behaving import reference, settings

PLAN = MeasurePlan(rounds=1, runs_per_round=2, warmup_runs=0, batch_size=1)

ITEMS = [CampaignItem(reference("slow", number), plan=PLAN) for number in range(8)]


def main(path: str) -> None:
    """Measures the items once each into a store."""
    with Store(Path(path)) as store:
        Campaign(store, settings(), ITEMS).run()


if __name__ == "__main__":
    main(sys.argv[1])
