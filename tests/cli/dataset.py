"""A small real dataset: 29 networks on ONNX Runtime 1.31, one thread, in JSON Lines.

Variants of four families with their profiled kernels, in one process each; six published networks of four other families in
three processes of four rounds each.
"""

from __future__ import annotations

from pathlib import Path

DATASET = Path(__file__).parent / "data" / "onnxruntime.jsonl.gz"
PLATFORM = "local/onnxruntime-1.31/cpu1/fp32"
UNSEEN = ("mobilenet_v2", "squeezenet", "ghostnet", "mnasnet")
UNSEEN_NETWORKS = 6
ALL_NETWORKS = 29
