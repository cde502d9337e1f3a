"""``latcast compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from latcast.cli import options
from latcast.cli.model_kinds import split_models
from latcast.cli.output import interval_column, milliseconds, percent, print_json, print_table
from latcast.cli.predict import print_predictions, warn_of
from latcast.predictors.conditions import STEADY, Conditions

if TYPE_CHECKING:
    from latcast.report.compare import Comparison


@options.with_conditions
def compare(
    call: typer.Context,
    a: Annotated[
        str, Argument(metavar="A", help="A model file (.onnx, .tflite, .pt2, .param) or a name that latcast models lists.")
    ],
    on: options.On,
    b: Annotated[str | None, Argument(metavar="[B]", help="Another one; without it A is compared on several platforms.")] = None,
    shape: options.Shape = None,
    signature: options.Signature = "",
    value: options.InputValue = None,
    breakdown: Annotated[bool, Option("--breakdown", help="Show what the kernels of each type take in both.")] = False,
    prompt: options.PromptTokens = 512,
    generate: options.GeneratedTokens = 128,
    diff: Annotated[bool, Option("--diff", help="Show which kernels came, went and changed, as a diff does.")] = False,
    conditions: Conditions = STEADY,
    strict: options.Strict = False,
    trust: options.Trust = False,
    as_json: options.AsJson = False,
) -> None:
    """Say which of two models, or platforms, is faster, by how much, and how sure that is.

    Predictions of similar networks err similarly: the more kernels they share, the surer is the difference.

    \b
    Examples:
      latcast compare resnet50 mobilenet_v2 --on pixel4/tflite-2.10/gpu/fp16
      latcast compare old.onnx new.onnx --on 'pixel4/*/gpu/*' --diff
      latcast compare mobilenet_v2 --on pixel4/tflite-2.10/1large/fp32,pixel4/tflite-2.10/1large/int8
      latcast compare qwen2.5-1.5b:q4_0 a.gguf --on "snapdragon 8 gen 2"
    """
    networks, language = split_models(call, [each for each in (a, b) if each])
    if language and (networks or not b):
        raise typer.BadParameter(f"'{language[0]}' is a language model; expected another one to compare it with")
    if language and b:
        from latcast.cli import language_models

        language_models.compare(a, b, on, (prompt, generate), as_json=as_json)
        return
    from latcast.report.compare import compare as compared

    reading = options.reading(shape, value, signature, strict=strict, trust=trust)
    found = compared(a, b, options.platforms_in(on), conditions=conditions, **reading)
    if as_json:
        print_json({"pairs": [each.to_json() for each in found]})
        return
    if diff:
        print("\n\n".join(each.diff() for each in found))
    else:
        _print_comparisons(found, breakdown=breakdown)
    predictions = list(dict.fromkeys(each for pair in found for each in pair.predictions))
    if conditions != STEADY:
        print()
        print_predictions(predictions)
    warn_of(predictions)


def _print_comparisons(found: list[Comparison], *, breakdown: bool) -> None:
    heading, intervals = interval_column([(each.low_ms, each.high_ms, each.level) for each in found])
    one_model, one_platform = found[0].a == found[0].b, all(each.platform == each.b_platform for each in found)
    print(f"{found[0].a}\nA: {found[0].platform}\n" if one_model and not one_platform else f"A: {found[0].a}\nB: {found[0].b}\n")
    print_table(
        "",
        (
            *(["platform"] if one_platform else ["B"] if one_model else ["platform of A", "of B"]), "A ms", "B ms", "B - A ms",
            heading, "B faster %", "grade",
        ),
        [
            (
                *([] if one_model or one_platform else [each.platform]), each.b_platform, milliseconds(each.a_ms),
                milliseconds(each.b_ms), milliseconds(each.difference_ms), interval,
                percent(None if each.faster_probability is None else 100 * each.faster_probability, 0),
                each.grade.in_words(),
            )
            for each, interval in zip(found, intervals, strict=True)
        ],
    )  # fmt: skip
    for each in found if breakdown else ():
        print_table(
            f"\n{each.b_platform}",
            ("kernel type", "of A", "of B", "A ms", "B ms", "B - A ms"),
            [
                (
                    kind.kernel_type, str(kind.a_count), str(kind.b_count), milliseconds(kind.a_ms), milliseconds(kind.b_ms),
                    milliseconds(kind.difference_ms),
                )
                for kind in each.kernel_types
            ],
        )  # fmt: skip
