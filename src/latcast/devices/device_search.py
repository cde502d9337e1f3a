"""Which devices and chips a text names, and which platforms that can be predicted for are of them or like them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from latcast.chips.chip_names import SAME_FAMILY, Found, chip_of, devices_named, find, relation
from latcast.chips.chip_table import Chip, CpuCluster, devices
from latcast.kernels.rules import unit_kind
from latcast.predictors.bundle_index import PlatformSummary, platforms
from latcast.records import UNIT_KINDS
from latcast.tables import Rows, Tabular, plain_fields

_KINDS = {"webgpu": "gpu", "wasm": "cpu"}
"""Units of a browser to the kind that computes."""


@dataclass(frozen=True)
class NearPlatform:
    """A platform that can be predicted for, on a device or on one that is like it.

    Attributes:
        id: Platform id.
        device: Its first part.
        part: What it runs on there: "kryo-485-prime (cortex-a76)", "Adreno 640".
        relation: "the same device", "the same chip", "the same silicon", "the same core, cortex-a76", "the same GPU, Adreno 640",
            "the same GPU family, adreno6xx"...
        mape: Of its predictor on networks not trained on, in percent; None where they were too few.
    """

    id: str
    device: str
    part: str
    relation: str
    mape: float | None


@dataclass(frozen=True)
class FoundDevice(Tabular):
    """A device or a chip that a text names.

    Attributes:
        name: Of the device or the chip.
        kind: "device" or "chip".
        aliases: Other names, model numbers among them; devices that differ only outside of the chip share an entry.
        exact: Whether the text is the whole of a name.
        by: "name", or the part that the text names: "core", "gpu" or "npu".
        parts: Those parts, as platforms name theirs; none where the text is a name.
        chips: The device's chips, or the chip; what is known of them.
        devices: Names of devices with one of these chips.
        platforms: Those that can be predicted for, of it or like it, the nearest first; empty where nothing like it was measured.
    """

    name: str
    kind: str
    aliases: tuple[str, ...]
    exact: bool
    by: str
    parts: tuple[str, ...]
    chips: tuple[Chip, ...]
    devices: tuple[str, ...]
    platforms: tuple[NearPlatform, ...]

    def _rows(self) -> Rows:
        return [plain_fields(each) for each in self.platforms]

    def __repr__(self) -> str:
        chips = ", ".join(chip.name for chip in self.chips)
        return f"<FoundDevice {self.name} ({chips}): {len(self.platforms)} platforms of it or like it>"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; unknown facts of a chip are left out."""
        chips = [{key: value for key, value in asdict(chip).items() if value not in (None, "", ())} for chip in self.chips]
        for chip in chips:
            clusters = [{key: value for key, value in each.items() if value is not None} for each in chip.get("cpu", ())]
            chip["cpu"] = [{**each, "features": sorted(each["features"])} for each in clusters]
        return {**asdict(self), "chips": chips}


def find_devices(text: str) -> list[FoundDevice]:
    """Find the devices and chips that a text names, the likeliest first, with the nearest platforms of each.

    Nothing is measured or downloaded: what is known of chips is in a table, of vendors' specifications.

    Args:
        text: A name in any case, with blanks, hyphens, underscores or none: "redmi note 8", "pi5", "rk3588", "sm8150",
            "cortex-a76", "adreno 640", "8gen3".

    Example:
        >>> import latcast
        >>> latcast.find_devices("redmi note 8")[0].chips[0].name
        'Snapdragon 665'
        >>> latcast.find_devices("mi 9")[0].platforms[0].relation
        'the same device'
    """
    found = find(text)
    known = []
    for platform in platforms() if found else ():
        kind = _KINDS.get(unit_kind(platform.unit), unit_kind(platform.unit))
        known.append((platform, kind, chip_of(platform.device, platform.chip or "", kind if kind in UNIT_KINDS else "")))
    return [
        FoundDevice(
            each.name,
            "chip" if each.device is None else "device",
            each.chips[0].aliases if each.device is None else each.device.aliases,
            each.exact,
            each.by,
            each.parts,
            each.chips,
            tuple(sorted(_with_chips(each), key=str.lower)),
            tuple(near for _, near in sorted(_near(each, known), key=lambda pair: (pair[0], pair[1].id))),
        )
        for each in found
    ]


def _with_chips(found: Found) -> Iterator[str]:
    wanted = {chip.id for chip in found.chips}
    for device in devices().values():
        if wanted & set(device.chips) and device != found.device:
            yield device.name


def _near(
    found: Found, known: Sequence[tuple[PlatformSummary, str, Chip | None]]
) -> Iterator[tuple[tuple[int, int], NearPlatform]]:
    """Yield platforms with their nearness: the relation, and the place of the core in the chip that was found."""
    for platform, kind, chip in known:
        if chip is None or kind not in UNIT_KINDS:
            continue
        order, text = min(relation(mine, chip, kind, platform.unit) for mine in found.chips)
        if order[0] <= SAME_FAMILY:
            if order[0] <= 1 and found.device is not None and found.device in devices_named(platform.device):
                order, text = (-1, 0), "the same device"
            part = chip.cluster(platform.unit) if kind == "cpu" else chip.gpu if kind == "gpu" else chip.npu
            name = part.name if isinstance(part, CpuCluster) else part
            yield order, NearPlatform(platform.id, platform.device, name or "not known", text, platform.mape)
