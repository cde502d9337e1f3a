"""Fusion rules: which operators a runtime runs in one kernel. JSON, one file a runtime, detected or shipped.

The format follows nn-Meter §4.1: pairs "first operator class -> second operator class", and what happens where an operator
has several inputs (``multi_inbound``) or its result several readers (``multi_outbound``). Beside the pairs stand patterns of
several operators (:mod:`latcast.graph.idioms`), the operators that a runtime does without work (``free``), and the
backend whose kernel selection (:mod:`latcast.kernels.selection`) follows the fusion.

A file that ``extends`` shipped rules by their name holds what differs: for a first class the whole list of those fused into it,
of ``layouts`` the fields that differ, of other fields the whole value.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from latcast.errors import BundleError, LatcastError, UnknownNameError
from latcast.graph.idioms import IDIOMS
from latcast.kernels.layouts import LayoutRules
from latcast.kernels.selection import MOST_COMMON_FAMILY, SELECTIONS, family_named, family_names, family_of_device, selection_of
from latcast.reading import check_schema, read_json
from latcast.records import Platform, Unit
from latcast.registry import Registry

RULES_SCHEMA = 5
"""Raised with every change of what may be written: 2 has ``chains``, ``once`` and ``extends``; 3 has ``stages`` and blocks;
4 has ``between_integers``; 5 has ``standardises``."""

ANY_CLASS = "*"
"""First class of a pair that matches any class."""

WRITTEN_LAST_FIRST = 5
"""``multi_inbound`` of TFLite's GPU delegate."""


@dataclass(frozen=True)
class QuantisationRules:
    """The operators that a runtime computes on integers.

    Attributes:
        on_integers: Classes of those operators.
        converted: Kernel types of which some run on integers and others between conversions.
        between_integers: Classes of operators that are computed on integers where what they read and what they write are
            integers for others, and in floats elsewhere.
    """

    on_integers: frozenset[str]
    converted: frozenset[str] = frozenset()
    between_integers: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        between = {"between_integers": sorted(self.between_integers)} if self.between_integers else {}
        return {"on_integers": sorted(self.on_integers), "converted": sorted(self.converted), **between}

    @classmethod
    def from_json(cls, data: Any, source: str) -> QuantisationRules:
        """Read the JSON that :meth:`to_json` wrote.

        Raises:
            BundleError: Something else was found.
        """
        try:
            if unknown := sorted(set(data) - {each.name for each in fields(cls)}):
                raise ValueError(f"unknown field {unknown[0]}")
            found = {"between_integers": (), **data}
            return cls(**{each.name: frozenset(map(str, found[each.name])) for each in fields(cls)})
        except (KeyError, TypeError, ValueError) as problem:
            raise BundleError(
                f"{source}: 'quantisation' needs a list 'on_integers' of operator classes, a list 'converted' of kernel types: "
                f"{problem!r}"
            ) from problem


@dataclass(frozen=True)
class FusionRules:
    """Rules of one runtime.

    Attributes:
        runtime: Its name; "none" for a runtime that fuses nothing.
        version: The version they were checked against.
        pairs: First operator's class to the classes that are fused into it; :data:`ANY_CLASS` to those fused into any.
        patterns: Names of the idioms (:mod:`latcast.graph.idioms`) that run as one kernel.
        free: Operator classes that cost nothing: views of the same memory.
        chains: Classes that are fused into each other, each into each.
        once: Classes that a convolution or product takes in once at most.
        stages: Classes in the order in which a kernel takes them in: of the first list any number, of each later one a single
            operator, and of no list before that of the operator that it took in last.
        multi_inbound: Into which input's kernel an operator with several activation inputs may be fused: 0 none, 1 the first
            and no other, 2 the last and no other, 3 the one computed last that the pair rules allow, 4 the first that they
            allow, 5 the first and no other, where all others are there before that kernel begins, and where operands of a
            sum or product of equal shapes are swapped so that the one computed last comes first (Li et al., Algorithm B.2,
            with the swap of TFLite's code).
        multi_outbound: Whether an operator whose result has several readers may take one of them in: 0 no, 1 the first,
            2 the last reader.
        evidence: Times, margin and confidence behind each detected rule; empty for shipped rules.
        selection: Which kernels the backend chooses, ``backend:family`` or ``backend`` ("tflite_gpu:adreno6xx"); empty
            where fusion alone decides.
        assumed: What was taken for granted, as nothing is known: which GPU it is. Predictions say so, in wider intervals.
        layouts: How the runtime lays images out; None where reorders are not modelled.
        quantisation: What it computes on integers; None where that is not modelled.
        standardises: Whether it standardises filters (:attr:`latcast.graph.ir.Graph.standardised`) at every inference, as it does
            not fold constants.
    """

    runtime: str
    version: str = ""
    pairs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    patterns: tuple[str, ...] = ()
    free: frozenset[str] = frozenset()
    chains: frozenset[str] = frozenset()
    once: frozenset[str] = frozenset()
    stages: tuple[frozenset[str], ...] = ()
    multi_inbound: int = 3
    multi_outbound: int = 0
    evidence: Mapping[str, Any] = field(default_factory=dict)
    selection: str = ""
    assumed: str = ""
    layouts: LayoutRules | None = None
    quantisation: QuantisationRules | None = None
    standardises: bool = False

    def fuses(self, first: str, second: str) -> bool:
        if first in self.chains and second in self.chains:
            return True
        return second in self.pairs.get(first, ()) or second in self.pairs.get(ANY_CLASS, ())

    def comes_too_late(self, second: str, fused: Iterable[str]) -> bool:
        """Return whether a kernel into which these classes are fused takes no other of a class in any more."""
        stage_of = {name: index for index, stage in enumerate(self.stages) for name in stage}
        stage = stage_of.get(second)
        last = max((stage_of[name] for name in fused if name in stage_of), default=0)
        return stage is not None and (stage < last or (stage == last > 0))

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "schema": RULES_SCHEMA,
            "runtime": self.runtime,
            "version": self.version,
            "pairs": {first: sorted(seconds) for first, seconds in sorted(self.pairs.items())},
            "patterns": list(self.patterns),
            "free": sorted(self.free),
            "multi_inbound": self.multi_inbound,
            "multi_outbound": self.multi_outbound,
        }
        data |= {name: sorted(getattr(self, name)) for name in ("chains", "once") if getattr(self, name)}
        if self.stages:
            data["stages"] = [sorted(stage) for stage in self.stages]
        if self.evidence:
            data["evidence"] = dict(self.evidence)
        if self.selection:
            data["selection"] = self.selection
        if self.assumed:
            data["assumed"] = self.assumed
        if self.layouts is not None:
            data["layouts"] = self.layouts.to_json()
        if self.quantisation is not None:
            data["quantisation"] = self.quantisation.to_json()
        if self.standardises:
            data["standardises"] = True
        return data

    @classmethod
    def from_json(cls, data: Any, source: str = "fusion rules") -> FusionRules:
        """Read rules.

        Raises:
            BundleError: A newer schema, an unknown field, one of a wrong kind, or rules to extend that are not shipped or extend
                these.
        """
        version = data.get("schema") if isinstance(data, Mapping) else None
        if not isinstance(version, int):
            raise BundleError(f"{source}: not fusion rules: found no 'schema', expected a JSON object that names it")
        check_schema(version, RULES_SCHEMA, source, error=BundleError)
        known = {each.name for each in fields(cls)} | {"schema", "extends"}
        unknown = sorted(set(data) - known)
        if unknown:
            expected = ", ".join(sorted(known))
            raise BundleError(f"{source}: found '{unknown[0]}', expected some of {expected}; update latcast if the file is newer")
        try:
            data = _extended(data, source)
            rules = cls(
                runtime=str(data["runtime"]),
                version=str(data.get("version", "")),
                pairs={first: frozenset(_names(seconds)) for first, seconds in data["pairs"].items()},
                patterns=tuple(_names(data.get("patterns", []))),
                free=frozenset(_names(data.get("free", []))),
                chains=frozenset(_names(data.get("chains", []))),
                once=frozenset(_names(data.get("once", []))),
                stages=tuple(frozenset(_names(stage)) for stage in data.get("stages", [])),
                multi_inbound=int(data.get("multi_inbound", 3)),
                multi_outbound=int(data.get("multi_outbound", 0)),
                evidence=dict(data.get("evidence", {})),
                selection=str(data.get("selection", "")),
                assumed=str(data.get("assumed", "")),
                layouts=LayoutRules.from_json(data["layouts"], source) if "layouts" in data else None,
                quantisation=QuantisationRules.from_json(data["quantisation"], source) if "quantisation" in data else None,
                standardises=bool(data.get("standardises", False)),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise BundleError(f"{source}: not fusion rules of schema {RULES_SCHEMA}: {problem!r}") from problem
        unknown = sorted(name for name in rules.patterns if name not in IDIOMS)
        if unknown:
            raise BundleError(f"{source}: no pattern is called '{unknown[0]}'; known: {', '.join(IDIOMS.names())}")
        if rules.multi_inbound not in range(6) or rules.multi_outbound not in range(3):
            raise BundleError(
                f"{source}: multi_inbound {rules.multi_inbound} and multi_outbound {rules.multi_outbound}; "
                "expected 0 to 5 and 0 to 2"
            )
        _check_selection(rules.selection, source)
        return rules


def _extended(data: Mapping[str, Any], source: str, extending: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """Return rules with all that they take over from those that they extend."""
    base = data.get("extends")
    if base is None:
        return data
    if base in extending:
        raise BundleError(f"{source}: rules that extend themselves: {' -> '.join((*extending, base))}")
    if base not in shipped_rules():
        raise BundleError(f"{source}: no rules '{base}' to extend are shipped; known: {', '.join(sorted(shipped_rules()))}")
    whole = _extended(_shipped(base), source, (*extending, base))
    own = {key: value for key, value in data.items() if key != "extends"}
    joined = {name: {**whole.get(name, {}), **own.get(name, {})} for name in ("pairs", "layouts") if name in whole or name in own}
    return {**whole, **own, **joined}


def _check_selection(selection: str, source: str) -> None:
    """Refuse a selection that this latcast does not have; a family may still be left open."""
    backend, _, family = selection.partition(":")
    try:
        if family:
            selection_of(selection)
        elif backend:
            SELECTIONS.get(backend)
    except LatcastError as problem:
        raise BundleError(f"{source}: selection '{selection}': {problem}; update latcast if the file is newer") from problem


def _names(values: Any) -> list[str]:
    """Return a list of texts; refuse anything else, as one text would fall apart into its letters."""
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"expected a list of names, found {values!r}")
    return values


def load_rules(source: str | os.PathLike[str]) -> FusionRules:
    """Load shipped rules by a runtime's name, or rules from a JSON file.

    Raises:
        UnknownNameError: No rules are shipped under this name and no such file exists.
        BundleError: The file is not a rules file.

    Example:
        >>> import latcast
        >>> latcast.load_rules("onnxruntime").fuses("conv", "relu")
        True
    """
    path = Path(source)
    if path.suffix == ".json":
        if not path.exists():
            raise UnknownNameError(f"no fusion rules at '{path}': there is no such file")
        return FusionRules.from_json(read_json(path, error=BundleError), str(path))
    if str(source) not in shipped_rules():
        raise UnknownNameError(f"no fusion rules are shipped for '{source}'; known: {', '.join(sorted(shipped_rules()))}")
    return FusionRules.from_json(_shipped(str(source)), str(source))


def _shipped(name: str) -> Mapping[str, Any]:
    """Return the JSON of rules shipped with latcast or another distribution."""
    plugged = None if name in _own_rules() else FUSION_RULES.find(name)
    document: Mapping[str, Any] = (
        json.loads(_FOLDER.joinpath(f"{name}.json").read_text(encoding="utf-8")) if plugged is None else plugged.to_json()
    )
    return document


_FOLDER = resources.files("latcast.kernels").joinpath("rules")

FUSION_RULES: Registry[FusionRules] = Registry("set of fusion rules", {}, group="latcast.fusion_rules")
"""Rules that come with other distributions' runtimes, named as the files of :data:`_FOLDER` are."""


@cache
def _own_rules() -> frozenset[str]:
    return frozenset(item.name.removesuffix(".json") for item in _FOLDER.iterdir() if item.name.endswith(".json"))


@cache
def shipped_rules() -> frozenset[str]:
    """Return the names of the rules shipped with latcast or another distribution."""
    return _own_rules() | frozenset(FUSION_RULES)


def unit_kind(unit: str) -> str:
    """Return the kind of a unit: ``gpu``, ``webgpu``, ``wasm``..., or ``cpu`` for ``cpu4`` and core sets (``2large``)."""
    return Unit.parse(unit).kind


INSTRUCTION_SETS: Mapping[str, frozenset[str]] = {
    "avx512": frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"}), "avx2": frozenset({"avx2", "fma"}),
    "avx": frozenset({"avx"}), "sse42": frozenset({"sse4_2"}),
}  # fmt: skip
"""Instruction sets of x86-64, the newest first, by their names in units, to the flags that Linux prints of such a CPU."""


def instruction_set(unit: str, cpu_flags: str = "") -> str:
    """Return the newest instruction set that a runtime uses on a CPU; empty where it is not known.

    Args:
        unit: As in platform ids; a qualifier says that a process saw no newer one (``cpu1+avx2``).
        cpu_flags: What the CPU has, with spaces between.

    Example:
        >>> from latcast.kernels.rules import instruction_set
        >>> instruction_set("cpu1", "sse4_2 avx avx2 fma"), instruction_set("cpu1+avx", "sse4_2 avx avx2 fma")
        ('avx2', 'avx')
    """
    capped = next((name for name in INSTRUCTION_SETS if name in Unit.parse(unit).qualifiers), "")
    return capped or next((name for name, needed in INSTRUCTION_SETS.items() if needed <= set(cpu_flags.split())), "")


def rules_for(
    runtime: str, precision: str, unit: str = "cpu1", device: str = "", gpu_family: str = "", cpu_flags: str = ""
) -> FusionRules:
    """Return the shipped rules of a runtime: the most special file.

    Files are looked for by runtime, kind of unit, GPU family or instruction set, and precision, from ``tflite-gpu-apple-fp16``
    over ``tflite-gpu``, ``tflite-int8`` to ``tflite``, or from ``openvino-cpu-avx2-fp32``. Where a file names a backend whose
    kernel selection depends on the GPU family, that family is filled in.

    Args:
        runtime: Its name in platform ids.
        precision: As in platform ids; quantised networks fuse differently where a file says so.
        unit: As in platform ids.
        device: As in platform ids; tells the family of a GPU.
        gpu_family: The family of the GPU, for a device that latcast does not know.
        cpu_flags: What the CPU has, as :func:`instruction_set` takes them; without them the file that names no set counts.

    Returns:
        The rules. Where they depend on the GPU's family, and nothing tells it, those of most GPUs, with ``assumed`` set.

    Raises:
        UnknownNameError: No rules are shipped for the runtime, or no GPU family has the name.
    """
    kind = unit_kind(unit)
    special = f"{_SAME_DELEGATE.get((runtime, kind), runtime)}-{kind}"
    names = [f"{special}-{precision}", special, f"{runtime}-{precision}"]
    known = instruction_set(unit, cpu_flags) if kind == "cpu" else ""
    if known:
        # Rules for an instruction set count for older ones too, unless these have their own: from the CPU's own to the newest.
        newer = reversed(list(INSTRUCTION_SETS)[: list(INSTRUCTION_SETS).index(known) + 1])
        names = [*(f"{special}-{each}-{precision}" for each in newer), *names]
    family, assumed = None, ""
    if special in shipped_rules() and load_rules(special).selection:
        family = family_named(gpu_family) if gpu_family else family_of_device(device)
        if family is None:
            family = family_named(MOST_COMMON_FAMILY)
            which = f"'{device}' has" if device else "it is"
            assumed = (
                f"which GPU {which} is not known, so its kernels are taken for those of most "
                f"GPUs; name it with --gpu-family: {', '.join(family_names())}, or an architecture such as mali-valhall"
            )
        names = [f"{special}-{family.name}-{precision}", f"{special}-{family.name}", *names]
    rules = load_rules(next((name for name in names if name in shipped_rules()), runtime))
    if family is None:
        return rules
    return replace(rules, selection=f"{rules.selection.partition(':')[0]}:{family.name}", assumed=assumed)


_SAME_DELEGATE = {("litert", "gpu"): "tflite"}
"""Runtimes whose delegate is another's, whose rules count."""


def platform_rules(platform: Platform, gpu_family: str = "", cpu_flags: str = "") -> FusionRules:
    """Return the shipped rules of a platform; see :func:`rules_for`."""
    return rules_for(platform.runtime, platform.precision, platform.unit, platform.device, gpu_family, cpu_flags)
