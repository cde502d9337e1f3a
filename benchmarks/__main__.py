"""``python -m benchmarks``: measurements and judgements behind README.md and docs/, by command.

Results are kept in ``benchmarks/results`` (:mod:`benchmarks.result_files`) and judged alike (:mod:`benchmarks.judge`).
``python -m benchmarks.hub``, ``benchmarks.peer`` and ``benchmarks.named_networks`` have commands of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from benchmarks import (
    app as app_loop,
)
from benchmarks import (
    beside,
    choose,
    decisions,
    delegates,
    devices,
    differences,
    documents,
    files,
    grades,
    hints,
    language_models_here,
    lineages,
    llm,
    memory,
    outsiders,
    phones,
    platforms,
    pool,
    rule_agreement,
    speed,
    start,
    sustained,
)
from latcast.cli.main import run

COMMANDS: dict[str, Callable[..., None]] = {
    "app": app_loop.app,
    "outsiders": outsiders.outsiders,
    "instruction-sets": outsiders.instruction_sets,
    "agreement": rule_agreement.agreement,
    "language-models-here": language_models_here.language_models_here,
    "lineages": lineages.lineages,
    "llm": llm.llm,
    "speed": speed.speed,
    "memory": memory.memory,
    "phones": phones.phones,
    "differences": differences.differences,
    "pool": pool.pool,
    "devices": devices.devices,
    "choose": choose.choose,
    "decisions": decisions.decisions,
    "delegates": delegates.delegates,
    "files": files.files,
    "grades": grades.grades,
    "hints": hints.hints,
    "start": start.start,
    "sustained": sustained.sustained,
    "beside": beside.beside,
    "documents": documents.documents,
}

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
for name, command in COMMANDS.items():
    app.command(name)(command)
app.add_typer(platforms.app, name="platforms")

if __name__ == "__main__":
    sys.exit(run(main=lambda: typer.main.get_command(app), program="python -m benchmarks"))
