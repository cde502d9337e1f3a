"""The nodes of the graph that each of LiteRT's kernels computes.

LiteRT reports the index of an operator that it ran itself, but only the names of XNNPACK's kernels, in order. XNNPACK keeps the
order of operators and has one name for each sort of kernel, so the two sequences can be aligned: an operator without a kernel was
fused into a neighbour, a kernel without an operator was inserted by XNNPACK.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from latcast.errors import RuntimeFailure
from latcast.graph.writers.tflite import TfliteModel
from latcast.graph.writers.tflite.flatbuffer import TfliteOperator
from latcast.runtimes.litert_native import ProfiledEvent

KERNELS: Mapping[str, tuple[str, ...]] = {
    "CONV_2D": ("Convolution", "Fully Connected"), "DEPTHWISE_CONV_2D": ("Convolution",),
    "TRANSPOSE_CONV": ("Deconvolution",), "FULLY_CONNECTED": ("Fully Connected",),
    "BATCH_MATMUL": ("Batch Matrix Multiply", "Fully Connected"), "ADD": ("Add",), "SUB": ("Subtract",),
    "MUL": ("Multiply", "Square"), "DIV": ("Divide",), "SQUARED_DIFFERENCE": ("Squared Difference",),
    "MAXIMUM": ("Maximum", "Clamp"), "MINIMUM": ("Minimum", "Clamp"), "RELU": ("Clamp",), "RELU6": ("Clamp",),
    "RELU_N1_TO_1": ("Clamp",), "RELU_0_TO_1": ("Clamp",), "AVERAGE_POOL_2D": ("Average Pooling",),
    "MAX_POOL_2D": ("Max Pooling",), "MEAN": ("Mean",), "SUM": ("Sum",), "REDUCE_MAX": ("Reduce Max",),
    "REDUCE_MIN": ("Reduce Min",), "SOFTMAX": ("Softmax",), "LOGISTIC": ("Sigmoid",), "TANH": ("TanH",),
    "HARD_SWISH": ("HardSwish",), "GELU": ("GELU",), "ELU": ("ELU",), "LEAKY_RELU": ("LeakyReLU",), "PRELU": ("PReLU",),
    "EXP": ("Exp",), "LOG": ("Log",), "SQRT": ("Square Root",), "RSQRT": ("Reciprocal Square Root",), "NEG": ("Negate",),
    "ABS": ("Abs",), "FLOOR": ("Floor",), "CEIL": ("Ceiling",), "ROUND": ("Bank",), "SIN": ("Sine",), "COS": ("Cosine",),
    "SIGN": ("Sign",), "POW": ("Pow",), "CONCATENATION": ("Copy", "Concatenate"), "SPLIT": ("Copy", "Split", "Even Split"),
    "RESHAPE": ("Static Reshape", "Copy"), "TRANSPOSE": ("Transpose",), "PAD": ("Constant Pad",),
    "STRIDED_SLICE": ("Slice",), "RESIZE_BILINEAR": ("Resize Bilinear",), "DEPTH_TO_SPACE": ("Depth To Space",),
    "SPACE_TO_DEPTH": ("Space To Depth",), "QUANTIZE": ("Convert",), "DEQUANTIZE": ("Convert",),
    "BROADCAST_TO": ("Broadcast",),
}  # fmt: skip
"""TFLite operator to the beginnings of its XNNPACK kernels' names."""

TABLE_KERNEL = "Invalid Unary Op"
"""XNNPACK's name of a lookup table, which computes a chain of int8 element-wise operators with one input."""

_TABULATED = frozenset({
    "ADD", "SUB", "MUL", "DIV", "SQUARED_DIFFERENCE", "MAXIMUM", "MINIMUM", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1",
    "LOGISTIC", "TANH", "HARD_SWISH", "GELU", "ELU", "LEAKY_RELU", "EXP", "LOG", "SQRT", "RSQRT", "NEG", "ABS", "FLOOR",
    "CEIL", "ROUND", "SIN", "COS", "SIGN", "QUANTIZE", "DEQUANTIZE",
})  # fmt: skip

_OF_SQUARES: Mapping[str, str] = {"Normalize": "SUM", "Mean Squared": "MEAN"}
"""Beginning of the name of XNNPACK's kernel for a reduction of squares (a MUL of a tensor by itself) to the reduction."""

_FUSED_FORWARDS = frozenset({"PAD", "TRANSPOSE"})
_FUSED_BACKWARDS = frozenset({
    "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "MAXIMUM", "MINIMUM", "QUANTIZE", "DEQUANTIZE",
})  # fmt: skip
_ELIDED = frozenset({"RESHAPE", "MAX_POOL_2D", "AVERAGE_POOL_2D"})
"""Views; and pools over windows of one element, which XNNPACK leaves out."""
_INSERTED = ("Static Reshape", "Copy", "Convert", "Transpose", "Slice", "Constant Pad")

_LONGEST_TABLE = 12

_LEFT_OUT = -1
"""Index of an omitted input."""


@dataclass
class Attribution:
    """A kernel, as an index into the events, and the names of the nodes that it computes."""

    event: int
    nodes: list[str] = field(default_factory=list)


def attribute(model: TfliteModel, events: Sequence[ProfiledEvent]) -> list[Attribution]:
    """Find the nodes of every event of one run.

    Raises:
        RuntimeFailure: The events do not fit the model; the message says where.
    """
    outside = {event.index for event in events if not event.delegated}
    attributions = [Attribution(index) for index in range(len(events))]
    position = 0
    for delegated, operators in partitions(model, outside):
        if not delegated:
            for index in operators:
                event = events[position] if position < len(events) else None
                if event is None or event.delegated or event.index != index:
                    raise _unexpected(model.operators[index].builtin, "none" if event is None else event.tag)
                attributions[position].nodes += model.operators[index].nodes
                position += 1
            continue
        kernels: list[int] = []
        while position < len(events) and events[position].delegated and events[position].index == len(kernels):
            kernels.append(position)
            position += 1
        found = align(model, operators, [(events[kernel].tag,) for kernel in kernels])
        for kernel, nodes in zip(kernels, found.nodes, strict=True):
            attributions[kernel].nodes += nodes
    if position != len(events):
        raise _unexpected("nothing more", events[position].tag)
    for attribution in attributions:
        attribution.nodes = list(dict.fromkeys(attribution.nodes))
    return attributions


def _unexpected(expected: str, found: str) -> RuntimeFailure:
    return RuntimeFailure(
        f"LiteRT reports the kernel '{found}' where '{expected}' was expected, so the kernels' nodes are unknown; "
        "measure the network as a whole instead"
    )


def partitions(model: TfliteModel, outside: set[int]) -> Iterator[tuple[bool, list[int]]]:
    """Yield the parts that LiteRT executes in turn: whether a part is the delegate's, and its operators.

    As in TFLite's partitioner, each part takes, in the file's order, all operators of one sort whose inputs are ready.
    ``outside`` has the indices of the operators that the delegate left to LiteRT.
    """
    made = {tensor for operator in model.operators for tensor in operator.outputs}
    ready = {_LEFT_OUT, *range(len(model.tensors))} - made
    waiting = list(range(len(model.operators)))
    while waiting:
        delegated: bool | None = None
        taken, left = [], []
        for index in waiting:
            operator = model.operators[index]
            inside = index not in outside
            if delegated in (None, inside) and ready.issuperset(operator.inputs):
                delegated = inside
                taken.append(index)
                ready.update(operator.outputs)
            else:
                left.append(index)
        if not taken or delegated is None:
            raise RuntimeFailure("the model's operators are in no order in which they could run")
        yield delegated, taken
        waiting = left


_Move = tuple[str, int, tuple[int, ...]]
"""The sort of a step ("kernel", "fused", ...), its number of operators, and for each of its kernels the chosen name."""


@dataclass(frozen=True)
class Aligned:
    """A partition's operators aligned with its kernels.

    Attributes:
        cost: Grows with the number of fusions and insertions.
        chosen: For each kernel, the index of its chosen name.
        nodes: The nodes that each kernel computes.
    """

    cost: int
    chosen: tuple[int, ...]
    nodes: tuple[list[str], ...]


def align(model: TfliteModel, indices: Sequence[int], tags: Sequence[Sequence[str]]) -> Aligned:
    """Align one partition's operators and kernels with the fewest fusions and insertions (Dijkstra).

    Args:
        model, indices: The file, and the partition's operators.
        tags: XNNPACK's possible names of its kernels, in order.

    Raises:
        RuntimeFailure: They do not fit; the message says where.
    """
    operators = [model.operators[index] for index in indices]
    best: dict[tuple[int, int], int] = {(0, 0): 0}
    came_by: dict[tuple[int, int], _Move] = {}
    queue = [(0, 0, 0)]
    goal = (len(operators), len(tags))
    furthest = (0, 0)
    while queue:
        cost, at, kernel = heapq.heappop(queue)
        if (at, kernel) == goal:
            break
        if cost > best[at, kernel]:
            continue
        furthest = max(furthest, (at, kernel))
        for extra, move in _moves(model, operators, tags, at, kernel):
            reached = (at + move[1], kernel + len(move[2]))
            if cost + extra < best.get(reached, 10**9):
                best[reached] = cost + extra
                came_by[reached] = move
                heapq.heappush(queue, (cost + extra, *reached))
    if goal not in best:
        at, kernel = furthest
        raise _unexpected(
            operators[at].builtin if at < len(operators) else "nothing more",
            next(iter(tags[kernel]), "none") if kernel < len(tags) else "none",
        )
    moves: list[tuple[int, int, _Move]] = []
    state = goal
    while state != (0, 0):
        move = came_by[state]
        state = (state[0] - move[1], state[1] - len(move[2]))
        moves.append((*state, move))
    moves.reverse()
    chosen = tuple(choice for _, _, move in moves for choice in move[2])
    return Aligned(best[goal], chosen, tuple(_assigned(operators, len(tags), moves)))


def _moves(
    model: TfliteModel, operators: Sequence[TfliteOperator], tags: Sequence[Sequence[str]], at: int, kernel: int
) -> Iterator[tuple[int, _Move]]:
    """Yield the possible next steps, each with its cost."""
    operator = operators[at] if at < len(operators) else None
    for choice, tag in enumerate(tags[kernel] if kernel < len(tags) else ()):
        if operator is not None and tag.startswith(KERNELS.get(operator.builtin, ())):
            yield 0, ("kernel", 1, (choice,))
            follows = tags[kernel + 1] if kernel + 1 < len(tags) else ()
            clamp = next((number for number, name in enumerate(follows) if name.startswith("Clamp")), None)
            if operator.options.get("fused_activation_function") and clamp is not None:
                yield 0, ("kernel and clamp", 1, (choice, clamp))
        reduction = next((name for beginning, name in _OF_SQUARES.items() if tag.startswith(beginning)), None)
        if reduction is not None and _reduces_squares(operators[at : at + 2], reduction):
            yield 0, ("kernel", 2, (choice,))
        if operator is not None and tag == TABLE_KERNEL:
            for count in range(1, min(_LONGEST_TABLE, len(operators) - at) + 1):
                if _is_chain(model, operators[at : at + count]):
                    yield 0, ("table", count, (choice,))
        if tag.startswith(_INSERTED):
            yield 2, ("inserted", 0, (choice,))
    if operator is not None and operator.builtin in _FUSED_FORWARDS:
        yield 1, ("fused forwards", 1, ())
    if operator is not None and operator.builtin in _FUSED_BACKWARDS:
        yield 1, ("fused backwards", 1, ())
    if operator is not None and operator.builtin in _ELIDED:
        yield 1, ("elided", 1, ())


def _reduces_squares(operators: Sequence[TfliteOperator], reduction: str) -> bool:
    if [operator.builtin for operator in operators] != ["MUL", reduction]:
        return False
    square, total = operators
    return len(set(square.inputs)) == 1 and total.inputs[0] == square.outputs[0]


def _is_chain(model: TfliteModel, operators: Sequence[TfliteOperator]) -> bool:
    """Return whether element-wise operators together have one computed input and one result."""
    if any(operator.builtin not in _TABULATED for operator in operators):
        return False
    inside = {tensor for operator in operators for tensor in operator.outputs}
    outside = {
        tensor
        for operator in operators
        for tensor in operator.inputs
        if tensor not in inside and model.tensors[tensor].data is None
    }
    hidden = inside - set(operators[-1].outputs)
    within = {id(operator) for operator in operators}
    shown = any(hidden.intersection(operator.inputs) for operator in model.operators if id(operator) not in within)
    return len(outside) == 1 and not shown and not hidden.intersection(model.outputs)


def _assigned(operators: Sequence[TfliteOperator], kernels: int, moves: Sequence[tuple[int, int, _Move]]) -> list[list[str]]:
    """Return the nodes of each kernel by the moves; fused operators' nodes go to their neighbours."""
    nodes: list[list[str]] = [[] for _ in range(kernels)]
    kernel_of: dict[int, int] = {}
    for at, kernel, (what, count, _) in moves:
        if what in ("kernel", "kernel and clamp", "table"):
            for offset in range(count):
                kernel_of[at + offset] = kernel
        if what == "kernel and clamp":
            operator = operators[at]
            nodes[kernel + 1] += [operator.activation_node] if operator.activation_node else operator.nodes
            nodes[kernel] += [name for name in operator.nodes if name != operator.activation_node]
        elif what in ("kernel", "table"):
            for offset in range(count):
                nodes[kernel] += operators[at + offset].nodes
    producers = {tensor: at for at, operator in enumerate(operators) for tensor in operator.outputs}
    readers = {tensor: at for at, operator in reversed(list(enumerate(operators))) for tensor in operator.inputs}
    for at, _, (what, _, _) in moves:
        if what not in ("fused forwards", "fused backwards"):
            continue
        neighbour: int | None = at
        while neighbour is not None and neighbour not in kernel_of:
            if what == "fused forwards":
                neighbour = readers.get(operators[neighbour].outputs[0])
            else:
                neighbour = next((producers[t] for t in operators[neighbour].inputs if t in producers), None)
        if neighbour is None:
            raise _unexpected(operators[at].builtin, "none")
        nodes[kernel_of[neighbour]] += operators[at].nodes
    return nodes
