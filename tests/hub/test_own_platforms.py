"""Platforms that a hub measured itself, beside those that come with latcast."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from latcast.datasets import jsonlines
from latcast.forecast import predict
from latcast.hub.browser import CHECK
from latcast.hub.database import HubDatabase
from latcast.hub.entries import elsewhere
from latcast.hub.own_platforms import OwnPlatforms
from latcast.records import Measurement
from tests.hub.made_up import RUNTIMES, contributor, upload
from tests.hub.serving import QUICK, client, wait_for

XEON = "xeon/onnxruntime-1.31/cpu1/fp32"


def measured(platform: str = XEON, factor: float = 1.0) -> list[Measurement]:
    """Real latencies of the Xeon's networks but for those to check by, as if another platform had them."""
    return [
        replace(
            item,
            platform=platform,
            latency_ms=float(item.latency_ms or 0.0) * factor,
            raw_latency_ms=float(item.raw_latency_ms or 0.0) * factor,
            runs_ms=tuple(value * factor for value in item.runs_ms),
        )
        for item in jsonlines.read(RUNTIMES)
        if item.platform == XEON and item.reference.name not in CHECK
    ]


def looked_at(own: OwnPlatforms) -> int:
    """How many predictors were made."""
    return sum(1 for _ in own.refresh())


@pytest.mark.parametrize(("name", "kind"), [(XEON, "cpu"), ("phone/onnxruntime-web-1.30/wasm1+simd+chrome156/fp32", "wasm")])
def test_a_platform_measured_here_predicts_networks_not_measured_here(sqlite: HubDatabase, name: str, kind: str) -> None:
    upload(sqlite, measured(name), contributor(sqlite, trusted=True))
    own = OwnPlatforms(sqlite.url)
    assert (looked_at(own), own.left_out) == (1, 0)

    [item] = [item for item in jsonlines.read(RUNTIMES) if item.platform == XEON and item.reference.name == "squeezenet1_0"]
    found = predict("squeezenet1_0", own.platforms[name].predictor)

    assert found.low_ms < float(item.latency_ms or 0.0) < found.high_ms
    assert [own.platforms[name].facts[each] for each in ("source", "networks", "kind")] == ["hub", 10, kind]


def test_only_changed_platforms_are_fitted_again(sqlite: HubDatabase) -> None:
    who = contributor(sqlite, trusted=True)
    upload(sqlite, [*measured(), *measured("b/onnxruntime-1.31/cpu1/fp32", 2.0)], who)
    own = OwnPlatforms(sqlite.url)

    assert looked_at(own) == 2
    before = own.platforms[XEON].predictor
    upload(sqlite, measured("c/onnxruntime-1.31/cpu1/fp32", 3.0), who)
    assert looked_at(own) == 1
    assert len(own.platforms) == 3
    assert own.platforms[XEON].predictor is before
    assert own.left_out == 0


def test_an_untrusted_platform_needs_four_networks_and_never_replaces_a_shipped_one(sqlite: HubDatabase) -> None:
    on_cpu = [entry for name, entry in elsewhere().items() if "/cpu" in name and name.endswith("/fp32")]
    known = next(entry.platform for entry in on_cpu if 0 < entry.card["measurements"] < 10)
    names = {"few/onnxruntime-1.31/cpu1/fp32": 3, "enough/onnxruntime-1.31/cpu1/fp32": 4, known: 10}
    stranger, trusted = contributor(sqlite, "Eve"), contributor(sqlite, "Ann", trusted=True)
    for name, count in names.items():
        upload(sqlite, measured(name)[:count], stranger)
    own = OwnPlatforms(sqlite.url)

    looked_at(own)
    assert set(own.platforms) == {"enough/onnxruntime-1.31/cpu1/fp32"}
    assert own.platforms["enough/onnxruntime-1.31/cpu1/fp32"].facts["trusted"] is False
    upload(sqlite, measured(known, 1.01), trusted)
    looked_at(own)
    assert known in own.platforms


@pytest.fixture
def http(sqlite: HubDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path / "home"))
    with client(sqlite, replace(QUICK, models_per_minute=0, most_platforms=6, seed=True, refit=False)) as found:
        found.app.state.site.served.serve_seed()  # type: ignore[attr-defined]
        yield found


def test_one_answer_has_the_hub_s_own_platforms_and_those_that_come_with_latcast(http: TestClient, sqlite: HubDatabase) -> None:
    def asked() -> dict[str, list[dict[str, object]]]:
        found: dict[str, list[dict[str, object]]] = {"shipped": [], "hub": []}
        for row in http.post("/api/predict?model=squeezenet1_0").json()["predictions"]:
            found[row["source"]].append(row)
        return found

    assert {source: len(rows) for source, rows in asked().items()} == {"shipped": 6, "hub": 0}
    empty = http.get("/devices").text
    assert "Nothing has been measured on this hub yet" in empty
    assert len(re.findall(r"\d ms</strong><br><small>[\d.]+ – ", empty)) == 6
    assert f"{len(elsewhere())} platforms come with latcast" in empty
    upload(sqlite, measured(), contributor(sqlite, trusted=True))
    found = wait_for(lambda: (rows := asked())["hub"] and rows)
    [own] = found["hub"]

    assert len(found["shipped"]) == 6
    assert (own["platform"], own["networks"], own["trusted"]) == (XEON, 10, True)
    assert own["low_ms"] < own["latency_ms"] < own["high_ms"]  # type: ignore[operator]
    kernels = http.post(f"/api/predict?model=squeezenet1_0&kernels={XEON}&top=3").json()
    assert len(kernels["kernels"]) == 3
    wait_for(lambda: ", 1 of them measured on this hub" in http.get("/").text)  # a stale page is served while a new one is made
    wait_for(lambda: http.get("/devices").text.partition('href="/platforms/')[2].startswith("xeon/"))
    listed = http.get("/api/platforms").json()["platforms"]
    assert sum(each["source"] == "shipped" for each in listed) == len(elsewhere())
