"""The networks that a new device runs, agreed on by all, so that its latencies compare (Ganesan et al., §III).

Ten small published networks of eight families, so that a phone fetches and runs them in minutes. How ten are chosen matters
little for what can be predicted from them; that all devices run the same ones matters.
"""

from __future__ import annotations

import gzip
import os
from functools import cache
from pathlib import Path

import numpy as np

from latcast.folders import cache_folder
from latcast.records import Reference

SIGNATURE = (
    "mobilenet_v1_0_25", "shufflenet_v2_x0_5", "mobilenet_v3_small", "mobilenet_v2_0_5", "mnasnet0_5", "ghostnet_x0_5",
    "mobilenet_v1_0_5", "squeezenet1_1", "shufflenet_v2_x1_0", "mobilevit_xxs",
)  # fmt: skip
"""The quickest first, so that a device shows something soon."""

CHECK = ("mobilenet_v2_0_75", "squeezenet1_0", "mobilenet_v3_large", "ghostnet_x1_0", "efficientnet_b0")
"""What a device may run too, to check predictions by; not part of a signature."""

KEPT_MANTISSA_BITS = 3
"""Of the made-up weights of networks that browsers fetch: noise cannot be compressed, and latency does not depend on it."""

_WEIGHTS_VERSION = 1


@cache
def networks(names: tuple[str, ...] = SIGNATURE) -> dict[str, Reference]:
    """References of published networks, by key, in order."""
    from latcast.spaces.catalogue import model

    return {reference.key: reference for reference in map(model, names)}


def served_networks() -> dict[str, Reference]:
    """What browsers may fetch as ONNX files, by key."""
    return networks(SIGNATURE + CHECK)


def onnx_file(reference: Reference) -> Path:
    """The compressed ONNX file of a network, written to the user's cache where it is not there yet.

    Raises:
        LatcastError: The network cannot be built or written.
    """
    folder = cache_folder() / "repository" / f"onnx-{_WEIGHTS_VERSION}"
    file = folder / f"{reference.key}.onnx.gz"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{reference.key}.{os.getpid()}.part"
        draft.write_bytes(gzip.compress(onnx_bytes(reference), compresslevel=6, mtime=0))
        draft.replace(file)
    return file


def onnx_bytes(reference: Reference) -> bytes:
    """A network as an ONNX file whose weights compress well.

    Raises:
        LatcastError: The network cannot be built or written.
    """
    import onnx
    from onnx import numpy_helper

    from latcast.graph.writers.onnx import to_onnx
    from latcast.spaces.catalogue import build

    model = onnx.load_from_string(to_onnx(build(reference)))
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype == np.float32 and values.size > 1:
            tensor.CopyFrom(numpy_helper.from_array(_rounded(values), tensor.name))
    return model.SerializeToString()


def _rounded(values: np.ndarray) -> np.ndarray:
    """float32 values with the lower bits of their mantissas cleared."""
    bits = np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFFFFFF << (23 - KEPT_MANTISSA_BITS) & 0xFFFFFFFF)
    return bits.view(np.float32)
