"""Rules of delegates as JSON, and the conditions in them."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import onnx
import pytest

from latcast.errors import BundleError, UnknownNameError
from latcast.graph.builder import GraphBuilder
from latcast.graph.importers import load_graph
from latcast.graph.ir import Graph, Node
from latcast.graph.operators.table import OPERATORS
from latcast.graph.writers.onnx_qdq import to_qdq
from latcast.kernels import delegates
from latcast.kernels.delegates import (
    ANY_OPERATOR,
    CONDITIONS,
    Delegate,
    OperatorRule,
    delegate_of,
    load_delegate,
    shipped_delegates,
    version_number,
)
from latcast.kernels.kernel import operator_class
from latcast.kernels.partitioning import partition
from latcast.records import PUBLISHED_PRECISIONS, Platform
from latcast.registry import Registry
from latcast.spaces.catalogue import build, model
from latcast.spaces.pytorchcv import reference_of, shipped_names

FOLDER = Path(str(resources.files("latcast.kernels").joinpath("delegates")))
SHIPPED = shipped_delegates()

PLATFORMS = {
    "pixel4/tflite-2.10/gpu/fp16": "tflite-gpu",
    "pixel4/tflite-2.10/npu+nnapi-30/int8": "tflite-nnapi",
    "galaxy-s25/tflite-2.17.0/npu+qairt-2.42.0/fp16": "tflite-qnn",
    "galaxy-s25/onnxruntime-1.23.0/npu+onnx+qairt-2.37.1/w8a16": "onnxruntime-qnn",
    "galaxy-s25/onnxruntime-1.23.0/npu+precompiled_qnn_onnx+qairt-2.37.1/fp16": "qnn",
    "galaxy-s25/qairt-2.42.0/npu+qnn_dlc/int8": "qnn",
    "iphone15/coreml-8.0/npu/fp16": "coreml",
    "iphone15/onnxruntime-1.23/npu+coreml/fp16": "onnxruntime-coreml",
    "rk3588-board/rknpu2-2.3.2/npu+rknn/int8": "rknn",
    "rz-v2m-evk/drp-ai-tvm-2.4.0/npu/fp16": "drp-ai-tvm",
    "imx93-evk/tflite-2.14/npu+ethos-u65/int8": "ethos-u",
    "edge-tpu/tflite-unstated/npu/int8": "edgetpu",
    "coral-dev-board/tflite-unstated/npu/int8": "edgetpu",
}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_rules_name_known_operators_ranks_and_classes(name: str) -> None:
    classes = {
        operator_class(graph, node) for graph in (build(model("vit_base_16")), build(model("shufflenet_v2_x1_0")))
        for node in graph.nodes
    } | {"grouped_conv"}  # fmt: skip
    delegate = load_delegate(name)
    assert delegate.source
    for rule in (*delegate.takes, *delegate.refuses):
        types = {each for each in rule.operators if not each[0].islower()} - {ANY_OPERATOR}
        assert types | set(rule.when.get("alone", ())) <= set(OPERATORS.names())
        assert set(rule.when.get("precisions", ())) <= set(PUBLISHED_PRECISIONS)
        assert set(rule.when.get("classes", ())) <= classes
        least, most = rule.when.get("ranks", (0, 8))
        assert 0 <= least <= most <= 8


class TestPlatforms:
    @pytest.mark.parametrize(("platform", "name"), PLATFORMS.items())
    def test_are_served_by_their_delegate(self, platform: str, name: str) -> None:
        found = delegate_of(Platform.parse(platform))
        assert found is not None
        assert (found.name, found.precision) == (name, platform.rpartition("/")[2])

    @pytest.mark.parametrize(
        "platform",
        [
            "local/onnxruntime-1.31/cpu1/fp32",
            "local/tflite-2.17/npu/int8",
            "pixel4/tflite-2.10/4small/int8",
            "h8/hailo-dfc-3/npu/int8",
        ],
    )
    def test_without_rules_have_none(self, platform: str) -> None:
        assert delegate_of(Platform.parse(platform)) is None

    def test_tell_the_version_of_the_delegate_itself(self) -> None:
        def takes(unit: str) -> set[str]:
            found = delegate_of(Platform.parse(f"pixel4/tflite-2.10/{unit}/fp32"))
            assert found is not None
            return set().union(*(rule.operators for rule in found.takes))

        assert {"Conv", "Relu"} <= takes("npu+nnapi-27") <= takes("npu+nnapi-29") < takes("npu+nnapi-31")
        assert "TopK" not in takes("npu+nnapi-28")
        assert "TopK" in takes("npu+nnapi-29")

    def test_unknown_delegates_are_refused_with_the_known_ones(self) -> None:
        with pytest.raises(UnknownNameError, match=r"no delegate is called 'nothing'; known: .*tflite-gpu"):
            load_delegate("nothing")


def test_a_plugged_in_delegate_serves_the_platforms_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    registry: Registry[Delegate] = Registry("delegate", {}, group="latcast.nothing")
    registry.register("mine", Delegate("mine", "mine", "NPU", (), platforms=("*/mine-*/npu/*",)))
    monkeypatch.setattr(delegates, "DELEGATES", registry)
    found = delegate_of(Platform.parse("board/mine-1.0/npu/int8"))

    assert found is not None
    assert (found.name, found.precision, found.device) == ("mine", "int8", "board")


def test_a_rule_holds_from_its_first_version_until_the_one_that_ends_it() -> None:
    rule = OperatorRule(frozenset({"Conv"}), {}, since=(2, 3), until=(2, 10))

    assert [rule.of_version(version_number(text)) for text in ("2.2", "2.3", "2.9.1", "2.10", "nightly")] == [
        False, True, True, False, True,
    ]  # fmt: skip


def graph_of_one(
    op_type: str, shape: tuple[int, ...], attributes: dict[str, Any] | None = None, *constants: Any
) -> tuple[Graph, Node]:
    b = GraphBuilder(op_type)
    inputs = [b.input(shape), *(b.constant(value) for value in constants)]
    graph = b.finish(*b.op(op_type, inputs, attributes))
    return graph, graph.nodes[0]


DELEGATE = Delegate("example", "an example", "GPU", ())


class TestConditions:
    @pytest.mark.parametrize(
        ("condition", "wanted", "holds"),
        [
            ("ranks", [4, 4], True), ("ranks", [2, 3], False), ("ranks", [5, 6], False),
            ("dtypes", ["float32"], True), ("dtypes", ["int8"], False),
            ("quantised", False, True), ("quantised", True, False),
            ("axes", [[2, 3]], True), ("axes", [[1]], False),
            ("attributes", {"keepdims": [1]}, True), ("attributes", {"keepdims": [None, 0]}, False),
            ("attributes", {"noop_with_empty_axes": [None]}, True),
            ("constant_inputs", [1], True), ("constant_inputs", [0], False), ("constant_inputs", [7], True),
            ("most_activations", 1, True), ("most_activations", 0, False),
            ("most_elements", 3, True), ("most_elements", 2, False), ("least_plane", 1, True), ("least_plane", 65, False),
            ("classes", ["reduce_mean"], True), ("classes", ["conv"], False),
        ],
    )  # fmt: skip
    def test_look_at_the_node(self, condition: str, wanted: Any, holds: bool) -> None:
        graph, node = graph_of_one("ReduceMean", (1, 3, 8, 8), {"keepdims": 1}, [-1, 2])

        assert CONDITIONS[condition](graph, node, wanted) is holds

    @pytest.mark.parametrize(
        ("when", "holds"),
        [({"precisions": ["int8", "w8a16"]}, True), ({"precisions": ["fp16"]}, False), ({"devices": ["qcm6690*"]}, True),
         ({"devices": ["pixel*"]}, False), ({"devices": ["*"], "precisions": ["fp16"]}, False)],
    )  # fmt: skip
    def test_of_a_platform_are_decided_for_all_operators_at_once(self, when: dict[str, Any], holds: bool) -> None:
        graph, node = graph_of_one("Softmax", (1, 4, 8), {"axis": -1})
        delegate = replace(DELEGATE, takes=(OperatorRule(frozenset({"Softmax"}), when),))

        there, elsewhere = (delegate.at(precision="int8", device=device) for device in ("qcm6690-mtp", "qcm6690-mtp.2"))

        assert there.takes_operator(graph, node) is (True if holds else None)
        assert there.key == elsewhere.key

    def test_an_axis_is_counted_from_the_front_and_all_are_meant_where_none_is_named(self) -> None:
        softmax = graph_of_one("Softmax", (1, 4, 8), {"axis": -1})
        everything = graph_of_one("ReduceMean", (1, 4, 8))

        assert CONDITIONS["axes"](*softmax, [[2]])
        assert CONDITIONS["axes"](*everything, [[0, 1, 2]])

    def test_a_normalisation_is_alone_unless_a_convolution_of_its_own_comes_before_it(self) -> None:
        b = GraphBuilder("norms")
        x = b.input((1, 8, 4, 4))
        first = b.batch_norm(x)
        folded = b.batch_norm(b.conv(first, 8, 3))
        shared = b.conv(folded, 8, 3)
        graph = b.finish(b.add(b.batch_norm(shared), shared))
        norms = graph.nodes_of_type["BatchNormalization"]

        assert [CONDITIONS["alone"](graph, node, ["Conv"]) for node in norms] == [True, False, True]

    def test_an_activation_behind_a_normalisation_that_is_folded_is_folded_into_the_convolution_too(self) -> None:
        b = GraphBuilder("clips")
        x = b.input((1, 8, 4, 4))
        after_convolution = b.relu6(b.batch_norm(b.conv(x, 8, 3)))
        graph = b.finish(b.relu6(b.batch_norm(b.add(after_convolution, x))))
        clips = graph.nodes_of_type["Clip"]

        assert [CONDITIONS["alone"](graph, node, ["Conv"]) for node in clips] == [False, True]

    def test_a_refusal_wins_and_an_operator_without_a_rule_is_not_taken(self) -> None:
        graph, node = graph_of_one("Softmax", (1, 4, 8), {"axis": -1})
        rule = OperatorRule(frozenset({"Softmax"}), {})

        assert DELEGATE.takes_operator(graph, node) is None
        assert replace(DELEGATE, takes=(rule,)).takes_operator(graph, node) is True
        assert replace(DELEGATE, takes=(rule,), refuses=(rule,)).takes_operator(graph, node) is False
        only_images = OperatorRule(frozenset({"Softmax"}), {"ranks": [4, 4]})
        assert replace(DELEGATE, takes=(rule,), refuses=(only_images,)).takes_operator(graph, node) is True
        everything = OperatorRule(frozenset({ANY_OPERATOR}), {})
        assert replace(DELEGATE, takes=(everything,)).takes_operator(graph, node) is True


GOOD = {
    "schema": 1, "title": "a", "unit": "GPU", "platforms": [], "source": "s", "confidence": "low", "partitions": {},
    "crossing": {"synchronisation_ms": 1, "copy_gb_per_s": 1}, "takes": [{"operators": ["Conv"]}],
}  # fmt: skip


class TestBrokenFiles:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"schema": 2}, "found schema 2, expected 1 or older"),
            ({"takes": [{"operators": ["Conv"], "when": {"colour": 1}}]}, "no condition is called 'colour'; known: alone"),
            ({"takes": [{"operators": ["Conv"], "confidence": "sure"}]}, "confidence 'sure'; expected one of documented"),
            ({"takes": [{"operators": "Conv"}]}, "a rule's operators are 'Conv', expected a list"),
            ({"takes": [{"operators": ["nogelu"]}]}, "no idiom is called 'nogelu'"),
            ({"takes": 3}, "no delegate of schema 1"),
            ({"crossing": {}}, "no delegate of schema 1: KeyError"),
        ],
    )
    def test_are_refused_with_what_is_wrong(self, change: dict[str, Any], message: str) -> None:
        with pytest.raises(BundleError, match=message):
            Delegate.from_json("example", {**GOOD, **change})


@pytest.mark.parametrize("name", ["tflite-qnn", "qnn", "onnxruntime-qnn"])
def test_nothing_in_floating_point_runs_on_an_npu_of_integers_alone(name: str) -> None:
    graph = build(model("resnet18"))
    half = load_delegate(name).at(precision="fp16", device="dragonwing-q-6690-mtp")

    assert partition(graph, half).partitions == ()
    whole = load_delegate(name).at(precision="fp16", device="galaxy-s25")
    assert partition(graph, whole).on_cpu == frozenset()


QUANTISED_FILE = load_graph(onnx.load_from_string(to_qdq(build(model("mobilenet_v3_small")))))


@pytest.mark.parametrize("name", ["tflite-gpu", "tflite-nnapi", "tflite-xnnpack", "tflite-qnn", "onnxruntime-qnn", "qnn"])
def test_a_quantised_file_runs_whole_on_delegates_that_take_its_operators(name: str) -> None:
    assert partition(QUANTISED_FILE, load_delegate(name).at(precision="int8")).on_cpu == frozenset()


@pytest.mark.parametrize("name", ["coreml", "onnxruntime-coreml"])
def test_a_quantised_file_runs_on_the_cpu_beside_core_ml(name: str) -> None:
    assert partition(QUANTISED_FILE, load_delegate(name).at(precision="fp16")).partitions == ()


class TestTfliteGpu:
    GPU = delegate_of(Platform.parse("pixel4/tflite-2.10/gpu/fp16"))

    @pytest.mark.parametrize(
        "name", ["resnet50", "mobilenet_v2", "mobilenet_v3_large", "densenet121", "shufflenet_v2_x1_0", "googlenet"]
    )
    def test_convolutional_networks_run_on_the_gpu_whole(self, name: str) -> None:
        assert self.GPU is not None
        assert partition(build(model(name)), self.GPU).sentence() == ""

    def test_the_networks_that_were_recorded_on_phones_gpus_are_taken_whole(self) -> None:
        """Li et al. (PEVA 2024) recorded the kernels of these networks on the GPUs of six phones."""
        assert self.GPU is not None
        names = shipped_names()

        assert len(names) == 78
        assert [name for name in names if partition(build(reference_of(name)), self.GPU).on_cpu] == []

    def test_a_vision_transformer_falls_apart_at_its_gelus_and_one_partition_stays(self) -> None:
        assert self.GPU is not None
        found = partition(build(model("vit_base_16")), self.GPU)

        assert ("Erf", 12) in found.refused
        assert len(found.partitions) == 1


class TestDrpAiTvm:
    """The calls of EdgeCortix's own tests, with what they expect (tutorials/test_pattern_table_operator.py)."""

    DRP = delegate_of(Platform.parse("rz-v2m-evk/drp-ai-tvm-2.4.0/npu/fp16"))

    @pytest.mark.parametrize(
        ("side", "channels", "groups", "taken"),
        [(18, 32, 1, True), (18, 32, 32, True), (4, 32, 1, None), (18, 32, 4, False)],
    )
    def test_takes_convolutions_of_large_maps_but_in_groups(
        self, side: int, channels: int, groups: int, taken: bool | None
    ) -> None:
        b = GraphBuilder("one")
        graph = b.finish(b.conv(b.input((1, channels, side, side)), 64, 3, groups=groups))

        assert self.DRP is not None
        assert self.DRP.takes_operator(graph, graph.nodes[0]) is taken

    def test_a_residual_network_runs_whole_and_one_with_groups_falls_apart(self) -> None:
        assert self.DRP is not None

        assert partition(build(model("resnet50")), self.DRP).sentence() == ""
        assert partition(build(model("resnext50_32x4d")), self.DRP).refused == (("Conv", 16),)

    def test_larger_depthwise_kernels_run_on_the_second_generation_alone(self) -> None:
        """MnasNet has three stages with kernels of 5x5, of three, three and four blocks."""
        graph = build(model("mnasnet1_0"))
        second = delegate_of(Platform.parse("rz-v2h-evk/drp-ai-tvm-2.4.0/npu/int8"))

        assert self.DRP is not None
        assert second is not None
        assert partition(graph, self.DRP).refused == (("Conv", 3 + 3 + 4),)
        assert partition(graph, second).refused == ()


def test_ethos_u_runs_convolutions_whole_and_leaves_shuffles_of_channels_to_the_cpu() -> None:
    """ShuffleNetV2 has 4, 8 and 4 blocks, each with a transposition of five dimensions between two reshapes."""
    ethos = delegate_of(Platform.parse("imx93-evk/tflite-2.14/npu+ethos-u65/int8"))
    assert ethos is not None

    assert partition(build(model("mobilenet_v3_small")), ethos).on_cpu == frozenset()
    assert partition(build(model("shufflenet_v2_x1_0")), ethos).refused == (("Reshape", 2 * 16), ("Transpose", 4 + 8 + 4))


def test_an_edge_tpu_runs_all_until_the_first_operator_that_it_does_not_take() -> None:
    """The first of ShuffleNetV2's transpositions of five dimensions is in its first block, before all larger partitions."""
    tpu = delegate_of(Platform.parse("coral-dev-board/tflite-unstated/npu/int8"))
    assert tpu is not None

    assert partition(build(model("efficientnet_lite0")), tpu).on_cpu == frozenset()
    found = partition(build(model("shufflenet_v2_x1_0")), tpu)
    assert [segment.unit for segment in found.segments] == ["NPU", "CPU"]
    assert len(found.on_cpu) > 0.9 * found.operators


def test_layer_normalisation_of_a_quantised_network_falls_back_under_onnxruntime_and_qnn() -> None:
    graph = build(model("vit_base_16"))
    platform = Platform.parse("galaxy-s25/onnxruntime-1.23.0/npu+onnx+qairt-2.37.1/fp16")
    half, quantised = (delegate_of(replace(platform, precision=precision)) for precision in ("fp16", "int8"))

    assert half is not None
    assert quantised is not None
    assert partition(graph, half).on_cpu == frozenset()
    assert partition(graph, quantised).refused == (("LayerNormalization", 25),)
