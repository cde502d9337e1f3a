"""The kernels of networks, given as graphs or as references."""

from __future__ import annotations

from latcast.errors import DatasetError
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels
from latcast.records import Reference
from latcast.spaces import build
from latcast.spaces.measured_only import can_build, why_not


def network_kernels(network: Reference | Graph, rules: FusionRules) -> tuple[Kernel, ...]:
    """Find the kernels of a network under a runtime's rules.

    Raises:
        DatasetError: Nothing is known of the network but its name.
        LatcastError: It cannot be built.
    """
    if isinstance(network, Graph):
        return tuple(find_kernels(network, rules))
    if not can_build(network):
        raise DatasetError(f"the kernels of '{network.name or network.key}' are not known: {why_not(network)}")
    return tuple(find_kernels(build(network), rules))
