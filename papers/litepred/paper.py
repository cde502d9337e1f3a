"""Figures of LitePred (Feng et al., NSDI 2024), as published."""

from __future__ import annotations

from collections.abc import Mapping

TABLE_6: Mapping[tuple[str, str], tuple[float, float]] = {
    ("Xiaomi11 CPU MindSpore", "adaptive"): (84.9, 52.8),
    ("Xiaomi11 CPU MindSpore", "vae"): (91.4, 93.6),
    ("Xiaomi11 CPU NCNN", "adaptive"): (81.5, 95.5),
    ("Xiaomi11 CPU NCNN", "vae"): (88.8, 98.3),
    ("Pixel5 GPU TFLite 2.7", "adaptive"): (61.6, 86.7),
    ("Pixel5 GPU TFLite 2.7", "vae"): (76.7, 89.1),
    ("Pixel5 GPU NCNN", "adaptive"): (65.6, 79.6),
    ("Pixel5 GPU NCNN", "vae"): (87.1, 81.7),
}
"""(platform, sampler) to the share of kernels within ±10 %, in percent: of Conv, of DWConv. 10,000 samples each."""

FEWER_THAN_RANDOM, FEWER_THAN_ONEPROXY = 2.5, 3.0
"""§7.4: how many times fewer samples the predictor of lowest divergence needs for the same accuracy (Fig. 6)."""

FEWER_AT_90 = (3.5, 3.6)
"""§7.4: how many times fewer samples suffice for 90 % of models within ±10 %, on two platforms (Fig. 8)."""

TABLE_4: Mapping[str, tuple[float, float]] = {
    "HELP": (12.2, 22.6),
    "HELP*": (40.4, 52.4),
    "nn-Meter": (66.1, 97.4),
    "LitePred": (96.9, 100.0),
}
"""Method to the share of networks within ±5 % and ±10 %, in percent: means over the table's four platforms."""

TABLE_5: tuple[tuple[str, str, str, str, int, float, float, float], ...] = (
    ("a", "Xiaomi11 CPU, ORT", "Xiaomi12 CPU, ORT", "Xiaomi12 CPU, ORT", 1400, 0.48, 90.5, 98.9),
    ("a", "Pixel5 GPU, NCNN", "Xiaomi11 GPU, NCNN", "Xiaomi11 GPU, NCNN", 17400, 0.96, 84.3, 99.1),
    ("a", "Xiaomi11 CPU, MindSpore", "Pixel5 CPU, MindSpore", "Xiaomi12 CPU, MindSpore", 4800, 0.35, 90.4, 99.9),
    ("a", "Xiaomi11 GPU, TFLite 2.7", "Xiaomi12 GPU, TFLite 2.7", "Xiaomi12 GPU, TFLite 2.7", 11000, 0.17, 83.7, 98.6),
    ("a", "Xiaomi11 CPU, NCNN", "Xiaomi11 CPU, MindSpore", "Pixel5 CPU, NCNN", 11400, 0.88, 80.3, 98.9),
    ("a", "Pixel6 CPU, TFLite 2.1", "Xiaomi12 CPU, TFLite 2.1", "Xiaomi12 CPU, TFLite 2.1", 3500, 0.16, 79.4, 100.0),
    ("a", "Pixel5 CPU, TFLite 2.7", "Xiaomi11 CPU, TFLite 2.7", "Xiaomi11 CPU, TFLite 2.7", 3400, 0.13, 79.6, 99.2),
    ("a", "Xiaomi12 CPU, TFLite 2.7, INT8", "Xiaomi11 CPU, ORT", "Pixel5 GPU, TFLite 2.7", 3100, 0.05, 95.7, 100.0),
    ("b", "Xiaomi11 CPU, ORT", "Pixel5 CPU, MindSpore", "Pixel5 GPU, NCNN", 2400, 0.72, 84.2, 99.2),
    ("b", "Xiaomi12 GPU, TFLite 2.7", "Pixel5 GPU, NCNN", "Xiaomi12 CPU, MindSpore", 16100, 0.22, 79.4, 98.7),
    ("b", "Xiaomi11 CPU, Mindspore", "Pixel5 CPU, TFLite 2.7", "Pixel5 GPU, TFLite 2.7", 9700, 0.80, 98.1, 99.2),
    ("b", "Pixel5 GPU, NCNN", "Xiaomi12 CPU, TFLite 2.1", "Xiaomi11 CPU, ORT", 18500, 1.73, 86.5, 99.3),
    ("b", "Xiaomi12 CPU, TFLite 2.1, low Freq", "Xiaomi11 GPU, NCNN", "Pixel5 CPU, MindSpore", 1800, 0.18, 94.7, 100.0),
    ("b", "Xiaomi12 CPU, TFLite 2.1", "Pixel4 CPU, TFLite 2.7", "Pixel5 CPU, MindSpore", 1800, 0.10, 97.6, 99.9),
)
"""Case (a: whole pool, b: without the target's inference framework), platform, most similar for Conv and for DWConv, kernels
measured, hours of it, and models within ±5 % and ±10 %, in percent."""

TABLE_7: Mapping[str, tuple[tuple[str, float, float, float, float], ...]] = {
    "MobileNetV2": (
        ("Pixel6 CPU, TFLite 2.1", 72.0, 45.9, 76.4, 44.4), ("Xiaomi11 CPU, Mindspore", 72.0, 22.7, 73.4, 21.8),
        ("Pixel5 GPU, NCNN", 72.0, 31.3, 75.3, 31.1), ("Xiaomi11 GPU, TFLite 2.7", 72.0, 5.0, 75.8, 5.0),
    ),
    "MobileNetV3×0.75": (
        ("Pixel6 CPU, TFLite 2.1", 73.3, 29.7, 74.8, 29.6), ("Xiaomi11 CPU, Mindspore", 73.3, 24.4, 74.5, 23.9),
        ("Pixel5 GPU, NCNN", 73.3, 34.4, 76.0, 34.3), ("Xiaomi11 GPU, TFLite 2.7", 73.3, 4.0, 74.4, 3.9),
    ),
    "MobileNetV3": (
        ("Pixel6 CPU, TFLite 2.1", 75.2, 37.2, 75.5, 36.8), ("Xiaomi11 CPU, Mindspore", 75.2, 33.4, 75.6, 33.2),
        ("Pixel5 GPU, NCNN", 75.2, 30.3, 75.6, 29.8), ("Xiaomi11 GPU, TFLite 2.7", 75.2, 4.7, 75.5, 4.6),
    ),
}  # fmt: skip
"""Network to (platform, its top-1 accuracy in percent, its milliseconds, top-1 of what was searched, its milliseconds)."""

TABLE_8: tuple[tuple[str, str, float, float, float], ...] = (
    ("Xiaomi11 CPU TFLite 2.7", "Xiaomi11 CPU TFLite 2.1", 0.05, 100.0, 100.0),
    ("Xiaomi12 CPU TFLite 2.1", "Pixel5 CPU TFLite 2.7, LowFreq", 0.08, 83.9, 99.9),
    ("Xiaomi12 CPU TFLite 2.7, INT8", "Pixel5 CPU TFLite 2.7, LowFreq", 0.02, 41.4, 99.9),
)
"""Platform, most similar platform, hours of measuring, and members of AutoFormer within ±5 % and ±10 %, in percent."""

SEARCHED = 5_000
"""§7.5: architectures that are looked at for each limit."""
