"""The graphs that come with latcast of networks whose latencies others published."""

from __future__ import annotations

from collections import Counter

import pytest

from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.graph.operators.table import unknown_operators
from latcast.kernels.rules import load_rules
from latcast.kernels.search import find_kernels
from latcast.records import Reference
from latcast.spaces import build
from latcast.spaces.measured_only import can_build
from latcast.spaces.named_graphs import graph_file

DETECTION_LAYERS = {"DetectionOutput", "PriorBox", "YoloDetectionOutput", "Yolov3DetectionOutput"}
"""ncnn's layers that ONNX has no words for."""


def of(space: str, name: str) -> Graph:
    file = graph_file(space)
    assert file is not None
    network = file.find(name)
    assert network is not None
    return file.graph(network)


@pytest.mark.parametrize("space", ["aihub", "huggingface", "ncnn_benchmark"])
def test_every_network_is_built_of_known_operators_and_has_the_work_that_the_file_states(space: str) -> None:
    file = graph_file(space)
    assert file is not None
    for network in file.networks.values():
        graph = file.graph(network)
        assert graph_macs(graph) == network.macs > 0, network.name
        known = DETECTION_LAYERS if space == "ncnn_benchmark" else set()
        assert set(unknown_operators(graph)) <= known, network.name


@pytest.mark.parametrize("name", ["stable_diffusion_v1_5/unet", "stable_diffusion_v1_5/vae", "stable_diffusion_v2_1/vae"])
def test_a_diffusion_network_has_no_weights_beside_those_that_are_learned(name: str) -> None:
    """Diffusers' attention adds a tensor of scores that nothing fills, times 0, which runtimes drop."""
    file = graph_file("aihub")
    network = file.find(name) if file else None
    assert file is not None
    assert network is not None

    assert file.graph(network).parameter_count == pytest.approx(network.parameters, rel=1e-3)


@pytest.mark.parametrize(
    ("space", "name", "million_parameters", "giga_macs"),
    # From torchvision, timm, the sources named, or ARXIV; two digits of small networks are published.
    [
        ("ncnn_benchmark", "vgg16", 138.36, 15.47), ("ncnn_benchmark", "resnet18", 11.69, 1.814),
        ("ncnn_benchmark", "resnet50", 25.53, 3.86),  # 1512.03385
        ("ncnn_benchmark", "mobilenet", 4.24, 0.569),  # 1704.04861; its classifier has no bias
        ("ncnn_benchmark", "efficientnet_b0", 5.29, 0.386), ("ncnn_benchmark", "mnasnet", 4.38, 0.314),
        ("ncnn_benchmark", "shufflenet_v2", 2.28, 0.145), ("ncnn_benchmark", "regnety_400m", 4.34, 0.402),
        ("ncnn_benchmark", "proxylessnasnet", 4.08, None),  # 1812.00332
        ("ncnn_benchmark", "squeezenet", 1.235, None), ("ncnn_benchmark", "vision_transformer", 88.30, 13.06),
        ("ncnn_benchmark", "yolo-fastest-1.1", None, 0.126),  # dog-qiuqiu/Yolo-Fastest: 0.252 BFLOPs
        ("ncnn_benchmark", "yolo-fastestv2", 0.25, 0.106),  # dog-qiuqiu/Yolo-FastestV2: 0.212 BFLOPs
        ("ncnn_benchmark", "FastestDet", 0.24, None),  # dog-qiuqiu/FastestDet
        ("aihub", "yolov7", 6.2, 6.85),  # 2207.02696, Table 2, tiny: 13.7 GFLOPs
        ("aihub", "yolov8_det", 3.157, 4.35), ("aihub", "yolov5", 25.09, 32.1), ("aihub", "yolov3", 12.17, 9.45),  # n, mu, tinyu
        ("aihub", "yolov6", 4.65, 5.69),  # n 3.0: 4.7 M, 11.4 GFLOPs
        ("aihub", "rtmpose_body2d", 13.59, 1.93),  # 2303.07399, m at 256x192
        ("aihub", "pidnet", 7.6, 47.6),  # 2206.02066, S
        ("aihub", "bgnet", 77.8, None),  # its description at AI Hub
        ("aihub", "yamnet", 3.74, 0.0692),  # tensorflow/models, audioset
        ("aihub", "hrnet_pose", 28.5, 7.7),  # mmpose, w32 at 256x192
        ("aihub", "cavaface", 65.5, 12.1),  # cavalleria/cavaface, IR-SE-100
        ("aihub", "bert_base_uncased_hf", 109.5, None),  # 1810.04805
        ("aihub", "stable_diffusion_v1_5/vae", 49.49, None),  # diffusers' decoder
        ("aihub", "ddrnet23_slim", 5.7, 36.3),  # 2101.06085
        ("aihub", "ffnet_78s", 27.5, 96.4),  # 2206.08236
        ("aihub", "fcn_resnet50", 32.96, None),  # 35.32 M with the auxiliary classifier of 2.36 M
        ("aihub", "wideresnet50", 68.88, 11.40), ("aihub", "convnext_tiny", 28.59, 4.46),
        ("aihub", "real_esrgan_x4plus", 16.70, None),  # 1809.00219
        ("huggingface", "swin-small-patch4-window7-224", 49.6, 8.7),  # 2103.14030, Table 1
        ("huggingface", "mobilevit-x-small", 2.32, None),  # 2110.02178, Figure 6
        ("huggingface", "mobilevitv2-1.0-imagenet1k-256", 4.9, 1.8),  # 2206.02680, Table 1
        ("huggingface", "mobilevitv2-2.0-imagenet1k-256", 18.5, None),
        ("huggingface", "poolformer_s12", 12.0, 1.82),  # 2111.11418, Table 2
        ("huggingface", "levit-384", 39.1, 2.353),  # 2104.01136, Table 4
        ("huggingface", "pvt-large-224", 61.4, 9.8),  # 2102.12122, Table 2
    ],
)  # fmt: skip
def test_networks_have_the_published_work(
    space: str, name: str, million_parameters: float | None, giga_macs: float | None
) -> None:
    file = graph_file(space)
    assert file is not None
    network = file.find(name)
    assert network is not None
    if million_parameters is not None:
        assert network.parameters / 1e6 == pytest.approx(million_parameters, rel=0.01, abs=0.005)
    if giga_macs is not None:
        assert network.macs / 1e9 == pytest.approx(giga_macs, rel=0.01)


class TestNcnn:
    """Its benchmark runs the networks of ``benchmark/*.param``."""

    @pytest.mark.parametrize("name", ["googlenet", "mobilenet_ssd", "resnet50", "vgg16"])
    def test_an_int8_network_is_the_same_graph(self, name: str) -> None:
        both = (build(Reference("ncnn_benchmark", {"name": each})) for each in (name, f"{name}_int8"))
        assert len({each.structure_key for each in both}) == 1

    def test_one_network_was_published_without_its_graph(self) -> None:
        assert not can_build(Reference("ncnn_benchmark", {"name": "mobilenet_yolov3"}))


class TestAiHub:
    """Networks of Qualcomm AI Hub, at the inputs of its source code."""

    @pytest.mark.parametrize(
        ("name", "stated", "side"),
        [
            ("fcn_resnet50", "224x224", 520), ("efficientnet_v2_s", "384x384", 224), ("yolov3", "416p (416x416)", 640),
            ("detr_resnet50", "480x480", 640),
        ],
    )  # fmt: skip
    def test_a_size_that_its_description_states_wrongly_is_the_key_and_not_the_input(
        self, name: str, stated: str, side: int
    ) -> None:
        graph = build(Reference("aihub", {"name": name, "input": stated}))
        assert graph.shape(graph.inputs[0]) == (1, 3, side, side)

    def test_a_small_ffnet_halves_its_image_before_the_rest(self) -> None:
        graph = of("aihub", "ffnet_78s_lowres")
        first = next(node for node in graph.nodes if node.op_type == "Conv")
        assert graph.shape(graph.inputs[0]) == (1, 3, 512, 1024)
        # 512 + 2 rows and 1024 columns under a window of 5 with stride 2.
        assert graph.shape(first.outputs[0]) == (1, 3, 255, 510)
        assert first.attributes["group"] == 3


class TestHuggingFace:
    """The transformers that Li et al. measured on phones, under the names of their data set."""

    def test_a_keras_convolution_in_groups_is_grouped_on_tflite_and_depthwise_on_pytorch(self) -> None:
        graph = of("huggingface", "mit-b0")
        types = {
            runtime: Counter(kernel.kernel_type for kernel in find_kernels(graph, load_rules(runtime)))
            for runtime in ("tflite", "pytorch")
        }
        assert (types["tflite"]["grouped_conv"], types["tflite"]["depthwise_conv"]) == (8, 0)
        assert (types["pytorch"]["grouped_conv"], types["pytorch"]["depthwise_conv"]) == (0, 8)

    def test_a_group_norm_is_one_kernel(self) -> None:
        kernels = find_kernels(of("huggingface", "poolformer_s12"), load_rules("pytorch"))
        assert sum(kernel.kernel_type == "layer_norm" for kernel in kernels) == 25
