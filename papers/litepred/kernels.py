"""Figs. 6 and 7: transfer of single kernels, from a pool of bundles to a platform whose kernels a store holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from latcast.devices.pool import SIMILARITIES, Pool, ranked, similarities
from latcast.devices.residual_transfer import fit_transferred, kernel_source
from latcast.errors import DatasetError
from latcast.predictors.analytical import fit_from_kernels
from latcast.predictors.kernel_predictor import fit_kernel_predictor
from latcast.predictors.kernel_rounds import KnownKernels
from latcast.predictors.metrics import Metrics, judge
from papers.comparison import Cell, Comparison, mean
from papers.litepred import paper

AMOUNTS = (25, 50, 100, 200, 400)
"""Adaptation samples at which curves are drawn."""

TEST_SHARE = 0.3

SPLITS = 3
"""Seeds of splits and samples, of which means are given."""

Watch = Callable[[str, float], None]


@dataclass(frozen=True)
class Kernels:
    """Measured kernels of one type: (kernels, fields) and (kernels,)."""

    name: str
    configurations: np.ndarray
    latency_ms: np.ndarray

    @classmethod
    def of(cls, known: KnownKernels, name: str) -> Kernels:
        """Those of a store that could be measured.

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
        """Rows to adapt with, in random order, and rows to judge on."""
        order = np.random.default_rng(seed).permutation(len(self.latency_ms))
        cut = round(TEST_SHARE * len(order))
        return order[cut:], order[:cut]

    def amounts(self) -> list[int]:
        """Those of :data:`AMOUNTS` that there are samples for."""
        return [count for count in AMOUNTS if count <= len(self.latency_ms) - round(TEST_SHARE * len(self.latency_ms))]


def transferred(
    kernels: Kernels, pool: Pool, platforms: Sequence[str], train: np.ndarray, test: np.ndarray, seed: int
) -> Metrics:
    """How a predictor adapted from some platforms does on the kernels to judge on; from scratch with no platforms."""
    rows, latency_ms = kernels.configurations[train], kernels.latency_ms[train]
    analytical = fit_from_kernels({kernels.name: (rows, latency_ms)})
    if platforms:
        sources = [kernel_source(pool.predictors[name], kernels.name) for name in platforms]
        predictor = fit_transferred(kernels.name, rows, latency_ms, analytical, sources, seed=seed).predictor
    else:
        predictor = fit_kernel_predictor(kernels.name, rows, latency_ms, analytical, seed=seed)
    return judge(predictor.latency_ms(analytical, kernels.configurations[test]), kernels.latency_ms[test])


def chosen(kernels: Kernels, pool: Pool, train: np.ndarray, by: str, seed: int) -> list[str]:
    """The pool's platforms, the one to transfer from first, told by the samples to adapt with."""
    found = similarities(pool, kernels.name, kernels.configurations[train], kernels.latency_ms[train])
    return [each.platform for each in ranked(found, by, seed)]


def figure_6(kernels: Kernels, pool: Pool, watch: Watch = lambda name, share: None) -> Comparison:
    """How well a predictor does after adaptation, by how it was chosen and by the number of samples."""
    rows: list[tuple[Cell, ...]] = []
    for place, count in enumerate(kernels.amounts()):
        watch("figure 6", place / len(kernels.amounts()))
        cells: list[Cell] = []
        names = []
        for by in SIMILARITIES:
            found = []
            for seed in range(SPLITS):
                train, test = kernels.split(seed)
                first = chosen(kernels, pool, train[:count], by, seed)[:1]
                names += first if by == "divergence" else []
                found.append(transferred(kernels, pool, first, train[:count], test, seed))
            cells += [mean([each.mape for each in found]), mean([each.within_10 for each in found])]
        rows.append((count, *cells, ", ".join(sorted(set(names)))))
    columns = [f"{by}, {figure}" for by in SIMILARITIES for figure in ("MAPE %", "within ±10 %")]
    return Comparison(
        "figure 6", f"kernels of type '{kernels.name}' after adapting one predictor of {len(pool)}, by how it was chosen",
        ("samples", *columns, "of lowest divergence"), tuple(rows),
        (
            f"The paper: {paper.FEWER_THAN_RANDOM:g} times fewer samples than by chance and {paper.FEWER_THAN_ONEPROXY:g} "
            "times fewer than by rank correlation, for equal accuracy; a pool of phones.",
            f"Mean of {SPLITS} splits; similarity is told from the samples that are adapted with.",
        ),
    )  # fmt: skip


def figure_7(kernels: Kernels, pool: Pool, watch: Watch = lambda name, share: None) -> Comparison:
    """A new predictor against one transferred from the most similar platforms, at equal numbers of samples."""
    rows: list[tuple[Cell, ...]] = []
    for place, count in enumerate(kernels.amounts()):
        watch("figure 7", place / len(kernels.amounts()))
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
    return Comparison(
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
    """How many times fewer samples the transferred curve needs to be no worse than from scratch with the most samples."""
    counts = np.array([float(row[0]) for row in rows])  # type: ignore[arg-type]
    scratch, adapted = (np.array([float(row[column]) for row in rows]) for column in (1, 3))  # type: ignore[arg-type]
    reached = counts[adapted <= scratch[-1]]
    if not len(reached):
        return f"Transfer does not reach the error that training from scratch has with {counts[-1]:.0f} samples."
    return (
        f"The error that training from scratch has with {counts[-1]:.0f} samples transfer reaches with {reached.min():.0f}: "
        f"{counts[-1] / reached.min():.1f} times fewer samples."
    )
