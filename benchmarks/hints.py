"""Measured gains of changes to networks on this machine, beside those that ``explain`` predicts.

A network and its changed copy run in turn in one process, in one order and the other, so that the machine's state cancels;
the ratio is the median of the rounds'.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.judge import table
from benchmarks.result_files import RESULTS, keep, kept
from latcast.graph.ir import Graph
from latcast.graph.operators.table import graph_macs
from latcast.graph.writers.onnx import to_onnx
from latcast.networks import read_model
from latcast.platforms import load
from latcast.predictors.joint_platforms import PlacedNetwork, joint_latency
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.report.explain import LEAST_SAVED_PERCENT, Change, changes_of, explain_graph
from latcast.report.sweep import Resizing

NETWORKS = (
    "mobilenet_v2", "mobilenet_v3_large", "resnet18", "squeezenet1_1", "shufflenet_v2_x1_0", "timm/mobilenetv4_conv_small",
    "timm/efficientnet_lite0", "timm/efficientnet_b0", "timm/ghostnet_100", "timm/regnety_004", "timm/fbnetc_100",
    "timm/tinynet_a", "timm/lcnet_100", "timm/repvit_m1", "timm/fastvit_t8", "timm/convnext_atto",
    "timm/edgenext_xx_small", "timm/mobilevit_xxs",
    "timm/repghostnet_100", "timm/mixnet_s",
)  # fmt: skip
"""Networks of many designs that take up to some tens of milliseconds."""

EACH = 3
"""Changes of a network: the largest predicted of each kind, other kinds first."""

ROUNDS, WARM_UPS = 21, 3

RESULT = "hints"


def hints(
    on: Annotated[str, typer.Option("--on", help="A predictor of this machine under ONNX Runtime.")] = "local/onnxruntime",
    seconds: Annotated[float, typer.Option("--seconds", help="Time to measure for; the same command goes on.")] = 300.0,
) -> None:
    """Time changes of 20 networks beside the networks, and judge what was predicted of them; resumable."""
    predictor, stop_s = load(on), time.monotonic() + seconds
    rows: list[dict[str, Any]] = kept(RESULT)["rows"] if (RESULTS / f"{RESULT}.json").exists() else []
    done = {(row["network"], row["change"]) for row in rows}
    for network in NETWORKS:
        graph = read_model(network)
        for change, shown in chosen(graph, predictor):
            if (network, change.text) in done or time.monotonic() > stop_s:
                continue
            rows.append(
                {
                    "network": network,
                    "kind": change.kind,
                    "change": change.text,
                    "shown": shown,
                    **judged(graph, change, predictor),
                }
            )
            print(rows[-1], flush=True)
            keep(RESULT, {"platform": predictor.platform.id, "mape": predictor.card.get("mape"), "rows": rows})
    print(hints_table())


def chosen(graph: Graph, predictor: PlatformPredictor) -> Iterator[tuple[Change, bool]]:
    """Yield changes of a network that are said to matter, and whether ``explain`` shows each: the largest of each kind first."""
    [base] = predictor.predict_many([graph], breakdown=True)
    shown = {hint.text for hint in explain_graph(graph, predictor, resized=Resizing(graph)).hints}
    changes = list(changes_of(graph, base, Resizing(graph)))
    gain = np.abs(predictor.latencies_ms([change.graph for change in changes]) / base.latency_ms - 1)
    by_kind: dict[str, list[Change]] = {}
    for place in np.argsort(-gain).tolist():
        if 100 * gain[place] >= LEAST_SAVED_PERCENT:
            by_kind.setdefault(changes[place].kind, []).append(changes[place])
    ranked = sorted((rank, place, change) for place, listed in enumerate(by_kind.values()) for rank, change in enumerate(listed))
    yield from ((change, change.text in shown) for _, _, change in ranked[:EACH])


def judged(graph: Graph, change: Change, predictor: PlatformPredictor) -> dict[str, float]:
    """Return a change's ratio of latencies: measured with its label error, predicted with its interval, and that of the MACs."""
    before, after = (PlacedNetwork.predicted(each, predictor) for each in (graph, change.graph))
    low, high = joint_latency(before, after).growth_percent()
    ratio, label_error = measured_ratio(graph, change.graph)
    return {
        "measured": ratio, "label_error": label_error, "predicted": after.prediction.latency_ms / before.prediction.latency_ms,
        "low": 1 + low / 100, "high": 1 + high / 100, "macs": graph_macs(change.graph) / graph_macs(graph),
    }  # fmt: skip


def measured_ratio(before: Graph, after: Graph) -> tuple[float, float]:
    """Return the changed network's latency over the other's, and half the difference of what two halves of the rounds say."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    sessions = []
    for graph in (before, after):
        session = onnxruntime.InferenceSession(to_onnx(graph), options, providers=["CPUExecutionProvider"])
        random = np.random.default_rng(0)
        sessions.append((session, {name: random.standard_normal(graph.shape(name)).astype(np.float32) for name in graph.inputs}))
    spent_s = np.zeros((ROUNDS, 2))
    for row in range(-WARM_UPS, ROUNDS):
        for place in (0, 1) if row % 2 else (1, 0):
            session, inputs = sessions[place]
            begun_s = time.perf_counter()
            session.run(None, inputs)
            spent_s[max(row, 0), place] = time.perf_counter() - begun_s
    ratios = spent_s[:, 1] / spent_s[:, 0]
    return float(np.median(ratios)), abs(float(np.median(ratios[::2])) - float(np.median(ratios[1::2]))) / 2


def figures(of: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how often the sign is right, among ratios that differ from 1 by more than they are known to, and their error."""
    measured, macs, predicted = (np.array([row[name] for row in rows]) for name in ("measured", "macs", "predicted"))
    decided = np.abs(measured - 1) > np.array([row["label_error"] for row in rows])
    found: dict[str, Any] = {"of": of, "changes": len(rows), "decided": int(decided.sum())}
    for name, ratio in (("predicted", predicted), ("macs", macs)):
        right = np.sign(ratio - 1)[decided] == np.sign(measured - 1)[decided]
        found |= {
            f"{name}_sign": 100 * float(np.mean(right)),
            f"{name}_error": 100 * float(np.mean(np.abs(ratio / measured - 1))),
        }
    found["inside"] = 100 * float(np.mean([row["low"] <= row["measured"] <= row["high"] for row in rows]))
    found["label_error"] = 100 * float(np.mean([row["label_error"] for row in rows]))
    return found


def hints_table() -> str:
    """Return a line for hints, for what is hidden, and for each kind of change."""
    rows = kept(RESULT)["rows"]
    groups = {
        "all": rows,
        "hints that are shown": [row for row in rows if row["shown"]],
        "hidden": [row for row in rows if not row["shown"]],
    }
    groups |= {kind: [row for row in rows if row["kind"] == kind] for kind in dict.fromkeys(row["kind"] for row in rows)}
    return table(
        [figures(of, listed) for of, listed in groups.items() if listed],
        {
            "changes": "{of}", "timed": "{changes}", "sign known": "{decided}", "sign right %": "{predicted_sign:.0f}",
            "by MACs: sign right %": "{macs_sign:.0f}", "error of the ratio %": "{predicted_error:.1f}",
            "by MACs: error %": "{macs_error:.1f}", "in the 90 % interval %": "{inside:.0f}",
            "label error %": "{label_error:.1f}",
        },
    )  # fmt: skip
