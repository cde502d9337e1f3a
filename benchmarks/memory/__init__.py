"""Memory that networks are predicted to take, and what they take here, each in a fresh process whose heap is recorded.

Blocks whose content other inputs change hold activations; the others hold weights (:mod:`benchmarks.memory.measured`). The
planners were written with :data:`WRITTEN_WITH` at hand; the figures are of other networks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import say
from benchmarks.judge import figures, table, target_cell
from benchmarks.native import compiled
from benchmarks.result_files import keep, kept
from latcast.graph.ir import Graph
from latcast.kernels.memory import memory_of
from latcast.kernels.rules import load_rules
from latcast.networks import read_model
from latcast.tables import signed

SOURCE = Path(__file__).parent / "heap_recorder.c"

BUILT = Path(".latcast/bench/memory/heap_recorder.so")

WRITTEN_WITH = (
    "resnet18", "mobilenet_v2", "googlenet", "efficientnet_b0", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x1_0",
    "densenet121", "deit_tiny_16", "mobilevit_xxs", "alexnet", "regnet_y_400mf", "timm/convnext_atto", "timm/poolformer_s12",
    "timm/levit_128s", "timm/hrnet_w18_small", "timm/pvt_v2_b0", "timm/mixer_s32_224", "timm/fastvit_t8",
)  # fmt: skip

NETWORKS = (
    "mnasnet1_0", "proxylessnas_mobile", "ghostnet_x1_0", "mobilenet_v1", "regnet_x_400mf", "vgg11", "timm/inception_v3",
    "efficientnet_lite0", "resnet50", "torchvision/ssdlite320_mobilenet_v3_large", "timm/cait_xxs24_224",
    "timm/coat_lite_tiny", "timm/crossvit_9_240", "timm/cs3darknet_s", "timm/dla46x_c", "timm/dpn68", "timm/efficientformer_l1",
    "timm/efficientvit_b0", "timm/efficientvit_m0", "timm/ese_vovnet19b_dw", "timm/fasternet_t0", "timm/fbnetv3_b",
    "timm/gernet_s", "timm/gmlp_ti16_224", "timm/hardcorenas_a", "timm/inception_next_atto", "timm/lcnet_050",
    "timm/mixnet_s", "timm/mobilenetv4_conv_small", "timm/mobileone_s0", "timm/pit_ti_224", "timm/regnetz_005",
    "timm/repvgg_a0", "timm/resnext26ts", "timm/rexnet_100", "timm/selecsls42b", "timm/starnet_s050", "timm/tinynet_e",
    "timm/tiny_vit_5m_224", "timm/xcit_nano_12_p16_224",
)  # fmt: skip
"""Networks to judge on: other families, or other members, than :data:`WRITTEN_WITH`."""

TARGET = 10.0
"""MAPE aimed at, in percent."""

MEASURED = (("onnxruntime", "fp32"), ("onnxruntime arena", "fp32"), ("litert", "fp32"), ("litert", "int8"))


def measure(model: str, runtime: str, precision: str) -> Mapping[str, Any]:
    """Run :func:`benchmarks.memory.measured.measured` in a process of its own; return its figures, or an ``error``."""
    command = [sys.executable, "-m", "benchmarks.memory.measured", model, runtime, precision]
    variables = {**os.environ, "LD_PRELOAD": str(compiled(SOURCE, BUILT)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1][:200]}
    found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def judged(graph: Graph, runtime: str, precision: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return measured and predicted bytes of activations, with the network's inputs and outputs, and of the file."""
    name, _, kind = runtime.partition(" ")
    planned = memory_of(graph, load_rules(name), precision)
    outside = 0
    if name == "onnxruntime":
        outside = sum(int(graph.tensors[each].size_bytes) for each in (*graph.inputs, *graph.outputs))
    return {
        "model": graph.name, "runtime": runtime, "precision": precision,
        "measured_bytes": found["activations_bytes"] + outside,
        "predicted_bytes": planned.reserved_bytes if kind == "arena" else planned.peak_activations_bytes,
        "measured_file_bytes": found["file_bytes"], "predicted_file_bytes": planned.file_bytes,
    }  # fmt: skip


def memory() -> None:
    """Measure the peak memory of activations in fresh processes, and judge what is predicted."""
    measured, rows = {}, []
    for model in NETWORKS:
        graph = read_model(model)
        for runtime, precision in MEASURED:
            key = f"{model} {runtime} {precision}"
            say(key)
            measured[key] = found = measure(model, runtime, precision)
            if "error" not in found:
                rows.append(judged(graph, runtime, precision, found))
    keep("memory", {"measured": measured, "rows": rows, "summary": summary(rows)})
    print(memory_table())


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the errors of each runtime and precision, in percent."""
    found = []
    for runtime, precision in MEASURED:
        chosen = [row for row in rows if (row["runtime"], row["precision"]) == (runtime, precision)]
        if chosen:
            predicted, measured, file_predicted, file_measured = (
                np.array([row[f"{name}_bytes"] for row in chosen])
                for name in ("predicted", "measured", "predicted_file", "measured_file")
            )
            error = 100 * (predicted / measured - 1)
            worst = int(np.abs(error).argmax())
            judged_by = figures(predicted, measured)
            found.append(
                {
                    "runtime": runtime, "precision": precision,
                    **{name: judged_by[name] for name in ("networks", "mape", "mape_interval", "within_5", "within_10")},
                    "median_ape": float(np.median(np.abs(error))), "worst": float(error[worst]),
                    "worst_model": chosen[worst]["model"], "file_mape": figures(file_predicted, file_measured)["mape"],
                }
            )  # fmt: skip
    return found


def memory_table() -> str:
    """Return a line for each runtime and precision."""
    return table(
        kept("memory")["summary"],
        {
            "runtime": "{runtime} {precision}", "networks": "{networks}", "MAPE %": "{mape:.1f}", "±10 %": "{within_10:.0f}",
            "worst %": lambda row: signed(row["worst"], 0), "file size: MAPE %": "{file_mape:.1f}",
            "target: MAPE %": lambda row: target_cell(TARGET, row["mape"]),
        },
    )  # fmt: skip
