"""The networks of the PyPI package pytorchcv under the names it gives them: ``resnet18``, ``mobilenetv2b_w3d4``, ...

Li et al. measured 78 of them on phones (Appendix A). Their graphs come with latcast (:mod:`latcast.spaces.named_graphs`).
"""

from __future__ import annotations

from functools import cache

from latcast.records import Reference
from latcast.spaces.named_graphs import NamedNetworks, graph_file

NAME = "pytorchcv"

SPACE = NamedNetworks(NAME, "pytorchcv has no network of this name that takes images of 224x224")


def reference_of(name: str) -> Reference:
    """Return the reference of a network by its name in pytorchcv, whether or not its graph comes with latcast."""
    return Reference(NAME, {"name": name}, name)


@cache
def shipped_names() -> frozenset[str]:
    """Return the names of the networks that were measured on phones."""
    file = graph_file(NAME)
    return frozenset(name for (name, _), network in file.networks.items() if network.figures) if file else frozenset()


def has_network(name: str) -> bool:
    """Return whether there is a graph of this name."""
    file = graph_file(NAME)
    return file is not None and file.find(name) is not None
