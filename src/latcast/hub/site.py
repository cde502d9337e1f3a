"""What a running server holds: the database, the model that serves, cached answers."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from latcast.hub.database import RepositoryDatabase
from latcast.hub.forecasting import Forecaster
from latcast.hub.queries import RepositoryReader
from latcast.hub.refitting import Refitter, ServedModel

CACHE_S = 2.0
"""How long an answer may be old: another process may have changed the database meanwhile."""

MAX_CACHED = 2000


@dataclass(frozen=True)
class ServerSettings:
    """How a server behaves.

    Attributes:
        reads_per_minute, writes_per_minute: Limits for one address; 0 for none.
        refit: Whether to fit the model as measurements arrive.
        refit_quiet_s: Time without a new upload before that.
        fit_in_process: Whether a fit runs in a process of its own.
    """

    reads_per_minute: int = 3000
    writes_per_minute: int = 60
    refit: bool = True
    refit_quiet_s: float = 1.0
    fit_in_process: bool = True


class AnswerCache:
    """Answers as bytes, until something new arrives or they are :data:`CACHE_S` old."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._revision = 0
        self._kept: OrderedDict[tuple[str, ...], tuple[int, float, bytes]] = OrderedDict()

    def get(self, key: tuple[str, ...]) -> bytes | None:
        """The answer, where it is fresh."""
        found = self._kept.get(key)
        if found is None or found[0] != self._revision or self._clock() - found[1] > CACHE_S:
            return None
        return found[2]

    def make(self, key: tuple[str, ...], answer: Callable[[], bytes]) -> bytes:
        """Makes and keeps an answer."""
        revision, begun_s = self._revision, self._clock()
        content = answer()
        self._kept[key] = (revision, begun_s, content)
        while len(self._kept) > MAX_CACHED:
            self._kept.popitem(last=False)
        return content

    def forget(self) -> None:
        """Makes every answer stale."""
        self._revision += 1


@dataclass
class Site:
    """Everything that answers are made from."""

    database: RepositoryDatabase
    settings: ServerSettings
    served: ServedModel = field(default_factory=ServedModel)
    cache: AnswerCache = field(default_factory=AnswerCache)

    def __post_init__(self) -> None:
        self.reader = RepositoryReader(self.database)
        self.forecaster = Forecaster(self.served)
        self.refitter = Refitter(
            self.database, self.served, quiet_s=self.settings.refit_quiet_s, own_process=self.settings.fit_in_process
        )


def as_json(data: Any) -> bytes:
    """Compact JSON."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
