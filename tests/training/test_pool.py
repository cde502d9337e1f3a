"""The pool: bundles of folders as predictors to transfer from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.errors import BundleError, TrainingError
from latcast.kernels.types import kernel_type
from latcast.predictors.bundle import save_bundle
from latcast.training.pool import Pool, divergence, open_pool, representative_configurations, similarities
from tests.devices.made_up_pool import COMPUTE, MEMORY, SPACE, conv, convs, law_ms, platform_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("pool")
    save_bundle(platform_of("fast", COMPUTE, count=40), found / "fast.zip")
    save_bundle(platform_of("slow", 3 * COMPUTE, count=40), found / "slow.zip")
    return found


def test_every_bundle_of_a_folder_is_in_the_pool(folder: Path) -> None:
    watched: list[tuple[str, float]] = []

    pool = open_pool([folder], watch=lambda *each: watched.append(each))

    assert list(pool) == ["fast/onnxruntime-1.31/cpu1/fp32", "slow/onnxruntime-1.31/cpu1/fp32"]
    assert watched == [("fast/onnxruntime-1.31/cpu1/fp32", 0.0), ("slow/onnxruntime-1.31/cpu1/fp32", 0.5)]


def test_a_damaged_bundle_is_left_out_and_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "good.zip").write_bytes((folder / "fast.zip").read_bytes())
    (tmp_path / "bad.zip").write_bytes((folder / "slow.zip").read_bytes()[:-200])

    pool = open_pool([tmp_path])

    assert len(pool) == 1
    assert any("bad.zip" in problem for problem in pool.problems)


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"found no folder '.*nowhere' to take predictors from"):
        open_pool([tmp_path / "nowhere"])


def test_of_the_shipped_bundles_those_that_compute_alike_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))
    pool = open_pool(like=("cpu2", "int8"))

    units = {each.platform.unit for each in pool.predictors.values()}
    assert {"2large", "2small"} <= units
    assert not units & {"1large", "gpu", "1large1med1small"}
    assert {each.platform.precision for each in pool.predictors.values()} == {"int8"}


def test_it_says_what_each_platform_that_knows_a_type_predicts() -> None:
    pool = Pool.of([platform_of("fast", COMPUTE, count=40), platform_of("slow", 3 * COMPUTE, count=40)])
    rows = convs(10)

    found = pool.latency_ms("conv", rows)

    assert list(found) == ["fast/onnxruntime-1.31/cpu1/fp32", "slow/onnxruntime-1.31/cpu1/fp32"]
    np.testing.assert_allclose(found["slow/onnxruntime-1.31/cpu1/fp32"] / found["fast/onnxruntime-1.31/cpu1/fp32"], 3, rtol=0.1)
    assert pool.latency_ms("softmax", rows) == {}


def test_platforms_can_be_taken_out() -> None:
    pool = Pool.of([platform_of("fast", COMPUTE, count=40), platform_of("slow", 3 * COMPUTE, count=40)])

    assert list(pool.without(lambda platform: platform.device == "fast")) == ["slow/onnxruntime-1.31/cpu1/fp32"]


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


def test_latencies_of_zero_are_refused() -> None:
    with pytest.raises(TrainingError, match="positive latencies"):
        divergence(np.array([0.0, 1.0]), np.array([1.0, 1.0]))


@pytest.fixture(scope="module")
def pool() -> Pool:
    return Pool.of([platform_of("phone", COMPUTE), platform_of("board", MEMORY)])


def test_the_platform_of_the_same_law_is_the_most_similar_whatever_its_speed(pool: Pool) -> None:
    rows = convs(60, seed=1)

    [nearest, other] = similarities(pool, "conv", rows, law_ms(rows, 5 * COMPUTE))

    assert nearest.platform.startswith("phone")
    assert nearest.scale == pytest.approx(5, rel=0.05)
    assert nearest.dispersion < 0.1 < other.dispersion
    assert nearest.divergence < 0.02 < other.divergence


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
