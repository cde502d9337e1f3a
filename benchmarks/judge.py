"""Judging that all benchmarks share: figures with bootstrap intervals, baselines, targets, and one form of tables.

Networks and chips are held out by the splits of :mod:`shipping.arbitration` and :mod:`latcast.spaces.published_segments`;
errors are measured by :mod:`latcast.predictors.metrics`. Results are written by :mod:`benchmarks.result_files`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from latcast.devices.members import fit_totals
from latcast.measure.labels import MOST_LABEL_ERROR
from latcast.predictors.intervals import LEVEL_DEVIATIONS
from latcast.predictors.metrics import judge

Row = Mapping[str, Any]
"""A row of results: what was judged, and its figures."""

DRAWS = 2_000
"""Bootstrap samples."""

LEVEL_PERCENT = 90.0
"""Level of bootstrap intervals."""

LEAST_COVERAGE, MOST_COVERAGE = 85.0, 95.0
"""Percent of networks that is to lie inside a 90 % interval."""

LEAST_WITHIN_10 = 85.0
"""Percent of networks that is to lie within ±10 %."""

MAPE_ABOVE_LABEL_ERROR = 3.0
"""Points by which a MAPE may lie above the label error."""

SLOWEST_SIMPLE = 50
"""A regression on FLOPs and memory predicts no less than the least measured latency by this factor."""


# Figures


def figures(predicted_ms: np.ndarray, actual_ms: np.ndarray, *bounds_ms: np.ndarray) -> dict[str, Any]:
    """Return all metrics of predictions, with the interval of the MAPE over networks.

    Args:
        predicted_ms, actual_ms: (networks,).
        bounds_ms: Lower and upper bounds, each (networks,), if there are any.
    """
    error = 100 * np.abs(predicted_ms / actual_ms - 1)
    return {**judge(predicted_ms, actual_ms, *bounds_ms).to_json(), "mape_interval": interval_of_mean(error)}


def figures_of_rows(rows: Sequence[Row]) -> dict[str, Any]:
    """Return :func:`figures` of the rows that ``latcast evaluate`` prints, one a network."""
    columns = ("latency_ms", "measured_ms", "low_ms", "high_ms")
    return figures(*(np.array([row[column] for row in rows]) for column in columns))


def figures_of_logarithms(error: np.ndarray, deviation: np.ndarray, log_ms: np.ndarray) -> dict[str, float]:
    """Return the figures of forecasts of logarithms, in percent; ``width`` is upper over lower bound of the median network.

    Args:
        error: (networks,) logarithm of measured over predicted.
        deviation: (networks,) standard deviations of the forecasts.
        log_ms: (networks,) measured logarithms.
    """
    predicted, reach = log_ms - error, LEVEL_DEVIATIONS * deviation
    found = judge(*map(np.exp, (predicted, log_ms, predicted - reach, predicted + reach)))
    assert found.interval_coverage is not None
    return {
        "mape": found.mape, "median_ape": float(np.median(absolute_percentage(error))), "within_5": found.within_5,
        "within_10": found.within_10, "rmspe": found.rmspe, "spearman": found.spearman, "coverage": found.interval_coverage,
        "width": float(np.exp(2 * np.median(reach))),
    }  # fmt: skip


def absolute_percentage(error: np.ndarray) -> np.ndarray:
    """Return by how many percent predictions are off, from logarithms of measured over predicted."""
    return np.asarray(100 * np.abs(np.expm1(-error)))


def mean_over_platforms(members: Sequence[Mapping[str, float]], chips: Sequence[str]) -> dict[str, Any]:
    """Return the mean of each figure over platforms, without NaN, the median MAPE, and the interval of the mean MAPE over chips.

    Args:
        members: (platforms,) figures with the same names.
    """
    columns = {name: np.array([each[name] for each in members], dtype=float) for name in members[0]}
    found: dict[str, Any] = {
        name: float(np.nanmean(values)) if not np.isnan(values).all() else float("nan") for name, values in columns.items()
    }
    mape = columns["mape"]
    return {**found, "median_mape": float(np.median(mape)), "mape_interval": interval_of_mean(mape, chips)}


def interval_of_mean(values: np.ndarray, groups: Sequence[str] | None = None, seed: int = 0) -> list[float]:
    """Return the percentile bootstrap interval of a mean, lower bound first.

    Args:
        values: (n,).
        groups: (n,) what is drawn together, such as the chip; each value alone by default.
    """
    _, group = np.unique(range(len(values)) if groups is None else groups, return_inverse=True)
    sums, counts = np.bincount(group, values), np.bincount(group)
    drawn = np.random.default_rng(seed).integers(len(sums), size=(DRAWS, len(sums)))
    return interval_of(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))


def interval_of(drawn: np.ndarray) -> list[float]:
    """Return the middle :data:`LEVEL_PERCENT` of bootstrap samples, (draws,)."""
    tail = 50 - LEVEL_PERCENT / 2
    found: list[float] = np.percentile(drawn, [tail, 100 - tail]).tolist()
    return found


# Baselines


def by_flops_and_memory(measured: np.ndarray, log_ms: np.ndarray, tested: np.ndarray) -> np.ndarray:
    """Return logarithms predicted by a regression on FLOPs and elements moved, (tested,).

    Args:
        measured: (measured, totals) of :class:`latcast.predictors.network_features.NetworkFeatures`.
        log_ms: (measured,) logarithms of what they took.
        tested: (tested, totals).
    """
    return np.asarray(np.log(np.maximum(tested @ fit_totals(measured, np.exp(log_ms)), np.exp(log_ms.min()) / SLOWEST_SIMPLE)))


def by_one_factor(known: np.ndarray, measured: np.ndarray, log_ms: np.ndarray) -> tuple[np.ndarray, int]:
    """Return logarithms predicted as those of the known platform that differs least beyond a factor, and that platform's row.

    Args:
        known: (platforms, networks) logarithms.
        measured: (measured,) networks that ran on the new platform.
        log_ms: (measured,) logarithms of what they took.
    """
    difference = log_ms - known[:, measured]
    best = int(np.argmin(difference.std(axis=1)))
    return np.asarray(known[best] + np.median(difference[best])), best


ROWS_LEVEL_VARIANCE, ROWS_OWN_VARIANCE = 1.0, 0.0025
"""Variance of a platform's level, and of what is its own in one network, in logarithms."""


def by_covariance(known: np.ndarray, measured: np.ndarray, log_ms: np.ndarray) -> np.ndarray:
    """Return logarithms predicted by Gaussian regression with the covariance of the known platforms' rows, (networks,).

    Args:
        known, measured, log_ms: As for :func:`by_one_factor`.
    """
    mean = known.mean(axis=0)
    covariance = (known - mean).T @ (known - mean)[:, measured] / len(known) + ROWS_LEVEL_VARIANCE
    observed = covariance[measured] + ROWS_OWN_VARIANCE * np.eye(len(measured))
    return np.asarray(mean + covariance @ np.linalg.solve(observed, log_ms - mean[measured]))


# Targets


def misses(found: Row, above_label_error: float = MAPE_ABOVE_LABEL_ERROR) -> list[str]:
    """Return the targets that a platform misses: MAPE ≤ label error + `above_label_error`, ±10 % ≥ 85 %, coverage 85 to 95 %."""
    error, coverage = found["label_error"], found["interval_coverage"]
    missed = {
        "MAPE": error is None or found["mape"] > error + above_label_error,
        "±10 %": found["within_10"] < LEAST_WITHIN_10,
        "coverage": coverage is None or is_off_level(coverage),
    }
    return [name for name, is_missed in missed.items() if is_missed]


def is_off_level(coverage: float) -> bool:
    """Return whether a 90 % interval holds too few or too many networks."""
    return not LEAST_COVERAGE <= coverage <= MOST_COVERAGE


def verdict(found: Row) -> str:
    """Say which targets a platform misses; an asterisk marks labels too coarse for a target that is met to count."""
    missed, error = misses(found), found["label_error"]
    coarse = " *" if error is None or error > MOST_LABEL_ERROR else ""
    return ("all met" if not missed else "missed: " + ", ".join(missed)) + coarse


def target_cell(target: float | None, value: float, what: str = "", *, least: bool = False) -> str:
    """Say what was aimed at, at most or at least, of what, and whether it is missed."""
    if target is None:
        return "none"
    return f"{target:.1f}{what}, {'missed' if (value < target if least else value > target) else 'met'}"


# Tables

Columns = Mapping[str, str | Callable[[Any], str]]
"""Heading to what a row shows there: a format of its values, such as "{mape:.1f}", or a function of the row."""


def table(rows: Sequence[Row], columns: Columns) -> str:
    """Return rows in Markdown; a value that is None or missing is shown as "-"."""
    return markdown_table([*columns], [[_cell(row, each) for each in columns.values()] for row in rows])


def _cell(row: Row, column: str | Callable[[Any], str]) -> str:
    try:
        return column.format_map(row) if isinstance(column, str) else column(row)
    except (KeyError, TypeError):
        return "-"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    first, *others = (f"| {' | '.join(cells)} |" for cells in (head, *rows))
    return "\n".join([first, "|" + "---|" * len(head), *others])


def with_interval(name: str, digits: int = 1) -> Callable[[Row], str]:
    """Return a column that shows a figure, with its interval in brackets where one is known."""

    def cell(row: Row) -> str:
        bounds = row.get(f"{name}_interval")
        return f"{row[name]:.{digits}f}" + ("" if not bounds else " ({:.{d}f} to {:.{d}f})".format(*bounds, d=digits))

    return cell
