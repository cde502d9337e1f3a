"""Made-up devices, drawn from the priors of the model of devices, so that they differ as real ones do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import insert

from latcast.datasets.rows import Base, EnvironmentRow, MeasurementRow, PlatformRow, reference_row
from latcast.devices.covariates import covariates_of, kind_of
from latcast.devices.device_model import DeviceModel
from latcast.devices.device_model_file import load_device_model
from latcast.hub.database import HubDatabase
from latcast.hub.model import KnownNetworks
from latcast.hub.sharing import json_line
from latcast.predictors.platform_posterior import linearised
from latcast.records import Measurement, Platform, Reference

SUFFIXES = ("onnxruntime-1.31/cpu1/fp32", "tflite-2.17/cpu4/fp32", "tflite-2.17/gpu/fp16")
"""Of the platforms that devices are made up on."""


@dataclass(frozen=True)
class MadeUp:
    """Devices and networks.

    Attributes:
        platforms: Ids, a device each.
        references: Networks: those of known kernels first.
        latency_ms: (platforms, networks).
    """

    platforms: tuple[str, ...]
    references: tuple[Reference, ...]
    latency_ms: np.ndarray

    def records(
        self, platform: int, networks: Sequence[int], factor: np.ndarray | float = 1.0, day: int = 1
    ) -> list[Measurement]:
        """Return one record of each network on one platform, times a factor."""
        values = self.latency_ms[platform, list(networks)] * factor
        return [
            record(self.platforms[platform], self.references[network], float(latency_ms), day)
            for network, latency_ms in zip(networks, values, strict=True)
        ]


def record(platform: str, reference: Reference, latency_ms: float, day: int = 1) -> Measurement:
    """Return a measurement of ten runs."""
    runs_ms = tuple(latency_ms * (1 + 0.01 * step) for step in (-2, -1, 0, 0.5, 1.5))
    return Measurement(
        platform, reference, runs_ms=runs_ms, rounds=(0,) * len(runs_ms), latency_ms=latency_ms, raw_latency_ms=latency_ms,
        variation=0.02, statistic="median of runs", taken_at=f"2026-01-{day:02d}T12:00:00.000Z",
        environment={"host": {"cpu": {"model": "Made up"}}, "moment": {"worker": f"{platform}-{day}"}},
    )  # fmt: skip


def content(records: Sequence[Measurement]) -> bytes:
    """Return records as they are uploaded."""
    return b"".join(map(json_line, records))


def made_up(devices: int, networks: int, without_kernels: int = 0, seed: int = 0) -> MadeUp:
    """Make devices whose states are drawn from the priors of their kinds.

    Args:
        networks: Networks of known kernels, drawn from those that come with latcast.
        without_kernels: Further ones of which nothing but a name is known.
    """
    rng = np.random.default_rng(seed)
    pool = load_device_model()
    known = KnownNetworks.listed(pool)
    chosen = rng.permutation(len(known.row))[: networks + without_kernels]
    keys = [list(known.row)[place] for place in chosen]
    platforms = tuple(f"made-up-{index}/{SUFFIXES[index % len(SUFFIXES)]}" for index in range(devices))
    latency_ms = np.array([_latencies(pool, known, keys, platform, rng) for platform in platforms])
    latency_ms[:, networks:] *= np.exp(rng.normal(0, 0.5, without_kernels))
    nameless = [Reference("usc_nas", {"name": f"net{index}"}, f"net{index}") for index in range(without_kernels)]
    return MadeUp(platforms, (*(known.references[key] for key in keys[:networks]), *nameless), latency_ms)


def _latencies(pool: DeviceModel, known: KnownNetworks, keys: Sequence[str], name: str, rng: np.random.Generator) -> np.ndarray:
    """Return the latencies of one device, (networks,)."""
    platform = Platform.parse(name)
    kind = kind_of(platform, {})
    prior = pool.prior(kind, covariates_of(platform, kind))
    values, vectors = np.linalg.eigh(prior.covariance)
    # The symmetric root: of eigenvectors libraries differ in the sign, and draws would too.
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    state = prior.mean + root @ rng.normal(size=len(values))
    described = known.described(pool, keys)
    log_ms = linearised(state, described.terms, described.basis)[0]
    left = np.sqrt(described.novelty(pool.kinds[kind]) + pool.kinds[kind].noise ** 2)
    return np.exp(log_ms + left * rng.standard_t(4, len(keys)) / np.sqrt(2))


def fill(database: HubDatabase, found: MadeUp) -> int:
    """Put all of it into a database at once, as its administrator's own measurements; return the number of records."""
    tables = Base.metadata.tables
    with database._changing("fill") as session:
        session.add_all(reference_row(item.key, item) for item in found.references)
        session.add(EnvironmentRow(id="made-up", content={}))
        for name in found.platforms:
            parts = Platform.parse(name)
            names = ("device", "runtime", "runtime_version", "unit", "precision")
            session.add(PlatformRow(id=name, **{each: getattr(parts, each) for each in names}))
        session.flush()
        for row, name in enumerate(found.platforms):
            session.execute(insert(tables[MeasurementRow.__tablename__]), list(_rows(found, row, name)))
    return found.latency_ms.size


def _rows(found: MadeUp, row: int, name: str) -> Iterator[dict[str, object]]:
    for place, reference in enumerate(found.references):
        latency_ms = float(found.latency_ms[row, place])
        yield {
            "id": f"{row:016x}{place:016x}", "platform_id": name, "reference_key": reference.key, "environment_id": "made-up",
            "role": "network", "taken_at": "2026-01-01T12:00:00.000Z", "latency_ms": latency_ms, "raw_latency_ms": latency_ms,
            "variation": 0.02, "statistic": "median of runs", "warmup_runs": 2, "error": None,
            "runs": {"runs_ms": [latency_ms], "probe_ms": [], "probe_parts_ms": {}, "rounds": [0]}, "executed": [], "moment": {},
        }  # fmt: skip
