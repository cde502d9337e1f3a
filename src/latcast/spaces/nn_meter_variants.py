"""Variants of published networks as nn-Meter makes them (Zhang et al., §3): the same graph, widths and kernel sizes drawn.

A width becomes any whole number between 0.2 and 1.8 times the published one, a kernel size 1, 3, 5, 7 or 9; depth, strides and
resolution stay. What a family's builder gives for a stage at a time (see its ``build``) is drawn for a stage at a time.
Elsewhere in ``spaces/families`` variants are drawn for training: there depth and resolution vary too, and widths are multiples
of 8, as people choose them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from random import Random
from typing import Any

from latcast.graph.ir import Graph
from latcast.records import Reference
from latcast.spaces.catalogue import family
from latcast.spaces.families.variants import KERNEL_SIZES, WIDTH_RANGE, VariantFamily, distinct_references, each

MOST_PARAMETERS = 500_000_000
"""A network with more does not fit into one ONNX or TFLite file, which end at 2 GiB."""

Parameters = dict[str, Any]


def drawn_width(rng: Random, width: int) -> int:
    """Any whole number from 0.2 to 1.8 times the published one."""
    low, high = WIDTH_RANGE
    return rng.randint(max(1, math.ceil(low * width)), math.floor(high * width))


def _drawn_ratio(rng: Random, ratio: float) -> float:
    """Return a drawn ratio; 1, which means that the layer is absent, stays."""
    return ratio if ratio == 1 else round(ratio * rng.uniform(*WIDTH_RANGE), 2)


_WIDTHS = "widths inner hidden stem head growths expanded blocks squeezed pointwise spatial"

_DRAWS: Mapping[str, Callable[[Random, Any], Any]] = {
    **dict.fromkeys(_WIDTHS.split(), drawn_width),
    "kernels": lambda rng, kernel: rng.choice(KERNEL_SIZES),
    "expansions": _drawn_ratio,
}
"""Parameters of families that are channel counts, kernel sizes, or ratios that make a channel count by multiplication."""


def drawn_parameters(rng: Random, parameters: Mapping[str, Any]) -> Parameters:
    """Parameters with every width, kernel size and expansion drawn at random; all others stay."""
    return {name: each(value, partial(_DRAWS[name], rng)) if name in _DRAWS else value for name, value in parameters.items()}


def _squeezenet_stem(rng: Random, parameters: Parameters) -> Parameters:
    """Draw the kernel size in the stem's pair of channels and kernel size."""
    return parameters | {"stem": [parameters["stem"][0], rng.choice(KERNEL_SIZES)]}


def _even_widths(rng: Random, parameters: Parameters) -> Parameters:
    """Make the widths even: ShuffleNetV2 splits the channels of a stage in halves."""
    return parameters | {"widths": [width + width % 2 for width in parameters["widths"]]}


def _stem_like_first_stage(rng: Random, parameters: Parameters) -> Parameters:
    """Tie the stem to the first stage: the first block of ResNet-18 adds the stem's channels to its own."""
    return parameters | {"stem": parameters["widths"][0]}


def _unexpanded_first_block(rng: Random, parameters: Parameters) -> Parameters:
    """Tie the first block of MobileNetV3 to the stem, whose channels it adds to its own without expansion."""
    stem = parameters["stem"]
    widths, expanded = parameters["widths"], parameters["expanded"]
    return parameters | {"widths": [stem, *widths[1:]], "expanded": [[stem], *expanded[1:]]}


def _as_drawn(rng: Random, parameters: Parameters) -> Parameters:
    return parameters


@dataclass(frozen=True)
class NnMeterFamily:
    """The member ``base`` of a family, whose variants are drawn; ``tie`` makes drawn parameters fit its structure."""

    name: str
    base: str
    tie: Callable[[Random, Parameters], Parameters] = _as_drawn

    @cached_property
    def _family(self) -> VariantFamily:
        found = family(self.name)
        assert isinstance(found, VariantFamily)
        return found

    @cached_property
    def published(self) -> Parameters:
        """Return all parameters of the base, with its defaults."""
        given = self._family.published[self.base].parameters
        known = {**self._family.defaults, **given}
        return {name: value for name, value in known.items() if name in given or name in _DRAWS}

    @cached_property
    def structure(self) -> list[tuple[str, tuple[str, ...]]]:
        """Operators and connections of the base."""
        return structure_of(self._family.build(**self.published))

    def draw(self, rng: Random) -> Parameters:
        """Parameters of one variant."""
        return self.tie(rng, drawn_parameters(rng, self.published))

    def sample(self, count: int, seed: int, keep: Callable[[Graph], None] = lambda graph: None) -> list[Reference]:
        """Return ``count`` different variants with the base's operators and connections, the same for the same seed.

        Args:
            count: How many; fewer are the head of more.
            seed: Same seed, same variants.
            keep: Called with the graph of each variant in turn, for whoever would build them again.
        """

        def accept(parameters: Mapping[str, Any]) -> bool:
            graph = self._family.build(**parameters)
            fits = structure_of(graph) == self.structure and graph.parameter_count <= MOST_PARAMETERS
            if fits:
                keep(graph)
            return fits

        return distinct_references(self.name, self.draw, count, seed, accept=accept)


def structure_of(graph: Graph) -> list[tuple[str, tuple[str, ...]]]:
    """Operators and connections without sizes; builders give equal structures equal names."""
    return [(node.op_type, node.inputs) for node in graph.nodes]


NN_METER_FAMILIES: Mapping[str, NnMeterFamily] = {
    found.name: found
    for found in (
        NnMeterFamily("alexnet", "alexnet"),
        NnMeterFamily("vgg", "vgg11"),
        NnMeterFamily("densenet", "densenet121"),
        NnMeterFamily("resnet", "resnet18", _stem_like_first_stage),
        NnMeterFamily("squeezenet", "squeezenet1_0", _squeezenet_stem),
        NnMeterFamily("googlenet", "googlenet"),
        NnMeterFamily("mobilenet_v1", "mobilenet_v1"),
        NnMeterFamily("mobilenet_v2", "mobilenet_v2"),
        NnMeterFamily("mobilenet_v3", "mobilenet_v3_large", _unexpanded_first_block),
        NnMeterFamily("shufflenet_v2", "shufflenet_v2_x1_5", _even_widths),
        NnMeterFamily("mnasnet", "mnasnet_a1"),
        NnMeterFamily("proxylessnas", "proxylessnas_gpu"),
    )
}
"""The twelve of nn-Meter's Table 2. The paper does not say which member of a family it varies; this is the one whose variants
have a mean number of multiply-accumulates nearest to the table's."""
