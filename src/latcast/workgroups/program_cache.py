"""The program cache of LiteRT's GPU delegate: work-group sizes read from it, and others written into it.

With ``serialization_dir`` and ``model_cache_key`` set, the delegate keeps what it made of a network as
``KEY_mldrift_program_cache.bin`` and starts from that file the next time, with the sizes that stand there. The file is a list of
the delegate's partitions, then one flatbuffer for each: the operations by TFLite's schema (``GPUOperation`` of
``serialization_base.fbs``, ``GpuModel`` of ``gpu_model.fbs``), the size that each is launched with, and the shaders in WGSL,
whose sizes are constants set when a pipeline is made. How many groups are launched is worked out when the file is loaded.

A shader may rest on its size: along an axis on which it never asks for the size or the item's place, or where items share memory.
There the size is left as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from latcast.errors import DatasetError, LatcastError, MeasurementError
from latcast.reading import read_bytes
from latcast.workgroups.sizes import Grid, SizeLimits, WorkGroup
from latcast.workgroups.workloads import CONV, DEPTHWISE_CONV, KernelDescriptor, Kind

SUFFIX = "_mldrift_program_cache.bin"

MOST_BYTES = 2_000_000_000
"""Weights are in the file."""

MOST_ENTRIES = 100_000
"""Of any list in the file."""

_VECTOR = 4


@dataclass(frozen=True)
class CachedKernel:
    """A kernel of the file.

    Attributes:
        name: The delegate's ("convolution3x3(conv_generic) -> relu").
        grid: Work items.
        size: With which it is launched.
        input: (height, width, channels) of its first input.
        output: (height, width, channels).
        free: Along which of x, y and z the size can be another.
        places: Where in the file the size stands: bytes from the start of x, y and z, each time that it stands there.
    """

    name: str
    grid: Grid
    size: WorkGroup
    input: tuple[int, int, int]
    output: tuple[int, int, int]
    free: tuple[bool, bool, bool]
    places: tuple[tuple[int, int, int], ...]

    @property
    def kind(self) -> Kind | None:
        """The operator that the rules are about; None for other kernels, and where the size is bound to another than 1."""
        bound = any(not free and size != 1 for free, size in zip(self.free, self.size.shape, strict=True))
        if bound or not any(self.free):
            return None
        return "depthwise_conv" if self.name.startswith("depthwise") else "conv" if self.name.startswith("convolution") else None

    @property
    def is_winograd(self) -> bool:
        """Whether it is the products of Winograd's algorithm: a map of points by tiles, filters of its own for each point."""
        return "winograd" in self.name

    @property
    def descriptor(self) -> KernelDescriptor:
        """What a work item computes, from the output's size and the grid's."""
        height, width, channels = self.output
        whole = (width, height, -(-channels // _VECTOR))
        x, y, z = (-(-outputs // items) for outputs, items in zip(whole, self.grid.shape, strict=True))
        base = DEPTHWISE_CONV if self.kind == "depthwise_conv" else CONV
        name = f"litert_{base.kind}_{x}x{y}x{z}"
        return replace(base, name=name, block_x=x, block_y=y, block_z=z, accesses_counted=not self.is_winograd)

    def limits(self, device: SizeLimits) -> SizeLimits:
        """Sizes that it can be launched with on a device of these limits."""
        most = (device.most_x, device.most_y, device.most_z)
        return SizeLimits(device.most_items, *(limit if free else 1 for limit, free in zip(most, self.free, strict=True)))


@dataclass(frozen=True)
class ProgramCache:
    """A program cache.

    Attributes:
        data: The file.
        device: As the delegate calls it; it starts anew on any other.
        kernels: In the order in which they are launched.
    """

    data: bytes
    device: str
    kernels: tuple[CachedKernel, ...]

    def resized(self, sizes: Mapping[int, WorkGroup]) -> bytes:
        """The file with other sizes.

        Args:
            sizes: Number of the kernel to its size.

        Raises:
            MeasurementError: A kernel's size is bound, or bound along an axis on which another is asked for.
        """
        changed = bytearray(self.data)
        for number, size in sizes.items():
            kernel = self.kernels[number]
            if any(
                wanted != now and not free for wanted, now, free in zip(size.shape, kernel.size.shape, kernel.free, strict=True)
            ):
                raise MeasurementError(
                    f"the shader of '{kernel.name}' is written for {kernel.size} and can be another along "
                    f"{', '.join(axis for axis, free in zip('xyz', kernel.free, strict=True) if free) or 'no axis'} only; "
                    f"found {size}"
                )
            for place in kernel.places:
                for at, items in zip(place, size.shape, strict=True):
                    struct.pack_into("<i", changed, at, items)
        return bytes(changed)


def read_program_cache(path: Path) -> ProgramCache:
    """Reads a program cache.

    Raises:
        DatasetError: The file cannot be read or is none.
    """
    return parse_program_cache(read_bytes(path, error=DatasetError, most_bytes=MOST_BYTES), str(path))


def parse_program_cache(data: bytes, where: str = "the file") -> ProgramCache:
    """As :func:`read_program_cache`, from bytes."""
    try:
        kernels: list[CachedKernel] = []
        devices: list[str] = []
        for entry in _Table.root(data, 0).tables(0):
            start = entry.number(1, "<Q")
            root = _Table.root(data, start)
            devices.append(root.text(4))
            kernels += _Partition(root).kernels()
    except (struct.error, IndexError, KeyError, UnicodeDecodeError, LatcastError) as problem:
        raise DatasetError(
            f"{where} is not a program cache of LiteRT's GPU delegate ({problem}); expected a file KEY{SUFFIX} as LiteRT 2.3 "
            "writes it where serialization_dir and model_cache_key are set"
        ) from problem
    if not kernels:
        raise DatasetError(f"{where} holds no kernel; expected the program cache of a network that LiteRT ran on a GPU")
    return ProgramCache(data, devices[0], tuple(kernels))


@dataclass(frozen=True)
class _Table:
    """A table of a flatbuffer that starts at ``start``; fields by number. Anything outside the data is a ``struct.error``."""

    data: bytes
    at: int

    @staticmethod
    def root(data: bytes, start: int) -> _Table:
        return _Table(data, start + _unpack("<I", data, start))

    def field(self, number: int) -> int:
        """Where a field stands; 0 where it is left out."""
        layout = self.at - _unpack("<i", self.data, self.at)
        if 4 + 2 * number >= _unpack("<H", self.data, layout):
            return 0
        offset = _unpack("<H", self.data, layout + 4 + 2 * number)
        return self.at + offset if offset else 0

    def number(self, field: int, form: str = "<i") -> int:
        at = self.field(field)
        return _unpack(form, self.data, at) if at else 0

    def _target(self, field: int) -> int:
        at = self.field(field)
        if not at:
            raise KeyError(f"field {field} is missing")
        return at + _unpack("<I", self.data, at)

    def table(self, field: int) -> _Table:
        return _Table(self.data, self._target(field))

    def _count(self, field: int) -> tuple[int, int]:
        at = self._target(field)
        count = _unpack("<I", self.data, at)
        if count > MOST_ENTRIES:
            raise IndexError(f"a list of {count}")
        return at + 4, count

    def tables(self, field: int) -> list[_Table]:
        first, count = self._count(field)
        places = range(first, first + 4 * count, 4)
        return [_Table(self.data, place + _unpack("<I", self.data, place)) for place in places]

    def numbers(self, field: int, form: str = "<i") -> list[int]:
        first, count = self._count(field)
        return [_unpack(form, self.data, first + struct.calcsize(form) * row) for row in range(count)]

    def text(self, field: int) -> str:
        at = self._target(field)
        length = _unpack("<I", self.data, at)
        if at + 4 + length > len(self.data):
            raise IndexError(f"a text of {length} bytes")
        return self.data[at + 4 : at + 4 + length].decode()


def _unpack(form: str, data: bytes, at: int) -> int:
    if not 0 <= at < len(data):
        raise IndexError(f"an offset of {at}")
    value: int = struct.unpack_from(form, data, at)[0]
    return value


@dataclass(frozen=True)
class _Partition:
    """One inference context: 0 the model, 1 the sizes launched, 2 the programs, 3 which program each operation runs."""

    root: _Table

    @cached_property
    def _shapes(self) -> Mapping[int, tuple[int, int, int]]:
        """Tensor to (height, width, channels); BHWDC in its descriptor."""
        found = {}
        for tensor in self.root.table(0).tables(1):
            shape = tensor.table(0).table(4)
            found[tensor.number(1)] = (shape.number(1), shape.number(2), shape.number(4))
        return found

    def kernels(self) -> list[CachedKernel]:
        programs = {program.number(1, "<Q"): program.text(0) for program in self.root.tables(2)}
        nodes, sizes = self.root.table(0).tables(0), self.root.tables(1)
        runs = self.root.numbers(3, "<Q")
        if not len(nodes) == len(sizes) == len(runs):
            raise IndexError(f"{len(nodes)} operations, {len(sizes)} sizes, {len(runs)} programs")
        return [self._kernel(node, size, programs[run]) for node, size, run in zip(nodes, sizes, runs, strict=True)]

    def _kernel(self, node: _Table, launched: _Table, shader: str) -> CachedKernel:
        operation = node.table(0)
        kept, grid = operation.table(2), operation.table(9)
        x, y, z = (launched.number(axis) for axis in range(3))
        inputs, outputs = node.numbers(1), node.numbers(2)
        return CachedKernel(
            node.text(3),
            Grid(*(grid.number(axis) for axis in range(3))),
            WorkGroup(x, y, z),
            self._shapes[inputs[0]],
            self._shapes[outputs[0]],
            free_axes(shader),
            tuple(places for table in (kept, launched) if all(places := _places(table))),
        )


def _places(table: _Table) -> tuple[int, int, int]:
    return (table.field(0), table.field(1), table.field(2))


def free_axes(shader: str) -> tuple[bool, bool, bool]:
    """Along which axes a shader asks for its size, or for the place of an item in the whole grid."""
    body = shader[shader.find("fn main") :]
    if "var<workgroup>" in shader or "subgroup" in shader:
        return (False, False, False)
    x, y, z = (f"WORKGROUP_SIZE_{axis.upper()}" in body or f"reserved_gid.{axis}" in body for axis in "xyz")
    return (x, y, z)
