"""Networks under the names by which others published their latencies, as references.

A name stands here where the network is known to be a member of a family: from its code, or because parameters and
multiply-accumulates are those that its origin states. Any other network keeps its name and has no graph: a reference of the
space that has the dataset's name, which becomes buildable once that space builds it.

TensorFlow's classifiers have 1001 outputs; the members have 1000, at most 0.1 % of the parameters less.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from latcast.records import Reference
from latcast.spaces.catalogue import family_member
from latcast.spaces.families.variants import IMAGE, scaled_parameters, scaled_widths

TENSORFLOW: Mapping[str, str] = {
    "resnet50_v1.5": "resnet50",
    "inception_v1": "googlenet",
    "mnasnet_1.0": "mnasnet1_0",
    **{f"efficientnet_lite{size}": f"efficientnet_lite{size}" for size in range(5)},
}
"""Published name, without width 1.0 and input, to a member. ResNet-50 v1.5 has its stride in the 3x3 convolution, as the member
has it; TensorFlow-Slim's v1 has it in the last block of a stage, and no family does."""

MEMBERS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "mlperf": TENSORFLOW,
        "ti": TENSORFLOW,
        "paddle": {
            "AlexNet": "alexnet", "VGG11": "vgg11", "VGG16": "vgg16", "SqueezeNet1_0": "squeezenet1_0",
            "SqueezeNet1_1": "squeezenet1_1", "DenseNet161": "densenet161", "DenseNet201": "densenet201",
            **{f"ResNet{layers}": f"resnet{layers}" for layers in (18, 34, 50, 152)},
            "ResNeXt101_32x8d_wsl": "resnext101_32x8d", "MobileNetV1": "mobilenet_v1", "mobilenet_v1_caffe": "mobilenet_v1",
            "MobileNetV1_x0_25": "mobilenet_v1_0_25", "MobileNetV1_x0_75": "mobilenet_v1_0_75", "MobileNetV2": "mobilenet_v2",
            "mobilenet_v2_caffe": "mobilenet_v2", "ShuffleNetV2_x0_5": "shufflenet_v2_x0_5",
            "ShuffleNetV2_x2_0": "shufflenet_v2_x2_0", "GhostNet_x0_5": "ghostnet_x0_5",
            "DeiT_small_patch16_224": "deit_small_16", "SwinTransformer_small_patch4_window7_224": "swin_small",
        },
        "netspresso": {
            "ResNet18": "resnet18", "ResNet34": "resnet34", "ResNet50": "resnet50", "MobileNetV3-large": "mobilenet_v3_large",
        },
        "hailo": {
            "resnet_v1_18": "resnet18", "resnet_v1_34": "resnet34", "resnext50_32x4d": "resnext50_32x4d",
            "regnetx_800mf": "regnet_x_800mf", "regnetx_1.6gf": "regnet_x_1_6gf", "inception_v1": "googlenet",
            "mobilenet_v1": "mobilenet_v1", "mobilenet_v2_1.0": "mobilenet_v2", "mobilenet_v2_1.4": "mobilenet_v2_1_4",
            "vit_base": "vit_base_16", "swin_tiny": "swin_tiny", "swin_small": "swin_small",
            **{f"efficientnet_lite{size}": f"efficientnet_lite{size}" for size in range(5)},
        },
        "rknn": {"mobilenetv2-12": "mobilenet_v2"},
    }
)  # fmt: skip
"""Dataset to published name to a member of a family.

Left out though a member has the name: Hailo's resnet_v1_50 (3.49 G multiply-accumulates), squeezenet_v1.1 (0.39 G),
mobilenet_v3 (4.07 M parameters) and DeiTs (7 % fewer parameters than theirs); Paddle's MobileNetV2 of other widths (rounded
otherwise) and shufflenet_v2 (not the same network in every release); TI's densenet (10.9 M parameters) and squeezenet (its
version is not stated); NetsPresso's MobileNetV3-small (its classifier differs between versions).
"""

_GRID = re.compile(r"((?:mobilenet_v[123]|mnasnet)(?:_large|_small)?(?:_minimalistic)?)_(\d\.\d+)_\d+")
"""Names of grids: network, width, input."""

_PADDLE_V3 = re.compile(r"MobileNetV3_(large|small)_x(\d_\d+)")


def published_network(dataset: str, name: str, size: str = "", *, classes: int | None = None) -> Reference:
    """The network that a dataset calls by a name.

    Args:
        dataset: The dataset's name, a key of the importers' registry.
        name: The network's name there.
        size: Its input as published: ``224``, ``224x224x3``, ``1x3x224x224``, or another text; where empty, a member of a
            family has its own size.
        classes: Outputs of the classifier, where not 1000.

    Returns:
        A member of a family, or a reference without a graph.
    """
    member = _member(dataset, name)
    resolution = _resolution(size)
    if member is None or (size and resolution is None):
        given = {"input": int(size) if re.fullmatch(r"[0-9]{1,9}", size) else size} if size else {}
        return Reference(dataset, {"name": name, **given}, f"{dataset}/{name}")
    changes: dict[str, Any] = {}
    if resolution is not None and resolution != member.parameters.get("resolution", IMAGE["resolution"]):
        changes["resolution"] = resolution
    if classes is not None and classes != IMAGE["classes"]:
        changes["classes"] = classes
    return replace(member, parameters={**member.parameters, **changes}, name=name) if changes else member


def _member(dataset: str, name: str) -> Reference | None:
    known = MEMBERS.get(dataset, {})
    grid = _GRID.fullmatch(name) if known is TENSORFLOW else None
    if grid is not None:
        network, width = grid.groups()
        found = network if width == "1.0" else f"{network}_{width.replace('.', '_')}"
        return family_member(known.get(f"{network}_{width}", found))
    scaled = _PADDLE_V3.fullmatch(name) if dataset == "paddle" else None
    if scaled is not None:
        return _paddle_mobilenet_v3(name, scaled.group(1), float(scaled.group(2).replace("_", ".")))
    return family_member(known[name]) if name in known else None


def _paddle_mobilenet_v3(name: str, size: str, width: float) -> Reference | None:
    """PaddleClas's: every block begins with its 1x1 convolution, the hidden layer has 1280 channels at every width.

    Source: ``ppcls/arch/backbone/legendary_models/mobilenet_v3.py``.
    """
    member = family_member(f"mobilenet_v3_{size}")
    if member is None:
        return None
    published = member.parameters
    scaled = {
        **scaled_parameters({"stem": 16, **published}, width, "stem", "widths", "head"),
        "expanded": [scaled_widths(stage, width) for stage in published["expanded"]],
    }
    return Reference("mobilenet_v3", {**published, **scaled, "hidden": 1280, "expand": True}, name)


def _resolution(size: str) -> int | None:
    """Height and width of a square image of three channels, or None."""
    found = re.fullmatch(r"(?:1x3x)?([0-9]{1,5})(?:x([0-9]{1,5}))?(?:x3)?", size)
    return int(found.group(1)) if found and found.group(2) in (None, found.group(1)) else None
