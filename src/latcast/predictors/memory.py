"""Memory of models on platforms, as users name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from latcast.kernels.memory import Memory, memory_of
from latcast.networks import Model, ModelKeywords, ModelOptions, read_model
from latcast.predictors.forecast import On, is_one, load_all

if TYPE_CHECKING:
    from typing_extensions import Unpack


@overload
def memory(  # type: ignore[overload-overlap]  # a text is a sequence of texts too; the first form is meant
    model: Model, on: On, **options: Unpack[ModelKeywords]
) -> Memory: ...


@overload
def memory(model: Model, on: Sequence[On], **options: Unpack[ModelKeywords]) -> list[Memory]: ...


def memory(model: Model, on: On | Sequence[On], **options: Unpack[ModelKeywords]) -> Memory | list[Memory]:
    """Return the memory that a network takes on a platform: peak of its activations, weights and file, in bytes.

    Args:
        model: As :func:`latcast.predict` takes it.
        on: A platform, or a list of them.
        shapes, strict, trust, example_inputs: As for :func:`latcast.predict`.

    Returns:
        One for a platform, a list for a list.

    Raises:
        ModelError: The model cannot be read, or cannot take inputs of these shapes.
        UnknownPlatformError: See :func:`latcast.load`.

    Example:
        >>> import latcast
        >>> found = latcast.memory("mobilenet_v2", on="pixel4/tflite-2.10/1large/fp32")
        >>> found.peak_activations_bytes, found.weights_bytes
        (6627264, 14155936)
    """
    predictors = load_all(on)
    graph = read_model(model, ModelOptions(**options))
    found = [memory_of(graph, each.rules, each.platform.precision) for each in predictors]
    return found[0] if is_one(on) else found
