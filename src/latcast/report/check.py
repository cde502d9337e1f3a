"""Checks models against limits: of latency and memory by tiers of devices, or of growth against a base; for CI."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from xml.etree import ElementTree

from latcast.errors import LatcastError
from latcast.forecast import NetworkThere, placed
from latcast.graph.ir import Graph
from latcast.kernels.memory import memory_of
from latcast.networks import Model, ModelKeywords, ModelOptions, read_model
from latcast.platforms import Found, NamedPlatforms, Note, On, is_one, load
from latcast.predictors.conditions import STEADY, Bounded, Conditions, bounded_text
from latcast.predictors.intervals import LEVEL
from latcast.predictors.joint import probability_above
from latcast.predictors.joint_platforms import PlacedNetwork, joint_latency
from latcast.predictors.prediction import Grade, Prediction
from latcast.reading import read_toml
from latcast.records import Reference
from latcast.tables import Rows, Tabular, milliseconds, plain_fields, signed
from latcast.version import VERSION

if TYPE_CHECKING:
    from typing_extensions import Unpack

MOST_LIKELY = 50.0
"""Percent: above it a limit is more likely exceeded than kept."""

LIKELY_GROWN = 65.0
"""Percent, for growth: found are growths of twice the limit, not those that keep to it."""

LATENCY, GROWTH, MEMORY = "latency", "growth", "memory"

MEGABYTE = 1e6


@dataclass(frozen=True)
class Tier:
    """Limits on some devices.

    Attributes:
        name: For people.
        platforms: As :func:`latcast.predict` takes them, or patterns of ids.
        models: Patterns of the models that it holds for.
        max_ms: Limit of the latency.
        max_memory_mb: Limit of weights and activations together, of 1,000,000 bytes.
    """

    name: str
    platforms: tuple[On, ...]
    models: tuple[str, ...] = ("*",)
    max_ms: float | None = None
    max_memory_mb: float | None = None

    def holds_for(self, model: str) -> bool:
        return any(fnmatchcase(model, pattern) or fnmatchcase(Path(model).name, pattern) for pattern in self.models)


@dataclass(frozen=True)
class Check:
    """One limit of one model on one platform.

    Attributes:
        model, platform: What was checked.
        tier: Of the budget; "" without a budget file.
        kind: What is limited: "latency" (milliseconds), "growth" (percent of the base) or "memory" (megabytes).
        limit, value: Of the kind; the value is predicted, None where only its interval is.
        probability: That the limit is exceeded, from 0 to 1; memory is taken for certain. Where only the interval is known, that
            beyond its bound.
        latency_ms, low_ms, high_ms: The prediction with its interval, or that alone.
        level: Percent of latencies that should lie in the interval; None without calibration.
        passed: Whether the check is passed.
        grade: The error to expect of the steady latency.
        base, base_ms: What growth is measured against.
        growth_low_percent, growth_high_percent: Interval of the growth.
        condition: Of the latency, such as "after 30 min" or "until the first answer"; empty where it is the steady one.
        warnings: Of the prediction.
    """

    model: str
    platform: str
    tier: str
    kind: str
    limit: float
    value: float | None
    probability: float
    latency_ms: float | None
    low_ms: float
    high_ms: float
    level: float | None
    passed: bool
    grade: Grade
    base: str | None = None
    base_ms: float | None = None
    growth_low_percent: float | None = None
    growth_high_percent: float | None = None
    condition: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return what is checked where, in a few words."""
        return " ".join(filter(None, [self.kind, self.condition, "on", self.platform]))

    def sentence(self) -> str:
        """Say in words what was found."""
        verdict = "within" if self.passed else "over"
        grade = f"{'steady latency ' if self.condition else ''}{self.grade.in_words()}"
        likely = f"{100 * self.probability:.0f} % likely to be over it; {grade}"
        if self.kind == MEMORY:
            return f"{self.value:.1f} MB of weights and activations, {verdict} the limit of {self.limit:g} MB"
        interval = f"{milliseconds(self.low_ms)} to {milliseconds(self.high_ms)}"
        if self.value is None or self.latency_ms is None:
            return f"{self.condition} {interval} ms, {verdict} the limit of {self.limit:.4g} ms; {grade}"
        if self.kind == GROWTH:
            assert self.growth_low_percent is not None
            assert self.growth_high_percent is not None
            assert self.base_ms is not None
            interval = f"{signed(self.growth_low_percent)} to {signed(self.growth_high_percent)} %"
            return (
                f"{signed(self.value)} % ({interval}) against {self.base}, {milliseconds(self.base_ms)} to "
                f"{milliseconds(self.latency_ms)} ms, {verdict} the limit of {self.limit:+g} %, {likely}"
            )
        found = f"{self.condition} {milliseconds(self.latency_ms)} ms ({interval})".lstrip()
        return f"{found}, {verdict} the limit of {self.limit:.4g} ms, {likely}"


@dataclass(frozen=True)
class Refusal:
    """A check that could not be made.

    Attributes:
        model: What could not be checked.
        reason: Why: it cannot be read, no limit is for it, or its latency under a condition is not known on a platform.
        title: What was to be checked, in a few words; empty of all its checks.
    """

    model: str
    reason: str
    title: str = ""


@dataclass(frozen=True, repr=False)
class CheckReport(Tabular):
    """The results of all checks.

    Attributes:
        checks: One a limit, model and platform.
        refused: What could not be checked.
        bundles: Platform to the SHA-256 of its bundle; None for a predictor in memory.
        fail_above: Percent; a check fails where its limit is exceeded with a larger probability.
        version: latcast's.

    Example:
        >>> import latcast
        >>> found = latcast.check("resnet18", against="resnet34", on="pixel4/tflite-2.10/gpu/fp16")
        >>> found.passed, found.fail_above, found.checks[0].model
        (True, 65.0, 'resnet18')
    """

    checks: tuple[Check, ...]
    bundles: Mapping[str, str | None]
    fail_above: float
    version: str
    refused: tuple[Refusal, ...] = ()

    def _rows(self) -> Rows:
        return [plain_fields(each) for each in self.checks]

    def _notes(self) -> Sequence[str]:
        return [f"{each.model}: {each.reason}" for each in self.refused]

    @property
    def passed(self) -> bool:
        """Return whether all checks passed and none was refused."""
        return not self.refused and all(each.passed for each in self.checks)

    def __repr__(self) -> str:
        found = "; ".join(f"{each.model} on {each.platform}: {each.sentence()}" for each in self.checks)
        return f"<CheckReport {'passed' if self.passed else 'failed'}: {found or 'nothing could be checked'}>"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that scripts rely on; probabilities are from 0 to 1."""
        return {
            "latcast": self.version,
            "passed": self.passed,
            "fail_above": self.fail_above,
            "bundles": dict(self.bundles),
            "checks": [asdict(each) for each in self.checks],
            "refused": [{"model": each.model, "reason": each.reason} for each in self.refused],
        }

    def to_markdown(self) -> str:
        """Return a Markdown table, for a comment or a summary."""
        failed = sum(not each.passed for each in self.checks)
        title = f"{failed} of {len(self.checks)} checks failed" if failed else f"{len(self.checks)} checks passed"
        if self.refused:
            title += f", {len(self.refused)} could not be made"
        title = f"latcast: {title}" if self.passed else f"**latcast: {title}**"
        rows = [
            ("pass" if each.passed else "**fail**", each.model, each.platform, each.tier, each.sentence()) for each in self.checks
        ]
        rows += [("**error**", each.model, "", "", each.reason) for each in self.refused]
        lines = [title, "", "| | model | platform | tier | found |", "|---|---|---|---|---|"]
        lines += ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |" for cells in rows]
        return "\n".join(lines)

    def to_junit(self) -> str:
        """JUnit XML, a test case a check, made or refused."""
        failed = sum(not each.passed for each in self.checks)
        counts = {"tests": len(self.checks) + len(self.refused), "failures": failed, "errors": len(self.refused)}
        suite = ElementTree.Element("testsuite", {"name": "latcast", **{name: str(count) for name, count in counts.items()}})
        for each in self.checks:
            name = f"{each.title} ({each.tier})" if each.tier else each.title
            case = ElementTree.SubElement(suite, "testcase", classname=_xml(each.model), name=_xml(name))
            if each.passed:
                ElementTree.SubElement(case, "system-out").text = _xml(each.sentence())
            else:
                ElementTree.SubElement(case, "failure", message=_xml(each.sentence()), type=each.kind)
        for refusal in self.refused:
            name = _xml(refusal.title or "could be checked")
            case = ElementTree.SubElement(suite, "testcase", classname=_xml(refusal.model), name=name)
            ElementTree.SubElement(case, "error", message=_xml(refusal.reason), type="refused")
        ElementTree.indent(suite)
        return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode")

    def to_github(self) -> str:
        """Commands that GitHub Actions shows as annotations of the model's file: errors, and a notice for what passed."""
        found = [("notice" if each.passed else "error", each.model, each.title, each.sentence()) for each in self.checks]
        found += [("error", each.model, f"could not check {each.title}".rstrip(), each.reason) for each in self.refused]
        return "\n".join(
            f"::{kind} file={_escaped(model, ':,')},title={_escaped(f'latcast {title}', ':,')}::{_escaped(text)}"
            for kind, model, title, text in found
        )


def _xml(text: str) -> str:
    """Return a text without the characters that XML cannot hold."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


def _escaped(text: str, further: str = "") -> str:
    """Escape a text as GitHub's workflow commands require."""
    for sign in "%\r\n" + further:
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def read_budget(path: str | os.PathLike[str]) -> tuple[Tier, ...]:
    """Read the tiers of a budget file: TOML with a table ``[tiers.NAME]`` for each.

    Raises:
        LatcastError: The file cannot be read, or holds something else.
    """
    document = read_toml(Path(path), error=LatcastError)
    tables = document.get("tiers")
    if not isinstance(tables, dict) or not tables or set(document) != {"tiers"}:
        raise LatcastError(f"{path}: found {', '.join(document) or 'nothing'}, expected tables [tiers.NAME] and nothing else")
    return tuple(_tier(f"{path}: [tiers.{name}]", name, table) for name, table in tables.items())


def _tier(where: str, name: str, table: object) -> Tier:
    known = {"platforms", "models", "max_ms", "max_memory_mb"}
    if not isinstance(table, dict) or not set(table) <= known:
        found = ", ".join(sorted(set(table) - known)) if isinstance(table, dict) else repr(table)
        raise LatcastError(f"{where}: found {found}, expected {', '.join(sorted(known))}")
    limits: dict[str, Any] = positive(f"{where}: ", max_ms=table.get("max_ms"), max_memory_mb=table.get("max_memory_mb"))
    if not limits:
        raise LatcastError(f"{where}: found no limit, expected max_ms or max_memory_mb")
    if "platforms" not in table:
        raise LatcastError(f"{where}: found no platforms, expected a list of them")
    texts: dict[str, Any] = {key: _texts(f"{where}: {key}", table[key]) for key in ("platforms", "models") if key in table}
    return Tier(name, **texts, **limits)


def positive(where: str = "", **given: object) -> dict[str, float]:
    """Return the limits that are given, by name; ``where`` begins the message.

    Raises:
        LatcastError: One is not a positive number.
    """
    limits = {}
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
            raise LatcastError(f"{where}found {name} = {value!r}, expected a positive number")
        limits[name] = float(value)
    return limits


def _texts(where: str, value: object) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not listed or not all(isinstance(each, str) and each for each in listed):
        raise LatcastError(f"{where}: found {value!r}, expected a text or a list of texts")
    return tuple(listed)


def check(
    models: Model | Sequence[Model],
    budget: str | os.PathLike[str] | Sequence[Tier] | None = None,
    *,
    against: Model | None = None,
    on: On | Sequence[On] = (),
    max_ms: float | None = None,
    min_fps: float | None = None,
    max_memory_mb: float | None = None,
    max_growth: float = 5.0,
    fail_above: float | None = None,
    conditions: Conditions = STEADY,
    note: Note | None = None,
    **options: Unpack[ModelKeywords],
) -> CheckReport:
    """Check models against limits, a budget, or a base that they may not outgrow.

    A check fails where the limit is exceeded with a probability above ``fail_above``. At 50, the default for limits, that is
    where the predicted latency is above the limit. At 95 only what is surely above fails; at 5 only what is surely below passes.
    Growth has the distribution of two networks on one platform (:mod:`latcast.predictors.joint`).

    Args:
        models: As :func:`latcast.predict` takes them, one or a list.
        budget: A file as :func:`read_budget` reads it, or its tiers.
        against: The base.
        on: Platforms, for limits and a base.
        max_ms, min_fps: Milliseconds that an inference may take; inferences a second, of one after the other, that it must reach.
        max_memory_mb: Megabytes of 1,000,000 bytes that weights and activations may take.
        max_growth: Percent of the base's latency.
        fail_above: Percent; 50 for limits and 65 for growth where None.
        conditions: Under which limits of latency hold, each by itself: until the first answer (loading and the first inference),
            after minutes of running, beside other programs.
        note: Told, in a sentence, which platforms were taken for a name that is not an id.
        shapes, strict, trust, example_inputs, values: As for :func:`latcast.predict`.

    Raises:
        LatcastError: Not one of limits, a budget and a base; no platform; or no tier holds for the only model.
        ModelError: The only model, or the base, cannot be read. Of several models those that fail are in ``refused``.
        UnknownPlatformError: See :func:`latcast.load`.

    Example:
        >>> import latcast
        >>> found = latcast.check("resnet34", against="resnet18", on="pixel4/tflite-2.10/gpu/fp16")
        >>> found.passed, round(found.checks[0].value)
        (False, 105)
    """
    limits: dict[str, Any] = positive(max_ms=max_ms, min_fps=min_fps, max_memory_mb=max_memory_mb)
    limits.pop("min_fps", None)
    if min_fps is not None:
        limits["max_ms"] = min(1e3 / min_fps, limits.get("max_ms", inf))
    if bool(limits) + (budget is not None) + (against is not None) != 1:
        raise LatcastError("expected limits, a budget or a base to check against, and one of these alone")
    if conditions != STEADY and (against is not None or (limits and "max_ms" not in limits)):
        raise LatcastError("found conditions without a limit of latency; expected max_ms, min_fps or a budget")
    if conditions.start and min_fps is not None:
        raise LatcastError("found a limit of inferences a second for the time until the first answer; expected max_ms")
    names = (on,) if is_one(on) else tuple(cast("Sequence[On]", on))
    if limits:
        if not names:
            raise LatcastError("limits need platforms that they hold on")
        budget = [Tier("", names, **limits)]
    if fail_above is None:
        fail_above = MOST_LIKELY if against is None else LIKELY_GROWN
    if not 0 <= fail_above <= 100:
        raise LatcastError(f"found fail_above = {fail_above:g}, expected a percentage from 0 to 100")
    listed = [models] if isinstance(models, str | os.PathLike) or not isinstance(models, Sequence) else list(models)
    tiers = read_budget(budget) if isinstance(budget, str | os.PathLike) else tuple(budget or ())
    if not listed:
        raise LatcastError("found no model to check; expected at least one")
    reading = ModelOptions(**options)
    graphs: list[Graph] = []
    refused: list[Refusal] = []
    for model in listed:
        try:
            graph = read_model(model, reading)
            if against is None and not any(tier.holds_for(graph.name) for tier in tiers):
                known = "; ".join(f"{tier.name}: {', '.join(tier.models)}" for tier in tiers) or "no tier"
                raise LatcastError(f"no tier of the budget holds for {graph.name}; found {known}")
        except LatcastError as problem:
            if len(listed) == 1:
                raise
            refused.append(Refusal(model.name if isinstance(model, Graph | Reference) else str(model), str(problem)))
        else:
            graphs.append(graph)
    if against is not None:
        base = read_model(against, reading)
        if not names:
            raise LatcastError("a base needs platforms to be compared on")
        where = placed(NamedPlatforms(names, note), [base, *graphs])
        predicted = [[PlacedNetwork.predicted(each.graph, each.predictor) for each in there] for there in where]
        checks = [
            _growth(networks[place], networks[0], max_growth, fail_above)
            for place in range(1, 1 + len(graphs))
            for networks in predicted
        ]
        return _report(checks, (each.found for each in chain(*where)), fail_above, refused)
    checks, platforms = list[Check](), list[Found]()
    for tier in tiers:
        held = [graph for graph in graphs if tier.holds_for(graph.name)]
        try:
            where = placed(NamedPlatforms(tier.platforms, note), held) if held else []
        except LatcastError as problem:
            if not tier.name:
                raise
            raise type(problem)(f"tier {tier.name}: {problem}") from problem
        for each in where:
            platforms += [one.found for one in each]
            for one in each:
                checks += _of_tier(one, tier, fail_above, conditions, refused)
    return _report(checks, platforms, fail_above, refused)


def _of_tier(
    there: NetworkThere, tier: Tier, fail_above: float, conditions: Conditions, refused: list[Refusal]
) -> Iterable[Check]:
    """Check a network on one platform; add to ``refused`` which latencies under conditions are not known."""
    [found] = there.predictor.predict_many([there.graph], conditions=conditions)
    if tier.max_ms is not None:
        steady: dict[str, Bounded] = {"": (found.latency_ms, found.low_ms, found.high_ms)}
        bases = found.condition_bases() or [""]
        for (condition, bounded), basis in zip((found.under_conditions() or steady).items(), bases, strict=True):
            latency_ms, low_ms, high_ms = bounded
            title = " ".join(filter(None, [LATENCY, condition, "on", found.platform]))
            if low_ms is None or high_ms is None or (latency_ms is None and low_ms < tier.max_ms < high_ms):
                known = "not known" if low_ms is None else f"known by its bounds alone, {bounded_text(bounded)} ms"
                why = f"the {title} is {known} ({basis}); check the steady latency"
                refused.append(Refusal(found.model, why, title))
                continue
            if latency_ms is None:
                beyond = (1 - LEVEL) / 2
                over = beyond if high_ms <= tier.max_ms else 1 - beyond
            else:
                over = probability_above(replace(found, latency_ms=latency_ms, low_ms=low_ms, high_ms=high_ms), tier.max_ms)
            checked = _check(
                found, tier.name, LATENCY, tier.max_ms, 0.0, over, passed=100 * over <= fail_above, condition=condition
            )
            yield replace(checked, value=latency_ms, latency_ms=latency_ms, low_ms=low_ms, high_ms=high_ms)
    if tier.max_memory_mb is not None:
        rules, precision = there.predictor.rules, there.predictor.platform.precision
        memory_mb = memory_of(there.graph, rules, precision).total_bytes / MEGABYTE
        over = float(memory_mb > tier.max_memory_mb)
        yield _check(found, tier.name, MEMORY, tier.max_memory_mb, memory_mb, over, passed=not over)


def _growth(network: PlacedNetwork, base: PlacedNetwork, max_growth: float, fail_above: float) -> Check:
    of_base, found, joint = base.prediction, network.prediction, joint_latency(base, network)
    over = joint.probability_of_growth(max_growth)
    growth = 100 * (found.latency_ms / of_base.latency_ms - 1) if of_base.latency_ms > 0 else 0.0
    low, high = joint.growth_percent()
    failed = 100 * over > fail_above if fail_above != MOST_LIKELY else growth > max_growth
    return _check(
        found, "", GROWTH, max_growth, growth, over, passed=not failed, base=of_base.model, base_ms=of_base.latency_ms,
        growth_low_percent=low, growth_high_percent=high,
    )  # fmt: skip


def _check(
    found: Prediction, tier: str, kind: str, limit: float, value: float, probability: float, *, passed: bool, **further: Any
) -> Check:
    return Check(
        found.model, found.platform, tier, kind, limit, value, probability, found.latency_ms, found.low_ms, found.high_ms,
        found.level, passed, found.grade, warnings=found.warnings, **further,
    )  # fmt: skip


def _report(checks: Sequence[Check], platforms: Iterable[Found], fail_above: float, refused: Sequence[Refusal]) -> CheckReport:
    bundles = {load(each).platform.id: _digest(each) for each in {id(each): each for each in platforms}.values()}
    return CheckReport(tuple(checks), bundles, fail_above, VERSION, tuple(refused))


def _digest(path: Found) -> str | None:
    """SHA-256 of the files of a bundle; None of a predictor in memory or without a bundle."""
    if not isinstance(path, Path):
        return None
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(file.relative_to(path).as_posix().encode() + b"\0" if file != path else b"")
            digest.update(file.read_bytes())
    return digest.hexdigest()
