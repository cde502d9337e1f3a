"""Warnings on the prediction of a network: kernels unlike the training data, what was assumed, too little memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel
from latcast.predictors.card import LARGE_SHARE
from latcast.predictors.kernel_predictor import FAR
from latcast.predictors.workload import Workload
from latcast.records import Platform, Unit
from latcast.tables import milliseconds

if TYPE_CHECKING:
    from latcast.chips.device_memory import Shortage
    from latcast.predictors.platform_predictor import PlatformPredictor


PIPELINED = frozenset({"hailo-dfc"})
"""Runtimes whose compilers lay a network out over the whole chip, so that the images of a stream overlap."""

OUTSIDE_NOTED_SHARE = 0.05
"""Share of the latency from kernels outside the training range from which on it is noted."""

NOTED_SHARE = 0.01
"""Share of the latency from kernels outside the training data from which on it is noted; a warning from
:data:`latcast.predictors.card.LARGE_SHARE` on."""

MOST_REASONS, LEAST_REASON_SHARE = 3, 0.005
"""Types of kernels that a warning names, and their least share of the latency; the first is always named."""


def network_warnings(
    predictor: PlatformPredictor, workload: Workload, index: int, shares: np.ndarray, unlike: np.ndarray, outside: np.ndarray
) -> tuple[list[str], list[str]]:
    """Return the warnings of a network, and notes on small parts of its latency that are unlike what was learned from.

    Args:
        predictor: Of the platform.
        workload, index: The network.
        shares: (busy kernels,) part of the latency of each.
        unlike, outside: (busy kernels,) whether each is unlike those learned from, or out of their range.
    """
    graph, platform = workload.graphs[index], predictor.platform
    found, notes = [*graph.notes], list[str]()
    if not graph.nodes:
        found.append("the network computes nothing: its outputs are constants, inputs or empty; the latency is overhead alone")
    if remark := workload.precision_remark(index, platform.precision):
        found.append(remark)
    if names := workload.unknown_operators[index]:
        found.append(f"of unknown operators only what they read and write counts: {', '.join(names)}")
    if names := workload.classic_operators[index]:
        found.append(f"classic models are not predicted, only their arithmetic counts: {', '.join(names)}")
    within = f"of the latency is outside the training range, by no more than a factor of {FAR:g}"
    for least, most, text, chosen in (
        (NOTED_SHARE, LARGE_SHARE, "of the latency comes from kernels outside the training data", unlike),
        (OUTSIDE_NOTED_SHARE, 1.0, within, outside),
    ):
        share = float(shares[chosen].sum())
        if share > least:
            listed = list(zip(compress(workload.busy[index][0], chosen), shares[chosen].tolist(), strict=True))
            (found if share > most else notes).append(f"{100 * share:.0f} % {text}: {_reasons(predictor, listed)}")
    if sized := workload.sized_by_values[index]:
        found.append(f"how much {', '.join(sized)} gives depends on the values of an input; the most is assumed")
    if predictor.rules.assumed:
        found.append(predictor.rules.assumed)
    if platform.runtime in PIPELINED:
        found.append(_stream_sentence(platform, graph))
    return found, notes


def _reasons(predictor: PlatformPredictor, kernels: Sequence[tuple[Kernel, float]]) -> str:
    """Name the types of kernels by their share of the latency, with what is unusual about the largest of each."""
    by_type: dict[str, list[tuple[Kernel, float]]] = {}
    for kernel, share in kernels:
        name = "+".join(kernel.operators) if kernel.kernel_type == "other" else kernel.kernel_type
        by_type.setdefault(name, []).append((kernel, share))
    shares = {name: sum(share for _, share in listed) for name, listed in by_type.items()}
    names = sorted(shares, key=lambda name: (-shares[name], name))
    shown = [name for name in names[:MOST_REASONS] if name == names[0] or shares[name] >= LEAST_REASON_SHARE]
    said = []
    for name in shown:
        kernel = max(by_type[name], key=lambda pair: pair[1])[0]
        learned = predictor.kernel_predictor(kernel.kernel_type)
        none = "no predictor" if predictor.device is None else "no known device ran a similar one"
        reason = none if learned is None else learned.reason(kernel.configuration)
        said.append(f"{name} {100 * shares[name]:.0f} % ({reason})")
    return ", ".join(said) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


def network_memory_shortage(predictor: PlatformPredictor, takes_gb: float) -> Shortage | None:
    """Return the shortage of memory that a network meets on the platform's device; None where none is known."""
    if not takes_gb:
        return None
    from latcast.chips.chip_names import chip_of
    from latcast.chips.device_memory import memory_shortage, usable_memory_gb

    device, environment = predictor.platform.device, predictor.card.get("environment") or {}
    chip_text = str(environment.get("chip") or predictor.card.get("chip") or "")
    chip = chip_of(device, chip_text, Unit.parse(predictor.platform.unit).kind)
    return memory_shortage(takes_gb, usable_memory_gb(device, chip))


def _stream_sentence(platform: Platform, graph: Graph) -> str:
    """Return that a latency is of one image, and what was published of a stream of them on the platform.

    NPUs that work on several images at once take less time for each.
    """
    from latcast.spaces.catalogue import build, model

    frames_per_s = _published().get(platform.id, {}).get(graph.name)
    if frames_per_s and build(model(graph.name)).structure_key == graph.structure_key:
        each_ms = milliseconds(1e3 / frames_per_s)
        known = f"{frames_per_s:g} a second were published of this network in batches of 8, {each_ms} ms each"
    else:
        known = "how many a second is not known of this network"
    return f"the latency is of one image alone; images of a stream overlap: {known}"


@cache
def _published() -> dict[str, dict[str, float]]:
    """Return the frames a second by platform and network, from ``hailo_streams.json``, which names its source."""
    found = json.loads(Path(__file__).with_name("hailo_streams.json").read_text(encoding="utf-8"))
    return dict(found["frames_per_s"])
