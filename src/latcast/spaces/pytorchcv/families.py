"""Which family a network of pytorchcv belongs to, by its name, for holding whole families out."""

from __future__ import annotations

import re

_PREFIXES = (
    "densenet", "efficientnet", "fbnet", "fdmobilenet", "hardnet", "hrnet", "mnasnet", "mobilenetv2", "mobilenetv3",
    "mobilenet_v2", "mobilenet_v3", "mobilenet", "preresnet", "proxylessnas", "regnet", "resnext", "resnet", "sepreresnet",
    "seresnet", "squeezenet", "squeezeresnet",
)  # fmt: skip
"""Where letters that follow the family's name name a variant of it (``regnetx``, ``mobilenetb``, ``resnetbc``)."""

_LONGEST_FIRST = tuple(sorted(_PREFIXES, key=len, reverse=True))


def family_of(name: str) -> str:
    """The family: a known one that the name begins with, else the letters that it begins with.

    >>> family_of("mobilenetv2b_w3d4"), family_of("regnety006"), family_of("diracnet18v2")
    ('mobilenetv2', 'regnet', 'diracnet')
    """
    for prefix in _LONGEST_FIRST:
        if name.startswith(prefix):
            return prefix
    letters = re.match(r"[A-Za-z]+", name)
    return letters.group() if letters else name
