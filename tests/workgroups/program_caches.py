"""A program cache as LiteRT writes it, of one partition with three kernels; built with the flatbuffers package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import flatbuffers

HEADER = 1024
"""Bytes before the partition; LiteRT leaves 65,536."""

CONV_SHADER = """@id(0) override WORKGROUP_SIZE_X: i32;
@id(1) override WORKGROUP_SIZE_Y: i32;
@id(2) override WORKGROUP_SIZE_Z: i32;
@compute @workgroup_size(WORKGROUP_SIZE_X, WORKGROUP_SIZE_Y, WORKGROUP_SIZE_Z)
fn main(@builtin(local_invocation_id) reserved_lid : vec3<u32>, @builtin(workgroup_id) reserved_group_id : vec3<u32>) {
  var DST_X : i32= i32(reserved_group_id.y) * WORKGROUP_SIZE_X + i32(reserved_lid.x);
  var DST_Y : i32= i32(reserved_group_id.z) * WORKGROUP_SIZE_Y + i32(reserved_lid.y);
  var DST_S : i32= i32(reserved_group_id.x);
}"""
"""Asks for its size along x and y; along z it takes one item for granted."""

DEPTHWISE_SHADER = """@compute @workgroup_size(WORKGROUP_SIZE_X, WORKGROUP_SIZE_Y, WORKGROUP_SIZE_Z)
fn main(@builtin(global_invocation_id) reserved_gid : vec3<u32>) {
  var at : vec3<i32>= vec3<i32>(i32(reserved_gid.x), i32(reserved_gid.y), i32(reserved_gid.z));
}"""

SHARING_SHADER = """var<workgroup> temp : array<vec4<f32>, 32>;
@compute @workgroup_size(WORKGROUP_SIZE_X, WORKGROUP_SIZE_Y, WORKGROUP_SIZE_Z)
fn main(@builtin(global_invocation_id) reserved_gid : vec3<u32>) { temp[reserved_gid.x * WORKGROUP_SIZE_X] = vec4<f32>(0.); }"""


@dataclass(frozen=True)
class Made:
    """A kernel; shapes are (height, width, channels)."""

    name: str
    shader: str
    grid: tuple[int, int, int]
    size: tuple[int, int, int]
    input: tuple[int, int, int]
    output: tuple[int, int, int]


CONV = Made("convolution3x3(conv_generic) -> relu", CONV_SHADER, (56, 28, 8), (8, 4, 1), (56, 56, 64), (56, 56, 64))
DEPTHWISE = Made("depthwise_conv3x3 -> relu", DEPTHWISE_SHADER, (28, 14, 16), (16, 1, 4), (56, 56, 64), (28, 28, 64))
DENSE = Made("fully_connected", SHARING_SHADER, (250, 8, 1), (4, 8, 1), (1, 1, 64), (1, 1, 1000))


def program_cache(kernels: Sequence[Made] = (CONV, DEPTHWISE, DENSE), device: str = "a gpu") -> bytes:
    """The file."""
    partition = _partition(kernels, device)
    b = flatbuffers.Builder(256)
    entry = _table(b, {0: ("Uint64", 7), 1: ("Uint64", HEADER), 2: ("Uint64", len(partition))})
    b.Finish(_table(b, {0: ("UOffsetTRelative", _vector(b, [entry]))}))
    head = bytes(b.Output())
    return head + bytes(HEADER - len(head)) + partition


def _partition(kernels: Sequence[Made], device: str) -> bytes:
    b = flatbuffers.Builder(4096)
    shaders = list(dict.fromkeys(kernel.shader for kernel in kernels))
    nodes, tensors = [], []
    for number, kernel in enumerate(kernels):
        operation = _table(
            b,
            {2: ("UOffsetTRelative", _int3(b, kernel.size)), 9: ("UOffsetTRelative", _int3(b, kernel.grid))},
        )
        name = b.CreateString(kernel.name)
        inputs, outputs = _ints(b, [2 * number]), _ints(b, [2 * number + 1])
        fields = {0: operation, 1: inputs, 2: outputs, 3: name}
        nodes.append(_table(b, {field: ("UOffsetTRelative", value) for field, value in fields.items()}))
        tensors += [_tensor(b, 2 * number, kernel.input), _tensor(b, 2 * number + 1, kernel.output)]
    model = _table(b, {0: ("UOffsetTRelative", _vector(b, nodes)), 1: ("UOffsetTRelative", _vector(b, tensors))})
    sizes = _vector(b, [_int3(b, kernel.size) for kernel in kernels])
    programs = []
    for number, shader in enumerate(shaders):
        code = b.CreateString(shader)
        programs.append(_table(b, {0: ("UOffsetTRelative", code), 1: ("Uint64", 100 + number)}))
    listed = _vector(b, programs)
    b.StartVector(8, len(kernels), 8)
    for kernel in reversed(kernels):
        b.PrependUint64(100 + shaders.index(kernel.shader))
    runs = b.EndVector()
    fields = {0: model, 1: sizes, 2: listed, 3: runs, 4: b.CreateString(device)}
    b.Finish(_table(b, {field: ("UOffsetTRelative", value) for field, value in fields.items()}))
    return bytes(b.Output())


def _tensor(b: flatbuffers.Builder, number: int, shape: tuple[int, int, int]) -> int:
    height, width, channels = shape
    sizes = _table(b, {at: ("Int32", value) for at, value in enumerate((1, height, width, 1, channels))})
    description = _table(b, {4: ("UOffsetTRelative", sizes)})
    return _table(b, {0: ("UOffsetTRelative", description), 1: ("Int32", number)})


def _int3(b: flatbuffers.Builder, values: Sequence[int]) -> int:
    return _table(b, {at: ("Int32", value) for at, value in enumerate(values)})


def _table(b: flatbuffers.Builder, fields: dict[int, tuple[str, int]]) -> int:
    b.StartObject(max(fields) + 1)
    for field, (kind, value) in fields.items():
        getattr(b, f"Prepend{kind}Slot")(field, value, 0)
    return int(b.EndObject())


def _vector(b: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return int(b.EndVector())


def _ints(b: flatbuffers.Builder, values: Sequence[int]) -> int:
    b.StartVector(4, len(values), 4)
    for value in reversed(values):
        b.PrependInt32(value)
    return int(b.EndVector())
