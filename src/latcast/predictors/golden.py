"""Golden values: inputs and outputs that a bundle carries, so that a predictor that loads also predicts what it did.

They hold single kernels at the low end, the middle and the high end of what each type was trained on, and a few whole
networks as lists of kernels, which go through overhead, interval and the estimate of what no predictor covers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from latcast.errors import LatcastError
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.kernels.search import find_kernels
from latcast.kernels.types import kernel_type
from latcast.predictors.platform_predictor import PlatformPredictor

TOLERANCE = 1e-6
"""Relative difference from a golden value that is still rounding."""

MOST_KERNELS = 100_000
"""Kernels of all networks together; those that are written have a few hundred."""

NETWORKS = ("resnet18", "mobilenet_v3_small", "deit_tiny_16")
"""Published networks whose kernels a bundle carries: plain and depthwise convolutions, attention, most kinds of the rest."""

_SMALL_NETWORKS: Mapping[str, list[list[Any]]] = {
    "nothing but overhead": [],
    "an operator that no predictor covers": [["other", [1_000_000, 50_000, 50_000, 10_000, 1, 0, 0], 2]],
}
"""Networks in which what the large ones hide shows: the constant overhead, and the estimate."""


def golden_values(predictor: PlatformPredictor) -> dict[str, Any]:
    """Return the golden values of a predictor, as JSON."""
    kernels = {}
    for name, found in sorted(predictor.kernels.items()):
        rows = np.unique(np.stack([found.low, (found.low + found.high) // 2, found.high]).astype(np.int64), axis=0)
        latency_ms = predictor.raw_kernel_latency_ms({name: rows})
        kernels[name] = {"configurations": rows.tolist(), "latency_ms": latency_ms.tolist()}
    networks: list[dict[str, Any]] = [{"name": name, "kernels": listed} for name, listed in _SMALL_NETWORKS.items()]
    for name in NETWORKS:
        counts = Counter(kernel.key for kernel in find_kernels(_network(name), predictor.rules) if not kernel.free)
        networks.append({"name": name, "kernels": [[kind, list(row), n] for (kind, row), n in sorted(counts.items())]})
    named = {*kernels, *(kind for entry in networks for kind, _, _ in entry["kernels"])}
    fields = {name: list(kernel_type(name).fields) for name in sorted(named)}
    for entry, values in zip(networks, _network_values(predictor, networks), strict=True):
        entry.update(values)
    return {"fields": fields, "kernels": kernels, "networks": networks}


@cache
def _network(name: str) -> Graph:
    from latcast.spaces.catalogue import build, model

    return build(model(name))


def golden_mismatch(predictor: PlatformPredictor, golden: Mapping[str, Any]) -> str | None:
    """Return the first difference from the golden values, in one sentence, or None.

    Raises:
        LatcastError, KeyError, TypeError, ValueError, IndexError, OverflowError: The golden values (or the predictor) are
            damaged.
    """
    unlisted = sorted(set(predictor.kernels) - set(golden["kernels"]))
    if unlisted or not golden["networks"]:
        return f"found no values of {unlisted[0] if unlisted else 'networks'}, expected some"
    with np.errstate(all="ignore"):
        for name, fields in golden["fields"].items():
            if tuple(fields) != kernel_type(name).fields:
                return f"found values for other fields of {name}: {', '.join(fields)}"
        for name, entry in golden["kernels"].items():
            fields = kernel_type(name).fields
            rows = np.array(entry["configurations"], dtype=np.int64).reshape(-1, len(fields))
            found = predictor.raw_kernel_latency_ms({name: rows})
            for row, value, expected in zip(rows.tolist(), found.tolist(), entry["latency_ms"], strict=True):
                if not _close(value, expected):
                    what = ", ".join(f"{field} {number}" for field, number in zip(fields, row, strict=True))
                    return f"found {value!r} ms for the kernel {name} ({what}), expected {expected!r}"
        for entry, values in zip(golden["networks"], _network_values(predictor, golden["networks"]), strict=True):
            for figure, value in values.items():
                if not _close(value, entry[figure]):
                    return f"found {figure} {value!r} for the network {entry['name']}, expected {entry[figure]!r}"
    return None


def _close(value: float, expected: float) -> bool:
    return abs(value - expected) <= TOLERANCE * abs(expected)  # False for what is not a number, too


def _network_values(predictor: PlatformPredictor, networks: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    kernels: list[list[Kernel]] = []
    total = 0
    for entry in networks:
        kernels.append([])
        for name, row, count in entry["kernels"]:
            if type(count) is not int or count < 1:
                raise LatcastError(f"found a kernel that occurs {count!r} times, expected a number from 1 on")
            total += count
            if total > MOST_KERNELS:
                raise LatcastError(f"found networks of {total} kernels, expected at most {MOST_KERNELS}")
            if len(row) != len(kernel_type(name).fields):
                raise ValueError(f"found a {name} of {len(row)} fields, expected {len(kernel_type(name).fields)}")
            kernels[-1] += [Kernel(name, tuple(row), "", (), ())] * count
    estimates = predictor.estimate(kernels)
    low, high = predictor.calibrated_bounds_ms(estimates)
    columns = {"latency_ms": estimates.latency_ms, "low_ms": low, "high_ms": high}
    return [{name: float(values[index]) for name, values in columns.items()} for index in range(len(networks))]
