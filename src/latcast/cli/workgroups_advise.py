"""``latcast workgroups advise``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from latcast.cli.options import AsJson, parse_block
from latcast.cli.output import parse_shapes, percent, print_json, print_table
from latcast.errors import LatcastError

if TYPE_CHECKING:
    from latcast.workgroups.advice import Advice, JudgedSize
    from latcast.workgroups.devices import DeviceProfile
    from latcast.workgroups.networks import Launch

SIGNS = {"passes": "yes", "fails": "no", "cannot be evaluated": "?"}


def command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|OP",
            help="A model file or the name of a published network; or an operator, conv:56x56x64,k3,s1,c128 or "
            "dwconv:112x112x32,k3,s2.",
        ),
    ],
    device: Annotated[
        str,
        typer.Option(
            "--device",
            "-d",
            help="Device profile: hikey970, vivox30, pixel3xl, mi9..., or a .toml file; or opencl or webgpu for a device of "
            "this machine.",
        ),
    ],
    count: Annotated[int, typer.Option("-k", "--shortlist", help="Sizes to name for each convolution.", min=1)] = 5,
    block: Annotated[
        str, typer.Option("--block", help="Columns, rows and slices that a work item of a convolution computes.")
    ] = "2,1,1",
    direct: Annotated[bool, typer.Option("--direct", help="Take every convolution as a direct one: no Winograd.")] = False,
    shape: Annotated[list[str] | None, typer.Option("--shape", help="Sizes of an input: input=1,3,224,224.")] = None,
    as_json: AsJson = False,
) -> None:
    """Work-group sizes worth trying for each convolution, what each of rules I to V says of them, and TFLite's default."""
    from latcast.workgroups.advice import advise
    from latcast.workgroups.devices import load_profile
    from latcast.workgroups.gpu_interfaces import is_queried, queried_profile

    profile = queried_profile(device) if is_queried(device) else load_profile(device)
    found = _launches(what, profile, parse_block(block), direct, shape)
    advised = [(launch, None if launch.workload is None else advise(launch.workload, profile, count)) for launch in found]
    if as_json:
        print_json(
            {
                "model": what,
                "device": profile.to_json(),
                "launches": [
                    {
                        "names": list(launch.names), "kernel_type": launch.kernel, "note": launch.why or None,
                        "advice": None if advice is None else advice.to_json(),
                    }
                    for launch, advice in advised
                ],
            }
        )  # fmt: skip
        return
    _print(what, profile, advised)


def _launches(
    what: str, profile: DeviceProfile, block: tuple[int, int, int], direct: bool, shape: list[str] | None
) -> list[Launch]:
    from dataclasses import replace

    from latcast.spaces.models import as_graph
    from latcast.workgroups.networks import conv_kernel, is_operator, launch_of, launches, parse_operator

    if not is_operator(what):
        found = launches(as_graph(what, shapes=parse_shapes(shape or []) or None), profile.family, block, direct=direct)
        if not found:
            raise LatcastError(f"{what} has no convolution; work-group sizes are advised for convolutions alone")
        return found
    workload = parse_operator(what)
    if workload.kind == "conv" and block != (2, 1, 1):
        workload = replace(workload, descriptor=conv_kernel(block))
    return [launch_of(workload, profile.family, direct=direct)]


def _print(what: str, profile: DeviceProfile, advised: Sequence[tuple[Launch, Advice | None]]) -> None:
    rows: list[list[str]] = []
    for launch, advice in advised:
        if advice is None:
            continue
        times = f" (x{len(launch.names)})" if len(launch.names) > 1 else ""
        start = [
            f"{advice.workload}{times}",
            launch.kernel,
            str(advice.workload.grid),
            f"{advice.survivors} of {advice.candidates}",
        ]
        for place, found in enumerate(advice.shortlist):
            rows.append([*(start if place == 0 else [""] * 4), str(place + 1), *_cells(found)])
        rows.append(["", "", "", "", "kFast", *_cells(advice.default)])
    columns = ("operator", "kernel", "grid", "rules leave", "rank", "size", "I", "II", "III", "IV", "V", "padded %", "accesses")
    print_table(f"{what} on {profile.title}", columns, rows)
    print("kFast: TFLite's present default; accesses: vectors an item reads for a filter tap and an input slice")
    unknown = {(rule, why) for _, advice in advised if advice is not None for rule, why in _unknown(advice)}
    for rule, why in sorted(unknown):
        print(f"?: rule {rule} cannot be evaluated: {why}")
    for launch, _ in advised:
        if launch.why:
            print(f"{', '.join(launch.names)}: {launch.why}")
    if profile.source:
        print(f"device: {profile.source}")
    print("no latency was measured or predicted here: the rules say what to try first, not how fast it is")


def _unknown(advice: Advice) -> list[tuple[str, str]]:
    return [(rule, advice.why[rule]) for rule, verdict in advice.default.verdicts.items() if verdict == "cannot be evaluated"]


def _cells(found: JudgedSize) -> list[str]:
    accesses = "-" if found.accesses is None else f"{found.accesses:.2f}"
    return [str(found.size), *(SIGNS[verdict] for verdict in found.verdicts.values()), percent(100 * found.padding), accesses]
