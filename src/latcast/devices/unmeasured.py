"""Predictors of unmeasured platforms, from what is known of their chip."""

from __future__ import annotations

from latcast.chips.chip_names import devices_named, find
from latcast.devices.added_device import add_device
from latcast.devices.device_model_file import load_device_model
from latcast.devices.measured_networks import MeasuredNetworks
from latcast.errors import LatcastError
from latcast.predictors.bundle_index import platform_ids
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform

SHOWN = 3
"""Nearest platforms that the warning names."""


def unmeasured_platform(text: str) -> PlatformPredictor | None:
    """Return the predictor of a platform of which only the device is known.

    Args:
        text: ``device/runtime/unit/precision``; the device as :func:`latcast.find_devices` takes it ("pi 5", "rk3588"), the
            runtime with or without its version.

    Returns:
        None where the text is not a whole id, no chip or device of the table has this name, or platforms of the device under
        this runtime can be predicted for: then one of them may be meant.
    """
    parts = [part.strip() for part in text.split("/")]
    if len(parts) != 4 or not any(each.exact and each.by == "name" for each in find(parts[0])):
        return None
    device, runtime, unit, precision = parts
    try:
        platform = Platform.stated(device, runtime, unit, precision)
        # A platform of the same device under this runtime may be meant.
        wanted = set(devices_named(device))
        for name in platform_ids():
            other, other_runtime = name.split("/")[:2]
            same = other == platform.device or (wanted and wanted & set(devices_named(other)))
            if same and other_runtime.rpartition("-")[0] == platform.runtime:
                return None
        found = add_device(platform, MeasuredNetworks(()), load_device_model(), device_text=device)
    except LatcastError:
        return None
    card = dict(found.predictor.card)
    near = ", ".join(each.platform for each in found.nearest[:SHOWN])
    card["warning"] = f"{card['warning']}; nearest: {near}; a few networks timed there narrow it: latcast device kit"
    return found.predictor.with_card(card)
