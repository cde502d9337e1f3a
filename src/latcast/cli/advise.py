"""``latcast advise``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from latcast.cli import options
from latcast.cli.model_kinds import means_language_model
from latcast.cli.output import interval_column, milliseconds, percent, print_json, print_table, warn
from latcast.errors import LatcastError

if TYPE_CHECKING:
    from latcast.report.advise import Advice


def advise(
    model: options.Model,
    on: Annotated[
        str,
        Option(
            "--on",
            metavar="DEVICE,...",
            help="A device by its name in platform ids or as people call it, or a pattern of platform ids in quotes; of "
            "several, with commas between, which is fastest as well.",
            autocompletion=options.complete_platforms,
        ),
    ],
    sure: Annotated[float, Option("--sure", help="Percent from which on a decision is sure.", metavar="PERCENT")] = 95.0,
    top: Annotated[int, Option("--top", help="Platforms to show.", min=1)] = 10,
    shape: options.Shape = None,
    signature: options.Signature = "",
    value: options.InputValue = None,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    """Say which platform of a device is fastest for a model: precision, unit, threads, runtime, and how sure that is.

    A decision that is not sure is called unknown. Below each decision are the kernel types that make the difference.

    \b
    Examples:
      latcast advise mobilenet_v2 --on pixel4
      latcast advise model.onnx --on "galaxy s10" --json
      latcast advise resnet50 --on 'pixel4/tflite-*/*/int8' --sure 90
    """
    if means_language_model(model):
        raise LatcastError(f"'{model}' is a language model; expected a network; use latcast explain or latcast choose --llm")
    from latcast.report.advise import advise as advised

    found = advised(model, options.names_in(on), sure_percent=sure, **options.reading(shape, value, signature, trust=trust))
    if as_json:
        print_json(found.to_json())
    else:
        _print_advice(found, top)
    first, *others = found.choices
    for text in first.warnings:
        warn(f"{first.platform}: {text}")
    count = sum(bool(each.warnings) for each in others)
    if count and not as_json:
        warn(f"{count} of the other platforms have warnings, too: --json lists them")


def _print_advice(found: Advice, top: int) -> None:
    shown = found.choices[:top]
    heading, intervals = interval_column([(each.low_ms, each.high_ms, each.level) for each in shown])

    def chance(value: float | None) -> str:
        return percent(None if value is None else 100 * value, 0)

    print_table(
        "",
        ("platform", "latency ms", heading, "times the first", "slower than the first %", "fastest of all %", "grade"),
        [
            (
                each.platform, milliseconds(each.latency_ms), interval, f"{each.times_first:.2f}",
                chance(each.slower_probability), chance(each.fastest_probability), each.grade.in_words(),
            )
            for each, interval in zip(shown, intervals, strict=True)
        ],
        spare=("slower than the first %",),
    )  # fmt: skip
    if len(found.choices) > len(shown):
        print(f"and {len(found.choices) - len(shown)} more (--top {len(found.choices)})")
    for decision in found.decisions:
        print(f"\n{decision.question} of {decision.first_platform}: {decision}")
        for reason in decision.reasons:
            print(f"  {reason}")
