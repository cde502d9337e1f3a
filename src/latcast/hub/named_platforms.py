"""Platforms by the names that people give them, and their facts. Imports little: processes that read models wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latcast.chips.chip_names import chip_of
from latcast.devices.naming_advice import what_to_name
from latcast.errors import HubError
from latcast.kernels.rules import unit_kind
from latcast.platforms import Meaning, meaning_of
from latcast.records import Platform
from latcast.registry import is_pattern, matching

YARDSTICK = "mobilenet_v2"
"""Network by which platforms that were not measured here are compared with the others."""


def meaning_among(text: str, cards: Mapping[str, Mapping[str, Any]]) -> Meaning:
    """Return the platforms that a text means, as ``latcast predict --on`` takes it: a name, an id, or a glob of ids.

    Args:
        cards: Those of all platforms, by id.

    Raises:
        HubError: It means none (404); the message lists the nearest names.
    """
    if is_pattern(text):
        ids = tuple(matching(text, cards))
        found: Meaning | None = Meaning(ids, ids, (), "")
    else:
        found = meaning_of(text, list(cards), lambda names: {name: cards[name] for name in names})
    if found is None or not (found.taken or found.from_chip):
        raise HubError(f"no platform of '{text[:100]}' is known; {what_to_name(text)}", 404)
    return found


def facts_of(platform: Platform, source: str) -> dict[str, object]:
    """Return facts that stand beside a prediction on a platform without a bundle."""
    kind = unit_kind(platform.unit)
    chip = chip_of(platform.device, "", kind)
    about = {"device": platform.device, "chip": None if chip is None else chip.name, "kind": kind}
    return {**about, "mape": None, "licence": None, "source": source}
