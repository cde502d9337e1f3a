"""A dataset of two networks in the published format, small enough to follow by hand."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

CONVOLUTION = {
    "Input_shape": "8", "Input_channel": 3, "Output_shape": "8", "Stride": "1", "Kernel": "3", "Filter": "4", "Group": "1",
    "FLOPS": "13824",
}  # fmt: skip
VULKAN_CONVOLUTION = {
    "input_channel": 3, "input_shape": 8, "output_channel": 4, "output_shape": 8, "kernel_size": 3, "stride": 1, "padding": 1,
    "groups": 1, "flops": 6912,
}  # fmt: skip

PHONES, CONTEXT = ("iphonexs", "pixel4"), "vulkan_prepack::run_conv2d_context"

# One 3x3 convolution from 3 to 4 channels on 8x8: 2 * 64 * 27 * 4 = 13824 FLOPs, (27 * 4) * 4 = 432 bytes.
FLOPS, SIZE_BYTES = "13824", "432"


def write_table(file: Path, rows: Sequence[Sequence[object]]) -> Path:
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return file


def write_dataset(folder: Path) -> Path:
    """Writes four of the files; those of transformers and of PyTorch's synthetic networks are absent."""
    folder.mkdir(exist_ok=True)
    gpu = ["pixel4|gpu|float|mean", "pixel4|gpu|float|std"]
    write_table(
        folder / "tflite_cnn_e2e.csv",
        [
            ["model", "FLOPS", "size", *gpu, "s10|2large|quant|mean", "s10|2large|quant|std"],
            ["net10", FLOPS, SIZE_BYTES, "2000", "20", "3000", "30"],
            ["net18", FLOPS, SIZE_BYTES, "4000", "40", "", ""],
        ],
    )
    write_table(folder / "tflite_nas_e2e.csv", [["model", "FLOPS", "size", *gpu], ["NAS0", "1000", "2000", "500", "5"]])
    write_table(
        folder / "tflite_cnn_ops_gpu.csv",
        [
            ["model", "operation", "feature", "pixel4|gpu|float", "pixel4|gpu|kernel"],
            ["net10", "CONV_2D", CONVOLUTION, "1500", "convolution_2d_0_linked_:_relu_1"],
            ["net99", "CONV_2D", CONVOLUTION, "1500", "convolution_2d_0"],
        ],
    )
    write_table(
        folder / "torch_cnn_e2e.csv",
        [
            ["model", "flops", "size", "iphonexs|gpu|float|mean", "iphonexs|gpu|float|std", *gpu],
            ["net10", FLOPS, SIZE_BYTES, "900", "9", "1000", "10"],
        ],
    )
    write_table(
        folder / "torch_cnn_ops_gpu.csv",
        [
            ["model", "operation", "feature", *(f"{phone}|gpu|{what}" for phone in PHONES for what in ("float", "kernel"))],
            ["net10", CONTEXT, VULKAN_CONVOLUTION, "800", "metal.prepack_conv2d", "700", "vulkan.conv2d"],
        ],
    )
    return folder
