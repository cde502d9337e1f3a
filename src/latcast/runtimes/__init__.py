"""Where networks really run: one module a runtime, all behind :class:`latcast.runtimes.protocol.Runtime`.

Beside the module ``NAME`` of a runtime may stand ``NAME_kernels``, which reads its profiler: which nodes of the graph each kernel
computes; and ``NAME_native``, which calls its native library where the Python package does not do.
"""

from latcast.errors import RuntimeFailure
from latcast.registry import Registry
from latcast.runtimes.protocol import Runtime, Session

RUNTIMES: Registry[type[Runtime]] = Registry(
    "runtime",
    {
        "onnxruntime": "latcast.runtimes.onnxruntime:OnnxRuntime",
        "openvino": "latcast.runtimes.openvino:OpenVino",
        "litert": "latcast.runtimes.litert:LiteRt",
        "ncnn": "latcast.runtimes.ncnn:Ncnn",
        "mnn": "latcast.runtimes.mnn:Mnn",
    },
    group="latcast.runtimes",
)


def get_runtime(name: str) -> Runtime:
    """An instance of the runtime of this name.

    Raises:
        UnknownNameError: No such runtime.
    """
    return RUNTIMES.get(name)()


def check_runtime(name: str) -> None:
    """Refuses a runtime that cannot run here, before anything is prepared for it.

    Raises:
        UnknownNameError: No such runtime.
        RuntimeFailure: It is not installed, or cannot run here; the message says how to mend it.
    """
    reason = get_runtime(name).available()
    if reason is not None:
        raise RuntimeFailure(reason)


__all__ = ["RUNTIMES", "Runtime", "Session", "check_runtime", "get_runtime"]
