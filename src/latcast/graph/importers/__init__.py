"""Reading networks: model files and models in memory become a :class:`latcast.graph.ir.Graph`.

Importers are found by name in :data:`IMPORTERS` and imported when they are needed: reading an ONNX file loads no torch.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypedDict

from latcast.errors import ModelError
from latcast.graph.ir import Graph, Values
from latcast.registry import Registry

Shapes = Mapping[str, Sequence[int]]
"""Input name to shape: sizes for dynamic dimensions, or other sizes than the model has."""


@dataclass(frozen=True)
class ModelOptions:
    """Options for reading a model.

    Attributes:
        shapes: See :data:`Shapes`.
        strict: Whether an operator outside the operator table is an error.
        trust: Whether a ``.pt2`` file may run the code it may hold.
        example_inputs: The inputs of a ``torch.nn.Module``, and of nothing else, see :func:`latcast.from_torch`.
        signature: Which signature of a ``.tflite`` file is meant; its main network by default.
        values: Input name to its value, where it decides branches, rounds of loops or sizes; see
            :func:`latcast.graph.input_values.fitted`.

    Raises:
        ModelError: The shapes are no mapping.
    """

    shapes: Shapes | None = None
    strict: bool = False
    trust: bool = False
    example_inputs: object = None
    signature: str = ""
    values: Values | None = None

    def __post_init__(self) -> None:
        shapes: object = self.shapes
        if shapes is not None and not isinstance(shapes, Mapping):
            raise ModelError(
                f"found shapes={shapes!r}, expected the name of an input to its shape: shapes={{'input': {shapes!r}}}"
            )


class ReadingKeywords(TypedDict, total=False):
    """Keyword arguments of functions that read a model at several shapes; each makes :class:`ModelOptions` of them."""

    strict: bool
    trust: bool
    example_inputs: object
    signature: str
    values: Values | None


class ModelKeywords(ReadingKeywords, total=False):
    """Keyword arguments of functions that read a model."""

    shapes: Shapes | None


class Importer(Protocol):
    """Interface of plug-ins of the group ``latcast.importers``."""

    def accepts(self, source: object) -> bool:
        """Return whether this importer reads such a source: a :class:`pathlib.Path`, or an object in memory."""

    def load(self, source: Any, options: ModelOptions) -> Graph:
        """Return the graph; an importer whose format can hold code refuses it without ``options.trust``."""


IMPORTERS: Registry[type[Importer]] = Registry(
    "importer",
    {
        "ncnn": "latcast.graph.importers.ncnn:NcnnImporter",
        "onnx": "latcast.graph.importers.onnx:OnnxImporter",
        "tflite": "latcast.graph.importers.tflite:TfliteImporter",
        "torch": "latcast.graph.importers.torch:TorchImporter",
    },
    group="latcast.importers",
)

_BUILTIN_SUFFIXES: Mapping[str, str] = {".onnx": "onnx", ".tflite": "tflite", ".pt2": "torch", ".param": "ncnn"}
_BUILTIN_PACKAGES: Mapping[str, str] = {"onnx": "onnx", "torch": "torch"}
_ONNX_VERSION_FIELD = b"\x08"
"""Key of the field that writers of ONNX files put first."""

_TFLITE_IDENTIFIER = b"TFL3"

MODEL_SUFFIXES = tuple(_BUILTIN_SUFFIXES)
"""Suffixes of model files that are read without a plug-in."""


def load_graph(
    source: str | os.PathLike[str] | object,
    *,
    shapes: Shapes | None = None,
    strict: bool = False,
    trust: bool = False,
    signature: str = "",
    values: Values | None = None,
) -> Graph:
    """Read a network from a file or an object.

    Args:
        source: A ``.onnx``, ``.tflite``, ``.pt2`` or ``.param`` (ncnn) file, an ``onnx.ModelProto``, a
            ``torch.export.ExportedProgram``, or whatever a plug-in accepts. A ``torch.nn.Module`` needs inputs
            besides: see :func:`from_torch`.
        shapes: Input name to shape: sizes for dynamic dimensions, or other sizes than the file says.
        strict: Refuse operators that the operator table does not have, rather than keep them with their shapes.
        trust: Let PyTorch open a ``.pt2`` file, which runs whatever code its maker put into it; without it such a file is
            refused. Files of other formats run nothing.
        signature: Which signature of a ``.tflite`` file is meant; its main network by default.
        values: Input name to its value, where it decides branches, rounds of loops or sizes: a number, a list or an array.

    Raises:
        ModelError: The source cannot be read, is not a network, or would run code; the message names it.
        DynamicShapeError: An input has a dimension without a size and ``shapes`` gives none.
        UnknownOperatorError: ``strict``, and an operator is not in the table.
        MissingExtraError: Reading this format needs a package that is not installed.

    Example:
        >>> import latcast, onnx
        >>> from onnx import TensorProto, helper
        >>> ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 8, 32, 32)) for name in ("x", "y")]
        >>> graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "small", ends[:1], ends[1:])
        >>> onnx.save(helper.make_model(graph), "small.onnx")
        >>> latcast.load_graph("small.onnx").shape("y")
        (1, 8, 32, 32)
    """
    return read_source(source, ModelOptions(shapes, strict, trust, signature=signature, values=values))


def read_source(source: str | os.PathLike[str] | object, options: ModelOptions) -> Graph:
    """Return the graph of a file, an object, or a module with its inputs; see :func:`load_graph` and :func:`from_torch`."""
    if options.example_inputs is not None:
        from latcast.graph.importers.torch import import_module

        return import_module(source, options)
    if isinstance(source, str):
        refuse_address(source)
    if isinstance(source, str | os.PathLike):
        source = Path(source)
    importer = _importer_of(source)
    if options.signature and not getattr(importer, "has_signatures", False):
        raise ModelError(f"{source}: signature '{options.signature}' is given; only TFLite files have signatures")
    return importer.load(source, options)


def from_torch(module: object, example_inputs: object, *, shapes: Shapes | None = None, strict: bool = False) -> Graph:
    """Return the network of a ``torch.nn.Module``.

    Args:
        module: As it is in inference, whatever mode it is in.
        example_inputs: Its positional arguments, of the shapes to predict for: a tensor, or a sequence with one item each.
        shapes: As for :func:`load_graph`.
        strict: As for :func:`load_graph`.

    Raises:
        MissingExtraError: torch or onnxscript is not installed.
        ModelError: It is not a module, the inputs are not tensors, or PyTorch cannot export it.

    Example:
        >>> import latcast, torch
        >>> module = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU())
        >>> graph = latcast.from_torch(module, torch.zeros(1, 3, 224, 224))
        >>> [node.op_type for node in graph.nodes]
        ['Conv', 'Relu']
    """
    from latcast.graph.importers.torch import import_module

    return import_module(module, ModelOptions(shapes, strict, example_inputs=example_inputs))


def refuse_address(text: str) -> None:
    """Refuse the address of something on a network.

    Raises:
        ModelError: It is one.
    """
    if "://" in text:
        raise ModelError(f"'{text}' is not fetched: latcast reads nothing from a network; download the file and give its path")


def is_torch_module(source: object) -> bool:
    """Return whether an object is a ``torch.nn.Module``; where torch is not imported yet, nothing is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, torch.nn.Module)


def _importer_of(source: object) -> Importer:
    if isinstance(source, Path):
        return _importer_of_file(source)
    if is_torch_module(source):
        raise ModelError(
            f"a torch.nn.Module ({type(source).__name__}) needs the inputs to predict for; give "
            "example_inputs=torch.zeros(1, 3, 224, 224) to latcast.predict or latcast.from_torch"
        )
    package = type(source).__module__.partition(".")[0]
    if package in _BUILTIN_PACKAGES:
        importer = IMPORTERS.get(_BUILTIN_PACKAGES[package])()
        if importer.accepts(source):
            return importer
    found = _plugin_for(source)
    if found is None:
        raise ModelError(
            f"cannot read a network from an object of type {type(source).__module__}.{type(source).__qualname__}; "
            "expected a path, an onnx.ModelProto, a torch.export.ExportedProgram, or a torch.nn.Module with example_inputs"
        )
    return found


def _importer_of_file(path: Path) -> Importer:
    suffix = path.suffix.lower()
    if not path.exists():
        raise ModelError(f"there is no file '{path}'")
    if path.is_file() and (found := _name_by_content(path, _start(path))) is not None:
        return IMPORTERS.get(found)()
    # What is no file of a known mark is read or refused by its suffix.
    from latcast.graph.importers.foreign_files import COMPILED, CONVERTED, UNREADABLE, refuse_compiled_file

    if path.is_dir() and suffix not in {*CONVERTED, *COMPILED}:
        raise ModelError(f"'{path}' is a folder; expected a model file ({', '.join(_BUILTIN_SUFFIXES)})")
    if not path.is_file() and not path.is_dir():
        # Opening a pipe waits for somebody to write into it; a device has no end.
        raise ModelError(f"'{path}' is a pipe, a socket or a device; expected a model file ({', '.join(_BUILTIN_SUFFIXES)})")
    beside = path.with_suffix("" if path.stem.endswith(".param") else ".param")
    if suffix == ".bin" and beside.is_file():
        raise ModelError(f"cannot read '{path}': it belongs to a network of ncnn; give the text file beside it, '{beside}'")
    if suffix == ".bin" and path.with_suffix(".xml").is_file():
        return _importer_of_file(path.with_suffix(".xml"))  # OpenVINO's weights: the network is refused with what to give
    start = b"" if path.is_dir() else _start(path)
    if suffix in UNREADABLE:
        raise ModelError(f"cannot read '{path}': {UNREADABLE[suffix]}")
    name = None if path.is_dir() else _BUILTIN_SUFFIXES.get(suffix)
    if name is None and (plugin := _plugin_for(path)) is not None:
        return plugin
    refuse_compiled_file(path, start)
    if name is not None:
        return IMPORTERS.get(name)()
    if suffix in CONVERTED:
        raise ModelError(f"cannot read '{path}': it is {CONVERTED[suffix]}")
    raise ModelError(f"'{path}' is of no known format; expected one of {', '.join(_BUILTIN_SUFFIXES)}")


def _start(path: Path) -> bytes:
    """Return the first bytes of a file, which may carry a mark of its format."""
    try:
        with path.open("rb") as file:
            return file.read(8)
    except OSError as error:
        raise ModelError(f"cannot read '{path}': {error.strerror or error}") from error


def _name_by_content(path: Path, start: bytes) -> str | None:
    """Return the importer for files that carry a mark of their format, whatever they are called."""
    if start[4:8] == _TFLITE_IDENTIFIER:
        return "tflite"
    if path.suffix.lower() == ".onnx" and start[:1] == _ONNX_VERSION_FIELD:
        return "onnx"
    return "torch" if start[:2] == b"PK" and zipfile.is_zipfile(path) and path.suffix == ".pt2" else None


def _plugin_for(source: object) -> Importer | None:
    for name in IMPORTERS:
        if name in _BUILTIN_SUFFIXES.values():
            continue
        importer = IMPORTERS.get(name)()
        if importer.accepts(source):
            return importer
    return None


__all__ = [
    "IMPORTERS",
    "MODEL_SUFFIXES",
    "Importer",
    "ModelKeywords",
    "ModelOptions",
    "ReadingKeywords",
    "Shapes",
    "Values",
    "from_torch",
    "is_torch_module",
    "load_graph",
    "read_source",
    "refuse_address",
]
