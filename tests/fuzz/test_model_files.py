"""Model files with bytes or meaning changed: each is read and predicted, or refused in one printable line, within limits.

``LATCAST_FUZZ_CASES`` says how many cases all fuzz tests try together. A file that fails is kept where the message says.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from latcast.errors import LatcastError
from latcast.graph import Graph, GraphBuilder
from latcast.graph.importers import load_graph
from latcast.graph.writers.ncnn import to_ncnn
from latcast.graph.writers.onnx import to_onnx
from latcast.graph.writers.tflite import to_tflite
from tests.fuzz.limited import LimitedReader
from tests.fuzz.mutations import case_count, chance_of, mutated
from tests.fuzz.structured import changed_flatbuffer, changed_message
from tests.graph.importers.onnx_models import body, integers, model, node, value, zeros
from tests.graph.operator_cases import CALLS, Call, calls

fuzzed = settings(
    suppress_health_check=list(HealthCheck), max_examples=1, deadline=None, report_multiple_bugs=False, database=None
)

NUMBERS = (0, 1, -1, 2, 3, 5, 7, 64, 255, 4096, 65537, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
REALS = (0.0, -1.0, 1e-45, 1e38, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "", "x", "x0", "y0", "\x1b[2J", "\u202e", "\x00", "../x", "/dev/zero", "a" * 3000, "é", "ai.onnx", "com.microsoft", "NOTSET",
    "SAME_UPPER",
)  # fmt: skip
ATTRIBUTES = (
    "axis", "axes", "pads", "strides", "kernel_shape", "group", "perm", "to", "keepdims", "num_heads", "k", "blocksize", "mode",
)  # fmt: skip
DOMAINS = ("", "", "ai.onnx", "com.microsoft", "com.microsoft.nchwc", "f", "\x07")


@cache
def operator_names() -> tuple[str, ...]:
    standard = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    microsoft = {
        "FusedConv", "FusedMatMul", "FusedGemm", "SkipLayerNormalization", "EmbedLayerNormalization", "Attention", "BiasGelu",
        "FastGelu",
        "QLinearAdd", "QLinearConcat", "QAttention", "QGemm", "NhwcConv", "MatMulNBits", "GroupQueryAttention", "RotaryEmbedding",
        "MultiHeadAttention", "QLinearGlobalAveragePool", "SkipSimplifiedLayerNormalization", "DynamicQuantizeMatMul",
    }  # fmt: skip
    return tuple(sorted(standard | microsoft))


# Valid files to start from


def network() -> Graph:
    b = GraphBuilder("network")
    x = b.relu(b.batch_norm(b.conv(b.input((1, 3, 16, 16)), 8, 3, padding=1)))
    y = b.max_pool(b.add(b.conv(x, 8, 3, padding=1, groups=8), x), 2, 2)
    return b.finish(b.softmax(b.linear(b.flatten(b.global_average_pool(y)), 10)))


def of_call(call: Call) -> onnx.ModelProto:
    """One operator between two others, so that not all of it is input and output."""
    named = [(f"x{index}", array) for index, array in enumerate(call.inputs) if array is not None]
    code = helper.np_dtype_to_tensor_dtype
    inputs = [
        value(name, array.shape, code(array.dtype))
        for index, (name, array) in enumerate(named)
        if int(name[1:]) not in call.constant
    ]
    stored = [numpy_helper.from_array(array, name) for name, array in named if int(name[1:]) in call.constant]
    outputs = [f"y{index}" for index in range(call.outputs)]
    names = ["" if array is None else f"x{index}" for index, array in enumerate(call.inputs)]
    nodes = [
        node(call.op_type, names, outputs, name="it", **dict(call.attributes)),
        node("Relu", [outputs[0]], ["end"], name="last"),
    ]
    graph = helper.make_graph(nodes, "one", inputs, [onnx.ValueInfoProto(name=name) for name in ("end", *outputs[1:])], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", call.opset)], ir_version=10)


@cache
def written_by_hand() -> tuple[onnx.ModelProto, ...]:
    """What a single operator does not have: bodies, sequences, functions, external data, quantisation."""
    scalar = onnx.TensorProto.FLOAT
    step = [node("Relu", ["x"], ["next"]), node("Identity", ["going"], ["still"])]
    carried = [value("round", (), onnx.TensorProto.INT64), value("going", (), onnx.TensorProto.BOOL), value("x", (1, 3))]
    loop = node("Loop", ["rounds", "", "x0"], ["y0", "all"], name="loop", body=body(step, carried, ["still", "next", "next"]))
    branches = {
        "then_branch": body([node("Relu", ["x0"], ["a"])], [], ["a"]),
        "else_branch": body([node("Neg", ["x0"], ["b"])], [], ["b"]),
    }
    sequence = [
        node("SplitToSequence", ["x0", "sizes"], ["parts"], axis=1),
        node("SequenceInsert", ["parts", "x0"], ["more"]),
        node("SequenceAt", ["more", "zero"], ["first"]),
        node("ConcatFromSequence", ["parts"], ["joined"], axis=1),
        node("Add", ["joined", "x0"], ["y0"]),
        node("Relu", ["first"], ["y1"]),
    ]
    function = helper.make_function(
        "f", "f", ["a"], ["b"], [node("Relu", ["a"], ["t"]), node("Neg", ["t"], ["b"])], [helper.make_opsetid("", 20)]
    )
    shapes = [
        node("Shape", ["x0"], ["shape"]),
        node("Gather", ["shape", "zero"], ["batch"], axis=0),
        node("Unsqueeze", ["batch", "axes"], ["row"]),
        node("Concat", ["row", "minus"], ["target"], axis=0),
        node("Reshape", ["x0", "target"], ["y0"]),
        node("ConstantOfShape", ["shape"], ["zeros"], value=helper.make_tensor("v", scalar, [1], [0.0])),
        node("Add", ["zeros", "x0"], ["y1"]),
    ]
    quantised = [
        node("QuantizeLinear", ["x0", "scale", "point"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "point"], ["d"]),
        node("Conv", ["d", "w"], ["y0"], kernel_shape=[1, 1]),
    ]
    zero = np.asarray(0, np.int64)
    scale = np.float32(0.5).reshape(())
    stored = {"scale": scale, "point": np.uint8(0).reshape(()), "w": zeros(4, 3, 1, 1)}
    external = model([node("Reshape", ["x0", "target"], ["y0"])], {"x0": (1, 3)}, ["y0"], {"target": integers(3, 1)})
    tensor = external.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, text in {"location": "data.bin", "offset": "0", "length": "16"}.items():
        tensor.external_data.add(key=key, value=text)
    fused = [node("FusedConv", ["x0", "w"], ["y0"], domain="com.microsoft", activation="Relu")]
    return (
        model([loop], {"x0": (1, 3)}, ["y0", "all"], {"rounds": np.asarray(3, np.int64)}),
        model([node("If", ["flag"], ["y0"], **branches)], {"x0": (1, 3)}, ["y0"], {"flag": np.asarray(True)}),
        model(sequence, {"x0": (1, 4)}, ["y0", "y1"], {"sizes": integers(1, 3), "zero": zero}),
        model([node("f", ["x0"], ["y0"], domain="f")], {"x0": (1, 3)}, ["y0"], domains=["f"], functions=[function]),
        model(shapes, {"x0": (2, 3, 4)}, ["y0", "y1"], {"zero": zero, "axes": integers(0), "minus": integers(-1)}),
        model(quantised, {"x0": (1, 3, 4, 4)}, ["y0"], stored),
        model(fused, {"x0": (1, 3, 4, 4)}, ["y0"], stored, domains=["com.microsoft"]),
        external,
        onnx.load_from_string(to_onnx(network())),
    )  # fmt: skip


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    """Valid models: calls of all operators, and those written by hand."""
    if draw(st.booleans()):
        found = onnx.ModelProto()
        found.CopyFrom(draw(st.sampled_from(written_by_hand())))
        return found
    return of_call(draw(st.sampled_from(sorted(CALLS)).flatmap(calls)))


@cache
def tflite_files() -> tuple[bytes, ...]:
    """Networks and single operators, as far as TFLite has them."""
    found = [to_tflite(network())]
    for op_type in sorted(CALLS):
        try:
            found.append(to_tflite(load_graph(of_call(_example(op_type)))))
        except (LatcastError, ValueError, TypeError, KeyError, IndexError):
            continue  # not every call has words in TFLite
    return tuple(found)


def _example(op_type: str) -> Call:
    """A call drawn without hypothesis, whose draws only a test may ask for."""
    found: list[Call] = []

    @settings(max_examples=1, database=None, suppress_health_check=list(HealthCheck))
    @given(calls(op_type))
    def draw(call: Call) -> None:
        found.append(call)

    draw()
    return found[0]


# Changes of meaning


def change(found: onnx.ModelProto, chance: random.Random) -> None:
    """One change, of what protobuf can still hold."""
    chance.choice(CHANGES)(found, chance)


def _nodes(found: onnx.ModelProto) -> list[onnx.NodeProto]:
    """All nodes, those of bodies and functions included."""
    waiting = [*found.graph.node, *(each for function in found.functions for each in function.node)]
    every = []
    while waiting:
        each = waiting.pop()
        every.append(each)
        waiting += [inner for attribute in each.attribute for inner in attribute.g.node]
    return every


def _names(found: onnx.ModelProto) -> list[str]:
    return [*TEXTS, *(name for each in _nodes(found) for name in (*each.input, *each.output))]


def _change_operator(found: onnx.ModelProto, chance: random.Random) -> None:
    for each in chance.sample(_nodes(found), 1):
        each.op_type = chance.choice(operator_names())
        each.domain = chance.choice(DOMAINS)


def _change_names(found: onnx.ModelProto, chance: random.Random) -> None:
    each = chance.choice(_nodes(found))
    names = chance.choice((each.input, each.output))
    action = chance.randrange(5)
    if action == 0 and names:
        del names[chance.randrange(len(names))]
    elif action == 1 and names:
        names[chance.randrange(len(names))] = chance.choice(_names(found))
    elif action == 2:
        names.extend([chance.choice(_names(found))] * chance.choice((1, 2, 40)))
    elif action == 3:
        kept = list(names)
        del names[:]
        names.extend(reversed(kept))
    else:
        each.name = chance.choice(_names(found))


def _change_attribute(found: onnx.ModelProto, chance: random.Random) -> None:
    each = chance.choice(_nodes(found))
    if not each.attribute or chance.random() < 0.3:
        name = chance.choice(ATTRIBUTES)
        numbers = [chance.choice(NUMBERS) for _ in range(chance.choice((0, 1, 2, 4, 9)))]
        each.attribute.append(
            onnx.AttributeProto(name=name, type=onnx.AttributeProto.INTS, ints=numbers)
            if chance.random() < 0.5
            else onnx.AttributeProto(name=name, type=onnx.AttributeProto.INT, i=chance.choice(NUMBERS))
        )
        return
    attribute = chance.choice(each.attribute)
    action = chance.randrange(6)
    if action == 0:
        each.attribute.remove(attribute)
    elif action == 1:
        attribute.type = chance.randrange(16)
    elif action == 2:
        attribute.i = chance.choice(NUMBERS)
        attribute.f = chance.choice(REALS)
        attribute.s = chance.choice(TEXTS).encode()
    elif action == 3 and attribute.ints:
        attribute.ints[chance.randrange(len(attribute.ints))] = chance.choice(NUMBERS)
    elif action == 4:
        attribute.ints.extend(chance.choice(NUMBERS) for _ in range(chance.choice((1, 3, 100))))
    else:
        attribute.name = chance.choice(("axis", "body", "then_branch", "value", "sparse_value", *TEXTS))


def _change_tensor(found: onnx.ModelProto, chance: random.Random) -> None:
    tensors = [
        *found.graph.initializer,
        *(attribute.t for each in _nodes(found) for attribute in each.attribute if attribute.HasField("t")),
    ]
    if not tensors:
        return _change_names(found, chance)
    tensor = chance.choice(tensors)
    action = chance.randrange(6)
    if action == 0:
        del tensor.dims[:]
        tensor.dims.extend(chance.choice(NUMBERS) for _ in range(chance.choice((0, 1, 2, 4, 70))))
    elif action == 1 and tensor.dims:
        tensor.dims[chance.randrange(len(tensor.dims))] = chance.choice(NUMBERS)
    elif action == 2:
        tensor.data_type = chance.randrange(-1, 30)
    elif action == 3:
        tensor.raw_data = np.asarray(
            [chance.choice(NUMBERS) for _ in range(chance.choice((0, 1, 2, 4)))], dtype=np.int64
        ).tobytes()
    elif action == 4:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key in ("location", "offset", "length"):
            tensor.external_data.add(key=key, value=chance.choice((*TEXTS, *map(str, NUMBERS), "9" * 5000)))
    else:
        tensor.name = chance.choice(_names(found))
    return None


def _change_shape(found: onnx.ModelProto, chance: random.Random) -> None:
    values = [*found.graph.input, *found.graph.output, *found.graph.value_info]
    if not values:
        return _change_names(found, chance)
    each = chance.choice(values)
    action = chance.randrange(5)
    tensor = each.type.tensor_type
    if action == 0 and tensor.shape.dim:
        chance.choice(tensor.shape.dim).dim_value = chance.choice(NUMBERS)
    elif action == 1 and tensor.shape.dim:
        chance.choice(tensor.shape.dim).dim_param = chance.choice(TEXTS)
    elif action == 2:
        for _ in range(chance.choice((1, 2, 70))):
            tensor.shape.dim.add(dim_value=chance.choice(NUMBERS[:6]))
    elif action == 3:
        tensor.elem_type = chance.randrange(-1, 30)
    else:
        each.name = chance.choice(_names(found))
    return None


def _change_graph(found: onnx.ModelProto, chance: random.Random) -> None:
    nodes = found.graph.node
    action = chance.randrange(6)
    if action == 0:
        nodes.extend([chance.choice(nodes)] * chance.choice((1, 3, 300)))
    elif action == 1:
        del nodes[chance.randrange(len(nodes))]
    elif action == 2:
        kept = list(nodes)
        del nodes[:]
        nodes.extend(reversed(kept))
    elif action == 3 and found.opset_import:
        chance.choice(found.opset_import).version = chance.choice((*NUMBERS, *range(6, 25)))
    elif action == 4:
        del found.graph.output[:]
        found.graph.output.add(name=chance.choice(_names(found)))
    else:
        each = chance.choice(_nodes(found))
        copied = onnx.GraphProto()
        copied.CopyFrom(found.graph)
        name = chance.choice(("body", "then_branch", "else_branch", "value"))
        each.attribute.append(onnx.AttributeProto(name=name, type=onnx.AttributeProto.GRAPH, g=copied))


def _change_chain(found: onnx.ModelProto, chance: random.Random) -> None:
    """Another operator behind an output, which reads what is there."""
    names = [name for name in _names(found) if name]
    found.graph.node.append(
        helper.make_node(
            chance.choice(operator_names()), chance.choices(names, k=chance.choice((1, 2, 3))), ["added"], name="added"
        )
    )
    del found.graph.output[:]
    found.graph.output.add(name="added")


CHANGES: Sequence[Callable[[onnx.ModelProto, random.Random], None]] = (
    _change_operator, _change_names, _change_attribute, _change_attribute, _change_tensor, _change_shape, _change_graph,
    _change_chain,
)  # fmt: skip


# The tests


@pytest.fixture(scope="module")
def reader() -> Iterator[LimitedReader]:
    with LimitedReader() as limited:
        yield limited


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broken")


def check(reader: LimitedReader, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    verdict = reader.read(path)
    assert verdict.kind in ("read", "refused"), f"{path} {verdict.kind}: {verdict.text}"
    if verdict.kind == "refused":
        assert 0 < len(verdict.text) <= 500, f"{path}: {len(verdict.text)} characters"
        assert verdict.text.isprintable(), f"{path}: {verdict.text!r}"


@pytest.mark.slow
@settings(fuzzed, max_examples=case_count(0.05))
@given(proto=models(), chance=st.randoms(use_true_random=False))
def test_an_onnx_file_of_changed_meaning(
    proto: onnx.ModelProto, chance: random.Random, reader: LimitedReader, folder: Path
) -> None:
    for _ in range(chance.choice((1, 1, 2, 4))):
        try:
            change(proto, chance)
        except (ValueError, IndexError, TypeError, UnicodeEncodeError):
            continue  # protobuf holds no such value, or nothing is left to change
    check(reader, folder / "meaning.onnx", proto.SerializeToString())


@cache
def onnx_files() -> tuple[bytes, ...]:
    return tuple(
        proto.SerializeToString() for proto in (*written_by_hand(), *(of_call(_example(name)) for name in sorted(CALLS)))
    )


@pytest.mark.slow
def test_an_onnx_file_of_changed_fields(reader: LimitedReader, folder: Path) -> None:
    chance = chance_of("onnx")
    for _ in range(case_count(0.25)):
        content = chance.choice(onnx_files())
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            content = changed_message(content, chance)
        check(reader, folder / "fields.onnx", content)


@pytest.mark.slow
def test_a_tflite_file_of_changed_offsets(reader: LimitedReader, folder: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="the schema of TFLite is not installed")
    chance = chance_of("tflite")
    for _ in range(case_count(0.15)):
        check(reader, folder / "offsets.tflite", changed_flatbuffer(chance.choice(tflite_files()), chance))


@cache
def param_files() -> tuple[bytes, ...]:
    """Networks and single operators, as far as ncnn has them."""
    found = [to_ncnn(network())[0].encode()]
    for op_type in sorted(CALLS):
        try:
            found.append(to_ncnn(load_graph(of_call(_example(op_type))))[0].encode())
        except (LatcastError, ValueError, TypeError, KeyError, IndexError):
            continue  # not every call has layers in ncnn
    return tuple(found)


@pytest.mark.slow
@settings(fuzzed, max_examples=case_count(0.05))
@given(data=st.data(), chance=st.randoms(use_true_random=False))
def test_a_param_file_of_changed_numbers(data: Any, chance: random.Random, reader: LimitedReader, folder: Path) -> None:
    content = data.draw(st.sampled_from(param_files()))
    if chance.random() < 0.7:
        fields = content.decode().split(" ")
        for _ in range(chance.choice((1, 2, 5))):
            place = chance.randrange(len(fields))
            key, equals, _ = fields[place].rpartition("=")
            fields[place] = f"{key}{equals}{chance.choice(NUMBERS)}"
        check(reader, folder / "numbers.param", " ".join(fields).encode())
    else:
        check(reader, folder / "bytes.param", mutated(content, chance))
