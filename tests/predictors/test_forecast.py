"""Whatever a user calls a model, on whatever a user calls a platform."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from latcast.chips.chip_names import chip_of
from latcast.errors import ModelError, UnknownOperatorError, UnknownPlatformError
from latcast.forecast import predict, predict_many
from latcast.graph.builder import GraphBuilder
from latcast.graph.writers.onnx import to_onnx
from latcast.platforms import load, resolve_platforms
from latcast.predictors.bundle import save_bundle
from latcast.predictors.bundle_index import platform_ids
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform, Reference, Unit
from latcast.report.advise import advise
from latcast.spaces.catalogue import build, model
from latcast.testing.contracts.runtimes import unknown_operator_graph


def test_a_published_network_is_built_for_the_images_that_are_asked_for(predictor: PlatformPredictor) -> None:
    wide = build(Reference("resnet", {**model("resnet18").parameters, "resolution": [256, 320], "batch": 2}))

    found = predict("resnet18", predictor, shapes={"input": (2, 3, 256, 320)})

    assert found.latency_ms == predict(wide, predictor).latency_ms
    assert found.latency_ms > predict("resnet18", predictor).latency_ms
    assert predict_many(["resnet18"], predictor, shapes={"input": (2, 3, 256, 320)})[0].latency_ms == found.latency_ms


@pytest.mark.parametrize(
    ("name", "shapes", "expected"),
    [
        (
            "resnet18",
            {"nonsense": (9, 9)},
            "a shape is given for 'nonsense', which is no input of resnet18; the inputs are: input",
        ),
        (
            "resnet18",
            {"input": (1, 4, 224, 224)},
            "resnet18 takes images of 3 channels, input=BATCH,3,HEIGHT,WIDTH; found 1,4,224,",
        ),
        ("resnet18", {"input": (224, 224)}, "resnet18 takes images of 3 channels, input=BATCH,3,HEIGHT,WIDTH; found 224,224"),
        ("swin_tiny", {"input": (1, 3, 512, 512)}, "cannot be built for input=1,3,512,512: .* multiples of 224"),
        # 512 channels on a map of 14x14 instead of 7x7 are read by 4096 neurons: 3 x 49 x 512 x 4096 = 308 million more.
        ("vgg11", {"input": (1, 3, 448, 448)}, r"filters, 132.9 million values, fit images like 1,3,224,224, not these \(441.1"),
    ],
)
def test_a_size_that_a_published_network_does_not_have_is_refused(
    predictor: PlatformPredictor, name: str, shapes: dict[str, tuple[int, ...]], expected: str
) -> None:
    with pytest.raises(ModelError, match=expected):
        predict(name, predictor, shapes=shapes)


def test_a_graph_takes_other_input_shapes_too(predictor: PlatformPredictor) -> None:
    shapes = {"input": (1, 3, 320, 320)}

    assert predict(build(model("resnet18")), predictor, shapes=shapes) == replace(
        predict("resnet18", predictor, shapes=shapes), model="resnet"
    )
    with pytest.raises(ModelError, match="'nonsense', which is no input of resnet"):
        predict(build(model("resnet18")), predictor, shapes={"nonsense": (9, 9)})


def test_the_prediction_is_called_what_the_user_called_the_model(predictor: PlatformPredictor, tmp_path: Path) -> None:
    path = tmp_path / "mine.onnx"
    path.write_bytes(to_onnx(build(model("squeezenet1_1"))))

    found = predict_many(["resnet18", "resnet50", path, str(path), build(model("resnet18"))], predictor)

    assert [each.model for each in found] == ["resnet18", "resnet50", str(path), str(path), "resnet"]
    assert found[0].to_json()["model"] == "resnet18"


def test_a_size_that_depends_on_values_is_taken_at_its_largest_which_a_warning_says(predictor: PlatformPredictor) -> None:
    b = GraphBuilder("picked")
    places = b.op("NonZero", [b.relu(b.conv(b.input((1, 3, 8, 8)), 4, 1))])[0]

    found = predict(b.finish(places), predictor)

    assert any("how much NonZero gives depends on the values of an input; the most is assumed" in each for each in found.warnings)


def test_a_single_model_in_place_of_a_list_is_refused(predictor: PlatformPredictor) -> None:
    with pytest.raises(ModelError, match="expected a list of models, found one of type str"):
        predict_many("resnet18", predictor)
    with pytest.raises(ModelError, match="found one of type ModelProto"):
        predict_many(onnx.ModelProto(), predictor)


def test_a_module_is_predicted_as_the_file_that_it_exports_to(predictor: PlatformPredictor) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 1))
    b = GraphBuilder("same")
    same = b.finish(b.conv(b.relu(b.conv(b.input((2, 3, 32, 40)), 8, 3, bias=True)), 4, 1, bias=True))

    found = predict(module, on=predictor, example_inputs=torch.zeros(2, 3, 32, 40))

    assert found.model == "Sequential"
    assert found.latency_ms == pytest.approx(predict(same, predictor).latency_ms, rel=1e-12)
    assert predict_many([module], predictor, example_inputs=(torch.zeros(2, 3, 32, 40),))[0].latency_ms == found.latency_ms


def test_a_module_without_its_inputs_and_inputs_without_a_module_are_refused(predictor: PlatformPredictor) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.ReLU()
    with pytest.raises(ModelError, match=r"a torch.nn.Module \(ReLU\) needs the inputs to predict for; give example_inputs="):
        predict(module, predictor)
    with pytest.raises(ModelError, match="the example inputs of ReLU are of type int; expected a tensor or a sequence"):
        predict(module, predictor, example_inputs=3)
    with pytest.raises(ModelError, match=r"example inputs are for a torch.nn.Module, found str"):
        predict("resnet18", predictor, example_inputs=torch.zeros(1))
    with pytest.raises(ModelError, match="expected a list of models, found one of type Sequential"):
        predict_many(torch.nn.Sequential(module), predictor, example_inputs=torch.zeros(1))


def test_an_unknown_operator_is_refused_only_when_strict(predictor: PlatformPredictor) -> None:
    graph = unknown_operator_graph()

    assert "NoSuchOperator" in predict(graph, predictor).coverage.uncovered
    with pytest.raises(UnknownOperatorError, match=r"unknown_operator: no entry in the operator table for NoSuchOperator"):
        predict(graph, predictor, strict=True)


def test_many_at_once_are_priced_as_one_by_one(predictor: PlatformPredictor) -> None:
    names = ["squeezenet1_1", "resnet18"]

    together = predict_many(names, predictor)

    assert together == [predict(name, predictor, breakdown=False) for name in names]


def test_kernels_and_overhead_add_up_to_the_latency(predictor: PlatformPredictor) -> None:
    found = predict("resnet18", predictor)

    assert found.overhead_ms + sum(kernel.latency_ms for kernel in found.kernels) == pytest.approx(found.latency_ms)
    assert found.low_ms < found.latency_ms < found.high_ms


def test_a_bundle_predicts_as_before_it_was_saved_and_is_read_again_once_replaced(
    predictor: PlatformPredictor, tmp_path: Path
) -> None:
    path = save_bundle(predictor, tmp_path / "bundle.zip")
    before = predict("resnet18", path).latency_ms

    assert before == pytest.approx(predict("resnet18", predictor).latency_ms, rel=1e-9)
    assert load(path) is load(path)

    path.unlink()
    slower = replace(predictor, network=replace(predictor.network, constant_ms=predictor.network.constant_ms + 1))
    save_bundle(slower, path)
    assert predict("resnet18", path).latency_ms == pytest.approx(before + 1)


def test_an_unknown_platform_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))
    with pytest.raises(UnknownPlatformError, match="no-such-device"):
        predict("resnet18", "no-such-device/onnxruntime-9.9/cpu1/fp32")


def test_several_platforms_are_predicted_for_one_after_the_other(predictor: PlatformPredictor, tmp_path: Path) -> None:
    path = save_bundle(replace(predictor, platform=Platform.parse("other/onnxruntime-1.0/cpu1/fp32")), tmp_path / "bundle.zip")
    both = [predictor, path]

    assert predict("resnet18", both) == [predict("resnet18", each) for each in both]
    assert predict("resnet18", [predictor]) == [predict("resnet18", predictor)]
    assert [(found.model, found.platform) for found in predict_many(["resnet18", "squeezenet1_1"], both)] == [
        (name, platform)
        for platform in (predictor.platform.id, "other/onnxruntime-1.0/cpu1/fp32")
        for name in ("resnet18", "squeezenet1_1")
    ]


def test_a_loaded_platform_takes_models_as_users_have_them(predictor: PlatformPredictor) -> None:
    assert predictor.predict("resnet18") == predict("resnet18", predictor)
    assert predictor.predict_many(["resnet18"], breakdown=True) == [predict("resnet18", predictor)]
    assert load(predictor) is predictor
    assert repr(predictor) == f"<PlatformPredictor {predictor.platform.id}>"
    assert predictor.throughputs[0].kernel_class == "any"


def test_a_unit_that_a_device_does_not_have_is_said() -> None:
    with pytest.raises(UnknownPlatformError, match="of raspberry pi 4 only the CPU and GPU are known"):
        load("Raspberry Pi 4 NPU")
    with pytest.raises(UnknownPlatformError, match="of hailo-8 only the NPU is known"):
        load("hailo-8 gpu")


def test_a_device_is_meant_in_int8_where_the_network_is_quantised_and_no_precision_is_said() -> None:
    quantised = replace(build(model("mobilenet_v2")), precision="int8")

    assert predict(quantised, "raspberry pi 5 cpu").platform == "raspberry-pi-5-broadcom-bcm2712/ncnn-unstated/cpu1/int8"
    assert predict("mobilenet_v2", "raspberry pi 5 cpu").platform == "raspberry-pi-5-broadcom-bcm2712/ncnn-unstated/cpu1/fp32"
    assert predict(quantised, "raspberry pi 5 cpu fp32").platform == "raspberry-pi-5-broadcom-bcm2712/ncnn-unstated/cpu1/fp32"
    assert predict(quantised, "redmi note 12 cpu").platform == "redmi-note-12/tflite-unstated/cpu4/int8"
    assert predict(quantised, "raspberry pi 5 gpu").platform.endswith("/fp32")  # no GPU of it ran int8
    both = predict_many([quantised, "mobilenet_v2"], "raspberry pi 5 cpu")
    assert [each.platform.rpartition("/")[2] for each in both] == ["int8", "fp32"]


@pytest.mark.parametrize(
    "devices",
    [
        ("rtx 4090", "rtx 3060", "jetson orin nano gpu"),
        ("h100", "a100", "t4"),
        ("jetson agx orin gpu", "jetson orin nano gpu", "jetson nano gpu"),
        ("galaxy s24 ultra cpu", "galaxy a54 cpu", "redmi note 12 cpu", "rv1103 cpu"),
        ("iphone 15 pro gpu", "iphone 12 gpu"),
        ("snapdragon 8 elite npu", "snapdragon 888 npu", "snapdragon 855 npu"),
    ],
)
def test_a_device_of_more_throughput_and_bandwidth_is_not_slower(devices: tuple[str, ...]) -> None:
    for network in ("resnet50", "yolo/yolov8n"):
        latencies_ms = [predict(network, each).latency_ms for each in devices]
        assert latencies_ms == sorted(latencies_ms)


def test_a_device_that_was_not_measured_is_answered_by_one_with_its_silicon_as_surely_as_such_devices_are_alike() -> None:
    measured, other = predict("resnet50", "qcs8450-proxy tflite int8"), predict("resnet50", "snapdragon 8 gen 1 tflite npu int8")

    assert other.latency_ms == measured.latency_ms
    assert other.high_ms / other.low_ms > 2 > measured.high_ms / measured.low_ms
    assert measured.grade.why == "measured there"
    assert (other.grade.word, other.grade.why) == ("fair", "measured on another device")
    assert any("measured on qcs8450-proxy, which has the same silicon" in text for text in other.warnings)
    from_facts = predict("resnet50", "snapdragon 8 gen 3 npu")
    assert other.high_ms / other.low_ms < from_facts.high_ms / from_facts.low_ms


def test_devices_of_one_silicon_lie_in_the_intervals_of_each_other() -> None:
    by_silicon: dict[tuple[str, ...], dict[str, str]] = {}
    for name in platform_ids():
        device, runtime, unit, precision = name.split("/")
        kind = Unit.parse(unit).kind
        chip = chip_of(device, "", kind) if kind in ("cpu", "gpu", "npu") else None
        if chip is not None:
            of_device = by_silicon.setdefault((chip.die, runtime, unit, precision), {})
            of_device.setdefault(device.partition(".")[0], name)
    shares = []
    for alike in by_silicon.values():
        pairs = list(itertools.permutations(list(alike.values())[:2], 2))
        inside = []
        for one, another in pairs:
            there, here = predict("resnet50", load(one).standing_in()), predict("resnet50", another)
            inside.append(there.low_ms <= here.latency_ms <= there.high_ms)
        shares += [sum(inside) / len(inside)] if inside else []

    assert len(shares) >= 30
    assert sum(shares) / len(shares) >= 0.85


def test_the_sizes_of_an_input_are_no_example_of_it() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ModelError, match=r"are the numbers \[1, 3, 8, 8\]; expected tensors, such as torch.zeros\(1, 3, 8, 8\)"):
        predict(torch.nn.ReLU(), "pixel4/tflite-2.10/gpu/fp16", example_inputs=(1, 3, 8, 8))


def test_advice_for_a_device_that_was_not_measured_is_as_sure_as_devices_of_its_silicon_are_alike() -> None:
    found = advise("mobilenet_v2", "oneplus 11 tflite int8")

    assert [each.platform for each in found.choices] == ["qcs8550-proxy/tflite-2.17.0/npu+qairt-2.42.0/int8"]
    assert found.choices[0].high_ms > 2 * found.choices[0].low_ms
    assert found.choices[0].grade.why == "measured on another device"


def test_another_version_of_the_runtime_answers_and_that_is_said() -> None:
    notes: list[str] = []

    named = resolve_platforms(["pixel 4 tflite 2.14 1large fp32", "i5 12400 openvino 2024.1"], notes.append)

    ids = ["pixel4/tflite-2.10/1large/fp32", "core-i5-12400/openvino-2024.1/cpu/fp32"]
    assert [load(each).platform.id for each in named] == ids
    assert notes[0] == "tflite-2.14 was not measured there, tflite-2.10 answers"


@pytest.mark.parametrize(
    ("text", "unmeasured"),
    [
        ("galaxy s10", "; nothing was measured on its NPU, which the chip answers for: 'galaxy s10 npu'"),
        ("galaxy s10 int8", "; nothing was measured on its NPU, which the chip answers for: 'galaxy s10 npu'"),
        ("galaxy s10 cpu", ""),
        ("galaxy s10 1large", ""),
    ],
)
def test_units_on_which_nothing_was_measured_are_named_where_no_unit_is_said(text: str, unmeasured: str) -> None:
    notes: list[str] = []
    resolve_platforms([text], notes.append)

    assert notes[0].endswith(f"all: latcast platforms '{text}'{unmeasured}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu", "'gpu' names no device"),
        ("my laptop", "'my laptop' names no device"),
        ("cortex-a53", r"'cortex-a53' is the core of \d+ devices and chips, such as .*: latcast platforms --find 'cortex-a53'"),
        ("coral", "'coral' is part of the name of .*Coral Dev Board"),
        ("radxa zero", "is part of the name of Radxa Zero 3W; name that"),
        ("toybrick rk3588 kit", "of 'toybrick rk3588 kit' the chip is known: 'RK3588'; name that"),
        ("gallaxy s23", "no predictor for .gallaxy s23.; nearest devices and chips: Galaxy S23"),
        (
            "pixel 4 toaster 2.14",
            "'toaster 2.14' says nothing of a platform of pixel 4: .* or precision; all: latcast platforms$",
        ),
        ("jetson orin nano 15w", "'15w' says nothing of a platform of jetson orin nano"),
        ("raspberry pi 5 hailo", "of raspberry pi 5 only the CPU and GPU are known"),
        ("ring doorbell", "no known name is like it; name its chip, or add it from a few timed networks"),
    ],
)
def test_a_text_that_names_no_device_is_answered_with_what_it_is_or_is_like(text: str, said: str) -> None:
    with pytest.raises(UnknownPlatformError, match=said):
        predict("resnet18", text)


@pytest.mark.parametrize(
    ("platform", "million_pixels", "word", "said"),
    [
        # A map read and one written, of three floats of four bytes a pixel: 24 bytes.
        ("pixel4/tflite-2.10/1large/fp32", 300, "rough", ("does not fit: takes 7.2 GB, and the device is sold with 6 GB",)),
        ("pixel4/tflite-2.10/1large/fp32", 200, None, ("tight: takes 4.8 GB of 6 GB, of which an app can count on 3.6 GB",)),
        ("pixel4/tflite-2.10/1large/fp32", 100, None, ()),
        ("pixel4/tflite-2.10/gpu/fp16", 200, None, ()),  # half as many
    ],
)
def test_a_network_that_the_memory_of_the_device_does_not_hold_is_said_to(
    platform: str, million_pixels: int, word: str | None, said: tuple[str, ...]
) -> None:
    b = GraphBuilder("wide")
    graph = b.finish(b.relu(b.input((1, 3, 1000, 1000 * million_pixels))))

    found = predict(graph, platform)

    assert tuple(text for text in found.warnings if " GB" in text) == said
    assert ("does not fit in memory" in found.grade.in_words()) == (word == "rough")
    assert word is None or found.grade.word == word
