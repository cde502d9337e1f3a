"""What a long command is doing, on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from latcast.cli.output import console, warn

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from latcast.predictors.profiling import Stage

LINE_INTERVAL_S = 20.0
"""At most one line in this time, where there is no terminal."""


class StageProgress:
    """Shows stages as they are announced; a context manager, so that the bar is gone when results are printed."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._name = ""
        self._last_line_s = 0.0

    def __enter__(self) -> StageProgress:
        if self._console.is_terminal:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[detail]}"))
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._task = self._bar.add_task("starting", total=1.0, detail="")
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, stage: Stage) -> None:
        detail = _detail(stage)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=stage.name, completed=stage.share, detail=detail)
            return
        now_s = time.monotonic()
        if stage.name != self._name or now_s - self._last_line_s >= LINE_INTERVAL_S:
            self._name, self._last_line_s = stage.name, now_s
            warn(stage.name + (f": {100 * stage.share:.0f} %, {detail}" if stage.progress else ""))


def _detail(stage: Stage) -> str:
    if stage.progress is None:
        return ""
    failed = f", {stage.progress.failed} failed" if stage.progress.failed else ""
    return f"{stage.progress.done} measured{failed}, {stage.progress.name}"
