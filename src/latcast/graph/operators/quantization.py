"""Operators between real numbers and small integers."""

from __future__ import annotations

from latcast.graph.ir import DTYPE_BYTES, Tensor
from latcast.graph.operators.elementwise import dtype_of_code, flops_per_element
from latcast.graph.operators.table import OperatorView, define


def infer_quantize(view: OperatorView) -> list[Tensor]:
    """The zero point has the type of the result; without one it is ``output_dtype``, by default uint8."""
    if view.has_input(2):
        return [Tensor(view.shape(), view.dtype(2))]
    code = view.int_attribute("output_dtype", 0)
    return [Tensor(view.shape(), dtype_of_code(view, code) if code else "uint8")]


def infer_dequantize(view: OperatorView) -> list[Tensor]:
    """The scale has the type of the result."""
    return [Tensor(view.shape(), view.dtype(1))]


def infer_dynamic_quantize(view: OperatorView) -> list[Tensor]:
    return [Tensor(view.shape(), "uint8"), Tensor((), "float32"), Tensor((), "uint8")]


def is_quantized(dtype: str) -> bool:
    """Whether an element type is one that quantised arithmetic stores values in (8 bits or fewer)."""
    return dtype not in ("bool", "") and dtype.lstrip("u").startswith("int") and DTYPE_BYTES[dtype] <= 1


define("QuantizeLinear", infer=infer_quantize, flops=flops_per_element(3))
define("DequantizeLinear", infer=infer_dequantize, flops=flops_per_element(2))
define("DynamicQuantizeLinear", infer=infer_dynamic_quantize, flops=flops_per_element(5))
