"""Learning this machine's prices of language models from stacks of layers that were timed here."""

from __future__ import annotations

import math
import platform as host
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from latcast.errors import TrainingError
from latcast.folders import measurements_folder
from latcast.llm.learned_prices import FAMILIAR, PHASES, LearnedPrices, known_prices, save_added
from latcast.llm.prices import Phase, Timed, fit
from latcast.llm.speeds import machine_of
from latcast.llm.workload import decode_quantities, prefill_quantities
from latcast.measure.language_models import TimedModel, platform_here, time_stacks
from latcast.predictors.intervals import LEVEL, conformal_quantile

NOISE = 0.02
"""Deviation of a log time about its price list: times taken in turn repeat within 1 to 2 %."""

FEWEST_STACKS = 6
"""Stacks below which nothing is learned: one of each shape."""

TOKENS_AFTER = 3
"""Tokens in the cache beside the prompt when the middle one of those timed is computed."""


@dataclass(frozen=True)
class LanguageProfile:
    """The result of a profile.

    Attributes:
        platform: Platform id.
        file: Where its prices are kept.
        store: Where its measurements are kept.
        stacks: Stacks of layers that were timed.
        mape: Phase to the mean error of stacks of shapes held out, in percent.
        spread: Deviation of repeats, in percent.
    """

    platform: str
    file: Path
    store: Path
    stacks: int
    mape: Mapping[Phase, float]
    spread: float


def profile_language_models(
    budget_s: float,
    threads: int = 1,
    *,
    device: str = "local",
    store: Path | None = None,
    show: Callable[[float, str], None] = lambda share, text: None,
) -> LanguageProfile:
    """Time stacks of layers under llama.cpp, learn this machine's prices, and keep them as an added platform.

    Args:
        budget_s: Seconds of measuring; what ``store`` holds already is not timed again.
        threads: Threads to run with.
        device: What this machine is called in platform ids.
        store: File of measurements; by default one for the platform in the user's folder.
        show: Is told the share of the budget that passed, and what is timed.

    Raises:
        MissingExtraError: llama.cpp is not installed.
        TrainingError: Too few stacks were timed.
    """
    platform = platform_here(threads, device)
    place = store or measurements_folder() / f"{platform.replace('/', '-')}.jsonl"
    found = time_stacks(budget_s, threads, place, show)
    prices, errors = learn_here(found, platform)
    mape = {phase: 100 * float(np.mean(np.abs(np.expm1(each)))) for phase, each in errors.items()}
    return LanguageProfile(
        platform, save_added(prices, platform), place, len(found), mape, 100 * float(np.mean([each.spread for each in found]))
    )


def learn_here(found: Sequence[TimedModel], platform: str) -> tuple[LearnedPrices, Mapping[Phase, Sequence[float]]]:
    """Return prices with those of this machine, and the log errors of stacks whose shape was held out, of types that others have.

    Raises:
        TrainingError: Too few stacks were timed.
    """
    if len(found) < FEWEST_STACKS:
        raise TrainingError(f"stacks of layers timed: {len(found)}, expected at least {FEWEST_STACKS}; give a longer --budget")
    kind = "cpu-x86" if host.machine().lower() in ("x86_64", "amd64") else "cpu-arm"
    known = known_prices().with_machine(replace(machine_of(platform), kind=kind, profiled=True))
    shapes = [each.configuration["hidden_size"] for each in found]
    errors: dict[Phase, list[float]] = {phase: [] for phase in PHASES}
    for out in sorted(set(shapes)):
        rest = _fitted(known, platform, [each for each, shape in zip(found, shapes, strict=True) if shape != out])
        held = [each for each, shape in zip(found, shapes, strict=True) if shape == out]
        for phase, rows in _timed(platform, held).items():
            parts = rest.prices[phase].seconds_by_term(platform, [row.quantities for row in rows])
            errors[phase] += [
                math.log(sum(each.values()) / row.seconds)
                for each, row in zip(parts, rows, strict=True)
                if rest.situation(phase, platform, each) == FAMILIAR
            ]
    if not all(errors.values()):
        raise TrainingError(f"found {len(found)} stacks of layers, none like another; give a longer --budget")
    widths = {
        phase: {
            **known.widths[phase],
            FAMILIAR: {
                **known.widths[phase].get(FAMILIAR, {}),
                platform: (
                    round(conformal_quantile(np.abs(each), LEVEL), 4), round(100 * float(np.mean(np.abs(np.expm1(each)))), 1),
                ),
            },
        }
        for phase, each in errors.items()
    }  # fmt: skip
    learned = _fitted(known, platform, found)
    longest: dict[Phase, float] = {
        "prefill": max(max(each.prefill_s) for each in found), "decode": max(max(each.decode_s) for each in found)
    }  # fmt: skip
    own = replace(known.evidence[platform], pairs=len(found), longest=longest)
    return replace(learned, widths=widths, evidence={**known.evidence, platform: own}), errors


def _fitted(known: LearnedPrices, platform: str, found: Sequence[TimedModel]) -> LearnedPrices:
    rows = _timed(platform, found)
    prices = {phase: fit(rows[phase], replace(known.prices[phase], noise=NOISE)) for phase in PHASES}
    return replace(known, prices=prices)


def _timed(platform: str, found: Sequence[TimedModel]) -> dict[Phase, list[Timed]]:
    rows: dict[Phase, list[Timed]] = {phase: [] for phase in PHASES}
    for each in found:
        model = each.model
        for tokens, seconds in each.prefill_s.items():
            rows["prefill"].append(Timed(platform, prefill_quantities(model, tokens), seconds))
        for tokens, seconds in each.decode_s.items():
            rows["decode"].append(Timed(platform, decode_quantities(model, tokens + TOKENS_AFTER), seconds))
    return rows
