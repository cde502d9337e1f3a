"""The graph of a PyTorch module, without its weights ever being written or drawn.

PyTorch's older exporter traces a module in a second or two where the newer one takes ten and more, and gives the same kernels.
Nothing large is computed and no weight initialised: networks of billions of parameters take a few gigabytes at most.
"""

from __future__ import annotations

import inspect
import io
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from typing import Any
from unittest import mock

import onnx
import torch
from onnx import TensorProto, numpy_helper
from torch.onnx._internal.torchscript_exporter import symbolic_helper

from latcast.graph.compact import with_derived_names
from latcast.graph.importers import load_graph
from latcast.graph.importers.onnx_file import KEPT_TENSOR_BYTES
from latcast.graph.ir import Graph

OPSET = 18

_KEPT_ELEMENTS = 4096
"""Tensors up to this size keep their values: some decide shapes."""

_FILLS = ("normal_", "uniform_", "zero_", "fill_", "erfinv_", "mul_", "add_", "clamp_", "copy_", "bernoulli_", "div_")


def trace(make: Callable[[], torch.nn.Module], shapes: Sequence[Sequence[int]], name: str) -> tuple[Graph, int]:
    """Return the graph of a module and its number of parameters.

    Args:
        make: Builds the module; what it draws is not drawn.

    Raises:
        Exception: Whatever the module or the exporter raises; a ModelError where the exported file cannot be read.
    """
    with _quiet(), _uninitialised():
        module = make().eval().requires_grad_(False)
    parameters = {id(each): each.numel() for each in module.parameters()}
    names = [f"input_{index}" if index else "input" for index in range(len(shapes))]
    file = io.BytesIO()
    with _quiet(), torch.no_grad(), _uncomputed(), _sizes_as_numbers(), _known_operators():
        inputs = tuple(torch.zeros(*shape) for shape in shapes)
        try:
            _export(module, inputs, names, file, infer_shapes=False)
        except torch.onnx.errors.OnnxExporterError:
            _export(module, inputs, names, file, infer_shapes=True)
    model = onnx.load_from_string(file.getvalue())
    _make_weights(model, module, names)
    graph = with_derived_names(load_graph(model))
    return replace(graph, name=name), sum(parameters.values())


def _export(
    module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], names: Sequence[str], file: io.BytesIO, *, infer_shapes: bool
) -> None:
    """Export with two passes left out. One merges weights of equal values, which all of these are; the other infers shapes,
    which takes most of the time and is done again when the graph is read, unless an operator cannot be exported without."""

    def not_merged(graph: object, values: object, training: object) -> object:
        return values

    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(torch._C, "_jit_pass_onnx_deduplicate_initializers", not_merged))
        patches.enter_context(mock.patch.object(torch._C, "_jit_pass_lint"))
        # It is asked of the same few functions for every operator.
        patches.enter_context(mock.patch.object(symbolic_helper.inspect, "signature", cache(inspect.signature)))
        if not infer_shapes:
            patches.enter_context(mock.patch.object(torch._C, "_jit_pass_onnx_graph_shape_type_inference"))
        torch.onnx.export(
            module, inputs, file, dynamo=False, opset_version=OPSET, input_names=list(names), export_params=False,
            do_constant_folding=False,
        )  # fmt: skip


def _make_weights(model: onnx.ModelProto, module: torch.nn.Module, inputs: Sequence[str]) -> None:
    """Turn inputs that stand for parameters and buffers into stored tensors, the large ones without values."""
    kept = [value for value in model.graph.input if value.name in inputs]
    weights = [value for value in model.graph.input if value.name not in inputs]
    stored = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for value in weights:
        tensor = stored[value.name]
        if tensor.nbytes <= KEPT_TENSOR_BYTES:
            proto = numpy_helper.from_array(tensor.detach().contiguous().numpy(), value.name)
        else:
            proto = TensorProto(name=value.name, data_type=value.type.tensor_type.elem_type, dims=list(tensor.shape))
            proto.data_location = TensorProto.EXTERNAL
            proto.external_data.append(onnx.StringStringEntryProto(key="location", value="weights"))
        model.graph.initializer.append(proto)


@contextmanager
def _uninitialised() -> Iterator[None]:
    """Leave large tensors uninitialised."""

    def unless_large(fill: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def filled(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            if tensor.numel() > _KEPT_ELEMENTS and tensor.is_floating_point():
                return tensor
            return fill(tensor, *args, **kwargs)

        return filled

    with ExitStack() as patches:
        for name in _FILLS:
            patches.enter_context(mock.patch.object(torch.Tensor, name, unless_large(getattr(torch.Tensor, name))))
        # It would draw again until every value lies between its bounds, which undrawn values never do.
        patches.enter_context(mock.patch.object(torch.nn.init, "_no_grad_trunc_normal_", lambda tensor, *args, **kwargs: tensor))
        yield


@contextmanager
def _uncomputed() -> Iterator[None]:
    """Make slow operators return only the shapes of their results."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, shaped in _SHAPED.items():
            library.impl(name, shaped, "CPU")
    try:
        yield
    finally:
        library._destroy()


def _numbers(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the sizes of a tensor unseen by the tracer."""
    found: tuple[int, ...] = tensor.numpy().shape
    return found


def _convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *flags: bool,
) -> torch.Tensor:
    (batch, _, *sides), (first, second, *window) = _numbers(x), _numbers(weight)
    rank = len(sides)
    stride, padding, dilation = (list(each) * (rank if len(each) == 1 else 1) for each in (stride, padding, dilation))
    if transposed:
        more = list(output_padding) * (rank if len(output_padding) == 1 else 1)
        out = [(sides[k] - 1) * stride[k] - 2 * padding[k] + dilation[k] * (window[k] - 1) + more[k] + 1 for k in range(rank)]
        return torch.empty(batch, second * groups, *out)
    out = [(sides[k] + 2 * padding[k] - dilation[k] * (window[k] - 1) - 1) // stride[k] + 1 for k in range(rank)]
    return torch.empty(batch, first, *out)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    left, right = _numbers(a), _numbers(b)
    return torch.empty(*left[:-1], right[-1])


def _sum_with_product(bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, **scales: Any) -> torch.Tensor:
    return _product(a, b)


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    *before, _ = _numbers(query)
    return torch.empty(*before, _numbers(value)[-1]), torch.empty(before)


def _alike(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return torch.empty(_numbers(x))


def _itself(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return x


def _normalised(x: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.empty(_numbers(x)), torch.empty(0), torch.empty(0)


_SHAPED: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("gelu", "silu", "relu", "hardswish", "_softmax"), _alike),
    **dict.fromkeys(("silu_", "relu_", "hardswish_"), _itself),
    **dict.fromkeys(("native_batch_norm", "native_layer_norm"), _normalised), "_convolution": _convolution,
    "addmm": _sum_with_product, "mm": _product, "bmm": _product, "baddbmm": _sum_with_product,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
}  # fmt: skip


@contextmanager
def _sizes_as_numbers() -> Iterator[None]:
    """Make sizes plain numbers, as the tracer would record uses of them as operators."""

    def size(tensor: torch.Tensor, dim: int | None = None) -> Any:
        found = torch.Size(_numbers(tensor))
        return found if dim is None else found[dim]

    with (
        mock.patch.object(torch.Tensor, "shape", property(size), create=True),
        mock.patch.object(torch.Tensor, "size", size),
    ):
        yield


@contextmanager
def _known_operators() -> Iterator[None]:
    """Replace functions that the exporter does not know by those that it knows."""
    functional = torch.nn.functional
    attention, resize = functional.scaled_dot_product_attention, functional.interpolate

    def rms_norm(
        x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None = None, eps: float | None = None
    ) -> torch.Tensor:
        axes = tuple(range(-len(shape), 0))
        scaled = x * torch.rsqrt(x.pow(2).mean(axes, keepdim=True) + (eps or torch.finfo(x.dtype).eps))
        return scaled if weight is None else scaled * weight

    def scaled_dot_product_attention(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: Any = False,
        **kwargs: Any,
    ) -> torch.Tensor:  # fmt: skip
        return attention(q, k, v, attn_mask, dropout_p, bool(is_causal), **kwargs)

    def interpolate(*args: Any, antialias: bool = False, **kwargs: Any) -> torch.Tensor:
        # It resizes position embeddings, whose values are not needed.
        return resize(*args, **kwargs)

    with (
        mock.patch.object(functional, "interpolate", interpolate),
        mock.patch.object(functional, "rms_norm", rms_norm),
        mock.patch.object(torch, "rms_norm", rms_norm),
        mock.patch.object(functional, "scaled_dot_product_attention", scaled_dot_product_attention),
    ):
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Python and PyTorch, which prints whole graphs where an exporter fails."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    sys.stdout.flush()
    kept = os.dup(1), os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.stdout.flush()
        for number, descriptor in enumerate(kept, start=1):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(nowhere)
        logging.disable(before)
