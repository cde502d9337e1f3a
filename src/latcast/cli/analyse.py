"""``latcast analyse``: one command a dataset, each in a module of its own that is imported when it runs."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from latcast.cli.lazy_group import lazy_group

DATASETS: Mapping[str, tuple[str, str]] = {
    "iiswc20": ("latcast.cli.analyse_iiswc20", "Clusters of phones and networks, latency and frequency (Ganesan et al., §II)."),
    "usc": ("latcast.cli.analyse_usc", "Cores, int8 and GPU kernels on phones (Li et al., PEVA 2024, §3)."),
}
"""Dataset -> its module (with a function ``command``) and one line of help."""


def _datasets() -> None:
    """What published measurements say, as tables and plots."""


app = typer.Typer(
    name="analyse", cls=lazy_group(DATASETS, "Datasets"), callback=_datasets, add_completion=False, no_args_is_help=True,
    rich_markup_mode=None,
)  # fmt: skip
