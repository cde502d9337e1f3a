"""The valid configurations of a kernel type on a runtime, from which samplers draw.

A configuration is valid where a kernel of it, built as a network, is one kernel of the same configuration under
the runtime's fusion rules, and where it is no larger than the kernels of networks are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from random import Random

import numpy as np

from latcast.errors import LatcastError, UnsupportedOperatorError
from latcast.kernels.kernel import Configuration
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import SingleKernels
from latcast.kernels.types import kernel_type
from latcast.kernels.types.kernel_type import FUSED_FIELDS
from latcast.records import Reference
from latcast.spaces.parametrisations import PARAMETRISATIONS, Values

MOST_FLOPS, MOST_ELEMENTS, MOST_WEIGHTS = 4e9, 1.6e7, 1.1e8
"""FLOPs, elements read and written, and weights of one kernel; a little more than VGG16's largest."""

SPAN_DRAWS = 100
"""Draws of channels for one choice on the grid, before another choice is made."""

FUSED_TRIALS = 24
"""Choices on the grid that are tried for what may be fused behind a kernel: a sum takes in a ReLU where a product does not."""

FUSED = (
    (0, 0, 0), (1, 0, 0), (2, 0, 0), (4, 0, 0), (5, 0, 0), (4, 0, 1), (5, 0, 1), (10, 0, 1), (1, 1, 0), (2, 1, 0),
)  # fmt: skip
"""What may be fused behind a kernel, in the order of ``FUSED_FIELDS``: nothing, ReLU, ReLU6, hard-sigmoid, hard-swish, sigmoid,
SiLU, GELU, a sum, a sum and ReLU."""


def kernel_reference(type_name: str, configuration: Configuration) -> Reference:
    """Return the reference of a single kernel."""
    fields = kernel_type(type_name).fields
    parameters = dict(zip(fields, configuration, strict=True))
    return Reference(f"kernel/{type_name}", parameters, f"{type_name} {'x'.join(map(str, configuration))}")


class KernelSpace:
    """The valid configurations of a kernel type under a runtime's fusion rules, which decide what is one kernel.

    Spaces of several types may share ``singles``, what is known of single kernels under these rules.

    Raises:
        UnknownNameError: No such kernel type.
        UnsupportedOperatorError: The type has no parametrisation: ``other`` is for operators without a form.
    """

    def __init__(self, type_name: str, rules: FusionRules, singles: SingleKernels | None = None) -> None:
        self.kernel_type = kernel_type(type_name)
        self.rules = rules
        self._singles = singles or SingleKernels(rules)
        if type_name not in PARAMETRISATIONS:
            raise UnsupportedOperatorError(
                f"kernels of type '{type_name}' cannot be drawn: no parametrisation describes them; "
                f"there is one of {', '.join(PARAMETRISATIONS)}"
            )
        self.parametrisation = PARAMETRISATIONS.get(type_name)

    @property
    def name(self) -> str:
        return self.kernel_type.name

    # Validity

    def canonical(self, configuration: Configuration) -> Configuration | None:
        """Return the configuration of the kernel that is really built for this one; None where it is not one kernel of the type.

        Two configurations may be built alike: what is fused behind a kernel is described by its FLOPs, not by name.
        """
        if not self.within_limits(configuration):
            return None
        try:
            busy = self._singles.busy(self.name, configuration)
        except LatcastError:
            return None
        if len(busy) != 1 or busy[0].kernel_type != self.name:
            return None
        built = busy[0].configuration
        return built if built == configuration or self.within_limits(built) else None

    def contains(self, configuration: Configuration) -> bool:
        """Return whether the configuration is valid."""
        return self.canonical(configuration) == configuration

    def within_limits(self, configuration: Configuration) -> bool:
        """Return whether the sizes are positive and none exceeds those of real networks."""
        names = self.kernel_type.fields
        if len(configuration) != len(names):
            return False
        may_be_zero = _MAY_BE_ZERO.union(self.kernel_type.added)
        if any(value < (0 if name in may_be_zero else 1) for name, value in zip(names, configuration, strict=True)):
            return False
        q = self.kernel_type.quantities(self.kernel_type.columns(np.array([configuration])))
        moved = q.input_elements[0] + q.output_elements[0]
        return bool(q.flops[0] <= MOST_FLOPS and moved <= MOST_ELEMENTS and q.weight_elements[0] <= MOST_WEIGHTS)

    # Drawing

    def draw(self, rng: Random) -> Configuration | None:
        """Return a configuration drawn evenly: each axis on its own, then channels among those that the limits allow there.

        Returns:
            None where this choice on the grid has no valid kernel, or hardly any.
        """
        chosen, fused = self._choice(rng), rng.choice(self.fused)
        if not self.parametrisation.sensible(chosen):
            return None
        for _ in range(SPAN_DRAWS):
            spans = {span.name: rng.randint(span.low, span.high) for span in self.parametrisation.spans}
            configuration = self._written({**chosen, **spans}, fused)
            if self.within_limits(configuration):
                return self.canonical(configuration)
        return None

    @cached_property
    def fused(self) -> tuple[tuple[int, ...], ...]:
        """Return the operators that the rules fuse behind some kernel of this type, in the order of ``FUSED_FIELDS``."""
        rng = Random(0)
        spans = {span.name: max(span.low, min(32, span.high)) for span in self.parametrisation.spans}
        choices = [{**self._choice(rng), **spans} for _ in range(FUSED_TRIALS)]
        found = [fused for fused in FUSED if any(self.contains(self._written(choice, fused)) for choice in choices)]
        return tuple(found) or FUSED[:1]

    @cached_property
    def drawable(self) -> bool:
        """Return whether the rules have such a kernel: a channel shuffle is three kernels on most runtimes."""
        rng = Random(0)
        return any(self.draw(rng) is not None for _ in range(20))

    def _choice(self, rng: Random) -> dict[str, int]:
        """Return a value on each axis."""
        chosen: dict[str, int] = dict(self.parametrisation.constants)
        for axis in self.parametrisation.axes:
            chosen |= zip(axis.names, rng.choice(axis.values), strict=True)
        return chosen

    def check_drawable(self) -> None:
        """Raise an UnsupportedOperatorError if the runtime has no kernels of the type."""
        if not self.drawable:
            known = ", ".join(kernel_spaces(self.rules))
            raise UnsupportedOperatorError(
                f"{self.rules.runtime} runs no '{self.name}' as one kernel, so none can be drawn; it has {known}"
            )

    # Dimensions

    def dimensions(self, configuration: Configuration) -> dict[str, int]:
        """Return a configuration in the dimensions of its parametrisation; what is fused stays as it is."""
        fields = dict(zip(self.kernel_type.fields, configuration, strict=True))
        fused = {name: fields.pop(name) for name in FUSED_FIELDS}
        return {**self.parametrisation.read(fields), **fused}

    def moved(self, configuration: Configuration, changes: Values) -> Configuration | None:
        """Return the configuration with some of its dimensions changed; None where there is no such kernel."""
        values = {**self.dimensions(configuration), **changes}
        fused = tuple(values.pop(name) for name in FUSED_FIELDS)
        return self.canonical(self._written(values, fused))

    def spans(self, configuration: Configuration) -> dict[str, int]:
        """Return the channels of a configuration."""
        values = self.dimensions(configuration)
        return {span.name: values[span.name] for span in self.parametrisation.spans}

    @cached_property
    def cells(self) -> Sequence[Mapping[str, int]]:
        """Every sensible combination on the grid: (HW, K, S) of a convolution (nn-Meter §5.2)."""
        axes = [axis for axis in self.parametrisation.axes if axis.cell]
        found = []
        for choice in product(*(axis.values for axis in axes)):
            cell: dict[str, int] = {}
            for axis, values in zip(axes, choice, strict=True):
                cell |= zip(axis.names, values, strict=True)
            if self.parametrisation.sensible({**self.parametrisation.constants, **cell}):
                found.append(cell)
        return found

    def _written(self, values: Values, fused: tuple[int, ...]) -> Configuration:
        fields = {**self.parametrisation.write(values), **dict(zip(FUSED_FIELDS, fused, strict=True))}
        return tuple(fields[name] for name in self.kernel_type.fields)


_MAY_BE_ZERO = frozenset({*FUSED_FIELDS, "padded", "function", "operation", "linear", "mode", "rule"})
"""Fields that are counts from zero on, codes or flags; all others are sizes, unless a type had them added."""


def kernel_spaces(
    rules: FusionRules, types: Iterable[str] = PARAMETRISATIONS, singles: SingleKernels | None = None
) -> dict[str, KernelSpace]:
    """Return the spaces of those kernel types that a runtime with these rules has, by type."""
    singles = singles or SingleKernels(rules)
    spaces = [KernelSpace(name, rules, singles) for name in types]
    return {space.name: space for space in spaces if space.drawable}
