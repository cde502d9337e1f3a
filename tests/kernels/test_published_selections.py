"""Deduced kernels against those that phones recorded (Li et al. §4.1, their published operations)."""

from __future__ import annotations

import ast
import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from latcast.graph.builder import GraphBuilder
from latcast.graph.ir import Graph
from latcast.kernels import FusionRules, find_kernels, kernel_type
from latcast.kernels.executed_names import LINK, PYTORCH_METAL, PYTORCH_VULKAN, TFLITE_GPU, executed_names
from latcast.kernels.rules import rules_for
from latcast.kernels.selection import selection_of
from latcast.spaces.catalogue import build
from latcast.spaces.pytorchcv import reference_of

Row = Mapping[str, str]

ANDROID = ("pixel4", "mi8se", "s10", "a03s")
APPLE = ("iphone7", "iphonexs")

TFLITE_TYPES = {
    "CONV_2D": "conv", "CONV_2D_GROUP": "grouped_conv", "DEPTHWISE_CONV_2D": "depthwise_conv",
    "AVERAGE_POOL_2D": "average_pool", "MAX_POOL_2D": "max_pool",
}  # fmt: skip

RECORDED = frozenset({*TFLITE_GPU.values()}) - {"convolution_transposed"}
"""Kernels that the files list: padding and what element-wise operators begin are not among them."""


@cache
def rows_of(folder: Path, file: str) -> Sequence[Row]:
    path = folder / "usc" / file
    if not path.is_file():
        pytest.skip(f"no published operations at {path}")
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


@cache
def features(text: str) -> Mapping[str, Any]:
    return dict(ast.literal_eval(text))


def signature(name: str) -> str:
    """A recorded name without the numbers of its operators."""
    return LINK.join(re.sub(r"(_\d+)+$", "", part) for part in name.split(LINK))


def conv_row(batch_size: int, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """A square convolution."""
    c = sizes
    square = {f"{name}_{axis}": c[name] for name in ("in", "out", "kernel", "stride") for axis in "hw"}
    other = {name: c[name] for name in ("in_channels", "out_channels", "groups")}
    fixed = {"batch": batch_size, "dilation_h": 1, "dilation_w": 1, "padded": int(c["kernel"] > 1)}
    return kernel_type("conv").configuration({**square, **other, **fixed})


def tflite_configuration(row: Row) -> tuple[int, ...]:
    f = {name: int(value) for name, value in features(row["feature"]).items() if str(value).isdigit()}
    sizes = {"in": f["Input_shape"], "out": f["Output_shape"], "kernel": f["Kernel"], "stride": f["Stride"]}
    channels = f["Input_channel"]
    if TFLITE_TYPES[row["operation"]].endswith("pool"):
        pool = (f["Input_shape"],) * 2, (f["Output_shape"],) * 2, (f["Kernel"],) * 2, (f["Stride"],) * 2
        return (1, channels, *(size for pair in pool for size in pair), 0, 0, 0)
    depthwise = row["operation"] == "DEPTHWISE_CONV_2D"
    groups = channels if depthwise else f["Group"]
    filters = channels if depthwise else f["Filter"]
    return conv_row(1, {**sizes, "in_channels": channels, "out_channels": filters, "groups": groups})


def chosen_names(rows: Sequence[Row], selection: str) -> list[str]:
    """The delegate's name of the kernel that is chosen for each row."""
    found = [""] * len(rows)
    for operation in {row["operation"] for row in rows}:
        places = [place for place, row in enumerate(rows) if row["operation"] == operation]
        configurations = np.array([tflite_configuration(rows[place]) for place in places])
        names = selection_of(selection).names(TFLITE_TYPES[operation], configurations)
        for place, name in zip(places, names, strict=True):
            found[place] = TFLITE_GPU[name]
    return found


def separable(first: Row, second: Row) -> Graph:
    """A depthwise convolution and the convolution after it."""
    b = GraphBuilder("two rows")
    one, two = features(first["feature"]), features(second["feature"])
    size, channels = int(one["Input_shape"]), one["Input_channel"]
    x = b.input((1, channels, size, size))
    # Sizes of depthwise convolutions include the padding.
    x = b.relu(b.conv(x, channels, int(one["Kernel"]), stride=int(one["Stride"]), padding=0, groups=channels))
    return b.finish(b.conv(x, int(two["Filter"]), int(two["Kernel"]), stride=int(two["Stride"])))


def fused_pairs(rows: Sequence[Row], rules: FusionRules) -> list[int]:
    """Places of depthwise convolutions that run as one kernel with the convolution in the row after them."""
    return [
        place
        for place, (first, second) in enumerate(pairwise(rows))
        if (first["operation"], second["operation"]) == ("DEPTHWISE_CONV_2D", "CONV_2D")
        and (first["model"], features(first["feature"])["Output_shape"])
        == (second["model"], features(second["feature"])["Input_shape"])
        and find_kernels(separable(first, second), rules)[0].kernel_type == "depthwise_pointwise"
    ]


@pytest.mark.parametrize("device", [*ANDROID, *APPLE])
def test_tflite_chooses_the_recorded_kernel_of_every_operation(published_data: Path, device: str) -> None:
    rows = [row for row in rows_of(published_data, "tflite_cnn_ops_gpu.csv") if row["operation"] in TFLITE_TYPES]
    rules = rules_for("tflite", "fp16", "gpu", device)

    chosen = chosen_names(rows, rules.selection)
    pairs = fused_pairs(rows, rules)
    for place in pairs:
        chosen[place] = chosen[place + 1] = TFLITE_GPU["depthwise_pointwise"]

    recorded = [signature(row[f"{device}|gpu|kernel"]).split(LINK)[0] for row in rows]
    wrong = Counter((a, b) for a, b in zip(chosen, recorded, strict=True) if a != b)
    assert len(rows) > 3000
    assert bool(pairs) == (device in APPLE)
    assert wrong == {}


@pytest.mark.parametrize("device", ["pixel4", "s10", "onefusion"])
def test_vulkan_chooses_the_recorded_convolution_from_an_operation_s_sizes(published_data: Path, device: str) -> None:
    rows = [row for row in rows_of(published_data, "torch_cnn_ops_gpu.csv") if row["operation"].endswith("conv2d_context")]
    selection = selection_of(rules_for("pytorch", "fp16", "gpu", device).selection)

    chosen = []
    for row in rows:
        f = features(row["feature"])
        # Depthwise convolutions lack their groups.
        groups = f.get("groups", f["input_channel"])
        sizes = {"in": f["input_shape"], "out": f["output_shape"], "kernel": f["kernel_size"], "stride": f["stride"]}
        channels = {"in_channels": f["input_channel"], "out_channels": f["output_channel"], "groups": groups}
        kind = "conv" if groups == 1 else "depthwise_conv" if groups == f["input_channel"] else "grouped_conv"
        chosen.append(PYTORCH_VULKAN[selection.kernel(kind, conv_row(1, {**sizes, **channels}))[0]])

    assert len(rows) > 3000
    assert chosen == [row[f"{device}|gpu|kernel"] for row in rows]


@cache
def graph_of(name: str) -> Graph:
    return build(reference_of(name))


def by_network(rows: Sequence[Row]) -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["model"], []).append(row)
    return found


def deduced(name: str, rules: FusionRules, names: frozenset[str]) -> Counter[str]:
    """Kernels of a network by the backend's name, of those that it records."""
    graph = graph_of(name)
    executed = executed_names(graph, find_kernels(graph, rules), rules)
    return Counter(each for each in executed if each.split(LINK)[0] in names)


def recorded_tflite(rows: Sequence[Row], device: str) -> Counter[str]:
    """Recorded kernels; one that two operations share is listed at both under the same numbers."""
    return Counter(signature(name) for name in dict.fromkeys(row[f"{device}|gpu|kernel"] for row in rows))


@pytest.mark.parametrize("device", ["pixel4", "s10", "iphonexs"])
@pytest.mark.parametrize("name", ["mobilenetv3_large_w1", "preresnet10", "regnety002", "squeezenet_v1_0"])
def test_a_network_s_kernels_are_deduced_with_all_that_is_fused(published_data: Path, name: str, device: str) -> None:
    rows = by_network(rows_of(published_data, "tflite_cnn_ops_gpu.csv"))[name]

    assert deduced(name, rules_for("tflite", "fp16", "gpu", device), RECORDED) == recorded_tflite(rows, device)


@pytest.mark.parametrize("device", [*ANDROID, *APPLE])
def test_tflite_kernels_of_all_networks_are_deduced(published_data: Path, device: str) -> None:
    networks = by_network(rows_of(published_data, "tflite_cnn_ops_gpu.csv"))
    rules = rules_for("tflite", "fp16", "gpu", device)

    matched = total = same_count = 0
    for name, rows in networks.items():
        recorded, found = recorded_tflite(rows, device), deduced(name, rules, RECORDED)
        matched += (recorded & found).total()
        total += recorded.total()
        same_count += recorded.total() == found.total()

    # DenseNets were converted with each strided average pooling as two operators. Which of two branches takes a sum in
    # depends on the order in which the converter wrote them.
    assert matched / total >= 0.99
    assert same_count / len(networks) >= 0.97


@pytest.mark.parametrize(("device", "names"), [("pixel4", PYTORCH_VULKAN), ("s10", PYTORCH_VULKAN), ("iphonexs", PYTORCH_METAL)])
def test_pytorch_kernels_of_all_networks_are_deduced(published_data: Path, device: str, names: Mapping[str, str]) -> None:
    networks = by_network(rows_of(published_data, "torch_cnn_ops_gpu.csv"))
    rules = rules_for("pytorch", "fp16", "gpu", device)

    all_names = frozenset(names.values()) - {"vulkan.cat"} | {"vulkan.add", "vulkan.mul", "vulkan.sigmoid"}
    for name, rows in networks.items():
        recorded = Counter(row[f"{device}|gpu|kernel"] for row in rows if row[f"{device}|gpu|kernel"])
        found = deduced(name, rules, all_names)
        # A normalisation before an activation: PyTorch Mobile folds it into the convolution of its own module alone, while
        # in the exported file it is folded into the convolution before it.
        kept_apart = (recorded - found)["vulkan.batchnorm"] if "preresnet" in name else 0
        found.update({"vulkan.batchnorm": kept_apart, "vulkan.clamp": kept_apart})

        assert (name, +found) == (name, recorded)
