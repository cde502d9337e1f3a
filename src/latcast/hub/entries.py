"""Platforms, networks and predictions as a hub's lists show them, and the names by which everybody knows networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from latcast.hub.comparable import MAIN_GROUP
from latcast.hub.model import Forecast
from latcast.predictors.bundle_index import LOCAL, IndexEntry, available_platforms
from latcast.records import Platform, Reference
from latcast.spaces.catalogue import network_named
from latcast.spaces.models import models


@cache
def elsewhere() -> Mapping[str, IndexEntry]:
    """Platforms that can be predicted for without a hub, but for this machine's own, which is another one everywhere."""
    return {each.platform: each for each in available_platforms() if Platform.parse(each.platform).device != LOCAL}


def unmeasured_json(entry: IndexEntry) -> dict[str, Any]:
    """A platform that nobody measured here as lists show it."""
    return {
        "id": entry.platform,
        **asdict(Platform.parse(entry.platform)),
        "networks": int(entry.card.get("measurements") or 0),
        "measurements": 0,
        "last_taken_at": None,
        "trusted": True,
        "group": MAIN_GROUP,
        "source": entry.source,
    }


@cache
def _published() -> tuple[Mapping[str, str], frozenset[str]]:
    """Reference key to the name of each network that latcast knows by a name, and these names."""
    names = [each.name for each in models()]
    return {network_named(name).key: name for name in names}, frozenset(name.rpartition("/")[2] for name in names)


def named(reference: Reference) -> Reference:
    """A network under the name that it has for everybody.

    A published network has that of the catalogue, whatever the first uploader called it. Another network that was given the
    name of a published one has the beginning of its key behind it.
    """
    by_key, names = _published()
    name = by_key.get(reference.key)
    if name is None:
        said = reference.name or reference.key
        name = f"{said} ({reference.space}, {reference.key[:6]})" if said in names else said
    return replace(reference, name=name)


def network_json(reference: Reference) -> dict[str, Any]:
    """A network as lists show it."""
    return {"key": reference.key, "name": reference.name or reference.key, "space": reference.space}


def forecast_json(forecast: Forecast) -> dict[str, float]:
    """A prediction as lists show it."""
    return {"latency_ms": forecast.latency_ms, "low_ms": forecast.low_ms, "high_ms": forecast.high_ms}


def forecasts_json(references: Sequence[Reference], forecasts: Mapping[str, Forecast]) -> list[dict[str, Any]]:
    """Predictions in the order that they were asked for; null figures where the model has none."""
    nothing = {"latency_ms": None, "low_ms": None, "high_ms": None}
    return [
        {**network_json(item), **(forecast_json(forecasts[item.key]) if item.key in forecasts else nothing)}
        for item in references
    ]
