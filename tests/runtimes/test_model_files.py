"""Model files that the runtimes run as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from latcast.errors import DynamicShapeError, LatcastError, ModelError, RuntimeFailure
from latcast.graph.builder import GraphBuilder
from latcast.graph.importers import load_graph
from latcast.graph.writers.ncnn import to_ncnn
from latcast.graph.writers.onnx import to_onnx
from latcast.graph.writers.tflite import to_tflite
from latcast.runtimes import get_runtime
from latcast.runtimes.model_file import InputSlot, ModelFile, files_of
from latcast.runtimes.protocol import FileRuntime
from tests.graph.importers.onnx_models import model, node, save, value

FLOAT, INT64, BOOL, STRING, UINT8, FLOAT16 = 1, 7, 9, 8, 2, 10


def runtime(name: str) -> Any:
    found = get_runtime(name)
    reason = found.available()
    if reason is not None:
        pytest.skip(reason)
    assert isinstance(found, FileRuntime)
    return found


def network() -> Any:
    b = GraphBuilder("small")
    return b.finish(b.relu(b.conv(b.input((1, 3, 16, 16)), 8, 3)))


def outputs(session: Any) -> list[np.ndarray]:
    try:
        session.run()
        return [np.asarray(each) for each in session.outputs()]
    finally:
        session.close()


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("onnxruntime", ".onnx"), ("openvino", ".onnx"), ("openvino", ".tflite"), ("litert", ".tflite"), ("mnn", ".onnx"),
        ("mnn", ".tflite"), ("ncnn", ".param"),
    ],
)  # fmt: skip
def test_a_file_is_run_with_its_own_weights(name: str, suffix: str, tmp_path: Path) -> None:
    found = runtime(name)
    folder = tmp_path / "a folder"
    folder.mkdir()
    path = folder / f"the network{suffix}"
    graph = network()
    if suffix == ".onnx":
        path.write_bytes(to_onnx(graph))
    elif suffix == ".tflite":
        path.write_bytes(to_tflite(graph))
    else:
        text, weights = to_ncnn(graph)
        path.write_text(text)
        path.with_suffix(".bin").write_bytes(weights)
    folder.chmod(0o500)

    read = load_graph(path)
    (made,) = outputs(found.load_file(ModelFile(path, "small", read, values=dict.fromkeys(read.inputs, 0.5))))
    session = get_runtime("onnxruntime").load(graph)
    session.set_inputs([np.full((1, 3, 16, 16), 0.5, np.float32)])
    (expected,) = outputs(session)

    assert made.size == expected.size == 8 * 16 * 16
    assert np.sort(made.reshape(-1)) == pytest.approx(np.sort(expected.reshape(-1)), abs=1e-3)


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("dtype", [FLOAT, FLOAT16, INT64, BOOL, UINT8, 6, 11])
def test_inputs_of_every_type_are_fed(name: str, dtype: int, tmp_path: Path) -> None:
    proto = model([node("Cast", ["x"], ["f"], to=1), node("Relu", ["f"], ["y"])], [value("x", (2, 3), dtype)], ["y"], opset=17)
    path = save(proto, tmp_path)

    (made,) = outputs(runtime(name).load_file(ModelFile(path, "typed", values={"x": 1})))

    assert made.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_texts_and_sequences_are_fed_and_made_by_onnxruntime(tmp_path: Path) -> None:
    import onnxruntime

    nodes = [node("Equal", ["s", "a"], ["same"]), node("Cast", ["same"], ["y"], to=1)]
    proto = model(nodes, [value("s", (2,), STRING)], ["y"], opset=19)
    proto.graph.initializer.append(helper.make_tensor("a", STRING, [1], [b"a"]))
    session = runtime("onnxruntime").load_file(ModelFile(save(proto, tmp_path), "texts"))
    assert onnxruntime.__version__
    assert outputs(session)[0].tolist() == [1, 1]

    split = model([node("SplitToSequence", ["x"], ["parts"], axis=1)], {"x": (1, 4)}, [], opset=17)
    split.graph.output.append(helper.make_tensor_sequence_value_info("parts", FLOAT, None))
    session = runtime("onnxruntime").load_file(ModelFile(save(split, tmp_path, "split.onnx"), "split"))
    session.run()
    session.close()


def test_an_output_of_another_rank_than_the_file_states_is_run(tmp_path: Path) -> None:
    sizes = value("s", ("sizes",), INT64)
    proto = model([node("Reshape", ["x", "s"], ["y"])], [value("x", (1, 6)), sizes], ["y"], opset=17)
    proto.graph.output[0].CopyFrom(value("y", (1, "any")))
    session = runtime("onnxruntime").load_file(ModelFile(save(proto, tmp_path), "ranks", values={"s": [3, 1, 2]}))

    session.run()

    assert outputs(session)[0].shape == (3, 1, 2)


def test_an_output_smaller_than_the_file_states_is_run_again_and_again(tmp_path: Path) -> None:
    b = GraphBuilder("boxes")
    limits = [b.constant((100,), dtype="int64"), b.constant((0.5,), dtype="float32")]
    # Of 112 boxes of each of 80 classes at most 100 stay, which the file states; of random ones some overlap by more than half.
    kept = b.op("NonMaxSuppression", [b.input((1, 112, 4)), b.input((1, 80, 112)), *limits])[0]
    path = tmp_path / "boxes.onnx"
    path.write_bytes(to_onnx(b.finish(kept)))

    session = runtime("onnxruntime").load_file(ModelFile(path, "boxes"))
    for _ in range(2):
        session.run()

    assert 0 < len(session.outputs()[0]) < 80 * 100
    session.close()


def thresholds() -> onnx.ModelProto:
    """A choice of boxes that takes its least overlap, a number from 0 to 1, as an input."""
    nodes = [node("NonMaxSuppression", ["boxes", "scores", "most", "overlap"], ["y"])]
    inputs = [value("boxes", (1, 20, 4)), value("scores", (1, 2, 20)), value("overlap", (1,))]
    return model(nodes, inputs, ["y"], {"most": np.asarray([5])}, opset=17)


def test_inputs_are_tried_until_the_network_runs(tmp_path: Path) -> None:
    found = runtime("onnxruntime")
    path = save(thresholds(), tmp_path)
    random = ModelFile(path, "boxes").inputs([InputSlot("overlap", (1,))])[0]

    found.load_file(ModelFile(path, "boxes")).close()
    found.load_file(ModelFile(path, "boxes", values={"overlap": 0.5})).close()
    with pytest.raises(RuntimeFailure, match=r"iou_threshold must be in range.*; give values that it runs with: --input boxes="):
        found.load_file(ModelFile(path, "boxes", values={"overlap": 3}))
    assert random.dtype == np.float32


def test_an_operator_that_latcast_does_not_know_is_run_and_profiled(tmp_path: Path) -> None:
    proto = model(
        [node("QuickGelu", ["x"], ["y"], domain="com.microsoft")], {"x": ("n", 3)}, ["y"], opset=17, domains=["com.microsoft"]
    )
    path = save(proto, tmp_path)
    found = runtime("onnxruntime")

    session = found.load_file(ModelFile(path, "new", shapes={"x": (5, 3)}), profile=True)

    assert [kernel.kind for kernel in session.executed_kernels(2)] == ["QuickGelu"]
    assert outputs(session)[0].shape == (5, 3)
    with pytest.raises(DynamicShapeError, match="input 'x' has dimension 0 without a size; give it: --shape x=1,3"):
        found.load_file(ModelFile(path, "new"))


@pytest.mark.parametrize("name", ["onnxruntime", "openvino", "mnn"])
def test_data_beside_a_file_is_found(name: str, tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.full((64, 64), 0.5, np.float32), "w")
    proto = model([node("MatMul", ["x", "w"], ["y"])], {"x": (1, 64)}, ["y"], opset=17)
    proto.graph.initializer.append(weight)
    path = tmp_path / "a model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="its data", size_threshold=0)

    assert files_of(path) == [path, tmp_path / "its data"]
    assert outputs(runtime(name).load_file(ModelFile(path, "m", values={"x": 1})))[0].reshape(-1).tolist() == [32] * 64


def test_a_param_file_without_weights_runs_with_zeros_and_states_its_sizes(tmp_path: Path) -> None:
    found = runtime("ncnn")
    path = tmp_path / "alone.param"
    text, _ = to_ncnn(network())
    path.write_text(text)

    (made,) = outputs(found.load_file(ModelFile(path, "alone", load_graph(path))))
    assert made.max() == 0
    stated = tmp_path / "stated.param"
    stated.write_text("7767517\n2 2\nInput data 0 1 data 0=6 1=5 2=4\nReLU r 1 1 data out\n")
    assert outputs(found.load_file(ModelFile(stated, "stated")))[0].shape == (4, 5, 6)


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("onnxruntime", ".onnx"), ("openvino", ".onnx"), ("litert", ".tflite"), ("ncnn", ".param"), ("mnn", ".mnn")],
)
def test_a_broken_file_is_an_error_and_no_crash(name: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"broken{suffix}"
    path.write_bytes(b"this is no model at all, but it is long enough to be taken for one")
    with pytest.raises(LatcastError, match="broken"):
        runtime(name).load_file(ModelFile(path, "broken"))


def test_shapes_and_values_of_no_input_are_refused(tmp_path: Path) -> None:
    path = save(model([node("Relu", ["x"], ["y"])], {"x": (1, 3)}, ["y"], opset=17), tmp_path)
    for given in ({"shapes": {"z": (1,)}}, {"values": {"z": 1}}):
        with pytest.raises(ModelError, match="is given for 'z', which is no input; the inputs are: x"):
            runtime("onnxruntime").load_file(ModelFile(path, "one", **given))
