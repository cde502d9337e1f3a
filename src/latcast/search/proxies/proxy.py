"""What a zero-cost proxy is, and which there are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from latcast.graph.ir import Graph
from latcast.registry import Registry

_HERE = "latcast.search.proxies"

PROXY_TARGETS: Mapping[str, str] = {
    "grad_norm": f"{_HERE}.gradient_norm:GRADIENT_NORM",
    "jacob_cov": f"{_HERE}.jacobian_covariance:JACOBIAN_COVARIANCE",
    "naswot": f"{_HERE}.activation_codes:ACTIVATION_CODES",
    "snip": f"{_HERE}.gradient_norm:SNIP",
    "synflow": f"{_HERE}.synaptic_flow:SYNAPTIC_FLOW",
}
"""Name to ``module:attribute``."""

BATCH = 16
"""Random images that a proxy looks at."""

WORST = -1e7
"""Of a network that passes nothing on from its input to its output, whose logarithms would be infinite."""


class Proxy(Protocol):
    """Attributes:
    name: As the command line knows it.
    """

    name: str

    def score(self, graph: Graph, seed: int) -> float:
        """How promising a network is; more is better, the scale is the proxy's own.

        Args:
            graph: One input, one output; its batch axis may be run with any size.
            seed: Of weights, images and labels.

        Raises:
            MissingExtraError: torch is not installed.
            UnsupportedOperatorError: The graph has an operator that cannot be run here.
        """


PROXIES: Registry[Proxy] = Registry("zero-cost proxy", PROXY_TARGETS, group="latcast.proxies")
"""Proxies by name."""


def log_score(value: float) -> float:
    """Logarithm (base 10) of a score that spans orders of magnitude, :data:`WORST` of none."""
    return math.log10(value) if value > 0 and math.isfinite(value) else WORST
