"""Networks of Tables 7 and 8 measured here, on the platforms of the predictors that are judged.

Best in the store of the profile that a predictor was trained on: latencies are those of a quiet host, and each store keeps what
it knows of the quiet state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from latcast.measure.campaign import Campaign, CampaignItem, CampaignReport, Progress
from latcast.measure.settings import WorkerSettings
from latcast.measure.statistics import LABEL_PROCESSES, Label
from latcast.predictors.demonstration import CHECK_PLAN
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.profiling import Stage
from latcast.records import Reference

if TYPE_CHECKING:
    from latcast.datasets.store import Store


@dataclass(frozen=True)
class Judged:
    """A predictor with what was measured of its platform.

    Attributes:
        predictor: Of the platform.
        labels: Reference key to the measured latency, for networks that were measured.
    """

    predictor: PlatformPredictor
    labels: Mapping[str, Label]

    @property
    def name(self) -> str:
        return self.predictor.platform.id

    def measured_ms(self, reference: Reference) -> float | None:
        """None where it was not measured, or could not be."""
        label = self.labels.get(reference.key)
        return None if label is None else label.latency_ms

    @classmethod
    def of(cls, predictor: PlatformPredictor, store: Store | None) -> Judged:
        """With what a store holds by now; without one, nothing is measured."""
        found = [] if store is None else store.labels(platform=predictor.platform.id, role="network")
        return cls(predictor, {label.reference.key: label for label in found})


def measure_networks(
    references: Sequence[Reference],
    settings: WorkerSettings,
    store: Store,
    *,
    budget_s: float,
    processes: int = LABEL_PROCESSES,
    watch: Callable[[Stage], None] = lambda stage: None,
) -> CampaignReport:
    """Measures what the store does not hold yet, each network in several processes; run again, it goes on where it was.

    Args:
        references: The networks.
        settings: The platform.
        store: Keeps the measurements.
        budget_s: Seconds to measure at most, this time.
        processes: How many see each network.
        watch: Called at every step.

    Raises:
        RuntimeFailure: The runtime cannot be started.
    """

    def step(progress: Progress) -> None:
        watch(Stage(f"timing on {settings.runtime}", progress.done / progress.total if progress.total else 1.0, progress))

    items = [CampaignItem(reference, "network", CHECK_PLAN) for reference in references]
    return Campaign(store, settings, items, processes=processes, budget_s=budget_s, progress=step).run()
