"""Platforms, networks and predictions as a hub's lists show them, and the names by which everybody knows networks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from latcast.hub.comparable import MAIN_GROUP
from latcast.hub.model import Forecast, HubModel
from latcast.predictors.bundle_index import LOCAL, IndexEntry, available_platforms
from latcast.records import Platform, Reference
from latcast.spaces.catalogue import model as published_model
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
def _published() -> Mapping[str, str]:
    """Reference key to the name of each network that latcast knows by a name."""
    return {published_model(each.name, as_measured=True).key: each.name for each in models()}


def named(references: Iterable[Reference]) -> dict[str, Reference]:
    """Networks by key, each under the name that it has for everybody.

    A published network has that of the catalogue, whatever its first uploader called it; any other network that of its uploader.
    Where several have one name, those that the catalogue does not call so have their space and the beginning of their key behind.
    """
    listed, published = list(references), _published()
    names = {item.key: published.get(item.key) or item.name or item.key for item in listed}
    count = Counter(names.values())
    found = {}
    for item in listed:
        name = names[item.key]
        alone = count[name] == 1 or item.key in published
        found[item.key] = replace(item, name=name if alone else f"{name} ({item.space}, {item.key[:6]})")
    return found


def network_json(reference: Reference) -> dict[str, Any]:
    """A network as lists show it."""
    return {"key": reference.key, "name": reference.name or reference.key, "space": reference.space}


def forecast_json(forecast: Forecast) -> dict[str, float]:
    """A prediction as lists show it."""
    return {"latency_ms": forecast.latency_ms, "low_ms": forecast.low_ms, "high_ms": forecast.high_ms}


def forecasts_json(
    references: Sequence[Reference], forecasts: Mapping[str, Forecast], reason: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Predictions in the order that they were asked for; where there is none, null figures and the ``reason`` for a key."""
    nothing = {"latency_ms": None, "low_ms": None, "high_ms": None}
    return [
        {**network_json(item), **forecast_json(forecasts[item.key]), "reason": None}
        if item.key in forecasts
        else {**network_json(item), **nothing, "reason": reason(item.key)}
        for item in references
    ]


def why_not_predicted(model: HubModel | None, key: str, measured: Iterable[str]) -> str:
    """Why a model predicts nothing of a network on a platform, in words for its user.

    Args:
        model: It; None while there is none.
        key: Of the network.
        measured: Keys of the networks measured on the platform.
    """
    if model is None:
        return "no model has been fitted yet"
    if not model.knows(key):
        return "it is new: nothing of it was there when the model was fitted; the next fit takes it up"
    if not any(model.knows(each) for each in measured):
        return "the model knows none of the networks measured on this platform yet; the next fit takes them up"
    return "nothing tells its scale: no platform ran both it and a network measured on this one"
