"""``latcast share``: measurements of this machine, contributed to a hub."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from latcast.cli import options
from latcast.cli.output import kept_when_interrupted, print_json, print_table, warn
from latcast.errors import HubError
from latcast.folders import last_measurements
from latcast.records import Measurement


@kept_when_interrupted("what was sent is kept there; run the same command again to go on")
def share(
    measurements: Annotated[
        Path | None,
        Argument(
            metavar="[STORE]",
            help="JSON Lines, what measure --json or llama-bench -o json printed, or what profile keeps. [default: the last run]",
        ),
    ] = None,
    to: Annotated[str, Option("--to", metavar="URL", envvar="LATCAST_HUB", help="The hub: https://host.")] = "",
    token: Annotated[
        str, Option("--token", envvar="LATCAST_TOKEN", help="From its administrator; better in LATCAST_TOKEN.")
    ] = "",
    device: Annotated[str, Option("--device", help="Name of this machine, instead of 'local'.")] = "",
    failed: Annotated[bool, Option("--failed/--no-failed", help="Also send what could not be measured.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Print exactly what would be sent, and send nothing.")] = False,
    yes: options.Yes = False,
    as_json: options.AsJson = False,
) -> None:
    """Contribute measurements to a hub. Paths of this machine are left out; nothing is sent before you agree.

    \b
    Examples:
      latcast share --to https://latcast.example
      latcast share run.jsonl --to https://latcast.example --device "ThinkPad T14"
      latcast share run.jsonl --to https://latcast.example --dry-run
      latcast share llama-bench.json --to https://latcast.example --device "Galaxy S23"
    """
    from latcast.datasets.importers.measured_speeds import holds_speeds
    from latcast.datasets.opening import open_measurements
    from latcast.hub.sharing import HubClient, ShareReport, shareable, suggested_device_name, upload_batches

    if not to:
        raise HubError("which hub? name it with --to https://host, or in LATCAST_HUB")
    if measurements is None:
        measurements = last_measurements()
        if measurements is None:
            raise HubError("nothing was measured here yet; run latcast measure MODEL or latcast profile, or name a file")
        warn(f"sharing {measurements}, which was measured last")
    if measurements.is_file() and holds_speeds(measurements):
        from latcast.hub.language_models import speeds_as_measurements

        if not device:
            raise HubError("speeds of language models are of a device; name it with --device")
        found = speeds_as_measurements(measurements, device)
    else:
        with open_measurements(measurements) as store:
            found = list(store.measurements(failed=failed, as_taken=True))
    if not device and sys.stdin.isatty() and any(item.platform.startswith("local/") for item in found):
        device = typer.prompt("What is this machine", default=suggested_device_name(found) or None, err=True)
    records = [shareable(item, device) for item in found]
    if not records:
        raise HubError(f"{measurements} holds no measurements that could be sent")
    parts = list(upload_batches(records))
    if dry_run:
        for part in parts:
            sys.stdout.write(part.decode())
        sys.stdout.flush()
        _summarise(records, sum(map(len, parts)), f"would be sent to {to}")
        return
    client = HubClient(to, token)
    if not token:
        raise HubError("contributing needs a token from the hub's administrator; put it into LATCAST_TOKEN")
    if client.readable_by_others:
        warn(f"{to} is not encrypted: others on the network can read the token")
    _summarise(records, sum(map(len, parts)), f"for {to}")
    if not yes:
        _ask(records, to)
    outcome = ShareReport()
    for number, part in enumerate(parts, start=1):
        answer = client.send(part, lambda reason, wait_s: warn(f"{reason}; trying again in {wait_s:.1f} s"))
        outcome.add(part.count(b"\n"), answer)
        if len(parts) > 1:
            warn(f"{outcome.sent} of {len(records)} sent ({number} of {len(parts)} batches)")
    if as_json:
        print_json({"repository": to, **vars(outcome)})
        return
    print(f"{outcome.accepted} accepted, {outcome.known} known there already, {len(outcome.quarantined)} held back")
    for reason in dict.fromkeys(str(item["reason"]) for item in outcome.quarantined):
        print_table(reason, ("network",), [(str(item["network"]),) for item in outcome.quarantined if item["reason"] == reason])


def _summarise(records: list[Measurement], size_bytes: int, where: str) -> None:
    """Describe the measurements on standard error."""
    platforms = Counter(item.platform for item in records)
    warn(f"{len(records)} measurements, {size_bytes / 1e3:.0f} kB before compression, {where}")
    for platform, count in sorted(platforms.items()):
        networks = len({item.reference.key for item in records if item.platform == platform})
        warn(f"  {platform}: {count} measurements of {networks} networks and kernels")


def _ask(records: list[Measurement], to: str) -> None:
    """Show one record as it would be sent, and ask.

    Raises:
        HubError: The answer is no, or there is no terminal to ask on.
    """
    if not sys.stdin.isatty():
        raise HubError("there is no terminal to ask on; look with --dry-run, then send with --yes")
    print("One of them, with everything that is sent of it (--dry-run shows all):", file=sys.stderr)
    print(json.dumps(records[0].to_json(), indent=1), file=sys.stderr)
    if not typer.confirm(f"Send {len(records)} measurements to {to}, where they are public?", err=True):
        raise HubError("nothing was sent")
