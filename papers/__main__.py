"""``python -m papers``: a paper's tables and figures beside ours, each in a module that is imported when it runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import typer

from latcast.cli.lazy_group import lazy_group
from latcast.cli.main import run

PAPERS: Mapping[str, tuple[str, str]] = {
    "nn-meter": ("papers.nn_meter.command", "nn-Meter (Zhang et al., MobiSys 2021), on variants measured here."),
    "peva": ("papers.peva.command", "Li et al. (PEVA 2024), from its published measurements, or live."),
    "litepred": ("papers.litepred.command", "LitePred (Feng et al., NSDI 2024), from kernels measured here."),
    "iiswc20": ("papers.iiswc20.command", "Ganesan et al. (IISWC 2020), from its published measurements."),
    "workgroups": ("papers.workgroups.command", "Jiang et al. (APSys 2020), from measured work-group sizes."),
}
"""Paper -> its module (with a function ``command``) and one line of help."""


def _papers() -> None:
    """Reproduce a paper's tables and figures beside ours."""


def main() -> Any:
    """Return the group of commands."""
    app = typer.Typer(
        name="papers", cls=lazy_group({"Papers": PAPERS}), callback=_papers, add_completion=False, no_args_is_help=True,
        rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    return typer.main.get_command(app)


if __name__ == "__main__":
    sys.exit(run(main=main, program="python -m papers"))
