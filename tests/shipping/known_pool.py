"""A pool of made-up platforms, and what is known of each after leaving networks out."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from shipping.arbitration import MemberForecasts
from shipping.files import PoolMember
from shipping.known_forecasts import held_out, known_arbitration, pool_members, try_known
from shipping.known_platforms import KnownPlatforms, lineage_or_none
from tests.devices.made_up_devices import features, fitted, networks, platforms

WANTED = tuple(each.name for each in platforms()[2:8])

LICENCE = "MIT (someone/measurements, commit 1234)"


@cache
def pool() -> KnownPlatforms:
    """The platforms of two in three chips."""
    return KnownPlatforms(platforms()[2:20], networks(), features(), tuple(map(lineage_or_none, networks())), {})


@cache
def tried() -> tuple[MemberForecasts, ...]:
    """Trials on :data:`WANTED`."""
    return tuple(try_known(pool(), WANTED))


@cache
def members() -> tuple[PoolMember, ...]:
    """What is written of :data:`WANTED`."""
    model = replace(fitted(), arbitration=known_arbitration(tried()))
    about = {name: {"licence": LICENCE} for name in WANTED}
    return tuple(pool_members(pool(), model, held_out(tried()), WANTED, about))
