"""A convolution, its kernel and its grid of work items; the convolutions that TFLite's GPU delegate launches for a network."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from latcast.errors import LatcastError
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Configuration
from latcast.kernels.rules import load_rules, rules_for
from latcast.kernels.search import find_kernels
from latcast.kernels.selection import selection_of
from latcast.kernels.types.convolution import FIELDS, WINOGRAD_POINTS, winograd_tiles
from latcast.kernels.types.kernel_type import kernel_type
from latcast.workgroups.sizes import Grid

Kind = Literal["conv", "depthwise_conv"]
"""The two operators that the paper's rules are about; named as kernel types are."""


@dataclass(frozen=True)
class KernelDescriptor:
    """The work of one work item of a kernel.

    Attributes:
        name: Of the kernel ("conv_2x1").
        kind: The operator that it computes.
        block_x, block_y, block_z: Output columns, rows and slices of a work item.
        vector: Channels in a slice: the kernel's vectorisation.
        element_bytes: Size of a number, U in rule III: 4 for fp32.
        read_along_x: d_x of rule III: consecutive numbers that a work item reads along x; a block's slices where None.
        accesses_counted: Whether its data accesses are known, on which rule V rests; False for other people's kernels.
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

KINDS: tuple[Kind, ...] = ("conv", "depthwise_conv")

_SIZES = (
    "in_h", "in_w", "in_channels", "out_h", "out_w", "out_channels", "kernel_h", "kernel_w", "stride_h", "stride_w", "batch",
)  # fmt: skip


@dataclass(frozen=True)
class Convolution:
    """A convolution as a kernel computes it.

    Attributes:
        in_h, in_w, in_channels: Of the input.
        out_h, out_w, out_channels: Of the output; a depthwise convolution has as many channels as its input.
        kernel_h, kernel_w: Of the filter.
        stride_h, stride_w: Rows and columns from one window to the next.
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
        """The operator."""
        return self.descriptor.kind

    @property
    def grid(self) -> Grid:
        """Work items: ceil(out_w · batch / block_x) x ceil(out_h / block_y) x ceil(slices / block_z)."""
        kernel = self.descriptor
        outputs = (self.out_w * self.batch, self.out_h, -(-self.out_channels // kernel.vector))
        blocks = (kernel.block_x, kernel.block_y, kernel.block_z)
        return Grid(*(-(-whole // part) for whole, part in zip(outputs, blocks, strict=True)))

    def __str__(self) -> str:
        stride = f"s{self.stride_h}" if self.stride_h == self.stride_w else f"s{self.stride_h}x{self.stride_w}"
        kernel = f"k{self.kernel_h}" if self.kernel_h == self.kernel_w else f"k{self.kernel_h}x{self.kernel_w}"
        name, out = ("dwconv", "") if self.kind == "depthwise_conv" else ("conv", f",c{self.out_channels}")
        images = f",b{self.batch}" if self.batch > 1 else ""
        return f"{name}:{self.in_h}x{self.in_w}x{self.in_channels},{kernel},{stride}{out}{images}"


def convolution(
    in_h: int, in_w: int, in_channels: int, out_channels: int, kernel: int = 3, stride: int = 1, *,
    batch: int = 1, descriptor: KernelDescriptor = CONV,
) -> Convolution:  # fmt: skip
    """Return a square convolution that is padded to keep the map's size (at stride 1)."""
    stride = max(stride, 1)
    out_h, out_w = (-(-size // stride) for size in (in_h, in_w))
    return Convolution(
        in_h, in_w, in_channels, out_h, out_w, out_channels, kernel, kernel, stride, stride, descriptor, batch
    )  # fmt: skip


def depthwise_convolution(
    in_h: int, in_w: int, channels: int, kernel: int = 3, stride: int = 1, *, batch: int = 1
) -> Convolution:
    """Return a square depthwise convolution that is padded to keep the map's size (at stride 1)."""
    return convolution(in_h, in_w, channels, channels, kernel, stride, batch=batch, descriptor=DEPTHWISE_CONV)


@dataclass(frozen=True)
class Launch:
    """A convolution as the delegate launches it.

    Attributes:
        names: Of the operators in the network that are launched so; equal ones together.
        kernel: The kernel's type after selection ("conv.winograd").
        workload: The convolution that it computes; None where nothing is advised for such a kernel.
        why: Why nothing is advised, or what to know about the workload; may be empty.
    """

    names: tuple[str, ...]
    kernel: str
    workload: Convolution | None
    why: str = ""


def find_launches(
    graph: Graph, family: str | None, block: tuple[int, int, int] | None = None, *, direct: bool = False
) -> list[Launch]:
    """Return every convolution of a network, equal ones once, in the order of execution.

    Args:
        graph: The network.
        family: The GPU's family, on which the choice of kernels depends; only direct kernels are assumed where None.
        block: Columns, rows and slices of a work item of a convolution; the paper's 2, 1 and 1 where None.
        direct: Takes every convolution as a direct one.
    """
    if direct or family is None:
        rules = replace(load_rules("tflite-gpu"), selection="")
    else:
        rules = rules_for("tflite", "fp32", "gpu", gpu_family=family)
    names: dict[tuple[str, Configuration], list[str]] = {}
    for kernel in find_kernels(graph, rules):
        if not kernel.free and ("conv" in kernel.kernel_type or kernel.operators[0] == "Conv"):
            names.setdefault(kernel.key, []).append(kernel.name)
    return [_describe_launch(*key, tuple(found), block) for key, found in names.items()]


def find_launch(workload: Convolution, family: str | None, *, direct: bool = False) -> Launch:
    """Return one convolution as the delegate launches it; see :func:`find_launches`."""
    name, w = str(workload), workload
    if direct or family is None:
        return Launch((name,), w.kind, w)
    groups = w.in_channels if w.kind == "depthwise_conv" else 1
    padded = int(w.kernel_h > 1 or w.kernel_w > 1)
    not_fused = (0,) * (len(kernel_type(w.kind).fields) - len(FIELDS))
    configuration = (
        w.batch, w.in_channels, w.in_h, w.in_w, w.out_channels, w.out_h, w.out_w, w.kernel_h, w.kernel_w,
        w.stride_h, w.stride_w, 1, 1, groups, padded, *not_fused,
    )  # fmt: skip
    kernel, chosen = selection_of(f"tflite_gpu:{family}").kernel(w.kind, configuration)
    return Launch((name,), kernel, w) if kernel == w.kind else _describe_launch(kernel, chosen, (name,), None)


def _describe_launch(
    kernel: str, configuration: Configuration, names: tuple[str, ...], block: tuple[int, int, int] | None
) -> Launch:
    fields = dict(zip(FIELDS, configuration, strict=False))

    def made(descriptor: KernelDescriptor, **changes: int) -> Convolution:
        return Convolution(**{name: {**fields, **changes}[name] for name in FIELDS[:11]}, descriptor=descriptor)

    if kernel == "conv":
        return Launch(names, kernel, made(CONV if block is None else conv_kernel(block)))
    if kernel == "depthwise_conv" and fields["out_channels"] == fields["in_channels"]:
        return Launch(names, kernel, made(DEPTHWISE_CONV))
    if kernel == "depthwise_conv":
        descriptor = replace(DEPTHWISE_CONV, name="depthwise_conv_multiplier", accesses_counted=False)
        workload = made(descriptor, in_channels=fields["out_channels"])
        why = "several outputs a channel: its data accesses have not been counted"
    elif kernel == "conv.winograd":
        tiles = int(winograd_tiles({name: np.array([value]) for name, value in fields.items()})[0])
        workload = made(
            replace(CONV, name="winograd_products", accesses_counted=False), batch=1, in_w=tiles, out_w=tiles,
            in_h=WINOGRAD_POINTS, out_h=WINOGRAD_POINTS, kernel_h=1, kernel_w=1, stride_h=1, stride_w=1,
        )  # fmt: skip
        why = f"runs as Winograd: advised for its products of {WINOGRAD_POINTS} x {tiles} points, with accesses not counted"
    elif kernel == "grouped_conv":
        workload = made(replace(CONV, name="grouped_conv", accesses_counted=False))
        why = "runs as one grouped kernel, whose data accesses have not been counted"
    elif kernel == "grouped_conv.split":
        groups = fields["groups"]
        channels = {name: fields[name] // groups for name in ("in_channels", "out_channels")}
        workload, why = made(CONV, **channels), f"runs as {groups} convolutions, one a group: advised for one of them"
    else:
        return Launch(names, kernel, None, f"nothing is advised for kernels of type {kernel}: the rules are about convolutions")
    return Launch(names, kernel, workload, why)


def conv_kernel(block: tuple[int, int, int]) -> KernelDescriptor:
    """Return the kernel of direct convolutions with another block than the paper's."""
    x, y, z = block
    return replace(CONV, name=f"conv_{x}x{y}x{z}", block_x=x, block_y=y, block_z=z)


_OPERATOR = re.compile(r"(conv|dwconv):(\d+)x(\d+)x(\d+)((?:,[kscb]\d+)*)", re.ASCII)


def is_operator(text: str) -> bool:
    """Return whether a text is meant as an operator rather than as a model."""
    return text.startswith(("conv:", "dwconv:"))


def parse_operator(text: str) -> Convolution:
    """Read an operator as people write it: ``conv:56x56x64,k3,s1,c128``, ``dwconv:112x112x32,k3,s2``; ``b`` is the batch.

    Args:
        text: Kind, input as height, width and channels; then kernel size (3), stride (1), output channels (those of the
            input) and batch (1), in any order. Padding keeps the map's size.

    Raises:
        LatcastError: It is not of this form.
    """
    found = _OPERATOR.fullmatch(text.strip())
    options = {} if found is None else {part[0]: int(part[1:]) for part in found[5].split(",")[1:]}
    if found is None or len(options) != found[5].count(",") or (found[1] == "dwconv" and "c" in options):
        form = "conv:HxWxC,kK,sS,cC (such as conv:56x56x64,k3,s1,c128) or dwconv:HxWxC,kK,sS"
        raise LatcastError(f"'{text}' is not an operator; expected {form}")
    height, width, channels = (int(found[place]) for place in (2, 3, 4))
    kernel, stride, batch = options.get("k", 3), options.get("s", 1), options.get("b", 1)
    if min(kernel, stride) < 1:
        raise LatcastError(f"'{text}' has kernel size {kernel} and stride {stride}; expected at least 1 each")
    if found[1] == "dwconv":
        return depthwise_convolution(height, width, channels, kernel, stride, batch=batch)
    return convolution(height, width, channels, options.get("c", channels), kernel, stride, batch=batch)
