"""The card of a bundle: what it was trained on and how well it does, for people, and what that means for a prediction.

A card is a flat mapping of JSON values; whoever trains a predictor fills in what it knows, under the names of
:data:`FIELDS` and :data:`FIGURES`. Everything may be absent: the text then says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from latcast.errors import counted
from latcast.predictors.analytical import throughputs
from latcast.predictors.intervals import WIDEST
from latcast.predictors.prediction import MEASURED_THERE, Grade

if TYPE_CHECKING:
    from latcast.chips.device_memory import Shortage
    from latcast.predictors.platform_predictor import PlatformPredictor

FIELDS: Mapping[str, str] = {
    "trained_on": "trained on",
    "learn_from": "learned from",
    "model": "model of a kernel type",
    "measurements": "measurements",
    "seconds": "seconds of measuring",
    "licence": "licence of the data",
}
"""Key of a card to what it means. Beside them ``environment`` (of the measurements, as
:func:`latcast.environment.describe_environment` gives it) and ``warning`` (repeated with every prediction)."""

FIGURES: Mapping[str, str] = {
    "mape": "MAPE, %",
    "within_5": "within ±5 %, % of networks",
    "within_10": "within ±10 %, % of networks",
    "rmse_ms": "RMSE, ms",
    "rmspe": "RMSPE, %",
    "spearman": "Spearman",
    "interval_coverage": "inside the 90 % interval, % of networks",
    "label_error": "label error (MAPE), %",
}
"""Key of a card to a figure on networks that training did not see (``networks`` of them, held out by ``held_out_by``)."""

POSTERIOR = "posterior of a device"
"""Name in cards of the model of a platform that is known by few measurements."""

TRAINING_KEYS = "training_networks"
"""Under this name a card lists the reference keys of the networks that a predictor was trained on."""

TRAINING_LINEAGES = "training_blocks"
"""Under this name a card lists the lineages of these networks, where they are known: their main blocks."""

FEWEST_JUDGED = 20
"""Networks held out below which a 90 % interval is too short of evidence: each side leaves out one in twenty."""

SUMMARY = ("mape", "within_5", "within_10", "interval_coverage", "label_error", "trained_on", "licence")
"""Fields of a card that a list of platforms shows."""

_NOT_STATED = "not stated"

_JUDGED = ("same_lineages", "networks_of_others", "random_networks")
"""Names of parts of a card with figures of their own, on other networks held out."""

_KINDS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(FIGURES, (int, float)),
    **dict.fromkeys(("measurements", "networks"), int),
    "seconds": (int, float),
    **dict.fromkeys(("trained_on", "held_out_by", "warning", "chip"), str),
    **dict.fromkeys((TRAINING_KEYS, TRAINING_LINEAGES, "nearest"), list),
    **dict.fromkeys((*_JUDGED, "environment", "interval_coverage_of_kind"), dict),
}
"""Kinds of values of the entries that programs read."""


def check_card(card: Mapping[str, Any], part: str = "") -> Mapping[str, Any]:
    """Return the card, where its values are of their kinds.

    Args:
        card: A card, or a part of one.
        part: What the names of its values begin with in messages.

    Raises:
        ValueError: One is not.
    """
    for name, kind in _KINDS.items():
        value = card.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
            raise ValueError(
                f"found the {type(value).__name__} {str(value)[:40]!r} as '{part}{name}', expected another kind of value"
            )
    for name in (TRAINING_KEYS, TRAINING_LINEAGES):
        if not all(isinstance(each, str) for each in card.get(name) or ()):
            raise ValueError(f"found '{name}' with something that is not text; expected a list of texts")
    for name in _JUDGED:
        if card.get(name):
            check_card(card[name], f"{name}.")
    if not all(isinstance(each, (int, float)) for each in (card.get("interval_coverage_of_kind") or {}).values()):
        raise ValueError("found 'interval_coverage_of_kind' with something that is no number; expected percentages")
    return card


def evidence(card: Mapping[str, Any]) -> str:
    """Return, in a few words, the training data and the error: "260 networks, MAPE 5.1 % on 40 held out"."""
    count = len(card.get(TRAINING_KEYS) or ())
    learned = f"{count} networks" if count else f"{card.get('measurements') or 'an unknown number of'} measurements"
    if card.get("mape") is None:
        return f"{learned}, its error on others unknown"
    return f"{learned}, MAPE {card['mape']:.1f} % on {card.get('networks') or 'some'} held out"


def is_better(card: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether the first of two cards of one platform is of the better predictor; of equal ones the first.

    A card with a held-out error beats one without. Otherwise the one that learned from more networks (then: from more
    measurements) is better, unless its error is higher by more than chance: a MAPE over n networks is known to about one part in
    the root of n. Errors count only where the other learned from at least half as many, as a short profile is judged on few,
    small networks.
    """
    if (card.get("mape") is None) != (other.get("mape") is None):
        return card.get("mape") is not None
    fewer, more = sorted(found[0] for found in (_amount(card), _amount(other)))
    # A card that does not list its training networks tells nothing of how many they were.
    if card.get("mape") is not None and (not fewer or 2 * fewer >= more):
        (low, high), (other_low, other_high) = _error_range(card), _error_range(other)
        if high < other_low or other_high < low:
            return high < other_low
    return _amount(card) >= _amount(other)


def _error_range(card: Mapping[str, Any]) -> tuple[float, float]:
    """Return the MAPE and one standard error to both sides."""
    share = 1 / max(int(card.get("networks") or 1), 1) ** 0.5
    return card["mape"] * (1 - share), card["mape"] * (1 + share)


def _amount(card: Mapping[str, Any]) -> tuple[int, int]:
    return len(card.get(TRAINING_KEYS) or ()), int(card.get("measurements") or 0)


def card_warnings(card: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the warnings of every prediction: the card's own, and one where the predictor rests on too little."""
    own = (str(card["warning"]),) if card.get("warning") else ()
    # A device's interval rests on the known platforms, whatever was measured there.
    if not card.get("trained_on") or card.get("model") == POSTERIOR:
        return own
    count = len(card.get(TRAINING_KEYS) or ())
    if card.get("mape") is None:
        learned = f"learned from {count} networks" if count else "learned from too little"
        return (*own, f"the predictor {learned}; how well it predicts others is not known; measure longer (latcast profile)")
    judged = card.get("networks")
    if judged is not None and judged < FEWEST_JUDGED:
        return (*own, f"the predictor's error and interval rest on {judged} networks alone; measure longer (latcast profile)")
    return own


HELD_OUT = frozenset(("mape", "networks", "networks_of_others", "random_networks", "same_lineages", "trained_on"))
"""What a card says of networks held out, and of what its predictor learned from."""

ERROR_OF_WIDTH = 24.0
"""Mean error, in percent, over the width of a 90 % interval in logarithms: that of a normal distribution, 0.80 over 3.29."""

MOST_WEIGHT, HALF_HELD_OUT = 0.6, 4
"""Largest weight of the error on networks held out beside the interval's width, and the networks held out that give it half."""

ERRATIC_PERCENT = 80.0
"""Error on kinds of networks not measured from which on no network on the platform counts as similar to those measured."""

LEAST_ERROR = 0.5
"""Percent: what repeating a measurement would move."""

UNPREDICTED_ERROR = 70.0
"""Percent by which what was never measured there is off: what runs on another unit, and overhead that was not shown."""

LARGEST_OVERHEAD = 0.5
"""Part of a latency that may be overhead of the platform before the rest of it counts as not measured."""

LARGE_SHARE = 0.1
"""Part of a latency from which on it can be the reason of a grade."""

FEWEST_NETWORKS = 8
"""Networks measured on a platform below which that is the reason of a grade, where nothing else was measured."""


def graded(
    card: Mapping[str, Any], low_ms: float, high_ms: float, level: float | None, *, lineage: str = "", recalled: bool = False,
    measured: bool = False, overhead: float = 0.0, elsewhere: float = 0.0, unlike: float = 0.0, converted: bool = False,
) -> Grade:  # fmt: skip
    """Return what is to be expected of a prediction: the width of its interval, and the error on networks held out as it is.

    Both are means of errors. The second counts the more the more networks were held out, and not for the part of a latency that
    is by kernels unlike those learned from.

    Args:
        card: Of the platform.
        low_ms, high_ms, level: The interval, which is wider for what is novel.
        lineage: Of the network, as :func:`latcast.graph.blocks.main_block` names it.
        recalled: Whether known devices ran the same network.
        measured: Whether the platform itself did; the width of the interval decides alone.
        overhead: Part of the latency, from 0 to 1, that is a constant of the platform.
        elsewhere: Part that is estimated for what the delegate leaves to the CPU, and for what crosses to it.
        unlike: Part by kernels unlike those learned from.
        converted: Whether its file is stored in another precision than the platform's; errors on networks held out are not of
            such files.
    """
    error = ERROR_OF_WIDTH * math.log(high_ms / low_ms) if 0 < low_ms < high_ms else 0.0
    if measured:
        return Grade.of(error, MEASURED_THERE)
    learned, seen = len(card.get(TRAINING_KEYS) or ()), card.get(TRAINING_LINEAGES) or ()
    new = bool(seen) and lineage not in seen and not recalled
    erratic = (card.get("mape") or 0.0) > ERRATIC_PERCENT
    judged = None if converted else _held_out_as(card, recalled=recalled and not erratic, new=new or erratic)
    if judged is not None:
        mape, count = judged
        weight = MOST_WEIGHT * (1.0 if erratic else (1 - unlike) * count / (count + HALF_HELD_OUT))
        error = max(error, LEAST_ERROR) ** (1 - weight) * max(mape, LEAST_ERROR) ** weight
    unshown = max(overhead - LARGEST_OVERHEAD, 0.0)
    error += UNPREDICTED_ERROR * max(elsewhere, unshown)
    if level is None:
        why = "never calibrated"
    elif converted:
        why = "its file is of another precision"
    elif high_ms > 0.99 * WIDEST * low_ms:
        why = "hardly known, perhaps ten times as fast or slow"
    elif elsewhere >= LARGE_SHARE:
        why = f"{100 * elsewhere:.0f} % of it runs on the CPU or crosses to it"
    elif unshown >= LARGE_SHARE:
        why = f"{100 * overhead:.0f} % of it is overhead"
    elif learned < FEWEST_NETWORKS and (card.get("model") == POSTERIOR or card.get("learn_from") == "networks"):
        why = f"learned from {counted(learned, 'network')}" if learned else "no network measured there"
    elif unlike >= LARGE_SHARE:
        why = f"{100 * unlike:.0f} % of it is by unseen kernels"
    elif judged is None:
        why = "nothing held out" if card.get("trained_on") else "measured on another device"
    else:
        why = f"{judged[0]:.1f} % off on {judged[1]} held out" + (", of unseen kinds" if new or erratic else "")
    return Grade.of(error, why)


def _held_out_as(card: Mapping[str, Any], *, recalled: bool, new: bool) -> tuple[float, int] | None:
    """Return the MAPE on networks held out that are as novel as one, and their number; None where none were."""
    found = [card] if new else [card.get("same_lineages"), card.get("random_networks"), card]
    for each in [card.get("networks_of_others"), *found] if recalled else found:
        if each and each.get("mape") is not None:
            return float(each["mape"]), int(each.get("networks") or card.get("networks") or card.get("measurements") or 1)
    return None


def card_text(predictor: PlatformPredictor) -> str:
    """Return the card as Markdown."""
    card = predictor.card
    lines = [f"# {predictor.platform.id}", "", "A latcast predictor bundle.", ""]
    if card.get("warning"):
        lines += [f"**{_show(card['warning'])}**", ""]
    lines += _table(("", ""), [(meaning, _show(card.get(key))) for key, meaning in FIELDS.items()])
    lines += ["", "## On networks not trained on", ""]
    lines += [f"Networks: {_show(card.get('networks'))}. Held out by: {_show(card.get('held_out_by'))}.", ""]
    lines += _table(("figure", "value"), [(meaning, _show(card.get(key))) for key, meaning in FIGURES.items()])
    interval = predictor.interval
    calibration = (
        "too few networks were measured to calibrate it"
        if interval.level is None
        else f"calibrated on {interval.networks} networks"
    )
    overhead = f"a constant overhead of {predictor.network.constant_ms:.4g} ms is part of it."
    correction = predictor.network.short_networks
    if correction.exponents:
        factor, shortest = f"{correction.least_factor:.2f}", f"{correction.shortest_ms:.3g}"
        overhead += f" Short networks take less than that: {factor} times at {shortest} ms."
    lines += ["", f"Starts: {predictor.start.basis}."] if predictor.start is not None else []
    lines += [
        "",
        f"The {interval.kind} interval is {interval.in_words()}, {calibration}; {overhead}",
        "",
        "## Kernel predictors",
        "",
    ]
    lines += _table(
        ("kernel type", "model", "configurations trained on"),
        [(name, found.model, str(found.samples)) for name, found in sorted(predictor.kernels.items())],
    )
    if card.get("transfer"):
        lines += ["", "## Transferred from", ""]
        rows = []
        for name, found in sorted(card["transfer"].items()):
            nearest = found.get("similar") or [{}]
            divergence, samples = _show(nearest[0].get("divergence")), _show(found.get("samples"))
            rows.append((name, _show(found.get("way")), ", ".join(found.get("sources") or ()) or "-", divergence, samples))
        lines += _table(("kernel type", "learned", "sources", "divergence of the nearest", "samples"), rows)
    lines += ["", "## What the device does well", ""]
    lines += _table(
        ("kernel class", "GFLOP/s", "GB/s of activations", "GB/s of weights", "µs a kernel"),
        [
            (each.kernel_class, *("-" if rate is None else f"{rate:.4g}" for rate in each.rates), f"{each.kernel_us:.4g}")
            for each in throughputs(predictor.analytical, predictor.platform.precision)
        ],
    )
    lines += ["", "## Environment of the measurements", ""]
    lines += _table(("", ""), _flattened(card.get("environment") or {})) if card.get("environment") else [_NOT_STATED]
    return "\n".join(lines) + "\n"


def _flattened(data: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows = []
    for key, value in sorted(data.items()):
        if isinstance(value, Mapping):
            rows += _flattened(value, f"{prefix}{key} ")
        else:
            rows.append((f"{prefix}{key}", _show(value)))
    return rows


def _show(value: object) -> str:
    """Return a value on one line of a table."""
    if value is None:
        return _NOT_STATED
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_show(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_show(each) for each in value)
    text = " ".join(str(value).split()).replace("|", "\\|")
    return text if len(text) <= 200 else text[:197] + "..."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def graded_by_memory(grade: Grade, shortage: Shortage | None) -> Grade:
    """Return the grade of a program that no size of the device's memory holds; the given one where some size does."""
    if shortage is None or not shortage.unfit:
        return grade
    return Grade.of(grade.expected_error_pct + UNPREDICTED_ERROR, "does not fit in memory")
