"""What guards judged figures against leaks: other answers, and forecasts that must not change with them.

A forecast that was made without an answer is the same to the last digit, whatever the answer is. So a benchmark is run twice, the
second time with some of its answers :data:`TIMES` as long, and the forecasts of these are compared: a leak changes them, however
small it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from latcast.devices.device_model import KnownPlatform
from shipping.arbitration import MemberForecasts
from shipping.known_platforms import KnownPlatforms
from tests.devices.made_up_devices import features, networks, platforms

TIMES = 3.0

LINEAGES = tuple(f"lineage {index // 3}" for index in range(20))


@cache
def small_pool() -> KnownPlatforms:
    """Six chips with two platforms each, twenty networks of seven lineages."""
    return KnownPlatforms(platforms()[:12], networks(), features(), LINEAGES, {})


def with_other_answers(pool: KnownPlatforms, network: int, chosen: Callable[[KnownPlatform], bool]) -> KnownPlatforms:
    """The pool with one network :data:`TIMES` as slow on the chosen platforms."""
    return replace(pool, platforms=tuple(_slower(each, network) if chosen(each) else each for each in pool.platforms))


def _slower(platform: KnownPlatform, network: int) -> KnownPlatform:
    return replace(platform, log_ms=platform.log_ms + np.log(TIMES) * (platform.networks == network))


def largest_change(
    before: Sequence[MemberForecasts], after: Sequence[MemberForecasts], network: int, chosen: Callable[[MemberForecasts], bool]
) -> tuple[int, float]:
    """How many of the chosen trials forecast a network, and by how much any member's forecast or variance of it differs."""
    changes = []
    for first, second in zip(before, after, strict=True):
        if network in first.trial.tested and chosen(first):
            assert first.names == second.names
            assert first.trial.tested.tolist() == second.trial.tested.tolist()
            column = first.trial.tested.tolist().index(network)
            changes += [
                float(np.abs(a[:, column] - b[:, column]).max())
                for a, b in (
                    (first.log_ms, second.log_ms),
                    (first.open_variance, second.open_variance),
                    (first.noise_variance, second.noise_variance),
                )
            ]
    return len(changes) // 3, max(changes, default=0.0)
