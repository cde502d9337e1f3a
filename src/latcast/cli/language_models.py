"""Language models on the command line: their part of ``predict``, ``check``, ``choose`` and other commands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from latcast.cli import options
from latcast.cli.output import CHECK_FAILED, StageProgress, for_each, percent, print_json, print_table, warn
from latcast.errors import LatcastError
from latcast.registry import matched, matching

if TYPE_CHECKING:
    from latcast.llm.forecast import LanguagePrediction
    from latcast.llm.limits import Limits


def three_digits(value: float) -> str:
    """Return tokens a second or milliseconds as text."""
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def _platforms(on: str) -> list[str]:
    return options.platform_names(on, "latcast platforms --llm")


def _speed(of: LanguagePrediction, phase: str) -> str:
    """Return the tokens a second of a phase with their interval."""
    found, low, high = (three_digits(getattr(of, f"{phase}_{bound}tokens_per_s")) for bound in ("", "low_", "high_"))
    return f"{found} ({low} to {high})"


def seconds(milliseconds: float) -> str:
    """Return a time as people say it: in milliseconds, seconds or minutes."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.3g} s" if milliseconds < 600_000 else f"{milliseconds / 60_000:,.0f} min"


def predict(
    models: Sequence[str], on: str, prompt_tokens: int, generated_tokens: int, quantisation: str, *, breakdown: bool, alone: bool
) -> list[list[LanguagePrediction]]:
    """Return the predictions of language models on the platforms that ``on`` names, a list a model; those that fail are said.

    Args:
        models: As the user calls them.
        on: Platforms, with commas between.
        prompt_tokens, generated_tokens, quantisation, breakdown: See :func:`latcast.llm.forecast.predict_language_model`.
        alone: Whether nothing else is predicted beside them.

    Raises:
        LatcastError: There is no such platform; or nothing else is predicted, and the only model fails or all do.
    """
    from latcast.llm.forecast import predict_language_model

    platforms = _platforms(on)
    found = for_each(
        models,
        lambda model: predict_language_model(
            model, platforms, prompt_tokens=prompt_tokens, generated_tokens=generated_tokens, quantisation=quantisation,
            breakdown=breakdown,
        ),
        alone=alone,
    )  # fmt: skip
    if alone and not found:
        raise LatcastError(f"none of {len(models)} language models could be predicted")
    return [predictions for _, predictions in found]


def print_predictions(predictions: Sequence[LanguagePrediction]) -> None:
    """Print a line for each, and of those with a breakdown what each quantity costs."""
    if predictions:
        print_table(
            "",
            ("model", "platform", "prefill tok/s", "decode tok/s", "first token", "whole answer", "memory MB", "grade"),
            [
                (
                    found.model, found.platform,
                    _speed(found, "prefill"), _speed(found, "decode"),
                    seconds(found.first_token_ms), seconds(found.answer_ms), f"{found.memory_mb:,.0f}", str(found.grade),
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
                [(name, three_digits(spent), percent(100 * spent / total)) for name, spent in parts.items()],
            )
    _print_warnings(predictions)


def _print_warnings(predictions: Sequence[LanguagePrediction]) -> None:
    """Warn once of what holds for several predictions."""
    warned: dict[str, list[str]] = {}
    for found in predictions:
        for text in found.warnings:
            warned.setdefault(text, []).append(f"{found.model} on {found.platform}")
    for text, cases in warned.items():
        warn(f"{cases[0]}{f' and {len(cases) - 1} more' if len(cases) > 1 else ''}: {text}")


def check(models: Sequence[str], on: str, limits: Limits, tokens: tuple[int, int], *, as_json: bool) -> None:
    """Print whether language models keep to limits, likelier than not; exit with 3 where one does not.

    Args:
        models: As the user calls them.
        on: Platforms, with commas between.
        limits: What to keep to.
        tokens: Of the prompt and of the answer.
        as_json: Whether to print JSON.
    """
    from latcast.llm.limits import choose_language_models

    found = [
        each
        for _, listed in for_each(
            models,
            lambda text: choose_language_models(
                _platforms(on), limits, [text], prompt_tokens=tokens[0], generated_tokens=tokens[1], certainty=0.5
            ),
        )
        for each in listed
    ]
    passed = all(each.fits for each in found)
    if as_json:
        print_json({"passed": passed, "checks": [each.to_json() for each in found]})
    else:
        print_table("", ("", "model", "platform", "keeps to it %", *_FOUND), [
            ("pass" if each.fits else "FAIL", each.prediction.model, each.prediction.platform, percent(100 * each.probability, 0),
             *_found(each.prediction))
            for each in found
        ])  # fmt: skip
        _print_warnings([each.prediction for each in found])
    if len({each.prediction.model for each in found}) < len(models):
        raise typer.Exit(1)
    if not passed:
        raise typer.Exit(CHECK_FAILED)


MOST_LISTED = 10
"""Candidates listed where not all are asked for."""


def choose(
    models: Sequence[str], on: str, limits: Limits, tokens: tuple[int, int], certainty: float, *, everything: bool, as_json: bool
) -> None:
    """Print the best language model that keeps to limits on the platforms, and those after it."""
    from latcast.llm.limits import benchmark_scores, choose_language_models

    benchmark = benchmark_scores()[0]
    found = choose_language_models(
        _platforms(on), limits, models, prompt_tokens=tokens[0], generated_tokens=tokens[1], certainty=certainty
    )
    listed = found if everything else found[:MOST_LISTED]
    pick = found[0] if found[0].fits else None
    if as_json:
        print_json({
            "pick": pick and pick.prediction.model, "candidates": len(found), "benchmark": benchmark,
            "decided_by": pick and (benchmark if pick.score is not None else "active parameters"),
            "models": [each.to_json() for each in listed],
        })  # fmt: skip
        return
    known = {each.prediction.usable_memory_mb for each in found}
    if limits.max_memory_mb is None and None in known:
        warn("how much memory the device has is not known: leave out models that it cannot hold with --max-memory 6GB")
    elif limits.max_memory_mb is None:
        counts = ", ".join(f"{each / 1e3:.1f}" for each in sorted(filter(None, known)))
        warn(f"models of more than the {counts} GB that an app can count on do not fit; --max-memory 6GB gives another limit")
    fitting = sum(each.fits for each in found)
    if pick is None:
        nearest = found[0]
        print(f"none of {len(found)} fits; the nearest is {nearest.prediction.model}, {100 * nearest.probability:.0f} % likely\n")
    else:
        print(f"{pick.prediction.model} on {pick.prediction.platform}; {fitting} of {len(found)} fit")
        expected = f"{benchmark} {pick.expected_score:.0f} %"
        print(
            f"decided by its score: {expected} ({pick.score_source})\n" if pick.score is not None else
            f"decided by its active parameters: no score of it is known, and models of so many have about {expected}\n"
        )  # fmt: skip
    print_table("", ("model", "platform", "active parameters", "bits", benchmark, "fits %", *_FOUND), [
        (each.prediction.model, each.prediction.platform, f"{each.active_parameters / 1e9:.2f} B", f"{each.bits:.1f}",
         f"{each.expected_score:.0f}" if each.score is not None else f"about {each.expected_score:.0f}",
         percent(100 * each.probability, 0), *_found(each.prediction))
        for each in listed
    ])  # fmt: skip


_FOUND = ("decode tok/s", "first token", "memory MB")


def _found(each: LanguagePrediction) -> tuple[str, ...]:
    return _speed(each, "decode"), seconds(each.first_token_ms), f"{each.memory_mb:,.0f}"


def sweep(model: str, on: str, contexts: str, generated_tokens: int, *, as_json: bool) -> None:
    """Print the speeds of a language model over the length of the prompt."""
    from latcast.llm.forecast import predict_language_model
    from latcast.llm.reading import read_language_model

    platforms, asked, limit = _platforms(on), lengths(contexts), read_language_model(model).context_limit
    held = [tokens for tokens in asked if limit is None or tokens + generated_tokens <= limit] or asked
    if len(held) < len(asked):
        longer = ", ".join(str(tokens) for tokens in asked if tokens not in held)
        warn(f"left out prompts of {longer}: with the answer they are longer than the {limit} that {model} was made for")
    points = [
        each
        for tokens in held
        for each in predict_language_model(model, platforms, prompt_tokens=tokens, generated_tokens=generated_tokens)
    ]
    points.sort(key=lambda each: (each.platform, each.prompt_tokens))
    if as_json:
        print_json({"sweeps": [each.to_json() for each in points]})
        return
    print_table(points[0].model, ("platform", "prompt", "prefill tok/s", *_FOUND, "grade"), [
        (each.platform, str(each.prompt_tokens), _speed(each, "prefill"), *_found(each), str(each.grade))
        for each in points
    ])  # fmt: skip


MOST_LENGTHS = 1000
"""Lengths of a sweep by steps."""


def lengths(text: str) -> list[int]:
    """Return the lengths of a range (``256..8192``, by doubling; ``256..2048..256``, by steps) or of a list (``256,1024``)."""
    try:
        parts = [int(part) for part in (text.split("..") if ".." in text else text.split(","))]
    except ValueError:
        parts = []
    ranged = ".." in text and len(parts) in (2, 3) and parts[0] <= parts[1]
    if not parts or min(parts) < 1 or (".." in text and not ranged):
        raise typer.BadParameter(f"--context '{text}' is no range of tokens such as 256..8192 and no list such as 256,1024")
    if ".." not in text:
        return parts
    first, last, *step = parts
    found = [first]
    if step and (last - first) // step[0] >= MOST_LENGTHS:
        raise typer.BadParameter(f"--context '{text}' has more than {MOST_LENGTHS} lengths; take longer steps")
    while (following := found[-1] + step[0] if step else 2 * found[-1]) <= last:
        found.append(following)
    return found


def compare(a: str, b: str, on: str, tokens: tuple[int, int], *, as_json: bool) -> None:
    """Print how many times as fast one language model is as another, in both phases."""
    from latcast.llm.forecast import predict_language_model

    found = [predict_language_model(each, _platforms(on), prompt_tokens=tokens[0], generated_tokens=tokens[1]) for each in (a, b)]
    pairs = list(zip(*found, strict=True))
    if as_json:
        print_json({
            "pairs": [
                {"platform": one.platform, "a": one.to_json(), "b": two.to_json(),
                 "prefill_times": two.prefill_tokens_per_s / one.prefill_tokens_per_s,
                 "decode_times": two.decode_tokens_per_s / one.decode_tokens_per_s, "memory_mb": two.memory_mb - one.memory_mb}
                for one, two in pairs
            ]
        })  # fmt: skip
        return
    print(f"A: {found[0][0].model}\nB: {found[1][0].model}\n")
    rows = []
    for one, two in pairs:
        row = [one.platform if one.platform == two.platform else f"{one.platform} to {two.platform}"]
        for phase in ("decode", "prefill"):
            of_a, of_b = (getattr(each, f"{phase}_tokens_per_s") for each in (one, two))
            row += [three_digits(of_a), three_digits(of_b), f"{of_b / of_a:.2f}"]
        rows.append(tuple(row))
    heads = [head for phase in ("decode", "prefill") for head in (f"A {phase} tok/s", f"B {phase} tok/s", "B times A")]
    print_table("", ("platform", *heads), rows)


def print_models(pattern: str, *, as_json: bool) -> None:
    """Print the language models that can be named, with their published sizes."""
    from latcast.llm.reading import named_models, read_language_model

    facts = named_models()
    found = [
        (name, read_language_model(name)) for name in matched(pattern.lower(), facts, "language model", "latcast models --llm")
    ]
    if as_json:
        print_json([
            {"name": name, "parameters": model.parameters, "published": facts[name]["published"], "source": facts[name]["source"],
             "context_tokens": model.context_limit, "also": facts[name].get("also", [])}
            for name, model in found
        ])  # fmt: skip
        return
    print_table("", ("model", "parameters", "published", "context", "source"), [
        (name, _billions(model.parameters), _billions(facts[name]["published"]), str(model.context_limit or "unknown"),
         facts[name]["source"])
        for name, model in found
    ])  # fmt: skip


def _billions(count: float) -> str:
    return f"{count / 1e9:#.3g} B"


def print_platforms(pattern: str, *, as_json: bool) -> None:
    """Print the platforms on which language models were measured, and how well others are predicted there."""
    from latcast.llm.forecast import language_platforms_meant
    from latcast.llm.learned_prices import FAMILIAR, PHASES, known_prices

    prices = known_prices()
    names = matching(pattern, prices.machines) or language_platforms_meant(pattern, prices)[0]
    errors = {name: [prices.width(phase, name, FAMILIAR)[1] for phase in PHASES] for name in names if name in prices.machines}
    if as_json:
        print_json([
            {"id": name, "chip": prices.machines[name].chip, "pairs": prices.evidence[name].pairs,
             "prefill_mape": prefill, "decode_mape": decode}
            for name, (prefill, decode) in errors.items()
        ])  # fmt: skip
        return
    if not errors:
        raise LatcastError(f"no language model was measured on '{pattern}'; latcast predict answers for it from its chip")
    print_table("", ("platform", "pairs measured", "prefill MAPE %", "decode MAPE %"), [
        (name, str(prices.evidence[name].pairs), *map(percent, both)) for name, both in errors.items()
    ])  # fmt: skip


_LIMITS = {
    "bandwidth": "reading weights and cache",
    "arithmetic": "unpacking and multiplying",
    "launches": "starting kernels and other constant costs",
}


def explain(model: str, on: str, tokens: tuple[int, int], quantisation: str, *, as_json: bool) -> None:
    """Print where the time of a language model goes, what limits it, and the same model in other quantisations."""
    from latcast.llm.explanation import explain_language_model

    found = explain_language_model(
        model, _platforms(on), prompt_tokens=tokens[0], generated_tokens=tokens[1], quantisation=quantisation
    )
    if as_json:
        print_json({"explanations": [each.to_json() for each in found]})
        return
    titles = {"prefill": f"the prompt of {tokens[0]} tokens", "decode": "a token of the answer"}
    for place, each in enumerate(found):
        print("\n" if place else "", end="")
        print_predictions([replace(each.prediction, breakdown=None)])
        for phase, costs in each.costs.items():
            total, limits = sum(cost.ms for cost in costs), each.by_limit(phase)
            print_table(
                f"\n{titles[phase]}: {seconds(total)}",
                ("part", "ms", "% of all", "limited by"),
                [(cost.text, three_digits(cost.ms), percent(100 * cost.ms / total), cost.limit) for cost in costs],
            )
            limit, spent = next(iter(limits.items()))
            print(f"limited by {limit}: {100 * spent / total:.0f} % goes to {_LIMITS[limit]}")
        rate = each.read_gb / sum(cost.ms for cost in each.costs["decode"]) * 1e3
        of_peak = f"{100 * rate / peak:.0f} % of the memory's peak of {peak:.3g} GB/s" if (peak := each.bandwidth_gb_s) else ""
        print(f"a token reads {each.read_gb:.3g} GB: {rate:.3g} GB/s" + (f", {of_peak}" if of_peak else ""))
        if each.alternatives:
            print_table("\nthe same model in other quantisations", ("quantisation", *_FOUND, "grade"), [
                (other.model, *_found(other), str(other.grade)) for other in each.alternatives
            ])  # fmt: skip


def report(model: str, on: str, tokens: tuple[int, int], quantisation: str, output: Path, *, as_json: bool) -> None:
    """Write a report on a language model as one HTML file, and print its speeds."""
    from latcast.llm.explanation import explain_language_model
    from latcast.report.html import check_reportable, write_language_report

    check_reportable()
    found = explain_language_model(
        model, _platforms(on), prompt_tokens=tokens[0], generated_tokens=tokens[1], quantisation=quantisation
    )
    write_language_report(found, output)
    if as_json:
        print_json({"report": str(output), "overlay": None, "explanations": [each.to_json() for each in found]})
        return
    print_predictions([replace(each.prediction, breakdown=None) for each in found])
    print(f"\nreport: {output}")


def limits_of(min_decode: float | None, max_ttft: str, max_memory: str) -> Limits:
    """Return the limits that options give.

    Raises:
        BadParameter: None is given, or one is not a time, a size or a speed.
    """
    from latcast.llm.limits import Limits

    if min_decode is not None and not math.isfinite(min_decode):
        raise typer.BadParameter(f"--min-decode {min_decode}, expected tokens a second")
    if min_decode is None and not max_ttft and not max_memory:
        raise typer.BadParameter("found no limit for language models; give --min-decode, --max-ttft or --max-memory")

    return Limits(
        min_decode,
        options.quantity(max_ttft, "--max-ttft", {"ms": 1, "s": 1e3}, "a time such as 2s or 800ms") if max_ttft else None,
        options.quantity(max_memory, "--max-memory", {"mb": 1, "gb": 1e3}, "a size such as 3GB or 500MB") if max_memory else None,
    )


def measure(
    models: Sequence[str], threads: int, prompt_tokens: int, generated_tokens: int, *, as_json: bool
) -> list[dict[str, Any]]:
    """Measure GGUF files, or named models with made-up weights, under llama.cpp; print what they took, or return it for JSON."""
    from latcast.measure.language_models import measure_language_model

    found = for_each(models, lambda text: measure_language_model(text, prompt_tokens, generated_tokens, threads))
    rows: list[dict[str, Any]] = [{"model": text, **each} for text, each in found]
    if as_json:
        return rows
    print_table(
        "",
        ("model", "platform", "prefill tok/s", "decode tok/s", "variation %"),
        [
            (
                row["model"], row["platform"], three_digits(row["prefill_tokens_per_s"]),
                three_digits(row["decode_tokens_per_s"]), percent(row["variation_pct"]),
            )
            for row in rows
        ],
    )  # fmt: skip
    return rows


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
