"""Commands of a hub's administrator: fits and assets, trust, taking back, backups and snapshots."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from latcast.cli import options
from latcast.cli.output import console, print_json, print_table
from latcast.errors import HubError, counted
from latcast.extras import require
from latcast.folders import data_folder, made

if TYPE_CHECKING:
    from latcast.hub.database import HubDatabase

Database = Annotated[
    str,
    Option(
        "--database",
        envvar="LATCAST_DATABASE",
        help="SQLite file, or URL such as postgresql://user@host/name; one in the user's folder by default.",
    ),
]


def open_hub(location: str) -> HubDatabase:
    """Open the hub of a location, or the user's own.

    Raises:
        MissingExtraError: A package of the extra ``server`` is not installed.
        DatasetError: The database cannot be opened.
    """
    require("a hub", "alembic", "sqlalchemy", "scipy")
    from latcast.hub.database import HubDatabase

    if not location:
        location = str(made(data_folder()) / "repository.sqlite")
    return HubDatabase(location)


def agreed(question: str, yes: bool) -> None:
    """Ask before something is done that many would notice.

    Raises:
        HubError: The answer is no, or there is no terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise HubError("there is no terminal to ask on; look with --dry-run where there is one, then repeat it with --yes")
    if not typer.confirm(question, err=True):
        raise HubError("nothing was done")


def trust(
    contributor: Annotated[str, Argument(metavar="NAME", help="See latcast hub token list.")],
    trusted: Annotated[bool, Option("--yes/--no", help="Whether the contributor is trusted.")] = True,
    database: Database = "",
) -> None:
    """Trust a contributor: their devices serve as references for others and as the test set of published errors.

    \b
    Examples:
      latcast hub trust Ann
      latcast hub trust Ann --no
    """
    with open_hub(database) as hub:
        hub.trust(contributor, trusted)
    print(f"{contributor} is {'trusted' if trusted else 'not trusted'}")


def uploads(
    limit: Annotated[int, Option("--limit", help="How many.", min=1)] = 100,
    database: Database = "",
    as_json: options.AsJson = False,
) -> None:
    """List uploads, the newest first.

    \b
    Examples:
      latcast hub uploads
    """
    with open_hub(database) as hub:
        found = hub.uploads(limit)
    if as_json:
        print_json({"uploads": found})
        return
    rows = [
        (item["id"][:12], item["received_at"], item["contributor"], item["token"] or "", str(item["records"])) for item in found
    ]
    print_table("", ("id", "received", "contributor", "token", "records"), rows)


def undo(
    upload: Annotated[str, Option("--upload", metavar="ID", help="An upload, by its id or the beginning of it.")] = "",
    token: Annotated[str, Option("--token", metavar="ID", help="All that came with a token.")] = "",
    contributor: Annotated[str, Option("--contributor", metavar="NAME", help="All that a contributor sent.")] = "",
    platform: Annotated[str, Option("--platform", metavar="ID", help="All of a platform.")] = "",
    since: Annotated[str, Option("--since", metavar="TIME", help="Only what came since, as 2026-01-31T12:00:00Z.")] = "",
    until: Annotated[str, Option("--until", metavar="TIME", help="Only what came before.")] = "",
    erase: Annotated[bool, Option("--erase", help="Delete it for good, as its sender asked.")] = False,
    reason: Annotated[str, Option("--reason", help="For the audit log.")] = "",
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would be taken back.")] = False,
    yes: options.Yes = False,
    database: Database = "",
    as_json: options.AsJson = False,
) -> None:
    """Take back measurements; what is sent again does not come back. `latcast hub redo` reverses it, but for --erase.

    \b
    Examples:
      latcast hub undo --upload 3f2a --reason "wrong clock"
      latcast hub undo --contributor Eve --since 2026-01-31T12:00:00Z
      latcast hub undo --contributor "Ann Example" --erase --reason "asked by mail"
    """
    with open_hub(database) as hub:
        from latcast.hub.moderation import Scope

        scope = Scope(upload, token, contributor, platform, since, until)
        found = hub.affected(scope)
        said = (
            f"{found.measurements} measurements on {found.platforms} platforms from {found.uploads} uploads, "
            f"{found.quarantined} in quarantine"
        )
        if not dry_run:
            agreed(f"{'Erase' if erase else 'Take back'} {said}?", yes)
            found = hub.undo(scope, erase=erase, reason=reason)
    if as_json:
        print_json(vars(found))
    elif dry_run:
        print(f"would take back {said}")
    else:
        print(f"{'erased' if erase else 'took back'} {said} (entry {found.entry})")


def redo(
    entry: Annotated[int, Argument(metavar="ENTRY", help="See latcast hub audit.")],
    yes: options.Yes = False,
    database: Database = "",
    as_json: options.AsJson = False,
) -> None:
    """Restore what an undo took back.

    \b
    Examples:
      latcast hub redo 12
    """
    with open_hub(database) as hub:
        agreed(f"Bring back what entry {entry} took back?", yes)
        count = hub.redo(entry)
    if as_json:
        print_json({"entry": entry, "measurements": count})
    else:
        print(f"{count} records are measurements again")


def audit(
    limit: Annotated[int, Option("--limit", help="How many.", min=1)] = 100,
    database: Database = "",
    as_json: options.AsJson = False,
) -> None:
    """List administrators' acts: tokens, trust, quarantine, undone uploads; the newest first.

    \b
    Examples:
      latcast hub audit
    """
    with open_hub(database) as hub:
        found = hub.audit(limit)
    if as_json:
        print_json({"audit": found})
        return
    rows = [
        (
            str(item["number"]),
            *(item[name] for name in ("at", "action", "subject")),
            ", ".join(f"{name} {value}" for name, value in item["details"].items()),
        )
        for item in found
    ]
    print_table("", ("entry", "at", "action", "subject", "details"), rows)


def backup(
    file: Annotated[Path, Argument(metavar="FILE", help="Where to; a file of this name is replaced.")],
    database: Database = "",
    as_json: options.AsJson = False,
) -> None:
    """Write the whole hub to one file, of one moment, while it is served. It holds hashes of tokens: keep it to yourself.

    \b
    Examples:
      latcast hub backup hub-2026-01-31.gz
    """
    with open_hub(database) as hub:
        from latcast.hub.backup import back_up

        rows = back_up(hub, file, _rows_done("written"))
    _print_rows(rows, f"{file}, {file.stat().st_size / 1e6:.1f} MB", as_json)


def restore(
    file: Annotated[Path, Argument(metavar="FILE", help="A backup.")], database: Database = "", as_json: options.AsJson = False
) -> None:
    """Fill an empty database, SQLite or PostgreSQL, from a backup; all of it or nothing.

    \b
    Examples:
      latcast hub restore hub-2026-01-31.gz --database again.sqlite
    """
    with open_hub(database) as hub:
        from latcast.hub.backup import restore as fill

        rows = fill(file, hub, _rows_done("read"))
        _print_rows(rows, hub.location, as_json)


def _rows_done(verb: str) -> Callable[[int], None]:
    """Return a function that prints a count, on a terminal."""
    terminal = console(stderr=True)

    def watch(done: int) -> None:
        if terminal.is_terminal:
            terminal.print(f"{done} rows {verb}", end="\r")

    return watch


def _print_rows(rows: Mapping[str, int], where: str, as_json: bool) -> None:
    if as_json:
        print_json({"rows": rows})
    else:
        print(f"{where}: {rows['measurements']} measurements, {sum(rows.values())} rows in all")


def refit(database: Database = "", as_json: options.AsJson = False) -> None:
    """Fit the cross-device model now; servers load it when they start.

    \b
    Examples:
      latcast hub refit
    """
    with open_hub(database) as hub:
        from latcast.hub import refitting
        from latcast.hub.queries import HubReader

        version = refitting.refit(hub, refitting.ServedModel())
        if version is None:
            raise HubError("there is nothing to fit to; upload measurements first")
        newest = HubReader(hub).models()[0]
    if as_json:
        print_json(newest)
    else:
        error = f"MAPE {version.held_out['mape']:.1f} % on held-out devices" if version.held_out else version.note
        fitted = f"{counted(version.platforms, 'platform')}, {counted(version.networks, 'network')}"
        print(f"version {version.number} ({version.model}): {fitted}; {error}")


def unlink(
    link: Annotated[str, Argument(metavar="LINK", help="That of a shared model, or the key at its end.")], database: Database = ""
) -> None:
    """Delete a model that a user shared by a link.

    \b
    Examples:
      latcast hub unlink https://latcast.example/model/eeebe2175ed51b33
    """
    key = link.rstrip("/").rpartition("/")[2]
    with open_hub(database) as hub:
        hub.remove_shared_model(key)
    print(f"forgot {key}")


def assets(
    package: Annotated[Path | None, Argument(metavar="[PACKAGE]", help="The package file, if it is here already.")] = None,
    output: Annotated[Path | None, Option("--output", "-o", help="Folder. [default: the user's cache]")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Fetch ONNX Runtime for browsers from the npm registry, for the page "add your device".

    \b
    Examples:
      latcast hub assets
      latcast hub assets onnxruntime-web-1.30.0.tgz
    """
    from latcast.hub.browser import PACKAGE, VERSION, fetch_assets

    folder = fetch_assets(output, package_file=package)
    size_bytes = sum(file.stat().st_size for file in folder.glob("*.gz"))
    if as_json:
        print_json({"package": PACKAGE, "version": VERSION, "folder": str(folder), "size_bytes": size_bytes})
    else:
        print(f"{PACKAGE} {VERSION} in {folder}, {size_bytes / 1e6:.1f} MB")


def snapshots_folder() -> Path:
    """Return where versions are by default."""
    return data_folder() / "hub-snapshots"


Folder = Annotated[Path | None, Option("--folder", help="Of all versions. [default: hub-snapshots in the user's folder]")]


def snapshot(
    folder: Folder = None,
    licence: Annotated[str, Option("--licence", help="SPDX identifier of what contributors agreed to.")] = "CC-BY-4.0",
    url: Annotated[str, Option("--url", help="Where the hub is, for the citation.")] = "",
    drop: Annotated[str, Option("--drop", metavar="VERSION", help="Remove a version instead.")] = "",
    yes: options.Yes = False,
    database: Database = "",
    as_json: options.AsJson = False,
) -> None:
    """Publish all measurements as a fixed version: JSON Lines, Parquet where it is installed, licence, citation.

    A server offers those of its --snapshots at /api/snapshots.

    \b
    Examples:
      latcast hub snapshot --url https://latcast.example
      latcast hub snapshot --drop 2026-01-31 --yes
    """
    where = folder or snapshots_folder()
    if drop:
        from latcast.hub.snapshot import drop_snapshot

        agreed(f"Remove the version {drop} for good?", yes)
        drop_snapshot(where, drop)
        print(f"removed {drop}")
        return
    with open_hub(database) as hub:
        from latcast.hub.snapshot import make_snapshot

        found = make_snapshot(hub, where, licence=licence, url=url)
    if as_json:
        print_json({"folder": str(where / found.version), **vars(found)})
    else:
        size_mb = sum(each["size_bytes"] for each in found.files.values()) / 1e6
        print(f"{where / found.version}: {found.measurements} measurements, {size_mb:.1f} MB, {found.licence}")


COMMANDS = (refit, unlink, assets, trust, uploads, undo, redo, audit, backup, restore, snapshot)
"""Commands of ``latcast hub``."""
