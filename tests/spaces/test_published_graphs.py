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


def assert_work(space: str, name: str, million_parameters: float, giga_macs: float | None) -> None:
    """A shipped network has the published parameters and multiply-accumulates, within 1 %."""
    file = graph_file(space)
    assert file is not None
    network = file.find(name)
    assert network is not None
    assert network.parameters / 1e6 == pytest.approx(million_parameters, rel=0.01)
    if giga_macs is not None:
        assert network.macs / 1e9 == pytest.approx(giga_macs, rel=0.01)


class TestNcnn:
    """Its benchmark runs the networks of ``benchmark/*.param``."""

    @pytest.mark.parametrize(
        ("name", "million_parameters", "million_macs"),
        [
            ("vgg16", 138.36, 15_470),  # torchvision
            ("resnet18", 11.69, 1_814),  # torchvision
            ("resnet50", 25.53, 3_860),  # He et al. 2015 (arXiv 1512.03385), Table 1: 3.8 x 10^9
            ("mobilenet", 4.24, 569),  # Howard et al. 2017 (1704.04861), Table 4; its classifier has no bias
            ("efficientnet_b0", 5.29, 386),  # torchvision
            ("mnasnet", 4.38, 314),  # torchvision
            ("shufflenet_v2", 2.28, 145),  # torchvision
            ("regnety_400m", 4.34, 402),  # torchvision
            ("proxylessnasnet", 4.08, None),  # Cai et al. 2018 (1812.00332)
            ("squeezenet", 1.235, None),  # torchvision, squeezenet1_1
            ("vision_transformer", 88.30, 13_060),  # timm, vit_base_patch32_384
            ("yolo-fastest-1.1", None, 126),  # dog-qiuqiu/Yolo-Fastest: 0.252 BFLOPs
            ("yolo-fastestv2", 0.25, 106),  # dog-qiuqiu/Yolo-FastestV2: 0.212 BFLOPs
            ("FastestDet", 0.24, None),  # dog-qiuqiu/FastestDet
        ],
    )
    def test_networks_have_the_published_work(
        self, name: str, million_parameters: float | None, million_macs: float | None
    ) -> None:
        graph = of("ncnn_benchmark", name)
        if million_parameters is not None:
            # Two digits of small networks are published.
            assert graph.parameter_count / 1e6 == pytest.approx(million_parameters, rel=0.01, abs=0.005)
        if million_macs is not None:
            assert graph_macs(graph) / 1e6 == pytest.approx(million_macs, rel=0.01)

    @pytest.mark.parametrize("name", ["googlenet", "mobilenet_ssd", "resnet50", "vgg16"])
    def test_an_int8_network_is_the_same_graph(self, name: str) -> None:
        both = (build(Reference("ncnn_benchmark", {"name": each})) for each in (name, f"{name}_int8"))
        assert len({each.structure_key for each in both}) == 1

    def test_one_network_was_published_without_its_graph(self) -> None:
        assert not can_build(Reference("ncnn_benchmark", {"name": "mobilenet_yolov3"}))


class TestAiHub:
    """Networks of Qualcomm AI Hub, at the inputs of its source code."""

    @pytest.mark.parametrize(
        ("name", "million_parameters", "giga_macs"),
        [
            ("yolov7", 6.2, 6.85),  # Wang et al. 2022 (arXiv 2207.02696), Table 2, tiny: 6.2 M, 13.7 GFLOPs
            ("yolov8_det", 3.157, 4.35),  # n: 8.7 GFLOPs
            ("yolov5", 25.09, 32.1),  # mu: 64.2 GFLOPs
            ("yolov3", 12.17, 9.45),  # tinyu: 18.9 GFLOPs at 640
            ("yolov6", 4.65, 5.69),  # n 3.0: 4.7 M, 11.4 GFLOPs
            ("rtmpose_body2d", 13.59, 1.93),  # Jiang et al. 2023 (2303.07399), m at 256x192
            ("pidnet", 7.6, 47.6),  # Xu et al. 2022 (2206.02066), S
            ("bgnet", 77.8, None),  # its description at AI Hub
            ("yamnet", 3.74, 0.0692),  # tensorflow/models, audioset: 3.7 M weights, 69.2 M multiplies
            ("hrnet_pose", 28.5, 7.7),  # mmpose, w32 at 256x192
            ("cavaface", 65.5, 12.1),  # cavalleria/cavaface, IR-SE-100
            ("bert_base_uncased_hf", 109.5, None),  # Devlin et al. 2018 (1810.04805): 110 M
            ("stable_diffusion_v1_5/vae", 49.49, None),  # diffusers' decoder
            ("ddrnet23_slim", 5.7, 36.3),  # Hong et al. 2021 (2101.06085)
            ("ffnet_78s", 27.5, 96.4),  # Mehta et al. 2022 (2206.08236)
            ("fcn_resnet50", 32.96, None),  # torchvision: 35.32 M with the auxiliary classifier of 2.36 M
            ("wideresnet50", 68.88, 11.40),  # torchvision
            ("convnext_tiny", 28.59, 4.46),  # torchvision
            ("real_esrgan_x4plus", 16.70, None),  # Wang et al. 2018 (1809.00219)
        ],
    )
    def test_networks_have_the_published_work(self, name: str, million_parameters: float, giga_macs: float | None) -> None:
        assert_work("aihub", name, million_parameters, giga_macs)

    @pytest.mark.parametrize(
        ("name", "stated", "side"),
        [
            ("fcn_resnet50", "224x224", 520),
            ("efficientnet_v2_s", "384x384", 224),
            ("yolov3", "416p (416x416)", 640),
            ("detr_resnet50", "480x480", 640),
        ],
    )
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

    @pytest.mark.parametrize(
        ("name", "million_parameters", "giga_macs"),
        [
            ("swin-small-patch4-window7-224", 49.6, 8.7),  # Liu et al. 2021 (arXiv 2103.14030), Table 1: 50 M, 8.7 G
            ("mobilevit-x-small", 2.32, None),  # Mehta and Rastegari 2022 (2110.02178), Figure 6: 2.3 M
            ("mobilevitv2-1.0-imagenet1k-256", 4.9, 1.8),  # Mehta and Rastegari 2022 (2206.02680), Table 1
            ("mobilevitv2-2.0-imagenet1k-256", 18.5, None),  # the same
            ("poolformer_s12", 12.0, 1.82),  # Yu et al. 2022 (2111.11418), Table 2
            ("levit-384", 39.1, 2.353),  # Graham et al. 2021 (2104.01136), Table 4
            ("pvt-large-224", 61.4, 9.8),  # Wang et al. 2021 (2102.12122), Table 2
        ],
    )
    def test_networks_are_those_of_their_papers(self, name: str, million_parameters: float, giga_macs: float | None) -> None:
        assert_work("huggingface", name, million_parameters, giga_macs)

    def test_what_keras_writes_in_groups_is_a_grouped_convolution_to_tflite_and_a_depthwise_one_to_pytorch(self) -> None:
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
