"""Workers on another machine, through OpenSSH's own client: keys, host keys and jump hosts are as ``ssh`` has them.

A device is ``ssh://[user@]host[:port]``, with ``?python=PATH`` where the Python to use is not the one of the environment that
``latcast device prepare`` made there. The client is the command ``ssh``, or what ``LATCAST_SSH`` holds: ``ssh -F other_config``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from latcast.errors import MeasurementError, RuntimeFailure
from latcast.measure.messages import SILENCE_STATUS
from latcast.measure.settings import WorkerSettings
from latcast.measure.wires import WORKER_MODULE, Ending

COMMAND_VARIABLE = "LATCAST_SSH"

CONNECT_TIMEOUT_S = 15

ALIVE_INTERVAL_S, ALIVE_COUNT = 5, 3
"""A cut link is noticed after their product."""

ENVIRONMENT = ".local/share/latcast/device"
"""Place, below the user's home, of the environment that ``latcast device prepare`` makes."""

NO_PYTHON, NO_LATCAST = 94, 95
"""Exit statuses of the script that starts the worker."""

_SSH_ITSELF = 255
"""Exit status of ssh's own failures."""


@dataclass(frozen=True)
class SshHost:
    """A machine that ssh reaches.

    Attributes:
        address: As the user gave it.
        target: ``user@host``, as ssh takes it.
        port: Empty for the one of ssh's configuration.
        python: The interpreter there; empty for the prepared environment, or the one on its path.
    """

    address: str
    target: str
    port: str = ""
    python: str = ""

    @classmethod
    def parse(cls, address: str) -> SshHost:
        """Read ``ssh://[user@]host[:port][?python=PATH]``.

        Raises:
            MeasurementError: It is not of this form.
        """
        expected = "expected ssh://user@host, ssh://user@host:port or ssh://user@host?python=PATH"
        try:
            parts = urlsplit(address)
            port, host, user = parts.port, parts.hostname, parts.username
        except ValueError as problem:
            raise MeasurementError(f"'{address}' is not an address of a device: {problem}; {expected}") from problem
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        python = options.pop("python", "")
        if parts.scheme != "ssh" or not host or parts.path not in ("", "/") or parts.fragment or options:
            raise MeasurementError(f"'{address}' is not an address of a device; {expected}")
        if parts.password is not None:
            raise MeasurementError(f"an address holds no password; let ssh log in to {host} with a key: ssh-copy-id {host}")
        name = unquote(user) if user else ""
        # What begins with a dash would be an option of ssh.
        if host.startswith("-") or name.startswith("-") or re.search(r"[\s'\"\\$`;&|<>()\x00-\x1f]", name + host):
            raise MeasurementError(f"'{address}' is not an address of a device; {expected}")
        return cls(address, f"{name}@{host}" if name else host, str(port) if port else "", python)

    def client(self) -> list[str]:
        """Return the command to which a command there is appended; raise a MeasurementError without an ssh client."""
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

    def python_script(
        self, arguments: Sequence[str], variables: Mapping[str, str] | None = None, *, prepared: bool = True, module: str = ""
    ) -> str:
        """Return the shell command that runs the device's Python with these arguments; a leading ``~/`` is the home there.

        Args:
            arguments: Arguments of the interpreter.
            variables: Variables of its environment.
            prepared: Whether the environment that ``latcast device prepare`` made comes first.
            module: A module that the Python must be able to import, or the status is :data:`NO_LATCAST`.
        """
        made = [f'"$HOME/{ENVIRONMENT}/bin/python"'] if prepared else []
        candidates = [shlex.quote(self.python)] if self.python else ["python3", "python"]
        # Only a worker may use another interpreter than the prepared one.
        candidates = made if prepared and not module else candidates if self.python else [*made, *candidates]
        exported = "".join(f"export {name}={shlex.quote(value)}; " for name, value in (variables or {}).items())
        wanted = f'"$p" -c "import {module}" 2>/dev/null && ' if module else ""
        return (
            f"{exported}s={NO_PYTHON}; for p in {' '.join(candidates)}; do "
            f'if command -v "$p" >/dev/null 2>&1; then s={NO_LATCAST}; {wanted}'
            f'{{ "$p" {" ".join(map(_quoted, arguments))}; exit $?; }}; fi; done; exit $s'
        )

    def run(self, script: str, sent: bytes = b"") -> str:
        """Run a shell script there; return what it prints.

        Raises:
            RuntimeFailure: The device cannot be reached.
            MeasurementError: The script failed; the message is its last error.
        """
        done = subprocess.run([*self.client(), self.in_posix_shell(script)], input=sent, capture_output=True, check=False)
        if done.returncode == 0:
            return done.stdout.decode(errors="replace")
        printed = done.stderr.decode(errors="replace")
        ending = self.ending(done.returncode, printed)
        if ending is not None:
            raise RuntimeFailure(ending.reason)
        raise MeasurementError(f"{self.target}: {last_error(printed or done.stdout.decode(errors='replace'))}")

    @staticmethod
    def in_posix_shell(script: str) -> str:
        """Return the command that runs a POSIX script in any login shell."""
        return f"exec sh -c {shlex.quote(script)}"

    def ending(self, status: int, printed: str) -> Ending | None:
        """Explain why a command that :meth:`client` began has ended, where the connection is the reason."""
        prepare = f"latcast device prepare {self.address}"
        if status == NO_PYTHON:
            return Ending(
                f"{self.target} has no Python"
                + (f" at {self.python}" if self.python else "; install one there: apt install python3 python3-venv")
            )
        if status == NO_LATCAST:
            if self.python:
                return Ending(
                    f"the Python at {self.python} on {self.target} has no latcast; install it there, or leave ?python= out"
                )
            return Ending(f"{self.target} has no latcast; put it there with: {prepare}")
        if status == SILENCE_STATUS:
            return Ending(f"{self.target} heard nothing from here for too long", lost=True)
        if status < 0:
            return Ending(f"the ssh client to {self.target} was killed", lost=True)
        if status != _SSH_ITSELF:
            return None
        port = f"-p {self.port} " if self.port else ""
        if "has changed and you have requested strict checking" in printed:
            return Ending(
                f"the host key of {self.target} is not the known one: it was reinstalled, or is another machine; "
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


def _quoted(argument: str) -> str:
    return f'"$HOME"/{shlex.quote(argument[2:])}' if argument.startswith("~/") else shlex.quote(argument)


def last_error(printed: str) -> str:
    """Return the last line of a tool's errors, or of its output."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "fatal", "latcast: "))]
    return (errors or lines or ["it said nothing"])[-1].removeprefix("latcast: ")


class SshWire:
    """A worker on a machine that ssh reaches."""

    far = True

    def __init__(self, address: str) -> None:
        self.host = SshHost.parse(address)
        self.where = self.host.target

    def command(self, settings: WorkerSettings) -> Sequence[str]:
        package = WORKER_MODULE.partition(".")[0]
        script = self.host.python_script(["-m", WORKER_MODULE], settings.own_variables(), module=package)
        return [*self.host.client(), self.host.in_posix_shell(script)]

    def variables(self, settings: WorkerSettings) -> Mapping[str, str]:
        return os.environ

    def adjusted(self, settings: WorkerSettings) -> WorkerSettings:
        return settings

    def ending(self, status: int, printed: str) -> Ending | None:
        return self.host.ending(status, printed)
