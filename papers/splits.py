"""Splits of subjects into those that a predictor learns from and those it is judged on: by network, by lineage, by device.

Holding out random networks gives too good results: variants of one family are nearly the same network, and families with the
same blocks nearly one family. Holding out whole lineages (networks mostly made of one kind of block) tests an unseen
architecture, whole devices an unseen phone. A split depends on its seed and the names alone, not on their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from latcast.errors import DatasetError
from latcast.records import Platform

TEST_SHARE = 0.3
"""Share of the subjects to test on."""

SAME_DEVICE: Mapping[str, str] = MappingProxyType({"onefusion": "mi8se"})
"""Devices that are held out together with another one: both have a Snapdragon 710 (Li et al., Table 1)."""


@dataclass(frozen=True)
class Split:
    """Names to train on and names to test on, none in both, each in sorted order."""

    train: tuple[str, ...]
    test: tuple[str, ...]


def device_of(platform: Platform | str) -> str:
    """Return the device that a platform is held out with."""
    device = (Platform.parse(platform) if isinstance(platform, str) else platform).device
    return SAME_DEVICE.get(device, device)


def by_network(networks: Iterable[str], seed: int, test_share: float = TEST_SHARE) -> Split:
    """Hold out random networks: so large a part of the names, rounded, and at least one on each side.

    Raises:
        DatasetError: Fewer than two networks, or a share outside 0 to 1.
    """
    names = sorted(set(networks))
    count = _test_count(len(names), test_share, "networks")
    shuffled = list(names)
    Random(f"by_network/{seed}").shuffle(shuffled)
    return _split(names, frozenset(shuffled[:count]))


def by_group(group_of: Mapping[str, str], seed: int, test_share: float = TEST_SHARE) -> Split:
    """Hold out whole groups, drawn one by one until they hold at least the share of the members, and never all.

    Args:
        group_of: Name or key of each member (a network, a device...) to its group.
        seed: Same seed, same split.
        test_share: Part of the members to test on; more where the last group drawn is large.

    Raises:
        DatasetError: Fewer than two groups, or a share outside 0 to 1.
    """
    groups = sorted(set(group_of.values()))
    if len(groups) < 2:
        raise DatasetError(f"found {len(groups)} groups ({', '.join(groups)}); holding groups out takes at least 2")
    count = _test_count(len(group_of), test_share, "members")
    shuffled = list(groups)
    Random(f"by_family/{seed}").shuffle(shuffled)  # the text is part of the seed: another one would draw other splits
    held_out: set[str] = set()
    test: set[str] = set()
    for group in shuffled[:-1]:
        if len(test) >= count:
            break
        held_out.add(group)
        test = {name for name, its_group in group_of.items() if its_group in held_out}
    return _split(sorted(group_of), frozenset(test))


def by_device(platforms: Iterable[str], seed: int) -> Split:
    """Hold out random devices, each with all its platforms: all core sets, precisions and runtimes.

    Raises:
        DatasetError: Fewer than two devices.
    """
    names = sorted(set(platforms))
    devices = by_network(map(device_of, names), seed)
    held_out = frozenset(devices.test)
    return _split(names, frozenset(name for name in names if device_of(name) in held_out))


def _split(names: Sequence[str], test: frozenset[str]) -> Split:
    return Split(tuple(name for name in names if name not in test), tuple(name for name in names if name in test))


def _test_count(count: int, test_share: float, what: str) -> int:
    if not 0 < test_share < 1:
        raise DatasetError(f"the share to test on is {test_share}; expected a number between 0 and 1")
    if count < 2:
        raise DatasetError(f"found {count} {what}; splitting takes at least 2")
    return min(max(1, round(test_share * count)), count - 1)
