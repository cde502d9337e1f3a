"""Blocks of a phone from those of two others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import DatasetError
from papers.litepred.blocks import (
    Blocks,
    blocks_comparison,
    from_scratch,
    one_factor,
    read_blocks,
    ridge_from_scratch,
    ridge_weights,
    transfer_blocks,
)
from papers.litepred.fine_tuning import FineTuned, divergence


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """200 blocks; each phone is the first one times a level for each kind of block."""
    rng = np.random.default_rng(0)
    names = [f"{kind}_{size}_{width}_relu" for kind in ("conv", "pool") for size in range(1, 11) for width in range(8, 88, 8)]
    first = {name: float(rng.uniform(0.1, 5)) for name in names}
    levels = {"pixel1": (1.0, 1.0), "xiaomi11": (0.5, 0.8), "pixel4": (0.7, 2.0)}
    for phone, (conv, pool) in levels.items():
        table = {name: latency * (conv if name.startswith("conv") else pool) for name, latency in first.items()}
        (tmp_path / f"{phone}_ln_v3.json").write_text(json.dumps({**table, f"only_{phone}": 1.0}))
    return tmp_path


def test_blocks_that_all_phones_have_are_read_with_their_kinds(folder: Path) -> None:
    blocks = read_blocks(folder)

    assert blocks.sources_ms.shape == (200, 2)
    assert np.bincount(blocks.kinds).tolist() == [100, 100]


def test_levels_of_kinds_are_learned_from_few_blocks_where_scratch_knows_nothing(folder: Path) -> None:
    blocks = read_blocks(folder)
    train, test = np.split(np.random.default_rng(1).permutation(200), [20])

    errors = [
        np.abs(learn(blocks, train)[test] / blocks.latency_ms[test] - 1).mean() for learn in (transfer_blocks, from_scratch)
    ]

    assert errors[0] < 0.01
    assert errors[1] > 0.3


def test_one_factor_is_the_median_ratio_to_the_known_phones() -> None:
    sources_ms = np.array([[1.0, 4.0], [2.0, 8.0], [3.0, 12.0], [5.0, 20.0]])
    blocks = Blocks(np.zeros(4, dtype=int), np.zeros((4, 1)), sources_ms, np.array([4.0, 8.0, 36.0, 1.0]))

    # Geometric means of 2, 4, 6 and 10; ratios of 2, 2 and 6 where it was measured.
    assert one_factor(blocks, np.array([0, 1, 2])) == pytest.approx([4.0, 8.0, 12.0, 20.0])


def test_a_ridge_on_logarithms_finds_the_powers_of_each_kind() -> None:
    rng = np.random.default_rng(0)
    kinds = np.repeat([0, 1], 100)
    sizes = rng.uniform(8, 512, (200, 2))
    features = np.column_stack([np.where(kinds == 0, -1.0, -2.0), sizes])
    latency_ms = np.where(kinds == 0, 1e-4 * sizes[:, 0] * sizes[:, 1], 0.02 * sizes[:, 0])
    train, test = np.split(rng.permutation(200), [40])
    blocks = Blocks(kinds, features, np.ones((200, 2)), latency_ms)

    errors = [np.abs(learn(blocks, train)[test] / latency_ms[test] - 1).mean() for learn in (ridge_from_scratch, from_scratch)]

    assert errors[0] < 0.05 < errors[1]


def test_the_strength_of_a_ridge_is_the_one_that_predicts_each_row_best_from_the_others() -> None:
    rng = np.random.default_rng(3)
    design = rng.normal(size=(25, 6))
    design -= design.mean(axis=0)
    target = design[:, 0] + 3 * rng.normal(size=25)
    target -= target.mean()

    def solution(rows: np.ndarray, wanted: np.ndarray, strength: float) -> np.ndarray:
        return np.asarray(np.linalg.solve(rows.T @ rows + strength * np.eye(6), rows.T @ wanted))

    def left_out_error(strength: float) -> float:
        errors = []
        for row in range(25):
            others = np.arange(25) != row
            middle, level = design[others].mean(axis=0), target[others].mean()
            weights = solution(design[others] - middle, target[others] - level, strength)
            errors.append((level + (design[row] - middle) @ weights - target[row]) ** 2)
        return float(np.mean(errors))

    strengths = (0.1, 1.0, 10.0, 100.0)
    expected = solution(design, target, min(strengths, key=left_out_error))

    np.testing.assert_allclose(ridge_weights(design, target, strengths), expected, rtol=1e-9)


def test_the_comparison_has_no_more_samples_than_half_the_blocks(folder: Path) -> None:
    found = blocks_comparison(folder, (20, 50, 500))

    assert found.column("blocks measured") == [20, 50]
    assert max(found.column("transferred, MAPE %")) < 1  # type: ignore[type-var, operator]
    # Two kinds, 1.0 and 2.8 of the geometric mean: one factor is right for one of them.
    assert min(found.column("one factor, MAPE %")) > 20  # type: ignore[type-var, operator]
    assert [column for column in found.columns if column.startswith("ridge from scratch")]


def test_phones_without_common_blocks_are_refused(folder: Path) -> None:
    (folder / "pixel4_ln_v3.json").write_text('{"only_pixel4": 1.0}')

    with pytest.raises(DatasetError, match="found no block that pixel4, pixel1, xiaomi11 all have"):
        read_blocks(folder)


def test_a_perceptron_of_the_likest_phone_is_tuned_to_a_new_one_by_few_blocks() -> None:
    sizes = np.random.default_rng(0).uniform(8, 512, (800, 2))
    unlike_ms, like_ms = 0.02 * sizes[:, 1], 1e-4 * sizes[:, 0] * sizes[:, 1]
    blocks = Blocks(np.zeros(800, dtype=int), sizes, np.column_stack([unlike_ms, like_ms]), 3 * like_ms * (1 + sizes[:, 0] / 256))
    train, test = np.split(np.random.default_rng(1).permutation(800), [20])

    found = FineTuned.of(blocks)(blocks, train)

    # Untuned it errs by a quarter, tuned from the other phone's by an eighth.
    assert np.abs(found[test] / blocks.latency_ms[test] - 1).mean() < 0.1


def test_phones_whose_latencies_are_proportional_do_not_diverge() -> None:
    assert divergence(np.log([1.0, 3.0]), np.log([2.0, 6.0])) == pytest.approx(0, abs=1e-12)
    # Halves against a quarter and three quarters: log 2 / 2 + log(2/3) / 2.
    assert divergence(np.zeros(2), np.log([1.0, 3.0])) == pytest.approx(0.1438, abs=1e-4)
