"""Finding a space by name and building its members."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from latcast.errors import ModelError, UnknownNameError
from latcast.graph.ir import Graph, Tensor, shapes_by_input
from latcast.graph.limits import check_graph, check_tensor
from latcast.graph.operators import filter_parameters
from latcast.records import Reference
from latcast.registry import Registry, matching, nearest_names
from latcast.spaces.accuracies import TRAINED_ON, best_accuracy
from latcast.spaces.measured_only import MEASURED_ONLY
from latcast.spaces.named_graphs import all_networks, find_named, graph_file
from latcast.tables import Tabular

if TYPE_CHECKING:
    from latcast.spaces.families.stored import StoredFamily
    from latcast.spaces.families.variants import VariantFamily


class Space(Protocol):
    """A set of networks, each given by a few JSON values."""

    def build(self, **parameters: Any) -> Graph:
        """Return the member with these parameters.

        Raises:
            ModelError: Unknown parameters, or parameters that make no valid network.
        """

    def sample(self, count: int, seed: int) -> list[Reference]:
        """Return ``count`` different members, the same for the same seed; a smaller count is the head of a larger one's list.

        Raises:
            LatcastError: The space has fewer.
        """


@dataclass(frozen=True)
class PublishedModel:
    """A member as its paper printed it.

    Attributes:
        parameters: Arguments of the family's ``build``.
        million_parameters, million_macs: Learned values, and multiply-accumulates of one image of the usual size, as published.
        source: Where the figures stand.
        drawn: Whether test networks and the kernel zoo are drawn from it; those of earlier versions stay the same.
    """

    parameters: Mapping[str, Any]
    million_parameters: float
    million_macs: float | None
    source: str
    drawn: bool = True


_FAMILIES: Mapping[str, str] = {
    "alexnet": "convolutional", "vgg": "convolutional", "resnet": "convolutional", "densenet": "convolutional",
    "googlenet": "convolutional", "squeezenet": "convolutional", "regnet": "stored", "resnext": "convolutional",
    "se_resnet": "stored", "mobilenet_v1": "convolutional", "mobilenet_v2": "inverted_residual",
    "mobilenet_v3": "inverted_residual", "shufflenet_v2": "convolutional", "mnasnet": "inverted_residual",
    "proxylessnas": "inverted_residual",
    "efficientnet": "stored", "ghostnet": "stored", "vit": "transformers", "swin": "transformers",
    "mobilevit": "transformers",
}  # fmt: skip
"""Name of each family to its module."""

FAMILY_NAMES = tuple(_FAMILIES)

_SYNTHETIC: Mapping[str, str] = {
    "block_sequence": "block_sequence:SPACE",
    "random_mobile": "random_mobile:SPACE",
    "random_mixed": "random_mixed:SPACE",
    "random_small": "random_mixed:SMALL",
    "random_operators": "random_operators:SPACE",
    "random_moves": "random_operators:MOVES_SPACE",
    "random_forms": "random_operators:FORMS_SPACE",
    "random_rows": "random_rows:SPACE",
    "random_sequences": "random_sequences:SPACE",
}
SYNTHETIC_NAMES = tuple(_SYNTHETIC)

SUPERNET_TARGETS: Mapping[str, str] = {
    name: f"latcast.spaces.nas.{target}"
    for name, target in {
        "ofa_mobilenet_v3": "inverted_residuals:OFA_MOBILENET_V3",
        "ofa_mobilenet_v3_w12": "inverted_residuals:OFA_MOBILENET_V3_W12",
        "ofa_proxylessnas": "inverted_residuals:OFA_PROXYLESSNAS",
        "ofa_resnet": "ofa_resnet:SUPERNET",
        "bignas": "inverted_residuals:BIGNAS",
        "fbnet_v3": "inverted_residuals:FBNET_V3",
        "autoformer": "autoformer:TINY",
        "autoformer_small": "autoformer:SMALL",
        "autoformer_base": "autoformer:BASE",
        "nas_bench_201": "nas_bench_201:SUPERNET",
    }.items()
}
"""Spaces that are searched and predicted by encoding: name to ``module:attribute``."""

SPACES: Registry[Space] = Registry(
    "space",
    {name: f"latcast.spaces.families.{module}:{name.upper()}" for name, module in _FAMILIES.items()}
    | {name: f"latcast.spaces.synthetic.{target}" for name, target in _SYNTHETIC.items()}
    | dict(SUPERNET_TARGETS)
    | {"nas_bench_201": "latcast.spaces.nas.nas_bench_201:SPACE"}
    | {name: f"latcast.spaces.{name}:SPACE" for name in ("pytorchcv", "iiswc20", "published_segments", "operator_pairs")},
    group="latcast.spaces",
)
for _name, _networks in MEASURED_ONLY.items():
    SPACES.register(_name, _networks)


def family(name: str) -> VariantFamily | StoredFamily:
    """Return a family of real networks, or raise an UnknownNameError."""
    if name not in FAMILY_NAMES:
        near = nearest_names(name, list(FAMILY_NAMES)) or list(FAMILY_NAMES)
        raise UnknownNameError(f"no family is called '{name}'; known: {', '.join(near)}")
    return SPACES.get(name)  # type: ignore[return-value]


def model(name: str, *, as_measured: bool = False) -> Reference:
    """Return the reference of a published network: "resnet50" of a family, "timm/convnext_tiny" of another space.

    Other spellings are read too, as :mod:`latcast.spaces.model_names` says. With ``as_measured``, a name means first the network
    of pytorchcv that was measured on known phones, and then also any other network of pytorchcv; a precision behind the name is
    the platform's.

    Raises:
        UnknownNameError: There is none; the message suggests the nearest names.

    Example:
        >>> import latcast
        >>> latcast.model("resnet18").space
        'resnet'
    """
    from latcast.spaces.model_names import find_in_any_spelling, nearest_models, split_precision

    found = find_model(name, as_measured=as_measured)
    if found is None:  # a measurement that names a collection is of its network
        found = find_in_any_spelling(name, whole=as_measured and bool(re.search("/[^0-9]", name)))
        if found is not None and as_measured:  # every spelling of a name means what the name does
            found = find_model(found.name, as_measured=True) or found
    if found is not None:
        return found
    bare, precision = split_precision(name)
    if precision and as_measured:
        return model(bare, as_measured=True)
    if precision and find_in_any_spelling(bare) is not None:
        where = f"its precision is the platform's: --on 'DEVICE {precision}'"
        raise UnknownNameError(f"no published model is called '{name}'; name it '{bare}', {where}")
    nearest = ", ".join(nearest_models(name))
    raise UnknownNameError(
        f"no published model is called '{name}'; {f'nearest: {nearest}; ' if nearest else ''}all: latcast models"
    )


def find_model(name: str, *, as_measured: bool = False) -> Reference | None:
    """Return the reference of a published network as :func:`model` does; None where there is none.

    Raises:
        UnknownNameError: The name begins with a space that has no such network.
    """
    from latcast.spaces import iiswc20, pytorchcv

    named = find_named(name)
    if named is not None:
        return named
    if as_measured and name in pytorchcv.shipped_names():
        return pytorchcv.reference_of(name)
    for family_name in FAMILY_NAMES:
        published = family(family_name).published
        if name in published:
            return Reference(family_name, dict(published[name].parameters), name)
    if as_measured and pytorchcv.has_network(name):
        return pytorchcv.reference_of(name)
    if name.startswith("|") and name.endswith("|"):  # the text of a cell of NAS-Bench-201
        return Reference("nas_bench_201", {"cell": name}, name)
    return iiswc20.buildable().get(name) if name.startswith("iiswc20-") else None


@dataclass(frozen=True)
class NetworkSummary(Tabular):
    """A named network and its size.

    Attributes:
        name: As :func:`latcast.predict` and :func:`latcast.model` take it.
        family: The family of networks that it belongs to, or the space that its name begins with.
        million_parameters, million_macs: As published of a member of a family, else of the module that was built, or None.
        source: Where the figures stand, or what built the network.
        top1_percent: Best published accuracy of weights for its image, on ImageNet-1k; None where none is known.
        trained_on: What these weights saw, one of :data:`latcast.spaces.accuracies.TRAINED_ON`.
        accuracy_source: Where the accuracy stands.
    """

    name: str
    family: str
    million_parameters: float
    million_macs: float | None
    source: str
    top1_percent: float | None = None
    trained_on: str | None = None
    accuracy_source: str | None = None


def models(pattern: str | None = None, *, trained_on: str = TRAINED_ON[-1]) -> list[NetworkSummary]:
    """Return the networks that have a name, sorted by it.

    Args:
        pattern: Part of the name, a glob of the whole name (``"mobilenet_v?_*"``), or another spelling of it; all where None.
        trained_on: The most that weights may have seen whose accuracy is given: ``"imagenet-1k"``, ``"imagenet-21k"`` or
            ``"more"``.

    Example:
        >>> import latcast
        >>> [network.name for network in latcast.models("squeezenet1_?")]
        ['squeezenet1_0', 'squeezenet1_1']
    """
    from latcast.spaces.model_names import find_in_any_spelling

    def summary(name: str, group: str, parameters: float, macs: float | None, source: str, side: object) -> NetworkSummary:
        best = best_accuracy(name, side, trained_on)
        rated = (best.top1_percent, best.trained_on, best.source) if best else ()
        return NetworkSummary(name, group, parameters, macs, source, *rated)

    found = {
        name: summary(
            name, family_name, paper.million_parameters, paper.million_macs, paper.source,
            paper.parameters.get("resolution", family(family_name).side),
        )
        for family_name in FAMILY_NAMES
        for name, paper in family(family_name).published.items()
    } | {
        name: summary(
            name, name.partition("/")[0], network.parameters / 1e6, network.macs / 1e6, network.origin.source, network.side
        )
        for name, network in all_networks().items()
    }  # fmt: skip
    names = matching(pattern, found)
    if not names and pattern and (meant := find_in_any_spelling(pattern)):
        names = [str(meant.name)]
    return [found[name] for name in names]


def resized(reference: Reference, shapes: Mapping[str, Sequence[int]]) -> Reference:
    """Return a named network for images of another size.

    Args:
        reference: The network.
        shapes: Input name to shape, (batch, channels, height, width). Only the channels are the network's to say.

    Raises:
        ModelError: A name that is no input, a shape that the network cannot be built for, or a space that has no size to choose.
    """
    if not shapes:
        return reference
    graph = build(reference)
    name = reference.name or reference.space
    parameters = dict(reference.parameters)
    shapes = shapes_by_input(shapes, graph.inputs, name)
    for given, wanted in shapes.items():
        present = graph.shape(given)
        if wanted == present:
            continue
        other = _stored_size(reference, present, wanted)
        if other is not None and len(shapes) == 1:
            return other
        of_family = reference.space in FAMILY_NAMES
        if not of_family and (graph_file(reference.space) is None or [given] != list(graph.inputs)):
            raise ModelError(
                f"{name} has one size, {given}={_sizes(present)}; found {_sizes(wanted)}; export it so, and give the file"
            )
        if len(wanted) != len(present) or wanted[1] != present[1] or min(wanted) < 1:
            raise ModelError(
                f"{name} takes images of {present[1]} channels, {given}=BATCH,{present[1]},HEIGHT,WIDTH; found {_sizes(wanted)}"
            )
        check_tensor(given, Tensor(wanted))
        if not of_family:
            parameters["shape"] = list(wanted)
            continue
        batch, _, height, width = wanted
        if batch != present[0]:
            parameters["batch"] = batch
        if (height, width) != present[2:]:
            parameters["resolution"] = height if height == width else [height, width]
    if parameters == reference.parameters:
        return reference
    found = replace(reference, parameters=parameters)
    asked = " ".join(f"{given}={_sizes(shape)}" for given, shape in shapes.items())
    try:
        built = build(found)
        for tensor_name, tensor in built.tensors.items():
            check_tensor(tensor_name, tensor)
        wanted_filters = filter_parameters(check_graph(built))
    except ModelError as problem:
        raise ModelError(f"{name} cannot be built for {asked}: {problem}") from problem
    filters = filter_parameters(graph)
    if wanted_filters != filters:
        # A classifier on a flattened map: a variant with another classifier is not the network of this name.
        raise ModelError(
            f"{name} cannot be built for {asked}: its filters, {filters / 1e6:.1f} million values, fit images like "
            f"{_sizes(graph.shape(graph.inputs[0]))}, not these ({wanted_filters / 1e6:.1f} million); give a file of these sizes"
        )
    return found


def _stored_size(reference: Reference, present: Sequence[int], wanted: Sequence[int]) -> Reference | None:
    """Return the reference of the same network for square images of another size, where its graph comes with latcast."""
    file, side = graph_file(reference.space), wanted[-1]
    if file is None or tuple(wanted) != (*present[:2], side, side) or file.find(reference.parameters.get("name"), side) is None:
        return None
    return replace(reference, parameters={"name": reference.parameters["name"], "input": side})


def _sizes(shape: Sequence[int]) -> str:
    return ",".join(str(size) for size in shape)


def build(reference: Reference, *, trust: bool = False) -> Graph:
    """Build the network of a reference; ``file`` is read from its path, ``kernel/TYPE`` is a single kernel.

    Args:
        reference: What to build.
        trust: Whether a ``.pt2`` file may run code when it is read. A reference cannot say so itself: it may be a stranger's.

    Raises:
        UnknownNameError: No such space.
        ModelError: The parameters make no valid network, or a file is not the one that was referred to.

    Example:
        >>> import latcast
        >>> graph = latcast.build(latcast.model("resnet18"))
        >>> graph.shape("input"), len(graph.nodes)
        ((1, 3, 224, 224), 69)
    """
    if reference.space == "file":
        from latcast.graph.importers import load_graph

        path = file_of(reference)
        given = reference.parameters.get("values", {})
        values = {name: value for name, value in given.items() if not isinstance(value, Mapping)}
        shapes = {name: value["shape"] for name, value in given.items() if isinstance(value, Mapping)}
        shapes |= reference.parameters.get("shapes", {})
        signature = reference.parameters.get("signature", "")
        return load_graph(path, shapes=shapes, trust=trust, signature=signature, values=values)
    if reference.space.startswith("kernel/"):
        from latcast.kernels.types import kernel_graph

        return kernel_graph(reference.space.removeprefix("kernel/"), reference.parameters)
    return SPACES.get(reference.space).build(**reference.parameters)


def file_of(reference: Reference) -> Path:
    """Return the path of a file, which may be missing.

    Raises:
        ModelError: Its content is no longer what a measurement was taken of.
    """
    path, sha256 = Path(str(reference.parameters["path"])), reference.parameters.get("sha256")
    if sha256 is None or not path.is_file():
        return path
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != sha256:
        raise ModelError(
            f"{path}: found content {found[:12]}, expected {sha256[:12]}: the file has changed since it was measured; "
            "measure it again, or put the old file back"
        )
    return path
