"""The latency beside other programs, which take part of a core's time or of the memory's.

A program on the same core gets as much of it as the network, so that beside n of them a run takes n + 1 times as long. Beyond
that each has one factor, which ``latcast measure --beside`` finds on a device, whatever network and runtime it is:
``latency * (n + 1) * factor * ...``. A device where none was measured has no factors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from latcast.errors import counted
from latcast.predictors.conditions import PROGRAMS, SAME, Contended, found_out, keep_found, parse_beside
from latcast.predictors.prediction import Prediction
from latcast.records import Platform, Unit

FILE = "contention.json"

LEAST_REACH = 0.05
"""Least distance of the bounds, in logarithms: what measurements of one network differ by from day to day."""

TAIL = 0.05
"""Part of the measured factors beyond each bound."""

MOST_KEPT = 100
"""Factors that are kept of each program, the latest."""


def shared_out(programs: Sequence[str]) -> int:
    """Return how many times as long a run takes for sharing its core."""
    return 1 + sum(each.endswith(SAME) for each in programs)


def keep_factors(platform: Platform, found: Mapping[str, float]) -> None:
    """Add what a network was slowed by, by program, to the factors of a device's unit; its share of the core is divided out."""
    known = found_out(FILE, platform) or {}
    own = {each: value / shared_out((each,)) for each, value in found.items() if each in PROGRAMS}
    keep_found(FILE, platform, known | {each: [*known.get(each, ()), value][-MOST_KEPT:] for each, value in own.items()})


def factor_of(factors: Mapping[str, Sequence[float]], programs: Sequence[str]) -> tuple[float, float, float] | None:
    """Return by how much a latency is longer beside programs, with a 90 % interval; None where one was not measured.

    Args:
        factors: What networks were slowed by, by program, as :func:`keep_factors` keeps them.
        programs: From :func:`latcast.predictors.conditions.parse_beside`.
    """
    if not all(factors.get(each) for each in programs):
        return None
    # Several programs alike take their shares of the core, and no more of the caches and the memory than one.
    logs = [np.log(factors[each]) for each in dict.fromkeys(programs)]
    middle = [float(np.median(each)) for each in logs]
    below, above = (
        math.hypot(LEAST_REACH, *(float(np.quantile(each, tail)) - at for each, at in zip(logs, middle, strict=True)))
        for tail in (TAIL, 1 - TAIL)
    )
    log = math.log(shared_out(programs)) + sum(middle)
    return math.exp(log), math.exp(log - below), math.exp(log + above)


def contended(found: Prediction, beside: str) -> Prediction:
    """Return a prediction with the latency beside other programs added; raise a LatcastError for unknown ones."""
    programs, platform = parse_beside(beside), Platform.parse(found.platform)
    beside = "+".join(programs)
    if any(each.beside == beside for each in found.contended):
        return found
    factors = found_out(FILE, platform) or {}
    factor = factor_of(factors, programs)
    if factor is None:
        mend = "; measure it: latcast measure MODEL --beside all" if platform.device == "local" else ""
        kind = Unit.parse(platform.unit).kind.upper()
        said = Contended(beside, f"no network was measured beside such programs on the {kind} of {platform}{mend}")
    else:
        count = min(len(factors[each]) for each in programs)
        basis = f"{counted(count, 'network')} measured beside such programs on this device; the same factor for every network"
        said = Contended(beside, basis, *found.slowed_ms(*factor))
    return replace(found, contended=(*found.contended, said))
