"""Which predictors are like a new platform."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.devices.pool import Pool
from latcast.devices.similarity import divergence, ranked, representative_configurations, similarities
from latcast.errors import TrainingError
from latcast.kernels.types import kernel_type
from tests.devices.made_up_pool import COMPUTE, MEMORY, SPACE, conv, convs, law_ms, platform_of

positive = st.lists(st.floats(0.01, 100), min_size=2, max_size=20)


def test_the_divergence_is_that_of_the_shares_of_the_sum() -> None:
    # P = (1/4, 3/4), Q = (1/2, 1/2): 1/4 ln(1/2) + 3/4 ln(3/2) = 0.1308.
    assert divergence(np.array([1.0, 3.0]), np.array([2.0, 2.0])) == pytest.approx(0.25 * np.log(0.5) + 0.75 * np.log(1.5))
    # The other way round it is 1/2 ln 2 + 1/2 ln(2/3) = 0.1438: not the same.
    assert divergence(np.array([2.0, 2.0]), np.array([1.0, 3.0])) == pytest.approx(0.1438, abs=1e-4)


@given(positive, st.floats(0.01, 100))
def test_a_platform_that_is_slower_by_one_factor_is_no_distance_away(latencies: list[float], factor: float) -> None:
    found = np.array(latencies)

    assert divergence(found, factor * found) == pytest.approx(0, abs=1e-9)


@given(positive, st.integers(0, 1000))
def test_a_divergence_is_never_negative(latencies: list[float], seed: int) -> None:
    found = np.array(latencies)

    assert divergence(found, found * np.random.default_rng(seed).uniform(0.1, 10, len(found))) >= 0


def test_latencies_of_zero_have_no_divergence() -> None:
    with pytest.raises(TrainingError, match="positive latencies"):
        divergence(np.array([0.0, 1.0]), np.array([1.0, 1.0]))


@pytest.fixture(scope="module")
def pool() -> Pool:
    return Pool.of([platform_of("phone", COMPUTE), platform_of("board", MEMORY)])


def test_the_platform_of_the_same_law_is_the_most_similar_whatever_its_speed(pool: Pool) -> None:
    rows = convs(60, seed=1)

    [nearest, other] = ranked(similarities(pool, "conv", rows, law_ms(rows, 5 * COMPUTE)))

    assert nearest.platform.startswith("phone")
    assert nearest.scale == pytest.approx(5, rel=0.05)
    assert nearest.spread < 0.1 < other.spread
    assert nearest.divergence < 0.02 < other.divergence


def test_the_spread_finds_the_same_law_too(pool: Pool) -> None:
    rows = convs(60, seed=1)

    found = ranked(similarities(pool, "conv", rows, law_ms(rows, MEMORY)), "spread")

    assert [each.platform.partition("/")[0] for each in found] == ["board", "phone"]


def test_oneproxy_takes_the_highest_rank_correlation(pool: Pool) -> None:
    rows = convs(60, seed=1)

    found = ranked(similarities(pool, "conv", rows, law_ms(rows, MEMORY)), "spearman")

    assert found[0].platform.startswith("board")
    assert found[0].spearman > found[1].spearman


def test_chance_is_a_matter_of_the_seed_alone(pool: Pool) -> None:
    rows = convs(20, seed=1)
    found = similarities(pool, "conv", rows, law_ms(rows, MEMORY))

    firsts = {ranked(found, "random", seed)[0].platform for seed in range(20)}

    assert len(firsts) == 2
    assert ranked(found, "random", 3) == ranked(found, "random", 3)


def test_an_unknown_way_to_choose_is_named(pool: Pool) -> None:
    with pytest.raises(TrainingError, match="'best' is no way to choose a predictor; expected one of divergence"):
        ranked([], "best")


class TestRepresentativeKernels:
    rows = representative_configurations(SPACE, {conv(28, 64, 64): 5, conv(14, 128, 256, 1): 3, conv(56, 32, 48): 1}, 60)

    def test_they_are_valid_distinct_and_as_many_as_asked_for(self) -> None:
        assert len(set(self.rows)) == len(self.rows) == 60
        assert all(SPACE.contains(row) for row in self.rows)

    def test_half_of_them_sweep_sixteen_steps_of_channels_and_the_window(self) -> None:
        fields = kernel_type("conv").fields
        table = np.array(self.rows)[30:]
        ins = table[:, fields.index("in_channels")]
        steps = [np.sum(ins == value) for value in np.unique(ins)]

        assert max(len(np.unique(ins)), max(steps)) >= 16
        assert set(table[:, fields.index("kernel_h")]) >= {1, 3}
