"""How well phones' networks are predicted from networks without their kind of block: every network with it is held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.phone_splits import kind_of
from benchmarks.phones import measured, phone_platforms, source_of
from benchmarks.tables import markdown_table
from latcast.datasets.store import Store
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import platform_rules
from latcast.kernels.types import kernel_type
from latcast.predictors.metrics import judge
from latcast.predictors.samples import TrainingData, restrict
from latcast.predictors.training_from_store import trained_with_card
from latcast.records import Platform, signed

NARROW_CHANNELS, HIGH_PIXELS = 16, 100
"""A convolution of so many channels or fewer on maps of at least so many pixels a side."""


def _narrow(kernel: Kernel) -> bool:
    if not kernel.kernel_type.startswith(("conv", "depthwise_conv")):
        return False
    c = dict(zip(kernel_type(kernel.kernel_type).fields, kernel.configuration, strict=True))
    return c["out_channels"] <= NARROW_CHANNELS and c.get("out_h", 0) >= HIGH_PIXELS


BLOCKS: Mapping[str, Callable[[Sequence[Kernel]], bool]] = {
    "groups": lambda kernels: any(kernel.kernel_type.startswith("grouped_conv") for kernel in kernels),
    "concatenation": lambda kernels: any(kernel.kernel_type == "concat" for kernel in kernels),
    "depthwise": lambda kernels: any(kernel.kernel_type.startswith("depthwise_conv") for kernel in kernels),
    # A mean for each gate beside the one before the classifier.
    "squeeze and excitation": lambda kernels: sum(kernel.kernel_type == "reduce" for kernel in kernels) > 1,
    "narrow at high resolution": lambda kernels: any(_narrow(kernel) for kernel in kernels),
}
"""Kinds of block by what a network with them is made of."""

FEWEST = 20
"""Networks without a kind of block that are learned from."""


def judge_platform(path: Path, platform_id: str) -> dict[str, Any]:
    """Figures of one platform by kind of block; kinds that hardly a network is without are left out.

    Args:
        path: SQLite file of the imported measurements.
        platform_id: The platform.
    """
    platform = Platform.parse(platform_id)
    data = measured(path, platform)
    found = {}
    for name, has in BLOCKS.items():
        keys = {sample.reference.key for sample in data.networks if has(sample.kernels)}
        if keys and len(data.networks) - len(keys) >= FEWEST:
            found[name] = _without(data, platform, keys)
    return {"platform": platform_id, "blocks": found}


def _without(data: TrainingData, platform: Platform, keys: set[str]) -> dict[str, Any]:
    rest = restrict(data, lambda sample: sample.reference.key not in keys)
    predictor = trained_with_card(rest, platform, platform_rules(platform), learn_from=source_of(data))
    tested = [sample for sample in data.networks if sample.reference.key in keys]
    estimates = predictor.estimate([sample.kernels for sample in tested])
    actual = np.array([sample.latency_ms for sample in tested])
    figures = judge(estimates.latency_ms, actual, *predictor.bounds_ms(estimates)).to_json()
    bias = 100 * float(np.expm1(np.log(estimates.latency_ms / actual).mean()))
    return {"bias": bias, **{name: figures[name] for name in ("networks", "mape", "within_10", "interval_coverage")}}


def judge_blocks(path: Path, only: Sequence[str] = ("*",)) -> Iterator[dict[str, Any]]:
    """Figures of platforms as they are done.

    Args:
        path: SQLite file of the imported measurements.
        only: Patterns of platform ids.
    """
    with Store(path) as store:
        names = [name for name in phone_platforms(store) if any(fnmatchcase(name, pattern) for pattern in only)]
    yield from (judge_platform(path, name) for name in names)


def blocks_table(found: Sequence[Mapping[str, Any]]) -> str:
    """Means over platforms in Markdown: MAPE, bias and interval coverage of each kind of block."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in found:
        groups.setdefault(kind_of(row["platform"]), []).append(row["blocks"])
    rows = []
    for group, members in sorted(groups.items()):
        cells = [f"{group} ({len(members)})"]
        for name in BLOCKS:
            figures = [blocks[name] for blocks in members if name in blocks]
            mape, bias, coverage = (
                float(np.mean([each[key] for each in figures])) if figures else float("nan")
                for key in ("mape", "bias", "interval_coverage")
            )
            cells.append(f"{mape:.0f}, {signed(bias, 0)}, {coverage:.0f}" if figures else "-")
        rows.append(cells)
    return markdown_table(["platforms", *(f"{name}: MAPE, bias, coverage %" for name in BLOCKS)], rows)
