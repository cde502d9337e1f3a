"""Grades of predictions: the error that each states against the one found, on networks held out of the pool and of the phones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command import PUBLISHED, Data, Seed, print_stages, say
from benchmarks.judge import Row, absolute_percentage, table
from benchmarks.phones import learned_from, phone_platforms, source_of
from benchmarks.pool import read_pool
from benchmarks.result_files import keep, kept_parts
from latcast.chips.chip_names import chip_of
from latcast.datasets.store import Store
from latcast.kernels.rules import platform_rules, unit_kind
from latcast.predictors.card import ERROR_OF_WIDTH, TRAINING_LINEAGES, graded
from latcast.predictors.intervals import (
    GPUS_OUTSIDE_GROWTH,
    LEVEL_DEVIATIONS,
    OUTSIDE_GROWTH,
    HeldOut,
    interval_with_relatives,
)
from latcast.predictors.prediction import Grade
from latcast.records import Platform
from latcast.training.fitting import Trainer
from latcast.training.from_store import CalibrationNetworks
from shipping.arbitration import NEW_LINEAGES, NEW_NETWORKS, NOTHING
from shipping.known_forecasts import held_out, try_known
from shipping.known_platforms import read_datasets

MOST_OFF = 0.25
"""Part by which the error found may differ from the one stated."""

LARGEST_PERCENT = 500.0
"""Error from which on a prediction counts as so far off: a mean would else be that of one network."""

HALVES = ("tuned", "reported")
"""Halves of the chips: that constants were chosen on, and the other."""

_SEEN = "seen"
"""Stands for the lineages of networks that were measured."""


# Command


def grades(
    data: Data = PUBLISHED,
    store: Annotated[
        Path | None, typer.Option(help="That `latcast data import usc DIR --store` wrote; no phones where left out.")
    ] = None,
    every: Annotated[int, typer.Option(help="One CPU platform of the phones in so many, and one GPU in a third.", min=1)] = 17,
    seed: Seed = 0,
) -> None:
    """Judge the errors that grades state, on networks held out of the pool, or of the phones whose store is given."""
    if store is None:
        keep_rows("pool", [*pool_trials(data, seed)], seed)
    else:
        keep_rows("phones", [*phone_trials(store, every)], seed)
    print(grades_table())
    for text in missed(kept_rows()):
        say(f"missed: {text}")


def keep_rows(source: str, trials: Sequence[Trial], seed: int) -> None:
    """Keep what is judged of one source of trials."""
    platforms = len({each.platform for each in trials})
    keep(f"grades/{source}", {"platforms": platforms, "rows": rows_of(source, trials, seed)})


def kept_rows() -> list[Row]:
    """Return the rows of all sources, as they were judged last."""
    return [row for part in reversed(kept_parts("grades").values()) for row in part["rows"]]


# Predictions of networks held out


@dataclass(frozen=True)
class Trial:
    """Networks of one platform that are as novel, each array (networks,).

    Attributes:
        platform, chip: Of it.
        novelty: What they are: :data:`NEW_LINEAGES`, :data:`NEW_NETWORKS` or :data:`NOTHING`, which other devices ran.
        error: In percent of what was measured.
        width: Logarithm of the upper over the lower bound of the 90 % interval.
        groups: Networks of one group are left out of the card together.
    """

    platform: str
    chip: str
    novelty: str
    error: np.ndarray
    width: np.ndarray
    groups: np.ndarray


def pool_trials(data: Path, seed: int) -> Iterator[Trial]:
    """Yield the platforms of the pool, by models that know none of what they are tested on."""
    watch = print_stages()
    known, _, wanted, _ = read_pool(list(read_datasets(data)), watch)
    chips, lineages = {each.name: each.silicon for each in known.platforms}, np.array(known.lineages)
    for (name, novelty), found in held_out(try_known(known, wanted, seed=seed, watch=watch)).items():
        groups = lineages[found.networks] if novelty == NEW_LINEAGES else found.networks
        width = 2 * LEVEL_DEVIATIONS * found.deviation
        yield Trial(name, chips[name], novelty, absolute_percentage(found.error), width, groups)


def phone_trials(path: Path, every: int) -> Iterator[Trial]:
    """Yield one CPU platform of the shipped phones in so many, and one GPU in a third of that, as their cards are made."""
    with Store(path) as store:
        names = phone_platforms(store)
    gpus = [name for name in names if unit_kind(Platform.parse(name).unit) == "gpu"]
    cpus = [name for name in names if name not in gpus]
    for name in (*cpus[every // 2 :: every], *gpus[:: max(every // 3, 1)]):
        say(name)
        platform = Platform.parse(name)
        data = learned_from(path, platform)
        source = source_of(data)
        trainer = Trainer(platform, platform_rules(platform), source)
        unseen = trainer.held_out(data)
        growth = GPUS_OUTSIDE_GROWTH if unit_kind(platform.unit) == "gpu" else OUTSIDE_GROWTH
        relatives = trainer.held_out(data, [sample.reference.key for sample in data.networks]) if source == "networks" else None
        judged = CalibrationNetworks.of(data.networks, unseen, outside_growth=growth, with_relatives=relatives)
        assert judged.bounds_ms is not None
        chip = chip_of(platform.device, "", unit_kind(platform.unit))
        lineages, measured_ms = np.array(judged.lineages), judged.latency_ms
        yield _trial(name, chip, NEW_LINEAGES, judged.held_out, measured_ms, judged.bounds_ms, lineages)
        if judged.with_relatives is not None:
            interval = interval_with_relatives(measured_ms, judged.held_out, judged.with_relatives, lineages)
            bounds_ms = interval.bounds_ms(judged.with_relatives.latency_ms, judged.with_relatives.outside_share)
            yield _trial(name, chip, NEW_NETWORKS, judged.with_relatives, measured_ms, bounds_ms, np.arange(len(measured_ms)))


def _trial(
    name: str, chip: object, novelty: str, found: HeldOut, measured_ms: np.ndarray, bounds_ms: tuple[np.ndarray, np.ndarray],
    groups: np.ndarray,
) -> Trial:  # fmt: skip
    low_ms, high_ms = bounds_ms
    error = absolute_percentage(np.log(measured_ms / found.latency_ms))
    return Trial(name, str(chip), novelty, error, np.log(high_ms / low_ms), groups)


# Judging


def stated(trial: Trial, mape_of_new: float | None) -> dict[str, np.ndarray]:
    """Return the error that each rule states of each network, (networks,), by a card of the other groups alone.

    Args:
        trial: The networks.
        mape_of_new: Of the platform on lineages not run.
    """
    _, group = np.unique(trial.groups, return_inverse=True)
    count = len(group) - np.bincount(group)[group]
    others = (trial.error.sum() - np.bincount(group, trial.error)[group]) / np.maximum(count, 1)
    found = []
    for width, mape, networks in zip(trial.width.tolist(), others.tolist(), count.tolist(), strict=True):
        figures = {"mape": mape, "networks": networks} if networks else {}
        new = trial.novelty == NEW_LINEAGES
        card: dict[str, Any] = {"mape": mape_of_new, TRAINING_LINEAGES: [_SEEN], "measurements": networks}
        card |= figures if new else {"networks_of_others" if trial.novelty == NOTHING else "same_lineages": figures}
        grade = graded(
            card, 1.0, float(np.exp(width)), 90.0, lineage="" if new else _SEEN, recalled=trial.novelty == NOTHING
        )  # fmt: skip
        found.append(grade.expected_error_pct)
    return {"width": ERROR_OF_WIDTH * trial.width, "grade": np.array(found)}


def rows_of(source: str, trials: Sequence[Trial], seed: int = 0) -> list[dict[str, Any]]:
    """Return a row by half of the chips, rule and grade: predictions, and the means of the errors stated and found."""
    chips = sorted({each.chip for each in trials})
    tuned = set(np.random.default_rng(seed).permutation(chips)[: len(chips) // 2].tolist())
    mape_of_new = {each.platform: float(each.error.mean()) for each in trials if each.novelty == NEW_LINEAGES}
    by_rule: dict[tuple[str, str], list[tuple[np.ndarray, np.ndarray]]] = {}
    for each in trials:
        for rule, errors in stated(each, mape_of_new.get(each.platform)).items():
            half = "tuned" if each.chip in tuned else "reported"
            by_rule.setdefault((half, rule), []).append((errors, np.minimum(each.error, LARGEST_PERCENT)))
    rows = []
    for (half, rule), parts in sorted(by_rule.items(), key=lambda each: HALVES.index(each[0][0])):
        said, real = (np.concatenate(column) for column in zip(*parts, strict=True))
        words = np.array([Grade.of(value, "").word for value in said.tolist()])
        for word in ("good", "fair", "rough"):
            chosen = words == word
            if chosen.any():
                rows.append(
                    {"source": source, "half": half, "rule": rule, "word": word, "predictions": int(chosen.sum()),
                     "stated": float(said[chosen].mean()), "found": float(real[chosen].mean())}
                )  # fmt: skip
    return rows


def is_off(row: Row) -> bool:
    """Return whether the error found is not within :data:`MOST_OFF` of the one stated."""
    return abs(float(row["found"] / row["stated"]) - 1) > MOST_OFF


def missed(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each grade of the reported half that states another error than is found."""
    return [
        f"{row['source']}, {row['word']}: {row['stated']:.1f} % stated, {row['found']:.1f} % found"
        for row in rows
        if (row["half"], row["rule"]) == ("reported", "grade") and is_off(row)
    ]


# Table


def grades_table() -> str:
    """Return a line for each source and grade, of the chips that no constant was chosen on, with the simple rule beside."""
    found = {(row["source"], row["rule"], row["word"]): row for row in kept_rows() if row["half"] == "reported"}

    def ratio(row: Row | None) -> str:
        return "-" if row is None else f"{row['found'] / row['stated']:.2f}" + (", missed" if is_off(row) else "")

    return table(
        [row for (_, rule, _), row in found.items() if rule == "grade"],
        {
            "networks of": "{source}", "grade": "{word}", "predictions": "{predictions}", "stated %": "{stated:.1f}",
            "found % (MAPE)": "{found:.1f}", "found over stated": ratio,
            "the same by the width alone": lambda row: ratio(found.get((row["source"], "width", row["word"]))),
        },
    )  # fmt: skip
