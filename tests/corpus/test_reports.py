"""Small files that people reported: each is predicted at a plausible price, or refused by words that work when pasted."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks.files import suggested_options
from latcast.cli.main import run
from latcast.datasets.opening import open_measurements
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.networks import ModelOptions, parse_shapes, read_model
from latcast.predictors.bundle import save_bundle
from latcast.training.from_store import train
from tests.cli.conftest import Latcast, caller
from tests.cli.dataset import DATASET, UNSEEN
from tests.corpus.conftest import CORPUS, CORPUS_VARIABLE

REPORTS = CORPUS / "reports"

CASES = [*csv.DictReader((REPORTS / "cases.csv").read_text("utf-8").splitlines())] if REPORTS.is_dir() else []

pytestmark = pytest.mark.skipif(not CASES, reason=f"no corpus at {REPORTS}; set {CORPUS_VARIABLE}")

LOG = "data logcat_prefix.log"

BUNDLE = "bundle_of_3_minutes.zip"
"""Stands for a bundle trained on few networks of the machine."""

FACTOR = 3
"""A latency is plausible from a third of the roofline to three times it."""


@dataclass(frozen=True)
class Accepted:
    """What a prediction has to hold.

    Attributes:
        macs: Multiply-accumulates of the network, worked out by hand; None where the graph cannot show them.
        says: What the warnings name.
        most_covered: Percent of the latency that may count as covered.
        kernel_class: Whose throughput the platform's card lists.
        most_low_ms: The interval reaches down to this where little is known; the latency then has no least.
    """

    macs: int | None
    says: tuple[str, ...] = ()
    kernel_class: str = "any"
    most_covered: float = 100
    most_low_ms: float | None = None


@dataclass(frozen=True)
class Refused:
    """What a refusal has to name, and what the prediction of the file with the sizes that it suggests has to hold."""

    names: tuple[str, ...]
    pasted: Accepted | None = None


FIRST = "conv first"

GPU_MACS = 64 * 64 * 32 * 9 * (3 + 32)

ATTENTION_MACS = 2 * 8 * 16 * 16 * 64

# fmt: off
EXPECTED: Mapping[str, Accepted | Refused] = {
    "one_input_named_of_two.onnx": Refused(("--shape input_ids=1,128", "--shape attention_mask=1,128"), Accepted(0)),
    "same_symbol_two_sizes.onnx": Refused(("--shape x=1,160", "--shape h0=1,1,32"), Accepted(160 * 32)),
    "same_symbol_two_sizes.onnx --shape x=1,160": Refused(("--shape h0=1,1,32",), Accepted(160 * 32)),
    "ncnn_gray_first_layer.param": Refused(("--shape data=1,1,",), Accepted(224 * 224 * 9 * 8, kernel_class=FIRST)),
    "ncnn_fixed_reshape.param": Refused(("--shape in0=1,3,320,320",), Accepted(40 * 40 * 27 * 8, kernel_class=FIRST)),
    "name_with_a_space.onnx": Refused(("--shape 'my input=1,8'",), Accepted(0)),
    "dim_value_0.onnx": Refused(("--shape x=1,3,224,224",), Accepted(222 * 222 * 8 * 27, kernel_class=FIRST)),
    "tflite_dynamic_size.tflite": Refused(("--shape image=1,224,224,3",), Accepted(224 * 224 * 8 * 27, kernel_class=FIRST)),
    "tflite_dynamic_length.tflite": Refused(("--shape feats=1,128,64",), Accepted(128 * 64 * 64)),
    "tflite_sequence_lstm.tflite": Accepted(20 * 4 * (64 * 32 + 64 * 64)),
    "tflite_svdf.tflite": Accepted(128 * 40 + 128 * 8),
    "tflite_while_loop.tflite": Accepted(30 * 256 * 256 + 1024),
    "tflite_streaming_variables.tflite": Accepted(120 * 32),
    "tflite_tensor_list.tflite": Accepted(None),
    "tflite_two_signatures.tflite": Accepted(64 * 64, ("decode", "prefill", "--signature")),
    "bits4_matmul_recorded.onnx": Accepted(128 * 4096 * 1024),
    "deform_conv.onnx": Accepted(32 * 32 * 128 * 128 * 9),
    "dynamic_quantize_matmul_recorded.onnx": Accepted(128 * 768 * 3072),
    "group_query_attention_recorded.onnx": Accepted(2 * 32 * 512 * 128),
    "bits4_matmul.onnx": Accepted(8 * 256 * 512),
    "group_query_attention.onnx": Accepted(2 * 8 * 128 * 64),
    "dynamic_quantize_matmul.onnx": Accepted(8 * 256 * 512),
    "rotary_embedding.onnx": Accepted(0),
    "embed_layer_norm.onnx": Accepted(0),
    "sklearn_pipeline.onnx": Accepted(3 * 4),
    "tree_ensemble_ml1.onnx --shape x=1,6": Accepted(0),
    "edgetpu_compiled.tflite": Refused(("Edge TPU",)),
    "ethos_u_compiled.tflite": Refused(("Ethos-U", "Vela")),
    "nothing_on_the_gpu.onnx": Accepted(0, ("nothing runs on the GPU",), most_covered=0, most_low_ms=0.1),
    "tiny_mlp.onnx": Accepted(900, most_covered=50, most_low_ms=0.05),
    "dynamic_tensor_on_gpu.tflite": Accepted(GPU_MACS, ("only known at run time", "WHERE"), most_covered=0, most_low_ms=0.9),
    "measure tflite_while_loop.tflite": Accepted(None),
    "measure thresholds_are_inputs.onnx": Accepted(None),
    "measure bits4_matmul.onnx": Accepted(None),
    "lstm_local_bundle.onnx": Accepted(2 * 4 * (4 * 4 + 4 * 4), most_low_ms=0.01),
    "branch_by_sample_rate.onnx": Refused(("--value rate=", "If")),
    "scan_12_steps.onnx": Accepted(12 * 64 * 64),
    "empty_cache.onnx --shape past=1,8,0,64 --shape k=1,8,16,64 --shape q=1,8,16,64": Accepted(ATTENTION_MACS),
    "lora_rank_0.onnx": Accepted(32),
    "lora_rank_0.onnx --shape la=8,4 --shape lb=4,4": Accepted(8 * 4 + 8 * 4 + 4 * 4),
    "ncnn_lstm.param": Accepted(2 * 100 * 4 * 64 * (64 + 64)),
    "ncnn_sdpa.param": Accepted(ATTENTION_MACS),
    "ncnn_reshape_expression.param": Accepted(0),
    "ncnn_shape_hint.param": Accepted(227 * 113 * 3 * 9 * 8, kernel_class=FIRST),
    "pnnx_file.param": Refused(("PNNX", ".ncnn.param")),
    "tflite_rfft.tflite": Accepted(0),
    "non_zero.onnx": Accepted(0, ("the most is assumed",)),
    "opset_6.onnx": Accepted(3888),
    "qonnx_quant.onnx": Accepted(128),
}
# fmt: on

LATENCY_OF_LOG_MS = 50.25


def key_of(command: str) -> str:
    """What is asked of a file: its name and sizes, after the word of a command other than `predict`."""
    _, verb, *arguments = shlex.split(command)
    if verb != "predict":
        return f"{verb} {next(each for each in arguments if '.' in each)}"
    at = arguments.index("--on")
    return " ".join(arguments[:at] + arguments[at + 2 :])


def asked(verb: str) -> list[Any]:
    """The commands of a kind."""
    commands = [case["command"] for case in CASES if case["command"].split()[1] == verb]
    return [pytest.param(command, id=key_of(command)) for command in commands]


@pytest.fixture
def latcast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Latcast:
    """Runs a command among the files, with what latcast ships and nothing of the user's."""
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))
    monkeypatch.chdir(REPORTS)
    return caller(capfd, run)


@pytest.fixture
def fresh_bundle(tmp_path: Path) -> str:
    """A bundle of this machine that learnt from 23 networks without recurrent layers."""
    with open_measurements(DATASET) as store:
        return str(save_bundle(train(store, leave_out=UNSEEN, licence="CC0-1.0"), tmp_path / "fresh.zip"))


def roofline_ms(graph: Graph, macs: int, kernel_class: str, shown: Mapping[str, Any]) -> float:
    """Arithmetic at the platform's throughput, every tensor moved once at its bandwidth, what a network and its kernels cost."""
    known = next(row for row in shown["throughputs"] if row["kernel_class"] == kernel_class)
    weights = sum(graph.tensors[name].size_bytes for name in graph.weights)
    others = sum(tensor.size_bytes for name, tensor in graph.tensors.items() if name not in graph.weights)
    arithmetic_ms = 2 * macs / known["gflop_per_s"] / 1e6
    moving_ms = (others / known["activation_gb_per_s"] + weights / known["weight_gb_per_s"]) / 1e6
    return arithmetic_ms + moving_ms + shown["overhead_ms"] + len(graph.nodes) * known["kernel_us"] / 1e3


def read(arguments: Sequence[str]) -> Graph:
    """The graph of a file as its command takes it."""
    file, *options = arguments
    texts = [each for before, each in pairwise(options) if before == "--shape"]
    return read_model(file, ModelOptions(parse_shapes(texts)))


def check_prediction(latcast: Latcast, arguments: Sequence[str], expected: Accepted) -> None:
    """Predict, and hold the answer against the arithmetic worked out by hand."""
    done = latcast("predict", *arguments, "--json")
    assert done.code == 0, done
    [found] = done.json["predictions"]
    [shown] = latcast("platforms", "show", arguments[arguments.index("--on") + 1], "--json").json["platforms"]
    graph = read(arguments)
    macs = graph_macs(graph) if expected.macs is None else expected.macs
    plausible_ms = roofline_ms(graph, macs, expected.kernel_class, shown)

    assert found["latency_ms"] <= FACTOR * plausible_ms
    if expected.most_low_ms is None:
        assert found["latency_ms"] >= plausible_ms / FACTOR
    else:
        assert found["low_ms"] <= expected.most_low_ms
    assert graph_macs(graph) == macs
    assert found["low_ms"] < found["latency_ms"] < found["high_ms"]
    assert 100 * found["coverage"]["share"] <= expected.most_covered
    said = " ".join(found["warnings"])
    assert [text for text in expected.says if text not in said] == []


@pytest.mark.parametrize("command", asked("predict"))
def test_a_reported_file_is_predicted_plausibly_or_refused_by_words_that_work(
    command: str, latcast: Latcast, request: pytest.FixtureRequest
) -> None:
    expected = EXPECTED[key_of(command)]
    arguments = [request.getfixturevalue("fresh_bundle") if each == BUNDLE else each for each in shlex.split(command)[2:]]

    if isinstance(expected, Accepted):
        check_prediction(latcast, arguments, expected)
        return
    reason = latcast("predict", *arguments).reason
    assert [text for text in expected.names if text not in reason] == []
    if expected.pasted is not None:
        check_prediction(latcast, [*arguments, *suggested_options(reason)], expected.pasted)


@pytest.mark.parametrize("command", asked("measure"))
def test_what_a_runtime_runs_is_measured_or_refused_with_another_way(command: str, latcast: Latcast) -> None:
    expected = EXPECTED[key_of(command)]

    done = latcast(*shlex.split(command)[1:], "--json")

    if isinstance(expected, Accepted):
        assert done.code == 0, done
        assert done.json["measurements"][0]["latency_ms"] > 0
    else:
        assert [text for text in expected.names if text not in done.reason] == []


@pytest.mark.parametrize("command", asked("data"))
def test_a_log_with_prefixes_is_read_as_one_without(command: str, latcast: Latcast, tmp_path: Path) -> None:
    written = tmp_path / "log.jsonl"

    done = latcast(*shlex.split(command)[1:-1], written)

    assert done.code == 0, done
    assert json.loads(written.read_text())["latency_ms"] == LATENCY_OF_LOG_MS


def test_every_report_has_an_expected_outcome() -> None:
    keys = {key_of(case["command"]) for case in CASES if not case["file"].endswith(".log")}
    assert keys == EXPECTED.keys()
