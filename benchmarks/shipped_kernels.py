"""Tables of kernels that come with the package: of rated networks, and of all members of small search spaces."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from latcast.kernels.delegates import delegate_of
from latcast.kernels.rules import FusionRules, load_rules, shipped_rules
from latcast.kernels.selection import NEED_A_FAMILY
from latcast.platforms import load
from latcast.predictors.bundle_index import SHIPPED_FOLDER, platform_ids
from latcast.records import Platform
from latcast.spaces import named_kernels
from latcast.spaces.kernel_table_files import is_current
from latcast.spaces.nas import member_kernels
from latcast.spaces.nas.segment_kernels import SegmentKernels
from latcast.spaces.nas.supernet import SUPERNETS

Made = TypeVar("Made")

UNMEASURED = ("edge-tpu/tflite-unstated/npu/int8",)
"""Platforms that nothing was measured on, whose delegates no measured one has."""


def ship_kernel_tables() -> list[str]:
    """Write the tables for shipped rules and shipped platforms, and return the names of those written.

    Tables that are there are kept, unless kernel types have other fields by now.
    """
    platforms = [load(path).rules for path in sorted(SHIPPED_FOLDER.glob("*.zip"))]
    runtimes = [load_rules(name) for name in sorted(set(shipped_rules()) - {"none"})]
    return [*_ship_named(platforms, runtimes), *_ship_crossings(), *_ship_members(platforms, runtimes)]


def _ship_named(platforms: list[FusionRules], runtimes: list[FusionRules]) -> list[str]:
    """Write the tables of rated networks; rules that leave the kernels to the platform's GPU have none."""
    networks = named_kernels.rated_networks()
    complete = [each for each in runtimes if ":" in each.selection or each.selection not in NEED_A_FAMILY]
    rules = {named_kernels.table_name(networks, each): each for each in reversed([*platforms, *complete])}
    missing = _missing(named_kernels.SHIPPED_TABLES, "named-*.npz", rules)
    made = named_kernels.make_named_kernels(networks, list(missing.values())) if missing else []
    for (name, each), found in zip(missing.items(), made, strict=True):
        (named_kernels.SHIPPED_TABLES / name).write_bytes(named_kernels.table_bytes(found, each))
    return list(missing)


def _ship_crossings() -> list[str]:
    """Write the crossings of rated networks under the delegates of known platforms, and of chips known by their facts."""
    networks = named_kernels.rated_networks()
    found = filter(None, (delegate_of(Platform.parse(each)) for each in (*platform_ids(), *UNMEASURED)))
    delegates = {named_kernels.crossings_name(networks, each): each for each in found if not each.learned}
    missing = _missing(named_kernels.SHIPPED_TABLES, "crossings-*.npz", delegates)
    made = named_kernels.make_named_crossings(networks, list(missing.values())) if missing else []
    for (name, each), crossings in zip(missing.items(), made, strict=True):
        content = named_kernels.crossings_file(crossings, networks, each)
        (named_kernels.SHIPPED_TABLES / name).write_bytes(content)
    return list(missing)


def _ship_members(platforms: list[FusionRules], runtimes: list[FusionRules]) -> list[str]:
    """Write the tables of the members of search spaces that are small enough."""
    rules = [*(each for each in runtimes if each.selection not in NEED_A_FAMILY), load_rules("none"), *platforms]
    written = []
    for space in SUPERNETS.names():
        supernet = SUPERNETS.get(space)
        if supernet.size <= member_kernels.SMALL_SPACE:
            named = {member_kernels.shipped_name(supernet, each): each for each in rules}
            for name, each in _missing(member_kernels.SHIPPED_TABLES, f"{space}-*.npz", named).items():
                found = member_kernels.make_table(SegmentKernels(supernet, each))
                (member_kernels.SHIPPED_TABLES / name).write_bytes(member_kernels.table_bytes(found))
                written.append(name)
    return written


def _missing(folder: Path, pattern: str, rules: dict[str, Made]) -> dict[str, Made]:
    """Return the tables to make, by name; remove those that no rules need."""
    folder.mkdir(exist_ok=True)
    for path in folder.glob(pattern):
        if path.name not in rules:
            path.unlink()
    return {name: each for name, each in rules.items() if not is_current(folder / name)}
