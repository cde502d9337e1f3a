"""Networks under the names of others: the members that they are, at their sizes, and names without a graph."""

from __future__ import annotations

import pytest

from latcast.graph.operators import graph_macs
from latcast.spaces import build
from latcast.spaces.catalogue import find_model, model, models
from latcast.spaces.measured_only import can_build
from latcast.spaces.published_names import MEMBERS, published_network
from tests.spaces.families.counting import published_count


def test_every_name_is_of_a_member_or_of_a_space_with_graphs() -> None:
    names = {name for names in MEMBERS.values() for name in names.values()}
    assert not [name for name in names if find_model(name) is None]
    assert not [name for name in names if "/" in name and not can_build(model(name))]


@pytest.mark.parametrize(
    ("dataset", "name", "size", "member"),
    [
        ("mlperf", "mobilenet_v1_1.0_224", "224", "mobilenet_v1"),
        ("mlperf", "mobilenet_v2_0.35_224", "224", "mobilenet_v2_0_35"),
        ("mlperf", "mobilenet_v3_small_minimalistic_1.0_224", "224", "mobilenet_v3_small_minimalistic"),
        ("mlperf", "efficientnet_lite3", "280", "efficientnet_lite3"), ("mlperf", "resnet50_v1.5", "224", "resnet50"),
        ("ti", "mnasnet_1.0_224", "224", "mnasnet1_0"), ("paddle", "MobileNetV1", "", "mobilenet_v1"),
        ("paddle", "mobilenet_v2_caffe", "224", "mobilenet_v2"),
        ("hailo", "efficientnet_lite4", "300x300x3", "efficientnet_lite4"),
        ("rknn", "mobilenetv2-12", "1x3x224x224", "mobilenet_v2"), ("mmdeploy", "SE-ResNet", "224x224", "se_resnet50"),
        ("renesas_drpai", "(Gluon) ResNet18 v1b", "224x224", "resnet18"),
    ],
)  # fmt: skip
def test_a_member_at_its_own_size_is_the_published_network(dataset: str, name: str, size: str, member: str) -> None:
    found, known = published_network(dataset, name, size), model(member)
    assert (found.key, found.name) == (known.key, member)


def test_other_inputs_and_classes_are_parameters() -> None:
    found = published_network("netspresso", "ResNet18", "192x192", classes=3)
    graph = build(found)
    assert found.name == "ResNet18"
    assert graph.shape("input") == (1, 3, 192, 192)
    assert graph.shape(graph.outputs[0]) == (1, 3)


@pytest.mark.parametrize(
    ("dataset", "name", "size"),
    [
        ("mlperf", "ssd_resnet34_1200", "1200"), ("mlperf", "bert_large_squad", "<=384"),
        ("mlperf", "mobilenet_v1_0.33_224", "224"), ("hailo", "yolov5m", "640x640x3"), ("ti", "resnet50_v1", "224"),
        ("paddle", "shufflenet_v2", "224"), ("rknn", "mobilenetv2-12", "1x3x224x160"), ("timm", "convnext_tiny", "289"),
        ("aihub", "centernet_3d", "1 x 3 x 384 x 1280"),
    ],
)  # fmt: skip
def test_a_network_that_no_family_is_known_to_have_keeps_its_name(dataset: str, name: str, size: str) -> None:
    found = published_network(dataset, name, size)
    assert not can_build(found)
    assert (found.space, found.parameters["name"], found.name) == (dataset, name, f"{dataset}/{name}")
    assert str(found.parameters["input"]) == size


@pytest.mark.parametrize(
    ("dataset", "name", "size", "member", "million_parameters"),
    # Parameters as their papers or the dataset state them.
    [
        ("paddle", "DLA34", "", "timm/dla34", 15.8), ("paddle", "PPLCNet_x0_5", "", "timm/lcnet_050", 1.9),
        ("paddle", "PPLCNet_x1_0", "", "timm/lcnet_100", 3.0), ("paddle", "DPN98", "", "timm/dpn98", 61.6),
        ("paddle", "HRNet_W48_C", "", "timm/hrnet_w48", 77.5), ("paddle", "ReXNet_1_3", "", "timm/rexnet_130", 7.6),
        ("paddle", "alt_gvt_large", "", "timm/twins_svt_large", 99.2), ("paddle", "ResNeSt50", "", "timm/resnest50d", 27.5),
        ("hailo", "levit256", "224x224x3", "timm/levit_256", 18.9), ("hailo", "davit_tiny", "224x224x3", "timm/davit_tiny", 28.4),
        ("hailo", "nextvit_small", "224x224x3", "timm/nextvit_small", 31.7),
        ("ti", "inception_v3", "299", "timm/inception_v3", 23.8),
    ],
)  # fmt: skip
def test_networks_of_another_space_are_known_by_their_parameters(
    dataset: str, name: str, size: str, member: str, million_parameters: float
) -> None:
    found = published_network(dataset, name, size)
    summary = {network.name: network for network in models(member)}[member]
    assert (found.key, found.name) == (model(member).key, name)
    assert summary.million_parameters == pytest.approx(million_parameters, rel=0.01, abs=0.05)


def test_another_size_or_classifier_than_a_graph_has_is_not_built() -> None:
    assert not can_build(published_network("hailo", "levit256", "225x225x3"))
    assert not can_build(published_network("hailo", "levit256", "224x224x3", classes=3))
    assert build(published_network("netspresso", "MixNet-s", "224x224", classes=3)).tensors[
        "/classifier/Gemm_output_0"
    ].shape == (1, 3)


@pytest.mark.parametrize(
    ("name", "million_macs"),
    # Model tables of TensorFlow-Slim's mobilenet_v1 and mobilenet_v2, by input; cut off or rounded to the million.
    [
        ("mobilenet_v1_1.0_192", 418), ("mobilenet_v1_1.0_160", 291), ("mobilenet_v1_1.0_128", 186),
        ("mobilenet_v1_0.5_192", 110), ("mobilenet_v1_0.5_160", 77), ("mobilenet_v1_0.5_128", 49), ("mobilenet_v1_0.25_160", 21),
        ("mobilenet_v2_1.0_192", 221), ("mobilenet_v2_1.0_160", 154), ("mobilenet_v2_1.0_128", 99), ("mobilenet_v2_1.0_96", 56),
        ("mobilenet_v2_0.75_192", 153), ("mobilenet_v2_0.75_160", 107), ("mobilenet_v2_0.75_128", 69),
        ("mobilenet_v2_0.5_192", 71), ("mobilenet_v2_0.5_96", 18), ("mobilenet_v2_0.35_160", 30), ("mobilenet_v2_0.35_128", 20),
    ],
)  # fmt: skip
def test_grids_have_their_published_macs(name: str, million_macs: float) -> None:
    graph = build(published_network("mlperf", name, name.rpartition("_")[2]))
    assert graph_macs(graph) / 1e6 == pytest.approx(million_macs, rel=0.01, abs=0.9)


@pytest.mark.parametrize(
    ("name", "million_parameters"),
    # PaddleClas's table of mobile networks.
    [
        ("MobileNetV3_large_x1_0", 5.47), ("MobileNetV3_large_x1_25", 7.44), ("MobileNetV3_large_x0_5", 2.67),
        ("MobileNetV3_small_x1_0", 2.94), ("MobileNetV3_small_x1_25", 3.62), ("MobileNetV3_small_x0_5", 1.90),
        ("MobileNetV3_small_x0_35", 1.66),
    ],
)  # fmt: skip
def test_paddles_mobilenets_have_their_published_parameters(name: str, million_parameters: float) -> None:
    assert published_count(build(published_network("paddle", name))) / 1e6 == pytest.approx(million_parameters, rel=0.01)


@pytest.mark.parametrize(
    ("name", "network", "million_macs"),
    [
        ("RepVGG-B1g4", "repvgg_b1g4", 8_150), ("HRNet W18", "hrnet_w18", 4_300),
        ("MobileNet V2 with channel multiplier of 1.4", "mobilenetv2_140", 600), ("ResNet-50 (keras)", "resnet50", 3_860),
    ],
)  # fmt: skip
def test_renesas_names_are_networks_of_the_published_work(name: str, network: str, million_macs: int) -> None:
    found = published_network("renesas_drpai", name, "224x224")
    assert found.parameters["name"] == network
    assert graph_macs(build(found)) / 1e6 == pytest.approx(million_macs, rel=0.05)


@pytest.mark.parametrize(
    ("name", "gflops"),
    # Operations in the table of Hailo's model zoo.
    [("yolov8s", 28.6), ("yolov8m_pose", 81.02), ("yolov11m", 68.1), ("yolov5m_6.1", 48.96), ("yolov7_tiny", 13.74)],
)  # fmt: skip
def test_detectors_on_npus_are_networks_of_the_published_work(name: str, gflops: float) -> None:
    assert 2e-9 * graph_macs(build(published_network("hailo", name, "640x640x3"))) == pytest.approx(gflops, rel=0.01)


@pytest.mark.parametrize(
    ("dataset", "name", "size", "network", "side"),
    [
        ("rknn", "yolov8n", "1x3x640x640", "yolov8n-heads", 640), ("rknn", "yolo11s", "1x3x640x640", "yolo11s-heads", 640),
        ("hailo", "yolov11s", "640x640x3", "yolo11s-heads", 640), ("renesas_drpai", "YOLOv8l (ONNX)", "320x320", "yolov8l", 320),
    ],
)  # fmt: skip
def test_a_detector_is_one_network_whoever_measured_it(dataset: str, name: str, size: str, network: str, side: int) -> None:
    found = published_network(dataset, name, size)

    assert (found.space, found.parameters["name"]) == ("yolo", network)
    assert build(found).shape("images") == (1, 3, side, side)


def test_a_network_of_a_collection_has_the_size_that_is_published_of_it_or_no_graph() -> None:
    # timm's comes with latcast at 256; in the second, numbers are worked out from the size.
    given = published_network("renesas_drpai", "ResNet-RS-152", "224x224")
    without = published_network("renesas_drpai", "ECA-ResNet50t", "320x320")

    assert build(given).shape("input") == (1, 3, 224, 224)
    assert not can_build(without)
