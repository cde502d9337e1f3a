"""Names of kernels as the dataset records them.

TFLite's say which nodes of its graph they compute: ``convolution_2d_5_linked_:_add_6_linked_:_relu_7`` computes node 5 and,
fused into it, nodes 6 and 7. Nodes of which no kernel was recorded (padding, element-wise operations that were not fused)
show as gaps between the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from latcast.datasets.importers.table import Malformed
from latcast.records import ExecutedKernel

SHARED_KIND = "depthwise_conv_plus_1x1_conv"
"""The one kernel that computes two convolutions."""

_LINK = re.compile(r"_linked_: ?_")
_NUMBERED = re.compile(r"(.+?)((?:_\d+)+)")


@dataclass(frozen=True)
class KernelName:
    """A recorded name in its parts.

    Attributes:
        kind: The kernel alone: "convolution_winograd_4x4_6x6", "vulkan.conv2d_pw_2x2".
        numbers: Nodes that it computes itself; none in names of PyTorch.
        linked: Operations fused into it with their nodes, in order.
    """

    kind: str
    numbers: tuple[int, ...] = ()
    linked: tuple[tuple[str, int], ...] = ()

    @property
    def nodes(self) -> tuple[int, ...]:
        """All nodes that it computes."""
        return (*self.numbers, *(node for _, node in self.linked))


def parse_kernel_name(name: str) -> KernelName:
    """Takes a name apart; PyTorch's (``vulkan.addmm``) have no numbers.

    Raises:
        Malformed: A name of TFLite without numbers.
    """
    if "." in name:
        return KernelName(name)
    head, *links = _LINK.split(name)
    parts = [_NUMBERED.fullmatch(part) for part in (head, *links)]
    found = [(part.group(1), tuple(int(digits) for digits in part.group(2).split("_")[1:])) for part in parts if part]
    if len(found) != len(parts) or any(len(numbers) != 1 for _, numbers in found[1:]):
        raise Malformed(f"the kernel '{name}' is not of the form kernel_NODE_linked_:_operation_NODE")
    return KernelName(found[0][0], found[0][1], tuple((operation, numbers[0]) for operation, numbers in found[1:]))


def unrecorded_nodes(executed: Iterable[ExecutedKernel]) -> int:
    """How many nodes of a network TFLite ran without a recorded kernel: gaps between the node numbers of the others."""
    numbers = {node for kernel in executed for node in parse_kernel_name(kernel.name).nodes}
    return max(numbers) + 1 - len(numbers) if numbers else 0
