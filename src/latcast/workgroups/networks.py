"""The convolutions that TFLite's GPU delegate launches for a network, after fusion and kernel selection."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from latcast.errors import LatcastError
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Configuration
from latcast.kernels.rules import load_rules, rules_for
from latcast.kernels.search import find_kernels
from latcast.kernels.selection import selection_of
from latcast.kernels.types.convolution import FIELDS
from latcast.kernels.types.convolution_variants import WINOGRAD_POINTS, winograd_tiles
from latcast.kernels.types.kernel_type import kernel_type
from latcast.workgroups.workloads import CONV, DEPTHWISE_CONV, KernelDescriptor, Workload, convolution, depthwise_convolution

RUNTIME = "tflite"
"""Whose kernels and fusion are deduced."""


@dataclass(frozen=True)
class Launch:
    """A convolution as the delegate launches it.

    Attributes:
        names: Of the operators in the network that are launched so; equal ones together.
        kernel: The kernel's type after selection ("conv.winograd").
        workload: What it computes; None where nothing is advised for such a kernel.
        why: Why nothing is advised, or what to know about the workload; empty where there is nothing to say.
    """

    names: tuple[str, ...]
    kernel: str
    workload: Workload | None
    why: str = ""


def launches(
    graph: Graph, family: str | None, block: tuple[int, int, int] | None = None, *, direct: bool = False
) -> list[Launch]:
    """Every convolution of a network, equal ones once, in the order of execution.

    Args:
        graph: The network.
        family: The GPU's family, on which the choice of kernels depends; None where it is not known: then no kernel but the
            direct ones is assumed.
        block: Columns, rows and slices of a work item of a convolution; the paper's 2, 1 and 1 where None.
        direct: Takes every convolution as a direct one.
    """
    if direct or family is None:
        rules = replace(load_rules("tflite-gpu"), selection="")
    else:
        rules = rules_for(RUNTIME, "fp32", "gpu", gpu_family=family)
    names: dict[tuple[str, Configuration], list[str]] = {}
    for kernel in find_kernels(graph, rules):
        if not kernel.free and ("conv" in kernel.kernel_type or kernel.operators[0] == "Conv"):
            names.setdefault(kernel.key, []).append(kernel.name)
    return [_launch(key, tuple(found), block) for key, found in names.items()]


def launch_of(workload: Workload, family: str | None, *, direct: bool = False) -> Launch:
    """One convolution as the delegate launches it; see :func:`launches`."""
    name, w = str(workload), workload
    groups = w.in_channels if w.kind == "depthwise_conv" else 1
    padded = int(w.kernel_h > 1 or w.kernel_w > 1)
    configuration = (
        w.batch, w.in_channels, w.in_h, w.in_w, w.out_channels, w.out_h, w.out_w, w.kernel_h, w.kernel_w,
        w.stride_h, w.stride_w, 1, 1, groups, padded, *(0,) * _fused_fields(w.kind),
    )  # fmt: skip
    if direct or family is None:
        return Launch((name,), w.kind, w)
    kernel, chosen = selection_of(f"tflite_gpu:{family}").kernel(w.kind, configuration)
    if kernel == w.kind:
        return Launch((name,), kernel, w)
    return _launch((kernel, chosen), (name,), None)


def _fused_fields(kind: str) -> int:
    return len(kernel_type(kind).fields) - len(FIELDS)


def _launch(key: tuple[str, Configuration], names: tuple[str, ...], block: tuple[int, int, int] | None) -> Launch:
    kernel, configuration = key
    found = WORKLOADS.get(kernel)
    if found is None:
        return Launch(names, kernel, None, f"nothing is advised for kernels of type {kernel}: the rules are about convolutions")
    fields = dict(zip(FIELDS, configuration, strict=False))
    workload, why = found(fields)
    if kernel == "conv" and block is not None:
        workload = replace(workload, descriptor=conv_kernel(block))
    return Launch(names, kernel, workload, why)


def conv_kernel(block: tuple[int, int, int]) -> KernelDescriptor:
    """The kernel of direct convolutions with another block than the paper's."""
    x, y, z = block
    return replace(CONV, name=f"conv_{x}x{y}x{z}", block_x=x, block_y=y, block_z=z)


def _of(fields: Mapping[str, int], kernel: KernelDescriptor) -> Workload:
    sizes = {name: fields[name] for name in FIELDS[:11]}
    return Workload(**sizes, descriptor=kernel)


def _dense(fields: Mapping[str, int]) -> tuple[Workload, str]:
    return _of(fields, CONV), ""


def _depthwise(fields: Mapping[str, int]) -> tuple[Workload, str]:
    if fields["out_channels"] != fields["in_channels"]:
        kernel = replace(DEPTHWISE_CONV, name="depthwise_conv_multiplier", accesses_counted=False)
        widened = {**fields, "in_channels": fields["out_channels"]}
        return _of(widened, kernel), "several outputs a channel: its data accesses have not been counted"
    return _of(fields, DEPTHWISE_CONV), ""


def _winograd(fields: Mapping[str, int]) -> tuple[Workload, str]:
    tiles = int(winograd_tiles({name: np.array([value]) for name, value in fields.items()})[0])
    kernel = replace(CONV, name="winograd_products", accesses_counted=False)
    sizes = {**fields, "batch": 1, "in_w": tiles, "out_w": tiles, "in_h": WINOGRAD_POINTS, "out_h": WINOGRAD_POINTS}
    sizes |= dict.fromkeys(("kernel_h", "kernel_w", "stride_h", "stride_w"), 1)
    why = f"runs as Winograd: advised for its products of {WINOGRAD_POINTS} x {tiles} points, with accesses not counted"
    return _of(sizes, kernel), why


def _grouped(fields: Mapping[str, int]) -> tuple[Workload, str]:
    kernel = replace(CONV, name="grouped_conv", accesses_counted=False)
    return _of(fields, kernel), "runs as one grouped kernel, whose data accesses have not been counted"


def _split(fields: Mapping[str, int]) -> tuple[Workload, str]:
    groups = fields["groups"]
    channels = {name: fields[name] // groups for name in ("in_channels", "out_channels")}
    return _of({**fields, **channels}, CONV), f"runs as {groups} convolutions, one a group: advised for one of them"


WORKLOADS: Mapping[str, Callable[[Mapping[str, int]], tuple[Workload, str]]] = {
    "conv": _dense,
    "conv.winograd": _winograd,
    "depthwise_conv": _depthwise,
    "grouped_conv": _grouped,
    "grouped_conv.split": _split,
}
"""Kernel type to what it launches, from its fields, and what to know about that."""

_OPERATOR = re.compile(r"(conv|dwconv):(\d+)x(\d+)x(\d+)((?:,[kscb]\d+)*)", re.ASCII)
OPERATOR_FORM = "conv:HxWxC,kK,sS,cC (such as conv:56x56x64,k3,s1,c128) or dwconv:HxWxC,kK,sS"


def is_operator(text: str) -> bool:
    """Whether a text is meant as an operator rather than as a model."""
    return text.startswith(("conv:", "dwconv:"))


def parse_operator(text: str) -> Workload:
    """An operator as people write it: ``conv:56x56x64,k3,s1,c128``, ``dwconv:112x112x32,k3,s2``; ``b`` is the batch.

    Args:
        text: Kind, input as height, width and channels; then kernel size (3), stride (1), output channels (those of the
            input) and batch (1), in any order. Padding keeps the map's size.

    Raises:
        LatcastError: It is not of this form.
    """
    found = _OPERATOR.fullmatch(text.strip())
    options = {} if found is None else {part[0]: int(part[1:]) for part in found[5].split(",")[1:]}
    if found is None or len(options) != found[5].count(",") or (found[1] == "dwconv" and "c" in options):
        raise LatcastError(f"'{text}' is not an operator; expected {OPERATOR_FORM}")
    height, width, channels = (int(found[place]) for place in (2, 3, 4))
    kernel, stride, batch = options.get("k", 3), options.get("s", 1), options.get("b", 1)
    if min(kernel, stride) < 1:
        raise LatcastError(f"'{text}': kernel size and stride are at least 1")
    if found[1] == "dwconv":
        return depthwise_convolution(height, width, channels, kernel, stride, batch=batch)
    return convolution(height, width, channels, options.get("c", channels), kernel, stride, batch=batch)
