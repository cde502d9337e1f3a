"""``latcast predict``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from latcast.cli import options
from latcast.cli.model_kinds import split_models
from latcast.cli.output import for_each, interval_column, milliseconds, percent, print_json, print_table, warn
from latcast.predictors.conditions import STEADY, UNTIL_ANSWER, Conditions, bounded_text
from latcast.predictors.prediction import KernelLatency, Prediction

if TYPE_CHECKING:
    from latcast.llm.forecast import LanguagePrediction
    from latcast.report.check import Check


@options.with_conditions
def predict(
    call: typer.Context,
    models: options.Models,
    on: options.On,
    shape: options.Shape = None,
    signature: options.Signature = "",
    value: options.InputValue = None,
    breakdown: Annotated[bool, Option("--breakdown", help="Show every kernel.")] = False,
    top: Annotated[int, Option("--top", help="Show this many kernels, the longest first.", min=0, metavar="N")] = 0,
    by: Annotated[
        str,
        Option(
            "--by",
            help="Add up the kernels of each type, or of each module.",
            metavar="type|module",
            callback=options.one_of("", "type", "module"),
        ),
    ] = "",
    verbose: options.Verbose = False,
    conditions: Conditions = STEADY,
    strict: options.Strict = False,
    trust: options.Trust = False,
    prompt: options.PromptTokens = 512,
    generate: options.GeneratedTokens = 128,
    quant: options.Quantisation = "",
    scheduler: options.Scheduler = "",
    as_json: options.AsJson = False,
) -> None:
    """Latency of models on platforms, in milliseconds, with a 90 % interval.

    \b
    Examples:
      latcast predict mobilenet_v2.onnx resnet18 --on local/onnxruntime
      latcast predict timm/resnet18 --on pixel4/tflite-2.10/gpu/fp16 --top 10 --by module
      latcast predict qwen2.5-1.5b:q4_0 model.gguf --on "snapdragon 8 gen 2" --prompt 512 --generate 128
      latcast predict mobilenet_v2 --on pixel4/tflite-2.10/gpu/fp16 --start --sustain 30m --fps 30
      latcast predict mobilenet_v2 --on local/onnxruntime --beside memory,compute:same
    """
    models, language = split_models(call, models, "--breakdown")
    spoken: list[LanguagePrediction] = []
    failed = False
    if language:
        from latcast.cli import language_models

        answers = language_models.predict(language, on, prompt, generate, quant, breakdown=breakdown, alone=not models)
        spoken, failed = [each for answer in answers for each in answer], len(answers) < len(language)
        if not as_json:
            language_models.print_predictions(spoken)
        elif not models:
            print_json({"predictions": [found.to_json() for found in spoken]})
        if not models:
            if failed:
                raise typer.Exit(1)
            return
    from latcast.forecast import placed, predict_many
    from latcast.networks import ModelOptions, read_model

    reading = ModelOptions(**options.reading(shape, value, signature, strict=strict, trust=trust))
    models = options.model_texts(models)
    graphs = [graph for _, graph in for_each(models, lambda model: read_model(model, reading), alone=not language)]
    platforms = options.platforms_in(on)
    predictions: list[Prediction] = []
    listed = breakdown or bool(top) or bool(by)
    if scheduler:
        if conditions != STEADY:
            raise typer.BadParameter("--start, --sustain and --beside are predicted here; leave --scheduler out")
        from latcast.predictors.on_workers import predict_on_workers

        for where in placed(platforms, graphs):
            for one in {id(each.found): each for each in where}.values():
                mine = [each.graph for each in where if each.found is one.found]
                predictions += predict_on_workers(one.predictor, mine, scheduler, breakdown=listed)
    else:
        predictions += predict_many(graphs, platforms, breakdown=listed, conditions=conditions)
    if as_json:
        documents = [_document(found, breakdown=breakdown, top=top, by=by) for found in predictions]
        print_json({"predictions": [*documents, *(found.to_json() for found in spoken)]})
    elif predictions:
        print_predictions(predictions)
        for found in predictions:
            if by:
                print(f"\n{found.model} on {found.platform}")
                print_parts(found, by)
            if top:
                print(f"\n{found.model} on {found.platform}")
                print_top(found, top)
            if breakdown:
                _print_kernels(found)
    warn_of(predictions, verbose=verbose)
    if failed or len(graphs) < len(models):
        raise typer.Exit(1)


def _document(found: Prediction, *, breakdown: bool, top: int, by: str) -> dict[str, Any]:
    document = found.to_json(breakdown=breakdown)
    if top:
        document["top"] = [kernel.to_json() for kernel in found.top(top)]
    if by:
        document[f"by_{by}"] = found.by_type() if by == "type" else found.by_module()
    return document


MOST_WARNED = 20
"""Different warnings that are all printed."""


def warn_of(predictions: Sequence[Prediction | Check], *, verbose: bool = False) -> None:
    """Print the warnings of predictions, each once, and their notes where verbose; of many their number and the first."""
    by_text: dict[str, list[Prediction | Check]] = {}
    for each in predictions:
        for text in (*each.warnings, *(each.notes if verbose and isinstance(each, Prediction) else ())):
            by_text.setdefault(text, []).append(each)
    if len(by_text) > MOST_WARNED:
        text, found = next(iter(by_text.items()))
        warned = {(each.model, each.platform) for listed in by_text.values() for each in listed}
        warn(
            f"{len(warned)} of {len(predictions)} predictions have warnings, such as {_named(found)}: {text}; "
            "--json has all, and so has a prediction on fewer platforms"
        )
        return
    for text, found in by_text.items():
        warn(f"{_named(found)}: {text}")


def _named(predictions: Sequence[Prediction | Check]) -> str:
    """Return what predictions are of: "resnet18 on 3 platforms"."""
    models, platforms = {each.model for each in predictions}, {each.platform for each in predictions}
    model = predictions[0].model if len(models) == 1 else f"{len(models)} models"
    return f"{model} on {predictions[0].platform if len(platforms) == 1 else f'{len(platforms)} platforms'}"


def print_predictions(predictions: list[Prediction]) -> None:
    """Print a line for each, with its start where that was asked for."""
    heading, intervals = interval_column([(found.low_ms, found.high_ms, found.level) for found in predictions])
    further = [name for name in predictions[0].under_conditions() if name != UNTIL_ANSWER]
    print_table(
        "",
        (
            "model", "platform", *(("load ms", "first ms") if predictions[0].start else ()), "latency ms", heading,
            *(f"{name} ms" for name in further), "grade",
        ),
        [
            (
                found.model, found.platform, *(map(bounded_text, found.start.parts_ms()) if found.start else ()),
                milliseconds(found.latency_ms), interval, *(bounded_text(found.under_conditions()[name]) for name in further),
                found.grade.in_words(),
            )
            for found, interval in zip(predictions, intervals, strict=True)
        ],
    )  # fmt: skip
    for line in dict.fromkeys(line for found in predictions for line in found.condition_bases()):
        print(line)


LARGE_MODULE, MOST_MODULES = 0.2, 24
"""Part of the latency from which on a module is shown by the modules in it; no more than so many are shown."""


def print_parts(found: Prediction, by: str) -> None:
    """Print the latency of the kernels of each type or module, and the overhead."""
    total_ms = found.latency_ms or 1.0  # a network of views alone takes no time
    names = [kernel.kernel_type for kernel in found.kernels] if by == "type" else _modules(found)
    sums: dict[str, float] = {}
    for name, kernel in zip(names, found.kernels, strict=True):
        sums[name] = sums.get(name, 0.0) + kernel.latency_ms
    if by == "type":
        sums = dict(sorted(sums.items(), key=lambda item: -item[1]))
    counts = Counter(names)
    shown = list(sums.items())[:MOST_MODULES]
    rows = [(name or "-", str(counts[name]), spent_ms) for name, spent_ms in shown]
    if len(sums) > len(shown):
        rest = list(sums.items())[len(shown) :]
        rows.append((f"{len(rest)} more", str(sum(counts[name] for name, _ in rest)), sum(spent_ms for _, spent_ms in rest)))
    rows.append((found.overhead_name, "", found.overhead_ms))
    print_table(
        "",
        (by, "kernels", "ms", "% of all"),
        [(name, count, milliseconds(spent_ms), percent(100 * spent_ms / total_ms)) for name, count, spent_ms in rows],
    )


def _modules(found: Prediction) -> list[str]:
    """Return the module that each kernel is shown under: large modules are split into those inside them."""
    paths = [kernel.module.split(".") if kernel.module else [] for kernel in found.kernels]
    depths = [min(1, len(path)) for path in paths]
    while True:
        names = [".".join(path[:depth]) for path, depth in zip(paths, depths, strict=True)]
        sums = Counter[str]()
        for name, kernel in zip(names, found.kernels, strict=True):
            sums[name] += kernel.latency_ms  # type: ignore[assignment]  # a counter of milliseconds
        large = {name for name, spent_ms in sums.items() if spent_ms > LARGE_MODULE * found.latency_ms}
        deeper = [depth + (name in large and depth < len(path)) for path, depth, name in zip(paths, depths, names, strict=True)]
        if deeper == depths:
            return names
        depths = deeper


def print_top(found: Prediction, count: int) -> None:
    """Print the kernels that take longest, and what limits them."""
    total_ms = found.latency_ms or 1.0
    modules = any(kernel.module for kernel in found.kernels)
    print_table(
        "",
        ("kernel", *(["module"] if modules else []), "type", "ms", "% of all", "limit"),
        [
            (
                kernel.name, *([kernel.module or "-"] if modules else []), _type_of(kernel), milliseconds(kernel.latency_ms),
                percent(100 * kernel.latency_ms / total_ms), kernel.limit or "-",
            )
            for kernel in found.top(count)
        ],
        spare=("module",),
    )  # fmt: skip


def _type_of(kernel: KernelLatency) -> str:
    return kernel.kernel_type + ("" if kernel.covered else " (estimated)")


def _print_kernels(found: Prediction) -> None:
    total_ms = found.latency_ms or 1.0  # a network of views alone takes no time
    rows = [(found.overhead_name, "", "", milliseconds(found.overhead_ms), percent(100 * found.overhead_ms / total_ms))]
    rows += [
        (
            kernel.name,
            _type_of(kernel),
            "+".join(kernel.operators),
            milliseconds(kernel.latency_ms),
            percent(100 * kernel.latency_ms / total_ms),
        )
        for kernel in found.kernels
    ]
    print_table(f"\n{found.model} on {found.platform}", ("kernel", "type", "operators", "ms", "% of all"), rows)
