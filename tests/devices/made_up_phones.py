"""Phones whose kernels cost what a few rates say, so that the truth is known of every network."""

from __future__ import annotations

from functools import cache

import numpy as np

from latcast.devices.latency_table import LatencyTable
from latcast.devices.network_kernels import network_kernels
from latcast.devices.shared_terms_fit import Fitted, fit_shared_terms
from latcast.kernels.rules import platform_rules
from latcast.predictors.network_terms import NetworkTerms
from latcast.records import Platform, Reference
from latcast.spaces.catalogue import SPACES, build

PHONES = 5
COUNTS = {"mobilenet_v2": 10, "resnet": 10, "squeezenet": 8}
UNSEEN = 7
"""Each so-many-th network was run on no known phone."""


@cache
def networks() -> tuple[Reference, ...]:
    return tuple(reference for space, count in COUNTS.items() for reference in SPACES.get(space).sample(count, seed=5))


@cache
def true_ms(phone: int, precision: str) -> np.ndarray:
    """Latencies (ms) of all networks: a phone has its own rates of dense and depthwise convolutions, of moving, of starting."""
    rng = np.random.default_rng([phone, precision == "int8"])
    platform = Platform.parse(f"phone{phone}/tflite-2.10/1large/{precision}")
    terms = NetworkTerms.of([network_kernels(build(network), platform_rules(platform)) for network in networks()])
    rates = np.array([5e-8, 5e-7, 5e-7, 3e-3]) * np.exp(rng.normal(0, 0.5) + rng.normal(0, 0.6, 4))
    depthwise = np.array([name.startswith("depthwise") for name in terms.classes])[terms.class_of]
    slow = np.where(depthwise, 3 * np.exp(rng.normal(0, 0.6)), 1.0)
    values = terms.values * rates
    values[:, 0] *= slow
    return np.asarray(terms.counts @ values.sum(axis=1)) + 0.2


@cache
def phones() -> LatencyTable:
    """Two platforms each."""
    names = [f"phone{phone}/tflite-2.10/1large/{precision}" for phone in range(PHONES) for precision in ("fp32", "int8")]
    latency_ms = [true_ms(phone, precision) for phone in range(PHONES) for precision in ("fp32", "int8")]
    return LatencyTable(tuple(names), networks(), np.stack(latency_ms))


@cache
def fitted() -> Fitted:
    """Learned from all but the last phone, and all but some of the networks."""
    seen = [column for column in range(len(networks())) if column % UNSEEN]
    return fit_shared_terms(phones().columns(seen).rows(range(2 * PHONES - 2)), card={"source": "made up"})
