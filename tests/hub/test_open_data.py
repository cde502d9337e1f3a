"""Open data of a hub: snapshots with licence and citation, a reader, predictors of its platforms."""

from __future__ import annotations

import hashlib
import io
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

import latcast
from latcast.cli.main import run
from latcast.datasets import jsonlines
from latcast.errors import HubError, UnknownPlatformError
from latcast.hub.client import Hub
from latcast.hub.database import HubDatabase
from latcast.hub.site import ServerSettings
from latcast.hub.snapshot import drop_snapshot, list_snapshots, make_snapshot, snapshot_file
from latcast.predictors.hub_bundles import hub_bundle
from latcast.records import Measurement, Reference
from latcast.spaces.catalogue import model
from tests.hub.made_up import contributor, device, record, upload
from tests.hub.serving import fetched, listening

PHONE = "phone/onnxruntime-1.31/cpu1/fp32"
KNOWN = {"squeezenet1_1": 20.0, "mobilenet_v2_0_5": 9.0, "mobilenet_v3_small": 7.0, "ghostnet_x0_5": 8.0}


def known() -> list[Measurement]:
    return [
        record(1, reference=Reference(item.space, item.parameters, "whatever"), latency_ms=latency_ms)
        for item, latency_ms in ((model(name), latency_ms) for name, latency_ms in KNOWN.items())
    ]


@pytest.fixture
def hub(sqlite: HubDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path / "home"))
    upload(sqlite, [*known(), *device("other", 2.0)], contributor(sqlite, "Ann", trusted=True))
    make_snapshot(sqlite, tmp_path / "snapshots", url="https://latcast.example")
    settings = ServerSettings(reads_per_minute=0, refit_quiet_s=0.01, fit_in_process=False, snapshots=tmp_path / "snapshots")
    with listening(sqlite, settings) as url:
        yield latcast.hub(url)


def test_a_snapshot_is_complete_and_stays(sqlite: HubDatabase, tmp_path: Path) -> None:
    with pytest.raises(HubError, match="nothing to publish"):
        make_snapshot(sqlite, tmp_path)
    upload(sqlite, known(), contributor(sqlite, "Ann Example"))
    first = make_snapshot(sqlite, tmp_path, licence="CC0-1.0")
    upload(sqlite, device("other", 2.0))
    second = make_snapshot(sqlite, tmp_path)

    assert (first.measurements, second.measurements) == (4, 24)
    assert second.version == f"{first.version}.2"
    assert [each.version for each in list_snapshots(tmp_path)] == [second.version, first.version]
    folder = tmp_path / first.version
    assert {item.reference.name for item in jsonlines.read(folder / "measurements.jsonl.gz")} == set(KNOWN)
    citation = (folder / "CITATION.cff").read_text()
    assert "license: CC0-1.0" in citation
    assert '  - name: "Ann Example"' in citation
    assert set(json.loads((folder / "manifest.json").read_text())["files"]) == {
        "measurements.jsonl.gz", "measurements.parquet", "CITATION.cff", "README.md",
    }  # fmt: skip
    drop_snapshot(tmp_path, first.version)
    for version in (first.version, ".."):
        with pytest.raises(HubError, match="no snapshot"):
            snapshot_file(tmp_path, version, "manifest.json")


def test_the_parquet_of_a_snapshot_holds_the_same(sqlite: HubDatabase, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    upload(sqlite, known())
    found = make_snapshot(sqlite, tmp_path)

    rows = parquet.read_table(tmp_path / found.version / "measurements.parquet").to_pylist()

    assert {row["network"]: row["latency_ms"] for row in rows} == KNOWN
    assert {(row["device"], row["runtime"], row["precision"]) for row in rows} == {("phone", "onnxruntime", "fp32")}
    assert rows[0]["runs_ms"] == pytest.approx([rows[0]["latency_ms"] * 0.99, rows[0]["latency_ms"] * 1.01])


def test_a_hub_is_read_from_python(hub: Hub, tmp_path: Path) -> None:
    assert [item["id"] for item in hub.platforms("phone/onnx")] == [PHONE]
    assert {item["name"] for item in hub.networks("mobilenet")} == {"mobilenet_v2_0_5", "mobilenet_v3_small"}
    assert len(list(hub.measurements())) == 24
    assert {item.reference.key for item in hub.measurements(platform=PHONE)} == {model(name).key for name in KNOWN}
    assert {item["name"]: item["latency_ms"] for item in hub.platform(PHONE)["measured"]} == KNOWN
    wanted = model("squeezenet1_0")
    found: dict[str, Any] = hub.forecast({model("squeezenet1_1"): 20.0}, [wanted])[wanted.key]
    assert found["low_ms"] < found["latency_ms"] < found["high_ms"]
    [snapshot] = hub.snapshots()
    file = hub.download(tmp_path)
    assert len(list(jsonlines.read(file))) == snapshot["measurements"] == 24
    with pytest.raises(HubError, match="no measurement of"):
        hub.platform("no/b-1/cpu1/fp32")
    with pytest.raises(HubError, match="has no file"):
        hub.download(tmp_path, "2000-01-01")


def test_networks_are_predicted_here_by_a_platform_of_a_hub(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    predictor = hub.load(PHONE)
    there = {item["name"]: item["latency_ms"] for item in hub.platform("rock3a/ncnn-unstated/cpu4/fp32")["predicted"]}

    assert predictor.platform.id == PHONE
    assert latcast.predict("squeezenet1_1", on=f"hub:{hub.url}/{PHONE}").latency_ms == pytest.approx(20.0, rel=0.3)
    assert run(["predict", "squeezenet1_0", "--on", f"hub:{hub.url}/rock3a/ncnn-unstated/cpu4/fp32", "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["predictions"]
    # A known platform's state is fitted once for the pool and once for the model of devices.
    assert found["latency_ms"] == pytest.approx(there["squeezenet1_0"], rel=0.01)
    with pytest.raises(UnknownPlatformError, match="has no predictor for 'no/b-1/cpu1/fp32'"):
        latcast.predict("squeezenet1_1", on=f"hub:{hub.url}/no/b-1/cpu1/fp32")


def test_a_bundle_that_was_fetched_serves_while_the_hub_is_away(
    sqlite: HubDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("latcast.predictors.hub_bundles.FRESH_S", 0.0)
    with listening(sqlite, ServerSettings(reads_per_minute=0, fit_in_process=False)) as url:
        name = f"hub:{url}/rock3a/ncnn-unstated/cpu4/fp32"
        before = latcast.predict("squeezenet1_1", on=name)

    assert latcast.predict("squeezenet1_1", on=name).latency_ms == before.latency_ms
    with pytest.raises(UnknownPlatformError, match="cannot reach"):
        latcast.load(f"hub:{url}/rock3a/ncnn-2/cpu4/fp32")
    with pytest.raises(UnknownPlatformError, match="names no platform of a hub"):
        latcast.load("hub:https://latcast.example/pixel4")


@pytest.mark.parametrize(
    ("address", "digest", "reason"),
    [
        ("http://10.0.0.1:8765", {}, "states no digest"),
        ("http://latcast.example", {"sha256": "0" * 64}, "is not the one whose digest"),
        ("https://latcast.example", {"sha256": "0" * 64}, "is not the one whose digest"),
        ("http://latcast.example", {"sha256": hashlib.sha256(b"a bundle").hexdigest()}, ""),
        ("https://latcast.example", None, ""),
        ("http://[::1]:8765", None, ""),
    ],
)  # fmt: skip
def test_a_bundle_has_the_digest_that_its_hub_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, digest: dict[str, str] | None, reason: str
) -> None:
    """Without https a hub elsewhere must state one."""
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path / "home"))

    def answered(request: urllib.request.Request, timeout: float) -> io.BytesIO:
        if not request.full_url.endswith("/digest"):
            return io.BytesIO(b"a bundle")
        if digest is None:
            raise urllib.error.HTTPError(request.full_url, 404, "Not Found", Message(), io.BytesIO(b"{}"))
        return io.BytesIO(json.dumps(digest).encode())

    monkeypatch.setattr(urllib.request, "urlopen", answered)
    name = f"hub:{address}/{PHONE}"

    if reason:
        with pytest.raises(UnknownPlatformError, match=reason):
            hub_bundle(name)
        assert not list(tmp_path.rglob("*.zip"))
    else:
        assert hub_bundle(name).read_bytes() == b"a bundle"


def test_a_hub_states_the_digest_of_the_bundle_that_it_serves(hub: Hub) -> None:
    with urllib.request.urlopen(f"{hub.url}/api/bundles/{PHONE}") as answer:
        content = answer.read()

    assert fetched(f"{hub.url}/api/bundles/{PHONE}/digest") == {
        "platform": PHONE, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()
    }  # fmt: skip
