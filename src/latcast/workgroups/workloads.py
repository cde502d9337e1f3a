"""What is launched: a convolution, the kernel that computes it, and the grid of work items that follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from latcast.errors import LatcastError
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
    def in_slices(self) -> int:
        """Slices of input channels that an output is computed from."""
        return 1 if self.kind == "depthwise_conv" else _ceil(self.in_channels, self.descriptor.vector)

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
