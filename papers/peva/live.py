"""The protocol of Li et al. on the machine at hand: learn from synthetic networks, test on real ones (§5.3, §5.5)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from latcast.errors import MeasurementError
from latcast.measure.labels import LABEL_PROCESSES, label_error
from latcast.measure.settings import WorkerSettings
from latcast.predictors.metrics import judge
from latcast.records import Platform, Reference
from latcast.spaces.catalogue import SPACES, model
from latcast.training.demonstration import CHECK_PLAN, CHECKED_NETWORKS
from latcast.training.fitting import Trainer
from latcast.training.from_store import collect_stored, rules_of_store
from latcast.training.profiling import OPERATOR_PLAN, Stage
from latcast.training.samples import NetworkSample, restrict
from papers.harness import Cell, PaperTable, Watch, measure, unwatched
from papers.peva.paper import MODEL_TITLES, MODELS
from papers.peva.trials import METRICS

if TYPE_CHECKING:
    from latcast.datasets.store import Store

SYNTHETIC = "block_sequence"
"""The paper's own space of synthetic networks."""

SIZES = (30, 100, 300)
"""Synthetic networks to learn from; the paper's third size is 900."""

SEED = 0

FURTHER_NETWORKS = (
    "resnet18", "resnet34", "mobilenet_v1", "mobilenet_v1_0_5", "mobilenet_v3_small", "mobilenet_v3_large",
    "shufflenet_v2_x1_0", "densenet121", "googlenet", "resnext50_32x4d",
)  # fmt: skip
"""Real networks beside those of the demonstration, which leaves out the families that its training knows."""

LEARNERS: tuple[tuple[str, str, str], ...] = (
    *((MODEL_TITLES[name], "operators", name) for name in MODELS),
    ("latcast, operators", "operators", "analytical_gbdt"),
    ("latcast, whole networks", "networks", "analytical_gp"),
)
"""(title, what is learned from, model of a kernel type)."""


def real_networks() -> list[Reference]:
    """Return the networks to test on."""
    return [model(name) for name in (*CHECKED_NETWORKS, *FURTHER_NETWORKS)]


def synthetic_networks(count: int = max(SIZES)) -> list[Reference]:
    """Return the networks to learn from; the first are always the same."""
    return SPACES.get(SYNTHETIC).sample(max(SIZES), SEED)[:count]


def measure_live(settings: WorkerSettings, store: Store, *, budget_s: float, watch: Watch = unwatched) -> Platform:
    """Real networks, each in as many processes as a label needs, then synthetic ones once, with their operators.

    Args, returns and raises: see :func:`papers.harness.measure`.
    """
    start_s = time.monotonic()
    measure(
        real_networks(), CHECK_PLAN, settings, store, processes=LABEL_PROCESSES, budget_s=budget_s, watch=watch,
        name="timing real networks",
    )  # fmt: skip
    left_s = max(0.0, budget_s - (time.monotonic() - start_s))
    return measure(
        synthetic_networks(), OPERATOR_PLAN, settings, store, processes=1, budget_s=left_s, watch=watch,
        name="timing synthetic networks",
    )  # fmt: skip


def evaluate_live(store: Store, platform: Platform, *, watch: Watch = unwatched) -> list[PaperTable]:
    """Reproduce what the measurements so far allow.

    Raises:
        MeasurementError: No real or too few synthetic networks were measured yet.
    """
    rules = rules_of_store(store, platform)
    data = collect_stored(store, platform, rules)
    labels = {label.reference.key: label for label in store.labels(platform=platform.id, role="network")}
    tested = [sample for sample in data.networks if sample.reference.space != SYNTHETIC and sample.reference.key in labels]
    order = {reference.key: place for place, reference in enumerate(synthetic_networks())}
    known = [sample for sample in data.networks if sample.reference.space == SYNTHETIC]
    known.sort(key=lambda sample: order.get(sample.reference.key, len(order)))
    if not tested or len(known) < SIZES[0]:
        raise MeasurementError(
            f"{store.location} holds {len(tested)} real and {len(known)} synthetic networks of {platform}; expected real ones "
            f"and at least {SIZES[0]} synthetic ones: the same command measures more"
        )
    actual_ms = np.array([labels[sample.reference.key].latency_ms for sample in tested])
    error = label_error(labels[sample.reference.key] for sample in tested)
    rows: list[tuple[Cell, ...]] = []
    sizes = [size for size in SIZES if size <= len(known)]
    for place, size in enumerate(sizes):
        kept = {sample.reference.key for sample in known[:size]}

        def keep(sample: NetworkSample, kept: set[str] = kept) -> bool:
            return sample.reference.key in kept

        part = restrict(data, keep)
        for title, learn_from, kind in LEARNERS:
            watch(Stage(f"learning from {size} synthetic networks", place / len(sizes)))
            trainer = Trainer(platform, rules, learn_from, kind, SEED)
            predictor, _ = trainer.fit_with_held_out(part, [sample.lineage for sample in part.networks])
            found = judge(predictor.estimate([sample.kernels for sample in tested]).latency_ms, actual_ms)
            rows.append((title, size, found.networks, *(getattr(found, name) for name in METRICS), error.percent))
    note = "" if len(sizes) == len(SIZES) else f"; {len(known)} of {max(SIZES)} synthetic networks are measured by now"
    return [
        PaperTable(
            "live", f"Real networks on {platform}, learned from synthetic ones",
            ("approach", "synthetic networks", "tested", *METRICS.values(), "label error %"), tuple(rows),
            (f"the protocol of §5.3 and §5.5 with the paper's space of synthetic networks{note}",
             "the regressors see latcast's features and overhead, not those of Table 2"),
        )
    ]  # fmt: skip
