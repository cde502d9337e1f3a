"""The list of networks in a kit, which names the networks of its results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from latcast.errors import DatasetError, MeasurementError
from latcast.reading import check_schema, read_json
from latcast.records import SCHEMA_VERSION, Reference

MANIFEST_FILE = "manifest.json"

RESULTS_FOLDER = "results"


@dataclass(frozen=True)
class KitNetwork:
    """One network of a kit.

    Attributes:
        name: Name of its files, which the tools print: letters, digits, ``_``, ``-`` and dots.
        files: Format ("tflite", "onnx", "ncnn") to names of its files, in the kit's folder of networks.
        input_shape: Shape of its only or first input, batch first.
    """

    name: str
    reference: Reference
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    input_shape: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "reference": self.reference.to_json(),
            "files": {kind: list(names) for kind, names in self.files.items()},
            "input_shape": list(self.input_shape),
        }


@dataclass(frozen=True)
class KitManifest:
    """The networks of a kit in the order in which they run, their precision, and how they were chosen (method, seed, ...)."""

    networks: tuple[KitNetwork, ...]
    precision: str = "fp32"
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def references(self) -> dict[str, Reference]:
        """Name of each network to its reference."""
        return {network.name: network.reference for network in self.networks}

    def write(self, folder: Path) -> None:
        """Write the manifest into a kit's folder."""
        document = {
            "schema": SCHEMA_VERSION,
            "kit": "latcast signature",
            "precision": self.precision,
            "chosen": dict(self.chosen),
            "networks": [network.to_json() for network in self.networks],
        }
        (folder / MANIFEST_FILE).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> KitManifest:
        """Read the manifest of a kit's folder, or raise a DatasetError where it is missing, malformed or newer."""
        file = folder / MANIFEST_FILE
        try:
            document = read_json(file, error=DatasetError)
        except DatasetError as problem:
            raise DatasetError(
                f"{folder} is not a kit: cannot read {file.name} ({problem}); expected a folder written by latcast device kit"
            ) from problem
        try:
            check_schema(document["schema"], SCHEMA_VERSION, str(file), error=DatasetError)
            networks = tuple(
                KitNetwork(
                    str(item["name"]),
                    Reference.from_json(item["reference"]),
                    {kind: tuple(names) for kind, names in item["files"].items()},
                    tuple(item["input_shape"]),
                )
                for item in document["networks"]
            )
            return cls(networks, str(document["precision"]), dict(document["chosen"]))
        except (KeyError, TypeError, AttributeError, MeasurementError) as problem:
            raise DatasetError(f"{file} is not a manifest of a kit: {problem}; write the kit again") from problem
