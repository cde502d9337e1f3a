"""State of a running server: the database, the served model and its forecasts, cached answers."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latcast.errors import HubError, LatcastError
from latcast.hub import browser
from latcast.hub.cache import AnswerCache
from latcast.hub.database import HubDatabase
from latcast.hub.isolation import IsolatedForecasts
from latcast.hub.limits import ModelTurns
from latcast.hub.queries import HubReader
from latcast.hub.refitting import Refitter, ServedModel
from latcast.hub.scales import Forecast
from latcast.records import Reference

_LOG = logging.getLogger("latcast.hub")

HEALTH_S = 1.0
"""Time for which an answer about the database's health holds, as each check is a write."""

KEPT_FORECASTS = 1000


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server.

    Attributes:
        reads_per_minute, writes_per_minute: Limits for one address; 0 for none.
        refit: Whether to fit the model as measurements arrive.
        refit_quiet_s: Time without a new upload before that.
        fit_in_process: Whether a fit runs in a separate process.
        models_per_minute: Limit of strangers' models for one address; 0 for none.
        preload: Whether to load the platforms when the server starts, rather than for the first model.
        most_platforms: Platforms that come with latcast and that models are predicted on; all where None.
        seed: Whether what comes with latcast answers before anything was contributed.
        snapshots: Folder of the versions of all measurements that are offered.
    """

    reads_per_minute: int = 3000
    writes_per_minute: int = 60
    refit: bool = True
    refit_quiet_s: float = 1.0
    fit_in_process: bool = True
    models_per_minute: int = 30
    preload: bool = False
    most_platforms: int | None = None
    seed: bool = True
    snapshots: Path = Path("snapshots")


class Site:
    """The state that answers are made from."""

    def __init__(self, database: HubDatabase, settings: ServerSettings, models: IsolatedForecasts | None = None) -> None:
        self.database, self.settings = database, settings
        self.served, self.cache = ServedModel(), AnswerCache()
        self.turns = ModelTurns(settings.models_per_minute)
        self.reader = HubReader(database, self.served, seeded=settings.seed)
        self.forecaster = Forecaster(self.served)
        self.models = models or IsolatedForecasts(most_platforms=settings.most_platforms, database=database.url)
        self.refitter = Refitter(
            database, self.served, quiet_s=settings.refit_quiet_s, own_process=settings.fit_in_process, seed=settings.seed
        )
        self._yardstick: Mapping[str, Forecast] | None = None
        self._asking_health, self._health = threading.Lock(), (float("-inf"), False)

    def preload(self, closing: threading.Event) -> None:
        """Load the platforms, and write the networks that browsers fetch, so that the first device waits less."""
        try:
            self.models.start()
            if browser.find_assets() is not None:
                for reference in browser.served_networks().values():
                    if not closing.is_set():
                        browser.onnx_file(reference)
        except (LatcastError, OSError) as problem:
            _LOG.error("%s", problem)

    def yardstick(self) -> Mapping[str, Forecast]:
        """Return forecasts of :data:`latcast.hub.named_platforms.YARDSTICK` on platforms that come with latcast, by id.

        Empty where models are not read here.
        """
        if self._yardstick is None and self.settings.seed:
            with suppress(HubError):
                self._yardstick = {
                    row["platform"]: Forecast(row["latency_ms"], row["low_ms"], row["high_ms"])
                    for row in json.loads(self.models.first_answer().body)["predictions"]
                }
        return self._yardstick or {}

    def shared_model(self, key: str) -> bytes:
        """Return the shapes of a shared model.

        Raises:
            HubError: There is no such model (404).
        """
        found = self.database.shared_model(key)
        if found is None:
            raise HubError(f"no model is shared under '{key[:40]}'; its link may have been removed", 404)
        return found

    def take_up(self) -> None:
        """Answer from now on by the present content of the database, whichever process changed it."""
        if self.settings.refit:
            self.refitter.take_up()
        self.models.refresh()
        self.cache.forget()

    def healthy(self) -> bool:
        """Return whether the database keeps what is written; tried at most once in :data:`HEALTH_S`."""
        with self._asking_health:
            now_s = time.monotonic()
            if now_s >= self._health[0] + HEALTH_S:
                self._health = (now_s, self.database.healthy())
            return self._health[1]


def as_json(data: Any) -> bytes:
    """Return compact JSON."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


class Forecaster:
    """Asks the model that serves, and remembers its answers until another one serves.

    One question at a time: a large model takes a second for it, and so strangers cannot take more than one core.
    """

    def __init__(self, served: ServedModel) -> None:
        self._served = served
        self._asking = threading.Lock()
        self._kept: dict[str, dict[str, Forecast]] = {}

    def predict(self, networks: Sequence[Reference], measured: Mapping[str, float], platform: str = "") -> dict[str, Forecast]:
        """Predict as :meth:`HubModel.predict`; nothing where there is no model."""
        version, model = self._served.version, self._served.model
        if model is None or version is None or not networks:
            return {}
        question = json.dumps([version.number, sorted(item.key for item in networks), sorted(measured.items()), platform])
        key = hashlib.sha256(question.encode()).hexdigest()
        with self._asking:
            if key not in self._kept:
                self._kept[key] = model.predict(networks, measured, platform)
                if len(self._kept) > KEPT_FORECASTS:
                    del self._kept[next(iter(self._kept))]
            return self._kept[key]
