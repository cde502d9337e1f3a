"""The exploratory part of Ganesan et al. (§II-C) from the published measurements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np

from latcast.errors import DatasetError
from latcast.records import Reference
from latcast.spaces import build
from papers.harness import Cell, PaperTable
from papers.iiswc20.paper import CLUSTER_MEAN_MS, CLUSTERS
from papers.iiswc20.published import NETWORK_CLUSTERS, PublishedPhones, network_clusters, speed_clusters
from papers.iiswc20.trees import layers_of_graph

FREQUENCY_NETWORK = "mobilenet_v2"
"""Fig. 5's."""

OUT_CHANNELS = 8
"""Place in a layer."""

QUARTILES = ("5 % below", "lower quartile", "median", "upper quartile", "5 % above")


def _quantiles(values: np.ndarray) -> list[float]:
    return [float(value) for value in np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95))]


def cpu_names(published: PublishedPhones) -> list[str]:
    """Return the CPU of each phone; "unnamed" where the dataset has a number for it."""
    names = [str(device.get("cpu", device.get("cpu_code", "unknown"))) for device in published.hardware]
    return ["unnamed" if name.isdigit() else name for name in names]


def compute(published: PublishedPhones) -> PaperTable:
    """Fig. 2."""
    values = _quantiles(published.mega_macs)
    return PaperTable(
        "figure 2",
        "multiply-accumulates of the networks, millions",
        ("networks", "least", *QUARTILES, "most"),
        ((published.networks, float(published.mega_macs.min()), *values, float(published.mega_macs.max())),),
    )


def cpus(published: PublishedPhones) -> PaperTable:
    """Fig. 3, and which clusters each CPU is in."""
    clusters = speed_clusters(published.mean_ms)
    by_cpu: dict[str, Counter[str]] = {}
    for name, cluster in zip(cpu_names(published), clusters, strict=True):
        by_cpu.setdefault(name, Counter())[str(cluster)] += 1
    order = sorted(by_cpu, key=lambda name: (-sum(by_cpu[name].values()), name))
    several = sum(len(by_cpu[name]) > 1 for name in order)
    return PaperTable(
        "figure 3",
        "CPUs of the phones, and how fast the phones are",
        ("CPU", "phones", *CLUSTERS),
        tuple((name, sum(by_cpu[name].values()), *(by_cpu[name][cluster] for cluster in CLUSTERS)) for name in order),
        (f"{several} of {len(order)} CPUs are in more than one cluster of phones.",),
    )


def phone_clusters(published: PublishedPhones) -> PaperTable:
    """Fig. 4: k-means of phones by their latencies of all networks."""
    clusters = speed_clusters(published.mean_ms)
    lines: list[tuple[Cell, ...]] = []
    for name in CLUSTERS:
        rows = published.mean_ms[clusters == name]
        means = rows.mean(axis=1)
        lines.append(
            (
                name,
                len(rows),
                CLUSTER_MEAN_MS[name],
                float(rows.mean()),
                float(means.min()),
                float(means.max()),
                *_quantiles(rows),
            )
        )
    return PaperTable(
        "figure 4",
        "phones in three clusters, latencies of all networks in ms",
        ("cluster", "phones", "mean in the paper", "mean", "fastest phone's", "slowest phone's", *QUARTILES),
        tuple(lines),
        ("The paper has 105 phones.",) if len(published.phones) != 105 else (),
    )


def frequency_network(published: PublishedPhones) -> int:
    """Return the column of MobileNetV2: the dataset numbers its networks, so it is found by the channels of its convolutions.

    Raises:
        DatasetError: There is none.
    """
    wanted = _channels(layers_of_graph(build(Reference(FREQUENCY_NETWORK, {}))))
    for column, layers in enumerate(published.layers):
        if _channels(layers) == wanted:
            return column
    raise DatasetError("no network has the convolutions of MobileNetV2, whose latency Fig. 5 shows against frequency")


def _channels(layers: np.ndarray) -> list[int]:
    """Output channels of the convolutions, in order."""
    convolutions = layers[:, :2].any(axis=1)
    return [int(value) for value in layers[convolutions, OUT_CHANNELS]]


def frequency(published: PublishedPhones) -> PaperTable:
    """Fig. 5: what frequency and memory say of MobileNetV2's latency."""
    from scipy.stats import spearmanr

    column = frequency_network(published)
    latency_ms = published.mean_ms[:, column]
    ghz = np.array([float(device["ghz"]) for device in published.hardware])
    memory = np.array([float(device["ram_gb"]) for device in published.hardware])
    lines: list[tuple[Cell, ...]] = []
    for size in (None, *sorted(set(memory.tolist()))):
        inside = np.ones(len(ghz), dtype=bool) if size is None else memory == size
        varied = inside.sum() > 2 and len(set(ghz[inside].tolist())) > 1
        rho = float(spearmanr(ghz[inside], latency_ms[inside])[0]) if varied else None
        found = latency_ms[inside]
        lines.append(
            (
                "any" if size is None else size, int(inside.sum()), float(ghz[inside].min()), float(ghz[inside].max()), rho,
                float(found.min()), float(np.median(found)), float(found.max()),
            )
        )  # fmt: skip
    bins = Counter(zip(ghz.tolist(), memory.tolist(), strict=True))
    (common_ghz, common_memory), count = max(bins.items(), key=lambda item: (item[1], item[0]))
    alike = latency_ms[(ghz == common_ghz) & (memory == common_memory)]
    return PaperTable(
        "figure 5",
        "latency of MobileNetV2 against frequency, by memory",
        ("memory GB", "phones", "GHz from", "GHz to", "Spearman of GHz and latency", "least ms", "median ms", "most ms"),
        tuple(lines),
        (f"The {count} phones of {common_ghz:g} GHz and {common_memory:g} GB take {alike.min():.0f} to {alike.max():.0f} ms.",),
    )


def faceted(published: PublishedPhones) -> PaperTable:
    """Fig. 6: phones' clusters on networks' clusters."""
    of_phones, of_networks = speed_clusters(published.mean_ms), network_clusters(published.mean_ms)
    lines: list[tuple[Cell, ...]] = []
    for network in NETWORK_CLUSTERS:
        columns = of_networks == network
        macs = float(published.mega_macs[columns].mean())
        for phone in CLUSTERS:
            cells = published.mean_ms[np.ix_(of_phones == phone, columns)].ravel()
            lines.append((network, int(columns.sum()), macs, phone, float(cells.mean()), *_quantiles(cells)))
    return PaperTable(
        "figure 6",
        "latencies in ms by clusters of networks and of phones",
        ("networks", "number", "mean million MACs", "phones", "mean", *QUARTILES),
        tuple(lines),
        ("The clusters of phones overlap on every cluster of networks: which cluster a phone is in does not give its latency.",)
        if _overlap(published, of_phones, of_networks)
        else (),
    )


def _overlap(published: PublishedPhones, of_phones: np.ndarray, of_networks: np.ndarray) -> bool:
    """Return whether clusters of phones overlap on every cluster of networks, a faster one's cell above a slower's."""
    for network in NETWORK_CLUSTERS:
        parts = [published.mean_ms[np.ix_(of_phones == phone, of_networks == network)] for phone in CLUSTERS]
        if any(fast.max() <= slow.min() for fast, slow in pairwise(parts)):
            return False
    return True


FIGURES: Mapping[str, Callable[[PublishedPhones], PaperTable]] = {
    "figure 2": compute,
    "figure 3": cpus,
    "figure 4": phone_clusters,
    "figure 5": frequency,
    "figure 6": faceted,
}
