"""The cost model of Ganesan et al. (§III): devices and networks as vectors, and boosted trees from these to milliseconds.

A device is its data sheet or its signature, a network its layers, padded. Each feature belongs to a device or to a network. The
trees are XGBoost's (Chen and Guestrin, 2016): squared loss, exact greedy splits, gain with L2 regularisation of the leaves. On
a table of devices and networks every node is a rectangle, so a split is found from sums over rows and columns instead of over
all cells; that is what makes hundreds of fits a matter of minutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from latcast.errors import TrainingError
from latcast.graph.ir import Graph, Node
from latcast.kernels.kernel import operator_class
from latcast.kernels.types.elementwise import ACTIVATIONS
from latcast.spaces.iiswc20 import OPERATORS, WIDTH

PADDING_VALUE = -1.0
"""What shorter networks are filled up with."""

USUAL_SIDE, LARGEST_WINDOW = 224.0, 7.0
"""By what sides and windows are divided."""

_IN_SIDE, _OUT_SIDE, _IN_CHANNELS, _OUT_CHANNELS, _WINDOW, _STRIDE, _PADDING, _MACS = range(5, WIDTH)

_ACTIVATIONS = frozenset(ACTIVATIONS)
_POOLS = frozenset({"max_pool", "average_pool", "global_average_pool", "global_max_pool", "reduce_mean"})


def static_features(known: Sequence[Mapping[str, Any]], devices: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """Return CPU model, frequency and memory of devices, (devices, CPU models of the known ones + 2).

    Args:
        known: Devices to learn from; another CPU model than theirs is not described.
        devices: Facts of each: ``cpu`` or ``cpu_code``, ``ghz``, ``ram_gb``.

    Raises:
        TrainingError: A device's frequency or memory is not known.
    """
    cpus = sorted({_cpu(device) for device in known})
    table = np.zeros((len(devices), len(cpus) + 2))
    for index, device in enumerate(devices):
        if "ghz" not in device or "ram_gb" not in device:
            name = device.get("model", index)
            raise TrainingError(f"frequency and memory of the device '{name}' are not known; its signature describes it better")
        if _cpu(device) in cpus:
            table[index, cpus.index(_cpu(device))] = 1.0
        table[index, -2:] = float(device["ghz"]), float(device["ram_gb"])
    return table


def _cpu(device: Mapping[str, Any]) -> str:
    return str(device.get("cpu_code", device.get("cpu", "unknown")))


def layers_of_graph(graph: Graph) -> np.ndarray:
    """Return the layers of a network, (layers, 13), in execution order; operators of other kinds are left out.

    A fully connected layer is a 1x1 convolution of one pixel, as in the published files.
    """
    rows = [row for node in graph.nodes if (row := _layer(graph, node)) is not None]
    return np.array(rows, dtype=np.float64).reshape(-1, WIDTH)


def _layer(graph: Graph, node: Node) -> list[float] | None:
    name = operator_class(graph, node)
    out = graph.shape(node.outputs[0])
    operator = "add" if name == "add" else "activation" if name in _ACTIVATIONS else "pool" if name in _POOLS else name
    if name == "linear":
        inputs, outputs = graph.shape(node.inputs[0])[-1], out[-1]
        return [*_one_hot("conv"), 1, 1, inputs, outputs, 1, 1, 0, float(inputs * outputs)]
    if operator not in OPERATORS or len(out) != 4:
        return None
    before = graph.shape(node.inputs[0])
    window, stride, padding = _window(node, before)
    macs = float(out[1] * out[2] * out[3])
    if operator == "conv":
        macs *= window**2 * before[1]
    elif operator == "depthwise_conv":
        macs *= window**2
    return [*_one_hot(operator), before[2], out[2], before[1], out[1], window, stride, padding, macs]


def _one_hot(operator: str) -> list[float]:
    return [float(name == operator) for name in OPERATORS]


def _window(node: Node, before: tuple[int, ...]) -> tuple[int, int, int]:
    """Window, stride and padding; a pooling over the whole map has a window and a stride of its size."""
    shape = node.integers("kernel_shape")
    if not shape:
        return (before[2], before[2], 0) if node.op_type.startswith(("Global", "Reduce")) else (0, 0, 0)
    stride = node.integers("strides", (1,))[0]
    return shape[0], stride, max(node.integers("pads", (0,)))


def padded(networks: Sequence[np.ndarray]) -> np.ndarray:
    """Return networks as Ganesan et al. describe them, (networks, longest x 13): all layers one after the other, filled up.

    Channels and multiply-accumulates are divided by the largest of all networks.

    Args:
        networks: (layers, 13) each.
    """
    channels = max(float(layers[:, [_IN_CHANNELS, _OUT_CHANNELS]].max()) for layers in networks)
    macs = max(float(layers[:, _MACS].max()) for layers in networks)
    table = np.full((len(networks), max(map(len, networks)), WIDTH), PADDING_VALUE)
    for row, layers in zip(table, networks, strict=True):
        scaled = layers.copy()
        scaled[:, [_IN_SIDE, _OUT_SIDE]] /= USUAL_SIDE
        scaled[:, [_IN_CHANNELS, _OUT_CHANNELS]] /= channels
        scaled[:, _WINDOW] /= LARGEST_WINDOW
        scaled[:, _MACS] /= macs
        row[: len(scaled)] = scaled
    return table.reshape(len(networks), -1)


SMALLEST_GAIN = 1e-12


@dataclass(frozen=True)
class BoostingSettings:
    """The settings of Ganesan et al. (§III-C), and XGBoost's defaults.

    Attributes:
        trees, depth, learning_rate: As in the paper.
        regularisation: L2 on leaves.
        fewest: Cells that a child holds at least.
    """

    trees: int = 100
    depth: int = 3
    learning_rate: float = 0.1
    regularisation: float = 1.0
    fewest: float = 1.0


@dataclass
class _Node:
    """A leaf, or a split of one side (0: devices, 1: networks) by a feature."""

    value: float = 0.0
    side: int = -1
    feature: int = -1
    threshold: float = 0.0
    children: tuple[_Node, _Node] | None = None


@dataclass(frozen=True)
class _Splits:
    """The different ways in which features of one side split its members in two.

    Attributes:
        below: (splits, members) float32, 1 for members below the threshold.
        column: (splits,) a feature that splits so.
        values: (features, members).
    """

    below: np.ndarray
    column: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray) -> _Splits:
        seen: dict[bytes, tuple[int, np.ndarray]] = {}
        for column, values in enumerate(features.T):
            for threshold in np.unique(values)[1:]:
                below = values < threshold
                seen.setdefault(below.tobytes(), (column, below))
        columns = np.array([column for column, _ in seen.values()], dtype=np.int64)
        below = np.array([below for _, below in seen.values()], dtype=np.float32).reshape(-1, len(features))
        return cls(below, columns, features.T)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return (members, columns) values added up over the members below each threshold: (splits, columns)."""
        found: np.ndarray = (self.below @ values.astype(np.float32)).astype(np.float64)
        return found

    def best(self, below: np.ndarray, held: np.ndarray, node: _Open, settings: BoostingSettings) -> tuple[float, int]:
        """Return the gain and the place of a node's best split; a gain of 0 where none is allowed.

        Args:
            below: (splits,) sums of residuals below each threshold.
            held: (splits,) cells below each threshold.
        """
        allowed = np.flatnonzero((held >= settings.fewest) & (node.cells - held >= settings.fewest))
        if not len(allowed):
            return 0.0, -1
        left, inside, extra = below[allowed], held[allowed], settings.regularisation
        right, beside = node.whole - left, node.cells - inside
        gain = left**2 / (inside + extra) + right**2 / (beside + extra) - node.whole**2 / (node.cells + extra)
        best = int(gain.argmax())
        return (float(gain[best]), int(allowed[best])) if gain[best] > SMALLEST_GAIN else (0.0, -1)

    def threshold(self, place: int, inside: np.ndarray) -> tuple[int, float]:
        """Feature and threshold of a split: half-way between the members on either side that have cells."""
        feature, below = int(self.column[place]), self.below[place] > 0
        values = self.values[feature]
        return feature, float((values[inside & below].max() + values[inside & ~below].min()) / 2)


@lru_cache(maxsize=8)
def _splits_of(features: bytes, members: int) -> _Splits:
    """Return the splits of features, the bytes of a (members, features) float64 array; many fits have the same networks."""
    return _Splits.of(np.frombuffer(features).reshape(members, -1))


class _Open:
    """A node that is being grown.

    Args:
        members: Which devices and which networks are in it.
        residual, weight: (devices, networks) of the whole table.
    """

    def __init__(self, members: tuple[np.ndarray, np.ndarray], residual: np.ndarray, weight: np.ndarray) -> None:
        self.members = members
        self.block = np.ix_(*members)
        inside, counted = residual[self.block], weight[self.block]
        self.whole, self.cells = float(inside.sum()), float(counted.sum())
        self.sums = []
        for side in (0, 1):
            found = np.zeros((len(members[side]), 2))
            found[members[side], 0] = inside.sum(axis=1 - side)
            found[members[side], 1] = counted.sum(axis=1 - side)
            self.sums.append(found)
        self.node = _Node()

    def halves(self, side: int, below: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Members of both children of a split of one side."""
        rows, columns = self.members
        if side == 0:
            return (rows & below, columns), (rows & ~below, columns)
        return (rows, columns & below), (rows, columns & ~below)


class GridBoosting:
    """Fitted trees.

    Args:
        device_features: (devices, features).
        network_features: (networks, features).
        target: (devices, networks); cells that are NaN do not count.
        settings: How they are grown.
    """

    def __init__(
        self,
        device_features: np.ndarray,
        network_features: np.ndarray,
        target: np.ndarray,
        settings: BoostingSettings | None = None,
    ) -> None:
        self.settings = settings or BoostingSettings()
        self._features = (np.asarray(device_features, dtype=np.float64), np.asarray(network_features, dtype=np.float64))
        self._sides = tuple(_splits_of(np.ascontiguousarray(part).tobytes(), len(part)) for part in self._features)
        self._weight = (~np.isnan(target)).astype(np.float64)
        self.base = float(np.nanmean(target))
        self._residual = np.where(self._weight > 0, target - self.base, 0.0)
        self.trees = [self._grow() for _ in range(self.settings.trees)]

    def _grow(self) -> _Node:
        """Return a tree, level by level, so that the sums of all nodes of a level are one product of matrices a side."""
        shape = self._residual.shape
        root = _Open((np.ones(shape[0], dtype=bool), np.ones(shape[1], dtype=bool)), self._residual, self._weight)
        level, leaves = [root], []
        for _ in range(self.settings.depth):
            if not level:
                break
            sums = [self._sides[side].sums(np.hstack([node.sums[side] for node in level])) for side in (0, 1)]
            below: list[_Open] = []
            for index, node in enumerate(level):
                columns = slice(2 * index, 2 * index + 2)
                children = self._split(node, [part[:, columns] for part in sums])
                below += children
                if not children:
                    leaves.append(node)
            level = below
        for leaf in (*leaves, *level):
            value = self.settings.learning_rate * leaf.whole / (leaf.cells + self.settings.regularisation)
            leaf.node.value = value
            self._residual[leaf.block] -= value * self._weight[leaf.block]
        return root.node

    def _split(self, node: _Open, sums: list[np.ndarray]) -> list[_Open]:
        """Split a node where that gains anything, and return its children."""
        found = [self._sides[side].best(sums[side][:, 0], sums[side][:, 1], node, self.settings) for side in (0, 1)]
        side = 0 if found[0][0] >= found[1][0] else 1
        gain, place = found[side]
        if not gain:
            return []
        feature, threshold = self._sides[side].threshold(place, node.sums[side][:, 1] > 0)
        parts = node.halves(side, self._features[side][:, feature] < threshold)
        children = [_Open(part, self._residual, self._weight) for part in parts]
        node.node.side, node.node.feature, node.node.threshold = side, feature, threshold
        node.node.children = (children[0].node, children[1].node)
        return children

    def predict(self, device_features: np.ndarray, network_features: np.ndarray) -> np.ndarray:
        """(devices, networks)."""
        features = (np.asarray(device_features, dtype=np.float64), np.asarray(network_features, dtype=np.float64))
        shape = (len(features[0]), len(features[1]))
        total = np.full(shape, self.base)
        for tree in self.trees:
            self._add(tree, features, (np.ones(shape[0], dtype=bool), np.ones(shape[1], dtype=bool)), total)
        return total

    def _add(
        self, node: _Node, features: tuple[np.ndarray, np.ndarray], members: tuple[np.ndarray, np.ndarray], total: np.ndarray
    ) -> None:
        if node.children is None:
            total[np.ix_(*members)] += node.value
            return
        below = features[node.side][:, node.feature] < node.threshold
        for child, part in zip(node.children, (below, ~below), strict=True):
            inside = members[node.side] & part
            if inside.any():
                self._add(child, features, (inside, members[1]) if node.side == 0 else (members[0], inside), total)


def fit_paper_trees(
    latency_ms: np.ndarray,
    network_features: np.ndarray,
    signature: Sequence[int] | np.ndarray,
    *,
    train: np.ndarray | None = None,
) -> GridBoosting:
    """Fits to all networks but the signature's, as the paper does; a device is described by its latencies of those.

    Args:
        latency_ms: (devices, networks).
        network_features: (networks, features).
        train: (devices, networks) which cells to learn from, the signature's among them or not; all but the signature's
            where None.
    """
    used = np.ones(latency_ms.shape, dtype=bool) if train is None else train
    if train is None:
        used[:, signature] = False
    # Networks that are not learned from stay in the table: so the fits of all signatures split the same features.
    return GridBoosting(latency_ms[:, signature], network_features, np.where(used, latency_ms, np.nan))
