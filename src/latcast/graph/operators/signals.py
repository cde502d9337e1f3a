"""Operators of audio and of text, those that make tensors (windows, grids, random numbers), and determinants."""

from __future__ import annotations

from functools import partial
from math import ceil, log2, prod

from latcast.graph.ir import Tensor
from latcast.graph.operators.elementwise import dtype_of_code, infer_broadcast
from latcast.graph.operators.selection import axis_of, flops_first_input, infer_as_first
from latcast.graph.operators.table import Kind, Operator, OperatorView, always, define


def dft_sizes(view: OperatorView) -> tuple[int, int]:
    """Return the axis of a discrete Fourier transform, and its points."""
    x = view.shape()
    if len(x) < 2 or x[-1] not in (1, 2):
        raise view.fail("expected real or complex numbers, with a last axis of 1 or 2")
    # Without a change of length every axis gives the same shape, so that one chosen at run time may be taken for the usual one.
    keeps_shape = not view.node.integer("onesided") and not view.has_input(1)
    open_axis = keeps_shape and view.has_input(2) and view.value(2) is None
    axis = axis_of(view, -2 if open_axis else (view.ints_from("axis", 2) or (-2,))[0], len(x))
    if axis == len(x) - 1:
        raise view.fail("the last axis holds real and imaginary parts and cannot be transformed")
    length = view.ints_from("dft_length", 1)
    halved = view.node.integer("inverse") and view.node.integer("onesided")
    return axis, length[0] if length else 2 * (x[axis] - 1) if halved else x[axis]


def infer_dft(view: OperatorView) -> list[Tensor]:
    """Return the spectrum; one-sided, a transform gives one half, and its inverse takes one half and gives real numbers."""
    x = view.shape()
    axis, points = dft_sizes(view)
    onesided, inverse = view.node.integer("onesided"), view.node.integer("inverse")
    count = points // 2 + 1 if onesided and not inverse else points
    last = 1 if onesided and inverse else 2
    return [Tensor((*x[:axis], count, *x[axis + 1 : -1], last), view.dtype())]


def flops_dft(view: OperatorView) -> int:
    """Count 5 N log2 N for each transform, the convention of FFTW, and half of it where one side is real."""
    x = view.shape()
    axis, points = dft_sizes(view)
    transforms = prod(x[:-1]) // x[axis]
    real = x[-1] == 1 or view.outputs[0].shape[-1] == 1
    return ceil((2.5 if real else 5) * points * log2(max(points, 2)) * transforms)


def stft_sizes(view: OperatorView) -> tuple[int, int]:
    """Return frames and points of a Fourier transform over windows.

    Raises:
        ModelError: The window's length or step is computed at run time, or longer than the signal.
    """
    step, given = view.ints_from("frame_step", 1), view.ints_from("frame_length", 3)
    points = given[0] if given else view.shape(2)[0] if view.has_input(2) else 0
    if not step or step[0] < 1 or not 0 < points <= view.shape()[1]:
        raise view.fail("expected a step of 1 or more, and a frame that is not longer than the signal")
    return 1 + (view.shape()[1] - points) // step[0], points


def infer_stft(view: OperatorView) -> list[Tensor]:
    """Return (batch, frames, bins, 2): real and imaginary parts."""
    frames, points = stft_sizes(view)
    bins = points // 2 + 1 if view.node.integer("onesided", 1) else points
    return [Tensor((view.shape()[0], frames, bins, 2), view.dtype())]


def flops_stft(view: OperatorView) -> int:
    """Count 5 N log2 N for each frame, half of it of real numbers, and a product with the window for each point."""
    frames, points = stft_sizes(view)
    real = len(view.shape()) < 3 or view.shape()[2] == 1
    each = (2.5 if real else 5) * points * log2(max(points, 2)) + points
    return ceil(view.shape()[0] * frames * each)


def _coded(view: OperatorView, attribute: str, default: str) -> str:
    """Return the element type that an attribute names by its number in ONNX."""
    code = view.node.integer(attribute)
    return dtype_of_code(view, code) if code else default


def infer_window(view: OperatorView) -> list[Tensor]:
    return [Tensor((view.needed_ints("size", 0)[0],), _coded(view, "output_datatype", "float32"))]


def infer_mel_weights(view: OperatorView) -> list[Tensor]:
    """Return (bins of the spectrum, bands)."""
    bands, points = view.needed_ints("num_mel_bins", 0)[0], view.needed_ints("dft_length", 1)[0]
    return [Tensor((points // 2 + 1, bands), _coded(view, "output_datatype", "float32"))]


def infer_affine_grid(view: OperatorView) -> list[Tensor]:
    """Return coordinates of every pixel of (images, channels, ...)."""
    size = view.needed_ints("size", 1)
    return [Tensor((size[0], *size[2:], len(size) - 2), view.dtype())]


def infer_center_crop_pad(view: OperatorView) -> list[Tensor]:
    shape, sizes = list(view.shape()), view.needed_ints("shape", 1)
    for axis, size in zip(view.node.integers("axes", tuple(range(len(shape)))), sizes, strict=True):
        shape[axis_of(view, axis, len(shape))] = size
    return [Tensor(tuple(shape), view.dtype())]


def infer_col2im(view: OperatorView) -> list[Tensor]:
    """Return images of the blocks that lie in columns."""
    x, image, block = view.shape(), view.needed_ints("image_shape", 1), view.needed_ints("block_shape", 2)
    return [Tensor((x[0], x[1] // prod(block), *image), view.dtype())]


def infer_determinant(view: OperatorView) -> list[Tensor]:
    return [Tensor(view.shape()[:-2], view.dtype())]


def flops_determinant(view: OperatorView) -> int:
    """Count 2/3 n^3 for each matrix: a decomposition into triangular ones."""
    x = view.shape()
    return prod(x[:-2]) * ceil(2 * x[-1] ** 3 / 3)


def infer_typed(view: OperatorView) -> list[Tensor]:
    """Return the shape of the first input, of the element type that an attribute names."""
    return [Tensor(view.shape(), _coded(view, "dtype", view.dtype()))]


def infer_filled(view: OperatorView) -> list[Tensor]:
    return [Tensor(view.node.integers("shape"), _coded(view, "dtype", "float32"))]


def infer_multinomial(view: OperatorView) -> list[Tensor]:
    return [Tensor((view.shape()[0], view.node.integer("sample_size", 1)), _coded(view, "dtype", "int32"))]


def infer_matches(view: OperatorView) -> list[Tensor]:
    return [Tensor(view.shape(), "bool")]


def infer_string_split(view: OperatorView) -> list[Tensor]:
    """Return the parts of each text and how many there are.

    Raises:
        ModelError: Nothing says how many there can be.
    """
    x, most = view.shape(), view.node.integer("maxsplit", -1)
    if most < 0 < prod(x):
        raise view.fail("it has as many parts as a text has words; split into at most so many by 'maxsplit'")
    return [Tensor((*x, max(most + 1, 0)), "string"), Tensor(x, "int64")]


def infer_ngrams(view: OperatorView) -> list[Tensor]:
    """Return a number for every n-gram that is counted."""
    x = view.shape()
    return [Tensor((*x[:-1], max(view.node.integers("ngram_indexes", (0,))) + 1), "float32")]


def flops_random(view: OperatorView) -> int:
    """Count ten for each number: a step of the generator and the function that shapes it."""
    return 10 * view.outputs[0].elements


_window = partial(Operator, infer=infer_window, each=8, constants=frozenset({0}))
_random = partial(Operator, flops=flops_random)

define(
    Operator("DFT", infer_dft, flops_dft, constants=frozenset({1, 2})),
    Operator("STFT", infer_stft, flops_stft, constants=frozenset({1, 3})),
    _window("BlackmanWindow"),
    _window("HammingWindow"),
    _window("HannWindow"),
    Operator("MelWeightMatrix", infer_mel_weights, constants=frozenset(range(5))),
    Operator("AffineGrid", infer_affine_grid, each=4, constants=frozenset({1}), sized="everywhere"),
    Operator("CenterCropPad", infer_center_crop_pad, kind=Kind.MOVEMENT, constants=frozenset({1}), sized="everywhere"),
    Operator("Col2Im", infer_col2im, flops_first_input, constants=frozenset({1, 2})),
    Operator("Det", infer_determinant, flops_determinant),
    Operator("EyeLike", infer_typed),
    _random("Bernoulli", infer_typed),
    _random("RandomNormalLike", infer_typed),
    _random("RandomUniformLike", infer_typed),
    _random("RandomNormal", infer_filled),
    _random("RandomUniform", infer_filled),
    _random("Multinomial", infer_multinomial),
    Operator("RegexFullMatch", infer_matches),
    Operator("StringConcat", infer_broadcast, variadic=True),
    Operator("StringNormalizer", infer_as_first, at_most=always),
    Operator("StringSplit", infer_string_split, at_most=always),
    Operator("TfIdfVectorizer", infer_ngrams, flops_first_input),
)
