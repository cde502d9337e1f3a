"""Accuracies of networks: of a user's table, and published ones on ImageNet-1k, a fact for each of their weights with its source.

``accuracies.json`` has under ``published`` each source and its facts, a line each: the network as :func:`latcast.models` names
it, pixels of a side of its image, the name of the weights, what they were trained on, and percent. Under ``same`` are networks
that another collection has too, with those whose weights fit them. ``python -m benchmarks.named_networks rate`` writes the facts
of three large tables.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from latcast.errors import DatasetError
from latcast.reading import read_csv

FILE = Path(__file__).with_name("accuracies.json")

TRAINED_ON = ("imagenet-1k", "imagenet-21k", "more")
"""Images that weights saw, as their names say: those of ImageNet-1k, of ImageNet-21k or parts of it too, and others too."""

USUAL_SIDE = 224
"""Pixels of a side of the image, of networks that do not say it."""


@dataclass(frozen=True)
class Accuracy:
    """A published accuracy.

    Attributes:
        top1_percent: Top-1 on the validation images of ImageNet-1k, one crop.
        weights: Their name, as who published them calls them.
        trained_on: One of :data:`TRAINED_ON`.
        source: Where the figure stands.
    """

    top1_percent: float
    weights: str
    trained_on: str
    source: str


@cache
def published_accuracies() -> Mapping[tuple[str, int], tuple[Accuracy, ...]]:
    """Return the accuracies by the network's name and the side of its image, the best first."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    found: dict[str, dict[int, list[Accuracy]]] = defaultdict(lambda: defaultdict(list))
    for group in data["published"]:
        for network, side, weights, trained_on, top1_percent in group["facts"]:
            found[network][side].append(Accuracy(top1_percent, weights, trained_on, group["source"]))
    for network, other in data["same"].items():
        found[network] = found[other]
    return {
        (network, side): tuple(sorted(each, key=lambda accuracy: -accuracy.top1_percent))
        for network, sides in found.items()
        for side, each in sides.items()
    }


def best_accuracy(network: str, side: object, trained_on: str = TRAINED_ON[-1]) -> Accuracy | None:
    """Return the best accuracy of a network on images of a size, of weights that saw no more than ``trained_on``, or None."""
    allowed = TRAINED_ON[: TRAINED_ON.index(trained_on) + 1]
    known = published_accuracies().get((network, side), ()) if isinstance(side, int) else ()
    return next((each for each in known if each.trained_on in allowed), None)


def read_accuracies(path: Path) -> dict[str, float]:
    """Read accuracies in percent from a CSV file with the header ``model,accuracy``.

    Raises:
        DatasetError: The file cannot be read, has another header, or a line is malformed; the message gives the line.
    """
    (_, header), *rows = read_csv(path, error=DatasetError) or [(1, ())]
    if [name.strip() for name in header] != ["model", "accuracy"]:
        raise DatasetError(f"{path}: found the header '{','.join(header)}', expected 'model,accuracy'")
    found = {}
    for number, row in rows:
        try:
            name, text = row
            found[name.strip()] = float(text)
        except ValueError:
            raise DatasetError(f"{path}, line {number}: found '{','.join(row)}', expected a model and a number") from None
        if not 0 <= found[name.strip()] <= 100:
            raise DatasetError(f"{path}, line {number}: found the accuracy {text}, expected percent, from 0 to 100")
    return found
