"""A real sshd on this machine, with an account of its own where the tests may make one; and a link to it that can be cut."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.measure.behaving import REPOSITORY_ROOT

ACCOUNT = f"latcast-board-{os.getpid()}"
"""Of this process: several may test at a time."""

SSHD = shutil.which("sshd", path=os.defpath + ":/usr/sbin:/usr/local/sbin")

PYTHON_PATH = (str(REPOSITORY_ROOT / "src"), str(REPOSITORY_ROOT), *(each for each in sys.path if each.endswith("-packages")))
"""What the account's Python finds: latcast as it is here, the tests' runtime, and the libraries."""


@dataclass
class Link:
    """A port of this machine that leads to sshd's, counts what passes, and can be cut or fall silent."""

    port: int
    target: int
    _listening: socket.socket
    _ends: list[socket.socket] = field(default_factory=list)
    sent_bytes: int = 0
    silent: bool = False

    def cut(self) -> None:
        """Closes every connection; new ones are taken."""
        ends, self._ends = self._ends, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def serve(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.target))
            self._ends += [near, far]
            for source, sink, counted in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._pass_on, args=(source, sink, counted), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while chunk := source.recv(1 << 16):
                if self.silent:
                    continue
                self.sent_bytes += len(chunk) if counted else 0
                sink.sendall(chunk)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listening.close()
        self.cut()


@dataclass(frozen=True)
class Board:
    """What stands for a board: an account that sshd lets in.

    Attributes:
        user: Its name.
        home: Its home.
        folder: Where keys and configurations are.
        link: The way there that can be cut.
        port: sshd's own.
    """

    user: str
    home: Path
    folder: Path
    link: Link
    port: int

    @property
    def address(self) -> str:
        return f"ssh://{self.user}@127.0.0.1:{self.link.port}"

    def workers(self) -> list[int]:
        """Processes there that measure."""
        found = []
        for folder in Path("/proc").iterdir():
            with suppress(OSError):
                command = (folder / "cmdline").read_bytes().split(b"\0")
                if b"latcast.measure.worker" in command and b"sh" not in command and folder.stat().st_uid == self.uid:
                    with suppress(OSError):
                        if b"SSH_CONNECTION=" in (folder / "environ").read_bytes():
                            found.append(int(folder.name))
        return found

    def wait_for_no_worker(self, patience_s: float = 20.0) -> None:
        until = time.monotonic() + patience_s
        while self.workers():
            assert time.monotonic() < until, "a worker is left"
            time.sleep(0.05)

    @property
    def uid(self) -> int:
        return pwd.getpwnam(self.user).pw_uid


@contextmanager
def board(python_path: Sequence[str] = PYTHON_PATH) -> Iterator[Board]:
    """An sshd for one account, and this process's ``LATCAST_SSH`` so that it is let in; skips where there is no sshd.

    Args:
        python_path: What its Python finds beside its own library.
    """
    if SSHD is None or shutil.which("ssh") is None:
        pytest.skip("needs sshd: apt-get install openssh-server")
    with ExitStack() as opened:
        # Not one of pytest's folders: those are their owner's alone.
        folder = Path(opened.enter_context(TemporaryDirectory(prefix="latcast-sshd-", ignore_cleanup_errors=True)))
        folder.chmod(0o755)
        user, home, python = _account(opened, folder)
        for name in ("host", "mine", "stranger"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
        keys = folder / "authorized_keys"
        shutil.copy(folder / "mine.pub", keys)
        keys.chmod(0o644)
        (folder / "known_hosts").write_text("board " + (folder / "host.pub").read_text())
        (folder / "ssh_config").write_text(
            f"Host *\n  HostKeyAlias board\n  IdentityFile {folder}/mine\n  IdentitiesOnly yes\n  IdentityAgent none\n"
            f"  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile none\n  LogLevel ERROR\n"
        )
        port = _free_port()
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        (bin_folder / "python3").symlink_to(python)
        (folder / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nUsePAM no\nStrictModes no\n"
            f"AuthorizedKeysFile {keys}\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
            f"AllowUsers {user}\nLogLevel ERROR\n"
            f"SetEnv HOME={home} PATH={bin_folder}:{os.defpath}:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 "
            f"PYTHONPATH={':'.join(python_path)}\n"
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        log = opened.enter_context((folder / "sshd.log").open("wb"))
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(folder / "sshd_config")], stdout=log, stderr=log)
        opened.callback(server.wait)
        opened.callback(server.terminate)
        _wait_for(port, server, folder)
        listening = socket.create_server(("127.0.0.1", 0))
        link = Link(listening.getsockname()[1], port, listening)
        threading.Thread(target=link.serve, daemon=True).start()
        opened.callback(link.close)
        patch = opened.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("LATCAST_SSH", f"ssh -F {folder}/ssh_config")
        yield Board(user, home, folder, link, port)


def _account(opened: ExitStack, folder: Path) -> tuple[str, Path, str]:
    """Another user with a home and a Python that can run latcast where that can be had, else the one who runs the tests."""
    own = pwd.getpwuid(os.geteuid())
    home = folder / "home"
    home.mkdir()
    if os.geteuid() != 0 or shutil.which("useradd") is None:
        return own.pw_name, home, sys.executable
    made = ["useradd", "--no-create-home", "--home-dir", str(home), "--shell", "/bin/sh", "--password", "*", ACCOUNT]
    if subprocess.run(made, capture_output=True, check=False).returncode != 0:
        return own.pw_name, home, sys.executable
    opened.callback(subprocess.run, ["userdel", ACCOUNT], capture_output=True, check=False)
    account = pwd.getpwnam(ACCOUNT)
    os.chown(home, account.pw_uid, account.pw_gid)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, *filter(None, [shutil.which(version, path="/usr/bin:/usr/local/bin")])):
        if _runs_latcast(python, account):
            return ACCOUNT, home, python
    os.chown(home, own.pw_uid, own.pw_gid)
    return own.pw_name, home, sys.executable


def _runs_latcast(python: str, account: pwd.struct_passwd) -> bool:
    try:
        tried = subprocess.run(
            [python, "-c", "import latcast.measure.worker, tests.measure.behaving"],
            env={"PYTHONPATH": ":".join(PYTHON_PATH), "PATH": os.defpath, "HOME": account.pw_dir, "PYTHONDONTWRITEBYTECODE": "1"},
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return tried.returncode == 0


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[bytes], folder: Path) -> None:
    until = time.monotonic() + 10
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert server.poll() is None, f"sshd ended: {(folder / 'sshd.log').read_text()}"
        assert time.monotonic() < until, f"sshd does not listen: {(folder / 'sshd.log').read_text()}"
        time.sleep(0.05)
