"""Optional packages and their extras, checked before the work that needs them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from latcast.errors import MissingExtraError

PACKAGES: Mapping[str, tuple[str, str]] = {
    "lightgbm": ("lightgbm", "local"),
    "onnxruntime": ("onnxruntime", "local"),
    "scipy": ("scipy", "local"),
    "sqlalchemy": ("SQLAlchemy", "local"),
    "MNN": ("MNN", "mnn"),
    "ai_edge_litert": ("ai-edge-litert", "litert"),
    "ncnn": ("ncnn", "ncnn"),
    "openvino": ("openvino", "openvino"),
    "torch": ("torch", "torch"),
    "onnxscript": ("onnxscript", "torch"),
    "pyarrow": ("pyarrow", "parquet"),
    "pymoo": ("pymoo", "search"),
    "alembic": ("alembic", "server"),
    "fastapi": ("fastapi", "server"),
    "jinja2": ("jinja2", "plots"),
    "prometheus_client": ("prometheus-client", "server"),
    "psycopg": ("psycopg", "server"),
    "segno": ("segno", "server"),
    "starlette": ("fastapi", "server"),
    "uvicorn": ("uvicorn", "server"),
    "matplotlib": ("matplotlib", "plots"),
    "distributed": ("distributed", "dask"),
    "pyopencl": ("pyopencl", "opencl"),
    "wgpu": ("wgpu", "webgpu"),
    "pandas": ("pandas", ""),
    "pytest": ("pytest", ""),
}
"""Module to its distribution and its extra; an empty extra for packages that users install themselves."""

LEARNING = ("lightgbm", "scipy", "sqlalchemy")
"""Modules for training from stored measurements of any runtime."""


def require(purpose: str, *modules: str) -> None:
    """Raise a MissingExtraError if a module is not installed.

    Args:
        purpose: The work, as the beginning of a sentence: "measuring with OpenVINO".
        modules: Keys of :data:`PACKAGES`. The extra of the first one brings them all.
    """
    for module in modules:
        if not _installed(module):
            raise MissingExtraError(PACKAGES[module][0], PACKAGES[modules[0]][1], purpose)


def unavailable(purpose: str, *modules: str) -> str | None:
    """Return the message of :func:`require`, or None where all are installed."""
    try:
        require(purpose, *modules)
    except MissingExtraError as problem:
        return str(problem)
    return None


def explained(problem: ModuleNotFoundError, purpose: str) -> MissingExtraError | None:
    """Return what to install after an import failed; None where no extra brings the module."""
    module = (problem.name or "").partition(".")[0]
    return MissingExtraError(*PACKAGES[module], purpose) if module in PACKAGES else None


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # an import hook hides it
        return False
    except ValueError:  # imported already, from no file
        return True
