"""Networks of the model zoos of Hailo, Rockchip and NetsPresso, as far as no other collection has them.

Structures as the papers describe them; batch normalisations are folded, detectors end with what their heads return.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from benchmarks.named_networks.detector_blocks import DetectorBuilder, Maps
from benchmarks.named_networks.other_yolos import V6_SIZES, X_SIZES, yolov6, yolox
from benchmarks.named_networks.yolo import V8_SIZES, yolov8
from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.records import Reference
from latcast.spaces import build
from latcast.spaces.catalogue import model

# Classifiers


def slim_resnet50(name: str) -> Graph:
    """Return TensorFlow-Slim's ResNet-50: the last block of a stage halves the size."""
    b = DetectorBuilder(name, 224, "relu")
    x = _maps_of_resnet50(b, slim=True)[-1]
    return b.finish(b.linear(b.flatten(b.global_average_pool(x)), 1000))


def renamed(known: str, name: str, **changes: int) -> Graph:
    """Return a network that latcast knows, with other parameters of its family."""
    reference = model(known)
    return build(Reference(reference.space, {**reference.parameters, **changes}, name))


# Encoders of texts


def text_encoder(name: str, tokens: int, width: int, layers: int, *, heads: int, causal: bool, activation: str) -> Graph:
    """Return the transformer of CLIP (Radford et al., 2021) or of SigLIP (Zhai et al., 2023), from embedded tokens on."""
    b = GraphBuilder(name)
    x = b.input((1, tokens, width), name="tokens")
    mask = [b.weight((1, 1, tokens, tokens), stem="mask")] if causal else []
    for _ in range(layers):
        x = b.add(x, b.attention(b.layer_norm(x), heads, biases=mask, four_axes=True))
        y = b.linear(b.layer_norm(x), 4 * width)
        scaled = b.mul(y, b.sigmoid(b.mul(y, b.constant(1.702, dtype="float32")))) if activation == "quick gelu" else b.gelu(y)
        x = b.add(x, b.linear(scaled, width))
    return b.finish(b.layer_norm(x))


# Images made better


def denoiser(name: str, channels: int) -> Graph:
    """Return DnCNN of 20 convolutions (Zhang et al., 2017), for images of 321x481."""
    b = GraphBuilder(name)
    image = x = b.input((1, channels, 321, 481), name="images")
    for _ in range(19):
        x = b.relu(b.conv(x, 64, 3, bias=True))
    return b.finish(b.sub(image, b.conv(x, channels, 3, bias=True)))


def upscaler(name: str, height: int, width: int, factor: int) -> Graph:
    """Return ESPCN (Shi et al., 2016), of one channel."""
    b = GraphBuilder(name)
    x = b.input((1, 1, height, width), name="images")
    x = b.relu(b.conv(b.relu(b.conv(x, 64, 5, bias=True)), 32, 3, bias=True))
    x = b.conv(x, factor**2, 3, bias=True)
    return b.finish(b.op("DepthToSpace", [x], {"blocksize": factor})[0])


# Detectors


def yolov3(name: str, side: int) -> Graph:
    """Return YOLOv3 on Darknet-53 (Redmon and Farhadi, 2018)."""
    b = DetectorBuilder(name, side, "leaky_relu")
    x, maps = b.block(b.image, 32, 3), []
    for channels, blocks in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
        x = b.block(x, channels, 3, 2)
        for _ in range(blocks):
            x = b.add(x, b.block(b.block(x, channels // 2), channels, 3))
        maps.append(x)
    found = []
    for channels, fine in ((512, ""), (256, maps[3]), (128, maps[2])):
        if fine:
            x = b.concat([b.doubled(b.block(x, channels)), fine])
        for _ in range(2):
            x = b.block(b.block(x, channels), 2 * channels, 3)
        x = b.block(x, channels)
        found.append(b.conv(b.block(x, 2 * channels, 3), 255, bias=True))
    return b.finish(*found)


def tiny_yolov3(name: str, side: int) -> Graph:
    """Return YOLOv3-tiny with two maps."""
    b = DetectorBuilder(name, side, "leaky_relu")
    x = b.block(b.image, 16, 3)
    for channels in (32, 64, 128, 256):
        x = b.block(b.max_pool(x, 2), channels, 3)
    fine = x
    x = b.block(b.max_pool(x, 2), 512, 3)
    x = b.block(b.block(b.max_pool(b.pad(x, (0, 0, 0, 0, 0, 0, 1, 1)), 2, 1), 1024, 3), 256)
    coarse = b.conv(b.block(x, 512, 3), 255, bias=True)
    x = b.concat([b.doubled(b.block(x, 128)), fine])
    return b.finish(coarse, b.conv(b.block(x, 256, 3), 255, bias=True))


def ssd_mobilenet_v1(name: str) -> Graph:
    """Return SSD on MobileNet v1 for images of 300x300 (Liu et al., 2016; Howard et al., 2017), with 90 classes."""
    b = DetectorBuilder(name, 300, "relu6")
    every = _maps_of_mobilenet(b, 32)
    x, maps = every[12], [every[10], every[12]]
    for channels in (512, 256, 256, 128):
        x = b.block(b.block(x, channels // 2), channels, 3, 2)
        maps.append(x)
    found = []
    for index, each in enumerate(maps):
        anchors = 3 if index == 0 else 6
        found += [b.conv(each, 4 * anchors, bias=True), b.conv(each, 91 * anchors, bias=True)]
    return b.finish(*found)


def retinaface(name: str, side: int, *, narrow: bool) -> Graph:
    """Return RetinaFace (Deng et al., 2020) on a quarter of MobileNet v1 or on ResNet-50."""
    b = DetectorBuilder(name, side, "leaky_relu" if narrow else "relu")
    if narrow:
        every = _maps_of_mobilenet(b, 8)
        maps = [every[4], every[10], every[12]]
    else:
        maps = _maps_of_resnet50(b)[1:]
    width = 64 if narrow else 256
    low, middle, top = (b.block(x, width) for x in maps)
    middle = b.block(b.add(middle, b.doubled(top)), width, 3)
    low = b.block(b.add(low, b.doubled(middle)), width, 3)
    found = []
    for x in (low, middle, top):
        near = b.block(x, width // 2, 3, kind=None)
        context = b.block(x, width // 4, 3)
        wider = b.block(context, width // 4, 3, kind=None)
        widest = b.block(b.block(context, width // 4, 3), width // 4, 3, kind=None)
        y = b.relu(b.concat([near, wider, widest]))
        scores = b.softmax(b.reshape(b.transpose(b.conv(y, 4, bias=True), (0, 2, 3, 1)), (1, -1, 2)))
        found += [scores, *(b.conv(y, values, bias=True) for values in (8, 20))]
    return b.finish(*found)


def _maps_of_mobilenet(b: DetectorBuilder, width: int) -> Maps:
    """Return what each of the 13 blocks of MobileNet v1 gives, whose first convolution has so many channels."""
    x, maps = b.block(b.image, width, 3, 2), []
    for index, times in enumerate((2, 4, 4, 8, 8, 16, 16, 16, 16, 16, 16, 32, 32)):
        x = b.block(b.depthwise(x, 3, 2 if index in (1, 3, 5, 11) else 1), times * width)
        maps.append(x)
    return maps


def _maps_of_resnet50(b: DetectorBuilder, *, slim: bool = False) -> Maps:
    """Return what each of the four stages gives; TensorFlow-Slim's halve the size in the last block, others in the first."""
    x, maps = b.max_pool(b.block(b.image, 64, 7, 2), 3, 2, 1), []
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner = 64 << stage
        for index in range(blocks):
            halves = index == blocks - 1 and stage < 3 if slim else index == 0 and stage > 0
            stride = 2 if halves else 1
            if index == 0:
                kept = b.block(x, 4 * inner, 1, stride, kind=None)
            else:
                kept = b.max_pool(x, 1, stride) if halves else x
            y = b.block(b.block(b.block(x, inner), inner, 3, stride), 4 * inner, kind=None)
            x = b.relu(b.add(kept, y))
        maps.append(x)
    return maps


Made = tuple[str, Callable[[str], Graph], float | None, float | None]
"""Input as published, what builds the graph, million parameters and billion FLOPs as the zoo has them."""


def _text(tokens: int, width: int, layers: int, heads: int, parameters: float, gflops: float, *, siglip: bool = False) -> Made:
    make = partial(
        text_encoder, tokens=tokens, width=width, layers=layers, heads=heads, causal=not siglip,
        activation="gelu" if siglip else "quick gelu",
    )  # fmt: skip
    return f"1x{tokens}x{width}", make, parameters, gflops


def _leaky(letter: str, side: int, parameters: float, gflops: float) -> Made:
    make = partial(yolox, side=side, size=X_SIZES[letter], activation="leaky_relu", heads=True)
    return f"{side}x{side}x3", make, parameters, gflops


HAILO: Mapping[str, Made] = {
    "resnet_v1_50": ("224x224x3", slim_resnet50, 25.53, 6.98),
    "person_attr_resnet_v1_18": ("224x224x3", partial(renamed, "resnet18", classes=35), 11.19, 3.64),
    "tddfa_mobilenet_v1": ("120x120x3", partial(renamed, "mobilenet_v1", resolution=120, classes=62), 3.26, 0.36),
    "hardnet39ds": ("224x224x3", partial(renamed, "pytorchcv/hardnet39ds"), 3.48, 0.86),
    "hardnet68": ("224x224x3", partial(renamed, "pytorchcv/hardnet68"), 17.56, 8.5),
    "resnext26_32x4d": ("224x224x3", partial(renamed, "pytorchcv/resnext26_32x4d"), 15.37, 4.96),
    "clip_resnet_50_text_encoder": _text(77, 512, 12, 8, 37.8, 6.0),
    "clip_resnet_50x4_text_encoder": _text(77, 640, 12, 10, 59.1, 9.3),
    "clip_vit_b_16_text_encoder": _text(77, 512, 12, 8, 37.8, 6.0),
    "clip_vit_b_32_text_encoder": _text(77, 512, 12, 8, 37.8, 6.0),
    "tinyclip_vit_39m_16_text_19m_yfcc15m_text_encoder": _text(77, 512, 6, 8, 19, 3),
    "tinyclip_vit_40m_32_text_19m_laion400m_text_encoder": _text(77, 512, 6, 8, 19, 3),
    "siglip_b_16_text_encoder": _text(64, 768, 12, 12, 85.6, 11.1, siglip=True),
    "siglip2_b_16_text_encoder": _text(64, 768, 12, 12, 85.6, 11.1, siglip=True),
    "siglip2_b_32_256_text_encoder": _text(64, 768, 12, 12, 85.6, 11.0, siglip=True),
    "siglip_l_16_256_text_encoder": _text(64, 1024, 24, 16, 303.3, 39.2, siglip=True),
    "siglip2_l_16_256_text_encoder": _text(64, 1024, 24, 16, 303.3, 39.2, siglip=True),
    "dncnn3": ("321x481x1", partial(denoiser, channels=1), 0.66, 205.26),
    "dncnn_color_blind": ("321x481x3", partial(denoiser, channels=3), 0.66, 205.97),
    "espcn_x2": ("156x240x1", partial(upscaler, height=156, width=240, factor=2), 0.02, 1.6),
    "espcn_x3": ("104x160x1", partial(upscaler, height=104, width=160, factor=3), 0.02, 0.76),
    "espcn_x4": ("78x120x1", partial(upscaler, height=78, width=120, factor=4), 0.02, 0.46),
    "yolov3_416": ("416x416x3", partial(yolov3, side=416), 61.92, 65.94),
    "yolov3_gluon_416": ("416x416x3", partial(yolov3, side=416), 61.92, 65.94),
    "yolov3_gluon": ("608x608x3", partial(yolov3, side=608), None, 140.7),
    "tiny_yolov3": ("416x416x3", partial(tiny_yolov3, side=416), 8.85, 5.58),
    "yolov6n": ("640x640x3", partial(yolov6, side=640, size=V6_SIZES["n"], release=2, heads=True), 4.32, 11.12),
    "yolov6n_0.2.1": ("640x640x3", partial(yolov6, side=640, size=V6_SIZES["n"], release=2, heads=True), 4.33, 11.06),
    "yolox_tiny": _leaky("tiny", 416, 5.05, 6.44),
    "yolox_s_leaky": _leaky("s", 640, 8.96, 26.74),
    "yolox_l_leaky": _leaky("l", 640, 54.17, 155.3),
    "fast_sam_s": ("640x640x3", partial(yolov8, side=640, size=V8_SIZES["s"], masks=True, labels=1, heads=True), None, None),
    "ssd_mobilenet_v1": ("300x300x3", ssd_mobilenet_v1, 6.79, 2.5),
}  # fmt: skip

ROCKCHIP: Mapping[str, Made] = {
    "RetinaFace_mobile320": ("1x3x320x320", partial(retinaface, side=320, narrow=True), None, None),
    "RetinaFace_resnet50_320": ("1x3x320x320", partial(retinaface, side=320, narrow=False), None, None),
}  # fmt: skip

NETSPRESSO: Mapping[str, Made] = {
    f"YOLOX-{letter}": ("640x640", partial(yolox, side=640, size=X_SIZES[letter], labels=4, heads=True), None, None)
    for letter in "sml"
}  # fmt: skip
"""Detectors of four classes."""
