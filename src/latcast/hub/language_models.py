"""Language models on a hub: predictions by name, speeds that contributors share, and how far predictions are off."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from latcast.datasets.importers.measured_speeds import read_measured_speeds
from latcast.environment import utc_now
from latcast.errors import HubError, LatcastError, UnknownPlatformError
from latcast.llm.forecast import LanguagePrediction, predict_language_model
from latcast.llm.learned_prices import ALL_KINDS, FAMILIAR, NEW_OPERATORS, PHASES, known_prices
from latcast.llm.reading import named_as
from latcast.records import UNSTATED, Measurement, Platform, Reference

SPACE, ROLE = "language_model", "language"
"""Space and role of a phase of a language model: reading a prompt, or a token of the answer."""

MOST_TOKENS = 1_000_000

BELIEVED_FACTOR = 4.0
"""A speed so many times outside the interval that is predicted for its platform is held back."""


def speeds_as_measurements(file: Path, device: str) -> list[Measurement]:
    """Return what llama-bench measured (JSON or JSON Lines) as records: a prompt and a token each, of known models.

    Raises:
        HubError: It does not say with what it computed.
        DatasetError: It holds no speed of a language model.
    """
    text = file.read_text(encoding="utf-8", errors="replace").strip()
    try:
        first = next(iter(json.loads(text) if text.startswith("[") else [json.loads(text.splitlines()[0])]))
        backend, release = str(first["backends"]).lower(), f"llama.cpp-b{int(first['build_number'])}"
        unit = f"cpu{int(first['n_threads'])}" if backend in ("cpu", "blas") else f"gpu+{backend}"
    except (ValueError, KeyError, TypeError, StopIteration) as problem:
        raise HubError(f"{file}: found speeds without backend and release; expected what llama-bench -o json prints") from problem
    platform = Platform.stated(device, release, unit, UNSTATED).id
    found = []
    for each in read_measured_speeds(file, platform)[0]:
        phases = {"prefill": each.prompt_tokens or 0, "decode": round(each.context_tokens)}
        for phase, tokens in phases.items():
            if each.has(phase):
                seconds = (tokens if phase == "prefill" else 1) / getattr(each, f"{phase}_tokens_per_s")
                stated = {"model": each.model, "quantisation": each.quantisation, "phase": phase, "tokens": tokens}
                name = f"{each.model}:{each.quantisation} {phase} {tokens}"
                found.append(
                    Measurement(
                        platform, Reference(SPACE, stated, name), ROLE, latency_ms=1e3 * seconds, statistic="mean of llama-bench",
                        taken_at=utc_now(),
                    )
                )  # fmt: skip
    return found


def implausible_speed(measurement: Measurement) -> str | None:
    """Return why the latency of a phase cannot be right beside the one that is predicted for its platform, or None."""
    stated = measurement.reference.parameters
    text, tokens = f"{stated.get('model')}:{stated.get('quantisation')}", stated.get("tokens")
    if measurement.reference.space != SPACE or stated.get("phase") not in PHASES or named_as(text) is None:
        return f"no phase of a language model that is known: {text[:80]}"
    if type(tokens) is not int or not 1 <= tokens <= MOST_TOKENS:
        return f"{str(tokens)[:40]} tokens, expected 1 to {MOST_TOKENS}"
    try:
        (found,) = predict_language_model(text, measurement.platform, prompt_tokens=tokens, generated_tokens=1)
    except UnknownPlatformError:
        return None  # nothing is known of its chip
    except (LatcastError, ValueError) as problem:
        return str(problem)[:200]
    low_ms, high_ms = found.first_token_low_ms, found.first_token_high_ms
    if stated["phase"] == "decode":
        low_ms, high_ms = 1e3 / found.decode_high_tokens_per_s, 1e3 / found.decode_low_tokens_per_s
    latency_ms = measurement.latency_ms or 0.0
    if not low_ms / BELIEVED_FACTOR <= latency_ms <= high_ms * BELIEVED_FACTOR:
        return f"{latency_ms:.4g} ms; from the chip and what was measured on such ones {low_ms:.4g} to {high_ms:.4g} was expected"
    return None


def predicted(model: str, on: str, prompt_tokens: int, generated_tokens: int) -> list[LanguagePrediction]:
    """Return predictions of a named language model; files of the server are not looked at.

    Raises:
        LatcastError: There is no such model or platform, or it names a file.
    """
    platforms = [part.strip() for part in on.split(",") if part.strip()][:20]
    if named_as(model) is None or any(each.endswith(".json") for each in platforms):
        raise HubError(f"'{model[:80]}' on '{on[:80]}': expected a language model that latcast models --llm lists, and a device")
    return predict_language_model(model, platforms, prompt_tokens=prompt_tokens, generated_tokens=generated_tokens)


def held_out_errors() -> list[Mapping[str, Any]]:
    """Return by kind of platform how far predictions of held-out models and chips were off, in percent."""
    prices = known_prices()
    kinds = sorted({machine.kind for machine in prices.machines.values()})
    cases = {"known": FAMILIAR, "operators": NEW_OPERATORS, "unmeasured": "0 pairs"}

    def error(phase: Any, case: str, kind: str) -> float | None:
        found = prices.widths.get(phase, {}).get(case, {})
        return found.get(kind, found.get(ALL_KINDS, (0.0, None)))[1]

    return [
        {"kind": kind, "pairs": sum(prices.evidence[name].pairs for name, each in prices.machines.items() if each.kind == kind)}
        | {f"{phase}_{name}": error(phase, case, kind) for phase in PHASES for name, case in cases.items()}
        for kind in kinds
    ]
