"""What Jiang et al. (APSys 2020) print."""

from __future__ import annotations

from collections.abc import Mapping

RULES = ("I", "II", "III", "IV", "V")

TABLE_3: Mapping[str, tuple[float, ...]] = {
    "conv": (0.74, 0.81, 0.80, 0.78, 0.82),
    "depthwise_conv": (0.88, 0.90, 0.86, 0.90, 0.99),
}
"""Importance scores of rules I to V, on the phones together."""

DEVICES = ("Hikey 970", "Vivo X30", "Google Pixel 3XL", "Xiaomi Mi 9")

TABLE_2: Mapping[str, tuple[int, ...]] = {
    "VGG19": (1_467_829, 262_894, 10_092, 3_693),
    "VGG16": (246_950, 209_082, 10_099, 3_944),
    "ResNet-152": (90_820, 47_266, 3_062, 1_641),
    "ResNet-101": (26_814, 32_964, 2_107, 1_302),
    "MobileNetsV1": (11_421, 2_708, 656, 465),
    "InceptionV3": (14_637, 19_756, 1_613, 1_039),
    "DenseNet-201": (95_764, 22_372, 1_735, 969),
    "DenseNet-121": (73_854, 17_921, 1_081, 716),
    "NASNet": (9_609, 5_685, 2_646, 1_858),
}
"""Initialisation in ms on each of :data:`DEVICES`; the two with Mali GPUs search exhaustively."""

CANDIDATES = "up to about 3,000"
"""Sizes that the exhaustive search tries (§5)."""

COMPETITIVE_PERCENT: Mapping[str, str] = {"conv": "about 9", "depthwise_conv": "69.4 (Mali), about 30 (Adreno)"}
"""Share of sizes within 15 % of the best (§4.1)."""

SPEEDUP = "11.2 % less latency on average, 32.8 % at most, over TFLite 2.1"
"""Effect on whole networks (Fig. 6, §4.2)."""

NETWORKS: Mapping[str, str] = {
    "VGG19": "vgg19", "VGG16": "vgg16", "ResNet-152": "resnet152", "ResNet-101": "resnet101", "MobileNetsV1": "mobilenet_v1",
    "DenseNet-201": "densenet201", "DenseNet-121": "densenet121",
}  # fmt: skip
"""Those of the paper's networks that are built here, by their name here; InceptionV3 and NASNet are not."""
