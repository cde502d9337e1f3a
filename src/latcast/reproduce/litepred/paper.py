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
