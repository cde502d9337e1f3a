"""Networks are found by the names that people write."""

from pathlib import Path

import pytest

from latcast import model, models
from latcast.errors import ModelError, UnknownNameError
from latcast.networks import ModelOptions, read_model
from latcast.spaces.model_names import nearest_models


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ResNet50", "resnet50"),
        ("resnet_50", "resnet50"),
        ("ResNet-50", "resnet50"),
        ("ResNet-50 (224x224)", "resnet50"),
        ("resnet50@160", "resnet50_160"),
        ("MobileNetV2 1.0", "mobilenet_v2"),
        ("ShuffleNetV2 1.0x", "shufflenet_v2_x1_0"),
        ("resnet50v1.5", "resnet50"),
        ("microsoft/resnet-50", "resnet50"),
        ("MobileNet-V2", "mobilenet_v2"),
        ("mobilenetv3", "mobilenet_v3_large"),
        ("google/mobilenet_v2_1.0_224", "mobilenet_v2"),
        ("mobilenet_v1_0.25_224", "mobilenet_v1_0_25"),
        ("efficientnet-lite0", "efficientnet_lite0"),
        ("ConvNext-Tiny", "timm/convnext_tiny"),
        ("ViT-B/16", "vit_base_16"),
        ("vit_b_16", "vit_base_16"),
        ("google/vit-base-patch16-224", "timm/vit_base_patch16_224"),
        ("microsoft/swin-base-patch4-window7-224", "huggingface/swin-base-patch4-window7-224"),
        ("swin_base_patch4_window7_224", "timm/swin_base_patch4_window7_224"),
        ("swin-t", "swin_tiny"),
        ("resnext50", "resnext50_32x4d"),
        ("regnety_400mf", "regnet_y_400mf"),
        ("bert-base-uncased", "aihub/bert_base_uncased_hf"),
        ("YOLOv8n", "aihub/yolov8_det"),
        ("yolov8s", "yolo/yolov8s"),
        ("YOLOv11m-seg", "yolo/yolo11m-seg"),
        ("yolov7", "yolo/yolov7"),
        ("YOLOX-S", "yolo/yolox-s"),
        ("openai/clip-vit-base-patch32", "timm/vit_base_patch32_clip_quickgelu_224"),
        ("inceptionv3", "timm/inception_v3"),
        ("timm/convnext_tiny.fb_in1k", "timm/convnext_tiny"),
        ("hf_hub:timm/resnet50d.ra2_in1k", "timm/resnet50d"),
        ("convnext_tiny.fb_in22k_ft_in1k", "timm/convnext_tiny"),
        ("torchvision.models.resnet50", "resnet50"),
    ],
)
def test_a_network_is_found_whatever_the_spelling(text: str, name: str) -> None:
    assert model(text).name == read_model(text).name == name
    assert read_model(text).structure_key == read_model(name).structure_key


@pytest.mark.parametrize(
    ("text", "name", "pixels"), [("mobilenet_v2_0.35_96", "mobilenet_v2_0_35", 96), ("resnet18_320", "resnet18", 320)]
)
def test_a_size_behind_a_name_is_that_of_its_input(text: str, name: str, pixels: int) -> None:
    shape = (1, 3, pixels, pixels)
    found = read_model(text)

    assert found.shape(found.inputs[0]) == shape
    assert read_model(found.name).structure_key == found.structure_key
    assert found.structure_key == read_model(name, ModelOptions({"input": shape})).structure_key


@pytest.mark.parametrize(
    ("name", "millions"), [("yolov3-tinyu", 12.2), ("yolov5mu", 25.1), ("yolov6n", 4.7), ("yolov7-tiny", 6.2), ("yolov8n", 3.2)]
)
def test_a_detector_is_the_size_that_its_name_says(name: str, millions: float) -> None:
    found = model(name).name
    [network] = models(found)

    assert network.million_parameters == pytest.approx(millions, abs=0.1)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("inception_v1", "googlenet"), ("PPLCNet_x1_0", "timm/lcnet_100"), ("EfficientNet Edge Small", "timm/efficientnet_es"),
        ("RegNetY 32GF", "torchvision/regnet_y_32gf"), ("RegNetY 3.2GF", "regnet_y_3_2gf"), ("ResNet18-v1", "resnet18"),
        ("FP32 MobileNet v2 1.0X", "mobilenet_v2"), ("MobileNetV1_x0_75", "mobilenet_v1_0_75"),
    ],
)  # fmt: skip
def test_what_datasets_call_a_network_means_it(text: str, name: str) -> None:
    assert read_model(text).structure_key == read_model(name).structure_key


def test_every_network_is_found_without_its_space_but_where_a_family_is_meant() -> None:
    others = set()
    for network in models():
        bare = network.name.partition("/")[2] or network.name
        found = str(model(bare).name)
        if _letters(found.rpartition("/")[2]) != _letters(bare.rpartition("/")[2]):
            others.add((bare, found))

    assert others == {
        ("ghostnet", "ghostnet_x1_0"),
        ("mnasnet", "mnasnet1_0"),
        ("mobile_vit", "mobilevit_s"),
        ("mobilenet", "mobilenet_v1"),
        ("mobilenet_v3", "mobilenet_v3_large"),
        ("shufflenet_v2", "shufflenet_v2_x1_0"),
        ("squeezenet", "squeezenet1_1"),
        ("swin_b", "timm/swin_base_patch4_window7_224"),
        ("swin_s", "swin_small"),
        ("swin_t", "swin_tiny"),
        ("vit_b_16", "vit_base_16"),
        ("vit_b_32", "vit_base_32"),
        ("vit_l_16", "timm/vit_large_patch16_224"),
        ("yolo11n-seg", "aihub/yolov11_seg"),
        ("yolov3", "hailo/yolov3_416"),
        ("yolov5mu", "aihub/yolov5"),
        ("yolov6n", "aihub/yolov6"),
        ("yolov7-tiny", "aihub/yolov7"),
        ("yolov8n", "aihub/yolov8_det"),
        ("yolov8n-seg", "aihub/yolov8_seg"),
    }


def _letters(name: str) -> str:
    return "".join(sign for sign in name.lower() if sign.isalnum())


@pytest.mark.parametrize("text", ["mobilenet_v1_0.25_100", "yolov9s", "yolov6l", "resnet51", "mobilebert", "gpt2", "", "/", "-"])
def test_another_size_or_network_is_not_taken_for_it(text: str) -> None:
    with pytest.raises(UnknownNameError):
        model(text)


def test_models_are_listed_by_another_spelling_too() -> None:
    assert [network.name for network in models("ResNet-50")] == ["resnet50"]


@pytest.mark.parametrize(
    ("text", "side"),
    [("mobilenet_v1_0.25_224@128", 128), ("resnet50@230", 230), ("wide_resnet50_2@176", 176), ("timm/resnet61q@288", 288)],
)
def test_a_size_behind_an_at_is_any(text: str, side: int) -> None:
    graph = read_model(text)

    assert graph.shape(graph.inputs[0]) == (1, 3, side, side)


def test_a_precision_behind_a_name_is_said_to_be_the_platforms() -> None:
    for name in ("MobileNetV2 (int8)", "mobilenet_v2_quant", "mobilenet_v2 float16"):
        with pytest.raises(UnknownNameError, match=r"name it '(MobileNetV2|mobilenet_v2)', .* --on 'DEVICE (int8|fp16)'"):
            model(name)


def test_a_measured_network_is_of_the_collection_before_the_slash_which_a_patch_is_not_behind() -> None:
    assert model("ViT-B/16", as_measured=True).name == "vit_base_16"
    assert model("mediapipe_hand/HandDetector", as_measured=True).name == "aihub/mediapipe_hand/HandDetector"
    with pytest.raises(UnknownNameError):
        model("nosuch/resnet18", as_measured=True)
    assert models("no such network") == []


def test_nearest_names_begin_with_what_was_written() -> None:
    assert nearest_models("vgg")[:4] == ["vgg11", "vgg13", "vgg16", "vgg19"]
    assert set(nearest_models("yolov8")) == {*(f"yolo/yolov8{size}" for size in "nsmlx"), "aihub/yolov8_det"}
    assert "resnet50" in nearest_models("resnet51")
    assert nearest_models("gpt2") == []


def test_a_path_is_not_taken_for_a_name(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no file"):
        read_model(f"{tmp_path}/resnet50")
