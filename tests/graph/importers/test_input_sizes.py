"""Open input sizes: one refusal that suggests sizes for all, with which the file can be read; and tensors without elements."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from latcast.errors import DynamicShapeError, ModelError
from latcast.graph.importers import load_graph
from latcast.graph.operators import graph_macs
from latcast.networks import parse_shapes
from tests.graph.importers import tflite_models
from tests.graph.importers.onnx_models import integers, model, node, value, zeros

INT64 = onnx.TensorProto.INT64


def suggested(source: object, shapes: Mapping[str, Sequence[int]] | None = None) -> dict[str, tuple[int, ...]]:
    """Return the sizes that a refusal suggests, as a shell takes them from it; the model is read with them."""
    with pytest.raises(DynamicShapeError) as caught:
        load_graph(source, shapes=shapes)
    words = shlex.split(str(caught.value).partition("give it: ")[2] or str(caught.value).partition("give them: ")[2])
    assert words[::2] == ["--shape"] * (len(words) // 2)
    found = parse_shapes(words[1::2])
    assert load_graph(source, shapes={**(shapes or {}), **found}).nodes
    return found


def network(nodes: Sequence[onnx.NodeProto], inputs: Any, stored: Mapping[str, np.ndarray[Any, Any]] | None = None) -> Any:
    return model(nodes, inputs, [nodes[-1].output[0]], stored, opset=17)


# Which sizes are suggested


def test_all_inputs_are_named_at_once_and_a_symbol_has_one_size() -> None:
    nodes = [
        node("Gather", ["table", "ids"], ["x"]),
        node("Cast", ["mask"], ["m"], to=1),
        node("Unsqueeze", ["m", "two"], ["column"]),
        node("Mul", ["x", "column"], ["y"]),
    ]
    inputs = [value(name, ("batch", "sequence"), INT64) for name in ("ids", "mask")]
    source = network(nodes, inputs, {"table": zeros(100, 8), "two": integers(2)})

    assert suggested(source) == {"ids": (1, 128), "mask": (1, 128)}
    assert suggested(source, {"ids": (2, 7)}) == {"mask": (2, 7)}


def test_sizes_that_weights_demand_are_found() -> None:
    conv = [node("Conv", ["x", "w"], ["y"])]
    linear = [node("MatMul", ["x", "w"], ["y"])]
    position = [node("Add", ["x", "p"], ["y"])]
    lstm = [node("LSTM", ["x", "w", "r", "", "", "h", "h"], ["y"], hidden_size=32)]

    assert suggested(network(conv, {"x": (None, None, None, None)}, {"w": zeros(8, 1, 3, 3)})) == {"x": (1, 1, 224, 224)}
    assert suggested(network(linear, {"x": ("batch", "features")}, {"w": zeros(13, 4)})) == {"x": (1, 13)}
    assert suggested(network(position, {"x": (1, "sequence", 64)}, {"p": zeros(1, 77, 64)})) == {"x": (1, 77, 64)}
    states = {"x": ("steps", "batch", "features"), "h": (1, "batch", 32)}
    assert suggested(network(lstm, states, {"w": zeros(1, 128, 80), "r": zeros(1, 128, 32)}))["h"] == (1, 1, 32)


@pytest.mark.parametrize("side", [28, 64, 105])
def test_the_side_of_an_image_that_a_fixed_flattening_demands_is_found(side: int) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["a"], strides=[2, 2]),
        node("Flatten", ["a"], ["f"]),
        node("Gemm", ["f", "g"], ["y"]),
    ]
    rows = (side - 3) // 2 + 1
    source = network(nodes, {"x": ("batch", 3, "height", "width")}, {"w": zeros(4, 3, 3, 3), "g": zeros(4 * rows * rows, 10)})

    _, _, height, width = suggested(source)["x"]

    assert ((height - 3) // 2 + 1) * ((width - 3) // 2 + 1) == rows * rows


@pytest.mark.parametrize("total", ["past_length + length", "total_length", None])
def test_the_mask_of_a_decoder_covers_the_past_and_what_is_new(total: str | None) -> None:
    nodes = [
        node("Concat", ["past", "k"], ["keys"], axis=2),
        node("Transpose", ["keys"], ["t"], perm=[0, 1, 3, 2]),
        node("MatMul", ["k", "t"], ["s"]),
        node("Add", ["s", "mask"], ["y"]),
    ]
    inputs = {"mask": ("batch", 1, 1, total), "past": ("batch", 4, "past_length", 16), "k": ("batch", 4, "length", 16)}

    found = suggested(network(nodes, inputs))

    assert found["mask"][3] == found["past"][2] + found["k"][2] > 2


def test_an_image_whose_channels_come_last_is_seen_by_its_convolution() -> None:
    nodes = [node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), node("Conv", ["t", "w"], ["y"])]

    for channels in (3, None):
        source = network(nodes, {"x": (None, None, None, channels)}, {"w": zeros(8, 3, 3, 3)})
        assert suggested(source) == {"x": (1, 224, 224, 3)}


def test_an_input_of_unknown_rank_gets_one() -> None:
    assert suggested(network([node("Gemm", ["x", "w"], ["y"])], {"x": None}, {"w": zeros(13, 4)})) == {"x": (1, 13)}


def test_a_name_is_quoted_for_a_shell() -> None:
    assert suggested(network([node("Relu", ["it's $x 1"], ["y"])], {"it's $x 1": (None, 8)})) == {"it's $x 1": (1, 8)}


def test_the_many_caches_of_a_language_model_fit_into_one_message() -> None:
    names = [f"past_key_values.{layer}.{part}" for layer in range(32) for part in ("key", "value")]
    inputs = dict.fromkeys(names, ("batch_size", 8, "past_sequence_length", 128))

    assert len(suggested(network([node("Sum", names, ["y"])], inputs))) == 64


def test_a_suggestion_that_cannot_be_read_is_not_printed() -> None:
    source = network([node("Foo", ["x"], ["z"], domain="acme"), node("Relu", ["z"], ["y"])], {"x": ("batch", 3)})

    with pytest.raises(
        DynamicShapeError, match=r"input 'x' has dimension 0 'batch' without a size.*none that can be read.*Foo"
    ) as caught:
        load_graph(source)
    assert "--shape x=" not in str(caught.value)


# Zeros


def test_a_search_ends_by_the_nodes_that_it_read(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [*(node("Relu", [f"x{i}"], [f"x{i + 1}"]) for i in range(3276)), node("MatMul", ["x3276", "w"], ["y"])]
    source = network(nodes, {"x0": ("batch", 5)}, {"w": zeros(7, 4)})
    monkeypatch.setattr("latcast.graph.importers.open_sizes._MOST_READINGS", 0.25)

    with pytest.raises(DynamicShapeError, match="in 3 tries"):  # of a tenth of the 32,768 nodes that are read of one file
        load_graph(source)


def test_a_stored_zero_is_an_unknown_size_where_the_network_would_compute_nothing() -> None:
    conv = [node("Conv", ["x", "w"], ["y"])]

    assert suggested(network(conv, {"x": (0, 3, 0, 0)}, {"w": zeros(8, 3, 3, 3)})) == {"x": (1, 3, 224, 224)}


def attention(past: int | str) -> onnx.ModelProto:
    nodes = [
        node("Concat", ["past", "k"], ["keys"], axis=2),
        node("Transpose", ["keys"], ["t"], perm=[0, 1, 3, 2]),
        node("MatMul", ["k", "t"], ["s"]),
        node("MatMul", ["s", "keys"], ["y"]),
    ]
    return model(nodes, {"past": (1, 8, past, 64), "k": (1, 8, 16, 64)}, ["y", "keys"])


@pytest.mark.parametrize(("stored", "shapes"), [(0, None), ("past", {"past": (1, 8, 0, 64)})])
def test_an_empty_cache_costs_nothing(stored: int | str, shapes: dict[str, tuple[int, ...]] | None) -> None:
    graph = load_graph(attention(stored), shapes=shapes)

    assert [each.op_type for each in graph.nodes] == ["Transpose", "MatMul", "MatMul"]
    assert graph_macs(graph) == 2 * 8 * 16 * 16 * 64
    assert all(tensor.elements for tensor in graph.tensors.values())


def adapter() -> onnx.ModelProto:
    nodes = [
        node("MatMul", ["x", "down"], ["h"]),
        node("MatMul", ["h", "up"], ["d"]),
        node("MatMul", ["x", "w"], ["b"]),
        node("Add", ["b", "d"], ["y"]),
    ]
    inputs = [value("x", (1, 8)), value("down", (8, "rank")), value("up", ("rank", 4))]
    return model(nodes, inputs, ["y"], {"w": zeros(8, 4), "down": zeros(8, 0), "up": zeros(0, 4)})


def test_an_adapter_of_rank_0_costs_nothing_and_another_can_be_given() -> None:
    assert graph_macs(load_graph(adapter())) == 8 * 4

    graph = load_graph(adapter(), shapes={"down": (8, 4), "up": (4, 4)})
    assert graph.inputs == ("x", "down", "up")
    assert graph_macs(graph) == 8 * 4 + 8 * 4 + 4 * 4


@pytest.mark.parametrize("sizes", [(0, 8, 0), (0, 3, 5)])
def test_empty_parts_of_a_split_are_left_out(sizes: tuple[int, ...]) -> None:
    names = [f"part{index}" for index in range(len(sizes))]
    nodes = [node("Split", ["x", "s"], names, axis=1), node("Concat", names, ["y"], axis=1)]

    graph = load_graph(model(nodes, {"x": (2, 8)}, ["y"], {"s": integers(*sizes)}))

    assert graph.shape("y") == (2, 8)
    assert all(tensor.elements for tensor in graph.tensors.values())


# TFLite and ncnn


def tflite(signature: Sequence[int], shape: Sequence[int], folder: Path) -> Path:
    content = tflite_models.model(
        [
            (
                "CONV_2D",
                ["x", "w", "b"],
                ["y"],
                tflite_models.options("Conv2D", strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1),
            )
        ],
        {
            "x": tflite_models.Dynamic(shape, signature),
            "w": tflite_models.zeros(8, 3, 3, 3),
            "b": tflite_models.zeros(8),
            "y": tflite_models.Dynamic((*shape[:3], 8), (*signature[:3], 8)),
        },
        ["x"],
        ["y"],
    )
    return tflite_models.save(content, folder)


def test_open_sizes_of_a_tflite_file_are_asked_for_but_its_batch(tmp_path: Path) -> None:
    assert suggested(tflite((-1, -1, -1, 3), (1, 1, 1, 3), tmp_path)) == {"x": (1, 224, 224, 3)}
    assert load_graph(tflite((-1, 32, 32, 3), (1, 32, 32, 3), tmp_path)).shape("x") == (1, 3, 32, 32)


def test_sizes_that_a_tflite_file_was_resized_to_are_its_sizes(tmp_path: Path) -> None:
    assert load_graph(tflite((-1, -1, -1, 3), (1, 48, 64, 3), tmp_path)).shape("x") == (1, 3, 48, 64)


def ncnn(folder: Path, *lines: str) -> Path:
    path = folder / "network.param"
    path.write_text(f"7767517\n{len(lines)} {len(lines)}\n" + "\n".join(lines) + "\n")
    return path


def test_channels_and_positions_that_ncnn_layers_demand_are_found(tmp_path: Path) -> None:
    gray = ncnn(tmp_path, "Input data 0 1 data", "Convolution c 1 1 data y 0=8 1=3 4=1 5=1 6=72")
    assert suggested(gray) == {"data": (1, 1, 224, 224)}

    convolution = "Convolution c 1 1 in0 a 0=8 1=3 3=8 4=1 5=1 6=216"
    positions = ncnn(tmp_path, "Input in0 0 1 in0", convolution, "Reshape r 1 1 a y 0=1600 1=8")
    assert suggested(positions) == {"in0": (1, 3, 320, 320)}

    vector = ncnn(tmp_path, "Input x 0 1 x", "InnerProduct p 1 1 x y 0=10 1=1 2=640")
    assert np.prod(suggested(vector)["x"]) == 64


def test_noted_shapes_of_an_ncnn_input_are_its_sizes(tmp_path: Path) -> None:
    path = ncnn(tmp_path, "Input data 0 1 data -23330=4,3,227,113,3", "Convolution c 1 1 data y 0=8 1=3 4=1 5=1 6=216")

    assert graph_macs(load_graph(path)) == 227 * 113 * 216
    assert load_graph(path, shapes={"data": (1, 3, 32, 32)}).shape("y") == (1, 8, 32, 32)
    with pytest.raises(ModelError, match=r"has 4 dimensions, .*; the shape given for it has 2"):
        load_graph(path, shapes={"data": (1, 3)})


@pytest.mark.parametrize("op_type", ["MatMul", "Einsum"])
def test_a_product_over_an_empty_axis_is_zeros(op_type: str) -> None:
    attributes = {"equation": "ij,jk->ik"} if op_type == "Einsum" else {}
    nodes = [
        node(op_type, ["x", "a"], ["h"], **attributes),
        node(op_type, ["h", "b"], ["d"], **attributes),
        node("Add", ["x", "d"], ["y"]),
    ]

    graph = load_graph(model(nodes, {"x": (4, 4)}, ["y"], {"a": zeros(4, 0), "b": zeros(0, 4)}))

    assert [each.op_type for each in graph.nodes] == ["Add"]
