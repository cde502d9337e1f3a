"""Reading TFLite models (LiteRT) into ONNX's vocabulary, channels first.

TFLite's tensors are channels-last. Each operator that ONNX defines channels-first is wrapped in transposes that stand for a
look at the same data (views), and the pass that cancels transposes removes them; what is left of them is reshapes, since no
runtime of TFLite executes any. Fused activations become operators of their own, SAME padding becomes numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import DynamicShapeError, ModelError
from latcast.graph.importers import ModelOptions
from latcast.graph.importers.assembly import MALFORMED, Array, Assembly, errors_of
from latcast.graph.importers.tflite_conversion import Conversion
from latcast.graph.importers.tflite_file import StoredTensor, TfliteFile
from latcast.graph.importers.tflite_operators import CONVERSIONS
from latcast.graph.input_values import fitted
from latcast.graph.ir import Graph, Node, Tensor, check_input_names
from latcast.graph.passes.cancel_transposes import cancel_transposes
from latcast.graph.passes.folding import with_precision
from latcast.graph.passes.remove_identities import merge_reshapes, remove_identities

DOMAIN = "tflite"
"""The domain of operators that ONNX has no words for."""


class TfliteImporter:
    """Imports ``.tflite`` files."""

    suffixes = (".tflite",)

    def accepts(self, source: object) -> bool:
        return isinstance(source, Path) and source.suffix.lower() in self.suffixes

    def load(self, source: Any, options: ModelOptions) -> Graph:
        """Return the graph of a file; see :func:`latcast.graph.importers.load_graph`.

        Shapes are given as the file has them, channels last.
        """
        with errors_of(source):
            return TfliteReading(TfliteFile(source), source.stem, options).graph()


class TfliteReading:
    """State of the import of a file."""

    def __init__(self, file: TfliteFile, name: str, options: ModelOptions) -> None:
        self.file = file
        self.shapes = options.shapes or {}
        self.values = options.values or {}
        self.assembly = Assembly(
            name, load=self._load, infer_unknown=self._infer_unknown, strict=options.strict, budget=file.budget
        )
        self.index_of = {stored.name: index for index, stored in enumerate(file.tensors)}
        self.views: set[str] = set()
        self._current: tuple[int, ...] = ()

    def _load(self, name: str) -> Array | None:
        return self.file.values(self.index_of[name]) if name in self.index_of else None

    def _infer_unknown(self, node: Node, inputs: Sequence[Tensor | None]) -> list[Tensor] | None:
        """Return the shapes that the file states; they do not hold where other input shapes are given."""
        return None if self.shapes else [self.file.tensors[index].tensor for index in self._current]

    def graph(self) -> Graph:
        names = [self.file.tensors[index].name for index in self.file.inputs]
        check_input_names(self.shapes, names)
        check_input_names(self.values, names, what="value")
        for index in self.file.inputs:
            stored = self.file.tensors[index]
            value = self._given_value(stored) if stored.name in self.values else None
            self.assembly.add_input(stored.name, self._input(index), value)
        for operator in self.file.operators:
            self._current = operator.outputs
            conversion = Conversion(self, operator)
            convert = None if operator.is_custom else CONVERSIONS.get(operator.kind)
            try:
                if convert is None or convert(conversion) is NotImplemented:
                    conversion.keep_unknown(DOMAIN)
            except MALFORMED as error:
                raise ModelError(f"operator {conversion.name} is malformed: {error}") from error
            self._check(operator.outputs)
        graph = self.assembly.finish(self.file.tensors[index].name for index in self.file.outputs)
        graph = cancel_transposes(remove_identities(graph), views=self.views)
        return with_precision(remove_identities(merge_reshapes(graph)))

    def _given_value(self, stored: StoredTensor) -> Array:
        """Return the value given for an input; it also gives sizes to dynamic dimensions."""
        sizes = [-1 if axis in stored.dynamic_axes or size < 1 else size for axis, size in enumerate(stored.shape)]
        value = fitted(stored.name, self.values[stored.name], self.shapes.get(stored.name, sizes), stored.tensor.dtype)
        if value.shape != stored.shape:
            self.shapes = {**self.shapes, stored.name: value.shape}
        return value

    def _input(self, index: int) -> Tensor:
        stored = self.file.tensors[index]
        shape = tuple(int(size) for size in self.shapes.get(stored.name, stored.shape))
        if len(shape) != len(stored.shape):
            raise ModelError(f"input '{stored.name}' has {len(stored.shape)} dimensions; the shape given for it has {len(shape)}")
        if any(size <= 0 for size in shape):
            axis = next(axis for axis, size in enumerate(shape) if size <= 0)
            raise DynamicShapeError(
                f"input '{stored.name}' has dimension {axis} without a size; "
                f"give it: --shape {stored.name}={','.join(str(max(size, 1)) for size in shape)}"
            )
        return Tensor(shape, stored.tensor.dtype)

    def _check(self, outputs: Sequence[int]) -> None:
        """Raise if inferred shapes differ from those that the file states; take over the file's element types."""
        for index in outputs:
            stored = self.file.tensors[index]
            name = self.assembly.resolve(stored.name)
            if name not in self.assembly.tensors or stored.name != name:
                continue
            found = self.assembly.tensors[name]
            if found.shape != stored.shape and not self.shapes and not stored.dynamic_axes:
                raise ModelError(
                    f"tensor '{stored.name}' should have shape {list(stored.shape)} by the file, "
                    f"but its operator gives {list(found.shape)}; is the file damaged?"
                )
            self.assembly.tensors[name] = Tensor(found.shape, stored.tensor.dtype)

    # For conversions

    def use(self, index: int) -> str:
        """Return the name of a tensor as an input; stored tensors are added when they are first used."""
        if index < 0:
            return ""
        stored = self.file.tensors[index]
        if not self.assembly.exists(stored.name):
            if not stored.is_static:
                raise ModelError(f"tensor '{stored.name}' is read before an operator gives it")
            self.assembly.add_stored(stored.name, stored.tensor)
        return stored.name

    def value(self, index: int) -> Array | None:
        """Return the values of a tensor that are known without running the network."""
        return None if index < 0 else self.assembly.value(self.use(index))

    def quantization(self, index: int) -> tuple[Array, Array]:
        stored = self.file.tensors[index]
        scale = stored.scale if stored.scale.size else np.ones(1, np.float32)
        zero = stored.zero_point if stored.zero_point.size else np.zeros(1, np.int64)
        return scale.reshape(-1), zero.reshape(-1)
