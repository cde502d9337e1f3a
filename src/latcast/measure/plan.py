"""How often and how long a subject is run: the numbers behind a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from latcast.errors import MeasurementError


@dataclass(frozen=True)
class MeasurePlan:
    """Rounds over a batch of subjects, bursts of runs in each round, a probe reading around each burst.

    A burst is one untimed run, then timed runs back to back until ``burst_runs`` or ``burst_ms`` is reached. The untimed run
    brings back into the caches what the probe displaced; a subject slower than ``burst_ms`` displaces its own data anyway
    and goes without.

    Attributes:
        rounds: Passes over the batch. Between two rounds of one subject all others have theirs, so that rounds see the
            host at different moments.
        runs_per_round: Timed runs of a subject in one round.
        warmup_runs: Untimed runs before a subject's first round.
        max_ms_per_round: A round ends early when its runs have taken this long, probes included; one timed run is always
            taken. Warm-ups end at the same limit.
        burst_runs: Most runs between two probe readings.
        burst_ms: Longest time between two probe readings, unless a single run takes longer.
        batch_size: Most subjects loaded at once.
        batch_bytes: A batch takes no further subject once its loading has grown the worker's memory by this much.
        profile: Also ask the runtime which kernels it executed and how long each took.
        profiled_runs: Runs behind the latencies of executed kernels.
        timeout_s: Longest time for loading a subject, or for one round of it, before the worker is given up.

    Example:
        >>> import latcast
        >>> latcast.MeasurePlan(rounds=2, runs_per_round=6).profile
        False
    """

    rounds: int = 4
    runs_per_round: int = 12
    warmup_runs: int = 5
    max_ms_per_round: float = 120.0
    burst_runs: int = 4
    burst_ms: float = 1.5
    batch_size: int = 20
    batch_bytes: int = 1_500_000_000
    profile: bool = False
    profiled_runs: int = 15
    timeout_s: float = 120.0

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not value >= least:
                raise MeasurementError(f"a measurement plan has {name} = {value}; expected at least {least}")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MeasurePlan:
        """Reads what :meth:`to_json` wrote.

        Raises:
            MeasurementError: A field is unknown or out of range.
        """
        unknown = sorted(set(data) - {field.name for field in fields(cls)})
        if unknown:
            raise MeasurementError(
                f"a measurement plan has no field '{unknown[0]}'; it was written by another version of latcast"
            )
        return cls(**data)


_LEAST: Mapping[str, float] = {
    "rounds": 1, "runs_per_round": 1, "warmup_runs": 0, "max_ms_per_round": 0, "burst_runs": 1, "burst_ms": 0,
    "batch_size": 1, "batch_bytes": 0, "profiled_runs": 1, "timeout_s": 0.01,
}  # fmt: skip

NETWORK_PLAN = MeasurePlan()
"""For networks of a few to some hundred milliseconds."""

KERNEL_PLAN = MeasurePlan(rounds=4, runs_per_round=12, warmup_runs=3, max_ms_per_round=20.0, batch_size=40)
"""For single kernels, of which a campaign takes thousands."""
