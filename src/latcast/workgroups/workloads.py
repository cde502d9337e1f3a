"""What is launched: a convolution, its kernel and its grid of work items; what TFLite's GPU delegate launches for a network."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

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
from latcast.workgroups.sizes import Grid

Kind = Literal["conv", "depthwise_conv"]
"""The two operators that the paper's rules are about; named as kernel types are."""


@dataclass(frozen=True)
class KernelDescriptor:
    """What one work item of a kernel computes.

    Attributes:
        name: Of the kernel ("conv_2x1").
        kind: Which operator it computes.
        block_x: Output columns of a work item.
        block_y: Output rows of a work item.
        block_z: Output slices of a work item.
        vector: Channels in a slice: the kernel's vectorisation.
        element_bytes: Size of a number, U in rule III: 4 for fp32.
        read_along_x: d_x of rule III: consecutive numbers that a work item reads along x; a block's slices where None.
        accesses_counted: Whether its data accesses are known, on which rule V rests; not of other people's kernels.
    """

    name: str
    kind: Kind
    block_x: int = 1
    block_y: int = 1
    block_z: int = 1
    vector: int = 4
    element_bytes: int = 4
    read_along_x: int | None = None
    accesses_counted: bool = True

    def __post_init__(self) -> None:
        for field in ("block_x", "block_y", "block_z", "vector", "element_bytes"):
            if getattr(self, field) < 1:
                raise LatcastError(f"kernel '{self.name}': {field} is {getattr(self, field)}; expected at least 1")

    @property
    def numbers_read_along_x(self) -> int:
        """d_x of rule III."""
        return self.block_x * self.vector if self.read_along_x is None else self.read_along_x


CONV = KernelDescriptor("conv_2x1", "conv", block_x=2)
"""Two columns and four channels a work item: d_x is 8, as in the paper (§4.1), and rule V is eq. 6."""

DEPTHWISE_CONV = KernelDescriptor("depthwise_conv_1x1", "depthwise_conv")
"""One pixel and four channels a work item."""

KERNELS: dict[str, KernelDescriptor] = {"conv": CONV, "depthwise_conv": DEPTHWISE_CONV}
"""Kind to the kernel assumed where none is named."""


@dataclass(frozen=True)
class Workload:
    """A convolution as a kernel computes it.

    Attributes:
        in_h: Rows of the input.
        in_w: Columns of the input.
        in_channels: Of the input.
        out_h: Rows of the output.
        out_w: Columns of the output.
        out_channels: Of the output; a depthwise convolution has as many as the input.
        kernel_h: Rows of the filter.
        kernel_w: Columns of the filter.
        stride_h: Rows from one window to the next.
        stride_w: Columns from one window to the next.
        descriptor: The kernel.
        batch: Images; the grid lays them side by side along x.
    """

    in_h: int
    in_w: int
    in_channels: int
    out_h: int
    out_w: int
    out_channels: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    descriptor: KernelDescriptor
    batch: int = 1

    def __post_init__(self) -> None:
        for field in _SIZES:
            if getattr(self, field) < 1:
                raise LatcastError(f"a convolution's {field} is {getattr(self, field)}; expected at least 1")
        if self.kind == "depthwise_conv" and self.in_channels != self.out_channels:
            raise LatcastError(
                f"a depthwise convolution has {self.in_channels} channels in and {self.out_channels} out; expected as many"
            )

    @property
    def kind(self) -> Kind:
        """Which operator."""
        return self.descriptor.kind

    @property
    def grid(self) -> Grid:
        """Work items: ceil(out_w · batch / block_x) x ceil(out_h / block_y) x ceil(slices / block_z)."""
        kernel = self.descriptor
        slices = _ceil(self.out_channels, kernel.vector)
        return Grid(
            _ceil(self.out_w * self.batch, kernel.block_x), _ceil(self.out_h, kernel.block_y), _ceil(slices, kernel.block_z)
        )

    @property
    def flops(self) -> int:
        """Floating-point operations; a multiply-accumulate is two."""
        channels = 1 if self.kind == "depthwise_conv" else self.in_channels
        outputs = self.batch * self.out_h * self.out_w * self.out_channels
        return 2 * outputs * self.kernel_h * self.kernel_w * channels

    def __str__(self) -> str:
        stride = f"s{self.stride_h}" if self.stride_h == self.stride_w else f"s{self.stride_h}x{self.stride_w}"
        kernel = f"k{self.kernel_h}" if self.kernel_h == self.kernel_w else f"k{self.kernel_h}x{self.kernel_w}"
        name = "dwconv" if self.kind == "depthwise_conv" else "conv"
        out = "" if self.kind == "depthwise_conv" else f",c{self.out_channels}"
        images = f",b{self.batch}" if self.batch > 1 else ""
        return f"{name}:{self.in_h}x{self.in_w}x{self.in_channels},{kernel},{stride}{out}{images}"


_SIZES = (
    "in_h", "in_w", "in_channels", "out_h", "out_w", "out_channels", "kernel_h", "kernel_w", "stride_h", "stride_w", "batch",
)  # fmt: skip


def convolution(
    in_h: int, in_w: int, in_channels: int, out_channels: int, kernel: int = 3, stride: int = 1, *,
    batch: int = 1, descriptor: KernelDescriptor = CONV,
) -> Workload:  # fmt: skip
    """A square convolution that is padded to keep the map's size (at stride 1)."""
    return _padded(in_h, in_w, in_channels, out_channels, kernel, stride, batch, descriptor)


def depthwise_convolution(
    in_h: int, in_w: int, channels: int, kernel: int = 3, stride: int = 1, *,
    batch: int = 1, descriptor: KernelDescriptor = DEPTHWISE_CONV,
) -> Workload:  # fmt: skip
    """A square depthwise convolution that is padded to keep the map's size (at stride 1)."""
    return _padded(in_h, in_w, channels, channels, kernel, stride, batch, descriptor)


def _padded(
    in_h: int, in_w: int, in_channels: int, out_channels: int, kernel: int, stride: int, batch: int, descriptor: KernelDescriptor
) -> Workload:
    stride = max(stride, 1)
    return Workload(
        in_h, in_w, in_channels, _ceil(in_h, stride), _ceil(in_w, stride), out_channels, kernel, kernel, stride, stride,
        descriptor, batch,
    )  # fmt: skip


def _ceil(whole: int, part: int) -> int:
    return -(-whole // part)


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
