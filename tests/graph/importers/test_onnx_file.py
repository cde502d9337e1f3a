"""The reader that leaves the weights where they are agrees with the one that loads all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latcast.errors import ModelError
from latcast.graph import GraphBuilder
from latcast.graph.importers import load_graph, onnx_file
from latcast.graph.importers.onnx_file import KEPT_TENSOR_BYTES, read_without_weights
from latcast.graph.writers.onnx import to_onnx
from tests.graph.importers.onnx_models import model, node, save, zeros


def without_data(proto: onnx.ModelProto) -> onnx.ModelProto:
    """What the fast reader is to give, by way of protobuf itself."""
    for tensor in proto.graph.initializer:
        if tensor.ByteSize() > KEPT_TENSOR_BYTES:
            tensor.ClearField("raw_data")
    for entry in proto.graph.node:
        del entry.metadata_props[:]
    del proto.graph.value_info[:]
    return proto


def network(channels: int, layers: int) -> bytes:
    b = GraphBuilder("network")
    x = b.input((1, 3, 16, 16))
    for _ in range(layers):
        x = b.conv_bn(x, channels, 3)
    return to_onnx(b.finish(b.linear(b.flatten(x), 10)))


@settings(max_examples=15)
@given(channels=st.integers(1, 80), layers=st.integers(1, 3))
def test_all_but_large_tensors_is_read_as_protobuf_reads_it(
    tmp_path_factory: pytest.TempPathFactory, channels: int, layers: int
) -> None:
    path = tmp_path_factory.mktemp("models") / "model.onnx"
    path.write_bytes(network(channels, layers))

    assert read_without_weights(path) == without_data(onnx.load(path))


def test_large_tensors_lose_their_data_and_keep_name_shape_and_type(tmp_path: Path) -> None:
    proto = model(
        [node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "b"], ["y"])],
        {"x": (1, 100)},
        ["y"],
        {"w": zeros(100, 100), "b": zeros(100)},
    )

    large, small = read_without_weights(save(proto, tmp_path)).graph.initializer

    assert (large.name, list(large.dims), large.data_type, large.raw_data) == ("w", [100, 100], 1, b"")
    assert len(small.raw_data) == 400


def test_a_large_tensor_in_a_constant_node_loses_its_data(tmp_path: Path) -> None:
    constant = node("Constant", [], ["w"], value=onnx.numpy_helper.from_array(zeros(100, 100), "w"))
    proto = model([constant, node("MatMul", ["x", "w"], ["y"])], {"x": (1, 100)}, ["y"])
    path = save(proto, tmp_path)

    first, second = read_without_weights(path).graph.node

    assert list(first.attribute[0].t.dims) == [100, 100]
    assert first.attribute[0].t.raw_data == b""
    assert second == proto.graph.node[1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"import torch\nmodel = None\n", "is text that begins with 'import torch'"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
        (b"<!DOCTYPE html>\n<html></html>", "is text that begins with '<!DOCTYPE html>'"),
        (b"\x80\x02}q\x00.", "is not an ONNX model or is damaged"),
        (b"\x08\x08", "is not an ONNX model"),
        (bytes(range(256)) * 4, "is not an ONNX model"),
    ],
)
def test_a_file_that_is_not_a_model_is_refused_in_one_line_with_its_name(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "wrong.onnx"
    path.write_bytes(content)

    with pytest.raises(ModelError, match=words) as caught:
        read_without_weights(path)

    assert "wrong.onnx" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_truncated_file_is_called_truncated_wherever_it_was_cut(tmp_path: Path) -> None:
    whole = network(8, 2)
    path = tmp_path / "cut.onnx"
    rng = np.random.default_rng(0)
    for size in (4, len(whole) - 1, *rng.integers(20, len(whole) - 1, 40)):
        path.write_bytes(whole[: int(size)])

        with pytest.raises(ModelError, match=r"cut\.onnx' (is truncated|is not an ONNX model)"):
            read_without_weights(path)


def field(number: int, content: bytes) -> bytes:
    """A field of bytes, shorter than 2^28."""
    size = len(content)
    return bytes((*varint(number << 3 | 2), *varint(size))) + content


def varint(value: int) -> bytes:
    parts = [value >> 7 * place & 0x7F for place in range(max(1, -(-value.bit_length() // 7)))]
    return bytes((*(part | 0x80 for part in parts[:-1]), parts[-1]))


EMPTY = {"nodes": 1, "initializers": 5, "recorded shapes": 13, "inputs": 11}
"""Fields of a graph that hold messages."""


@pytest.mark.parametrize("where", [*EMPTY, "top", "functions", "attribute of a node", "texts", "graph in a graph", "numbers"])
def test_more_fields_than_a_network_has_are_refused_before_they_are_objects(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "MOST_FIELDS", 5000)
    many = {
        "top": b"\x78\x00" * 6000,
        "functions": field(25, b"") * 6000,
        "attribute of a node": field(7, field(1, field(5, b"") * 6000)),
        "texts": field(7, field(1, field(5, field(9, b"") * 6000))),
        "graph in a graph": field(7, field(1, field(5, field(6, field(5, b"") * 6000)))),
        "numbers": field(7, field(1, field(5, field(8, b"\x01" * 100_000)))),
        **{name: field(7, field(number, b"") * 6000) for name, number in EMPTY.items()},
    }[where]
    path = tmp_path / "many.onnx"
    path.write_bytes(b"\x08\x08" + many)

    with pytest.raises(ModelError, match=r"many\.onnx': it holds more than 5,000 fields"):
        read_without_weights(path)


def test_weights_of_a_large_network_do_not_count_as_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_file, "MOST_FIELDS", 5000)
    path = tmp_path / "large.onnx"
    path.write_bytes(network(80, 3))

    assert path.stat().st_size > 2 * 5000
    assert read_without_weights(path) == without_data(onnx.load(path))


def test_damaged_shapes_of_an_operator_that_is_not_known_are_refused(tmp_path: Path) -> None:
    proto = model([node("NotKnown", ["x"], ["y"], domain="mine")], {"x": (1, 3)}, ["y"], domains=["mine"])
    path = tmp_path / "x.onnx"
    # A type whose field of field number 1 is longer than what is left.
    path.write_bytes(proto.SerializeToString() + field(7, field(13, field(1, b"y") + b"\x12\x02\x0a\x7f")))

    with pytest.raises(ModelError, match=r"x\.onnx' is not an ONNX model or is damaged"):
        load_graph(path)


def test_a_name_that_is_not_text_is_refused(tmp_path: Path) -> None:
    content = model([node("Relu", ["x"], ["y"], name="name_of_it")], {"x": (1, 3)}, ["y"]).SerializeToString()
    path = tmp_path / "x.onnx"
    for part in (b"name_of_it", b"Relu"):
        path.write_bytes(content.replace(part, b"\xff" * len(part)))

        with pytest.raises(ModelError, match="is not UTF-8 text"):
            load_graph(path)
