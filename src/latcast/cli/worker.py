"""``latcast worker``."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from latcast.cli import options
from latcast.cli.output import kept_when_interrupted, print_table
from latcast.errors import ClusterError
from latcast.extras import require


@kept_when_interrupted("its tasks are done again by other workers")
def command(
    scheduler: Annotated[str, Argument(metavar="ADDRESS", help="Of a scheduler: what dask scheduler prints.")],
    device: options.DeviceName = "local",
    runtime: Annotated[list[str] | None, Option("--runtime", "-r", help="Measure under this one alone; repeatable.")] = None,
    threads: Annotated[list[int] | None, Option("--threads", "-t", help="Threads of one inference; repeatable.")] = None,
    cpus: options.Cpus = "",
    realtime: options.Realtime = None,
    measure: Annotated[bool, Option("--measure/--no-measure", help="Whether to offer this machine for measuring.")] = True,
    predict: Annotated[bool, Option("--predict/--no-predict", help="Whether to offer it for predicting.")] = True,
) -> None:
    """Work for a Dask scheduler: campaigns and predictions of others run here; Ctrl-C ends it.

    \b
    Examples:
      latcast worker tcp://192.168.0.10:8786 --device board-a
    """
    require("latcast worker", "distributed")
    from latcast.cluster import PREDICTS, serve
    from latcast.measure.remote import describe_host
    from latcast.measure.scheduling import realtime_permitted
    from latcast.measure.settings import WorkerSettings
    from latcast.runtimes import RUNTIMES, get_runtime

    describe_host(options.cpu_numbers(cpus), realtime_permitted() if realtime is None else realtime)
    offered = [PREDICTS] if predict else []
    for name in (runtime or [each for each in RUNTIMES.names() if each != "replay"]) if measure else ():
        known = get_runtime(name)
        reason = known.available()
        if reason is not None:
            if runtime:
                raise ClusterError(f"{name} cannot be offered: {reason}")
            continue
        offered += [
            WorkerSettings(name, count, precision, device).offer for precision in known.precisions for count in threads or [1]
        ]
    if not offered:
        raise ClusterError("there is nothing to offer: --no-measure and --no-predict leave no work")
    print_table(f"working for {scheduler}, offering:", ("",), [(name.removeprefix("latcast:"),) for name in offered])
    serve(scheduler, dict.fromkeys(offered, 1.0), name=None)
