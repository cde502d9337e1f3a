"""Delegates of accelerators: the operators that each takes, as rules in JSON, one file a delegate.

A *delegate* is the part of a runtime that runs operators on a GPU or NPU; what it does not take falls back to the CPU. A rule
names operators (ONNX's types, or idioms, which are judged as a whole) and the conditions that one of them must meet, in the words
of :data:`CONDITIONS` and :data:`OF_PLATFORMS`. An operator is taken where a rule of ``takes`` holds for it and none of
``refuses``. How taken operators become partitions is :mod:`latcast.kernels.partitioning`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib import resources
from math import prod
from typing import Any

from latcast.errors import BundleError, ModelError, UnknownNameError
from latcast.graph.idioms import IDIOMS
from latcast.graph.ir import Graph, Node
from latcast.graph.operators.table import view_of
from latcast.kernels.kernel import operator_class
from latcast.reading import check_schema
from latcast.records import Platform
from latcast.registry import Registry

DELEGATE_SCHEMA = 1

CONFIDENCES = ("documented", "source", "observed", "assumed")
"""What a rule rests on: the maker's documentation, the delegate's source, published measurements, or similar delegates."""

ANY_OPERATOR = "*"

QUANTISED_DTYPES = frozenset({"int8", "uint8"})
"""Element types of activations in quantised files."""


@dataclass(frozen=True)
class OperatorRule:
    """Operators that a delegate takes, or refuses, under conditions.

    Attributes:
        operators: ONNX types and idioms, or :data:`ANY_OPERATOR`.
        when: Condition to what it compares with; all must hold.
        since, until: First version of the delegate that it holds for, and the first that it does not.
        confidence: One of :data:`CONFIDENCES`.
        source: Where it is from, where the file's own source does not say it.
    """

    operators: frozenset[str]
    when: Mapping[str, Any]
    since: tuple[int, ...] = ()
    until: tuple[int, ...] = ()
    confidence: str = "documented"
    source: str = ""

    def of_version(self, version: tuple[int, ...]) -> bool:
        """Return whether it holds for a version; an unknown one (no numbers) counts as the latest."""
        return not version or (version >= self.since and (not self.until or version < self.until))

    @cached_property
    def of_operators(self) -> OperatorRule:
        """Return the rule without the conditions that a platform decides."""
        return replace(self, when={name: wanted for name, wanted in self.when.items() if name not in OF_PLATFORMS})


@dataclass(frozen=True)
class Delegate:
    """The operators that a delegate of one version takes on one platform.

    Attributes:
        name: Its file's name.
        title: For people.
        unit: What it runs operators on ("GPU").
        platforms: Patterns of the platform ids that it serves.
        version_of: The runtime in a platform id whose version is the delegate's.
        takes, refuses: Rules; one that refuses wins.
        least_operators: A partition of fewer is left to the CPU.
        most_partitions: How many partitions it runs, the largest first; None for all.
        in_order: Whether it runs the first partitions instead of the largest.
        static_sizes: Whether a network with a tensor whose size only values decide is left to the CPU, all of it.
        whole: Whether a network with an operator that is refused does not run at all, as nothing falls back.
        synchronisation_ms, copy_gb_per_s: Estimates for one crossing between the unit and the CPU, and for the bytes that cross.
        learned: Whether the latencies that its platforms were learned from hold crossings, so that a prediction adds none.
        confidence: Of the rules as a whole: "high", "medium" or "low".
        source: Where they are from.
        precision, device: Of the platform, as in its id.
    """

    name: str
    title: str
    unit: str
    takes: tuple[OperatorRule, ...]
    refuses: tuple[OperatorRule, ...] = ()
    platforms: tuple[str, ...] = ()
    version_of: str = ""
    least_operators: int = 1
    most_partitions: int | None = None
    in_order: bool = False
    static_sizes: bool = False
    whole: bool = False
    synchronisation_ms: float = 0.0
    copy_gb_per_s: float = 1.0
    learned: bool = False
    confidence: str = "low"
    source: str = ""
    precision: str = "fp32"
    device: str = ""

    def at(self, *, version: str = "", precision: str = "fp32", device: str = "") -> Delegate:
        """Return the delegate of one version on a platform, with the rules of that version and platform.

        Args:
            version: As in platform ids; where it is empty or has no numbers, the latest is meant.
            precision: As in platform ids.
            device: As in platform ids.
        """
        number, found = version_number(version), replace(self, precision=precision, device=device)

        def rules_there(rules: Sequence[OperatorRule]) -> tuple[OperatorRule, ...]:
            return tuple(
                rule.of_operators
                for rule in rules
                if rule.of_version(number)
                and all(holds(found, rule.when[name]) for name, holds in OF_PLATFORMS.items() if name in rule.when)
            )

        return replace(found, takes=rules_there(self.takes), refuses=rules_there(self.refuses))

    @cached_property
    def key(self) -> tuple[str, str, tuple[int, ...]]:
        """Equal for delegates that partition a network alike: those of one version on platforms of one precision."""
        return self.name, self.precision, tuple(map(id, (*self.takes, *self.refuses)))

    def partitioned_by(self) -> list[Any]:
        """Return what decides the partitions of networks and the bytes between them, as JSON has it."""
        rules = [[[sorted(rule.operators), rule.when] for rule in rules] for rules in (self.takes, self.refuses)]
        kept = [self.least_operators, self.most_partitions, *(["in order"] if self.in_order else [])]
        return [self.precision, *kept, self.static_sizes, self.whole, *rules]

    def crossing_ms(self, crossings: float, size_bytes: float) -> float:
        """Estimate what crossings take: a synchronisation each, and copying their bytes; 0 where learned latencies hold them."""
        return 0.0 if self.learned else crossings * self.synchronisation_ms + size_bytes / (self.copy_gb_per_s * 1e6)

    @cached_property
    def idioms(self) -> tuple[str, ...]:
        """Return the idioms that rules name."""
        named = frozenset().union(*(rule.operators for rule in (*self.takes, *self.refuses)))
        return tuple(sorted(name for name in named if name[0].islower()))

    def takes_operator(self, graph: Graph, node: Node, name: str = "") -> bool | None:
        """Return whether it takes a node; None where no rule that names it holds.

        Args:
            graph: The network.
            node: The node; the last one of an idiom.
            name: What to judge it as, an idiom; its type unless given.
        """
        called = name or node.op_type
        found = self._by_operator.get(called)
        if found is None:
            refuses, takes = (
                tuple(rule for rule in rules if called in rule.operators or ANY_OPERATOR in rule.operators)
                for rules in (self.refuses, self.takes)
            )
            found = self._by_operator[called] = (refuses, takes)
        refuses, takes = found
        if any(self._holds(rule, graph, node) for rule in refuses):
            return False
        return True if any(self._holds(rule, graph, node) for rule in takes) else None

    @cached_property
    def _by_operator(self) -> dict[str, tuple[tuple[OperatorRule, ...], tuple[OperatorRule, ...]]]:
        return {}

    @staticmethod
    def _holds(rule: OperatorRule, graph: Graph, node: Node) -> bool:
        return all(CONDITIONS[name](graph, node, wanted) for name, wanted in rule.when.items())

    @classmethod
    def from_json(cls, name: str, data: Any) -> Delegate:
        """Read the file of a delegate.

        Raises:
            BundleError: A newer schema, a field that is missing or of a wrong kind, or a condition that this latcast does not
                have.
        """
        try:
            check_schema(data["schema"], DELEGATE_SCHEMA, name, error=BundleError)
            partitions, crossing = data["partitions"], data["crossing"]
            return cls(
                name,
                title=str(data["title"]),
                unit=str(data["unit"]),
                takes=tuple(_rule(name, rule) for rule in data["takes"]),
                refuses=tuple(_rule(name, rule) for rule in data.get("refuses", [])),
                platforms=tuple(data["platforms"]),
                version_of=str(data.get("version_of", "")),
                least_operators=int(partitions.get("least_operators", 1)),
                most_partitions=partitions.get("most"),
                in_order=bool(partitions.get("in_order", False)),
                static_sizes=bool(partitions.get("static_sizes", False)),
                whole=bool(partitions.get("whole", False)),
                synchronisation_ms=float(crossing["synchronisation_ms"]),
                copy_gb_per_s=float(crossing["copy_gb_per_s"]),
                learned=bool(crossing.get("learned", False)),
                confidence=str(data["confidence"]),
                source=str(data["source"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise BundleError(f"{name}: no delegate of schema {DELEGATE_SCHEMA}: {problem!r}") from problem


def _rule(name: str, data: Mapping[str, Any]) -> OperatorRule:
    when = data.get("when", {})
    conditions = sorted({**CONDITIONS, **OF_PLATFORMS})
    unknown = sorted(set(when).difference(conditions))
    if unknown:
        raise BundleError(f"{name}: no condition is called '{unknown[0]}'; known: {', '.join(conditions)}")
    confidence = data.get("confidence", "documented")
    if confidence not in CONFIDENCES:
        raise BundleError(f"{name}: confidence '{confidence}'; expected one of {', '.join(CONFIDENCES)}")
    operators = data["operators"]
    if not isinstance(operators, list) or not operators:
        raise BundleError(f"{name}: a rule's operators are {operators!r}, expected a list of names")
    strange = sorted(each for each in operators if each[:1].islower() and each not in IDIOMS)
    if strange:
        raise BundleError(f"{name}: no idiom is called '{strange[0]}'; known: {', '.join(IDIOMS.names())}")
    since, until = (version_number(str(data.get(key, ""))) for key in ("since", "until"))
    return OperatorRule(frozenset(operators), when, since, until, confidence, str(data.get("source", "")))


def version_number(text: str) -> tuple[int, ...]:
    """Return (2, 17, 0) for ``"2.17.0"``; empty where a version does not begin with a number."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


# Conditions

Condition = Callable[[Graph, Node, Any], bool]
"""Whether a node meets what a rule compares with."""


def _activations(graph: Graph, node: Node) -> list[str]:
    static = graph.static_names
    return [name for name in (*node.inputs, *node.outputs) if name not in static]


def _ranks(graph: Graph, node: Node, wanted: Any) -> bool:
    least, most = wanted
    tensors = graph.tensors
    return all(least <= len(tensors[name].shape) <= most for name in _activations(graph, node))


def _least_plane(graph: Graph, node: Node, wanted: Any) -> bool:
    maps = [graph.shape(name) for name in _activations(graph, node)]
    return all(prod(shape[2:]) >= wanted for shape in maps if len(shape) == 4)


def _dtypes(graph: Graph, node: Node, wanted: Any) -> bool:
    found = {graph.tensors[name].dtype for name in _activations(graph, node)}
    if graph.precision == "int8":
        found = {"float32" if dtype in QUANTISED_DTYPES else dtype for dtype in found}
    return found.issubset(wanted)


def _attributes(graph: Graph, node: Node, wanted: Any) -> bool:
    def plain(value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value

    return all(plain(node.attributes.get(name)) in allowed for name, allowed in wanted.items())


def _axes(graph: Graph, node: Node, wanted: Any) -> bool:
    """Return whether the axes of a reduction (all where it names none), counted from the front, are allowed."""
    rank = len(graph.shape(node.inputs[0])) or 1
    try:
        given = view_of(graph, node).ints_from("axes", 1) if "axis" not in node.attributes else None
    except ModelError:  # computed at run time
        return False
    if given is None:
        axis = node.attributes.get("axis")
        given = (axis,) if isinstance(axis, int) else tuple(range(rank))
    return sorted(axis % rank for axis in given) in wanted


def _alone(graph: Graph, node: Node, wanted: Any) -> bool:
    """Return False where an operator of these types makes the first input for this reader only, and is folded into it.

    A normalisation between the two is folded first.
    """
    producer = graph.producers.get(node.inputs[0])
    if producer is None or graph.sole_reader(node.inputs[0]) is None:
        return True
    if producer.op_type == "BatchNormalization" and "BatchNormalization" not in wanted:
        return _alone(graph, producer, wanted)
    return producer.op_type not in wanted


CONDITIONS: Mapping[str, Condition] = {
    "alone": _alone,
    "attributes": _attributes,
    "axes": _axes,
    "classes": lambda graph, node, wanted: operator_class(graph, node) in wanted,
    "constant_inputs": lambda graph, node, wanted: all(
        not graph.is_activation(node.inputs[index]) for index in wanted if index < len(node.inputs)
    ),
    "dtypes": _dtypes,
    "least_plane": _least_plane,
    "most_activations": lambda graph, node, wanted: len(graph.activation_inputs(node)) <= wanted,
    "most_elements": lambda graph, node, wanted: all(graph.tensors[name].elements <= wanted for name in node.outputs if name),
    "quantised": lambda graph, node, wanted: (graph.precision == "int8") is wanted,
    "ranks": _ranks,
}
"""Condition to its test. What a rule compares with:

``alone``: types of operators; the first input comes from none of them, into which this operator would be folded.
``attributes``: name to the values allowed, null for one that is not given.
``axes``: lists of axes of a reduction that are allowed, counted from the front.
``classes``: words of :func:`latcast.kernels.kernel.operator_class`.
``constant_inputs``: places of inputs that must be no activations.
``dtypes``: allowed of all activations; what a quantised file has in eight bits counts as ``float32``.
``least_plane``: least height times width of all activations of four dimensions.
``most_activations``, ``most_elements``: number of inputs that are activations; size of an output.
``quantised``: whether the file is.
``ranks``: least and most dimensions of all activations.
"""

OF_PLATFORMS: Mapping[str, Callable[[Delegate, Any], bool]] = {
    "devices": lambda delegate, wanted: any(fnmatchcase(delegate.device, each) for each in wanted),
    "precisions": lambda delegate, wanted: delegate.precision in wanted,
}
"""Conditions on the platform, which :meth:`Delegate.at` decides: patterns of its device, and its precisions."""


# Finding

_FOLDER = resources.files("latcast.kernels").joinpath("delegates")

DELEGATES: Registry[Delegate] = Registry("delegate", {}, group="latcast.delegates")
"""Delegates of other distributions' runtimes, named as the files of :data:`_FOLDER` are."""


@cache
def shipped_delegates() -> tuple[str, ...]:
    """Return the names of the files that latcast has itself, sorted."""
    return tuple(sorted(item.name.removesuffix(".json") for item in _FOLDER.iterdir() if item.name.endswith(".json")))


@cache
def load_delegate(name: str) -> Delegate:
    """Return a delegate by its name, with the rules of all versions; :meth:`Delegate.at` chooses one.

    Raises:
        UnknownNameError: No delegate has this name.
    """
    if name in shipped_delegates():
        return Delegate.from_json(name, json.loads(_FOLDER.joinpath(f"{name}.json").read_text(encoding="utf-8")))
    plugged = DELEGATES.find(name)
    if plugged is None:
        known = ", ".join(sorted({*shipped_delegates(), *DELEGATES}))
        raise UnknownNameError(f"no delegate is called '{name}'; known: {known}")
    return plugged


@cache
def delegate_of(platform: Platform) -> Delegate | None:
    """Return the delegate that serves a platform, of its version; None where latcast has no rules for it."""
    for name in (*shipped_delegates(), *DELEGATES):
        delegate = load_delegate(name)
        if any(fnmatchcase(platform.id, pattern) for pattern in delegate.platforms):
            version = platform.runtime_version
            if delegate.version_of not in ("", platform.runtime):
                found = re.search(rf"\+{re.escape(delegate.version_of)}-([^+]+)", platform.unit)
                version = found.group(1) if found else ""
            return delegate.at(version=version, precision=platform.precision, device=platform.device)
    return None
