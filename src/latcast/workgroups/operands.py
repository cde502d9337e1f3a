"""The numbers that a measured kernel works on, laid out in slices of four channels, and the result that is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from latcast.errors import MeasurementError
from latcast.workgroups.workloads import Convolution, Kind

VECTOR = 4
"""Channels in a slice of the kernels that come with latcast."""

TOLERANCE = 1e-4
"""Largest error of a right result, relative to its largest number: rounding of FP32 in another order of adding."""

SOURCES: Mapping[Kind, str] = {"conv": "conv", "depthwise_conv": "dwconv"}
"""Kind to the name of its kernel in OpenCL C and WGSL, which is its file's too."""


@dataclass(frozen=True)
class Operands:
    """Inputs of a kernel and the result it must write; float32, batch 1.

    Attributes:
        source: (in slices, in_h, in_w, 4).
        weights: (out slices, kernel_h, kernel_w, in slices, 4 in, 4 out); of a depthwise convolution
            (slices, kernel_h, kernel_w, 4). Out slices are padded with zeros to a multiple of the descriptor's block.
        bias: (out slices, 4), padded as the weights are.
        expected: (out slices, out_h, out_w, 4), not padded.
    """

    source: np.ndarray
    weights: np.ndarray
    bias: np.ndarray
    expected: np.ndarray

    def check(self, result: np.ndarray, what: str) -> None:
        """Raise if a kernel computed a wrong result.

        Args:
            result: Shape of ``expected``.
            what: Kernel and size, for the message.

        Raises:
            MeasurementError: It did.
        """
        error = float(np.abs(result - self.expected).max()) / float(np.abs(self.expected).max())
        if not error <= TOLERANCE:
            raise MeasurementError(
                f"{what} computed a wrong result: off by {error:.1e} of its largest number, expected at most {TOLERANCE:.0e}; "
                "its latency means nothing, so the sweep was stopped: try another driver or device"
            )


def _leading_padding(in_size: int, out_size: int, kernel: int, stride: int) -> int:
    """Return the zeros in front of the first row or column: the smaller half of those that the output's size asks for."""
    return max((out_size - 1) * stride + kernel - in_size, 0) // 2


def require_supported(workload: Convolution) -> None:
    """Raise if the kernels here do not compute a convolution.

    Raises:
        MeasurementError: They do not; the message says why.
    """
    kernel = workload.descriptor
    if kernel.vector != VECTOR or kernel.element_bytes != VECTOR:
        raise MeasurementError(
            f"the kernels here work on slices of {VECTOR} channels in FP32; '{kernel.name}' has {kernel.vector} channels of "
            f"{kernel.element_bytes} bytes: measure it with a kernel of vector 4 and element_bytes 4"
        )
    if not kernel.accesses_counted:
        raise MeasurementError(
            f"the kernels here compute plain and depthwise convolutions; {workload} is one of another kind, '{kernel.name}'"
        )
    if workload.batch != 1:
        raise MeasurementError(
            f"the kernels here take one image; {workload} has {workload.batch}: give the same shape with batch 1"
        )


def constants(workload: Convolution) -> Mapping[str, int]:
    """Return the names in the kernels' sources with this convolution's numbers."""
    kernel, w = workload.descriptor, workload
    return {
        "KERNEL_W": w.kernel_w, "KERNEL_H": w.kernel_h, "STRIDE_X": w.stride_w, "STRIDE_Y": w.stride_h,
        "PAD_LEFT": _leading_padding(w.in_w, w.out_w, w.kernel_w, w.stride_w),
        "PAD_TOP": _leading_padding(w.in_h, w.out_h, w.kernel_h, w.stride_h),
        "BLOCK_X": kernel.block_x, "BLOCK_Y": kernel.block_y, "BLOCK_S": kernel.block_z,
    }  # fmt: skip


def size_arguments(workload: Convolution) -> tuple[int, ...]:
    """Return in_w, in_h, in slices, out_w, out_h, out slices: the kernels' arguments, as 32-bit integers."""
    in_slices, out_slices = -(-workload.in_channels // VECTOR), -(-workload.out_channels // VECTOR)
    return (workload.in_w, workload.in_h, in_slices, workload.out_w, workload.out_h, out_slices)


def make_operands(workload: Convolution) -> Operands:
    """Return random numbers, always the same, for a convolution.

    Raises:
        MeasurementError: The kernels here do not compute it.
    """
    require_supported(workload)
    rng = np.random.default_rng(0)
    _, _, in_slices, _, _, out_slices = size_arguments(workload)

    def draw(channels: int, *shape: int) -> np.ndarray:
        """Return random slices, with zeros in the channels that only fill the last one."""
        array = rng.standard_normal(shape, dtype=np.float32)
        whole, rest = divmod(channels, VECTOR)
        if rest:
            array[whole, ..., rest:] = 0
        return array

    source = draw(workload.in_channels, in_slices, workload.in_h, workload.in_w, VECTOR)
    per_tap = (VECTOR,) if workload.kind == "depthwise_conv" else (in_slices, VECTOR, VECTOR)
    # Drawn without the block's padding, so that kernels of any block compute the same.
    weights = draw(workload.out_channels, out_slices, workload.kernel_h, workload.kernel_w, *per_tap)
    bias = draw(workload.out_channels, out_slices, VECTOR)
    added = -out_slices % workload.descriptor.block_z
    padded_weights, padded_bias = (
        np.concatenate([array, np.zeros((added, *array.shape[1:]), array.dtype)]) for array in (weights, bias)
    )
    height, width = workload.out_h, workload.out_w
    numbers = constants(workload)
    top, left = numbers["PAD_TOP"], numbers["PAD_LEFT"]
    bottom = max((height - 1) * workload.stride_h + workload.kernel_h - top - workload.in_h, 0)
    right = max((width - 1) * workload.stride_w + workload.kernel_w - left - workload.in_w, 0)
    padded = np.pad(source, ((0, 0), (top, bottom), (left, right), (0, 0)))

    result = np.tile(bias[:, None, None, :], (1, height, width, 1))
    for ky in range(workload.kernel_h):
        for kx in range(workload.kernel_w):
            window = padded[:, ky :: workload.stride_h, kx :: workload.stride_w][:, :height, :width]
            if workload.kind == "depthwise_conv":
                result += window * weights[:, None, None, ky, kx]
                continue
            pixels = window.transpose(1, 2, 0, 3).reshape(height * width, -1)
            taps = weights[:, ky, kx].transpose(1, 2, 0, 3).reshape(pixels.shape[1], -1)
            result += (pixels @ taps).reshape(height, width, -1, VECTOR).transpose(2, 0, 1, 3)
    return Operands(source, padded_weights, padded_bias, result)
