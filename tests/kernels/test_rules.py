"""Fusion rules as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import latcast.kernels.rules
from latcast.errors import BundleError, UnknownNameError
from latcast.graph.builder import GraphBuilder
from latcast.graph.idioms import IDIOMS
from latcast.kernels.rules import (
    ANY_CLASS,
    RULES_SCHEMA,
    FusionRules,
    instruction_set,
    load_rules,
    platform_rules,
    rules_for,
    shipped_rules,
    unit_kind,
)
from latcast.kernels.search import find_kernels
from latcast.kernels.selection import SELECTIONS
from latcast.kernels.types.kernel_type import type_of_class
from latcast.records import Platform

FOLDER = Path(str(resources.files("latcast.kernels").joinpath("rules")))
SHIPPED = sorted(path.stem for path in FOLDER.glob("*.json") if path.stem != "patterns")
CLASSES = st.sampled_from(["conv", "depthwise_conv", "linear", "add", "relu", "relu6", "batch_normalization"])


@given(
    st.builds(
        FusionRules,
        runtime=st.text(max_size=8),
        version=st.text(max_size=8),
        pairs=st.dictionaries(CLASSES, st.frozensets(CLASSES)),
        patterns=st.lists(st.sampled_from(IDIOMS.names()), unique=True).map(tuple),
        free=st.frozensets(CLASSES),
        chains=st.frozensets(CLASSES),
        once=st.frozensets(CLASSES),
        stages=st.lists(st.frozensets(CLASSES)).map(tuple),
        multi_inbound=st.integers(0, 5),
        multi_outbound=st.integers(0, 2),
        evidence=st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False, allow_subnormal=False)),
        selection=st.sampled_from(["", "tflite_gpu", "tflite_gpu:mali", "pytorch_vulkan"]),
    )
)
def test_rules_come_back_from_json_as_they_were(rules: FusionRules) -> None:
    assert FusionRules.from_json(json.loads(json.dumps(rules.to_json()))) == rules


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_rules_speak_of_operators_that_have_a_kernel_type(name: str) -> None:
    rules = load_rules(name)
    words = {*rules.pairs, *rules.free, *rules.chains, *rules.once}.union(*rules.pairs.values(), *rules.stages) - {ANY_CLASS}

    # A pattern inside a kernel needs no type of its own.
    assert [word for word in sorted(words - set(rules.patterns)) if type_of_class(word).name == "other"] == []
    assert rules.runtime


def test_rules_load_from_a_file(tmp_path: Path) -> None:
    rules = FusionRules("mine", pairs={"conv": frozenset({"relu"})})
    (tmp_path / "mine.json").write_text(json.dumps(rules.to_json()))

    assert load_rules(tmp_path / "mine.json") == rules


@pytest.mark.parametrize(
    ("load", "problem"),
    [
        (lambda folder: load_rules("onnxruntim"), "for 'onnxruntim'; known: litert, .*ncnn, .*none, onnxruntime, .*openvino"),
        (lambda folder: load_rules("patterns"), "for 'patterns'; known: litert"),
        (lambda folder: load_rules(folder / "gone.json"), r"no fusion rules at '.*gone\.json'"),
        (lambda folder: rules_for("tvm", "fp32", "gpu"), "no fusion rules are shipped for 'tvm'; known: litert, "),
    ],
)
def test_rules_that_do_not_exist_are_refused_by_name(load: Callable[[Path], FusionRules], problem: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=problem):
        load(tmp_path)


@pytest.mark.parametrize("text", ["{", "\x80\x04", "[1, 2"])
def test_a_file_that_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_bytes(text.encode("latin-1"))

    with pytest.raises(BundleError, match=r"bad\.json: not"):
        load_rules(tmp_path / "bad.json")


GOOD: dict[str, Any] = {"schema": RULES_SCHEMA, "runtime": "r", "pairs": {"conv": ["relu"]}}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([], "not fusion rules: found no 'schema'"),
        ({"runtime": "r"}, "not fusion rules: found no 'schema'"),
        ({**GOOD, "schema": RULES_SCHEMA + 1}, f"schema {RULES_SCHEMA + 1}, .* update latcast"),
        ({"schema": RULES_SCHEMA, "pairs": {}}, "not fusion rules .*runtime"),
        ({**GOOD, "chain": ["relu"]}, "found 'chain', expected some of assumed, chains, .*; update latcast"),
        ({**GOOD, "quantisation": {"on_integers": [], "converted": [], "later": []}}, "unknown field later"),
        ({**GOOD, "layouts": {"channels_last": [], "either": [], "strided": [1, 2, 3], "later": []}}, "unknown field later"),
        ({**GOOD, "stages": ["relu"]}, "expected a list of names, found 'relu'"),
        ({**GOOD, "pairs": {"conv": "relu"}}, "expected a list of names, found 'relu'"),
        ({**GOOD, "pairs": ["conv"]}, "not fusion rules"),
        ({**GOOD, "free": "reshape"}, "expected a list of names, found 'reshape'"),
        ({**GOOD, "patterns": ["gellu"]}, "no pattern is called 'gellu'; known: .*gelu"),
        ({**GOOD, "multi_inbound": 6}, "multi_inbound 6 .* expected 0 to 5"),
        ({**GOOD, "selection": "tflite_npu:mali"}, "no kernel selection is called 'tflite_npu'; known: .*; update latcast"),
        ({**GOOD, "selection": "tflite_gpu:malii"}, "no GPU family is called 'malii'; known: mali"),
        ({**GOOD, "multi_outbound": "first"}, "not fusion rules"),
        ({**GOOD, "extends": "openvin"}, "no rules 'openvin' to extend are shipped; known: litert, .*openvino"),
        ({**GOOD, "extends": ["openvino"]}, "not fusion rules"),
        ({**GOOD, "extends": "openvino", "pairs": ["conv"]}, "not fusion rules"),
    ],
)
def test_rules_of_another_form_are_refused_with_the_reason(data: Any, problem: str) -> None:
    with pytest.raises(BundleError, match=f"^mine: .*{problem}"):
        FusionRules.from_json(data, "mine")


def test_rules_that_extend_others_hold_what_differs(tmp_path: Path) -> None:
    base = load_rules("litert")
    own = {"schema": 1, "extends": "litert", "pairs": {"conv": ["relu"], "linear": [], "add": ["relu"]}, "patterns": ["mish"]}
    (tmp_path / "mine.json").write_text(json.dumps(own))

    rules = load_rules(tmp_path / "mine.json")

    relu = frozenset({"relu"})
    assert rules == replace(base, pairs={**base.pairs, "conv": relu, "linear": frozenset(), "add": relu}, patterns=("mish",))
    assert "extends" not in rules.to_json()


def test_rules_that_extend_others_take_over_the_fields_of_layouts_that_they_do_not_name(tmp_path: Path) -> None:
    base = load_rules("openvino").layouts
    own = {"schema": 3, "extends": "openvino", "layouts": {"strided": [1, 2, 3]}}
    (tmp_path / "mine.json").write_text(json.dumps(own))

    assert base is not None
    assert load_rules(tmp_path / "mine.json").layouts == replace(base, strided=(1, 2, 3))


@pytest.mark.parametrize(
    ("fused", "second", "late"),
    [
        ([], "add", False), (["batch_normalization"], "batch_normalization", False), (["batch_normalization"], "add", False),
        (["add"], "relu", False), (["add"], "add", True), (["relu"], "add", True), (["relu"], "relu", True),
        (["add"], "batch_normalization", True), (["relu"], "sigmoid", False),
    ],
)  # fmt: skip
def test_a_kernel_takes_operators_in_by_stages(fused: list[str], second: str, late: bool) -> None:
    rules = FusionRules("mine", stages=(frozenset({"batch_normalization"}), frozenset({"add"}), frozenset({"relu"})))

    # The first stage holds any number, each later one a single operator; what is in no stage may come at any time.
    assert rules.comes_too_late(second, fused) == late


def test_rules_that_extend_themselves_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, base in (("one", "two"), ("two", "three"), ("three", "two")):
        (tmp_path / f"{name}.json").write_text(json.dumps({"schema": 1, "extends": base}))
    monkeypatch.setattr(latcast.kernels.rules, "_FOLDER", tmp_path)
    monkeypatch.setattr(latcast.kernels.rules, "shipped_rules", lambda: {"one", "two", "three"})
    monkeypatch.setattr(latcast.kernels.rules, "_own_rules", lambda: {"one", "two", "three"})

    with pytest.raises(BundleError, match=r"^one: rules that extend themselves: two -> three -> two$"):
        load_rules("one")


@pytest.mark.parametrize(
    ("unit", "kind"),
    [
        ("cpu1", "cpu"), ("cpu8+sse42", "cpu"), ("2large", "cpu"), ("4small", "cpu"), ("2large+3medium", "cpu"),
        ("gpu", "gpu"), ("gpu+b256", "gpu"), ("webgpu", "webgpu"), ("wasm4", "wasm"),
    ],
)  # fmt: skip
def test_core_sets_are_processors_and_qualifiers_do_not_count(unit: str, kind: str) -> None:
    assert unit_kind(unit) == kind


@pytest.mark.parametrize(
    ("platform", "file", "selection"),
    [
        ("local/onnxruntime-1.31/cpu1/fp32", "onnxruntime", ""),
        ("local/onnxruntime-1.31/cpu4/int8", "onnxruntime-int8", ""),
        ("pixel4/tflite-2.10/2large/fp32", "tflite", ""),
        ("pixel4/tflite-2.10/2large/int8", "tflite", ""),
        ("pixel4/tflite-2.10/gpu/fp16", "tflite-gpu", "tflite_gpu:adreno6xx"),
        ("a03s/tflite-2.10/gpu/fp32", "tflite-gpu", "tflite_gpu:powervr"),
        ("pixel4/litert-2.1/gpu/fp16", "tflite-gpu", "tflite_gpu:adreno6xx"),
        ("iphone7/tflite-2.10/gpu+b8/fp16", "tflite-gpu-apple", "tflite_gpu:apple"),
        ("s10/pytorch-2.0/4small/fp32", "pytorch", ""),
        ("s10/pytorch-2.0/4small/int8", "pytorch-int8", ""),
        ("s10/pytorch-2.0/gpu/fp16", "pytorch-gpu", "pytorch_vulkan:mali"),
        ("iphonexs/pytorch-2.0/gpu/fp16", "pytorch-gpu-apple", "pytorch_metal:apple"),
        ("local/ncnn-1.0/gpu/fp32", "ncnn", ""),
        ("local/ncnn-1.0/cpu4/int8", "ncnn", ""),
        ("local/ncnn-1.0/cpu4/fp32", "ncnn-cpu-fp32", "ncnn"),
        ("local/openvino-2026.4/cpu1/fp32", "openvino-cpu-fp32", "openvino"),
        ("local/openvino-2026.4/cpu1+avx512/fp32", "openvino-cpu-fp32", "openvino"),
        ("local/openvino-2026.4/cpu1+avx2/fp32", "openvino-cpu-avx2-fp32", ""),
        ("local/openvino-2026.4/cpu1+sse42/fp32", "openvino-cpu-avx2-fp32", ""),
        ("local/openvino-2026.4/cpu1+avx2/int8", "openvino-cpu-avx2-int8", ""),
        ("local/onnxruntime-1.31/cpu1+avx2/fp32", "onnxruntime-cpu-avx2-fp32", ""),
        ("local/onnxruntime-1.31/cpu2+sse42/fp32", "onnxruntime-cpu-avx2-fp32", ""),
        ("local/onnxruntime-1.31/cpu1+avx512/fp32", "onnxruntime-cpu-avx512-fp32", ""),
        ("local/openvino-2026.4/cpu1/int8", "openvino-cpu-int8", "openvino_int8"),
        ("local/openvino-2026.4/gpu/fp32", "openvino", ""),
    ],
)
def test_a_platform_gets_the_most_special_rules_and_the_selection_of_its_gpu(platform: str, file: str, selection: str) -> None:
    found = platform_rules(Platform.parse(platform))

    assert found == replace(load_rules(file), selection=selection)


@pytest.mark.parametrize(
    ("unit", "flags", "known"),
    [
        ("cpu1", "sse4_2 avx avx2 fma avx512f avx512bw avx512dq avx512vl", "avx512"),
        ("cpu1", "sse4_2 avx avx2 fma avx512f", "avx2"),
        ("cpu1", "sse4_2 avx avx2", "avx"),
        ("cpu1+avx", "sse4_2 avx avx2 fma", "avx"),
        ("cpu1+b8", "sse4_2", "sse42"),
        ("cpu4", "neon asimd", ""),
        ("cpu4", "", ""),
    ],
)
def test_the_newest_instruction_set_follows_from_the_processors_flags_unless_the_unit_caps_it(
    unit: str, flags: str, known: str
) -> None:
    assert instruction_set(unit, flags) == known


def test_openvino_on_a_processor_of_which_nothing_is_known_gets_the_rules_of_one_with_avx512() -> None:
    known = "sse4_2 avx avx2 fma avx512f avx512bw avx512dq avx512vl"

    assert rules_for("openvino", "fp32") == rules_for("openvino", "fp32", cpu_flags=known)
    assert rules_for("openvino", "fp32") != rules_for("openvino", "fp32", cpu_flags="avx2 fma")


def test_the_gpu_family_of_a_new_device_can_be_named() -> None:
    new = Platform.parse("phone/tflite-2.10/gpu/fp16")

    assert platform_rules(new, gpu_family="amd").selection == "tflite_gpu:amd"
    assert rules_for("pytorch", "fp16", "gpu", gpu_family="apple").selection == "pytorch_metal:apple"
    # A named family counts more than the device's.
    assert rules_for("tflite", "fp16", "gpu", "pixel4", "mali").selection == "tflite_gpu:mali"


def test_a_gpu_that_nothing_tells_takes_the_path_of_most_and_says_so() -> None:
    rules = rules_for("tflite", "fp16", "gpu", "somephone")
    assert rules.selection == "tflite_gpu:other"
    assert rules.assumed.startswith("which GPU 'somephone' has is not known")
    assert "--gpu-family" in rules.assumed
    assert FusionRules.from_json(rules.to_json()) == rules
    assert rules_for("pytorch", "fp16", "gpu").assumed.startswith("which GPU it is is not known")
    assert rules_for("tflite", "fp16", "gpu", "pixel4").assumed == ""
    with pytest.raises(UnknownNameError, match="no GPU family is called 'adren'; known: adreno"):
        rules_for("tflite", "fp16", "gpu", "pixel4", "adren")


def test_shipped_rules_leave_the_gpu_family_open() -> None:
    selections = {load_rules(name).selection for name in shipped_rules()}

    assert selections == {"", *SELECTIONS.names()}


IMAGE = (1, 8, 4, 4)


def dense_block(b: GraphBuilder) -> str:
    x = b.input(IMAGE)
    y = b.relu(b.batch_norm(b.concat([x, b.conv(x, 8, 1)], axis=1)))
    return b.conv(b.relu(b.conv(y, 4, 3)), 4, 3)


def relus(b: GraphBuilder) -> str:
    """A ReLU behind a sum and one behind a concatenation."""
    x = b.input(IMAGE)
    return b.relu(b.concat([x, b.relu(b.add(x, b.input(IMAGE)))]))


def upsampling(b: GraphBuilder) -> str:
    attributes = {"strides": (2, 2), "kernel_shape": (2, 2)}
    return b.relu(b.batch_norm(b.op("ConvTranspose", [b.input(IMAGE), b.weight((8, 8, 2, 2))], attributes)[0]))


def elementwise_row(b: GraphBuilder) -> str:
    x = b.input(IMAGE)
    y = b.op("Tanh", [b.add(b.mul(x, b.constant(2.0, dtype="float32")), x)])[0]
    return b.concat([b.sub(y, x), y])


def two_sums(b: GraphBuilder) -> str:
    x = b.input(IMAGE)
    return b.add(b.add(b.conv(x, 8, 3), x), b.max_pool(x, 3, 1, 1))


def product(shape: tuple[int, ...], order: tuple[int, ...]) -> Callable[[GraphBuilder], str]:
    return lambda b: b.matmul(x := b.input(shape), b.transpose(x, order))


@pytest.mark.parametrize(
    ("runtime", "build", "in_fp32", "in_int8"),
    [
        # A normalisation before a convolution is part of how OpenVINO quantises its input.
        (
            "openvino", dense_block, ["Conv", "Concat", "BatchNormalization+Relu", "Conv+Relu", "Conv"],
            ["Conv", "Concat", "BatchNormalization+Relu+Conv+Relu", "Conv"],
        ),
        # A row of elementwise operators is one kernel, but not over a second reader; a convolution takes one sum in.
        ("openvino", elementwise_row, ["Mul+Add+Tanh", "Sub", "Concat"], None),
        ("openvino", two_sums, ["Conv+Add", "MaxPool", "Add"], None),
        # Products read operands that are transposed in their last axes alone.
        ("openvino", product((2, 4, 8, 16), (0, 1, 3, 2)), ["MatMul"], ["MatMul"]),
        ("openvino", product((2, 8, 8, 8), (0, 2, 1, 3)), ["Transpose", "MatMul"], ["Transpose", "MatMul"]),
        ("openvino", lambda b: b.relu(b.linear(b.input((1, 16, 8)), 4)), ["MatMul+Add+Relu"], None),
        ("openvino", lambda b: b.relu(b.linear(b.input((1, 4, 4, 8)), 4)), ["MatMul+Add+Relu"], ["MatMul", "Add+Relu"]),
        # LiteRT looks 8-bit functions of one value up in a table; a sum carries its ReLU.
        ("litert", lambda b: b.mul(x := b.input(IMAGE), b.sigmoid(x)), ["Sigmoid", "Mul"], ["Sigmoid+Mul"]),
        ("litert", relus, ["Add", "Relu", "Concat", "Relu"], ["Add+Relu", "Concat", "Relu"]),
        # PyTorch has a kernel of SiLU, but none for integers.
        ("pytorch", lambda b: b.silu(b.input(IMAGE)), ["Sigmoid+Mul"], ["Sigmoid", "Mul"]),
        ("litert", upsampling, ["ConvTranspose+BatchNormalization+Relu"], None),
    ],
)  # fmt: skip
def test_shipped_rules_fuse_what_the_runtime_fuses(
    runtime: str, build: Callable[[GraphBuilder], str], in_fp32: list[str], in_int8: list[str] | None
) -> None:
    for precision, expected in (("fp32", in_fp32), ("int8", in_fp32 if in_int8 is None else in_int8)):
        b = GraphBuilder("fused")
        found = find_kernels(b.finish(build(b)), rules_for(runtime, precision))
        assert ["+".join(each.operators) for each in found if each.nodes and not each.free] == expected, precision


@pytest.mark.parametrize(("shape", "expected"), [((1, 16, 8), "layer_norm"), ((1, 4, 4, 8), "layer_norm.of_images")])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_openvino_normalises_rows_of_four_axes_by_other_kernels(precision: str, shape: tuple[int, ...], expected: str) -> None:
    b = GraphBuilder("norm")
    x = b.input(shape)

    (kernel,) = find_kernels(b.finish(b.layer_norm(x)), rules_for("openvino", precision))

    assert (kernel.kernel_type, kernel.configuration[:2]) == (expected, (16, 8))


def test_pytorchs_int8_computes_what_qnnpack_lacks_between_conversions() -> None:
    b = GraphBuilder("mixed")
    x = b.relu(b.batch_norm(b.conv(b.input((1, 8, 16, 16)), 8)))  # folded into the convolution
    x = b.mul(b.activation(x, "relu6"), b.conv(x, 8))
    x = b.add(b.activation(x, "gelu"), b.sigmoid(b.conv(x, 8)))
    graph = b.finish(b.relu(b.batch_norm(x)))

    kernels = find_kernels(graph, load_rules("pytorch-int8"))

    assert sorted(kernel.kernel_type for kernel in kernels if kernel.kernel_type != "conv") == [
        "activation", "activation.floating", "activation.floating", "arithmetic", "arithmetic.floating", "batch_norm.floating",
    ]  # fmt: skip
