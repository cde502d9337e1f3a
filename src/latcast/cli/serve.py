"""``latcast serve``."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latcast import __version__
from latcast.cli.output import console, warn
from latcast.errors import HubError, MissingExtraError
from latcast.folders import data_folder, made

if TYPE_CHECKING:
    from latcast.hub.database import HubDatabase

KEPT_WHEN_INTERRUPTED = "everything that was uploaded is stored"

Database = Annotated[
    str,
    typer.Option(
        "--database",
        envvar="LATCAST_DATABASE",
        help="SQLite file, or URL such as postgresql://user@host/name; one in the user's folder by default.",
    ),
]


def open_repository(location: str) -> HubDatabase:
    """The repository of this location, or the user's own.

    Raises:
        MissingExtraError: A package of the extra ``server`` is not installed.
        DatasetError: The database cannot be opened.
    """
    try:
        from latcast.hub.database import HubDatabase
    except ModuleNotFoundError as problem:
        raise MissingExtraError(str(problem.name), "server", "a repository") from problem
    if not location:
        location = str(made(data_folder()) / "repository.sqlite")
    try:
        return HubDatabase(location)
    except ModuleNotFoundError as problem:
        raise MissingExtraError(str(problem.name), "server", "a repository") from problem


def command(
    database: Database = "",
    host: Annotated[str, typer.Option("--host", help="Address to listen at; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 8765,
    invite: Annotated[bool, typer.Option("--invite", help="Show a link and QR code with a token for two hours.")] = False,
    url: Annotated[str, typer.Option("--url", help="How others reach the server, for --invite: https://latcast.example.")] = "",
    certificate: Annotated[Path | None, typer.Option("--certificate", help="TLS certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="Its private key (PEM).")] = None,
    reads_per_minute: Annotated[int, typer.Option("--reads-per-minute", help="For one address; 0 for no limit.", min=0)] = 3000,
    writes_per_minute: Annotated[int, typer.Option("--writes-per-minute", help="For one address; 0 for no limit.", min=0)] = 60,
    refit: Annotated[bool, typer.Option("--refit/--no-refit", help="Fit the model as measurements arrive.")] = True,
) -> None:
    """The shared repository: upload, query, predictions, pages.

    Contributing needs a token (latcast repository token issue NAME), reading does not. Browsers give WebAssembly several
    threads only over HTTPS or on localhost.
    """
    try:
        import uvicorn

        from latcast.hub.app import make_app
        from latcast.hub.site import ServerSettings
    except ModuleNotFoundError as problem:
        raise MissingExtraError(str(problem.name), "server", "latcast serve") from problem
    if (certificate is None) != (key is None):
        raise HubError("TLS needs both --certificate and --key")
    for file in (certificate, key):
        if file is not None and not file.is_file():
            raise HubError(f"there is no file {file}")
    settings = ServerSettings(reads_per_minute=reads_per_minute, writes_per_minute=writes_per_minute, refit=refit)
    base = (url or f"{'https' if certificate else 'http'}://{_shown_host(host)}:{port}").rstrip("/")
    logging.basicConfig(level=logging.WARNING, format="latcast: %(message)s")
    with open_repository(database) as repository:
        if invite:
            _show_invitation(repository, base)
        warn(f"serving {repository.location} at {base}; Ctrl-C stops")
        server = uvicorn.Server(
            uvicorn.Config(
                make_app(repository, settings, __version__),
                host=host,
                port=port,
                log_level="warning",
                access_log=False,
                server_header=False,
                ssl_certfile=certificate,
                ssl_keyfile=key,
                timeout_keep_alive=15,
                timeout_graceful_shutdown=10,
                limit_concurrency=500,
            )
        )
        server.run()
        if not server.started:
            raise HubError(f"cannot listen at {host}:{port}; is another server there? choose another --port")


def _shown_host(host: str) -> str:
    """An address that other machines can use, where the server listens at all of them."""
    if host not in ("0.0.0.0", "::"):
        return f"[{host}]" if ":" in host else host
    import socket

    return socket.gethostname()


def _show_invitation(repository: HubDatabase, base: str) -> None:
    """A link with a token behind the ``#``, which browsers do not send, and the same as a QR code."""
    import segno

    text, _ = repository.issue_token("guests", label="invitation", lifetime=timedelta(hours=2))
    link = f"{base}/add#token={text}"
    terminal = console(stderr=True)
    code = segno.make(link, error="l")
    if terminal.is_terminal:
        import sys

        code.terminal(out=sys.stderr, compact=True)
    print(link)
