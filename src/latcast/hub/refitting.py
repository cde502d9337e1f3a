"""Fitting the cross-device model again as measurements arrive, while the old one serves (Ganesan et al., §I and §V).

A fit runs in a process of its own, so that a large one neither slows answers down nor takes the server along.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from random import Random
from typing import Any

import numpy as np

from latcast.errors import LatcastError, TrainingError
from latcast.hub.database import HubDatabase, ModelVersion
from latcast.hub.model import Fitter, HubModel, Observation
from latcast.measure.environment import utc_now
from latcast.predictors.metrics import judge
from latcast.records import Platform
from latcast.registry import Registry

FITTERS: Registry[Fitter] = Registry(
    "cross-device model",
    {
        "devices": "latcast.hub.device_model:FITTER",
        "log-scale": "latcast.hub.model:LOG_SCALE",
    },
    group="latcast.cross_device_models",
)
"""Ways to fit, by the name that versions are kept under."""

PREFERRED = ("devices", "log-scale")
"""The first of these that has platforms enough and can be fitted is used."""

SIGNATURE_SIZE = 10
"""Networks that a held-out platform has measured, when a model is judged."""

FOLDS = 5
MIN_DEVICES = 3
"""Devices below which nothing can be held out."""

QUIET_S = 1.0
"""Time without a new upload before a fit begins, so that one fit serves a batch of them."""

LONGEST_WAIT_S = 30.0
"""Under uploads without end, a fit begins after this time all the same."""

FIT_MEMORY_BYTES = 6 * 2**30

_LOG = logging.getLogger("latcast.hub")


@dataclass(frozen=True)
class Fit:
    """Result of a fit, as values that cross a process boundary."""

    model: str
    content: Mapping[str, Any]
    held_out: Mapping[str, Any] | None
    note: str
    seconds: float


def choose(observations: Sequence[Observation]) -> list[str]:
    """Names of fitters for these data, the best first; the next one is for the case that a fit fails."""
    platforms = len({item.platform for item in observations})
    return [name for name in PREFERRED if name in FITTERS and FITTERS.get(name).min_platforms <= platforms]


def fit(observations: Sequence[Observation]) -> Fit:
    """The model of some latencies and its error on devices that it did not see.

    Raises:
        TrainingError: No way of fitting works for them.
    """
    started_s = time.monotonic()
    failed = []
    for name in choose(observations):
        fitter = FITTERS.get(name)
        try:
            model = fitter.fit(observations)
            held_out, note = held_out_error(fitter, observations)
        except LatcastError as problem:
            failed.append(f"{name}: {problem}")
            continue
        return Fit(name, model.to_json(), held_out, "; ".join([*failed, note] if note else failed), time.monotonic() - started_s)
    raise TrainingError(f"no cross-device model fits {len(observations)} latencies: {'; '.join(failed) or 'none was tried'}")


def held_out_error(fitter: Fitter, observations: Sequence[Observation], seed: int = 0) -> tuple[dict[str, Any] | None, str]:
    """Metrics on devices held out of the fit, with all their platforms, in folds.

    Of each held-out platform :data:`SIGNATURE_SIZE` networks (at most half of them) are given, drawn with a seed; the
    rest is predicted.

    Returns:
        The metrics, or None and the reason.
    """
    devices = sorted({Platform.parse(item.platform).device for item in observations})
    if len(devices) < MIN_DEVICES:
        return None, f"no error on held-out devices: {len(devices)} known, expected at least {MIN_DEVICES}"
    random = Random(seed)
    random.shuffle(devices)
    predicted: list[tuple[float, float, float, float]] = []
    missing = 0
    for fold in range(min(FOLDS, len(devices))):
        held = set(devices[fold::FOLDS])
        inside = [item for item in observations if Platform.parse(item.platform).device not in held]
        model = fitter.fit(inside)
        by_platform: dict[str, list[Observation]] = {}
        for item in observations:
            if Platform.parse(item.platform).device in held:
                by_platform.setdefault(item.platform, []).append(item)
        for items in by_platform.values():
            found, lost = _predict_rest(model, items, random)
            predicted += found
            missing += lost
    if not predicted:
        return None, "no error on held-out devices: no network of theirs was measured on any other"
    actual_ms, latency_ms, low_ms, high_ms = np.array(predicted).T
    return {**judge(latency_ms, actual_ms, low_ms, high_ms).to_json(), "devices": len(devices), "not_predicted": missing}, ""


def _predict_rest(
    model: HubModel, items: Sequence[Observation], random: Random
) -> tuple[list[tuple[float, float, float, float]], int]:
    """(actual, predicted, low, high) of the networks of one platform that were not given, and how many were not predicted."""
    drawn = random.sample(list(items), len(items))
    given = min(SIGNATURE_SIZE, len(drawn) // 2)
    if not given:
        return [], 0
    rest = drawn[given:]
    forecasts = model.predict([item.reference for item in rest], {item.reference.key: item.latency_ms for item in drawn[:given]})
    found = []
    for item in rest:
        forecast = forecasts.get(item.reference.key)
        if forecast is not None:
            found.append((item.latency_ms, forecast.latency_ms, forecast.low_ms, forecast.high_ms))
    return found, len(rest) - len(found)


def _limit_memory() -> None:
    """For a process that builds networks which strangers have named."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (FIT_MEMORY_BYTES, FIT_MEMORY_BYTES))


class ServedModel:
    """The model that answers, replaced at once when a new one is ready."""

    def __init__(self) -> None:
        self._now: tuple[ModelVersion, HubModel] | None = None

    @property
    def model(self) -> HubModel | None:
        return self._now[1] if self._now else None

    @property
    def version(self) -> ModelVersion | None:
        return self._now[0] if self._now else None

    def serve(self, version: ModelVersion) -> None:
        """Serves a version from now on.

        Raises:
            LatcastError: This latcast has no model of that name.
        """
        self._now = (version, FITTERS.get(version.model).load(version.content))


def refit(database: HubDatabase, served: ServedModel, *, own_process: bool = False) -> ModelVersion | None:
    """Fits to everything the database believes, keeps the version, and serves it.

    Args:
        database: Where measurements are and versions are kept.
        served: What answers meanwhile.
        own_process: Fit in a process of its own.

    Returns:
        The version; None where there is nothing to fit to.

    Raises:
        TrainingError: The fit failed; the old model goes on serving.
    """
    records = len(database)
    observations = database.observations()
    if not observations:
        return None
    if own_process:
        with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn"), initializer=_limit_memory) as pool:
            result = pool.submit(fit, observations).result()
    else:
        result = fit(observations)
    version = database.keep_model(
        ModelVersion(
            number=0,
            fitted_at=utc_now(),
            model=result.model,
            measurements=records,
            platforms=len({item.platform for item in observations}),
            networks=len({item.reference.key for item in observations}),
            seconds=result.seconds,
            held_out=result.held_out,
            note=result.note,
            content=result.content,
        )
    )
    served.serve(version)
    return version


class Refitter:
    """A thread that fits again some time after it was told of new measurements.

    Args:
        database: Where they are.
        served: Gets the new model.
        quiet_s: Time without further news before a fit begins.
        own_process: Whether a fit runs in a process of its own.
    """

    def __init__(self, database: HubDatabase, served: ServedModel, *, quiet_s: float = QUIET_S, own_process: bool = True) -> None:
        self._database = database
        self._served = served
        self._quiet_s = quiet_s
        self._own_process = own_process
        self._news = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refitter", daemon=True)

    def start(self) -> None:
        """Serves the newest version that is kept, and fits where measurements have come since."""
        newest = self._database.newest_model()
        if newest is not None:
            try:
                self._served.serve(newest)
            except (LatcastError, KeyError, TypeError, ValueError) as problem:
                _LOG.warning("version %d of the model cannot be served and is fitted again: %s", newest.number, problem)
                newest = None
        if newest is None or newest.measurements != len(self._database):
            self._news.set()
        self._thread.start()

    def notify(self) -> None:
        """Says that there are new measurements."""
        self._news.set()

    def stop(self) -> None:
        """Ends the thread; a fit that is running is waited for."""
        self._stopping.set()
        self._news.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._news.wait()
            begun_s = time.monotonic()
            while not self._stopping.is_set() and self._news.is_set() and time.monotonic() - begun_s < LONGEST_WAIT_S:
                self._news.clear()
                self._stopping.wait(self._quiet_s)
            self._news.clear()
            if self._stopping.is_set():
                return
            try:
                refit(self._database, self._served, own_process=self._own_process)
            except Exception:  # whatever happens to one fit, the server and the next fit go on
                _LOG.exception("fitting the cross-device model failed; the old one goes on serving")
