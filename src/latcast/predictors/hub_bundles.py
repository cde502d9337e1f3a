"""Predictors of a hub's platforms: ``hub:https://host/DEVICE/RUNTIME/UNIT/PRECISION`` is fetched as a bundle and kept.

The network that is predicted stays here. A hub that cannot be reached is no obstacle where its bundle was fetched before.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote, urlsplit

from latcast.errors import UnknownPlatformError
from latcast.folders import cache_folder, replacing

PREFIX = "hub:"

FRESH_S = 3600.0
"""For which a bundle is not asked for again."""

TIMEOUT_S = 60.0
MOST_BYTES, MOST_REFUSAL_BYTES = 20_000_000, 100_000


def is_on_hub(text: str) -> bool:
    """Whether a text names a platform of a hub."""
    return text.startswith((f"{PREFIX}http://", f"{PREFIX}https://"))


def hub_bundle(text: str) -> Path:
    """The bundle of a platform of a hub, fetched where it is not here or an hour old.

    Args:
        text: ``hub:URL/PLATFORM``.

    Raises:
        UnknownPlatformError: The hub cannot be reached and the bundle is not here, or the hub has no such platform.
    """
    address = text.removeprefix(PREFIX)
    base, platform = _parts(address)
    path = cache_folder() / "hubs" / f"{hashlib.sha256(address.encode()).hexdigest()[:24]}.zip"
    if path.is_file() and time.time() - path.stat().st_mtime < FRESH_S:
        return path
    request = urllib.request.Request(f"{base}/api/bundles/{quote(platform)}", headers={"user-agent": "latcast"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            content: bytes = answer.read(MOST_BYTES + 1)
    except urllib.error.HTTPError as problem:
        raise UnknownPlatformError(f"{base} has no predictor for '{platform}' ({problem.code}): {refusal(problem)}") from problem
    except (urllib.error.URLError, http.client.HTTPException, OSError) as problem:
        if path.is_file():
            return path
        raise UnknownPlatformError(f"cannot reach {base}: {getattr(problem, 'reason', problem)}") from problem
    if len(content) > MOST_BYTES:
        raise UnknownPlatformError(f"{base} answered with more than {MOST_BYTES} bytes; check the address")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        draft.write_bytes(content)
    return path


def _parts(address: str) -> tuple[str, str]:
    """Address of the hub, and platform id."""
    found = urlsplit(address)
    names = [part for part in found.path.split("/") if part]
    if not found.hostname or len(names) < 4:
        raise UnknownPlatformError(f"'{PREFIX}{address}' names no platform of a hub; expected hub:https://host/PLATFORM")
    before = "/".join(names[:-4])
    return f"{found.scheme}://{found.netloc}" + (f"/{before}" if before else ""), "/".join(names[-4:])


def refusal(problem: urllib.error.HTTPError) -> str:
    """Why a hub refused, as its answer says, or else the words of its status; the answer is closed."""
    with problem:
        try:
            return str(json.loads(problem.read(MOST_REFUSAL_BYTES))["detail"])
        except (ValueError, KeyError, TypeError, RecursionError, OSError):
            return str(problem.reason)
