"""Model files that run as they are on a double of a phone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from latcast.errors import DynamicShapeError, LatcastError, RuntimeFailure
from latcast.graph.importers import load_graph
from latcast.graph.writers.ncnn import to_ncnn
from latcast.graph.writers.tflite import to_tflite
from latcast.runtimes import get_runtime
from latcast.runtimes.model_file import ModelFile
from latcast.runtimes.phone import PhoneRuntime
from latcast.testing.networks import CONTRACT_NETWORKS
from tests.graph.importers.onnx_models import model, node, save
from tests.runtimes.phone.android import Android

pytest.importorskip("ai_edge_litert")


def phone(name: str) -> PhoneRuntime:
    runtime = get_runtime(name)
    assert isinstance(runtime, PhoneRuntime)
    runtime.sleep = lambda seconds: None
    return runtime


def test_a_tflite_file_arrives_as_it_is_with_the_values_given(android: Android, tmp_path: Path) -> None:
    path = tmp_path / "given.tflite"
    path.write_bytes(to_tflite(CONTRACT_NETWORKS["conv_stack"]()))
    graph = load_graph(path)
    session = phone("litert").load_file(ModelFile(path, "given", graph, values={graph.inputs[0]: 0.5}))

    session.run()

    [there] = android.root.rglob("network.tflite")
    assert there.read_bytes() == path.read_bytes()
    assert set(np.frombuffer((there.parent / "input0.bin").read_bytes(), np.float32)) == {np.float32(0.5)}
    with pytest.raises(RuntimeFailure, match="--made-up-weights"):
        phone("litert").load_file(ModelFile(path, "given", graph), profile=True).executed_kernels()
    session.close()


def test_an_onnx_file_keeps_its_weights_and_gets_its_open_sizes(android: Android, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    path = save(model([node("MatMul", ["x", "w"], ["y"])], {"x": ("batch", 3)}, ["y"], {"w": weight}), tmp_path)

    phone("onnxruntime").load_file(ModelFile(path, "open", shapes={"x": (5, 3)})).run()

    [there] = android.root.rglob("network.onnx")
    stored = onnx.load(there)
    assert np.array_equal(onnx.numpy_helper.to_array(stored.graph.initializer[0]), weight)
    assert [size.dim_value for size in stored.graph.input[0].type.tensor_type.shape.dim] == [5, 3]
    with pytest.raises(DynamicShapeError, match="--shape x="):
        phone("onnxruntime").load_file(ModelFile(path, "open"))
    with pytest.raises(RuntimeFailure, match="without --input"):
        phone("onnxruntime").load_file(ModelFile(path, "open", shapes={"x": (5, 3)}, values={"x": 1}))


def test_a_param_file_runs_with_the_sizes_of_its_graph(android: Android, tmp_path: Path) -> None:
    pytest.importorskip("ncnn")
    path = tmp_path / "given.param"
    path.write_text(to_ncnn(CONTRACT_NETWORKS["conv_stack"]())[0])

    phone("ncnn").load_file(ModelFile(path, "given", load_graph(path))).run()

    [there] = android.root.rglob("network.ncnn.param")
    assert there.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", ["litert", "onnxruntime", "ncnn", "mnn"])
def test_a_file_that_cannot_be_run_is_an_error(name: str, android: Android, tmp_path: Path) -> None:
    path = tmp_path / f"broken{phone(name).endings[0]}"
    path.write_bytes(b"broken")

    with pytest.raises(LatcastError):
        phone(name).load_file(ModelFile(path, "broken"))
