"""Contributors count alike, and a few records move little: medians worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.hub.cells import Cells, grouped_median

ANN, BOB, EVE = 1, 2, 3


def cells(*records: tuple[str, str, int, float], trusted: tuple[int, ...] = ()) -> Cells:
    """Of (platform, network, contributor, latency)."""
    platforms, networks, who, latency_ms = zip(*records, strict=True)
    return Cells.of(platforms, networks, who, [each in trusted for each in who], latency_ms)


def test_a_contributor_counts_once_however_many_records_it_sends() -> None:
    found = cells(("a", "n", ANN, 10.0), ("a", "n", BOB, 11.0), *[("a", "n", EVE, 99.0)] * 50)

    assert found.latency_ms.tolist() == [11.0]
    assert (found.measurements.tolist(), found.fastest_ms.tolist(), found.slowest_ms.tolist()) == ([52], [10.0], [99.0])


def test_of_one_contributor_the_median_of_its_records_counts() -> None:
    assert cells(("a", "n", ANN, 1.0), ("a", "n", ANN, 5.0), ("a", "n", ANN, 2.0), ("a", "n", ANN, 3.0)).latency_ms.tolist() == [
        2.5
    ]


def test_others_cannot_carry_a_cell_beyond_what_trusted_contributors_measured() -> None:
    records = [("a", "n", ANN, 10.0), *(("a", "n", who, 90.0) for who in range(10, 30))]

    assert cells(*records, trusted=(ANN,)).latency_ms.tolist() == [10.0]
    assert cells(*records).latency_ms.tolist() == [90.0]


def test_groups_that_contradict_each_other_count_equally() -> None:
    """Three measured 10, twenty 13 ms: what is shown lies between, and says that nobody agrees with it."""
    honest = [("a", "n", who, 10.0) for who in (1, 2, 3)]
    fakes = [("a", "n", who, 13.0) for who in range(10, 30)]
    found = cells(*honest, *fakes)

    assert found.latency_ms.tolist() == [11.5]
    assert (found.low_ms.tolist(), found.high_ms.tolist()) == ([10.0], [13.0])
    assert (found.contributors.tolist(), found.agreeing.tolist()) == ([23], [0])
    assert found.dispute.tolist() == [pytest.approx(1.3**0.5)]


def test_a_contributor_who_contradicts_many_changes_nothing() -> None:
    found = cells(*(("a", "n", who, 10.0 + who / 10) for who in range(9)), ("a", "n", 99, 14.0))

    assert found.latency_ms.tolist() == [pytest.approx(10.45)]
    assert (found.contributors.tolist(), found.agreeing.tolist()) == ([10], [9])
    assert (found.low_ms.tolist(), found.dispute.tolist()) == (found.high_ms.tolist(), [1.0])


def test_a_trusted_contributor_decides_between_groups() -> None:
    others = [("a", "n", who, 10.0 if who < 12 else 13.0) for who in range(10, 30)]
    found = cells(("a", "n", ANN, 10.0), *others, trusted=(ANN,))

    assert (found.latency_ms.tolist(), found.dispute.tolist()) == ([10.0], [1.0])


def test_over_platforms_a_contributor_of_many_counts_as_one_of_few() -> None:
    records = [("a", "n", ANN, 10.0), ("b", "n", BOB, 12.0), *((f"fake-{index}", "n", EVE, 99.0) for index in range(66))]
    found = cells(*records, trusted=(ANN, BOB, EVE))

    assert found.weight[:2].tolist() == [1.0, 1.0]
    assert found.weight[2:].sum() == pytest.approx(1.0)
    assert found.ranges()["n"].median_ms == 12.0


def test_a_platform_with_a_few_records_of_a_stranger_does_not_count_over_platforms() -> None:
    honest = [(platform, network, ANN, 10.0) for platform in "ab" for network in ("n", "o", "p", "q")]
    fakes = [(f"fake-{index}", "n", EVE, 0.01) for index in range(3)]

    found = cells(*honest, *fakes).ranges()["n"]

    assert (found.fastest_ms, found.median_ms, found.slowest_ms, found.platforms) == (10.0, 10.0, 10.0, 5)


def test_of_a_network_that_only_small_platforms_ran_the_first_contributor_is_believed() -> None:
    found = cells(("a", "n", ANN, 10.0), *((f"fake-{index}", "n", EVE, 1.0) for index in range(3)))

    assert found.ranges()["n"].median_ms == 10.0


def test_no_records_give_no_cells() -> None:
    found = Cells.of([], [], [], [], [])

    assert (len(found.latency_ms), found.ranges()) == (0, {})


VOTES = st.lists(st.tuples(st.integers(0, 3), st.floats(0.1, 1e3), st.integers(1, 4)), min_size=1, max_size=30)


@given(VOTES)
def test_a_weighted_median_is_the_median_of_repeated_values(votes: list[tuple[int, float, int]]) -> None:
    group, value, times = (np.array(part) for part in zip(*votes, strict=True))

    found = grouped_median(group, value, times.astype(float), 4)

    for each in set(group.tolist()):
        repeated = np.repeat(value[group == each], times[group == each])
        assert found[each] == pytest.approx(np.median(repeated))
