"""What pytorchcv offers: importing it without torchvision, and the names of its networks.

pytorchcv depends on torchvision for one class (``torchvision.ops.DeformConv2d``, in a video inpainting network), which none
of its classifiers uses. A stub replaces it while pytorchcv is imported: a torchvision that is missing, or was built
for another PyTorch and fails on import, does no harm.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

from latcast.errors import UnknownNameError
from latcast.extras import require
from latcast.registry import nearest_names

IMAGENET_CLASSES = 1000


def require_pytorchcv() -> None:
    """Makes sure that networks can be built here.

    Raises:
        MissingExtraError: pytorchcv or PyTorch is not installed.
    """
    require("building a network of pytorchcv", "pytorchcv", "torch", "onnxscript")


@contextmanager
def torchvision_stub() -> Iterator[None]:
    """While it lasts, ``torchvision.ops.DeformConv2d`` can be imported whatever torchvision is installed, if any.

    A torchvision that was imported before is left in its place: it works.
    """
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
        for name, module in stubs.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


@lru_cache(maxsize=1)
def _providers() -> Mapping[str, Any]:
    """Name of each network to the function that builds it.

    Raises:
        MissingExtraError: pytorchcv or PyTorch is not installed.
    """
    require_pytorchcv()
    with torchvision_stub():
        provider = import_module("pytorchcv.model_provider")
    return provider._models


def provider(name: str) -> Any:
    """The function that builds a network.

    Raises:
        UnknownNameError: pytorchcv has no such network; the message suggests the nearest names.
        MissingExtraError: pytorchcv or PyTorch is not installed.
    """
    known = _providers()
    if name not in known:
        near = nearest_names(name, list(known)) or sorted(known)[:3]
        raise UnknownNameError(f"pytorchcv has no network called '{name}'; nearest: {', '.join(near)}")
    return known[name]


def classifier_names() -> tuple[str, ...]:
    """Names of the ImageNet classifiers, sorted: networks whose module has a class with 1000 outputs by default.

    Raises:
        MissingExtraError: pytorchcv or PyTorch is not installed.
    """
    modules = {function.__module__ for function in _providers().values()}
    suitable = {name for name in modules if _has_imagenet_classifier(sys.modules[name])}
    return tuple(sorted(name for name, function in _providers().items() if function.__module__ in suitable))


def _has_imagenet_classifier(module: ModuleType) -> bool:
    for _, network in inspect.getmembers(module, inspect.isclass):
        if network.__module__ == module.__name__:
            outputs = inspect.signature(network).parameters.get("num_classes")
            if outputs is not None and outputs.default == IMAGENET_CLASSES:
                return True
    return False
