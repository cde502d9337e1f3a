"""Families whose published members are stored graphs, and of which no variant is drawn.

Their files, ``graphs/families/FAMILY.graphs``, hold each member at its published size; images of other sizes and other batches
are worked out from that (:mod:`latcast.graph.passes.reshape_inputs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from latcast.errors import ModelError
from latcast.graph.builder import Size, pair
from latcast.graph.ir import Graph
from latcast.graph.passes.reshape_inputs import reshape_inputs
from latcast.records import Reference
from latcast.spaces.catalogue import PublishedModel
from latcast.spaces.families.variants import IMAGE, checked_call
from latcast.spaces.named_graphs import FOLDER, SUFFIX, GraphFile, shuffled_head


@dataclass(frozen=True)
class StoredFamily:
    """A family of image classifiers that are read, not built.

    Attributes:
        name: The space's name, and that of its file.
        not_drawn: Members that test networks are not drawn from.
    """

    name: str
    not_drawn: frozenset[str] = frozenset()
    side: ClassVar[int] = IMAGE["resolution"]

    @cached_property
    def published(self) -> Mapping[str, PublishedModel]:
        """Return the members by name."""
        found = {}
        for (name, side), network in self._file.networks.items():
            size = {} if side == IMAGE["resolution"] else {"resolution": side}
            found[name] = PublishedModel(
                {"name": name, **size}, network.published_million_parameters or 0.0, network.published_million_macs,
                network.figures, name not in self.not_drawn,
            )  # fmt: skip
        return found

    def build(self, **parameters: Any) -> Graph:
        """Return the member ``name``, for images of ``resolution`` (a number or two) and ``batch`` where not as published.

        Raises:
            ModelError: Other parameters, no such member, or one that images of this size do not fit.
        """
        return checked_call(self.name, self._member, parameters)

    def _member(self, name: str, resolution: Size | None = None, batch: int = 1) -> Graph:
        network = self._file.find(name)
        if network is None:
            raise ModelError(f"the space '{self.name}' has no network '{name}'; it has {', '.join(self.published)}")
        graph = self._file.graph(network)
        [image] = graph.inputs
        sides = graph.shape(image)[2:] if resolution is None else pair(resolution)
        return reshape_inputs(graph, {image: (batch, 3, *sides)})

    def sample(self, count: int, seed: int) -> list[Reference]:
        """Return different members; see :class:`latcast.spaces.catalogue.Space`."""
        members = [Reference(self.name, model.parameters, name) for name, model in self.published.items()]
        return shuffled_head(self.name, members, count, seed)

    @cached_property
    def _file(self) -> GraphFile:
        return GraphFile(FOLDER / "families" / f"{self.name}{SUFFIX}")


REGNET = StoredFamily("regnet")
SE_RESNET = StoredFamily("se_resnet")
EFFICIENTNET = StoredFamily("efficientnet", frozenset(f"efficientnet_lite{size}" for size in range(1, 5)))
GHOSTNET = StoredFamily("ghostnet")
