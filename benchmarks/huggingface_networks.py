"""``python -m benchmarks.huggingface_networks``: the graphs of the transformers that Li et al. measured on phones.

They are built once, here, by ``transformers`` (4.46 has all of them) with random weights, from hyperparameters written out below
as they were published; nothing is downloaded. Predicting the networks needs neither PyTorch nor ``transformers``. Which input a
network ran with follows from the FLOPs published beside its latencies: at the input given here they agree within 0.7 %, where at
other inputs they are tens of percent off. The three MobileViTv2 agree as well once their unfolded 1x1 convolutions,
(channels, 4, n) in size, are counted as 4x4 maps, as the origin counted them.

Attention is written out as products and a softmax, as ``transformers`` ran it when the networks were measured. What depends on
weights alone is a weight here: masks and position biases. By the published sizes of their files that is so of Swin and BEiT,
while Swin v2 computed its position biases anew each time, which these graphs do not have.
"""

from __future__ import annotations

import gc
import io
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from latcast.graph.idioms import IN_GROUPS
from latcast.graph.ir import Graph, Node
from latcast.spaces.named_graphs import FOLDER, SUFFIX, GraphFile, NamedGraph, Origin, write_graphs

SPACE = "huggingface"

FIGURES = "FLOPs of Li et al.'s measurements (qed-usc/mobile-ml-benchmark, commit 40ba833), two a multiply-accumulate"


@dataclass(frozen=True)
class Architecture:
    """How a network is built.

    Attributes:
        module: Of ``transformers.models``.
        configuration, network: Names of classes in it.
        image: Height and width of its input.
        hyperparameters: Where they are not those of the class.
        million_macs: Half the published FLOPs, in millions; None where they were counted otherwise.
    """

    module: str
    configuration: str
    network: str
    image: int
    hyperparameters: Mapping[str, Any]
    million_macs: float | None


_CLASSES: Mapping[str, tuple[str, str, str]] = {
    "beit": ("beit", "BeitConfig", "BeitForImageClassification"),
    "cvt": ("cvt", "CvtConfig", "CvtForImageClassification"),
    "deit": ("deit", "DeiTConfig", "DeiTForImageClassification"),
    "dinov2": ("dinov2", "Dinov2Config", "Dinov2ForImageClassification"),
    "efficientformer": (
        "deprecated.efficientformer", "EfficientFormerConfig", "EfficientFormerForImageClassificationWithTeacher",
    ),
    "focalnet": ("focalnet", "FocalNetConfig", "FocalNetForImageClassification"),
    "levit": ("levit", "LevitConfig", "LevitForImageClassificationWithTeacher"),
    "mit": ("segformer", "SegformerConfig", "SegformerForImageClassification"),
    "mobilevit": ("mobilevit", "MobileViTConfig", "MobileViTForImageClassification"),
    "mobilevitv2": ("mobilevitv2", "MobileViTV2Config", "MobileViTV2ForImageClassification"),
    "poolformer": ("poolformer", "PoolFormerConfig", "PoolFormerForImageClassification"),
    "pvt": ("pvt", "PvtConfig", "PvtForImageClassification"),
    "swiftformer": ("swiftformer", "SwiftFormerConfig", "SwiftFormerForImageClassification"),
    "swin": ("swin", "SwinConfig", "SwinForImageClassification"),
    "swinv2": ("swinv2", "Swinv2Config", "Swinv2ForImageClassification"),
    "van": ("deprecated.van", "VanConfig", "VanForImageClassification"),
    "vit": ("vit", "ViTConfig", "ViTForImageClassification"),
    "vit_hybrid": ("deprecated.vit_hybrid", "ViTHybridConfig", "ViTHybridForImageClassification"),
    "vit_msn": ("vit_msn", "ViTMSNConfig", "ViTMSNForImageClassification"),
}  # fmt: skip

_BASE_WINDOWS = {"embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32]}
_FOCAL = {"depths": [2, 2, 18, 2], "focal_levels": [2] * 4, "focal_windows": [3] * 4}
_WIDE = [64, 128, 320, 512]
_BIT = {
    "model_type": "bit", "global_padding": "same", "layer_type": "bottleneck", "depths": (3, 4, 9), "out_features": ["stage3"],
    "embedding_dynamic_padding": True,
}  # fmt: skip


def _beit(image: int) -> dict[str, Any]:
    return {"image_size": image, "use_relative_position_bias": True, "use_mean_pooling": True, "layer_scale_init_value": 0.1}


def _efficientformer(depths: Sequence[int], widths: Sequence[int], blocks_3d: int) -> dict[str, Any]:
    return {
        "depths": depths,
        "hidden_sizes": widths,
        "num_meta3d_blocks": blocks_3d,
        "dim": widths[-1],
        "hidden_size": widths[-1],
    }


def _levit(widths: Sequence[int], heads: Sequence[int], depths: Sequence[int], key: int) -> dict[str, Any]:
    return {"hidden_sizes": widths, "num_attention_heads": heads, "depths": depths, "key_dim": [key] * 3}


def _mobilevit(widths: Sequence[int], necks: Sequence[int], expansion: float) -> dict[str, Any]:
    return {"hidden_sizes": widths, "neck_hidden_sizes": necks, "expand_ratio": expansion}


_NETWORKS: Sequence[tuple[str, str, int, Mapping[str, Any], float | None]] = (
    ("beit-base-patch16-224", "beit", 224, _beit(224), 17551.956),
    ("beit-base-patch16-384", "beit", 384, _beit(384), 55434.0),
    ("cvt-13-384", "cvt", 384, {"depth": [1, 2, 10]}, 16236.565),
    ("cvt-21", "cvt", 224, {"depth": [1, 4, 16]}, 7166.8),
    ("cvt-21-384", "cvt", 384, {"depth": [1, 4, 16]}, 24801.397),
    ("deit-base-distilled-patch16-224", "deit", 224, {"image_size": 224}, 17644.096),
    ("deit-base-distilled-patch16-384", "deit", 384, {"image_size": 384}, 55540.0),
    ("deit-tiny-distilled-patch16-224", "deit", 224,
     {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768}, 1257.825),
    ("dinov2-base-imagenet1k-1-layer", "dinov2", 224, {"image_size": 518, "patch_size": 14}, 23146.165),
    ("dinov2-small-imagenet1k-1-layer", "dinov2", 224,
     {"image_size": 518, "patch_size": 14, "hidden_size": 384, "num_attention_heads": 6}, 6116.03),
    ("efficientformer-l3-300", "efficientformer", 224, _efficientformer([4, 4, 12, 6], _WIDE, 4), 3905.47),
    ("efficientformer-l7-300", "efficientformer", 224, _efficientformer([6, 6, 18, 8], [96, 192, 384, 768], 8), 10117.075),
    ("focalnet-base", "focalnet", 224, {"embed_dim": 128, **_FOCAL}, 15228.72),
    ("focalnet-small", "focalnet", 224, {"embed_dim": 96, **_FOCAL}, 8589.201),
    ("levit-128", "levit", 224, _levit([128, 256, 384], [4, 8, 12], [4, 4, 4], 16), 403.77),
    ("levit-128S", "levit", 224, _levit([128, 256, 384], [4, 6, 8], [2, 3, 4], 16), 303.528),
    ("levit-192", "levit", 224, _levit([192, 288, 384], [3, 5, 6], [4, 4, 4], 32), 655.323),
    ("levit-384", "levit", 224, _levit([384, 512, 768], [6, 9, 12], [4, 4, 4], 32), 2348.455),
    ("mit-b0", "mit", 224, {"depths": [2, 2, 2, 2], "hidden_sizes": [32, 64, 160, 256]}, 450.563),
    ("mit-b2", "mit", 224, {"depths": [3, 4, 6, 3], "hidden_sizes": _WIDE}, 3264.703),
    ("mit-b3", "mit", 224, {"depths": [3, 4, 18, 3], "hidden_sizes": _WIDE}, 6131.785),
    ("mit-b4", "mit", 224, {"depths": [3, 8, 27, 3], "hidden_sizes": _WIDE}, 8905.706),
    ("mit-b5", "mit", 224, {"depths": [3, 6, 40, 3], "hidden_sizes": _WIDE}, 11699.907),
    ("mobilevit-x-small", "mobilevit", 256, _mobilevit([96, 120, 144], [16, 32, 48, 64, 80, 96, 384], 4.0), 1023.337),
    ("mobilevit-xx-small", "mobilevit", 256, _mobilevit([64, 80, 96], [16, 16, 24, 48, 64, 80, 320], 2.0), 405.252),
    ("mobilevitv2-1.0-imagenet1k-256", "mobilevitv2", 256, {}, None),
    ("mobilevitv2-1.5-voc-deeplabv3", "mobilevitv2", 256,
     {"width_multiplier": 1.5, "num_labels": 21, "output_stride": 16}, None),
    ("mobilevitv2-2.0-imagenet1k-256", "mobilevitv2", 256, {"width_multiplier": 2.0}, None),
    ("poolformer_m36", "poolformer", 224, {"depths": [6, 6, 18, 6], "hidden_sizes": [96, 192, 384, 768]}, 8758.788),
    ("poolformer_m48", "poolformer", 224, {"depths": [8, 8, 24, 8], "hidden_sizes": [96, 192, 384, 768]}, 11533.32),
    ("poolformer_s12", "poolformer", 224, {"depths": [2, 2, 6, 2], "hidden_sizes": _WIDE}, 1812.267),
    ("poolformer_s36", "poolformer", 224, {"depths": [6, 6, 18, 6], "hidden_sizes": _WIDE}, 4972.15),
    ("pvt-large-224", "pvt", 224, {"depths": [3, 8, 27, 3]}, 9796.479),
    ("pvt-medium-224", "pvt", 224, {"depths": [3, 4, 18, 3]}, 6647.091),
    ("pvt-tiny-224", "pvt", 224, {"depths": [2, 2, 2, 2]}, 1928.192),
    ("swiftformer-l1", "swiftformer", 224, {"depths": [4, 3, 10, 5], "embed_dims": [48, 96, 192, 384]}, 1595.42),
    ("swiftformer-l3", "swiftformer", 224, {"depths": [4, 4, 12, 6], "embed_dims": _WIDE}, 4007.587),
    ("swiftformer-s", "swiftformer", 224, {"depths": [3, 3, 9, 6], "embed_dims": [48, 64, 168, 224]}, 984.112),
    ("swiftformer-xs", "swiftformer", 224, {"depths": [3, 3, 6, 4], "embed_dims": [48, 56, 112, 220]}, 601.978),
    ("swin-base-patch4-window12-384", "swin", 384, {"image_size": 384, "window_size": 12, **_BASE_WINDOWS}, 47016.337),
    ("swin-base-patch4-window7-224", "swin", 224, _BASE_WINDOWS, 15412.834),
    ("swin-small-patch4-window7-224", "swin", 224, {"depths": [2, 2, 18, 2]}, 8727.291),
    ("swinv2-base-patch4-window12-192-22k", "swinv2", 192,
     {"image_size": 192, "window_size": 12, "num_labels": 21841, **_BASE_WINDOWS}, 11857.889),
    ("swinv2-base-patch4-window16-256", "swinv2", 256, {"image_size": 256, "window_size": 16, **_BASE_WINDOWS}, 21927.146),
    ("swinv2-base-patch4-window8-256", "swinv2", 256, {"image_size": 256, "window_size": 8, **_BASE_WINDOWS}, 20299.1),
    ("swinv2-tiny-patch4-window16-256", "swinv2", 256, {"image_size": 256, "window_size": 16}, 6641.308),
    ("swinv2-tiny-patch4-window8-256", "swinv2", 256, {"image_size": 256, "window_size": 8}, 5927.605),
    ("van-base", "van", 224, {"hidden_sizes": _WIDE, "depths": [3, 3, 12, 3]}, 4992.773),
    ("van-large", "van", 224, {"hidden_sizes": _WIDE, "depths": [3, 5, 27, 3]}, 8925.292),
    ("van-tiny", "van", 224, {"hidden_sizes": [32, 64, 160, 256], "depths": [3, 3, 5, 2]}, 864.224),
    ("vit-base-patch16-224-in21k", "vit", 224, {"num_labels": 2}, 17551.19),
    ("vit-base-patch32-224-in21k", "vit", 224, {"patch_size": 32, "num_labels": 2}, 4405.936),
    ("vit-base-patch32-384", "vit", 384, {"patch_size": 32, "image_size": 384}, 13035.369),
    ("vit-hybrid-base-bit-384", "vit_hybrid", 384, {"image_size": 384, "backbone_config": _BIT, "qkv_bias": True}, 67105.0),
    ("vit-msn-base", "vit_msn", 224, {}, 17551.956),
    ("vit-msn-base-4", "vit_msn", 224, {"patch_size": 4}, 447088.5),
    ("vit-msn-small", "vit_msn", 224, {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}, 4592.946),
)  # fmt: skip

ARCHITECTURES: Mapping[str, Architecture] = {
    name: Architecture(*_CLASSES[family], image, {"num_labels": 1000, **hyperparameters}, million_macs)
    for name, family, image, hyperparameters, million_macs in _NETWORKS
}
"""Published name to architecture."""

CONVOLUTIONS_IN_GROUPS = ("cvt", "mit-", "mobilevit-")
"""Networks whose TensorFlow version, which TFLite ran, has its depthwise convolutions as ``Conv2D(groups=channels)``."""


def module_of(architecture: Architecture) -> Any:
    """The PyTorch module, with weights as memory was."""
    import importlib

    from transformers.modeling_utils import no_init_weights

    classes = importlib.import_module(f"transformers.models.{architecture.module}")
    values = dict(architecture.hyperparameters)
    extra = {name: values.pop(name) for name in ("hidden_size",) if architecture.module.endswith("efficientformer")}
    configuration = getattr(classes, architecture.configuration)(**values)
    for name, value in extra.items():
        setattr(configuration, name, value)
    configuration.return_dict = False
    configuration._attn_implementation = "eager"
    with no_init_weights():
        module = getattr(classes, architecture.network)(configuration).eval()
    _make_static(module)
    return module


def _make_static(module: Any) -> None:
    """Turns what depends on weights or sizes alone into buffers, and unfolding into the one rearrangement that it is."""
    import torch

    for part in list(module.modules()):
        kind = type(part).__name__
        if kind in ("SwinLayer", "Swinv2Layer"):
            height, width = part.input_resolution
            if kind == "SwinLayer":
                part.set_shift_and_window_size((height, width))
            padded = (side + -side % part.window_size for side in (height, width))
            mask = part.get_attn_mask(*padded, torch.float32, *(["cpu"] if kind == "SwinLayer" else []))
            part.register_buffer("known_mask", mask, persistent=False)
            part.get_attn_mask = types.MethodType(lambda self, *_, **__: self.known_mask, part)
        elif kind == "BeitRelativePositionBias":
            tokens = part.window_size[0] * part.window_size[1] + 1
            part.register_buffer("known_bias", torch.zeros(1, part.relative_position_bias_table.shape[1], tokens, tokens))
            part.forward = types.MethodType(lambda self, *_, **__: self.known_bias, part)
        elif kind == "MobileViTV2Layer":
            part.unfolding, part.folding = _unfolded, _folded


def _unfolded(features: Any) -> tuple[Any, tuple[int, int]]:
    """(N, C, H, W) as (N, C, 4, H W / 4): each patch of 2x2."""
    batch, channels, height, width = features.shape
    patches = features.reshape(batch, channels, height // 2, 2, width // 2, 2).permute(0, 1, 3, 5, 2, 4)
    return patches.reshape(batch, channels, 4, height * width // 4), (height, width)


def _folded(patches: Any, size: tuple[int, int]) -> Any:
    batch, channels = patches.shape[:2]
    height, width = size
    features = patches.reshape(batch, channels, 2, 2, height // 2, width // 2).permute(0, 1, 4, 2, 5, 3)
    return features.reshape(batch, channels, height, width)


def exported(module: Any, image: int) -> Graph:
    """The graph of a module."""
    import onnx
    import torch

    from latcast.graph.importers import load_graph

    file = io.BytesIO()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for weight in module.parameters():
            weight.uniform_(-0.02, 0.02)  # the exporter takes equal weights for one
        torch.onnx.export(module, (torch.zeros(1, 3, image, image),), file, dynamo=False, opset_version=20)
    return load_graph(onnx.load_from_string(file.getvalue()))


def finished(name: str, graph: Graph) -> Graph:
    """The graph with group normalisations as one operator, as they are one call, and convolutions as Keras has them."""
    graph = with_group_norms(graph)
    return with_convolutions_in_groups(graph) if name.startswith(CONVOLUTIONS_IN_GROUPS) else graph


def with_group_norms(graph: Graph) -> Graph:
    """GroupNormalization in place of what the exporter writes: Reshape, InstanceNormalization, Reshape, Mul, Add."""
    gone: set[str] = set()
    norms: dict[str, Node] = {}
    for norm in graph.nodes_of_type.get("InstanceNormalization", ()):
        chain = [norm, *_chain(graph, norm, ("Reshape", "Mul", "Add"))]
        before = graph.producers.get(norm.inputs[0])
        if len(chain) < 4 or before is None or before.op_type != "Reshape":
            continue
        weight, bias = (next(name for name in node.inputs if name in graph.weights) for node in chain[2:])
        attributes = {"num_groups": graph.shape(norm.inputs[0])[1], "epsilon": norm.attributes.get("epsilon", 1e-5)}
        gone.update(node.name for node in (before, *chain))
        norms[chain[-1].name] = Node(
            "GroupNormalization", norm.name, (before.inputs[0], weight, bias), chain[-1].outputs, attributes
        )
    return graph.with_nodes(norms.get(node.name, node) for node in graph.nodes if node.name in norms or node.name not in gone)


def _chain(graph: Graph, node: Node, op_types: Sequence[str]) -> Iterator[Node]:
    """The operators of these types that follow one another, each the only reader of the one before."""
    for op_type in op_types:
        reader = graph.sole_reader(node.outputs[0])
        if reader is None or reader.op_type != op_type:
            return
        node = reader
        yield node


def with_convolutions_in_groups(graph: Graph) -> Graph:
    """The graph with its depthwise convolutions marked (:data:`latcast.graph.idioms.IN_GROUPS`)."""

    def marked(node: Node) -> Node:
        depthwise = node.op_type == "Conv" and node.attributes.get("group", 1) == graph.shape(node.inputs[0])[1] > 1
        return replace(node, attributes={**node.attributes, IN_GROUPS: 1}) if depthwise else node

    return graph.with_nodes(marked(node) for node in graph.nodes)


def main(
    only: Annotated[list[str] | None, Option(help="Names to build again; those that are missing by default.")] = None,
    path: Annotated[Path, Option(help="File of graphs.")] = FOLDER / f"{SPACE}{SUFFIX}",
) -> None:
    """Builds the graphs that are missing."""
    from transformers import __version__

    from latcast.graph.compact import pack, with_derived_names
    from latcast.graph.operators import graph_macs

    origin = Origin(f"transformers {__version__}", "https://github.com/huggingface/transformers", "Apache-2.0")
    file = GraphFile(path) if path.is_file() else None
    known = {network.name: (network, file.packed(network)) for network in file.networks.values()} if file else {}
    for name, architecture in ARCHITECTURES.items():
        if name in known and name not in (only or ()):
            continue
        module = module_of(architecture)
        parameters = sum(weight.numel() for weight in module.parameters())
        graph = exported(module, architecture.image)
        graph = replace(with_derived_names(finished(name, graph)), name=name)
        network = NamedGraph(
            name, architecture.image, parameters, graph_macs(graph), origin, None, architecture.million_macs, None,
            FIGURES if architecture.million_macs else "",
        )  # fmt: skip
        known[name] = (network, pack(graph))
        write_graphs(path, [known[each] for each in ARCHITECTURES if each in known])
        stated = f", {network.macs / 1e6 / architecture.million_macs - 1:+.2%}" if architecture.million_macs else ""
        print(
            f"{name}: {len(graph.nodes)} operators, {parameters / 1e6:.2f} M, {network.macs / 1e6:.0f} M MACs{stated}", flush=True
        )
        del module
        gc.collect()


if __name__ == "__main__":
    typer.run(main)
