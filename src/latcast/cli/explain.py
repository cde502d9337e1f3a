"""``latcast explain``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from latcast.cli import options
from latcast.cli.model_kinds import split_models
from latcast.cli.output import interval_column, milliseconds, percent, print_json, print_table
from latcast.cli.predict import print_parts, print_predictions, print_top, warn_of
from latcast.errors import LatcastError

if TYPE_CHECKING:
    from latcast.report.app import AppPart
    from latcast.report.explain import Explanation, Hint

LIMIT_TEXTS = {
    "compute": "arithmetic takes most of their time",
    "memory": "reading and writing takes most of their time",
    "overhead": "being started takes most of their time",
}


def explain(
    call: Context,
    model: options.Model,
    on: options.On,
    shape: options.Shape = None,
    signature: options.Signature = "",
    value: options.InputValue = None,
    top: Annotated[int, Option("--top", help="How many kernels to show.", min=0)] = 10,
    all_hints: Annotated[bool, Option("--all-hints", help="Also show changes whose gain is unsure or small.")] = False,
    app: Annotated[bool, Option("--app", help="Show what an app's loop adds to a benchmark's latency.")] = False,
    plot: Annotated[Path | None, Option("--plot", help="Draw what the hints bring to this file (.png).")] = None,
    verbose: options.Verbose = False,
    strict: options.Strict = False,
    trust: options.Trust = False,
    prompt: options.PromptTokens = 512,
    generate: options.GeneratedTokens = 128,
    quant: options.Quantisation = "",
    as_json: options.AsJson = False,
) -> None:
    """Where the time of a model goes, what limits its kernels, and which changes would make it faster.

    Every hint is a prediction of the changed model, shown where the change surely saves time. A rough prediction gives none.

    \b
    Examples:
      latcast explain mobilenet_v3_large --on pixel4/tflite-2.10/gpu/fp16
      latcast explain model.onnx --on local/onnxruntime --top 20
      latcast explain model.onnx --on local/litert --app
      latcast explain qwen2.5-1.5b:q4_k_m --on "galaxy s23 cpu"
    """
    if split_models(call, [model])[1]:
        from latcast.cli import language_models

        language_models.explain(model, on, (prompt, generate), quant, as_json=as_json)
        return
    from latcast.drawing import check_drawable
    from latcast.report.app import app_parts
    from latcast.report.explain import explain as explained

    if plot is not None:
        check_drawable("--plot")
    found = explained(model, options.platforms_in(on), **options.reading(shape, value, signature, strict=strict, trust=trust))
    if plot is not None and len(found) > 1:
        raise LatcastError(f"--plot draws one platform; --on '{on}' names {len(found)}")
    loops = [app_parts(each.graph, each.prediction) if app else ("", []) for each in found]
    if as_json:
        added = [{"app": {"basis": basis, "parts": [part.to_json() for part in parts]}} if app else {} for basis, parts in loops]
        print_json({"explanations": [{**each.to_json(), **more} for each, more in zip(found, added, strict=True)]})
    else:
        for place, (each, (basis, parts)) in enumerate(zip(found, loops, strict=True)):
            print("\n" if place else "", end="")
            _print(each, top, all_hints)
            if parts:
                _print_app(basis, parts)
    warn_of([each.prediction for each in found], verbose=verbose)
    if plot is not None:
        found[0].plot(plot)


def _print(found: Explanation, top: int, all_hints: bool) -> None:
    prediction = found.prediction
    print_predictions([prediction])
    print(f"\n{found.memory_line()}")
    print()
    print_parts(prediction, "type")
    if any(kernel.module for kernel in prediction.kernels):
        print()
        print_parts(prediction, "module")
    limits = prediction.by_limit()
    if limits:
        total_ms = prediction.latency_ms or 1.0
        print()
        print_table(
            "",
            ("limit", "kernels", "ms", "% of all", ""),
            [
                (
                    name, str(sum(kernel.limit == name for kernel in prediction.kernels)), milliseconds(spent_ms),
                    percent(100 * spent_ms / total_ms), LIMIT_TEXTS[name],
                )
                for name, spent_ms in limits.items()
            ],
        )  # fmt: skip
    if top:
        print()
        print_top(prediction, top)
    print()
    if prediction.kernels:
        print(found.heaviest_line())
    if found.rough:
        print(f"no hints: {found.rough}")
        return
    if found.hints:
        _print_hints("hint", found.hints, prediction.level)
    else:
        print(
            f"no hints: no change that was tried ({found.tried}) makes it faster by more than what is not known of the difference"
        )
    if found.hidden and all_hints:
        print()
        _print_hints("not sure, or small", found.hidden, prediction.level)
    hidden = (
        f"; {len(found.hidden)} whose gain is not sure or small are hidden (--all-hints)"
        if found.hidden and not all_hints
        else ""
    )
    print(f"{found.tried} changes were predicted{hidden}; what a change costs in accuracy is not known here")


def _print_app(basis: str, parts: Sequence[AppPart]) -> None:
    print()
    print_table(
        "",
        ("an app may", "adds ms", "range ms", "instead"),
        [
            (part.name, "not known", "", part.advice)
            if part.added_ms is None or part.low_ms is None or part.high_ms is None
            else (
                part.name,
                milliseconds(part.added_ms),
                f"{milliseconds(part.low_ms)} to {milliseconds(part.high_ms)}",
                part.advice,
            )
            for part in parts
        ],
    )
    print(f"an app's loop: {basis}")


def _print_hints(title: str, hints: Sequence[Hint], level: float | None) -> None:
    heading, intervals = interval_column([(hint.low_ms, hint.high_ms, level) for hint in hints])
    print_table(
        "",
        (title, "difference ms", "%", heading),
        [
            (_said(hint), milliseconds(hint.difference_ms), percent(hint.difference_percent), interval)
            for hint, interval in zip(hints, intervals, strict=True)
        ],
    )


def _said(hint: Hint) -> str:
    operators = hint.operators_on_cpu
    return hint.text + (f"; {abs(operators)} operators {'fewer' if operators < 0 else 'more'} on the CPU" if operators else "")
