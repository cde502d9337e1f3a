"""Records to rows of the store's tables, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latcast.datasets.schema import EnvironmentRow, MeasurementRow, PlatformRow, ReferenceRow
from latcast.errors import MeasurementError
from latcast.measure.environment import MOMENT
from latcast.records import Measurement, Platform, Reference

_RUNS = ("runs_ms", "probe_ms", "probe_parts_ms", "rounds")


def platform_row(key: str, measurement: Measurement) -> PlatformRow:
    """A platform with the parts of its id."""
    parts = Platform.parse(key)
    return PlatformRow(
        id=key,
        device=parts.device,
        runtime=parts.runtime,
        runtime_version=parts.runtime_version,
        unit=parts.unit,
        precision=parts.precision,
    )


def reference_row(key: str, reference: Reference) -> ReferenceRow:
    """A network or kernel."""
    return ReferenceRow(key=key, space=reference.space, name=reference.name, parameters=dict(reference.parameters))


def environment_row(key: str, environment: Mapping[str, Any]) -> EnvironmentRow:
    """An environment without its moment."""
    return EnvironmentRow(id=key, content={name: value for name, value in environment.items() if name != MOMENT})


def measurement_values(key: str, measurement: Measurement, environment_key: str) -> dict[str, Any]:
    """A record as the columns of :class:`MeasurementRow`; the rows it refers to are made on their own.

    Columns rather than a mapped object: of a hundred thousand records at once, the mapping would be most of the work.
    """
    return {
        "id": key,
        "platform_id": measurement.platform,
        "reference_key": measurement.reference.key,
        "environment_id": environment_key,
        "role": measurement.role,
        "taken_at": measurement.taken_at,
        "latency_ms": measurement.latency_ms,
        "raw_latency_ms": measurement.raw_latency_ms,
        "variation": measurement.variation,
        "statistic": measurement.statistic,
        "warmup_runs": measurement.warmup_runs,
        "error": measurement.error,
        "runs": {
            "runs_ms": measurement.runs_ms,
            "probe_ms": measurement.probe_ms,
            "probe_parts_ms": dict(measurement.probe_parts_ms),
            "rounds": measurement.rounds,
        },
        "executed": [kernel.to_json() for kernel in measurement.executed],
        "moment": dict(measurement.environment.get(MOMENT, {})),
    }


def reference_of(row: ReferenceRow) -> Reference:
    """What :func:`reference_row` was given.

    Raises:
        MeasurementError: The row holds something else.
    """
    return Reference.from_json({"space": row.space, "parameters": row.parameters, "name": row.name})


def measurement_of(row: MeasurementRow) -> Measurement:
    """What :func:`measurement_values` was given.

    Raises:
        MeasurementError: The row holds something else.
    """
    runs: object = row.runs
    lasting: object = row.environment.content
    if not isinstance(runs, dict) or not isinstance(lasting, dict):
        raise MeasurementError("its runs or its environment are no object")
    stray = sorted(set(runs) - set(_RUNS))
    if stray:
        raise MeasurementError(f"runs with a field '{stray[0]}'; expected {', '.join(_RUNS)}")
    return Measurement.from_json(
        {
            "platform": row.platform_id,
            "reference": {"space": row.reference.space, "parameters": row.reference.parameters, "name": row.reference.name},
            "role": row.role,
            **runs,
            "latency_ms": row.latency_ms,
            "raw_latency_ms": row.raw_latency_ms,
            "variation": row.variation,
            "statistic": row.statistic,
            "warmup_runs": row.warmup_runs,
            "taken_at": row.taken_at,
            "executed": row.executed,
            "error": row.error,
            "environment": {**lasting, **({MOMENT: row.moment} if row.moment else {})},
        }
    )
