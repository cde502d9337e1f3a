"""Limits of one import."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from onnx import TensorProto, helper

from latcast.errors import ModelError
from latcast.graph import Tensor
from latcast.graph.importers import load_graph
from latcast.graph.limits import check_tensor
from tests.graph.importers.onnx_models import body, model, node, value, zeros


def test_a_tensor_may_hold_2_to_the_40_elements_in_64_dimensions() -> None:
    check_tensor("x", Tensor((1 << 20, 1 << 20)))
    check_tensor("x", Tensor((1,) * 64))

    with pytest.raises(ModelError, match=r"'x' of shape \[1,048,576, 1,048,577\] would hold 1,099,512,676,352 elements"):
        check_tensor("x", Tensor(((1 << 20), (1 << 20) + 1)))
    with pytest.raises(ModelError, match=r"'x' has 65 dimensions; at most 64"):
        check_tensor("x", Tensor((1,) * 65))
    with pytest.raises(ModelError, match=r"about 2\^24800 elements") as caught:
        check_tensor("x", Tensor((1 << 400,) * 62))
    assert len(str(caught.value)) < 300


def test_loops_may_run_4096_rounds_in_all() -> None:
    step = [node("Relu", ["x"], ["next"]), node("Identity", ["going"], ["still"])]
    carried = [value("round", (), TensorProto.INT64), value("going", (), TensorProto.BOOL), value("x", (1, 3))]

    def after(rounds: int, loops: int) -> int:
        names = ["input", *(f"y{index}" for index in range(loops))]
        nodes = [
            node("Loop", ["rounds", "", before], [result], name=result, body=body(step, carried, ["still", "next"]))
            for before, result in pairwise(names)
        ]
        stored = {"rounds": np.asarray(rounds, np.int64)}
        return len(load_graph(model(nodes, {"input": (1, 3)}, names[-1:], stored)).nodes)

    assert after(2048, 2) == 4096
    with pytest.raises(ModelError, match=r"at least 4,097 rounds of loops"):
        after(2048, 3)


def test_functions_are_counted_before_they_are_inlined() -> None:
    """Each of 15 calls the one before twice: 2^16 nodes at the bottom, and 2^16 - 1 calls above them."""
    opset = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]
    functions = [helper.make_function("f", "f0", ["a"], ["c"], [node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["c"])], opset)]
    for index in range(1, 16):
        calls = [node(f"f{index - 1}", [a], [b], domain="f") for a, b in (("a", "b"), ("b", "c"))]
        functions.append(helper.make_function("f", f"f{index}", ["a"], ["c"], calls, opset))
    proto = model([node("f15", ["x"], ["y"], domain="f")], {"x": (1, 3)}, ["y"], domains=["f"], functions=functions)

    with pytest.raises(ModelError, match=r"at least 131,071 nodes, with loops unrolled and functions inlined"):
        load_graph(proto)


def test_a_network_of_more_than_2_to_the_56_flops_is_refused() -> None:
    """A product of three sizes of 2^20 each: 2^61 FLOPs of tensors that are all small enough."""
    proto = model([node("MatMul", ["x", "w"], ["y"])], {"x": (1 << 20, 1 << 20), "w": (1 << 20, 1 << 20)}, ["y"])

    with pytest.raises(ModelError, match=r"would take about 2\^61 FLOPs; at most 72,057,594,037,927,936 are believed"):
        load_graph(proto)


def test_windows_beyond_32_bits_are_refused() -> None:
    conv = node("Conv", ["x", "w"], ["y"], strides=[1 << 40, 1], name="it")
    proto = model([conv], {"x": (1, 4, 8, 8)}, ["y"], {"w": zeros(4, 4, 1, 1)})

    with pytest.raises(
        ModelError, match=r"node 'it' \(Conv\) has 1,099,511,627,776 in its 'strides'; expected less than 2,147,483,648"
    ):
        load_graph(proto)
