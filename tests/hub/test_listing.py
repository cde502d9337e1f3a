"""Lists in portions: nothing is repeated or lost, whatever the order."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.errors import HubError
from latcast.hub.database import HubDatabase
from latcast.hub.listing import Listing
from latcast.hub.site import ServerSettings
from tests.hub.made_up import device
from tests.hub.serving import client, post

LISTING = Listing("name", {"ms": lambda row: row["ms"]})
ROWS = [{"name": f"net-{index}", "ms": float(index % 3)} for index in range(10)]


@given(st.sampled_from(["", "name", "-name", "ms", "-ms"]), st.integers(1, 11))
def test_portions_together_are_the_whole_list(sort: str, limit: int) -> None:
    whole = LISTING.portion(ROWS, "", sort, None, "").rows
    found = [LISTING.portion(ROWS, "", sort, limit, "")]
    while found[-1].next is not None:
        found.append(LISTING.portion(ROWS, "", sort, limit, found[-1].next))

    assert [row for each in found for row in each.rows] == whole
    assert sorted(row["name"] for row in whole) == sorted(row["name"] for row in ROWS)
    for earlier, later in pairwise(found):
        assert later.start == earlier.start + limit
        assert later.before is not None
        assert LISTING.portion(ROWS, "", sort, limit, later.before) == earlier


@pytest.mark.parametrize(("sort", "order"), [("ms", "dbac"), ("-ms", "bdac")])
@pytest.mark.parametrize("limit", [1, 3])
def test_rows_without_a_value_come_last_in_either_direction(sort: str, order: str, limit: int) -> None:
    rows = [{"name": name, "ms": ms} for name, ms in (("a", None), ("b", 2.0), ("c", None), ("d", 1.0))]
    found, cursor = "", ""
    while cursor is not None:
        portion = LISTING.portion(rows, "", sort, limit, cursor)
        found, cursor = found + "".join(row["name"] for row in portion.rows), portion.next

    assert found == order


def test_rows_that_come_between_two_portions_repeat_nothing() -> None:
    first = LISTING.portion(ROWS, "", "", 5, "")
    more = [{"name": "net-00", "ms": 0.0}, *ROWS]

    second = LISTING.portion(more, "", "", 50, str(first.next))

    assert [row["name"] for row in second.rows] == [f"net-{index}" for index in range(5, 10)]


def test_every_word_is_looked_for() -> None:
    found = LISTING.portion(ROWS, "NET 7", "-ms", 3, "")

    assert ([row["name"] for row in found.rows], found.total, found.before, found.next) == (["net-7"], 1, None, None)


@pytest.mark.parametrize(
    ("sort", "cursor", "reason"),
    [
        ("colour", "", "'colour' is not a field to sort by; expected one of name, ms"),
        ("", "!!", "unknown cursor"),
        ("ms", LISTING.portion(ROWS, "", "-ms", 2, "").next, "in another order"),
    ],
)
def test_an_unknown_field_or_cursor_is_refused(sort: str, cursor: str, reason: str) -> None:
    with pytest.raises(HubError, match=reason):
        LISTING.portion(ROWS, "", sort, 2, cursor)


def test_the_interface_lists_what_comes_with_latcast_before_anything_was_uploaded(sqlite: HubDatabase) -> None:
    with client(sqlite, ServerSettings(fit_in_process=False, reads_per_minute=0)) as http:
        listed = http.get("/api/platforms?find=pixel4 tflite&sort=-networks&limit=2").json()
        name = listed["platforms"][0]["id"]
        page = http.get(f"/api/platforms/{name}").json()
        assert http.get("/api/health").json()["model"] == 0
        post(http, sqlite.issue_token("Ann")[0], device("phone", 1.0))
        [own] = http.get("/api/platforms?find=phone/onnx").json()["platforms"]

    assert (len(listed["platforms"]), listed["platforms"][0]["source"]) == (2, "shipped")
    assert listed["next"]
    assert page["measured"] == []
    assert "squeezenet1_1" in {item["name"] for item in page["predicted"]}
    assert all(item["low_ms"] < item["latency_ms"] < item["high_ms"] for item in page["predicted"])
    assert (own["source"], own["networks"]) == ("hub", 20)
