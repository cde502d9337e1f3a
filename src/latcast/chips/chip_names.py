"""The chip that a text means, its facts as numbers, and similar chips; all from :mod:`latcast.chips.chip_table`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from latcast.chips.chip_table import Chip, Device, chips, devices, spellings
from latcast.chips.name_matching import Words, is_telling, joined, ways_to_write, words_of
from latcast.errors import LatcastError
from latcast.records import UNIT_KINDS, Platform
from latcast.registry import nearest_names


@dataclass(frozen=True)
class Found:
    """A device or chip that a text may mean.

    Attributes:
        name: Name of the device or the chip.
        chips: The device's chips, or the chip.
        device: None where it is a chip.
        by: "name", or the part that the text names: "core", "gpu" or "npu".
        parts: The parts of the chip that the text names: "kryo-485-gold (cortex-a76)".
        exact: Whether the text is a whole name.
    """

    name: str
    chips: tuple[Chip, ...]
    device: Device | None = None
    by: str = "name"
    parts: tuple[str, ...] = ()
    exact: bool = True


Entry = Chip | Device

ONE_CORE = "1core"
"""Part of a unit's id that says that one core of an NPU computes."""


class _Name(NamedTuple):
    """A written name, the chip or device that it names, and whether its first word, a brand, is left out."""

    text: str
    owner: str
    is_device: bool
    is_shortened: bool = False

    def entry(self) -> Entry:
        return devices()[self.owner] if self.is_device else chips()[self.owner]


@cache
def _names() -> Mapping[str, list[_Name]]:
    """Return names, in the form of :func:`joined`, to the chips and devices with this name."""
    found: dict[str, list[_Name]] = {}
    for text, owner, is_device in spellings():
        for way in ways_to_write(text):
            found.setdefault(joined(way), []).append(_Name(way, owner, is_device, way != text))
    return found


@cache
def _telling_names() -> tuple[str, ...]:
    """Return names that are looked for inside of longer texts, the longest first."""
    return tuple(
        sorted(
            (name for name, meant in _names().items() if any(is_telling(each.text, name) for each in meant)),
            key=len,
            reverse=True,
        )
    )


def chips_of(found: Entry) -> tuple[Chip, ...]:
    """Return the chips of a device, the one with the CPU first, or the chip itself."""
    return (found,) if isinstance(found, Chip) else tuple(chips()[name] for name in found.chips)


def _mentioned(words: Words) -> list[Entry]:
    """Return the entries that the text is a name of, else those whose names stand in it, the longest of overlapping ones."""
    if words.text in _names():
        return [each.entry() for each in _names()[words.text]]
    found: list[Entry] = []
    taken: list[tuple[int, int]] = []
    for name in _telling_names():
        if name in words.text:
            meant = _names()[name]
            of_device = all(each.is_device for each in meant)
            without_maker = of_device and all(each.is_shortened for each in meant)
            for begin, end in words.places(words_of(meant[0].text)):
                if all(end <= first or last <= begin for first, last in taken) and not words.names_another(
                    begin, end, without_maker=without_maker, of_device=of_device
                ):
                    taken.append((begin, end))
                    found += (each.entry() for each in meant)
    return found


def find(text: str) -> tuple[Found, ...]:
    """Return devices and chips that a text may mean, the likeliest first.

    First those with this name, then those whose names begin with its words, then those whose names contain them; without the
    first two, chips with a core, GPU or NPU of that name. The name may be in any case, with blanks, hyphens, underscores or none:
    "pi5", "snapdragon 855", "SM8150", "cortex-a76".

    Example:
        >>> from latcast.chips.chip_names import find
        >>> [(found.name, found.chips[0].name) for found in find("redmi note8")][:2]
        [('Redmi Note 8', 'Snapdragon 665'), ('Redmi Note 8 Pro', 'Helio G90T')]
    """
    for way in ways_to_write(text):
        wanted = joined(way)
        if wanted and wanted not in _NO_NAMES:
            named, inside = _found_by_name(wanted)
            found = named or _found_by_part(wanted, whole=way == text) or inside
            if found:
                return found
    return ()


_NO_NAMES = ("gpu", "npu")


def _found_by_name(wanted: str) -> tuple[tuple[Found, ...], tuple[Found, ...]]:
    """Return (entries whose name is the text or begins so; those whose names only contain it)."""
    words = words_of(wanted)
    ranks: dict[_Name, int] = {}
    for name, meant in _names().items():
        if wanted in name:
            for each in meant:
                begins = [begin for begin, _ in words_of(each.text).places(words)]
                if name == wanted or begins:
                    key = _Name("", each.owner, each.is_device)
                    ranks[key] = min(ranks.get(key, 2), 0 if name == wanted else 1 if begins[0] == 0 else 2)
    entries = sorted(((rank, each.entry()) for each, rank in ranks.items()), key=lambda pair: (pair[0], pair[1].name.lower()))
    found = tuple(
        Found(entry.name, chips_of(entry), entry if isinstance(entry, Device) else None, exact=rank == 0)
        for rank, entry in entries
    )
    return (found, ()) if entries and entries[0][0] < 2 else ((), found)


@cache
def _parts() -> Mapping[str, list[tuple[str, str, Chip]]]:
    """Return names of cores, GPUs, NPUs and their families to (kind, the part's full name, chip) of the chips that have them."""
    found: dict[str, list[tuple[str, str, Chip]]] = {}
    for chip in chips().values():
        named = [("core", cluster.name, name) for cluster in chip.cpu for name in (cluster.core, cluster.design)]
        named += [("gpu", chip.gpu, name) for name in (chip.gpu, chip.gpu_family) if chip.gpu and name]
        named += [("npu", chip.npu, name) for name in (chip.npu, chip.npu_family) if chip.npu and name]
        for kind, part, name in named:
            found.setdefault(name, []).append((kind, part, chip))
    return found


def _found_by_part(wanted: str, *, whole: bool) -> tuple[Found, ...]:
    """Return chips with such a core, GPU or NPU, the latest first; "ethos u55" is any Ethos-U55, and a whole text "a76" the
    Cortex-A76, as "Oppo A76" is a phone.
    """
    text = words_of(wanted)
    meant: dict[str, tuple[str, Chip, dict[str, None]]] = {}
    for name, having in _parts().items():
        words = words_of(name)
        if (whole and wanted == words.text.removeprefix("cortex")) or any(begin == 0 for begin, _ in words.places(text)):
            for kind, part, chip in having:
                meant.setdefault(chip.id, (kind, chip, {}))[2][part] = None
    found = [Found(chip.name, (chip,), by=kind, parts=tuple(parts)) for kind, chip, parts in meant.values()]
    return tuple(sorted(found, key=lambda each: (-(each.chips[0].year or 0), each.name)))


COPY = re.compile(r"(?<=[a-z0-9])\.\d+$")
"""The number of a device among those of one name in platform ids: "gm1901.2"."""


LEAST_LIKE = 0.7
"""Likeness from which on a name may be meant: of two thousand, some is half like any ("Realme C21" like "Ambarella CV22")."""


def nearest_known(text: str) -> list[str]:
    """Return the names of devices, chips and their parts that are spelled most like a text; none where none is like it."""
    known: dict[str, str] = {}
    for chip in chips().values():
        cores = [name for cluster in chip.cpu for name in (cluster.core, cluster.design)]
        known |= {name.lower(): name for name in (chip.name, *cores, chip.gpu, chip.npu) if name}
    known |= {name.lower(): name for name in devices()}
    return [known[name] for name in nearest_names(text.lower(), list(known), LEAST_LIKE)]


def devices_named(text: str) -> tuple[Device, ...]:
    """Return devices whose name a longer text is or holds, as :func:`chip_of` reads it."""
    return tuple(each for each in _mentioned(words_of(COPY.sub("", text))) if isinstance(each, Device))


VENDORS: Mapping[str, str] = {"qairt": "Qualcomm", "qnn": "Qualcomm", "snpe": "Qualcomm", "coreml": "Apple", "neuron": "MediaTek"}
"""Runtime that runs on the chips of one vendor alone to this vendor."""


def vendor_of(platform: Platform) -> str:
    """Return the vendor of the chips that a platform's runtime, or one below it, runs on; "" where it runs on others too."""
    parts = (platform.runtime, *platform.unit.split("+")[1:])
    return next((vendor for part in parts for name, vendor in VENDORS.items() if part.startswith(name)), "")


@lru_cache(maxsize=4096)
def chip_of(device_text: str, chip_text: str = "", unit_kind: str = "", vendor: str = "") -> Chip | None:
    """Return the chip named by texts of datasets, cards and platform ids; None where they mean no chip of the table, or several.

    The chip's text decides; where the device is known to have another bin of the same silicon (an Orin NX whose chip is given as
    "Orin"), the device does. Of several chips in one device (a CPU and a graphics card) the kind of unit decides, of several
    devices with one name ("Galaxy S24") the vendor.

    Args:
        device_text: "Redmi_Note8_Pro", "Raspberry Pi 5 Broadcom BCM2712, Cortex-A76 (ARMv8) (2.4GHz x 4)", "gm1901.2".
        chip_text: "qcs8550-proxy", "Intel(R) Xeon(R) Platinum 8573C"; empty where unknown.
        unit_kind: ``cpu``, ``gpu`` or ``npu``; empty means the device's chip with the CPU.
        vendor: Of the chip, where that is known; see :func:`vendor_of`.
    """
    stated = _chips_meant(chip_text, unit_kind)
    of_device = _chips_meant(device_text, unit_kind) or _chips_meant(COPY.sub("", device_text), unit_kind)
    if not stated or {chip.die for chip in stated} == {chip.die for chip in of_device}:
        stated = of_device
    if len({chip.die for chip in stated}) > 1:
        stated = [chip for chip in stated if chip.vendor == vendor]
    return stated[0] if len({chip.die for chip in stated}) == 1 else None


def _chips_meant(text: str, unit_kind: str) -> list[Chip]:
    """Return the chips that a text mentions, else those of the devices that it mentions."""
    if not text:
        return []
    mentioned = _mentioned(words_of(text))
    found = [each for each in mentioned if isinstance(each, Chip)]
    if not any(chip.has(unit_kind) if unit_kind else True for chip in found):
        named = [each for each in mentioned if isinstance(each, Device)]
        found = [chip for each in named for chip in chips_of(each)[: None if unit_kind else 1]] or found
    if unit_kind:
        found = [chip for chip in found if chip.has(unit_kind)] or found
        cards = [chip for chip in found if not chip.cpu]
        found = cards if unit_kind != "cpu" and cards else found
    return found


def silicon(device_text: str, chip_text: str = "", unit_kind: str = "") -> str:
    """Return what devices are held out together by: the die of :func:`chip_of`; an unknown text is its own group."""
    chip = chip_of(device_text, chip_text, unit_kind)
    if chip is not None:
        return chip.die
    return "unlisted " + " ".join(words_of(COPY.sub("", chip_text or device_text)).words)


FLAGS = ("neon", "fp16", "dotprod", "i8mm", "sve", "avx2", "avx512", "vnni", "amx")


def facts(chip: Chip, unit_kind: str, unit: str = "") -> Mapping[str, float]:
    """Return the facts of a chip's unit, as numbers near 0 to 10; unknown ones are absent.

    ``unit``, of the platform id, names the cores (``1small``, ``cpu4+little``, ``npu+1core``); empty means the fastest, or all
    of an NPU.

    Returns:
        For all kinds ``year`` (since 2018, in units of 5 years), ``log2_bandwidth_gb_s``, the CPU's ``log2_ghz`` and ``vendor=``.
        For a CPU ``log2_cluster_cores``, ``log2_cores`` (of all clusters), ``log2_simd_bits``, ``log2_fma_bits``,
        ``out_of_order``, a flag for each of neon, fp16, dotprod, i8mm, sve, avx2, avx512, vnni and amx, and ``core=`` with the
        core's design. For a GPU ``log2_gpu_fma`` (a cycle), ``log2_gpu_ghz``, ``log2_gpu_gflops`` and ``gpu=`` with its family
        (vendors count cores differently); for an NPU ``log2_tops``, ``npu=`` with its family and ``memory=``. Names with ``=``
        are 1 where they hold, and absent elsewhere.

    Raises:
        LatcastError: No such kind.
    """
    _check_kind(unit_kind)
    cluster = chip.cluster(unit)
    found: dict[str, float | None] = {
        "year": None if chip.year is None else (chip.year - 2018) / 5,
        "log2_bandwidth_gb_s": _log2(chip.bandwidth_gb_s),
        "log2_ghz": _log2(cluster.ghz if cluster else None),
        f"vendor={chip.vendor}": 1.0,
    }
    if unit_kind == "cpu" and cluster is not None:
        counts = [each.cores for each in chip.cpu]
        found |= {
            "log2_cluster_cores": _log2(cluster.cores),
            "log2_cores": _log2(sum(count or 0 for count in counts)) if all(counts) else None,
            "log2_simd_bits": _log2(cluster.simd_bits),
            "log2_fma_bits": _log2(cluster.fma_bits),
            "out_of_order": None if cluster.in_order is None else float(not cluster.in_order),
            **{name: float(name in cluster.features) for name in FLAGS},
            f"core={cluster.design}": 1.0,
        }
    elif unit_kind == "gpu" and chip.gpu:
        found |= {
            "log2_gpu_fma": _log2(chip.gpu_fma),
            "log2_gpu_ghz": _log2(None if chip.gpu_mhz is None else chip.gpu_mhz / 1000),
            "log2_gpu_gflops": _log2(chip.gpu_gflops),
            f"gpu={chip.gpu_family}": 1.0,
        }
    elif unit_kind == "npu" and chip.npu:
        share = chip.npu_cores or 1 if ONE_CORE in unit.split("+") else 1
        found |= {"log2_tops": _log2(None if chip.npu_tops is None else chip.npu_tops / share), f"npu={chip.npu_family}": 1.0}
        if chip.memory:
            found[f"memory={chip.memory}"] = 1.0
    return {name: value for name, value in found.items() if value is not None}


SIZES: Mapping[str, Sequence[str]] = {
    "cpu": ("log2_ghz", "log2_cluster_cores"), "gpu": ("log2_gpu_ghz", "log2_gpu_gflops"), "npu": ("log2_tops",),
}  # fmt: skip
"""Kind of unit to the facts in which the bins of one silicon differ there."""


def same_unit(chip: Chip, other: Chip, unit_kind: str) -> bool:
    """Return whether two chips are bins of one silicon whose units of a kind are alike, with the same clock and cores.

    Few NPUs state their TOPS: bins of one silicon are taken for alike unless two of them state different ones.
    """
    if chip.die != other.die:
        return False
    if unit_kind == "npu" and len({each.npu_tops for each in chips().values() if each.die == chip.die} - {None}) < 2:
        return True
    mine, theirs = ([facts(each, unit_kind).get(name) for name in SIZES[unit_kind]] for each in (chip, other))
    return mine == theirs and any(mine)


def _log2(value: float | None) -> float | None:
    return math.log2(value) if value else None


def _check_kind(unit_kind: str) -> None:
    if unit_kind not in UNIT_KINDS:
        raise LatcastError(f"the kind of unit is '{unit_kind}'; expected one of {', '.join(UNIT_KINDS)}")


SAME_SILICON, SAME_FAMILY = 1, 3
"""Largest numbers of :func:`relation` at which two chips are one silicon, and two units are of one family or core."""


def nearest(chip: Chip, unit_kind: str) -> Callable[[Chip | None], tuple[int, int, int]]:
    """Return a sort key of chips by the likeness of their unit to that of ``chip``: ``sorted(known, key=nearest(chip, "gpu"))``.

    The first two numbers are of :func:`relation`, 6 of chips that are not known; the third is the difference in years.

    Raises:
        LatcastError: No such kind of unit.
    """
    _check_kind(unit_kind)

    def key(other: Chip | None) -> tuple[int, int, int]:
        if other is None:
            return 6, 0, 99
        return *relation(chip, other, unit_kind)[0], abs(chip.year - other.year) if chip.year and other.year else 50

    return key


def relation(mine: Chip, other: Chip, unit_kind: str, unit: str = "") -> tuple[tuple[int, int], str]:
    """Return how near a unit of another chip is to a chip's own, and in words how it is related.

    The same chip (0), another bin of its silicon (1), the same core, GPU or NPU class (2), the same family of GPUs or NPUs (3),
    the same vendor (4), another one (5); of cores the second number is the place of the core in ``mine``.

    Args:
        mine, other: The chips.
        unit_kind: ``cpu``, ``gpu`` or ``npu``.
        unit: Of a platform on the other, as for :func:`facts`.
    """
    if other.id == mine.id:
        return (0, 0), "the same chip"
    if other.die == mine.die:
        return (1, 0), "the same silicon"
    if unit_kind == "cpu":
        cluster = other.cluster(unit)
        designs = [each.design for each in mine.cpu]
        if cluster is not None and cluster.design in designs:
            return (2, designs.index(cluster.design)), f"the same core, {cluster.design}"
    else:
        part, family = getattr(mine, unit_kind), getattr(mine, f"{unit_kind}_family")
        if part and part == getattr(other, unit_kind) != family:
            return (2, 0), f"the same {unit_kind.upper()}, {part}"
        if family and family == getattr(other, f"{unit_kind}_family"):
            return (3, 0), f"the same {unit_kind.upper()} family, {family}"
    return ((4, 0), "the same vendor") if other.vendor == mine.vendor else ((5, 0), "another vendor")
