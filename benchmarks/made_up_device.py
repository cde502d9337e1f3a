"""A device that does not exist: kernels take as long as a law with steps and cliffs says, so that samplers are compared without
measuring.

The law has what nn-Meter §5.1 shows: staircases in channels and pixels (blocks of 4, 6, 8 and 16), an algorithm that begins at
certain channel counts (Winograd), slow paths for large windows and odd channels, caches that overflow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latcast.kernels.kernel import Configuration
from latcast.kernels.types import kernel_type

NOISE = 0.02
"""Standard deviation of the logarithm of a measurement."""

KERNEL_MS = 0.004
"""For any kernel."""

MACS_PER_MS = {"1x1": 3.0e7, "window": 2.0e7, "depthwise 3x3": 4.0e6, "depthwise 5x5": 6.0e6, "depthwise large": 2.0e6}

ELEMENTS_PER_MS = 2.5e6

SMALL_CACHE_BYTES, LARGE_CACHE_BYTES = 2.56e5, 2e6


def _blocks(values: np.ndarray, size: int) -> np.ndarray:
    return np.ceil(values / size) * size


def true_latency_ms(type_name: str, configurations: np.ndarray) -> np.ndarray:
    """What convolutions, dense or depthwise, take: (kernels, fields) to (kernels,)."""
    kind = kernel_type(type_name)
    c = kind.columns(configurations)
    q = kind.quantities(c)
    taps = c["kernel_h"] * c["kernel_w"]
    pixels = _blocks(c["out_h"] * c["out_w"], 6)
    if type_name == "depthwise_conv":
        macs = pixels * taps * _blocks(c["in_channels"], 8)
        speed = np.select(
            [c["kernel_h"] <= 3, c["kernel_h"] == 5],
            [MACS_PER_MS["depthwise 3x3"], MACS_PER_MS["depthwise 5x5"]],
            MACS_PER_MS["depthwise large"],
        )
        speed = np.where(c["stride_h"] > 1, 0.7 * speed, speed)
    else:
        ins, outs = c["in_channels"], c["out_channels"]
        macs = pixels * taps * _blocks(ins, 4) * _blocks(outs, 16)
        winograd = (taps == 9) & (c["stride_h"] == 1) & (ins >= 16) & (outs >= 32)
        macs = np.where(winograd, macs / 2.1 + 30 * pixels * (ins + outs), macs)
        speed = np.where(taps == 1, MACS_PER_MS["1x1"], MACS_PER_MS["window"])
        speed = np.where(taps > 25, 0.6 * speed, speed)
        speed = np.where(ins % 4 != 0, 0.55 * speed, speed)
        speed = np.where(outs >= 512, 1.25 * speed, speed)
    working_set = 4 * (q.input_elements + q.weight_elements)
    slower = np.select([working_set > LARGE_CACHE_BYTES, working_set > SMALL_CACHE_BYTES], [1.6, 1.2], 1.0)
    moving_ms = (q.input_elements + q.output_elements + q.weight_elements) / ELEMENTS_PER_MS
    fused_ms = c["fused_flops"] * q.output_elements / (8 * ELEMENTS_PER_MS)
    return np.asarray(KERNEL_MS + np.maximum(macs / speed * slower, moving_ms) + fused_ms)


def measured_ms(type_name: str, configurations: Sequence[Configuration]) -> np.ndarray:
    """With noise that is always the same for a configuration."""
    rows = np.array(configurations)
    # The fields themselves are the seed: the order of measuring does not matter.
    noise = np.array([np.random.default_rng(row).standard_normal() for row in rows])
    return np.asarray(true_latency_ms(type_name, rows) * np.exp(NOISE * noise))
