"""The dataset of Ganesan et al. as tables of phones and networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from latcast.chips.chip_names import silicon
from latcast.datasets.importers import IMPORTERS
from latcast.devices.covariates import covariates_of, network_kernels
from latcast.devices.device_model import KnownPlatform
from latcast.environment import MOMENT
from latcast.errors import DatasetError, ModelError
from latcast.kernels.rules import load_rules
from latcast.measure.labels import LabelError, label_error_of_halves
from latcast.predictors.network_features import RULES, NetworkFeatures
from latcast.records import Platform
from latcast.spaces.iiswc20 import graph_of_layers, layers_of, short_layers
from papers.iiswc20.paper import CLUSTERS
from papers.iiswc20.trees import padded
from shipping.known_platforms import named_in

FEWEST_PHONES = 20

SLOWED = 0.1
"""Relative difference of the medians of both halves of the runs from which on a phone did not run at one speed."""

KIND = "cpu"
"""Of unit: every phone ran the networks on one core."""

NETWORK_CLUSTERS = ("small", "large", "giant")


@dataclass(frozen=True)
class PublishedPhones:
    """Attributes:
    phones: Platform ids, one a row.
    models: The phones' models; phones of one model have the same.
    hardware: What is known of each phone: CPU, GHz, GB of memory.
    mean_ms: (phones, networks) means of the runs.
    median_ms: (phones, networks) medians; None without raw runs.
    halves_ms: (2, phones, networks) medians of the first and of the second half of the runs; None without raw runs.
    layers: Of each network, (layers, 13).
    mega_macs: (networks,) as published.
    """

    phones: tuple[str, ...]
    models: tuple[str, ...]
    hardware: tuple[Mapping[str, Any], ...]
    mean_ms: np.ndarray
    median_ms: np.ndarray | None
    halves_ms: np.ndarray | None
    layers: tuple[np.ndarray, ...]
    mega_macs: np.ndarray

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
    def features(self) -> NetworkFeatures:
        """Of each network, also of one whose layers compute something else than was published of it."""
        rules = load_rules(RULES)
        return NetworkFeatures.of([network_kernels(graph_of_layers(short_layers(layers)), rules) for layers in self.layers])

    @cached_property
    def platforms(self) -> tuple[KnownPlatform, ...]:
        """The phones as the model of devices sees them, without their latencies."""
        found = []
        nothing = np.zeros(0)
        for name, device in zip(self.phones, self.hardware, strict=True):
            platform = Platform.parse(name)
            device_text, chip_text = named_in(platform.device, {"device": device})
            covariates = covariates_of(platform, KIND, device_text, chip_text)
            die = silicon(device_text, chip_text, KIND)
            found.append(KnownPlatform(name, KIND, die, covariates, nothing.astype(int), nothing, "iiswc20"))
        return tuple(found)

    @cached_property
    def padded_layers(self) -> np.ndarray:
        """(networks, features): the paper's representation."""
        return padded(self.layers)

    @property
    def networks(self) -> int:
        return len(self.layers)

    def slowed_networks(self, phone: int) -> int | None:
        """Return on how many networks the two halves of a phone's runs differ by more than 10 %; None without raw runs."""
        if self.halves_ms is None:
            return None
        first, second = self.halves_ms[:, phone]
        return int((np.abs(first / second - 1) > SLOWED).sum())

    def label_error(self) -> LabelError | None:
        """Return the error of the medians over all runs; None without raw runs."""
        return None if self.halves_ms is None else label_error_of_halves(*self.halves_ms)


def read_published(folder: Path) -> PublishedPhones:
    """Read the dataset.

    Raises:
        DatasetError: A file is missing or malformed, the networks' layers are missing, or there are too few phones.
    """
    imported = IMPORTERS.get("iiswc20").read(folder)
    phones = {item.platform: item for item in imported.measurements}
    networks = list({id(item.reference): item.reference for item in imported.measurements}.values())
    try:
        layers = tuple(layers_of(reference.parameters) for reference in networks)
    except ModelError as problem:
        raise DatasetError(
            f"{folder} does not say what the networks are; expected layer_embeddings.csv beside latency_ms.csv"
        ) from problem
    if len(phones) < FEWEST_PHONES:
        raise DatasetError(f"{folder} has {len(phones)} phones; the experiments take at least {FEWEST_PHONES}")
    # The importer yields all phones of one network after those of another, and no network without one of them.
    mean_ms = np.array([item.latency_ms for item in imported.measurements]).reshape(len(networks), len(phones)).T
    median_ms, halves_ms = None, None
    if all(item.runs_ms for item in imported.measurements):
        listed = np.array([item.runs_ms for item in imported.measurements])
        all_runs = listed.reshape(len(networks), len(phones), -1).swapaxes(0, 1)
        half = all_runs.shape[2] // 2
        mean_ms, median_ms = all_runs.mean(axis=2), np.median(all_runs, axis=2)
        halves_ms = np.stack([np.median(all_runs[:, :, :half], axis=2), np.median(all_runs[:, :, half:], axis=2)])
    mega_macs = {item.reference.name: item.environment[MOMENT]["mega_macs"] for item in imported.measurements}
    hardware = tuple(each.environment["device"] for each in phones.values())
    return PublishedPhones(
        tuple(phones), tuple(str(device["model"]) for device in hardware), hardware, mean_ms, median_ms, halves_ms, layers,
        np.array([mega_macs[reference.name] for reference in networks]),
    )  # fmt: skip


def k_means(rows: np.ndarray, names: tuple[str, ...], starts: int = 20) -> np.ndarray:
    """(rows,) names of clusters, in order of their mean: the best of several starts.

    Args:
        rows: (rows, columns).
        names: As many as there are clusters, smallest mean first.
    """
    from scipy.cluster.vq import kmeans2

    def start(seed: int) -> tuple[float, np.ndarray]:
        centres, labels = kmeans2(rows, len(names), iter=100, minit="++", rng=seed)
        return float(((rows - centres[labels]) ** 2).sum()), labels

    _, labels = min((start(seed) for seed in range(starts)), key=lambda found: found[0])
    order = np.argsort([rows[labels == label].mean() for label in range(len(names))])
    named = dict(zip(order.tolist(), names, strict=True))
    return np.array([named[label] for label in labels.tolist()], dtype=object)


def speed_clusters(latency_ms: np.ndarray) -> np.ndarray:
    """(phones,) "fast", "medium" or "slow" (§II-C)."""
    return k_means(latency_ms, CLUSTERS)


def network_clusters(latency_ms: np.ndarray) -> np.ndarray:
    """(networks,) "small", "large" or "giant" (§II-C)."""
    return k_means(latency_ms.T, NETWORK_CLUSTERS)
