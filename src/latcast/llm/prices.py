"""The price list of language models: a phase takes the sum of its quantities, each at the platform's price.

The logarithm of a price is a sum of effects, each with a normal prior: of the quantity anywhere, on this kind of platform, on
this platform, and the platform's speed, which is expected where the chip's peak lies. Effects of kinds are learned from all
platforms together; a new platform adds only its own, so that a few measurements move its speed first and single prices later.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from latcast.llm.speeds import Machine, machine_of
from latcast.llm.workload import Term

Array = NDArray[np.float64]

Effect = tuple[str, ...]
"""A part of log prices that some of them share."""

Path = Sequence[tuple[Effect, float, float, float]]
"""Effects that add up to one log price: each with its prior's mean and standard deviation, and the factor that it counts by."""

_FREEDOM = 4.0
"""Degrees of freedom of the t distribution of residuals: a measurement that is far off counts little."""

_STEPS = 25
"""Most steps of a fit; residuals settle within a dozen."""


@dataclass(frozen=True)
class Timed:
    """A measured phase: what it reads and computes, and how long it took."""

    platform: str
    quantities: Mapping[Term, float]
    seconds: float
    weight: float = 1.0
    """Counts of repeats and of near repeats (one model at many lengths) grow by less than one each."""


@dataclass(frozen=True)
class PriceList:
    """Effects learned, and how they make a price.

    Attributes:
        path: Platform and term to the effects of this price.
        effects: Values of those that measurements moved; others are at their prior's mean.
        noise: Standard deviation of a log latency about its prediction.
    """

    path: Callable[[str, Term], Path]
    effects: Mapping[Effect, float]
    noise: float

    def measured(self, platform: str, term: Term, *, elsewhere: bool = False) -> bool:
        """Return whether the term was measured on the platform, or ``elsewhere`` on such a unit."""

        def is_of(effect: Effect) -> bool:
            return any(part[:4] in ("cpu-", "gpu-", "npu-") if elsewhere else "/" in part for part in effect)

        return next((effect in self.effects for effect, *_ in self.path(platform, term) if is_of(effect)), False)

    def seconds_by_term(self, platform: str, workloads: Sequence[Mapping[Term, float]]) -> list[dict[Term, float]]:
        """Return the seconds of each term of each workload on a platform."""
        paths = {term: self.path(platform, term) for each in workloads for term in each}
        prices = {
            term: math.exp(sum(factor * self.effects.get(effect, mean) for effect, mean, _, factor in path))
            for term, path in paths.items()
            if path
        }
        return [
            {term: count * prices[term] for term, count in each.items() if count > 0 and term in prices} for each in workloads
        ]

    def slopes_of_unknown(self, platform: str, workloads: Sequence[Mapping[Term, float]]) -> Array:
        """Return by how much each log time grows with each effect that no measurement moved, (workloads, effects).

        In standard deviations of the effect's prior: the norm of a row is the deviation that they cause together.
        """
        index: dict[Effect, int] = {}
        entries = []
        for row, parts in enumerate(self.seconds_by_term(platform, workloads)):
            total = sum(parts.values())
            for term, seconds in parts.items():
                for effect, _, deviation, factor in self.path(platform, term):
                    if effect not in self.effects:
                        entries.append((row, index.setdefault(effect, len(index)), deviation * factor * seconds / total))
        slopes = np.zeros((len(workloads), len(index)))
        for row, column, value in entries:
            slopes[row, column] += value
        return slopes


def fit(timed: Sequence[Timed], known: PriceList) -> PriceList:
    """Return the price list with the effects that it does not know yet fitted; those it knows stay.

    The maximum of the posterior, by Gauss-Newton steps on log latencies with the weights of a t distribution: priors are
    residuals like others. An empty ``known`` learns everything; one learned from other platforms adapts to a new one.

    Args:
        timed: Measured phases.
        known: Effects that stay, and how prices are made.
    """
    from scipy.linalg import solve

    cells = [
        (row, (each.platform, term), count)
        for row, each in enumerate(timed)
        for term, count in each.quantities.items()
        if count > 0 and known.path(each.platform, term)
    ]
    columns = {key: column for column, key in enumerate(dict.fromkeys(key for _, key, _ in cells))}
    base, members, priors = np.zeros(len(columns)), [], dict[Effect, tuple[float, float]]()
    for key, column in columns.items():
        for effect, mean, deviation, factor in known.path(*key):
            if effect in known.effects:
                base[column] += factor * known.effects[effect]
            else:
                priors.setdefault(effect, (mean, deviation))
                members.append((column, effect, factor))
    if not priors:
        return known
    index = {effect: place for place, effect in enumerate(priors)}
    members_of = np.zeros((len(columns), len(index)))
    for column, effect, factor in members:
        members_of[column, index[effect]] += factor
    prior, deviations = np.array(list(priors.values())).T
    precision = 1 / deviations**2
    at, cell = np.array([row for row, *_ in cells]), np.array([columns[key] for _, key, _ in cells])
    count_of = np.array([count for *_, count in cells])
    target, weights = np.log([each.seconds for each in timed]), np.array([each.weight for each in timed])
    # Rows of a platform have few of the effects: slopes are worked out for each platform alone.
    blocks = []
    of_platform = np.unique([each.platform for each in timed], return_inverse=True)[1][at]
    for number in range(of_platform.max() + 1):
        mine = np.flatnonzero(of_platform == number)
        own_rows, row_place = np.unique(at[mine], return_inverse=True)
        own_columns, column_place = np.unique(cell[mine], return_inverse=True)
        effects = np.flatnonzero(members_of[own_columns].any(axis=0))
        entry = row_place * len(own_columns) + column_place
        blocks.append((mine, own_rows, entry, effects, members_of[np.ix_(own_columns, effects)]))

    def state(values: Array) -> tuple[Array, Array, float]:
        parts = count_of * np.exp((base + members_of @ values)[cell])
        total = np.bincount(at, parts, len(timed))
        residuals = (target - np.log(total)) / known.noise
        loss = float(weights @ ((_FREEDOM + 1) * np.log1p(residuals**2 / _FREEDOM)) + precision @ (values - prior) ** 2)
        return parts / total[at], residuals, loss

    values = prior
    shares, residuals, loss = state(values)
    for _ in range(_STEPS):
        trust = weights * (_FREEDOM + 1) / (_FREEDOM + residuals**2) / known.noise
        curvature, slope = np.diag(precision), -precision * (values - prior)
        for mine, own_rows, entry, effects, own_members in blocks:
            found = np.bincount(entry, shares[mine], len(own_rows) * len(own_members)).reshape(len(own_rows), -1) @ own_members
            curvature[np.ix_(effects, effects)] += (found * (trust[own_rows] / known.noise)[:, None]).T @ found
            slope[effects] += found.T @ (trust * residuals)[own_rows]
        step = solve(curvature, slope, assume_a="pos", check_finite=False).clip(-1, 1)
        for part in (1.0, 0.4, 0.1):
            tried = state(values + part * step)
            if tried[2] < loss:
                break
        else:
            break
        settled = loss - tried[2] < 1e-4 * abs(loss)
        values, (shares, residuals, loss) = values + part * step, tried
        if settled:
            break
    return PriceList(known.path, {**known.effects, **dict(zip(index, values.tolist(), strict=True))}, known.noise)


Phase = Literal["prefill", "decode"]

_NOISE: Mapping[Phase, float] = {"prefill": 0.1, "decode": 0.06}
"""Standard deviation of a log latency about its prediction."""


@dataclass(frozen=True)
class _Expected:
    """Prior of a term: log of seconds a unit at the reference peaks, and its deviations anywhere, on a kind, on a platform."""

    mean: float
    anywhere: float
    kind: float
    own: float
    scale: str = ""
    """What it follows: ``bandwidth``, ``compute`` or, where it is empty, neither."""


_EXPECTED: Mapping[Phase, Mapping[str, _Expected]] = {
    "decode": {
        "weights": _Expected(-3.9, 0.3, 0.2, 0.1, "bandwidth"),
        "unpack": _Expected(-5.9, 0.5, 0.2, 0.12, "compute"),
        "cache": _Expected(-3.6, 0.7, 0.7, 0.35, "bandwidth"),
        "state": _Expected(-3.8, 0.7, 0.7, 0.5, "bandwidth"),
        "kernel": _Expected(-12.3, 1.0, 0.7, 0.7),
        "recurrent_layer": _Expected(-12.0, 1.0, 0.7, 0.8),
        "expert_layer": _Expected(-12.0, 1.0, 0.7, 0.5),
        "embedding_layer": _Expected(-12.0, 1.0, 0.7, 0.5),
        "passed": _Expected(-9.0, 1.0, 0.7, 1.0),
        "passed_state": _Expected(-9.0, 1.0, 0.7, 1.0),
        "constant": _Expected(-7.5, 1.2, 0.7, 0.5),
    },
    "prefill": {
        "multiply": _Expected(-1.2, 0.5, 0.35, 0.16, "compute"),
        "whole_head": _Expected(-4.1, 1.5, 0.7, 0.5, "compute"),
        "attention": _Expected(-0.8, 0.7, 0.7, 0.35, "compute"),
        "weights": _Expected(-4.1, 0.6, 0.6, 0.3, "bandwidth"),
        "elements": _Expected(-5.6, 1.2, 0.7, 0.5, "compute"),
        "scan": _Expected(0.4, 1.0, 0.7, 0.5, "compute"),
        "kernel": _Expected(-12.3, 1.2, 0.7, 0.5),
        "recurrent_layer": _Expected(-2.0, 1.5, 0.7, 0.5),
        "expert_layer": _Expected(-1.0, 1.5, 0.7, 0.5),
        "constant": _Expected(-6.0, 1.2, 0.7, 0.5),
    },
}

_OF_STACKS: Mapping[tuple[Phase, str], float] = {
    ("decode", "attention"): 4.5, ("decode", "attended"): -2.0, ("prefill", "unpack"): -3.5,
}  # fmt: skip
"""Quantities that only stacks of layers separate from others, and that cost nothing elsewhere: the products of attention, which
take a CPU longer than reading the cache, and what a cached token costs a layer whatever its heads; unpacking weights once for a
batch. Prior of the log of seconds a unit."""

BANDWIDTH_GB_S, COMPUTE_TOPS = 60.0, 4.0
"""Peaks at which prices are expected as given: about those of a phone."""

_TYPES: Mapping[str, float] = {"cpu": 0.4, "cpu-arm": 0.25, "cpu-x86": 0.25, "gpu-opencl": 0.3, "npu-hexagon": 0.3}
"""Deviation of the price of a type of weights by unit and kind: where unpacking takes longer than reading."""

UNPACKING = re.compile("cpu|gpu-(opencl|cuda|vulkan|rocm)|npu-hexagon")
"""Kinds on which a token takes time for unpacking weights beside reading them. The others wait for memory alone."""

_TYPES_ELSEWHERE: Mapping[Phase, float] = {"decode": 0.1, "prefill": 0.2}
"""The same of units that wait for memory."""

_FAMILY, _FAMILY_ON_CPU = 0.1, 0.5
"""Deviation of what types of a family have in common."""

_SPEED, _SPEED_WITHIN_CHIP, _EXPONENT = 0.3, 0.2, 0.1
"""Deviations of a chip's speed from what its peaks say, of platforms of one chip from that, and of the exponents of the peaks.

That platforms of a chip share its deviation gives a chip one vote, however many numbers of threads were measured on it.
"""

NATIVE: Mapping[str, frozenset[str]] = {
    "npu-hexagon": frozenset({"q4_0", "q8_0", "iq4_nl", "mxfp4", "f16", "f32"}),
    "gpu-opencl": frozenset({"q4_0", "q4_1", "q8_0", "q4_k", "q6_k", "mxfp4", "f16", "f32", "recurrent"}),
}
"""Types of weights that llama.cpp multiplies by on this kind of unit. It leaves matrices of others to the CPU, as it does all
kernels of a recurrent state, ``recurrent``, and passes each one's input and output between the two."""


_LAID_OUT_LATER, _LATER = frozenset({"q4_k", "q5_k", "q6_k", "q8_0"}), 5000
"""Types that Arm CPUs multiplied by as they lie in the file until about this build of llama.cpp, unlike ``q4_0``."""


def _multiplied(tensor_type: str, machine: Machine) -> str:
    """Return a type of weights, apart where the platform's release multiplies a prompt by it as it lies in the file."""
    build = re.search(r"/llama\.cpp-b(\d+)/", machine.platform) if machine.kind.startswith("cpu-arm") else None
    early = build is not None and int(build[1]) < _LATER and tensor_type in _LAID_OUT_LATER
    return f"{tensor_type} as stored" if early else tensor_type


def _family(tensor_type: str) -> str:
    """Return the family of a type of weights: types of one are unpacked alike."""
    if tensor_type in ("f16", "bf16", "f32", "q8_0", "q4_0", "q4_k", "q6_k", "iq4_nl"):
        return "whole"  # multiplied as they lie, or by rows that llama.cpp lays out beside each other when it loads them
    if tensor_type.startswith(("iq1", "iq2", "iq3")):
        return "grid"  # several weights are looked up at once in a table
    return "planes" if tensor_type.startswith(("q", "iq", "mxfp4")) else "integer"


def price_list(phase: Phase, machines: Mapping[str, Machine], effects: Mapping[Effect, float]) -> PriceList:
    """Return the price list of a phase on some platforms, with what is known of its effects."""
    return PriceList(effects_of(phase, machines), effects, _NOISE[phase])


def effects_of(phase: Phase, machines: Mapping[str, Machine]) -> Callable[[str, Term], Path]:
    """Return the function from platform and term to the effects of the price; without effects a term costs nothing."""

    @cache
    def path(platform: str, term: Term) -> Path:
        machine, name = machines[platform], term[0]
        native = NATIVE.get(machine.kind)
        left = native is not None and name in ("weights", "multiply", "unpack", "passed") and term[1] not in native
        if prior := _OF_STACKS.get((phase, name)):
            own = [((name, platform), prior, 1.5, 1.0), *(((name, platform, detail), 0.0, 1.0, 1.0) for detail in term[1:])]
            return own if machine.profiled else []
        if name == "passed":
            return _path(phase, machine, ("passed_state",) if term[1] == "recurrent" else ("passed",)) if left else []
        if not left or (phase, name) == ("prefill", "weights"):
            return _path(phase, machine, term)
        own = [(("left", machine.kind, name), 0.0, 0.3, 1.0), (("left", platform, name), 0.0, 0.2, 1.0)]
        return [*_path(phase, _cpu_beside(machine, machines), term), *own]

    return path


def _cpu_beside(machine: Machine, machines: Mapping[str, Machine]) -> Machine:
    """Return the CPU of a device, as known under the same runtime, or of four threads."""
    device, runtime, _, precision = machine.platform.split("/")
    same = [
        each for each in machines.values() if each.kind.startswith("cpu") and each.platform.split("/")[:2] == [device, runtime]
    ]
    return same[0] if same else machine_of(f"{device}/{runtime}/cpu4/{precision}", machine.chip)


def _path(phase: Phase, machine: Machine, term: Term) -> Path:
    platform, kind, name = machine.platform, machine.kind, term[0]
    unit, expected = kind.partition("-")[0], _EXPECTED[phase][name]
    # Where weights are unpacked, bytes of all types are read alike, and each type takes its own time for the unpacking.
    unpacks = UNPACKING.match(kind)
    if name == "unpack" and not unpacks:
        return []
    typed = name in ("multiply", "unpack") or ((phase, name) == ("decode", "weights") and not unpacks)
    # Processors with matrix instructions are a kind within a kind.
    kinds = [kind] if "+" not in kind else [kind.partition("+")[0], kind]
    detail = term[1] if len(term) > 1 and (typed or not unpacks) else ""
    if phase == "prefill":
        detail = _multiplied(detail, machine)
    found: list[tuple[Effect, float, float, float]] = [((name,), expected.mean, expected.anywhere, 1.0)]
    if typed:
        family, other, alike = _family(detail), _TYPES_ELSEWHERE[phase], _FAMILY_ON_CPU if unit == "cpu" else _FAMILY
        for each, wide in [(("on", unit), _TYPES.get(unit, other)), *(((one,), _TYPES.get(kinds[0], other)) for one in kinds)]:
            found += [((name, *each, detail), 0.0, wide, 1.0), ((name, *each, family), 0.0, alike, 1.0)]
        found += [((name, platform, detail), 0.0, expected.own, 1.0), ((name, platform, family), 0.0, 0.12, 1.0)]
    if name == "unpack":
        found += [((name, "on", unit), 0.0, 0.5, 1.0), *(((name, each), 0.0, 0.6, 1.0) for each in kinds)]
    if not typed:
        found.append(((name, "on", unit), 0.0, min(0.5, expected.kind), 1.0))
        found += [((name, each), 0.0, expected.kind, 1.0) for each in kinds]
        found.append(((name, platform), 0.0, expected.own, 1.0))
        if detail:
            found += [((name, "of", detail), 0.0, 0.25, 1.0), ((name, kind, "of", detail), 0.0, 0.3, 1.0)]
    if "experts" in term:
        found += [((name, "experts"), 0.3, 0.4, 1.0), ((name, kind, "experts"), 0.0, 0.3, 1.0)]
    if not expected.scale:
        return found
    narrow = -math.log((machine.bandwidth_gb_s or BANDWIDTH_GB_S) / BANDWIDTH_GB_S)
    # Where the peak is not known, units with a faster memory are expected to compute as much faster.
    # Rows of a token are mostly dealt out in equal parts, so that the slowest core decides; those of a prompt as cores get free.
    tops = (machine.token_tops if phase == "decode" else None) or machine.compute_tops
    slow = -math.log(tops / COMPUTE_TOPS) if tops else narrow
    # Matrix instructions double the peak. A token has no use for them, and a prompt unpacks weights once a token without them.
    if unit == "cpu" and ("+" in kind) == (phase == "decode"):
        slow += math.log(2.0)
    if phase == "prefill" and expected.scale == "bandwidth":
        return [*found, (("reading", platform), narrow, 0.4, 1.0)]
    known = machine.bandwidth_gb_s if phase == "decode" else machine.compute_tops
    found.append((("speed", "on", unit), 0.0, 0.4, 1.0))
    found += [(("speed", each), 0.0, 0.4 if each == kinds[0] else 0.3, 1.0) for each in kinds]
    chip = f"{machine.chip or platform.partition('/')[0]} {unit}"
    found += [(("speed", chip), 0.0, _SPEED if known else 0.8, 1.0), (("speed", platform), 0.0, _SPEED_WITHIN_CHIP, 1.0)]
    if expected.scale == "bandwidth":
        return [*found, (("bandwidth", unit), 1.0, _EXPONENT, narrow)]
    return [*found, (("compute", unit), 1.0, _EXPONENT, slow)]
