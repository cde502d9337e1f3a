"""Optional packages and their extras, checked before the work that needs them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import NamedTuple

from latcast.errors import MissingExtraError


class Package(NamedTuple):
    """A distribution, its extra, and what ``latcast doctor`` says it is for; it leaves out those that say nothing.

    The extra is empty for packages that users install themselves.
    """

    distribution: str
    extra: str
    purpose: str = ""


PACKAGES: Mapping[str, Package] = {
    "lightgbm": Package("lightgbm", "local", "train predictors"),
    "onnxruntime": Package("onnxruntime", "local"),
    "scipy": Package("scipy", "local", "train predictors"),
    "sqlalchemy": Package("SQLAlchemy", "local", "keep measurements"),
    "MNN": Package("MNN", "mnn"),
    "ai_edge_litert": Package("ai-edge-litert", "litert"),
    "ncnn": Package("ncnn", "ncnn"),
    "openvino": Package("openvino", "openvino"),
    "xllamacpp": Package("xllamacpp", "llm", "run language models with llama.cpp"),
    "torch": Package("torch", "torch", "read PyTorch modules and .pt2 files"),
    "onnxscript": Package("onnxscript", "torch", "read PyTorch modules and .pt2 files"),
    "pyarrow": Package("pyarrow", "parquet", "the benchmark of variants as Parquet"),
    "pymoo": Package("pymoo", "search", "search large spaces"),
    "alembic": Package("alembic", "server"),
    "fastapi": Package("fastapi", "server", "a shared hub of measurements"),
    "jinja2": Package("jinja2", "plots"),
    "prometheus_client": Package("prometheus-client", "server"),
    "psycopg": Package("psycopg", "server"),
    "segno": Package("segno", "server"),
    "starlette": Package("fastapi", "server"),
    "uvicorn": Package("uvicorn", "server"),
    "matplotlib": Package("matplotlib", "plots", "plots"),
    "distributed": Package("distributed", "dask", "campaigns and predictions over several machines"),
    "pyopencl": Package("pyopencl", "opencl", "time work-group sizes under OpenCL"),
    "wgpu": Package("wgpu", "webgpu", "time work-group sizes under WebGPU"),
    "pandas": Package("pandas", ""),
    "pytest": Package("pytest", ""),
}
"""Optional packages by module."""

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
            raise MissingExtraError(PACKAGES[module].distribution, PACKAGES[modules[0]].extra, purpose)


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
    return MissingExtraError(*PACKAGES[module][:2], purpose) if module in PACKAGES else None


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # an import hook hides it
        return False
    except ValueError:  # imported already, from no file
        return True
