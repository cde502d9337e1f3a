"""The kernel that a backend runs for an operator, chosen by the kernel's sizes.

A selection is written ``backend:family`` in fusion rules ("tflite_gpu:adreno6xx"): the backend is a small function that
names the kernels, the GPU family is data (``gpu_families/``), the thresholds that the backend compares sizes with (Li et al.
§3.2.2 and §4.1). Backends of CPUs ("ncnn", "openvino") have none.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Protocol

import numpy as np

from latcast.errors import LatcastError, UnknownNameError
from latcast.kernels.kernel import Configuration
from latcast.kernels.types.kernel_type import FUSED_FIELDS, Columns, kernel_type
from latcast.registry import Registry, nearest_names

FAMILY_VARIABLE = "LATCAST_GPU_FAMILY"
"""Environment variable with the GPU family of devices that latcast does not list; ``--gpu-family`` sets it."""

MOST_COMMON_FAMILY = "other"
"""Family of an unknown GPU: the path that the GPUs of most vendors take."""

_FOLDER = resources.files("latcast.kernels")

Thresholds = Mapping[str, Any]
"""Numbers of one GPU family for one backend, as its JSON file has them; empty where the backend asks for none."""


class KernelSelection(Protocol):
    """Names the kernel that a backend runs for kernels of one type, from their sizes alone."""

    def __call__(self, kernel_type: str, columns: Columns, thresholds: Thresholds) -> np.ndarray:
        """Return the kernels' types after selection.

        Args:
            kernel_type: What fusion found ("conv").
            columns: Its fields, one array each, (kernels,).
            thresholds: Of the GPU family.

        Returns:
            (kernels,) names: the type itself, a variant of it ("conv.winograd"), or another type that the backend runs
            instead ("linear" for a convolution on a 1x1 map).
        """


@dataclass(frozen=True)
class GpuFamily:
    """GPUs that a backend treats alike.

    Attributes:
        name: As in ``backend:family`` ("adreno6xx").
        title: For people.
        names: How its GPUs are called, as regular expressions: by drivers of OpenGL, Vulkan and OpenCL, by the table of chips.
        thresholds: Backend to its numbers.
    """

    name: str
    title: str
    names: tuple[str, ...]
    thresholds: Mapping[str, Thresholds]


def family_names() -> list[str]:
    """Return all families, sorted."""
    folder = _FOLDER.joinpath("gpu_families")
    return sorted(item.name.removesuffix(".json") for item in folder.iterdir() if item.name.endswith(".json"))


@cache
def family_named(name: str) -> GpuFamily:
    """Return a family by its name, or by that of a GPU or an architecture in it.

    Args:
        name: ``adreno6xx``; ``adreno-6xx``, ``mali-valhall``; or what a driver calls the GPU: ``Adreno (TM) 640``.

    Raises:
        UnknownNameError: No such family.
    """
    if name in family_names():
        data: dict[str, Any] = json.loads(_FOLDER.joinpath("gpu_families").joinpath(f"{name}.json").read_text(encoding="utf-8"))
        return GpuFamily(name, data["title"], tuple(data["names"]), data["thresholds"])
    found = family_in(name)
    if found is None:
        near = nearest_names(name, family_names()) or family_names()
        raise UnknownNameError(f"no GPU family is called '{name}'; known: {', '.join(near)}")
    return found


@cache
def family_in(text: str) -> GpuFamily | None:
    """Return the most special family of the GPU that a text names; None where it names none.

    Example:
        >>> from latcast.kernels.selection import family_in
        >>> family_in("Qualcomm, Adreno (TM) 640, OpenGL ES 3.2 V@0502.0").name, family_in("Immortalis-G720").name
        ('adreno6xx', 'mali')
    """
    families = sorted((family_named(name) for name in family_names()), key=lambda family: -len(family.name))
    return next((each for each in families if any(re.search(name, text, re.IGNORECASE) for name in each.names)), None)


@cache
def device_families() -> Mapping[str, str]:
    """Return device to the family of its GPU."""
    families: dict[str, str] = json.loads(_FOLDER.joinpath("gpu_devices.json").read_text(encoding="utf-8"))["families"]
    return families


def family_of_device(device: str) -> GpuFamily | None:
    """Return the family of a device's GPU, None where it is not known.

    It is as ``gpu_devices.json`` lists it; else as the user says (:data:`FAMILY_VARIABLE`); else as the table of chips has it for
    the device, or for the chip that its name is.

    Raises:
        UnknownNameError: The user named no family.
    """
    listed = device_families().get(device)
    if listed is not None:
        return family_named(listed)
    said = os.environ.get(FAMILY_VARIABLE)
    if said:
        return family_named(said)
    from latcast.chips.chip_names import chip_of

    chip = chip_of(device, unit_kind="gpu")
    if chip is None:
        return None
    return next((found for text in (chip.gpu_family, chip.gpu) if text and (found := family_in(text)) is not None), None)


# Backends


def is_pointwise(c: Columns) -> np.ndarray:
    """Return whether a convolution is 1x1 at stride 1, unpadded, of all channels: a matrix product with the filter."""
    found = (c["groups"] == 1) & (c["padded"] == 0)
    for name in ("kernel_h", "kernel_w", "stride_h", "stride_w"):
        found &= c[name] == 1
    return found


def covers_map(c: Columns) -> np.ndarray:
    """Return whether a pooling window is the whole map."""
    whole = (c["kernel_h"] == c["in_h"]) & (c["kernel_w"] == c["in_w"])
    return whole & (c["out_h"] == 1) & (c["out_w"] == 1)


SLICE = 4
"""Channels that the delegate keeps together in one texel."""


def _as_it_is(kernel_type: str, columns: Columns) -> np.ndarray:
    """Return the type itself for each kernel, (kernels,): the backend has no other for it."""
    return np.full(len(next(iter(columns.values()))), kernel_type, dtype=object)


def select_tflite_gpu(kernel_type: str, columns: Columns, thresholds: Thresholds) -> np.ndarray:
    """Select for TFLite's GPU delegate: OpenCL on Android, Metal on Apple's GPUs (Li et al., Algorithm B.3).

    Beyond the printed algorithm, a 1x1 convolution on a 1x1 map runs as fully connected, an average over the whole map as a
    mean, and whole slices (line 6) are counted in each group's input channels.
    """
    c = columns
    if kernel_type == "conv":
        on_vector = is_pointwise(c) & (c["in_h"] == 1) & (c["in_w"] == 1)
        names = np.where(runs_winograd(c, thresholds["winograd"]), "conv.winograd", "conv")
        return np.where(on_vector, "linear", names).astype(object)
    if kernel_type == "grouped_conv":
        # Without whole slices in each group it is one convolution a group (CheckGroupedConv2D, lines 6 to 11).
        whole = (c["in_channels"] / c["groups"] % SLICE == 0) & (c["out_channels"] / c["groups"] % SLICE == 0)
        return np.where(whole, "grouped_conv", "grouped_conv.split").astype(object)
    if kernel_type == "average_pool":
        return np.where(covers_map(c), "reduce", "average_pool").astype(object)
    return _as_it_is(kernel_type, c)


def runs_winograd(c: Columns, thresholds: Thresholds) -> np.ndarray:
    """Return CheckWinograd: an undilated 3x3 convolution at stride 1 with channels and tiles enough (lines 12 to 30)."""
    suits = (c["kernel_h"] == 3) & (c["kernel_w"] == 3) & (c["groups"] == 1)
    for name in ("stride_h", "stride_w", "dilation_h", "dilation_w"):
        suits &= c[name] == 1
    source_depth = np.ceil(c["in_channels"] / SLICE)
    destination_depth = np.ceil(c["out_channels"] / SLICE)
    tiles = np.ceil(c["out_h"] / 4) * np.ceil(c["out_w"] / 4)
    deep = (source_depth >= thresholds["source_depth"]) & (destination_depth >= thresholds["destination_depth"])
    return suits & deep & (tiles >= thresholds["tiles"])


def select_pytorch_vulkan(kernel_type: str, columns: Columns, thresholds: Thresholds) -> np.ndarray:
    """Select for PyTorch Mobile's Vulkan backend on Android GPUs (Li et al., Algorithm B.1): the same on all GPU families.

    Depthwise is what has as many groups as input channels, so a convolution of a single channel too.
    """
    c = columns
    if kernel_type not in ("conv", "depthwise_conv", "grouped_conv"):
        return _as_it_is(kernel_type, c)
    depthwise = (c["groups"] == c["in_channels"]) & (c["out_channels"] != 1)
    side = np.where(c["kernel_h"] == c["kernel_w"], c["kernel_h"], 0)
    return np.select(
        [depthwise & (side == 3), depthwise & (side == 5), depthwise, side == 1],
        ["depthwise_conv.3x3", "depthwise_conv.5x5", "depthwise_conv", "conv.pointwise"],
        default=kernel_type,
    ).astype(object)


def select_pytorch_metal(kernel_type: str, columns: Columns, thresholds: Thresholds) -> np.ndarray:
    """Select for PyTorch Mobile's Metal backend on Apple's GPUs: Apple's own kernels, one for all convolutions.

    An average over the whole map runs as an adaptive one, whichever operator it is written as.
    """
    if kernel_type == "average_pool":
        return np.where(covers_map(columns), "reduce", "average_pool").astype(object)
    return _as_it_is(kernel_type, columns)


NCNN_DIRECT = 8
"""Channels up to which ncnn computes 3x3 convolutions directly."""

NCNN_LARGE_TILES = 32
"""Channels up to which ncnn computes 6x6 outputs at once, beyond which 4x4."""


def select_ncnn(kernel_type: str, columns: Columns, thresholds: Thresholds) -> np.ndarray:
    """Select for ncnn in fp32 on x86 CPUs: Winograd for 3x3 convolutions, in larger tiles where channels are few.

    As ``Convolution_x86::create_pipeline`` chooses in a network without shape hints, as latcast writes them. A grouped
    convolution runs as one convolution a group, chosen by the channels of a group.
    """
    c = columns
    if kernel_type not in ("conv", "grouped_conv"):
        return _as_it_is(kernel_type, c)
    ins, outs = c["in_channels"] / c["groups"], c["out_channels"] / c["groups"]
    suits = (c["kernel_h"] == 3) & (c["kernel_w"] == 3) & ((ins > NCNN_DIRECT) | (outs > NCNN_DIRECT))
    for name in ("stride_h", "stride_w", "dilation_h", "dilation_w"):
        suits &= c[name] == 1
    few = (ins <= NCNN_LARGE_TILES) & (outs <= NCNN_LARGE_TILES)
    return np.select([suits & few, suits], [f"{kernel_type}.winograd6", f"{kernel_type}.winograd"], kernel_type).astype(object)


OPENVINO_NARROW = 16
"""Channels of a group up to which OpenVINO's convolutions are computed directly: those of a vector."""


def select_openvino(kernel_type: str, columns: Columns, thresholds: Thresholds) -> np.ndarray:
    """Select for OpenVINO in fp32 on CPUs with AVX-512: narrow groups directly (``jit_avx512``), others in blocks.

    oneDNN's ``brgconv`` refuses groups of no more input channels than a vector holds. With AVX2 alone all groups run as
    products of blocks: those rules have no selection.
    """
    c = columns
    if kernel_type != "grouped_conv":
        return _as_it_is(kernel_type, c)
    narrow = c["in_channels"] / c["groups"] <= OPENVINO_NARROW
    return np.where(narrow, "grouped_conv.narrow", "grouped_conv").astype(object)


def select_openvino_int8(kernel_type: str, columns: Columns, thresholds: Thresholds) -> np.ndarray:
    """Select for OpenVINO in int8 on CPUs with AVX-512: narrow groups of whole quarters of a vector directly."""
    chosen = select_openvino(kernel_type, columns, thresholds)
    if kernel_type != "grouped_conv":
        return chosen
    ins, outs = (columns[name] / columns["groups"] for name in ("in_channels", "out_channels"))
    quarters = (ins % 4 == 0) & (outs % 4 == 0) & (outs <= OPENVINO_NARROW)
    direct = (chosen == "grouped_conv.narrow") & quarters & (columns["kernel_h"] * columns["kernel_w"] > 1)
    return np.where(direct, "grouped_conv.direct", "grouped_conv").astype(object)


# Kernels of one type as those of another


RETYPINGS: Mapping[tuple[str, str], Callable[[Columns], list[np.ndarray]]] = {
    ("conv", "linear"): lambda c: [c["batch"], c["in_channels"], c["out_channels"]],
    ("average_pool", "reduce"): lambda c: [c["batch"] * c["channels"], c["in_h"] * c["in_w"], np.ones_like(c["batch"])],
}
"""(type, other type) to the other's own fields: a row an image; a number a channel and image."""


def retype(name: str, other: str, configurations: np.ndarray) -> np.ndarray:
    """Return configurations of one type as those of another, with the same operators fused behind.

    Args:
        name: The kernels' type.
        other: The type to describe them by.
        configurations: (kernels, fields of ``name``).

    Returns:
        (kernels, fields of ``other``), int64.

    Raises:
        LatcastError: The types differ in their fields and nothing says how.
        UnknownNameError: No such type.
    """
    before, after = kernel_type(name), kernel_type(other)
    if before.fields == after.fields:
        return np.asarray(configurations, dtype=np.int64)
    found = RETYPINGS.get((name, other))
    if found is None:
        raise LatcastError(f"a kernel of type '{name}' cannot be described as '{other}'; add it to RETYPINGS")
    columns = before.columns(configurations)
    parts = [*found(columns), *(columns[field] for field in FUSED_FIELDS)]
    return np.stack(parts, axis=1).astype(np.int64)


SELECTIONS: Registry[KernelSelection] = Registry(
    "kernel selection",
    {
        name: f"latcast.kernels.selection:select_{name}"
        for name in ("tflite_gpu", "pytorch_vulkan", "pytorch_metal", "ncnn", "openvino", "openvino_int8")
    },
    "latcast.selections",
)
"""Backends by name; others are added as entry points of the group ``latcast.selections``."""

NEED_A_FAMILY = frozenset({"tflite_gpu"})
"""Backends that compare sizes with thresholds of the GPU family."""


class Selection:
    """A backend's selection on one GPU family; remembers what it chose.

    Attributes:
        backend: Its name in :data:`SELECTIONS`.
        thresholds: Of the family for this backend; empty where there are none.
    """

    def __init__(self, backend: str, thresholds: Thresholds) -> None:
        self.backend = backend
        self.thresholds = thresholds
        self._chosen: dict[tuple[str, Configuration], tuple[str, Configuration]] = {}

    def names(self, kernel_type_name: str, configurations: np.ndarray) -> np.ndarray:
        """Return the types that the backend runs kernels of one type as.

        Args:
            kernel_type_name: What fusion found.
            configurations: (kernels, fields).

        Returns:
            (kernels,) names of kernel types.
        """
        if not len(configurations):
            return np.zeros(0, dtype=object)
        columns = kernel_type(kernel_type_name).columns(configurations)
        return SELECTIONS.get(self.backend)(kernel_type_name, columns, self.thresholds)

    def kernel(self, kernel_type_name: str, configuration: Configuration) -> tuple[str, Configuration]:
        """Return the type and configuration of one kernel after selection."""
        key = (kernel_type_name, configuration)
        found = self._chosen.get(key)
        if found is None:
            rows = np.array([configuration], dtype=np.int64)
            name = str(self.names(kernel_type_name, rows)[0])
            found = self._chosen[key] = (name, tuple(retype(kernel_type_name, name, rows)[0].tolist()))
        return found


@cache
def selection_of(text: str) -> Selection:
    """Return the selection that fusion rules name: ``backend`` or ``backend:family``.

    Raises:
        UnknownNameError: No such backend or GPU family.
        LatcastError: The backend needs a family, and none is named.
    """
    backend, _, family = text.partition(":")
    SELECTIONS.get(backend)
    if not family:
        if backend in NEED_A_FAMILY:
            raise LatcastError(
                f"the kernel selection '{text}' names no GPU family; expected '{backend}:FAMILY', for instance "
                f"'{backend}:adreno6xx' (latcast.kernels.rules.rules_for fills it in from device or gpu_family)"
            )
        return Selection(backend, {})
    return Selection(backend, family_named(family).thresholds.get(backend, {}))
