"""``latcast repository``: what the keeper of a repository does."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from latcast.cli.options import AsJson
from latcast.cli.output import milliseconds, print_json, print_table, warn
from latcast.cli.serve import Database, open_repository

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Keep a shared repository.")
token_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Who may upload.")
quarantine_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Records that are not believed.")
app.add_typer(token_app, name="token")
app.add_typer(quarantine_app, name="quarantine")


@token_app.command("issue")
def issue(
    contributor: Annotated[str, typer.Argument(help="Who uploads with it; shown on the pages.")],
    days: Annotated[int, typer.Option("--days", help="Until it expires; 0 for never.", min=0, max=3650)] = 365,
    label: Annotated[str, typer.Option("--label", help="What it is for.")] = "",
    database: Database = "",
    as_json: AsJson = False,
) -> None:
    """Make a token. It is shown once: only a hash of it is stored."""
    with open_repository(database) as repository:
        text, token = repository.issue_token(contributor, label=label, lifetime=timedelta(days=days) if days else None)
    if as_json:
        print_json({"token": text, **token.to_json()})
    else:
        print(text)
        until = f"until {token.expires_at[:10]}" if token.expires_at else "without end"
        warn(f"for {token.contributor}, {until}; it cannot be shown again")


@token_app.command("list")
def listed(database: Database = "", as_json: AsJson = False) -> None:
    """Tokens with their states, never the tokens themselves."""
    from latcast.measure.environment import utc_now

    with open_repository(database) as repository:
        found = repository.tokens()
    now = utc_now()
    if as_json:
        print_json({"tokens": [{**token.to_json(), "state": token.state(now)} for token in found]})
        return
    print_table(
        "",
        ("id", "contributor", "label", "state", "made", "expires"),
        [
            (item.id, item.contributor, item.label, item.state(now), item.created_at[:10], (item.expires_at or "never")[:10])
            for item in found
        ],
    )


@token_app.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="See latcast repository token list.")],
    database: Database = "",
    as_json: AsJson = False,
) -> None:
    """End a token at once; what it brought stays."""
    with open_repository(database) as repository:
        token = repository.revoke_token(token_id)
    if as_json:
        print_json(token.to_json())
    else:
        print(f"revoked {token.id} of {token.contributor}")


@quarantine_app.command("list")
def held(database: Database = "", as_json: AsJson = False) -> None:
    """Records held back, with the reason."""
    with open_repository(database) as repository:
        found = repository.quarantine()
    if as_json:
        print_json({"quarantine": [vars(item) for item in found]})
        return
    print_table(
        "",
        ("id", "platform", "network", "ms", "contributor", "reason"),
        [
            (item.id, item.platform, item.network, milliseconds(item.latency_ms or 0.0), item.contributor, item.reason)
            for item in found
        ],
    )


@quarantine_app.command("release")
def release(record_id: Annotated[str, typer.Argument(metavar="ID")], database: Database = "") -> None:
    """Believe a record after all: it becomes a measurement."""
    with open_repository(database) as repository:
        repository.release(record_id)
    print(f"released {record_id}")


@quarantine_app.command("discard")
def discard(record_id: Annotated[str, typer.Argument(metavar="ID")], database: Database = "") -> None:
    """Refuse a record for good."""
    with open_repository(database) as repository:
        repository.discard(record_id)
    print(f"discarded {record_id}")


@app.command("refit")
def refit(database: Database = "", as_json: AsJson = False) -> None:
    """Fit the cross-device model now; servers take it up when they start."""
    from latcast.errors import HubError
    from latcast.hub import refitting

    with open_repository(database) as repository:
        version = refitting.refit(repository, refitting.ServedModel())
    if version is None:
        raise HubError("there is nothing to fit to; upload measurements first")
    if as_json:
        print_json({name: value for name, value in vars(version).items() if name != "content"})
    else:
        error = f"MAPE {version.held_out['mape']:.1f} % on held-out devices" if version.held_out else version.note
        print(f"version {version.number} ({version.model}): {version.platforms} platforms, {version.networks} networks; {error}")


@app.command("assets")
def fetch(
    into: Annotated[Path | None, typer.Option("--into", help="Folder; the user's cache by default.")] = None,
    webgpu: Annotated[bool, typer.Option("--webgpu/--no-webgpu", help="Also what runs on GPUs, twice as large.")] = True,
    file: Annotated[Path | None, typer.Option("--file", help="The package, where it lies here already.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch ONNX Runtime for browsers from the npm registry, for the page "add your device"."""
    from latcast.hub.browser import PACKAGE, VERSION, fetch_assets

    found = fetch_assets(into, webgpu=webgpu, package_file=file)
    if as_json:
        print_json({"package": PACKAGE, "version": VERSION, "folder": str(found.folder), "size_bytes": found.size_bytes})
    else:
        print(f"{PACKAGE} {VERSION} in {found.folder}, {found.size_bytes / 1e6:.1f} MB")
