"""A model file that a runtime runs as it is, weights and all, and the inputs that it is fed.

latcast's own reading of the file, where it has one, only adds sizes to dynamic inputs and names to kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from latcast.errors import DynamicShapeError, ModelError, RuntimeFailure
from latcast.graph.input_values import fitted
from latcast.graph.ir import Graph, Values, check_input_names

Array = np.ndarray[Any, Any]
Loaded = TypeVar("Loaded")

FILLS = ("normal", "uniform", "ones", "zeros")
"""Fillings of inputs without a value, tried in this order until the network runs: standard normal reals and integers 0 and 1, as
for networks of latcast's own; reals from 0 to 1, as thresholds are; ones; zeros."""

TEXTS = "string"
"""Type of an input of texts."""


@dataclass(frozen=True)
class InputSlot:
    """An input as the runtime states it: name, sizes (below 0 where any fits), numpy's name of the type or :data:`TEXTS`."""

    name: str
    sizes: Sequence[int]
    dtype: str = "float32"


@dataclass(frozen=True)
class ModelFile:
    """A file to run.

    Attributes:
        name: Of the network.
        graph: As latcast reads it; None where it does not.
        shapes, values: Of inputs, as the user gives them.
    """

    path: Path
    name: str
    graph: Graph | None = None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    values: Values = field(default_factory=dict)

    def shape_of(self, slot: InputSlot) -> tuple[int, ...]:
        """Return the sizes of an input: as given, else the file's, else those in latcast's reading.

        Raises:
            DynamicShapeError: A size is not known.
            ModelError: The sizes given do not fit.
        """
        if slot.name in self.shapes:
            given = tuple(int(size) for size in self.shapes[slot.name])
            if len(given) != len(slot.sizes):
                raise ModelError(f"input '{slot.name}' has {len(slot.sizes)} dimensions; the shape given for it has {len(given)}")
            return given
        if slot.name in self.values:
            return self.given(slot).shape
        if min(slot.sizes, default=0) >= 0:
            return tuple(slot.sizes)
        read = self.graph.tensors.get(slot.name) if self.graph is not None else None
        if read is not None:
            # latcast reads images channels first, whatever the order of the file.
            for shape in (read.shape, (*read.shape[:1], *read.shape[2:], *read.shape[1:2])):
                if len(shape) == len(slot.sizes) and all(size in (-1, own) for size, own in zip(slot.sizes, shape, strict=True)):
                    return shape
        axis = next(axis for axis, size in enumerate(slot.sizes) if size < 0)
        example = ",".join(str(size if size > 0 else 1) for size in slot.sizes)
        raise DynamicShapeError(
            f"input '{slot.name}' has dimension {axis} without a size; give it: --shape {slot.name}={example}"
        )

    def given(self, slot: InputSlot) -> Array:
        """Return the value given for an input."""
        sizes = self.shapes.get(slot.name, slot.sizes)
        return fitted(slot.name, self.values[slot.name], sizes, slot.dtype)

    def inputs(self, slots: Sequence[InputSlot], fill: str = FILLS[0]) -> list[Array]:
        """Return an array for each input: the value given, or seeded random numbers."""
        rng = np.random.default_rng(0)
        made = []
        for slot in slots:
            try:
                made.append(self.given(slot) if slot.name in self.values else _filled(slot, self.shape_of(slot), fill, rng))
            except (MemoryError, ValueError) as problem:
                raise ModelError(f"no array for input '{slot.name}' of '{self.name}' fits into memory: {problem}") from problem
        return made

    def started(self, slots: Sequence[InputSlot], start: Callable[[list[Array]], Loaded]) -> Loaded:
        """Return what ``start`` gives for the first inputs that the network runs with.

        Raises:
            RuntimeFailure: It runs with none of them.
        """
        names = [slot.name for slot in slots]
        check_input_names(self.shapes, names)
        check_input_names(self.values, names, what="value")
        first: RuntimeFailure | None = None
        for fill in FILLS if any(name not in self.values for name in names) else FILLS[:1]:
            try:
                return start(self.inputs(slots, fill))
            except RuntimeFailure as problem:
                first = first or problem
        free = [name for name in names if name not in self.values]
        advice = f"; give values that it runs with: --input {free[0]}=VALUE or --input {free[0]}=FILE.npy" if free else ""
        raise RuntimeFailure(f"{first}{advice}") from first

    @property
    def read(self) -> Graph:
        """The network as latcast reads it; one without nodes where it does not."""
        return Graph(self.name, (), (), (), {}) if self.graph is None else self.graph


def files_of(path: Path) -> list[Path]:
    """Return a model file and the files of weights beside it that it needs."""
    if path.suffix.lower() in (".param", ".xml"):
        return [path, *(file for file in (path.with_suffix(".bin"),) if file.is_file())]
    if path.suffix.lower() != ".onnx":
        return [path]
    from latcast.graph.importers.onnx_file import read_without_weights

    try:
        stored = read_without_weights(path).graph.initializer
    except ModelError:
        return [path]
    named = {entry.value: None for tensor in stored for entry in tensor.external_data if entry.key == "location"}
    beside = [path.parent / name for name in named]
    return [path, *(file for file in beside if file.is_file() and path.parent.resolve() in file.resolve().parents)]


def _filled(slot: InputSlot, shape: Sequence[int], fill: str, rng: np.random.Generator) -> Array:
    if slot.dtype == TEXTS:
        return np.full(shape, "a", dtype=object)
    real = np.dtype(slot.dtype).kind in "fV"
    if fill == "normal" and real:
        values: Array = rng.standard_normal(shape, dtype=np.float32)
    elif fill == "uniform" and real:
        values = rng.random(shape, dtype=np.float32)
    elif fill in ("normal", "uniform"):
        values = rng.integers(0, 2, shape)
    else:
        values = np.full(shape, int(fill == "ones"))
    return values.astype(slot.dtype)
