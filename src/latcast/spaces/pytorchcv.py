"""The networks of the PyPI package pytorchcv under the names it gives them: ``resnet18``, ``mobilenetv2b_w3d4``, ...

Li et al. measured 78 of them on phones (Appendix A). Their graphs come with latcast (:mod:`latcast.spaces.named_graphs`).
"""

from __future__ import annotations

import re
from functools import cache

from latcast.records import Reference
from latcast.spaces.named_graphs import NamedNetworks, graph_file

NAME = "pytorchcv"

SPACE = NamedNetworks(NAME, "pytorchcv has no network of this name that takes images of 224x224")

_PREFIXES = (
    "densenet", "efficientnet", "fbnet", "fdmobilenet", "hardnet", "hrnet", "mnasnet", "mobilenetv2", "mobilenetv3",
    "mobilenet_v2", "mobilenet_v3", "mobilenet", "preresnet", "proxylessnas", "regnet", "resnext", "resnet", "sepreresnet",
    "seresnet", "squeezenet", "squeezeresnet",
)  # fmt: skip
"""Where letters that follow the family's name name a variant of it (``regnetx``, ``mobilenetb``, ``resnetbc``)."""


def family_of(name: str) -> str:
    """Return the family of a network, for holding whole families out: the longest known one that its name begins with, else
    its first letters.

    >>> family_of("mobilenetv2b_w3d4"), family_of("regnety006"), family_of("diracnet18v2")
    ('mobilenetv2', 'regnet', 'diracnet')
    """
    for prefix in sorted(_PREFIXES, key=len, reverse=True):
        if name.startswith(prefix):
            return prefix
    letters = re.match(r"[A-Za-z]+", name)
    return letters.group() if letters else name


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
