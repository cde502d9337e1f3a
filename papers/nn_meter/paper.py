"""What nn-Meter's paper prints, by table and figure.

Devices are the paper's: a Cortex-A76 (CPU) and an Adreno 640 (GPU) under TFLite 2.1, an Intel NCS2 (VPU) under OpenVINO 2019
(Table 7). Accuracies are in percent. Where a figure has no printed numbers, those of its text are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

Figures = TypeVar("Figures")

DEVICES = ("CPU", "GPU", "VPU")


class EndToEnd(NamedTuple):
    """A cell group of Tables 8 and 11."""

    rmse_ms: float
    rmspe: float
    within_5: float
    within_10: float


FAMILY_TITLES: Mapping[str, str] = {
    "alexnet": "AlexNets", "vgg": "VGGs", "densenet": "DenseNets", "googlenet": "GoogleNets", "squeezenet": "SqueezeNets",
    "resnet": "ResNets", "mobilenet_v1": "MobileNetv1s", "mobilenet_v2": "MobileNetv2s", "mobilenet_v3": "MobileNetv3s",
    "shufflenet_v2": "ShuffleNetv2s", "mnasnet": "MnasNets", "proxylessnas": "ProxylessNass", "nas_bench_201": "NASBench201",
}  # fmt: skip
"""Families by our names, as Table 8 calls and orders them."""

TABLE_2_MEAN_MFLOPS: Mapping[str, float] = {
    "alexnet": 973, "vgg": 28422, "densenet": 1794, "resnet": 4151, "squeezenet": 1597, "googlenet": 1475, "mobilenet_v1": 547,
    "mobilenet_v2": 392, "mobilenet_v3": 176, "shufflenet_v2": 307, "mnasnet": 327, "proxylessnas": 532, "nas_bench_201": 97.5,
}  # fmt: skip
"""Mean multiply-accumulates of each family, in millions (Table 2)."""

TABLE_2_CPU_MS: Mapping[str, tuple[float, float]] = {
    "alexnet": (7.1, 494.4), "vgg": (178.4, 10289), "densenet": (109.6, 431.6), "resnet": (35.9, 1921.7),
    "squeezenet": (42.7, 524.9), "googlenet": (115.5, 274.6), "mobilenet_v1": (27.5, 140.0), "mobilenet_v2": (15.6, 211.0),
    "mobilenet_v3": (10.4, 78.4), "shufflenet_v2": (22.2, 84.3), "mnasnet": (25.6, 99.3), "proxylessnas": (34.5, 195.9),
    "nas_bench_201": (5.6, 27.9),
}  # fmt: skip
"""Lowest and highest latency of each family on the CPU (Table 2)."""


def _by_device(kind: Callable[..., Figures], cells: Iterable[Sequence[float] | None]) -> Mapping[str, Figures]:
    """Return figures of the devices that have some."""
    return {device: kind(*each) for device, each in zip(DEVICES, cells, strict=True) if each is not None}


TABLE_8: Mapping[str, Mapping[str, EndToEnd]] = {
    family: _by_device(EndToEnd, cells)
    for family, cells in {
        "alexnet": ((4.02, 3.9, 81.0, 98.6), (0.93, 5.32, 72.0, 94.0), (1.17, 10.74, 23.4, 60.9)),
        "vgg": ((185.71, 4.84, 66.1, 98.2), (12.74, 2.97, 91.8, 99.8), (85.35, 22.25, 27.1, 50.6)),
        "densenet": ((7.1, 2.76, 93.1, 99.9), (1.99, 4.52, 68.55, 99.9), (2.83, 5.89, 75.6, 86.3)),
        "googlenet": ((5.69, 3.27, 85.9, 100), (0.44, 1.35, 100, 100), (0.94, 5.86, 39.7, 98.4)),
        "squeezenet": ((7.19, 3.59, 84.5, 99.9), (1.17, 3.85, 81.9, 97.9), (1.93, 7.08, 66.1, 88.5)),
        "resnet": ((26.87, 4.41, 72.3, 98.1), (2.58, 3.16, 88.8, 99.9), (3.39, 7.42, 37.9, 84.2)),
        "mobilenet_v1": ((3.71, 4.98, 63.8, 97.8), (0.37, 2.56, 96.9, 100), (1.21, 5.9, 54.2, 93.3)),
        "mobilenet_v2": ((3.25, 4.84, 67.6, 97.7), (0.54, 3.93, 80.0, 99.0), (1.29, 4.26, 78.3, 97.6)),
        "mobilenet_v3": ((2.03, 4.34, 73.8, 99.0), (0.4, 4.02, 84.4, 100), (2.47, 5.72, 47.6, 98.5)),
        "shufflenet_v2": ((2.48, 5.01, 61.6, 98.3), None, (1.91, 6.37, 45.6, 91.3)),
        "mnasnet": ((3.19, 5.54, 50.9, 99.2), (0.25, 1.86, 100, 100), (1.76, 4.34, 77.3, 97.7)),
        "proxylessnas": ((3.18, 3.44, 84.6, 100), (0.61, 3.28, 95.6, 98.9), (1.97, 5.05, 65.6, 96.9)),
        "nas_bench_201": ((0.44, 3.51, 82.4, 99.9), (0.12, 3.8, 75.9, 100), (0.9, 18.2, 19.3, 40.6)),
    }.items()
}  # fmt: skip

TABLE_4: Mapping[str, Mapping[str, int]] = {
    "CPU": {"conv+bn+relu": 9, "maxpool": 1, "conv+bn": 11, "add+relu": 8, "avgpool": 1, "fc": 1},
    "GPU": {"conv+bn+relu": 9, "maxpool": 1, "conv+bn+add+relu": 8, "conv+bn": 3, "avgpool": 1, "fc": 1},
    "VPU": {"conv+bn+relu": 9, "maxpool": 1, "conv+bn": 11, "add+relu": 8, "avgpool": 1, "fc": 1},
}
"""Kernels found for ResNet18."""

KINDS_OF_KERNELS: Mapping[str, int] = {"CPU": 22, "GPU": 26, "VPU": 22}
"""Different kernels found in the whole benchmark (§6)."""


class KernelAccuracy(NamedTuple):
    """A cell group of Table 9."""

    rmse_ms: float
    within_10: float


TABLE_9: Mapping[str, tuple[str, Mapping[str, KernelAccuracy]]] = {
    kernel_type: (title, _by_device(KernelAccuracy, cells))
    for kernel_type, (title, *cells) in {
        "conv": ("Conv+bn+relu", (6.24, 89.1), (6.77, 82.0), (18.74, 67.9)),
        "depthwise_conv": ("DWConv+bn+relu", (0.21, 97.4), (0.1, 98.7), (0.28, 89.4)),
        "linear": ("FC", (0.64, 94.3), (0.07, 96.2), (0.12, 93.9)),
        "max_pool": ("maxpool", (0.12, 89.6), (0.06, 97.1), (0.21, 89.7)),
        "average_pool": ("avgpool", (1.94, 99.0), (0.01, 99.7), (0.26, 95.4)),
        "squeeze_excite": ("SE", (0.45, 87.1), (0.39, 99.8), (0.44, 99.0)),
        "activation": ("hswish", (0.16, 98.1), (0.01, 100), (0.02, 100)),
        "channel_shuffle": ("channelshuffle", (0.14, 99.5), None, (0.35, 100)),
        "batch_norm": ("bn+relu", (0.85, 80.7), (0.01, 100), None),
        "arithmetic": ("add+relu", (0.1, 93.7), (0.003, 98.3), (0.02, 98.9)),
        "concat": ("concat", (0.09, 89.3), (0.42, 77.1), None),
    }.items()
}  # fmt: skip
"""Our kernel type to the paper's kernel and its accuracy."""

TABLE_10: Mapping[str, Mapping[str, KernelAccuracy]] = {
    "CPU": {"random": KernelAccuracy(25.47, 21.92), "adaptive": KernelAccuracy(10.13, 71.78)},
    "GPU": {"random": KernelAccuracy(1.67, 48.70), "adaptive": KernelAccuracy(1.19, 75.34)},
    "VPU": {"random": KernelAccuracy(7.87, 23.98), "adaptive": KernelAccuracy(7.58, 54.33)},
}
"""Conv+bn+relu on the fixed test set, by how its training configurations were sampled."""

TABLE_11: Mapping[str, tuple[EndToEnd, EndToEnd]] = {
    family: (EndToEnd(*other), EndToEnd(*own))
    for family, (other, own) in {
        "alexnet": ((8.02, 25.4, 0.6, 2.3), (0.87, 3.61, 86.5, 97.9)),
        "vgg": ((154.5, 24.85, 0, 0), (19.47, 3.1, 89.5, 99.9)),
        "densenet": ((4.44, 7.8, 18.4, 84.0), (2.41, 4.58, 67.1, 100)),
        "googlenet": ((6.71, 17.03, 0, 0), (1.45, 3.75, 95.8, 100)),
        "squeezenet": ((8.02, 19.21, 0.4, 3.0), (1.14, 3.3, 87.3, 100)),
        "resnet": ((33.82, 21.36, 1.3, 11.0), (2.52, 2.65, 93.4, 100)),
        "mobilenet_v1": ((0.28, 1.92, 98.3, 100), (0.23, 1.68, 99.7, 100)),
        "mobilenet_v2": ((0.85, 5.43, 55.6, 97.2), (0.41, 3.42, 85.7, 99.5)),
        "mobilenet_v3": ((0.87, 8.25, 5.2, 87.5), (0.56, 6.14, 31.5, 99.6)),
        "mnasnet": ((0.74, 5.45, 42.2, 99.8), (0.31, 2.26, 99.9, 100)),
        "proxylessnas": ((0.86, 4.33, 71.5, 100), (0.21, 1.11, 100, 100)),
        "nas_bench_201": ((0.77, 14.94, 3.2, 17.5), (0.36, 6.22, 48.1, 90.6)),
    }.items()
}  # fmt: skip
"""Networks measured on an Adreno 630: by the predictor of the Adreno 640, and by its own."""

TABLE_12_DAYS: Mapping[str, float] = {"CPU": 2.5, "GPU": 1.0, "VPU": 4.4}
"""Measuring time of the kernels that predictors learn from."""

FIGURE_6_CONVOLUTIONS: Mapping[str, float] = {"CPU": 94.2, "GPU": 91.91, "VPU": 75.5}
"""Share of the latency in Conv and DWConv, in percent, on average over the models (§5.1)."""

FIGURE_9_FAMILIES = ("alexnet", "vgg", "mobilenet_v1", "mobilenet_v2", "nas_bench_201")

FIGURE_9_MEANS: Mapping[str, float] = {"kernel level": 89.2, "flops": 22.1, "flops_mac": 17.1, "graph_network": 8.5}
"""±10 % accuracy on unseen families, mean over the three devices (§7.2.1)."""

FIGURE_11: Mapping[str, tuple[float, float]] = {"CPU": (91.3, 99.0), "GPU": (53.7, 99.1), "VPU": (8.5, 83.4)}
"""±10 % accuracy over all networks, predicted by operators and by kernels (§7.2.2, §7.3)."""

FIGURE_11_FAMILIES: Mapping[str, Mapping[str, float]] = {
    "mobilenet_v2": {"CPU": 65.7, "GPU": 2.0},
    "nas_bench_201": {"CPU": 48.2},
    "proxylessnas": {"GPU": 6.5},
}
"""±10 % accuracy by operators of the families that the text names (§7.3)."""
