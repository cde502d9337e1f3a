"""The dataset of Ganesan et al. as tables of phones and networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from latcast.datasets.importers import IMPORTERS
from latcast.datasets.importers.iiswc20.networks import layers_of
from latcast.devices.latency_table import table_of
from latcast.devices.network_kernels import kernels_of_layers
from latcast.errors import DatasetError
from latcast.kernels.kernel import Kernel
from latcast.measure.environment import MOMENT
from latcast.measure.statistics import LabelError, label_error_of_halves
from papers.iiswc20.architectures import Architectures
from papers.iiswc20.catalogue import Catalogue
from papers.iiswc20.representations import PaddedLayers

FEWEST_PHONES = 20

LABELS = ("mean", "median")
"""Of a network's 30 runs: the mean, as published and as the paper uses it, or the median."""


@dataclass(frozen=True)
class Published:
    """Attributes:
    phones: Platform ids, one a row.
    models: The phones' models; phones of one model have the same.
    hardware: What is known of each phone: CPU, GHz, GB of memory.
    mean_ms: (phones, networks) means of the runs.
    median_ms: (phones, networks) medians; None without raw runs.
    halves_ms: (2, phones, networks) medians of the first and of the second half of the runs; None without raw runs.
    layers: Of each network, (layers, 13).
    mega_macs: (networks,) as published.
    names: Of the networks.
    architectures: The cells of NAS-Bench-201, where they were read too.
    """

    phones: tuple[str, ...]
    models: tuple[str, ...]
    hardware: tuple[Mapping[str, Any], ...]
    mean_ms: np.ndarray
    median_ms: np.ndarray | None
    halves_ms: np.ndarray | None
    layers: tuple[np.ndarray, ...]
    mega_macs: np.ndarray
    names: tuple[str, ...]
    architectures: Architectures | None = None

    def with_architectures(self, architectures: Architectures) -> Published:
        """The same with the cells of NAS-Bench-201."""
        return replace(self, architectures=architectures)

    def latency_ms(self, label: str = "mean") -> np.ndarray:
        """(phones, networks).

        Raises:
            DatasetError: Medians without raw runs.
        """
        if label == "mean":
            return self.mean_ms
        if self.median_ms is None:
            raise DatasetError("medians need the raw runs, which the folder does not have; use the means")
        return self.median_ms

    @cached_property
    def kernels(self) -> tuple[tuple[Kernel, ...], ...]:
        """Of each network."""
        return tuple(tuple(kernels_of_layers(layers)) for layers in self.layers)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The networks as indices."""
        return Catalogue.of(self.kernels)

    @cached_property
    def padded_layers(self) -> np.ndarray:
        """(networks, features): the paper's representation."""
        return PaddedLayers.of(self.layers).features(self.layers)

    @property
    def networks(self) -> int:
        return len(self.layers)

    def label_error(self) -> LabelError | None:
        """Of the medians over all runs; None without raw runs."""
        return None if self.halves_ms is None else label_error_of_halves(*self.halves_ms)


def read_published(folder: Path) -> Published:
    """Reads the dataset.

    Raises:
        DatasetError: A file is missing or malformed, the networks' layers are missing, or there are too few phones.
    """
    imported = IMPORTERS.get("iiswc20").read(folder)
    table = table_of(imported.measurements)
    phones = {item.platform: item for item in imported.measurements}
    runs = {(item.platform, item.reference.name): item.runs_ms for item in imported.measurements}
    if any("layers" not in reference.parameters for reference in table.networks):
        raise DatasetError(f"{folder} does not say what the networks are; expected layer_embeddings.csv beside latency_ms.csv")
    if len(table.platforms) < FEWEST_PHONES:
        raise DatasetError(f"{folder} has {len(table.platforms)} phones; the experiments take at least {FEWEST_PHONES}")
    mean_ms, median_ms, halves_ms = table.latency_ms, None, None
    if all(runs.values()):
        all_runs = np.array([[runs[phone, network.name] for network in table.networks] for phone in table.platforms])
        half = all_runs.shape[2] // 2
        mean_ms, median_ms = all_runs.mean(axis=2), np.median(all_runs, axis=2)
        halves_ms = np.stack([np.median(all_runs[:, :, :half], axis=2), np.median(all_runs[:, :, half:], axis=2)])
    mega_macs = {item.reference.name: item.environment[MOMENT]["mega_macs"] for item in imported.measurements}
    hardware = tuple(phones[name].environment["device"] for name in table.platforms)
    return Published(
        table.platforms,
        tuple(str(device["model"]) for device in hardware),
        hardware,
        mean_ms,
        median_ms,
        halves_ms,
        tuple(layers_of(reference.parameters["layers"]) for reference in table.networks),
        np.array([mega_macs[reference.name] for reference in table.networks]),
        tuple(reference.name for reference in table.networks),
    )
