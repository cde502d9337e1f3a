"""What Li et al. (PEVA 2024) print: tables C.4 to C.7, the figures that the text names, and what its files cannot show again."""

from __future__ import annotations

from collections.abc import Mapping

MODELS = ("lasso", "random_forest", "gbdt", "mlp")
"""The four regressors, in the order of the tables."""

MODEL_TITLES: Mapping[str, str] = {"lasso": "Lasso", "random_forest": "RF", "gbdt": "GBDT", "mlp": "MLP"}

SIZES = (30, 100, 900)
"""Synthetic networks trained on."""

SOCS = ("Snapdragon 855", "Exynos 9820", "Snapdragon 710", "Helio P35", "A12 Bionic", "A10 Fusion")
"""In the order of the tables."""

UNITS = ("CPU", "GPU")
"""One large core, and the GPU: each has a column under each system on chip."""

Printed = Mapping[tuple[str, int], tuple[float | None, ...]]
"""(regressor, networks trained on) -> MAPE in percent of whole networks, a number for each of SOCS x UNITS."""

TABLE_C4: Printed = {
    ("lasso", 30): (12.84, 17.95, 9.08, 10.29, 8.85, 14.15, 15.9, 6.05, 9.28, 8.23, 11.49, 6.72),
    ("lasso", 100): (12.93, 18.71, 8.87, 10.23, 8.72, 14.46, 14.88, 5.59, 8.93, 7.83, 11.48, 6.29),
    ("lasso", 900): (13.26, 16.36, 8.9, 9.63, 9.33, 12.67, 15.09, 5.31, 8.96, 6.9, 11.48, 5.41),
    ("random_forest", 30): (10.71, 13.68, 13.52, 9.99, 11.83, 12.97, 9.98, 6.49, 8.69, 6.71, 13.38, 5.74),
    ("random_forest", 100): (6.2, 9.43, 4.9, 8.58, 6.13, 11.47, 7.79, 3.83, 5.51, 4.77, 6.67, 3.78),
    ("random_forest", 900): (2.83, 7.33, 2.82, 8.34, 2.29, 8.3, 3.09, 2.74, 2.46, 2.95, 2.99, 3.09),
    ("gbdt", 30): (7.91, 12.52, 7.76, 9.59, 7.1, 15.97, 9.08, 4.93, 9.11, 4.57, 7.57, 4.28),
    ("gbdt", 100): (3.97, 9.77, 4.36, 8.59, 4.73, 12.29, 5.45, 3.43, 5.79, 3.48, 6.61, 3.67),
    ("gbdt", 900): (2.12, 7.6, 1.92, 8.41, 2.01, 6.56, 3.71, 2.77, 1.87, 2.96, 2.72, 2.99),
    ("mlp", 30): (9.11, 10.02, 7.94, 8.55, 8.21, 10.12, 10.71, 4.84, 11.22, 4.7, 12.91, 4.41),
    ("mlp", 100): (4.03, 9.17, 3.84, 9.01, 3.07, 9.28, 6.61, 4.35, 4.72, 3.94, 4.71, 4.52),
    ("mlp", 900): (2.3, 6.37, 2.44, 8.19, 2.03, 6.35, 6.09, 3.35, 1.59, 3.13, 2.59, 3.3),
}
"""Synthetic networks, TFLite."""

TABLE_C5: Printed = {
    ("lasso", 30): (9.77, 12.04, 5.83, 12.68, 6.4, 4.78, 5.51, 6.79, 4.2, 6.51, 7.0, 6.73),
    ("lasso", 100): (8.23, 14.41, 4.85, 11.77, 7.08, 5.21, 4.87, 6.51, 4.36, 6.38, 7.46, 6.87),
    ("lasso", 900): (7.29, 12.1, 5.24, 12.28, 5.27, 4.59, 4.65, 6.06, 3.66, 6.07, 6.24, 6.67),
    ("random_forest", 30): (14.79, 14.77, 20.15, 13.23, 14.37, 7.99, 18.86, 6.81, 11.95, 8.23, 11.44, 8.08),
    ("random_forest", 100): (11.67, 9.94, 10.85, 11.24, 9.1, 5.72, 10.26, 7.19, 9.18, 7.0, 9.48, 5.95),
    ("random_forest", 900): (7.43, 7.24, 8.01, 11.39, 5.02, 5.6, 5.71, 6.01, 5.61, 6.74, 5.12, 4.8),
    ("gbdt", 30): (12.2, 12.13, 16.57, 12.5, 11.92, 9.03, 16.11, 6.92, 11.46, 11.03, 8.9, 9.14),
    ("gbdt", 100): (12.32, 7.83, 10.28, 12.32, 7.38, 5.24, 10.19, 6.44, 8.72, 8.08, 8.53, 4.95),
    ("gbdt", 900): (6.38, 6.68, 7.86, 11.87, 4.79, 4.15, 4.8, 5.86, 5.45, 6.23, 4.7, 5.28),
    ("mlp", 30): (14.87, 7.79, 13.18, 9.94, 11.35, 8.52, 13.01, 7.03, 11.39, 12.43, 12.12, 8.98),
    ("mlp", 100): (18.31, 9.05, 16.61, 10.51, 12.35, 10.37, 12.25, 7.91, 15.09, 10.41, 11.22, 8.23),
    ("mlp", 900): (14.48, 7.59, 14.23, 11.06, 16.59, 11.06, 10.22, 7.08, 10.71, 8.72, 8.55, 6.24),
}
"""Real networks, TFLite."""

TABLE_C6: Printed = {
    ("lasso", 30): (27.46, 24.7, 29.15, 15.73, 43.22, None, 26.23, 23.86, 26.23, 29.82, 33.27, None),
    ("lasso", 100): (29.02, 24.31, 25.88, 14.22, 43.17, None, 23.13, 24.52, 24.8, 25.09, 30.44, None),
    ("lasso", 900): (27.52, 23.46, 24.51, 14.95, 38.25, None, 22.16, 23.0, 23.36, 24.72, 29.93, None),
    ("random_forest", 30): (36.82, 44.52, 36.33, 33.06, 44.46, None, 34.64, 43.85, 33.83, 31.7, 39.28, None),
    ("random_forest", 100): (18.15, 20.57, 15.02, 15.11, 22.88, None, 15.8, 19.33, 13.49, 18.51, 16.36, None),
    ("random_forest", 900): (4.69, 5.9, 3.69, 4.36, 6.92, None, 3.54, 3.01, 2.71, 10.39, 4.02, None),
    ("gbdt", 30): (6.29, 8.47, 5.08, 7.44, 9.06, None, 6.23, 5.77, 4.49, 13.67, 6.04, None),
    ("gbdt", 100): (4.33, 5.38, 3.19, 3.67, 6.06, None, 3.76, 2.16, 2.52, 11.4, 3.82, None),
    ("gbdt", 900): (2.79, 4.17, 2.33, 2.58, 4.02, None, 2.16, 1.44, 1.66, 10.89, 2.88, None),
    ("mlp", 30): (6.97, 4.92, 3.76, 6.84, 35.74, None, 5.31, 9.54, 3.48, 14.79, 9.09, None),
    ("mlp", 100): (4.38, 5.18, 3.3, 3.51, 5.14, None, 3.11, 2.9, 3.08, 13.44, 4.25, None),
    ("mlp", 900): (2.27, 3.89, 1.81, 2.1, 2.49, None, 1.9, 1.38, 1.29, 10.14, 2.83, None),
}
"""Synthetic networks, PyTorch Mobile."""

TABLE_C7: Printed = {
    ("lasso", 30): (11.76, 7.43, 10.82, 10.97, 20.37, None, 8.45, 7.36, 7.69, 12.63, 9.38, None),
    ("lasso", 100): (11.68, 6.13, 9.09, 8.72, 19.17, None, 7.59, 7.71, 7.22, 12.19, 9.33, None),
    ("lasso", 900): (11.27, 5.7, 8.34, 8.71, 19.49, None, 7.07, 6.73, 6.77, 11.63, 9.4, None),
    ("random_forest", 30): (16.12, 21.68, 15.45, 29.49, 23.2, None, 12.51, 23.28, 11.5, 14.98, 13.81, None),
    ("random_forest", 100): (14.38, 10.65, 13.94, 11.66, 19.84, None, 12.04, 11.88, 10.55, 13.57, 9.0, None),
    ("random_forest", 900): (8.25, 6.87, 6.57, 7.21, 11.09, None, 6.46, 5.23, 4.94, 10.65, 7.15, None),
    ("gbdt", 30): (11.64, 29.62, 12.08, 26.29, 20.55, None, 10.75, 20.91, 7.23, 25.4, 7.39, None),
    ("gbdt", 100): (8.44, 13.02, 8.24, 12.56, 11.35, None, 9.15, 8.6, 6.16, 13.26, 5.56, None),
    ("gbdt", 900): (5.86, 10.29, 5.03, 9.04, 5.6, None, 4.73, 5.54, 4.65, 10.38, 5.55, None),
    ("mlp", 30): (9.31, 19.74, 12.13, 16.19, 22.72, None, 11.03, 22.51, 7.59, 19.92, 7.93, None),
    ("mlp", 100): (8.86, 25.38, 5.43, 19.39, 10.75, None, 5.66, 22.49, 7.45, 13.57, 7.21, None),
    ("mlp", 900): (6.04, 12.12, 5.86, 7.51, 9.71, None, 6.25, 10.01, 4.57, 11.13, 6.04, None),
}
"""Real networks, PyTorch Mobile."""

SWAPPED_GPU: Mapping[str, str] = {"Snapdragon 710": "Helio P35"}
"""PyTorch GPU figures printed under the second system on chip that seem to be of the first: its GPU is in the published files,
while the other's lacks the memory for the backend (Li et al., footnote 2)."""


def printed_mape(table: Printed, model: str, size: int, soc: str, unit: str) -> float | None:
    """Return a cell of a table, MAPE in percent; None where the paper has none."""
    return table[model, size][2 * SOCS.index(soc) + UNITS.index(unit)]


FIGURE_13_WORST: Mapping[tuple[str, str], float] = {
    ("tflite", "Exynos 9820"): 10.5, ("tflite", "Snapdragon 855"): 5.8, ("tflite", "Helio P35"): 6.0,
    ("tflite", "A12 Bionic"): 5.8, ("pytorch", "Exynos 9820"): 8.5, ("pytorch", "Snapdragon 855"): 6.6,
    ("pytorch", "Helio P35"): 5.1, ("pytorch", "A12 Bionic"): 3.3,
}  # fmt: skip
"""Largest MAPE of GBDT over sets of equal cores, synthetic networks, trained on 900 (§5.2)."""

FIGURE_21_WORST: Mapping[tuple[str, str], float] = {
    ("tflite", "Exynos 9820"): 22.9, ("tflite", "Snapdragon 855"): 13.5, ("tflite", "Helio P35"): 9.6,
    ("tflite", "A12 Bionic"): 9.5, ("pytorch", "Exynos 9820"): 22.3, ("pytorch", "Snapdragon 855"): 16.2,
    ("pytorch", "Helio P35"): 20.4, ("pytorch", "A12 Bionic"): 9.9,
}  # fmt: skip
"""Largest MAPE of Lasso over sets of equal cores, real networks, trained on 30 synthetic ones (§5.5.2)."""

FIGURE_18_FEWER_KERNELS = 45.0
"""Percent of the kernels that fusion does away with, at least (§3.2.1)."""

INT8_ELEMENTWISE_SLOWER: Mapping[str, float] = {"Snapdragon 855": 2.55, "Exynos 9820": 2.60}
"""How many times longer TFLite's element-wise operations take in int8, one large core (§3.1.2)."""

INT8_PYTORCH_CONVOLUTIONS_SLOWER = 1.32
"""How many times longer PyTorch's convolutions take in int8 on one large core of Snapdragon 855 (§3.1.2)."""

PATTERN = "files not published are called here as the published ones of their kind are"

MEASUREMENTS: tuple[tuple[str, str, str], ...] = (
    ("figure 3", "speedup of each type of operation on several equal cores", "tflite_cnn_ops_cpu.csv, torch_cnn_ops_cpu.csv"),
    ("figure 5", "speedup of each type of operation in int8, measured", "tflite_cnn_ops_cpu.csv, torch_cnn_ops_cpu.csv"),
    (
        "figure 6",
        "end-to-end speedup of kernel fusion",
        "latencies with fusion switched off, from changed builds of both frameworks",
    ),
    (
        "figure 7",
        "speedup of each type of operation by kernel fusion",
        "operations with fusion switched off, from changed builds",
    ),
    ("figure 8", "speedup of kernel selection", "latencies with plain convolutions only, from changed builds of both frameworks"),
    (
        "figure 10 b, d",
        "latency breakdown of synthetic networks",
        "tflite_nas_ops_gpu.csv, torch_nas_ops_gpu.csv and those of CPUs",
    ),
    ("figure B.36", "speedup of the grouped convolution kernel", "latencies with one convolution a group"),
    ("text of §3.1.1", "one medium with one small core of Snapdragon 855", "columns pixel4|1med1small of *_cnn_e2e.csv"),
)
"""(figure, what it shows, what is missing), of the exploratory part."""

PREDICTIONS: tuple[tuple[str, str, str], ...] = (
    ("tables C.4, C.6", "regressors trained on operations of synthetic networks, tested on such networks",
     "tflite_nas_ops_gpu.csv, torch_nas_ops_gpu.csv, those of CPUs, and the networks themselves"),
    ("tables C.5, C.7", "regressors trained on operations of synthetic networks, tested on real ones",
     "the same; and for the columns of CPUs tflite_cnn_ops_cpu.csv, torch_cnn_ops_cpu.csv"),
    ("figure 12", "errors of the types of operations of synthetic networks", "the same as for tables C.4 and C.6"),
    ("figure 15", "errors on GPUs by kernel, synthetic networks", "tflite_nas_ops_gpu.csv, torch_nas_ops_gpu.csv"),
    ("figure 16", "convolutions by latency, synthetic networks", "tflite_nas_ops_gpu.csv, torch_nas_ops_gpu.csv"),
    ("figure 23", "nn-Meter on CPUs and on synthetic networks, with fusion rules that it detected on the phones",
     "operations of CPUs and of synthetic networks; nn-Meter's detected rules"),
    ("figure 24", "trained on 1000 networks of NATS-Bench", "measurements of NATS-Bench networks, whole or by operation"),
    ("table C.7", "GPU of A12 Bionic by operations", "torch_cnn_ops_gpu.csv has its latencies permuted within networks"),
)  # fmt: skip
"""The same of the evaluation; where a part can be reproduced otherwise, the table beside says how."""
