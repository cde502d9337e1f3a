"""Kernel configurations as networks have them: the kernels of random networks, drawn by type.

A configuration's dimensions depend on each other (a 7x7 filter on a 3-channel image, thousands of channels on a 7x7 map), so
they are not drawn one by one: whole random networks are drawn and their kernels collected.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels
from latcast.kernels.types import kernel_type
from latcast.records import Reference
from latcast.spaces.catalogue import SPACES, build

SOURCE_SPACE = "random_mixed"

NOT_ALONE = frozenset({"other", "copy"})
"""Types that stand for several operators and cannot be built on their own."""


def collect_kernels(networks: int, seed: int, rules: FusionRules) -> Mapping[str, list[tuple[int, ...]]]:
    """Distinct configurations by kernel type in this many random networks, in order of first occurrence."""
    found: dict[str, dict[tuple[int, ...], None]] = {}
    for reference in SPACES.get(SOURCE_SPACE).sample(networks, seed):
        for kernel in find_kernels(build(reference), rules):
            if not kernel.free and kernel.kernel_type not in NOT_ALONE:
                found.setdefault(kernel.kernel_type, {}).setdefault(kernel.configuration)
    return {name: list(rows) for name, rows in sorted(found.items())}


def kernel_reference(type_name: str, configuration: tuple[int, ...]) -> Reference:
    """The reference of a single kernel."""
    fields = kernel_type(type_name).fields
    parameters = dict(zip(fields, configuration, strict=True))
    return Reference(f"kernel/{type_name}", parameters, f"{type_name} {'x'.join(map(str, configuration))}")


def sample_kernels(
    count: int, seed: int, rules: FusionRules, *, types: tuple[str, ...] | None = None, floor: int = 25
) -> list[Reference]:
    """Single kernels to time, as many of each type as its share in networks, at least ``floor`` where there are so many.

    Args:
        count: How many in all; fewer where the networks drawn do not hold as many.
        seed: For networks and choice.
        rules: Fusion rules of the runtime, which decide what a kernel is.
        types: Only these types.
        floor: Least number of a type.
    """
    # A random network brings about 30 new configurations.
    pool = collect_kernels(max(20, count // 15), seed, rules)
    if types is not None:
        pool = {name: rows for name, rows in pool.items() if name in types}
    total = sum(len(rows) for rows in pool.values())
    rng = Random(seed)
    chosen = []
    for name, rows in pool.items():
        wanted = min(len(rows), max(floor, round(count * len(rows) / max(total, 1))))
        chosen += [kernel_reference(name, row) for row in rng.sample(rows, wanted)]
    rng.shuffle(chosen)
    return chosen[:count]
