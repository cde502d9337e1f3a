"""Chooses the segments of published networks that widen most what a profile has seen, for the table that comes with latcast.

A kernel is covered where the like was trained on (:class:`latcast.predictors.kernel_predictor.Familiarity`). Beginning with what
random networks cover, the segment is taken next that covers most for each second that measuring it may take, under the rules of
several runtimes at once. What predictors are judged on has no say: neither held-out designs nor families that the mix leaves out.
A segment's kernels are those that its network has there; alone, a few at its borders fuse otherwise.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random

import numpy as np

from latcast.graph.operators.table import node_parameters
from latcast.kernels.kernel import Kernel
from latcast.kernels.rules import FusionRules, rules_for
from latcast.kernels.search import find_kernels
from latcast.predictors.kernel_predictor import ANALYTICAL, KernelPredictor, Seen
from latcast.predictors.samples import input_readers
from latcast.spaces.catalogue import SPACES, build
from latcast.spaces.named_graphs import all_networks
from latcast.spaces.published_segments import (
    COVERING,
    EDITIONS,
    FEWEST_OPERATORS,
    HELD_OUT_DESIGNS,
    NAME,
    REGISTRIES,
    SEGMENT_MACS,
    covering_designs,
    cuts_of,
    design_of,
    designs_of_families,
    graph_of,
    macs_before,
)
from latcast.spaces.training_mix import TRAINING_FAMILIES, training_mix

RUNTIMES = ("onnxruntime", "openvino", "litert", "ncnn", "mnn")

REGISTRY = "timm/"
"""Whose networks are to be covered, as far as they have a say."""

LENGTH = 60
"""Segments of an edition."""

RANDOM_NETWORKS, RANDOM_SEGMENTS = 280, 30
"""An edition begins with a mix of so many networks, but for its segments, and with so many random ones: fewer than five minutes
measure, so that little rests on what one seed drew."""

MOST_MACS, MOST_WEIGHTS = 4e9, 20e6
"""Of a segment: a block of a giant, not the giant."""

MOST_CUTS = 3
"""Ends that are tried for each beginning."""

SECONDS, SECONDS_PER_MAC, SECONDS_PER_WEIGHT = 0.35, 20 / 25e9, 30e-9
"""What measuring a segment takes: building and loading it, twenty runs, writing and loading its weights."""

NEARLY_NOTHING = 0.02
"""Share of a network's kernels that may stay uncovered."""

BEST_TRIED, RANDOM_TRIED = 60, 60
"""Segments tried for each place: those that were best when last tried, and others."""

Rows = Mapping[str, np.ndarray]
"""Distinct configurations by kernel type."""


@dataclass(frozen=True)
class Range:
    """Of the configurations of one kernel type in a segment, or in all that was measured.

    Attributes:
        low, high: (fields,) range of each field.
        seen: What else is known of them.
    """

    low: np.ndarray
    high: np.ndarray
    seen: Seen

    @classmethod
    def of(cls, name: str, rows: np.ndarray) -> Range:
        """Of configurations, (kernels, fields)."""
        return cls(rows.min(axis=0), rows.max(axis=0), Seen.of(name, rows))

    def holds(self, other: Range) -> bool:
        """Whether another range lies inside."""
        return bool(
            (other.low >= self.low).all()
            and (other.high <= self.high).all()
            and other.seen.most_flops <= self.seen.most_flops
            and other.seen.most_elements <= self.seen.most_elements
            and all(set(codes) <= set(self.seen.kinds[name]) for name, codes in other.seen.kinds.items())
        )

    def with_other(self, other: Range) -> Range:
        """The range of both."""
        seen = Seen.union([self.seen, other.seen])
        assert seen is not None
        return Range(np.minimum(self.low, other.low), np.maximum(self.high, other.high), seen)

    def covers(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Which kernels are like those inside, (kernels,)."""
        predictor = KernelPredictor(name, ANALYTICAL, None, self.low, self.high, 0, seen=self.seen)
        return predictor.familiarity(rows).covered


Ranges = dict[str, dict[str, Range]]
"""By runtime and kernel type."""


@dataclass(frozen=True)
class Segment:
    """A segment that may be chosen.

    Attributes:
        place: Network, the tensor that enters and the one that leaves.
        seconds: What measuring it may take.
        ranges: Of its kernels, those left out that read its input, as in training.
    """

    place: tuple[str, str, str]
    seconds: float
    ranges: Ranges = field(compare=False)


@dataclass(frozen=True)
class Wanted:
    """Kernels of networks that are to be covered, of one runtime.

    Attributes:
        rows: Their distinct configurations by type.
        shares: Type to, for each distinct kernel, the networks that have it and its share of their kernels.
    """

    rows: Rows
    shares: Mapping[str, Sequence[tuple[np.ndarray, np.ndarray]]]


class Coverage:
    """What is covered so far of all that is wanted."""

    def __init__(self, wanted: Mapping[str, Wanted], networks: int, ranges: Ranges) -> None:
        self.wanted = wanted
        self.ranges: Ranges = {runtime: dict(ranges.get(runtime, {})) for runtime in wanted}
        self.left = {runtime: np.ones(networks) for runtime in wanted}
        self.open: dict[str, dict[str, np.ndarray]] = {
            runtime: {name: np.arange(len(rows)) for name, rows in each.rows.items()} for runtime, each in wanted.items()
        }
        self._take([(runtime, name, found) for runtime, each in self.ranges.items() for name, found in each.items()])

    def gain(self, segment: Segment) -> float:
        """What a segment would cover: of each network and runtime the more, the less else of it is uncovered."""
        by_runtime: dict[str, list[tuple[np.ndarray, np.ndarray]]] = defaultdict(list)
        for runtime, name, found in self._wider(segment):
            shares = self.wanted[runtime].shares[name]
            by_runtime[runtime] += [shares[place] for place in self._newly(runtime, name, found).tolist()]
        gained = 0.0
        for runtime, shares in by_runtime.items():
            if shares:
                gained += float((np.log(self.left[runtime] + NEARLY_NOTHING) - np.log(self._after(runtime, shares))).sum())
        return gained

    def take(self, segment: Segment) -> None:
        """Has a segment measured."""
        self._take(list(self._wider(segment)))

    def _take(self, wider: Iterable[tuple[str, str, Range]]) -> None:
        for runtime, name, found in wider:
            self.ranges[runtime][name] = found
            if name in self.wanted[runtime].rows:
                new = self._newly(runtime, name, found)
                shares = [self.wanted[runtime].shares[name][place] for place in new.tolist()]
                if shares:
                    self.left[runtime] = self._after(runtime, shares) - NEARLY_NOTHING
                self.open[runtime][name] = np.setdiff1d(self.open[runtime][name], new)

    def _wider(self, segment: Segment) -> Iterator[tuple[str, str, Range]]:
        """Types of which a segment widens the range, with the wider range."""
        for runtime, types in segment.ranges.items():
            known = self.ranges[runtime]
            for name, own in types.items():
                if name not in self.wanted[runtime].rows or not len(self.open[runtime][name]):
                    continue
                if name not in known:
                    yield runtime, name, own
                elif not known[name].holds(own):
                    yield runtime, name, known[name].with_other(own)

    def _newly(self, runtime: str, name: str, found: Range) -> np.ndarray:
        places = self.open[runtime][name]
        return places[found.covers(name, self.wanted[runtime].rows[name][places])]

    def _after(self, runtime: str, shares: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        networks, share = (np.concatenate(each) for each in zip(*shares, strict=True))
        less = np.bincount(networks, weights=share, minlength=len(self.left[runtime]))
        return np.maximum(self.left[runtime] - less, 0.0) + NEARLY_NOTHING


def choose(segments: Sequence[Segment], coverage: Coverage, count: int, seed: int) -> list[Segment]:
    """Segments in the order in which they cover most for each second, given those before."""
    rng = Random(seed)
    score = {place: coverage.gain(each) / each.seconds for place, each in enumerate(segments)}
    chosen: list[Segment] = []
    while len(chosen) < count and score:
        best = sorted(score, key=lambda place: -score[place])[:BEST_TRIED]
        others = rng.sample(sorted(score), min(RANDOM_TRIED, len(score)))
        for place in {*best, *others}:
            score[place] = coverage.gain(segments[place]) / segments[place].seconds
        taken = max(score, key=lambda place: score[place])
        if score.pop(taken) <= 0:
            break
        coverage.take(segments[taken])
        chosen.append(segments[taken])
    return chosen


def may_steer(network: str) -> bool:
    """Whether a network is to be covered: of a design that segments may be of, or of a family whose variants are trained on."""
    return network.startswith(REGISTRY) and design_of(network) in _steering_designs()


@cache
def _steering_designs() -> frozenset[str]:
    return covering_designs() | designs_of_families(TRAINING_FAMILIES) - frozenset(HELD_OUT_DESIGNS)


def may_be_drawn(network: str) -> bool:
    """Whether segments of a network may be chosen: of any size, but of no design that predictors are judged on."""
    return network.partition("/")[0] in REGISTRIES and design_of(network) in covering_designs()


def segments_of(network: str, found: Mapping[str, Sequence[Kernel]], start: Coverage, known: set[bytes]) -> Iterator[Segment]:
    """Segments of a network with a kernel that is not covered, those left out that have the kernels of one that is known.

    Args:
        network: Its name.
        found: Its kernels by runtime.
        start: What is covered.
        known: Of the segments that were given before; added to.
    """
    graph, cuts, macs = graph_of(network), cuts_of(network), macs_before(network)
    weights = np.cumsum([0, *(node_parameters(graph, node) for node in graph.nodes)])
    place_of = {node.name: place for place, node in enumerate(graph.nodes)}
    spans = [
        _Spans.of([each for each in kernels if not each.free], place_of, start.ranges[runtime])
        for runtime, kernels in found.items()
    ]
    for begin, (place, first) in enumerate(cuts):
        readers = np.array([place_of[node.name] for node in graph.consumers.get(first, ())])
        ends = [cut for cut in cuts[begin + 1 :] if cut[0] - place >= FEWEST_OPERATORS][:MOST_CUTS]
        for end, last in ends:
            own_macs, own_weights = macs[end] - macs[place], int(weights[end] - weights[place])
            if own_macs > MOST_MACS or own_weights > MOST_WEIGHTS:
                break
            if own_macs < SEGMENT_MACS[0]:
                continue
            inside = [np.flatnonzero((each.low >= place) & (each.high < end)) for each in spans]
            if not any(each.strange[rows].any() for each, rows in zip(spans, inside, strict=True)):
                continue
            key = b"|".join(np.unique(each.key[rows]).tobytes() for each, rows in zip(spans, inside, strict=True))
            if key in known:
                continue
            known.add(key)
            ranges = {}
            for runtime, each, rows in zip(found, spans, inside, strict=True):
                own = [each.kernels[row] for row in rows.tolist() if not np.isin(readers, each.places[row]).any()]
                ranges[runtime] = {name: Range.of(name, of_type) for name, of_type in rows_of(own).items()}
            seconds = SECONDS + SECONDS_PER_MAC * own_macs + SECONDS_PER_WEIGHT * own_weights
            yield Segment((network, first, last), seconds, ranges)


@dataclass(frozen=True)
class _Spans:
    """Where kernels of a network lie among its operators.

    Attributes:
        kernels: These.
        places: Of each the places of its operators.
        low, high: (kernels,) the first and the last of them.
        key: (kernels,) equal for equal kernels.
        strange: (kernels,) whether it is not covered.
    """

    kernels: Sequence[Kernel]
    places: Sequence[Sequence[int]]
    low: np.ndarray
    high: np.ndarray
    key: np.ndarray
    strange: np.ndarray

    @classmethod
    def of(cls, kernels: Sequence[Kernel], place_of: Mapping[str, int], known: Mapping[str, Range]) -> _Spans:
        # A reorder has no operators; it is named after the one for whose sake it runs.
        places = [[place_of[name] for name in each.nodes or (each.name,)] for each in kernels]
        strange = np.zeros(len(kernels), dtype=bool)
        by_type: dict[str, list[int]] = defaultdict(list)
        for row, each in enumerate(kernels):
            by_type[each.kernel_type].append(row)
        for name, rows in by_type.items():
            if name in known:
                strange[rows] = ~known[name].covers(name, np.array([kernels[row].configuration for row in rows]))
            else:
                strange[rows] = name != "other"
        low, high = (np.array([choice(each) for each in places], dtype=np.int64) for choice in (min, max))
        return cls(kernels, places, low, high, np.array([hash(each.key) for each in kernels], dtype=np.int64), strange)


def rows_of(kernels: Iterable[Kernel]) -> dict[str, np.ndarray]:
    """Distinct configurations of kernels that a predictor is trained on, by type."""
    found: dict[str, dict[tuple[int, ...], None]] = defaultdict(dict)
    for each in kernels:
        if not each.free and each.kernel_type != "other":
            found[each.kernel_type][each.configuration] = None
    return {name: np.array(list(rows), dtype=np.int64) for name, rows in found.items()}


def wanted_of(networks: Sequence[Sequence[Kernel]]) -> Wanted:
    """What is to be covered of networks, given the kernels of each under the rules of one runtime."""
    shares: dict[str, dict[tuple[int, ...], dict[int, float]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(float)))
    for network, kernels in enumerate(networks):
        busy = [each for each in kernels if not each.free]
        for each in busy:
            if each.kernel_type != "other":
                shares[each.kernel_type][each.configuration][network] += 1 / len(busy)
    return Wanted(
        {name: np.array(list(rows), dtype=np.int64) for name, rows in shares.items()},
        {
            name: [(np.array(list(each)), np.array(list(each.values()))) for each in rows.values()]
            for name, rows in shares.items()
        },
    )


def ranges_of_mix(rules: FusionRules, seed: int) -> dict[str, Range]:
    """Of the kernels of the random networks that an edition begins with."""
    # The others of the mix are the same whatever the table holds.
    mix = [each for each in training_mix(RANDOM_NETWORKS, seed, runtime=rules.runtime) if each.space != NAME]
    kernels: list[Kernel] = []
    for reference in (*mix, *SPACES.get(NAME).sample(RANDOM_SEGMENTS, seed)):
        graph = build(reference)
        begins = input_readers(graph) if reference.space == NAME else frozenset[str]()
        kernels += [each for each in find_kernels(graph, rules) if begins.isdisjoint(each.nodes)]
    return {name: Range.of(name, rows) for name, rows in rows_of(kernels).items()}


def kernels_of_networks(rules: Mapping[str, FusionRules]) -> dict[str, dict[str, tuple[Kernel, ...]]]:
    """Kernels of published networks that have a say or may be drawn from, by network, small ones first, and runtime."""
    networks = all_networks()
    names = sorted((name for name in networks if may_steer(name) or may_be_drawn(name)), key=lambda name: networks[name].macs)
    return {name: {runtime: find_kernels(graph_of(name), each) for runtime, each in rules.items()} for name in names}


def write(watch: Callable[[str], None] = lambda _: None) -> None:
    """Chooses all editions anew and replaces the table; it takes a quarter of an hour."""
    rules = {runtime: rules_for(runtime, "fp32") for runtime in RUNTIMES}
    found = kernels_of_networks(rules)
    steering = [name for name in found if may_steer(name)]
    wanted = {runtime: wanted_of([found[name][runtime] for name in steering]) for runtime in rules}
    watch(f"{len(steering)} networks to be covered")
    starts = [
        Coverage(wanted, len(steering), {runtime: ranges_of_mix(each, edition) for runtime, each in rules.items()})
        for edition in range(EDITIONS)
    ]
    watch("random networks")
    known: set[bytes] = set()
    segments = [each for name in found if may_be_drawn(name) for each in segments_of(name, found[name], starts[0], known)]
    watch(f"{len(segments)} different segments")
    editions = []
    for edition, coverage in enumerate(starts):
        chosen = choose(segments, coverage, LENGTH, edition)
        editions.append([list(each.place) for each in chosen])
        segments = [each for each in segments if each not in chosen]
        left = ", ".join(f"{runtime} {100 * (each <= NEARLY_NOTHING).mean():.0f} %" for runtime, each in coverage.left.items())
        watch(f"edition {edition}: {len(chosen)} segments, {sum(each.seconds for each in chosen):.0f} s, covered {left}")
    COVERING.write_text(table_text(editions))


def table_text(editions: Sequence[Sequence[Sequence[str]]]) -> str:
    """The table as JSON, a line for each segment."""
    listed = ",\n".join("[\n" + ",\n".join(json.dumps(each) for each in edition) + "\n]" for edition in editions)
    return f'{{"version": 1, "editions": [{listed}]}}\n'
