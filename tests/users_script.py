"""A script as a user writes one, for the type checker alone: ``tests/test_types.py`` and ``make lint`` check it, nothing runs it.

A line with ``type: ignore`` holds a mistake, which the checker must find: an ignored line without one is an error too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import latcast

if TYPE_CHECKING:
    from typing_extensions import assert_type

PHONE = "pixel4/tflite-2.10/gpu/fp16"


def forecasts(module: object, example_inputs: object) -> None:
    found = latcast.predict("mobilenet_v2.onnx", on="local/onnxruntime")
    assert_type(found, latcast.Prediction)
    assert_type(found.latency_ms, float)
    assert_type(found.top(10), tuple[latcast.KernelLatency, ...])
    assert_type(found.by_type(), dict[str, float])
    assert_type(found.level, float | None)
    assert_type(latcast.predict("resnet18", on=[PHONE, Path("mine.zip")]), list[latcast.Prediction])
    assert_type(latcast.predict("resnet18", on=(PHONE,), shapes={"input": (1, 3, 512, 512)}), list[latcast.Prediction])
    assert_type(latcast.predict_many(["resnet18", Path("x.onnx")], on=PHONE), list[latcast.Prediction])
    assert_type(latcast.predict(module, on=PHONE, example_inputs=example_inputs), latcast.Prediction)

    assert_type(latcast.find_devices("pi 5"), list[latcast.FoundDevice])
    assert_type(latcast.find_devices("pi 5")[0].platforms[0].mape, float | None)
    assert_type(latcast.find_devices("pi 5")[0].chips[0].cpu[0].ghz, float | None)

    phone = latcast.load(PHONE)
    assert_type(phone, latcast.PlatformPredictor)
    assert_type(phone.predict("resnet18"), latcast.Prediction)
    assert_type(phone.platform, latcast.Platform)
    assert_type(phone.throughputs[0].gflop_per_s, float | None)

    difference = latcast.compare("resnet18", "resnet34", on=phone)
    assert_type(difference, latcast.Comparison)
    assert_type(difference.faster_probability, float | None)
    assert_type(latcast.compare("resnet18", "resnet34", on=[PHONE]), list[latcast.Comparison])

    assert_type(latcast.platforms("pixel4/*")[0], latcast.PlatformSummary)
    assert_type(latcast.models()[0].million_macs, float | None)
    assert_type(latcast.LatencyCallback(PHONE)(["resnet18"]), np.ndarray)


def graphs(module: object, example_inputs: object) -> None:
    b = latcast.GraphBuilder("small")
    graph = b.finish(b.relu(b.conv(b.input((1, 3, 32, 32)), 8, 3)))
    assert_type(graph, latcast.Graph)
    assert_type(latcast.load_graph(Path("x.onnx")), latcast.Graph)
    assert_type(latcast.from_torch(module, example_inputs), latcast.Graph)
    assert_type(latcast.build(latcast.model("resnet18")), latcast.Graph)
    assert_type(latcast.find_kernels(graph, latcast.load_rules("onnxruntime")), tuple[latcast.Kernel, ...])


def measurements(graph: latcast.Graph) -> None:
    settings = latcast.WorkerSettings("openvino", threads=2)
    assert_type(latcast.measure("resnet18"), latcast.Measurement)
    assert_type(latcast.measure(graph, settings, latcast.MeasurePlan(rounds=2)).latency_ms, float | None)
    with latcast.Store("measurements.sqlite") as store:
        assert_type(store, latcast.Store)
        assert_type(list(store.measurements()), list[latcast.Measurement])


def learning() -> None:
    found = latcast.profile(runtime="onnxruntime", budget_minutes=5)
    assert_type(found.predictor, latcast.PlatformPredictor)
    assert_type(found.bundle.path, Path)
    predictor = latcast.train("measurements.sqlite", platform="local/onnxruntime", leave_out=["resnet"])
    assert_type(predictor, latcast.PlatformPredictor)
    assert_type(latcast.save_bundle(predictor, "mine.zip"), Path)
    judged = latcast.evaluate(predictor, ["measurements.sqlite", Path("more.jsonl.gz")])
    assert_type(judged, latcast.Evaluation)
    assert_type(judged.metrics.mape, float)


def searching() -> None:
    found = latcast.search("nas_bench_201", on=PHONE, max_latency_ms=10.0, objective=lambda parameters: 1.0)
    assert_type(found, latcast.SearchResult)
    assert_type(found.networks(1)[0].reference, latcast.Reference)
    assert_type(found.networks()[0].latency_ms, float)


def mistakes() -> None:
    latcast.predikt("resnet18", on=PHONE)  # type: ignore[attr-defined]
    latcast.predict("resnet18", on=3)  # type: ignore[call-overload]
    latcast.predict("resnet18")  # type: ignore[call-overload]
    latcast.predict("resnet18", on=PHONE).latency  # type: ignore[attr-defined]  # noqa: B018
    latcast.predict("resnet18", on=PHONE, shape=(1, 3, 32, 32))  # type: ignore[call-overload]
    latcast.predict_many("resnet18", on=PHONE).latency_ms  # type: ignore[attr-defined]  # noqa: B018
    latcast.load(PHONE).predict("resnet18", strict="yes")  # type: ignore[arg-type]
    latcast.compare("resnet18", "resnet34", on=3)  # type: ignore[call-overload]
    latcast.platforms(3)  # type: ignore[arg-type]
    latcast.measure("resnet18", runtime=3)  # type: ignore[arg-type]
    latcast.measure("resnet18").latency_ms + 1.0  # type: ignore[operator]
    latcast.profile(runtime="onnxruntime", budget_s=300)  # type: ignore[call-arg]
    latcast.train("measurements.sqlite", leave_out=3)  # type: ignore[arg-type]
    latcast.evaluate("local/onnxruntime")  # type: ignore[call-arg]
    latcast.search("nas_bench_201", on=PHONE)  # type: ignore[call-arg]
    latcast.WorkerSettings(threads="two")  # type: ignore[arg-type]
    latcast.Store(3)  # type: ignore[arg-type]
    latcast.build("resnet18")  # type: ignore[arg-type]
    latcast.GraphBuilder("small").convolution("input", 8)  # type: ignore[attr-defined]
