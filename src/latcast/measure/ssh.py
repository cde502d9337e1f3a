"""Workers on another machine, through OpenSSH's own client: keys, host keys and jump hosts are as ``ssh`` has them.

A device is ``ssh://[user@]host[:port]``, with ``?python=PATH`` where the Python to use is not the one of the environment that
``latcast device prepare`` made there. The client is the command ``ssh``, or what ``LATCAST_SSH`` holds: ``ssh -F other_config``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from latcast.errors import MeasurementError
from latcast.measure.settings import WorkerSettings
from latcast.measure.wires import WORKER_MODULE, Ending

COMMAND_VARIABLE = "LATCAST_SSH"

CONNECT_TIMEOUT_S = 15

ALIVE_INTERVAL_S, ALIVE_COUNT = 5, 3
"""A link that was cut without a word is noticed after their product."""

ENVIRONMENT = ".local/share/latcast/device"
"""Where, below the user's home, the environment is that ``latcast device prepare`` makes."""

NO_PYTHON, NO_LATCAST = 94, 95
"""Exit statuses of the script that starts the worker."""

_SSH_ITSELF = 255
"""The status by which ssh tells of its own failures."""


@dataclass(frozen=True)
class SshHost:
    """A machine that ssh reaches.

    Attributes:
        address: As the user gave it.
        target: ``user@host``, as ssh takes it.
        port: Empty where ssh's configuration says.
        python: The interpreter there; empty for the environment that was prepared, or the one on its path.
    """

    address: str
    target: str
    port: str = ""
    python: str = ""

    @classmethod
    def parse(cls, address: str) -> SshHost:
        """Reads ``ssh://[user@]host[:port][?python=PATH]``.

        Raises:
            MeasurementError: It is not of this form.
        """
        expected = "expected ssh://user@host, ssh://user@host:port or ssh://user@host?python=PATH"
        try:
            parts = urlsplit(address)
            port, host, user = parts.port, parts.hostname, parts.username
        except ValueError as problem:
            raise MeasurementError(f"'{address}' is no address of a device: {problem}; {expected}") from problem
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        python = options.pop("python", "")
        if parts.scheme != "ssh" or not host or parts.path not in ("", "/") or parts.fragment or options:
            raise MeasurementError(f"'{address}' is no address of a device; {expected}")
        if parts.password is not None:
            raise MeasurementError(f"an address holds no password; let ssh log in to {host} with a key: ssh-copy-id {host}")
        name = unquote(user) if user else ""
        # What begins with a dash would be an option of ssh.
        if host.startswith("-") or name.startswith("-") or re.search(r"[\s'\"\\$`;&|<>()\x00-\x1f]", name + host):
            raise MeasurementError(f"'{address}' is no address of a device; {expected}")
        return cls(address, f"{name}@{host}" if name else host, str(port) if port else "", python)

    def client(self) -> list[str]:
        """The command that runs another one there, without that one.

        Raises:
            MeasurementError: There is no ssh client here.
        """
        command = shlex.split(os.environ.get(COMMAND_VARIABLE, "")) or ["ssh"]
        if shutil.which(command[0]) is None:
            raise MeasurementError(f"found no command '{command[0]}' to reach {self.target}; install OpenSSH's client")
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": CONNECT_TIMEOUT_S,
            "ServerAliveInterval": ALIVE_INTERVAL_S,
            "ServerAliveCountMax": ALIVE_COUNT,
        }
        return [
            *command,
            "-T",
            *(part for name, value in options.items() for part in ("-o", f"{name}={value}")),
            *(("-p", self.port) if self.port else ()),
            "--",
            self.target,
        ]

    def script(self, arguments: Sequence[str], variables: Mapping[str, str], module: str = "") -> str:
        """What the shell there runs: its Python with these arguments.

        Args:
            arguments: Of the interpreter.
            variables: Of its environment.
            module: What that Python must be able to import, or the status is :data:`NO_LATCAST`.
        """
        candidates = [shlex.quote(self.python)] if self.python else [f'"$HOME/{ENVIRONMENT}/bin/python"', "python3", "python"]
        exported = "".join(f"export {name}={shlex.quote(value)}; " for name, value in variables.items())
        wanted = f'"$p" -c "import {module}" 2>/dev/null && ' if module else ""
        return _in_posix_shell(
            f"{exported}s={NO_PYTHON}; for p in {' '.join(candidates)}; do "
            f'if command -v "$p" >/dev/null 2>&1; then s={NO_LATCAST}; {wanted}'
            f'{{ "$p" {" ".join(map(shlex.quote, arguments))}; exit $?; }}; fi; done; exit $s'
        )

    def ending(self, status: int, printed: str) -> Ending | None:
        """Why a command that :meth:`client` begins has ended, where the way to the device is the reason."""
        prepare = f"latcast device prepare {self.address}"
        if status == NO_PYTHON:
            return Ending(
                f"{self.target} has no Python"
                + (f" at {self.python}" if self.python else "; install one there: apt install python3 python3-venv")
            )
        if status == NO_LATCAST:
            return Ending(f"{self.target} has no latcast; put it there with: {prepare}")
        if status < 0:
            return Ending(f"the ssh client to {self.target} was killed", lost=True)
        if status != _SSH_ITSELF:
            return None
        port = f"-p {self.port} " if self.port else ""
        if "has changed and you have requested strict checking" in printed:
            return Ending(
                f"the host key of {self.target} is not the known one: it was installed anew, or is another machine; "
                "if that is as it should be, forget the old one with ssh-keygen -R"
            )
        if "Host key verification failed" in printed:
            return Ending(
                f"the host key of {self.target} is not known yet; look at it and accept it with: ssh {port}{self.target} true"
            )
        if "Permission denied" in printed or "Too many authentication failures" in printed:
            return Ending(
                f"{self.target} refuses the login: permission denied; give it a key of yours: ssh-copy-id {port}{self.target}"
            )
        if "Could not resolve hostname" in printed:
            return Ending(f"no host is called '{self.target.rpartition('@')[2]}'")
        said = printed.rpartition("ssh: ")[2] if "ssh: " in printed else printed
        return Ending(f"lost {self.target}" + (f": {said}" if said else ": the connection was closed"), lost=True)


def _in_posix_shell(script: str) -> str:
    """A command for whatever shell the user there has."""
    return f"exec sh -c {shlex.quote(script)}"


class SshWire:
    """A worker on a machine that ssh reaches."""

    far = True

    def __init__(self, address: str) -> None:
        self.host = SshHost.parse(address)
        self.where = self.host.target

    def command(self, settings: WorkerSettings) -> Sequence[str]:
        script = self.host.script(["-m", WORKER_MODULE], settings.own_variables(), module=WORKER_MODULE.partition(".")[0])
        return [*self.host.client(), script]

    def variables(self, settings: WorkerSettings) -> Mapping[str, str]:
        return os.environ

    def adjusted(self, settings: WorkerSettings) -> WorkerSettings:
        return settings

    def ending(self, status: int, printed: str) -> Ending | None:
        return self.host.ending(status, printed)
