"""Phones and networks in the form of the dataset, made up: few, and quick to learn from."""

from __future__ import annotations

from functools import cache

import numpy as np

from latcast.records import Reference
from latcast.spaces import build
from papers.iiswc20.published import PublishedPhones
from papers.iiswc20.trees import layers_of_graph

PHONES, NETWORKS = 30, 24


def _layers(rng: np.random.Generator) -> np.ndarray:
    """A few convolutions, dense and depthwise in turn."""
    rows, side, channels = [], 32, 8
    for _ in range(int(rng.integers(3, 7))):
        out = int(rng.integers(1, 9)) * 8
        rows.append([1, 0, 0, 0, 0, side, side, channels, out, 1, 1, 0, side**2 * channels * out])
        rows.append([0, 1, 0, 0, 0, side, side, out, out, 3, 1, 1, side**2 * 9 * out])
        channels = out
    return np.array(rows, dtype=float)


@cache
def made_up() -> PublishedPhones:
    """Thirty phones of three speeds, two of each model; a phone has its own price of depthwise convolutions. The last network is
    MobileNetV2."""
    rng = np.random.default_rng(5)
    layers = [_layers(rng) for _ in range(NETWORKS - 1)] + [layers_of_graph(build(Reference("mobilenet_v2", {})))]
    dense = np.array([found[found[:, 0] > 0, 12].sum() for found in layers]) / 1e6
    depthwise = np.array([found[found[:, 1] > 0, 12].sum() for found in layers]) / 1e6
    speed = np.repeat([1.0, 3.0, 9.0], PHONES // 3) * np.exp(0.2 * rng.normal(size=PHONES))
    price = np.exp(0.5 * rng.normal(size=PHONES))
    true_ms = speed[:, None] * (1 + dense + 6 * price[:, None] * depthwise)
    halves = true_ms * np.exp(0.01 * rng.normal(size=(2, *true_ms.shape)))
    hardware = tuple(
        {
            "model": f"model{index // 2}",
            "cpu": f"cpu{index // 6}",
            "cpu_code": index // 6,
            "ghz": 3 - value / 10,
            "ram_gb": 2 + index % 3,
        }
        for index, value in enumerate(speed)
    )
    return PublishedPhones(
        phones=tuple(f"phone{index}/tflite-unstated/1large/int8" for index in range(PHONES)),
        models=tuple(str(device["model"]) for device in hardware), hardware=hardware, mean_ms=halves.mean(axis=0),
        median_ms=np.median(halves, axis=0), halves_ms=halves, layers=tuple(layers), mega_macs=dense + depthwise,
    )  # fmt: skip
