"""The evaluation of Ganesan et al.: which pieces it takes, and every table and figure made of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from latcast.errors import LatcastError
from latcast.predictors.profiling import Stage
from papers.comparison import Comparison
from papers.iiswc20 import tables, targets
from papers.iiswc20.collaboration import OURS_OF, TREES
from papers.iiswc20.experiments import SIZES
from papers.iiswc20.paper import CLUSTERS
from papers.iiswc20.pieces import Kept, Piece, Row, run_pieces
from papers.iiswc20.published import Published

SELECTED_BY = ("random", "mutual_information", "spearman", "prediction_error")
PAPERS = SELECTED_BY[:3]

STATIC_VARIANTS = ("as published", "models apart", "CPUs apart", "rows exchanged")

RANDOM_SIGNATURES = 100

PERCENTAGES = (10, 20, 30)

SLOW_SPLITS = 3
"""Splits of what takes ten seconds each: ours with 50 incomplete phones."""

ITEMS = ("figure 8", "figure 9", "figure 10", "figure 11", "table I", "figure 12", "figure 13", "beyond the paper", "targets")
"""Everything that is reproduced, in the paper's order."""

ARCHITECTURES = "nas-bench-201"
"""What is reproduced as well where HELP's table was read."""

MEASURED_CELLS = (10, 20)

Results = Mapping[Piece, Sequence[Row]]


def wanted_pieces(published: Published, chosen: Collection[str], splits: int) -> dict[str, list[Piece]]:
    """The pieces of each item."""
    seeds = range(splits)
    labels = ("mean",) if published.median_ms is None else ("mean", "median")
    found: dict[str, list[Piece]] = {
        "figure 8": [Piece("static", seed, variant) for variant in STATIC_VARIANTS for seed in seeds],
        "figure 9": [Piece("selection", seed, method) for method in SELECTED_BY for seed in seeds],
        "figure 10": [Piece("random signature", seed) for seed in range(RANDOM_SIGNATURES)],
        "figure 11": [Piece("selection", seed, method, size) for method in PAPERS for size in SIZES for seed in seeds]
        + [Piece("process sizes", seed) for seed in seeds],
        "table I": [
            Piece("held-out cluster", seed, f"{cluster}, {method}")
            for cluster in CLUSTERS
            for method in SELECTED_BY
            for seed in (seeds if method == "random" else range(1))
        ],
        "figure 12": [Piece("collaborative", seed, TREES, percent) for percent in PERCENTAGES for seed in seeds]
        + [Piece("collaborative", seed, f"{OURS_OF}10", percent) for percent in PERCENTAGES for seed in seeds]
        + [Piece("collaborative", seed, f"{OURS_OF}50", PERCENTAGES[0]) for seed in seeds[:SLOW_SPLITS]],
        "figure 13": [Piece("isolated", seed) for seed in seeds],
        "beyond the paper": [
            Piece("process", seed, f"{label}, {method}", 10)
            for label in labels
            for method in (SELECTED_BY if label == "mean" else ("random", "prediction_error"))
            for seed in seeds
        ]
        + [Piece("process", seed, f"mean, {method}", 5) for method in ("random", "prediction_error") for seed in seeds]
        + [Piece("unseen networks", seed, label) for label in labels for seed in seeds],
    }
    found["targets"] = targeted(seeds)
    if published.architectures is not None:
        found[ARCHITECTURES] = [Piece("new architectures", 0, "", size) for size in MEASURED_CELLS]
    return {name: pieces for name, pieces in found.items() if name in chosen}


def targeted(seeds: range) -> list[Piece]:
    """The pieces that our model's targets are judged by."""
    return [
        *(Piece("process", seed, "mean, random", size) for size in (10, 5) for seed in seeds),
        *(Piece("unseen networks", seed, "mean") for seed in seeds),
        *(Piece("collaborative", seed, f"{OURS_OF}10", 10) for seed in seeds),
        *(Piece("held-out cluster", seed, f"{cluster}, random") for cluster in CLUSTERS for seed in seeds),
    ]


def reproduce(
    published: Published,
    kept: Kept,
    chosen: Collection[str] = ITEMS,
    *,
    splits: int = 20,
    jobs: int = 1,
    watch: Callable[[Stage], None] = lambda stage: None,
) -> list[Comparison]:
    """Tables and figures, in the paper's order.

    Args:
        published: The measurements.
        kept: Keeps finished pieces.
        chosen: Which of :data:`ITEMS`.
        splits: Device splits that each figure is the mean of.
        jobs: Processes to compute with.
        watch: Called as work goes on.

    Raises:
        LatcastError: No such table or figure.
    """
    items = ITEMS if published.architectures is None else (*ITEMS, ARCHITECTURES)
    unknown = sorted(set(chosen) - set(items))
    if unknown:
        raise LatcastError(f"'{unknown[0]}' of Ganesan et al. is not reproduced; there are {', '.join(items)}")
    wanted = wanted_pieces(published, chosen, splits)
    results = run_pieces((piece for pieces in wanted.values() for piece in pieces), published, kept, jobs=jobs, watch=watch)
    makers: Mapping[str, Callable[[Results, Published], Comparison]] = {
        "figure 8": tables.figure_8,
        "figure 9": tables.figure_9,
        "figure 10": tables.figure_10,
        "figure 11": tables.figure_11,
        "table I": tables.table_i,
        "figure 12": tables.figure_12,
        "figure 13": tables.figure_13,
        "beyond the paper": tables.beyond,
        "targets": targets.targets,
        ARCHITECTURES: targets.architectures,
    }
    return [makers[name]({piece: results[piece] for piece in wanted[name]}, published) for name in items if name in wanted]
