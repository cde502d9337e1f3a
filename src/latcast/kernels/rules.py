"""Fusion rules: which operators a runtime runs in one kernel. JSON, one file a runtime, detected or shipped.

The format follows nn-Meter §4.1: pairs "first operator class -> second operator class", and what happens where an operator
has several inputs (``multi_inbound``) or its result several readers (``multi_outbound``). Beside the pairs stand patterns of
several operators (:mod:`latcast.kernels.patterns`) and the operators that a runtime does without work (``free``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from latcast.errors import BundleError, UnknownNameError
from latcast.kernels.patterns import shipped_patterns

RULES_SCHEMA = 1


@dataclass(frozen=True)
class FusionRules:
    """Rules of one runtime.

    Attributes:
        runtime: Its name; "none" for a runtime that fuses nothing.
        version: The version they were checked against.
        pairs: First operator's class to the classes that are fused into it.
        patterns: Names of the patterns that run as one kernel.
        free: Operator classes that cost nothing: views of the same memory.
        multi_inbound: Into which input's kernel an operator with several activation inputs may be fused: 0 none, 1 the first
            and no other, 2 the last and no other, 3 the one computed last that the pair rules allow, 4 the first that they
            allow.
        multi_outbound: Whether an operator whose result has several readers may take one of them in: 0 no, 1 the first,
            2 the last reader.
        evidence: Times, margin and confidence behind each detected rule; empty for shipped rules.
    """

    runtime: str
    version: str = ""
    pairs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    patterns: tuple[str, ...] = ()
    free: frozenset[str] = frozenset()
    multi_inbound: int = 3
    multi_outbound: int = 0
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def fuses(self, first: str, second: str) -> bool:
        return second in self.pairs.get(first, ())

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
        if self.evidence:
            data["evidence"] = dict(self.evidence)
        return data

    @classmethod
    def from_json(cls, data: Any, source: str = "fusion rules") -> FusionRules:
        """Reads rules.

        Raises:
            BundleError: A newer schema, or a field of a wrong kind.
        """
        version = data.get("schema") if isinstance(data, Mapping) else None
        if not isinstance(version, int):
            raise BundleError(f"{source}: not fusion rules: found no 'schema', expected a JSON object that names it")
        if version > RULES_SCHEMA:
            raise BundleError(f"{source}: schema {version}, this latcast reads up to {RULES_SCHEMA}; update latcast")
        try:
            rules = cls(
                runtime=str(data["runtime"]),
                version=str(data.get("version", "")),
                pairs={first: frozenset(_names(seconds)) for first, seconds in data["pairs"].items()},
                patterns=tuple(_names(data.get("patterns", []))),
                free=frozenset(_names(data.get("free", []))),
                multi_inbound=int(data.get("multi_inbound", 3)),
                multi_outbound=int(data.get("multi_outbound", 0)),
                evidence=dict(data.get("evidence", {})),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise BundleError(f"{source}: not fusion rules of schema {RULES_SCHEMA}: {problem!r}") from problem
        unknown = sorted(set(rules.patterns) - set(shipped_patterns()))
        if unknown:
            known = ", ".join(sorted(shipped_patterns()))
            raise BundleError(f"{source}: no pattern is called '{unknown[0]}'; known: {known}")
        if rules.multi_inbound not in range(5) or rules.multi_outbound not in range(3):
            raise BundleError(
                f"{source}: multi_inbound {rules.multi_inbound} and multi_outbound {rules.multi_outbound}; "
                "expected 0 to 4 and 0 to 2"
            )
        return rules


def _names(values: Any) -> list[str]:
    """A list of texts as it is; anything else (one text would fall apart into its letters) is refused."""
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"expected a list of names, found {values!r}")
    return values


def load_rules(source: str | Path) -> FusionRules:
    """Shipped rules by a runtime's name, or rules from a JSON file.

    Raises:
        UnknownNameError: No rules are shipped under this name and no such file exists.
        BundleError: The file is not a rules file.
    """
    path = Path(source)
    if path.suffix == ".json":
        try:
            return FusionRules.from_json(json.loads(path.read_text()), str(path))
        except OSError as problem:
            raise UnknownNameError(f"no fusion rules at '{path}': {problem.strerror}") from problem
        except ValueError as problem:
            raise BundleError(f"{path}: not JSON: {problem}") from problem
    folder = resources.files("latcast.kernels").joinpath("rules")
    shipped = folder.joinpath(f"{source}.json")
    if not shipped.is_file() or str(source) == "patterns":
        names = sorted(item.name.removesuffix(".json") for item in folder.iterdir() if item.name.endswith(".json"))
        names.remove("patterns")
        raise UnknownNameError(f"no fusion rules are shipped for '{source}'; known: {', '.join(names)}")
    return FusionRules.from_json(json.loads(shipped.read_text()), str(source))


def rules_for(runtime: str, precision: str) -> FusionRules:
    """Shipped rules of a runtime at a precision: quantised networks fuse differently where a file says so.

    Raises:
        UnknownNameError: No rules are shipped for the runtime.
    """
    folder = resources.files("latcast.kernels").joinpath("rules")
    special = f"{runtime}-{precision}"
    return load_rules(special if folder.joinpath(f"{special}.json").is_file() else runtime)
