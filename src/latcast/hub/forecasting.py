"""Predictions for a device from a few of its latencies."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Gt, Le, Len

from latcast.errors import RepositoryError
from latcast.hub import signature
from latcast.hub.cross_device import Forecast
from latcast.hub.queries import forecasts_json
from latcast.hub.refitting import ServedModel
from latcast.records import Reference

if TYPE_CHECKING:
    from latcast.hub.site import Site

KEPT_FORECASTS = 1000


class NoModelError(RepositoryError):
    """No model has been fitted yet."""


class Forecaster:
    """Asks the model that serves, and remembers its answers until another one serves.

    One question at a time: a large model takes a second for it, and so strangers cannot take more than one core.

    Args:
        served: The model.
    """

    def __init__(self, served: ServedModel) -> None:
        self._served = served
        self._asking = threading.Lock()
        self._kept: OrderedDict[str, dict[str, Forecast]] = OrderedDict()

    def predict(self, networks: Sequence[Reference], measured: Mapping[str, float]) -> dict[str, Forecast]:
        """See :class:`~latcast.hub.cross_device.CrossDeviceModel`; empty where there is no model."""
        version, model = self._served.version, self._served.model
        if model is None or version is None or not networks:
            return {}
        question = json.dumps([version.number, sorted(item.key for item in networks), sorted(measured.items())])
        key = hashlib.sha256(question.encode()).hexdigest()
        with self._asking:
            found = self._kept.get(key)
            if found is None:
                found = self._kept[key] = model.predict(networks, measured)
                while len(self._kept) > KEPT_FORECASTS:
                    self._kept.popitem(last=False)
            return found


@dataclass
class ForecastRequest:
    """What a device measured (ms, by network key), and the keys of what to predict; all networks known where empty."""

    measured: Annotated[dict[str, Annotated[float, Gt(0), Le(1e6)]], Len(1, 1000)]
    networks: Annotated[list[str], Len(0, 1000)] = field(default_factory=list)


def forecast(site: Site, wanted: ForecastRequest) -> dict[str, Any]:
    """Predictions, with null figures for networks that the model cannot predict from these latencies; nothing is stored.

    Raises:
        NoModelError: There is no model.
        RepositoryError: A network is not known.
    """
    version = site.served.version
    if version is None:
        raise NoModelError("no model has been fitted yet; contribute measurements, or try again in a minute")
    known = {**signature.served_networks(), **site.reader.references()}
    unknown = [key for key in (*wanted.measured, *wanted.networks) if key not in known]
    if unknown:
        raise RepositoryError(f"no network has the key '{unknown[0][:40]}'; /api/networks lists them")
    references = [known[key] for key in wanted.networks] or [item for key, item in known.items() if key not in wanted.measured]
    return {
        "model": version.number,
        "predictions": forecasts_json(references, site.forecaster.predict(references, wanted.measured)),
    }
