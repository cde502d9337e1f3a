"""The networks that have a name, and how large they are."""

from __future__ import annotations

from dataclasses import dataclass

from latcast.registry import matching
from latcast.spaces.catalogue import FAMILY_NAMES, family
from latcast.spaces.named_graphs import all_networks


@dataclass(frozen=True)
class NetworkSummary:
    """A named network and its size.

    Attributes:
        name: As :func:`latcast.predict` and :func:`latcast.model` take it.
        family: The family of networks that it belongs to, or the space that its name begins with.
        million_parameters, million_macs: As published of a member of a family, else of the module that was built, or None.
        source: Where the figures stand, or what built the network.
        top1_percent: Published accuracy on ImageNet; None where none is known.
    """

    name: str
    family: str
    million_parameters: float
    million_macs: float | None
    source: str
    top1_percent: float | None = None


def models(pattern: str | None = None) -> list[NetworkSummary]:
    """Return the networks that have a name, sorted by it.

    Args:
        pattern: Part of the name, or a glob of the whole name (``"mobilenet_v?_*"``); all where None.

    Example:
        >>> import latcast
        >>> [network.name for network in latcast.models("squeezenet1_?")]
        ['squeezenet1_0', 'squeezenet1_1']
    """
    found = {
        name: NetworkSummary(name, family_name, paper.million_parameters, paper.million_macs, paper.source)
        for family_name in FAMILY_NAMES
        for name, paper in family(family_name).published.items()
    } | {
        name: NetworkSummary(
            name,
            name.partition("/")[0],
            network.parameters / 1e6,
            network.macs / 1e6,
            network.origin.source,
            network.top1_percent,
        )
        for name, network in all_networks().items()
    }
    return [found[name] for name in matching(pattern, found)]
