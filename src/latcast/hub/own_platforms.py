"""Platforms that a hub measured itself, as predictors beside those that come with latcast."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from latcast.hub.database import HubDatabase
from latcast.hub.named_platforms import facts_of
from latcast.hub.queries import HubReader
from latcast.hub.refitting import ServedModel
from latcast.predictors.platform_predictor import PlatformPredictor

MOST_OWN = 1000
"""Platforms of one hub that models are predicted on: those of trusted contributors and of most networks. Each takes 0.3 MB."""

REST = 5
"""Times as long as it has looked at the hub it does not look again, however much is uploaded."""


@dataclass(frozen=True)
class OwnPlatform:
    """A predictor of a platform, from the latencies measured there.

    Attributes:
        predictor: Its covariances in single precision.
        trusted: Whether a trusted contributor measured it.
        digest: Of the latencies that it rests on.
    """

    predictor: PlatformPredictor
    trusted: bool
    digest: str

    @property
    def facts(self) -> dict[str, object]:
        """Facts that stand beside a prediction."""
        about = {"trusted": self.trusted, "networks": self.predictor.card["measurements"]}
        return {**facts_of(self.predictor.platform, "hub"), **about}


class OwnPlatforms:
    """The platforms of one hub, kept from one look at its database (``url``) to the next, which is made in steps.

    Attributes:
        platforms: By id.
        left_out: Platforms that have no predictor yet, or are beyond :data:`MOST_OWN`.
        changed: Whether to look again.
        looked: Whether a look has ended.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.platforms: Mapping[str, OwnPlatform] = {}
        self.left_out = 0
        self.changed, self.looked = bool(url), False
        self._looking: Iterator[None] | None = None
        self._begun_s = self._not_before_s = 0.0

    @property
    def pause_s(self) -> float | None:
        """Until :meth:`go_on` has something to do; None where it has not."""
        if self._looking is not None:
            return 0.0
        return max(0.0, self._not_before_s - time.monotonic()) if self.changed else None

    def go_on(self) -> None:
        """Do a step of a look."""
        try:
            if self._looking is None:
                self.changed, self._begun_s = False, time.monotonic()
                self._looking = self.refresh()
            next(self._looking)
            return
        except StopIteration:
            pass
        except Exception as problem:  # whatever the database holds, models are answered by what was there before
            print(f"latcast: the hub's own platforms cannot be predicted on: {problem}", file=sys.stderr, flush=True)
        now_s = time.monotonic()
        self._looking, self._not_before_s = None, now_s + REST * (now_s - self._begun_s)
        self.looked = True

    def refresh(self) -> Iterator[None]:
        """Look again, and make new predictors where latencies have changed; pauses after each, as one takes 25 ms.

        Raises:
            LatcastError: The database cannot be read.
        """
        served = ServedModel()
        with HubDatabase(self._url) as database:
            if not len(database):
                self.platforms, self.left_out = {}, 0
                return
            newest = database.newest_model()
            if newest is None or not served.serve(newest):
                served.serve_seed()
            measured = HubReader(database, served, seeded=True).own()
        model = served.model
        assert model is not None
        chosen = sorted(measured, key=lambda name: (not measured[name].trusted, -len(measured[name].latencies), name))[:MOST_OWN]
        # Platforms that have not changed go on while the others are made.
        found = {name: self.platforms[name] for name in chosen if name in self.platforms}
        self.platforms, self.left_out = dict(found), len(measured) - len(found)
        for name in chosen:
            latencies, trusted = measured[name]
            digest = hashlib.sha256(json.dumps(sorted(latencies.items())).encode()).hexdigest()
            if name in found and found[name].digest == digest:
                found[name] = replace(found[name], trusted=trusted)
                continue
            predictor = model.predictor(name, latencies)
            if predictor is None or predictor.device is None:
                found.pop(name, None)
                continue
            members = tuple(replace(each, covariance=each.covariance.astype(np.float32)) for each in predictor.device.members)
            smaller = replace(predictor, device=replace(predictor.device, members=members))
            found[name] = OwnPlatform(smaller, trusted, digest)
            yield
        self.platforms, self.left_out = found, len(measured) - len(chosen)
