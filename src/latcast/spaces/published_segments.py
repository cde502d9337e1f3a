"""Segments of published networks: what lies between two places where a single tensor leads from one part to the next.

Random networks of latcast's own blocks hold what its authors thought of. What networks really hold (attention on windows,
transposes between images and tokens, normalisation over channels) is taken from the graphs that come with latcast
(:mod:`latcast.spaces.named_graphs`): kernels in the company that they keep. Designs are drawn alike, however many networks they
have; those of :data:`HELD_OUT_DESIGNS` are never drawn, nor are their :data:`NEAR_RELATIVES`, so that predictors can be judged on
them. Others are chosen beforehand for what they cover (:func:`covering_segments`), single blocks of giants among them.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

from latcast.errors import ModelError
from latcast.graph.blocks import cuts
from latcast.graph.ir import Graph
from latcast.graph.operators import node_macs
from latcast.records import Reference
from latcast.spaces.catalogue import FAMILY_NAMES, model
from latcast.spaces.catalogue import build as build_reference
from latcast.spaces.families.variants import DrawnSpace, named_by_content
from latcast.spaces.named_graphs import all_networks

NAME = "published_segments"

REGISTRIES = ("timm", "torchvision", "huggingface")

HELD_OUT_DESIGNS = (
    "bat", "coat", "coatnet", "convnext", "cspnext", "darknet", "deit", "densenetblur", "dla", "dpn", "ecaresnet", "ecaresnext",
    "edgenext", "efficientvim", "efficientvit", "ese", "fbnetv", "focalnet", "gc", "gcresnext", "gcvit", "gernet", "gmlp",
    "hardcorenas", "hgnet", "hrnet", "inception", "lcnet", "lcnetv", "lraspp", "mambaout", "maxxvit", "mixer", "mobilenetv",
    "mobileone", "pit", "poolformer", "poolformerv", "pvt", "regnetv", "regnety", "regnetz", "repghostnet", "repvgg", "repvit",
    "resnest", "resnetaa", "resnetblur", "resnetrs", "rexnet", "selecsls", "seresnext", "shvit", "spnasnet", "ssdlite", "starnet",
    "swinv", "twins", "van", "visformer",
)  # fmt: skip
"""``Random(0).sample(designs, 60)`` of those outside the families, which are never learned from."""

NEAR_RELATIVES = ("coatnext", "ecaresnetlight", "fbnetc", "hiera", "rexnetr", "seresnet")
"""Designs whose blocks (what lies between two cuts, whatever its widths) are, by 99 % of their multiply-accumulates, blocks of
held-out designs, or that have so much of a held-out one: learning from them is learning from it."""

LARGE_RELATIVES = (
    "darknetaa", "flexivit", "hieradet", "maxxvitv", "sam", "senet", "seresnetaa", "seresnextaa", "vovnet", "wide",
)  # fmt: skip
"""The same of designs without a network of a usual size, which covering segments could be of."""

NETWORK_MACS, NETWORK_WEIGHTS = (50e6, 5e9), 60e6
"""Multiply-accumulates and weights of the networks that segments are drawn from."""

SEGMENT_MACS = (10e6, 500e6)
"""A segment goes on until it has a number of multiply-accumulates that is drawn from here, the logarithm evenly."""

MOST_SEGMENT_MACS = 1.2e9

FEWEST_OPERATORS = 4

SEGMENTS_KEPT = 512
"""Segments that are kept as built, 25 kB each: more than a profile of ten minutes draws."""

COVERING = Path(__file__).with_name("covering_segments.json")
"""Segments that widen most what a profile has seen, in the order in which they do."""

EDITIONS = 2
"""Lists in :data:`COVERING` that have no segment in common: seeds that follow each other do not get the same."""

_PUBLISHER = re.compile(r"^(tf|dm|gluon|legacy)_")
_LETTERS = re.compile(r"[a-z]+")


def design_of(name: str) -> str:
    """Return a network's design: the letters that its name begins with, less who published it."""
    own = _PUBLISHER.sub("", name.partition("/")[2].lower())
    found = _LETTERS.match(own)
    return found.group() if found else own


def designs_of_families(names: Iterable[str]) -> frozenset[str]:
    """Return the designs that families are members of: the letters that their names begin with."""
    return frozenset(found.group() for name in names if (found := _LETTERS.match(name)))


@cache
def networks_by_design() -> Mapping[str, Sequence[str]]:
    """Names of published networks of a usual size by design, but for designs of which latcast builds members itself."""
    own = designs_of_families(FAMILY_NAMES)
    found: dict[str, list[str]] = defaultdict(list)
    for name, network in all_networks().items():
        fits = NETWORK_MACS[0] <= network.macs <= NETWORK_MACS[1] and network.parameters <= NETWORK_WEIGHTS
        if name.partition("/")[0] in REGISTRIES and fits and design_of(name) not in own:
            found[design_of(name)].append(name)
    return {name: sorted(found[name]) for name in sorted(found)}


@cache
def covering_designs() -> frozenset[str]:
    """Designs that covering segments may be of: as those that are drawn, but of networks of any size."""
    own = designs_of_families(FAMILY_NAMES)
    named = {design_of(name) for name in all_networks() if name.partition("/")[0] in REGISTRIES}
    return frozenset(named - own - {*HELD_OUT_DESIGNS, *NEAR_RELATIVES, *LARGE_RELATIVES})


@lru_cache(maxsize=SEGMENTS_KEPT)
def build(network: str, first: str, last: str) -> Graph:
    """Return the segment of a published network between the tensors that enter and leave it.

    Raises:
        ModelError: The tensors are no two places of the network, in this order, where a single tensor leads on.
    """
    graph = graph_of(network)
    places = {tensor: place for place, tensor in cuts_of(network)}
    if first not in places or last not in places or places[first] >= places[last]:
        raise ModelError(
            f"found no segment of {network} from '{first}' to '{last}'; expected two of its cuts, one after the other"
        )
    nodes = graph.nodes[places[first] : places[last]]
    kept = {first, *(name for node in nodes for name in (*node.inputs, *node.outputs) if name)}
    return Graph(
        name=NAME, nodes=nodes, inputs=(first,), outputs=(last,),
        tensors={name: tensor for name, tensor in graph.tensors.items() if name in kept},
        weights=frozenset(graph.weights) & kept,
        constants={name: value for name, value in graph.constants.items() if name in kept},
    )  # fmt: skip


@lru_cache(maxsize=4)
def graph_of(network: str) -> Graph:
    return build_reference(model(network))


@lru_cache(maxsize=4)
def cuts_of(network: str) -> tuple[tuple[int, str], ...]:
    """Places of a network that one activation alone crosses; see :func:`latcast.graph.blocks.cuts`."""
    return cuts(graph_of(network))


@lru_cache(maxsize=4)
def macs_before(network: str) -> tuple[int, ...]:
    """Multiply-accumulates of the operators before each place."""
    graph = graph_of(network)
    return tuple(accumulate((node_macs(graph, node) for node in graph.nodes), initial=0))


def draw(rng: Random) -> dict[str, Any]:
    by_design = networks_by_design()
    while True:
        design = rng.choice([name for name in by_design if name not in (*HELD_OUT_DESIGNS, *NEAR_RELATIVES)])
        network = rng.choice(by_design[design])
        places, macs = cuts_of(network), macs_before(network)
        start = rng.randrange(len(places))
        wanted = SEGMENT_MACS[0] * (SEGMENT_MACS[1] / SEGMENT_MACS[0]) ** rng.random()
        end = bisect_left([macs[place] for place, _ in places], macs[places[start][0]] + wanted)
        end = min(end, len(places) - 1)
        (first_place, first), (last_place, last) = places[start], places[end]
        long_enough = last_place - first_place >= FEWEST_OPERATORS
        if long_enough and SEGMENT_MACS[0] <= macs[last_place] - macs[first_place] <= MOST_SEGMENT_MACS:
            found = {"network": network, "first": first, "last": last}
            build(**found)  # now, where its network is at hand: whoever asks for it later gets it without unpacking that again
            return found


SPACE = DrawnSpace(NAME, build, draw)


def covering_segments(count: int, seed: int) -> list[Reference]:
    """Segments chosen for what they cover, those first that cover most; fewer than ``count`` where the table has no more."""
    editions = json.loads(COVERING.read_text())["editions"]
    places = editions[seed % len(editions)][:count]
    return [named_by_content(NAME, dict(zip(("network", "first", "last"), place, strict=True))) for place in places]
