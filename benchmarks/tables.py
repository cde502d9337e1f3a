"""Markdown tables from the benchmark's documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latcast.measure.labels import MOST_LABEL_ERROR
from latcast.records import signed

MAPE_ABOVE_LABEL_ERROR = 3.0
"""Points by which a MAPE may lie above the label error."""


def _number(value: Any, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join([_row(head), "|" + "---|" * len(head), *(_row(row) for row in rows)])


def target_cell(target: float | None, value: float, what: str = "", *, least: bool = False) -> str:
    """Say what was aimed at, at most or at least, of what, and whether it is missed."""
    if target is None:
        return "none"
    return f"{target:.1f}{what}, {'missed' if (value < target if least else value > target) else 'met'}"


def misses(document: Mapping[str, Any], above_label_error: float = MAPE_ABOVE_LABEL_ERROR) -> list[str]:
    """Return the targets that a platform misses: MAPE ≤ label error + `above_label_error`, ±10 % ≥ 85 %, coverage 85 to 95 %."""
    found = []
    error, coverage = document["label_error"], document["interval_coverage"]
    if error is None or document["mape"] > error + above_label_error:
        found.append("MAPE")
    if document["within_10"] < 85:
        found.append("±10 %")
    if coverage is None or not 85 <= coverage <= 95:
        found.append("coverage")
    return found


def verdict(document: Mapping[str, Any]) -> str:
    """Say which targets a platform misses; an asterisk marks labels too coarse for a target that is met to count."""
    missed, error = misses(document), document["label_error"]
    coarse = " *" if error is None or error > MOST_LABEL_ERROR else ""
    return ("all met" if not missed else "missed: " + ", ".join(missed)) + coarse


def _label_error(document: Mapping[str, Any]) -> str:
    """With its interval, where the document has one."""
    interval = document.get("label_error_interval")
    return _number(document["label_error"]) + (f" ({_number(interval[0])} to {_number(interval[1])})" if interval else "")


def summary_table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """One row a platform."""
    head = ["platform", "networks (families)", "label error %", "MAPE %", "±5 %", "±10 %", "RMSE ms", "RMSPE %", "Spearman",
            "interval coverage %", "FLOPs MAPE %", "FLOPs+MAC MAPE %", "targets"]  # fmt: skip
    rows = []
    for document in documents.values():
        baselines = document["baselines"]
        rows.append(
            [
                document["platform"], f"{document['networks']} ({document['training']['families_tested']})",
                _label_error(document), _number(document["mape"]), _number(document["within_5"], 0),
                _number(document["within_10"], 0), _number(document["rmse_ms"], 2), _number(document["rmspe"]),
                _number(document["spearman"], 3), _number(document["interval_coverage"], 0),
                _number(baselines["flops"]["mape"], 0), _number(baselines["flops_mac"]["mape"], 0), verdict(document),
            ]
        )  # fmt: skip
    return markdown_table(head, rows)


def blocks_table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """How much it helped that training saw blocks of the tested families: MAPE / ±10 % by part of the tests and of training."""
    judged = {name: document for name, document in documents.items() if "without" in document}
    if not judged:
        return ""
    parts = list(dict.fromkeys(name for document in judged.values() for name in document["without"]))
    kinds = list(dict.fromkeys(name for document in judged.values() for name in document["kinds"]))
    head = ["platform", "all", *kinds, *(f"all, trained without {name}" for name in parts)]
    rows = []
    for document in judged.values():
        figures = [{**document, "training_networks": document["training"]["training_networks"]}]
        figures += [document["kinds"][name] for name in kinds] + [document["without"][name] for name in parts]
        rows.append([document["platform"], *(_short(each) for each in figures)])
    return markdown_table(head, rows)


def _short(figures: Mapping[str, Any] | None) -> str:
    """MAPE / ±10 %, with the number of test networks where it is a part of them, of training networks where these differ."""
    if figures is None:
        return "-"
    trained = f" (from {figures['training_networks']})" if "training_networks" in figures else f" ({figures['networks']})"
    return f"{figures['mape']:.1f} / {figures['within_10']:.0f}{trained}"


def learn_from_table(documents: Mapping[str, Mapping[str, Any]], compared: Mapping[str, Mapping[str, Any]]) -> str:
    """Ways to learn and models at equal measuring time, MAPE and ±10 % by platform; the documents hold the platforms' ids."""
    names = list(dict.fromkeys(name for found in compared.values() for name in found))
    head = [
        "learned from, model (5 minutes of measuring)",
        *(documents.get(name, {}).get("platform", name) for name in compared),
    ]
    rows = []
    for name in names:
        cells = []
        for ways in compared.values():
            found = ways.get(name, {})
            cells.append("-" if "mape" not in found else f"{found['mape']:.1f} / {found['within_10']:.0f}")
        if set(cells) != {"-"}:
            rows.append([name, *cells])
    return markdown_table(head, rows)


def platform_table(document: Mapping[str, Any]) -> str:
    """Network by network, the worst first, and the summary."""
    rows = sorted(document["per_network"], key=lambda row: -abs(row["latency_ms"] / row["measured_ms"] - 1))
    lines = [
        f"{row['model']:<24} predicted {row['latency_ms']:8.2f} ({row['low_ms']:.2f} to {row['high_ms']:.2f})  "
        f"measured {row['measured_ms']:8.2f}  {signed(100 * (row['latency_ms'] / row['measured_ms'] - 1))} %"
        for row in rows
    ]
    return "\n".join([*lines, "", summary_table({"": document}), "", blocks_table({"": document})])
