"""Kernel types in independent dimensions, from which their configurations are drawn.

A configuration's fields depend on each other: a map's elements are its pixels times its channels, a depthwise convolution has
one number of channels in three fields. A parametrisation writes a kernel in dimensions that do not: some on a grid of usual
values, some over a range.
"""

from latcast.registry import Registry
from latcast.spaces.parametrisations import tensors, windows
from latcast.spaces.parametrisations.parametrisation import CODES, Axis, Parametrisation, Span, Values

PARAMETRISATIONS: Registry[Parametrisation] = Registry("parametrisation", {}, group="latcast.parametrisations")
"""By kernel type. ``other`` is for operators without a form and has none."""

for _name, _parametrisation in {**windows.PARAMETRISATIONS, **tensors.PARAMETRISATIONS}.items():
    PARAMETRISATIONS.register(_name, _parametrisation)

RARE = frozenset(
    {"conv_3d", "lrn", "einsum", "linear_attention", "grid_sample", "top_k", "cum_sum", "dft", "nms", "recurrent", "indexed"}
)
"""Types that few networks have and few runtimes run."""

__all__ = ["CODES", "PARAMETRISATIONS", "RARE", "Axis", "Parametrisation", "Span", "Values"]
