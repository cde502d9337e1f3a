"""The kernels of networks, given as graphs or as references."""

from __future__ import annotations

from collections.abc import Iterable

from latcast.errors import DatasetError, LatcastError
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import FusionRules, load_rules, platform_rules
from latcast.kernels.search import find_kernels
from latcast.records import Platform, Reference
from latcast.spaces import build
from latcast.spaces.measured_only import can_build, why_not

UNKNOWN_RUNTIME_RULES = "none"


def network_kernels(network: Reference | Graph, rules: FusionRules) -> tuple[Kernel, ...]:
    """The kernels of a network under a runtime's rules.

    Raises:
        DatasetError: Nothing is known of the network but its name.
        LatcastError: It cannot be built.
    """
    if isinstance(network, Graph):
        return tuple(find_kernels(network, rules))
    if not can_build(network):
        raise DatasetError(f"the kernels of '{network.name or network.key}' are not known: {why_not(network)}")
    return tuple(find_kernels(build(network), rules))


def common_rules(platforms: Iterable[str]) -> FusionRules:
    """The rules that most of some platforms run by; no fusion where none of their runtimes is known."""
    counts: dict[str, int] = {}
    found: dict[str, FusionRules] = {}
    for name in platforms:
        platform = Platform.parse(name)
        try:
            rules = platform_rules(platform)
        except LatcastError:
            continue
        kind = f"{rules.runtime} {rules.version} {rules.selection}"
        found.setdefault(kind, rules)
        counts[kind] = counts.get(kind, 0) + 1
    if not found:
        return load_rules(UNKNOWN_RUNTIME_RULES)
    return found[max(counts, key=lambda kind: counts[kind])]
