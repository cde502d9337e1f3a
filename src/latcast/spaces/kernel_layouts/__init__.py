"""What the configurations of each kernel type may be: which fields go together, and what follows from what.

A configuration's fields depend on each other: a map's elements are its pixels times its channels, a depthwise convolution has
one number of channels in three fields. A layout says a kernel in independent dimensions, those on a grid of usual values and
those over a range.
"""

from collections.abc import Mapping

from latcast.spaces.kernel_layouts import tensors, windows
from latcast.spaces.kernel_layouts.layout import CODES, Axis, Layout, Span, Values

LAYOUTS: Mapping[str, Layout] = {**windows.LAYOUTS, **tensors.LAYOUTS}
"""By kernel type. ``other`` stands for operators without a form of their own and has none."""

RARE = frozenset({"conv_3d", "lrn", "einsum", "linear_attention", "grid_sample", "top_k", "cum_sum", "dft", "nms"})
"""Types that few networks have and few runtimes run."""

__all__ = ["CODES", "LAYOUTS", "RARE", "Axis", "Layout", "Span", "Values"]
