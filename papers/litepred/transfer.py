"""Predictors of new platforms from a pool of known ones: single kernels (Figs. 6 and 7), networks (Fig. 8, Table 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from latcast.errors import DatasetError
from latcast.kernels.rules import FusionRules, platform_rules
from latcast.predictors.analytical import fit_from_kernels
from latcast.predictors.kernel_predictor import fit_kernel_predictor
from latcast.predictors.metrics import Metrics, judge
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform
from latcast.training.adaptation import held_out_by_kernels
from latcast.training.from_store import collect_stored
from latcast.training.pool import FEWEST, Pool, Similarity, similarities
from latcast.training.profiling import Stage
from latcast.training.residual_transfer import fit_transferred, kernel_source
from latcast.training.samples import KnownKernels, TrainingData, kernel_samples
from papers.harness import Cell, PaperTable, Watch, mean, measuring_seconds, unwatched
from papers.litepred import paper

if TYPE_CHECKING:
    from latcast.datasets.store import Store

AMOUNTS = (25, 50, 100, 200, 400)
"""Adaptation samples at which curves are drawn."""

TEST_SHARE = 0.3

SPLITS = 3
"""Seeds of splits and samples, of which means are given."""


@dataclass(frozen=True)
class Kernels:
    """Measured kernels of one type: (kernels, fields) and (kernels,)."""

    name: str
    configurations: np.ndarray
    latency_ms: np.ndarray

    @classmethod
    def of(cls, known: KnownKernels, name: str) -> Kernels:
        """Return the records of a store that could be measured.

        Raises:
            DatasetError: The store holds hardly any kernels of the type.
        """
        found = {row: latency_ms for row, latency_ms in known.get(name, {}).items() if not np.isnan(latency_ms)}
        least = 2 * AMOUNTS[0]
        if len(found) < least:
            raise DatasetError(
                f"found {len(found)} measured kernels of type '{name}', expected at least {least}; "
                "measure them with: latcast profile --learn-from kernels"
            )
        rows = sorted(found)
        return cls(name, np.array(rows), np.array([found[row] for row in rows]))

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return rows to adapt with, in random order, and rows to judge on."""
        order = np.random.default_rng(seed).permutation(len(self.latency_ms))
        cut = round(TEST_SHARE * len(order))
        return order[cut:], order[:cut]

    def amounts(self) -> list[int]:
        """Return the :data:`AMOUNTS` that there are samples for."""
        return [count for count in AMOUNTS if count <= len(self.latency_ms) - round(TEST_SHARE * len(self.latency_ms))]


def transferred(
    kernels: Kernels, pool: Pool, platforms: Sequence[str], train: np.ndarray, test: np.ndarray, seed: int
) -> Metrics:
    """Return how a predictor adapted from some platforms does on the kernels to judge on; from scratch with no platforms."""
    rows, latency_ms = kernels.configurations[train], kernels.latency_ms[train]
    analytical = fit_from_kernels({kernels.name: (rows, latency_ms)})
    if platforms:
        sources = [kernel_source(pool.predictors[name], kernels.name) for name in platforms]
        predictor = fit_transferred(kernels.name, rows, latency_ms, analytical, sources, seed=seed).predictor
    else:
        predictor = fit_kernel_predictor(kernels.name, rows, latency_ms, analytical, seed=seed)
    return judge(predictor.latency_ms(analytical, kernels.configurations[test]), kernels.latency_ms[test])


SIMILARITIES: Mapping[str, Callable[[Similarity], float]] = {
    "divergence": lambda each: each.divergence,
    "dispersion": lambda each: each.dispersion,
    "spearman": lambda each: np.inf if np.isnan(each.spearman) else -each.spearman,
}
"""Orders by LitePred's similarity, by relative error at a known scale, and by OneProxy's."""

RANDOM = "random"


def chosen(kernels: Kernels, pool: Pool, train: np.ndarray, by: str, seed: int) -> list[str]:
    """Return the pool's platforms, the one to transfer from first, told by the samples to adapt with."""
    found = similarities(pool, kernels.name, kernels.configurations[train], kernels.latency_ms[train])
    if by == RANDOM:
        Random(f"similarity/{seed}").shuffle(found)
    else:
        found.sort(key=SIMILARITIES[by])
    return [each.platform for each in found]


def figure_6(kernels: Kernels, pool: Pool, watch: Watch = unwatched) -> PaperTable:
    """Return how well a predictor does after adaptation, by how it was chosen and by the number of samples."""
    rows: list[tuple[Cell, ...]] = []
    for place, count in enumerate(kernels.amounts()):
        watch(Stage("figure 6", place / len(kernels.amounts())))
        cells: list[Cell] = []
        names = []
        for by in (*SIMILARITIES, RANDOM):
            found = []
            for seed in range(SPLITS):
                train, test = kernels.split(seed)
                first = chosen(kernels, pool, train[:count], by, seed)[:1]
                names += first if by == "divergence" else []
                found.append(transferred(kernels, pool, first, train[:count], test, seed))
            cells += [mean([each.mape for each in found]), mean([each.within_10 for each in found])]
        rows.append((count, *cells, ", ".join(sorted(set(names)))))
    columns = [f"{by}, {figure}" for by in (*SIMILARITIES, RANDOM) for figure in ("MAPE %", "within ±10 %")]
    return PaperTable(
        "figure 6", f"kernels of type '{kernels.name}' after adapting one predictor of {len(pool)}, by how it was chosen",
        ("samples", *columns, "of lowest divergence"), tuple(rows),
        (
            f"The paper: {paper.FEWER_THAN_RANDOM:g} times fewer samples than by chance and {paper.FEWER_THAN_ONEPROXY:g} "
            "times fewer than by rank correlation, for equal accuracy; a pool of phones.",
            f"Mean of {SPLITS} splits; similarity is told from the samples that are adapted with.",
        ),
    )  # fmt: skip


def figure_7(kernels: Kernels, pool: Pool, watch: Watch = unwatched) -> PaperTable:
    """Return a new predictor against one transferred from the most similar platforms, at equal numbers of samples."""
    rows: list[tuple[Cell, ...]] = []
    for place, count in enumerate(kernels.amounts()):
        watch(Stage("figure 7", place / len(kernels.amounts())))
        scratch, adapted = [], []
        for seed in range(SPLITS):
            train, test = kernels.split(seed)
            scratch.append(transferred(kernels, pool, (), train[:count], test, seed))
            names = chosen(kernels, pool, train[:count], "divergence", seed)
            adapted.append(transferred(kernels, pool, names, train[:count], test, seed))
        figures = [
            mean([getattr(each, name) for each in found]) for found in (scratch, adapted) for name in ("mape", "within_10")
        ]
        rows.append((count, *figures))
    return PaperTable(
        "figure 7", f"kernels of type '{kernels.name}': from scratch and transferred",
        ("samples", "from scratch, MAPE %", "from scratch, within ±10 %", "transferred, MAPE %", "transferred, within ±10 %"),
        tuple(rows),
        (
            _fewer(rows),
            "The paper fine-tunes a perceptron and draws curves without numbers; here analytical terms with the sources' "
            f"predictions among them, and trees. Mean of {SPLITS} splits.",
        ),
    )  # fmt: skip


def _fewer(rows: Sequence[Sequence[Cell]]) -> str:
    """Return how many times fewer samples the transferred curve needs to be no worse than from scratch with the most samples."""
    counts = np.array([float(row[0]) for row in rows])  # type: ignore[arg-type]
    scratch, adapted = (np.array([float(row[column]) for row in rows]) for column in (1, 3))  # type: ignore[arg-type]
    reached = counts[adapted <= scratch[-1]]
    if not len(reached):
        return f"Transfer does not reach the error that training from scratch has with {counts[-1]:.0f} samples."
    return (
        f"The error that training from scratch has with {counts[-1]:.0f} samples transfer reaches with {reached.min():.0f}: "
        f"{counts[-1] / reached.min():.1f} times fewer samples."
    )


SHARES = (0.1, 0.25, 0.5, 1.0)

FEWEST_NETWORKS = 5

TYPES = ("conv", "depthwise_conv")

PAUSE_S = 60.0
"""Longer times between two measurements are not counted as measuring."""

FRAMEWORKS = {"litert": "tflite", "tflite-gpu": "tflite"}
"""Runtimes that are one framework under two names."""


@dataclass(frozen=True)
class NewPlatform:
    """A platform with its kernels timed alone and networks to judge on.

    Attributes:
        platform, rules: What was measured.
        data: Kernels and networks.
        minutes: Spent on the kernels.
    """

    platform: Platform
    rules: FusionRules
    data: TrainingData
    minutes: float

    @classmethod
    def of(cls, store: Store, platform: Platform) -> NewPlatform:
        """Return the records of a platform in a store.

        Raises:
            DatasetError: Too few networks were measured.
        """
        rules = platform_rules(platform)
        data = collect_stored(store, platform, rules)
        if len(data.networks) < FEWEST_NETWORKS:
            raise DatasetError(
                f"found {len(data.networks)} measured networks of {platform}, expected at least {FEWEST_NETWORKS} to judge on"
            )
        moments = [each.taken_at for each in store.measurements(platform=platform.id, role="kernel")]
        return cls(platform, rules, data, measuring_seconds(moments, PAUSE_S) / 60)


def figure_8(target: NewPlatform, pool: Pool, *, seed: int = 0, watch: Watch = unwatched) -> PaperTable:
    """Return networks as sums of their kernels, by the part of the measured kernels that is adapted with."""
    data = target.data
    order = np.random.default_rng(seed).permutation(len(data.isolated))
    actual = np.array([sample.latency_ms for sample in data.networks])
    rows: list[tuple[Cell, ...]] = []
    for place, share in enumerate(SHARES):
        watch(Stage("figure 8", place / len(SHARES)))
        taken = [data.isolated[index] for index in order[: round(share * len(order))]]
        cells: list[Cell] = [len(taken)]
        for sources in (False, True):
            predictor = trained_on_kernels(replace(target, data=replace(data, isolated=tuple(taken))), pool, sources, seed)
            figures = judge(predictor.estimate([sample.kernels for sample in data.networks]).latency_ms, actual)
            cells += [figures.mape, figures.within_5, figures.within_10]
        rows.append(tuple(cells))
    columns = [f"{how}, {figure}" for how in ("from scratch", "transferred") for figure in ("MAPE %", "±5 %", "±10 %")]
    few, other = paper.FEWER_AT_90
    return PaperTable(
        "figure 8", f"{len(data.networks)} networks on {target.platform} as sums of their kernels, by kernels measured",
        ("kernels", *columns), tuple(rows),
        (
            f"The paper: {few:g} and {other:g} times fewer samples than its full amounts give 90 % within ±10 %.",
            "No overhead is fitted to these networks: all of them are judged on.",
        ),
    )  # fmt: skip


def trained_on_kernels(target: NewPlatform, pool: Pool, sources: bool, seed: int = 0) -> PlatformPredictor:
    """Return a predictor of kernels timed alone, with or without what the pool says of them."""
    samples = {name: (found.configurations, found.latency_ms) for name, found in kernel_samples(target.data.isolated).items()}
    analytical = fit_from_kernels(samples)
    kernels = {}
    for name, (rows, latency_ms) in samples.items():
        if sources and len(latency_ms) >= FEWEST:
            found = similarities(pool, name, rows, latency_ms)
            chosen = [kernel_source(pool.predictors[each.platform], name) for each in found]
            kernels[name] = fit_transferred(name, rows, latency_ms, analytical, chosen, seed=seed).predictor
        else:
            kernels[name] = fit_kernel_predictor(name, rows, latency_ms, analytical, seed=seed)
    return PlatformPredictor(target.platform, target.rules, analytical, kernels)


def framework(platform: Platform) -> str:
    """Return the paper's inference framework of a platform, without its version."""
    return FRAMEWORKS.get(platform.runtime, platform.runtime)


def table_5(targets: Sequence[NewPlatform], pool: Pool, watch: Watch = unwatched) -> PaperTable:
    """Return networks on new platforms as sums of their adapted kernels, the paper's platforms first."""
    rows: list[tuple[Cell, ...]] = [
        (case, name, conv, depthwise, samples, 60 * hours, None, within_5, within_10, None, None, None)
        for case, name, conv, depthwise, samples, hours, within_5, within_10 in paper.TABLE_5
    ]
    notes = []
    for place, target in enumerate(targets):
        watch(Stage("table 5", place / len(targets)))
        whole = pool.without(lambda each, target=target: each.id == target.platform.id)  # type: ignore[misc]
        others = whole.without(lambda each, target=target: framework(each) == framework(target.platform))  # type: ignore[misc]
        scratch, _ = _metrics(target, whole, sources=False)
        for case, known in (("a", whole), ("b", others)):
            if case == "b" and len(known) == len(whole):
                notes.append(f"{target.platform}: no other platform of the pool has its framework, so (b) is (a).")
                continue
            if not len(known):
                notes.append(f"{target.platform}: no predictor is left for ({case}).")
                continue
            found, as_sums = _metrics(target, known, sources=True)
            rows.append(
                (
                    case, target.platform.id, *(_most_similar(target, known, name) for name in TYPES), len(target.data.isolated),
                    target.minutes, found.mape, found.within_5, found.within_10, as_sums.mape, scratch.mape, scratch.within_10,
                )
            )  # fmt: skip
    return PaperTable(
        "table 5", "networks on new platforms, by kernels transferred from the most similar predictors of a pool",
        (
            "case", "platform", "similar for Conv", "similar for DWConv", "kernels measured", "minutes measured", "MAPE %",
            "±5 %", "±10 %", "as sums, MAPE %", "from scratch, MAPE %", "from scratch, ±10 %",
        ),
        tuple(rows),
        (
            "The paper judges on members of five search spaces, as sums of their kernels; here on the networks of the store, "
            "variants of real families and random ones, with calibration terms learned from other families.",
            "'As sums' is without that, as in the paper.",
            *notes,
        ),
    )  # fmt: skip


def _metrics(target: NewPlatform, pool: Pool, *, sources: bool) -> tuple[Metrics, Metrics]:
    """With calibration terms from other families, and as sums of kernels."""
    predictor = trained_on_kernels(target, pool, sources)
    networks = target.data.networks
    actual_ms = np.array([sample.latency_ms for sample in networks])
    as_sums = judge(predictor.estimate([sample.kernels for sample in networks]).latency_ms, actual_ms)
    return judge(held_out_by_kernels(predictor, networks).latency_ms, actual_ms), as_sums


def _most_similar(target: NewPlatform, pool: Pool, type_name: str) -> str | None:
    samples = kernel_samples(target.data.isolated).get(type_name)
    if samples is None:
        return None
    found = similarities(pool, type_name, samples.configurations, samples.latency_ms)
    return found[0].platform if found else None
