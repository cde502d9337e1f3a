"""The numbers that a measured kernel works on, laid out in slices of four channels, and the result that is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from latcast.errors import MeasurementError
from latcast.workgroups.workloads import Kind, Workload

VECTOR = 4
"""Channels in a slice of the kernels that come with latcast."""

TOLERANCE = 1e-4
"""Largest error of a right result, relative to its largest number: rounding of FP32 in another order of adding."""


SOURCES: Mapping[Kind, str] = {"conv": "conv", "depthwise_conv": "dwconv"}
"""Kind to the name of its kernel in OpenCL C and WGSL, which is its file's too."""


@dataclass(frozen=True)
class Operands:
    """What a kernel reads, and what it must write; float32, batch 1.

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
        """That a kernel computed what it should.

        Args:
            result: Shape of ``expected``.
            what: Kernel and size, for the message.

        Raises:
            MeasurementError: It did not.
        """
        error = float(np.abs(result - self.expected).max()) / float(np.abs(self.expected).max())
        if not error <= TOLERANCE:
            raise MeasurementError(
                f"{what} computed a wrong result: off by {error:.1e} of its largest number, expected at most {TOLERANCE:.0e}; "
                "its latency means nothing, so the sweep was stopped: try another driver or device"
            )


def leading_padding(in_size: int, out_size: int, kernel: int, stride: int) -> int:
    """Zeros in front of the first row or column: the smaller half of those that the output's size asks for."""
    return max((out_size - 1) * stride + kernel - in_size, 0) // 2


def require_supported(workload: Workload) -> None:
    """That the kernels here compute a workload.

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


def constants(workload: Workload) -> Mapping[str, int]:
    """Names in the kernels' sources to this workload's numbers."""
    kernel = workload.descriptor
    return {
        "KERNEL_W": workload.kernel_w,
        "KERNEL_H": workload.kernel_h,
        "STRIDE_X": workload.stride_w,
        "STRIDE_Y": workload.stride_h,
        "PAD_LEFT": leading_padding(workload.in_w, workload.out_w, workload.kernel_w, workload.stride_w),
        "PAD_TOP": leading_padding(workload.in_h, workload.out_h, workload.kernel_h, workload.stride_h),
        "BLOCK_X": kernel.block_x,
        "BLOCK_Y": kernel.block_y,
        "BLOCK_S": kernel.block_z,
    }


def size_arguments(workload: Workload) -> tuple[int, ...]:
    """in_w, in_h, in slices, out_w, out_h, out slices: the kernels' arguments, as 32-bit integers."""
    in_slices, out_slices = -(-workload.in_channels // VECTOR), -(-workload.out_channels // VECTOR)
    return (workload.in_w, workload.in_h, in_slices, workload.out_w, workload.out_h, out_slices)


def make_operands(workload: Workload) -> Operands:
    """Random numbers, always the same, for a workload (see :func:`require_supported`).

    Raises:
        MeasurementError: The kernels here do not compute it.
    """
    require_supported(workload)
    rng = np.random.default_rng(0)
    _, _, in_slices, _, _, out_slices = size_arguments(workload)
    padded = -(-out_slices // workload.descriptor.block_z) * workload.descriptor.block_z
    window = (workload.kernel_h, workload.kernel_w)

    source = _random(rng, in_slices, workload.in_h, workload.in_w, VECTOR)
    per_tap = (VECTOR,) if workload.kind == "depthwise_conv" else (in_slices, VECTOR, VECTOR)
    # Drawn without the block's padding, so that kernels of any block compute the same.
    weights = _random(rng, out_slices, *window, *per_tap)
    bias = _random(rng, out_slices, VECTOR)
    _clear_beyond(source, workload.in_channels)
    _clear_beyond(weights, workload.out_channels)
    _clear_beyond(bias, workload.out_channels)
    expected = _convolved(workload, source, weights, bias)
    return Operands(source, _lengthened(weights, padded), _lengthened(bias, padded), expected)


def _lengthened(array: np.ndarray, count: int) -> np.ndarray:
    """With zeros behind, as many in all along the first axis."""
    return np.concatenate([array, np.zeros((count - len(array), *array.shape[1:]), array.dtype)])


def _random(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def _clear_beyond(array: np.ndarray, channels: int) -> None:
    """Zeros in channels that are there only to fill a slice; slices are the first axis, channels of one the last."""
    whole, rest = divmod(channels, VECTOR)
    if rest:
        array[whole, ..., rest:] = 0
        whole += 1
    array[whole:] = 0


def _convolved(workload: Workload, source: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The convolution as one matrix product (or product) for each position of the filter."""
    height, width = workload.out_h, workload.out_w
    top = leading_padding(workload.in_h, height, workload.kernel_h, workload.stride_h)
    left = leading_padding(workload.in_w, width, workload.kernel_w, workload.stride_w)
    rows = (height - 1) * workload.stride_h + workload.kernel_h
    columns = (width - 1) * workload.stride_w + workload.kernel_w
    behind = (max(rows - top - workload.in_h, 0), max(columns - left - workload.in_w, 0))
    padded = np.pad(source, ((0, 0), (top, behind[0]), (left, behind[1]), (0, 0)))

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
    return result
