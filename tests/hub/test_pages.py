"""The pages: what they show, that they hold without data, and that nothing of a stranger becomes markup."""

from __future__ import annotations

import gzip
import re
import shutil
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha384
from pathlib import Path
from random import Random

import pytest
from starlette.testclient import TestClient

from latcast.hub import browser
from latcast.hub.charts import NOTHING_DRAWN, clusters, device_rows, strip_rows
from latcast.hub.database import HubDatabase
from latcast.hub.pages import DEVICE_LABELS, DEVICE_LIST, Listed, render
from latcast.hub.scales import Forecast
from latcast.records import Reference
from tests.hub.made_up import NETWORKS, device, platform, record
from tests.hub.serving import client, post, wait_for

PAGES = ("/", "/devices", "/networks", "/models", "/add")


@pytest.fixture
def http(sqlite: HubDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(browser, "PACKAGED", tmp_path / "packaged")
    with client(sqlite) as found:
        yield found


@pytest.fixture(scope="module")
def filled(empty_hub: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A hub with three platforms, which tests only read."""
    folder = tmp_path_factory.mktemp("filled")
    records = [*device("fast", 0.5), *device("b", 1.0), *device("slow", 9.0, range(1, 5))]
    with pytest.MonkeyPatch.context() as patch, HubDatabase(shutil.copy(empty_hub, folder)) as database:
        patch.setenv("LATCAST_HOME", str(folder / "home"))
        patch.setattr(browser, "PACKAGED", folder / "packaged")
        with client(database) as found:
            post(found, database.issue_token("Ann + Söhne", trusted=True)[0], records)
            wait_for(lambda: found.get("/api/health").json()["model"])
            found.app.state.site.cache.forget()  # type: ignore[attr-defined]
            yield found


@pytest.mark.parametrize("path", PAGES[1:])
def test_a_page_without_data_says_so(http: TestClient, path: str) -> None:
    answer = http.get(path)

    assert answer.status_code == 200
    assert re.search(
        r"Nothing has been measured on this hub yet|No network has|No model has been fitted|is not installed here", answer.text
    )


def test_devices_are_shown_fastest_first_with_a_dot_for_each_network(filled: TestClient) -> None:
    text = filled.get("/devices").text

    order = re.findall(r'href="/platforms/([a-z]+)/', text)
    assert order == ["fast", "b", "slow"]
    assert text.count("<circle") == 44 + 1  # and the key
    assert "Ann + Söhne (44)" in text


def test_a_platform_shows_measured_and_predicted_networks(filled: TestClient) -> None:
    text = filled.get(f"/platforms/{platform('slow')}").text

    assert "4 networks measured, 16 predicted" in text
    assert "<strong>9.00 ms</strong>" in text
    assert re.search(r"<strong>180 ms</strong><br><small>1\d\d – \d{3}</small>", text)
    assert len(re.findall(r'class="interval"/><circle', text)) == 16 + 1  # and the key


def test_a_network_shows_its_platforms_and_a_model_its_error(filled: TestClient) -> None:
    text = filled.get(f"/networks/{NETWORKS[0].key}").text

    assert '<td role="cell" data-label="MAPE %">0.0</td>' in filled.get("/models").text
    assert re.findall(r'href="/platforms/([a-z]+)/', text) == ["fast", "b", "slow"]
    assert "0.500 ms" in text


@pytest.mark.parametrize("path", ["/networks/nothing", "/platforms/a/b/c/d", "/nothing", "/model/0123456789abcdef"])
def test_an_unknown_address_is_a_page_for_a_browser_and_json_for_others(http: TestClient, path: str) -> None:
    page = http.get(path, headers={"accept": "text/html,*/*"})
    plain = http.get(path)

    assert (page.status_code, plain.status_code) == (404, 404)
    assert "<h1>There is nothing here</h1>" in page.text
    assert set(plain.json()) == {"detail"}
    assert http.get("/api/nothing", headers={"accept": "text/html"}).json() == {
        "detail": "no such page; the address may be mistyped"
    }


def test_lists_are_found_in_sorted_and_turned_over(filled: TestClient) -> None:
    def order(query: str) -> list[str]:
        return re.findall(r'href="/platforms/([a-z]+)/', filled.get(f"/devices?{query}").text)

    assert order("sort=-factor") == ["slow", "b", "fast"]
    assert order("sort=device") == ["b", "fast", "slow"]
    assert order("find=FAst") == ["fast"]
    assert "Nothing has “&lt;b&gt;” in its name." in filled.get("/networks?find=%3Cb%3E").text
    slowest = filled.get("/networks?sort=-median_ms").text
    assert slowest.index("resnet-20") < slowest.index("resnet-19")
    assert filled.get(f"/networks/{NETWORKS[0].key}?find=slow").text.count('<a class="row numbered"') == 1
    assert filled.get(f"/platforms/{platform('slow')}?find=resnet-7").text.count('<a class="row numbered"') == 1
    nonsense = filled.get("/devices?sort=colour", headers={"accept": "text/html"})
    assert nonsense.status_code == 422
    assert "not a field to sort by" in nonsense.text


def test_devices_are_searched_as_the_command_line_lists_platforms(filled: TestClient) -> None:
    def shown(text: str) -> str:
        return filled.get("/devices", params={"find": text}).text

    assert re.findall(r'href="/platforms/([a-z]+)/', shown("onnxruntime 1.31 on FAST")) == ["fast"]
    assert "Nothing was measured on “pixel 6”, but its chip is known" in shown("pixel 6")
    assert "no platform of &#39;&lt;b&gt;&#39; is known; " in shown("<b>")


def test_a_device_has_one_row_with_its_platforms_inside() -> None:
    parts = {"runtime": "onnxruntime", "runtime_version": "1.31", "precision": "fp32", "source": "shipped", "networks": 0}
    phone = {**NOTHING_DRAWN, **parts, "device": "phone"}
    bars = [{"bar": [1.0, place, 90.0], "ms": [0.5, place, 90.0], "factor": place} for place in (20.0, 40.0)]
    both = [
        {**phone, **bar, "unit": unit, "kind": unit[:3], "platform": f"phone/onnxruntime-1.31/{unit}/fp32", "cluster": "fast"}
        for bar, unit in zip(bars, ("gpu", "cpu4"), strict=True)
    ]

    [row] = device_rows(both)

    assert row["platforms"] == both
    assert (row["ms"], row["rings"], row["kinds"], row["factor"]) == ([20.0, 40.0], [20, 40], ["cpu", "gpu"], 20.0)


def test_a_page_of_a_thousand_devices_is_small() -> None:
    """Each has run 500 networks."""
    random = Random(0)
    axis, rows = strip_rows(
        {f"phone{index}": {str(key): random.uniform(1, 1000) for key in range(500)} for index in range(1000)}, {}
    )
    parts = {"runtime": "onnxruntime", "runtime_version": "1.31", "unit": "cpu1", "precision": "fp32", "kind": "cpu"}
    shown = device_rows({**row, **parts, "device": row["platform"], "networks": 500, "source": "hub"} for row in rows)
    found = Listed.of(shown, DEVICE_LIST, DEVICE_LABELS, ("", "", ""))
    for _ in range(2):
        assert found.portion.next is not None
        found = Listed.of(shown, DEVICE_LIST, DEVICE_LABELS, ("", "", found.portion.next))
    about = {"version": None, "contributors": [], "shipped": 0, "devices": 1000, "yardstick": "", "chips": {}, "note": ""}
    counts = {"measurements": 500_000, "networks": 500, "platforms": 1000, "contributors": 66}
    keys = {"dots": True, "bars": False, "clusters": True}
    values = {"axis": axis, "list": found, "opened": False, "keys": keys, "counts": counts, **about}
    page = render("devices.html", "/devices", values)

    assert (len(found.portion.rows), found.portion.total) == (50, 1000)
    assert b"<span>101 to 150 of 1000</span>" in page
    assert len(page) < 100_000


def test_names_from_uploads_are_escaped(http: TestClient, sqlite: HubDatabase) -> None:
    evil = "<img src=x onerror=alert(1)>"
    found = record(1, reference=Reference("resnet", {"a": evil}, evil))
    post(http, sqlite.issue_token("Ann", trusted=True)[0], [found])

    for path in ("/devices", "/networks", f"/networks/{found.reference.key}", f"/platforms/{platform()}"):
        text = http.get(path).text
        assert "<img" not in text
        assert "alert(1)" not in text or "&lt;img" in text or "\\u003cimg" in text


@pytest.mark.parametrize("path", PAGES)
def test_pages_need_nothing_from_elsewhere_and_no_inline_code(filled: TestClient, path: str) -> None:
    text = filled.get(path).text

    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=", text)
    for linked in re.findall(r'(?:src|href)="(/static/[^"]+)"', text):
        assert filled.get(linked).status_code == 200
    for linked, integrity in re.findall(r'(?:src|href)="(/static/[^"]+)" integrity="sha384-([^"]+)"', text):
        assert b64encode(sha384(filled.get(linked).content).digest()).decode() == integrity
    assert len(re.findall(" integrity=", text)) == len(re.findall(r"<script|stylesheet|modulepreload", text))


def test_the_page_for_devices_offers_to_measure_where_the_runtime_is_installed(http: TestClient) -> None:
    folder = browser.cached_folder()
    folder.mkdir(parents=True)
    for name in browser.FILES:
        (folder / f"{name}.gz").write_bytes(gzip.compress(b"x"))
    (folder / "VERSION").write_text(browser.VERSION)

    text = http.get("/add").text

    assert 'id="form"' in text
    assert http.get(f"/{browser.PACKAGE}/{browser.VERSION}/ort.webgpu.min.mjs").content == b"x"
    assert http.get(f"/{browser.PACKAGE}/{browser.VERSION}/ort.all.min.mjs").status_code == 404


def test_platforms_fall_into_three_clusters() -> None:
    assert clusters([-2.0, -1.9, 0.0, 0.1, 2.0, 2.2]) == ["fast", "fast", "medium", "medium", "slow", "slow"]
    assert clusters([0.0] * 5) == [""] * 5


def test_a_platform_s_speed_is_judged_on_the_networks_that_it_ran() -> None:
    latencies = {"a": {"x": 1.0, "y": 100.0}, "b": {"y": 60.0}, "c": {"x": 2.0}}

    _, rows = strip_rows(latencies, {"x": "small", "y": "large"})

    assert [row["platform"] for row in rows] == ["b", "a", "c"]
    assert rows[0]["dots"] == [(rows[0]["dots"][0][0], "large: 60 ms")]


def test_predicted_platforms_are_ranked_among_measured_ones() -> None:
    """On a typical platform x takes 2 ms and y 50 ms: a takes 2 times, b 0.5 times as long, c, which nobody measured, as long."""
    forecasts = {"c": Forecast(2.0, 1.5, 3.0)}

    axis, rows = strip_rows({"a": {"x": 4.0}, "b": {"y": 25.0}}, {}, forecasts, "x", {"x": 2.0, "y": 50.0})

    assert [(row["platform"], round(row["factor"], 6)) for row in rows] == [("b", 0.5), ("c", 1.0), ("a", 2.0)]
    assert rows[1]["bar"] == [axis.x(1.5), axis.x(2.0), axis.x(3.0)]
    assert [row["bar"] for row in (rows[0], rows[2])] == [None, None]
