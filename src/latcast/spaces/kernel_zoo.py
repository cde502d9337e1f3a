"""Kernel configurations that occur in networks, from which the distribution of a type's configurations is learned.

The dimensions of a configuration depend on each other (a 7x7 filter on a 3-channel image, thousands of channels on a 7x7 map),
so whole configurations are kept, never a distribution of each dimension.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from latcast.kernels.kernel import Configuration
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels
from latcast.records import Reference
from latcast.spaces.catalogue import SPACES, build
from latcast.spaces.training_mix import TRAINING_FAMILIES, published_networks, shares_of

ConfigurationCounts = Mapping[Configuration, int]
"""Configurations of one kernel type, and how often each occurs in networks."""

KernelZoo = Mapping[str, ConfigurationCounts]
"""Configurations and their counts by kernel type."""

SYNTHETIC_SPACE = "random_mixed"
"""Has the blocks that the training families lack."""

PUBLISHED_PER_FAMILY = 3
"""Published members of each family; with eight families as many networks as nn-Meter took from a model zoo (§5.2)."""


def zoo_networks(count: int, seed: int) -> list[Reference]:
    """Networks of a zoo: published ones of the training families, then their variants and synthetic networks, half and half.

    Families that predictors are evaluated on are left out, as for training on whole networks.
    """
    published = published_networks(TRAINING_FAMILIES, PUBLISHED_PER_FAMILY)[:count]
    rest = count - len(published)
    synthetic = SPACES.get(SYNTHETIC_SPACE).sample(rest // 2, seed)
    each = -(-(rest - len(synthetic)) // len(TRAINING_FAMILIES))
    variants = [reference for name in TRAINING_FAMILIES for reference in SPACES.get(name).sample(each, seed)]
    return [*published, *synthetic, *variants[: rest - len(synthetic)]]


def collect_zoo(networks: Iterable[Reference], rules: FusionRules) -> KernelZoo:
    """Return the kernels of networks under a runtime's rules, in order of first occurrence, without free ones and reorders."""
    found: dict[str, Counter[Configuration]] = {}
    for reference in networks:
        for kernel in find_kernels(build(reference), rules):
            if kernel.nodes and not kernel.free:
                found.setdefault(kernel.kernel_type, Counter())[kernel.configuration] += 1
    return dict(sorted(found.items()))


def kernel_zoo(rules: FusionRules, *, networks: int = 120, seed: int = 0) -> KernelZoo:
    """Return the kernels of this many networks; where the runtime has them, also those of rare operators."""
    few = round(networks * shares_of(rules.runtime).get("random_operators", 0.0))
    return collect_zoo([*zoo_networks(networks - few, seed), *SPACES.get("random_operators").sample(few, seed)], rules)
