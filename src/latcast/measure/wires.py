"""Ways to workers: this machine, another one by ssh, a phone by adb, the workers of a scheduler.

An address is one text: ``ssh://pi@board:2222``, ``adb:SERIAL``, ``dask:tcp://10.0.0.2:8786``; empty is this machine. The part
before its first colon names the wire: a command whose standard input and output lead to a worker (:mod:`latcast.measure.worker`),
so one protocol (:mod:`latcast.measure.messages`) serves all. Dask alone carries whole batches instead
(:mod:`latcast.measure.remote`): its workers come and go, and a batch goes to whichever is free.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from latcast.errors import MeasurementError
from latcast.measure.settings import WorkerSettings
from latcast.registry import Registry
from latcast.runtimes import ADDRESS_VARIABLE

DASK = "dask"
"""Scheme of a scheduler's address."""

WORKER_MODULE = "latcast.measure.worker"

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*(?=:)")
_NAMED = re.compile(r"([a-z0-9][a-z0-9._+-]*)=(.+)")


@dataclass(frozen=True)
class Ending:
    """The reason why a wire's command ended, in a line; ``lost`` where the link broke and may come back."""

    reason: str
    lost: bool = False


class Wire(Protocol):
    """A way to a worker, made from the address of one device."""

    @property
    def far(self) -> bool:
        """True if the worker's machine is another one, which has neither this one's files nor its clock."""

    @property
    def where(self) -> str:
        """The device, as messages call it."""

    def command(self, settings: WorkerSettings) -> Sequence[str]:
        """Return the command to run here so that a worker answers on its standard output.

        Raises:
            MeasurementError: The wire needs something that is not installed here.
        """

    def variables(self, settings: WorkerSettings) -> Mapping[str, str]:
        """Return all environment variables of that command."""

    def adjusted(self, settings: WorkerSettings) -> WorkerSettings:
        """Return the settings as the worker is told them."""

    def ending(self, status: int, printed: str) -> Ending | None:
        """Explain why the command ended, where the connection is the reason; else None.

        Args:
            status: Its exit status, negative for a signal.
            printed: The end of its standard error.
        """


class LocalWire:
    """A worker on this machine."""

    far = False
    where = "this machine"

    def __init__(self, address: str = "") -> None:
        self.address = address

    def command(self, settings: WorkerSettings) -> Sequence[str]:
        return (sys.executable, "-m", WORKER_MODULE)

    def variables(self, settings: WorkerSettings) -> Mapping[str, str]:
        return settings.process_variables()

    def adjusted(self, settings: WorkerSettings) -> WorkerSettings:
        return settings

    def ending(self, status: int, printed: str) -> Ending | None:
        return None


class AdbWire(LocalWire):
    """A worker on this machine whose runtimes drive a phone by ``adb`` (:mod:`latcast.runtimes.phone`).

    The state of this machine does not change the phone's speed, so there is no probe, no pinning and no priority here.
    """

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.serial = address.removeprefix("adb:")
        self.where = self.serial
        if not self.serial:
            raise MeasurementError("'adb:' names no phone; adb devices lists their serials: adb:SERIAL")

    def variables(self, settings: WorkerSettings) -> Mapping[str, str]:
        return {**super().variables(settings), ADDRESS_VARIABLE: self.address}

    def adjusted(self, settings: WorkerSettings) -> WorkerSettings:
        return replace(settings, cpus=(), realtime=False, probe=False)


WIRES: Registry[Callable[[str], Wire]] = Registry(
    "wire",
    {"ssh": "latcast.measure.ssh:SshWire", "adb": "latcast.measure.wires:AdbWire"},
    group="latcast.wires",
)


def wire_of(address: str) -> Wire:
    """Return the wire to an address.

    Raises:
        UnknownNameError: No wire has the address's beginning.
        MeasurementError: The address is malformed.
    """
    return WIRES.get(scheme_of(address))(address) if address else LocalWire()


def runs_here(address: str) -> bool:
    """Return whether the worker of an address runs on this machine."""
    return scheme_of(address) != DASK and not wire_of(address).far


def scheme_of(address: str) -> str:
    """Return the scheme of an address; empty where the text is not an address."""
    found = _SCHEME.match(address)
    return found.group() if found else ""


def device_and_address(text: str) -> tuple[str, str]:
    """Return the device's name and its address, from a name for this machine, an address, or ``NAME=ADDRESS``.

    The name is ``local`` where the device is to name itself, the address empty for this machine. With a scheduler the name stands
    last, as its workers give it: ``dask:tcp://10.0.0.2:8786/board-a``.

    Raises:
        MeasurementError: The address is malformed, or of no known wire.
    """
    named = _NAMED.fullmatch(text)
    name, address = (named.group(1), named.group(2)) if named else ("", text)
    scheme = scheme_of(address)
    if not scheme:
        if address in WIRES or address == DASK:
            raise MeasurementError(f"'{text}' does not say which device; expected ssh://pi@board, adb:SERIAL (adb devices lists "
                                   "serials) or dask:tcp://HOST:8786/NAME")  # fmt: skip
        if named or not re.fullmatch(r"[a-z0-9][a-z0-9._+-]*", text):
            raise MeasurementError(
                f"'{text}' is neither a device's name (a-z, 0-9, ._+-) nor an address such as ssh://pi@board, adb:SERIAL or "
                "dask:tcp://HOST:8786/NAME"
            )
        return text, ""
    if scheme == DASK:
        address, _, last = address.rpartition("/")
        if "://" not in address:
            raise MeasurementError(
                f"'{text}' does not name a worker of a scheduler; expected dask:tcp://HOST:PORT/NAME with the name that "
                "latcast worker --device gave"
            )
        return name or last, address
    if scheme not in WIRES:
        known = ", ".join(f"{each}:" for each in sorted([*WIRES.names(), DASK]))
        raise MeasurementError(f"nothing reaches '{text}': an address begins with one of {known}")
    wire_of(address)
    return name or "local", address
