"""Plausibility of records: a reason for each kind of slip, and none for what devices really do."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from latcast.hub.model import HubModel
from latcast.hub.plausibility import disagreement, implausibility, outliers
from latcast.hub.scales import Observation
from latcast.records import Measurement
from tests.hub.made_up import NETWORKS, device, observed, record

NOW = datetime(2026, 6, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"latency_ms": 0.0005}, "outside 0.001 to 600000 for a network"),
        ({"latency_ms": 700_000.0}, "outside"),
        ({"runs_ms": (0.0, 1.0)}, "a run of 0 ms"),
        ({"runs_ms": (3.0, 3.1), "raw_latency_ms": 3.05}, "latency_ms is 1, the median of its runs 3.05"),
        ({"raw_latency_ms": 5.0}, "raw_latency_ms is 5, the median of its runs 1"),
        ({"probe_ms": (1.0, 1.0), "runs_ms": (40.0, 40.0), "raw_latency_ms": 40.0}, "no probe corrects so much"),
        ({"taken_at": "2026-06-01T01:00:00Z"}, "lies in the future"),
        ({"taken_at": "1970-01-01T00:00:00Z"}, "the clock of the device is wrong"),
        ({"taken_at": "2026-13-45T00:00:00Z"}, "is not a time"),
        ({"latency_ms": 9.0, "runs_ms": (9.0,) * 10, "rounds": (0,) * 10}, "to the last digit"),
    ],
)  # fmt: skip
def test_an_implausible_record_has_a_reason(changes: dict[str, Any], reason: str) -> None:
    assert reason in str(implausibility(record(1, **changes), NOW))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"runs_ms": (), "rounds": (), "raw_latency_ms": None},
        {"taken_at": ""},
        {"taken_at": "2026-06-01T00:05:00Z"},
        {"runs_ms": (0.9, 1.0, 9.0), "rounds": (0, 0, 0), "raw_latency_ms": 1.0},
        {"runs_ms": (0.5, 0.5, 2.0), "rounds": (0, 0, 0), "raw_latency_ms": 0.5},
        {"probe_ms": (1.0, 1.0), "runs_ms": (3.0, 3.0), "raw_latency_ms": 3.0},
        {"runs_ms": (1.0,) * 20, "rounds": (0,) * 20},
        {"error": "out of memory", "latency_ms": 1e9},
        {"role": "kernel", "latency_ms": 0.0005},
    ],
    ids=["plain", "published mean", "no time", "clock five minutes early", "one slow run", "mean of the runs", "busy host",
         "coarse clock", "failed", "short kernel"],
)  # fmt: skip
def test_a_plausible_record_is_believed(changes: dict[str, Any]) -> None:
    assert implausibility(record(1, **changes), NOW) is None


def indexed(records: list[Measurement]) -> dict[int, Measurement]:
    return dict(enumerate(records))


def model() -> HubModel:
    """Knows that network ``n`` takes n times as long as the first one."""
    return HubModel.fit([item for name in "abc" for item in observed(device(name, 1.0))])


def test_a_latency_far_from_the_others_of_its_platform_is_an_outlier() -> None:
    records = [*device("phone", 2.0, range(1, 10)), record(10, factor=20.0)]

    found = outliers(indexed(records), {}, model())

    assert list(found) == [9]
    assert "from 9 other networks on this platform" in found[9]


def test_believed_latencies_judge_a_later_upload() -> None:
    trusted = {NETWORKS[index].key: 2.0 * (index + 1) for index in range(5)}

    assert list(outliers(indexed(device("phone", 40.0, [6, 7])), trusted, model())) == [0, 1]
    assert outliers(indexed(device("phone", 2.0, [6, 7])), trusted, model()) == {}


VOUCHED = {NETWORKS[index].key: 2.0 * (index + 1) for index in range(5)}
"""Trusted contributors measured the first five networks, at a factor of 2."""


@pytest.mark.parametrize(("factor", "times"), [(2.6, "1.3 times"), (1.5, "0.75 times")])
def test_latencies_that_disagree_together_with_trusted_ones_are_held_together(factor: float, times: str) -> None:
    """Four of the five lie beyond 1.25 of what was measured, the fifth and the sixth are right."""
    records = [*device("phone", factor, range(1, 5)), *device("phone", 2.0, [5, 6])]

    for judge in (model(), None):
        found = disagreement(indexed(records), VOUCHED, judge)

        assert list(found) == list(range(6))
        assert "4 of 5 latencies" in found[0]
        assert f"{times} as long as expected" in found[0]


@pytest.mark.parametrize("factor", [2.4, 1.7])
def test_contributors_who_agree_with_trusted_ones_within_a_quarter_are_believed(factor: float) -> None:
    """A phone of the same model that is warmer or cooler: 2.4 is 1.2 times 2, and 2 is 1.18 times 1.7. The model knows networks
    to a factor of 1.1, which is narrower."""
    assert disagreement(indexed(device("phone", factor)), VOUCHED, model()) == {}


def test_records_that_agree_with_trusted_ones_in_most_networks_are_believed() -> None:
    records = [*device("phone", 2.02, range(1, 4)), *device("phone", 2.6, [4, 5]), *device("phone", 2.02, range(6, 9))]

    assert disagreement(indexed(records), VOUCHED, model()) == {}
    assert disagreement(indexed(device("phone", 2.6)), {}, model()) == {}


def test_copies_of_what_is_known_do_not_excuse_other_records() -> None:
    """The model knows networks to a factor of 1.1; three further ones are 1.3 times too long."""
    records = [*device("phone", 2.0, range(1, 6)), *device("phone", 2.6, [6, 7, 8])]

    found = disagreement(indexed(records), VOUCHED, model())

    assert list(found) == list(range(8))
    assert "3 of 3 latencies" in found[0]


def test_small_uploads_of_one_contributor_are_judged_together() -> None:
    earlier = {NETWORKS[index].key: 2.6 * (index + 1) for index in range(2)}
    records = device("phone", 2.6, [3])

    assert disagreement(indexed(records), VOUCHED, model()) == {}
    assert "3 of 3 latencies" in disagreement(indexed(records), VOUCHED, model(), earlier)[0]


def test_few_records_have_no_outliers() -> None:
    assert outliers(indexed([record(1, factor=100.0), record(2), record(3)]), {}, model()) == {}
    assert outliers(indexed(device("phone", 2.0)), {}, None) == {}


def test_networks_that_the_model_does_not_know_are_no_outliers() -> None:
    assert outliers(indexed(device("phone", 3.0)), {}, HubModel.fit(one_network())) == {}


def one_network() -> list[Observation]:
    return [Observation("a/b-1/cpu1/fp32", NETWORKS[0], 1.0)]
