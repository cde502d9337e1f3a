"""The contracts of latcast on this plug-in; skipped where it is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("latcast_haar", reason="the example plug-in is installed by tests/testing/test_plugins.py alone")

from latcast.graph.builder import GraphBuilder
from latcast.kernels.delegates import delegate_of
from latcast.kernels.partitioning import partition
from latcast.records import Platform
from latcast.testing.contracts import (
    ImporterContract,
    KernelTypeContract,
    OperatorContract,
    RegressorContract,
    RuntimeContract,
    SamplerContract,
    SpaceContract,
)


class TestHaarWavelet(OperatorContract):
    op_type = "HaarWavelet"
    output_shape = (1, 32, 4, 6)
    flops = 4 * 8 * 8 * 12

    def build(self, builder: GraphBuilder) -> str:
        return builder.op("HaarWavelet", [builder.input((1, 8, 8, 12))])[0]


class TestHaarKernels(KernelTypeContract):
    type_name = "haar_wavelet"
    rules = "numpy"
    configurations = (
        {"batch": 1, "channels": 8, "in_h": 16, "in_w": 16},
        {"batch": 2, "channels": 3, "in_h": 8, "in_w": 4},
    )


class TestSquaredRelu(KernelTypeContract):
    type_name = "squared_relu"
    rules = "numpy"
    configurations = ({"elements": 100}, {"elements": 4096})


class TestNumpy(RuntimeContract):
    runtime_name = "numpy"
    unsupported = frozenset({"transformer_block"})


class TestHaarSpace(SpaceContract):
    space_name = "haar"


class TestLayers(ImporterContract):
    importer_name = "layers"

    def write(self, folder: Path) -> Path:
        file = folder / "small.layers"
        file.write_text("input 1 3 32 32\nconv 8 3\nrelu\nhaar\n")
        return file


class TestSmallFirst(SamplerContract):
    sampler_name = "small_first"


class TestNearestKernels(RegressorContract):
    regressor_name = "nearest"


def test_its_delegate_leaves_wavelets_to_the_cpu() -> None:
    b = GraphBuilder("wavelet")
    graph = b.finish(*b.op("HaarWavelet", [b.relu(b.input((1, 8, 8, 12)))]))
    delegate = delegate_of(Platform.parse("board/numpy-2.0/gpu/fp32"))

    assert delegate is not None
    assert partition(graph, delegate).refused == (("HaarWavelet", 1),)
