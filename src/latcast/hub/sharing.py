"""Contributing measurements to a hub: records without private parts, sent in portions until they are answered."""

from __future__ import annotations

import gzip
import http.client
import json
import random
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from latcast.errors import HubError
from latcast.hub.client import Hub
from latcast.hub.uploads import without_path
from latcast.predictors.hub_bundles import refusal
from latcast.records import Measurement, Platform, device_name

BATCH_RECORDS = 200
BATCH_BYTES = 4_000_000
"""Uncompressed; well below what a server takes, so that a lost connection costs little."""

ATTEMPTS = 8
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
TIMEOUT_S = 120.0

_PATH = re.compile(r"(?<![\w.:/])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\:'\",;()]+[/\\])+[^\s/\\:'\",;()]*")

PATH_REMOVED = "(path removed)"


@dataclass
class ShareReport:
    """Counts of a contribution."""

    sent: int = 0
    accepted: int = 0
    known: int = 0
    quarantined: list[dict[str, Any]] = field(default_factory=list)

    def add(self, records: int, answer: Mapping[str, Any]) -> None:
        """Count the answer to a batch; one that the server had before counts as known."""
        accepted, repeated = int(answer.get("accepted", 0)), bool(answer.get("repeated"))
        self.sent += records
        self.accepted += 0 if repeated else accepted
        self.known += int(answer.get("known", 0)) + (accepted if repeated else 0)
        self.quarantined += answer.get("quarantined", [])


def shareable(measurement: Measurement, device: str = "") -> Measurement:
    """Return a record as strangers may see it: ``local`` becomes the device's name, and paths of this machine are gone.

    Args:
        device: Name for the device of local measurements; made such as platform ids have (:func:`shared_device_name`).

    Raises:
        HubError: The measurement is local and no name was given, or its file has no hash.
    """
    platform = Platform.parse(measurement.platform)
    if platform.device == "local":
        if not device:
            raise HubError("the measurements are of 'local', which is another machine everywhere; name it with --device")
        platform = Platform.parse(replace(platform, device=shared_device_name(device)).id)
    reference = measurement.reference
    return replace(
        measurement,
        platform=platform.id,
        reference=without_path(replace(reference, name=re.split(r"[/\\]", reference.name)[-1])),
        error=None if measurement.error is None else _PATH.sub(PATH_REMOVED, measurement.error)[:2000],
        environment=_without_paths(dict(measurement.environment)),
    )


def _without_paths(value: Any) -> Any:
    if isinstance(value, str):
        return _PATH.sub(PATH_REMOVED, value)
    if isinstance(value, Mapping):
        return {key: _without_paths(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_paths(item) for item in value]
    return value


def shared_device_name(text: str) -> str:
    """Return a device's name as platform ids and the page "add your device" have it: "ThinkPad T14" is thinkpad-t14.

    Raises:
        HubError: There is no letter or digit in it, or it is 'local'.
    """
    found = device_name(text)[:60]
    if not found:
        raise HubError(f"'{text[:60]}' is not a name for a device; expected letters or digits, such as thinkpad-t14")
    if found == "local":
        raise HubError("the device cannot be called 'local'; choose a name that tells which machine it is")
    return found


def suggested_device_name(measurements: Iterable[Measurement]) -> str:
    """Return this machine's own name for itself, or the CPU of measurements; empty where neither is known."""
    with suppress(OSError, HubError):
        return shared_device_name(Path("/sys/class/dmi/id/product_name").read_text(encoding="utf-8", errors="replace"))
    for measurement in measurements:
        with suppress(HubError, KeyError, TypeError):
            return shared_device_name(str(measurement.environment["host"]["cpu"]["model"]))
    return ""


def json_line(measurement: Measurement) -> bytes:
    """Return a record as it is sent."""
    return json.dumps(measurement.to_json(), separators=(",", ":"), sort_keys=True).encode() + b"\n"


def upload_batches(measurements: Iterable[Measurement]) -> Iterator[bytes]:
    """Yield JSON Lines in portions that depend on the records alone, so that a repeated contribution sends the same ones."""
    lines: list[bytes] = []
    size = 0
    for line in map(json_line, measurements):
        if lines and (len(lines) == BATCH_RECORDS or size + len(line) > BATCH_BYTES):
            yield b"".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield b"".join(lines)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, which would carry the token to another place."""

    def redirect_request(self, *arguments: Any, **options: Any) -> None:
        return None


class HubClient(Hub):
    """A hub to send batches to.

    Args:
        url: See :class:`Hub`.
        sleep: Waits between attempts.
        attempts: Tries of one batch.
    """

    def __init__(self, url: str, token: str, *, sleep: Callable[[float], None] = time.sleep, attempts: int = ATTEMPTS) -> None:
        super().__init__(url)
        parts = urlsplit(url)
        self.readable_by_others = parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1")
        self._token = token
        self._sleep = sleep
        self._attempts = attempts
        self._opener = urllib.request.build_opener(_NoRedirect())

    def send(self, batch: bytes, on_retry: Callable[[str, float], None] = lambda reason, wait_s: None) -> dict[str, Any]:
        """Send a batch until it is answered; sent twice it is stored once, so an answer that was lost does no harm.

        Args:
            on_retry: Told why an attempt failed and how long the next one waits.

        Raises:
            HubError: The hub refuses it, or cannot be reached in all attempts.
        """
        wait_s = FIRST_WAIT_S
        reason = ""
        for attempt in range(self._attempts):
            if attempt:
                on_retry(reason, wait_s)
                self._sleep(wait_s)
            try:
                return self._post(batch)
            except _TryAgainError as problem:
                reason = str(problem)
                wait_s = problem.wait_s or min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**attempt) * random.uniform(0.5, 1.0)
        raise HubError(
            f"{self.url} did not take the measurements in {self._attempts} attempts ({reason}); "
            "run the same command again later, what has arrived is not stored twice"
        )

    def _post(self, batch: bytes) -> dict[str, Any]:
        headers = {
            "authorization": f"Bearer {self._token}",
            "content-type": "application/x-ndjson",
            "content-encoding": "gzip",
            "user-agent": "latcast",
        }
        packed = gzip.compress(batch, mtime=0)
        request = urllib.request.Request(f"{self.url}/api/measurements", data=packed, headers=headers, method="POST")
        found: Any = None
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer, suppress(ValueError, RecursionError):
                found = json.loads(answer.read(10_000_000))
        except urllib.error.HTTPError as problem:
            reason = refusal(problem)
            if problem.code == 429 or problem.code >= 500:
                stated = str(problem.headers.get("retry-after", ""))
                wait_s = min(float(stated), LONGEST_WAIT_S) if stated.isdecimal() else 0.0
                raise _TryAgainError(f"{problem.code}: {reason}", wait_s) from problem
            raise HubError(f"{self.url} refused the measurements ({problem.code}): {reason}") from problem
        except (urllib.error.URLError, http.client.HTTPException, OSError) as problem:
            raise _TryAgainError(str(getattr(problem, "reason", problem)) or type(problem).__name__) from problem
        if not isinstance(found, dict) or "received" not in found:
            raise HubError(f"{self.url} answered something that is not a hub's; check the address")
        return found


class _TryAgainError(Exception):
    """An attempt that failed for now."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s
