"""Single kernels, drawn as networks have them."""

from __future__ import annotations

from collections import Counter

import pytest

from latcast.kernels import find_kernels
from latcast.kernels.rules import load_rules
from latcast.spaces.catalogue import SPACES, build
from latcast.spaces.kernel_space import NOT_ALONE, SOURCE_SPACE, collect_kernels, kernel_reference, sample_kernels

RULES = load_rules("onnxruntime")


def test_the_kernels_are_those_of_random_networks_each_once() -> None:
    expected = {
        kernel.key
        for reference in SPACES.get(SOURCE_SPACE).sample(3, seed=4)
        for kernel in find_kernels(build(reference), RULES)
        if not kernel.free and kernel.kernel_type not in NOT_ALONE
    }

    found = collect_kernels(3, 4, RULES)

    assert sorted((name, row) for name, rows in found.items() for row in rows) == sorted(expected)


def test_a_seed_draws_the_same_kernels_and_another_others() -> None:
    first, again, other = (sample_kernels(60, seed, RULES) for seed in (0, 0, 1))

    assert first == again
    assert len({reference.key for reference in first}) == 60
    assert {reference.key for reference in first} != {reference.key for reference in other}


def test_a_type_is_drawn_by_its_share_but_rare_ones_at_least_so_often() -> None:
    pool = {name: rows for name, rows in collect_kernels(20, 0, RULES).items() if name in ("conv", "depthwise_conv", "concat")}
    total = sum(len(rows) for rows in pool.values())

    drawn = Counter(
        reference.space.removeprefix("kernel/") for reference in sample_kernels(100, 0, RULES, types=tuple(pool), floor=5)
    )

    assert set(drawn) == set(pool)
    for name, rows in pool.items():
        assert drawn[name] >= min(5, len(rows))
        assert drawn[name] == pytest.approx(100 * len(rows) / total, abs=6)


def test_what_is_drawn_builds_kernels_of_its_own_configuration() -> None:
    references = sample_kernels(60, 2, RULES, types=("conv", "depthwise_conv", "linear", "concat", "transpose", "softmax"))

    for reference in references:
        [kernel] = [kernel for kernel in find_kernels(build(reference), RULES) if not kernel.free]
        assert kernel_reference(kernel.kernel_type, kernel.configuration) == reference
