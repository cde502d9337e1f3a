"""What ``latcast platforms --find`` prints: a device or a chip, and what was measured on it or on its like."""

from __future__ import annotations

from collections.abc import Sequence

from latcast.chips.chip_names import nearest_known
from latcast.chips.chip_table import Chip
from latcast.cli.output import print_json, print_table
from latcast.devices.device_search import FoundDevice, NearPlatform, find_devices
from latcast.errors import LatcastError, abridged

MOST_FOUND = 3
"""Devices and chips that are shown in full; the others by name."""

MOST_OTHERS = 12
"""Names in a list."""

MOST_NEAR = 15
"""Lines of platforms that are like what was found; those of itself are all shown."""

OF_ITSELF = ("the same device", "the same chip")


def print_found(text: str, as_json: bool) -> None:
    """Print what a text names, and the platforms that are of it or like it.

    Raises:
        LatcastError: It names nothing.
    """
    found = find_devices(text)
    if as_json:
        print_json([each.to_json() for each in found])
        return
    if not found:
        near = nearest_known(text)
        raise LatcastError(
            f"no device, chip, core, GPU or NPU is called '{text}'{f'; nearest: {abridged(near, MOST_OTHERS)}' if near else ''}; "
            "to measure it: latcast device kit"
        )
    if found[0].by != "name":
        _print_chips(found)
        _print_near([near for each in found for near in each.platforms if near.part in each.parts and near.relation in OF_ITSELF])
    elif found[0].exact or len(found) <= MOST_FOUND:
        _print_named(found)
    else:
        _print_chips(found)
        print(f"\nNone is called just '{text}'; what was measured on one or its like: latcast platforms --find with its name")


def _print_named(found: Sequence[FoundDevice]) -> None:
    """Print the devices or chips of this name, and the nearest other names."""
    shown = [each for each in found if each.exact][:MOST_FOUND] or found
    for place, each in enumerate(shown):
        if place:
            print()
        rows = [row for chip in each.chips for row in _chip_rows(chip)]
        if each.aliases:
            rows.insert(0, ("or", abridged(each.aliases, MOST_OTHERS)))
        if each.devices:
            rows.append(("also in" if each.kind == "device" else "in", abridged(each.devices, MOST_OTHERS)))
        print_table(each.name, ("", ""), rows)
        _print_near(each.platforms)
    others = [each for each in found if each not in shown]
    if others:
        names = [f"{each.name} ({_chip_names(each)})" if each.kind == "device" else each.name for each in others]
        print(f"\nAlso called so: {abridged(names, MOST_OTHERS)}")


def _print_chips(found: Sequence[FoundDevice]) -> None:
    """Print a line for each."""
    rows = [
        (each.name, _chip_names(each) if each.kind == "device" else chip.id, str(chip.year or ""), *_parts(chip))
        for each in found
        for chip in each.chips[:1]
    ]
    print_table("", ("name", "chip", "year", "CPU", "GPU", "NPU"), rows, spare=("NPU", "GPU", "year"))


def _print_near(platforms: Sequence[NearPlatform]) -> None:
    if not platforms:
        print(
            "\nNothing that can be predicted for was measured on it, on its chip, or on one with its cores, GPU family or "
            "NPU family.\nTo measure there: latcast device kit"
        )
        return
    groups: dict[tuple[str, str, str], list[str]] = {}
    for near in platforms:
        groups.setdefault((near.device, near.part, near.relation), []).append(near.id)
    own = sum(relation in OF_ITSELF for _, _, relation in groups)
    shown = list(groups.items())[: max(MOST_NEAR, own)]
    print_table(
        "\nWhat can be predicted for, the nearest first",
        ("measured on", "which runs on", "and has", "platforms", "for instance"),
        [(*group, str(len(names)), names[0]) for group, names in shown],
        spare=("for instance",),
    )
    if len(shown) < len(groups):
        print(f"and {len(groups) - len(shown)} more that are less like it; --json has all")


def _chip_names(found: FoundDevice) -> str:
    return ", ".join(chip.name for chip in found.chips)


def _chip_rows(chip: Chip) -> list[tuple[str, str]]:
    """Print the facts of a chip, a row for each part."""
    names = [chip.name] if chip.name.lower() == chip.id else [chip.name, chip.id]
    made = [chip.vendor, str(chip.year or ""), _counted(chip.process_nm, "nm")]
    rows = [
        ("chip", _joined(*names, *made)),
        *zip(("CPU", "GPU", "NPU"), _parts(chip), strict=True),
        ("memory", _joined(chip.memory, _counted(chip.bandwidth_gb_s, "GB/s"))),
        ("source", chip.source),
    ]
    return [(title, text) for title, text in rows if text]


def _parts(chip: Chip) -> tuple[str, str, str]:
    """CPU, GPU and NPU; empty where there is none or it is not known."""
    gpu = (_counted(chip.gpu_cores, "cores"), _counted(chip.gpu_mhz, "MHz"), _counted(chip.gpu_gflops, "GFLOP/s fp32"))
    return _joined(*map(str, chip.cpu)), _joined(chip.gpu, *gpu), _joined(chip.npu, _counted(chip.npu_tops, "TOPS int8"))


def _joined(*texts: str | None) -> str:
    return ", ".join(text for text in texts if text)


def _counted(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:g} {unit}"
