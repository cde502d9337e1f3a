"""The networks of the PyPI package pytorchcv, as PyTorch exports them to ONNX for images of 224x224.

Li et al. measured networks of this collection at 224 (Appendix A). They are exported as a user would, by ``torch.onnx.export``
with its constants folded, so that a predictor trained on these graphs meets the same graphs in files of users.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from importlib import import_module
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

from latcast.graph.importers import load_graph
from latcast.graph.importers.onnx_file import read_without_weights
from latcast.graph.ir import Graph

OPSET = 18
"""Of the exported files: fixed, so that another version of PyTorch gives the same operators."""

RESOLUTION = 224
"""Pixels a side. Not pytorchcv's own (300 for efficientnet_edge_large_b): Li et al. measured every network at 224."""


def readers() -> dict[str, Callable[[], Graph]]:
    """Return each network's name with the function that exports and reads it, without those for images of 32x32 alone."""
    modules = _modules()
    return {
        name: partial(_exported, make, name)
        for name, make in sorted(modules.items())
        if not name.endswith(("cifar10", "cifar100", "svhn"))
    }


def release() -> str:
    """Return pytorchcv's version."""
    return version("pytorchcv")


def _modules() -> Mapping[str, Callable[..., Any]]:
    with _torchvision_stub():
        return import_module("pytorchcv.model_provider")._models  # type: ignore[no-any-return]


@contextmanager
def _torchvision_stub() -> Iterator[None]:
    """Let ``torchvision.ops.DeformConv2d``, which no classifier uses, be imported without torchvision."""
    if "torchvision" in sys.modules:
        yield
        return
    package, operators = ModuleType("torchvision"), ModuleType("torchvision.ops")
    operators.DeformConv2d = type("DeformConv2d", (), {})  # type: ignore[attr-defined]
    package.ops = operators  # type: ignore[attr-defined]
    stubs = {"torchvision": package, "torchvision.ops": operators}
    sys.modules.update(stubs)
    try:
        yield
    finally:
        for name in stubs:
            del sys.modules[name]


def _exported(make: Callable[..., Any], name: str) -> Graph:
    import torch

    image = torch.zeros(1, 3, RESOLUTION, RESOLUTION)
    with tempfile.TemporaryDirectory(prefix="latcast-") as folder:
        file = Path(folder) / f"{name}.onnx"
        module = _for_resolution(make).eval()
        with torch.no_grad(), warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            torch.onnx.export(module, (image,), str(file), dynamo=False, opset_version=OPSET, input_names=["input"])
        file.write_bytes(read_without_weights(file).SerializeToString())
        return load_graph(file)


def _for_resolution(make: Callable[..., Any]) -> Any:
    """Return a module for :data:`RESOLUTION`; EfficientNets insist on their own, but run on images of any size."""
    module = make(pretrained=False)
    if tuple(module.in_size) == (RESOLUTION, RESOLUTION):
        return module
    try:
        return make(pretrained=False, in_size=(RESOLUTION, RESOLUTION))
    except AssertionError:
        return module
