"""Where networks really run: one module a runtime, all behind :class:`latcast.runtimes.protocol.Runtime`."""

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


__all__ = ["RUNTIMES", "Runtime", "Session", "get_runtime"]
