"""Pooling over windows or over whole maps."""

from __future__ import annotations

from math import prod

from latcast.graph.ir import Tensor
from latcast.graph.operators.linear import window_output
from latcast.graph.operators.table import OperatorView, define


def infer_pool(view: OperatorView) -> list[Tensor]:
    x = view.shape()
    kernel = view.ints("kernel_shape", ())
    if len(kernel) != len(x) - 2:
        raise view.fail(f"kernel_shape {list(kernel)} does not fit an input of rank {len(x)}")
    ceil_mode = bool(view.int_attribute("ceil_mode", 0))
    shape = (x[0], x[1], *window_output(view, x[2:], kernel, ceil_mode=ceil_mode))
    outputs = [Tensor(shape, view.dtype())]
    if len(view.node.outputs) > 1:
        outputs.append(Tensor(shape, "int64"))
    return outputs


def infer_global_pool(view: OperatorView) -> list[Tensor]:
    x = view.shape()
    return [Tensor((x[0], x[1], *(1 for _ in x[2:])), view.dtype())]


def flops_pool(view: OperatorView) -> int:
    """One per element of every window."""
    return view.outputs[0].elements * prod(view.ints("kernel_shape", ()))


def flops_global_pool(view: OperatorView) -> int:
    return prod(view.shape())


define("MaxPool", "AveragePool", "LpPool", infer=infer_pool, flops=flops_pool)
define("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", infer=infer_global_pool, flops=flops_global_pool)
