"""``latcast workgroups``: one module a subcommand, imported when it runs."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from latcast.cli.lazy_group import lazy_group

SUBCOMMANDS: Mapping[str, tuple[str, str]] = {
    "advise": ("latcast.cli.workgroups_advise", "Sizes worth trying for each convolution of a model, judged by the rules."),
    "measure": ("latcast.cli.workgroups_measure", "Time own kernels with many sizes on a GPU of this machine."),
    "devices": ("latcast.cli.workgroups_devices", "What OpenCL and WebGPU tell of the devices here."),
    "replay": ("latcast.cli.workgroups_replay", "What a measured sweep says of rules, defaults and tuning."),
}
"""Subcommand -> its module (with a function ``command``) and one line of help."""

KEPT_WHEN_INTERRUPTED = "what was timed is kept: the same command goes on with it"


def _workgroups() -> None:
    """GPU work-group sizes: advice by rules, measuring, replaying what others measured."""


app = typer.Typer(
    name="workgroups", cls=lazy_group(SUBCOMMANDS, "Subcommands"), callback=_workgroups, add_completion=False,
    no_args_is_help=True, rich_markup_mode=None,
)  # fmt: skip
