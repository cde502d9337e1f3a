"""Single blocks of search spaces of mobile CNNs and transformers, TFLite on phones' CPUs (nn-Meter's history).

A block is its key, such as ``conv_{hw}_{cin}_{cout}_{expansion}_{stride}_{activation}_{kernel}_{se}``. The same key in another
table has another latency, so the table belongs to the block.
"""

from __future__ import annotations

from pathlib import Path

from latcast.datasets.importers import Refusals
from latcast.datasets.importers.table import Malformed, NamedOnlyImporter, Parsed, number, published
from latcast.errors import DatasetError
from latcast.reading import read_json
from latcast.records import UNSTATED, Platform, Reference

SPACE = "tflite_block"

SOURCE = {"name": "tflite_blocks", "source": "microsoft/nn-Meter, history", "licence": "MIT"}

SAME_VALUES = {"pixel4_lut_2022.json": "pixel4_v1.json"}
"""Table that is left out to the table that holds all its values."""

FILES = (
    "pixel1_ln_v2.json", "pixel1_ln_v3.json", "pixel4_ln_v3.json", "pixel4_v1.json", "pixel4_lut_2022.json",
    "xiaomi11_ln_v2.json", "xiaomi11_ln_v3.json",
)  # fmt: skip


def _parse(folder: Path, name: str, refusals: Refusals) -> Parsed:
    file = folder / name
    table = read_json(file, error=DatasetError)
    if not isinstance(table, dict):
        raise DatasetError(f"{file} holds a {type(table).__name__}; expected an object of blocks and milliseconds")
    twin = SAME_VALUES.get(name)
    if twin is not None and (folder / twin).is_file():
        return Parsed((), len(table), 0, (f"{name} is left out: its values all stand in {twin}",))
    phone, _, version = name.removesuffix(".json").partition("_")
    platform = Platform(phone, "tflite", UNSTATED, "cpu", "fp32")
    measurements = []
    for place, (key, latency) in enumerate(table.items(), start=1):
        try:
            latency_ms = number(str(latency), f"the latency of {key}")
        except Malformed as problem:
            refusals.add(file, place, str(problem))
            continue
        reference = Reference(SPACE, {"block": key, "table": version}, key)
        moment = {"row": f"{name}:{key}"}
        measurements.append(published(platform.id, reference, latency_ms, "as published", {"dataset": SOURCE}, moment))
    return Parsed(measurements, len(table))


IMPORTER = NamedOnlyImporter("Blocks of microsoft/nn-Meter's history; MIT", FILES, _parse)
