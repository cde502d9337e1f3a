"""``python -m benchmarks``: every table of the README, by piece.

accuracy RUNTIME   run `latcast profile`, measure real networks of other families, judge the bundle (resumable)
outsiders RUNTIME  the same on 60 networks drawn from timm, torchvision and transformers, after a profile of five minutes
instruction-sets RUNTIME  the same under an older CPUID (outsiders --cap avx2) beside all instructions
budgets RUNTIME      what the first minutes of that profile would have given
levels RUNTIME       how far the processes that took its labels lie apart; --processes 4 takes them once more, hours later
coverage RUNTIME   share of timm's networks whose kernels that profile knows
agreement RUNTIME  fusion rules beside what the runtime executed of that profile's networks; --cap avx2: under an older CPUID
lineages           main blocks of the networks that come with latcast, and what networks of different lineages share
covering           segments of published networks that profiles begin with, chosen anew for what they cover
table RUNTIME      judge again from what was measured
learn-from RUNTIME what to learn from, at five minutes of measuring each, judged on the same networks
tables             print the Markdown tables of all platforms
speed              predictions per second and start-up times
phones STORE       the shipped predictors of phones, from published measurements; --seeds 20 judges random splits of them,
                     --transformers the transformers of lineages held out
encodings          architectures of search spaces estimated a second
devices            devices that nobody measured, from 0 to 30 networks, every chip held out; --ship writes the shipped model
differences STORE  what errors of like networks share, learned and judged on published phones
decisions          which of two platforms is faster for a network of an unseen lineage, and how surely
pool               platforms of the shipped pool on networks held out; --ship writes the pool
edits PLATFORM     whether latcast check finds what makes networks slower: edits timed here beside their base (resumable)
samplers RUNTIME   random, prior, adaptive and vae sampling of kernels side by side ("made-up" needs no measuring)
weights            whether networks of repeating weights, which a kit carries, take as long as those of random ones
choose             whether what choose picks fits, chips and networks held out; --ship writes its tables of kernels
memory             memory of activations predicted and measured, of networks of 40 families
documents          tables, the picture and what commands print in README.md and docs/; --check fails where they differ
delegates FOLDER   where layers run, by the rules of delegates and by Qualcomm AI Hub's table
workgroups         what other work-group sizes bring to whole networks in LiteRT's GPU delegate (resumable)
platforms ...      transfer over more than twenty platforms of one machine: draw, list, measure NAME..., judge
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import platforms_command
from benchmarks.campaigns import (
    LABEL_PROCESSES,
    LABEL_ROUNDS,
    LEARN_FROM_SEEDS,
    PROFILE_MINUTES,
    Bench,
    measure_to_learn_from,
    take_labels,
    take_profile,
)
from benchmarks.result_files import keep, kept, kept_parts
from latcast.cli.output import console
from latcast.measure.campaign import Progress
from latcast.predictors.profiling import Stage
from latcast.spaces.catalogue import model

app = typer.Typer(add_completion=False, no_args_is_help=False, help=__doc__)
app.add_typer(platforms_command.app, name="platforms")

Cpu = Annotated[int | None, typer.Option(help="CPU to pin to; the last one by default.")]
Cap = Annotated[str, typer.Option(help="Newest instruction set that all processes see: sse42, avx, avx2 or avx512; empty: all.")]
Minutes = Annotated[float, typer.Option(help="Budget of the profile that is judged.", min=0.1)]


class Reporter:
    """A line every ten seconds: enough for a log, little for a terminal."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.last = 0.0

    def campaign(self, progress: Progress) -> None:
        if time.monotonic() - self.last > 10:
            self.last = time.monotonic()
            console(stderr=True).print(
                f"{self.name}: {progress.done}/{progress.total}, {progress.failed} failed, "
                f"{progress.seconds:.0f} s, {progress.name}"
            )

    def stage(self, stage: Stage) -> None:
        if stage.progress is not None:
            self.campaign(stage.progress)


@app.command()
def accuracy(
    runtime: str,
    precision: str = "fp32",
    cpu: Cpu = None,
    minutes: Minutes = PROFILE_MINUTES,
    processes: Annotated[int, typer.Option(help="Passes over the test networks, a process each.", min=1)] = LABEL_PROCESSES,
    rounds: Annotated[int, typer.Option(help="Rounds in each pass.", min=1)] = LABEL_ROUNDS,
    judge: Annotated[bool, typer.Option(help="Judge at the end.")] = True,
) -> None:
    """Measures one platform and judges it; what is measured already is not measured again.

    Half of the passes over the test networks come before the profile, half after it.
    """
    bench = Bench(runtime, precision, cpu)
    for count in range(1, processes + 1):
        if count == processes // 2 + 1:
            take_profile(bench, minutes)
        take_labels(bench, count, rounds, Reporter(f"{bench.name} labels {count}").campaign)
    if judge:
        table(runtime, precision)


@app.command()
def outsiders(
    runtime: str,
    precision: str = "fp32",
    cpu: Cpu = None,
    seed: Annotated[int, typer.Option(help="Of the profile; the labels are taken once.", min=0)] = 0,
    threads: Annotated[
        int, typer.Option(help="Threads of one inference; several want a machine with nothing else to do.", min=1)
    ] = 1,
    cap: Cap = "",
    minutes: Minutes = 5.0,
    processes: Annotated[int, typer.Option(help="Passes over the networks, a process each.", min=1)] = LABEL_PROCESSES,
    rounds: Annotated[int, typer.Option(help="Rounds in each pass.", min=1)] = LABEL_ROUNDS,
    judge: Annotated[bool, typer.Option(help="Judge at the end.")] = True,
    third: Annotated[
        bool, typer.Option("--third", help="Judge the profile on the third draw instead, 20 networks of other designs: once.")
    ] = False,
) -> None:
    """Profiles one platform and judges it on networks of 60 designs that latcast does not build; resumable.

    The first pass over the networks comes before the profile, the others after it.
    """
    from benchmarks import outsiders as judged

    bench, first = (judged.outsiders_bench(runtime, precision, cpu, each, threads, cap) for each in (seed, 0))
    labels_of, networks = first, judged.outsiders()
    if third:
        labels_of, networks = judged.third_bench(first), tuple(map(model, judged.THIRD_NAMES))
    for count in range(1, processes + 1):
        if count == 2 or processes == 1:
            take_profile(bench, minutes, seed)
        take_labels(labels_of, count, rounds, Reporter(f"{labels_of.name} labels {count}").campaign, networks)
    if judge and third:
        keep(f"outsiders_third/{bench.results_name}", judged.judge_third(bench))
        print(judged.third_table())
    elif judge and not cap:
        found = judged.judge_outsiders(bench, first)
        keep(f"outsiders/{bench.results_name}", found)
        print(judged.outsiders_table({bench.results_name: found}))


@app.command()
def instruction_sets(runtime: str, precision: str = "fp32", cap: Cap = "") -> None:
    """Judges what ``outsiders`` took, with and without a cap, as of one host; writes benchmarks/results/instruction_sets."""
    from benchmarks import outsiders as judged

    bench = judged.outsiders_bench(runtime, precision, None, 0, cap=cap)
    keep(f"instruction_sets/{bench.results_name}", judged.judge_instruction_set(bench))
    print(judged.instruction_sets_table())


@app.command()
def budgets(
    runtime: str, precision: str = "fp32", cpu: Cpu = None, seed: Annotated[int, typer.Option(help="Of the profile.", min=0)] = 0
) -> None:
    """Trains on the first minutes of the profile that ``outsiders`` took, and judges on the same labels; nothing is measured."""
    from benchmarks import budgets as judged
    from benchmarks.outsiders import outsiders_bench

    bench, first = (outsiders_bench(runtime, precision, cpu, each) for each in (seed, 0))
    keep(f"budgets/{bench.results_name}", judged.judge_budgets(bench, first, console(stderr=True).print))
    print(judged.budgets_table())


@app.command()
def levels(
    runtime: str,
    precision: str = "fp32",
    cpu: Cpu = None,
    processes: Annotated[int, typer.Option(help="Passes over the networks, a process each.", min=2)] = LABEL_PROCESSES,
    rounds: Annotated[int, typer.Option(help="Rounds in each pass.", min=1)] = LABEL_ROUNDS,
) -> None:
    """What the processes that took the labels of ``outsiders`` differ by, as they ran and as the probe corrects them."""
    from benchmarks import levels as judged
    from benchmarks.outsiders import outsiders, outsiders_bench

    bench = outsiders_bench(runtime, precision, cpu, 0)
    take_labels(bench, processes, rounds, Reporter(f"{bench.name} labels").campaign, outsiders())
    keep(f"levels/{bench.results_name}", judged.judge_levels(bench))
    print(judged.levels_table())


@app.command()
def coverage(runtime: str, precision: str = "fp32", cpu: Cpu = None) -> None:
    """Of how many of timm's networks the profile that ``outsiders`` took covers nearly all kernels, FLOPs and milliseconds."""
    from benchmarks import mix_coverage
    from benchmarks.outsiders import outsiders_bench

    bench = outsiders_bench(runtime, precision, cpu, 0)
    keep(f"mix_coverage/{bench.results_name}", mix_coverage.shares_covered(bench, _every_200(console(stderr=True).print)))
    print(mix_coverage.coverage_table())


@app.command()
def agreement(runtime: str, precision: str = "fp32", cpu: Cpu = None, cap: Cap = "") -> None:
    """Which operators share a kernel, by the shipped rules and as the runtime ran the profile that ``outsiders`` took.

    With a cap, as the runtime runs networks of the training mix once each.
    """
    from benchmarks import rule_agreement
    from benchmarks.outsiders import outsiders_bench

    bench = Bench(runtime, precision, cpu, cap=cap) if cap else outsiders_bench(runtime, precision, cpu, 0)
    judge = rule_agreement.judge_without_clock if cap else rule_agreement.judge_rules
    keep(f"rule_agreement/{bench.results_name}", judge(bench, _every_200(console(stderr=True).print)))
    print(rule_agreement.agreement_table())


@app.command()
def lineages() -> None:
    """Writes the table of main blocks that splits hold networks out by, and what lineages have in common; nothing is measured."""
    from benchmarks.lineages import every_network, judged, lineages_table
    from latcast.datasets.splits import TABLE, tabled_lineages

    TABLE.write_text(json.dumps(tabled_lineages(), indent=0) + "\n")
    found = judged(list(every_network()))
    keep("lineages", found)
    print(lineages_table(found))


@app.command()
def covering() -> None:
    """Chooses anew which segments of published networks profiles begin with, for what they cover; nothing is measured."""
    from benchmarks import covering_segments

    covering_segments.write(console(stderr=True).print)


@app.command()
def table(runtime: str, precision: str = "fp32") -> None:
    """Judges one platform again from what was measured."""
    from benchmarks.accuracy import judge_platform
    from benchmarks.tables import platform_table

    console().print(platform_table(judge_platform(Bench(runtime, precision))))


@app.command()
def learn_from(runtime: str, precision: str = "fp32", cpu: Cpu = None) -> None:
    """Measures for five minutes what each predictor learns from and judges it on the labels that `accuracy` took."""
    from benchmarks.accuracy import judge_what_is_learned_from
    from benchmarks.tables import learn_from_table

    bench = Bench(runtime, precision, cpu)
    for source in LEARN_FROM_SEEDS:
        measure_to_learn_from(bench, source, Reporter(f"{bench.name} {source}").stage)
    judge_what_is_learned_from(bench)
    print(learn_from_table(kept_parts("accuracy"), kept_parts("learn_from")))


@app.command()
def tables() -> None:
    """Prints the Markdown tables of all platforms judged so far."""
    from benchmarks.tables import blocks_table, learn_from_table, summary_table

    documents = kept_parts("accuracy")
    print(summary_table(documents))
    print()
    print(blocks_table(documents))
    print()
    print(learn_from_table(documents, kept_parts("learn_from")))


@app.command()
def documents(
    names: Annotated[list[str] | None, typer.Argument(help="Parts of the documents' paths; all by default.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 3 where one would change.")] = False,
) -> None:
    """Makes what README.md and docs/ show anew: tables, what their commands print, and the picture."""
    from benchmarks import documents as made

    changed = []
    for path in made.documents():
        shown = str(path.relative_to(made.ROOT))
        if names and not any(name in shown for name in names):
            continue
        before, after = path.read_text(encoding="utf-8"), made.made_anew(path)
        if before != after:
            changed.append(shown)
            if not check:
                path.write_text(after, encoding="utf-8")
    if not check:
        made.draw()
    print("\n".join(f"changed: {name}" for name in changed) or "all are as they would be written")
    if check and changed:
        raise typer.Exit(3)


@app.command()
def workgroups(
    networks: Annotated[list[str] | None, typer.Argument(help="All four by default.")] = None,
    rounds: Annotated[int, typer.Option(help="Runs of each choice; each network's own number where 0.", min=0)] = 0,
) -> None:
    """Rules, TFLite's formula and tuning written into LiteRT's program cache, against its own sizes."""
    from benchmarks import workgroups as judged

    for network in networks or judged.NETWORKS:
        found = judged.measure(network, rounds or judged.ROUNDS[network], lambda line: print(line, flush=True))
        keep(f"workgroups/{network}", found)
    print(judged.workgroups_table())


@app.command()
def speed() -> None:
    """Start-up times and predictions per second."""
    from benchmarks.speed import measure_speed, speed_table

    print(speed_table(measure_speed()))


@app.command()
def samplers(
    runtime: Annotated[str, typer.Argument(help="A runtime, or 'made-up' for a device that does not exist.")],
    precision: str = "fp32",
    cpu: Annotated[int | None, typer.Option(help="CPU to pin to; the last one by default.")] = None,
    types: Annotated[str, typer.Option(help="Kernel types, separated by commas.")] = "conv,depthwise_conv",
    seeds: int = 3,
    count: Annotated[int, typer.Option(help="Kernels of a type that each sampler may have measured.")] = 300,
    minutes: Annotated[float, typer.Option(help="Of measuring; where they do not suffice, the same command goes on.")] = 60.0,
    models: Annotated[str, typer.Option(help="Models of a kernel type, separated by commas.")] = "analytical_gbdt",
    judged_on: Annotated[str, typer.Option(help="grid: evenly spread; networks: kernels of unseen families.")] = "grid",
) -> None:
    """All samplers at equal numbers of measurements."""
    from benchmarks.samplers import MadeUpDevice, OutOfTime, RealDevice, compare, samplers_table

    reporter = Reporter(f"samplers {runtime} {precision}").campaign
    made_up = runtime == "made-up"
    device = MadeUpDevice() if made_up else RealDevice(Bench(runtime, precision, cpu), 60 * minutes, report=reporter)
    try:
        found = compare(
            device, types=tuple(types.split(",")), seeds=seeds, count=count, models=tuple(models.split(",")), judged_on=judged_on
        )
    except OutOfTime:
        print("the time is over; the same command goes on with what was measured")
        raise typer.Exit(3) from None
    name = runtime if made_up else f"{runtime}-{precision}"
    keep(f"samplers/{name if judged_on == 'grid' else f'{name}-{judged_on}'}", found)
    print(samplers_table(found))


@app.command()
def encodings(
    platform: str = "local/onnxruntime",
    spaces: Annotated[str, typer.Option(help="Separated by commas; all by default.")] = "",
    ship: Annotated[bool, typer.Option("--ship", help="Write the tables that the package ships, instead.")] = False,
) -> None:
    """Architectures estimated a second from their encodings, and the memory of a million."""
    from benchmarks.encodings import encodings_table, measure_encodings, ship_tables

    if ship:
        print(*ship_tables(), sep="\n")
        return
    print(encodings_table(measure_encodings(platform, tuple(name for name in spaces.split(",") if name))))


@app.command()
def phones(
    store: Annotated[Path, typer.Argument(help="What `latcast data import usc DIR --store` wrote.")],
    folder: Annotated[Path | None, typer.Option(help="Where bundles go; the package's own folder by default.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; one a CPU by default.")] = None,
    seeds: Annotated[int, typer.Option(help="Random 70/30 splits to judge instead; no bundles are written.", min=0)] = 0,
    intervals: Annotated[int, typer.Option(help="How many of the splits also judge the interval.", min=0)] = 5,
    held_out: Annotated[str, typer.Option(help="What the splits hold out, separated by commas.")] = "network,lineage",
    transformers: Annotated[
        bool, typer.Option("--transformers", help="Judge transformers of lineages held out instead; no bundles are written.")
    ] = False,
    blocks: Annotated[
        bool, typer.Option("--blocks", help="Judge networks whose kind of block is held out instead; no bundles are written.")
    ] = False,
    only: Annotated[str, typer.Option(help='Platforms to train or to judge, such as "*/gpu/*,*/1large/fp32".')] = "*",
) -> None:
    """Trains the shipped predictors of phones; bundles that are there are kept. Prints the mean figures."""
    from benchmarks.phones import SHIPPED_FOLDER, build_all, summary

    if blocks:
        _phone_blocks(store, only)
        return
    if transformers:
        _phone_transformers(store, only, jobs)
        return
    if seeds:
        _phone_splits(store, seeds, intervals, held_out, only, jobs)
        return
    for found in build_all(store, folder or SHIPPED_FOLDER, jobs, only.split(",")):
        print(f"{found['platform']}: {found['learn_from']}, MAPE {found['mape']:.1f} by lineage, "
              f"{found['random_networks']['mape']:.1f} at random", flush=True)  # fmt: skip
    for row in summary(folder or SHIPPED_FOLDER):
        print(json.dumps(row))


def _phone_transformers(store: Path, only: str, jobs: int | None) -> None:
    from benchmarks import phone_transformers

    for found in phone_transformers.judge_all(store, only.split(","), jobs):
        keep(f"phone_transformers/{found['platform'].replace('/', '_')}", found)
        console(stderr=True).print(f"{found['platform']}: MAPE {found['latcast']['mape']:.1f} %")
    print(phone_transformers.figures_table([*kept_parts("phone_transformers").values()]))


def _phone_blocks(store: Path, only: str) -> None:
    from benchmarks import phone_blocks

    for found in phone_blocks.judge_blocks(store, only.split(",")):
        keep(f"phone_blocks/{found['platform'].replace('/', '_')}", found)
        console(stderr=True).print(found["platform"])
    print(phone_blocks.blocks_table([*kept_parts("phone_blocks").values()]))


def _phone_splits(store: Path, seeds: int, intervals: int, held_out: str, only: str, jobs: int | None) -> None:
    from benchmarks import phone_splits

    rows = []
    for name, found in phone_splits.judge_splits(
        store, seeds=seeds, intervals=intervals, held_out=held_out.split(","), only=only.split(","), jobs=jobs
    ):
        rows += found
        console(stderr=True).print(f"{name}: {len(found)} splits")
    summary = phone_splits.summary(rows)
    if only == "*":
        keep("phone_splits", {"summary": summary, "platforms": phone_splits.by_platform(rows)})
    print(phone_splits.splits_table(summary))


@app.command()
def differences(
    store: Annotated[Path, typer.Argument(help="What `latcast data import usc DIR --store` wrote.")],
    every: Annotated[int, typer.Option(help="One CPU platform in so many, and nine times as many of the GPUs.", min=1)] = 9,
) -> None:
    """Intervals of differences of two predictions on lineages held out."""
    from benchmarks import differences as judged

    found = judged.judge(list(judged.platform_errors(store, every)))
    keep("differences", found)
    print(json.dumps(found["learned"]))
    print(judged.differences_table(found))


@app.command()
def edits(
    platform: Annotated[str, typer.Argument(help="Of this machine: one core under ONNX Runtime in fp32.")],
    count: Annotated[int, typer.Option(help="Edits.", min=1)] = 500,
    minutes: Annotated[float, typer.Option(help="Of timing; the same command goes on with what was timed.")] = 60.0,
) -> None:
    """Growths of edited networks found by `latcast check`, and false alarms."""
    from benchmarks import edits as judged
    from latcast.folders import cache_folder

    path = cache_folder() / "edits.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = judged.measure(path, count, platform, 60 * minutes)
    found = judged.judged(rows)
    keep("edits", {"platform": platform, "judged": found})
    print(json.dumps(found, indent=1))


@app.command()
def weights(rounds: Annotated[int, typer.Option(help="Runs of each file.", min=3)] = 200) -> None:
    """Times files of random and of repeating weights in turn."""
    from benchmarks.repeating_weights import measure

    print(measure(rounds))


@app.command()
def choose(
    data: Annotated[Path, typer.Option(help="Folder of the published datasets, a folder each.")] = Path("../shared/data"),
    seed: Annotated[int, typer.Option(help="Of folds and draws.")] = 0,
    ship: Annotated[bool, typer.Option("--ship", help="Write the tables of kernels that the package ships, instead.")] = False,
) -> None:
    """Picks within budgets on held-out chips, from networks that no known platform ran."""
    from benchmarks import choose as judged
    from latcast.devices.known_platforms import known_platforms, read_datasets

    if ship:
        print(*judged.ship_tables(), sep="\n")
        return
    say = console(stderr=True).print
    pool = known_platforms(read_datasets(data), lambda what, done, total: say(what) if done == total else None)
    rows = judged.summary(judged.run(pool, seed=seed, watch=lambda what, done, total: say(f"{what}: {done} of {total}")))
    judged.save(rows)
    print(judged.choose_table())


@app.command()
def memory() -> None:
    """Peak memory of activations against what fresh processes really take."""
    from benchmarks.memory import memory_table, run

    run(watch=lambda name: console(stderr=True).print(name))
    print(memory_table())


@app.command()
def delegates(
    folder: Annotated[Path, typer.Argument(help="Of Qualcomm AI Hub's table.")],
    models: Annotated[Path | None, typer.Option(help="ONNX files of networks that no space builds.")] = None,
    seeds: Annotated[int, typer.Option(help="Ways to halve the models.", min=1)] = 20,
    wrong: Annotated[bool, typer.Option("--wrong", help="List what is predicted wrongly.")] = False,
) -> None:
    """Rows whose layers run where the rules say, beside taking everything to run on the NPU."""
    from benchmarks import delegates as judged

    found = judged.judge_delegates(folder, models, seeds)
    keep("delegates", found)
    print("\n\n".join((judged.delegates_table(found), judged.routes_table(found), judged.gpu_table(found))))
    for line in found["wrong"] if wrong else ():  # type: ignore[attr-defined]
        print(line)
    for rule, share in found["kept"].items() if wrong else ():  # type: ignore[attr-defined]
        print(f"{share:.2f} {rule}")


def _every_200(say: Callable[[str], None]) -> Callable[[int, int], None]:
    """Says how many networks are done, each 200."""

    def watch(done: int, total: int) -> None:
        if done % 200 == 0:
            say(f"{done} of {total} networks")

    return watch


def _watch() -> Callable[[str, int, int], None]:
    """Prints what is done when it is, and each part of what takes long."""
    last = ""

    def watch(what: str, done: int, total: int) -> None:
        nonlocal last
        line = f"{what}: {100 * done // max(total, 1)} %"
        if line != last and (done == total or "leaving" in what):
            console(stderr=True).print(line)
        last = line

    return watch


@app.command()
def devices(
    data: Annotated[Path, typer.Option(help="Folder of the published datasets, a folder each.")] = Path("../shared/data"),
    draws: Annotated[int, typer.Option(help="Draws of the measured networks for each platform and number of them.", min=1)] = 2,
    seed: Annotated[int, typer.Option(help="Of folds and draws.")] = 0,
    ship: Annotated[bool, typer.Option("--ship", help="Fit everything and write the shipped model, too.")] = False,
    chosen: Annotated[
        bool, typer.Option("--chosen", help="Networks that device suggest chooses against drawn ones, alone.")
    ] = False,
    facts: Annotated[
        bool, typer.Option("--facts", help="What facts of a device are worth where nothing was measured, alone.")
    ] = False,
    scale: Annotated[
        bool, typer.Option("--scale", help="A pool of 1,000 platforms and 1,500 networks: time and memory, alone.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The rows as JSON.")] = False,
) -> None:
    """Devices that nobody measured, from a few networks, every chip held out in turn."""
    from benchmarks import devices as unknown
    from latcast.devices.known_platforms import known_platforms, read_datasets

    watch = _watch()
    pool = known_platforms(read_datasets(data), watch)
    if scale:
        print(json.dumps(unknown.scale(pool, seed=seed), indent=1))
        return
    if facts:
        rows = unknown.by_fact(pool, seed=seed, watch=watch)
        keep("facts", rows)
        print(json.dumps(rows, indent=1) if as_json else unknown.facts_markdown(rows))
        return
    if chosen:
        print(json.dumps(unknown.chosen_against_drawn(pool, seed=seed, watch=watch), indent=1))
        return
    tried = unknown.tried_pool(pool, draws=draws, seed=seed, watch=watch)
    rows = unknown.rows_of(tried)
    unknown.save(rows, pool)
    print(json.dumps(rows, indent=1) if as_json else unknown.markdown(rows))
    for text in unknown.missed(rows):
        console(stderr=True).print(f"missed: {text}")
    if ship:
        print(unknown.ship(pool, tried, seed=seed, watch=watch))


@app.command()
def decisions(
    data: Annotated[Path, typer.Option(help="Folder of the published datasets, a folder each.")] = Path("../shared/data"),
    seed: Annotated[int, typer.Option(help="Of folds and draws.")] = 0,
    phones: Annotated[
        Path | None,
        typer.Option(help="Judge shipped phones alone: what `latcast data import usc DIR --store` wrote.", metavar="STORE"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All figures as JSON.")] = False,
) -> None:
    """Decisions between platforms, lineages and chips held out."""
    from benchmarks import decisions as judged
    from latcast.devices.known_platforms import known_platforms, read_datasets

    def watch(what: str, done: int, total: int) -> None:
        if "leaving" in what:
            console(stderr=True).print(f"{what}: {done} of {total}")

    if phones is not None:
        keep("decisions_phones", judged.phone_rows(list(judged.phone_forecasts(phones))))
    else:
        pool = known_platforms(read_datasets(data))
        keep("decisions", judged.results(pool, judged.forecasts(pool, seed=seed, watch=watch), seed))
    found = kept("decisions" if phones is None else "decisions_phones")
    print(json.dumps(found, indent=1) if as_json else "\n\n".join((judged.decisions_table(), judged.ratios_table())))


@app.command()
def pool(
    data: Annotated[Path, typer.Option(help="Folder of the published datasets, a folder each.")] = Path("../shared/data"),
    seed: Annotated[int, typer.Option(help="Of folds and draws.")] = 0,
    ship: Annotated[bool, typer.Option("--ship", help="Write the shipped pool, too.")] = False,
) -> None:
    """Platforms that others measured, on networks held out."""
    from benchmarks import pool as known
    from latcast.devices.known_platforms import read_datasets

    table, missed = known.run(list(read_datasets(data)), seed=seed, shipped=ship, watch=_watch())
    print(table)
    for text in missed:
        console(stderr=True).print(f"missed: {text}")


@app.command(name="all")
def everything() -> None:
    """All of it, about five hours; what is measured already is not measured again."""
    platforms = [(runtime, "fp32") for runtime in ("onnxruntime", "openvino", "litert", "ncnn", "mnn")]
    platforms += [(runtime, "int8") for runtime in ("onnxruntime", "openvino")]
    for runtime, precision in platforms:
        accuracy(runtime, precision)
        learn_from(runtime, precision)
    tables()
    speed()


if __name__ == "__main__":
    app()
