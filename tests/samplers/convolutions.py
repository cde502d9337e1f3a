"""Convolutions by the numbers that tests speak of."""

from __future__ import annotations

from latcast.kernels.kernel import Configuration
from latcast.kernels.rules import load_rules
from latcast.spaces.kernel_space import KernelSpace

SPACE = KernelSpace("conv", load_rules("onnxruntime"))


def conv(ins: int, outs: int, *, size: int = 14, kernel: int = 3, stride: int = 1) -> Configuration:
    """A square convolution with "same" padding and a ReLU."""
    out = -(-size // stride)
    padded = int(kernel > 1)
    return (1, ins, size, size, outs, out, out, kernel, kernel, stride, stride, 1, 1, 1, padded, 1, 0, 0)


def widths(row: Configuration) -> tuple[int, int]:
    """Input and output channels."""
    spans = SPACE.spans(row)
    return spans["in_channels"], spans["out_channels"]
