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
from types import MappingProxyType
from typing import Any

from latcast.records import Reference
from latcast.spaces.catalogue import find_model
from latcast.spaces.families.variants import IMAGE, scaled_parameters
from latcast.spaces.named_graphs import graph_file

TENSORFLOW: Mapping[str, str] = {
    "resnet50_v1.5": "resnet50",
    "inception_v1": "googlenet",
    "mnasnet_1.0": "mnasnet1_0",
    **{f"efficientnet_lite{size}": f"efficientnet_lite{size}" for size in range(5)},
}
"""Published name, without width 1.0 and input, to a member. ResNet-50 v1.5 has its stride in the 3x3 convolution, as the member
has it; TensorFlow-Slim's v1 has it in the last block of a stage, and no family does."""

_RENESAS: Mapping[str, str] = {
    **{f"ConvNeXt {size}": f"timm/convnext_{size.replace(' ', '_')}" for size in ("atto", "femto", "femto ols")},
    "CSP-Darknet": "timm/cspdarknet53", "CSP-ResNet": "timm/cspresnet50", "CSP-ResNeXt": "timm/cspresnext50",
    "Darknet-53": "timm/darknet53", "Darknet-aa53": "timm/darknetaa53", "DenseNet Blur 121d": "timm/densenetblur121d",
    **{f"DenseNet{layers}": f"densenet{layers}" for layers in (121, 161, 169, 201)},
    "DLA(Dense Layer Aggregation)102x": "timm/dla102x", "DLA46x_c": "timm/dla46x_c", "DLA60x_c": "timm/dla60x_c",
    "DPN(Dual Path Network)107": "timm/dpn107", "DPN68": "timm/dpn68",
    **{f"ECA-ResNet{size}": f"timm/ecaresnet{size}" for size in ("101d", "26t", "50d", "50t", "light")},
    "EfficientNet Edge Medium": "timm/efficientnet_em", "EfficientNet Edge Small": "timm/efficientnet_es",
    "pruned EfficientNet Edge Small": "timm/efficientnet_es_pruned", "EfficientNet Lite0": "efficientnet_lite0",
    "FBNet-C": "timm/fbnetc_100", **{f"FBNetV3-{size.upper()}": f"timm/fbnetv3_{size}" for size in "bdg"},
    "Global Context Resnet50t (gcresnet50t)": "timm/gcresnet50t", "GhostNet-1.0x": "timm/ghostnet_100",
    **{f"HardcoreNAS_{size.upper()}": f"timm/hardcorenas_{size}" for size in "abcdef"},
    **{
        f"HRNet {w}{title}": f"timm/hrnet_w{name}"
        for w in "wW"
        for title, name in (*((str(width), str(width)) for width in (18, 30, 32, 40, 44)), ("18small", "18_small"),
                            ("18small V2", "18_small_v2"))
    },
    **{f"PP-LCNet-{width}x": f"timm/lcnet_{code}" for width, code in (("0.5", "050"), ("0.75", "075"), ("1", "100"))},
    **{f"(Legacy) SE-ResNet-{layers}": f"timm/legacy_seresnet{layers}" for layers in (18, 34, 50, 152)},
    "(Legacy) SE-ResNeXt-26": "timm/legacy_seresnext26_32x4d",
    "MnasNet-Small depth multiplier 1.0": "timm/mnasnet_small", "MnasNet-B1 depth multiplier 1.0": "timm/mnasnet_100",
    **{
        f"MobileNet V2 with channel multiplier of {width}": f"timm/mobilenetv2_{code}"
        for width, code in (("0.5", "050"), ("1.0", "100"), ("1.2", "120d"), ("1.4", "140"))
    },
    "MobileNet V3 (RW variant)": "timm/mobilenetv3_rw", "MobileNet V3 Large 1.0": "timm/mobilenetv3_large_100",
    **{
        f"MobileNet V3 Small {width}": f"timm/mobilenetv3_small_{code}"
        for width, code in (("0.5", "050"), ("0.75", "075"), ("1.0", "100"))
    },
    **{
        f"RegNet{line} {size}": f"timm/regnet{line.lower()}_{code}"
        for line, sizes in (
            ("X", {"200MF": "002", "400MF": "004", "600MF": "006", "800MF": "008", "1.6GF": "016", "3.2GF": "032", "6.4GF": "064",
                   "16GF": "160"}),
            ("Y", {"200MF": "002", "400MF": "004", "600MF": "006", "4.0GF": "040", "8.0GF": "080", "32GF": "320"}),
        )
        for size, code in sizes.items()
    },
    **{f"RepVGG-{size}": f"timm/repvgg_{size.lower()}" for size in ("A2", "B0", "B1", "B1g4", "B2", "B2g4", "B3", "B3g4")},
    **{
        f"Res2Net-{layers} {width}w×{scales}s": f"timm/res2net{layers}_{width}w_{scales}s"
        for layers, width, scales in ((101, 26, 4), (50, 14, 8), (50, 26, 4), (50, 26, 6), (50, 48, 2))
    },
    "Res2Next-50": "timm/res2next50", **{f"ResNeSt-{layers}": f"timm/resnest{layers}d" for layers in (14, 26, 50)},
    **{f"ResNeSt-{layers}": f"timm/resnest{layers}e" for layers in (101, 200, 269)},
    "ResNeSt-50 1s4×24d": "timm/resnest50d_1s4x24d", "ResNeSt-50 4s2×40d": "timm/resnest50d_4s2x40d",
    "ResNeXt-101(64x4d)": "timm/resnext101_64x4d", "ResNeXt-50d(32x4d)": "timm/resnext50d_32x4d",
    **{f"(Gluon) ResNet{layers} v1b": f"resnet{layers}" for layers in (18, 50, 152)},
    **{f"(Gluon) ResNet{layers} v1{stem}": f"timm/resnet{layers}{stem}" for layers in (50, 101, 152) for stem in "cs"},
    "(Gluon) ResNeXt101 32x4d": "timm/resnext101_32x4d", "(Gluon) ResNeXt101 64x4d": "timm/resnext101_64x4d",
    **{
        f"(Gluon) SE-ResNeXt{layers} {groups}-4d": f"timm/seresnext{layers}_{groups}x4d"
        for layers, groups in ((50, 32), (101, 32), (101, 64))
    },
    "Instagram ResNeXt101 32x8 WSL": "resnext101_32x8d", "ResNeXt-101(32x8d)": "resnext101_32x8d",
    "ResNeXt-50(32x4d)": "resnext50_32x4d",
    **{f"ResNet-{layers}": f"resnet{layers}" for layers in (18, 34, 50, 101, 152)}, "ResNet-26": "timm/resnet26",
    **{f"ResNet-{layers}-D": f"timm/resnet{layers}d" for layers in (18, 26, 34, 50, 101, 152, 200)},
    **{f"ResNet-{layers}-T": f"timm/resnet{layers}t" for layers in (10, 14, 26)},
    "ResNet-50 blur anti-aliasing": "timm/resnetblur50", **{f"ResNet-RS-{n}": f"timm/resnetrs{n}" for n in (50, 101, 152, 200)},
    "ResNet18 (PyTorch)": "resnet18", "ResNet34 (PyTorch)": "resnet34", "ResNet101 (PyTorch)": "resnet101",
    "ResNeXt-50-32x4d (PyTorch)": "resnext50_32x4d", "MobileNetV2 (PyTorch)": "mobilenet_v2",
    "SqueezeNet1_1 (PyTorch)": "squeezenet1_1", "DenseNet-121 (PyTorch)": "densenet121",
    "DenseNet-121 (keras)": "densenet121", "DenseNet-121 (mxnet)": "densenet121", "DenseNet-169 (keras)": "densenet169",
    "DenseNet-169 (mxnet)": "densenet169", "DenseNet9 (ONNX)": "densenet121", "SqueezeNet1.1-7 (ONNX)": "squeezenet1_1",
    "MobileNet (keras)": "mobilenet_v1", "MobileNetV2 (keras)": "mobilenet_v2", "MobileNetV2 (ONNX)": "mobilenet_v2",
    "MobileNetV2_1.0 (mxnet)": "mobilenet_v2", "ResNet18-v1 (ONNX)": "resnet18", "ResNet34-v1 (ONNX)": "resnet34",
    "ResNet101-v1 (ONNX)": "pytorchcv/resnet101", "ResNet-50 (keras)": "pytorchcv/resnet50",
    "ResNet18-v2 (ONNX)": "pytorchcv/preresnet18", "ResNet34-v2 (ONNX)": "pytorchcv/preresnet34",
    "DenseNet-161 (PyTorch)": "densenet161", "GoogleNet (PyTorch)": "googlenet", "MnasNet0_5 (PyTorch)": "mnasnet0_5",
}  # fmt: skip
"""Renesas's names of timm's networks, and of others with their origin in brackets, to members. ONNX's ResNet-101 v1 and Keras's
ResNet-50 have their stride in the first convolution of a block, as pytorchcv's."""

MEMBERS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "renesas_drpai": _RENESAS,
        "mmdeploy": {
            "ResNet": "resnet50", "ResNeXt": "resnext50_32x4d", "SE-ResNet": "se_resnet50", "ShuffleNetV2": "shufflenet_v2_x1_0",
        },
        "xnnpack": {
            f"{precision} MobileNet {name}": f"mobilenet_{member}"
            for precision in ("FP32", "INT8")
            for name, member in (("v1 1.0X", "v1"), ("v2 1.0X", "v2"), ("v3 Large", "v3_large"), ("v3 Small", "v3_small"))
        },
        "mlperf": TENSORFLOW,
        "ti": {
            **TENSORFLOW, "inception_v3": "timm/inception_v3", "mobilenet_edgetpu_1.0_224": "timm/mobilenet_edgetpu_100",
            **{f"efficientnet_edgetpu_{size}": f"timm/tf_efficientnet_e{size}" for size in "sml"},
        },
        "paddle": {
            **{f"DLA{size}": f"timm/dla{size.lower()}" for size in ("34", "60", "60x", "102", "102x")},
            **{f"DPN{layers}": f"timm/dpn{layers}" for layers in (68, 98, 131)},
            **{f"HRNet_W{width}_C": f"timm/hrnet_w{width}" for width in (30, 40, 48, 64)},
            **{f"PPLCNet_x0_{width}": f"timm/lcnet_0{width:<02}" for width in (5, 75)}, "PPLCNet_x1_0": "timm/lcnet_100",
            "InceptionV4": "timm/inception_v4", "MixNet_S": "timm/mixnet_s", "MixNet_L": "timm/mixnet_l",
            "PPHGNet_tiny": "timm/hgnet_tiny", "ReXNet_1_3": "timm/rexnet_130", "ReXNet_2_0": "timm/rexnet_200",
            "Res2Net50_14w_8s": "timm/res2net50_14w_8s", "Res2Net50_vd_26w_4s": "timm/res2net50d", "ResNeSt50": "timm/resnest50d",
            "ResNet50_vc": "timm/resnet50c", "ResNet50_vd": "timm/resnet50d", "ResNeXt50_vd_32x4d": "timm/resnext50d_32x4d",
            "ResNeXt101_32x32d_wsl": "timm/resnext101_32x32d", "SE_ResNeXt101_32x4d": "timm/seresnext101_32x4d",
            "SE_ResNeXt50_32x4d": "se_resnext50_32x4d", "pcpvt_base": "timm/twins_pcpvt_base",
            "alt_gvt_small": "timm/twins_svt_small", "alt_gvt_large": "timm/twins_svt_large",
            "DeiT_small_distilled_patch16_224": "timm/deit_small_distilled_patch16_224",
            "DeiT_base_distilled_patch16_384": "timm/deit_base_distilled_patch16_384",
            "DeiT_base_patch16_384": "timm/deit_base_patch16_384", "ViT_base_patch16_384": "timm/vit_base_patch16_384",
            "ViT_large_patch16_224": "timm/vit_large_patch16_224", "ViT_large_patch32_384": "timm/vit_large_patch32_384",
            "SwinTransformer_base_patch4_window12_384": "timm/swin_base_patch4_window12_384",
            "SwinTransformer_large_patch4_window12_384": "timm/swin_large_patch4_window12_384",
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
            "MobileViT-s": "mobilevit_s", "ViT-tiny": "deit_tiny_16",
        },
        "hailo": {
            **{f"levit{width}": f"timm/levit_{width}" for width in (128, 192, 256, 384)},
            "davit_tiny": "timm/davit_tiny", "efficientformer_l1": "timm/efficientformer_l1",
            "nextvit_small": "timm/nextvit_small", "nextvit_base": "timm/nextvit_base", "poolformer_s12": "timm/poolformer_s12",
            "resnet_v1_18": "resnet18", "resnet_v1_34": "resnet34", "resnext50_32x4d": "resnext50_32x4d",
            "regnetx_800mf": "regnet_x_800mf", "regnetx_1.6gf": "regnet_x_1_6gf", "inception_v1": "googlenet",
            "mobilenet_v1": "mobilenet_v1", "mobilenet_v2_1.0": "mobilenet_v2", "mobilenet_v2_1.4": "mobilenet_v2_1_4",
            "vit_base": "vit_base_16", "swin_tiny": "swin_tiny", "swin_small": "swin_small",
            **{f"efficientnet_lite{size}": f"efficientnet_lite{size}" for size in range(5)},
        },
        "rknn": {"mobilenetv2-12": "mobilenet_v2"},
        "aihub": {
            **{f"resnet{layers}": f"resnet{layers}" for layers in (18, 50, 101)}, "googlenet": "googlenet",
            "mobilenet_v2": "mobilenet_v2", "squeezenet1_1": "squeezenet1_1", "densenet121": "densenet121",
            "efficientnet_b0": "efficientnet_b0", "mnasnet05": "mnasnet0_5", "shufflenet_v2": "shufflenet_v2_x0_5",
            "vit": "vit_base_16",
        },
    }
)  # fmt: skip
"""Dataset to published name to a member of a family, or to a network of a space with graphs.

Left out though a network has the name: Hailo's resnet_v1_50 (3.49 G multiply-accumulates), squeezenet_v1.1 (0.39 G),
mobilenet_v3 (4.07 M parameters), DeiTs and ViTs (7 and 4 % fewer parameters than theirs); Paddle's MobileNetV2 of other widths
(rounded otherwise), EfficientNets (their input is not stated), Xceptions (of another kind of block than timm's),
ViT_small_patch16_224 (768 channels) and shufflenet_v2 (not the same network in every release); TI's densenet (10.9 M parameters)
and squeezenet (its version is not stated); NetsPresso's MobileNetV3-small (its classifier differs between versions).
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
    member = _member(dataset, name)
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
