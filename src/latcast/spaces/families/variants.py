"""Variants of published networks: other widths, kernel sizes, depths and resolutions, drawn from a seed.

The scheme is nn-Meter's (Zhang et al., §3 and Table 2): channel counts between 0.2 and 1.8 times the published
ones, and kernel sizes of 1, 3, 5, 7 or 9. Here a width belongs to a stage and is a multiple of 8, and depth and
resolution vary too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from latcast.errors import LatcastError, ModelError
from latcast.graph.builder import GraphBuilder, pair
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.reading import read_json
from latcast.records import Reference
from latcast.spaces.catalogue import PublishedModel

WIDTH_RANGE = (0.2, 1.8)
KERNEL_SIZES = (1, 3, 5, 7, 9)
RESOLUTIONS = (128, 160, 192, 224, 256)

Stages = Sequence[int]
"""A number for each stage of a network (or each layer, where a network has no stages)."""

Draw = Callable[[Random], dict[str, Any]]
"""Parameters of one member of a space, drawn from a random stream; JSON values only."""


def round_channels(channels: float, multiple: int = 8) -> int:
    """Return the nearest multiple, at least one, and never more than 10 % below ``channels`` (MobileNet's rule)."""
    rounded = max(multiple, int(channels + multiple / 2) // multiple * multiple)
    return rounded + multiple if rounded < 0.9 * channels else rounded


def each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a number changed, or a list (of lists) with every number changed."""
    return change(value) if isinstance(value, (int, float)) else [each(item, change) for item in value]


def scaled_parameters(defaults: Mapping[str, Any], multiplier: float, *names: str) -> dict[str, Any]:
    """Return parameters that are channel counts, or lists of them, times one multiplier."""
    return {name: each(defaults[name], lambda width: round_channels(width * multiplier)) for name in names}


def draw_widths(rng: Random, widths: Any, multiple: int = 8, limits: tuple[float, float] = WIDTH_RANGE) -> Any:
    """Return every width times its multiplier, rounded; of one width, or of a list (of lists)."""
    return each(widths, lambda width: round_channels(width * rng.uniform(*limits), multiple))


def draw_stem(rng: Random, width: int) -> Any:
    """Draw the channels of a wide stem: from a quarter to one and a half times the published ones."""
    return draw_widths(rng, width, limits=(0.25, 1.5))


def draw_kernels(rng: Random, kernels: Any, choices: Sequence[int] = KERNEL_SIZES, keep: float = 0.5) -> Any:
    """Draw each kernel size (of a list, or of lists): with probability ``keep`` it stays, else it is one of ``choices``."""
    return each(kernels, lambda kernel: kernel if rng.random() < keep else rng.choice(choices))


def draw_depths(rng: Random, depths: Sequence[int]) -> list[int]:
    """Draw every depth between half and one and a half times the published one."""
    return [rng.randint(max(1, (depth + 1) // 2), max(1, depth * 3 // 2)) for depth in depths]


def draw_blocks(rng: Random, count: int) -> list[int]:
    """Draw which published blocks a stage consists of: a shallower one lacks the last ones, a deeper one repeats the last."""
    (depth,) = draw_depths(rng, [count])
    return [min(index, count - 1) for index in range(depth)]


def of_blocks(stages: Sequence[Sequence[Any]], blocks: Sequence[Sequence[int]]) -> list[list[Any]]:
    """Return the values of chosen blocks of each stage."""
    return [[stage[block] for block in chosen] for stage, chosen in zip(stages, blocks, strict=True)]


def draw_resolution(rng: Random, resolution: int = 224) -> int:
    """Draw one of :data:`RESOLUTIONS`."""
    return rng.choice(RESOLUTIONS)


_DRAWS: Mapping[str, Callable[[Random, Any], Any]] = {
    **dict.fromkeys(
        ("widths", "inner", "hidden", "growths", "squeezed", "pointwise", "spatial", "dims", "stem", "head"), draw_widths
    ),
    "depths": draw_depths,
    "transformer_depths": draw_depths,
    "kernels": draw_kernels,
    "resolution": draw_resolution,
}


def draw_from(names: str, *bases: Mapping[str, Any], **draws: Callable[[Random, Any], Any]) -> Draw:
    """Draw variants of one of several published members.

    Args:
        names: Parameters of a variant, separated by spaces, in the order in which they are drawn; those that have no way of
            being drawn stay as published.
        bases: Parameters of the published members; each is as likely.
        draws: How a parameter is drawn from its published value, where not as in most families.
    """

    def draw(rng: Random) -> dict[str, Any]:
        base = rng.choice(bases) if len(bases) > 1 else bases[0]
        known = {**_DRAWS, **draws}
        return {name: known[name](rng, base.get(name)) if name in known else base[name] for name in names.split()}

    return draw


MEMBERS = Path(__file__).with_name("members.json")
"""Families' default parameters, and their published members: parameters where they differ, figures, and where these stand.

``sides`` has the other images that a member was published for: pixels of a side to millions of multiply-accumulates.
"""


@cache
def _listed() -> Mapping[str, Mapping[str, Any]]:
    return dict(read_json(MEMBERS, error=ModelError))


def published_and_defaults(family: str) -> tuple[Mapping[str, PublishedModel], Mapping[str, Any]]:
    """Return a family's published members by name, those of other images as ``NAME_SIDE``, and its default parameters."""
    listed, found = _listed()[family], {}
    for name, member in listed["members"].items():
        found[name] = usual = PublishedModel(**{field: value for field, value in member.items() if field != "sides"})
        for side, million_macs in member.get("sides", {}).items():
            parameters = {**usual.parameters, "resolution": int(side)}
            found[f"{name}_{side}"] = replace(usual, parameters=parameters, million_macs=million_macs, drawn=False)
    return found, listed["defaults"]


def parameters_of(family: str, *members: str) -> list[dict[str, Any]]:
    """Return all parameters of published members of a family."""
    listed = _listed()[family]
    return [{**listed["defaults"], **listed["members"][name]["parameters"]} for name in members]


def check_lengths(space: str, **columns: Sized) -> None:
    """Check that lists with one entry for each stage (or block) are of one length.

    Raises:
        ModelError: They are not; the message gives every length.
    """
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise ModelError(f"the lists of {space} differ in length ({lengths}); give one entry for each stage")


def distinct_references(
    space: str,
    draw: Draw,
    count: int,
    seed: int,
    *,
    accept: Callable[[Mapping[str, Any]], bool] | None = None,
    known: Collection[str] = (),
) -> list[Reference]:
    """Return ``count`` different members of a space; a smaller count gives the head of a larger one's list.

    Args:
        space: The space's name; it enters the stream, so that two spaces do not draw alike from one seed.
        draw: Parameters of one member.
        count: How many.
        seed: Same seed, same members.
        accept: Members that it turns down are drawn again.
        known: Keys of references that must not be drawn.

    Raises:
        LatcastError: See :func:`too_few`.
    """
    rng = Random(f"{space}/{seed}")
    seen = set(known)
    found: list[Reference] = []
    fruitless = 0
    while len(found) < count:
        reference = named_by_content(space, draw(rng))
        if reference.key not in seen:
            seen.add(reference.key)
            if accept is None or accept(reference.parameters):
                found.append(reference)
                fruitless = 0
                continue
        fruitless += 1
        if fruitless == MOST_FRUITLESS:
            raise too_few(space, len(found), count)
    return found


MOST_FRUITLESS = 1000
"""Draws in a row without a new member, after which a space is exhausted."""


def too_few(space: str, found: int, count: int) -> LatcastError:
    """Return the error for a space that is smaller than ``count``."""
    return LatcastError(
        f"found {found} different members of the space '{space}' and then none in {MOST_FRUITLESS} draws, "
        f"expected {count}; ask for fewer"
    )


def named_by_content(space: str, parameters: Mapping[str, Any]) -> Reference:
    """Return the reference of a member without a name."""
    unnamed = Reference(space, parameters)
    return replace(unnamed, name=f"{space}-{unnamed.key[:8]}")


_Made = TypeVar("_Made")


def checked_call(name: str, builder: Callable[..., _Made], parameters: Mapping[str, Any]) -> _Made:
    """Call a builder, with an error that lists its parameters where an argument is unknown.

    Raises:
        ModelError: A parameter that the builder does not take, or one that it lacks.
    """
    signature = inspect.signature(builder)
    try:
        signature.bind(**parameters)
    except TypeError as problem:
        raise ModelError(
            f"the space '{name}' cannot be built: {problem}; it takes {', '.join(signature.parameters)}"
        ) from problem
    return builder(**parameters)


def pooled_classifier(b: GraphBuilder, x: str, classes: int) -> str:
    """Global average pooling and a linear layer."""
    return b.linear(b.flatten(b.global_average_pool(x)), classes)


@dataclass(frozen=True)
class DrawnSpace:
    """A synthetic space: a builder from JSON parameters to a graph, a draw of them, and which members are kept."""

    name: str
    builder: Callable[..., Graph]
    draw: Draw
    accept: Callable[[Graph], bool] | None = None

    def build(self, **parameters: Any) -> Graph:
        """Build a member; see :class:`latcast.spaces.catalogue.Space`."""
        return checked_call(self.name, self.builder, parameters)

    def sample(self, count: int, seed: int) -> list[Reference]:
        """Return different members; see :class:`latcast.spaces.catalogue.Space`."""
        accept = self.accept
        fits = None if accept is None else lambda parameters: accept(self.build(**parameters))
        return distinct_references(self.name, self.draw, count, seed, accept=fits)


IMAGE: Mapping[str, Any] = {"resolution": 224, "classes": 1000, "batch": 1}
"""Parameters of every family: height and width of the image (one number or two), outputs, images at a time."""


@dataclass(frozen=True)
class VariantFamily:
    """A family of real image classifiers: how it is built, its published members, and a way to draw variants.

    Attributes:
        name: The space's name.
        published: Model name to the figures of its paper.
        defaults: Every parameter of the family, with its value in the default member; those of :data:`IMAGE` may be left out.
        network: Adds a member behind an image and returns its outputs; takes a builder, the image, and as keywords
            ``classes`` and the parameters of ``defaults``.
        draw: Parameters of a variant.
        per_stage: Parameters that are lists of one length.
        max_macs, max_parameters: Most multiply-accumulates and learned values of a variant that a phone has time and memory for.
    """

    name: str
    published: Mapping[str, PublishedModel]
    defaults: Mapping[str, Any]
    network: Callable[..., str]
    draw: Draw
    per_stage: str = ""
    max_macs: float = 16e9
    max_parameters: float = 160e6

    @property
    def side(self) -> int:
        """Pixels of a side of the usual image."""
        return int({**IMAGE, **self.defaults}["resolution"])

    def build(self, **parameters: Any) -> Graph:
        """Build a member; see :class:`latcast.spaces.catalogue.Space`."""
        known = {**self.defaults, **{name: value for name, value in IMAGE.items() if name not in self.defaults}}
        unknown = sorted(parameters.keys() - known)
        if unknown:
            raise ModelError(f"the space '{self.name}' has no parameter '{unknown[0]}'; it takes {', '.join(known)}")
        values = {**known, **parameters}
        check_lengths(self.name, **{name: values[name] for name in self.per_stage.split()})
        b = GraphBuilder(self.name)
        image = b.input((values.pop("batch"), 3, *pair(values.pop("resolution"))))
        return b.finish(self.network(b, image, **values))

    def sample(self, count: int, seed: int) -> list[Reference]:
        """Return ``count`` different variants within the limits, none of them a published member."""

        def fits(parameters: Mapping[str, Any]) -> bool:
            graph = self.build(**parameters)
            return graph.parameter_count <= self.max_parameters and graph_macs(graph) <= self.max_macs

        published = {Reference(self.name, model.parameters).key for model in self.published.values()}
        return distinct_references(self.name, self.draw, count, seed, accept=fits, known=published)
