"""``latcast workgroups``: GPU work-group sizes, advised by rules, timed here, and read from measured sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from latcast.cli import options
from latcast.cli.lazy_group import command_group
from latcast.cli.output import milliseconds, percent, print_json, print_table, warn
from latcast.cli.workgroups_export import export
from latcast.cli.workgroups_measure import Block, measure, operator_workload, parse_block
from latcast.errors import LatcastError
from latcast.tables import decimal, signed

if TYPE_CHECKING:
    from latcast.networks import ModelKeywords
    from latcast.workgroups.advice import JudgedSize, SizeAdvice
    from latcast.workgroups.audit import Audit, Summary
    from latcast.workgroups.devices import DeviceProfile
    from latcast.workgroups.workloads import Launch

SIGNS = {"passes": "yes", "fails": "no", "cannot be evaluated": "?"}

app = command_group("""GPU work-group sizes: advice by rules, measuring, replaying what others measured.

\b
Examples:
  latcast workgroups advise mobilenet_v1 --on mi9 -n 3
  latcast workgroups measure conv:56x56x64,k3,s1,c128 --on opencl
  latcast workgroups replay sweep.json
  latcast workgroups export mobilenet_v1 -o out/
""")


@app.command()
def advise(
    what: Annotated[
        str,
        Argument(
            metavar="MODEL|OP",
            help="A model file or the name of a published network; or an operator, conv:56x56x64,k3,s1,c128 or "
            "dwconv:112x112x32,k3,s2.",
        ),
    ],
    on: Annotated[
        str,
        Option(
            "--on",
            metavar="DEVICE",
            help="Device profile: hikey970, vivox30, pixel3xl, mi9..., or a .toml file; or opencl or webgpu for a device of "
            "this machine.",
        ),
    ],
    count: Annotated[int, Option("--count", "-n", help="Sizes to name for each convolution.", min=1)] = 5,
    block: Block = "2,1,1",
    direct: Annotated[bool, Option("--direct", help="Take every convolution as a direct one: no Winograd.")] = False,
    shape: options.Shape = None,
    value: options.InputValue = None,
    as_json: options.AsJson = False,
) -> None:
    """Work-group sizes worth trying for each convolution, which of rules I to V they meet, and TFLite's default.

    \b
    Examples:
      latcast workgroups advise conv:56x56x256,k3,s1,c256 --on hikey970 -n 2 --direct
      latcast workgroups advise mobilenet_v1 --on mi9
    """
    from latcast.workgroups.advice import advise as advise_sizes
    from latcast.workgroups.devices import load_profile
    from latcast.workgroups.gpu_interfaces import find_device, is_queried

    profile = find_device(on)[2] if is_queried(on) else load_profile(on)
    found = _find_launches(what, profile, block, direct, options.reading(shape, value))
    advised = [(launch, None if launch.workload is None else advise_sizes(launch.workload, profile, count)) for launch in found]
    if not as_json:
        _print_advice(what, profile, advised)
        return
    launches = [
        {"names": list(launch.names), "kernel_type": launch.kernel, "note": launch.why or None,
         "advice": None if advice is None else advice.to_json()}
        for launch, advice in advised
    ]  # fmt: skip
    print_json({"model": what, "device": profile.to_json(), "launches": launches})


def _find_launches(what: str, profile: DeviceProfile, block: str, direct: bool, reading: ModelKeywords) -> list[Launch]:
    from latcast.networks import ModelOptions, read_model
    from latcast.workgroups.workloads import find_launch, find_launches, is_operator

    if is_operator(what):
        return [find_launch(operator_workload(what, block), profile.family, direct=direct)]
    graph = read_model(what, ModelOptions(**reading))
    found = find_launches(graph, profile.family, parse_block(block), direct=direct)
    if not found:
        raise LatcastError(
            f"{what} has no convolution; expected one at least: work-group sizes are advised for convolutions alone"
        )
    return found


def _print_advice(what: str, profile: DeviceProfile, advised: Sequence[tuple[Launch, SizeAdvice | None]]) -> None:
    rows: list[list[str]] = []
    for launch, advice in advised:
        if advice is None:
            continue
        times = f" (x{len(launch.names)})" if len(launch.names) > 1 else ""
        left = f"{advice.survivors} of {advice.candidates}"
        start = [f"{advice.workload}{times}", launch.kernel, str(advice.workload.grid), left]
        for place, found in enumerate(advice.shortlist):
            rows.append([*(start if place == 0 else [""] * 4), str(place + 1), *_cells(found)])
        rows.append(["", "", "", "", "kFast", *_cells(advice.default)])
    columns = ("operator", "kernel", "grid", "rules leave", "rank", "size", "I", "II", "III", "IV", "V", "padded %", "accesses")
    print_table(f"{what} on {profile.title}", columns, rows)
    print("kFast: TFLite's present default; accesses: vectors an item reads for a filter tap and an input slice")
    unknown = {
        (rule, advice.why[rule])
        for _, advice in advised
        if advice is not None
        for rule, verdict in advice.default.verdicts.items()
        if verdict == "cannot be evaluated"
    }
    for rule, why in sorted(unknown):
        print(f"?: rule {rule} cannot be evaluated: {why}")
    for launch, _ in advised:
        if launch.why:
            print(f"{', '.join(launch.names)}: {launch.why}")
    if profile.source:
        print(f"device: {profile.source}")
    print("no latency was measured or predicted here: the rules say what to try first, not how fast it is")


def _cells(found: JudgedSize) -> list[str]:
    accesses = "-" if found.accesses is None else f"{found.accesses:.2f}"
    return [str(found.size), *(SIGNS[verdict] for verdict in found.verdicts.values()), percent(100 * found.padding), accesses]


app.command()(measure)
app.command()(export)


@app.command()
def devices(as_json: options.AsJson = False) -> None:
    """List the GPU devices that OpenCL and WebGPU report here; missing values are shown as not known.

    \b
    Examples:
      latcast workgroups devices
    """
    from latcast.errors import MissingExtraError
    from latcast.workgroups.gpu_interfaces import GPU_INTERFACES

    found, absent = [], {}
    for name in GPU_INTERFACES.names():
        interface = GPU_INTERFACES.get(name)
        try:
            profiles = interface.profiles()
        except MissingExtraError as problem:
            absent[name] = str(problem)
            continue
        found += [(f"{name}:{index}", profile) for index, profile in enumerate(profiles)]
        if not profiles:
            absent[name] = f"{name} finds no device here; {interface.missing_driver()}"
    if as_json:
        print_json({"devices": [{"id": name, **profile.to_json()} for name, profile in found], "absent": absent})
        return
    rows = []
    for name, profile in found:
        numbers = (profile.compute_units, profile.simultaneous_items, profile.cache_line_bytes)
        known = ["not known" if number is None else str(number) for number in numbers]
        most = f"{profile.max_x}x{profile.max_y}x{profile.max_z}"
        rows.append([name, profile.title, *known, str(profile.max_work_group_size), most])
    columns = ("id", "device", "cores (N_sc)", "items at once (K_ac)", "cache line bytes", "most items", "most along x, y, z")
    print_table("", columns, rows)
    for source in dict.fromkeys(profile.source for _, profile in found):
        print(source)
    for why in absent.values():
        print(why)


@app.command()
def replay(
    cache: Annotated[
        Path,
        Argument(metavar="CACHE", help="Cache file of Kernel Tuner (.json, .json.gz), or the file or folder that measure wrote."),
    ],
    on: Annotated[str, Option("--on", metavar="DEVICE", help="Device profile. [default: by the name in the file]")] = "",
    each: Annotated[bool, Option("--each", help="Show every kernel variant.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Judge measured sweeps: how repeatable they are, and what rules, defaults and tuning would have given.

    \b
    Examples:
      latcast workgroups replay sweep.json
      latcast workgroups replay sweep.json --on mi9 --each
      latcast workgroups replay FOLDER
    """
    from latcast.workgroups.audit import audit, summarise
    from latcast.workgroups.devices import load_profile
    from latcast.workgroups.kernel_tuner_cache import read_cache

    profile = load_profile(on) if on else None
    files = [cache]
    if cache.is_dir():
        files = sorted(file for file in cache.iterdir() if file.name.endswith((".json", ".json.gz")))
        if not files:
            raise LatcastError(f"{cache}: found no cache file in this folder; expected some of .json, .json.gz")
    sweeps = [sweep for file in files for sweep in read_cache(file, profile)]
    devices = dict.fromkeys(sweep.device.title for sweep in sweeps)
    if len(devices) > 1:
        raise LatcastError(f"{cache} holds sweeps of {', '.join(devices)}; expected one device: give its files, or --on DEVICE")
    found = [audit(sweep) for sweep in sweeps]
    if as_json:
        print_json({"cache": str(cache), "device": sweeps[0].device.to_json(), "sweeps": [item.to_json() for item in found]})
        return
    if each or len(found) == 1:
        _print_each(found)
    for operator in dict.fromkeys(sweep.operator for sweep in sweeps):
        _print_summary(
            summarise(f"{operator} on {sweeps[0].device.title}", [item for item in found if item.sweep.operator == operator])
        )
    for item in found:
        if item.refused:
            warn(item.refused)


def _print_each(found: Sequence[Audit]) -> None:
    rows = []
    for item in found:
        sweep = item.sweep
        variant = " ".join(f"{name}={value}" for name, value in sweep.variant.items()) or sweep.operator
        repeatability = "-" if sweep.rounds < 2 else _number(sweep.repeatability)
        best, share = ("-", "-") if item.refused else (str(sweep.best), percent(100 * sweep.competitive_share))
        best_ms, worst = milliseconds(float(sweep.latency_ms.min())), f"{sweep.relative.max():.2f}"
        rows.append([variant, str(len(sweep.sizes)), repeatability, best, best_ms, worst, share])
    print_table("", ("variant", "sizes", "repeatability", "best", "ms", "worst over best", "within 15 % of best %"), rows)
    print()


def _print_summary(found: Summary) -> None:
    repeated = "-" if found.repeatability is None else ", least ".join(map(_number, found.repeatability))
    rows = [
        ["repeatability (split-half rank correlation)", repeated],
        ["worst over best", _number(found.worst_over_best)],
        ["sizes within 15 % of the best", f"{percent(None if found.competitive is None else 100 * found.competitive)} %"],
    ]
    title = f"{found.title}: {found.ranked} of {found.sweeps} sweeps ranked, {found.sizes:.0f} sizes each on average"
    print_table(title, ("", ""), rows)
    if not found.ranked:
        return
    scores = [["random filter", _number(found.chance), "0.00"]]
    scores += [
        [f"rule {rule}", *(("-", "-") if pair is None else (_number(pair[0]), signed(pair[1], 2)))]
        for rule, pair in found.scores.items()
    ]
    print_table("\nimportance (eq. 8)", ("", "score", "above chance"), scores)
    strategies = [
        [name, f"{values[0]:.2f}", f"{values[1]:.2f}", f"{values[2]:.0f}", "-" if values[3] is None else f"{values[3] / 1e3:.1f}"]
        for name, values in found.strategies.items()
        if values is not None
    ]
    print_table("\nlatency over the best size's", ("strategy", "mean", "worst", "sizes tried", "tuning s"), strategies)


def _number(value: float | None) -> str:
    return "-" if value is None else decimal(value, 2)
