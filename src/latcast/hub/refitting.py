"""Fitting the cross-device model again as measurements arrive, while the old one serves (Ganesan et al., §I and §V).

A fit runs in a separate process, so that a large one neither slows answers down nor ends the server when it fails.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from random import Random
from typing import Any

import numpy as np

from latcast.chips.chip_names import silicon
from latcast.environment import utc_now
from latcast.errors import LatcastError, TrainingError
from latcast.hub.database import HubDatabase
from latcast.hub.model import NAME, HubModel
from latcast.hub.scales import Observation
from latcast.hub.schema import ModelVersionRow
from latcast.predictors.metrics import judge
from latcast.records import Platform

SIGNATURE_SIZE = 10
"""Networks that a held-out platform has measured, when a model is judged."""

FOLDS = 5

MIN_DEVICES = 3
"""Devices below which nothing can be held out."""

HELD_OUT_PLATFORMS = 200
"""Most platforms that a model is judged on, drawn with a seed: a thousand would take a minute."""

QUIET_S = 1.0
"""Time without a new upload before a fit begins, so that one fit serves a batch of them."""

LONGEST_WAIT_S = 30.0
"""Under uploads without end, a fit begins after this time all the same."""

FIRST_RETRY_S, LONGEST_RETRY_S = 30.0, 3600.0
"""After a fit that failed; each further time twice as long."""

FIT_MEMORY_BYTES = 2 * 2**30

KEPT_CONTENTS = 3
"""Versions whose content is kept; of older ones their figures are."""

_LOG = logging.getLogger("latcast.hub")


def held_out_error(observations: Sequence[Observation], model: HubModel) -> tuple[dict[str, Any] | None, str]:
    """Judge fits on devices of trusted contributors held out of them, in folds.

    A device is held out with all its platforms and with all devices of its silicon, those that come with latcast too. What these
    have taught about kinds of units in general stays in the model. A stranger's devices judge nothing: they can be made up to be
    predicted well. Of each held-out platform :data:`SIGNATURE_SIZE` networks (at most half of them) are given, drawn at random;
    the rest is predicted.

    Args:
        model: Fitted to all of them; what rests on the same latencies is taken from it.

    Returns:
        The metrics, or None and the reason.
    """
    device_of = {name: Platform.parse(name).device for name in {item.platform for item in observations}}
    trusted: dict[str, list[Observation]] = {}
    for item in observations:
        if item.trusted:
            trusted.setdefault(item.platform, []).append(item)
    devices = {device_of[name] for name in trusted}
    if len(devices) < MIN_DEVICES:
        return None, f"no error on held-out devices: {len(devices)} of trusted contributors, expected at least {MIN_DEVICES}"
    random = Random(0)
    die_of = {device: silicon(device) for device in device_of.values()}
    dies = sorted({die_of[device] for device in devices})
    random.shuffle(dies)
    judged = set(random.sample(sorted(trusted), min(HELD_OUT_PLATFORMS, len(trusted))))
    predicted: list[tuple[float, float, float, float]] = []
    missing = 0
    for fold in range(min(FOLDS, len(dies))):
        held = {device for device, die in die_of.items() if die in dies[fold::FOLDS]}
        rest = [item for item in observations if device_of[item.platform] not in held]
        if not rest:
            continue
        fitted = HubModel.fit(rest, model).without(held)
        for name, items in trusted.items():
            given = min(SIGNATURE_SIZE, len(items) // 2)
            if name not in judged or device_of[name] not in held or not given:
                continue
            drawn = random.sample(items, len(items))
            known = {item.reference.key: item.latency_ms for item in drawn[:given]}
            forecasts = fitted.predict([item.reference for item in drawn[given:]], known, name)
            for item in drawn[given:]:
                found = forecasts.get(item.reference.key)
                if found is None:
                    missing += 1
                else:
                    predicted.append((item.latency_ms, found.latency_ms, found.low_ms, found.high_ms))
    if not predicted:
        return None, "no error on held-out devices: no network of theirs was measured on any other"
    actual_ms, latency_ms, low_ms, high_ms = np.array(predicted).T
    return {**judge(latency_ms, actual_ms, low_ms, high_ms).to_json(), "devices": len(devices), "not_predicted": missing}, ""


def fit_and_keep(database: HubDatabase, before: HubModel | None = None) -> ModelVersionRow | None:
    """Fit to all measurements of the database and keep the version; None where there is nothing to fit to.

    Args:
        before: An earlier model; what rests on the same latencies is taken from it.

    Raises:
        LatcastError: The fit failed.
    """
    started_s, records = time.monotonic(), len(database)
    observations = database.observations()
    if not observations:
        return None
    model = HubModel.fit(observations, before)
    held_out, note = held_out_error(observations, model)
    version = ModelVersionRow(
        fitted_at=utc_now(),
        model=NAME,
        measurements=records,
        platforms=len({item.platform for item in observations}),
        networks=len({item.reference.key for item in observations}),
        seconds=time.monotonic() - started_s,
        held_out=held_out,
        note=note,
        content=model.to_json(),
    )
    database.keep_model(version, contents=KEPT_CONTENTS)
    return version


class ServedModel:
    """The model that answers, with its version; both are replaced at once when a new one is ready."""

    def __init__(self) -> None:
        self._now: tuple[ModelVersionRow, HubModel] | None = None

    @property
    def model(self) -> HubModel | None:
        return self._now[1] if self._now else None

    @property
    def version(self) -> ModelVersionRow | None:
        return self._now[0] if self._now else None

    @property
    def number(self) -> int | None:
        """Number of the version."""
        return self._now[0].number if self._now else None

    def serve(self, version: ModelVersionRow) -> bool:
        """Serve a version that is kept, and return whether that was possible; a warning says why it was not."""
        try:
            if version.model != NAME:
                raise TrainingError(f"this latcast has no model '{version.model}'")
            self._now = (version, HubModel.from_json(version.content))
        except (LatcastError, KeyError, TypeError, ValueError) as problem:
            _LOG.warning("version %d of the model cannot be served and is fitted again: %s", version.number, problem)
            return False
        return True

    def serve_seed(self) -> None:
        """Serve what comes with latcast, as version 0: nothing was measured yet.

        Raises:
            LatcastError: This copy of latcast comes without it.
        """
        model = HubModel.seed()
        note = "the model of devices that comes with latcast; nothing was contributed yet"
        platforms = len(model.pool.platforms)
        figures = {"measurements": 0, "platforms": platforms, "networks": 0, "seconds": 0.0, "held_out": None}
        self._now = (ModelVersionRow(number=0, fitted_at="", model=NAME, **figures, note=note, content={}), model)


def refit(database: HubDatabase, served: ServedModel, *, own_process: bool = False) -> ModelVersionRow | None:
    """Fit to all measurements of the database, keep the version, and serve it; None where there is nothing to fit to.

    Args:
        own_process: Fit in a separate process, which ends with this one.

    Raises:
        LatcastError: The fit failed; the old model goes on serving.
    """
    version = _fit_in_own_process(database) if own_process else fit_and_keep(database, served.model)
    if version is not None:
        served.serve(version)
    return version


def _fit_in_own_process(database: HubDatabase) -> ModelVersionRow | None:
    """Have a process that never outlives this one fit and keep a version.

    Raises:
        LatcastError: The fit failed, or the process was ended.
    """
    with ProcessPoolExecutor(1, get_context("spawn"), end_with_parent) as pool:
        try:
            kept = pool.submit(_fit_within_memory, database.url).result()
        except MemoryError as problem:
            raise TrainingError(f"it takes more than {FIT_MEMORY_BYTES / 2**30:.0f} GB of memory") from problem
        except BrokenProcessPool as problem:
            raise TrainingError("the process that fits it was ended; is there enough memory?") from problem
    return database.newest_model() if kept else None


def _fit_within_memory(url: str) -> bool:
    """Fit in this process, whose memory is limited, as strangers name networks; return whether there was anything to fit to."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (FIT_MEMORY_BYTES, FIT_MEMORY_BYTES))
    with HubDatabase(url) as database:
        served = ServedModel()
        if newest := database.newest_model():
            served.serve(newest)
        return fit_and_keep(database, served.model) is not None


def end_with_parent() -> None:
    """End this process as soon as the one that started it is gone, however that ended."""
    parent = parent_process()
    assert parent is not None, "this is a child"

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@dataclass(frozen=True)
class RefitState:
    """The state of fitting.

    Attributes:
        running: Whether a fit is under way.
        problem: Why the last one failed; empty where it did not.
        failed_at: When; None where it did not.
        retry_in_s: Until the next try after a failure.
    """

    running: bool = False
    problem: str = ""
    failed_at: str | None = None
    retry_in_s: float | None = None


class Refitter:
    """A thread that fits again some time after it was told of new measurements, and again after a fit that failed.

    Of several servers of one database one fits; all serve what it fits.

    Args:
        quiet_s: Time without further news before a fit begins.
        first_retry_s: After a first failure.
        seed: Whether what comes with latcast serves until something was fitted.
    """

    def __init__(
        self,
        database: HubDatabase,
        served: ServedModel,
        *,
        quiet_s: float = QUIET_S,
        own_process: bool = True,
        first_retry_s: float = FIRST_RETRY_S,
        seed: bool = False,
    ) -> None:
        self._database = database
        self._served = served
        self._quiet_s = quiet_s
        self._own_process = own_process
        self._first_retry_s = first_retry_s
        self._seed = seed
        self._news = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refitter", daemon=True)
        self.state = RefitState()

    def start(self) -> None:
        """Serve the newest version that is kept, and fit where measurements have come since."""
        if newest := self._database.newest_model():
            self._served.serve(newest)
        self._fit_what_is_new()
        if self._seed and self._served.model is None:
            try:
                self._served.serve_seed()
            except LatcastError as problem:
                _LOG.warning("there are no predictions before the first fit: %s", problem)
        self._thread.start()

    def notify(self) -> None:
        """Tell of new measurements."""
        self._news.set()

    def take_up(self) -> None:
        """Serve a version that another process has kept, and fit where that has left measurements out."""
        if (self._database.newest_model_number() or 0) > (self._served.number or 0) and (newest := self._database.newest_model()):
            self._served.serve(newest)
        self._fit_what_is_new()

    def _fit_what_is_new(self) -> None:
        version = self._served.version
        if len(self._database) != (0 if version is None else version.measurements):
            self._news.set()

    def stop(self) -> None:
        """End the thread; a fit that is running is waited for."""
        self._stopping.set()
        self._news.set()
        self._thread.join()

    def _run(self) -> None:
        retry_s = self._first_retry_s
        while True:
            self._news.wait(self.state.retry_in_s)
            begun_s = time.monotonic()
            while not self._stopping.is_set() and self._news.is_set() and time.monotonic() - begun_s < LONGEST_WAIT_S:
                self._news.clear()
                self._stopping.wait(self._quiet_s)
            self._news.clear()
            if self._stopping.is_set():
                return
            try:
                with self._database.fitting_turn() as ours:
                    if ours:
                        self.state = replace(self.state, running=True)
                        refit(self._database, self._served, own_process=self._own_process)
                self.state, retry_s = RefitState(), self._first_retry_s
            except Exception as problem:  # whatever happens to one fit, the server and the next fit go on
                expected = isinstance(problem, LatcastError)
                _LOG.error(
                    "fitting the cross-device model failed; the old one goes on serving: %s", problem, exc_info=not expected
                )
                self.state = RefitState(False, str(problem) if expected else type(problem).__name__, utc_now(), retry_s)
                retry_s = min(2 * retry_s, LONGEST_RETRY_S)
