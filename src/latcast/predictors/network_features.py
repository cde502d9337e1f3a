"""Features of a network for the model of a device: analytical terms by group of kernels, and its place among other networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.rules import FusionRules, load_rules
from latcast.kernels.types import KernelType, kernel_type
from latcast.predictors.analytical import term_values
from latcast.predictors.kernel_predictor import feature_matrix, feature_names
from latcast.records import Platform, Unit

RULES, UNFOLDED_RULES = "tflite", "unfolded"
"""One set of fusion rules for all platforms, so that a network is the same to all of them; and the same where constants are not
folded."""

UNFOLDING = frozenset({"eager", "dynamo"})
"""Qualifiers of units whose runtime computes at every inference what follows from weights alone: PyTorch, but for TorchScript."""


def network_rules(platform: Platform) -> FusionRules:
    """Return the rules under which a platform's networks fall into kernels.

    Filters are standardised once a batch, which is nothing beside what a batch of images takes.
    """
    unit = Unit.parse(platform.unit)
    return load_rules(RULES if unit.batch > 1 or UNFOLDING.isdisjoint(unit.qualifiers) else UNFOLDED_RULES)


FLOPS_GROUPS = (
    "stem", "pointwise", "conv 3x3", "conv kxk", "depthwise", "depthwise kxk", "grouped", "grouped wide", "linear", "volume",
    "matmul", "other",
)  # fmt: skip
MOVED_GROUPS = (
    "conv", "depthwise", "elementwise", "activation", "pool", "movement", "normalisation", "matmul", "image", "resize", "join",
)  # fmt: skip
WEIGHT_GROUPS = ("conv", "linear")
COUNT_GROUPS = ("conv", "depthwise", "elementwise", "movement")

TERM_NAMES = (
    *(f"flops {name}" for name in FLOPS_GROUPS),
    *(f"moved {name}" for name in MOVED_GROUPS),
    *(f"weights {name}" for name in WEIGHT_GROUPS),
    *(f"kernels {name}" for name in COUNT_GROUPS),
    "network",
)
"""The terms of a network's latency: FLOPs, elements read and written, weights read, kernels, by group, and one a network."""

TERM_UNITS = np.array(
    [1e-7] * len(FLOPS_GROUPS) + [1e-6] * len(MOVED_GROUPS) + [1e-6] * len(WEIGHT_GROUPS) + [1e-2] * len(COUNT_GROUPS) + [1e-1]
)
"""Milliseconds that one of each term takes on a device whose coefficients' logarithms are 0: a phone's core."""

BASE_TERMS = np.repeat(np.arange(5), [len(FLOPS_GROUPS), len(MOVED_GROUPS), len(WEIGHT_GROUPS), len(COUNT_GROUPS), 1])
"""(terms,) whether a term counts FLOPs (0), elements (1), weights (2), kernels (3) or networks (4)."""

_PLACES = {name: place for place, name in enumerate(TERM_NAMES)}

_DENSE = frozenset({"pointwise", "conv 3x3", "conv kxk", "grouped", "matmul"})


@cache
def kernel_group(throughput_class: str) -> str:
    """Return the group of kernels that a class of throughput belongs to.

    >>> kernel_group("conv 1x1 unaligned"), kernel_group("depthwise 3x3"), kernel_group("layer norm")
    ('pointwise', 'depthwise', 'normalisation')
    """
    name = throughput_class
    for group, prefixes in _PREFIXES:
        if name.startswith(prefixes):
            return group
    return "pool" if "pool" in name else "elementwise"


_PREFIXES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("vector", ("conv on a vector", "linear vector")),
    ("linear", ("linear matrix",)),
    ("pointwise", ("conv 1x1",)),
    ("volume", ("conv 3d",)),
    ("other", ("other", "recurrent")),
    ("join", ("concat", "split")),
    ("movement", ("transpose", "copy", "channel")),
    ("grouped", ("conv grouped",)),
    ("stem", ("conv first",)),
    ("conv 3x3", ("conv 3x3 unaligned", "conv winograd")),
    ("conv kxk", ("conv 3x3 strided",)),
    ("conv 3x3", ("conv 3x3",)),
    ("conv kxk", ("conv", "deconv")),
    ("depthwise kxk", ("depthwise kxk", "depthwise wide")),
    ("depthwise", ("depthwise",)),
    ("matmul", ("matmul", "einsum", "attention", "linear attention")),
    ("normalisation", ("softmax", "layer norm", "reduce")),
    ("resize", ("resize",)),
    ("activation", ("activation", "batch norm")),
)

_MOVED = {
    "pointwise": "conv", "conv 3x3": "conv", "conv kxk": "conv", "grouped": "conv", "other": "conv", "linear": "conv",
    "grouped wide": "conv", "volume": "conv", "stem": "conv", "vector": "matmul", "depthwise kxk": "depthwise",
}  # fmt: skip
_COUNTED = {
    **dict.fromkeys((*_MOVED, "matmul"), "conv"), "depthwise": "depthwise", "depthwise kxk": "depthwise", "movement": "movement",
    "join": "movement",
}  # fmt: skip


WIDE_GROUP = 32
"""Channels of a group, in and out, from which on a grouped convolution costs what a dense one does, where groups are computed at
all: some accelerators leave them to the CPU."""


def kernel_groups(kind: KernelType, configurations: np.ndarray) -> list[str]:
    """Return the group of each kernel of a type, by its class and the width of its groups.

    A convolution in groups, or of a volume of which an axis has one position, is as the convolution of images that it is like.
    """
    c = kind.columns(configurations)
    groups = np.array([kernel_group(str(each)) for each in kind.throughput_class(c)], dtype=object)
    unlike = np.isin(groups, ("grouped", "volume"))
    if not unlike.any():
        return groups.tolist()
    axes = [axis for axis in "dhw" if f"kernel_{axis}" in c]
    size = np.max([c[f"kernel_{axis}"] for axis in axes], axis=0)
    flat = (groups == "grouped") | np.any([c[f"in_{axis}"] * c[f"out_{axis}"] == 1 for axis in axes], axis=0)
    narrow = np.minimum(c["in_channels"], c["out_channels"]) < WIDE_GROUP * c["groups"]
    each_alone = (c["groups"] == c["in_channels"]) & (groups == "volume")
    like = np.select(
        [(c["groups"] > 1) & each_alone, (c["groups"] > 1) & narrow, ~flat, size == 1, c["groups"] > 1, size == 3],
        ["depthwise", "grouped", "volume", "pointwise", "grouped wide", "conv 3x3"], "conv kxk",
    )  # fmt: skip
    return np.where(unlike, like, groups).tolist()


def term_places(group: str) -> tuple[int, int, int, int]:
    """Return the places in ``TERM_NAMES`` of a group's FLOPs, elements, weights and count; -1 where it has none."""
    return (
        _PLACES.get(f"flops {group}", -1),
        _PLACES[f"moved {_MOVED.get(group, group)}"],
        _PLACES["weights linear" if group in ("vector", "matmul") else "weights conv"],
        _PLACES[f"kernels {_COUNTED.get(group, 'elementwise')}"],
    )


SIZE_FEATURES = (
    ("group_in_channels", "in_features", "in_channels", "channels"), ("out_channels", "out_features", "channels"),
    ("output_pixels", "output_voxels", "rows"), ("kernel_h",), ("stride_h",),
)  # fmt: skip
"""The sizes of a kernel: of each line the first that its type has, else 1."""

ALIKE: Mapping[str, str] = {
    "linear": "pointwise", "volume": "conv 3x3", "grouped wide": "conv 3x3", "depthwise kxk": "depthwise", "resize": "pool",
    "join": "movement",
}  # fmt: skip
"""Groups to those whose arithmetic or movement they share, and whose price where a runtime computes both alike
(:func:`latcast.devices.members.priced_alike`): linear layers of several rows, convolutions of volumes, of wide groups, depthwise
ones of more than 3x3 positions, images that are resized, tensors that are joined or split."""

LIKE_TERMS: Mapping[str, str] = {
    **{
        f"{base} {group}": f"{base} {like}"
        for group, like in ALIKE.items() for base in ("flops", "moved") if f"{base} {group}" in _PLACES
    },
    "moved image": "moved conv",
}  # fmt: skip
"""The same of terms, and the image that a network's first convolution reads to what others read."""

KERNEL_GROUPS = (*FLOPS_GROUPS, "elementwise", "activation", "pool", "movement", "normalisation", "vector")


@dataclass(frozen=True)
class KernelFeatures:
    """Distinct kernels.

    Attributes:
        terms: (kernels, terms) milliseconds by term, of :data:`TERM_UNITS`.
        group: (kernels,) index into :data:`KERNEL_GROUPS`; those of :data:`ALIKE` are among what they are like.
        sizes: (kernels, sizes) log2 of :data:`SIZE_FEATURES`.
        base: (kernels, 3) FLOPs, elements, weights.
    """

    terms: np.ndarray
    group: np.ndarray
    sizes: np.ndarray
    base: np.ndarray

    @classmethod
    def of(cls, table: KernelTable) -> KernelFeatures:
        terms, groups, sizes, base = [], [], [], []
        for name, rows in table.configurations.items():
            kind = kernel_type(name)
            values = term_values(kind, rows)
            found = np.zeros((len(rows), len(TERM_NAMES)))
            named = kernel_groups(kind, rows)
            for row, group in enumerate(named):
                for place, value in zip(term_places(group), values[row], strict=True):
                    if place >= 0:
                        found[row, place] += value
            if "stem" in named:
                c = kind.columns(rows)
                image = np.where(np.array(named) == "stem", c["batch"] * c["in_channels"] * c["in_h"] * c["in_w"], 0.0)
                found[:, _PLACES["moved image"]] += image
                found[:, _PLACES["moved conv"]] -= image
            terms.append(found * TERM_UNITS)
            groups.append(np.array([KERNEL_GROUPS.index(ALIKE.get(group, group)) for group in named], dtype=np.int64))
            known = feature_names(kind)
            columns = []
            for choices in SIZE_FEATURES:
                name_of = next((choice for choice in choices if choice in known), None)
                columns.append(np.ones(len(rows)) if name_of is None else feature_matrix(kind, rows, (name_of,))[:, 0])
            sizes.append(np.log2(np.maximum(np.stack(columns, axis=1), 1.0)))
            base.append(values[:, :3])
        empty = np.zeros((0, len(TERM_NAMES)))
        return cls(
            np.concatenate([empty, *terms]),
            np.concatenate([np.zeros(0, dtype=np.int64), *groups]),
            np.concatenate([np.zeros((0, len(SIZE_FEATURES))), *sizes]),
            np.concatenate([np.zeros((0, 3)), *base]),
        )


ADDED = len(TERM_NAMES) + 7
"""Columns that add up over the kernels of a network: terms; FLOPs, elements and weights; FLOPs of dense kernels, these times the
logarithm of their width and of the size of their maps; kernels."""


@dataclass(frozen=True)
class NetworkFeatures:
    """Networks as the model of a device sees them; row i of each array is network i.

    Attributes:
        sums: (networks, :data:`ADDED`).
        kernels: Distinct kernels of all networks.
        counts: How often each occurs in each network: rows, columns and counts of a sparse matrix.
    """

    sums: np.ndarray
    kernels: KernelFeatures
    counts: tuple[np.ndarray, np.ndarray, np.ndarray]

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def terms(self) -> np.ndarray:
        """See :func:`network_terms`."""
        return network_terms(self.sums)

    @property
    def place(self) -> np.ndarray:
        """See :func:`network_place`."""
        return network_place(self.sums)

    @property
    def totals(self) -> np.ndarray:
        """See :func:`network_totals`."""
        return network_totals(self.sums)

    @classmethod
    def of(cls, networks: Sequence[Sequence[Kernel]]) -> NetworkFeatures:
        """Return the features of networks given by their kernels."""
        return cls.of_table(KernelTable.of(networks))

    @classmethod
    def of_table(cls, table: KernelTable) -> NetworkFeatures:
        """Return the features of the networks of a table."""
        kernels = KernelFeatures.of(table)
        distinct = max(len(kernels.terms), 1)
        pairs, counts = np.unique(table.network * distinct + table.kernel, return_counts=True)
        network, kernel, times = pairs // distinct, pairs % distinct, counts.astype(np.float64)
        dense = np.isin(kernels.group, [KERNEL_GROUPS.index(name) for name in _DENSE])
        work = kernels.base[:, 0] * dense
        narrow = np.minimum(kernels.sizes[:, 0], kernels.sizes[:, 1])
        shapes = np.stack([work, work * narrow, work * kernels.sizes[:, 2], np.ones(len(work))], axis=1)
        sums = added(np.hstack([kernels.terms, kernels.base, shapes]), (network, kernel, times), table.networks)
        return cls(sums, kernels, (network, kernel, times))

    def rows(self, chosen: np.ndarray) -> NetworkFeatures:
        """Return some of the networks, in this order; the kernels stay."""
        network, kernel, counts = self.counts
        order = np.argsort(network, kind="stable")
        starts = np.searchsorted(network[order], np.arange(len(self) + 1))
        parts = [order[starts[index] : starts[index + 1]] for index in chosen]
        flat = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        place = np.repeat(np.arange(len(chosen)), [len(part) for part in parts])
        return NetworkFeatures(self.sums[chosen], self.kernels, (place, kernel[flat], counts[flat]))


def added(values: np.ndarray, counts: tuple[np.ndarray, np.ndarray, np.ndarray], networks: int) -> np.ndarray:
    """Add values of distinct kernels, (kernels, columns), up over each network's, (networks, columns)."""
    network, kernel, times = counts
    found = np.empty((networks, values.shape[1]))
    for column in range(values.shape[1]):
        found[:, column] = np.bincount(network, weights=values[kernel, column] * times, minlength=networks)
    return found


def network_terms(sums: np.ndarray) -> np.ndarray:
    """Return milliseconds by term, (networks, terms), of ``TERM_UNITS``; the last one is a constant."""
    terms = sums[:, : len(TERM_NAMES)].copy()
    terms[:, -1] = TERM_UNITS[-1]
    return terms


def network_totals(sums: np.ndarray) -> np.ndarray:
    """Return FLOPs, elements and weights moved, and 1, (networks, 3), for the simplest regression."""
    flops, moved, weights = sums[:, len(TERM_NAMES) : len(TERM_NAMES) + 3].T
    return np.column_stack([flops, moved + weights, np.ones(len(sums))])


def network_place(sums: np.ndarray) -> np.ndarray:
    """Return a network's coordinates, (networks, places): its work, memory, weights, number of kernels, width, size of maps,
    and the shares of its terms."""
    terms = network_terms(sums)
    flops, moved, weights, dense, width, maps, kernels = sums[:, len(TERM_NAMES) :].T
    dense = np.maximum(dense, 1.0)
    share = terms / terms.sum(axis=1, keepdims=True)
    for term, like in LIKE_TERMS.items():
        share[:, _PLACES[like]] += share[:, _PLACES[term]]
        share[:, _PLACES[term]] = 0.0
    return np.column_stack(
        [
            np.log2(np.maximum(flops, 1)) / 3, np.log2(np.maximum(moved, 1)) / 3, np.log2(weights + 1) / 3,
            np.log2(np.maximum(kernels, 1)) / 2, width / dense / 1.5, maps / dense / 2,
            3 * np.sqrt(share[:, : _PLACES["moved matmul"]]),
        ]
    )  # fmt: skip
