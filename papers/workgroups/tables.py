"""Tables and figures of Jiang et al. (APSys 2020) beside ours, and Fig. 5 as an image file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from latcast.drawing import new_figure, save
from latcast.networks import read_model
from latcast.training.profiling import Stage
from latcast.workgroups.audit import UTILISATION, Audit, Summary, audit, summarise
from latcast.workgroups.sweep import COMPETITIVE
from latcast.workgroups.workloads import find_launches
from papers.harness import Cell, PaperTable, Watch, make_tables, unwatched
from papers.workgroups import paper
from papers.workgroups.groups import Group

AuditedGroups = Sequence[tuple[Group, Sequence[Audit]]]
"""Groups with an audit of each sweep."""

OTHER_DEVICES = "ours are other devices than the paper's phones, so figures are beside each other, not against each other"


def audit_all(groups: Sequence[Group], watch: Watch = unwatched) -> AuditedGroups:
    """Audits every sweep."""
    audited = []
    for group in groups:
        audits = []
        for place, sweep in enumerate(group.sweeps):
            audits.append(audit(sweep))
            watch(Stage(f"auditing {group.title}", (place + 1) / len(group.sweeps)))
        audited.append((group, audits))
    return audited


def summaries(audited: AuditedGroups) -> list[tuple[Group, Summary]]:
    """Return each group's means."""
    return [(group, summarise(group.title, audits)) for group, audits in audited]


def figure_5(audited: AuditedGroups) -> PaperTable:
    """Compare how far sizes matter, and how far that can be trusted."""
    rows: list[tuple[Cell, ...]] = [
        (
            group.title, len(group.sweeps), found.ranked, found.sizes, *(found.repeatability or (None, None)),
            found.worst_over_best, None if found.competitive is None else 100 * found.competitive,
            paper.COMPETITIVE_PERCENT[group.kind] if group.own else None,
        )
        for group, found in summaries(audited)
    ]  # fmt: skip
    notes = [OTHER_DEVICES, "repeatability: Spearman's rank correlation of two halves of each size's runs"]
    if any(not audit.sweep.interleaved for _, audits in audited for audit in audits):
        notes.append(
            "where a size's runs followed each other, the halves are its first and last runs: an upper bound of repeatability"
        )
    notes += [f"{group.title}: {group.left_out} sweeps with fewer sizes left out" for group, _ in audited if group.left_out]
    notes += [found.refused for _, audits in audited for found in audits if found.refused]
    notes.append(f"utilisation of arithmetic units (Figs. 3 and 4): {UTILISATION}")
    columns = (
        "device and kernel", "sweeps", "ranked", "sizes", "repeatability", "least", "worst over best", "within 15 % of best %",
        "the paper's %",
    )  # fmt: skip
    return PaperTable("figure 5", "Latencies of all work-group sizes, means over sweeps", columns, tuple(rows), tuple(notes))


def table_3(audited: AuditedGroups) -> PaperTable:
    """Compare the importance of each rule, and its part by chance."""
    rows: list[tuple[Cell, ...]] = []
    for group, found in summaries(audited):
        scores = [found.scores[rule] for rule in paper.RULES]
        rows.append((group.title, "score of eq. 8", *(None if pair is None else pair[0] for pair in scores), found.chance))
        rows.append((group.title, "minus that of chance", *(None if pair is None else pair[1] for pair in scores), 0.0))
    rows += [
        (f"paper, {'Conv' if kind == 'conv' else 'Dw-Conv'}", "score of eq. 8", *scores, None)
        for kind, scores in paper.TABLE_3.items()
    ]
    notes = [
        OTHER_DEVICES,
        "a filter that lets sizes pass at random has the score 'random filter', not 0; the paper does not give it",
        *_never_evaluated(audited),
    ]
    columns = ("device and kernel", "measure", *(f"rule {rule}" for rule in paper.RULES), "random filter")
    return PaperTable("table 3", "Importance of the rules", columns, tuple(rows), tuple(notes))


def _never_evaluated(audited: AuditedGroups) -> list[str]:
    """Return rules without a score on a whole group, and why."""
    notes = []
    for group, audits in audited:
        for rule in paper.RULES:
            items = [item for audit in audits for item in audit.importances if item.rule == rule]
            if items and all(item.score is None for item in items):
                notes.append(f"{group.title}: rule {rule}: no size follows it, or it cannot be evaluated ({items[0].why})")
    return notes


def latencies(audited: AuditedGroups) -> PaperTable:
    """Return latency by every strategy that chooses a size, relative to the best size."""
    rows: list[tuple[Cell, ...]] = []
    for group, audits in audited:
        for name, values in summarise(group.title, audits).strategies.items():
            arithmetic, worst, sizes, _ = values or (None, None, None, None)
            results = [result for audit in audits if (result := audit.result(name)) is not None]
            logarithms = [np.log(result.relative) for result in results if result.relative is not None]
            geometric = float(np.exp(np.mean(logarithms))) if logarithms else None
            rows.append((group.title, name, arithmetic, geometric, worst, sizes))
    notes = (
        "1 is the best size of the sweep by the least of all its runs; means over sweeps, where a strategy leaves something to "
        "chance over its chances too",
        "tuning tries the sizes that TFLite would, as far as they are among those measured: its exact divisors for kernels like "
        "its own, all sizes for kernels of others",
        "kFast looks at the grid alone; on kernels of others its formula is TFLite's, the kernel is not",
        "no phone was measured: nothing here says how much faster a phone gets",
    )
    columns = ("device and kernel", "strategy", "x best", "x best, geometric mean", "worst", "sizes measured")
    return PaperTable("defaults", "Latency relative to the best size", columns, tuple(rows), notes)


def table_2(audited: AuditedGroups) -> PaperTable:
    """Compare the cost of tuning before the first inference."""
    rows: list[tuple[Cell, ...]] = []
    for group, found in summaries(audited):
        for name in ("single-shot tuning", "5-shot tuning"):
            values = found.strategies[name]
            if values is not None:
                rows.append((group.title, f"{name}, one operator", values[2], None if values[3] is None else values[3] / 1e3))
    for network, times in paper.TABLE_2.items():
        for device, time_ms in zip(paper.DEVICES, times, strict=True):
            rows.append((f"paper, {device}", f"initialisation of {network}", None, time_ms / 1e3))
    notes = (
        f"the paper's exhaustive search (its two Mali phones) tries {paper.CANDIDATES} sizes (§5)",
        "ours is one operator, compilation for each size included; the paper's is a whole network",
        "the rules try none: they are computed",
    )
    return PaperTable("table 2", "What tuning costs", ("device and kernel", "what", "sizes tried", "seconds"), tuple(rows), notes)


def figure_6(audited: AuditedGroups, operators: Mapping[str, Mapping[str, int]]) -> PaperTable:
    """Whole networks, as the sum over their convolutions, where all of them were measured on a device.

    Args:
        operators: Network to its distinct convolutions and how often each occurs.
    """
    rows: list[tuple[Cell, ...]] = []
    notes = [f"the paper: {paper.SPEEDUP}"]
    by_device: dict[str, dict[str, Audit]] = {}
    for group, audits in audited:
        if group.own:
            by_device.setdefault(group.device, {}).update({found.sweep.operator: found for found in audits if not found.refused})
    for network, wanted in operators.items():
        for device, audits_of in by_device.items():
            if set(wanted) <= set(audits_of):
                rows.append((network, device, *_network(wanted, audits_of)))
        best = max((len(set(wanted) & set(found)) for found in by_device.values()), default=0)
        if best < len(wanted):
            notes.append(f"{network}: {best} of its {len(wanted)} distinct convolutions were measured on one device at most")
    columns = ("network", "device", "best ms", *(f"{name} x best" for name in NETWORK_STRATEGIES))
    return PaperTable("figure 6", "Sum over the convolutions of whole networks", columns, tuple(rows), tuple(notes))


NETWORK_STRATEGIES = ("rules", "kFast", "fixed 8x4x1", "random", "single-shot tuning")


def _network(wanted: Mapping[str, int], audits: Mapping[str, Audit]) -> list[Cell]:
    best = {operator: float(audits[operator].sweep.latency_ms.min()) * count for operator, count in wanted.items()}
    total = sum(best.values())
    cells: list[Cell] = [total]
    for name in NETWORK_STRATEGIES:
        relative = [(best[operator], audits[operator].result(name)) for operator in wanted]
        if any(result is None or result.relative is None for _, result in relative):
            cells.append(None)
        else:
            cells.append(sum(ms * (result.relative or 0.0) for ms, result in relative if result is not None) / total)
    return cells


def network_operators() -> dict[str, dict[str, int]]:
    """Return the paper's networks that are built here, each with its distinct convolutions and how often each occurs.

    Convolutions are taken as direct ones, as the kernels that are measured are.
    """
    found = {}
    for title, name in paper.NETWORKS.items():
        counts: Counter[str] = Counter()
        for launch in find_launches(read_model(name), None):
            if launch.workload is not None:
                counts[str(launch.workload)] += len(launch.names)
        found[title] = dict(counts)
    return found


MAKERS: Mapping[str, Callable[[AuditedGroups], PaperTable]] = {
    "table 2": table_2,
    "table 3": table_3,
    "figure 5": figure_5,
    "figure 6": lambda audited: figure_6(audited, network_operators()),
    "defaults": latencies,
}
"""In the order in which they are given."""

ITEMS = tuple(MAKERS)


def reproduce(audited: AuditedGroups, chosen: Collection[str] = ITEMS, watch: Watch = unwatched) -> list[PaperTable]:
    """Return tables and figures, some of :data:`ITEMS`."""
    return make_tables({name: partial(make, audited) for name, make in MAKERS.items()}, chosen, watch)


COLOUR, MARK = "#3b6fb6", "#b8473f"
BINS = 40


def draw(audited: AuditedGroups, folder: Path) -> list[Path]:
    """Draw one panel for each device and kernel: how many sizes are so many times as slow as the best.

    Args:
        audited: Groups with their audits; sweeps whose order is noise are left out.

    Raises:
        MissingExtraError: matplotlib is not installed.
        LatcastError: The folder cannot be written to.
    """
    panels = [(group.title, [found for found in audits if not found.refused]) for group, audits in audited]
    panels = [panel for panel in panels if panel[1]]
    if not panels:
        return []
    figure = new_figure(7.0, 2.5 * len(panels))
    for axes, (title, audits) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        relative = [found.sweep.relative for found in audits]
        results = [result for found in audits if (result := found.result("kFast")) is not None]
        defaults = [result.relative for result in results if result.relative is not None]
        values = np.concatenate(relative)
        edges = np.geomspace(1.0, max(float(values.max()), 1.2), BINS + 1)
        # Every sweep counts alike, however many sizes it has.
        weights = np.concatenate([np.full(len(one), 100 / len(one) / len(relative)) for one in relative])
        axes.hist(values, edges, weights=weights, color=COLOUR)
        axes.axvline(COMPETITIVE, color=MARK, linestyle="--", linewidth=1, label="15 % above the best")
        if defaults:
            middle = float(np.median(defaults))
            axes.axvline(middle, color="black", linewidth=1, label=f"kFast, median {middle:.2f}")
        axes.set_xscale("log")
        ticks = [tick for tick in (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200) if tick <= edges[-1]]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_title(f"{title} ({len(relative)} sweeps)", fontsize=10)
        axes.set_ylabel("sizes, %")
        axes.legend(fontsize=8, frameon=False)
    figure.supxlabel("latency over that of the best size", fontsize=10)
    return [save(figure, folder, "figure 5", dots_per_inch=130)]
