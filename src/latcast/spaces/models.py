"""Models as users give them (a file, a name, a graph, a module), made a graph or a reference; and the named networks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from latcast.errors import ModelError, UnknownNameError, UnknownOperatorError
from latcast.graph.importers import from_torch, is_torch_module, load_graph
from latcast.graph.ir import Graph
from latcast.graph.operators.table import unknown_operators
from latcast.graph.passes.reshape_inputs import reshape_inputs
from latcast.records import Reference
from latcast.registry import matching
from latcast.spaces.catalogue import FAMILY_NAMES, build, family, is_model_name, resized
from latcast.spaces.catalogue import model as published_model
from latcast.spaces.named_graphs import all_networks

Model = str | os.PathLike[str] | Graph | Reference | object
"""A path, the name of a published network ("resnet50"), a graph, a reference, a torch module with its inputs, or an object that
an importer takes (``onnx.ModelProto``, ``torch.export.ExportedProgram``)."""

Shapes = Mapping[str, Sequence[int]]
"""Input name to shape: sizes for dynamic dimensions, or other sizes than the model has."""


@dataclass(frozen=True)
class NetworkSummary:
    """A named network and its size.

    Attributes:
        name: As :func:`latcast.predict` and :func:`latcast.model` take it.
        family: The family of networks that it belongs to, or the space that its name begins with.
        million_parameters: Learned values, in millions: as published of a member of a family, else of the module that was built.
        million_macs: Multiply-accumulates of one image, in millions, of the same origin; None where the source states none.
        source: Where the figures stand, or what built the network.
        top1_percent: Published accuracy on ImageNet; None where none is known.
    """

    name: str
    family: str
    million_parameters: float
    million_macs: float | None
    source: str
    top1_percent: float | None = None


def models(pattern: str | None = None) -> list[NetworkSummary]:
    """The networks that have a name, sorted by it.

    Args:
        pattern: Part of the name, or a glob of the whole name (``"mobilenet_v?_*"``); all where None.

    Example:
        >>> import latcast
        >>> [network.name for network in latcast.models("squeezenet1_?")]
        ['squeezenet1_0', 'squeezenet1_1']
    """
    found = {
        name: NetworkSummary(name, family_name, paper.million_parameters, paper.million_macs, paper.source)
        for family_name in FAMILY_NAMES
        for name, paper in family(family_name).published.items()
    } | {
        name: NetworkSummary(
            name,
            name.partition("/")[0],
            network.parameters / 1e6,
            network.macs / 1e6,
            network.origin.source,
            network.top1_percent,
        )
        for name, network in all_networks().items()
    }
    return [found[name] for name in matching(pattern, found)]


def parse_shapes(texts: Iterable[str] | None) -> dict[str, tuple[int, ...]]:
    """``input=1,3,224,224`` by input name.

    Raises:
        ModelError: A text is not of this form.
    """
    shapes = {}
    for text in texts or ():
        name, equals, sizes = text.rpartition("=")
        try:
            shape = tuple(int(size) for size in sizes.replace("x", ",").split(","))
        except ValueError:
            shape = ()
        if not equals or not name or not shape or min(shape) < 1:
            raise ModelError(f"--shape '{text}' is not of the form input=1,3,224,224")
        shapes[name] = shape
    return shapes


def as_graph(
    model: Model,
    *,
    shapes: Shapes | None = None,
    strict: bool = False,
    trust: bool = False,
    example_inputs: object = None,
) -> Graph:
    """Turns whatever a user calls a model into a graph, with the name that the user gave: the text of a name or a path.

    Args:
        model: See :data:`Model`.
        shapes: See :data:`Shapes`.
        strict: Whether an operator outside the operator table is an error.
        trust: Whether a ``.pt2`` file may run the code it may hold.
        example_inputs: For a ``torch.nn.Module``, and for nothing else: its inputs, see :func:`latcast.from_torch`.

    Raises:
        ModelError: The model cannot be read, or cannot take inputs of these shapes.
        UnknownOperatorError: ``strict``, and an operator has no entry in the operator table.
    """
    name = model.name if isinstance(model, Reference) else os.fspath(model) if isinstance(model, str | os.PathLike) else ""
    if example_inputs is not None:
        graph = from_torch(model, example_inputs, shapes=shapes, strict=strict)
    elif isinstance(model, Graph):
        graph = reshape_inputs(model, shapes) if shapes else model
    elif isinstance(model, Reference):
        graph = build(_resized(model, shapes), trust=trust)
    elif isinstance(model, str) and is_model_name(model):
        graph = build(_resized(_published(model), shapes))
    else:
        graph = load_graph(Path(name) if name else model, shapes=shapes, strict=strict, trust=trust)
    if name:
        graph = replace(graph, name=name)
    if strict and (unknown := unknown_operators(graph)):
        raise UnknownOperatorError(
            f"{graph.name}: no entry in the operator table for {', '.join(unknown)}; "
            "without --strict they are estimated and listed in the coverage"
        )
    return graph


def as_graphs(
    models: Iterable[Model],
    *,
    shapes: Shapes | None = None,
    strict: bool = False,
    trust: bool = False,
    example_inputs: object = None,
) -> list[Graph]:
    """Like :func:`as_graph` for many models.

    Raises:
        ModelError: See :func:`as_graph`; or the models are not a list.
    """
    alone = isinstance(models, str | os.PathLike | Graph | Reference) or is_torch_module(models)
    if alone or not isinstance(models, Iterable):
        raise ModelError(f"expected a list of models, found one of type {type(models).__name__}; put it into a list")
    return [as_graph(each, shapes=shapes, strict=strict, trust=trust, example_inputs=example_inputs) for each in models]


def model_reference(model: str | os.PathLike[str] | Reference, shapes: Shapes | None = None) -> Reference:
    """The reference of what a user calls a model: the path of a file, or the name of a published network.

    Args:
        model: Path, name, or a reference.
        shapes: See :data:`Shapes`.

    Raises:
        ModelError: There is no such file and no such network; or the network takes no inputs of these shapes.
    """
    if isinstance(model, Reference):
        return _resized(model, shapes)
    if isinstance(model, str) and is_model_name(model):
        return _resized(_published(model), shapes)
    return _resized(file_reference(model), shapes)


def file_reference(path: str | os.PathLike[str], *, name: str = "") -> Reference:
    """The reference of a model file: its absolute path and the hash of its content.

    Raises:
        ModelError: There is no such file.
    """
    file = Path(path)
    if file.exists() and not file.is_file():
        raise ModelError(f"'{file}' is no regular file; expected a model file")
    try:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as problem:
        raise ModelError(f"cannot read the model file {file}: {problem.strerror}") from problem
    return Reference("file", {"path": str(file.resolve()), "sha256": digest}, name or file.stem)


def _published(name: str) -> Reference:
    try:
        return published_model(name)
    except UnknownNameError as problem:
        raise ModelError(f"there is no file '{name}', and {problem}") from problem


def _resized(reference: Reference, shapes: Shapes | None) -> Reference:
    """The reference for inputs of other sizes; a file's are given when it is read."""
    if not shapes:
        return reference
    if reference.space != "file":
        return resized(reference, shapes)
    given = {name: list(shape) for name, shape in shapes.items()}
    return replace(reference, parameters={**reference.parameters, "shapes": given})
