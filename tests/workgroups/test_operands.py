"""Operands of measured kernels, and the result they must give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latcast.errors import MeasurementError
from latcast.workgroups.operands import Operands, constants, make_operands, size_arguments
from latcast.workgroups.workloads import CONV, DEPTHWISE_CONV, Convolution, KernelDescriptor, convolution, depthwise_convolution


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "leading"),
    [(56, 3, 1, 1), (224, 3, 2, 0), (224, 7, 2, 2)],  # two zeros, one, which stands behind, and five
)
def test_padding_is_split_with_the_smaller_half_in_front(size: int, kernel: int, stride: int, leading: int) -> None:
    found = constants(convolution(size, size, 4, 4, kernel, stride))

    assert (found["PAD_TOP"], found["PAD_LEFT"]) == (leading, leading)


def test_constants_and_arguments_match_the_kernel_sources() -> None:
    workload = replace(convolution(10, 7, 9, 6, 3, 2), descriptor=KernelDescriptor("c", "conv", 2, 3, 4))

    assert constants(workload) == {
        "KERNEL_W": 3, "KERNEL_H": 3, "STRIDE_X": 2, "STRIDE_Y": 2, "PAD_LEFT": 1, "PAD_TOP": 0,
        "BLOCK_X": 2, "BLOCK_Y": 3, "BLOCK_S": 4,
    }  # fmt: skip
    assert size_arguments(workload) == (7, 10, 3, 4, 5, 2)


def test_channels_beyond_the_last_are_zero() -> None:
    found = make_operands(replace(convolution(2, 2, 6, 5, 1), descriptor=KernelDescriptor("c", "conv", block_z=4)))

    assert found.source.shape == (2, 2, 2, 4)
    assert found.weights.shape == (4, 1, 1, 2, 4, 4)
    assert found.bias.shape == (4, 4)
    assert found.expected.shape == (2, 2, 2, 4)
    assert np.all(found.source[1, ..., 2:] == 0)
    assert np.all(found.source[1, ..., :2] != 0)
    assert np.all(found.expected[1, ..., 1:] == 0)
    assert np.all(found.weights[2:] == 0)
    assert np.all(found.bias[2:] == 0)


def onnxruntime_result(workload: Convolution, found: Operands) -> np.ndarray:
    """The same convolution by ONNX Runtime: (out slices, out_h, out_w, 4)."""
    import onnx
    import onnxruntime

    source = found.source.transpose(0, 3, 1, 2).reshape(1, -1, workload.in_h, workload.in_w)
    slices = len(found.expected)
    if workload.kind == "depthwise_conv":
        weights = found.weights[:slices].transpose(0, 3, 1, 2)[:, :, None].reshape(-1, 1, workload.kernel_h, workload.kernel_w)
        groups = len(weights)
    else:
        weights = found.weights[:slices].transpose(0, 5, 3, 4, 1, 2)
        weights = weights.reshape(4 * slices, source.shape[1], workload.kernel_h, workload.kernel_w)
        groups = 1
    top, left = constants(workload)["PAD_TOP"], constants(workload)["PAD_LEFT"]
    bottom = (workload.out_h - 1) * workload.stride_h + workload.kernel_h - workload.in_h - top
    right = (workload.out_w - 1) * workload.stride_w + workload.kernel_w - workload.in_w - left
    node = onnx.helper.make_node(
        "Conv", ["x", "w", "b"], ["y"], strides=[workload.stride_h, workload.stride_w], group=groups,
        pads=[top, left, max(bottom, 0), max(right, 0)],
    )  # fmt: skip
    value = onnx.helper.make_tensor_value_info
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph([node], "g", [value(n, kind, None) for n in "xwb"], [value("y", kind, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    bias = found.bias[:slices].reshape(-1)
    (result,) = session.run(None, {"x": source, "w": np.ascontiguousarray(weights), "b": bias})
    return np.asarray(result).reshape(slices, 4, workload.out_h, workload.out_w).transpose(0, 2, 3, 1)


@given(
    height=st.integers(5, 12), width=st.integers(5, 12), channels=st.integers(1, 9), out=st.integers(1, 9),
    kernel=st.sampled_from((1, 3, 5)), stride=st.integers(1, 3), depthwise=st.booleans(),
)  # fmt: skip
def test_the_expected_result_is_that_of_onnxruntime(
    height: int, width: int, channels: int, out: int, kernel: int, stride: int, depthwise: bool
) -> None:
    if depthwise:
        workload = depthwise_convolution(height, width, channels, kernel, stride)
    else:
        workload = convolution(height, width, channels, out, kernel, stride)
    found = make_operands(workload)

    np.testing.assert_allclose(found.expected, onnxruntime_result(workload, found), rtol=1e-4, atol=1e-4)


def test_a_wrong_result_is_refused_and_a_rounded_one_is_not() -> None:
    found = make_operands(convolution(4, 4, 4, 4))
    largest = np.abs(found.expected).max()

    found.check(found.expected + np.float32(0.5e-4 * largest), "conv")
    with pytest.raises(MeasurementError, match=r"conv computed a wrong result: off by 2\.0e-04"):
        found.check(found.expected + np.float32(2e-4 * largest), "conv")


def test_a_result_that_was_not_written_is_refused() -> None:
    found = make_operands(convolution(4, 4, 4, 4))

    with pytest.raises(MeasurementError, match="off by nan"):
        found.check(np.full_like(found.expected, np.nan), "conv")


@pytest.mark.parametrize(
    ("workload", "why"),
    [
        (replace(convolution(4, 4, 4, 4), batch=2), "one image"),
        (replace(convolution(4, 4, 4, 4), descriptor=replace(CONV, vector=8)), "slices of 4 channels"),
        (replace(convolution(4, 4, 4, 4), descriptor=replace(CONV, element_bytes=2)), "4 channels of 2 bytes"),
        (
            replace(depthwise_convolution(4, 4, 4), descriptor=replace(DEPTHWISE_CONV, name="grouped", accesses_counted=False)),
            "another kind, 'grouped'",
        ),
    ],
)
def test_unsupported_convolutions_are_refused(workload: Convolution, why: str) -> None:
    with pytest.raises(MeasurementError, match=why):
        make_operands(workload)
