"""Fitting the cross-device model again as measurements arrive, while the old one serves (Ganesan et al., §I and §V).

A fit runs in a process of its own, so that a large one neither slows answers down nor takes the server along.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from random import Random
from typing import Any, cast

import numpy as np

from latcast.chips.chip_names import silicon
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

FIT_MEMORY_BYTES = 2 * 2**30

HELD_OUT_PLATFORMS = 200
"""On so many a model is judged at most, drawn with a seed: a thousand would take a minute, and tell little more."""

FIRST_RETRY_S, LONGEST_RETRY_S = 30.0, 3600.0
"""After a fit that failed; each further time twice as long."""

KEPT_CONTENTS = 3
"""Versions whose content is kept; of older ones their figures are."""

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


def fit(observations: Sequence[Observation], known: HubModel | None = None) -> Fit:
    """The model of some latencies and its error on devices that it did not see.

    Args:
        observations: All latencies.
        known: The model that serves, of which is taken over what rests on the same latencies.

    Raises:
        TrainingError: No way of fitting works for them.
    """
    started_s = time.monotonic()
    failed = []
    for name in choose(observations):
        fitter = FITTERS.get(name)
        try:
            model = fitter.fit(observations, known)
            held_out, note = held_out_error(fitter, observations, known=model)
        except LatcastError as problem:
            failed.append(f"{name}: {problem}")
            continue
        return Fit(name, model.to_json(), held_out, "; ".join([*failed, note] if note else failed), time.monotonic() - started_s)
    raise TrainingError(f"no cross-device model fits {len(observations)} latencies: {'; '.join(failed) or 'none was tried'}")


def held_out_error(
    fitter: Fitter, observations: Sequence[Observation], seed: int = 0, known: HubModel | None = None
) -> tuple[dict[str, Any] | None, str]:
    """Metrics on devices of trusted contributors held out of the fit, in folds.

    A device is held out with all its platforms and with all devices of its silicon, those that come with latcast too. What these
    have taught about kinds of units in general stays in the model.

    A stranger's devices judge nothing: whoever makes them up can make them up to be predicted well. Of each held-out platform
    :data:`SIGNATURE_SIZE` networks (at most half of them) are given, drawn with a seed; the rest is predicted.

    Returns:
        The metrics, or None and the reason.
    """
    trusted = [item for item in observations if item.trusted]
    device_of = {name: Platform.parse(name).device for name in {item.platform for item in observations}}
    devices = sorted({device_of[item.platform] for item in trusted})
    if len(devices) < MIN_DEVICES:
        return None, f"no error on held-out devices: {len(devices)} of trusted contributors, expected at least {MIN_DEVICES}"
    random = Random(seed)
    die_of = {device: silicon(device) for device in device_of.values()}
    dies = sorted({die_of[device] for device in devices})
    random.shuffle(dies)
    names = sorted({item.platform for item in trusted})
    judged = set(random.sample(names, min(HELD_OUT_PLATFORMS, len(names))))
    predicted: list[tuple[float, float, float, float]] = []
    missing = 0
    for fold in range(min(FOLDS, len(dies))):
        held = {device for device, die in die_of.items() if die in dies[fold::FOLDS]}
        rest = [item for item in observations if device_of[item.platform] not in held]
        if not rest:
            continue
        model = fitter.fit(rest, known).without(held)
        by_platform: dict[str, list[Observation]] = {}
        for item in trusted:
            if item.platform in judged and device_of[item.platform] in held:
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
    known = {item.reference.key: item.latency_ms for item in drawn[:given]}
    forecasts = model.predict([item.reference for item in rest], known, items[0].platform)
    found = []
    for item in rest:
        forecast = forecasts.get(item.reference.key)
        if forecast is not None:
            found.append((item.latency_ms, forecast.latency_ms, forecast.low_ms, forecast.high_ms))
    return found, len(rest) - len(found)


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

    def serve_seed(self) -> None:
        """Serves what comes with latcast, as version 0: nothing was measured yet.

        Raises:
            LatcastError: This copy of latcast comes without it.
        """
        from latcast.hub.device_model import FITTER, NAME

        model = FITTER.seed()
        note = "the model of devices that comes with latcast; nothing was contributed yet"
        self._now = (ModelVersion(0, "", NAME, 0, len(model.pool.platforms), 0, 0.0, None, note, {}), model)


def refit(database: HubDatabase, served: ServedModel, *, own_process: bool = False) -> ModelVersion | None:
    """Fits to everything the database believes, keeps the version, and serves it.

    Args:
        database: Where measurements are and versions are kept.
        served: What answers meanwhile.
        own_process: Fit in a process of its own, which ends with this one.

    Returns:
        The version; None where there is nothing to fit to.

    Raises:
        LatcastError: The fit failed; the old model goes on serving.
    """
    if own_process:
        number = _in_own_process(database.url)
        version = None if number is None else database.newest_model()
    else:
        version = fit_and_keep(database, served.model)
    if version is not None:
        served.serve(version)
    return version


def fit_and_keep(database: HubDatabase, known: HubModel | None = None) -> ModelVersion | None:
    """Fits to everything the database believes and keeps the version; None where there is nothing to fit to.

    Args:
        database: Where measurements are and versions are kept.
        known: An earlier model, of which is taken over what rests on the same latencies.

    Raises:
        TrainingError: The fit failed.
    """
    records = len(database)
    observations = database.observations()
    if not observations:
        return None
    result = fit(observations, known)
    version = ModelVersion(
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
    return database.keep_model(version, contents=KEPT_CONTENTS)


def _in_own_process(url: str) -> int | None:
    """Number of the version that another process fits and keeps; None where there is nothing to fit to.

    Raises:
        TrainingError: That process failed, or was ended.
    """
    context = get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_fit_for_parent, args=(url, sending), daemon=True)
    process.start()
    sending.close()
    try:
        found: dict[str, Any] = receiving.recv()
    except EOFError:
        found = {}
    process.join()
    if "number" in found:
        return cast("int | None", found["number"])
    ended = f"the process that fits it ended with code {process.exitcode}"
    if process.exitcode == -9:
        ended += " (killed; out of memory?)"
    raise TrainingError(found.get("problem") or ended)


def _fit_for_parent(url: str, answer: Connection) -> None:
    """What the process of a fit does; it never outlives the server that began it."""
    end_with_parent()
    _limit_memory()
    try:
        with HubDatabase(url) as database:
            served = ServedModel()
            newest = database.newest_model()
            if newest is not None:
                with suppress(LatcastError, KeyError, TypeError, ValueError):
                    served.serve(newest)
            version = fit_and_keep(database, served.model)
        answer.send({"number": None if version is None else version.number})
    except MemoryError:
        answer.send({"problem": f"it takes more than {FIT_MEMORY_BYTES / 2**30:.0f} GB of memory"})
    except LatcastError as problem:
        answer.send({"problem": str(problem)})


def end_with_parent() -> None:
    """Ends this process as soon as the one that started it is gone, however that ended."""
    parent = parent_process()
    assert parent is not None, "this is a child"

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _limit_memory() -> None:
    """For a process that builds networks which strangers have named."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (FIT_MEMORY_BYTES, FIT_MEMORY_BYTES))


@dataclass(frozen=True)
class RefitState:
    """How fitting goes.

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

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Refitter:
    """A thread that fits again some time after it was told of new measurements, and again after a fit that failed.

    Of several servers of one database one fits; all serve what it fits.

    Args:
        database: Where they are.
        served: Gets the new model.
        quiet_s: Time without further news before a fit begins.
        own_process: Whether a fit runs in a process of its own.
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
        """Serves the newest version that is kept, and fits where measurements have come since."""
        newest = self._database.newest_model()
        if newest is not None and not self._serve(newest):
            newest = None
        if self._seed and self._served.model is None:
            try:
                self._served.serve_seed()
            except LatcastError as problem:
                _LOG.warning("there are no predictions before the first fit: %s", problem)
        if newest is None or newest.measurements != len(self._database):
            self._news.set()
        self._thread.start()

    def _serve(self, version: ModelVersion) -> bool:
        """Whether a version that is kept can be served; then it is."""
        try:
            self._served.serve(version)
        except (LatcastError, KeyError, TypeError, ValueError) as problem:
            _LOG.warning("version %d of the model cannot be served and is fitted again: %s", version.number, problem)
            return False
        return True

    def notify(self) -> None:
        """Says that there are new measurements."""
        self._news.set()

    def take_up(self) -> None:
        """Serves a version that another process has kept, and fits where that has left measurements out."""
        number = self._database.newest_model_number()
        serving = self._served.version
        if number is not None and (serving is None or serving.number < number):
            newest = self._database.newest_model()
            if newest is not None:
                self._serve(newest)
        serving = self._served.version
        if serving is None or serving.measurements != len(self._database):
            self._news.set()

    def stop(self) -> None:
        """Ends the thread; a fit that is running is waited for."""
        self._stopping.set()
        self._news.set()
        self._thread.join()

    def _run(self) -> None:
        retry_s = self._first_retry_s
        while True:
            self._news.wait(None if self.state.retry_in_s is None else self.state.retry_in_s)
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
                if isinstance(problem, LatcastError):
                    _LOG.error("fitting the cross-device model failed; the old one goes on serving: %s", problem)
                else:
                    _LOG.exception("fitting the cross-device model failed; the old one goes on serving")
                said = str(problem) if isinstance(problem, LatcastError) else type(problem).__name__
                self.state = RefitState(False, said, utc_now(), retry_s)
                retry_s = min(2 * retry_s, LONGEST_RETRY_S)
