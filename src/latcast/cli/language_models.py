"""Language models in ``predict``, ``measure`` and ``profile``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latcast.cli import options
from latcast.cli.output import StageProgress, for_each, percent, print_json, print_table, warn
from latcast.errors import LatcastError

if TYPE_CHECKING:
    from latcast.llm.forecast import LanguagePrediction


def speed(tokens_per_s: float) -> str:
    """Return a speed in tokens a second as text."""
    return f"{tokens_per_s:.3g}" if tokens_per_s < 1000 else f"{tokens_per_s:,.0f}"


def _with_interval(value: float, low: float, high: float) -> str:
    return f"{speed(value)} ({speed(low)} to {speed(high)})"


def _grade(found: LanguagePrediction) -> str:
    grade = found.to_json()["grade"]
    return f"{grade['word']}, ±{grade['expected_error_pct']:.0f} %"


def seconds(milliseconds: float) -> str:
    """Return a time as people say it: milliseconds below a second, seconds above."""
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.3g} s"


def predict(
    models: Sequence[str], on: str, prompt_tokens: int, generated_tokens: int, quantisation: str, *, breakdown: bool
) -> list[LanguagePrediction]:
    """Return the predictions of language models on the platforms that ``on`` names; of several models, those that fail are said.

    Raises:
        LatcastError: The only model fails, all fail, or there is no such platform.
    """
    if not models:
        return []
    from latcast.llm.forecast import predict_language_model

    platforms = options.names_in(on)
    found = for_each(
        models,
        lambda model: predict_language_model(
            model, platforms, prompt_tokens=prompt_tokens, generated_tokens=generated_tokens, quantisation=quantisation,
            breakdown=breakdown,
        ),
    )  # fmt: skip
    if not found:
        raise LatcastError(f"none of {len(models)} language models could be predicted")
    return [each for _, predictions in found for each in predictions]


def print_predictions(predictions: Sequence[LanguagePrediction]) -> None:
    """Print a line for each, and of those with a breakdown what each quantity costs."""
    if predictions:
        print_table(
            "",
            ("model", "platform", "prefill tok/s", "decode tok/s", "first token", "whole answer", "memory MB", "grade"),
            [
                (
                    found.model, found.platform,
                    _with_interval(found.prefill_tokens_per_s, found.prefill_low_tokens_per_s, found.prefill_high_tokens_per_s),
                    _with_interval(found.decode_tokens_per_s, found.decode_low_tokens_per_s, found.decode_high_tokens_per_s),
                    seconds(found.first_token_ms), seconds(found.answer_ms), f"{found.memory_mb:,.0f}", _grade(found),
                )
                for found in predictions
            ],
        )  # fmt: skip
    for found in predictions:
        for phase, parts in (found.breakdown or {}).items():
            total = sum(parts.values())
            print_table(
                f"\n{phase} of {found.model} on {found.platform}",
                ("quantity", "ms", "% of all"),
                [(name, f"{spent:.3g}", percent(100 * spent / total)) for name, spent in parts.items()],
            )
    for found in predictions:
        for text in found.warnings:
            warn(f"{found.model} on {found.platform}: {text}")


def measure(models: Sequence[str], threads: int, prompt_tokens: int, generated_tokens: int, *, as_json: bool) -> None:
    """Measure GGUF files, or named models with made-up weights, under llama.cpp, and print what they took."""
    from latcast.measure.language_models import measure_language_model

    found = for_each(models, lambda text: measure_language_model(text, prompt_tokens, generated_tokens, threads))
    rows: list[dict[str, Any]] = [{"model": text, **each} for text, each in found]
    if as_json:
        print_json({"measurements": rows})
        return
    print_table(
        "",
        ("model", "platform", "prefill tok/s", "decode tok/s", "variation %"),
        [
            (
                row["model"], row["platform"], speed(row["prefill_tokens_per_s"]), speed(row["decode_tokens_per_s"]),
                percent(row["variation_pct"]),
            )
            for row in rows
        ],
    )  # fmt: skip


def profile(budget_minutes: float, threads: int, device: str, store: Path | None, *, as_json: bool) -> None:
    """Learn this machine's speeds of language models, and print how well."""
    from latcast.training.language_profile import profile_language_models

    with StageProgress() as progress:
        found = profile_language_models(
            60 * budget_minutes, threads, device=device, store=store,
            show=lambda share, text: progress.show(f"measuring {text}", share),
        )  # fmt: skip
    if as_json:
        print_json(
            {
                "platform": found.platform, "file": str(found.file), "store": str(found.store), "stacks": found.stacks,
                "prefill_mape": found.mape["prefill"], "decode_mape": found.mape["decode"], "variation_pct": found.spread,
            }
        )  # fmt: skip
        return
    print(f"{found.platform}: learned from {found.stacks} stacks of layers under llama.cpp")
    print(
        f"shapes held out: MAPE {found.mape['prefill']:.1f} % of prefill, {found.mape['decode']:.1f} % of decode; "
        f"repeats vary by {found.spread:.1f} %"
    )
    print(f"prices: {found.file}\nmeasurements: {found.store}")
