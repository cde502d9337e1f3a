"""Reading TFLite models (LiteRT) into ONNX's vocabulary, channels first.

TFLite's tensors are channels-last. Each operator that ONNX defines channels-first is wrapped in transposes that stand for a
look at the same data (views), and the pass that cancels transposes removes them; what is left of them is reshapes, since no
runtime of TFLite executes any. Fused activations become operators of their own, SAME padding becomes numbers. An operator
that ONNX has no words for is kept with the shapes that the file states, and its latency estimated.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import ModelError
from latcast.graph.importers import ModelOptions
from latcast.graph.importers.assembly import MALFORMED, Array, Assembly, errors_of
from latcast.graph.importers.foreign_files import refuse_compiled
from latcast.graph.importers.input_sizes import ModelInput, read_sized
from latcast.graph.importers.tflite_conversion import ComputedInputError, Conversion
from latcast.graph.importers.tflite_file import StoredOperator, StoredSubgraph, StoredTensor, TfliteFile
from latcast.graph.importers.tflite_operators import CONVERSIONS, CUSTOM
from latcast.graph.importers.tflite_recurrent import RECURRENT
from latcast.graph.ir import Graph, Node, Tensor
from latcast.graph.limits import Resource
from latcast.graph.passes.cancel_transposes import cancel_transposes
from latcast.graph.passes.folding import with_precision
from latcast.graph.passes.remove_identities import merge_reshapes, remove_identities


class TfliteImporter:
    """Imports ``.tflite`` files."""

    suffixes = (".tflite",)
    has_signatures = True

    def accepts(self, source: object) -> bool:
        return isinstance(source, Path) and source.suffix.lower() in self.suffixes

    def load(self, source: Any, options: ModelOptions) -> Graph:
        """Return the graph of a file; see :func:`latcast.graph.importers.load_graph`.

        Shapes are given as the file has them, channels last.
        """
        with errors_of(source):
            file = TfliteFile(source)
            main = file.subgraph(file.subgraph_of(options.signature))
            inputs = [main.tensors[index] for index in main.inputs]
            return read_sized(
                [
                    ModelInput(
                        each.name, (_sizes(each),), each.tensor.dtype, channels_last=True, open_batch=0 in each.dynamic_axes
                    )
                    for each in inputs
                ],
                options,
                lambda given: TfliteReading(file, source.stem, given),
            )


def _sizes(stored: StoredTensor) -> tuple[int | str, ...]:
    """Return the sizes of an input.

    A file keeps 1 where a size is open, and another number only where the input was resized. An open batch is 1, as in TFLite's
    interpreters by default.
    """
    open_axes = {axis for axis in stored.dynamic_axes if stored.shape[axis] <= 1 and not (axis == 0 and len(stored.shape) > 1)}
    return tuple("" if axis in open_axes else 1 if axis in stored.dynamic_axes and size < 1 else size
                 for axis, size in enumerate(stored.shape))  # fmt: skip


class TfliteReading:
    """State of the import of a subgraph: the network, or what is inlined where it is called.

    Attributes:
        source: The file.
        file: The subgraph.
        notes: Assumptions, a sentence each.
        kept: Results that stay for the next inference.
    """

    def __init__(self, source: TfliteFile, name: str, options: ModelOptions) -> None:
        self.source = source
        self.file = source.subgraph(source.subgraph_of(options.signature))
        self.kept: list[str] = []
        stated = {self.file.tensors[index].name: self.file.tensors[index].shape for index in self.file.inputs}
        self._given = options.shapes or {}
        self.shapes = {name: tuple(shape) for name, shape in (options.shapes or {}).items() if tuple(shape) != stated[name]}
        reserved = {stored.name for stored in self.file.tensors}
        self.assembly = Assembly(
            name, load=self._load, infer_unknown=self._infer_unknown, strict=options.strict, reserved=reserved,
            values=options.values,
        )  # fmt: skip
        self.assembly.notes = [] if options.signature else _choice(source.signatures)
        self.stored: dict[str, tuple[StoredSubgraph, int]] = {}
        self.views: set[str] = set()
        self.stated: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}
        self._prefix = self._static_prefix = ""

    def _load(self, name: str) -> Array | None:
        subgraph, index = self.stored[name]
        return subgraph.values(index)

    def _infer_unknown(self, node: Node, inputs: Sequence[Tensor | None]) -> list[Tensor] | None:
        """Return the shapes that were stated for the operator; none where other input shapes are given."""
        return [self.stated[name] for name in node.outputs] if self.stated.keys() >= set(node.outputs) else None

    def graph(self) -> Graph:
        for index in self.file.inputs:
            stored = self.file.tensors[index]
            shape = tuple(self._given.get(stored.name) or map(int, _sizes(stored)))
            self.assembly.add_input(stored.name, Tensor(shape, stored.tensor.dtype))
        self._read_operators()
        graph = self.assembly.finish([*(self.file.tensors[index].name for index in self.file.outputs), *self.kept])
        graph = cancel_transposes(remove_identities(graph), views=self.views)
        return with_precision(remove_identities(merge_reshapes(graph)))

    def inline(self, index: int, arguments: Sequence[str], prefix: str) -> list[str]:
        """Add the operators of another subgraph.

        Args:
            index: Of the subgraph.
            arguments: Tensors that it takes.
            prefix: Of the names of its results; what it stores has one name, however often it is inlined.

        Returns:
            The tensors that it gives.
        """
        called = copy(self)
        called.file = self.source.subgraph(index)
        if len(arguments) != len(called.file.inputs):
            raise ModelError(f"subgraph {index} takes {len(called.file.inputs)} tensors and is given {len(arguments)}")
        called._names = dict(zip(called.file.inputs, arguments, strict=True))
        called._prefix, called._static_prefix = prefix, f"subgraph_{index}/"
        budget = self.assembly.budget
        budget.enter()
        budget.take(Resource.NODES)
        budget.take(Resource.NAME_CHARACTERS, len(prefix) * len(called.file.operators))
        called._read_operators()
        budget.leave()
        return [called.use(output) for output in called.file.outputs]

    def _read_operators(self) -> None:
        for operator in self.file.operators:
            conversion = Conversion(self, operator)
            try:
                self._convert(conversion, operator)
            except MALFORMED as error:
                raise ModelError(f"operator {conversion.name} is malformed: {error}") from error
            self._check(operator.outputs)

    def _convert(self, conversion: Conversion, operator: StoredOperator) -> None:
        """Add an operator: converted, or kept with the shapes that the file states."""
        if operator.is_custom:
            refuse_compiled(operator.kind)
        convert = RECURRENT.get(operator.kind)
        if convert is None and not any(self._is_state(index) for index in operator.inputs):
            convert = (CUSTOM if operator.is_custom else CONVERSIONS).get(operator.kind)
        try:
            if convert is None or convert(conversion) is NotImplemented:
                conversion.keep_unknown()
        except ComputedInputError as problem:
            conversion.keep_unknown()
            self.note_run_time_size(operator.kind, f"{problem}; the shape that the file states is assumed")
        except ModelError:
            if not self.assembly.run_time_sizes:
                raise
            # The most elements that there can be, and what the file states of others, need not fit each other.
            conversion.keep_unknown()

    def _is_state(self, index: int) -> bool:
        return index >= 0 and self.file.tensors[index].is_variable and not self.assembly.exists(self.name_of(index))

    def note_run_time_size(self, kind: str, note: str) -> None:
        """Note an operator whose results have a size that only its inputs' values decide."""
        self.assembly.run_time_sizes.append(kind)
        self.assembly.notes.append(note)

    def _check(self, outputs: Sequence[int]) -> None:
        """Raise if inferred shapes differ from those that the file states; take over the file's element types."""
        for index in outputs:
            stored = self.file.tensors[index]
            own = self.name_of(index)
            name = self.assembly.resolve(own)
            if name not in self.assembly.tensors or own != name:
                continue
            found = self.assembly.tensors[name]
            if own in self.stated:
                continue
            is_fixed = not self.shapes and not stored.dynamic_axes and not self.assembly.run_time_sizes
            if [size for size in found.shape if size != 1] != [size for size in stored.shape if size != 1] and is_fixed:
                raise ModelError(
                    f"tensor '{stored.name}' should have shape {list(stored.shape)} by the file, "
                    f"but its operator gives {list(found.shape)}; is the file damaged?"
                )
            self.assembly.tensors[name] = Tensor(found.shape, stored.tensor.dtype)

    # For conversions

    def name_of(self, index: int) -> str:
        """Return the name in the graph of a tensor of the subgraph."""
        stored = self.file.tensors[index]
        return self._names.get(index) or f"{self._static_prefix if stored.is_static else self._prefix}{stored.name}"

    def use(self, index: int) -> str:
        """Return the name of a tensor as an input; stored tensors are added when they are first used.

        A state that no operator gave yet is what the inference before left: an input left out.
        """
        if index < 0 or self._is_state(index):
            return ""
        stored, name = self.file.tensors[index], self.name_of(index)
        if not self.assembly.exists(name):
            if not stored.is_static and not stored.tensor.elements:
                self.assembly.add_value(name, np.empty(stored.shape, stored.tensor.dtype))
                return name
            if not stored.is_static:
                raise ModelError(f"tensor '{stored.name}' is read before an operator gives it")
            self.stored[name] = self.file, index
            self.assembly.add_stored(name, stored.tensor)
        return name

    def value(self, index: int) -> Array | None:
        """Return the values of a tensor that are known without running the network."""
        return None if index < 0 else self.assembly.value(self.use(index))

    def quantization(self, index: int) -> tuple[Array, Array]:
        stored = self.file.tensors[index]
        scale = stored.scale if stored.scale.size else np.ones(1, np.float32)
        zero = stored.zero_point if stored.zero_point.size else np.zeros(1, np.int64)
        return scale.reshape(-1), zero.reshape(-1)


def _choice(signatures: Mapping[str, int]) -> list[str]:
    """Return a note on the signatures that are not taken, where the main network is not all there is."""
    others = [name for name, index in signatures.items() if index != 0]
    if not others:
        return []
    taken = next((f"signature '{name}'" for name, index in signatures.items() if index == 0), "the main network")
    more = f" (or {', '.join(others[1:])})" if others[1:] else ""
    return [f"{taken} is predicted; take another with --signature {shlex.quote(others[0])}{more}"]
