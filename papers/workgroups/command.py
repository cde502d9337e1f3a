"""``python -m papers workgroups``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from papers.command import AsJson, Only, Plot, report, working


def command(
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            help="Folder of sweeps: cache files of Kernel Tuner, or what latcast workgroups measure wrote.",
            metavar="DIR",
        ),
    ],
    only: Only = "",
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Tables 2 and 3 and Figs. 5 and 6 of Jiang et al. from measured sweeps; rules, defaults and tuning."""
    from papers.harness import chosen_items
    from papers.workgroups.groups import read_groups
    from papers.workgroups.tables import ITEMS, audit_all, draw, reproduce

    chosen = chosen_items(only, ITEMS)
    with working(plot) as progress:
        audited = audit_all(read_groups(data), progress)
        found = reproduce(audited, chosen, progress)
    document = {"data": str(data), "sweeps": [audit.to_json() for _, audits in audited for audit in audits]}
    report(found, document, as_json=as_json, plot=plot, draw=partial(draw, audited))
