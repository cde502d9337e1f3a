"""``latcast hub``: a shared hub of measurements: its server, and administering it."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from ipaddress import ip_network
from multiprocessing import parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from latcast import __version__
from latcast.cli import hub_admin, options
from latcast.cli.hub_admin import Database, agreed, open_hub
from latcast.cli.lazy_group import command_group
from latcast.cli.output import console, kept_when_interrupted, milliseconds, print_json, print_table, warn
from latcast.errors import HubError
from latcast.extras import require
from latcast.hub.addresses import MOST_WORKERS

if TYPE_CHECKING:
    from latcast.hub.connections import Door
    from latcast.hub.database import HubDatabase
    from latcast.hub.site import ServerSettings

app = command_group("""A shared hub of measurements: serve it, administer it. latcast share contributes to one.

\b
Examples:
  latcast hub serve --invite
  latcast hub token issue Ann
""")
token_app = command_group("""Who may upload.

\b
Examples:
  latcast hub token issue Ann --days 90
  latcast hub token list
  latcast hub token revoke 3416250fc5bd
""")
quarantine_app = command_group("""Records that are held back, with reasons.

\b
Examples:
  latcast hub quarantine list
  latcast hub quarantine release 3f2a
  latcast hub quarantine discard 3f2a
""")
app.add_typer(token_app, name="token")
app.add_typer(quarantine_app, name="quarantine")


@app.command()
@kept_when_interrupted("everything that was uploaded is stored")
def serve(
    database: Database = "",
    host: Annotated[str, Option("--host", help="Address to listen at; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, Option("--port", help="Port to listen at.", min=1, max=65535)] = 8765,
    invite: Annotated[bool, Option("--invite", help="Show a link and QR code with a token for two hours.")] = False,
    url: Annotated[str, Option("--url", help="How others reach the server, for --invite: https://latcast.example.")] = "",
    certificate: Annotated[Path | None, Option("--certificate", help="TLS certificate (PEM).")] = None,
    key: Annotated[Path | None, Option("--key", help="Its private key (PEM).")] = None,
    reads_per_minute: Annotated[int, Option("--reads-per-minute", help="For one address; 0 for no limit.", min=0)] = 3000,
    writes_per_minute: Annotated[int, Option("--writes-per-minute", help="For one address; 0 for no limit.", min=0)] = 60,
    models_per_minute: Annotated[
        int, Option("--models-per-minute", help="Models that one address may have predicted; 0 for no limit.", min=0)
    ] = 30,
    connections: Annotated[int, Option("--connections", help="Connections of one address at once; 0 for no limit.", min=0)] = 64,
    proxy: Annotated[
        list[str] | None,
        Option("--proxy", metavar="ADDRESS", help="Address or network of a proxy whose X-Forwarded-For is trusted; repeatable."),
    ] = None,
    access_log: Annotated[
        str, Option("--access-log", metavar="FILE", help="A JSON line for each request; - for standard output.")
    ] = "",
    refit: Annotated[bool, Option("--refit/--no-refit", help="Fit the model as measurements arrive.")] = True,
    snapshots: Annotated[
        Path | None, Option("--snapshots", help="Folder of the versions that latcast hub snapshot wrote.")
    ] = None,
    workers: Annotated[int, Option("--workers", help="Processes; more than one needs PostgreSQL.", min=1, max=MOST_WORKERS)] = 1,
) -> None:
    """Serve the hub: upload, query, predictions, pages.

    Contributing needs a token (latcast hub token issue NAME), reading does not. Browsers give WebAssembly several
    threads only over HTTPS or on localhost.

    \b
    Examples:
      latcast hub serve --invite
      latcast hub serve --host 0.0.0.0 --port 8765 --database measurements.sqlite
      latcast hub serve --proxy 127.0.0.1 --url https://latcast.example --access-log /var/log/latcast.jsonl
    """
    require("latcast hub serve", "uvicorn", "alembic", "fastapi", "jinja2", "prometheus_client", "segno", "sqlalchemy", "scipy")
    from latcast.hub.connections import Door
    from latcast.hub.site import ServerSettings
    from latcast.hub.workers import run_workers

    if (certificate is None) != (key is None):
        raise HubError("TLS needs both --certificate and --key")
    for file in (certificate, key):
        if file is not None and not file.is_file():
            raise HubError(f"there is no file {file}")
    listening = _listen(host, port)
    settings = ServerSettings(
        reads_per_minute=reads_per_minute,
        writes_per_minute=writes_per_minute,
        models_per_minute=models_per_minute,
        preload=True,
        refit=refit,
        snapshots=snapshots or hub_admin.snapshots_folder(),
    )
    for each in proxy or ():
        try:
            ip_network(each)
        except ValueError as problem:
            raise HubError(
                f"--proxy: '{each}' is not a valid address or network ({problem}); expected such as 127.0.0.1"
            ) from problem
    # Where the server listens at all addresses, one that other machines can use is shown.
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    base = (url or f"{'https' if certificate else 'http'}://{shown}:{port}").rstrip("/")
    with listening:
        with open_hub(database) as hub:
            if workers > 1 and not hub.url.startswith("postgresql"):
                raise HubError(
                    f"{workers} workers need PostgreSQL (--database postgresql://user@host/name), found a SQLite file; "
                    "serve it with one worker"
                )
            _open_log(access_log)
            if invite:
                _bring_runtime()
                _show_invitation(hub, base)
            warn(f"serving {hub.location} at {base}; Ctrl-C stops")
        door = Door(connections, tuple(proxy or ()))
        serve_one = partial(_serve_one, hub.url, settings, door, certificate, key, access_log)
        if workers == 1:
            serve_one(listening)
        else:
            run_workers(serve_one, workers, listening)


def _serve_one(
    url: str,
    settings: ServerSettings,
    door: Door,
    certificate: Path | None,
    key: Path | None,
    access_log: str,
    listening: socket.socket,
) -> None:
    """Serve until told to end, in the process of the command or in that of a worker."""
    from latcast.hub.isolation import IsolatedForecasts

    if parent_process() is not None:
        _open_log(access_log)
    with open_hub(url) as hub:
        models = IsolatedForecasts(most_platforms=settings.most_platforms, database=hub.url)
        with suppress(HubError):  # who asks is told
            models.launch()
        # Platforms are loaded while this process imports what serves.
        import uvicorn

        from latcast.hub.app import make_app
        from latcast.hub.connections import server_options

        app = make_app(hub, settings, __version__, door, models)
        config = uvicorn.Config(app, ssl_certfile=certificate, ssl_keyfile=key, **server_options(door))
        uvicorn.Server(config).run(sockets=[listening])


def _open_log(access_log: str) -> None:
    """Set up where messages and requests are written.

    Raises:
        HubError: The access log cannot be written.
    """
    from latcast.hub.observing import log_access

    if access_log:
        try:
            log_access(access_log)
        except OSError as problem:
            raise HubError(f"cannot write the access log {access_log}: {problem.strerror}; name another file") from problem
    logging.basicConfig(level=logging.WARNING, format="latcast: %(message)s")


def _listen(host: str, port: int) -> socket.socket:
    """Take an address before anything is done for it.

    Raises:
        HubError: It is taken, or does not belong to this machine.
    """
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as problem:
        raise HubError(f"cannot listen at {host}:{port} ({problem}); is another server there? choose another --port") from problem
    # Connections inherit it. Without it, the body of an answer waits 40 ms for the acknowledgement of its head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _bring_runtime() -> None:
    """Fetch what browsers measure with, unless it is here; say so where that fails, as invited devices then cannot measure."""
    from latcast.hub import browser

    if browser.find_assets() is None:
        warn(f"fetching {browser.PACKAGE} {browser.VERSION}, with which browsers measure; this is done once")
        try:
            browser.fetch_assets()
        except HubError as problem:
            warn(f"invited browsers cannot measure yet: {problem}; try again with: latcast hub assets")


def _show_invitation(hub: HubDatabase, base: str) -> None:
    """Print a link with a token behind the ``#``, which browsers do not send, and the same as a QR code."""
    import segno

    text, _ = hub.issue_token("guests", label="invitation", lifetime=timedelta(hours=2))
    link = f"{base}/add#token={text}"
    terminal = console(stderr=True)
    code = segno.make(link, error="l")
    if terminal.is_terminal:
        code.terminal(out=sys.stderr, compact=True)
    print(link)


@token_app.command("issue")
def issue(
    contributor: Annotated[str, Argument(metavar="NAME", help="Who uploads with it; shown on the pages.")],
    days: Annotated[int, Option("--days", help="Until it expires; 0 for never.", min=0, max=3650)] = 365,
    label: Annotated[str, Option("--label", help="What it is for.")] = "",
    trusted: Annotated[
        bool | None, Option("--trusted/--not-trusted", help="Vouch for the contributor: see latcast hub trust.")
    ] = None,
    platforms: Annotated[int | None, Option("--platforms", help="New platforms it may bring.", min=0)] = None,
    database: Database = "",
    as_json: options.AsJson = False,
) -> None:
    """Make a token. It is shown once: only a hash of it is stored.

    \b
    Examples:
      latcast hub token issue Ann --days 90
      latcast hub token issue Ann --trusted
    """
    with open_hub(database) as hub:
        text, token = hub.issue_token(
            contributor, label=label, lifetime=timedelta(days=days) if days else None, trusted=trusted, most_platforms=platforms
        )
    if as_json:
        print_json({"token": text, **vars(token)})
    else:
        print(text)
        until = f"until {token.expires_at[:10]}" if token.expires_at else "without end"
        warn(f"for {token.contributor}, {until}; it cannot be shown again")


@token_app.command("list")
def listed(database: Database = "", as_json: options.AsJson = False) -> None:
    """List tokens with their states, never the tokens themselves.

    \b
    Examples:
      latcast hub token list
    """
    from latcast.environment import utc_now

    with open_hub(database) as hub:
        found = hub.tokens()
    now = utc_now()
    if as_json:
        print_json({"tokens": [{**vars(token), "state": token.state(now)} for token in found]})
        return
    print_table(
        "",
        ("id", "contributor", "trusted", "label", "state", "made", "expires"),
        [
            (
                item.id,
                item.contributor,
                "yes" if item.trusted else "",
                item.label,
                item.state(now),
                item.created_at[:10],
                (item.expires_at or "never")[:10],
            )
            for item in found
        ],
    )


@token_app.command("revoke")
def revoke(
    token_id: Annotated[str, Argument(metavar="ID", help="See latcast hub token list.")],
    yes: options.Yes = False,
    database: Database = "",
    as_json: options.AsJson = False,
) -> None:
    """End a token at once; what it brought stays (latcast hub undo --token takes that back).

    \b
    Examples:
      latcast hub token revoke 3416250fc5bd
    """
    with open_hub(database) as hub:
        agreed(f"End the token {token_id}? It cannot be used to upload any more.", yes)
        token = hub.revoke_token(token_id)
    if as_json:
        print_json(vars(token))
    else:
        print(f"revoked {token.id} of {token.contributor}")


RecordIds = Annotated[list[str] | None, Argument(metavar="[ID]...", help="See latcast hub quarantine list.")]
OfPlatform = Annotated[str, Option("--platform", help="Records of this platform; * matches any characters.")]
OfNetwork = Annotated[str, Option("--network", help="Records of this network, or of those that a pattern names.")]
OfContributor = Annotated[str, Option("--contributor", help="Records of this contributor.")]
OfReason = Annotated[str, Option("--reason", help="Records whose reason has these words.")]


@quarantine_app.command("list")
def held(
    platform: OfPlatform = "",
    network: OfNetwork = "",
    contributor: OfContributor = "",
    reason: OfReason = "",
    database: Database = "",
    as_json: options.AsJson = False,
) -> None:
    """List records held back, by reason.

    \b
    Examples:
      latcast hub quarantine list
      latcast hub quarantine list --platform 'pixel4/*'
    """
    with open_hub(database) as hub:
        found = hub.quarantine(platform=platform, network=network, contributor=contributor, reason=reason)
    if as_json:
        print_json({"quarantine": found})
        return
    for why in dict.fromkeys(item["reason"] for item in found):
        names = ("id", "platform", "network", "contributor")
        rows = [
            (*(item[name] for name in names), milliseconds(item["latency_ms"] or 0.0)) for item in found if item["reason"] == why
        ]
        print_table(why, (*names, "ms"), rows)


def _deciding(act: str, text: str) -> Callable[..., None]:
    """Return a command that releases or discards the records that are named, or that a query finds and the user agrees to."""

    def decide(
        record_ids: RecordIds = None,
        platform: OfPlatform = "",
        network: OfNetwork = "",
        contributor: OfContributor = "",
        reason: OfReason = "",
        yes: options.Yes = False,
        database: Database = "",
    ) -> None:
        query = {"platform": platform, "network": network, "contributor": contributor, "reason": reason}
        if bool(record_ids) == any(query.values()):
            raise HubError("name records by their ids, or choose them by --platform, --network, --contributor or --reason")
        with open_hub(database) as hub:
            chosen = record_ids or [item["id"] for item in hub.quarantine(**query)]
            if not chosen:
                raise HubError("no record in quarantine is such; latcast hub quarantine list shows them")
            if not record_ids:
                agreed(f"{act.capitalize()} {len(chosen)} records?", yes)
            getattr(hub, act)(*chosen)
        print(f"{act.removesuffix('e')}ed {', '.join(record_ids) if record_ids else f'{len(chosen)} records'}")

    decide.__doc__ = text
    return decide


quarantine_app.command("release")(
    _deciding(
        "release",
        """Believe records after all: they become measurements.

    \b
    Examples:
      latcast hub quarantine release 3f2a
      latcast hub quarantine release --platform 'pixel4/*' --reason 'of this upload'
    """,
    )
)
quarantine_app.command("discard")(
    _deciding(
        "discard",
        """Refuse records for good.

    \b
    Examples:
      latcast hub quarantine discard 3f2a
      latcast hub quarantine discard --contributor mallory
    """,
    )
)


for _command in hub_admin.COMMANDS:
    app.command()(_command)
