"""The part of TFLite's schema that the writer chooses from: element types, builtin operators and their versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from latcast.errors import ModelError
from latcast.reading import read_json


class TensorType(IntEnum):
    """Element types."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT32 = 2
    UINT8 = 3
    INT64 = 4
    BOOL = 6
    INT8 = 9


class Padding(IntEnum):
    """Padding of windows at borders."""

    SAME = 0
    VALID = 1


class Activation(IntEnum):
    """Activations that an operator can carry itself."""

    NONE = 0
    RELU = 1
    RELU_N1_TO_1 = 2
    RELU6 = 3


@dataclass(frozen=True, slots=True)
class Builtin:
    """A builtin operator: the schema's table of its options, and the version that files carry in fp32 and in int8."""

    options: str = ""
    version: int = 1
    int8_version: int = 2


BUILTINS: Mapping[str, Builtin] = {
    name: Builtin(*fields) for name, fields in read_json(Path(__file__).with_name("builtins.json"), error=ModelError).items()
}
"""Builtin operators by their name in the schema."""
