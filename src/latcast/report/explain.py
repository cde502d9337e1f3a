"""Why a network takes as long as it does on a platform, and what a change would bring: each change is predicted, not guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, overload

from latcast.errors import LatcastError, ModelError, counted
from latcast.forecast import placed
from latcast.graph import edits
from latcast.graph.ir import Graph
from latcast.graph.module_paths import module_paths
from latcast.kernels.memory import Memory, memory_of
from latcast.networks import Model, ModelKeywords, ModelOptions, Shapes
from latcast.platforms import On, Platforms, is_one
from latcast.predictors.conditions import STEADY, Conditions
from latcast.predictors.joint import error_correlation, joint_of
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.prediction import KernelLatency, Prediction
from latcast.report.sweep import Resizing
from latcast.tables import Rows, Tabular, milliseconds, plain_fields

if TYPE_CHECKING:
    from typing_extensions import Unpack

LEAST_SAVED_PERCENT = 0.5
"""Least part of the latency that a hint must save."""

MOST_GROUPS = 32
"""Groups of channels that are tried, those first whose kernels take longest."""

DISPROPORTION = 2.0
"""Fewer channels are a hint where they save this many times the part of the time that they are of the channels."""


@dataclass(frozen=True)
class Hint:
    """A change to a network and what it brings: the difference of two predictions.

    Attributes:
        kind: "activation", "batch_norm", "channels", "kernel_size" or "resolution".
        text: What to change.
        latency_ms: Of the changed network.
        difference_ms: How much less than before, below 0.
        difference_percent: The same in percent of the latency before.
        low_ms, high_ms: Interval of the difference, of the prediction's level; both below 0 where the hint is shown.
        operators: Names of the operators that change.
        operators_on_cpu: Change in the number of operators that fall back to the CPU; 0 where there is no delegate.
    """

    kind: str
    text: str
    latency_ms: float
    difference_ms: float
    difference_percent: float
    low_ms: float
    high_ms: float
    operators: tuple[str, ...] = ()
    operators_on_cpu: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that scripts rely on."""
        return {**asdict(self), "operators": list(self.operators)}


@dataclass(frozen=True, repr=False)
class Explanation(Tabular):
    """A prediction with its reasons.

    Attributes:
        prediction: With its kernels, which say what limits each, and in which module it lies.
        hints: Changes that make the network faster by more than what is not known of the difference, the largest first.
        tried: How many changes were predicted.
        graph: The network.
        memory: What it takes there.
        hidden: Changes that are expected to make it faster and are no hints, as the gain is not sure, too small, or no more than
            what they take away; the largest first.
        rough: Why no change was predicted: the prediction is rough. "" otherwise.
    """

    prediction: Prediction
    hints: tuple[Hint, ...]
    tried: int
    graph: Graph
    memory: Memory
    hidden: tuple[Hint, ...] = ()
    rough: str = ""

    def _rows(self) -> Rows:
        return [{**plain_fields(hint), "hidden": hint in self.hidden} for hint in (*self.hints, *self.hidden)]

    def _notes(self) -> Sequence[str]:
        return [line for line in (self.heaviest_line(), self.memory_line(), self.rough) if line]

    def __repr__(self) -> str:
        found = self.prediction
        best = f", best {milliseconds(self.hints[0].difference_ms)} ms" if self.hints else ""
        return (
            f"<Explanation {found.model} on {found.platform}: {milliseconds(found.latency_ms)} ms, {len(self.hints)} hints{best}>"
        )

    def heaviest_line(self) -> str:
        """Return a line on the kernel that takes longest: the best hint that changes it, or that there is none."""
        [kernel] = self.prediction.top(1)
        about = next((hint.text for hint in self.hints if not set(hint.operators).isdisjoint(kernel.nodes)), "")
        share = 100 * kernel.latency_ms / (self.prediction.latency_ms or 1.0)
        known = "" if self.rough else f": {about or 'nothing known makes it faster'}"
        return f"heaviest is {kernel.name} ({share:.1f} %){known}"

    def memory_line(self) -> str:
        """Memory in a few words: of the activations at peak, and of the weights."""
        least = "at least " if self.memory.planner == "alive" else ""
        held = f"{least}{milliseconds(self.memory.peak_activations_bytes / 1e6)} MB"
        return f"activations take {held} at peak, weights {milliseconds(self.memory.weights_bytes / 1e6)} MB"

    def plot(self, path: Any = None) -> Any:
        """Draws what the hints bring, with the intervals of the differences; see :func:`latcast.plot`."""
        from latcast.drawing import bars, drawn

        if not self.hints:
            if self.rough:
                raise LatcastError(f"nothing to draw for {self.prediction.platform}: {self.rough}")
            raise LatcastError(f"nothing to draw: no change of {self.prediction.model} that was tried makes it faster for sure")
        bounds_ms = [(hint.low_ms, hint.high_ms) for hint in self.hints]
        title = f"{self.prediction.model} on {self.prediction.platform}: what changes bring"
        figure = bars(
            [hint.text for hint in self.hints], [hint.difference_ms for hint in self.hints], bounds_ms=bounds_ms, title=title,
            axis="difference of latency, ms",
        )  # fmt: skip
        return drawn(figure, path)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that scripts rely on."""
        found = self.prediction
        return {
            **found.to_json(breakdown=True),
            "by_type": found.by_type(),
            "by_module": found.by_module(),
            "by_limit": found.by_limit(),
            "hints": [hint.to_json() for hint in self.hints],
            "hidden_hints": [hint.to_json() for hint in self.hidden],
            "rough": self.rough,
            "tried": self.tried,
            "memory": self.memory.to_json(),
        }


@overload
def explain(  # type: ignore[overload-overlap]  # a text is a sequence of texts too; the first form is meant
    model: Model,
    on: On,
    *,
    conditions: Conditions = STEADY,
    **options: Unpack[ModelKeywords],
) -> Explanation: ...


@overload
def explain(
    model: Model,
    on: Platforms,
    *,
    conditions: Conditions = STEADY,
    **options: Unpack[ModelKeywords],
) -> list[Explanation]: ...


def explain(
    model: Model,
    on: On | Platforms,
    *,
    conditions: Conditions = STEADY,
    **options: Unpack[ModelKeywords],
) -> Explanation | list[Explanation]:
    """Explain why a network takes as long as it does, and which changes would make it faster.

    Changes that are tried: ReLU in the place of other activation functions, batch normalisations folded into the weights before
    them, 3x3 kernels in the place of larger ones, channels rounded to multiples of 4 to 32, a smaller image. What they cost in
    accuracy is not known here.

    Args:
        model, shapes, strict, trust, example_inputs, values: As for :func:`latcast.predict`.
        on: A platform, or a list of them.
        conditions: Further latencies that are asked for.

    Returns:
        An explanation; a list of them, one a platform, where ``on`` is a list.

    Raises:
        ModelError: The model cannot be read, or cannot take inputs of these shapes.
        UnknownPlatformError: See :func:`latcast.load`.

    Example:
        >>> import latcast
        >>> found = latcast.explain("mobilenet_v3_large", on="pixel4/tflite-2.10/gpu/fp16")
        >>> found.prediction.top(1)[0].limit
        'compute'
        >>> found.hints[0].text
        'resolution 224x224 -> 192x192'
    """
    wanted = ModelOptions(**options)
    resize = Resizing(model, wanted)
    graph = resize(wanted.shapes) if wanted.shapes else resize.graph

    def resized(smaller: Shapes) -> Graph:
        return resize({**(wanted.shapes or {}), **smaller})

    found = [
        explain_graph(each.graph, each.predictor, resized=resized if each.graph is graph else None, conditions=conditions)
        for [each] in placed(on, [graph])
    ]
    return found[0] if is_one(on) else found


def explain_graph(
    graph: Graph,
    predictor: PlatformPredictor,
    *,
    resized: Callable[[Shapes], Graph] | None = None,
    conditions: Conditions = STEADY,
) -> Explanation:
    """Explain the latency of a graph on one platform; see :func:`explain`.

    Args:
        graph: The network.
        predictor: Of the platform.
        resized: Gives the network for inputs of other shapes; that of the graph where None.
        conditions: Further latencies that are asked for.
    """
    [base] = predictor.predict_many([graph], breakdown=True, conditions=conditions)
    memory = memory_of(graph, predictor.rules, predictor.platform.precision)
    if base.grade.rough:
        return Explanation(base, (), 0, graph, memory, rough=f"the prediction is {base.grade.in_words()}")
    changes = [*changes_of(graph, base, resized or Resizing(graph))]
    networks = [graph, *(change.graph for change in changes)]
    predictions = predictor.predict_many(networks)
    correlation = error_correlation(predictor, networks)[0]
    shown: dict[str, Hint] = {}
    hidden: dict[str, Hint] = {}
    for place, change in enumerate(changes, start=1):
        hint = _hint(change, predictions[0], predictions[place], float(correlation[place]))
        if hint.difference_ms < 0:
            enough = max(change.least_saved_ms, LEAST_SAVED_PERCENT / 100 * base.latency_ms)
            found = shown if hint.high_ms < 0 and -hint.difference_ms >= enough else hidden
            known = found.get(change.of)
            if known is None or hint.difference_ms < known.difference_ms:
                found[change.of] = hint
    hints, others = (
        tuple(sorted(each, key=lambda hint: hint.difference_ms))
        for each in (shown.values(), [hint for of, hint in hidden.items() if of not in shown])
    )
    return Explanation(base, hints, len(changes), graph, memory, others)


@dataclass(frozen=True)
class Change:
    """A changed network.

    Attributes:
        kind, text, operators: See :class:`Hint`.
        graph: The changed network.
        of: What it is a change of: of several changes of the same, the best is a hint.
        least_saved_ms: What it must save to be one, beside :data:`LEAST_SAVED_PERCENT`.
    """

    kind: str
    text: str
    graph: Graph
    of: str
    operators: tuple[str, ...] = ()
    least_saved_ms: float = 0.0


def _hint(change: Change, before: Prediction, after: Prediction, correlation: float) -> Hint:
    low_ms, high_ms = joint_of(before, after, correlation).difference_ms()
    difference_ms = after.latency_ms - before.latency_ms
    on_cpu = [0 if found.fallback is None else found.fallback.operators_on_cpu for found in (before, after)]
    return Hint(
        change.kind, change.text, after.latency_ms, difference_ms, 100 * difference_ms / (before.latency_ms or 1.0), low_ms,
        high_ms, change.operators, on_cpu[1] - on_cpu[0],
    )  # fmt: skip


def changes_of(graph: Graph, base: Prediction, resized: Callable[[Shapes], Graph]) -> Iterator[Change]:
    for function, places in edits.activations(graph).items():
        names = tuple(node.name for nodes in places for node in nodes)
        text = f"replace {function.replace('_', '-')} by relu ({counted(len(places), 'place')})"
        yield Change("activation", text, edits.with_relu(graph, function), function, names)
    if norms := edits.foldable_batch_norms(graph):
        text = f"fold {counted(len(norms), 'batch normalisation')} into the weights before"
        yield Change("batch_norm", text, edits.without_batch_norms(graph), "batch_norm", tuple(node.name for node in norms))
    for depthwise in (True, False):
        if nodes := edits.large_convolutions(graph, depthwise=depthwise):
            sizes = sorted({node.integers("kernel_shape")[0] for node in nodes})
            text = f"{'depthwise ' if depthwise else ''}kernels {_listed([f'{size}x{size}' for size in sizes])} -> 3x3"
            changed = edits.with_small_kernels(graph, depthwise=depthwise)
            names = tuple(node.name for node in nodes)
            yield Change("kernel_size", f"{text} ({counted(len(nodes), 'place')})", changed, f"kernels {depthwise}", names)
    yield from _channel_changes(graph, base)
    if smaller := edits.smaller_images(graph):
        try:
            changed = resized(smaller)
        except ModelError:
            return  # such a network has no other size
        name, shape = next(iter(smaller.items()))
        text = f"resolution {_image(graph.shape(name))} -> {_image(shape)}"
        yield Change("resolution", text, changed, "resolution")


def _channel_changes(graph: Graph, base: Prediction) -> Iterator[Change]:
    kernel_of = {name: kernel for kernel in base.kernels for name in kernel.nodes}
    modules = module_paths(graph)
    groups = [group for group in edits.channel_groups(graph) if edits.rounded_channels(group.channels)]
    spent_ms = {group.makers: _spent_ms(graph, group, kernel_of) for group in groups}
    groups = sorted(groups, key=lambda group: -spent_ms[group.makers])[:MOST_GROUPS]
    for group in groups:
        for channels in edits.rounded_channels(group.channels):
            try:
                changed = edits.with_channels(graph, dict.fromkeys(group.makers, channels))
            except ModelError:
                break
            named = modules[group.makers[0]] or group.makers[0]
            others = f" and {len(group.makers) - 1} with it" if len(group.makers) > 1 else ""
            # Fewer channels save time anyway; worth a hint is what they save beyond their share.
            fewer = 1 - channels / group.channels
            least_ms = max(DISPROPORTION * fewer * spent_ms[group.makers], 0.0)
            text = f"channels {group.channels} -> {channels} of {named}{others}"
            yield Change("channels", text, changed, f"channels {group.makers}", group.makers, least_ms)


def _spent_ms(graph: Graph, group: edits.ChannelGroup, kernel_of: dict[str, KernelLatency]) -> float:
    """Return the latency of the kernels that read or write the feature maps of a group."""
    touching = {
        kernel_of[node.name].name: kernel_of[node.name].latency_ms
        for tensor in group.tensors
        for node in (graph.producers[tensor], *graph.consumers.get(tensor, ()))
    }
    return sum(touching.values())


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _image(shape: Sequence[int]) -> str:
    return f"{shape[2]}x{shape[3]}"
