"""Made-up devices: each network takes as long as its index says, times the device's factor; and who uploads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from latcast.hub.database import HubDatabase
from latcast.hub.model import HubModel
from latcast.hub.scales import Observation
from latcast.hub.tokens import Token
from latcast.records import Measurement, Reference

NETWORKS = [Reference("resnet", {"depth": index, "width": 1.5}, f"resnet-{index}") for index in range(1, 21)]
"""Network ``index`` takes ``index`` milliseconds where the factor is 1."""

RUNTIMES = Path(__file__).parent / "data" / "runtimes.jsonl.gz"
"""Real latencies of five runtimes of one machine."""


def platform(device: str = "phone") -> str:
    return f"{device}/onnxruntime-1.31/cpu1/fp32"


def record(network: int = 1, *, device: str = "phone", factor: float = 1.0, day: int = 1, **changes: Any) -> Measurement:
    """Two runs, of 1 % less and more than the latency."""
    latency_ms = changes.pop("latency_ms", network * factor)
    values: dict[str, Any] = {
        "platform": platform(device),
        "reference": NETWORKS[network - 1],
        "runs_ms": (latency_ms * 0.99, latency_ms * 1.01),
        "rounds": (0, 1),
        "latency_ms": latency_ms,
        "raw_latency_ms": latency_ms,
        "variation": 0.01,
        "statistic": "median of runs",
        "warmup_runs": 2,
        "taken_at": f"2026-01-{day:02d}T12:00:00.000Z",
        "environment": {"host": {"cpu": {"model": "Example"}}, "moment": {"worker": f"w{day}"}},
    }
    return Measurement(**{**values, **changes})


def device(name: str, factor: float, networks: Iterable[int] = range(1, 21), day: int = 1) -> list[Measurement]:
    """One record of each network."""
    return [record(network, device=name, factor=factor, day=day) for network in networks]


def observed(measurements: Iterable[Measurement]) -> list[Observation]:
    """The observations that a model is fitted to."""
    return [Observation(item.platform, item.reference, item.latency_ms or 0.0) for item in measurements]


def lines(measurements: Iterable[Measurement | Mapping[str, Any]]) -> bytes:
    """As they are uploaded."""
    found = [item.to_json() if isinstance(item, Measurement) else item for item in measurements]
    return "".join(json.dumps(item) + "\n" for item in found).encode()


Contributor = tuple[int, Token]
"""The number of a contributor, and the token that they upload with."""


def contributor(database: HubDatabase, name: str = "Ann", **options: Any) -> Contributor:
    return database.check_token(database.issue_token(name, **options)[0])


def upload(
    database: HubDatabase, measurements: list[Measurement], who: Contributor | None = None, model: HubModel | None = None
) -> dict[str, Any]:
    number, token = contributor(database) if who is None else who
    return database.receive(number, lines(measurements), measurements, model, token)
