"""Reading ncnn's networks (``.param`` files) into ONNX's vocabulary.

A blob of ncnn has one to four axes and no batch; here it gets a batch of 1 in front. A vector keeps the shape that made it
(global pooling gives (1, C, 1, 1)), and is reshaped where a reader needs another, as ncnn does it without cost. An activation
that a layer computes along with it is an operator of its own; Split layers, which copy by reference, are seen through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latcast.errors import LatcastError, ModelError
from latcast.graph.importers import ModelOptions
from latcast.graph.importers.assembly import MALFORMED, Assembly
from latcast.graph.importers.input_sizes import ModelInput, read_sized
from latcast.graph.importers.ncnn_expression import evaluate_sizes
from latcast.graph.importers.ncnn_file import SHAPES, ParamLayer, read_layers
from latcast.graph.ir import AttributeValue, Graph, Node, Shape, Tensor
from latcast.graph.limits import Budget
from latcast.graph.ncnn_codes import ARRAY_KEY
from latcast.graph.passes.remove_identities import merge_reshapes, remove_identities

Attributes = dict[str, AttributeValue]

DOMAIN = "ncnn"
"""The domain of layers that ONNX has no words for."""


class NcnnImporter:
    """Imports ``.param`` files."""

    suffixes = (".param",)

    def accepts(self, source: object) -> bool:
        return isinstance(source, Path) and source.suffix.lower() in self.suffixes

    def load(self, source: Any, options: ModelOptions) -> Graph:
        """Return the graph of a file; see :func:`latcast.graph.importers.load_graph`.

        Shapes are given with the batch, which is 1, in front: (1, C, H, W).
        """
        try:
            budget = Budget()
            layers = list(read_layers(source, budget))
            inputs = [ModelInput(top, _forms(layer, top)) for layer in layers if layer.kind == "Input" for top in layer.tops]
            return read_sized(inputs, options, lambda given: NcnnReading(source.stem, layers, given))
        except LatcastError as error:
            words = str(error)
            raise type(error)(words if words.startswith(str(source)) else f"{source}: {words}") from error


def _input_shape(layer: ParamLayer, top: str) -> Shape:
    """Return the sizes that an Input layer states, outermost first, else those that a tool noted in it; empty where none are."""
    stated = tuple(layer.integer(key) for key in (2, 11, 1, 0) if key in layer.params)
    return stated if stated and min(stated) > 0 else (layer.stated_shapes() or [stated] * len(layer.tops))[layer.tops.index(top)]


def _forms(layer: ParamLayer, top: str) -> tuple[tuple[int | str, ...], ...]:
    """Return the shapes, with the batch in front, that an input may have by the file."""
    shape = _input_shape(layer, top)
    return (
        ((1, *(size if size > 0 else "" for size in shape)),)
        if shape
        else ((1, "", "", ""), (1, ""), (1, "", ""), (1, "", "", "", ""))
    )


@dataclass(frozen=True, slots=True)
class Blob:
    """The output of a layer: the tensor that holds its elements, and ncnn's sizes, outermost first (c, d, h, w)."""

    tensor: str
    shape: Shape


class NcnnReading:
    """State of the import of a file."""

    def __init__(self, name: str, layers: Sequence[ParamLayer], options: ModelOptions) -> None:
        self.layers = layers
        stated = {top: (1, *_input_shape(layer, top)) for layer in layers if layer.kind == "Input" for top in layer.tops}
        self.shapes = {name: tuple(shape) for name, shape in (options.shapes or {}).items() if tuple(shape) != stated[name]}
        self.resized = any(len(stated[name]) > 1 for name in self.shapes)
        """Whether shapes that the file states do not hold."""
        tops = {top for layer in layers for top in layer.tops}
        self.assembly = Assembly(
            name, infer_unknown=lambda node, inputs: self._unknown, strict=options.strict, reserved=tops, values=options.values
        )
        self.blobs: dict[str, Blob] = {}
        self.int8_layers: list[bool] = []
        """Of each layer with weights, whether it computes in int8."""
        self._reshaped: dict[tuple[str, Shape], str] = {}
        self._unknown: list[Tensor] | None = None

    def graph(self) -> Graph:
        # The conversions import this module.
        from latcast.graph.importers.ncnn_layers import CONVERSIONS

        for layer in self.layers:
            try:
                convert = CONVERSIONS.get(layer.kind)
                conversion = Conversion(self, layer)
                if layer.kind == "Input":
                    self._add_input(layer)
                elif convert is None:
                    conversion.keep_unknown(conversion.stated_shapes())
                else:
                    convert(conversion)
                missing = [top for top in layer.tops if top not in self.blobs and layer.kind != "Noop"]
                if missing:
                    raise ModelError(f"it names {len(layer.tops)} outputs, of which it makes {len(layer.tops) - len(missing)}")
            except LatcastError as error:
                raise type(error)(f"line {layer.line}: {layer.kind} '{layer.name}': {error}") from error
            except MALFORMED as error:
                raise ModelError(f"line {layer.line}: {layer.kind} '{layer.name}' is malformed ({error})") from error
        if not self.assembly.nodes:
            raise ModelError("the network has no layer that computes anything; there is nothing to predict")
        precision = "int8" if 2 * sum(self.int8_layers) > len(self.int8_layers) else "fp32"
        # The outputs are the blobs that no layer reads; a blob that a Noop reads leaves the network.
        read = {blob for layer in self.layers if layer.kind != "Noop" for blob in layer.bottoms}
        graph = self.assembly.finish(
            [top for layer in self.layers if layer.kind not in ("Noop", "Input") for top in layer.tops if top not in read],
            precision=precision,
        )
        return remove_identities(merge_reshapes(graph))

    def _add_input(self, layer: ParamLayer) -> None:
        for name in layer.tops:
            given = self.shapes.get(name, (1, *_input_shape(layer, name)))
            if len(given) not in (2, 3, 4, 5) or given[0] != 1:
                raise ModelError(
                    f"the shape {list(given)} was given for it, expected a batch of 1 and one to four sizes after it"
                )
            shape = given[1:]
            self.assembly.add_input(name, Tensor((1, *shape)))
            self.add_blob(name, name, shape)

    # For conversions

    def blob(self, name: str) -> Blob:
        if name not in self.blobs:
            raise ModelError(f"it reads '{name}', which no layer before it writes")
        return self.blobs[name]

    def add_blob(self, name: str, tensor: str, shape: Sequence[int]) -> None:
        if name in self.blobs:
            raise ModelError(f"blob '{name}' is written twice")
        self.blobs[name] = Blob(tensor, tuple(shape))

    def shaped(self, tensor: str, shape: Shape, name: str) -> str:
        """Return a tensor's elements in another shape; a reshape that is needed twice is made once."""
        found = self.assembly.tensor(tensor)
        if found.shape == shape:
            return tensor
        key = (tensor, shape)
        if key not in self._reshaped:
            inputs = [tensor, self.assembly.constant(list(shape), "int64")]
            self._reshaped[key] = self.assembly.op("Reshape", inputs, name=f"{name}_reshape")
        return self._reshaped[key]

    def keep_unknown(self, node: Node, shapes: Sequence[Shape] | None) -> None:
        self._unknown = None if shapes is None else [Tensor((1, *shape)) for shape in shapes]
        if shapes is None and not self.assembly.strict:
            if any(mark in node.op_type for mark in ".:"):
                raise ModelError(
                    "ncnn has no such layer: pnnx leaves an operator that it cannot convert under its name in PyTorch; "
                    "give the ONNX or PyTorch model that the file was made from"
                )
            advice = "write the sizes of the inputs and of its outputs into the file"
            if not self.resized:
                hint = f"{ARRAY_KEY - SHAPES}={4 * len(node.outputs)}" + ",3,W,H,C" * len(node.outputs)
                advice = f"append its outputs' sizes to its line, with width, height and channels for the letters: {hint}"
            raise ModelError(
                "latcast does not know this layer, and the file does not say what shape it gives"
                f"{' for inputs of these sizes' if self.resized else ''}; {advice}"
            )
        self.assembly.add(node)


class Conversion:
    """The conversion of one layer."""

    def __init__(self, reading: NcnnReading, layer: ParamLayer) -> None:
        self.reading = reading
        self.assembly = reading.assembly
        self.layer = layer
        self.integer, self.number = layer.integer, layer.number
        self.integers, self.numbers = layer.integers, layer.numbers

    def __len__(self) -> int:
        return len(self.layer.bottoms)

    def shape(self, position: int = 0) -> Shape:
        """Return ncnn's sizes of the input, outermost first."""
        return self._blob(position).shape

    def input(self, position: int = 0) -> str:
        """Return the input in the shape that it has."""
        return self._blob(position).tensor

    def shaped(self, shape: Sequence[int], position: int = 0) -> str:
        """Return the input in this shape of a tensor (with the batch)."""
        return self.reading.shaped(self.input(position), tuple(shape), self.layer.name)

    def plain(self, position: int = 0) -> str:
        """Return the input as (1, \\*sizes)."""
        return self.shaped((1, *self.shape(position)), position)

    def stated_shapes(self) -> list[Shape] | None:
        """Return the sizes of the output where the file states them; they do not hold where other input sizes are given."""
        return None if self.reading.resized else self.layer.stated_shapes()

    def _blob(self, position: int) -> Blob:
        if position >= len(self.layer.bottoms):
            raise ModelError(f"it reads {len(self)} blobs, expected {position + 1}")
        return self.reading.blob(self.layer.bottoms[position])

    def computes_in_int8(self, key: int) -> None:
        """Note a layer with weights, which computes in int8 where this parameter is set."""
        self.reading.int8_layers.append(bool(self.integer(key)))

    def sizes_by(self, key: int) -> list[int]:
        """Return the sizes that an expression gives; empty where there is none."""
        text = self.layer.params.get(key)
        return evaluate_sizes(text, [self.shape(position) for position in range(len(self))]) if isinstance(text, str) else []

    def weight(self, *shape: int, dtype: str = "float32") -> str:
        """Add a learned tensor and return its name."""
        if min(shape, default=1) <= 0:
            raise ModelError(f"its weights would have the shape {list(shape)}; is the file damaged?")
        name = self.assembly.fresh(f"{self.layer.name}_weight")
        self.assembly.add_stored(name, Tensor(tuple(shape), dtype))
        return name

    def scalar(self, value: float) -> str:
        return self.assembly.constant(value, "float32")

    def op(self, op_type: str, inputs: Sequence[str], attributes: Attributes | None = None) -> str:
        """Add an operator whose result is not an output of the layer."""
        return self.assembly.op(op_type, inputs, attributes, name=self.layer.name)

    def several(self, op_type: str, inputs: Sequence[str], attributes: Attributes | None = None, count: int = 1) -> list[str]:
        """Add an operator of ONNX, or the plain ones that it stands for, and return its results."""
        # Few networks have such layers.
        from latcast.graph.importers.onnx_contrib import expand
        from latcast.graph.importers.onnx_opset import without_trailing_gaps

        outputs = tuple(self.assembly.fresh(f"{self.layer.name}_{op_type.lower()}") for _ in range(count))
        node = Node(op_type, self.layer.name, without_trailing_gaps(tuple(inputs)), outputs, attributes or {})
        if not expand(node, self.assembly, self.assembly.add):
            self.assembly.add(node)
        return list(outputs)

    def reshape(self, tensor: str, shape: Sequence[int]) -> str:
        return self.op("Reshape", [tensor, self.assembly.constant(list(shape), "int64")])

    def result(
        self, op_type: str, inputs: Sequence[str], attributes: Attributes | None = None, *, shape: Sequence[int] | None = None
    ) -> None:
        """Add the operator whose result is the layer's output; ``shape``: the blob's sizes where they are not the tensor's."""
        name = self.layer.tops[0]
        self.assembly.op(op_type, inputs, attributes, name=self.layer.name, output=name)
        self.is_output(name, shape)

    def is_output(self, tensor: str, shape: Sequence[int] | None = None, position: int = 0) -> None:
        """Make a tensor the layer's output."""
        found = self.assembly.tensor(tensor).shape[1:] if shape is None else shape
        name = self.layer.tops[position]
        self.reading.add_blob(name, tensor, tuple(found) or (1,))
        if not self.assembly.exists(name):
            self.assembly.alias(name, tensor)

    def keep_unknown(self, shapes: Sequence[Shape] | None) -> None:
        """Keep the layer as an operator that latcast does not know; ``shapes`` are the blobs that it writes."""
        inputs = tuple(self.reading.blob(name).tensor for name in self.layer.bottoms)
        self.reading.keep_unknown(Node(self.layer.kind, self.layer.name, inputs, self.layer.tops, {}, DOMAIN), shapes)
        for position, name in enumerate(self.layer.tops):
            self.is_output(name, (shapes or [])[position], position)
