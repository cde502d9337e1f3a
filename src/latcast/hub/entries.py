"""Platforms, networks and predictions as a hub's lists show them, and the names by which everybody knows networks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from latcast.hub.cells import MAIN_GROUP
from latcast.hub.model import HubModel
from latcast.hub.scales import Forecast
from latcast.predictors.bundle_index import LOCAL, IndexEntry, available_platforms
from latcast.records import Platform, Reference
from latcast.spaces.catalogue import model as published_model
from latcast.spaces.catalogue import models


@cache
def elsewhere() -> Mapping[str, IndexEntry]:
    """Return platforms that can be predicted for without a hub, by id; without ``local``, which is another machine everywhere."""
    return {each.platform: each for each in available_platforms() if Platform.parse(each.platform).device != LOCAL}


def unmeasured_json(entry: IndexEntry) -> dict[str, Any]:
    """Return a platform that was not measured on this hub, as lists show it."""
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
    """Return the name of each network that latcast knows by a name, by reference key."""
    return {published_model(each.name, as_measured=True).key: each.name for each in models()}


def named(references: Iterable[Reference]) -> dict[str, Reference]:
    """Return networks by key, sorted by the name that each has for everybody.

    A published network has that of the catalogue, whatever its first uploader called it; any other network that of its uploader.
    Where several have one name, those that the catalogue does not call so have their space and the beginning of their key behind.
    """
    listed, published = list(references), _published()
    names = {item.key: published.get(item.key) or item.name or item.key for item in listed}
    count = Counter(names.values())
    found = []
    for item in listed:
        name = names[item.key]
        alone = count[name] == 1 or item.key in published
        found.append(replace(item, name=name if alone else f"{name} ({item.space}, {item.key[:6]})"))
    return {item.key: item for item in sorted(found, key=lambda item: (item.name, item.key))}


def network_json(reference: Reference) -> dict[str, Any]:
    """Return a network as lists show it."""
    return {"key": reference.key, "name": reference.name or reference.key, "space": reference.space}


def predicted_json(references: Mapping[str, Reference], forecasts: Mapping[str, Forecast]) -> list[dict[str, Any]]:
    """Return predicted networks as lists show them, the quickest first."""
    ordered = sorted(forecasts.items(), key=lambda item: item[1].latency_ms)
    return [{**network_json(references[key]), **asdict(forecast)} for key, forecast in ordered]


def why_not_predicted(model: HubModel | None, key: str, measured: Iterable[str]) -> str:
    """Say why a model predicts nothing of a network on a platform, in words for its user.

    Args:
        model: The model that serves; None while there is none.
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
