"""Networks to build: names, modules, inputs, and published figures.

A collection is a space with a function that lists its recipes; ``COLLECTIONS`` has them all.
"""

from __future__ import annotations

import csv
import operator
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latcast.errors import ModelError
from latcast.graph.importers import load_graph
from latcast.graph.ir import Graph
from latcast.graph.operators import filter_parameters, graph_macs, node_flops
from latcast.spaces.named_graphs import Input, Origin
from latcast.spaces.published_names import MEMBERS

if TYPE_CHECKING:
    from benchmarks.named_networks.npu_zoos import Made


@dataclass(frozen=True)
class Recipe:
    """How to build a network.

    Attributes:
        name, input: Its key, see :mod:`latcast.spaces.named_graphs`.
        shapes: Of the inputs, one image.
        make: Gives the module.
        usual: Whether the name alone stands for this input.
        million_parameters, million_macs: As published, or None.
        figures: Where they stand.
        origin: Where it is from, if not from where its collection is.
        read: Gives the graph, where a file has it or it is written by hand; there is no module then.
        learned: Of a graph its learned values, where it holds other tables too.
    """

    name: str
    input: Input
    shapes: Sequence[Sequence[int]]
    make: Callable[[], Any]
    usual: bool = True
    million_parameters: float | None = None
    million_macs: float | None = None
    figures: str = ""
    origin: Origin | None = None
    read: Callable[[], Graph] | None = None
    learned: Callable[[Graph], int] = operator.attrgetter("parameter_count")


@dataclass(frozen=True)
class Collection:
    """A space's networks.

    Attributes:
        origin: Gives where they are from.
        recipes: Lists them, given the folder of published measurements (or None), the most different ones first.
        counted: Multiply-accumulates of a graph as the published figures count them, where these count other operators too.
    """

    origin: Callable[[], Origin]
    recipes: Callable[[Path | None], list[Recipe]]
    counted: Callable[[Graph], int] | None = None


# timm

_TIMM_FIGURES = "timm's results, huggingface/pytorch-image-models aa4b585"


def _timm_origin() -> Origin:
    import timm

    return Origin(f"timm {timm.__version__}", "https://github.com/huggingface/pytorch-image-models", "Apache-2.0")


_NORMALISED = {"BatchNormalization": 2, "LayerNormalization": 5, "InstanceNormalization": 5, "GroupNormalization": 5}
"""Operations that fvcore, by which timm counts, counts for each element (``fvcore/nn/jit_handles.py``)."""


def _timm_counted(graph: Graph) -> int:
    normalisations = sum(
        _NORMALISED[node.op_type] * graph.tensors[node.inputs[0]].elements for node in graph.nodes if node.op_type in _NORMALISED
    )
    recurrent = [node for kind in ("LSTM", "GRU", "RNN") for node in graph.nodes_of_type.get(kind, [])]
    return graph_macs(graph) + normalisations - sum((node_flops(graph, node) or 0) // 2 for node in recurrent)


def _timm_recipes(data: Path | None) -> list[Recipe]:
    import timm
    from timm.models._registry import _model_entrypoints

    on_cpus = _measured(data / "timm" / "latency_ms.csv") if data else {}
    figures = {**_measured(data / "timm" / "gpu_ms.csv"), **on_cpus} if data else {}
    sizes: dict[str, list[int]] = defaultdict(list)
    for name, side in figures:
        sizes[name].append(side)
    found: dict[str, list[Recipe]] = defaultdict(list)
    for name in timm.list_models(exclude_filters="test_*"):
        configuration = timm.get_pretrained_cfg(name)
        shape = tuple(configuration.input_size) if configuration else (3, 224, 224)
        squares = shape == (3, shape[1], shape[1])
        wanted: list[tuple[Input, tuple[int, ...]]] = [(shape[1] if squares else "x".join(map(str, (1, *shape))), shape)]
        wanted += [(side, (3, side, side)) for side in sorted(sizes[name]) if side != wanted[0][0]]
        # Measured networks at the input of their measurement come first, those measured on CPUs before.
        for index, (given, image) in enumerate(wanted):
            parameters, macs = figures.get((name, given), (None, None))
            found[_model_entrypoints[name].__module__].append(
                Recipe(
                    name, given, [(1, *image)], _timm_maker(name, image), index == 0, parameters, macs,
                    _TIMM_FIGURES if parameters else "",
                )
            )  # fmt: skip
    wanted_elsewhere = {name for names in MEMBERS.values() for name in names.values()}

    def rank(recipe: Recipe) -> int:
        """Return the rank: networks of other data sets, then measured on CPUs, on GPUs, at other inputs, and not measured."""
        if f"timm/{recipe.name}" in wanted_elsewhere and recipe.usual:
            return 0
        if recipe.million_macs is None:
            return 4
        return 3 if not recipe.usual else 1 if (recipe.name, recipe.input) in on_cpus else 2

    first = {min(group, key=_size).name for group in found.values()}
    return sorted(
        (recipe for group in found.values() for recipe in group),
        key=lambda each: (not each.usual or each.name not in first, rank(each), _size(each)),
    )


def _size(recipe: Recipe) -> float:
    return recipe.million_macs or 1e6


def _timm_maker(name: str, image: Sequence[int]) -> Callable[[], Any]:
    def make() -> Any:
        import timm

        configuration = timm.get_pretrained_cfg(name)
        if configuration is not None and tuple(configuration.input_size) == tuple(image):
            return timm.create_model(name, pretrained=False)
        try:
            # Networks with position embeddings have to be told; most others do not know the argument.
            return timm.create_model(name, pretrained=False, img_size=image[1:])
        except TypeError:
            return timm.create_model(name, pretrained=False)

    return make


def _measured(file: Path) -> dict[tuple[str, int], tuple[float, float]]:
    """Return million parameters and MACs by name and side of the image."""
    with file.open(encoding="utf-8", newline="") as lines:
        return {
            (row["network"], int(row["weights_or_input"])): (float(row["params_m"]), 1000 * float(row["gmacs"]))
            for row in csv.DictReader(lines)
            if row["gmacs"] and row["params_m"]
        }


# torchvision

_TORCHVISION_FIGURES = "the metadata of torchvision's weights"

_DETECTORS = {
    "ssd300_vgg16": 300, "ssdlite320_mobilenet_v3_large": 320, "retinanet_resnet50_fpn": 800, "retinanet_resnet50_fpn_v2": 800,
    "fcos_resnet50_fpn": 800,
}  # fmt: skip
"""Detectors of one stage, and their images: built up to what their heads return, before boxes are sorted and suppressed."""


def _torchvision_origin() -> Origin:
    import torchvision

    version = torchvision.__version__.partition("+")[0]
    return Origin(f"torchvision {version}", "https://github.com/pytorch/vision", "BSD-3-Clause")


def _torchvision_recipes(data: Path | None) -> list[Recipe]:
    from torchvision import models
    from torchvision.models import detection, segmentation

    found = []
    for name in (name for module in (models, segmentation, detection) for name in models.list_models(module)):
        is_detector = name in models.list_models(detection)
        if is_detector and name not in _DETECTORS:
            continue
        weights = models.get_model_weights(name).DEFAULT
        transforms = weights.transforms()
        crop = getattr(transforms, "crop_size", None) or getattr(transforms, "resize_size", None) or [224]
        side = _DETECTORS.get(name) or crop[-1]
        macs = 1000 * weights.meta["_ops"] if not is_detector or name.startswith("ssd") else None
        found.append(
            Recipe(
                name, side, [(1, 3, side, side)], _torchvision_maker(name, detector=is_detector), True,
                weights.meta["num_params"] / 1e6, macs, _TORCHVISION_FIGURES,
            )
        )  # fmt: skip
    return sorted(found, key=lambda each: each.million_macs or 1e9)


def _torchvision_maker(name: str, *, detector: bool) -> Callable[[], Any]:
    def make() -> Any:
        import torch
        from torchvision import models

        torch.backends.mha.set_fastpath_enabled(False)  # the exporter knows attention by its parts alone
        if detector:
            return _heads(models.get_model(name, weights=None, weights_backbone=None))
        # With the second classifier that the published weights bring, and the published figures count.
        more: dict[str, Any] = {"aux_loss": True} if name.startswith(("fcn", "deeplab")) else {}
        if more or name.startswith("lraspp"):
            more["weights_backbone"] = None
        if name in ("googlenet", "inception_v3"):
            # Its weights bring no second classifiers, Inception's do; what draws weights here takes half a minute.
            more = {"init_weights": False, "aux_logits": name == "inception_v3"}
        return models.get_model(name, weights=None, **more)

    return make


def _heads(detector: Any) -> Any:
    """Return a detector of one stage up to what its heads return."""
    import torch

    class Heads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone, self.head = detector.backbone, detector.head

        def forward(self, images: torch.Tensor) -> Any:
            features = self.backbone(images)
            maps = list(features.values()) if isinstance(features, dict) else [features]
            return tuple(self.head(maps).values())

    return Heads()


# Collections of which most networks are known by other names.

_WRITTEN = "latcast, after the published structure"
_ROCKCHIP = "https://github.com/airockchip/rknn_model_zoo"


def _netspresso_recipes(data: Path | None) -> list[Recipe]:
    """List classifiers of three classes, whose stages in netspresso-trainer's ``config/model`` are those of timm's modules."""
    from benchmarks.named_networks.npu_zoos import NETSPRESSO

    names = {"EfficientFormer-l1": "efficientformer_l1", **{f"MixNet-{size}": f"mixnet_{size}" for size in "sml"}}
    classifiers = [Recipe(name, "224x224", [(1, 3, 224, 224)], _timm_variant(known, classes=3)) for name, known in names.items()]
    return [*classifiers, *_written(NETSPRESSO, "https://github.com/Nota-NetsPresso/netspresso-trainer")]


def _hailo_recipes(data: Path | None) -> list[Recipe]:
    """List RepVGG as it runs, each block one convolution, and what latcast has written. Figures as the model zoo states them."""
    from benchmarks.named_networks.npu_zoos import HAILO

    source = "hailo_model_zoo c83fc03, which counts two operations each"
    figures = {"repvgg_a1": (12.79, 2350.0), "repvgg_a2": (25.5, 5100.0)}
    folded = [
        Recipe(name, "224x224x3", [(1, 3, 224, 224)], _timm_variant(name, fold=True), True, *stated, figures=source)
        for name, stated in figures.items()
    ]
    return [*folded, *_written(HAILO, "https://github.com/hailo-ai/hailo_model_zoo", source)]


def _rknn_recipes(data: Path | None) -> list[Recipe]:
    from benchmarks.named_networks.npu_zoos import ROCKCHIP

    return _written(ROCKCHIP, _ROCKCHIP)


def _written(networks: Mapping[str, Made], address: str, figures: str = "") -> list[Recipe]:
    """List networks that latcast has written after their published structure, and where their latencies are published."""
    origin = Origin(_WRITTEN, address, "Apache-2.0")
    return [
        Recipe(
            name, given, [], lambda: None, True, parameters, None if gflops is None else 500 * gflops, figures,
            origin, partial(make, name), filter_parameters,
        )
        for name, (given, make, parameters, gflops) in networks.items()
    ]  # fmt: skip


def _timm_variant(name: str, *, classes: int = 1000, fold: bool = False) -> Callable[[], Any]:
    def make() -> Any:
        import timm
        from timm.utils.model import reparameterize_model

        module = timm.create_model(name, pretrained=False, num_classes=classes)
        return reparameterize_model(module.eval()) if fold else module

    return make


# ncnn's benchmark

_NCNN_INPUTS = {"FastestDet": {"in0": (1, 3, 352, 352)}, "vision_transformer": {"input": (1, 3, 384, 384)}}
"""Of networks whose files do not say it, as ``benchmark/benchncnn.cpp`` has them."""


def _ncnn_origin() -> Origin:
    return Origin("Tencent/ncnn, benchmark", "https://github.com/Tencent/ncnn", "BSD-3-Clause")


def _ncnn_recipes(data: Path | None) -> list[Recipe]:
    if data is None:
        raise ModelError("the .param files of ncnn's benchmark are needed: give the folder that has ncnn_boards/param by --data")

    def reader(file: Path) -> Callable[[], Graph]:
        def read() -> Graph:
            # An int8 network is the same graph, measured in another precision.
            return replace(load_graph(file, shapes=_NCNN_INPUTS.get(file.stem)), precision="fp32")

        return read

    files = sorted((data / "ncnn_boards" / "param").glob("*.param"))
    return [Recipe(file.stem, None, [], lambda: None, read=reader(file)) for file in files]


# pytorchcv


def _pytorchcv_origin() -> Origin:
    from benchmarks.named_networks.pytorchcv import release

    return Origin(f"pytorchcv {release()}", "https://github.com/osmr/imgclsmob", "MIT")


def _pytorchcv_recipes(data: Path | None) -> list[Recipe]:
    from benchmarks.named_networks.pytorchcv import readers

    if data is None:
        raise ModelError("the measurements of pytorchcv's networks are needed: give the folder that has usc by --data")
    with (data / "usc" / "tflite_cnn_e2e.csv").open(newline="", encoding="utf-8") as lines:
        measured = {row["model"] for row in csv.DictReader(lines)}
    return [
        Recipe(name, None, [], lambda: None, figures="measured by Li et al." if name in measured else "", read=read)
        for name, read in readers().items()
    ]


# YOLO


def _yolo_origin() -> Origin:
    return Origin(_WRITTEN, "https://docs.ultralytics.com/models", "Apache-2.0")


def _yolo_recipes(data: Path | None) -> list[Recipe]:
    from benchmarks.named_networks.yolo import graphs

    return [
        Recipe(name, side, [], lambda: None, usual=side == sides[0], read=partial(make, name, side), learned=filter_parameters)
        for name, (make, sides) in graphs().items()
        for side in sides
    ]


COLLECTIONS = {
    "timm": Collection(_timm_origin, _timm_recipes, _timm_counted),
    "ncnn_benchmark": Collection(_ncnn_origin, _ncnn_recipes),
    "torchvision": Collection(_torchvision_origin, _torchvision_recipes),
    "netspresso": Collection(_timm_origin, _netspresso_recipes),
    "hailo": Collection(_timm_origin, _hailo_recipes),
    "rknn": Collection(partial(Origin, _WRITTEN, _ROCKCHIP, "Apache-2.0"), _rknn_recipes),
    "pytorchcv": Collection(_pytorchcv_origin, _pytorchcv_recipes),
    "yolo": Collection(_yolo_origin, _yolo_recipes),
}
"""Space to what it is built from."""
