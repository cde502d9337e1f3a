"""How the tables and figures of Li et al. are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from papers.plots import Bars, Dots, draw_tables

_QUARTILES = ("median", "lower quartile", "upper quartile")
_CORES = ("phone", "cores")
_OURS_AND_PAPER = ("ours of all MAPE %", "paper of 900 MAPE %")

FIGURES: Mapping[str, Dots | Bars] = {
    "figure 2": Dots("runtime", _CORES, "phone", *_QUARTILES, "speedup over one core", 1.0),
    "figure 2 mixed": Bars(("runtime",), ("system on chip", "cores", "precision"), "against", ("speedup",), "speedup", line=1.0),
    "figure 4": Dots("runtime", _CORES, "phone", *_QUARTILES, "speedup of int8", 1.0),
    "figure 5": Bars(("runtime",), ("operation",), "system on chip", ("speedup",), "speedup of int8", line=1.0),
    "figure 9": Dots(
        "runtime", ("system on chip",), "system on chip", "median ms", "lower quartile ms", "upper quartile ms",
        "beyond the operations, ms",
    ),
    "figure 10": Bars(("runtime",), ("system on chip",), "kernel", ("mean %",), "share of the latency, %", stacked=True),
    "figure 14": Dots(
        "runtime", (*_CORES, "precision"), "phone", "median %", "lower quartile %", "upper quartile %",
        "coefficient of variation, %", log=True,
    ),
    "figure 3 live": Bars((), ("network",), "", ("one ms", "several ms"), "ms"),
    "figure 3 live operations": Bars((), ("operation",), "", ("one ms", "several ms"), "ms of all networks"),
    "figure 6 live": Bars((), ("network",), "", ("not fused ms", "fused ms"), "ms"),
    "figure 7 live": Bars((), ("operation",), "", ("not fused ms", "fused ms"), "ms of all networks"),
    "live": Bars(("synthetic networks",), ("approach",), "", ("MAPE %", "label error %"), "MAPE, %"),
    "table C.4": Bars(("unit",), ("system on chip",), "approach", ("ours of 900 MAPE %", "paper of 900 MAPE %"), "MAPE, %"),
    "table C.5": Bars(("unit",), ("system on chip",), "approach", _OURS_AND_PAPER, "MAPE, %"),
    "table C.6": Bars(("unit",), ("system on chip",), "approach", ("ours of 900 MAPE %", "paper of 900 MAPE %"), "MAPE, %"),
    "table C.7": Bars(("unit",), ("system on chip",), "approach", _OURS_AND_PAPER, "MAPE, %"),
    "figure 13": Bars(("runtime",), (*_CORES, "precision"), "", ("ours MAPE %", "noise %"), "MAPE, %"),
    "figure 15": Bars(("runtime",), ("kernel",), "system on chip", ("ours MAPE %",), "MAPE, %"),
    "figure 16": Bars(("platform",), ("convolutions",), "", ("MAPE %", "of their latency %"), "%"),
    "figure 17": Bars(("runtime", "unit"), ("approach",), "", _OURS_AND_PAPER, "MAPE, %"),
    "figure 18a": Bars(
        ("runtime",), ("system on chip",), "", ("operators", "kernels", "deduced of those listed", "recorded"),
        "number in a network",
    ),
    "figure 18b": Bars(("runtime",), ("system on chip",), "approach", ("with MAPE %", "without MAPE %"), "MAPE, %"),
    "figure 19": Bars(("platform",), ("tested",), "approach", ("with MAPE %", "without MAPE %"), "MAPE, %"),
    "figure 20": Bars(
        ("runtime", "unit"), ("approach",), "",
        ("ours of 30 MAPE %", "ours of all MAPE %", "paper of 30 MAPE %", "paper of 100 MAPE %", "paper of 900 MAPE %"),
        "MAPE, %",
    ),
    "figure 21": Bars(("runtime",), (*_CORES, "precision"), "", ("ours MAPE %", "noise %"), "MAPE, %"),
    "figure 22": Bars(("runtime",), ("kernel",), "system on chip", ("ours MAPE %",), "MAPE, %"),
    "figure 23": Bars((), ("approach",), "", ("mean of 30 MAPE %", "mean of all MAPE %"), "MAPE, %"),
}  # fmt: skip
"""Table or figure to how it is drawn."""

draw = partial(draw_tables, FIGURES)
