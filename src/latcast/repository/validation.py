"""From what a stranger sent to measurements: sizes, types and texts are checked before anything is made of them.

What is malformed is refused whole, with the line; what is well-formed but hard to believe is a matter of
:mod:`latcast.repository.plausibility`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from latcast.errors import LatcastError, RepositoryError
from latcast.records import Measurement, Platform, Reference

MAX_BODY_BYTES = 8_000_000
"""Of a request as it comes over the wire."""

MAX_CONTENT_BYTES = 40_000_000
"""Of a request after decompression."""

MAX_RECORDS = 1000
MAX_LINE_BYTES = 1_000_000
MAX_RUNS = 10_000
MAX_KERNELS = 10_000
MAX_DEPTH = 12
MAX_TEXT = 4000
MAX_PARAMETERS_BYTES = 20_000
MAX_ENVIRONMENT_BYTES = 60_000
MAX_INTEGER = 2**53
"""Beyond it, a JSON number is not the same for every reader."""

_ROLES = ("network", "kernel")
_SPACE = re.compile(r"[a-z0-9_]+(?:/[a-z0-9_.+-]+)?")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z")
_UNSTORABLE = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff]")
_HASH = re.compile(r"[0-9a-f]{16,64}")
_LENGTHS: Mapping[str, int] = {
    "platform": 200,
    "device": 100,
    "runtime": 100,
    "version": 50,
    "unit": 100,
    "space": 100,
    "name": 200,
}


class MalformedUploadError(RepositoryError):
    """Content that is no list of measurements; nothing of it is stored."""


def parse_upload(content: bytes) -> list[Measurement]:
    """The measurements of a JSON Lines document; blank lines are skipped.

    Files are stored by the hash of their content and their name: a path that comes along is dropped, unread.

    Raises:
        MalformedUploadError: There are too many lines, or one is too long or not a measurement; says which and why.
    """
    found: list[Measurement] = []
    for number, line in _lines(content):
        if len(found) >= MAX_RECORDS:
            raise MalformedUploadError(f"line {number}: more than {MAX_RECORDS} records; send them in several uploads")
        try:
            found.append(_measurement(line))
        except (LatcastError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
            text = (
                str(problem) if isinstance(problem, LatcastError) else f"not a measurement ({type(problem).__name__}: {problem})"
            )
            raise MalformedUploadError(f"line {number}: {text}") from problem
    if not found:
        raise MalformedUploadError("no measurement in the upload; expected JSON Lines, one measurement a line")
    return found


def _lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(content.split(b"\n"), start=1):
        if len(line) > MAX_LINE_BYTES:
            raise MalformedUploadError(f"line {number}: {len(line)} bytes, expected at most {MAX_LINE_BYTES}")
        if line.strip():
            yield number, line


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedUploadError(f"{name} where a finite number was expected")


def _measurement(line: bytes) -> Measurement:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedUploadError("not UTF-8") from None
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as problem:
        raise MalformedUploadError(f"not JSON ({problem})") from None
    if not isinstance(data, dict):
        raise MalformedUploadError(f"a {type(data).__name__} where a JSON object was expected")
    _check_values(data)
    _check_types(data)
    return _checked(Measurement.from_json(data))


def _check_values(value: Any, depth: int = 0) -> None:
    """Nothing that a database or another reader could choke on, at any depth."""
    if depth > MAX_DEPTH:
        raise MalformedUploadError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise MalformedUploadError(f"a text of {len(value)} characters, expected at most {MAX_TEXT}")
        if _UNSTORABLE.search(value):
            raise MalformedUploadError("a text with control characters or broken Unicode")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise MalformedUploadError("a number that is not finite")
    elif isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise MalformedUploadError(f"an integer beyond ±{MAX_INTEGER}")
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_values(key, depth + 1)
            _check_values(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_values(item, depth + 1)


_NUMBER = (int, float)
_TYPES: Mapping[str, tuple[type, ...]] = {
    "schema": (int,), "platform": (str,), "reference": (dict,), "role": (str,), "runs_ms": (list,), "probe_ms": (list,),
    "rounds": (list,), "latency_ms": (*_NUMBER, type(None)), "raw_latency_ms": (*_NUMBER, type(None)),
    "variation": (*_NUMBER, type(None)), "statistic": (str,), "warmup_runs": (int,), "taken_at": (str,), "executed": (list,),
    "error": (str, type(None)), "environment": (dict,), "probe_parts_ms": (dict,),
}  # fmt: skip


def _check_types(data: Mapping[str, Any]) -> None:
    for name, value in data.items():
        if name not in _TYPES:
            raise MalformedUploadError(f"a field '{name[:40]}', which no measurement has")
        if isinstance(value, bool) or not isinstance(value, _TYPES[name]):
            raise MalformedUploadError(f"{name} is a {type(value).__name__}")
    reference = data.get("reference", {})
    if not isinstance(reference.get("space"), str) or not isinstance(reference.get("parameters", {}), dict):
        raise MalformedUploadError("reference without a space (a text) and parameters (an object)")
    if not isinstance(reference.get("name", ""), str):
        raise MalformedUploadError("reference whose name is no text")
    for name in ("runs_ms", "probe_ms", "rounds"):
        _check_numbers(name, data.get(name, []))
    for part, readings in data.get("probe_parts_ms", {}).items():
        if not isinstance(readings, list):
            raise MalformedUploadError(f"probe_parts_ms '{part[:40]}' is a {type(readings).__name__}")
        _check_numbers("probe_parts_ms", readings)
    if any(isinstance(item, bool) or not isinstance(item, int) for item in data.get("rounds", [])):
        raise MalformedUploadError("rounds with a value that is no integer")
    _check_executed(data.get("executed", []))
    if not isinstance(data.get("environment", {}).get("moment", {}), dict):
        raise MalformedUploadError("environment whose moment is no object")


def _check_numbers(name: str, values: list[Any]) -> None:
    if len(values) > MAX_RUNS:
        raise MalformedUploadError(f"{len(values)} {name}, expected at most {MAX_RUNS}")
    if any(isinstance(item, bool) or not isinstance(item, _NUMBER) or item < 0 for item in values):
        raise MalformedUploadError(f"{name} with a value that is no number of at least 0")


def _check_executed(kernels: list[Any]) -> None:
    if len(kernels) > MAX_KERNELS:
        raise MalformedUploadError(f"{len(kernels)} executed kernels, expected at most {MAX_KERNELS}")
    for kernel in kernels:
        right = (
            isinstance(kernel, dict)
            and isinstance(kernel.get("name"), str)
            and isinstance(kernel.get("kind"), str)
            and isinstance(kernel.get("nodes"), list)
            and all(isinstance(node, str) for node in kernel["nodes"])
            and isinstance(kernel.get("latency_ms"), _NUMBER)
            and kernel["latency_ms"] >= 0
            and isinstance(kernel.get("configuration", {}), dict)
        )
        if not right:
            raise MalformedUploadError("an executed kernel without name, kind, nodes and a latency_ms of at least 0")


def _checked(measurement: Measurement) -> Measurement:
    """What the types alone do not say."""
    platform = Platform.parse(measurement.platform)
    if platform.device == "local":
        raise MalformedUploadError("the platform's device is 'local', which means another machine everywhere; name the device")
    for what, text in (
        ("platform", measurement.platform), ("device", platform.device), ("runtime", platform.runtime),
        ("version", platform.runtime_version), ("unit", platform.unit), ("space", measurement.reference.space),
        ("name", measurement.reference.name),
    ):  # fmt: skip
        if len(text) > _LENGTHS[what]:
            raise MalformedUploadError(f"a {what} of {len(text)} characters, expected at most {_LENGTHS[what]}")
    if measurement.role not in _ROLES:
        raise MalformedUploadError(f"role '{measurement.role[:40]}', expected one of {', '.join(_ROLES)}")
    if measurement.taken_at and not _MOMENT.fullmatch(measurement.taken_at):
        raise MalformedUploadError(
            f"taken_at '{measurement.taken_at[:40]}', expected a time in UTC such as 2026-01-31T12:00:00.000Z"
        )
    if len(measurement.statistic) > 100:
        raise MalformedUploadError("statistic of more than 100 characters")
    if not 0 <= measurement.warmup_runs <= 1_000_000:
        raise MalformedUploadError(f"warmup_runs {measurement.warmup_runs}")
    for name in ("probe_ms", "rounds"):
        values = getattr(measurement, name)
        if values and len(values) != len(measurement.runs_ms):
            raise MalformedUploadError(f"{len(measurement.runs_ms)} runs_ms but {len(values)} {name}; expected one for each run")
    if measurement.error is None and measurement.latency_ms is None:
        raise MalformedUploadError("neither latency_ms nor error; a measurement has a latency or says why it failed")
    if measurement.variation is not None and measurement.variation < 0:
        raise MalformedUploadError("variation below 0")
    if len(json.dumps(dict(measurement.environment))) > MAX_ENVIRONMENT_BYTES:
        raise MalformedUploadError(f"environment of more than {MAX_ENVIRONMENT_BYTES} bytes")
    return replace(measurement, reference=without_path(measurement.reference))


def without_path(reference: Reference) -> Reference:
    """A network as strangers may know it: a file by its hash and name, without where it lies.

    Raises:
        MalformedUploadError: A file has no hash, or the reference is malformed.
    """
    if not _SPACE.fullmatch(reference.space):
        raise MalformedUploadError(f"'{reference.space[:40]}' is no name of a space")
    parameters = dict(reference.parameters)
    if reference.space == "file":
        parameters = {name: value for name, value in parameters.items() if name in ("sha256", "shapes")}
        if not _HASH.fullmatch(str(parameters.get("sha256", ""))):
            raise MalformedUploadError("a file without the sha256 of its content")
    if len(json.dumps(parameters)) > MAX_PARAMETERS_BYTES:
        raise MalformedUploadError(f"parameters of more than {MAX_PARAMETERS_BYTES} bytes")
    return Reference(reference.space, parameters, reference.name.rpartition("/")[2])
