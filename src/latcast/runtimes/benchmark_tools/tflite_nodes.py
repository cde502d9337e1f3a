"""The nodes of a network's graph that each line of a TFLite profile computes.

A line of TFLite's own operators names the operator's outputs and its index in the file. XNNPACK's lines name the kernel alone;
within each part of the network that it runs they are aligned with the operators in order
(:func:`latcast.runtimes.litert_kernels.align`). A GPU's lines name the fused operations, and are aligned with our own kernels. A
delegate that does not report its kernels computes everything in its part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path

import numpy as np

from latcast.errors import RuntimeFailure
from latcast.graph.importers.tflite_conversion import node_stem
from latcast.graph.importers.tflite_file import TfliteFile
from latcast.graph.ir import Graph
from latcast.graph.writers.tflite import TfliteModel, write_tflite
from latcast.graph.writers.tflite.flatbuffer import TfliteOperator, TfliteTensor
from latcast.kernels.executed_names import LINK, executed_names
from latcast.kernels.rules import FusionRules, platform_rules, unit_kind
from latcast.kernels.search import find_kernels
from latcast.kernels.selection import family_names
from latcast.records import ExecutedKernel, Platform, Reference
from latcast.runtimes.benchmark_tools.output import ProfiledOperator
from latcast.runtimes.benchmark_tools.tflite import INSIDE
from latcast.runtimes.litert_kernels import Aligned, align, partitions
from latcast.spaces.catalogue import build

WHOLE_DELEGATE = re.compile(r"TfLite\w*Delegate\w*")
_ORDINAL = re.compile(r"[ _]\d+$")

_FUSED_ACTIVATION: Mapping[str, str] = {
    "CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions", "FULLY_CONNECTED": "FullyConnectedOptions",
    "ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions", "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions", "CONCATENATION": "ConcatenationOptions",
}  # fmt: skip
"""Operators that may carry an activation to the table of options that holds it."""


def executed_by(profile: Sequence[ProfiledOperator], reference: Reference, platform: Platform) -> tuple[ExecutedKernel, ...]:
    """Return the kernels of a network that a reference names: see :func:`executed_in`.

    The operators are those of a ``.tflite`` file, or for any other network those of latcast's writer.

    Raises:
        RuntimeFailure: The lines do not fit the network; the message says where.
        LatcastError: The network cannot be built, or not be written for TFLite.
    """
    if _is_of_gpu(profile, platform):
        return _of_gpu(_inside(profile), build(reference), platform)
    return _on_cpu(profile, _model_of(reference, "int8" if platform.precision == "int8" else "fp32"))


def executed_in(
    profile: Sequence[ProfiledOperator], graph: Graph, model: TfliteModel, platform: Platform
) -> tuple[ExecutedKernel, ...]:
    """Return the lines as executed kernels, in order of execution, with the nodes that they compute.

    A line for calls in several parts of the network becomes one kernel for each, of the mean latency. ``model`` has the operators
    that ran, each with the nodes of the graph that it computes.

    Raises:
        RuntimeFailure: The lines do not fit the network; the message says where.
    """
    return _of_gpu(_inside(profile), graph, platform) if _is_of_gpu(profile, platform) else _on_cpu(profile, model)


def _inside(profile: Sequence[ProfiledOperator]) -> list[ProfiledOperator]:
    return [line for line in profile if line.name.startswith(INSIDE)]


def _is_of_gpu(profile: Sequence[ProfiledOperator], platform: Platform) -> bool:
    return bool(_inside(profile)) and unit_kind(platform.unit) == "gpu"


def _on_cpu(profile: Sequence[ProfiledOperator], model: TfliteModel) -> tuple[ExecutedKernel, ...]:
    inside = _inside(profile)
    own = [line for line in profile if not line.name.startswith(INSIDE) and not WHOLE_DELEGATE.fullmatch(line.kind)]
    line_of = dict(zip(_operators(own, model), own, strict=True))
    parts = list(partitions(model, set(line_of)))
    if inside:
        # Where a delegate reports its kernels, a line of all of it repeats them.
        told = [line for line in profile if line.name.startswith(INSIDE) or not WHOLE_DELEGATE.fullmatch(line.kind)]
        of_parts = _of_xnnpack(inside, told, model, parts)
    else:
        of_parts = _of_whole([line for line in profile if WHOLE_DELEGATE.fullmatch(line.kind)], model, parts)
    waiting = iter(of_parts)
    kernels: list[ExecutedKernel] = []
    for delegated, indices in parts:
        kernels += next(waiting) if delegated else [_kernel(line_of[index], model.operators[index].nodes) for index in indices]
    return tuple(kernels)


def _kernel(line: ProfiledOperator, nodes: Iterable[str]) -> ExecutedKernel:
    """Return the kernel of one profiled line."""
    return ExecutedKernel(line.name, line.kind, tuple(dict.fromkeys(nodes)), line.latency_ms / line.calls)


def _operators(own: Sequence[ProfiledOperator], model: TfliteModel) -> list[int]:
    """Return the operator of each of TFLite's own lines: by its output names, else its index, else the next of its kind."""
    by_outputs: dict[str, int] = {}
    for index, operator in enumerate(model.operators):
        by_outputs[", ".join(model.tensors[output].name for output in operator.outputs)] = index
    found: list[int] = []
    for line in own:
        kind = line.kind.partition("/")[0]
        alike = [index for index, operator in enumerate(model.operators) if operator.builtin == kind and index not in found]
        said = (by_outputs.get(line.name), line.index, next(iter(alike), None))
        chosen = next((each for each in said if each in alike), None)
        if chosen is None:
            raise RuntimeFailure(f"TFLite ran '{line.kind}' ({line.name}), for which the network has no operator left")
        found.append(chosen)
    return found


def _of_whole(
    whole: Sequence[ProfiledOperator], model: TfliteModel, parts: Sequence[tuple[bool, Sequence[int]]]
) -> list[list[ExecutedKernel]]:
    """Return the kernels of delegates that do not report their own: all nodes of their parts, in order."""
    delegated = [indices for is_delegated, indices in parts if is_delegated]
    if len(whole) != len(delegated):
        raise RuntimeFailure(
            f"{len(whole)} lines are of a delegate, and the network has {len(delegated)} parts of which no other line tells"
        )
    return [
        [_kernel(line, (name for index in indices for name in model.operators[index].nodes))]
        for line, indices in zip(whole, delegated, strict=True)
    ]


def _of_xnnpack(
    inside: Sequence[ProfiledOperator],
    printed: Sequence[ProfiledOperator],
    model: TfliteModel,
    parts: Sequence[tuple[bool, Sequence[int]]],
) -> list[list[ExecutedKernel]]:
    """Return the kernels of each delegated part.

    Lines of TFLite's own operators stand between the parts. A kernel with the same name and number in several parts shares the
    line in the first of them.
    """
    delegated: list[Sequence[int]] = []
    own_before: dict[int, int] = {}
    count = 0
    for is_delegated, indices in parts:
        if is_delegated:
            own_before[count] = len(delegated)
            delegated.append(indices)
        else:
            count += len(indices)
    fresh: list[list[ProfiledOperator]] = [[] for _ in delegated]
    count = 0
    for line in printed:
        if line not in inside:
            count += 1
        elif count in own_before:
            fresh[own_before[count]].append(line)
        else:
            raise RuntimeFailure(f"XNNPACK ran '{line.kind}' where all operators are TFLite's own")
    left = {line: line.calls for line in inside}
    found = []
    for number, indices in enumerate(delegated):
        shared = [line for line, calls in left.items() if calls > 0 and all(line not in each for each in fresh[number:])]
        lines, nodes = _reading(model, indices, fresh[number], shared, everything=number == len(delegated) - 1)
        for line in lines:
            left[line] -= 1
        found.append([_kernel(line, names) for line, names in zip(lines, nodes, strict=True)])
    if unused := [line for line, calls in left.items() if calls > 0]:
        raise RuntimeFailure(f"XNNPACK ran '{unused[0].kind}' {unused[0].calls} times, which fits no part of the network")
    return found


def _reading(
    model: TfliteModel,
    indices: Sequence[int],
    fresh: Sequence[ProfiledOperator],
    shared: Sequence[ProfiledOperator],
    *,
    everything: bool,
) -> tuple[tuple[ProfiledOperator, ...], Sequence[list[str]]]:
    """Return the lines of one part's kernels, and the nodes of each.

    Args:
        model, indices: The file, and the part's operators.
        fresh: Lines that are printed with it: each is a kernel of it.
        shared: Lines of earlier parts with calls left, which may be kernels of it too.
        everything: Whether all shared ones must be, as it is the last part.
    """
    at = {line.index: (line,) for line in fresh}
    fewest = max((line.index + 1 for line in fresh), default=0)
    most = fewest
    while any(line.index == most for line in shared):
        most += 1
    best: tuple[tuple[ProfiledOperator, ...], Aligned] | None = None
    problem = RuntimeFailure("XNNPACK's kernels are not numbered as those of the parts of the network would be")
    if fewest > len(fresh) + len(shared):
        raise problem
    for length in range(most if everything else fewest, most + 1):
        options = [at.get(index) or tuple(line for line in shared if line.index == index) for index in range(length)]
        try:
            found = align(model, indices, [[line.kind for line in lines] for lines in options])
        except RuntimeFailure as failure:
            problem = failure
            continue
        if best is None or found.cost < best[1].cost:
            best = tuple(lines[choice] for lines, choice in zip(options, found.chosen, strict=True)), found
    if best is None:
        raise problem
    return best[0], best[1].nodes


def _of_gpu(inside: Sequence[ProfiledOperator], graph: Graph, platform: Platform) -> tuple[ExecutedKernel, ...]:
    """Match the delegate's kernels with ours, by its names for them; between agreeing ones those of one operation in turn.

    A GPU's kernels depend on its family: where the device does not tell it, the one that agrees best counts.
    """
    labels = [LINK.join(_ORDINAL.sub("", part) for part in line.kind.split(LINK)) for line in inside]
    rules = platform_rules(platform)
    families = family_names() if rules.assumed else ()
    beside = [_beside(labels, graph, each) for each in (rules, *(platform_rules(platform, family) for family in families))]
    _, nodes = max(beside, key=lambda each: each[0])
    return tuple(_kernel(line, names) for line, names in zip(inside, nodes, strict=True))


def _beside(labels: Sequence[str], graph: Graph, rules: FusionRules) -> tuple[float, list[tuple[str, ...]]]:
    """Return the agreement of kernels under some rules with the delegate's, and the nodes of each of the latter."""
    kernels = [kernel for kernel in find_kernels(graph, rules) if not kernel.free]
    wanted = executed_names(graph, kernels, rules)
    matcher = SequenceMatcher(None, labels, wanted, autojunk=False)
    nodes: list[tuple[str, ...]] = [()] * len(labels)
    for _, start, end, other_start, other_end in matcher.get_opcodes():
        ours = list(range(other_start, other_end))
        for at in range(start, end):
            first = labels[at].partition(LINK)[0]
            alike = [index for index in ours if wanted[index].partition(LINK)[0] == first]
            if alike:
                nodes[at] = kernels[alike[0]].nodes
                ours = [index for index in ours if index > alike[0]]
    return matcher.ratio(), nodes


@lru_cache(maxsize=4)
def _model_of(reference: Reference, precision: str) -> TfliteModel:
    """Return the operators in order, each with the nodes of the reference's graph that it computes."""
    path = Path(str(reference.parameters.get("path", ""))) if reference.space == "file" else Path()
    if path.suffix.lower() == ".tflite":
        return _model_of_file(path, build(reference))
    return write_tflite(build(reference), precision=precision).model


def _model_of_file(path: Path, graph: Graph) -> TfliteModel:
    """Return a file's operators; the importer names nodes after the operator that they are a part of."""
    file = TfliteFile(path).subgraph(0)
    stems = [node_stem(operator.kind, [file.tensors[index].name for index in operator.outputs]) for operator in file.operators]
    nodes: dict[str, list[str]] = {stem: [] for stem in stems}
    for node in graph.nodes:
        stem = node.name if node.name in nodes else re.sub(r"_\d+$", "", node.name)
        nodes.get(stem, []).append(node.name)
    model = TfliteModel(graph.name, inputs=file.inputs, outputs=file.outputs)
    for tensor in file.tensors:
        model.add_tensor(TfliteTensor(tensor.name, tensor.shape, data=np.empty(0) if tensor.is_static else None))
    for operator, stem in zip(file.operators, stems, strict=True):
        table = _FUSED_ACTIVATION.get(operator.kind)
        fused = 0 if table is None else int(operator.options(table).FusedActivationFunction())
        of_it = tuple(nodes[stem])
        model.operators.append(
            TfliteOperator(
                operator.kind, operator.inputs, operator.outputs, {"fused_activation_function": fused}, of_it,
                of_it[-1] if fused and of_it else "",
            )
        )  # fmt: skip
    return model
