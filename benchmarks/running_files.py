"""Running model files as they are, for the shapes that runtimes really give; imports a runtime, and nothing of latcast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Shape = Sequence[int]


class Asked(NamedTuple):
    """A file, the sizes of its inputs where the file leaves them open, and values that decide sizes or branches."""

    path: str
    sizes: Mapping[str, Shape]
    values: Mapping[str, Any] = {}


def serve(pipe: Connection) -> None:
    """Run the files that are asked for until the pipe closes."""
    while True:
        try:
            asked = pipe.recv()
        except EOFError:
            return
        try:
            found = run_file(asked)
        except Exception as problem:  # whatever a runtime says of a file
            found = {"error": " ".join(str(problem).split())[:300] or type(problem).__name__}
        pipe.send(found)


def run_file(asked: Asked) -> dict[str, Any]:
    """Return the shapes of the outputs, and the multiply-accumulates by the shapes of all tensors (None where not counted)."""
    run = {".onnx": _run_onnx, ".tflite": _run_tflite, ".param": _run_ncnn}.get(Path(asked.path).suffix)
    return {"error": "no runtime for this format"} if run is None else run(asked)


def inputs_beside(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of the ``.npz`` beside a file, by input; empty where there is none."""
    beside = path.with_suffix(".npz")
    if not beside.is_file():
        return {}
    with np.load(beside) as kept:
        return {**kept}


def _values(asked: Asked, inputs: Mapping[str, tuple[Shape, Any]]) -> dict[str, Any]:
    """Return values of inputs: those of the ``.npz`` beside a file; else those asked for, normal ones, or 0 and 1 of integers."""
    beside = inputs_beside(Path(asked.path))
    if set(inputs) <= set(beside):
        return {name: beside[name] for name in inputs}
    draw = np.random.default_rng(0)
    return {
        name: np.full(shape, asked.values.get(name, "a"), dtype=dtype)
        if dtype is object or name in asked.values
        else (draw.standard_normal(shape) if np.dtype(dtype).kind in "fc" else draw.integers(0, 2, shape)).astype(dtype)
        for name, (shape, dtype) in inputs.items()
    }


# ONNX

_ONNX_TYPES: Mapping[str, Any] = {
    "float": np.float32, "double": np.float64, "float16": np.float16, "string": object, "bool": np.bool_,
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}").type for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip

_WEIGHT_OF = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "QLinearConv": 3}
"""Which input of a convolution holds the weights."""

_PRODUCTS = frozenset({"MatMul", "MatMulInteger", "QLinearMatMul", "Gemm"})

_OTHERS_WITH_MACS = frozenset({"Attention", "DeformConv", "Einsum", "GRU", "If", "LSTM", "Loop", "RNN", "Scan", "SequenceMap"})
"""Operators whose multiply-accumulates are not counted here, or which hold networks."""


def _run_onnx(asked: Asked) -> dict[str, Any]:
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(asked.path, options, providers=["CPUExecutionProvider"])
    described = {}
    for each in session.get_inputs():
        dtype = _ONNX_TYPES.get(each.type.removeprefix("tensor(").removesuffix(")"))
        if dtype is None:
            raise ValueError(f"input '{each.name}' is a {each.type}")
        sizes = [size if isinstance(size, int) else 1 for size in each.shape]
        described[each.name] = (asked.sizes.get(each.name, sizes), dtype)
    given = _values(asked, described)
    names = [each.name for each in session.get_outputs()]
    found = zip(names, session.run(names, given), strict=True)
    outputs = {name: list(each.shape) for name, each in found if isinstance(each, np.ndarray)}
    return {"outputs": outputs, "macs": _onnx_macs(onnx.load(asked.path), given, options)}


def _onnx_macs(model: Any, given: Mapping[str, Any], options: Any) -> int | None:
    """Count those of convolutions and matrix products that depend on an input and that an output depends on."""
    import onnxruntime
    from onnx import ValueInfoProto

    nodes = model.graph.node
    if model.functions or any(node.domain not in ("", "ai.onnx") or node.op_type in _OTHERS_WITH_MACS for node in nodes):
        return None
    depending, used = set(given), {value.name for value in model.graph.output}
    for node in nodes:
        if node.op_type not in ("Shape", "Size") and not depending.isdisjoint(node.input):
            depending.update(node.output)
    for node in reversed(nodes):
        if not used.isdisjoint(node.output):
            used.update(node.input)
    counted = [
        node for node in nodes if (node.op_type in _WEIGHT_OF or node.op_type in _PRODUCTS) and depending & used & {*node.output}
    ]
    if not counted:
        return 0
    wanted = {name for node in counted for name in (*node.input, *node.output) if name}
    stored = {each.name: list(each.dims) for each in model.graph.initializer}
    names = sorted(wanted - stored.keys() - given.keys())
    outputs = {value.name for value in model.graph.output}
    model.graph.output.extend(ValueInfoProto(name=name) for name in names if name not in outputs)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    shapes: dict[str, Shape] = {
        **stored,
        **{name: np.shape(each) for name, each in given.items()},
        **{name: np.shape(each) for name, each in zip(names, session.run(names, given), strict=True)},
    }
    return sum(_macs_of(node, shapes) for node in counted)


def _macs_of(node: Any, shapes: Mapping[str, Shape]) -> int:
    out, left = shapes[node.output[0]], shapes[node.input[0]]
    if node.op_type in _WEIGHT_OF:
        weight = shapes[node.input[_WEIGHT_OF[node.op_type]]]
        return prod(left if node.op_type == "ConvTranspose" else out) * prod(weight[1:])
    transposed = any(each.name == "transA" and each.i for each in node.attribute)
    return prod(out) * left[0 if transposed else -1]


# TensorFlow Lite


def _run_tflite(asked: Asked) -> dict[str, Any]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(asked.path, num_threads=1)
    details = interpreter.get_input_details()
    for each in details:
        interpreter.resize_tensor_input(each["index"], asked.sizes.get(each["name"], each["shape"]))
    interpreter.allocate_tensors()
    for each in (details := interpreter.get_input_details()):
        [value] = _values(asked, {each["name"]: (each["shape"], each["dtype"])}).values()
        interpreter.set_tensor(each["index"], value)
    interpreter.invoke()
    outputs = {each["name"]: [*interpreter.get_tensor(each["index"]).shape] for each in interpreter.get_output_details()}
    return {"outputs": outputs, "macs": _tflite_macs(interpreter)}


def _tflite_macs(interpreter: Any) -> int | None:
    """Count those of convolutions and fully connected layers; None where an operator has others."""
    shapes = {each["index"]: [int(size) for size in each["shape"]] for each in interpreter.get_tensor_details()}
    total = 0
    for each in interpreter._get_ops_details():  # the interpreter has no public list of its operators
        name, inputs, out = each["op_name"], each["inputs"], shapes.get(each["outputs"][0] if len(each["outputs"]) else -1, [])
        if name == "CONV_2D":
            total += prod(out) * prod(shapes[inputs[1]][1:])
        elif name == "DEPTHWISE_CONV_2D":
            total += prod(out) * prod(shapes[inputs[1]][1:3])
        elif name == "FULLY_CONNECTED":
            total += prod(out) * shapes[inputs[1]][-1]
        elif name == "DELEGATE" or any(
            part in name for part in ("MATMUL", "LSTM", "RNN", "GRU", "SVDF", "WHILE", "IF", "TRANSPOSE_CONV", "CONV_3D")
        ):
            return None
    return total


# ncnn


def _run_ncnn(asked: Asked) -> dict[str, Any]:
    """Run a network of ncnn with weights of zero; its images have no batch, which is put before their sizes."""
    import ncnn

    network = ncnn.Net()
    network.opt.num_threads = 1
    if network.load_param(asked.path) or network.load_model(ncnn.DataReaderFromEmpty()):
        raise ValueError("ncnn does not load it")
    extractor = network.create_extractor()
    for name, value in _values(asked, {name: (shape[1:], np.float32) for name, shape in asked.sizes.items()}).items():
        extractor.input(name, ncnn.Mat(value))
    outputs = {}
    for name in network.output_names():
        code, found = extractor.extract(name)
        if code:
            raise ValueError(f"ncnn gives {code} for output '{name}'")
        outputs[name] = [1, *np.array(found).shape]
    return {"outputs": outputs, "macs": None}
