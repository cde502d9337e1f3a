"""How well speeds of language models are predicted: lineages, quantisations and chips that training did not see, beside rivals.

Rivals: bytes that a token reads over 0.55 of the peak bandwidth; llmfit's rule (the same with its own bytes where a GPU's
bandwidth is known, else a constant of the unit over the parameters); a line in bytes (of prefill, in FLOPs) through what was
measured there. A fifth of the lineages, chips and quantisations is kept back: nothing was tuned on their rows, which stand last.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command import PUBLISHED, Data
from benchmarks.judge import markdown_table
from benchmarks.result_files import keep, kept
from latcast.llm.design import telling_pairs
from latcast.llm.learned_prices import (
    LONGER,
    PHASES,
    LearnedPrices,
    chip_group,
    learn,
    model_of,
    pair_of,
    shipped_file,
    timed,
    written,
)
from latcast.llm.speeds import Machine, SpeedMeasurement, machines_of
from shipping.language_model_speeds import read_rows, read_speeds
from shipping.language_speeds import (
    HeldOut,
    learned,
    lineage_of,
    predictions,
    predictions_of_chip,
    shortest_and_longest,
)

CLASSES: Mapping[str, str] = {
    "cpu-arm": "Arm CPUs", "cpu-arm+i8mm": "Arm CPUs", "cpu-x86": "x86 CPUs", "npu-hexagon": "Hexagon",
    "gpu-opencl": "Adreno, OpenCL",
    "gpu-openvino": "Intel GPUs, OpenVINO", "gpu-metal": "Apple GPUs", "gpu-cuda": "RTX 4070 laptop", "gpu-vulkan": "Strix Halo",
    "gpu-rocm": "Strix Halo", "npu-qairt": "Qualcomm AI Hub",
}  # fmt: skip
"""Kind of platform to the row of the table."""

EFFICIENCY = 0.55

LLMFIT: Mapping[str, float] = {
    "cuda": 220,
    "metal": 160,
    "rocm": 180,
    "vulkan": 150,
    "x86": 70,
    "arm": 90,
    "hexagon": 90,
    "qairt": 90,
}
"""llmfit's constants, tokens a second of a billion parameters, where it does not know the bandwidth (``fit.rs``, MIT)."""

LLMFIT_SPEED = {"f16": 0.6, "bf16": 0.6, "q8": 0.8, "q6": 0.95, "q5": 1.0, "q4": 1.15, "q3": 1.25, "q2": 1.35}

LLMFIT_BYTES = {"f16": 2.0, "bf16": 2.0, "q8": 1.05, "q6": 0.8, "q5": 0.68, "q4": 0.58, "q3": 0.48, "q2": 0.37}

SUGGESTED, DRAWS = 6, 3
"""Pairs that are suggested for a new chip, and draws of as many that they are compared with."""

SEEN = "seen"
"""Case of predictions of what was learned from: how near the form of the prices comes to the measurements."""

FEWEST, FEWEST_SHOWN = 8, 30
"""Predictions of a row, and of a row that the documents show."""


def llm(data: Data = PUBLISHED, ship: Annotated[bool, typer.Option(help="Write the prices that latcast ships.")] = False) -> None:
    """Judge predicted speeds of language models on lineages, quantisations and chips held out."""
    measurements, left_out = read_speeds(data / "llm")
    prices, judged = learned(measurements, machines_of(measurements))
    apart = list(predictions_kept_back(measurements, prices.machines))
    suggested = list(predictions_of_suggested(measurements, prices.machines))
    seen = list(predictions(replace(prices, widths={}), measurements, measurements, SEEN, 0, SEEN))
    rows = [*rows_of([*judged, *suggested, *seen], prices), *rows_of(apart, prices), *repeats_of(read_rows(data / "llm")[0])]
    keep("llm", {"rows": rows, "left_out": dict(left_out), "measurements": len(measurements)})
    if ship:
        shipped_file().write_text(written(prices), encoding="utf-8")
    print(speeds_table())


def kept_back(measurement: SpeedMeasurement, machine: Machine) -> list[str]:
    """Return which of a measurement's lineage, chip and quantisation are kept back: a fifth of each, by a hash of its name."""
    names = {"lineage": lineage_of(measurement.model), "chip": chip_group(machine), "quantisation": measurement.quantisation}
    return [what for what, name in names.items() if int(hashlib.sha256(f"{what} {name}".encode()).hexdigest(), 16) % 5 == 0]


def predictions_kept_back(measurements: Sequence[SpeedMeasurement], machines: Mapping[str, Machine]) -> Iterator[HeldOut]:
    """Yield predictions of what is kept back, with the prices and intervals that the rest gives."""
    groups: dict[tuple[str, ...], list[SpeedMeasurement]] = defaultdict(list)
    for each in measurements:
        groups[tuple(kept_back(each, machines[each.platform]))].append(each)
    rest = groups[()]
    prices, _ = learned(rest, machines_of(rest))
    for what in ("lineage", "quantisation"):
        yield from predictions(prices, rest, groups[what,], KEPT_BACK + what, 0)
    for platform in sorted({each.platform for each in groups["chip",]}):
        mine = [each for each in groups["chip",] if each.platform == platform]
        yield from predictions_of_chip(prices, machines[platform], mine, KEPT_BACK + "chip", 0)


def predictions_of_suggested(measurements: Sequence[SpeedMeasurement], machines: Mapping[str, Machine]) -> Iterator[HeldOut]:
    """Yield predictions on chips held out after six of the pairs measured there, as suggested and as drawn."""
    for number, group in enumerate(sorted({chip_group(machine) for machine in machines.values()})):
        others = {name: machine for name, machine in machines.items() if chip_group(machine) != group}
        prices = learn([each for each in measurements if each.platform in others], others)
        for platform in sorted(set(machines) - set(others)):
            mine = [each for each in measurements if each.platform == platform]
            pairs = sorted({pair_of(each) for each in mine})
            if len(pairs) < 2 * SUGGESTED:
                continue
            suggested = telling_pairs(prices.with_machine(machines[platform]), platform, SUGGESTED, pairs)
            drawn = [random.Random(seed).sample(pairs, SUGGESTED) for seed in range(DRAWS)]
            for how, chosen in [("suggested", suggested), *(("drawn", each) for each in drawn)]:
                measured = [
                    each for pair in chosen for each in shortest_and_longest([one for one in mine if pair_of(one) == pair])
                ]
                rest = [each for each in mine if pair_of(each) not in chosen]
                known = prices.adapted(machines[platform], measured)
                yield from predictions(known, measured, rest, "chip", number, f"{SUGGESTED} pairs {how}")


def work_of(measurement: SpeedMeasurement, phase: str) -> float:
    """Return the GB that a token reads, or the TFLOP of a prompt."""
    model = model_of(*pair_of(measurement))
    if phase == "decode":
        from latcast.llm.workload import decode_quantities

        return sum(value for term, value in decode_quantities(model, 1).items() if term[0] == "weights")
    return 2 * model.active_parameters * (measurement.prompt_tokens or 0) / 1e12


def by_bandwidth(each: HeldOut, machine: Machine) -> float:
    """Return the seconds that calculators give; of prefill those of 40 % of the peak."""
    if each.phase == "decode":
        return work_of(each.measurement, each.phase) / (EFFICIENCY * (machine.bandwidth_gb_s or 60.0))
    return work_of(each.measurement, each.phase) / (0.4 * (machine.compute_tops or 4.0))


def by_llmfit(each: HeldOut, machine: Machine) -> float:
    """Return the seconds of a token by llmfit; it has no rule for prefill."""
    if each.phase != "decode":
        return float("nan")
    quantisation = re.sub(r"^(i?q\d).*", r"\1", each.measurement.quantisation).lstrip("i")
    billions = model_of(*pair_of(each.measurement)).parameters / 1e9
    if machine.kind.startswith("gpu") and machine.bandwidth_gb_s:
        return billions * LLMFIT_BYTES.get(quantisation, 0.58) / (EFFICIENCY * machine.bandwidth_gb_s)
    constant = LLMFIT.get(re.split(r"[-+]", machine.kind)[1], 90.0)
    return billions / (constant * LLMFIT_SPEED.get(quantisation, 1.0))


def by_line(each: HeldOut, machine: Machine) -> float:
    """Return the seconds by a line through what was measured there; by bandwidth where too little was."""
    return each.line or by_bandwidth(each, machine)


RIVALS: Mapping[str, Callable[[HeldOut, Machine], float]] = {"bandwidth": by_bandwidth, "llmfit": by_llmfit, "line": by_line}


def case_of(each: HeldOut) -> str:
    """Return the case of a held-out prediction: what was held out, and how much of the rest was measured there."""
    whole = "quantisation" in each.split or each.split in (LONGER, SEEN)
    return each.split if whole else f"{each.split}, {each.situation}"


def rows_of(judged: Sequence[HeldOut], prices: LearnedPrices) -> list[dict[str, Any]]:
    """Return the figures of each phase, case and class: means over chips."""

    def mean(members: Sequence[HeldOut], value: Callable[[HeldOut], float]) -> float:
        found: dict[str, list[float]] = defaultdict(list)
        for each in members:
            found[chip_group(prices.machines[each.measurement.platform])].append(value(each))
        return float(np.mean([np.mean(values) for values in found.values()]))

    groups: dict[tuple[str, str, str], list[HeldOut]] = defaultdict(list)
    for each in judged:
        groups[each.phase, case_of(each), CLASSES.get(each.kind, each.kind)].append(each)
        if each.phase == "prefill" and (first_ms := each.measurement.ttft_ms):
            first = replace(each, seconds=first_ms / 1e3)
            groups["first token", case_of(each), CLASSES.get(each.kind, each.kind)].append(first)
    rows = []
    for (phase, case, kind), members in sorted(groups.items()):
        if len(members) < FEWEST:
            continue
        with_interval = [each for each in members if each.half_width is not None]
        covered = 100 * mean(with_interval, lambda each: abs(each.error) <= (each.half_width or 0.0)) if with_interval else None
        ape = mean(members, lambda each: abs(each.predicted / each.seconds - 1))
        within = mean(members, lambda each: abs(each.predicted / each.seconds - 1) <= 0.1)
        rivals = {
            name: 100
            * mean(
                members, lambda each, rule=rule: abs(rule(each, prices.machines[each.measurement.platform]) / each.seconds - 1)
            )
            for name, rule in RIVALS.items()
        }
        rows.append(
            {
                "phase": phase, "case": case, "class": kind, "predictions": len(members), "mape": 100 * ape,
                "within_10": 100 * within, "coverage": covered,
                **{name: None if np.isnan(value) else value for name, value in rivals.items()},
            }
        )  # fmt: skip
    return rows


def repeats_of(measurements: Sequence[SpeedMeasurement]) -> list[dict[str, Any]]:
    """Return how far speeds of equal work lie from their median, in percent: no prediction can come nearer.

    Equal work is a model measured again, or another model of the same shape.
    """
    machines = machines_of(measurements)
    rows = []
    for phase in PHASES:
        having = [each for each in measurements if each.has(phase)]
        same: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        for each, known in zip(having, timed(phase, having), strict=True):
            same[each.platform, frozenset(known.quantities.items())].append(getattr(each, f"{phase}_tokens_per_s"))
        off: dict[str, list[float]] = defaultdict(list)
        for (platform, *_), speeds in same.items():
            if len(speeds) > 1:
                kind = machines[platform].kind
                off[CLASSES.get(kind, kind)] += (100 * np.abs(np.array(speeds) / np.median(speeds) - 1)).tolist()
        rows += [
            {"phase": phase, "case": "repeats", "class": kind, "predictions": len(found), "mape": float(np.mean(found)),
             "within_10": 100 * float(np.mean(np.array(found) <= 10)), "coverage": None, **dict.fromkeys(RIVALS)}
            for kind, found in sorted(off.items())
        ]  # fmt: skip
    return rows


TARGETS: Mapping[str, Mapping[str, float]] = {
    case: {"decode": decode, "prefill": prefill}
    for case, decode, prefill in (
        ("lineage, familiar", 6, 9), ("lineage, new operators", 15, 20), ("lineage, new quantisation", 15, 20),
        ("quantisation here", 8, 12), ("quantisation anywhere", 15, 20), ("quantisation", 15, 20),
        ("chip, 0 pairs", 28, 42), ("chip, 1 pairs", 15, 25), ("chip, 3 pairs", 11, 18), ("chip, 10 pairs", 7, 12),
    )
}  # fmt: skip
"""Case and phase to the MAPE aimed at."""

KEPT_BACK = "kept back: "

COVERED = (85, 95)
"""Percent of speeds, between which as many as stated lie in the intervals."""

FIRST_TOKEN_MORE = 3
"""Points by which the MAPE of first tokens may lie above that of prefill."""


def speeds_table(rows: Sequence[Mapping[str, Any]] | None = None) -> str:
    """Return a table for each phase, a line for each case and a column for each class of platforms, and one of what is kept back.

    A cell has the MAPE, with an asterisk where it misses the aim, in brackets that of the line in bytes where it is less, and the
    coverage where it lies outside of :data:`COVERED`. Of first tokens the table says how much farther off they are than prefill.
    """
    shown = {
        (row["phase"], row["case"], row["class"]): row
        for row in (kept("llm")["rows"] if rows is None else rows)
        if row["predictions"] >= FEWEST_SHOWN or row["case"].startswith((KEPT_BACK, "repeats"))
    }
    phases, tables = ("decode", "prefill"), []
    for phase in phases:
        mine = [key for key in shown if key[0] == phase and not key[1].startswith(KEPT_BACK)]
        classes, cases = (sorted({key[place] for key in mine}, key=_order) for place in (2, 1))
        lines = [
            [
                case,
                f"{TARGETS[case][phase]:g}" if case in TARGETS else "",
                *(_cell(shown, (phase, case, each)) for each in classes),
            ]
            for case in cases
        ]
        tables += [markdown_table([f"{phase}, held out", "aim", *classes], lines)] if mine else []
    apart = sorted(
        {(each, case) for _, case, each in shown if case.startswith(KEPT_BACK)}, key=lambda key: (key[0], _order(key[1]))
    )
    lines = [
        [f"{each}: {case.removeprefix(KEPT_BACK)}", *(_cell(shown, (phase, case, each)) for phase in phases)]
        for each, case in apart
    ]
    tables += [markdown_table(["kept back", *phases], lines)] if lines else []
    more = [
        row["mape"] - shown["prefill", case, each]["mape"] for (phase, case, each), row in shown.items() if phase == "first token"
    ]
    if more:
        tables.append(
            f"First tokens, which OpenVINO's tables alone have, are off by at most {max(0.0, *more):.0f} points more than "
            f"prefill; the aim is {FIRST_TOKEN_MORE}."
        )
    return "\n\n".join(tables)


def _order(name: str) -> tuple[int, str]:
    """Return a key by which cases stand as their targets do, before others."""
    case = name.removeprefix(KEPT_BACK)
    return (list(TARGETS).index(case) if case in TARGETS else len(TARGETS)), name


def _cell(shown: Mapping[tuple[str, str, str], Mapping[str, Any]], key: tuple[str, str, str]) -> str:
    phase, case, _ = key
    if key not in shown:
        return ""
    row, aim = shown[key], TARGETS.get(case.removeprefix(KEPT_BACK), {}).get(phase, np.inf)
    nearer = f" ({row['line']:.0f})" if row["line"] is not None and row["line"] < row["mape"] else ""
    covered, (low, high) = row["coverage"], COVERED
    outside = f" {covered:.0f}%" if covered is not None and not low <= round(covered) <= high else ""
    return f"{row['mape']:.0f}{'*' if row['mape'] > aim else ''}{nearer}{outside}"
