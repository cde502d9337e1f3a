"""Across a gap nothing is said: groups of platforms that ran nothing in common do not tell each other's scales."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from latcast.hub.database import HubDatabase
from latcast.hub.queries import HubReader
from latcast.hub.refitting import ServedModel, refit
from latcast.records import Measurement, Reference
from latcast.spaces.catalogue import model
from tests.hub.made_up import NETWORKS, contributor, device, platform, record, upload
from tests.hub.serving import QUICK, client

SQUEEZE, MOBILE = model("squeezenet1_1"), model("mobilenet_v2_0_75")
HIDDEN = Reference("usc_nas", {"name": "net7"}, "net7")


def taken(name: str, reference: Reference, latency_ms: float) -> Measurement:
    return record(1, device=name, latency_ms=latency_ms, reference=reference)


def test_networks_of_another_group_are_not_predicted_and_pages_say_what_would_connect_them(sqlite: HubDatabase) -> None:
    """A slow group ran networks 1 to 5, a fast one 6 to 10, and d published networks, which the model of devices knows."""
    who = contributor(sqlite, trusted=True)
    slow = [*device("a", 100.0, range(1, 6)), *device("b", 120.0, range(1, 6))]
    upload(sqlite, [*slow, *device("c", 1.0, range(6, 11)), taken("d", SQUEEZE, 5.0), taken("d", MOBILE, 9.0)], who)
    refit(sqlite, ServedModel())

    with client(sqlite) as http:
        page = http.get(f"/api/platforms/{platform('a')}").json()
        shown = http.get(f"/platforms/{platform('a')}").text
        groups = {item["id"][0]: item["group"] for item in http.get("/api/platforms").json()["platforms"]}
        devices = http.get("/devices").text
        models = http.get("/models").text

    assert (page["predicted"], page["not_predicted"]) == ([], 7)
    assert [item["name"] for item in page["would_connect"]] == ["mobilenet_v1_0_25", "resnet-6"]
    assert "would connect them" in shown
    assert ">resnet-6</a>" in shown
    assert groups["a"] == groups["b"]
    assert (groups["d"], len(set(groups.values()))) == (0, 3)
    assert re.findall(r'href="/platforms/([a-z]+)/', devices)[:2] == ["a", "b"]
    assert devices.count("it is not ranked among them") == 2
    assert "last fit failed" not in models


def test_the_model_of_devices_connects_what_ran_different_known_networks(sqlite: HubDatabase) -> None:
    """The first ran one known network, the second another one and a network without kernels."""
    who = contributor(sqlite, trusted=True)
    upload(sqlite, [taken("a", SQUEEZE, 5.0), taken("b", MOBILE, 9.0), taken("b", HIDDEN, 18.0)], who)
    refit(sqlite, ServedModel())

    with client(sqlite) as http:
        page = http.get(f"/api/platforms/{platform('a')}").json()
        groups = {item["group"] for item in http.get("/api/platforms").json()["platforms"]}

    assert (page["not_predicted"], page["would_connect"], groups) == (0, [], {0})
    found = {item["name"]: item for item in page["predicted"]}
    assert set(found) == {MOBILE.name, HIDDEN.name}
    hidden, mobile = found[HIDDEN.name], found[MOBILE.name]
    assert hidden["latency_ms"] == pytest.approx(2 * mobile["latency_ms"], rel=1e-3)
    assert hidden["high_ms"] / hidden["low_ms"] > mobile["high_ms"] / mobile["low_ms"]


def test_networks_have_the_names_of_the_catalogue_or_plain_ones_while_these_are_the_only_ones(sqlite: HubDatabase) -> None:
    renamed = Reference(SQUEEZE.space, SQUEEZE.parameters, "buy now")
    pretending = Reference("resnet", {"depth": 3}, "squeezenet1_1")
    narrow, wide = (Reference("resnet", {"depth": 18, "width": width}, "resnet18") for width in (1.0, 2.0))
    reader = HubReader(sqlite)

    upload(sqlite, [taken("a", each, 5.0) for each in (renamed, pretending, narrow)])
    before = {item["name"] for item in reader.networks()}
    upload(sqlite, [taken("a", wide, 9.0)], contributor(sqlite, "Eve"))

    published = {"squeezenet1_1", f"squeezenet1_1 (resnet, {pretending.key[:6]})"}
    assert before == {*published, "resnet18"}
    assert {item["name"] for item in reader.networks()} == {
        *published, *(f"resnet18 (resnet, {each.key[:6]})" for each in (narrow, wide))
    }  # fmt: skip
    assert reader.network(wide.key)["name"] == f"resnet18 (resnet, {wide.key[:6]})"


def test_a_network_without_a_prediction_has_a_reason(sqlite: HubDatabase) -> None:
    who = contributor(sqlite, trusted=True)
    upload(sqlite, [*device("a", 1.0, range(1, 6)), *device("apart", 1.0, range(16, 19))], who)
    refit(sqlite, ServedModel())
    upload(sqlite, [record(7, device="new")], who)

    with client(sqlite, replace(QUICK, refit=False)) as http:
        site = http.app.state.site  # type: ignore[attr-defined]
        content = {"measured": {NETWORKS[0].key: 1.0}, "networks": [NETWORKS[index].key for index in (1, 6, 16)]}
        unfitted = http.post("/api/predict", json=content)
        site.served.serve(sqlite.newest_model())
        known, new, far = http.post("/api/predict", json=content).json()["predictions"]
        of_new = http.post("/api/predict", json={**content, "measured": {NETWORKS[6].key: 1.0}}).json()["predictions"][0]
        page = http.get(f"/platforms/{platform('a')}").text

    assert unfitted.status_code == 409
    assert (known["reason"], known["latency_ms"] is None) == (None, False)
    for each, reason in ((new, "it is new"), (far, "nothing tells its scale"), (of_new, "knows none of the networks measured")):
        assert each["latency_ms"] is None
        assert reason in each["reason"]
    assert "1 network without a prediction: it is new" in page
    assert "3 networks without a prediction: nothing tells its scale" in page
