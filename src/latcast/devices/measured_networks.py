"""Latencies of networks on a new device, in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

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


MILLISECONDS: Mapping[str, float] = {"ms": 1.0, "s": 1e3, "us": 1e-3}
"""Milliseconds in each unit that latencies may be stated in."""

MISMATCH_FACTOR = 100.0
"""Latencies are doubted that are so many times above or below those of the typical known device, of which known phones lie within
a factor of eight."""


def in_milliseconds(measured: MeasuredNetworks, typical_ms: Sequence[float] | np.ndarray, unit: str) -> MeasuredNetworks:
    """Convert latencies to milliseconds, where they are stated in another unit.

    Args:
        measured: As read, taken for milliseconds.
        typical_ms: (networks,) on known devices of this kind of unit; NaN where that is not known.
        unit: "ms", "s" or "us" where the user said it: then nothing is doubted. Empty where not.

    Raises:
        DatasetError: Nothing was said, and the latencies are hardly milliseconds; or some of them hardly of the others' unit.
    """
    if not unit:
        _raise_if_doubtful(measured.networks, np.asarray(typical_ms, dtype=np.float64))
    factor = MILLISECONDS[unit or "ms"]
    return measured if factor == 1 else replace(measured, networks=tuple(each.scaled(factor) for each in measured.networks))


def _raise_if_doubtful(networks: Sequence[MeasuredNetwork], typical_ms: np.ndarray) -> None:
    known = np.flatnonzero(np.isfinite(typical_ms)).tolist()
    log_times = np.log([networks[place].latency_ms for place in known]) - np.log(typical_ms[known])
    middle = float(np.median(log_times)) if len(known) else 0.0
    if abs(middle) > np.log(MISMATCH_FACTOR):
        where, taken = ("below", "seconds") if middle < 0 else ("above", "microseconds")
        raise DatasetError(
            f"the latencies lie {np.exp(abs(middle)):,.0f} times {where} those of the typical known device, as {taken} taken for "
            "milliseconds would be; say what they are with --latency-unit ms, s or us"
        )
    # Of two, the median lies halfway, and both are odd.
    most = np.log(MISMATCH_FACTOR) / (2 if len(known) == 2 else 1)
    odd = [(networks[place], off) for place, off in zip(known, log_times - middle, strict=True) if abs(off) > most]
    if odd:
        said = "; ".join(
            f"{each.places[0]}: {each.name} takes {np.exp(off):.3g} times what the others say of this device"
            for each, off in odd[:MOST_NAMED]
        )
        raise DatasetError(f"{said}: hardly of one unit; state all in milliseconds, or say with --latency-unit ms that they are")
