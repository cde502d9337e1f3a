"""A space of networks, and a format of model files: text, one layer a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from latcast.errors import ModelError
from latcast.graph.builder import GraphBuilder
from latcast.graph.importers import ModelOptions
from latcast.graph.ir import Graph
from latcast.records import Reference


def build(*, widths: Sequence[int], resolution: int = 32) -> Graph:
    """Convolutions with squared ReLU, a Haar wavelet in place of each pooling, and a classifier."""
    b = GraphBuilder("haar")
    x = b.input((1, 3, resolution, resolution))
    for width in widths:
        x = b.relu(b.conv(x, width, 3, bias=True))
        x = b.op("HaarWavelet", [b.mul(x, x)])[0]
    return b.finish(b.linear(b.flatten(b.global_average_pool(x)), 10))


class HaarSpace:
    """Networks of one to three convolutions."""

    def build(self, **parameters: Any) -> Graph:
        return build(**parameters)

    def sample(self, count: int, seed: int) -> list[Reference]:
        rng, found = Random(f"haar/{seed}"), {}
        while len(found) < count:
            widths = [8 * rng.randint(1, 16) for _ in range(rng.randint(1, 3))]
            reference = Reference("haar", {"widths": widths}, f"haar {'-'.join(map(str, widths))}")
            found[reference.key] = reference
        return list(found.values())


SPACE = HaarSpace()


class LayersImporter:
    """Reads ``.layers``: ``input 1 3 32 32``, then lines of ``conv CHANNELS KERNEL``, ``relu`` and ``haar``."""

    def accepts(self, source: object) -> bool:
        return isinstance(source, Path) and source.suffix == ".layers"

    def load(self, source: Any, options: ModelOptions) -> Graph:
        b, x = GraphBuilder(source.stem), ""
        for number, line in enumerate(source.read_text().splitlines(), start=1):
            try:
                x = self._added(b, x, *line.split(), shape=(options.shapes or {}).get("input"))
            except (IndexError, KeyError, TypeError, ValueError, ModelError) as problem:
                raise ModelError(f"{source}:{number}: expected a layer with its numbers, found '{line}' ({problem})") from problem
        graph = b.finish(x)
        if not graph.nodes:
            raise ModelError(f"{source}: found no layer, expected an input and layers behind it")
        return graph

    def _added(self, b: GraphBuilder, x: str, kind: str, *numbers: str, shape: Sequence[int] | None) -> str:
        sizes = tuple(map(int, numbers))
        if kind == "input":
            return b.input(sizes if shape is None else tuple(shape))
        if kind == "conv":
            return b.conv(x, *sizes)
        return {"relu": b.relu, "haar": lambda y: b.op("HaarWavelet", [y])[0]}[kind](x)
