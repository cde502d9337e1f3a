"""Networks under the names by which others published their latencies, as references.

A name stands here where the network is known to be a member of a family, or one whose graph comes with latcast: from its code, or
because parameters and multiply-accumulates are those that its origin states. Any other network keeps its name: a reference of the
space that has the dataset's name, which is built where that space has its graph.

TensorFlow's classifiers have 1001 outputs; the members have 1000, at most 0.1 % of the parameters less.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from latcast.errors import DatasetError, ModelError
from latcast.reading import read_json
from latcast.records import Reference
from latcast.spaces.catalogue import find_model, resized
from latcast.spaces.families.variants import IMAGE, scaled_parameters
from latcast.spaces.measured_only import can_build
from latcast.spaces.model_names import letters_of
from latcast.spaces.named_graphs import find_named, graph_file

MEMBERS: Mapping[str, Mapping[str, str]] = MappingProxyType(read_json(Path(__file__).with_suffix(".json"), error=DatasetError))
"""Dataset to published name to a member of a family, or to a network of a space with graphs.

ResNet-50 v1.5 of TensorFlow has its stride in the 3x3 convolution, as the member has it; TensorFlow-Slim's v1 has it in the last
block of a stage, and no family does. ONNX's ResNet-101 v1 and Keras's ResNet-50 have theirs in the first convolution of a block,
as pytorchcv's.

Left out though a network has the name: Hailo's squeezenet_v1.1 (0.39 G multiply-accumulates), mobilenet_v3 (4.07 M parameters),
DeiTs and ViTs (7 and 4 % fewer parameters than theirs) and YOLOv5 of releases before 6.1 (6 % more work); Renesas's YOLOv5, of
which no release is stated; Paddle's MobileNetV2 of other widths (rounded otherwise), EfficientNets (their input is not stated),
Xceptions (of another kind of block than timm's), ViT_small_patch16_224 (768 channels) and shufflenet_v2 (not the same network in
every release); TI's densenet (10.9 M parameters) and squeezenet (its version is not stated); NetsPresso's MobileNetV3-small (its
classifier differs between versions).
"""

_GRID = re.compile(r"((?:mobilenet_v[123]|mnasnet)(?:_large|_small)?(?:_minimalistic)?)_(\d\.\d+)_\d+")
"""Names of grids: network, width, input."""

_PADDLE_V3 = re.compile(r"MobileNetV3_(large|small)_x(\d_\d+)")


def published_network(dataset: str, name: str, size: str = "", *, classes: int | None = None) -> Reference:
    """Return the network that a dataset calls by a name.

    Args:
        dataset: The dataset's name, a key of the importers' registry.
        name: The network's name there.
        size: Its input as published: ``224``, ``224x224x3``, ``1x3x224x224``, or another text; where empty, a member of a
            family has its own size.
        classes: Outputs of the classifier, where not 1000.

    Returns:
        A member of a family, or a reference without a graph.
    """
    resolution = _resolution(size)
    space, slash, network = MEMBERS.get(dataset, {}).get(name, "").partition("/")
    file = graph_file(space) if slash and classes in (None, IMAGE["classes"]) and (resolution is not None or not size) else None
    found = None if file is None else file.find(network, resolution)
    if found is not None:
        return Reference(space, {"name": network, "input": found.input}, name)
    of_size = None if file is None or resolution is None else _of_another_size(space, network, resolution)
    if of_size is not None:
        return replace(of_size, name=name)
    member = _member(dataset, name) if file is None or resolution is None else None
    if member is None or (size and resolution is None):
        given = {"input": int(size) if re.fullmatch(r"[0-9]{1,9}", size) else size} if size else {}
        return Reference(dataset, {"name": name, **given}, f"{dataset}/{name}")
    changes: dict[str, Any] = {}
    if resolution is not None and resolution != member.parameters.get("resolution", IMAGE["resolution"]):
        changes["resolution"] = resolution
    if classes is not None and classes != IMAGE["classes"]:
        changes["classes"] = classes
    return replace(member, parameters={**member.parameters, **changes}, name=name) if changes else member


@cache
def _of_another_size(space: str, network: str, resolution: int) -> Reference | None:
    """Return a network with a graph for images of another size; None where the graph cannot be given that."""
    usual = find_model(f"{space}/{network}")
    try:
        return resized(usual, {"": (1, 3, resolution, resolution)}) if usual is not None else None
    except ModelError:
        return None


def network_called(name: str, size: str = "") -> Reference | None:
    """Return the network that datasets call by a name, of a size; None where none does, or they mean different ones.

    Only letters and digits count. The origin in parentheses that datasets' names have here may be left out.
    """
    wanted = letters_of(name)
    called = [
        published_network(dataset, each, size)
        for dataset, names in MEMBERS.items()
        if dataset not in _KINDS_ALONE and not _GRID.fullmatch(name)
        for each in (name, *(known for known in names if wanted in (letters_of(known), letters_of(known.rpartition(" (")[0]))))
    ]
    found = {each.key: each for each in called if can_build(each)}
    return next(iter(found.values())) if len(found) == 1 else None


def network_in(collection: str, name: str) -> Reference | None:
    """Return the network that a collection, a dataset's, has by a name in any spelling; None where it has none."""
    return _networks_in(collection).get(letters_of(name))


@cache
def _networks_in(collection: str) -> Mapping[str, Reference]:
    file = graph_file(collection)
    own = () if file is None else (f"{collection}/{name}" for name in file.names)
    found = {name: published_network(collection, name) for name in MEMBERS.get(collection, {})}
    found |= {name.partition("/")[2]: each for name in own if (each := find_named(name)) is not None}
    return {letters_of(name): each for name, each in found.items() if can_build(each)}


_KINDS_ALONE = frozenset({"mmdeploy"})
"""Datasets that name the kind of a network alone: ResNet."""


def _member(dataset: str, name: str) -> Reference | None:
    known = MEMBERS.get(dataset, {})
    grid = _GRID.fullmatch(name) if dataset in ("mlperf", "ti") else None
    if grid is not None:
        network, width = grid.groups()
        found = network if width == "1.0" else f"{network}_{width.replace('.', '_')}"
        return find_model(known.get(f"{network}_{width}", found))
    scaled = _PADDLE_V3.fullmatch(name) if dataset == "paddle" else None
    if scaled is not None:
        return _paddle_mobilenet_v3(name, scaled.group(1), float(scaled.group(2).replace("_", ".")))
    return find_model(known[name]) if name in known else None


def _paddle_mobilenet_v3(name: str, size: str, width: float) -> Reference | None:
    """PaddleClas's: every block begins with its 1x1 convolution, the hidden layer has 1280 channels at every width.

    Source: ``ppcls/arch/backbone/legendary_models/mobilenet_v3.py``.
    """
    member = find_model(f"mobilenet_v3_{size}")
    if member is None:
        return None
    published = member.parameters
    scaled = scaled_parameters({"stem": 16, **published}, width, "stem", "widths", "head", "expanded")
    return Reference("mobilenet_v3", {**published, **scaled, "hidden": 1280, "expand": True}, name)


def _resolution(size: str) -> int | None:
    """Height and width of a square image of three channels, or None."""
    found = re.fullmatch(r"(?:1x3x)?([0-9]{1,5})(?:x([0-9]{1,5}))?(?:x3)?", size)
    return int(found.group(1)) if found and found.group(2) in (None, found.group(1)) else None
