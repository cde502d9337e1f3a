"""Devices and networks as vectors: a data sheet (Ganesan et al. §III-C), and padded lists of layers (§III-B)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from latcast.devices.network_kernels import OPERATORS, WIDTH
from latcast.errors import TrainingError
from latcast.graph.ir import Graph, Node
from latcast.kernels.kernel import operator_class
from latcast.kernels.types.elementwise import ACTIVATIONS

PADDING_VALUE = -1.0
"""What shorter networks are filled up with."""

USUAL_SIDE, LARGEST_WINDOW = 224.0, 7.0
"""By what sides and windows are divided."""

_IN_SIDE, _OUT_SIDE, _IN_CHANNELS, _OUT_CHANNELS, _WINDOW, _STRIDE, _PADDING, _MACS = range(5, WIDTH)

_ACTIVATIONS = frozenset(ACTIVATIONS)
_POOLS = frozenset({"max_pool", "average_pool", "global_average_pool", "global_max_pool", "reduce_mean"})


@dataclass(frozen=True)
class StaticFeatures:
    """CPU model, frequency and memory.

    Attributes:
        cpus: The known CPU models; a device with another one has none.
    """

    cpus: tuple[str, ...]

    @classmethod
    def of(cls, devices: Sequence[Mapping[str, Any]]) -> StaticFeatures:
        """For some known devices.

        Args:
            devices: What is known of each: ``cpu`` or ``cpu_code``, ``ghz``, ``ram_gb``.
        """
        return cls(tuple(sorted({_cpu(device) for device in devices})))

    def features(self, devices: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """(devices, CPU models + 2).

        Raises:
            TrainingError: A device's frequency or memory is not known.
        """
        table = np.zeros((len(devices), len(self.cpus) + 2))
        for index, device in enumerate(devices):
            if "ghz" not in device or "ram_gb" not in device:
                name = device.get("model", index)
                raise TrainingError(
                    f"frequency and memory of the device '{name}' are not known; its signature describes it better"
                )
            name = _cpu(device)
            if name in self.cpus:
                table[index, self.cpus.index(name)] = 1.0
            table[index, -2:] = float(device["ghz"]), float(device["ram_gb"])
        return table


def _cpu(device: Mapping[str, Any]) -> str:
    return str(device.get("cpu_code", device.get("cpu", "unknown")))


def layers_of_graph(graph: Graph) -> np.ndarray:
    """The layers of a network, (layers, 13), in execution order; operators of other kinds are left out.

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
    shape = cast("tuple[int, ...]", node.attributes.get("kernel_shape", ()))
    if not shape:
        return (before[2], before[2], 0) if node.op_type.startswith(("Global", "Reduce")) else (0, 0, 0)
    stride = cast("tuple[int, ...]", node.attributes.get("strides", (1,)))[0]
    return shape[0], stride, max(cast("tuple[int, ...]", node.attributes.get("pads", (0,))))


@dataclass(frozen=True)
class PaddedLayers:
    """The representation of Ganesan et al.: all layers one after the other, filled up to the length of the longest network.

    Attributes:
        longest: Layers of the longest known network; further layers of a longer one are left out.
        channels, macs: The largest of the known networks, by which they are divided.
    """

    longest: int
    channels: float
    macs: float

    @classmethod
    def of(cls, networks: Sequence[np.ndarray]) -> PaddedLayers:
        """For some known networks, each (layers, 13)."""
        return cls(
            max(len(layers) for layers in networks),
            max(float(layers[:, [_IN_CHANNELS, _OUT_CHANNELS]].max()) for layers in networks),
            max(float(layers[:, _MACS].max()) for layers in networks),
        )

    def features(self, networks: Sequence[np.ndarray]) -> np.ndarray:
        """(networks, longest x 13)."""
        table = np.full((len(networks), self.longest, WIDTH), PADDING_VALUE)
        for index, layers in enumerate(networks):
            scaled = layers[: self.longest].copy()
            scaled[:, [_IN_SIDE, _OUT_SIDE]] /= USUAL_SIDE
            scaled[:, [_IN_CHANNELS, _OUT_CHANNELS]] /= self.channels
            scaled[:, _WINDOW] /= LARGEST_WINDOW
            scaled[:, _MACS] /= self.macs
            table[index, : len(scaled)] = scaled
        return table.reshape(len(networks), -1)
