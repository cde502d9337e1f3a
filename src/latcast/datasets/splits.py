"""Which subjects a predictor may learn from, and on which it is judged: by network, by family, by device.

Random networks flatter: two variants of one family are nearly the same network. Whole families held out say more of a network
that nobody thought of, whole devices of a phone that nobody measured. A split is drawn from its seed and the names alone, so
the same list in another order is split alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from latcast.errors import DatasetError
from latcast.records import Platform, Reference
from latcast.spaces.pytorchcv import NAME as PYTORCHCV
from latcast.spaces.pytorchcv import family_of as pytorchcv_family_of

TEST_SHARE = 0.3
"""Of the subjects."""

SEEDS = tuple(range(20))
"""Splits that a figure is the mean of, where nothing else is said."""

SAME_DEVICE: Mapping[str, str] = MappingProxyType({"onefusion": "mi8se"})
"""Devices that are held out together with another one: both have a Snapdragon 710 (Li et al., Table 1)."""


@dataclass(frozen=True)
class Split:
    """Names to train on and names to test on, none in both, each in sorted order."""

    train: tuple[str, ...]
    test: tuple[str, ...]


def family_of(reference: Reference) -> str:
    """The family of a network: its space, or for the collection pytorchcv the family that its name begins with."""
    if reference.space == PYTORCHCV:
        return pytorchcv_family_of(str(reference.parameters.get("name", reference.name)))
    return reference.space


def device_of(platform: Platform | str) -> str:
    """The device that a platform is held out with."""
    device = (Platform.parse(platform) if isinstance(platform, str) else platform).device
    return SAME_DEVICE.get(device, device)


def by_network(networks: Iterable[str], seed: int, test_share: float = TEST_SHARE) -> Split:
    """Random networks held out.

    Args:
        networks: Names or keys; repeated ones count once.
        seed: Same seed, same split.
        test_share: Part to test on; rounded, and at least one on each side.

    Raises:
        DatasetError: Fewer than two networks, or a share outside 0 to 1.
    """
    names = sorted(set(networks))
    count = _test_count(len(names), test_share, "networks")
    shuffled = list(names)
    Random(f"by_network/{seed}").shuffle(shuffled)
    return _split(names, frozenset(shuffled[:count]))


def by_family(networks: Mapping[str, str], seed: int, test_share: float = TEST_SHARE) -> Split:
    """Whole families held out, drawn one by one until at least the share of the networks is.

    Args:
        networks: Name or key of each network to its family.
        seed: Same seed, same split.
        test_share: Part of the networks to test on; more where the last family drawn is large, and never all families.

    Raises:
        DatasetError: Fewer than two families, or a share outside 0 to 1.
    """
    families = sorted(set(networks.values()))
    if len(families) < 2:
        raise DatasetError(f"found {len(families)} families ({', '.join(families)}); holding families out takes at least 2")
    count = _test_count(len(networks), test_share, "networks")
    shuffled = list(families)
    Random(f"by_family/{seed}").shuffle(shuffled)
    held_out: set[str] = set()
    test: set[str] = set()
    for family in shuffled[:-1]:
        if len(test) >= count:
            break
        held_out.add(family)
        test = {name for name, its_family in networks.items() if its_family in held_out}
    return _split(sorted(networks), frozenset(test))


def by_device(platforms: Iterable[str], seed: int, test_share: float = TEST_SHARE) -> Split:
    """Random devices held out, each with all its platforms: all core sets, precisions and runtimes.

    Args:
        platforms: Platform ids.
        seed: Same seed, same split.
        test_share: Part of the devices to test on; rounded, and at least one on each side.

    Raises:
        DatasetError: Fewer than two devices, or a share outside 0 to 1.
    """
    names = sorted(set(platforms))
    devices = by_network(map(device_of, names), seed, test_share)
    held_out = frozenset(devices.test)
    return _split(names, frozenset(name for name in names if device_of(name) in held_out))


def each_device(platforms: Iterable[str]) -> dict[str, Split]:
    """For each device a split that holds it out, with all its platforms; by device.

    Raises:
        DatasetError: Fewer than two devices.
    """
    return _each(platforms, device_of, "devices")


def each_family(networks: Mapping[str, str]) -> dict[str, Split]:
    """For each family a split that holds it out; by family.

    Raises:
        DatasetError: Fewer than two families.
    """
    return _each(networks, networks.__getitem__, "families")


def _each(names: Iterable[str], group_of: Callable[[str], str], what: str) -> dict[str, Split]:
    group = {name: group_of(name) for name in names}
    if len(set(group.values())) < 2:
        raise DatasetError(f"found {len(set(group.values()))} {what}; holding one out takes at least 2")
    ordered = sorted(group)
    return {
        each: _split(ordered, frozenset(name for name in ordered if group[name] == each)) for each in sorted(set(group.values()))
    }


def _split(names: Sequence[str], test: frozenset[str]) -> Split:
    return Split(tuple(name for name in names if name not in test), tuple(name for name in names if name in test))


def _test_count(count: int, test_share: float, what: str) -> int:
    if not 0 < test_share < 1:
        raise DatasetError(f"the share to test on is {test_share}; expected a number between 0 and 1")
    if count < 2:
        raise DatasetError(f"found {count} {what}; splitting takes at least 2")
    return min(max(1, round(test_share * count)), count - 1)
