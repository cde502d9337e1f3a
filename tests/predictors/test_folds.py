"""Which networks are left out together."""

from __future__ import annotations

import numpy as np

from latcast.predictors.folds import group_folds, held_out_by


def test_small_groups_stay_whole_and_folds_are_even() -> None:
    groups = [name for name in "abcdefghij" for _ in range(3)]

    fold = group_folds(groups, 5, seed=0)

    assert all(len({part for part, group in zip(fold, groups, strict=True) if group == name}) == 1 for name in "abcdefghij")
    assert np.bincount(fold).tolist() == [6, 6, 6, 6, 6]


def test_a_lineage_larger_than_a_fold_stays_whole() -> None:
    groups = ["residual"] * 12 + ["small"] * 10 + ["tiny"] * 8

    fold = group_folds(groups, 5, seed=0)

    assert [len(set(part)) for part in (fold[:12], fold[12:22], fold[22:])] == [1, 1, 1]
    assert len(set(fold)) == 3


def test_more_than_half_of_all_is_spread_over_all_folds() -> None:
    groups = ["large"] * 20 + ["small"] * 4 + ["tiny"] * 1

    fold = group_folds(groups, 5, seed=0)

    assert np.bincount(fold[:20]).tolist() == [4, 4, 4, 4, 4]
    assert len(set(fold[20:24])) == 1
    assert fold[24] != fold[20]


def test_a_synthetic_space_larger_than_a_fold_is_spread() -> None:
    groups = ["random_mixed"] * 10 + [f"lineage {index}" for index in range(20)]

    fold = group_folds(groups, 5, seed=0)

    assert np.bincount(fold[:10]).tolist() == [2, 2, 2, 2, 2]


def test_a_seed_gives_the_same_folds_and_another_other_ones() -> None:
    groups = ["large"] * 40

    assert group_folds(groups, 5, 1).tolist() == group_folds(groups, 5, 1).tolist()
    assert group_folds(groups, 5, 1).tolist() != group_folds(groups, 5, 2).tolist()


def test_what_was_spread_is_said() -> None:
    assert held_out_by(["residual"] * 12 + ["shuffle"] * 8, 5, seed=0) == "lineage (residual by network)"
    assert held_out_by(["random_mixed"] * 8 + list("abcdefghij"), 5, seed=0) == "lineage (random_mixed by network)"
    assert held_out_by(["fire"] * 5 + ["shuffle"] * 5, 5, seed=0) == "lineage"
