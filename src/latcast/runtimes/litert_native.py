"""LiteRT's C API through ctypes: the only way from Python to its profiler, and to the GPU delegate's program cache.

The structures below are those of a few versions of the library and change without notice, so every other version is refused
before anything is called. Running a network does not need this module (:mod:`latcast.runtimes.litert`).
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import RuntimeFailure
from latcast.runtimes.session import prints_kept

TESTED_VERSIONS = ("2.1.6", "2.2.0", "2.3.0")
"""Versions of ai-edge-litert with the C structures below; even patch releases differ."""

_CPU, _GPU = 1, 2
_LOCK_FOR_READING, _LOCK_FOR_WRITING = 0, 1
_FP32 = 2
_OPTION_ACCELERATORS, _OPTION_MINIMUM_SEVERITY = 24, 25
_ANY_INTEGER = 2
_SEVERITY_ERROR = 3
_OPERATOR_EVENT = 2
_DELEGATE_EVENT = 8

GPU_LIBRARY = "libLiteRtWebGpuAccelerator.so"
"""The wheel's GPU delegate; it runs on WebGPU, and so on a Vulkan driver."""

_Pointer = ctypes.c_void_p


class _Layout(ctypes.Structure):
    _fields_ = (
        ("rank", ctypes.c_uint32, 7),
        ("has_strides", ctypes.c_uint32, 1),
        ("dimensions", ctypes.c_int32 * 8),
        ("strides", ctypes.c_uint32 * 8),
    )


class _TensorType(ctypes.Structure):
    _fields_ = (("element_type", ctypes.c_int), ("layout", _Layout))


class _Any(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("value", ctypes.c_int64))


class _EnvironmentOption(ctypes.Structure):
    _fields_ = (("tag", ctypes.c_int), ("value", _Any))


class _Event(ctypes.Structure):
    _fields_ = (
        ("tag", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("start_us", ctypes.c_uint64),
        ("elapsed_us", ctypes.c_uint64),
        ("memory_before", ctypes.c_int64 * 3),
        ("memory_after", ctypes.c_int64 * 3),
        ("index", ctypes.c_int64),
        ("extra", ctypes.c_int64),
        ("source", ctypes.c_int),
    )


@dataclass(frozen=True, slots=True)
class ProfiledEvent:
    """One kernel in one run.

    Attributes:
        tag: The delegate's name for it, or the builtin operator's.
        delegated: Whether it ran inside XNNPACK.
        index: Index of the operator in the file; inside XNNPACK that of the kernel in its partition.
        elapsed_us: Whole microseconds. XNNPACK truncates; LiteRT subtracts two truncated readings.
    """

    tag: str
    delegated: bool
    index: int
    elapsed_us: int


def check_version() -> None:
    """Raise a RuntimeFailure unless the structures above are the installed library's."""
    found = installed_version("ai-edge-litert")
    if found not in TESTED_VERSIONS:
        raise RuntimeFailure(
            f"ai-edge-litert {found} is installed; its kernels can be read from the versions {', '.join(TESTED_VERSIONS)} only, "
            "because the profiler's binary interface changes. Install one of these, or load without profile=True"
        )
    if not _library_path().is_file():
        raise RuntimeFailure(
            f"ai-edge-litert {found} has no '{_library_path().name}' here, so that the kernels cannot be read; "
            "load without profile=True"
        )


def _library_path() -> Path:
    spec = find_spec("ai_edge_litert")
    folder = Path(str(spec.origin)).parent if spec is not None else Path()
    return folder / "libLiteRt.so"


def gpu_library() -> Path:
    """Return the path of the GPU delegate, which wheels for some systems lack."""
    return _library_path().with_name(GPU_LIBRARY)


@cache
def _library() -> Any:
    return ctypes.CDLL(str(_library_path()))


def _call(function: str, *arguments: Any) -> None:
    status = getattr(_library(), function)(*arguments)
    if status != 0:
        raise RuntimeFailure(f"LiteRT's {function} failed with status {status}")


@cache
def _environment(accelerator: int) -> _Pointer:
    """Make the process's one environment for an accelerator; only errors are logged."""
    if accelerator == _GPU:
        # It is looked up by its bare name, under which it is found once it is loaded.
        ctypes.CDLL(str(gpu_library()), mode=ctypes.RTLD_GLOBAL)
    wanted = ((_OPTION_ACCELERATORS, accelerator), (_OPTION_MINIMUM_SEVERITY, _SEVERITY_ERROR))
    options = (_EnvironmentOption * len(wanted))(*(_EnvironmentOption(tag, _Any(_ANY_INTEGER, value)) for tag, value in wanted))
    environment = _Pointer()
    _call("LiteRtCreateEnvironment", ctypes.c_int(len(wanted)), options, ctypes.byref(environment))
    return environment


class LoadedModel:
    """A network loaded through the C API.

    Args:
        data: The ``.tflite`` file.
        accelerator: 1 for the CPU, 2 for the GPU.
        options: Identifier to options as TOML.

    Raises:
        RuntimeFailure: Another version of LiteRT, or it refused the network.
    """

    def __init__(self, data: bytes, accelerator: int, options: Mapping[str, str]) -> None:
        check_version()
        self._data = data
        self._handles: list[tuple[str, _Pointer]] = []
        try:
            self._load(_environment(accelerator), accelerator, options)
        except RuntimeFailure:
            self.close()
            raise

    def _load(self, environment: _Pointer, accelerator: int, texts: Mapping[str, str]) -> None:
        model = self._made("Model", "LiteRtCreateModelFromBuffer", environment, ctypes.c_char_p(self._data),
                           ctypes.c_size_t(len(self._data)))  # fmt: skip
        options = self._made("Options", "LiteRtCreateOptions")
        _call("LiteRtSetOptionsHardwareAccelerators", options, ctypes.c_int(accelerator))
        for identifier, text in texts.items():
            c = ctypes.CDLL(None)  # the library frees the text with the C function that it is given
            c.strdup.restype = ctypes.c_void_p
            opaque = _Pointer()
            payload = _Pointer(c.strdup(ctypes.c_char_p(text.encode())))
            _call("LiteRtCreateOpaqueOptions", ctypes.c_char_p(identifier.encode()), payload, c.free, ctypes.byref(opaque))
            _call("LiteRtAddOpaqueOptions", options, opaque)
        self._compiled = self._made("CompiledModel", "LiteRtCreateCompiledModel", environment, model, options)
        signature = _Pointer()
        _call("LiteRtGetModelSignature", model, ctypes.c_size_t(0), ctypes.byref(signature))
        self._inputs = self._buffers(environment, signature, "Input")
        self._outputs = self._buffers(environment, signature, "Output")

    def _made(self, kind: str, function: str, *arguments: Any) -> _Pointer:
        """Call a constructor, whose last argument takes the handle, and keep the handle for :meth:`close`."""
        handle = _Pointer()
        _call(function, *arguments, ctypes.byref(handle))
        self._handles.append((kind, handle))
        return handle

    def _buffers(self, environment: _Pointer, signature: _Pointer, side: str) -> Any:
        """Return memory for all inputs or all outputs, as the compiled model asks for it."""
        count = ctypes.c_size_t()
        _call(f"LiteRtGetNumSignature{side}s", signature, ctypes.byref(count))
        buffers = (_Pointer * count.value)()
        for index in range(count.value):
            tensor, kind, requirements = _Pointer(), _TensorType(), _Pointer()
            at = ctypes.c_size_t(index)
            _call(f"LiteRtGetSignature{side}TensorByIndex", signature, at, ctypes.byref(tensor))
            _call("LiteRtGetRankedTensorType", tensor, ctypes.byref(kind))
            _call(f"LiteRtGetCompiledModel{side}BufferRequirements", self._compiled, ctypes.c_size_t(0), at,
                  ctypes.byref(requirements))  # fmt: skip
            buffers[index] = self._made("TensorBuffer", "LiteRtCreateManagedTensorBufferFromRequirements",
                                        environment, ctypes.byref(kind), requirements)  # fmt: skip
        return buffers

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        """Copy arrays, laid out as in the file, into the input buffers."""
        for buffer, array in zip(self._inputs, inputs, strict=True):
            handle, address, size = _Pointer(buffer), _Pointer(), ctypes.c_size_t()
            _call("LiteRtGetTensorBufferPackedSize", handle, ctypes.byref(size))
            if size.value != array.nbytes:
                raise RuntimeFailure(f"LiteRT's input buffer holds {size.value} bytes, the input {array.nbytes}")
            _call("LiteRtLockTensorBuffer", handle, ctypes.byref(address), ctypes.c_int(_LOCK_FOR_WRITING))
            ctypes.memmove(address, np.ascontiguousarray(array).ctypes.data, array.nbytes)
            _call("LiteRtUnlockTensorBuffer", handle)

    def run(self) -> None:
        _call("LiteRtRunCompiledModel", self._compiled, ctypes.c_size_t(0), ctypes.c_size_t(len(self._inputs)), self._inputs,
              ctypes.c_size_t(len(self._outputs)), self._outputs)  # fmt: skip

    def close(self) -> None:
        """Free everything in the reverse order; safe to call again."""
        while self._handles:
            kind, handle = self._handles.pop()
            getattr(_library(), f"LiteRtDestroy{kind}")(handle)


class NativeModel(LoadedModel):
    """A network on the CPU with its profiler attached."""

    def __init__(self, data: bytes, *, threads: int) -> None:
        options = {"xnnpack": f"num_threads = {threads}\n", "runtime_options_string": "enable_profiling = true\n"}
        super().__init__(data, _CPU, options)
        self._profiler = _Pointer()
        _call("LiteRtCompiledModelGetProfiler", self._compiled, ctypes.byref(self._profiler))

    def profiled_run(self) -> tuple[ProfiledEvent, ...]:
        """Run once; return the executed kernels, in order."""
        # One run at a time: the profiler's memory is a ring that a long recording would overwrite.
        _call("LiteRtStartProfiler", self._profiler)
        try:
            self.run()
        finally:
            _call("LiteRtStopProfiler", self._profiler)
        count = ctypes.c_int()
        _call("LiteRtGetNumProfilerEvents", self._profiler, ctypes.byref(count))
        events = (_Event * count.value)()
        _call("LiteRtGetProfilerEvents", self._profiler, count, events)
        return tuple(
            ProfiledEvent(event.tag.decode(), event.type == _DELEGATE_EVENT, int(event.index), int(event.elapsed_us))
            for event in events
            if event.type in (_OPERATOR_EVENT, _DELEGATE_EVENT)
        )


def return_threads_to_own_cpus() -> None:
    """Put all threads of this process on the CPUs that it may use: SwiftShader binds its own to the machine's first CPUs."""
    threads = Path("/proc/self/task")
    if threads.is_dir() and hasattr(os, "sched_setaffinity"):
        for thread in threads.iterdir():
            with suppress(OSError):  # it has ended
                os.sched_setaffinity(int(thread.name), os.sched_getaffinity(0))


class GpuModel(LoadedModel):
    """A network on the GPU in fp32, from its program cache in a folder under a key, which LiteRT writes where missing."""

    def __init__(self, data: bytes, folder: Path, key: str) -> None:
        if not gpu_library().is_file():
            raise RuntimeFailure(f"this ai-edge-litert has no {GPU_LIBRARY}, its GPU delegate; there is one for Linux on x86_64")
        options = {"precision": str(_FP32), "serialization_dir": json.dumps(str(folder)), "model_cache_key": json.dumps(key)}
        text = "".join(f"{name} = {value}\n" for name, value in (options | {"serialize_program_cache": "true"}).items())
        with prints_kept() as printed:
            try:
                super().__init__(data, _GPU, {"gpu_options": text})
            except RuntimeFailure as problem:
                told = [line for line in printed().splitlines() if "ERROR" in line or "adapters" in line]
                raise RuntimeFailure(f"{problem} on the GPU: {told[0] if told else 'no reason given'}") from problem
        return_threads_to_own_cpus()

    def outputs(self) -> list[np.ndarray]:
        """Return the outputs of the last run, each flat, float32."""
        found = []
        for buffer in self._outputs:
            handle, address, size = _Pointer(buffer), _Pointer(), ctypes.c_size_t()
            _call("LiteRtGetTensorBufferPackedSize", handle, ctypes.byref(size))
            _call("LiteRtLockTensorBuffer", handle, ctypes.byref(address), ctypes.c_int(_LOCK_FOR_READING))
            found.append(np.frombuffer(ctypes.string_at(address, size.value), np.float32))
            _call("LiteRtUnlockTensorBuffer", handle)
        return found
