"""Where networks really run: one module a runtime, all behind :class:`latcast.runtimes.protocol.Runtime`.

A phone's runtimes have the names of those here and are found instead of them in a process that is told the phone's address
(:mod:`latcast.runtimes.phone`).

Beside the module ``NAME`` of a runtime may stand ``NAME_kernels``, which reads its profiler: which nodes of the graph each kernel
computes; and ``NAME_native``, which calls its native library where the Python package does not do.
"""

import os

from latcast.errors import RuntimeFailure
from latcast.registry import Registry
from latcast.runtimes.protocol import Runtime, Session

ADDRESS_VARIABLE = "LATCAST_DEVICE"
"""Environment variable with the address of the phone that this process's runtimes drive: ``adb:SERIAL``."""

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


def get_runtime(name: str, address: str = "") -> Runtime:
    """Return an instance of the runtime of this name.

    Args:
        name: As in platform ids.
        address: Of the phone that it drives; the one that :data:`ADDRESS_VARIABLE` names by default, or else none.

    Raises:
        UnknownNameError: No such runtime.
        RuntimeFailure: It does not run on a phone.
    """
    address = address or os.environ.get(ADDRESS_VARIABLE, "")
    if not address:
        return RUNTIMES.get(name)()
    from latcast.runtimes.phone import phone_runtime

    return phone_runtime(name, address)


def runtime_on(runtime: Runtime, unit: str) -> Runtime:
    """Return a runtime on a kind of unit, ``cpu``, ``gpu`` or ``npu``.

    Raises:
        RuntimeFailure: It knows no such unit; whether there is one here its ``available`` says.
    """
    if unit == "cpu":
        return runtime
    known = getattr(runtime, "units", ("cpu",))
    if unit not in known:
        raise RuntimeFailure(f"{runtime.name} runs on {', '.join(known)}; not on '{unit}'")
    found: Runtime = runtime.on(unit)  # type: ignore[attr-defined]
    return found


def check_runtime(name: str, address: str = "", unit: str = "cpu") -> None:
    """Refuse a runtime that cannot run here, before anything is prepared for it; arguments as in :func:`get_runtime`.

    Raises:
        UnknownNameError: No such runtime.
        RuntimeFailure: It is not installed, or cannot run here; the message says how to mend it.
    """
    found = get_runtime(name, address)
    reason = (found if address else runtime_on(found, unit)).available()
    if reason is not None:
        raise RuntimeFailure(reason)


__all__ = ["ADDRESS_VARIABLE", "RUNTIMES", "Runtime", "Session", "check_runtime", "get_runtime", "runtime_on"]
