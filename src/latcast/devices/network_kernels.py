"""The kernels of networks, from whatever is known of them: a graph, or published layers.

Ganesan et al. (§III-B) publish networks as lists of layers, 13 numbers each: a one-hot operator (dense convolution, depthwise
convolution, addition, activation, pooling), the side of its input and output map, its input and output channels, window,
stride, padding, and multiply-accumulates.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from latcast.datasets.importers.iiswc20 import SPACE as IISWC20
from latcast.datasets.importers.iiswc20 import layers_of
from latcast.errors import DatasetError, LatcastError
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import FusionRules, load_rules, platform_rules
from latcast.kernels.search import find_kernels
from latcast.kernels.types import kernel_type
from latcast.records import Platform, Reference
from latcast.spaces import build
from latcast.spaces.measured_only import can_build, why_not

UNKNOWN_RUNTIME_RULES = "none"


def has_kernels(reference: Reference) -> bool:
    """Whether anything is known of what a network computes."""
    return can_build(reference) or (reference.space == IISWC20 and "layers" in reference.parameters)


def network_kernels(network: Reference | Graph, rules: FusionRules) -> tuple[Kernel, ...]:
    """The kernels of a network under a runtime's rules.

    Raises:
        DatasetError: Nothing is known of the network but its name.
        LatcastError: It cannot be built.
    """
    if isinstance(network, Graph):
        return tuple(find_kernels(network, rules))
    if not has_kernels(network):
        reason = why_not(network) if not can_build(network) else "its layers are not part of its reference"
        raise DatasetError(f"the kernels of '{network.name or network.key}' are not known: {reason}")
    if network.space == IISWC20:
        return tuple(kernels_of_layers(layers_of(network.parameters["layers"])))
    return tuple(find_kernels(build(network), rules))


def common_rules(platforms: Iterable[str]) -> FusionRules:
    """The rules that most of some platforms run by; no fusion where none of their runtimes is known."""
    counts: dict[str, int] = {}
    found: dict[str, FusionRules] = {}
    for name in platforms:
        platform = Platform.parse(name)
        try:
            rules = platform_rules(platform)
        except LatcastError:
            continue
        kind = f"{rules.runtime} {rules.version} {rules.selection}"
        found.setdefault(kind, rules)
        counts[kind] = counts.get(kind, 0) + 1
    if not found:
        return load_rules(UNKNOWN_RUNTIME_RULES)
    return found[max(counts, key=lambda kind: counts[kind])]


OPERATORS = ("conv", "depthwise_conv", "add", "activation", "pool")
"""Operators of the one-hot part of a layer, in its order."""

WIDTH = 13
"""Numbers in a layer."""

_IN_SIDE, _OUT_SIDE, _IN_CHANNELS, _OUT_CHANNELS, _WINDOW, _STRIDE, _PADDING, _MACS = range(5, WIDTH)


def kernels_of_layers(layers: np.ndarray) -> list[Kernel]:
    """Kernels of a list of layers on a mobile CPU runtime: an activation runs inside the layer before it.

    Args:
        layers: (layers, 13).

    Raises:
        DatasetError: The array is not of this form.
    """
    formed = layers.ndim == 2 and layers.shape[1] == WIDTH
    if not formed or not np.array_equal(layers[:, : len(OPERATORS)].sum(axis=1), np.ones(len(layers))):
        raise DatasetError(f"layers of shape {layers.shape}; expected rows of {WIDTH} numbers that begin with one-hot operators")
    operators = layers[:, : len(OPERATORS)].argmax(axis=1)
    kernels: list[Kernel] = []
    previous = -1
    for index, (code, row) in enumerate(zip(operators, layers, strict=True)):
        operator = OPERATORS[code]
        if operator == "activation" and previous >= 0 and OPERATORS[operators[previous]] in ("conv", "depthwise_conv", "add"):
            kernels[-1] = _with_activation(kernels[-1])
            previous = -1
            continue
        kernels.append(_kernel(operator, row, index))
        previous = index
    return kernels


def _kernel(operator: str, row: np.ndarray, index: int) -> Kernel:
    in_side, out_side, inputs, outputs, window, stride, padding = (int(value) for value in row[_IN_SIDE:_MACS])
    if operator in ("conv", "depthwise_conv"):
        name = operator
        values = {
            "batch": 1, "in_channels": inputs, "in_h": in_side, "in_w": in_side, "out_channels": outputs, "out_h": out_side,
            "out_w": out_side, "kernel_h": window, "kernel_w": window, "stride_h": stride, "stride_w": stride, "dilation_h": 1,
            "dilation_w": 1, "groups": inputs if operator == "depthwise_conv" else 1, "padded": int(padding > 0),
        }  # fmt: skip
    elif operator == "add":
        name = "arithmetic"
        elements = outputs * out_side**2
        values = {"elements": elements, "channels": outputs, "small_elements": elements, "operation": 0}
    elif operator == "activation":
        name = "activation"
        values = {"elements": outputs * out_side**2, "channels": outputs, "function": 0}
    elif out_side == 1:
        name = "reduce"
        values = {"outer": outputs, "reduced": in_side**2, "inner": 1}
    else:
        name = "max_pool"
        values = {
            "batch": 1, "channels": outputs, "in_h": in_side, "in_w": in_side, "out_h": out_side, "out_w": out_side,
            "kernel_h": window, "kernel_w": window, "stride_h": stride, "stride_w": stride,
        }  # fmt: skip
    label = f"layer{index}"
    return Kernel(name, kernel_type(name).configuration(values), label, (label,), (operator,))


def _with_activation(kernel: Kernel) -> Kernel:
    kind = kernel_type(kernel.kernel_type)
    values = dict(zip(kind.fields, kernel.configuration, strict=True))
    values["fused_flops"] += 1
    return Kernel(kernel.kernel_type, kind.configuration(values), kernel.name, kernel.nodes, (*kernel.operators, "activation"))
