"""PyTorch networks by way of both of its ONNX exporters, and as saved programs."""

from __future__ import annotations

import io
import sys
import warnings
import zipfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.graph.op_types import op_types

pytest.importorskip("torch", reason="reads networks of PyTorch, which is not installed")
pytest.importorskip("onnxscript", reason="PyTorch exports to ONNX with onnxscript, which is not installed")

import torch
from torch import nn

from latcast.errors import DynamicShapeError, MissingExtraError, ModelError
from latcast.graph import Graph, GraphBuilder
from latcast.graph.importers import from_torch, load_graph
from latcast.graph.operators import graph_flops, graph_macs, unknown_operators


class Residual(nn.Module):
    """The basic block of ResNet-18."""

    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out_channels, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(out_channels)
        self.second = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(out_channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out_channels:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels))

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(y)) + self.shortcut(x))


WIDTHS = ((64, 1), (128, 2), (256, 2), (512, 2))


def resnet18() -> Any:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, stride in WIDTHS:
        layers += [Residual(channels, width, stride), Residual(width, width, 1)]
        channels = width
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).eval()
    # Exporters store equal tensors once; those of a trained network are all different.
    generator = torch.Generator().manual_seed(0)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight.data, module.bias.data, module.running_mean, module.running_var):
                tensor.uniform_(0.5, 1.5, generator=generator)
    return network


def resnet18_by_hand(*, folded: bool) -> Graph:
    """The same network in plain code; exporters fold batch normalisation into a bias."""
    b = GraphBuilder("resnet18")

    def conv(x: str, channels: int, kernel: int, stride: int = 1) -> str:
        if folded:
            return b.conv(x, channels, kernel, stride=stride, bias=True)
        return b.batch_norm(b.conv(x, channels, kernel, stride=stride))

    x = b.max_pool(b.relu(conv(b.input((1, 3, 224, 224)), 64, 7, 2)), 3, 2, 1)
    for width, stride in WIDTHS:
        for step in (stride, 1):
            y = conv(b.relu(conv(x, width, 3, step)), width, 3)
            if step != 1 or b.channels(x) != width:
                x = conv(x, width, 1, step)
            x = b.relu(b.add(y, x))
    return b.finish(b.linear(b.flatten(b.global_average_pool(x)), 1000))


def export(module: Any, example: Any, path: Path, **options: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (example,), path, verbose=False, **options)
    return path


IMAGE = torch.zeros(1, 3, 224, 224)


@pytest.mark.slow
def test_resnet18_of_the_newer_exporter_is_the_one_written_by_hand() -> None:
    graph, expected = from_torch(resnet18(), (IMAGE,)), resnet18_by_hand(folded=True)

    assert graph_macs(graph) == graph_macs(expected) == 1_814_073_344
    assert graph.parameter_count == expected.parameter_count == 11_684_712
    # The exporter writes global pooling and flattening in other words.
    assert Counter(op_types(graph)) - Counter(op_types(expected)) == {"ReduceMean": 1, "Reshape": 1}
    assert Counter(op_types(expected)) - Counter(op_types(graph)) == {"GlobalAveragePool": 1, "Flatten": 1}


def test_resnet18_of_the_older_exporter_is_the_one_written_by_hand(tmp_path: Path) -> None:
    graph = load_graph(export(resnet18(), IMAGE, tmp_path / "older.onnx", dynamo=False))

    assert graph.structure_key == resnet18_by_hand(folded=True).structure_key


@pytest.mark.slow
def test_resnet18_exported_for_training_keeps_batch_normalisation(tmp_path: Path) -> None:
    options = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    path = export(resnet18(), IMAGE, tmp_path / "training.onnx", dynamo=False, **options)

    graph, expected = load_graph(path), resnet18_by_hand(folded=False)

    assert graph.structure_key == expected.structure_key
    assert graph_flops(graph) == graph_flops(expected)
    # 11,689,512 learned values as torchvision prints them, and a mean and variance for each of 4,800 channels.
    assert graph.parameter_count == 11_689_512 + 2 * 4_800


class Standardised(nn.Module):
    """A convolution whose filters are standardised, and one whose filters are scaled."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(32, 64, 3, padding=1, bias=False)
        self.second = nn.Conv2d(64, 64, 3, padding=1, bias=False)

    def forward(self, x: Any) -> Any:
        filters = self.first.weight.reshape(1, 64, -1)
        normalised = nn.functional.batch_norm(filters, None, None, training=True).reshape_as(self.first.weight)
        return nn.functional.conv2d(nn.functional.conv2d(x, normalised, padding=1), 0.5 * self.second.weight, padding=1)


def test_filters_that_are_standardised_are_told_from_others_of_both_exporters(tmp_path: Path) -> None:
    module, image = Standardised().eval(), torch.zeros(1, 32, 16, 16)
    path = export(module, image, tmp_path / "older.onnx", dynamo=False, do_constant_folding=False)

    for graph in (load_graph(path), from_torch(module, (image,))):
        assert op_types(graph) == ["Conv", "Conv"]
        assert graph.standardised == {graph.nodes[0].inputs[1]} < graph.weights


class Attention(nn.Module):
    """Half of a transformer block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(x)


def test_both_exporters_give_the_same_work_of_a_transformer(tmp_path: Path) -> None:
    module, tokens = Attention().eval(), torch.zeros(1, 16, 64)

    newer = from_torch(module, (tokens,))
    older = load_graph(export(module, tokens, tmp_path / "older.onnx", dynamo=False))

    # Projections of 64x192, 64x64, 64x128 and 128x64 for 16 tokens, and two products of 16x16 for 64 channels.
    macs = 16 * (64 * 192 + 64 * 64 + 2 * 64 * 128) + 2 * 16 * 16 * 64
    assert graph_macs(newer) == graph_macs(older) == macs
    assert newer.parameter_count == older.parameter_count
    assert not unknown_operators(newer)
    assert not unknown_operators(older)
    assert [older.shape(name) for name in older.outputs] == [(1, 16, 64)]


class Pieces(nn.Module):
    """What is easily misread: views, chunks, slices, interpolation, pads, einsum."""

    def forward(self, x: Any) -> Any:
        batch = x.shape[0]
        x = nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")
        x = nn.functional.pad(x, (1, 2, 1, 2))
        a, b = x.chunk(2, 1)
        x = torch.cat([b, a], 1)[:, :, ::2, 1:]
        y = nn.functional.hardswish(x) * nn.functional.silu(x)
        scores = torch.einsum("nchw,nkhw->nck", x, x)
        return y.view(batch, -1).mean(-1, keepdim=True), nn.functional.pixel_shuffle(x, 2), scores


def test_shapes_are_those_that_pytorch_computes() -> None:
    module, x = Pieces(), torch.zeros(2, 4, 8, 8)

    graph = from_torch(module, (x,))

    assert [graph.shape(name) for name in graph.outputs] == [tuple(value.shape) for value in module(x)]
    assert not unknown_operators(graph)


def small() -> Any:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))


def saved(path: Path, **options: Any) -> Path:
    program = torch.export.export(small().eval(), (torch.zeros(1 if not options else 2, 3, 8, 8),), **options)
    torch.export.save(program, path)
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of torch.export.save."""
    return saved(tmp_path_factory.mktemp("programs") / "model.pt2")


@pytest.mark.slow
def test_a_saved_program_gives_the_graph_of_its_module(program: Path) -> None:
    graph = load_graph(program, trust=True)

    assert graph.structure_key == from_torch(small(), (torch.zeros(1, 3, 8, 8),)).structure_key
    assert load_graph(torch.export.load(program)).structure_key == graph.structure_key


def test_a_module_is_read_for_inference_and_left_in_its_mode() -> None:
    module = small()
    module.train()
    module[1].eval()

    graph = from_torch(module, (torch.zeros(1, 3, 8, 8),))

    assert (module.training, module[0].training, module[1].training) == (True, True, False)
    assert "BatchNormalization" not in op_types(graph)
    assert graph.name == "Sequential"


@pytest.mark.slow
def test_a_program_of_any_batch_size_needs_one(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", min=1, max=64)
    path = saved(tmp_path / "model.pt2", dynamic_shapes=({0: batch},))

    with pytest.raises(DynamicShapeError, match=r"dimension 0 '\w+' without a size; give it: --shape input="):
        load_graph(path, trust=True)
    graph = load_graph(path, shapes={"input": (5, 3, 8, 8)}, trust=True)
    assert [graph.shape(name) for name in graph.outputs] == [(5, 10)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "shape", "dynamic", "macs"),
    [
        # Steps x directions x gates x hidden x (features + hidden), layer by layer.
        (nn.LSTM(16, 32, 2, batch_first=True, bidirectional=True), (1, 20, 16), None, 20 * 2 * 4 * 32 * (16 + 32 + 64 + 32)),
        (nn.LSTM(16, 32, batch_first=True), (3, 20, 16), {0: "batch"}, 20 * 4 * 32 * (16 + 32)),
        (nn.GRU(16, 24), (20, 1, 16), None, 20 * 3 * 24 * (16 + 24)),
        # Queries, keys, values and what follows; scores and mixture.
        (
            nn.TransformerEncoderLayer(32, 4, 64, batch_first=True),
            (1, 40, 32),
            None,
            40 * 32 * (4 * 32 + 2 * 64) + 2 * 40 * 40 * 32,
        ),
    ],
)
def test_layers_of_sequences_are_read_from_programs(
    tmp_path: Path, module: nn.Module, shape: tuple[int, ...], dynamic: dict[int, str] | None, macs: int
) -> None:
    sizes = None if dynamic is None else ({axis: torch.export.Dim(name, max=64) for axis, name in dynamic.items()},)
    torch.export.save(torch.export.export(module.eval(), (torch.zeros(shape),), dynamic_shapes=sizes), tmp_path / "layer.pt2")

    shapes = None if dynamic is None else {"input": (1, *shape[1:])}
    assert graph_macs(load_graph(tmp_path / "layer.pt2", trust=True, shapes=shapes)) == macs


@pytest.mark.slow
def test_a_program_whose_open_sizes_cannot_be_exported_is_refused_with_what_to_do(tmp_path: Path) -> None:
    half = torch.export.Dim("half", min=2, max=64)
    module = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2))
    program = torch.export.export(module, (torch.zeros(1, 3, 8, 8),), dynamic_shapes=({2: 2 * half},))
    torch.export.save(program, tmp_path / "open.pt2")

    with pytest.raises(ModelError, match="export the program without dynamic_shapes"):
        load_graph(tmp_path / "open.pt2", trust=True)


class Branching(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x


def test_a_module_that_cannot_be_exported_is_refused_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModelError, match="PyTorch cannot export Branching to ONNX: ") as caught:
        from_torch(Branching(), (torch.zeros(2),))

    assert "\n" not in str(caught.value)
    assert capfd.readouterr().out == ""


def test_an_object_that_is_not_a_module_is_refused() -> None:
    with pytest.raises(ModelError, match=r"are for a torch\.nn\.Module, found builtin_function_or_method"):
        from_torch(torch.relu, (torch.zeros(2),))
    with pytest.raises(ModelError, match=r"a torch\.nn\.Module \(ReLU\) needs the inputs to predict for; give example_inputs"):
        load_graph(nn.ReLU())


def test_without_pytorch_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(MissingExtraError, match=r"'torch', which is not installed.*latcast\[torch\]"):
        load_graph(path, trust=True)


def test_a_file_that_is_not_an_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(b"nothing of the kind")

    with pytest.raises(ModelError, match=r"model\.pt2' cannot be loaded by torch"):
        load_graph(path, trust=True)


class Payload:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return (Path.touch, (self.trace,))


def test_an_archive_runs_its_code_only_where_its_maker_is_trusted(tmp_path: Path) -> None:
    path, trace = tmp_path / "model.pt2", tmp_path / "code-was-run"
    honest, sample = saved(tmp_path / "honest.pt2"), io.BytesIO()
    torch.save(Payload(trace), sample)
    with zipfile.ZipFile(honest) as source, zipfile.ZipFile(path, "w") as changed:
        for name in source.namelist():
            hostile = name.endswith("data/sample_inputs/model.pt")
            changed.writestr(name, sample.getvalue() if hostile else source.read(name))

    with pytest.raises(ModelError, match=r"runs whatever code its maker put into it.*--trust"):
        load_graph(path)
    assert not trace.exists()
    with suppress(ModelError):
        load_graph(path, trust=True)
    assert trace.exists()


@pytest.mark.slow
def test_attention_as_the_exporter_of_opset_23_writes_it_is_taken_apart(tmp_path: Path) -> None:
    class Shared(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    heads = torch.zeros(1, 8, 10, 16), torch.zeros(1, 2, 10, 16), torch.zeros(1, 2, 10, 16)
    program = torch.onnx.export(Shared().eval(), heads, dynamo=True, opset_version=23, verbose=False)
    program.save(tmp_path / "shared.onnx")

    assert [each.op_type for each in program.model_proto.graph.node] == ["Attention"]
    found = load_graph(tmp_path / "shared.onnx")
    assert "Attention" not in {each.op_type for each in found.nodes}
    # 8 heads of 10 queries and 10 keys, of 16 + 16 products each.
    assert graph_macs(found) == 8 * 100 * 32
