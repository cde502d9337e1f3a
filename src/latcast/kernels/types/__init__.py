"""Kernel types: the numbers that decide each type's latency, and what can be computed from them."""

from latcast.kernels.types import axes, convolution, convolution_variants, elementwise, linear, movement, pooling
from latcast.kernels.types.kernel_type import KERNEL_TYPES, KernelType, Quantities, describe, kernel_type

__all__ = [
    "KERNEL_TYPES",
    "KernelType",
    "Quantities",
    "axes",
    "convolution",
    "convolution_variants",
    "describe",
    "elementwise",
    "kernel_type",
    "linear",
    "movement",
    "pooling",
]
