"""Across a gap nothing is said: groups of platforms that ran nothing in common do not tell each other's scales."""

from __future__ import annotations

import re

import pytest

from latcast.hub.comparable import MAIN_GROUP
from latcast.hub.database import HubDatabase
from latcast.hub.model import LOG_SCALE, Observation
from latcast.hub.queries import HubReader
from latcast.hub.refitting import ServedModel, refit
from latcast.records import Measurement, Reference
from latcast.spaces.catalogue import model
from tests.hub.made_up import NETWORKS, device, platform, record
from tests.hub.serving import client
from tests.hub.test_database import contributor, upload

SQUEEZE, MOBILE = model("squeezenet1_1"), model("mobilenet_v2_0_75")
HIDDEN = Reference("usc_nas", {"name": "net7"}, "net7")


def taken(name: str, reference: Reference, latency_ms: float) -> Measurement:
    return record(1, device=name, latency_ms=latency_ms, reference=reference)


def test_networks_of_another_group_are_not_predicted() -> None:
    """A slow group ran networks 1 to 5, a fast one 6 to 10."""
    records = [*device("a", 100.0, range(1, 6)), *device("b", 120.0, range(1, 6)), *device("c", 1.0, range(6, 11))]
    found = LOG_SCALE.fit([Observation(item.platform, item.reference, item.latency_ms or 0.0) for item in records])

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


def test_pages_say_what_is_not_connected(sqlite: HubDatabase) -> None:
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
