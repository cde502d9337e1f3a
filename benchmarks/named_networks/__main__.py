"""``python -m benchmarks.named_networks``: the graphs that come with latcast under names such as ``timm/convnext_tiny``.

They are built once, here, from the modules of the collections; predicting them needs neither PyTorch nor a collection.

build SPACE        builds what is missing and writes src/latcast/spaces/graphs/SPACE.graphs; goes on where it was stopped
check [SPACE]      compares parameters and multiply-accumulates with what was published
rate               writes the accuracies of timm's, torchvision's and pytorchcv's weights
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from latcast.cli.output import StageProgress, percent, print_table
from latcast.folders import cache_folder, made
from latcast.spaces.named_graphs import FOLDER, SUFFIX, GraphFile, NamedGraph, spaces_with_graphs, write_graphs

if TYPE_CHECKING:
    from benchmarks.named_networks.recipes import Recipe
    from latcast.graph.ir import Graph

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)

WRITTEN_EVERY_S = 60.0

MOST_S = 180
"""To trace one module."""

MOST_OFF_PERCENT = 1.0
"""Of the published figures, besides their being rounded."""

ROUNDED_PARAMETERS, ROUNDED_MACS = 5_000, 5_000_000
"""Half of the last digit that is published: of parameters to ten thousand, of multiply-accumulates to ten million."""


@app.command()
def build(
    space: Annotated[str, Argument(help="timm, torchvision, ...")],
    only: Annotated[
        list[str] | None, Option(help="Names to build, again where they are there; all that are missing by default.")
    ] = None,
    most: Annotated[int, Option(help="Stop after so many.", min=0)] = 0,
    data: Annotated[
        Path | None, Option(help="Folder of published measurements, whose figures are kept beside the graphs.")
    ] = None,
    again: Annotated[bool, Option("--again", help="Try those again that failed before.")] = False,
) -> None:
    """Build the graphs that are missing."""
    from benchmarks.named_networks.recipes import COLLECTIONS
    from benchmarks.named_networks.tracing import trace
    from latcast.errors import ModelError
    from latcast.graph.compact import pack, unpack, with_derived_names
    from latcast.graph.operators import graph_macs
    from latcast.graph.passes.reshape_inputs import reshape_inputs

    collection = COLLECTIONS[space]
    recipes = collection.recipes(data)
    path = FOLDER / f"{space}{SUFFIX}"
    made(FOLDER)
    file = GraphFile(path) if path.is_file() else None
    known = {key: (network, file.packed(network)) for key, network in file.networks.items()} if file else {}
    if collection.counted is not None:
        for key, (network, packed) in known.items():
            if network.counted_macs is None:
                known[key] = (replace(network, counted_macs=collection.counted(unpack(packed, network.name))), packed)
    failures_file = made(cache_folder()) / f"named-networks-{space}-failures.json"
    failures: dict[str, str] = json.loads(failures_file.read_text(encoding="utf-8")) if failures_file.is_file() else {}

    usual = {recipe.name: recipe.input for recipe in recipes if recipe.usual}

    def written() -> None:
        order = sorted(known, key=lambda key: (key[0], key[1] != usual.get(key[0]), str(key[1])))
        write_graphs(path, [known[key] for key in order])
        failures_file.write_text(json.dumps(failures, indent=1))

    def resized(recipe: Recipe) -> tuple[Graph, int] | None:
        """Return the network at another input than its usual one, where that gives the published figure."""
        base = None if recipe.usual or recipe.million_macs is None else known.get((recipe.name, usual[recipe.name]))
        if base is None:
            return None
        network, packed = base
        base_graph = unpack(packed, recipe.name)
        try:
            graph = with_derived_names(reshape_inputs(base_graph, dict(zip(base_graph.inputs, recipe.shapes, strict=True))))
        except ModelError:
            return None
        macs = collection.counted(graph) if collection.counted else graph_macs(graph)
        return (graph, network.parameters) if not is_off(macs, recipe.million_macs, ROUNDED_MACS) else None

    def built(recipe: Recipe) -> tuple[Graph, int]:
        if recipe.read is None:
            with _at_most(MOST_S):
                return trace(recipe.make, recipe.shapes, recipe.name)
        graph = replace(with_derived_names(recipe.read()), name=recipe.name)
        return graph, recipe.learned(graph)

    missing = [
        recipe
        for recipe in recipes
        if (
            recipe.name in only
            if only
            else (recipe.name, recipe.input) not in known and (again or _label(recipe.name, recipe.input) not in failures)
        )
    ]
    missing = missing[: most or len(missing)]
    last_s = time.monotonic()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit("stopped; what was built is kept"))
    gc.freeze()  # what the collections have imported lives as long as this process
    try:
        with StageProgress() as progress:
            for index, recipe in enumerate(missing):
                label = _label(recipe.name, recipe.input)
                progress.show(f"{index} of {len(missing)}, {len(failures)} failed: {label}", index / len(missing))
                try:
                    graph, parameters = resized(recipe) or built(recipe)
                    network = NamedGraph(
                        recipe.name, recipe.input, parameters, graph_macs(graph), recipe.origin or collection.origin(),
                        recipe.million_parameters, recipe.million_macs, recipe.figures,
                        collection.counted(graph) if collection.counted else None,
                    )  # fmt: skip
                    known[network.key] = (network, pack(graph))
                    failures.pop(label, None)
                except Exception as problem:  # code of the collection and of the exporter, which may raise anything
                    failures[label] = f"{type(problem).__name__}: {(str(problem).strip().splitlines() or [''])[0][:300]}"
                if time.monotonic() - last_s > WRITTEN_EVERY_S:
                    written()
                    last_s = time.monotonic()
    finally:
        written()
    print(f"{len(known)} graphs in {path}, {path.stat().st_size / 1e6:.2f} MB; {len(failures)} failed, see {failures_file}")


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    """Raise TimeoutError after so many seconds."""

    def give_up(number: int, frame: object) -> None:
        raise TimeoutError(f"it took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _label(name: str, given: object) -> str:
    return f"{name}@{given}"


@app.command()
def check(space: Annotated[str, Argument(help="All spaces by default.")] = "") -> None:
    """Print counts, and the networks that differ from what was published."""
    for each in [space] if space else spaces_with_graphs():
        file = GraphFile(FOLDER / f"{each}{SUFFIX}")
        networks = list(file.networks.values())
        stated = [network for network in networks if network.published_million_parameters or network.published_million_macs]
        differing = [network for network in stated if differs(network)]
        print(
            f"{each}: {len(file.names)} names, {len(networks)} graphs, {file.path.stat().st_size / 1e6:.2f} MB; "
            f"{len(stated)} with published figures, {len(stated) - len(differing)} of them within {MOST_OFF_PERCENT:g} %"
        )
        print_table(
            "",
            ("network", "input", "million parameters", "published", "million MACs, as counted", "published"),
            [
                (
                    network.name,
                    str(network.input),
                    f"{network.parameters / 1e6:.2f}",
                    percent(network.published_million_parameters, 2),
                    f"{(network.counted_macs or network.macs) / 1e6:.0f}",
                    percent(network.published_million_macs, 0),
                )
                for network in differing
            ],
        )


@app.command()
def rate(data: Annotated[Path, Option(help="Folder of published measurements, with timm's accuracies.")]) -> None:
    """Write the published accuracies of three collections; torchvision and pytorchcv are to be installed."""
    from benchmarks.named_networks.accuracies import write_accuracies

    print(f"{write_accuracies(data)} accuracies of weights")


def differs(network: NamedGraph) -> bool:
    """Return whether parameters or multiply-accumulates are more than 1 % from what was published."""
    return is_off(network.parameters, network.published_million_parameters, ROUNDED_PARAMETERS) or is_off(
        network.macs if network.counted_macs is None else network.counted_macs, network.published_million_macs, ROUNDED_MACS
    )


def is_off(found: int, stated_millions: float | None, rounded: int) -> bool:
    """Return whether a figure is further than 1 % from one that was published, rounded."""
    if stated_millions is None:
        return False
    return abs(found - 1e6 * stated_millions) > MOST_OFF_PERCENT / 100 * 1e6 * stated_millions + rounded


if __name__ == "__main__":
    app()
