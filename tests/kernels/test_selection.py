"""Selections by name, alone and by the thousand, and the GPU families behind them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from platform import machine
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.chips.chip_table import chips
from latcast.environment import cpu_description
from latcast.errors import LatcastError
from latcast.graph.builder import GraphBuilder
from latcast.graph.writers.ncnn import to_ncnn_with_map
from latcast.graph.writers.onnx import to_onnx
from latcast.graph.writers.onnx_qdq import INPUT_STYLE, to_qdq
from latcast.kernels import FusionRules, find_kernels, kernel_type
from latcast.kernels.rules import instruction_set, rules_for
from latcast.kernels.selection import (
    FAMILY_VARIABLE,
    NEED_A_FAMILY,
    RETYPINGS,
    SELECTIONS,
    Thresholds,
    device_families,
    family_in,
    family_named,
    family_names,
    family_of_device,
    retype,
    selection_of,
)
from latcast.kernels.types.kernel_type import Columns
from latcast.runtimes.ncnn import NcnnSession
from latcast.runtimes.openvino_kernels import read_executed
from latcast.spaces.catalogue import build, model

SIZES = st.sampled_from([1, 7, 14, 28, 56, 112])
CHANNELS = st.sampled_from([1, 3, 16, 30, 64, 128, 256])


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[int, ...]:
    size, kernel, stride = draw(SIZES), draw(st.sampled_from([1, 3, 5])), draw(st.integers(1, 2))
    channels = (1, draw(CHANNELS), size, size, draw(CHANNELS), -(-size // stride), -(-size // stride))
    return (*channels, kernel, kernel, stride, stride, 1, 1, 1, int(kernel > 1), draw(st.integers(0, 3)), 0, 0)


@given(
    st.lists(convolutions(), min_size=1, max_size=20),
    st.sampled_from([*(f"tflite_gpu:{family}" for family in family_names()), *sorted(set(SELECTIONS.names()) - NEED_A_FAMILY)]),
)
def test_many_kernels_are_chosen_as_each_alone(rows: list[tuple[int, ...]], name: str) -> None:
    selection = selection_of(name)

    together = selection.names("conv", np.array(rows))

    assert together.tolist() == [selection.kernel("conv", row)[0] for row in rows]
    for row in rows:
        kind, configuration = selection.kernel("conv", row)
        assert len(configuration) == len(kernel_type(kind).fields)
        assert all(type(value) is int for value in configuration)


def test_a_backend_with_thresholds_asks_for_a_family() -> None:
    with pytest.raises(LatcastError, match=r"'tflite_gpu' names no GPU family; expected 'tflite_gpu:FAMILY'"):
        selection_of("tflite_gpu")


def test_every_family_has_numbers_for_the_backend_that_needs_them() -> None:
    for name in family_names():
        winograd = family_named(name).thresholds["tflite_gpu"]["winograd"]
        assert set(winograd) == {"source_depth", "destination_depth", "tiles"}
        assert all(value > 0 for value in winograd.values())
        assert family_named(name).title


def test_the_measured_phones_have_the_gpus_that_the_paper_lists() -> None:
    families = {device: found.name for device in device_families() if (found := family_of_device(device)) is not None}

    assert families == {
        "pixel4": "adreno6xx", "mi8se": "adreno6xx", "onefusion": "adreno6xx", "s10": "mali", "a03s": "powervr",
        "iphone7": "apple", "iphonexs": "apple",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("Qualcomm, Adreno (TM) 640, OpenGL ES 3.2 V@0502.0", "adreno6xx"),
        ("Qualcomm,_Adreno_(TM)_640,_OpenGL_ES_3.2", "adreno6xx"),
        ("QUALCOMM Adreno(TM) 740", "adreno"),
        ("adreno-6xx", "adreno6xx"),
        ("adreno-7xx", "adreno"),
        ("adreno8xx", "adreno"),
        ("ARM, Mali-G77 MC9, OpenGL ES 3.2", "mali"),
        ("mali-valhall", "mali"),
        ("Immortalis-G720", "mali"),
        ("Imagination Technologies, PowerVR Rogue GE8320", "powervr"),
        ("Samsung Electronics Co., Ltd., ANGLE (Samsung Xclipse 920) on Vulkan", "amd"),
        ("NVIDIA Tegra", "other"),
        ("V3D 7.1.7", "other"),
    ],
)
def test_a_gpu_is_told_by_what_its_driver_or_the_table_of_chips_calls_it(text: str, family: str) -> None:
    assert family_named(text).name == family


@pytest.mark.parametrize(
    ("device", "family"),
    [("pixel6", "mali"), ("galaxy s23", "adreno"), ("redmi note 8", "adreno6xx"), ("sm8150", "adreno6xx"), ("pi5", "other")],
)
def test_an_unlisted_device_has_the_gpu_of_its_chip(device: str, family: str) -> None:
    found = family_of_device(device)
    assert found is not None
    assert found.name == family


def test_every_gpu_family_in_the_table_of_chips_is_of_one_of_ours() -> None:
    """Those that no rule is for take the general path by name; what is new there must be decided on."""
    left_out = {name for chip in chips().values() if (name := chip.gpu_family) is not None and family_in(name) is None}
    assert left_out == set()


def test_the_family_that_the_user_names_counts_for_unlisted_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert family_of_device("somephone") is None
    monkeypatch.setenv(FAMILY_VARIABLE, "mali-valhall")
    found = family_of_device("somephone")
    assert found is not None
    assert found.name == "mali"
    listed = family_of_device("pixel4")
    assert listed is not None
    assert listed.name == "adreno6xx"


def test_a_kernel_described_as_another_type_keeps_its_work() -> None:
    c = {"batch": 2, "in_channels": 6, "in_h": 1, "in_w": 1, "out_channels": 5, "out_h": 1, "out_w": 1, "groups": 1, "padded": 0}
    ones = {f"{name}_{axis}": 1 for name in ("kernel", "stride", "dilation") for axis in "hw"}
    pool = (2, 6, 7, 5, 1, 1, 7, 5, 1, 1, 0, 0, 0)
    examples = {("conv", "linear"): kernel_type("conv").configuration({**c, **ones}), ("average_pool", "reduce"): pool}

    assert set(examples) == set(RETYPINGS)
    for (name, other), configuration in examples.items():
        before, after = kernel_type(name), kernel_type(other)
        rows = np.array([configuration])
        was, now = before.quantities(before.columns(rows)), after.quantities(after.columns(retype(name, other, rows)))
        for quantity in ("flops", "input_elements", "output_elements", "weight_elements"):
            assert getattr(was, quantity).tolist() == getattr(now, quantity).tolist()


def test_types_of_other_fields_are_not_mistaken_for_each_other() -> None:
    with pytest.raises(LatcastError, match="a kernel of type 'conv' cannot be described as 'concat'"):
        retype("conv", "concat", np.ones((1, 18)))


@pytest.fixture
def halves() -> Iterator[str]:
    """A backend of another distribution that runs convolutions with many filters as a variant of its own."""

    def select(kind: str, columns: Columns, thresholds: Thresholds) -> np.ndarray:
        if kind != "conv":
            return np.full(len(next(iter(columns.values()))), kind, dtype=object)
        return np.where(columns["out_channels"] > 100, "conv.wide", "conv").astype(object)

    SELECTIONS.register("halves", select)
    yield "halves"
    SELECTIONS._loaded.pop("halves")
    SELECTIONS._targets.pop("halves")
    selection_of.cache_clear()


def test_a_backend_of_another_distribution_names_variants_of_its_own(halves: str) -> None:
    kernels = find_kernels(build(model("resnet18")), FusionRules("mine", selection=halves))

    wide = [kernel for kernel in kernels if kernel.kernel_type == "conv.wide"]
    # Stages 2 to 4 with 128 and more filters: 4 convolutions and a shortcut each.
    assert len(wide) == 15
    kind = kernel_type("conv.wide")
    row = np.array([wide[0].configuration])
    assert kind.fields == kernel_type("conv").fields
    assert kind.throughput_class(kind.columns(row)).tolist() == ["conv 3x3 strided wide"]


FAMILIES = ("adreno6xx", "adreno", "mali", "powervr", "amd", "apple")


def conv(in_channels: int, out_channels: int, size: int, **others: int) -> tuple[int, ...]:
    """A 3x3 convolution at stride 1 that keeps the size of its map."""
    values: dict[str, Any] = {
        "batch": 1, "in_channels": in_channels, "in_h": size, "in_w": size, "out_channels": out_channels, "out_h": size,
        "out_w": size, "kernel_h": 3, "kernel_w": 3, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1,
        "groups": 1, "padded": 1, **others,
    }  # fmt: skip
    return kernel_type("conv").configuration(values)


def chosen(family: str, configuration: tuple[int, ...], kind: str = "conv") -> str:
    return selection_of(f"tflite_gpu:{family}").kernel(kind, configuration)[0]


@pytest.mark.parametrize(
    ("configuration", "on_adreno", "on_mali"),
    [
        (conv(64, 64, 56), "conv", "conv.winograd"),  # 16 slices in and out, 196 tiles
        (conv(128, 128, 28), "conv", "conv.winograd"),  # 32 and 32, 49
        (conv(256, 256, 14), "conv", "conv"),  # 64 and 64, 16
    ],
)
def test_the_three_convolutions_of_resnet16_run_as_in_table_b3(
    configuration: tuple[int, ...], on_adreno: str, on_mali: str
) -> None:
    assert chosen("adreno6xx", configuration) == on_adreno
    assert chosen("mali", configuration) == chosen("powervr", configuration) == on_mali


@pytest.mark.parametrize(
    ("configuration", "families"),
    [
        (conv(128, 128, 48), FAMILIES),  # 144 tiles
        (conv(128, 128, 44), FAMILIES[1:]),  # 121: too few for an Adreno 6xx
        (conv(128, 128, 32), FAMILIES[1:]),  # 64: enough for other Adrenos
        (conv(128, 128, 28), FAMILIES[2:]),  # 49: too few for those
        (conv(124, 128, 48), FAMILIES[2:]),  # 31 slices in
        (conv(125, 128, 48), FAMILIES),  # the 32nd is begun
        (conv(64, 60, 56), ("amd",)),  # 15 slices out
        (conv(64, 32, 56), ("amd",)),  # 8
        (conv(64, 28, 56), ()),  # 7
        (conv(60, 64, 56), ()),  # 15 in
        (conv(64, 64, 20), ()),  # 25 tiles
        (conv(64, 64, 24), FAMILIES[2:]),  # 36
    ],
)
def test_each_family_has_its_own_least_channels_and_tiles(configuration: tuple[int, ...], families: tuple[str, ...]) -> None:
    assert tuple(family for family in FAMILIES if chosen(family, configuration) == "conv.winograd") == families


@pytest.mark.parametrize(
    "others", [{"stride_h": 2}, {"stride_w": 2}, {"kernel_h": 5}, {"kernel_w": 1}, {"dilation_h": 2}, {"dilation_w": 2}]
)
@pytest.mark.parametrize("backend", ["tflite_gpu:mali", "ncnn"])
def test_winograd_computes_undilated_3x3_filters_at_stride_1_alone(backend: str, others: dict[str, int]) -> None:
    assert selection_of(backend).kernel("conv", conv(256, 256, 56))[0] == "conv.winograd"
    assert selection_of(backend).kernel("conv", conv(256, 256, 56, **others))[0] == "conv"


@pytest.mark.parametrize(
    ("backend", "kind", "configuration"),
    [
        ("tflite_gpu:amd", "concat", (2, 100, 50, 2, 0, 0, 0)),
        ("pytorch_metal:apple", "conv", conv(8, 16, 9, kernel_h=1, kernel_w=1, padded=0)),
        ("pytorch_metal:apple", "conv", conv(256, 256, 9)),
        ("ncnn", "depthwise_conv", conv(64, 64, 14, groups=64)),
        ("openvino", "conv", conv(8, 8, 14)),
        ("openvino", "depthwise_conv", conv(8, 8, 14, groups=8)),
    ],
)
def test_a_kernel_that_a_backend_has_no_other_algorithm_for_stays(
    backend: str, kind: str, configuration: tuple[int, ...]
) -> None:
    assert selection_of(backend).kernel(kind, configuration) == (kind, configuration)


def test_a_1x1_convolution_on_a_1x1_map_runs_as_fully_connected() -> None:
    pointwise = {"kernel_h": 1, "kernel_w": 1, "padded": 0}
    behind = {"batch": 2, "fused_flops": 1, "fused_inputs": 1}

    found = selection_of("tflite_gpu:mali").kernel("conv", conv(72, 24, 1, **pointwise, **behind))

    # A row for each of the two images; what is fused behind stays.
    assert found == ("linear", (2, 72, 24, 1, 1, 0))
    assert chosen("mali", conv(72, 24, 2, **pointwise)) == "conv"
    assert chosen("mali", conv(72, 24, 1)) == "conv"


@pytest.mark.parametrize(
    ("in_channels", "out_channels", "groups", "kernel"),
    [
        (24, 32, 2, "grouped_conv"),  # 12 in, 16 out in each group
        (24, 24, 4, "grouped_conv.split"),  # 6 and 6
        (24, 32, 4, "grouped_conv.split"),  # 6 in; line 6 as printed would compare all 24
        (32, 24, 4, "grouped_conv.split"),  # 6 out
    ],
)
def test_groups_of_whole_slices_run_as_one_kernel(in_channels: int, out_channels: int, groups: int, kernel: str) -> None:
    assert chosen("adreno6xx", conv(in_channels, out_channels, 14, groups=groups), "grouped_conv") == kernel


def test_an_average_over_the_whole_map_runs_as_a_mean() -> None:
    selection = selection_of("tflite_gpu:apple")

    # batch, channels, in, out, kernel, stride, fused
    assert selection.kernel("average_pool", (2, 96, 7, 5, 1, 1, 7, 5, 1, 1, 1, 0, 0)) == ("reduce", (192, 35, 1, 1, 0, 0))
    assert selection.kernel("average_pool", (1, 96, 7, 7, 3, 3, 3, 3, 2, 2, 0, 0, 0))[0] == "average_pool"


def filtered(in_channels: int, out_channels: int, kernel: tuple[int, int], groups: int = 1) -> tuple[int, ...]:
    sizes = {"in_h": 9, "in_w": 9, "out_h": 9, "out_w": 9, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1}
    kernels = {"kernel_h": kernel[0], "kernel_w": kernel[1], "padded": 0}
    channels = {"batch": 1, "in_channels": in_channels, "out_channels": out_channels, "groups": groups}
    return kernel_type("conv").configuration({**sizes, **kernels, **channels})


@pytest.mark.parametrize(
    ("kind", "configuration", "kernel"),
    [
        ("conv", filtered(8, 16, (3, 3)), "conv"),
        ("conv", filtered(8, 16, (1, 1)), "conv.pointwise"),
        ("conv", filtered(8, 16, (1, 3)), "conv"),
        ("depthwise_conv", filtered(8, 8, (3, 3), 8), "depthwise_conv.3x3"),
        ("depthwise_conv", filtered(8, 16, (5, 5), 8), "depthwise_conv.5x5"),
        ("depthwise_conv", filtered(8, 8, (7, 7), 8), "depthwise_conv"),
        ("depthwise_conv", filtered(8, 8, (3, 5), 8), "depthwise_conv"),
        ("depthwise_conv", filtered(8, 8, (1, 1), 8), "depthwise_conv"),
        ("grouped_conv", filtered(8, 8, (3, 3), 2), "grouped_conv"),
        # As many groups as input channels, with one channel: depthwise unless it has one output channel too.
        ("conv", filtered(1, 16, (3, 3)), "depthwise_conv.3x3"),
        ("conv", filtered(1, 1, (3, 3)), "conv"),
        ("conv", filtered(1, 1, (1, 1)), "conv.pointwise"),
    ],
)
def test_vulkan_chooses_by_groups_and_filter(kind: str, configuration: tuple[int, ...], kernel: str) -> None:
    assert selection_of("pytorch_vulkan").kernel(kind, configuration) == (kernel, configuration)
    assert selection_of("pytorch_vulkan:mali").kernel(kind, configuration) == (kernel, configuration)


POOLED = (1, 96, 7, 7, 1, 1, 7, 7, 1, 1, 0, 0, 0)


def test_an_average_over_the_whole_map_is_an_adaptive_one_on_metal_alone() -> None:
    assert selection_of("pytorch_metal").kernel("average_pool", POOLED) == ("reduce", (96, 49, 1, 0, 0, 0))
    assert selection_of("pytorch_vulkan").kernel("average_pool", POOLED) == ("average_pool", POOLED)


BY_CHANNELS = (
    (3, 8, 1, "conv"),
    (8, 8, 1, "conv"),
    (8, 16, 1, "conv.winograd6"),
    (9, 8, 1, "conv.winograd6"),
    (32, 32, 1, "conv.winograd6"),
    (32, 33, 1, "conv.winograd"),
    (33, 32, 1, "conv.winograd"),
    # Channels of a group.
    (16, 16, 2, "grouped_conv"),
    (64, 64, 2, "grouped_conv.winograd6"),
    (96, 96, 2, "grouped_conv.winograd"),
)
"""Channels in and out, groups, and what a 3x3 convolution of these runs as in ncnn."""


@pytest.mark.parametrize(("in_channels", "out_channels", "groups", "kernel"), BY_CHANNELS)
def test_ncnn_chooses_winograd_and_the_size_of_its_tiles_by_channels(
    in_channels: int, out_channels: int, groups: int, kernel: str
) -> None:
    configuration = conv(in_channels, out_channels, 14, groups=groups)

    assert selection_of("ncnn").kernel(kernel.partition(".")[0], configuration) == (kernel, configuration)


@pytest.mark.skipif(machine() not in ("x86_64", "AMD64"), reason="ncnn chooses otherwise on other processors")
@pytest.mark.parametrize(("in_channels", "out_channels", "groups", "kernel"), BY_CHANNELS)
def test_without_the_chosen_algorithm_ncnn_computes_other_digits(
    in_channels: int, out_channels: int, groups: int, kernel: str
) -> None:
    ncnn = pytest.importorskip("ncnn")
    b = GraphBuilder("3x3")
    graph = b.finish(b.conv(b.input((1, in_channels, 14, 14)), out_channels, 3, groups=groups))
    param, weights, nodes = to_ncnn_with_map(graph)
    option = {"winograd": "use_winograd43_convolution", "winograd6": "use_winograd63_convolution"}

    def result(*off: str) -> np.ndarray:
        net = ncnn.Net()
        for name in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", *off):
            setattr(net.opt, name, False)
        session = NcnnSession(ncnn, net, graph, nodes, profile=False)
        session.load(param, weights)
        [output] = session.outputs()
        session.close()
        return output

    usual = result()
    changing = [variant for variant, name in option.items() if not np.array_equal(result(name), usual)]

    assert changing == [variant for variant in option if kernel.partition(".")[2] == variant]


OPENVINO_EXECUTED = json.loads((Path(__file__).parent / "recorded" / "openvino_groups.json").read_text())
"""Executed by OpenVINO on a CPU with AVX-512: 3x3 convolutions of 14x14 images, in fp32 with 16, 16, 5, 17, 17 and 32 channels a
group, in int8 with 4, 8, 16, 5, 2, 24, 8 and 12."""


@pytest.mark.parametrize(
    ("precision", "executed"), [(precision, each) for precision in ("fp32", "int8") for each in OPENVINO_EXECUTED[precision]]
)
def test_openvino_computes_those_groups_directly_that_it_was_seen_to(precision: str, executed: dict[str, Any]) -> None:
    configuration = conv(executed["in_channels"], executed["out_channels"], 14, groups=executed["groups"])
    direct = {"fp32": "grouped_conv.narrow", "int8": "grouped_conv.direct"}[precision]
    name = direct if executed["kinds"][0].startswith("Convolution jit") else "grouped_conv"
    selection = selection_of(rules_for("openvino", precision).selection)

    assert selection.kernel("grouped_conv", configuration) == (name, configuration)


def test_openvino_computes_pixels_in_groups_as_products() -> None:
    configuration = conv(16, 16, 14, groups=4, kernel_h=1, kernel_w=1, padded=0)

    assert selection_of("openvino_int8").kernel("grouped_conv", configuration) == ("grouped_conv", configuration)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_openvino_executes_here_what_was_recorded_of_it(precision: str) -> None:
    openvino = pytest.importorskip("openvino")
    known = instruction_set("cpu1", cpu_description()["flags"])
    if known not in ("avx2", "avx512") or (precision, known) == ("int8", "avx2"):
        pytest.skip("older processors run other kernels")
    core = openvino.Core()

    def kinds(in_channels: int, out_channels: int, groups: int) -> list[str]:
        b = GraphBuilder("groups")
        graph = b.finish(b.conv(b.input((1, in_channels, 14, 14)), out_channels, 3, groups=groups))
        model = to_qdq(graph, style=INPUT_STYLE) if precision == "int8" else to_onnx(graph)
        compiled = core.compile_model(core.read_model(model), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        return [each.kind for each in read_executed(compiled.get_runtime_model()) if each.kind.startswith("Convolution")]

    for executed in OPENVINO_EXECUTED[precision]:
        # With AVX2 alone all groups run as products of blocks, whatever their width.
        expected = executed["kinds"] if known == "avx512" else ["Convolution brgconv_avx2_f32"]
        assert kinds(executed["in_channels"], executed["out_channels"], executed["groups"]) == expected
