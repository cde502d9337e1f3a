"""The class of an operator: finer than its ONNX type where runtimes treat it differently (depthwise, residual add...)."""

from __future__ import annotations

import re
from functools import cache

from latcast.graph.ir import Graph, Node

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@cache
def snake_case(op_type: str) -> str:
    """``"GlobalAveragePool"`` -> ``"global_average_pool"``, ``"PRelu"`` -> ``"p_relu"``, ``"LSTM"`` -> ``"lstm"``."""
    return _WORD_START.sub("_", op_type).lower()


def operator_class(graph: Graph, node: Node) -> str:
    """The word that fusion rules use for this operator.

    Convolutions split into ``conv``, ``depthwise_conv`` and ``grouped_conv``; products with a weight are ``linear``, of two
    activations ``matmul``; an addition of a weight vector is ``bias_add``, of two activations ``add``; a scalar constant
    makes ``add_scalar``; ``Clip`` is ``relu6`` where its bounds are 0 and 6; ``Swish`` is ``silu``, as its spelling in two
    operators is. Any other operator is its name in snake case.
    """
    op_type = node.op_type
    if op_type in ("Conv", "ConvInteger"):
        groups = int(node.attributes.get("group", 1))  # type: ignore[arg-type]
        if groups == 1:
            return "conv"
        return "depthwise_conv" if groups == graph.tensors[node.inputs[0]].shape[1] else "grouped_conv"
    if op_type in ("Gemm", "MatMul", "MatMulInteger"):
        return "linear" if node.inputs[1] in graph.weights or node.inputs[0] in graph.weights else "matmul"
    if op_type in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"):
        name = op_type.lower()
        others = [i for i in node.inputs if i in graph.weights or i in graph.constants]
        if not others:
            return name
        if graph.tensors[others[0]].elements == 1:
            return f"{name}_scalar"
        return "bias_add" if op_type == "Add" else f"{name}_weight"
    if op_type == "Clip":
        bounds = [graph.constants.get(i) for i in node.inputs[1:]]
        values = [None if value is None else float(value.reshape(-1)[0]) for value in bounds]
        if not values and "max" in node.attributes:
            values = [float(node.attributes.get("min", "-inf")), float(node.attributes["max"])]  # type: ignore[arg-type]
        return "relu6" if values == [0.0, 6.0] else "clip"
    return "silu" if op_type == "Swish" else snake_case(op_type)
