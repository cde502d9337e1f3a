"""Reading PyTorch networks, by way of PyTorch's own ONNX exporter.

Pickled modules (``.pt``, ``.pth``) are refused: opening one runs whatever code it holds. So does opening a ``.pt2`` archive,
which is read only where the user trusts its maker.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from latcast.errors import ModelError
from latcast.extras import require
from latcast.graph.importers import ModelOptions
from latcast.graph.ir import Graph

_KEPT_TENSOR_BYTES = 16384


class TorchImporter:
    """Imports ``.pt2`` files of ``torch.export.save`` and ``torch.export.ExportedProgram`` objects."""

    suffixes = (".pt2",)

    def accepts(self, source: object) -> bool:
        if isinstance(source, Path):
            return source.suffix.lower() in self.suffixes
        kind = type(source)
        return kind.__name__ == "ExportedProgram" and kind.__module__.startswith("torch.export")

    def load(self, source: Any, options: ModelOptions) -> Graph:
        """Read a file or a program; see :func:`latcast.graph.importers.load_graph`."""
        if isinstance(source, Path) and not options.trust:
            raise ModelError(
                f"'{source}' is a PyTorch archive, and opening one runs whatever code its maker put into it; if you know who "
                "made it, say --trust (trust=True in Python), else export the model to ONNX (torch.onnx.export)"
            )
        require("reading a PyTorch program", "torch", "onnxscript")
        if isinstance(source, Path):
            program, name = _load_program(source), source.stem
        else:
            program, name = source, type(source).__name__
        return _import(program, (), name, options)


def import_module(module: Any, options: ModelOptions) -> Graph:
    """Return the graph of a module; see :func:`latcast.graph.importers.from_torch`."""
    require("reading a PyTorch module", "torch", "onnxscript")
    import torch

    if not isinstance(module, torch.nn.Module):
        raise ModelError(
            f"example inputs are for a torch.nn.Module, found {type(module).__name__}; other models take shapes={{input: sizes}}"
        )
    example_inputs = options.example_inputs
    if isinstance(example_inputs, torch.Tensor):
        example_inputs = (example_inputs,)
    elif not isinstance(example_inputs, Sequence) or isinstance(example_inputs, str):
        raise ModelError(
            f"the example inputs of {type(module).__name__} are of type {type(example_inputs).__name__}; "
            "expected a tensor or a sequence of them"
        )
    if example_inputs and all(isinstance(each, int) for each in example_inputs):
        raise ModelError(
            f"the example inputs of {type(module).__name__} are the numbers {list(example_inputs)}; expected tensors, such as "
            f"torch.zeros{tuple(example_inputs)}"
        )
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        return _import(module, tuple(example_inputs), type(module).__name__, options)
    finally:
        for part, training in modes:
            part.training = training


def _load_program(path: Path) -> Any:
    import torch

    try:
        with _quiet():
            return torch.export.load(path)
    except Exception as error:  # PyTorch raises whatever its deserialiser meets, AssertionError included
        raise ModelError(f"'{path}' cannot be loaded by torch.export.load: {_first_line(error)}") from error


def _import(source: Any, arguments: tuple[Any, ...], name: str, options: ModelOptions) -> Graph:
    import onnx_ir  # of which onnxscript is made
    import torch

    from latcast.graph.importers.onnx import OnnxImporter

    try:
        with _quiet(), torch.no_grad():
            exported = torch.onnx.export(source, arguments, dynamo=True, verbose=False)
    except Exception as error:  # the exporter traces code of the user, which may raise anything
        advice = "; export the program without dynamic_shapes" if getattr(source, "range_constraints", None) else ""
        raise ModelError(f"PyTorch cannot export {name} to ONNX: {_first_line(error)}{advice}") from error
    model = exported.model
    _drop_weights(model)
    model.graph.name = name
    return OnnxImporter().load(onnx_ir.to_proto(model), options)


def _drop_weights(model: Any) -> None:
    """Replace large weights by references to a file that does not exist, so that none is copied."""
    import onnx_ir

    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor is not None and tensor.nbytes > _KEPT_TENSOR_BYTES:
            value.const_value = onnx_ir.ExternalTensor(
                "weights", 0, tensor.nbytes, tensor.dtype, shape=tensor.shape, name=value.name
            )


def _first_line(error: BaseException) -> str:
    """Return the root cause of an error in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence PyTorch's warnings of missing packages and of graphs that an exporter fails on."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
