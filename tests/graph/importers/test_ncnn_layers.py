"""Layers of ncnn: what shapes they give, as the installed ncnn does, and how many multiply-accumulates they take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from latcast.errors import ModelError
from latcast.graph.importers import ModelOptions, load_graph
from latcast.graph.importers.ncnn import NcnnReading
from latcast.graph.importers.ncnn_expression import evaluate_sizes
from latcast.graph.importers.ncnn_file import read_layers
from latcast.graph.importers.ncnn_layers import CONVERSIONS
from latcast.graph.limits import Budget
from latcast.graph.operators import graph_macs

NOT_IN_THE_WHEEL = {"ArgMax", "SPP"}


def text_of(*inputs: Sequence[int], layer: str) -> str:
    """A network of one layer, which reads the inputs x0, x1, ... of these sizes, outermost first."""
    keys = {1: (0,), 2: (1, 0), 3: (2, 1, 0), 4: (2, 11, 1, 0)}
    lines = [
        f"Input x{index} 0 1 x{index} " + " ".join(f"{key}={size}" for key, size in zip(keys[len(shape)], shape, strict=True))
        for index, shape in enumerate(inputs)
    ]
    kind, outputs, *numbers = layer.split(" ")
    reads = " ".join(f"x{index}" for index in range(len(inputs)))
    writes = " ".join(f"y{index}" for index in range(int(outputs)))
    lines.append(f"{kind} l {len(inputs)} {outputs} {reads} {writes} {' '.join(numbers)}")
    return "\n".join(["7767517", f"{len(lines)} {len(inputs) + int(outputs)}", *lines, ""])


IMAGE, ROWS, CUBE = (4, 10, 16), (10, 16), (4, 12, 14, 16)
MATRIX, HEADS = (16, 12), (8, 16, 64)

CASES = [
    # Recurrence: steps * directions * (gates * hidden * (inputs + outputs) + outputs * hidden where these differ)
    ([(100, 64)], "LSTM 1 0=64 1=16384", [(100, 64)], 100 * 4 * 64 * 128),
    ([(100, 64)], "LSTM 1 0=64 1=32768 2=2", [(100, 128)], 2 * 100 * 4 * 64 * 128),
    ([(100, 64)], "LSTM 1 0=64 1=16384 2=2", [(100, 128)], 2 * 100 * 4 * 64 * 128),
    ([(100, 64)], "LSTM 1 0=32 1=32768 2=2 3=64", [(100, 64)], 2 * 100 * (4 * 64 * 96 + 32 * 64)),
    ([(100, 64), (2, 64), (2, 64)], "LSTM 3 0=64 1=32768 2=2", [(100, 128), (2, 64), (2, 64)], 2 * 100 * 4 * 64 * 128),
    ([(100, 64)], "LSTM 3 0=32 1=16384 3=64", [(100, 32), (1, 32), (1, 64)], 100 * (4 * 64 * 96 + 32 * 64)),
    ([(100, 64), (1, 32)], "GRU 2 0=32 1=6144 2=1", [(100, 32), (1, 32)], 100 * 3 * 32 * 96),
    ([(100, 64)], "GRU 1 0=32 1=12288 2=2", [(100, 64)], 2 * 100 * 3 * 32 * 96),
    ([(100, 64)], "RNN 2 0=32 1=4096 2=2", [(100, 64), (2, 32)], 2 * 100 * 32 * 96),
    # Attention: queries * keys * (size of keys + of values) a head, and the products before and behind it
    ([HEADS, HEADS, HEADS], "SDPA 1", [HEADS], 8 * 16 * 16 * 128),
    ([HEADS, (2, 24, 64), (2, 24, 32), (16, 24)], "SDPA 1 5=1", [(8, 16, 32)], 8 * 16 * 24 * 96),
    ([HEADS, HEADS, HEADS, (8, 16, 16)], "SDPA 1 5=1 6=0.5", [HEADS], 8 * 16 * 16 * 128),
    ([(8, 1, 64)] * 3 + [(8, 30, 64)] * 2, "SDPA 3 7=1", [(8, 1, 64), (8, 31, 64), (8, 31, 64)], 8 * 31 * 128),
    ([(10, 64)], "MultiHeadAttention 1 0=64 1=4 2=4096", [(10, 64)], 4 * 10 * 64 * 64 + 2 * 10 * 10 * 64),
    (
        [(10, 32), (20, 48), (20, 40), (10, 20)], "MultiHeadAttention 1 0=64 1=4 2=2048 3=48 4=40 5=1", [(10, 32)],
        64 * (10 * 32 + 20 * 48 + 20 * 40 + 2 * 10 * 20 + 10 * 32),
    ),
    (
        [(1, 64), (4, 30, 16), (4, 30, 16)], "MultiHeadAttention 3 0=64 1=4 2=4096 7=1", [(1, 64), (4, 31, 16), (4, 31, 16)],
        64 * (4 * 64 + 2 * 31),
    ),
    (
        [(1, 64), (7, 64), (4, 30, 16), (4, 30, 16)], "MultiHeadAttention 3 0=64 1=4 2=4096 7=1",
        [(1, 64), (4, 30, 16), (4, 30, 16)], 64 * (2 * 64 + 2 * 30),
    ),
    ([HEADS, (16, 32), (16, 32)], "RotaryEmbed 1 0=1", [HEADS], 0),
    # Products
    ([ROWS], "Gemm 1 3=1 5=1 6=1 8=20 9=16 10=4", [(10, 20)], 3200),
    ([(16,)], "Gemm 1 3=1 5=1 6=1 8=20 9=16 10=4", [(1, 20)], 320),
    ([(10, 1, 16)], "Gemm 1 3=1 5=1 6=1 8=20 9=16 10=4 0=0.5", [(10, 20)], 3200),
    ([ROWS], "Gemm 1 3=1 5=1 6=1 8=20 9=16 10=4 14=1", [(20, 10)], 3200),
    ([ROWS], "Gemm 1 3=1 5=1 6=1 8=20 9=16 10=4 11=1", [(10, 1, 20)], 3200),
    ([ROWS], "Gemm 1 4=1 6=1 7=7 9=10 10=1", [(7, 16)], 1120),
    ([(16, 10)], "Gemm 1 2=1 3=1 5=1 8=20 9=16", [(10, 20)], 3200),
    ([ROWS, MATRIX, (12,)], "Gemm 1 1=0.5", [(10, 12)], 1920),
    ([ROWS, MATRIX, (10,)], "Gemm 1", [(10, 12)], 1920),
    ([ROWS, (20,)], "Gemm 1 3=1 5=1 8=20 9=16", [(10, 20)], 3200),
    ([(16,), (16,)], "MatMul 1", [(1,)], 16),
    ([(16,), MATRIX], "MatMul 1", [(12,)], 192),
    ([(3, 10, 16), (16,)], "MatMul 1", [(3, 10)], 480),
    ([(3, 10, 16), MATRIX], "MatMul 1", [(3, 10, 12)], 5760),
    ([(3, 2, 10, 16), (2, 16, 12)], "MatMul 1", [(3, 2, 10, 12)], 11520),
    ([ROWS, (12, 16)], "MatMul 1 0=1", [(10, 12)], 1920),
    ([(1, 64)], "InnerProduct 1 0=10 1=1 2=640", [(1, 10)], 640),
    ([(8, 8)], "InnerProduct 1 0=10 1=1 2=640", [(10,)], 640),
    ([(12,)], "Embed 1 0=32 1=100 2=1 3=3200", [(12, 32)], 0),
    ([(6, 8), (8, 5)], "Einsum 1 -23300=9,105,107,44,107,106,45,62,105,106", [(6, 5)], 240),
    ([(8, 8)], "Einsum 1 0=105,105", [(1,)], 0),
    # Spectra: a product of each frame with the cosines and the sines of each bin
    ([(1600,)], "Spectrogram 1 0=400 2=160", [(201, 11, 2)], 11 * 402 * 400),
    ([(1600,)], "Spectrogram 1 0=400 1=2 2=160 5=0", [(201, 8)], 8 * 402 * 400),
    ([(1600,)], "Spectrogram 1 0=400 1=1 2=160 8=0", [(400, 11)], 11 * 800 * 400),
    ([(201, 11, 2)], "InverseSpectrogram 1 0=400 2=160", [(1600, 2)], 11 * 402 * 2 * 400),
    ([(201, 11, 2)], "InverseSpectrogram 1 0=400 1=1 2=160 5=0", [(2000,)], 11 * 402 * 400),
    # Windows
    ([(8, 30, 32)], "Convolution 1 0=16 1=3 11=5 4=1 14=2 3=2 6=1920 5=1", [(16, 15, 16)], 15 * 16 * 1920),
    ([(14, 16)], "Convolution 1 0=4 1=3 4=1 6=36", [(4, 14, 16)], 14 * 16 * 36),
    ([(8, 14, 16), (4, 8, 3, 3), (4,)], "Convolution 1 4=1 19=1 5=1", [(4, 14, 16)], 14 * 16 * 288),
    ([(8, 14, 16), (8, 1, 3, 3)], "ConvolutionDepthWise 1 4=1 19=1 7=8", [(8, 14, 16)], 14 * 16 * 72),
    ([(8, 32)], "Convolution1D 1 0=16 1=3 4=1 15=2 3=2 2=2 6=384", [(16, 16)], 16 * 384),
    ([(8, 32)], "ConvolutionDepthWise1D 1 0=8 1=3 4=-233 3=2 6=24 7=8", [(8, 16)], 16 * 24),
    ([(8, 16), (4, 8, 3)], "Convolution1D 1 4=1 19=1", [(4, 16)], 16 * 96),
    ([CUBE], "Convolution3D 1 0=8 1=3 4=1 24=0 23=2 6=864", [(8, 5, 14, 16)], 5 * 14 * 16 * 864),
    ([CUBE], "Convolution3D 1 0=8 1=3 4=-233 3=2 6=864", [(8, 6, 7, 8)], 6 * 7 * 8 * 864),
    ([CUBE], "ConvolutionDepthWise3D 1 0=4 1=3 11=5 21=1 4=1 14=2 24=0 6=60 7=4", [CUBE], 12 * 14 * 16 * 60),
    ([(4, 14, 16)], "Deconvolution 1 0=8 1=3 3=2 4=-233 20=32 21=28 6=288", [(8, 28, 32)], 14 * 16 * 288),
    ([(8, 14, 16), (8, 5, 4, 4)], "Deconvolution 1 4=1 3=2 28=1", [(5, 28, 32)], 14 * 16 * 640),
    ([(4, 16)], "Deconvolution1D 1 0=8 1=4 3=2 4=1 18=1 6=128", [(8, 33)], 16 * 128),
    ([(4, 16)], "DeconvolutionDepthWise1D 1 0=4 1=4 3=2 4=1 6=16 7=4", [(4, 32)], 16 * 16),
    ([(4, 4, 5, 6)], "Deconvolution3D 1 0=8 1=4 3=2 4=1 19=1 6=2048", [(8, 8, 11, 12)], 4 * 5 * 6 * 2048),
    ([(4, 4, 5, 6)], "DeconvolutionDepthWise3D 1 0=4 1=3 3=2 4=-234 25=12 26=10 27=8 6=108 7=4", [(4, 8, 10, 12)], 120 * 108),
    ([(8, 32, 40), (18, 32, 40)], "DeformableConv2D 1 0=16 1=3 4=1 5=1 6=1152", [(16, 32, 40)], 32 * 40 * 1152),
    ([(8, 32, 40), (18, 16, 20), (9, 16, 20)], "DeformableConv2D 1 0=16 1=3 3=2 4=1 6=1152 9=1", [(16, 16, 20)], 320 * 1152),
    ([(8, 32)], "Pooling1D 1 0=0 1=3 2=2", [(8, 16)], 0),
    ([(8, 32)], "Pooling1D 1 0=1 4=1", [(8,)], 0),
    ([(8, 32)], "Pooling1D 1 0=1 7=1 8=5", [(8, 5)], 0),
    ([CUBE], "Pooling3D 1 0=0 1=3 2=2 23=1", [(4, 7, 7, 8)], 0),
    ([CUBE], "Pooling3D 1 0=1 7=1 8=4 18=3 28=-233", [(4, 12, 3, 4)], 0),
    ([(4, 14, 16)], "Pooling 1 0=1 7=1 8=5", [(4, 5, 5)], 0),
    ([(4, 2, 2)], "Pooling 1 0=1 7=1 8=5", [(4, 5, 5)], 0),
    ([(14, 16)], "Pooling 1 0=1 4=1", [(1,)], 0),
    ([(4, 14, 16)], "Unfold 1 1=3 3=2 13=1 2=2", [(36, 60)], 0),
    ([(36, 224)], "Fold 1 1=3 4=1 20=16 21=14", [(4, 14, 16)], 0),
    # Expressions
    ([(8, 16, 32)], 'Reshape 1 6="*(0w,0h),0c"', [(8, 512)], 0),
    ([(8, 16, 32)], 'Reshape 1 6="trunc(/(0w,2)),-1,4,2"', [(2, 4, 32, 16)], 0),
    ([(8, 16, 32), (64, 4)], 'Reshape 1 6="1h,-1"', [(64, 64)], 0),
    ([IMAGE], 'Interp 1 0=1 9="*(0w,2),*(0h,3)"', [(4, 30, 32)], 0),
    ([ROWS], 'Interp 1 0=2 9="*(0w,2)"', [(10, 32)], 0),
    ([IMAGE, (2, 44, 33)], 'Interp 1 0=3 9="1w,1h"', [(4, 44, 33)], 0),
    ([IMAGE], 'Crop 1 19="1,//(0w,2)" 20="-(0h,1),0w" 21="1,2"', [(4, 8, 8)], 0),
    # Sizes
    ([IMAGE, (2, 44, 33)], "Interp 1 0=2 5=1", [(4, 44, 33)], 0),
    ([IMAGE], "Interp 1 0=1 1=0.3333 2=0.75", [(4, 3, 12)], 0),
    ([IMAGE], "Interp 1 0=2 3=30 1=2.0 2=2.0", [(4, 20, 32)], 0),
    ([IMAGE], "Crop 1 0=1 1=2 2=1 3=-233 4=5 5=-233", [(3, 5, 15)], 0),
    ([IMAGE], "Crop 1 0=3 3=20 4=5 5=2", [(2, 5, 13)], 0),
    ([IMAGE], "Crop 1 -23309=1,-233 -23310=1,5 -23311=1,-1", [(4, 10, 5)], 0),
    ([IMAGE, (4, 3)], "Crop 1 0=1 1=2", [(4, 4, 3)], 0),
    ([(4, 3, 10, 16), (2, 4, 3)], "Crop 1 0=1 1=2", [(4, 1, 4, 3)], 0),
    ([IMAGE], "Slice 2 -23302=1,-3 1=1", [(4, 7, 16), (4, 3, 16)], 0),
    ([(16,)], "Tile 1 0=2 1=3", [(48,)], 0),
    ([(4, 3, 10, 16)], "Tile 1 -23302=3,2,1,3", [(4, 6, 10, 48)], 0),
    ([CUBE], "Padding 1 0=1 1=2 2=3 3=4 7=1 8=2", [(4, 15, 17, 23)], 0),
    # The rest
    ([IMAGE], "ArgMax 1 0=1 1=3", [(2, 3)], 0),
    ([IMAGE], "GLU 1 0=-1", [(4, 10, 8)], 0),
    ([IMAGE], "CumulativeSum 1 0=1", [IMAGE], 0),
    ([IMAGE], "Flip 1 -23300=2,0,-1", [IMAGE], 0),
    ([IMAGE, (2, 4, 4)], "CopyTo 1 0=2 1=1 2=1", [IMAGE], 0),
    ([(16,)], "Diag 1 0=2", [(18, 18)], 0),
    ([ROWS], "Diag 1 0=8", [(8,)], 0),
    ([ROWS], "Diag 1 0=-3", [(7,)], 0),
    ([IMAGE, (5, 7, 2)], "GridSample 1 0=1", [(4, 5, 7)], 0),
    ([IMAGE, (2, 5, 7)], "GridSample 1 0=2 3=1", [(4, 5, 7)], 0),
    ([(4, 6, 10, 16), (5, 7, 2, 3)], "GridSample 1 0=1", [(4, 5, 7, 2)], 0),
    ([IMAGE, (4,)], "ROIAlign 1 0=7 1=5", [(4, 5, 7)], 0),
    ([IMAGE, (4,)], "ROIPooling 1 0=7 1=5", [(4, 5, 7)], 0),
    ([(98, 10, 16), (4,)], "PSROIPooling 1 3=2", [(2, 7, 7)], 0),
    ([(2, 10, 16)], "SPP 1 1=3", [(2, 1, 21)], 0),
    ([IMAGE], "StatisticsPooling 1 0=1", [(8,)], 0),
    ([IMAGE], "MVN 1 0=1", [IMAGE], 0),
    ([IMAGE], "LRN 1 0=1", [IMAGE], 0),
    ([IMAGE], "Threshold 1 0=0.5", [IMAGE], 0),
    ([IMAGE], "BNLL 1", [IMAGE], 0),
    ([IMAGE], "Shrink 1 0=0.1", [IMAGE], 0),
    ([IMAGE], "Exp 1 0=2.0 1=3.0 2=1.0", [IMAGE], 0),
    ([IMAGE], "Log 1 0=10.0", [IMAGE], 0),
    ([IMAGE], "Power 1 0=2.0 1=0.5", [IMAGE], 0),
    ([IMAGE], "Quantize 1 0=1", [IMAGE], 0),
    ([IMAGE], "Dequantize 1 0=1", [IMAGE], 0),
    ([IMAGE], "Cast 1 0=1 1=2", [IMAGE], 0),
    ([IMAGE], "PriorBox 1 -23300=2,0.1,0.2 -23302=3,1.0,2.0,0.5 9=-233 10=-233", [(4 * 160 * 4,)], 0),
    *(([IMAGE], f"UnaryOp 1 0={kind}", [IMAGE], 0) for kind in range(28)),
    *(([IMAGE, (16,)], f"BinaryOp 1 0={kind}", [IMAGE], 0) for kind in range(19)),
]  # fmt: skip


@pytest.mark.parametrize(("inputs", "layer", "shapes", "macs"), CASES, ids=[f"{case[0]} {case[1]}" for case in CASES])
def test_a_layer_gives_shapes_and_products(
    inputs: list[tuple[int, ...]], layer: str, shapes: list[tuple[int, ...]], macs: int, tmp_path: Path
) -> None:
    path = tmp_path / "network.param"
    path.write_text(text_of(*inputs, layer=layer))
    reading = NcnnReading("network", list(read_layers(path, Budget())), ModelOptions())

    graph = reading.graph()

    assert [reading.blobs[f"y{index}"].shape for index in range(len(shapes))] == shapes
    assert graph_macs(graph) == macs


@pytest.mark.parametrize(("inputs", "layer", "shapes", "macs"), CASES, ids=[f"{case[0]} {case[1]}" for case in CASES])
def test_the_installed_ncnn_gives_the_same_shapes(
    inputs: list[tuple[int, ...]], layer: str, shapes: list[tuple[int, ...]], macs: int
) -> None:
    ncnn = pytest.importorskip("ncnn")
    kind = layer.partition(" ")[0]
    if kind in NOT_IN_THE_WHEEL:
        pytest.skip(f"ncnn's wheel has no {kind}")
    if layer.endswith("1=16384 2=2"):
        pytest.skip("ncnn would read beyond the weights")
    net = ncnn.Net()
    net.opt.use_packing_layout = net.opt.use_fp16_storage = False
    assert net.load_param_mem(text_of(*inputs, layer=layer)) == 0
    assert net.load_model(ncnn.DataReaderFromEmpty()) == 0
    extractor = net.create_extractor()
    for index, shape in enumerate(inputs):
        extractor.input(f"x{index}", ncnn.Mat(np.ones(shape, np.float32)).clone())

    for index, shape in enumerate(shapes):
        code, mat = extractor.extract(f"y{index}")

        assert code == 0
        assert {1: (mat.w,), 2: (mat.h, mat.w), 3: (mat.c, mat.h, mat.w), 4: (mat.c, mat.d, mat.h, mat.w)}[mat.dims] == shape


def test_every_layer_of_the_installed_ncnn_is_known() -> None:
    ncnn = pytest.importorskip("ncnn")

    known = {ncnn.layer_to_index(name) for name in ("Input", *CONVERSIONS)}

    assert {index for index in range(300) if ncnn.create_layer(index) is not None} <= known


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("0w,0h,0d,0c,0n", [16, 14, 12, 4, 1]),
        ("*(0w,//(0h,4)),-1", [48, -1]),
        ("ceil(/(0w,3)),floor(/(0w,3)),round(/(0w,3)),trunc(*(0w,0.3333))", [6, 5, 5, 5]),
        ("max(1w,min(0h,3)),abs(-(0h,0w)),neg(2),sign(0w),square(3)", [7, 2, -2, 1, 9]),
        ("sqrt(0w),pow(2,3),remainder(7,4),fmod(7,4)", [4, 8, 3, 3]),
        ("and(6,3),or(6,3),xor(6,3),lshift(1,4),rshift(16,2)", [2, 7, 5, 16, 4]),
    ],
)
def test_an_expression_is_worked_out(text: str, sizes: list[int]) -> None:
    assert evaluate_sizes(text, [(4, 12, 14, 16), (7,)]) == sizes


@pytest.mark.parametrize("text", ["2w", "*(0w", "/(0w,0)", "size(0w)", "square(square(square(square(square(0w)))))", "sqrt(-1)"])
def test_an_expression_that_has_no_value_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="cannot be worked out"):
        evaluate_sizes(text, [(4, 14, 16)])


# Refusals


def refusal(folder: Path, *lines: str, **arguments: object) -> str:
    path = folder / "network.param"
    path.write_text("\n".join(["7767517", f"{len(lines)} {len(lines)}", *lines, ""]))
    with pytest.raises(ModelError) as caught:
        load_graph(path, **arguments)  # type: ignore[arg-type]
    return str(caught.value)


def test_the_hint_that_a_refusal_suggests_lets_an_unknown_layer_be_read(tmp_path: Path) -> None:
    lines = ["Input x 0 1 x 0=8 1=8 2=4", "MyLayer m 1 1 x y"]
    hint = refusal(tmp_path, *lines).rpartition(" ")[2]

    lines[1] += " " + hint.replace("W", "4").replace("H", "2").replace("C", "3")
    (tmp_path / "hinted.param").write_text("\n".join(["7767517", "2 2", *lines, ""]))

    assert load_graph(tmp_path / "hinted.param").shape("y") == (1, 3, 2, 4)
    assert "for inputs of these sizes; write the sizes" in refusal(tmp_path, *lines, shapes={"x": (1, 4, 9, 9)})


def test_a_hint_holds_for_an_input_of_which_the_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "hinted.param").write_text("7767517\n2 2\nInput x 0 1 x\nMyLayer m 1 1 x y -23330=4,3,4,2,3\n")

    assert load_graph(tmp_path / "hinted.param", shapes={"x": (1, 4, 9, 9)}).shape("y") == (1, 3, 2, 4)


@pytest.mark.parametrize(
    ("layer", "weights", "stated"),
    [
        ("LSTM", 4 * 64 * 64, "0=64 1={}"),
        ("GRU", 3 * 64 * 64, "0=64 1={}"),
        ("RNN", 2 * 64 * 64, "0=64 1={} 2=2"),
        ("InnerProduct", 10 * 64, "0=10 2={}"),
        ("MultiHeadAttention", 8 * 64, "0=8 1=2 2={} 3=64 4=64"),
    ],
)
def test_weights_of_part_of_an_output_are_refused(tmp_path: Path, layer: str, weights: int, stated: str) -> None:
    lines = ["Input x 0 1 x 0=64 1=20", f"{layer} m 1 1 x y {stated}"]
    (tmp_path / "whole.param").write_text("\n".join(["7767517", "2 2", *lines, ""]).format(weights))

    assert load_graph(tmp_path / "whole.param").outputs == ("y",)
    assert "weights" in refusal(tmp_path, *(line.format(weights + 1) for line in lines))


def test_an_operator_of_pytorch_that_pnnx_left_is_named(tmp_path: Path) -> None:
    assert "ncnn has no such layer: pnnx leaves" in refusal(tmp_path, "Input x 0 1 x 0=8", "torch.topk t 1 1 x y")


def test_the_file_of_pnnx_itself_is_named(tmp_path: Path) -> None:
    line = "pnnx.Input pnnx_input_0 0 1 0 #0=(1,3,32,32)f32"

    assert "this is PNNX's own file (.pnnx.param); give the .ncnn.param beside it" in refusal(tmp_path, line)


@pytest.mark.parametrize("name", ["net.ncnn.bin", "net.ncnn.param.bin"])
def test_the_weights_of_a_network_point_to_its_text(name: str, tmp_path: Path) -> None:
    (tmp_path / "net.ncnn.param").write_text(text_of((8,), layer="ReLU 1"))
    (tmp_path / name).write_bytes(b"weights")

    with pytest.raises(ModelError, match=r"give the text file beside it, '.*net\.ncnn\.param'"):
        load_graph(tmp_path / name)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        ("LSTM c 1 1 x y 0=64 1=16384", (1, 64)),
        ("LSTM c 1 1 x y 0=16 1=1536 2=2", (1, 12)),
        ("GRU c 1 1 x y 0=16 1=576", (1, 12)),
        ("Spectrogram c 1 1 x y 0=64 1=1", (1, 128)),
        ("GRU c 1 1 x y 0=32 1=6144", (1, 64)),
        ("MultiHeadAttention c 1 1 x y 0=64 1=4 2=4096", (1, 64)),
        ("Convolution3D c 1 1 x y 0=6 1=3 4=1 6=486", (1, 3)),
        ("Convolution1D c 1 1 x y 0=64 1=3 4=1 6=1536", (1, 8)),
    ],
)
def test_the_shape_that_is_suggested_for_an_open_input_can_be_read(layer: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    words = refusal(tmp_path, "Input x 0 1 x", layer)
    suggested = tuple(map(int, words.rpartition("--shape x=")[2].split(",")))

    assert shape[1] in suggested[1:]
    assert load_graph(tmp_path / "network.param", shapes={"x": suggested}).shape("x") == suggested


@pytest.mark.parametrize(("cache", "macs"), [(32, 4 * 36), (0, 4 * 4)])
def test_a_layer_of_a_decoder_of_pnnx_is_read_with_its_cache(cache: int, macs: int, tmp_path: Path) -> None:
    lines = [
        "Input in0 0 1 in0",
        "Input in1 0 1 mask",
        "Input kv_cache 0 2 cache_k0 cache_v0",
        "Split s 1 2 in0 a b",
        "Gemm q 1 1 a q 10=4 3=1 5=1 6=1 8=896 9=896",
        "Reshape r 1 1 q heads 0=64 1=14 2=-1",
        "Permute p 1 1 heads queries 0=2",
        "Gemm k 1 1 b k 10=-1 3=1 5=1 6=1 8=128 9=896 18=800",
        "Reshape r1 1 1 k heads1 0=64 1=2 2=-1",
        "Permute p1 1 1 heads1 keys 0=2",
        "Split s1 1 2 keys keys1 values",
        "SDPA attend 6 3 queries keys1 values mask cache_k0 cache_v0 mixed out_k out_v 5=1 6=0.125 7=1",
        "Permute p2 1 1 mixed tokens 0=2",
        "Reshape r2 1 1 tokens y 0=896 1=-1",
    ]
    path = tmp_path / "decoder.ncnn.param"
    path.write_text("\n".join(["7767517", f"{len(lines)} 20", *lines, ""]))
    shapes = {"in0": (1, 4, 896), "mask": (1, 4, cache + 4)} | dict.fromkeys(("cache_k0", "cache_v0"), (1, 2, cache, 64))

    graph = load_graph(path, shapes=shapes)

    assert (graph.shape("y"), graph.shape("out_k")) == ((1, 4, 896), (1, 2, cache + 4, 64))
    assert graph_macs(graph) == 4 * 896 * (896 + 128) + 14 * macs * 128


def test_an_axis_that_becomes_the_batch_is_refused(tmp_path: Path) -> None:
    assert "batch of 1" in refusal(tmp_path, "Input x 0 1 x 0=8 1=8", "Reshape r 1 1 x y 0=8 1=8 13=0")
