"""Samplers at equal numbers of measurements: how well predictors of single kernels do on a fixed test set that none of them saw.

Random and prior samplers spend all their measurements on training. The adaptive one spends a fifth on the test set that steers
it (nn-Meter §5.2), which is not the one that all are judged on. It is judged twice: as in the paper, where the steering set is
never trained on, and as ``latcast profile`` leaves it, where in the end everything that was measured is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from benchmarks.campaigns import FOLDER, Bench, test_networks
from benchmarks.made_up_device import measured_ms
from benchmarks.tables import markdown_table
from latcast.datasets.store import Store
from latcast.kernels.kernel import Configuration
from latcast.kernels.rules import FusionRules, rules_for
from latcast.kernels.search import SingleKernels, find_kernels
from latcast.kernels.types import kernel_type
from latcast.measure.campaign import Campaign, CampaignItem
from latcast.measure.settings import KERNEL_PLAN
from latcast.predictors.analytical import fit_from_kernels
from latcast.predictors.kernel_predictor import ANALYTICAL_GBDT, fit_kernel_predictor
from latcast.predictors.kernel_rounds import KernelRounds
from latcast.predictors.metrics import Metrics, judge
from latcast.predictors.samples import KnownKernels, known_kernels
from latcast.samplers import SAMPLERS
from latcast.samplers.test_set import fixed_test_set
from latcast.spaces import build
from latcast.spaces.kernel_space import KernelSpace, kernel_reference
from latcast.spaces.kernel_zoo import KernelZoo, kernel_zoo

TYPES = ("conv", "depthwise_conv")

JUDGED = 150
"""Kernels of a type that all are judged on."""

JUDGED_SEED = 1_000
"""Not a seed of any sampler."""

ROUNDS = 4

Rows = list[Configuration]


class OutOfTime(Exception):
    """The device had no time to measure everything; run again, it goes on."""


class Device(Protocol):
    """Where kernels are measured."""

    rules: FusionRules

    def measure(self, items: Sequence[CampaignItem]) -> KnownKernels:
        """Everything known after measuring these too.

        Raises:
            OutOfTime: Not all could be measured.
        """


class MadeUpDevice:
    """Convolutions that take as long as :mod:`benchmarks.made_up_device` says, on a runtime that fuses as ONNX Runtime does."""

    def __init__(self) -> None:
        self.rules = rules_for("onnxruntime", "fp32")
        self._known: dict[str, dict[Configuration, float]] = {}

    def measure(self, items: Sequence[CampaignItem]) -> KnownKernels:
        by_type: dict[str, Rows] = {}
        for name, row in map(_kernel_of, items):
            by_type.setdefault(name, []).append(row)
        for name, rows in by_type.items():
            self._known.setdefault(name, {}).update(zip(rows, measured_ms(name, rows).tolist(), strict=True))
        return self._known


@dataclass
class RealDevice:
    """A runtime on this machine, for no longer than some seconds; what it measured before it knows from its store."""

    bench: Bench
    budget_s: float
    spent_s: float = 0.0
    report: Any = field(default=lambda progress: None)
    singles: SingleKernels = field(init=False)

    def __post_init__(self) -> None:
        self.singles = SingleKernels(self.rules)

    @property
    def rules(self) -> FusionRules:
        return rules_for(self.bench.runtime, self.bench.precision)

    def measure(self, items: Sequence[CampaignItem]) -> KnownKernels:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with Store(FOLDER / f"samplers-{self.bench.runtime}-{self.bench.precision}.sqlite") as store:
            left_s = self.budget_s - self.spent_s
            if left_s <= 0:
                raise OutOfTime
            found = Campaign(store, self.bench.settings, items, budget_s=left_s, progress=self.report).run()
            self.spent_s += found.seconds
            if not found.complete:
                raise OutOfTime
            return known_kernels(store, found.platform, self.singles)


def _kernel_of(item: CampaignItem) -> tuple[str, Configuration]:
    name = item.reference.space.removeprefix("kernel/")
    return name, kernel_type(name).configuration(item.reference.parameters)


@dataclass
class Arm:
    """One sampler with one seed on one kernel type, and what it has asked for so far."""

    kernel_type: str
    sampler: str
    seed: int
    count: int
    rules: FusionRules
    zoo: KernelZoo
    waves: list[Rows] = field(default_factory=list)
    curve: list[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def rounds(self) -> KernelRounds:
        return KernelRounds(self.rules, self.zoo, self.count, sampler="adaptive", seed=self.seed, types=(self.kernel_type,))

    @property
    def asked(self) -> Rows:
        return [row for wave in self.waves for row in wave]

    def next_wave(self, known: KnownKernels) -> Rows:
        """What it wants to have measured next: a beginning, then a round each."""
        own = known.get(self.kernel_type, {})
        if self.sampler == "adaptive":
            mine = {self.kernel_type: {row: own[row] for row in self.asked}}
            items = self.rounds.next_round(mine) if self.waves else self.rounds.beginning()
            rows = [row for _, row in map(_kernel_of, items)]
        else:
            first = self.checkpoints[0]
            rows = self._stream[:first] if not self.waves else self._stream[len(self.asked) :][: self.checkpoints[1] - first]
        self.waves.append(rows)
        return rows

    @property
    def checkpoints(self) -> list[int]:
        """Measurements after each wave."""
        return [round(self.count * (0.6 + 0.1 * wave)) for wave in range(ROUNDS + 1)]

    @cached_property
    def _stream(self) -> Rows:
        space = KernelSpace(self.kernel_type, self.rules)
        sampler = SAMPLERS.get(self.sampler)(space, self.zoo.get(self.kernel_type, {}), self.seed)
        return sampler.suggest(self.count)

    def judge(self, known: KnownKernels, judged: Rows, model: str) -> None:
        """Notes how a predictor trained on what was asked for does on the judged kernels."""
        own, hidden = known[self.kernel_type], set(judged)
        actual = np.array([own[row] for row in judged])
        trained = [row for row in self.asked if row not in hidden and not np.isnan(own[row])]
        steering = set(self.rounds.test_set(self.kernel_type)) if self.sampler == "adaptive" else set[Configuration]()
        variants = {"everything": trained}
        if steering:
            variants["without steering set"] = [row for row in trained if row not in steering]
        for name, rows in variants.items():
            metrics = _judged(self.kernel_type, rows, own, judged, actual, model, self.seed)
            self.curve.append({"trained_on": name, "measured": len(self.asked), "model": model, **metrics.to_json()})


def _judged(
    name: str, rows: Rows, known: Mapping[Configuration, float], judged: Rows, actual: np.ndarray, model: str, seed: int
) -> Metrics:
    samples = np.array(rows), np.array([known[row] for row in rows])
    analytical = fit_from_kernels({name: samples})
    predictor = fit_kernel_predictor(name, *samples, analytical, model=model, seed=seed)
    return judge(predictor.latency_ms(analytical, np.array(judged)), actual)


def unseen_kernels(rules: FusionRules, types: Sequence[str]) -> dict[str, Rows]:
    """Kernels of the published networks that accuracy is judged on, each once."""
    found: dict[str, dict[Configuration, None]] = {name: {} for name in types}
    spaces = {name: KernelSpace(name, rules) for name in types}
    for reference in test_networks():
        for kernel in find_kernels(build(reference), rules):
            if kernel.kernel_type in found and spaces[kernel.kernel_type].within_limits(kernel.configuration):
                found[kernel.kernel_type][kernel.configuration] = None
    return {name: list(rows) for name, rows in found.items()}


def compare(
    device: Device,
    *,
    types: Sequence[str] = TYPES,
    seeds: int = 3,
    count: int = 300,
    models: Sequence[str] = (ANALYTICAL_GBDT,),
    judged_on: str = "grid",
) -> dict[str, Any]:
    """All samplers with all seeds, wave by wave, so that everything wanted at one time is measured in one campaign.

    Args:
        device: What measures.
        types: Kernel types.
        seeds: How many of each sampler.
        count: Kernels that each sampler may have measured.
        models: Models of a kernel type.
        judged_on: ``grid`` for the fixed test set of nn-Meter, spread evenly over (HW, K, S); ``networks`` for the kernels of
            published networks of families that no sampler learned from, which is what a forecast needs.

    Raises:
        OutOfTime: The device had no time to measure everything.
    """
    rules = device.rules
    zoo = kernel_zoo(rules)
    if judged_on == "networks":
        judged = unseen_kernels(rules, types)
    else:
        judged = {name: fixed_test_set(KernelSpace(name, rules), zoo.get(name, {}), JUDGED, JUDGED_SEED) for name in types}
    arms = [
        Arm(name, sampler, seed, count, rules, zoo) for name in types for sampler in SAMPLERS.names() for seed in range(seeds)
    ]

    def items(name: str, rows: Rows) -> list[CampaignItem]:
        return [CampaignItem(kernel_reference(name, row), "kernel", KERNEL_PLAN) for row in rows]

    known = device.measure([item for name, rows in judged.items() for item in items(name, rows)])
    judged = {name: [row for row in rows if not np.isnan(known[name][row])] for name, rows in judged.items()}
    for _ in range(ROUNDS + 1):
        wanted = [item for arm in arms for item in items(arm.kernel_type, arm.next_wave(known))]
        known = device.measure(list({item.reference.key: item for item in wanted}.values()))
        for arm in arms:
            for model in models:
                arm.judge(known, judged[arm.kernel_type], model)
    return {
        "count": count,
        "judged_on": judged_on,
        "judged": {name: len(rows) for name, rows in judged.items()},
        "arms": [{"kernel_type": arm.kernel_type, "sampler": arm.sampler, "seed": arm.seed, "curve": arm.curve} for arm in arms],
    }


def samplers_table(document: Mapping[str, Any]) -> str:
    """Mean and standard deviation over seeds of MAPE, and the mean share within ±10 %, after each wave."""
    groups: dict[tuple[str, str, str, str], dict[int, list[Mapping[str, Any]]]] = {}
    for arm in document["arms"]:
        for point in arm["curve"]:
            key = (arm["kernel_type"], point["model"], arm["sampler"], point["trained_on"])
            groups.setdefault(key, {}).setdefault(point["measured"], []).append(point)
    checkpoints = sorted({measured for found in groups.values() for measured in found})
    rows = [[*key, *(_cell(found.get(measured, [])) for measured in checkpoints)] for key, found in sorted(groups.items())]
    head = ["kernel type", "model", "sampler", "trained on", *(f"{measured} kernels" for measured in checkpoints)]
    return markdown_table(head, rows)


def _cell(points: Sequence[Mapping[str, Any]]) -> str:
    if not points:
        return "-"
    errors = [point["mape"] for point in points]
    return f"{np.mean(errors):.1f} ± {np.std(errors):.1f} / {np.mean([point['within_10'] for point in points]):.0f}"
