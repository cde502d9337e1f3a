"""The choice of an importer, and the message where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

from latcast.errors import ModelError
from latcast.graph import Graph, GraphBuilder
from latcast.graph.importers import IMPORTERS, ModelOptions, load_graph
from latcast.graph.writers.onnx import to_onnx
from latcast.graph.writers.tflite import to_tflite
from latcast.networks import resolve_model


def network() -> Graph:
    b = GraphBuilder("network")
    return b.finish(b.relu(b.conv(b.input((1, 3, 8, 8)), 4, 3, bias=True)))


def test_a_file_is_read_by_its_suffix_given_as_a_path_or_as_text(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(to_onnx(network()))

    assert load_graph(path).structure_key == load_graph(str(path)).structure_key == network().structure_key


def test_a_tflite_file_is_recognised_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "model.bytes"
    path.write_bytes(to_tflite(network()))

    assert [node.op_type for node in load_graph(path).nodes] == ["Conv", "Relu"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("model.pt", r"pickles, which run any code.*torch\.onnx\.export.*\.pt2"),
        ("model.pth", "pickles"),
        ("model.ckpt", "pickles"),
        ("model.h5", "tf2onnx"),
        ("model.keras", "TFLiteConverter"),
        ("model.ort", "compiled for onnxruntime .*; give the model as it was before"),
        ("model.safetensors", "weights without the network"),
        ("model.mlmodel", "it is a Core ML model; give the ONNX, TFLite or PyTorch model that it was made from, or convert it"),
        ("model.engine", "compiled for one GPU by TensorRT; give the model as it was before"),
        ("model.rknn", "compiled for Rockchip.s NPU; give the model as it was before"),
        ("model.gguf", "weights without the network"),
        ("model.pdmodel", "a Paddle model; convert it to ONNX .paddle2onnx"),
        ("model.json", r"TensorFlow\.js, Paddle .* or MXNet"),
        ("model.mlir", "a compiler's form of a model"),
        ("model.task", r"unpack it as a zip and give the \.tflite in it"),
        ("model.onnx.data", r"values without a network; give the \.onnx beside it"),
        ("model.py", r"export the model that it builds to ONNX \(torch\.onnx\.export\)"),
        ("model.xyz", "no known format; expected one of .onnx, .tflite, .pt2"),
        ("model", "no known format"),
    ],
)
def test_other_files_are_refused_with_what_to_do_instead(name: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"PK\x03\x04 anything")

    with pytest.raises(ModelError, match=words) as caught:
        load_graph(path)

    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


COMPILED_STARTS = {
    "model.bin.x": (b"\x01HEF\0\0\0\1", "Hailo"),
    "model.x": (b"RKNN\0\0\0\0", "Rockchip"),
    "model.onnx": (b"\x18\0\0\0ORTM", "onnxruntime"),
    "model.tflite": (b"ftrt\0\0\0\0", "TensorRT"),
    "model.blob": (b"anything", "OpenVINO"),
    "model.dla": (b"anything", "MediaTek"),
}


@pytest.mark.parametrize("name", sorted(COMPILED_STARTS))
def test_a_compiled_file_is_refused_with_what_it_is_compiled_for(name: str, tmp_path: Path) -> None:
    start, target = COMPILED_STARTS[name]
    (tmp_path / name).write_bytes(start + bytes(64))

    with pytest.raises(ModelError, match=f"compiled for .*{target}.*; give the model as it was before it was compiled"):
        load_graph(tmp_path / name)


def test_a_folder_that_core_ml_compiled_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.mlmodelc").mkdir()

    with pytest.raises(ModelError, match="compiled for Core ML; give the model as it was before"):
        load_graph(tmp_path / "model.mlmodelc")


@pytest.mark.parametrize("operator", ["edgetpu-custom-op", "ethos-u", "DISPATCH_OP"])
def test_a_tflite_file_that_holds_machine_code_is_refused(operator: str, tmp_path: Path) -> None:
    from tests.graph.importers.tflite_models import model

    content = model([(f"custom:{operator}", ["x"], ["y"], None)], {"x": (1, 8), "y": (1, 4)}, ["x"], ["y"])
    (tmp_path / "m.tflite").write_bytes(content)

    with pytest.raises(ModelError, match=f"its operator '{operator}' holds machine code; give the model as it was before"):
        load_graph(tmp_path / "m.tflite")


def test_an_onnx_file_that_holds_a_compiled_context_is_refused() -> None:
    node = helper.make_node("EPContext", ["x"], ["y"], domain="com.microsoft", ep_cache_context="model.bin")
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 8)) for name in "xy"]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    context = helper.make_model(helper.make_graph([node], "context", ends[:1], ends[1:]), opset_imports=opsets)

    with pytest.raises(ModelError, match="compiled for an execution provider of onnxruntime"):
        load_graph(context)


def test_only_tflite_files_have_signatures(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(to_onnx(network()))

    with pytest.raises(ModelError, match="signature 'decode' is given; only TFLite files have signatures"):
        load_graph(tmp_path / "model.onnx", signature="decode")


def test_an_address_is_not_fetched() -> None:
    with pytest.raises(ModelError, match=r"'https://example.com/m.onnx' is not fetched: latcast reads nothing from a network"):
        load_graph("https://example.com/m.onnx")


def test_a_missing_file_and_a_folder_have_different_messages(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no file"):
        load_graph(tmp_path / "none.onnx")
    with pytest.raises(ModelError, match="is a folder"):
        load_graph(tmp_path)


def test_an_object_that_is_not_a_network_is_refused_with_its_type() -> None:
    with pytest.raises(ModelError, match=r"object of type builtins\.dict"):
        load_graph({"not": "a network"})


class LinesImporter:
    """Reads files of one operator a line."""

    def accepts(self, source: object) -> bool:
        return isinstance(source, Path) and source.suffix == ".lines"

    def load(self, source: Any, options: ModelOptions) -> Graph:
        b = GraphBuilder(source.stem)
        x = b.input((options.shapes or {}).get("input", (1, 4)))
        for line in source.read_text().split():
            (x,) = b.op(line, [x])
        return b.finish(x)


def test_plug_ins_read_other_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IMPORTERS, "_targets", dict(IMPORTERS._targets))
    monkeypatch.setattr(IMPORTERS, "_loaded", dict(IMPORTERS._loaded))
    IMPORTERS.register("lines", LinesImporter)
    path = tmp_path / "model.lines"
    path.write_text("Relu\nNeg\n")

    graph = load_graph(path, shapes={"input": (2, 5)})

    assert [node.op_type for node in graph.nodes] == ["Relu", "Neg"]
    assert graph.shape(graph.outputs[0]) == (2, 5)


def test_reading_one_format_does_not_import_the_others(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(to_onnx(network()))
    script = (
        "import sys\nfrom latcast.graph.importers import load_graph\n"
        "early = {'onnx', 'torch', 'tflite'} & set(sys.modules)\n"
        f"load_graph({str(path)!r})\n"
        "print(sorted(early), sorted({'onnxruntime', 'torch', 'tflite', 'flatbuffers', 'onnx_ir'} & set(sys.modules)))"
    )

    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert finished.stdout.strip() == "[] []"


@pytest.mark.parametrize("name", ["x.onnx", "x.tflite", "x.pt2", "x.param"])
def test_a_pipe_is_refused_without_waiting(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    os.mkfifo(path)

    with pytest.raises(ModelError, match=rf"{name}' is a pipe, a socket or a device; expected a model file"):
        load_graph(path)
    with pytest.raises(ModelError, match=rf"{name}' is not a regular file"):
        resolve_model(path)
