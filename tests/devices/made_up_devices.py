"""A pool whose coefficients are known: latencies are made from the terms of real networks, not measured."""

from __future__ import annotations

from functools import cache

import numpy as np

from latcast.devices.covariates import network_kernels
from latcast.devices.device_model import INTERCEPT, TERM_COUNT, DeviceModel, KnownPlatform
from latcast.kernels.rules import load_rules
from latcast.predictors.network_features import BASE_TERMS, RULES, NetworkFeatures
from latcast.predictors.platform_posterior import linearised
from latcast.records import Reference
from latcast.spaces.catalogue import model
from shipping.device_model_fit import fit_device_model

NAMES = (
    "alexnet", "squeezenet1_0", "squeezenet1_1", "mobilenet_v1", "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large",
    "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "mnasnet0_5", "mnasnet1_0", "ghostnet_x0_5", "ghostnet_x1_0", "resnet18",
    "resnet34", "densenet121", "googlenet", "efficientnet_b0", "mobilenet_v2_0_5", "mobilenet_v1_0_5",
)  # fmt: skip

PLATFORMS = 30

NOISE = 0.02
"""Standard deviation of a latency's logarithm."""


@cache
def networks() -> tuple[Reference, ...]:
    """Twenty published networks."""
    return tuple(model(name) for name in NAMES)


@cache
def features() -> NetworkFeatures:
    """Of :func:`networks`."""
    rules = load_rules(RULES)
    return NetworkFeatures.of([network_kernels(each, rules) for each in networks()])


@cache
def coefficients() -> np.ndarray:
    """(platforms, terms) logarithms: a device's level, the price of each base beside it, a little of each term's own."""
    rng = np.random.default_rng(3)
    level = rng.normal(0.0, 0.8, (PLATFORMS, 1))
    base = rng.normal(0.0, 0.4, (PLATFORMS, 5))[:, BASE_TERMS]
    return level + base + rng.normal(0.0, 0.1, (PLATFORMS, TERM_COUNT))


@cache
def true_ms() -> np.ndarray:
    """(platforms, networks) without noise."""
    nothing = np.zeros((len(networks()), 0))
    return np.exp([linearised(state, features().terms, nothing)[0] for state in coefficients()])


@cache
def platforms() -> tuple[KnownPlatform, ...]:
    """CPUs, two of each chip."""
    rng = np.random.default_rng(4)
    log_ms = np.log(true_ms()) + rng.normal(0.0, NOISE, true_ms().shape)
    covariates = {INTERCEPT: 1.0, "kind cpu": 1.0, "runtime tflite": 1.0, "precision cpu fp32": 1.0}
    return tuple(
        KnownPlatform(f"d{row}/tflite-2.14/cpu1/fp32", "cpu", f"chip{row // 2}", covariates, np.arange(len(NAMES)), values)
        for row, values in enumerate(log_ms)
    )


@cache
def fitted() -> DeviceModel:
    """To all platforms but the first chip's two."""
    return fit_device_model(platforms()[2:], features())
