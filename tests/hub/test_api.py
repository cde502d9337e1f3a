"""The HTTP interface: who may do what, what is answered, and what is refused how."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from unittest.mock import Mock

import pytest
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from latcast.datasets import jsonlines
from latcast.hub import api, app
from latcast.hub.database import HubDatabase
from tests.hub.made_up import NETWORKS, device, lines, platform, record
from tests.hub.serving import QUICK, client, post, wait_for


@pytest.fixture
def http(sqlite: HubDatabase) -> Iterator[TestClient]:
    with client(sqlite) as found:
        yield found


@pytest.fixture
def token(sqlite: HubDatabase) -> str:
    return sqlite.issue_token("Ann")[0]


def test_uploaded_measurements_can_be_read_by_anybody(database: HubDatabase) -> None:
    """On each kind of database, in portions too."""
    with client(database) as http:
        answer = post(http, database.issue_token("Ann")[0], device("phone", 2.0)).json()

        assert (answer["accepted"], answer["quarantined"]) == (20, [])
        [found] = http.get("/api/devices").json()["devices"]
        assert (found["device"], found["measurements"]) == ("phone", 20)
        assert [item["id"] for item in found["platforms"]] == [platform()]
        assert len(http.get("/api/networks").json()["networks"]) == 20
        assert http.get("/api/contributors").json()["contributors"][0]["name"] == "Ann"
        seen, after = [], ""
        while after is not None:
            portion = http.get("/api/measurements", params={"cursor": after, "limit": 7, "platform": platform()}).json()
            seen += [item["reference"]["name"] for item in portion["measurements"]]
            after = portion["next"]
        assert sorted(seen) == sorted(item.name for item in NETWORKS)


def test_the_same_upload_twice_is_stored_once(http: TestClient, token: str) -> None:
    first = post(http, token, device("phone", 2.0)).json()

    assert post(http, token, device("phone", 2.0)).json() == {**first, "repeated": True}
    assert http.get("/api/devices").json()["devices"][0]["measurements"] == 20


@pytest.mark.parametrize(
    ("body", "headers", "status", "reason"),
    [
        (b"not gzip", {"content-encoding": "gzip"}, 400, "not gzip"),
        (gzip.compress(lines([record(1)]))[:-9], {"content-encoding": "gzip"}, 400, "cut off"),
        (b"", {"content-encoding": "br"}, 400, "expected gzip or none"),
        (gzip.compress(b"\n" * 50_000), {"content-encoding": "gzip"}, 413, "bytes uncompressed"),
        (b"x" * 30_000, {}, 413, "more than 20000 bytes"),
    ],
    ids=["no gzip", "cut", "brotli", "bomb", "large"],
)  # fmt: skip
def test_a_bad_upload_is_refused(
    sqlite: HubDatabase, monkeypatch: pytest.MonkeyPatch, body: bytes, headers: dict[str, str], status: int, reason: str
) -> None:
    monkeypatch.setattr(app, "MAX_BODY_BYTES", 20_000)
    monkeypatch.setattr(api, "MAX_CONTENT_BYTES", 40_000)

    with client(sqlite) as http:
        answer = post(http, sqlite.issue_token("Ann")[0], body, **headers)

    assert answer.status_code == status
    assert reason in answer.json()["detail"]
    assert len(sqlite) == 0


REFUSED_TOKENS: dict[str, Callable[[HubDatabase, str], str]] = {
    "none": lambda database, token: "",
    "not a token": lambda database, token: "latcast_\x00",
    "unknown": lambda database, token: "latcast_000000000000_" + "A" * 43,
    "SQL": lambda database, token: "' OR 1=1 --",
    "the secret of another": lambda database, token: token[:21] + database.issue_token("Bob")[0][21:],
    "expired": lambda database, token: database.issue_token("Ann", lifetime=timedelta(seconds=-1))[0],
    "revoked": lambda database, token: database.revoke_token(token.split("_")[1]) and token,
}


@pytest.mark.parametrize("refused", REFUSED_TOKENS)
def test_a_token_that_is_not_valid_is_refused(database: HubDatabase, refused: str) -> None:
    token, _ = database.issue_token("Ann")
    bad = REFUSED_TOKENS[refused](database, token)

    with client(database) as http:
        answer = http.post("/api/measurements", content=b"{}", headers={"authorization": f"Bearer {bad}".encode()})

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "token" in answer.json()["detail"]


def test_an_export_can_be_imported(http: TestClient, token: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    post(http, token, device("phone", 2.0))
    file = tmp_path_factory.mktemp("export") / "all.jsonl.gz"

    file.write_bytes(http.get("/api/export").content)

    assert sorted(jsonlines.read(file), key=lambda item: item.latency_ms or 0.0) == device("phone", 2.0)


def test_a_platform_shows_what_is_measured_and_what_is_predicted(http: TestClient, token: str) -> None:
    post(http, token, [*device("a", 1.0), *device("b", 3.0), *device("phone", 2.0, range(1, 6))])
    wait_for(lambda: http.get("/api/models").json()["models"] or None)

    page = wait_for(lambda: (found := http.get(f"/api/platforms/{platform()}").json())["predicted"] and found)

    assert [item["name"] for item in page["measured"]] == [f"resnet-{index}" for index in range(1, 6)]
    predicted = {item["name"]: item for item in page["predicted"]}
    assert len(predicted) == 15
    assert predicted["resnet-20"]["latency_ms"] == pytest.approx(40.0, rel=0.01)
    assert predicted["resnet-20"]["low_ms"] < 40.0 < predicted["resnet-20"]["high_ms"]


def test_a_device_is_predicted_without_storing_anything(http: TestClient, token: str) -> None:
    post(http, token, [*device("a", 1.0), *device("b", 3.0)])
    wait_for(lambda: http.get("/api/health").json()["model"])

    answer = http.post("/api/predict", json={"measured": {NETWORKS[0].key: 5.0}, "networks": [NETWORKS[3].key]}).json()

    [found] = answer["predictions"]
    assert (found["name"], found["latency_ms"]) == ("resnet-4", pytest.approx(20.0))
    assert len(http.get("/api/devices").json()["devices"]) == 2


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (f'{{"measured": {{"{NETWORKS[0].key}": 1.0}}}}', 409),
        ('{"measured": {}}', 422),
        ('{"measured": {"a": NaN}}', 422),
        ('{"measured": {"a": -1}}', 422),
        ('{"measured": {"\\ud800": "\\ud800"}}', 422),
        ("[", 422),
    ],
)
def test_a_prediction_that_cannot_be_made_is_refused(http: TestClient, body: str, status: int) -> None:
    answer = http.post("/api/predict", content=body, headers={"content-type": "application/json"})

    assert (answer.status_code, type(answer.json()["detail"])) == (status, str)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/networks/%00", 404),
        ("/api/networks/nothing/onnx", 404),
        ("/api/platforms/%00/b/c/d", 404),
        ("/api/measurements?cursor=%00", 200),
        ("/api/measurements?limit=99999999999999999999", 422),
        ("/api/measurements?platform=' OR 1=1 --", 200),
        ("/static/..%2Fapp.py", 404),
        ("/static/app.py", 404),
    ],
)
def test_strange_requests_are_answered_calmly(http: TestClient, path: str, status: int) -> None:
    assert http.get(path).status_code == status


def test_a_lost_database_is_reported_without_details(sqlite: HubDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    with client(sqlite) as http:
        monkeypatch.setattr(
            "sqlalchemy.orm.Session.execute", Mock(side_effect=OperationalError("secret", {}, Exception("secret")))
        )
        answer = http.get("/api/devices")

    assert answer.status_code == 503
    assert "secret" not in answer.text


def test_every_answer_tells_browsers_to_be_careful(http: TestClient) -> None:
    for path in ("/", "/api/devices", "/static/site.css", "/nothing"):
        headers = http.get(path, headers={"origin": "https://elsewhere.example"}).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-embedder-policy"] == "require-corp"
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
    asked = {"origin": "https://elsewhere.example", "access-control-request-method": "POST"}
    answer = http.options("/api/measurements", headers=asked)
    assert (answer.status_code, "access-control-allow-origin" in answer.headers) == (405, False)


def test_an_address_that_asks_too_often_has_to_wait(sqlite: HubDatabase) -> None:
    with client(sqlite, replace(QUICK, reads_per_minute=4, writes_per_minute=4)) as http:
        reads = [http.get("/api/health").status_code for _ in range(12)]
        refused = http.get("/api/health")
        write = http.post("/api/measurements")

    assert reads == [200] * 10 + [429] * 2
    assert int(refused.headers["retry-after"]) in range(1, 16)
    assert "too many requests" in refused.json()["detail"]
    assert write.status_code == 401


def test_signature_networks_come_with_the_text_that_their_keys_are_hashes_of(http: TestClient) -> None:
    from latcast.records import Reference

    listed = http.get("/api/signature").json()

    assert (len(listed["signature"]), len(listed["check"])) == (10, 5)
    for item in listed["signature"] + listed["check"]:
        assert Reference.from_json(json.loads(item["reference_text"])).key == item["key"]


def test_a_signature_network_runs(
    sqlite: HubDatabase, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np
    import onnxruntime

    monkeypatch.setenv("LATCAST_HOME", str(tmp_path_factory.mktemp("home")))
    with client(sqlite) as http:
        key = http.get("/api/signature").json()["signature"][0]["key"]
        content = http.get(f"/api/networks/{key}/onnx").content

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    feed = {item.name: np.ones(item.shape, np.float32) for item in session.get_inputs()}
    assert np.all(np.isfinite(session.run(None, feed)[0]))
