"""Times fitting, and its memory, with many devices and networks; and what a new device costs afterwards."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.hub.made_up import content, fill, made_up
from latcast.hub.database import HubDatabase
from latcast.hub.queries import HubReader
from latcast.hub.refitting import ServedModel, refit

SIGNATURE = 10


@dataclass(frozen=True)
class Fitting:
    """Figures of one database; seconds are processor time.

    Attributes:
        records: In the database.
        fit_s, fit_memory_gb: Of the process of the first fit, reading the database and judging on held-out devices included.
        version_mb: Size of the version that is kept.
        load_s: Until a server serves it.
        upload_s: Receiving ten records of a new device, judged by the model.
        forecast_s: Predicting all other networks on it, without a fit.
        refit_s: Of the process of the next fit.
        mape, interval_coverage: On held-out devices.
    """

    devices: int
    networks: int
    records: int
    fit_s: float
    fit_memory_gb: float
    version_mb: float
    load_s: float
    upload_s: float
    forecast_s: float
    refit_s: float
    mape: float
    interval_coverage: float


def fitting(devices: int = 1000, networks: int = 500) -> Fitting:
    """Fit, add a device, and fit again."""
    found = made_up(devices + 1, networks)
    with TemporaryDirectory() as folder, HubDatabase(str(Path(folder) / "hub.sqlite")) as database:
        records = fill(database, type(found)(found.platforms[:-1], found.references, found.latency_ms[:-1]))
        served = ServedModel()
        before_s = _children_s()
        version = refit(database, served, own_process=True)
        fit_s = _children_s() - before_s
        memory_gb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        assert version is not None
        started_s = time.process_time()
        served.serve(version)
        model = served.model
        assert model is not None
        load_s = time.process_time() - started_s
        new = found.records(devices, range(SIGNATURE))
        text, _ = database.issue_token("Ann", trusted=True)
        who, token = database.check_token(text)
        started_s = time.process_time()
        database.receive(who, content(new), new, model, token)
        upload_s = time.process_time() - started_s
        reader = HubReader(database, served)
        reader.references(), reader.groups(), reader.cells().ranges()
        started_s = time.process_time()
        page = reader.device_page(found.platforms[-1], model.predict)
        forecast_s = time.process_time() - started_s
        assert len(page["predicted"]) == networks - SIGNATURE, f"{len(page['predicted'])} networks were predicted"
        before_s = _children_s()
        refit(database, served, own_process=True)
        held_out = version.held_out or {}
        return Fitting(
            devices, networks, records, fit_s, memory_gb, len(str(version.content)) / 1e6, load_s, upload_s, forecast_s,
            _children_s() - before_s, float(held_out.get("mape", float("nan"))),
            float(held_out.get("interval_coverage", float("nan"))),
        )  # fmt: skip


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
