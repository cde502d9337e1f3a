"""Measures one network in a fresh process: the memory that its activations really take, as JSON on standard output.

Run with ``heap_recorder.c`` loaded before the C library. Of the blocks of the heap that live after two runs, those whose content
another run on other inputs changes hold activations; packed weights and tables stay as they are.
"""

from __future__ import annotations

import ctypes
import json
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from latcast.graph.ir import Graph
from latcast.graph.writers.onnx import to_onnx
from latcast.graph.writers.tflite import write_tflite
from latcast.kernels.memory_planners import FIRST_REGION_BYTES
from latcast.networks import read_model
from latcast.runtimes.session import random_inputs

MOST_RECORDS = 262144


class _Record(ctypes.Structure):
    _fields_ = (("size_bytes", ctypes.c_size_t), ("block", ctypes.c_void_p), ("live", ctypes.c_int))


class Heap:
    """Records of the heap recorder."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self.records = (_Record * MOST_RECORDS).in_dll(library, "records")
        self.count = ctypes.c_int.in_dll(library, "count")
        self.recording = ctypes.c_int.in_dll(library, "recording")

    def live(self) -> list[tuple[int, int]]:
        """Return (address, bytes) of live blocks that were allocated while recording."""
        if self.count.value >= MOST_RECORDS:
            raise SystemExit("more blocks than the recorder has room for")
        return [(each.block, each.size_bytes) for each in self.records[: self.count.value] if each.live]


def checksums(blocks: Sequence[tuple[int, int]]) -> list[int]:
    return [zlib.crc32((ctypes.c_char * size).from_address(address)) for address, size in blocks]


Prepared = tuple[int, Callable[[], None], Callable[[int], None]]
"""Bytes of the file; loads what is measured; runs on inputs of a seed."""


def litert(graph: Graph, precision: str) -> Prepared:
    from ai_edge_litert.interpreter import Interpreter

    data = write_tflite(graph, precision=precision).data
    interpreter = Interpreter(model_content=data, num_threads=1)
    details = interpreter.get_input_details()

    def load() -> None:
        interpreter.allocate_tensors()

    def run(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for detail in details:
            dtype = np.dtype(detail["dtype"])
            shape = detail["shape"]
            values = rng.random(shape) if dtype.kind == "f" else rng.integers(0, 2 if dtype.kind == "b" else 100, shape)
            interpreter.set_tensor(detail["index"], values.astype(dtype))
        interpreter.invoke()

    return len(data), load, run


def onnxruntime(graph: Graph, precision: str, *, as_requested: bool) -> Prepared:
    import onnxruntime as native

    data = to_onnx(graph, precision=precision)
    options = native.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    # Weights lie outside the arena.
    options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
    if as_requested:
        kept = {"max_mem": 0, "arena_extend_strategy": 1, "initial_chunk_size_bytes": -1, "max_dead_bytes_per_chunk": -1}
        where = native.OrtMemoryInfo("Cpu", native.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, native.OrtMemType.DEFAULT)
        native.create_and_register_allocator(where, native.OrtArenaCfg(kept))
        options.add_session_config_entry("session.use_env_allocators", "1")
    session = native.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    outputs = [np.zeros(graph.shape(name), graph.tensors[name].dtype) for name in graph.outputs]
    inputs = random_inputs(graph)
    binding = session.io_binding()
    for names, arrays, bind in (
        (graph.inputs, inputs, binding.bind_input), (graph.outputs, outputs, binding.bind_output)
    ):  # fmt: skip
        for name, array in zip(names, arrays, strict=True):
            bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)

    def run(seed: int, kept: object = outputs) -> None:
        rng = np.random.default_rng(seed)
        for array in inputs:
            new = rng.random(array.shape) if array.dtype.kind == "f" else rng.integers(0, 2, array.shape)
            np.copyto(array, new.astype(array.dtype))
        session.run_with_iobinding(binding)

    return len(data), lambda: None, run


RUNTIMES: Mapping[str, Callable[[Graph, str], Prepared]] = {
    "onnxruntime": lambda graph, precision: onnxruntime(graph, precision, as_requested=True),
    "onnxruntime arena": lambda graph, precision: onnxruntime(graph, precision, as_requested=False),
    "litert": litert,
}
"""Measured are ONNX Runtime's plan alone, all regions of its arena, and LiteRT with its default delegate."""


def measured(model: str, runtime: str, precision: str) -> dict[str, int]:
    """Measure bytes of the file and of activations, without the network's inputs and outputs where the caller holds these."""
    graph = read_model(model)
    file_bytes, load, run = RUNTIMES[runtime](graph, precision)
    heap = Heap()
    heap.recording.value = 1
    load()
    for seed in range(3):
        run(seed)
    heap.recording.value = 0
    blocks = heap.live()
    if runtime == "onnxruntime arena":
        return {"file_bytes": file_bytes, "activations_bytes": sum(size for _, size in blocks if size >= FIRST_REGION_BYTES)}
    before = checksums(blocks)
    run(3)
    changed = [size for (_, size), old, new in zip(blocks, before, checksums(blocks), strict=True) if old != new]
    return {"file_bytes": file_bytes, "activations_bytes": sum(changed)}


if __name__ == "__main__":
    print(json.dumps(measured(*sys.argv[1:])))
