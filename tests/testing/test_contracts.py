"""The contract suites on what latcast has itself; of other kinds they are on each in its own tests."""

from __future__ import annotations

from pathlib import Path

from latcast.graph.builder import GraphBuilder
from latcast.graph.writers.onnx import to_onnx
from latcast.kernels.types.movement import COPY_FORMS
from latcast.testing.contracts import ImporterContract, KernelTypeContract, OperatorContract
from tests.random_networks import random_network


class TestConv(OperatorContract):
    op_type = "Conv"
    output_shape = (1, 16, 14, 14)
    flops = 2 * 16 * 14 * 14 * 8 * 9

    def build(self, builder: GraphBuilder) -> str:
        return builder.conv(builder.input((1, 8, 28, 28)), 16, 3, stride=2)


class TestReshape(OperatorContract):
    op_type = "Reshape"
    output_shape = (1, 128)
    flops = 0

    def build(self, builder: GraphBuilder) -> str:
        return builder.reshape(builder.input((1, 8, 4, 4)), (1, 128))


class TestSoftmaxKernels(KernelTypeContract):
    type_name = "softmax"
    configurations = (
        {"rows": 4, "columns": 64},
        {"rows": 1, "columns": 1000},
        {"rows": 16, "columns": 49, "inner": 8},
        {"rows": 196, "columns": 21, "inner": 196},
    )


class TestCopyKernels(KernelTypeContract):
    type_name = "copy"
    configurations = (
        {"elements": 784, "in_elements": 784},
        *(
            {"elements": 8 * 226 * 226, "in_elements": 8 * 224 * 224, "form": COPY_FORMS.index(form), "run": 224}
            for form in ("pad", "reflect pad")
        ),
        {"elements": 64 * 784, "in_elements": 64, "form": COPY_FORMS.index("expand"), "run": 1},
        {"elements": 6 * 192, "in_elements": 192, "form": COPY_FORMS.index("expand"), "run": 192},
        {"elements": 640, "in_elements": 640, "form": COPY_FORMS.index("gather"), "run": 64},
        {"elements": 784, "in_elements": 784, "form": COPY_FORMS.index("rearrange")},
    )


class TestMatmulKernels(KernelTypeContract):
    type_name = "matmul"
    configurations = (
        {"batch": 2, "rows": 8, "inner": 16, "columns": 24},
        {"batch": 1, "rows": 64, "inner": 32, "columns": 64},
    )


class TestOnnx(ImporterContract):
    importer_name = "onnx"

    def write(self, folder: Path) -> Path:
        file = folder / "small.onnx"
        file.write_bytes(to_onnx(random_network(0)))
        return file
