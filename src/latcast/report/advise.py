"""Ranks a device's platforms for a network: precision, unit, threads and runtime, and how sure the order is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from latcast.chips.chip_names import COPY, devices_named
from latcast.errors import LatcastError, counted
from latcast.forecast import predict
from latcast.networks import Model, ModelKeywords, ModelOptions, read_model
from latcast.platforms import all_platforms_of
from latcast.predictors.intervals import LEVEL, LEVEL_DEVIATIONS
from latcast.predictors.joint_platforms import JointPlatforms, Traits
from latcast.predictors.prediction import Grade, Prediction
from latcast.records import Platform
from latcast.tables import Rows, Tabular, milliseconds, plain_fields

if TYPE_CHECKING:
    from typing_extensions import Unpack

SURE_PERCENT = 95.0
"""Probability from which on a decision is called sure."""

QUESTIONS: Mapping[str, str] = {"precision": "precision", "unit": "threads", "runtime": "runtime", "version": "version"}
"""Trait of platforms of one device and kind of unit to what it decides."""

MOST_DIFFERENT = {"precision": len(Traits._fields), "unit": 1, "runtime": 2, "version": 1}
"""Traits in which two platforms may differ where one of these is decided: another runtime has another version, and another
precision may be had under another runtime alone."""

MOST_REASONS = 3
"""Kernel types that a reason names."""

LEAST_SHARE = 0.05
"""Part of the slower latency that the difference of a kernel type must be to be a reason."""

MOST_ON_CPU = 0.1
"""Part of a network's operators that may fall back to the CPU for its latency to count as one of that unit."""


@dataclass(frozen=True)
class RankedPlatform:
    """One platform of the device.

    Attributes:
        platform: Platform id.
        latency_ms, low_ms, high_ms, level: As predicted.
        fastest_probability: That it is the fastest of all that a latency is known of, from 0 to 1; None where an interval was
            never calibrated, and where more than :data:`MOST_ON_CPU` of the operators fall back to the CPU: the latency is that
            of the whole network on the platform's unit.
        slower_probability: That it is slower than the first platform; None for the first itself, and as above.
        times_first: Its latency over the first platform's.
        grade, warnings: As predicted.
        delegate: What its delegate leaves to the CPU, as in the JSON of predictions; None where that is not known.
    """

    platform: str
    latency_ms: float
    low_ms: float
    high_ms: float
    level: float | None
    fastest_probability: float | None
    slower_probability: float | None
    times_first: float
    grade: Grade
    warnings: tuple[str, ...]
    delegate: Mapping[str, Any] | None


@dataclass(frozen=True)
class KernelGain:
    """Latency of the kernels of one type on two platforms: ``first_ms`` on the fastest, ``other_ms`` on the other."""

    kernel_type: str
    first_ms: float
    other_ms: float


@dataclass(frozen=True)
class Decision:
    """A platform against one that differs in what is decided.

    Attributes:
        question: "device", "unit", "precision", "threads", "runtime" or "version".
        first, other: What is chosen between: "int8", "fp32".
        first_platform, other_platform: Platform ids; the first stands first of all, or of its kind of unit.
        ratio: Latency of the other over that of the first.
        low, high: Interval of the ratio, in which ``level`` percent should lie.
        level: None where an interval was never calibrated, or too much falls back to the CPU.
        probability: That the first is the faster, from 0 to 1; None as above.
        sure: Whether that is the level of sureness that was asked for; otherwise it is not known which is faster.
        kernels: What decides it, the largest difference first.
        reasons: The same in words, and what falls back to the CPU.
    """

    question: str
    first: str
    other: str
    first_platform: str
    other_platform: str
    ratio: float
    low: float
    high: float
    level: float | None
    probability: float | None
    sure: bool
    kernels: tuple[KernelGain, ...]
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        if self.probability is None:
            return f"{self.first} or {self.other}: unknown, no probability"
        known = "over 99 %" if self.probability > 0.99 else f"{100 * self.probability:.0f} %"
        interval = f"{self.low:.2f} to {self.high:.2f}"
        if not self.sure:
            return (
                f"{self.first} or {self.other}: unknown ({known}); {self.other} takes {self.ratio:.2f} times as long ({interval})"
            )
        return f"{self.first}, not {self.other}: sure ({known}); {self.other} takes {self.ratio:.2f} times as long ({interval})"


@dataclass(frozen=True, repr=False)
class Advice(Tabular):
    """A network on the platforms of a device.

    Attributes:
        model: What the user called it.
        on: What the user called the device.
        sure_percent: From which probability on a decision is sure.
        choices: Platforms, the fastest on average first; last those of which too much falls back to the CPU.
        decisions: One for each device, unit, precision, runtime... that the fastest platform does not have and another does.
    """

    model: str
    on: tuple[str, ...]
    sure_percent: float
    choices: tuple[RankedPlatform, ...]
    decisions: tuple[Decision, ...]

    def _rows(self) -> Rows:
        return [plain_fields(each) for each in self.choices]

    def __repr__(self) -> str:
        first = self.choices[0]
        found = first.fastest_probability
        text = f"<Advice {self.model}: {first.platform} of {len(self.choices)}, {milliseconds(first.latency_ms)} ms"
        return f"{text}, fastest with probability {found:.2f}>" if found is not None else f"{text}>"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that scripts rely on; probabilities are from 0 to 1."""
        return {
            "model": self.model, "on": list(self.on), "sure_percent": self.sure_percent,
            "platforms": [asdict(each) for each in self.choices], "decisions": [asdict(each) for each in self.decisions],
        }  # fmt: skip


def advise(
    model: Model,
    on: str | Sequence[str],
    *,
    sure_percent: float = SURE_PERCENT,
    **options: Unpack[ModelKeywords],
) -> Advice:
    """Rank the platforms of a device by a network's latency, and say how sure the ranking is.

    Errors of the forecasts on platforms of one device are correlated (:mod:`latcast.predictors.joint_platforms`), so that their
    ratio is known better than either latency.

    Args:
        model: As :func:`latcast.predict` takes it.
        on: The device: the first part of platform ids ("pixel4"), or what it is called ("Pixel 4"); a pattern of platform ids
            ("pixel4/tflite-*"); or a list of these.
        sure_percent: Probability from which on a decision is sure.
        shapes, strict, trust, example_inputs, values: As for :func:`latcast.predict`.

    Raises:
        ModelError: The model cannot be read, or cannot take inputs of these shapes.
        UnknownPlatformError: Nothing of that name can be predicted for.

    Example:
        >>> import latcast
        >>> found = latcast.advise("mobilenet_v2", on="pixel4/tflite-2.10/1*")
        >>> [(each.question, each.first, each.other, each.sure) for each in found.decisions][0]
        ('precision', 'int8', 'fp32', True)
    """
    names = (on,) if isinstance(on, str) else tuple(on)
    platforms = {name: each for text in names for name, each in all_platforms_of(text).items()}
    graph = read_model(model, ModelOptions(**options))
    return advice_of(names, predict(graph, list(platforms.values())), sure_percent)


def advice_of(on: Sequence[str], predictions: Sequence[Prediction], sure_percent: float = SURE_PERCENT) -> Advice:
    """Advice from predictions of one network, with their kernels.

    Raises:
        LatcastError: There is no prediction, or the probability is outside 0 to 1.
    """
    if not predictions:
        raise LatcastError("found no prediction, expected at least one to choose from")
    if not 50 < sure_percent < 100:
        raise LatcastError(f"found {sure_percent:g} % as the probability of a sure decision, expected one from 50 to 100")
    ranked = tuple(sorted(predictions, key=lambda each: (_falls_back(each), _mean_ms(each))))
    judged = [each for each in ranked if not _falls_back(each)]
    joint = JointPlatforms(ranked)
    fastest: list[float] = []
    if all(each.level is not None for each in judged):
        fastest = JointPlatforms(tuple(judged)).fastest_probability().tolist()
    first_ms = ranked[0].latency_ms
    choices = [
        RankedPlatform(
            each.platform, each.latency_ms, each.low_ms, each.high_ms, each.level,
            fastest[place] if place < len(fastest) else None,
            joint.slower_probability(0, place) if place and _comparable(ranked[0], each) else None,
            each.latency_ms / first_ms if first_ms > 0 else 1.0, each.grade, each.warnings,
            None if each.fallback is None else each.fallback.to_json(),
        )
        for place, each in enumerate(ranked)
    ]  # fmt: skip
    # Names of one device are one device to who chooses: "pi.2" is another "pi", and "pixel_4" the "pixel4".
    name_of: dict[object, str] = {}
    traits = []
    for one in ranked:
        each = Traits.of(Platform.parse(one.platform))
        name = COPY.sub("", each.device)
        traits.append(each._replace(device=name_of.setdefault(devices_named(name) or name, name)))
    found = _Ranked(ranked, traits, joint, sure_percent)
    return Advice(ranked[0].model, tuple(on), sure_percent, tuple(choices), tuple(_decisions(found)))


def _mean_ms(found: Prediction) -> float:
    """Return the mean of what the latency may be, its logarithm being normal: farther above the median, the less it is known."""
    deviation = math.log(found.high_ms / found.low_ms) / (2 * LEVEL_DEVIATIONS) if 0 < found.low_ms < found.high_ms else 0.0
    return found.latency_ms * math.exp(deviation**2 / 2)


def _falls_back(found: Prediction) -> bool:
    part = found.fallback
    return part is not None and part.operators_on_cpu > MOST_ON_CPU * part.operators


def _comparable(a: Prediction, b: Prediction) -> bool:
    return not any(each.level is None or _falls_back(each) for each in (a, b))


class _Ranked(NamedTuple):
    predictions: Sequence[Prediction]
    traits: Sequence[Traits]
    joint: JointPlatforms
    sure_percent: float


def _decisions(found: _Ranked) -> Iterator[Decision]:
    """Compare the fastest platform with the fastest of each other device and kind of unit of its device; then the fastest of each
    unit with those of another precision, other threads, another runtime."""
    traits = found.traits
    mine = traits[0]
    devices = _firsts([each.device for each in traits])
    for place in devices[1:]:
        yield _decision(found, "device", "device", 0, place)
    units = _firsts([each.kind if each.device == mine.device else "" for each in traits])
    units = [place for place in units if traits[place].device == mine.device]
    for place in units[1:]:
        yield _decision(found, "unit", "kind", 0, place)
    for leader in units:
        for trait, question in QUESTIONS.items():
            for place in _alternatives(traits, leader, trait):
                yield _decision(found, question, trait, leader, place)


def _firsts(values: Sequence[str]) -> list[int]:
    """Places at which each value stands first."""
    return sorted({value: place for place, value in reversed(list(enumerate(values)))}.values())


def _alternatives(traits: Sequence[Traits], leader: int, trait: str) -> list[int]:
    """Return, for each other value of a trait, the platform most like the leader; of several the fastest.

    Of threads and core sets it is the best alternative alone: a device has a dozen. Platforms that differ in more than what is
    decided are left out (:data:`MOST_DIFFERENT`).
    """
    mine = traits[leader]
    best: dict[str, tuple[int, int]] = {}
    for place, other in enumerate(traits):
        alike = (other.device, other.kind) == (mine.device, mine.kind) and (trait != "version" or other.runtime == mine.runtime)
        value = getattr(other, trait)
        if alike and value != getattr(mine, trait):
            key = "" if trait == "unit" else value
            rank = (sum(a != b for a, b in zip(mine, other, strict=True)), place)
            if rank[0] <= MOST_DIFFERENT[trait]:
                best[key] = min(best.get(key, rank), rank)
    return sorted(place for _, place in best.values())


def _decision(found: _Ranked, question: str, trait: str, first: int, other: int) -> Decision:
    a, b = found.predictions[first], found.predictions[other]
    low, high = found.joint.ratio(first, other)
    comparable = _comparable(a, b)
    probability = found.joint.slower_probability(first, other) if comparable else None
    # Variants that a runtime selects count with their type.
    sums: dict[str, list[float]] = {}
    for place, one in enumerate((a, b)):
        for name, latency_ms in (*one.by_type().items(), ("overhead", one.overhead_ms)):
            sums.setdefault(name.partition(".")[0], [0.0, 0.0])[place] += latency_ms
    gains = tuple(
        sorted((KernelGain(name, *pair) for name, pair in sums.items()), key=lambda each: -abs(each.other_ms - each.first_ms))
    )
    return Decision(
        question, getattr(found.traits[first], trait), getattr(found.traits[other], trait), a.platform, b.platform,
        b.latency_ms / a.latency_ms if a.latency_ms > 0 else 1.0, low, high, 100 * LEVEL if comparable else None, probability,
        probability is not None and 100 * probability >= found.sure_percent, gains, tuple(_reasons(gains, a, b)),
    )  # fmt: skip


def _reasons(gains: Sequence[KernelGain], a: Prediction, b: Prediction) -> Iterator[str]:
    least_ms = LEAST_SHARE * max(a.latency_ms, b.latency_ms)
    for slower, said in ((False, "gained"), (True, "lost")):
        named = [each for each in gains if (each.first_ms > each.other_ms) == slower]
        named = [each for each in named if abs(each.other_ms - each.first_ms) >= least_ms][:MOST_REASONS]
        if named:
            listed = (
                f"{each.kernel_type} {milliseconds(each.first_ms)} ms in place of {milliseconds(each.other_ms)}" for each in named
            )
            yield f"{said}: {', '.join(listed)}"
    for found in (a, b):
        if found.level is None:
            yield f"the interval of {found.platform} is not calibrated"
        elif found.grade.rough:
            yield f"the prediction on {found.platform} is {found.grade.in_words()}"
        part = found.fallback
        if part is not None and part.operators_on_cpu:
            yield (
                f"on {found.platform} {part.operators_on_cpu} of {part.operators} operators fall back to the CPU "
                f"({', '.join(part.on_cpu[:MOST_REASONS])}), {counted(part.partitions, 'partition')}"
                + (f"; its latency is of all of them on the {part.unit}" if _falls_back(found) else "")
            )
