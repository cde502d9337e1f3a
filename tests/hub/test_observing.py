"""Metrics and the access log: what happened, and nothing of who."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from latcast.hub.database import HubDatabase
from latcast.hub.observing import ACCESS_LOG, log_access, network_text
from tests.hub.serving import client


def test_metrics_count_requests_by_route_and_status(sqlite: HubDatabase) -> None:
    with client(sqlite) as http:
        for path in ("/networks/a", "/networks/b", "/api/devices", "/nowhere"):
            http.get(path)
        answer = http.get("/metrics")
    found = {family.name: family.samples for family in text_string_to_metric_families(answer.text)}
    requests = {(sample.labels["route"], sample.labels["status"]): sample.value for sample in found["latcast_hub_requests"]
                if sample.name.endswith("_total")}  # fmt: skip

    assert requests == {("/networks/{key}", "404"): 2, ("/api/devices", "200"): 1, ("none", "404"): 1}
    assert found["latcast_hub_model_version"][0].value == 0
    assert answer.headers["content-type"].startswith("text/plain")


def test_the_access_log_is_json_lines_without_whom(sqlite: HubDatabase, tmp_path: Path) -> None:
    try:
        log_access(str(tmp_path / "access.jsonl"))
        with client(sqlite) as http:
            http.get("/api/devices?find=secret", headers={"authorization": "Bearer secret", "user-agent": "secret"})
            http.post("/api/predict")
    finally:
        for handler in ACCESS_LOG.handlers[:]:
            handler.close()
            ACCESS_LOG.removeHandler(handler)
        ACCESS_LOG.setLevel(logging.NOTSET)
    text = (tmp_path / "access.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]

    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("GET", "/api/devices", 200), ("POST", "/api/predict", 422),
    ]  # fmt: skip
    assert set(lines[0]) == {"time", "method", "path", "status", "ms", "bytes", "network"}
    assert "secret" not in text


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("203.0.113.77", "203.0.113.0/24"),
        ("2001:db8:1:2:3::4", "2001:db8:1::/48"),
        ("fe80::1%eth0", "fe80::/48"),
        ("testclient", ""),
    ],
)
def test_only_the_network_of_an_address_is_logged(address: str, shown: str) -> None:
    assert network_text(address) == shown
