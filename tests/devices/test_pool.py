"""The pool: bundles of folders as predictors to transfer from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from latcast.devices.pool import Pool, open_pool
from latcast.errors import BundleError
from latcast.predictors.bundle import save_bundle
from tests.devices.made_up_pool import COMPUTE, convs, platform_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("pool")
    save_bundle(platform_of("fast", COMPUTE, count=40), found / "fast.zip")
    save_bundle(platform_of("slow", 3 * COMPUTE, count=40), found / "slow.zip")
    return found


def test_every_bundle_of_a_folder_is_in_the_pool_but_the_excluded_one(folder: Path) -> None:
    watched: list[tuple[str, float]] = []

    pool = open_pool([folder], exclude=["slow/onnxruntime-1.31/cpu1/fp32"], watch=lambda *each: watched.append(each))

    assert list(pool) == ["fast/onnxruntime-1.31/cpu1/fp32"]
    assert watched == [("fast/onnxruntime-1.31/cpu1/fp32", 0.0)]


def test_a_damaged_bundle_is_left_out_and_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "good.zip").write_bytes((folder / "fast.zip").read_bytes())
    (tmp_path / "bad.zip").write_bytes((folder / "slow.zip").read_bytes()[:-200])

    pool = open_pool([tmp_path])

    assert len(pool) == 1
    assert any("bad.zip" in problem for problem in pool.problems)


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"found no folder '.*nowhere' to take predictors from"):
        open_pool([tmp_path / "nowhere"])


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
