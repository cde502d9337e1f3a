"""Names that a backend itself gives to kernels: to compare them with its records and its profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from latcast.errors import DatasetError
from latcast.graph.idioms import Idiom
from latcast.graph.ir import Graph, Node
from latcast.kernels.kernel import Kernel, operator_class
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import chosen_idioms
from latcast.reading import read_json

LINK = "_linked_:_"
"""Between the names of operators that TFLite's delegate linked (fused) into one kernel."""

_NAMES = read_json(Path(__file__).with_suffix(".json"), error=DatasetError)

TFLITE_GPU: Mapping[str, str] = _NAMES["tflite_gpu"]
"""Kernel type to the delegate's name of the operator that the kernel begins with."""

TFLITE_GPU_LINKED: Mapping[str, Sequence[str]] = _NAMES["tflite_gpu_linked"]
"""Operator class to the delegate's operators, where they are not called alike."""

FOLDED_INTO = frozenset({"conv", "conv.winograd", "depthwise_conv", "depthwise_pointwise", "grouped_conv", "linear"})
FOLDED = frozenset({"add_scalar", "batch_normalization", "bias_add"})
"""Types that TFLite's converter folds into weights and bias of those of ``FOLDED_INTO`` right before them."""

PYTORCH_VULKAN: Mapping[str, str] = _NAMES["pytorch_vulkan"]
PYTORCH_METAL: Mapping[str, str] = _NAMES["pytorch_metal"]
"""Kernel type, or the class of the first operator where a type holds several, to the backend's name."""


def executed_names(graph: Graph, kernels: Sequence[Kernel], rules: FusionRules) -> list[str]:
    """Return the name that the rules' backend would record for each kernel, without the numbers it gives to operators.

    TFLite's delegate writes all linked operators ("convolution_2d_linked_:_add_linked_:_relu"), except behind Winograd,
    whose record names the first of its three steps. Without a selection it is the kernel's type.

    Args:
        graph: The network.
        kernels: Found in it by these rules.
        rules: The rules, with their selection.
    """
    backend = rules.selection.partition(":")[0]
    idiom_of = chosen_idioms(graph, rules)
    nodes = {node.name: node for node in graph.nodes}
    words = [_words(graph, [nodes[name] for name in kernel.nodes], idiom_of) for kernel in kernels]
    if backend == "tflite_gpu":
        return [_delegate_name(kernel.kernel_type, found) for kernel, found in zip(kernels, words, strict=True)]
    table = _NAMES.get(backend)
    if table is None:
        return [kernel.kernel_type for kernel in kernels]
    prefix = backend.removeprefix("pytorch_")
    return [
        table.get(kernel.kernel_type) or table.get(found[0], f"{prefix}.{found[0]}")
        for kernel, found in zip(kernels, words, strict=True)
    ]


def _words(graph: Graph, nodes: Sequence[Node], idiom_of: Mapping[str, Idiom]) -> list[str]:
    """Return the classes of a kernel's operators in order, an idiom as one word."""
    found: list[str] = []
    for node in nodes:
        idiom = idiom_of.get(node.name)
        if idiom is None:
            found.append(operator_class(graph, node))
        elif node is idiom.nodes[-1]:
            found.append(idiom.name)
    return found


def _delegate_name(kernel_type: str, words: Sequence[str]) -> str:
    """Return the delegate's name of a kernel of these operators."""
    own = TFLITE_GPU.get(kernel_type)
    if kernel_type == "conv.winograd" and own is not None:
        return own
    parts = [] if own is None else [own]
    behind = list(words if own is None else words[1:])
    while kernel_type in FOLDED_INTO and behind and behind[0] in FOLDED:
        behind.pop(0)
    for word in behind:
        name = word.removesuffix("_scalar").removesuffix("_weight").removeprefix("bias_")
        # Dividing by a constant is stored as a product.
        name = "mul" if name == "div" and name != word else name
        parts += TFLITE_GPU_LINKED.get(name, (name,))
    return LINK.join(parts)
