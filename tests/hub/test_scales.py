"""Scale factors of platforms, on latencies worked out by hand."""

from __future__ import annotations

import pytest

from latcast.errors import TrainingError
from latcast.hub.scales import ScaleFactors
from tests.hub.made_up import NETWORKS, device, observed


def fitted(*platforms: tuple[str, float, range]) -> ScaleFactors:
    return ScaleFactors.fit([item for each in platforms for item in observed(device(*each))])


def test_a_platform_is_a_factor_away_from_the_others() -> None:
    model = fitted(("a", 1.0, range(1, 11)), ("b", 3.0, range(1, 11)))

    found = model.forecasts([item.key for item in NETWORKS[:10]], {NETWORKS[1].key: 20.0})

    assert [found[item.key].latency_ms for item in NETWORKS[:3]] == pytest.approx([10.0, 20.0, 30.0])


def test_missing_cells_are_filled_through_what_platforms_share() -> None:
    model = fitted(("a", 1.0, range(1, 8)), ("b", 5.0, range(5, 12)))

    [found] = model.forecasts([NETWORKS[10].key], {NETWORKS[0].key: 2.0}).values()
    assert found.latency_ms == pytest.approx(22.0, rel=1e-3)


def test_one_wrong_latency_does_not_move_the_factor() -> None:
    model = fitted(("a", 1.0, range(1, 11)), ("b", 3.0, range(1, 11)))

    measured = {NETWORKS[index].key: 2.0 * (index + 1) for index in range(5)} | {NETWORKS[5].key: 5000.0}

    assert model.forecasts([NETWORKS[9].key], measured)[NETWORKS[9].key].latency_ms == pytest.approx(20.0)


def test_a_network_that_no_platform_ran_is_not_guessed() -> None:
    model = fitted(("a", 1.0, range(1, 4)))

    assert model.forecasts([NETWORKS[9].key], {NETWORKS[0].key: 1.0}) == {}
    assert model.forecasts([NETWORKS[0].key], {NETWORKS[9].key: 1.0}) == {}


def test_a_fit_without_latencies_is_refused() -> None:
    with pytest.raises(TrainingError, match="no latency"):
        ScaleFactors.fit([])
