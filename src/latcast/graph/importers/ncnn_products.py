"""ncnn's matrix products, and the layers of sequences: recurrence, attention, embeddings, spectra.

What each layer's numbered parameters mean, and what they do where they are left out, is said in ncnn's ``src/layer``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from latcast.errors import ModelError
from latcast.graph.importers.ncnn import Attributes, Conversion
from latcast.graph.importers.ncnn_windows import activated, bias, positive
from latcast.graph.ir import Shape


def inner_product(c: Conversion) -> None:
    """Add the Gemm of a vector; several rows that are as long as its weights get a product each."""
    c.computes_in_int8(8)
    outputs, stored, shape = c.integer(0), c.integer(2), c.shape()
    positive(outputs=[outputs])
    inputs, rest = divmod(stored, outputs)
    rows = len(shape) == 2 and shape[1] == inputs and not rest
    if rows and shape[0] > 1:
        x, weight = c.plain(), c.weight(inputs, outputs)
        if c.integer(1):
            activated(c, "Add", [c.op("MatMul", [x, weight]), c.weight(outputs)])
        else:
            activated(c, "MatMul", [x, weight])
        return
    if prod(shape) != inputs or rest:
        raise ModelError(f"its {stored} weights make {outputs} outputs of {inputs} inputs, but it reads {list(shape)}")
    weights = [c.weight(outputs, inputs), *bias(c, c.integer(1), outputs)]
    activated(c, "Gemm", [c.shaped((1, inputs)), *weights], {"transB": 1}, (1, outputs) if rows else None)


def _matrix(c: Conversion, position: int) -> str:
    """Return a blob as (1, rows, columns); of three axes the channels are the rows."""
    shape = c.shape(position)
    rows = 1 if len(shape) == 1 else shape[0]
    if prod(shape) != rows * shape[-1]:
        raise ModelError(f"it reads {list(shape)}, expected a matrix")
    return c.shaped((1, rows, shape[-1]), position)


def gemm(c: Conversion) -> None:
    """Add a MatMul and the broadcast addition; operands are stored, or are read."""
    c.computes_in_int8(18)
    rows, columns, inner = (c.integer(key) for key in (7, 8, 9))
    read = 0
    sides = []
    for stored, transposed, shape in ((4, 2, (rows, inner)), (5, 3, (inner, columns))):
        if c.integer(stored):
            sides.append(c.weight(*shape))
            continue
        name = _matrix(c, read)
        read += 1
        sides.append(c.op("Transpose", [name], {"perm": (0, 2, 1)}) if c.integer(transposed) else name)
    result = c.op("MatMul", sides)
    if c.number(0, 1.0) != 1.0:
        result = c.op("Mul", [result, c.scalar(c.number(0, 1.0))])
    *_, rows, columns = c.assembly.tensor(result).shape
    if c.integer(6) and c.integer(10) != -1:
        shapes: tuple[Shape, ...] = ((1,), (rows, 1), (rows, 1), (rows, columns), (columns,))
        result = c.op("Add", [result, c.weight(*shapes[c.integer(10)])])
    elif not c.integer(6) and len(c) > read:
        added = c.shape(read)
        if len(added) == 1 and added[0] == rows != columns:
            added = (rows, 1)
        term = c.shaped((1, *(1,) * (2 - len(added)), *added), read)
        if c.number(1, 1.0) != 1.0:
            term = c.op("Mul", [term, c.scalar(c.number(1, 1.0))])
        result = c.op("Add", [result, term])
    if c.integer(14):
        result = c.op("Transpose", [result], {"perm": (0, 2, 1)})
        rows, columns = columns, rows
    c.is_output(result, (rows, 1, columns) if c.integer(11) else (rows, columns))


def matmul(c: Conversion) -> None:
    """Add a product of matrices, or of each pair of several; a vector is a row on the left, a column on the right."""
    ranks = [len(c.shape(position)) for position in (0, 1)]
    rank = max(*ranks, 2)
    sides = []
    for position in (0, 1):
        shape = c.shape(position)
        if len(shape) == 1:
            shape = (1, *shape) if position == 0 or c.integer(0) else (*shape, 1)
        name = c.shaped((1, *(1,) * (rank - len(shape)), *shape), position)
        if position and c.integer(0):
            name = c.op("Transpose", [name], {"perm": (*range(rank - 1), rank, rank - 1)})
        sides.append(name)
    product = c.op("MatMul", sides)
    _, *leading, rows, columns = c.assembly.tensor(product).shape
    kept = [rows] * (ranks[0] > 1) + [columns] * (ranks[1] > 1)
    c.is_output(product, [*leading, *kept] or [1])


def recurrent(op_type: str, gates: int) -> Callable[[Conversion], None]:
    """Return what reads a recurrent layer of so many gates: steps in rows, both directions side by side."""

    def convert(c: Conversion) -> None:
        c.computes_in_int8(8)
        outputs, directions, shape = c.integer(0), 2 if c.integer(2) == 2 else 1, c.shape()
        hidden = c.integer(3, outputs) if op_type == "LSTM" else outputs
        positive(outputs=[outputs], hidden=[hidden])
        if len(shape) == 1 and len(c) == 1:
            raise ModelError(f"it reads a vector of {shape[0]} and no states, expected a row for each step")
        steps = shape[0] if len(shape) == 2 else 1
        # Some converters count the weights of one direction alone, which ncnn does not notice.
        stored = gates * hidden * prod(shape[-1:])
        size, rest = divmod(c.integer(1), gates * hidden * (1 if c.integer(1) == stored else directions))
        if len(shape) > 2 or rest or (size != shape[-1] and c.reading.resized):
            raise ModelError(f"it has {c.integer(1)} weights, expected {directions * stored}, as it reads {list(shape)}")
        weights = [c.weight(directions, gates * hidden, size), c.weight(directions, gates * hidden, outputs)]
        names = [c.shaped((1, steps, size)), *weights, c.weight(directions, (4 if gates > 1 else 1) * hidden), ""]
        widths = (outputs, hidden) if op_type == "LSTM" else (outputs,)
        if len(c) > 1:
            names += [c.shaped((1, directions, width), position) for position, width in enumerate(widths, start=1)]
        if hidden != outputs:
            names += [""] * (8 - len(names)) + [c.weight(directions, outputs, hidden)]
        way = ("forward", "reverse", "bidirectional")[c.integer(2)]
        made = c.several(op_type, names, {"hidden_size": hidden, "direction": way, "layout": 1}, len(c.layer.tops))
        # Both directions lie side by side in ncnn, one behind the other in ONNX.
        c.result("Reshape", [made[0], c.assembly.constant([1, steps, directions * outputs], "int64")])
        for position, width in enumerate(widths[: len(made) - 1], start=1):
            c.is_output(made[position], (directions, width), position)

    return convert


def multi_head_attention(c: Conversion) -> None:
    """Add queries, keys and values of one blob or several, scores, softmax, the mixture, and a product after it.

    With a cache, keys and values of earlier tokens come before those of one blob; those of another blob are taken from it alone.
    """
    c.computes_in_int8(18)
    width, heads = c.integer(0), c.integer(1, 1)
    positive(width=[width], heads=[heads])
    if width % heads:
        raise ModelError(f"{width} channels do not part into {heads} heads")
    masked, cached = bool(c.integer(5)), bool(c.integer(7))
    given = len(c) - masked - 2 * cached
    if not 1 <= given <= 3:
        raise ModelError(f"it reads {len(c)} blobs, expected one to three beside its mask and its cache")
    positions = (0, min(1, given - 1), given - 1)
    stored = (c.integer(2) / width, c.integer(3, width), c.integer(4, width))
    parts = []
    for index, position in enumerate(positions):
        if index and cached and given > 1 and all(c.shape(len(c) - 3 + index)):
            parts.append(c.plain(len(c) - 3 + index))
            continue
        tokens, size = c.shape(position)
        if size != stored[index]:
            raise ModelError(f"its weights take rows of {stored[index]:g}, but it reads {list(c.shape(position))}")
        if index == 0:
            queries, query_size = tokens, size
        x = c.op("Add", [c.op("MatMul", [c.plain(position), c.weight(size, width)]), c.weight(width)])
        x = c.reshape(x, (1, tokens, heads, width // heads))
        x = c.op("Transpose", [x], {"perm": (0, 2, 3, 1) if index == 1 and not cached else (0, 2, 1, 3)})
        if index and cached and all(c.shape(len(c) - 3 + index)):
            x = c.op("Concat", [c.plain(len(c) - 3 + index), x], {"axis": 2})
        parts.append(x)
    if cached:
        for position in range(1, len(c.layer.tops)):
            c.is_output(parts[position], None, position)
        parts[1] = c.op("Transpose", [parts[1]], {"perm": (0, 1, 3, 2)})
    scaled = c.op("Mul", [parts[0], c.scalar(c.number(6, (width // heads) ** -0.5))])
    scores = c.op("MatMul", [scaled, parts[1]])
    if masked:
        scores = c.op("Add", [scores, c.plain(given)])
    mixed = c.op("MatMul", [c.op("Softmax", [scores], {"axis": -1}), parts[2]])
    mixed = c.reshape(c.op("Transpose", [mixed], {"perm": (0, 2, 1, 3)}), (1, queries, width))
    c.result("Add", [c.op("MatMul", [mixed, c.weight(width, query_size)]), c.weight(query_size)])


def attention(c: Conversion) -> None:
    """Add scores, softmax and mixture of queries, keys and values that have an axis of heads."""
    c.computes_in_int8(18)
    masked, cached = bool(c.integer(5)), bool(c.integer(7))
    past: int = 3 + masked
    names = [c.shaped((1, *(1,) * (3 - len(c.shape(position))), *c.shape(position)), position) for position in range(3)]
    names.append(c.plain(3) if masked else "")
    if cached and all(c.shape(past)):
        names += [c.plain(past), c.plain(past + 1)]
    attributes: Attributes = {"scale": c.number(6, 0.0)} if c.number(6, 0.0) else {}
    for position, name in enumerate(c.several("Attention", names, attributes, len(c.layer.tops))):
        c.is_output(name, None, position)


def rotary_embedding(c: Conversion) -> None:
    """Turn pairs of elements by angles whose cosines and sines are read."""
    c.result("RotaryEmbedding", [c.plain(position) for position in range(3)], {"interleaved": c.integer(0)})


def embedding(c: Conversion) -> None:
    """Look up a row for each number of a vector."""
    outputs, rows = c.integer(0), c.integer(1)
    positive(outputs=[outputs], rows=[rows])
    x = c.op("Gather", [c.weight(rows, outputs), c.shaped((1, c.shape()[-1]))])
    c.result(*(("Add", [x, c.weight(outputs)]) if c.integer(2) else ("Identity", [x])))


def einsum(c: Conversion) -> None:
    """Add a sum of products; the equation is a list of character codes from i to x, so that a names the batch."""
    equation = "".join(map(chr, c.integers(0)))
    if equation == "ii":
        equation = "ii->"
    operands, arrow, result = equation.partition("->")
    if not arrow or not equation.isascii():
        raise ModelError(f"its equation is {equation[:40]!a}, expected one such as ij,jk->ik")
    equation = f"{','.join('a' + operand for operand in operands.split(','))}->a{result}"
    c.result("Einsum", [c.plain(position) for position in range(len(c))], {"equation": equation})


def spectrogram(c: Conversion) -> None:
    """Multiply each frame of a signal by cosines and sines, as ncnn does in place of a fast transform."""
    points = c.integer(0)
    step, bins = c.integer(2, points // 4), points // 2 + 1 if c.integer(8, 1) else points
    positive(points=[points], step=[step])
    if prod(c.shape()[:-1]) != 1:
        raise ModelError(f"it reads {list(c.shape())}, expected a vector: the samples of a sound")
    x = c.shaped((1, 1, c.shape()[-1]))
    if c.integer(5, 1):
        x = c.op("Pad", [x, c.assembly.constant([0, 0, points // 2] * 2, "int64"), c.scalar(0.0)], {"mode": "reflect"})
    attributes: Attributes = {"kernel_shape": (points,), "strides": (step,)}
    x = c.op("Conv", [x, c.weight(2 * bins, 1, points)], attributes)
    frames = c.assembly.tensor(x).shape[2]
    x = c.reshape(x, (1, 2, bins, frames))
    if not c.integer(1):
        c.result("Transpose", [x], {"perm": (0, 2, 3, 1)})
        return
    name = "ReduceL2" if c.integer(1) == 1 else "ReduceSumSquare"
    c.result(name, [x], {"axes": (1,), "keepdims": 0})


def inverse_spectrogram(c: Conversion) -> None:
    """Add up frames of cosines and sines of (bins, frames, 2)."""
    points, shape = c.integer(0), c.shape()
    step, kept = c.integer(2, points // 4), 1 if c.integer(1) else 2
    positive(points=[points], step=[step])
    if len(shape) != 3 or shape[2] != 2:
        raise ModelError(f"it reads {list(shape)}, expected bins, frames, and 2 for the real and the imaginary part")
    bins, frames, _ = shape
    x = c.reshape(c.op("Transpose", [c.plain()], {"perm": (0, 3, 1, 2)}), (1, 2 * bins, frames))
    pads = (points // 2,) * 2 if c.integer(5, 1) else (0, 0)
    attributes: Attributes = {"kernel_shape": (points,), "strides": (step,), "pads": pads}
    x = c.op("ConvTranspose", [x, c.weight(2 * bins, kept, points)], attributes)
    if kept == 1:
        c.is_output(x, c.assembly.tensor(x).shape[2:])
    else:
        c.result("Transpose", [x], {"perm": (0, 2, 1)})
