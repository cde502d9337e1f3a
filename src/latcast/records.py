"""The records that every room shares: platforms, network and kernel references, measurements."""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from latcast.errors import LatcastError, MeasurementError
from latcast.reading import check_schema
from latcast.tables import Rows, Tabular, milliseconds, plain_fields

SCHEMA_VERSION = 1
"""Version of every JSON document that latcast writes."""

PRECISIONS = ("fp32", "fp16", "bf16", "int8")
"""Precisions that latcast measures and predicts."""

UNSTATED = "unstated"
"""Placeholder in a platform id for a runtime's version or a precision that was not published."""

PUBLISHED_PRECISIONS = (*PRECISIONS, "w8a16", "w16a16", UNSTATED)
"""Precisions of published platforms: also bits of weights and activations, or not published."""

ACTIVATION_BYTES: Mapping[str, float] = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1, "w8a16": 2, "w16a16": 2}
"""Precision to bytes of an activation that the graph has as a floating-point number; none where unstated."""

WEIGHT_BYTES: Mapping[str, float] = {**ACTIVATION_BYTES, "w8a16": 1}
"""Bytes of a weight, by precision."""

ROLES = ("network", "kernel", "start", "beside", "language")

LEAST_MS, MOST_MS = 1e-9, 1e12
"""Range of latencies: a picosecond to thirty years."""

MOST_WEIGHT = 100
"""Largest exponent of a part of the probe."""

MOST_COUNT = 2**31 - 1
"""Largest number of rounds and warm-up runs."""

MOST_PLATFORM_CHARACTERS = 200

_PART = re.compile(r"[a-z0-9][a-z0-9._+-]*")

UNIT_KINDS = ("cpu", "gpu", "npu")
"""Kinds of units that latcast measures on."""

CORE_SIZES = ("small", "med", "large")
"""Kinds of cores in one device, the slowest first; a device with two kinds has no ``med``."""

_CORES = re.compile(r"(\d+)(large|med|small)")


@dataclass(frozen=True, slots=True)
class Unit:
    """The compute unit of a platform id.

    Example:
        >>> from latcast.records import Unit
        >>> Unit.parse("2large@2.4GHz").threads, Unit.parse("cpu1+sse42").qualifiers, Unit.parse("gpu").kind
        (2, ('sse42',), 'gpu')

    Attributes:
        kind: ``cpu``, ``gpu``, ``npu``, ``wasm``, ``webgpu``...
        threads: Threads of a CPU or of WebAssembly; 1 for any other kind.
        cores: Number and size of each kind of cores in a set such as ``1large1med``; empty for any other unit.
        qualifiers: The parts after ``+``.
    """

    kind: str
    threads: int = 1
    cores: tuple[tuple[int, str], ...] = ()
    qualifiers: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Unit:
        """Parse the third part of a platform id; any name but that of a CPU or a set of cores is a kind of unit."""
        clocked, *qualifiers = text.split("+")
        name = clocked.partition("@")[0]
        cores = tuple((int(count), size) for count, size in _CORES.findall(name))
        if cores and "".join(f"{count}{size}" for count, size in cores) == name:
            return cls("cpu", sum(count for count, _ in cores), cores, tuple(qualifiers))
        counted = re.match(r"(cpu|wasm)(\d+)", name)
        if counted:
            return cls(counted[1], int(counted[2]), (), tuple(qualifiers))
        kind = "cpu" if name[:1].isdigit() or name.startswith("cpu") else name.rstrip("0123456789")
        return cls(kind, 1, (), tuple(qualifiers))

    @property
    def batch(self) -> int:
        """Images that it computes at once: 256 of ``gpu+b256``."""
        return next((int(each[1:]) for each in self.qualifiers if re.fullmatch(r"b[1-9]\d{0,6}", each)), 1)


_UNIT = re.compile(rf"{_PART.pattern}(?:@\d+(?:\.\d+)?GHz(?:\+[a-z0-9._+-]+)?)?")


@dataclass(frozen=True, slots=True, order=True)
class Platform:
    """Device + runtime at one version + compute unit + precision: the thing a predictor is for.

    The id reads ``device/runtime-version/unit/precision``, for instance ``local/onnxruntime-1.31/cpu1/fp32``. The unit is
    ``cpuN``, a core set of the device (``2large``), ``gpu``, ``wasmN``, with the frequency after ``@`` where that is fixed
    (``cpu1@1.5GHz``) and qualifiers after ``+`` (``cpu1+sse42``).

    Example:
        >>> import latcast
        >>> phone = latcast.Platform.parse("pixel4/tflite-2.10/2large/fp32")
        >>> phone.runtime, phone.threads, phone.id
        ('tflite', 2, 'pixel4/tflite-2.10/2large/fp32')
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
        return Unit.parse(self.unit).threads

    @classmethod
    def parse(cls, text: str) -> Platform:
        """Parse a platform id.

        Raises:
            LatcastError: The text does not have the four parts, a part has a character outside ``[a-z0-9._+-]``, or it is too
                long.
        """
        if len(text) > MOST_PLATFORM_CHARACTERS:
            raise LatcastError(
                f"'{text[:40]}...' is not a platform id: {len(text)} characters, at most {MOST_PLATFORM_CHARACTERS}"
            )
        parts = text.split("/")
        shape = "device/runtime-version/unit/precision, for instance local/onnxruntime-1.31/cpu1/fp32"
        if len(parts) != 4 or not _UNIT.fullmatch(parts[2]) or not all(_PART.fullmatch(part) for part in (*parts[:2], parts[3])):
            raise LatcastError(f"'{text}' is not a platform id; expected {shape}")
        runtime, dash, version = parts[1].rpartition("-")
        if not dash or not runtime or not version:
            raise LatcastError(f"'{parts[1]}' in '{text}' has no runtime version; expected {shape}")
        if parts[3] not in PUBLISHED_PRECISIONS:
            raise LatcastError(f"'{parts[3]}' in '{text}' is not a precision; expected one of {', '.join(PUBLISHED_PRECISIONS)}")
        return cls(parts[0], runtime, version, parts[2], parts[3])

    @classmethod
    def stated(cls, device: str, runtime: str, unit: str, precision: str) -> Platform:
        """Return the platform of a device in any spelling and a runtime with or without its version; raises as :meth:`parse`."""
        return cls.parse(f"{device_name(device)}/{'-'.join(runtime_and_version(runtime))}/{unit}/{precision}")

    def __str__(self) -> str:
        return self.id


def device_name(text: str) -> str:
    """Return a device's name for a platform id: unchanged where an id may hold it, else in lower case with dashes.

    "Galaxy S21 (5G)" becomes ``galaxy-s21-5g``; the name is empty where no letter or digit is left.
    """
    if _PART.fullmatch(text):
        return text
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9._+]+", "-", plain).lstrip("-._+").rstrip("-._")


def runtime_and_version(text: str) -> tuple[str, str]:
    """Split ``tflite-2.16`` before its version: what follows the last dash, where that holds a digit, ``master`` or
    ``unstated``; a runtime without one has the version ``unstated``."""
    name, _, version = text.rpartition("-")
    return (name, version) if name and re.search(rf"\d|master|{UNSTATED}", version) else (text, UNSTATED)


def short_version(version: str) -> str:
    """Return the part of a runtime's version that names a platform: ``"1.31.1"`` becomes ``"1.31"``."""
    return ".".join(version.split(".")[:2])


@dataclass(frozen=True)
class Reference:
    """A recipe to build a network again: a few numbers instead of a file, so that datasets stay small.

    ``space`` names the builder in ``latcast.spaces`` ("resnet", "synthetic", "kernel/conv", ...) or is ``"file"``;
    ``parameters`` are JSON values: the builder's arguments, or the path and the content hash of a file.

    Example:
        >>> import latcast
        >>> small = latcast.Reference("mobilenet_v2", {"resolution": 160}, "my mobilenet")
        >>> latcast.build(small).shape("input")
        (1, 3, 160, 160)
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
    def from_json(cls, data: Any) -> Reference:
        """Read the output of :meth:`to_json`, ignoring further fields; raise a MeasurementError for another form."""
        known = {name: data[name] for name in _REFERENCE if name in data} if isinstance(data, Mapping) else data
        fields = _fields("a reference", known, _REFERENCE, needed=("space",))
        return cls(fields["space"], dict(fields.get("parameters", {})), fields.get("name", ""))

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True)
class ExecutedKernel:
    """One kernel as reported by the runtime.

    Attributes:
        name: The runtime's own name for it.
        kind: The runtime's own type ("FusedConv", "Convolution (NHWC, F32) IGEMM", ...).
        nodes: Names of the graph's nodes that it computes, in execution order; empty for one that the runtime inserted (a layout
            change).
        latency_ms: Median time over the profiled runs, normalised like its measurement.
        configuration: Published numbers that decide its latency ("input_channels": 64); otherwise empty, as they follow from the
            nodes.
    """

    name: str
    kind: str
    nodes: tuple[str, ...]
    latency_ms: float
    configuration: Mapping[str, int | str] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, Any]:
        """Return the fields, without a configuration where it is empty."""
        data: dict[str, Any] = {"name": self.name, "kind": self.kind, "nodes": self.nodes, "latency_ms": self.latency_ms}
        return {**data, "configuration": dict(self.configuration)} if self.configuration else data

    @classmethod
    def from_json(cls, data: Any) -> ExecutedKernel:
        """Read the output of :meth:`to_json`; raise a MeasurementError for another form or a latency out of range."""
        fields = _fields("an executed kernel", data, _EXECUTED, needed=("name", "kind", "nodes", "latency_ms"))
        if not all(isinstance(node, str) for node in fields["nodes"]):
            raise MeasurementError("an executed kernel with a node whose name is not a text")
        configuration = fields.get("configuration", {})
        if not all(isinstance(value, str) or type(value) is int for value in configuration.values()):
            raise MeasurementError("an executed kernel whose configuration holds other values than whole numbers and texts")
        check_ms("latency_ms of an executed kernel", [fields["latency_ms"]])
        return cls(fields["name"], fields["kind"], tuple(fields["nodes"]), fields["latency_ms"], dict(configuration))


@dataclass(frozen=True, repr=False)
class Measurement(Tabular):
    """Raw latencies of one network or kernel on one platform, with their environment.

    Example:
        >>> import latcast
        >>> runs_ms = (5.1, 5.0, 5.3)
        >>> latcast.Measurement(
        ...     "pixel4/tflite-2.10/gpu/fp16", latcast.model("resnet18"), runs_ms=runs_ms, latency_ms=5.1, raw_latency_ms=5.1
        ... )
        <Measurement resnet18 on pixel4/tflite-2.10/gpu/fp16: 5.10 ms, 3 runs>

    Attributes:
        platform: Platform id.
        reference: The network or kernel.
        role: "network", "kernel", "start" (of a network), "beside" (other programs) or "language" (a phase of a language model).
        runs_ms: Every timed run, raw, in milliseconds, in order.
        probe_ms: The probe's time around each run (same length as ``runs_ms``), or empty where no probe ran.
        probe_parts_ms: The readings of ``probe_ms`` by part of the probe ("compute", "memory").
        latency_ms: The latency: the median of the runs, each divided by its probe and multiplied by the probe's quiet time. None
            for a failed measurement.
        raw_latency_ms: Median of ``runs_ms``.
        variation: Relative spread of the normalised runs (quartile deviation over median); None for one run.
        rounds: Index of the round of each run; same length as ``runs_ms``.
        executed: The kernels the runtime ran, where it was profiled.
        error: Why it failed, or None.
        environment: Versions, CPU, affinity, threads, host load, time: see ``latcast.environment``.
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

    def _rows(self) -> Rows:
        probes = self.probe_ms or (None,) * len(self.runs_ms)
        columns = zip(self.runs_ms, self.rounds, probes, strict=True)
        return [{"round": number, "latency_ms": run_ms, "probe_ms": probe_ms} for run_ms, number, probe_ms in columns]

    def _shown(self) -> Rows:
        return [plain_fields(self)]

    def __repr__(self) -> str:
        found = f"failed: {self.error}" if self.latency_ms is None else f"{milliseconds(self.latency_ms)} ms"
        runs = f", {len(self.runs_ms)} runs" if self.ok else ""
        return f"<Measurement {self.reference.name or self.reference.space} on {self.platform}: {found}{runs}>"

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
    def from_json(cls, data: Any) -> Measurement:
        """Read the output of :meth:`to_json`.

        Raises:
            MeasurementError: A newer schema, a field is missing, unknown or of another type, a number is out of its range, or
                fields contradict each other.
        """
        version = data.get("schema") if isinstance(data, Mapping) else None
        if type(version) is int:
            check_schema(version, SCHEMA_VERSION, "a measurement", error=MeasurementError)
        fields = _fields("a measurement", data, _MEASUREMENT, needed=("platform", "reference"))
        fields.pop("schema", None)
        fields["reference"] = Reference.from_json(fields["reference"])
        fields["executed"] = tuple(ExecutedKernel.from_json(item) for item in fields.get("executed", ()))
        for name in ("runs_ms", "probe_ms", "rounds"):
            fields[name] = tuple(fields.get(name, ()))
        parts = fields.get("probe_parts_ms", {})
        fields["probe_parts_ms"] = {part: listed(f"probe_parts_ms '{part}'", readings) for part, readings in parts.items()}
        measurement = cls(**fields)
        _check(measurement)
        return measurement


_NUMBER = (int, float)

_REFERENCE: Mapping[str, type | tuple[type, ...]] = {"space": str, "parameters": dict, "name": str}

_EXECUTED: Mapping[str, type | tuple[type, ...]] = {
    "name": str, "kind": str, "nodes": (list, tuple), "latency_ms": _NUMBER, "configuration": dict,
}  # fmt: skip

_MEASUREMENT: Mapping[str, type | tuple[type, ...]] = {
    "schema": int, "platform": str, "reference": dict, "role": str, "runs_ms": (list, tuple), "probe_ms": (list, tuple),
    "rounds": (list, tuple), "latency_ms": (*_NUMBER, type(None)), "raw_latency_ms": (*_NUMBER, type(None)),
    "variation": (*_NUMBER, type(None)), "statistic": str, "warmup_runs": int, "taken_at": str, "executed": (list, tuple),
    "error": (str, type(None)), "environment": dict, "probe_parts_ms": dict,
}  # fmt: skip


def _fields(what: str, data: Any, types: Mapping[str, type | tuple[type, ...]], *, needed: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a record; raise a MeasurementError where one is unknown, of another type, or missing."""
    problem = None if isinstance(data, Mapping) else f"a {type(data).__name__} where an object was expected"
    for name, value in data.items() if problem is None else ():
        if name not in types:
            problem = f"a field '{name}', which it does not have"
        elif isinstance(value, bool) or not isinstance(value, types[name]):
            problem = f"{name} is a {type(value).__name__}"
        if problem:
            break
    problem = problem or next((f"no '{name}'" for name in needed if name not in data), None)
    if problem:
        raise MeasurementError(f"not {what} of schema {SCHEMA_VERSION}: {problem}")
    return dict(data)


def listed(what: str, values: Any) -> tuple[Any, ...]:
    """Return a file's list as a tuple; raise a MeasurementError for anything else."""
    if not isinstance(values, (list, tuple)):
        raise MeasurementError(f"{what} is a {type(values).__name__}, expected a list")
    return tuple(values)


def check_ms(what: str, values: Sequence[Any], *, above_zero: bool = False) -> None:
    """Raise a MeasurementError about ``what`` for values that are not times: other types, negative and infinite ones."""
    for value in values:
        if type(value) not in _NUMBER or not 0 <= value <= MOST_MS or (above_zero and value < LEAST_MS):
            least = "above 0" if above_zero else "that are not negative"
            shown = f"{value!r:.40}" if type(value) in _NUMBER else f"a {type(value).__name__}"
            raise MeasurementError(f"{what} must be numbers {least} and at most {MOST_MS:g}; found {shown}")


def _check(measurement: Measurement) -> None:
    """Raise for contradictions that the types alone do not show."""
    Platform.parse(measurement.platform)
    if measurement.role not in ROLES:
        raise MeasurementError(f"role '{measurement.role}', expected one of {', '.join(ROLES)}")
    readings = {f"probe_parts_ms '{part}'": values for part, values in measurement.probe_parts_ms.items()}
    for name, values in {"probe_ms": measurement.probe_ms, "rounds": measurement.rounds, **readings}.items():
        if (values or name in readings) and len(values) != len(measurement.runs_ms):
            raise MeasurementError(f"{len(measurement.runs_ms)} runs_ms but {len(values)} {name}; there must be one for each run")
    for name, values in {"runs_ms": measurement.runs_ms, "probe_ms": measurement.probe_ms, **readings}.items():
        check_ms(name, values, above_zero=True)
    for count in (*measurement.rounds, measurement.warmup_runs):
        if type(count) is not int or not 0 <= count <= MOST_COUNT:
            raise MeasurementError("rounds and warmup_runs must be whole numbers that are not negative")
    latency_ms = measurement.latency_ms
    if measurement.error is None and not (latency_ms is not None and LEAST_MS <= latency_ms <= MOST_MS):
        raise MeasurementError(
            f"latency_ms is {latency_ms!r:.40} and error is null; a measurement either has a positive latency ("
            f"{LEAST_MS:g} to {MOST_MS:g} ms) or says why it failed"
        )
    for name, value in (("latency_ms", latency_ms), ("raw_latency_ms", measurement.raw_latency_ms)):
        if value is not None:
            check_ms(name, [value])
    if measurement.variation is not None and not 0 <= measurement.variation < math.inf:
        raise MeasurementError(f"variation is {measurement.variation!r:.40}, expected a number that is not negative")
    _check_environment(measurement)


def _check_environment(measurement: Measurement) -> None:
    """Check those parts of an environment that figures are computed from."""
    moment = _object(measurement.environment, "moment", "environment")
    settings = _object(measurement.environment, "settings", "environment")
    if not isinstance(moment.get("worker"), (str, int, type(None))):
        raise MeasurementError("environment whose moment.worker is not a text")
    if type(moment.get("preempted_runs", 0)) is not int:
        raise MeasurementError("environment whose moment.preempted_runs is not a whole number")
    probe = _object(settings, "probe", "settings") if settings.get("probe") is not None else {}
    weights = moment.get("probe_weights") or []
    quiet_ms, parts = probe.get("quiet_ms") or [], probe.get("parts") or []
    if not isinstance(probe.get("key", None if quiet_ms else ""), str):
        raise MeasurementError("environment whose settings.probe.key is not a text")
    check_ms("settings.probe.quiet_ms", listed("settings.probe.quiet_ms", quiet_ms), above_zero=True)
    if not all(type(weight) in _NUMBER and 0 <= weight <= MOST_WEIGHT for weight in listed("moment.probe_weights", weights)):
        raise MeasurementError(f"environment whose moment.probe_weights are not numbers from 0 to {MOST_WEIGHT}")
    if not all(isinstance(part, str) for part in listed("settings.probe.parts", parts)):
        raise MeasurementError("environment whose settings.probe.parts are not texts")
    readings = measurement.probe_parts_ms
    if weights and readings and not (set(parts) == set(readings) and len(parts) == len(weights) == len(quiet_ms)):
        raise MeasurementError(
            f"probe_parts_ms of {', '.join(readings)}, but settings.probe.parts {', '.join(parts)} with {len(quiet_ms)} quiet "
            f"times and {len(weights)} weights; there must be one for each part"
        )


def _object(data: Mapping[str, Any], name: str, what: str) -> Mapping[str, Any]:
    """Return an object within another; an empty one where it is missing."""
    found = data.get(name, {})
    if not isinstance(found, Mapping):
        raise MeasurementError(f"{what} whose {name} is not an object")
    return found
