"""Networks as pytorchcv really builds them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest

from latcast.errors import ModelError, UnknownNameError
from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.kernels.rules import load_rules
from latcast.kernels.search import find_kernels
from latcast.records import Reference
from latcast.spaces import SPACES, build
from latcast.spaces.pytorchcv import reference_of
from latcast.spaces.pytorchcv.providers import provider, torchvision_stub

for package in ("torch", "onnxscript", "pytorchcv"):
    pytest.importorskip(package)


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LATCAST_HOME", str(tmp_path))


def kernels(graph: Graph) -> Counter[tuple[str, tuple[int, ...]]]:
    return Counter(kernel.key for kernel in find_kernels(graph, load_rules("litert")))


def test_resnet18_has_its_published_size() -> None:
    graph = build(reference_of("resnet18"))

    assert graph.shape(graph.inputs[0]) == (1, 3, 224, 224)
    assert graph.shape(graph.outputs[0]) == (1, 1000)
    # torchvision's table: 11.69 M parameters, 1.81 G multiply-accumulates; batch normalisation folded away.
    assert graph.parameter_count == pytest.approx(11.69e6, rel=2e-3)
    assert graph_macs(graph) == pytest.approx(1.814e9, rel=2e-3)


@pytest.mark.slow
def test_networks_made_for_other_images_are_built_for_224() -> None:
    graph = build(reference_of("efficientnet_edge_large_b"))
    assert graph.shape(graph.inputs[0]) == (1, 3, 224, 224)
    assert "Pad" not in {node.op_type for node in graph.nodes}


def test_other_images_classes_and_batches() -> None:
    graph = build(Reference("pytorchcv", {"name": "regnetx002", "resolution": 96, "classes": 10, "batch": 2}))
    assert graph.shape(graph.inputs[0]) == (2, 3, 96, 96)
    assert graph.shape(graph.outputs[0]) == (2, 10)


def test_an_unknown_name_suggests_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"pytorchcv has no network called 'resnet18x'; nearest: resnet18"):
        build(reference_of("resnet18x"))


def test_what_pytorchcv_cannot_build_is_a_model_error() -> None:
    with pytest.raises(ModelError, match=r"pytorchcv's resnet10 cannot be built and exported for images of \[1, 3, 8, 8\]"):
        build(Reference("pytorchcv", {"name": "resnet10", "resolution": 8}))


def test_an_argument_that_there_is_not_is_a_model_error() -> None:
    with pytest.raises(ModelError, match="the space pytorchcv cannot build"):
        build(Reference("pytorchcv", {"nmae": "resnet10"}))


def test_members_are_drawn_by_seed() -> None:
    space = SPACES.get("pytorchcv")
    ten = space.sample(10, seed=1)

    assert ten == space.sample(20, seed=1)[:10]
    assert ten != space.sample(10, seed=2)
    assert len({reference.key for reference in ten}) == 10
    assert all(callable(provider(reference.name)) for reference in ten)


def test_no_stub_of_torchvision_is_left_behind() -> None:
    with torchvision_stub():
        from torchvision.ops import DeformConv2d

        assert DeformConv2d is not None
    provider("resnet18")
    assert ("torchvision" in sys.modules) <= (importlib.util.find_spec("torchvision") is not None)


def test_a_torchvision_built_for_another_pytorch_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "torchvision" / "__init__.py"
    broken.parent.mkdir()
    broken.write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)

    with torchvision_stub():
        from torchvision.ops import DeformConv2d

    assert DeformConv2d is not None
    with pytest.raises(RuntimeError, match="nms"):
        importlib.import_module("torchvision")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fdmobilenet_wd4", "mobilenetv3_small_wd2", "efficientnet_edge_small_b", "squeezenet_v1_0"])
def test_a_users_own_export_with_pytorchs_newer_exporter_has_the_same_kernels(name: str) -> None:
    import torch

    from latcast.graph.importers import from_torch

    module = provider(name)()
    for parameter in module.parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter)  # biases of zero would be dropped
    assert kernels(from_torch(module, (torch.zeros(1, 3, 224, 224),))) == kernels(build(reference_of(name)))
