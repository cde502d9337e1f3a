"""``latcast choose``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from latcast.cli import options
from latcast.cli.model_kinds import split_models
from latcast.cli.output import (
    IN_TERMINAL,
    StageProgress,
    check_plot,
    for_each,
    interval_column,
    milliseconds,
    percent,
    print_bars,
    print_json,
    print_table,
    warn,
)
from latcast.predictors.conditions import STEADY, Conditions

if TYPE_CHECKING:
    from latcast.report.choose import CandidateLatency, Choice, ModelCandidate


@options.with_conditions
def choose(
    call: typer.Context,
    on: options.On,
    models: Annotated[
        list[str] | None,
        Argument(
            metavar="[MODEL...]",
            help="Your own candidates: model files, folders of them, or names. [default: the named networks of known accuracy]",
            autocompletion=options.complete_models,
        ),
    ] = None,
    max_ms: Annotated[float | None, Option("--max-ms", help="Milliseconds that it may take on each platform.", min=1e-6)] = None,
    max_memory_mb: options.MaxMemoryMb = None,
    params: Annotated[str, Option("--params", help="Parameters that it may have, such as 10M.", metavar="COUNT")] = "",
    accuracy: Annotated[
        Path | None,
        Option("--accuracy", help="Accuracies of your candidates: a CSV file with the header model,accuracy.", metavar="FILE"),
    ] = None,
    trained_on: Annotated[
        str,
        Option(
            "--trained-on",
            help="The most that weights of named networks may have seen: imagenet-1k, imagenet-21k or more.",
            metavar="IMAGES",
            callback=options.one_of("latcast.spaces.accuracies:TRAINED_ON"),
        ),
    ] = "more",
    llm: Annotated[bool, Option("--llm", help="Choose among language models.")] = False,
    min_decode: options.MinDecode = None,
    max_ttft: options.MaxFirstToken = "",
    max_memory: options.MaxMemory = "",
    prompt: options.PromptTokens = 512,
    generate: options.GeneratedTokens = 128,
    certainty: Annotated[
        float, Option("--certainty", help="Probability, in percent, from which on a network fits.", min=1, max=99.9)
    ] = 90.0,
    everything: Annotated[bool, Option("--all", help="List all candidates.")] = False,
    plot: Annotated[
        Path | None,
        Option("--plot", help="Draw accuracy against latency to this file (.png), or as bars to the terminal where it is -."),
    ] = None,
    conditions: Conditions = STEADY,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    """Pick the most accurate network that fits a budget, and list those that are accurate for their latency.

    The list has networks that no other beats in both accuracy and latency: the ten most accurate that fit, or the nearest.

    With --start, the latency is the time until the first answer, with --sustain and --beside that then; of several, each.

    \b
    Examples:
      latcast choose --on pixel4/tflite-2.10/gpu --max-ms 15 --trained-on imagenet-1k
      latcast choose --on 'pixel4/tflite*/1large/*' --max-ms 50 --params 10M --max-memory-mb 60
      latcast choose --on pixel4/tflite-2.10/gpu --max-ms 15 --sustain 30m
      latcast choose --on s10/tflite-2.10/gpu models/ extra.onnx --accuracy accuracies.csv --max-ms 20
      latcast choose --llm --on s23 --min-decode 10 --max-ttft 5s --max-memory 3GB
    """
    networks, language = split_models(call, models or [], llm=llm)
    if llm or language:
        if networks:
            raise typer.BadParameter(f"'{networks[0]}' is no language model; choose among networks without --llm")
        from latcast.cli import language_models

        limits = language_models.limits_of(min_decode, max_ttft, max_memory)
        language_models.choose(language, on, limits, (prompt, generate), certainty / 100, everything=everything, as_json=as_json)
        return
    from latcast.networks import ModelOptions, read_model
    from latcast.report.choose import choose as chosen
    from latcast.spaces.accuracies import read_accuracies

    check_plot(plot, as_json=as_json)
    counts = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
    most = options.quantity(params, "--params", counts, "a number such as 10M or 4500000") if params else None
    accuracies = {} if accuracy is None else read_accuracies(accuracy)
    listed = options.model_texts(models or [])
    graphs = [graph for _, graph in for_each(listed, lambda model: read_model(model, ModelOptions(trust=trust)))]
    with StageProgress() as progress:
        found = chosen(
            options.platforms_in(on), max_ms=max_ms, models=graphs if models else None, accuracies=accuracies,
            trained_on=trained_on, max_parameters=most, max_memory_mb=max_memory_mb, certainty=certainty / 100,
            conditions=conditions,
            watch=lambda done, total: progress.show("reading the named networks", done / total),
        )  # fmt: skip
    options.warn_of_units(on, found.platforms)
    if plot not in (None, IN_TERMINAL):
        found.plot(plot)
    if as_json:
        print_json(found.to_json(everything=everything))
    else:
        _print(found, found.candidates if everything else _telling(found))
        if plot == IN_TERMINAL:
            decisive = [(each.name, each.decisive) for each in found.front]
            bars = [(at.low_ms, at.kept_ms if at.latency_ms is None else at.latency_ms, at.high_ms) for _, at in decisive]
            print_bars([name for name, _ in decisive], bars, limit_ms=found.max_ms)
        elif plot is not None:
            print(f"picture: {plot}")
    for text in found.notes:
        warn(text)
    if len(graphs) < len(listed) or not found.candidates:
        raise typer.Exit(1)


MOST_SHOWN = 10
"""Networks in a list that was not asked for whole."""


def _telling(found: Choice) -> Sequence[ModelCandidate]:
    """Return networks of the front: the most accurate that fit; where none fits, those nearest to the limit; else evenly many."""
    front = found.front
    if any(each.fits for each in front):
        return [each for each in front if each.fits][:MOST_SHOWN]
    if found.max_ms is not None:
        return sorted(front, key=lambda each: each.decisive.kept_ms)[:MOST_SHOWN]
    step = max(len(front) / MOST_SHOWN, 1.0)
    return [front[int(place * step)] for place in range(min(MOST_SHOWN, len(front)))]


def _verdict(found: Choice) -> str:
    """Say which network is picked and how many fit, or which is nearest where none does."""
    fitting = sum(bool(each.fits) for each in found.candidates)
    counted = f"{fitting} of {len(found.candidates)} networks fit with {100 * found.certainty:g} % certainty"
    pick = found.pick
    if pick is not None:
        rated = "" if pick.accuracy is None else f", {percent(pick.accuracy)} % top-1"
        rated += f" ({pick.trained_on})" if pick.trained_on else ""
        return f"the pick: {pick.name}{rated}, {_latency(pick.decisive)}; {counted}"
    near = min(found.candidates, key=lambda each: each.decisive.kept_ms)
    unsure = "" if near.familiar else ", unsure as its kernels are unlike those learned from"
    return f"none fits; the nearest: {near.name}, {_latency(near.decisive)}{unsure}; {counted}"


def _latency(found: CandidateLatency) -> str:
    ms = milliseconds
    return f"{ms(found.low_ms)} to {ms(found.high_ms)} ms" if found.latency_ms is None else f"{ms(found.latency_ms)} ms"


def _print(found: Choice, shown: Sequence[ModelCandidate]) -> None:
    if not found.candidates:
        return
    if found.candidates[0].fits is not None:
        print(_verdict(found))
    decisive = [each.decisive for each in shown]
    heading, intervals = interval_column([(each.low_ms, each.high_ms, each.level) for each in decisive])
    several, limited = len(found.candidates[0].latencies) > 1, found.max_ms is not None
    named = any(each.trained_on for each in shown)
    columns = ["network", "top-1 %", *(["trained on"] if named else []), "latency ms", heading]
    columns += ["within %", "fits"] if limited else ["fits"] if found.max_memory_mb is not None else []
    columns += ["grade", "M MACs", "M parameters", "memory MB", *(["on"] if several else [])]
    rows = []
    for each, at, interval in zip(shown, decisive, intervals, strict=True):
        row = [each.name, percent(each.accuracy), *([each.trained_on or ""] if named else [])]
        row += ["-" if at.latency_ms is None else milliseconds(at.latency_ms), interval]
        row += [percent(None if at.probability is None else 100 * at.probability, 0)] if limited else []
        row += [] if each.fits is None else ["yes" if each.fits else "no" if each.familiar else "unsure"]
        row += [str(at.grade), f"{each.macs / 1e6:.0f}", f"{each.parameters / 1e6:.1f}", f"{each.memory_bytes / 1e6:.0f}"]
        rows.append([*row, *([at.where] if several else [])])
    limit = f", at most {found.max_ms:g} ms" if found.max_ms is not None else ""
    conditions = "".join(f", {each}" for each in dict.fromkeys(at.condition for at in shown[0].latencies) if each)
    print_table(
        f"{', '.join(found.platforms)}{limit}{conditions}", tuple(columns), rows, spare=("M MACs", "M parameters", "trained on")
    )
    if len(shown) < len(found.candidates):
        print(f"{len(shown)} of {len(found.candidates)} networks; --all lists all")
