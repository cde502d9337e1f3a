"""Predicting for models and platforms as users name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, overload

from latcast.graph.ir import Graph
from latcast.networks import Model, ModelKeywords, ModelOptions, Shapes, Values, read_model, read_models
from latcast.platforms import Found, On, Platforms, found_among, is_one, load
from latcast.predictors.conditions import STEADY, Conditions
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.prediction import Prediction
from latcast.predictors.workload import Workload
from latcast.records import Reference

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from latcast.kernels.kernel import Kernel
    from latcast.kernels.memory import Memory


@dataclass(frozen=True)
class NetworkThere:
    """A network on the platform where it runs.

    Attributes:
        found: The platform.
        asked: The network as it was read.
    """

    found: Found
    asked: Graph

    @property
    def predictor(self) -> PlatformPredictor:
        """Return the platform's predictor."""
        return load(self.found)

    @cached_property
    def graph(self) -> Graph:
        """The network that its name means there; see :func:`network_meant`."""
        meant = network_meant(self.asked.called, self.predictor) if self.asked.called else None
        if meant is None or read_model(self.asked.called).structure_key != self.asked.structure_key:
            return self.asked
        return replace(read_model(meant), name=self.asked.name)


def network_meant(name: str, predictor: PlatformPredictor) -> Reference | None:
    """Return the network that a published name means on a device that was added; None where it is the usual one.

    As in ``device add``, that of the collection timed with the runtime (ncnn's benchmark, AI Hub), where it has the name, and not
    where the usual one was measured, as from a kit.
    """
    if not predictor.card.get("nearest"):  # it was not added
        return None
    from latcast.predictors.card import TRAINING_KEYS
    from latcast.predictors.platform_names import collection_of
    from latcast.spaces.catalogue import model
    from latcast.spaces.published_names import network_in

    found = network_in(collection_of(predictor.platform), name)
    return None if found is None or model(name).key in (found.key, *predictor.card[TRAINING_KEYS]) else found


def placed(on: On | Platforms, graphs: Sequence[Graph]) -> list[list[NetworkThere]]:
    """Return for each platform that is named where each network runs: lists, one a platform, of one a network.

    Of a device named without a precision, a network that is quantised to int8 takes the int8 platform, another the usual one;
    all take the usual ones where there are fewer or more in int8.
    """
    quantised = ["int8" if graph.precision == "int8" else "" for graph in graphs]
    found = {precision: found_among(on, precision) for precision in dict.fromkeys(quantised or [""])}
    if len({len(platforms) for platforms in found.values()}) > 1:
        found["int8"] = found[""]
    return [
        [
            NetworkThere(dict(zip(found, each, strict=True))[precision], graph)
            for precision, graph in zip(quantised, graphs, strict=True)
        ]
        for each in zip(*found.values(), strict=True)
    ]


@overload
def predict(  # type: ignore[overload-overlap]  # a text is a sequence of texts too; the first form is meant
    model: Model, on: On, *, breakdown: bool = True, conditions: Conditions = STEADY, **options: Unpack[ModelKeywords]
) -> Prediction: ...


@overload
def predict(
    model: Model, on: Platforms, *, breakdown: bool = True, conditions: Conditions = STEADY, **options: Unpack[ModelKeywords]
) -> list[Prediction]: ...


def predict(
    model: Model,
    on: On | Platforms,
    *,
    shapes: Shapes | None = None,
    strict: bool = False,
    trust: bool = False,
    breakdown: bool = True,
    conditions: Conditions = STEADY,
    example_inputs: object = None,
    signature: str = "",
    values: Values | None = None,
) -> Prediction | list[Prediction]:
    """Predict how long a network takes on a platform.

    Args:
        model: A path, the name of a published network, a graph, a reference, or a ``torch.nn.Module`` with ``example_inputs``.
        on: A platform id, a beginning of it that no other has, a bundle's path, or a loaded predictor; or a list of these.
        shapes: Input name to shape: sizes for dynamic dimensions, or other sizes than the model has.
        strict: Whether an operator outside the operator table is an error.
        trust: Whether a ``.pt2`` file may run the code it may hold.
        breakdown: Whether to list the kernels.
        conditions: Further latencies that are asked for: of the start, after minutes of running, beside other programs.
        example_inputs: The inputs of a ``torch.nn.Module``, see :func:`latcast.from_torch`.
        signature: Which signature of a ``.tflite`` file is meant; its main network by default.
        values: Input name to its value, where it decides branches, rounds of loops or sizes: a number, a list or an array.

    Returns:
        Milliseconds, with an interval (of 90 % where it is calibrated: ``level``), coverage and warnings; ``model`` is what the
        user called it. A list of them, one a platform, where ``on`` is a list.

    Raises:
        ModelError: The model cannot be read, or cannot take inputs of these shapes.
        UnknownPlatformError: See :func:`latcast.load`.

    Example:
        >>> import latcast
        >>> found = latcast.predict("resnet18", on="pixel4/tflite-2.10/gpu/fp16")
        >>> found.low_ms < found.latency_ms < found.high_ms
        True
        >>> latcast.predict("resnet18", on=["pixel4/tflite-2.10/gpu/fp16", "s10/tflite-2.10/gpu/fp16"])[1].platform
        's10/tflite-2.10/gpu/fp16'
    """
    graph = read_model(model, ModelOptions(shapes, strict, trust, example_inputs, signature, values))
    found = [each.prediction for [each] in predict_each([graph], on, breakdown=breakdown, conditions=conditions)]
    return found[0] if is_one(on) else found


def predict_many(
    models: Iterable[Model],
    on: On | Platforms,
    *,
    breakdown: bool = False,
    conditions: Conditions = STEADY,
    **options: Unpack[ModelKeywords],
) -> list[Prediction]:
    """Predict many networks, which is faster than one by one; of several platforms one after the other.

    Args:
        models: Each as :func:`predict` takes it.
        on: As :func:`predict` takes it.
        breakdown: Whether to list the kernels of each.
        conditions: See :func:`predict`.
        shapes, strict, trust, example_inputs, values: See :func:`predict`; the same for all.

    Raises:
        ModelError: A model cannot be read; or the models are not a list.
        UnknownPlatformError: See :func:`latcast.load`.

    Example:
        >>> import latcast
        >>> phone = "pixel4/tflite-2.10/gpu/fp16"
        >>> [found.model for found in latcast.predict_many(["resnet18", "mobilenet_v2"], on=phone)]
        ['resnet18', 'mobilenet_v2']
    """
    graphs = read_models(models, ModelOptions(**options))
    each = predict_each(graphs, on, breakdown=breakdown, conditions=conditions)
    return [found.prediction for networks in each for found in networks]


class PredictedNetwork(NamedTuple):
    """A network where it runs, with its kernels there and its prediction."""

    predictor: PlatformPredictor
    kernels: Sequence[Kernel]
    prediction: Prediction


def predict_each(
    graphs: Sequence[Graph], on: On | Platforms, *, breakdown: bool, conditions: Conditions
) -> Iterator[list[PredictedNetwork]]:
    """Predict all networks on each platform that is named, each where it runs: see :func:`placed`.

    Platforms with the same rules share a workload, and none is in memory longer than needed.
    """
    workloads: list[Workload] = []
    for each in placed(on, graphs):
        predicted: dict[int, PredictedNetwork] = {}
        for found in {id(one.found): one.found for one in each}.values():
            predictor, places = load(found), [place for place, one in enumerate(each) if one.found is found]
            meant = [each[place].graph for place in places]
            shared = (
                known for known in workloads if known.rules == predictor.rules and [*map(id, known.graphs)] == [*map(id, meant)]
            )
            workload = next(shared, None)
            if workload is None:
                workload = Workload(meant, predictor.rules)
                workloads.append(workload)
            predictions = predictor.predict_many(workload, breakdown=breakdown, conditions=conditions)
            for place, kernels, prediction in zip(places, workload.kernels, predictions, strict=True):
                predicted[place] = PredictedNetwork(predictor, kernels, prediction)
        yield [predicted[place] for place in range(len(graphs))]


@overload
def memory(  # type: ignore[overload-overlap]  # a text is a sequence of texts too; the first form is meant
    model: Model, on: On, **options: Unpack[ModelKeywords]
) -> Memory: ...


@overload
def memory(model: Model, on: Platforms, **options: Unpack[ModelKeywords]) -> list[Memory]: ...


def memory(model: Model, on: On | Platforms, **options: Unpack[ModelKeywords]) -> Memory | list[Memory]:
    """Return the memory that a network takes on a platform: peak of its activations, weights and file, in bytes.

    Args:
        model: As :func:`latcast.predict` takes it.
        on: A platform, or a list of them.
        shapes, strict, trust, example_inputs, values: As for :func:`latcast.predict`.

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
    from latcast.kernels.memory import memory_of

    graph = read_model(model, ModelOptions(**options))
    found = [memory_of(each.graph, each.predictor.rules, each.predictor.platform.precision) for [each] in placed(on, [graph])]
    return found[0] if is_one(on) else found
