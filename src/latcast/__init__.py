"""Forecasts how long a neural network takes on a device, without the device at hand.

The names below are imported when first used, so ``import latcast`` is quick and pulls in no framework.

Example:
    >>> import latcast
    >>> latcast.__version__
    '0.2.0'
    >>> latcast.load("pixel4/tflite-2.10/gpu/fp16").predict("resnet18")
    <Prediction resnet18 on pixel4/tflite-2.10/gpu/fp16: 20.3 ms, 90 % interval 19.3 to 21.8 ms, good, ±3 %>
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

from latcast.version import VERSION as __version__

_MODULES = {
    name: module
    for module, name in re.findall(
        r"^from (\S+) import (\w+) as", Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"), re.MULTILINE
    )
}
"""Public name to the module that defines it, as the stub beside this file says."""

__all__ = ["__version__", *_MODULES]  # noqa: PLE0604


class _Package(ModuleType):
    """The package, in which ``measure``, ``report``, ``search`` and ``hub`` stay functions when the rooms of these names load."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'latcast' has no attribute '{name}'")
    try:
        module = importlib.import_module(_MODULES[name])
    except ModuleNotFoundError as problem:
        from latcast.extras import explained

        raise explained(problem, f"latcast.{name}") or problem from problem
    globals()[name] = getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted(__all__)
