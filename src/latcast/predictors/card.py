"""The card of a bundle: what it was trained on and how well it does, for people.

A card is a flat mapping of JSON values; whoever trains a predictor fills in what it knows, under the names of
:data:`FIELDS` and :data:`FIGURES`. Everything may be absent: the text then says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from latcast.predictors.physical import PhysicalTerms
from latcast.predictors.throughput import throughputs

if TYPE_CHECKING:
    from latcast.predictors.platform_predictor import PlatformPredictor

FIELDS: Mapping[str, str] = {
    "trained_on": "trained on",
    "way": "way of learning",
    "model": "model of a kernel type",
    "measurements": "measurements",
    "seconds": "seconds of measuring",
    "licence": "licence of the data",
}
"""Key of a card to what it means. Beside them ``environment`` (of the measurements, as
:func:`latcast.measure.environment.describe_environment` gives it) and ``warning`` (repeated with every prediction)."""

FIGURES: Mapping[str, str] = {
    "mape": "MAPE, %",
    "within_5": "within ±5 %, % of networks",
    "within_10": "within ±10 %, % of networks",
    "rmse_ms": "RMSE, ms",
    "rmspe": "RMSPE, %",
    "spearman": "Spearman",
    "interval_coverage": "inside the 90 % interval, % of networks",
    "noise_floor": "noise floor of the labels (MAPE), %",
}
"""Key of a card to a figure on networks that training did not see (``networks`` of them, held out by ``held_out_by``)."""

SUMMARY = ("mape", "within_5", "within_10", "interval_coverage", "noise_floor", "trained_on", "licence")
"""What a list of platforms shows of a card."""

_NOT_STATED = "not stated"


def _short_networks(predictor: PlatformPredictor) -> str:
    """A sentence on what warm caches save; empty where nothing is known to be saved."""
    caches = predictor.network.caches
    if not caches.exponents:
        return ""
    return f" Short networks take less than that: {caches.least_factor:.2f} times at {caches.shortest_ms:.3g} ms."


def card_text(predictor: PlatformPredictor) -> str:
    """The card as Markdown."""
    card = predictor.card
    lines = [f"# {predictor.platform.id}", "", "A latcast predictor bundle.", ""]
    if card.get("warning"):
        lines += [f"**{_show(card['warning'])}**", ""]
    lines += _table(("", ""), [(meaning, _show(card.get(key))) for key, meaning in FIELDS.items()])
    lines += ["", "## On networks not trained on", ""]
    lines += [f"Networks: {_show(card.get('networks'))}. Held out by: {_show(card.get('held_out_by'))}.", ""]
    lines += _table(("figure", "value"), [(meaning, _show(card.get(key))) for key, meaning in FIGURES.items()])
    interval = predictor.interval
    lines += [
        "",
        f"The 90 % interval is {interval.low:.3f} to {interval.high:.3f} times the prediction, calibrated on "
        f"{interval.networks} networks; a constant overhead of {predictor.network.constant_ms:.4g} ms is part of it."
        + _short_networks(predictor),
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
        lines += _table(_TRANSFER, [_transfer_row(name, found) for name, found in sorted(card["transfer"].items())])
    lines += ["", "## What the device does well", ""]
    lines += _table(("kernel class", *_THROUGHPUTS), _throughputs(predictor.physical, predictor.platform.precision))
    lines += ["", "## Environment of the measurements", ""]
    lines += _table(("", ""), _flattened(card.get("environment") or {})) if card.get("environment") else [_NOT_STATED]
    return "\n".join(lines) + "\n"


_TRANSFER = ("kernel type", "learned", "sources", "divergence of the nearest", "samples")


def _transfer_row(name: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    """One kernel type of ``card["transfer"]``, as :mod:`latcast.transfer.adaptation` writes it."""
    nearest = found.get("similar") or [{}]
    sources = ", ".join(found.get("sources") or ()) or "-"
    return name, _show(found.get("way")), sources, _show(nearest[0].get("divergence")), _show(found.get("samples"))


_THROUGHPUTS = ("GFLOP/s", "GB/s of activations", "GB/s of weights", "µs a kernel")


def _throughputs(physical: PhysicalTerms, precision: str) -> list[tuple[str, ...]]:
    return [
        (each.kernel_class, *("-" if rate is None else f"{rate:.4g}" for rate in each.rates), f"{each.kernel_us:.4g}")
        for each in throughputs(physical, precision)
    ]


def _flattened(data: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows = []
    for key, value in sorted(data.items()):
        if isinstance(value, Mapping):
            rows += _flattened(value, f"{prefix}{key} ")
        else:
            rows.append((f"{prefix}{key}", _show(value)))
    return rows


def _show(value: object) -> str:
    """A value on one line of a table."""
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
