"""Resolves the network that a user means: a file, a name, a reference or an object becomes a reference or a graph.

Only a name imports the named networks (:mod:`latcast.spaces`); a file or an object is read without them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from latcast.errors import ModelError, UnknownNameError, UnknownOperatorError
from latcast.graph.importers import (
    MODEL_SUFFIXES,
    ModelKeywords,
    ModelOptions,
    ReadingKeywords,
    Shapes,
    is_torch_module,
    read_source,
    refuse_address,
)
from latcast.graph.ir import Graph, Values
from latcast.graph.operators.table import unknown_operators
from latcast.records import Reference

Model = str | os.PathLike[str] | Graph | Reference | object
"""A path, the name of a published network ("resnet50"), a graph, a reference, a torch module with its inputs, or an object that
an importer takes (``onnx.ModelProto``, ``torch.export.ExportedProgram``)."""

AS_IT_IS = ModelOptions()
"""Options of a model that is read as its file or its space has it."""


def resolve_model(model: str | os.PathLike[str] | Reference, options: ModelOptions = AS_IT_IS) -> Reference:
    """Return the reference of the network that a user means.

    Args:
        model: A reference; a file, whose reference has the absolute path and the hash of the content; or, where there is no
            such file, the name of a published network: ``resnet50`` of a family, ``timm/convnext_tiny`` of a space.
        options: Of these the shapes, the signature and the values are kept in the reference.

    Raises:
        ModelError: There is no such file and no such network; or the network takes no inputs of these shapes.
    """
    reference = model if isinstance(model, Reference) else _named(model) or _file(Path(model))
    if reference.space == "file":  # which is given them when it is read
        from latcast.graph.input_values import as_json

        given = {
            "shapes": {name: list(shape) for name, shape in (options.shapes or {}).items()},
            "signature": options.signature,
            "values": {name: as_json(value) for name, value in (options.values or {}).items()},
        }
        return replace(reference, parameters={**reference.parameters, **{name: each for name, each in given.items() if each}})
    _refuse_values(reference.name, options)
    if options.signature:
        raise ModelError(f"signature '{options.signature}' is given for {reference.name}; only TFLite files have signatures")
    if not options.shapes:
        return reference
    from latcast.spaces.catalogue import resized

    return resized(reference, options.shapes)


def read_model(model: Model, options: ModelOptions = AS_IT_IS) -> Graph:
    """Return the graph of whatever a user calls a model, with the path that the user gave or the network's own name.

    Args:
        model: See :data:`Model`.
        options: How it is read.

    Raises:
        ModelError: The model cannot be read, or cannot take inputs of these shapes.
        UnknownOperatorError: ``strict``, and an operator has no entry in the operator table.
    """
    name = model.name if isinstance(model, Reference) else os.fspath(model) if isinstance(model, str | os.PathLike) else ""
    if options.example_inputs is not None:
        graph = read_source(model, options)
    elif isinstance(model, Graph):
        _refuse_values(model.name, options)
        graph = model
        if options.shapes:
            from latcast.graph.passes.reshape_inputs import reshape_inputs

            graph = reshape_inputs(model, options.shapes)
    else:
        reference = model if isinstance(model, Reference) else _named(model)
        if reference is None:
            graph = read_source(model, options)
        else:
            from latcast.spaces.catalogue import build

            graph = build(resolve_model(reference, options), trust=options.trust)
            if isinstance(model, str) and not options.shapes:
                graph = replace(graph, called=model)
            name = reference.name or name
    if name:
        graph = replace(graph, name=name)
    if options.strict and (unknown := unknown_operators(graph)):
        raise UnknownOperatorError(
            f"{graph.name}: no entry in the operator table for {', '.join(unknown)}; "
            "without --strict they are estimated and listed in the coverage"
        )
    return graph


def is_one_model(models: object) -> bool:
    """Return whether a value is one model and no list of them."""
    return isinstance(models, str | os.PathLike | Graph | Reference) or is_torch_module(models)


def read_models(models: Iterable[Model], options: ModelOptions = AS_IT_IS) -> list[Graph]:
    """Return the graphs of many models, each as :func:`read_model` reads it.

    Raises:
        ModelError: See :func:`read_model`; or the models are not a list.
    """
    if is_one_model(models) or not isinstance(models, Iterable):
        raise ModelError(f"expected a list of models, found one of type {type(models).__name__}; put it into a list")
    return [read_model(each, options) for each in models]


def parse_shapes(texts: Iterable[str] | None) -> dict[str, tuple[int, ...]]:
    """Read ``input=1,3,224,224`` as shapes by input name, ``1,3,224,224`` as that of the only input, under no name.

    Sizes may stand in brackets, with ``x`` or blanks between, and the name before a colon, as other tools write them.

    Raises:
        ModelError: A text is not of this form.
    """
    shapes = {}
    for text in texts or ():
        name, _, sizes = text.rpartition("=" if "=" in text else ":")
        try:
            shape = tuple(int(size) for size in sizes.strip(" ([])").replace("x", ",").split(","))
        except ValueError:
            shape = ()
        if text.startswith(("=", ":")) or not shape or min(shape) < 0:
            raise ModelError(f"--shape '{text}' is not of the form input=1,3,224,224, or of one input 1,3,224,224")
        shapes[name] = shape
    return shapes


def _refuse_values(name: str, options: ModelOptions) -> None:
    if options.values:
        first = next(iter(options.values))
        raise ModelError(f"'{name}' has no branch or size that the value of '{first}' could decide; values are for model files")


def _named(model: object) -> Reference | None:
    """Return the network that a text names; None where it is the path of something, or no text.

    Raises:
        ModelError: There is no such file and no network of this name; or it is an address.
    """
    if not isinstance(model, str):
        return None
    refuse_address(model)
    if Path(model).exists():
        return None
    from latcast.graph.importers.foreign_files import is_foreign
    from latcast.spaces.catalogue import model as published_model
    from latcast.spaces.model_names import find_in_any_spelling, nearest_models
    from latcast.spaces.named_graphs import find_named

    path = Path(model)
    of_file = path.suffix.lower() in MODEL_SUFFIXES or is_foreign(path)
    try:
        found = find_named(model)
        if found is None and not (of_file or ("/" in model and path.parent.is_dir())):
            found = find_in_any_spelling(model) if "/" in model or path.suffix[1:2].isalpha() else published_model(model)
    except UnknownNameError as problem:
        raise ModelError(f"there is no file '{model}', and {problem}") from problem
    if found is None:
        near = ", ".join(nearest_models(path.stem if of_file else path.name)[:3])
        raise ModelError(f"there is no file '{model}'" + (f"; published networks of such a name: {near}" if near else ""))
    return found


def _file(path: Path) -> Reference:
    if path.exists() and not path.is_file():
        raise ModelError(f"'{path}' is not a regular file; expected a model file")
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as problem:
        raise ModelError(f"cannot read the model file {path}: {problem.strerror}") from problem
    return Reference("file", {"path": str(path.resolve()), "sha256": digest}, path.stem)


__all__ = [
    "AS_IT_IS",
    "Model",
    "ModelKeywords",
    "ModelOptions",
    "ReadingKeywords",
    "Shapes",
    "Values",
    "parse_shapes",
    "read_model",
    "read_models",
    "resolve_model",
]


def models_listed(models: Iterable[Model]) -> list[Model]:
    """Return models as given, each folder replaced by the model files in it, sorted by name.

    Raises:
        ModelError: A name is empty; or a folder holds no model file: of a model in another format, what to do with it.
    """
    if isinstance(models, str | os.PathLike):
        models = [models]
    listed: list[Model] = []
    for each in models:
        if each == "":
            raise ModelError("found an empty text for a model; expected a file or a name")
        if not (isinstance(each, str | os.PathLike) and Path(each).is_dir()):
            listed.append(each)
            continue
        files = sorted(file for file in Path(each).iterdir() if file.suffix in MODEL_SUFFIXES)
        if not files:
            from latcast.graph.importers.foreign_files import is_foreign

            for foreign in filter(is_foreign, (Path(each), *sorted(Path(each).iterdir()))):
                read_source(foreign, AS_IT_IS)
            raise ModelError(f"{each}: found no model file in this folder; expected some of {', '.join(MODEL_SUFFIXES)}")
        listed += files
    return listed
