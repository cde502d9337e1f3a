"""The Haar wavelet transform as an operator, and squared ReLU (So et al., "Primer", 2021) as an idiom."""

from __future__ import annotations

from latcast.graph.ir import Tensor
from latcast.graph.operators.table import Operator, OperatorView

DOMAIN = "haar.example"
"""The domain in which ONNX files have the operator."""


def infer(view: OperatorView) -> list[Tensor]:
    """(N, C, H, W) becomes (N, 4C, H/2, W/2): the averages and three differences of each 2x2 square."""
    shape = view.shape()
    if len(shape) != 4 or shape[2] % 2 or shape[3] % 2:
        raise view.fail("expected a map of even height and width")
    batch, channels, height, width = shape
    return [Tensor((batch, 4 * channels, height // 2, width // 2), view.dtype())]


def flops(view: OperatorView) -> int:
    """Three additions and a product with 1/2 for each output."""
    batch, channels, height, width = view.shape()
    return 4 * batch * channels * height * width


HAAR_WAVELET = Operator("HaarWavelet", infer, flops, domain=DOMAIN)

SQUARED_RELU = ("Mul(Relu(x), Relu(x))",)
