"""Predictors of a hub's platforms: ``hub:https://host/DEVICE/RUNTIME/UNIT/PRECISION`` is fetched as a bundle and kept.

The network that is predicted stays here. Where a hub cannot be reached, the bundle fetched before is used.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import time
import urllib.error
import urllib.request
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote, urlsplit

from latcast.errors import UnknownPlatformError
from latcast.folders import cache_folder, replacing

PREFIX = "hub:"

FRESH_S = 3600.0
"""Time for which a bundle is not fetched again."""

TIMEOUT_S = 60.0
MOST_BYTES, MOST_REFUSAL_BYTES = 20_000_000, 100_000


def hub_bundle(text: str) -> Path:
    """Return a hub's bundle of a platform, fetched where it is missing here or an hour old.

    Args:
        text: ``hub:URL/PLATFORM``.

    Raises:
        UnknownPlatformError: The hub cannot be reached and the bundle is not here, the hub has no such platform, or the bundle is
            not the one whose digest the hub states.
    """
    address = text.removeprefix(PREFIX)
    parts = urlsplit(address)
    names = [part for part in parts.path.split("/") if part]
    if not parts.hostname or len(names) < 4:
        raise UnknownPlatformError(f"'{text}' names no platform of a hub; expected hub:https://host/PLATFORM")
    base, platform = "/".join([f"{parts.scheme}://{parts.netloc}", *names[:-4]]), "/".join(names[-4:])
    path = cache_folder() / "hubs" / f"{hashlib.sha256(address.encode()).hexdigest()[:24]}.zip"
    if path.is_file() and time.time() - path.stat().st_mtime < FRESH_S:
        return path
    try:
        content = _fetched(f"{base}/api/bundles/{quote(platform)}")
        expected = _digest(f"{base}/api/bundles/{quote(platform)}/digest")
    except urllib.error.HTTPError as problem:
        raise UnknownPlatformError(f"{base} has no predictor for '{platform}' ({problem.code}): {refusal(problem)}") from problem
    except (urllib.error.URLError, http.client.HTTPException, OSError) as problem:
        if path.is_file():
            return path
        raise UnknownPlatformError(f"cannot reach {base}: {getattr(problem, 'reason', problem)}") from problem
    if len(content) > MOST_BYTES:
        raise UnknownPlatformError(f"{base} answered with more than {MOST_BYTES} bytes; check the address")
    if expected is None and not _is_protected(base):
        raise UnknownPlatformError(
            f"{base} states no digest of the predictor of '{platform}', and without https anybody on the way may have changed "
            "it; expected https, or a hub of this version of latcast; ask its administrator"
        )
    if expected not in (None, hashlib.sha256(content).hexdigest()):
        raise UnknownPlatformError(
            f"the predictor of '{platform}' is not the one whose digest {base} states: it changed meanwhile or on the way; "
            "try again"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        draft.write_bytes(content)
    return path


def _fetched(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"user-agent": "latcast"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        content: bytes = answer.read(MOST_BYTES + 1)
    return content


def _digest(url: str) -> str | None:
    """Return the SHA-256 that a hub states of a bundle, or None."""
    try:
        return str(json.loads(_fetched(url))["sha256"])
    except urllib.error.HTTPError as problem:
        with problem:
            return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _is_protected(base: str) -> bool:
    """Return whether a hub's answers cannot be changed on the way: by https, or from this machine."""
    parts = urlsplit(base)
    host = str(parts.hostname)
    if parts.scheme == "https" or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def refusal(problem: urllib.error.HTTPError) -> str:
    """Return a hub's reason for refusing, or else the words of its status; the answer is closed."""
    with problem:
        try:
            return str(json.loads(problem.read(MOST_REFUSAL_BYTES))["detail"])
        except (ValueError, KeyError, TypeError, RecursionError, OSError):
            return str(problem.reason)
