"""Figures of Ganesan et al. as image files: Figs. 2 to 6 from the published measurements, 11 and 12 from our tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from latcast.drawing import COLOURS, new_figure, plain, save
from papers.harness import Cell, PaperTable
from papers.iiswc20.analysis import cpu_names, frequency_network
from papers.iiswc20.paper import CLUSTERS
from papers.iiswc20.published import NETWORK_CLUSTERS, PublishedPhones, network_clusters, speed_clusters


def draw(comparisons: Iterable[PaperTable], folder: Path) -> list[Path]:
    """Draw the figures into a folder, which is made where there is none, and return the files.

    Raises:
        MissingExtraError: Matplotlib is not installed.
        LatcastError: The folder cannot be written to.
    """
    return [save(OF_TABLES[found.name](found), folder, found.name) for found in comparisons if found.name in OF_TABLES]


def draw_measurements(published: PublishedPhones, chosen: Collection[str], folder: Path) -> list[Path]:
    """Draw the chosen ones of Figs. 2 to 6; errors as of :func:`draw`."""
    return [save(make(published), folder, name) for name, make in OF_MEASUREMENTS.items() if name in chosen]


CLUSTER_COLOURS = dict(zip(CLUSTERS, (COLOURS[2], COLOURS[1], COLOURS[3]), strict=True))


def _compute(published: PublishedPhones) -> Any:
    figure = new_figure(6.5, 3.4, "Figure 2: compute of the networks")
    axes = figure.add_subplot()
    axes.hist(published.mega_macs, bins=24, color=COLOURS[0])
    plain(axes, "million multiply-accumulates", "networks")
    return figure


def _cpus(published: PublishedPhones) -> Any:
    clusters = speed_clusters(published.mean_ms)
    names = cpu_names(published)
    order = [name for name, _ in Counter(names).most_common()]
    figure = new_figure(0.32 * len(order) + 2.5, 4.2, "Figure 3: CPUs of the phones")
    axes = figure.add_subplot()
    below = np.zeros(len(order))
    for cluster in CLUSTERS:
        counts = Counter(name for name, found in zip(names, clusters, strict=True) if found == cluster)
        heights = np.array([counts[name] for name in order])
        axes.bar(range(len(order)), heights, bottom=below, color=CLUSTER_COLOURS[cluster], label=cluster)
        below += heights
    axes.set_xticks(range(len(order)), order, rotation=90)
    axes.margins(y=0.08)
    axes.legend(frameon=False, fontsize="small")
    plain(axes, "", "phones")
    return figure


TICKS_MS = (5, 10, 20, 50, 100, 200, 500, 1000)


def _violins(axes: Any, columns: list[np.ndarray], places: list[float], colour: str) -> None:
    """Return one violin of logarithms a column of milliseconds, with its mean (dot) and median (line)."""
    parts = axes.violinplot(
        [np.log10(column) for column in columns], positions=places, widths=0.85, showextrema=False, showmedians=True
    )
    for body in parts["bodies"]:
        body.set_facecolor(colour)
        body.set_alpha(0.6)
    parts["cmedians"].set_color("black")
    parts["cmedians"].set_linewidth(0.9)
    axes.plot(places, [np.log10(column.mean()) for column in columns], linestyle="", marker="o", markersize=2.2, color="black")


def _ticks_in_ms(axes: Any, latency_ms: np.ndarray) -> None:
    """Labels of a vertical axis of logarithms, from the least to the most latency that all of its panels show."""
    low, high = np.log10(latency_ms.min()) - 0.05, np.log10(latency_ms.max()) + 0.05
    shown = [tick for tick in TICKS_MS if low <= np.log10(tick) <= high]
    axes.set_yticks(np.log10(shown), [f"{tick:g}" for tick in shown])
    axes.set_ylim(low, high)


def _phone_clusters(published: PublishedPhones) -> Any:
    clusters = speed_clusters(published.mean_ms)
    figure = new_figure(13.0, 9.0, "Figure 4: latencies of all networks on each phone; dot: mean, line: median")
    for place, cluster in enumerate(CLUSTERS):
        rows = np.flatnonzero(clusters == cluster)
        rows = rows[np.argsort(published.mean_ms[rows].mean(axis=1))]
        axes = figure.add_subplot(len(CLUSTERS), 1, place + 1)
        columns = [published.mean_ms[row] for row in rows]
        _violins(axes, columns, [float(index) for index in range(len(rows))], CLUSTER_COLOURS[cluster])
        axes.set_xticks(range(len(rows)), [published.models[row] for row in rows], rotation=90, fontsize=5.5)
        axes.set_xlim(-0.8, len(rows) - 0.2)
        _ticks_in_ms(axes, published.mean_ms)
        axes.set_title(
            f"{cluster}: {len(rows)} phones, mean {published.mean_ms[rows].mean():.0f} ms", fontsize="small", loc="left"
        )
        plain(axes, "", "ms", small_ticks="y")
    return figure


def _frequency(published: PublishedPhones) -> Any:
    column = frequency_network(published)
    ghz = np.array([float(device["ghz"]) for device in published.hardware])
    memory = np.array([float(device["ram_gb"]) for device in published.hardware])
    figure = new_figure(7.0, 4.4, "Figure 5: latency of MobileNetV2 against frequency")
    axes = figure.add_subplot()
    dots = axes.scatter(ghz, published.mean_ms[:, column], c=memory, cmap="viridis_r", s=26, edgecolors="black", linewidths=0.4)
    figure.colorbar(dots, ax=axes, label="memory, GB")
    axes.set_ylim(bottom=0)
    plain(axes, "GHz", "ms")
    return figure


def _faceted(published: PublishedPhones) -> Any:
    of_phones, of_networks = speed_clusters(published.mean_ms), network_clusters(published.mean_ms)
    figure = new_figure(11.0, 3.8, "Figure 6: latencies by clusters of networks and phones")
    for place, network in enumerate(NETWORK_CLUSTERS):
        axes = figure.add_subplot(1, len(NETWORK_CLUSTERS), place + 1)
        for index, phone in enumerate(CLUSTERS):
            cells = published.mean_ms[np.ix_(of_phones == phone, of_networks == network)].ravel()
            _violins(axes, [cells], [float(index)], CLUSTER_COLOURS[phone])
        axes.set_xticks(range(len(CLUSTERS)), CLUSTERS)
        _ticks_in_ms(axes, published.mean_ms)
        axes.set_title(f"{network} networks: {int((of_networks == network).sum())}", fontsize="small", loc="left")
        plain(axes, "phones", "ms" if place == 0 else "")
    return figure


OF_MEASUREMENTS: Mapping[str, Callable[[PublishedPhones], Any]] = {
    "figure 2": _compute,
    "figure 3": _cpus,
    "figure 4": _phone_clusters,
    "figure 5": _frequency,
    "figure 6": _faceted,
}


def _line(axes: Any, points: list[tuple[Cell, Cell]], label: str, place: int, style: str = "-") -> None:
    kept = [(float(x), float(y)) for x, y in points if isinstance(x, (int, float)) and isinstance(y, (int, float))]
    if kept:
        axes.plot(
            *zip(*kept, strict=True), style, marker="o", markersize=3.5, label=label, color=COLOURS[place % len(COLOURS)]
        )  # fmt: skip


def _sizes(found: PaperTable) -> Any:
    figure = new_figure(10.0, 3.8, "Figure 11: size of the signature")
    sizes = found.column("networks")
    for place, name in enumerate(("R²", "MAPE %")):
        axes = figure.add_subplot(1, 2, place + 1)
        for index, series in enumerate(("RS", "MIS", "SCCS", "ours")):
            points = list(zip(sizes, found.column(f"{series} {name}"), strict=True))
            _line(axes, points, series if series == "ours" else f"{series}, the paper's trees", index)
        axes.set_ylim(*((None, 1) if name == "R²" else (0, None)))
        plain(axes, "networks in the signature", name)
    axes.legend(frameon=False, fontsize="small")
    return figure


def _collaboration(found: PaperTable) -> Any:
    figure = new_figure(10.0, 3.8, "Figure 12: phones that each contribute a signature and some percent of the networks")
    records = found.records()
    percentages = sorted({str(record["% of networks"]) for record in records})
    for place, name in enumerate(("R², mean", "unmeasured MAPE %")):
        axes = figure.add_subplot(1, 2, place + 1)
        for index, percent in enumerate(percentages):
            for model, style in (("paper", "-"), ("ours", ":")):
                chosen = [row for row in records if str(row["% of networks"]) == percent and row["model"] == model]
                label = f"{percent} %, {'ours' if model == 'ours' else 'the paper' + chr(39) + 's trees'}"
                _line(axes, [(row["devices"], row[name]) for row in chosen], label, index, style)
        axes.set_ylim(*((None, 1) if place == 0 else (0, None)))
        plain(axes, "phones", name.removeprefix("unmeasured ").removesuffix(", mean"))
    axes.legend(frameon=False, fontsize="small")
    return figure


OF_TABLES: Mapping[str, Callable[[PaperTable], Any]] = {"figure 11": _sizes, "figure 12": _collaboration}
