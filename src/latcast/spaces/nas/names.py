"""Names of the search spaces and where they live; imports nothing, so that the catalogue can list them."""

from __future__ import annotations

from collections.abc import Mapping

_HERE = "latcast.spaces.nas"

SUPERNET_TARGETS: Mapping[str, str] = {
    "ofa_mobilenet_v3": f"{_HERE}.ofa_mobilenet_v3:SUPERNET",
    "ofa_mobilenet_v3_w12": f"{_HERE}.ofa_mobilenet_v3:WIDE",
    "ofa_proxylessnas": f"{_HERE}.ofa_proxylessnas:SUPERNET",
    "ofa_resnet": f"{_HERE}.ofa_resnet:SUPERNET",
    "bignas": f"{_HERE}.bignas:SUPERNET",
    "fbnet_v3": f"{_HERE}.fbnet_v3:SUPERNET",
    "autoformer": f"{_HERE}.autoformer:TINY",
    "autoformer_small": f"{_HERE}.autoformer:SMALL",
    "autoformer_base": f"{_HERE}.autoformer:BASE",
    "nas_bench_201": f"{_HERE}.nas_bench_201:SUPERNET",
}
"""Name to ``module:attribute``."""
