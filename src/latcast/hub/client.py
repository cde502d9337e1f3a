"""Reading a hub from Python: ``latcast.hub("https://...")``."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from latcast.errors import HubError
from latcast.folders import replacing
from latcast.predictors.hub_bundles import hub_bundle, refusal
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.reading import parse_json
from latcast.records import Measurement, Reference

TIMEOUT_S = 60.0
MOST_ANSWER_BYTES = 100_000_000
PORTION = 500


class Hub:
    """A hub to read from; no data is sent but the question.

    Args:
        url: Its address, without ``/api``.

    Raises:
        HubError: The address is not one of HTTP; of every method: the hub cannot be reached, or has nothing of the name.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise HubError(f"'{url}' is not the address of a hub; expected https://host or http://host:port")
        self.url = url.rstrip("/")

    def __repr__(self) -> str:
        return f"<Hub {self.url}>"

    def platforms(self, find: str = "") -> list[dict[str, Any]]:
        """List platforms with every word in their ids: measured there ("source": "hub"), or of latcast's pool ("shipped")."""
        return list(self._portions("platforms", find=find))

    def networks(self, find: str = "") -> list[dict[str, Any]]:
        """List networks with every word in their names, with their range of latencies over platforms (ms)."""
        return list(self._portions("networks", find=find))

    def platform(self, platform: str) -> dict[str, Any]:
        """Return measured and predicted latencies of a platform (ms)."""
        return self._json(f"/api/platforms/{quote(platform)}")

    def network(self, key: str) -> dict[str, Any]:
        """Return a network with its latency on each platform (ms)."""
        return self._json(f"/api/networks/{quote(key, safe='')}")

    def models(self) -> list[dict[str, Any]]:
        """List versions of the hub's model with their error on held-out devices, the newest first."""
        return list(self._json("/api/models")["models"])

    def measurements(self, *, platform: str | None = None, network: str | None = None) -> Iterator[Measurement]:
        """Yield records, of one platform or network where it is named, read in portions."""
        for item in self._portions("measurements", platform=platform, network=network):
            yield Measurement.from_json({name: value for name, value in item.items() if name != "id"})

    def forecast(self, measured: Mapping[Reference, float], networks: list[Reference]) -> dict[str, dict[str, Any]]:
        """Predict networks on a device of which some latencies (ms) are known, by the hub's model; returns forecasts by key.

        Where the model has none the figures are None and ``reason`` says why.
        """
        content = {
            "measured": {reference.key: latency_ms for reference, latency_ms in measured.items()},
            "networks": [reference.key for reference in networks],
        }
        found = self._json("/api/predict", content=json.dumps(content).encode())
        names = ("latency_ms", "low_ms", "high_ms", "reason")
        return {item["key"]: {name: item[name] for name in names} for item in found["predictions"]}

    def load(self, platform: str) -> PlatformPredictor:
        """Load the predictor of a platform of the hub: networks are predicted here, and none is sent there."""
        from latcast.predictors.bundle import load_bundle

        return load_bundle(hub_bundle(f"hub:{self.url}/{platform}"))

    def snapshots(self) -> list[dict[str, Any]]:
        """List versions of all measurements that stay as they are, the newest first."""
        return list(self._json("/api/snapshots")["snapshots"])

    def download(
        self, folder: str | os.PathLike[str], version: str | None = None, *, name: str = "measurements.jsonl.gz"
    ) -> Path:
        """Fetch a file of a snapshot, of the newest one where no version is named, and check its hash."""
        known = self.snapshots()
        chosen = next((each for each in known if version in (None, each["version"])), None)
        if chosen is None or name not in chosen["files"]:
            raise HubError(f"{self.url} has no file '{name}' in {'a snapshot' if version is None else f'snapshot {version}'}")
        target = Path(folder) / name
        digest = hashlib.sha256()
        with self._opened(f"/api/snapshots/{chosen['version']}/{name}") as answer, replacing(target) as draft:
            with draft.open("wb") as file:
                while block := answer.read(1 << 20):
                    digest.update(block)
                    file.write(block)
            if digest.hexdigest() != chosen["files"][name]["sha256"]:
                raise HubError(f"{self.url} sent a damaged {name}; try again")
        return target

    def _portions(self, what: str, **asked: str | None) -> Iterator[dict[str, Any]]:
        query = {name: value for name, value in asked.items() if value is not None}
        cursor: str | None = ""
        while cursor is not None:
            found = self._json(f"/api/{what}", {**query, "limit": str(PORTION), "cursor": cursor})
            yield from found[what]
            cursor = found["next"]

    def _json(self, path: str, query: Mapping[str, str] | None = None, content: bytes | None = None) -> Any:
        with self._opened(path + (f"?{urlencode(query)}" if query else ""), content) as answer:
            body = answer.read(MOST_ANSWER_BYTES + 1)
        if len(body) > MOST_ANSWER_BYTES:
            raise HubError(f"{self.url} answered with more than {MOST_ANSWER_BYTES} bytes")
        return parse_json(body, f"the answer of {self.url}", error=HubError)

    def _opened(self, path: str, content: bytes | None = None) -> http.client.HTTPResponse:
        headers = {"user-agent": "latcast", **({"content-type": "application/json"} if content is not None else {})}
        request = urllib.request.Request(f"{self.url}{path}", data=content, headers=headers)
        try:
            found: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as problem:
            raise HubError(f"{self.url}: {refusal(problem)} ({problem.code})") from problem
        except (urllib.error.URLError, http.client.HTTPException, OSError) as problem:
            raise HubError(f"cannot reach {self.url}: {getattr(problem, 'reason', problem)}") from problem
        return found


def hub(url: str) -> Hub:
    """Open a hub to read from.

    Args:
        url: Its address: ``"https://host"``.

    Raises:
        HubError: The address is not one of HTTP.

    Example:
        >>> import latcast
        >>> latcast.hub("https://latcast.example")
        <Hub https://latcast.example>
    """
    return Hub(url)
