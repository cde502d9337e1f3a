"""Families and lineages of networks: networks are held out together where they are mostly made of the same blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path

from latcast.errors import LatcastError
from latcast.graph.blocks import main_block
from latcast.records import Reference
from latcast.spaces.catalogue import SYNTHETIC_NAMES, build
from latcast.spaces.published_segments import NAME as SEGMENTS

SPACES_OF_NAMES = frozenset({"pytorchcv", "aihub", "huggingface", "ncnn_benchmark", "timm", "torchvision", "yolo"})
"""Collections of networks of many families, which their names tell."""

_PREFIXES = (
    "densenet", "efficientnet", "fbnet", "fdmobilenet", "hardnet", "hrnet", "mnasnet", "mobilenetv2", "mobilenetv3",
    "mobilenet_v2", "mobilenet_v3", "mobilenet", "preresnet", "proxylessnas", "regnet", "resnext", "resnet", "sepreresnet",
    "seresnet", "squeezenet", "squeezeresnet",
)  # fmt: skip
"""Beginnings of names that letters follow for a variant of the family (``regnetx``, ``mobilenetb``, ``resnetbc``)."""

TABLE = Path(__file__).with_name("lineages.json")
"""Main blocks of networks that come with latcast, which need not be built then (``python -m benchmarks lineages`` writes it)."""


def family_of(reference: Reference) -> str:
    """Return the family of a network: its space; in collections the beginning of its name; for a segment its network's.

    >>> [family_of(Reference("pytorchcv", {"name": name})) for name in ("mobilenetv2b_w3d4", "regnety006", "diracnet18v2")]
    ['mobilenetv2', 'regnet', 'diracnet']
    """
    if reference.space == SEGMENTS:
        name = str(reference.parameters["network"]).partition("/")[2]
    elif reference.space in SPACES_OF_NAMES:
        name = str(reference.parameters.get("name", reference.name))
    else:
        return reference.space
    known = max((prefix for prefix in _PREFIXES if name.startswith(prefix)), key=len, default="")
    letters = re.match(r"[A-Za-z]+", name)
    return known or (letters.group() if letters else name)


def lineage_of(reference: Reference) -> str:
    """Return the lineage that a network is held out with: the kind of block that most of it is made of, whatever its name.

    A segment has its network's. Networks of a synthetic space, and those without a graph, have the name of their family instead.

    >>> [lineage_of(Reference("timm", {"name": name})) for name in ("seresnet50", "tf_mobilenetv3_small_100")]
    ['1x1 + 1x1 + wide', '1x1 + 1x1 + depthwise']
    """
    if reference.space == SEGMENTS:
        space, _, name = str(reference.parameters["network"]).partition("/")
        return lineage_of(Reference(space, {"name": name}))
    if reference.space in SYNTHETIC_NAMES:
        return reference.space
    return _table().get(f"{reference.space}/{reference.parameters.get('name')}") or _lineage_of_graph(reference)


@cache
def _table() -> Mapping[str, str]:
    stored = json.loads(TABLE.read_text(encoding="utf-8"))
    return {f"{space}/{name}": block for space, blocks in stored.items() for block, names in blocks.items() for name in names}


@lru_cache(maxsize=4096)
def _lineage_of_graph(reference: Reference) -> str:
    try:
        return main_block(build(reference))
    except LatcastError:
        return family_of(reference)
