"""All tables and figures of Jiang et al. from a folder of sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from latcast.spaces.models import as_graph
from latcast.workgroups.audit import audit
from latcast.workgroups.networks import launches
from papers.comparison import Comparison
from papers.workgroups import paper
from papers.workgroups.groups import Group
from papers.workgroups.learning import cost_model
from papers.workgroups.tables import Judged, figure_5, figure_6, latencies, table_2, table_3

ITEMS = ("table 2", "table 3", "figure 5", "figure 6", "defaults", "cost model")
"""In the order in which they are given."""

Watch = Callable[[str, float], None]
"""Told what is being done, and the share of it that is."""


def judge(groups: Sequence[Group], watch: Watch | None = None) -> Judged:
    """Audits every sweep."""
    judged = []
    for group in groups:
        audits = []
        for place, sweep in enumerate(group.sweeps):
            audits.append(audit(sweep))
            if watch is not None:
                watch(f"auditing {group.title}", (place + 1) / len(group.sweeps))
        judged.append((group, audits))
    return judged


def reproduce(judged: Judged, items: Sequence[str] = ITEMS, watch: Watch | None = None) -> list[Comparison]:
    """Tables and figures.

    Args:
        judged: Groups with their audits.
        items: Some of :data:`ITEMS`.
        watch: Told what is being done.
    """
    makers: Mapping[str, Callable[[], Comparison]] = {
        "table 2": lambda: table_2(judged),
        "table 3": lambda: table_3(judged),
        "figure 5": lambda: figure_5(judged),
        "figure 6": lambda: figure_6(judged, network_operators()),
        "defaults": lambda: latencies(judged),
        "cost model": lambda: cost_model(
            [group for group, _ in judged], None if watch is None else lambda share: watch("cost model", share)
        ),
    }
    return [makers[item]() for item in ITEMS if item in items]


def network_operators() -> dict[str, dict[str, int]]:
    """The paper's networks that are built here, each with its distinct convolutions and how often each occurs.

    Convolutions are taken as direct ones, as the kernels that are measured are.
    """
    found = {}
    for title, name in paper.NETWORKS.items():
        counts: Counter[str] = Counter()
        for launch in launches(as_graph(name), None):
            if launch.workload is not None:
                counts[str(launch.workload)] += len(launch.names)
        found[title] = dict(counts)
    return found
