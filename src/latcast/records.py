"""The records that every room shares: platforms, network and kernel references, measurements, predictions."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from latcast.errors import LatcastError, MeasurementError

SCHEMA_VERSION = 1
"""Version of every JSON document that latcast writes."""

PRECISIONS = ("fp32", "fp16", "bf16", "int8")

_PART = re.compile(r"^[a-z0-9][a-z0-9._+-]*$")

_CORE_SET = re.compile(r"(?:\d+(?:large|med|small))+")


@dataclass(frozen=True, slots=True, order=True)
class Platform:
    """Device + runtime at one version + compute unit + precision: the thing a predictor is for.

    The id reads ``device/runtime-version/unit/precision``, for instance ``local/onnxruntime-1.31/cpu1/fp32``. The unit is
    ``cpuN``, a core set of the device (``2large``), ``gpu``, ``wasmN``, with qualifiers after ``+`` (``cpu1+sse42``).
    """

    device: str
    runtime: str
    runtime_version: str
    unit: str
    precision: str

    @property
    def id(self) -> str:
        return f"{self.device}/{self.runtime}-{self.runtime_version}/{self.unit}/{self.precision}"

    @property
    def threads(self) -> int:
        """Number of threads of a ``cpuN`` or ``wasmN`` unit, or of a core set (``1large1med``: 2); 1 for any other unit."""
        unit = self.unit.partition("+")[0]
        found = re.match(r"(?:cpu|wasm)(\d+)", unit)
        if found:
            return int(found.group(1))
        return sum(int(count) for count in re.findall(r"\d+", unit)) if _CORE_SET.fullmatch(unit) else 1

    @classmethod
    def parse(cls, text: str) -> Platform:
        """Reads a platform id.

        Raises:
            LatcastError: The text does not have the four parts, or a part has a character outside ``[a-z0-9._+-]``.
        """
        parts = text.split("/")
        shape = "device/runtime-version/unit/precision, for instance local/onnxruntime-1.31/cpu1/fp32"
        if len(parts) != 4 or not all(_PART.match(part) for part in parts):
            raise LatcastError(f"'{text}' is not a platform id; expected {shape}")
        runtime, dash, version = parts[1].rpartition("-")
        if not dash or not runtime or not version:
            raise LatcastError(f"'{parts[1]}' in '{text}' has no runtime version; expected {shape}")
        if parts[3] not in PRECISIONS:
            raise LatcastError(f"'{parts[3]}' in '{text}' is not a precision; expected one of {', '.join(PRECISIONS)}")
        return cls(parts[0], runtime, version, parts[2], parts[3])

    def __str__(self) -> str:
        return self.id


def short_version(version: str) -> str:
    """The part of a runtime's version that names a platform: ``"1.31.1"`` becomes ``"1.31"``."""
    return ".".join(version.split(".")[:2])


@dataclass(frozen=True)
class Reference:
    """How to build a network again: a few numbers instead of a file, so that datasets stay small.

    ``space`` names the builder in ``latcast.spaces`` ("resnet", "synthetic", "kernel/conv", ...) or is ``"file"``;
    ``parameters`` are JSON values: the builder's arguments, or the path and the content hash of a file.
    """

    space: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    @cached_property
    def key(self) -> str:
        """Content hash (16 hex digits): equal for equal space and parameters, whatever the name."""
        parameters = dict(self.parameters)
        if "sha256" in parameters:
            # A file is its content, wherever it lies.
            parameters.pop("path", None)
        text = json.dumps([self.space, parameters], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        return {"space": self.space, "parameters": dict(self.parameters), "name": self.name}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Reference:
        return cls(str(data["space"]), dict(data.get("parameters", {})), str(data.get("name", "")))

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True)
class ExecutedKernel:
    """One kernel as the runtime says it ran it.

    Attributes:
        name: The runtime's own name for it.
        kind: The runtime's own type ("FusedConv", "Convolution (NHWC, F32) IGEMM", ...).
        nodes: Names of the graph's nodes that it computes, in execution order; empty where the runtime inserted it (a layout
            change).
        latency_ms: Median time over the profiled runs, normalised like the measurement it belongs to.
        configuration: The numbers that decide its latency, where a published measurement states them ("input_channels": 64);
            otherwise empty, as they follow from the nodes.
    """

    name: str
    kind: str
    nodes: tuple[str, ...]
    latency_ms: float
    configuration: Mapping[str, int | str] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, Any]:
        """Without a configuration where there is none."""
        data: dict[str, Any] = {"name": self.name, "kind": self.kind, "nodes": self.nodes, "latency_ms": self.latency_ms}
        return {**data, "configuration": dict(self.configuration)} if self.configuration else data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ExecutedKernel:
        return cls(data["name"], data["kind"], tuple(data["nodes"]), data["latency_ms"], dict(data.get("configuration", {})))


@dataclass(frozen=True)
class Measurement:
    """Raw latencies of one network or kernel on one platform, with what they were taken in.

    Attributes:
        platform: Platform id.
        reference: What was measured.
        role: "network" or "kernel".
        runs_ms: Every timed run, raw, in milliseconds, in order.
        probe_ms: The probe's time around each run (same length as ``runs_ms``), or empty where no probe ran.
        probe_parts_ms: The readings behind ``probe_ms``, by part of the probe ("compute", "memory").
        latency_ms: The statistic that stands for the measurement: the median of the runs, each divided by its probe and
            multiplied by the probe's quiet time. None for a failed measurement.
        raw_latency_ms: Median of ``runs_ms``.
        variation: Relative spread of the normalised runs (quartile deviation over median); None where one run tells none.
        rounds: Index of the round (and so of the moment) of each run; same length as ``runs_ms``.
        executed: The kernels the runtime ran, where profiling was asked for.
        error: Why it failed, or None.
        environment: Versions, CPU, affinity, threads, host load, time: see ``latcast.measure.environment``.
    """

    platform: str
    reference: Reference
    role: str = "network"
    runs_ms: tuple[float, ...] = ()
    probe_ms: tuple[float, ...] = ()
    rounds: tuple[int, ...] = ()
    latency_ms: float | None = None
    raw_latency_ms: float | None = None
    variation: float | None = None
    statistic: str = "median of probe-normalised runs"
    warmup_runs: int = 0
    taken_at: str = ""
    executed: tuple[ExecutedKernel, ...] = ()
    error: str | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    probe_parts_ms: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.error is None and self.latency_ms is not None

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA_VERSION,
            **vars(self),
            "reference": self.reference.to_json(),
            "executed": [kernel.to_json() for kernel in self.executed],
            "environment": dict(self.environment),
            "probe_parts_ms": dict(self.probe_parts_ms),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Measurement:
        """Reads what :meth:`to_json` wrote.

        Raises:
            MeasurementError: A newer schema, or a field is missing.
        """
        fields = dict(data)
        version = fields.pop("schema", SCHEMA_VERSION)
        if version > SCHEMA_VERSION:
            raise MeasurementError(f"measurement of schema {version}, this latcast reads up to {SCHEMA_VERSION}; update latcast")
        try:
            fields["reference"] = Reference.from_json(fields["reference"])
            fields["executed"] = tuple(ExecutedKernel.from_json(item) for item in fields.get("executed", ()))
            for name in ("runs_ms", "probe_ms", "rounds"):
                fields[name] = tuple(fields.get(name, ()))
            fields["probe_parts_ms"] = {part: tuple(readings) for part, readings in fields.get("probe_parts_ms", {}).items()}
            return cls(**fields)
        except (KeyError, TypeError) as problem:
            raise MeasurementError(f"not a measurement of schema {version}: {problem}") from problem


@dataclass(frozen=True)
class KernelLatency:
    """Predicted latency of one kernel of a network."""

    name: str
    kernel_type: str
    operators: tuple[str, ...]
    configuration: Mapping[str, float]
    latency_ms: float
    covered: bool
    unknown: bool = False


@dataclass(frozen=True)
class Coverage:
    """How much of a prediction rests on predictors that were trained on the like.

    Attributes:
        share: Part of the predicted latency (0 to 1) that such predictors gave.
        uncovered: Operators in kernels that are estimated: priced without a predictor trained on the like.
        unknown: Operators in kernels of which the bundle does not say whether the like was trained on; in neither of the two.
    """

    share: float
    uncovered: tuple[str, ...]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prediction:
    """Latency of one network on one platform, in milliseconds, with its interval and its reason.

    ``level`` is the percentage of networks whose latency should lie in the interval; None where nobody calibrated it.
    """

    model: str
    platform: str
    latency_ms: float
    low_ms: float
    high_ms: float
    coverage: Coverage
    warnings: tuple[str, ...] = ()
    kernels: tuple[KernelLatency, ...] = ()
    overhead_ms: float = 0.0
    level: float | None = None

    def to_json(self, *, breakdown: bool = False) -> dict[str, Any]:
        """The JSON form that scripts rely on; the share is from 0 to 1."""
        data: dict[str, Any] = {
            "model": self.model,
            "platform": self.platform,
            "latency_ms": self.latency_ms,
            "low_ms": self.low_ms,
            "high_ms": self.high_ms,
            "level": self.level,
            "coverage": {
                "share": self.coverage.share,
                "uncovered": list(self.coverage.uncovered),
                "unknown": list(self.coverage.unknown),
            },
            "warnings": list(self.warnings),
        }
        if breakdown:
            data["overhead_ms"] = self.overhead_ms
            data["kernels"] = [
                {
                    "name": kernel.name,
                    "kernel_type": kernel.kernel_type,
                    "operators": list(kernel.operators),
                    "configuration": dict(kernel.configuration),
                    "latency_ms": kernel.latency_ms,
                    "covered": kernel.covered,
                    "unknown": kernel.unknown,
                }
                for kernel in self.kernels
            ]
        return data
