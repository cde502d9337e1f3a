"""A TFLite flatbuffer as plain values: tensors, operators, options.

The schema bindings come from whichever of two packages is there: ``ai-edge-litert``, which brings them along with its
runtime and imports faster, or ``tflite``, which is nothing but them (1 MB of pure Python).
"""

from __future__ import annotations

import importlib
import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import ModelError
from latcast.graph.ir import DTYPE_BYTES, Shape, Tensor
from latcast.graph.limits import MAX_RANK, Budget, Resource
from latcast.reading import other_content

Array = np.ndarray[Any, Any]

_DTYPES: Mapping[int, str] = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 5: "string", 6: "bool", 7: "int16", 8: "complex64", 9: "int8",
    10: "float64", 11: "complex128", 12: "uint64", 13: "resource", 14: "variant", 15: "uint32", 16: "uint16", 17: "int4",
    18: "bfloat16", 19: "int2", 20: "uint4", 21: "float8_e4m3fn", 22: "float8_e5m2",
}  # fmt: skip
"""Element types by their number in the schema's ``TensorType``."""

_NOT_PLAIN = frozenset({"string", "resource", "variant", "bfloat16", "int4", "uint4", "int2", "float8_e4m3fn", "float8_e5m2"})
"""Element types that numpy lacks, or that share bytes."""

_FIRST_RESERVED_BUFFER = 0
"""Buffer 0 is empty by definition: tensors that are computed refer to it."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as the file describes it, in the order of axes that TFLite has (channels last).

    Attributes:
        name: Unique in the file.
        tensor: Shape and element type.
        is_static: Whether the file holds its values.
        is_variable: Whether it keeps its values from one inference to the next.
        dynamic_axes: Axes that the file says may be resized; their size here is the one it starts with.
        scale, zero_point: Of its quantisation; empty where it has none.
    """

    name: str
    tensor: Tensor
    is_static: bool
    dynamic_axes: tuple[int, ...]
    scale: Array
    zero_point: Array
    is_variable: bool = False
    buffer: Any = field(repr=False, default=None)

    @property
    def shape(self) -> Shape:
        return self.tensor.shape

    def values(self) -> Array:
        """Return the stored values; only for static tensors."""
        raw = np.asarray(self.buffer.DataAsNumpy())
        return raw.view(self.tensor.dtype).reshape(self.tensor.shape)


@dataclass(frozen=True)
class StoredOperator:
    """An operator: its name in the schema (``CONV_2D``) or, for a custom one, its own.

    Attributes:
        inputs, outputs: Indices of tensors; -1 is an input left out.
        is_custom: Whether it is not a builtin operator.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    is_custom: bool
    table: Any = field(repr=False, default=None)
    schema: Any = field(repr=False, default=None)

    def options(self, name: str) -> Any:
        """Return the operator's options by the name of their table ("Conv2DOptions"); absent ones have their defaults."""
        options = getattr(self.schema, name)()
        if self.table is not None:
            options.Init(self.table.Bytes, self.table.Pos)
            return options
        return _Defaults()


class _Defaults:
    """Options that a file leaves out: every number is 0."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: 0


@dataclass(frozen=True)
class StoredSubgraph:
    """A network of a file, the body of a loop, or a branch: its tensors, and operators in execution order."""

    tensors: tuple[StoredTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[StoredOperator, ...]

    def values(self, index: int) -> Array | None:
        """Return the values of a static tensor that is stored plainly, else None."""
        stored = self.tensors[index]
        if not stored.is_static or stored.tensor.dtype in _NOT_PLAIN:
            return None
        if prod(stored.shape) * DTYPE_BYTES[stored.tensor.dtype] != stored.buffer.DataLength():
            return None
        return stored.values()


class TfliteFile:
    """A ``.tflite`` file.

    Attributes:
        signatures: Name of each signature to the index of its subgraph.

    Raises:
        ModelError: The file cannot be read, is truncated, or no TFLite model; the message does not name it.
    """

    def __init__(self, path: Path) -> None:
        self.schema = bindings()
        self.budget = Budget()
        try:
            with path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise ModelError(f"it cannot be read: {error.strerror or error}") from error
        except ValueError as error:  # mmap refuses a file of no bytes
            raise ModelError("the file is empty; expected a TFLite model") from error
        if self._bytes[4:8] != b"TFL3":
            raise ModelError(f"it {other_content(self._bytes[:80], 'a TFLite model')}")
        self.model = self.schema.Model.GetRootAs(self._bytes, 0)
        self._check_size()
        self._subgraphs: dict[int, StoredSubgraph] = {}
        self.budget.take(Resource.CONNECTIONS, self.model.SignatureDefsLength())
        stored = [self.model.SignatureDefs(index) for index in range(self.model.SignatureDefsLength())]
        self.signatures = {self._name(each.SignatureKey()): int(each.SubgraphIndex()) for each in stored}

    def subgraph_of(self, signature: str) -> int:
        """Return the subgraph of a signature; the main one where none is named.

        Raises:
            ModelError: The file has no such signature.
        """
        if signature and signature not in self.signatures:
            has = f"its signatures are: {', '.join(self.signatures)}" if self.signatures else "it has none"
            raise ModelError(f"there is no signature '{signature}'; {has}")
        return self.signatures[signature] if signature else 0

    def subgraph(self, index: int) -> StoredSubgraph:
        """Return a subgraph by its index; 0 is the main one.

        Raises:
            ModelError: There is none, or it is damaged.
        """
        if index not in self._subgraphs:
            graph = self.model.Subgraphs(index) if 0 <= index < self.model.SubgraphsLength() else None
            if graph is None:
                raise ModelError(
                    f"it has no subgraph {index}; the file is damaged"
                    if index
                    else "the file holds no network; it is damaged or not a TFLite model"
                )
            self.budget.take(Resource.CONNECTIONS, graph.InputsLength() + graph.OutputsLength())
            self._subgraphs[index] = StoredSubgraph(
                tuple(self._tensors(graph)),
                tuple(int(number) for number in _numbers(graph, "Inputs")),
                tuple(int(number) for number in _numbers(graph, "Outputs")),
                tuple(self._operators(graph)),
            )
        return self._subgraphs[index]

    def _check_size(self) -> None:
        """Weights come last in a file, so a truncated one has all the rest."""
        self.budget.check(Resource.STORED_TENSORS, self.model.BuffersLength())
        for index in range(self.model.BuffersLength()):
            buffer = self.model.Buffers(index)
            end = int(buffer.Offset()) + int(buffer.Size())
            place = buffer._tab.Offset(4)
            if place:
                end = int(buffer._tab.Vector(place)) + int(buffer.DataLength())
            if end > len(self._bytes):
                missing = end - len(self._bytes)
                raise ModelError(f"the file is truncated: it ends {missing} bytes too early; copy or download it again")

    def _tensors(self, graph: Any) -> Iterator[StoredTensor]:
        taken: set[str] = set()
        self.budget.take(Resource.STORED_TENSORS, graph.TensorsLength())
        for index in range(graph.TensorsLength()):
            stored = graph.Tensors(index)
            name = self._name(stored.Name()) or f"tensor_{index}"
            if name in taken:
                name = f"{name}_{index}"
            taken.add(name)
            if stored.ShapeLength() > MAX_RANK or stored.ShapeSignatureLength() > MAX_RANK:
                raise ModelError(f"tensor '{name}' has more than {MAX_RANK} dimensions; is the file damaged?")
            shape = tuple(int(size) for size in _numbers(stored, "Shape"))
            signature = _numbers(stored, "ShapeSignature")
            code = stored.Type()
            if code not in _DTYPES:
                label = next((key for key, value in vars(self.schema.TensorType).items() if value == code), str(code))
                raise ModelError(f"tensor '{name}' has elements of the unknown type {label.lower()}; update latcast")
            buffer = self.model.Buffers(stored.Buffer())
            held = stored.Buffer() != _FIRST_RESERVED_BUFFER and (buffer.DataLength() > 0 or buffer.Size() > 0)
            if held and min(shape, default=0) < 0:
                raise ModelError(f"tensor '{name}' has values and the shape {shape}; is the file damaged?")
            quantization = stored.Quantization()
            yield StoredTensor(
                name,
                Tensor(shape, _DTYPES[code]),
                bool(held),
                tuple(axis for axis, size in enumerate(signature) if size < 0),
                _numbers(quantization, "Scale", np.float32),
                _numbers(quantization, "ZeroPoint"),
                bool(stored.IsVariable()),
                buffer,
            )

    def _name(self, stored: bytes | None) -> str:
        """Return a text of the file; it counts against the budget, since many tensors may share one."""
        self.budget.take(Resource.NAME_CHARACTERS, len(stored or b""))
        return (stored or b"").decode(errors="replace")

    def _operators(self, graph: Any) -> Iterator[StoredOperator]:
        names = _builtin_names(self.schema)
        self.budget.take(Resource.STORED_OPERATORS, graph.OperatorsLength())
        for index in range(graph.OperatorsLength()):
            operator = graph.Operators(index)
            self.budget.take(Resource.CONNECTIONS, operator.InputsLength() + operator.OutputsLength())
            code = self.model.OperatorCodes(operator.OpcodeIndex())
            number = max(int(code.BuiltinCode()), int(code.DeprecatedBuiltinCode()))
            kind = names.get(number, f"BUILTIN_{number}")
            is_custom = kind == "CUSTOM"
            if is_custom:
                kind = self._name(code.CustomCode()) or "custom"
            table = None if is_custom else operator.BuiltinOptions()
            if table is None and not is_custom and hasattr(operator, "BuiltinOptions2"):
                table = operator.BuiltinOptions2()
            yield StoredOperator(
                kind,
                tuple(int(number) for number in _numbers(operator, "Inputs")),
                tuple(int(number) for number in _numbers(operator, "Outputs")),
                is_custom,
                table,
                self.schema,
            )


def _numbers(table: Any, name: str, dtype: Any = np.int64) -> Array:
    """Return a vector of a table; empty where the table or the vector is not there."""
    if table is None or not getattr(table, f"{name}Length")():
        return np.empty(0, dtype)
    return np.asarray(getattr(table, f"{name}AsNumpy")(), dtype=dtype)


@lru_cache(maxsize=1)
def bindings() -> Any:
    """Return the module of TFLite's schema: its tables, their builders' functions and its enumerations."""
    try:
        # LiteRT's bindings are one file, imported in a tenth of the time of the package's two hundred.
        return importlib.import_module("ai_edge_litert.schema_py_generated")
    except ImportError:
        return importlib.import_module("tflite")


@lru_cache(maxsize=1)
def _builtin_names(schema: Any) -> dict[int, str]:
    return {
        value: name
        for name, value in vars(schema.BuiltinOperator).items()
        if isinstance(value, int) and re.fullmatch(r"[A-Z0-9_]+", name)
    }
