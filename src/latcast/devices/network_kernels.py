"""The kernels of networks, from whatever is known of them: a graph, or published layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from latcast.datasets.importers.iiswc20.networks import SPACE as IISWC20
from latcast.datasets.importers.iiswc20.networks import layers_of
from latcast.devices.published_layers import kernels_of_layers
from latcast.errors import DatasetError, LatcastError
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import FusionRules, load_rules, platform_rules
from latcast.kernels.search import find_kernels
from latcast.records import Platform, Reference
from latcast.spaces import build
from latcast.spaces.measured_only import can_build, why_not

UNKNOWN_RUNTIME_RULES = "none"


def has_kernels(reference: Reference) -> bool:
    """Whether anything is known of what a network computes."""
    return can_build(reference) or (reference.space == IISWC20 and "layers" in reference.parameters)


def network_kernels(network: Reference | Graph, rules: FusionRules) -> tuple[Kernel, ...]:
    """The kernels of a network under a runtime's rules.

    Raises:
        DatasetError: Nothing is known of the network but its name.
        LatcastError: It cannot be built.
    """
    if isinstance(network, Graph):
        return tuple(find_kernels(network, rules))
    if not has_kernels(network):
        reason = why_not(network) if not can_build(network) else "its layers are not part of its reference"
        raise DatasetError(f"the kernels of '{network.name or network.key}' are not known: {reason}")
    if network.space == IISWC20:
        return tuple(kernels_of_layers(layers_of(network.parameters["layers"])))
    return tuple(find_kernels(build(network), rules))


def all_kernels(networks: Sequence[Reference | Graph], rules: FusionRules) -> list[tuple[Kernel, ...]]:
    """The kernels of each network."""
    return [network_kernels(network, rules) for network in networks]


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
