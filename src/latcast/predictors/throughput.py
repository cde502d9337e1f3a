"""A platform's analytical terms turned over: what the device achieves, by class of kernel.

A coefficient is a time (milliseconds a FLOP, an element, a weight, a kernel); its inverse is a rate. The terms add up in a
kernel's latency, so a rate says how fast one thing would go if it were all there was: FLOP/s without memory traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from latcast.predictors.analytical import POOLED, TERMS, AnalyticalTerms

ELEMENT_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1}


@dataclass(frozen=True)
class ClassThroughput:
    """What a device achieves on one class of kernels; None where its time does not grow with the term.

    Attributes:
        kernel_class: Its name; "any" is fitted on all kernels together.
        gflop_per_s: 10⁹ floating-point operations a second, a multiply-accumulate counted as two.
        activation_gb_per_s: 10⁹ bytes of activations read and written a second.
        weight_gb_per_s: 10⁹ bytes of weights read a second.
        kernel_us: Microseconds that any kernel of the class takes.
    """

    kernel_class: str
    gflop_per_s: float | None
    activation_gb_per_s: float | None
    weight_gb_per_s: float | None
    kernel_us: float

    @property
    def rates(self) -> tuple[float | None, float | None, float | None]:
        """GFLOP/s, GB/s of activations, GB/s of weights."""
        return self.gflop_per_s, self.activation_gb_per_s, self.weight_gb_per_s

    def to_json(self) -> dict[str, str | float | None]:
        return asdict(self)


def throughputs(analytical: AnalyticalTerms, precision: str) -> list[ClassThroughput]:
    """What a platform of a precision achieves, by class of kernel, all kernels together first."""
    width = ELEMENT_BYTES[precision]
    pooled = analytical.coefficients[POOLED]
    found = []
    for name in sorted(analytical.coefficients, key=lambda name: (name != POOLED, name)):
        # A class whose kernels lack a term (activations have no weights) keeps the pooled coefficient, which says nothing.
        own = np.where((analytical.coefficients[name] == pooled) & (name != POOLED), 0.0, analytical.coefficients[name])
        of = dict(zip(TERMS, own.tolist(), strict=True))
        found.append(
            ClassThroughput(name, _rate(of["flops"]), _rate(of["moved"], width), _rate(of["weights"], width), 1e3 * of["count"])
        )
    return found


def _rate(unit_ms: float, scale: float = 1.0) -> float | None:
    """10⁹ units a second, from milliseconds a unit."""
    return scale * 1e-6 / unit_ms if unit_ms > 0 else None


def compared(
    first: Sequence[ClassThroughput], second: Sequence[ClassThroughput]
) -> list[tuple[ClassThroughput | None, ClassThroughput | None]]:
    """The same classes side by side, in the first one's order; None where one has none."""
    other = {each.kernel_class: each for each in second}
    pairs: list[tuple[ClassThroughput | None, ClassThroughput | None]] = [
        (each, other.pop(each.kernel_class, None)) for each in first
    ]
    return [*pairs, *((None, each) for each in other.values())]
