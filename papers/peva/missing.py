"""What the paper shows that its published files cannot show again, and the file that it would take."""

from __future__ import annotations

from papers.comparison import Comparison

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


def not_published(rows: tuple[tuple[str, str, str], ...]) -> Comparison:
    """The list as a table."""
    return Comparison(
        "not published", "What the published files do not allow", ("of the paper", "shows", "missing"), rows, (PATTERN,)
    )
