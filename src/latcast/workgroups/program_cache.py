"""The program cache of LiteRT's GPU delegate: work-group sizes read from it, and others written into it.

With ``serialization_dir`` and ``model_cache_key`` set, the delegate keeps a prepared network as
``KEY_mldrift_program_cache.bin`` and starts from that file the next time, with the sizes that stand there. The file is a list of
the delegate's partitions, then one flatbuffer for each: the operations by TFLite's schema (``GPUOperation`` of
``serialization_base.fbs``, ``GpuModel`` of ``gpu_model.fbs``), the size that each is launched with, and the shaders in WGSL,
whose sizes are constants set when a pipeline is made. How many groups are launched is worked out when the file is loaded.

A shader may depend on its size: along an axis on which it never asks for the size or the item's place, or where items share
memory. There the size is left as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from latcast.errors import DatasetError, LatcastError, MeasurementError
from latcast.reading import read_bytes
from latcast.workgroups.sizes import Grid, SizeLimits, WorkGroup
from latcast.workgroups.workloads import CONV, DEPTHWISE_CONV, KernelDescriptor, Kind

SUFFIX = "_mldrift_program_cache.bin"

MOST_BYTES = 2_000_000_000
"""Largest file: weights are in it."""

MOST_ENTRIES = 100_000
"""Longest list in the file."""


@dataclass(frozen=True)
class CachedKernel:
    """A kernel of the file.

    Attributes:
        name: The delegate's ("convolution3x3(conv_generic) -> relu").
        grid: Work items.
        size: With which it is launched.
        input, output: (height, width, channels) of its first input and output.
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
        """True for the products of Winograd's algorithm: a map of points by tiles, with filters for each point."""
        return "winograd" in self.name

    @property
    def descriptor(self) -> KernelDescriptor:
        """The work of a work item, from the output's size and the grid's."""
        height, width, channels = self.output
        whole = (width, height, -(-channels // 4))
        x, y, z = (-(-outputs // items) for outputs, items in zip(whole, self.grid.shape, strict=True))
        base = DEPTHWISE_CONV if self.kind == "depthwise_conv" else CONV
        name = f"litert_{base.kind}_{x}x{y}x{z}"
        return replace(base, name=name, block_x=x, block_y=y, block_z=z, accesses_counted=not self.is_winograd)

    def limits(self, device: SizeLimits) -> SizeLimits:
        """Return the sizes that it can be launched with on a device of these limits."""
        most = (device.most_x, device.most_y, device.most_z)
        return SizeLimits(device.most_items, *(limit if free else 1 for limit, free in zip(most, self.free, strict=True)))


@dataclass(frozen=True)
class ProgramCache:
    """A program cache.

    Attributes:
        data: The file.
        device: As the delegate calls it; on any other it does not take the cache.
        kernels: In the order in which they are launched.
    """

    data: bytes
    device: str
    kernels: tuple[CachedKernel, ...]

    def resized(self, sizes: Mapping[int, WorkGroup]) -> bytes:
        """Return the file with other sizes, by the number of the kernel.

        Raises:
            MeasurementError: A kernel's size is bound along an axis on which another is asked for.
        """
        changed = bytearray(self.data)
        for number, size in sizes.items():
            kernel = self.kernels[number]
            axes = list(zip("xyz", size.shape, kernel.size.shape, kernel.free, strict=True))
            if any(wanted != now and not free for _, wanted, now, free in axes):
                raise MeasurementError(
                    f"the shader of '{kernel.name}' is written for {kernel.size} and can be another along "
                    f"{', '.join(axis for axis, _, _, free in axes if free) or 'no axis'} only; found {size}"
                )
            for place in kernel.places:
                for at, items in zip(place, size.shape, strict=True):
                    struct.pack_into("<i", changed, at, items)
        return bytes(changed)


def read_program_cache(path: Path) -> ProgramCache:
    """Read a program cache.

    Raises:
        DatasetError: The file cannot be read or is not a program cache.
    """
    return parse_program_cache(read_bytes(path, error=DatasetError, most_bytes=MOST_BYTES), str(path))


def parse_program_cache(data: bytes, where: str = "the file") -> ProgramCache:
    """Read a program cache from bytes; see :func:`read_program_cache`."""
    try:
        partitions = [_Table.root(data, entry.number(1, "<Q")) for entry in _Table.root(data, 0).tables(0)]
        devices = [partition.text(4) for partition in partitions]
        kernels = [kernel for partition in partitions for kernel in _read_kernels(partition)]
    except (struct.error, IndexError, KeyError, UnicodeDecodeError, LatcastError) as problem:
        raise DatasetError(
            f"{where} is not a program cache of LiteRT's GPU delegate ({problem}); expected a file KEY{SUFFIX} as LiteRT 2.3 "
            "writes it where serialization_dir and model_cache_key are set"
        ) from problem
    if not kernels:
        raise DatasetError(f"{where} holds no kernel; expected the program cache of a network that LiteRT ran on a GPU")
    return ProgramCache(data, devices[0], tuple(kernels))


def _read_kernels(partition: _Table) -> list[CachedKernel]:
    """Read a partition: its fields are 0 the model, 1 the sizes launched, 2 the programs, 3 which program each operation runs."""
    model = partition.table(0)
    shapes = {}
    for tensor in model.tables(1):
        shape = tensor.table(0).table(4)  # batch, height, width, depth, channels
        shapes[tensor.number(1)] = (shape.number(1), shape.number(2), shape.number(4))
    programs = {program.number(1, "<Q"): program.text(0) for program in partition.tables(2)}
    nodes, sizes, runs = model.tables(0), partition.tables(1), partition.numbers(3, "<Q")
    if not len(nodes) == len(sizes) == len(runs):
        raise IndexError(f"{len(nodes)} operations, {len(sizes)} sizes, {len(runs)} programs")
    kernels = []
    for node, launched, run in zip(nodes, sizes, runs, strict=True):
        operation = node.table(0)
        grid = operation.table(9)
        x, y, z = (launched.number(axis) for axis in range(3))
        standing = [(table.field(0), table.field(1), table.field(2)) for table in (operation.table(2), launched)]
        kernels.append(
            CachedKernel(
                node.text(3), Grid(*(grid.number(axis) for axis in range(3))), WorkGroup(x, y, z),
                shapes[node.numbers(1)[0]], shapes[node.numbers(2)[0]], free_axes(programs[run]),
                tuple(places for places in standing if all(places)),
            )
        )  # fmt: skip
    return kernels


def free_axes(shader: str) -> tuple[bool, bool, bool]:
    """Return along which axes a shader asks for its size, or for the place of an item in the whole grid."""
    body = shader[shader.find("fn main") :]
    if "var<workgroup>" in shader or "subgroup" in shader:
        return (False, False, False)
    x, y, z = (f"WORKGROUP_SIZE_{axis.upper()}" in body or f"reserved_gid.{axis}" in body for axis in "xyz")
    return (x, y, z)


@dataclass(frozen=True)
class _Table:
    """A table of a flatbuffer; fields by number. Reading outside the data raises IndexError or ``struct.error``."""

    data: bytes
    at: int

    @staticmethod
    def root(data: bytes, start: int) -> _Table:
        return _Table(data, start + _unpack("<I", data, start))

    def field(self, number: int) -> int:
        """Return where a field stands; 0 where it is left out."""
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

    def _places(self, field: int, form: str) -> range:
        """Return where the entries of a list stand."""
        at = self._target(field)
        count, step = _unpack("<I", self.data, at), struct.calcsize(form)
        if count > MOST_ENTRIES:
            raise IndexError(f"a list of {count}")
        return range(at + 4, at + 4 + step * count, step)

    def tables(self, field: int) -> list[_Table]:
        return [_Table(self.data, place + _unpack("<I", self.data, place)) for place in self._places(field, "<I")]

    def numbers(self, field: int, form: str = "<i") -> list[int]:
        return [_unpack(form, self.data, place) for place in self._places(field, form)]

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
