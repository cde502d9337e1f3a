"""``python -m papers``: a paper's tables and figures beside ours, each in a module that is imported when it runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import typer

from latcast.cli.lazy_group import lazy_group
from latcast.cli.main import run

PAPERS: Mapping[str, tuple[str, str]] = {
    "iiswc20": ("papers.commands.reproduce_iiswc20", "Ganesan et al. (IISWC 2020), from its published measurements."),
    "iiswc20-analysis": ("papers.commands.analyse_iiswc20", "Clusters of phones and networks, latency and frequency (its §II)."),
    "nn-meter": ("papers.commands.reproduce_nn_meter", "nn-Meter (Zhang et al., MobiSys 2021), on variants measured here."),
    "litepred": ("papers.commands.reproduce_litepred", "LitePred (Feng et al., NSDI 2024), from kernels measured here."),
    "peva": ("papers.commands.reproduce_peva", "Li et al. (PEVA 2024), from its published measurements, or live."),
    "usc-analysis": ("papers.commands.analyse_usc", "Cores, int8 and GPU kernels on phones (Li et al., PEVA 2024, §3)."),
    "workgroups": (
        "papers.commands.reproduce_workgroups",
        "Jiang et al. (APSys 2020), from measured work-group sizes.",
    ),
}
"""Paper -> its module (with a function ``command``) and one line of help."""


def _papers() -> None:
    """A paper's tables and figures beside ours."""


def main() -> Any:
    """The group of commands."""
    app = typer.Typer(
        name="papers", cls=lazy_group({"Papers": PAPERS}), callback=_papers, add_completion=False, no_args_is_help=True,
        rich_markup_mode=None,
    )  # fmt: skip
    return typer.main.get_command(app)


if __name__ == "__main__":
    sys.exit(run(main=main, program="python -m papers"))
