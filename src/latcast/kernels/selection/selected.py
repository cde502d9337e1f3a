"""A selection by its name, applied to kernels one by one or by the thousand."""

from __future__ import annotations

from functools import cache

import numpy as np

from latcast.errors import LatcastError
from latcast.kernels.kernel import Configuration
from latcast.kernels.selection.gpu_family import family_named
from latcast.kernels.selection.protocol import KernelSelection, Thresholds
from latcast.kernels.selection.retyping import retype
from latcast.kernels.types.kernel_type import kernel_type
from latcast.registry import Registry

SELECTIONS: Registry[KernelSelection] = Registry(
    "kernel selection",
    {name: f"latcast.kernels.selection.{name}:select" for name in ("tflite_gpu", "pytorch_vulkan", "pytorch_metal")},
    "latcast.selections",
)
"""Backends by name; others are added as entry points of the group ``latcast.selections``."""

NEED_A_FAMILY = frozenset({"tflite_gpu"})
"""Backends that compare sizes with thresholds of the GPU family."""


class Selection:
    """A backend's selection on one GPU family; remembers what it chose.

    Attributes:
        backend: Its name in :data:`SELECTIONS`.
        thresholds: Of the family for this backend; empty where there are none.
    """

    def __init__(self, backend: str, thresholds: Thresholds) -> None:
        self.backend = backend
        self.thresholds = thresholds
        self._chosen: dict[tuple[str, Configuration], tuple[str, Configuration]] = {}

    def names(self, kernel_type_name: str, configurations: np.ndarray) -> np.ndarray:
        """Types that the backend runs kernels of one type as.

        Args:
            kernel_type_name: What fusion found.
            configurations: (kernels, fields).

        Returns:
            (kernels,) names of kernel types.
        """
        if not len(configurations):
            return np.zeros(0, dtype=object)
        columns = kernel_type(kernel_type_name).columns(configurations)
        return SELECTIONS.get(self.backend)(kernel_type_name, columns, self.thresholds)

    def kernel(self, kernel_type_name: str, configuration: Configuration) -> tuple[str, Configuration]:
        """Type and configuration of one kernel after selection."""
        key = (kernel_type_name, configuration)
        found = self._chosen.get(key)
        if found is None:
            rows = np.array([configuration], dtype=np.int64)
            name = str(self.names(kernel_type_name, rows)[0])
            found = self._chosen[key] = (name, tuple(retype(kernel_type_name, name, rows)[0].tolist()))
        return found


@cache
def selection_of(text: str) -> Selection:
    """The selection that fusion rules name: ``backend`` or ``backend:family``.

    Raises:
        UnknownNameError: No such backend or GPU family.
        LatcastError: The backend needs a family, and none is named.
    """
    backend, _, family = text.partition(":")
    SELECTIONS.get(backend)
    if not family:
        if backend in NEED_A_FAMILY:
            raise LatcastError(
                f"the kernel selection '{text}' names no GPU family; expected '{backend}:FAMILY', for instance "
                f"'{backend}:adreno6xx' (latcast.kernels.rules.rules_for fills it in from device or gpu_family)"
            )
        return Selection(backend, {})
    return Selection(backend, family_named(family).thresholds.get(backend, {}))
