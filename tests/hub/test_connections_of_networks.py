"""Across a gap nothing is said: groups of platforms that ran nothing in common do not tell each other's scales."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from latcast.hub.cells import MAIN_GROUP
from latcast.hub.database import HubDatabase
from latcast.hub.model import HubModel
from latcast.hub.queries import HubReader
from latcast.hub.refitting import ServedModel, refit
from latcast.records import Measurement, Reference
from latcast.spaces.catalogue import model
from tests.hub.made_up import NETWORKS, contributor, device, observed, platform, record, upload
from tests.hub.serving import QUICK, client

SQUEEZE, MOBILE = model("squeezenet1_1"), model("mobilenet_v2_0_75")
HIDDEN = Reference("usc_nas", {"name": "net7"}, "net7")


def taken(name: str, reference: Reference, latency_ms: float) -> Measurement:
    return record(1, device=name, latency_ms=latency_ms, reference=reference)


def test_networks_of_another_group_are_not_predicted() -> None:
    """A slow group ran networks 1 to 5, a fast one 6 to 10."""
    records = [*device("a", 100.0, range(1, 6)), *device("b", 120.0, range(1, 6)), *device("c", 1.0, range(6, 11))]
    found = HubModel.fit(observed(records))

    forecasts = found.predict(NETWORKS[:10], {NETWORKS[0].key: 100.0})

    assert set(forecasts) == {item.key for item in NETWORKS[:5]}
    bridged = found.predict(NETWORKS[:10], {NETWORKS[0].key: 100.0, NETWORKS[5].key: 6.0})
    assert bridged[NETWORKS[9].key].latency_ms == pytest.approx(10.0)


def test_a_page_says_which_networks_would_connect_it(sqlite: HubDatabase) -> None:
    who = contributor(sqlite, trusted=True)
    upload(sqlite, [*device("a", 100.0, range(1, 6)), *device("c", 1.0, range(6, 11))], who)
    upload(sqlite, [taken("d", SQUEEZE, 5.0), taken("d", MOBILE, 9.0)], who)
    served = ServedModel()
    refit(sqlite, served)
    reader = HubReader(sqlite, served)
    assert served.model is not None

    page = reader.device_page(platform("a"), served.model.predict)

    assert page["predicted"] == []
    assert page["not_predicted"] == 7
    names = [item["name"] for item in page["would_connect"]]
    assert names == ["mobilenet_v1_0_25", "resnet-6"]
    groups = {item["id"]: item["group"] for item in reader.platforms()}
    assert groups[platform("d")] == MAIN_GROUP
    assert len(set(groups.values())) == 3


def test_the_model_of_devices_connects_what_ran_different_known_networks(sqlite: HubDatabase) -> None:
    """The first ran one known network, the second another one and a network without kernels."""
    who = contributor(sqlite, trusted=True)
    upload(sqlite, [taken("a", SQUEEZE, 5.0)], who)
    upload(sqlite, [taken("b", MOBILE, 9.0), taken("b", HIDDEN, 18.0)], who)
    served = ServedModel()
    refit(sqlite, served)
    reader = HubReader(sqlite, served)
    assert served.model is not None

    page = reader.device_page(platform("a"), served.model.predict)

    assert {item["name"] for item in page["predicted"]} == {MOBILE.name, HIDDEN.name}
    assert (page["not_predicted"], page["would_connect"]) == (0, [])
    assert {item["group"] for item in reader.platforms()} == {MAIN_GROUP}
    by_name = {item["name"]: item for item in page["predicted"]}
    assert by_name[HIDDEN.name]["latency_ms"] == pytest.approx(2 * by_name[MOBILE.name]["latency_ms"], rel=1e-3)
    assert (
        by_name[HIDDEN.name]["high_ms"] / by_name[HIDDEN.name]["low_ms"]
        > by_name[MOBILE.name]["high_ms"] / by_name[MOBILE.name]["low_ms"]
    )


def test_published_networks_have_the_names_of_the_catalogue(sqlite: HubDatabase) -> None:
    renamed = Reference(SQUEEZE.space, SQUEEZE.parameters, "buy now")
    pretending = Reference("resnet", {"depth": 3}, "squeezenet1_1")
    upload(sqlite, [taken("a", renamed, 5.0), taken("a", pretending, 6.0), taken("a", NETWORKS[1], 7.0)])

    names = {item["name"] for item in HubReader(sqlite).networks()}

    assert names == {"squeezenet1_1", f"squeezenet1_1 (resnet, {pretending.key[:6]})", "resnet-2"}


def test_a_network_has_its_plain_name_where_no_other_one_is_called_so(sqlite: HubDatabase) -> None:
    family = Reference("resnet", {"depth": 18}, "resnet18")
    upload(sqlite, [taken("a", family, 5.0)])
    reader = HubReader(sqlite)

    assert [item["name"] for item in reader.networks()] == ["resnet18"]
    assert reader.network(family.key)["name"] == "resnet18"

    wider = Reference("resnet", {"depth": 18, "width": 2.0}, "resnet18")
    upload(sqlite, [taken("a", wider, 9.0)], contributor(sqlite, "Eve"))

    expected = {item.key: f"resnet18 (resnet, {item.key[:6]})" for item in (family, wider)}
    assert {item["key"]: item["name"] for item in reader.networks()} == expected
    assert reader.network(wider.key)["name"] == expected[wider.key]


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
        listed = http.get(f"/api/platforms/{platform('a')}").json()

    assert unfitted.status_code == 409
    assert (known["reason"], known["latency_ms"] is None) == (None, False)
    assert [each["latency_ms"] for each in (new, far, of_new)] == [None] * 3
    assert "it is new" in new["reason"]
    assert "nothing tells its scale" in far["reason"]
    assert "knows none of the networks measured" in of_new["reason"]
    assert sorted(each["networks"] for each in listed["reasons"]) == [1, 3]
    assert "1 network without a prediction: it is new" in page
    assert "3 networks without a prediction: nothing tells its scale" in page


def test_pages_name_unconnected_platforms(sqlite: HubDatabase) -> None:
    who = contributor(sqlite, trusted=True)
    apart = device("apart", 0.001, range(16, 21))
    upload(sqlite, [*device("a", 1.0, range(1, 6)), *device("b", 2.0, range(1, 6)), *apart], who)
    refit(sqlite, ServedModel())

    with client(sqlite) as http:
        devices = http.get("/devices").text
        page = http.get(f"/platforms/{platform('apart')}").text
        models = http.get("/models").text

    order = re.findall(r'href="/platforms/([a-z]+)/', devices)
    assert order == ["a", "b", "apart"]
    assert devices.count("it is not compared with them") == 1
    assert "would connect them" in page
    assert ">resnet-1</a>" in page
    assert "last fit failed" not in models
