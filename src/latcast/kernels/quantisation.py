"""Which operators of a quantised network run on integers, and which in floats between two conversions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from latcast.errors import BundleError
from latcast.graph.idioms import choose_idioms
from latcast.graph.ir import Graph
from latcast.kernels.kernel import Kernel

FLOATING = "floating"
"""Variant of a kernel type: between a conversion from integers and one back."""


@dataclass(frozen=True)
class QuantisationRules:
    """The operators that a runtime computes on integers.

    Attributes:
        on_integers: Classes of those operators.
        converted: Kernel types of which some run on integers and others, which take longer, between conversions.
    """

    on_integers: frozenset[str]
    converted: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        return {"on_integers": sorted(self.on_integers), "converted": sorted(self.converted)}

    @classmethod
    def from_json(cls, data: Any, source: str) -> QuantisationRules:
        """Read the JSON that :meth:`to_json` wrote.

        Raises:
            BundleError: Something else was found.
        """
        try:
            if unknown := sorted(set(data) - {"on_integers", "converted"}):
                raise ValueError(f"unknown field {unknown[0]}")
            return cls(*(frozenset(map(str, data[name])) for name in ("on_integers", "converted")))
        except (KeyError, TypeError, ValueError) as problem:
            raise BundleError(
                f"{source}: 'quantisation' needs a list 'on_integers' of operator classes, a list 'converted' of kernel types: "
                f"{problem!r}"
            ) from problem


def with_conversions(
    graph: Graph, kernels: Iterable[Kernel], classes: Mapping[str, str], rules: QuantisationRules
) -> tuple[Kernel, ...]:
    """Return kernels with those between conversions as variants (:data:`FLOATING`), where the rules name their type.

    Args:
        graph: The network.
        kernels: Of the network.
        classes: Its operators' names to their classes.
        rules: Of the runtime.
    """
    # No operator inside a GELU is quantised.
    floating = {node.name for idiom in choose_idioms(graph, ("gelu",)) for node in idiom.nodes}

    def as_run(kernel: Kernel) -> Kernel:
        on_integers = kernel.name not in floating and classes[kernel.name] in rules.on_integers
        return kernel if on_integers else replace(kernel, kernel_type=f"{kernel.kernel_type}.{FLOATING}")

    return tuple(as_run(kernel) if kernel.kernel_type in rules.converted else kernel for kernel in kernels)
