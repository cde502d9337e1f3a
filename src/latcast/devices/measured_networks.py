"""Latencies of networks on a new device, in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from latcast.devices.latency_units import MILLISECONDS, UnitMismatch, mismatch_of, odd_ones
from latcast.errors import DatasetError
from latcast.records import Reference

MOST_NAMED = 3
"""Networks that a message names; of the others it gives their number."""


@dataclass(frozen=True)
class MeasuredNetwork:
    """A network and its latency on the new device.

    Attributes:
        reference: The network.
        latency_ms: Of several values their label (:func:`latcast.measure.labels.combine`), which is a median.
        values_ms: What each source says, in the order of reading.
        places: Where each stands: ``few.csv:3``, or the file.
        converted: Whether the source says their unit, other than by a heading of milliseconds.
    """

    reference: Reference
    latency_ms: float
    values_ms: tuple[float, ...]
    places: tuple[str, ...]
    converted: bool = False

    @property
    def name(self) -> str:
        return self.reference.name or self.reference.key

    def scaled(self, factor: float) -> MeasuredNetwork:
        """Return the network with latencies in another unit, if the source does not say theirs."""
        return (
            self
            if self.converted
            else replace(self, latency_ms=factor * self.latency_ms, values_ms=tuple(factor * value for value in self.values_ms))
        )


@dataclass(frozen=True)
class MeasuredNetworks:
    """Attributes:
    networks: Each once, in the order of reading.
    notes: What was assumed, combined or left out, a sentence each.
    """

    networks: tuple[MeasuredNetwork, ...]
    notes: tuple[str, ...] = ()

    @property
    def latency_ms(self) -> dict[Reference, float]:
        """Latency by network."""
        return {each.reference: each.latency_ms for each in self.networks}


def in_milliseconds(
    measured: MeasuredNetworks,
    typical_ms: Sequence[float] | np.ndarray,
    *,
    unit: str = "",
    ask: Callable[[UnitMismatch], str] | None = None,
) -> MeasuredNetworks:
    """Convert latencies to milliseconds, where they are stated in another unit.

    Args:
        measured: As read, taken for milliseconds.
        typical_ms: (networks,) on known devices of this kind of unit; NaN where that is not known.
        unit: "ms", "s" or "us" where the user said it: then nothing is doubted. Empty where not.
        ask: Asks the user for the unit; None where the user cannot be asked.

    Raises:
        DatasetError: Nothing was said, and the latencies are hardly milliseconds; or some of them hardly of the others' unit.
    """
    stated = np.array([each.latency_ms for each in measured.networks])
    typical = np.asarray(typical_ms, dtype=np.float64)
    if not unit:
        mismatch = mismatch_of(stated, typical)
        if mismatch is not None and ask is None:
            raise DatasetError(f"the latencies lie {mismatch}; say what they are with --latency-unit ms, s or us")
        odd = odd_ones(stated, typical)
        if odd:
            said = "; ".join(
                f"{measured.networks[index].places[0]}: {measured.networks[index].name} takes {factor:.3g} times what the others "
                "say of this device"
                for index, factor in list(odd.items())[:MOST_NAMED]
            )
            raise DatasetError(
                f"{said}: hardly of one unit; state all in milliseconds, or say with --latency-unit ms that they are"
            )
        unit = ask(mismatch) if mismatch is not None and ask is not None else "ms"
    factor = MILLISECONDS[unit]
    return measured if factor == 1 else replace(measured, networks=tuple(each.scaled(factor) for each in measured.networks))
