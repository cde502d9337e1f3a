"""The exploratory part of Li et al. (§3) from its published files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from latcast.errors import LatcastError
from latcast.predictors.profiling import Stage
from papers.comparison import Comparison
from papers.peva import quantisation
from papers.peva.breakdown import figure_9, figure_10, figure_14
from papers.peva.cores import equal_cores, mixed_cores
from papers.peva.missing import MEASUREMENTS, not_published
from papers.peva.published import Published
from papers.peva.whole_networks import KernelsOfNetworks

ITEMS = (
    "figure 2", "figure 2 mixed", "figure 4", "figure 4 networks", "figure 5", "figure 9", "figure 10",
    "figure 14", "not published",
)  # fmt: skip
"""Everything that is analysed, in the paper's order."""


def analyse(
    published: Published, chosen: Collection[str] = ITEMS, *, watch: Callable[[Stage], None] = lambda stage: None
) -> list[Comparison]:
    """Tables of what the published measurements say.

    Args:
        published: The measurements.
        chosen: Which of :data:`ITEMS`.
        watch: Called as work goes on.

    Raises:
        LatcastError: No such figure.
    """
    unknown = sorted(set(chosen) - set(ITEMS))
    if unknown:
        raise LatcastError(f"'{unknown[0]}' is not analysed; there are {', '.join(ITEMS)}")
    kernels = KernelsOfNetworks()
    makers: Mapping[str, Callable[[], Comparison]] = {
        "figure 2": lambda: equal_cores(published),
        "figure 2 mixed": lambda: mixed_cores(published),
        "figure 4": lambda: quantisation.by_scenario(published),
        "figure 4 networks": lambda: quantisation.by_family(published),
        "figure 5": lambda: quantisation.by_class(published, kernels, watch=lambda name: watch(Stage(name, 0.9))),
        "figure 9": lambda: figure_9(published),
        "figure 10": lambda: figure_10(published),
        "figure 14": lambda: figure_14(published, "real"),
        "not published": lambda: not_published(MEASUREMENTS),
    }
    found = []
    for name in ITEMS:
        if name in chosen:
            watch(Stage(name, 0.9))
            found.append(makers[name]())
    return found
