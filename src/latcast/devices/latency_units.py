"""Whether latencies that somebody states are milliseconds, as they are taken to be, or a thousand times off.

Known phones lie within a factor of eight of the typical one of their kind of unit (CPU or GPU), so that what is more than a
hundred times off is hardly in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from latcast.devices.shared_terms import SharedTerms
from latcast.errors import LatcastError
from latcast.graph.ir import Graph
from latcast.kernels.rules import unit_kind
from latcast.records import Platform, Reference
from latcast.spaces import build
from latcast.spaces.measured_only import can_build

MILLISECONDS: Mapping[str, float] = {"ms": 1.0, "s": 1e3, "us": 1e-3}
"""Of one of each unit that latencies may be stated in."""

MISMATCH_FACTOR = 100.0
"""A device is asked about that is so many times faster or slower than the typical known one."""

MOST_COMPARED = 10
"""Networks: building one takes a tenth of a second."""


@dataclass(frozen=True)
class UnitMismatch:
    """Attributes:
    times: How many times as long as on the typical known device the networks are said to take, on the median.
    unit: The unit that would explain it.
    """

    times: float
    unit: str

    def __str__(self) -> str:
        below = self.times < 1
        factor = 1 / self.times if below else self.times
        return (
            f"{factor:,.0f} times {'below' if below else 'above'} those of the typical known device, as "
            f"{'seconds' if below else 'microseconds'} taken for milliseconds would be"
        )


def unit_mismatch(model: SharedTerms, platform: str, measured: Mapping[Reference, float]) -> UnitMismatch | None:
    """Why latencies are hardly milliseconds; None where they may be, or where nothing can be compared.

    Args:
        model: Of known platforms.
        platform: Where the networks were measured.
        measured: What is taken for milliseconds.
    """
    column_of = {reference.key: index for index, reference in enumerate(model.networks)}
    known = {reference: value for reference, value in measured.items() if reference.key in column_of}
    columns = [column_of[reference.key] for reference in known]
    others: dict[Reference, Graph] = {}
    for reference in measured:
        if reference not in known and len(known) + len(others) < MOST_COMPARED and can_build(reference):
            try:
                others[reference] = build(reference)
            except LatcastError:
                continue  # whoever needs the network says why it cannot be built
    if not known and not others:
        return None
    on_cpu = np.array([_on_cpu(name) for name in model.platforms])
    rows = np.flatnonzero(on_cpu == _on_cpu(platform))
    if not len(rows):
        return None
    log_ms = model.columns(list(others.values())).log_ms
    compared = [*columns, *range(len(model.networks), len(model.networks) + len(others))]
    stated = np.log([*known.values(), *(measured[reference] for reference in others)])
    typical = np.median(log_ms[np.ix_(rows, compared)], axis=0)
    times = float(np.exp(np.median(stated - typical)))
    if 1 / MISMATCH_FACTOR <= times <= MISMATCH_FACTOR:
        return None
    return UnitMismatch(times, "s" if times < 1 else "us")


def _on_cpu(platform: str) -> bool:
    return unit_kind(Platform.parse(platform).unit) in ("cpu", "wasm")
