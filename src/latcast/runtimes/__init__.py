"""The runtimes that networks run in: one module each, all with the interface :class:`latcast.runtimes.protocol.Runtime`.

A phone's runtimes have the same names; a process with a phone's address finds them instead (:mod:`latcast.runtimes.phone`).

Beside the module ``NAME`` of a runtime may stand ``NAME_kernels``, which finds the nodes of each kernel of its profiler, and
``NAME_native``, which calls its native library where the Python package is not enough.
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

    With a phone's address, by default that in :data:`ADDRESS_VARIABLE`, the runtime drives the phone.

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
        RuntimeFailure: It does not know the unit; its ``available`` checks that there is one here.
    """
    if unit == "cpu":
        return runtime
    known = getattr(runtime, "units", ("cpu",))
    if unit not in known:
        raise RuntimeFailure(f"{runtime.name} runs on {', '.join(known)}; not on '{unit}'")
    found: Runtime = runtime.on(unit)  # type: ignore[attr-defined]
    return found


def check_runtime(name: str, address: str = "", unit: str = "cpu") -> None:
    """Raise if a runtime cannot run here, before anything is prepared for it; arguments as in :func:`get_runtime`.

    Raises:
        UnknownNameError: No such runtime.
        RuntimeFailure: It is not installed, or cannot run here; the message says what to do.
    """
    found = get_runtime(name, address)
    reason = (found if address else runtime_on(found, unit)).available()
    if reason is not None:
        raise RuntimeFailure(reason)


__all__ = ["ADDRESS_VARIABLE", "RUNTIMES", "Runtime", "Session", "check_runtime", "get_runtime", "runtime_on"]
