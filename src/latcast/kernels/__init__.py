"""Kernels, which a runtime really executes: found in a graph, and described by the numbers that decide their latency."""

from latcast.kernels.kernel import Kernel, KernelTable
from latcast.kernels.rules import FusionRules, load_rules
from latcast.kernels.search import find_kernels
from latcast.kernels.types import KERNEL_TYPES, kernel_type

__all__ = ["KERNEL_TYPES", "FusionRules", "Kernel", "KernelTable", "find_kernels", "kernel_type", "load_rules"]
