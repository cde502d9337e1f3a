"""The networks of the PyPI package pytorchcv under the names it gives them: ``resnet18``, ``mobilenetv2b_w3d4``, ...

Li et al. measured real networks of this collection (Appendix A). A network is built by pytorchcv, exported by PyTorch as a
user would (``torch.onnx.export``) and read by the importer of ONNX files, so that a predictor trained on these graphs
meets the same graphs in files of users. Exported files are kept without weights in the user's cache: building takes
seconds, reading milliseconds.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

from latcast.errors import LatcastError, ModelError
from latcast.graph.ir import Graph
from latcast.records import Reference
from latcast.spaces.pytorchcv.exported import RESOLUTION, exported_graph, shipped_names

NAME = "pytorchcv"

_PREFIXES = (
    "densenet", "efficientnet", "fbnet", "fdmobilenet", "hardnet", "hrnet", "mnasnet", "mobilenetv2", "mobilenetv3",
    "mobilenet_v2", "mobilenet_v3", "mobilenet", "preresnet", "proxylessnas", "regnet", "resnext", "resnet", "sepreresnet",
    "seresnet", "squeezenet", "squeezeresnet",
)  # fmt: skip
"""Where letters that follow the family's name name a variant of it (``regnetx``, ``mobilenetb``, ``resnetbc``)."""

_LONGEST_FIRST = tuple(sorted(_PREFIXES, key=len, reverse=True))


def family_of(name: str) -> str:
    """The family of a network, for holding whole families out: a known one that its name begins with, else its first letters.

    >>> family_of("mobilenetv2b_w3d4"), family_of("regnety006"), family_of("diracnet18v2")
    ('mobilenetv2', 'regnet', 'diracnet')
    """
    for prefix in _LONGEST_FIRST:
        if name.startswith(prefix):
            return prefix
    letters = re.match(r"[A-Za-z]+", name)
    return letters.group() if letters else name


def reference_of(name: str) -> Reference:
    """The reference of a network by its name in pytorchcv; whether there is one shows when it is built."""
    return Reference(NAME, {"name": name}, name)


def has_network(name: str) -> bool:
    """Whether a network of this name can be built here: it comes with the package, or with pytorchcv where that is installed."""
    if name in shipped_names():
        return True
    from latcast.spaces.pytorchcv.providers import provider

    try:
        provider(name)
    except LatcastError:
        return False
    return True


def build(name: str, *, resolution: int = RESOLUTION, classes: int | None = None, batch: int = 1) -> Graph:
    """A network of pytorchcv.

    Args:
        name: As pytorchcv calls it.
        resolution: Height and width of the image.
        classes: Outputs of the classifier; by default as pytorchcv has it (1000).
        batch: Images.

    Raises:
        UnknownNameError: pytorchcv has no such network.
        MissingExtraError: The network is not in the cache, and pytorchcv or PyTorch is not installed.
        ModelError: The parameters make no valid network, or PyTorch cannot export it.
    """
    given: dict[str, object] = {"resolution": resolution, "classes": classes, "batch": batch}
    for label, value in given.items():
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ModelError(f"{label} of {name} is {value!r}; expected a whole number from 1 on")
    return exported_graph(name, resolution, classes, batch)


class PytorchcvSpace:
    """The space ``pytorchcv``: parameters are those of :func:`build`."""

    def build(self, **parameters: Any) -> Graph:
        """The network with these parameters; see :func:`build`."""
        try:
            return build(**parameters)
        except TypeError as problem:
            raise ModelError(f"the space {NAME} cannot build {parameters}: {problem}") from problem

    def sample(self, count: int, seed: int) -> list[Reference]:
        """``count`` different ImageNet classifiers; a smaller count gives the head of a larger one's list.

        Raises:
            LatcastError: pytorchcv has fewer.
            MissingExtraError: pytorchcv or PyTorch is not installed.
        """
        from latcast.spaces.pytorchcv.providers import classifier_names

        known = list(classifier_names())
        if count > len(known):
            raise LatcastError(f"pytorchcv has {len(known)} ImageNet classifiers, {count} were asked for")
        Random(f"{NAME}/{seed}").shuffle(known)
        return [reference_of(name) for name in known[:count]]


SPACE = PytorchcvSpace()

__all__ = ["NAME", "SPACE", "build", "family_of", "has_network", "reference_of", "shipped_names"]
