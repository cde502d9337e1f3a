"""Kernels of encoded architectures, vectorised: no graph is built.

A network is a chain of segments, and which kernels begin in a segment depends on that segment and, through what is fused
across its ends, on how the segments before and behind are built (their structure, not their sizes). A space has far fewer of
these than networks: thousands against billions. Each is found once, by building a network that has it and looking for its
kernels; from then on an encoding is a row of integers, looked up.

Which columns of an encoding decide a place's segment is found by changing one column at a time in many random encodings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latcast.graph.ir import Graph
from latcast.graph.operators import graph_macs
from latcast.kernels.kernel import Configuration, KernelTable, operator_class
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels
from latcast.spaces.nas.supernet import AT_ONCE, Row, Supernet, radices

PROBES = 512
"""Random encodings in which single columns are changed to see what they decide."""

STRUCTURE_BITS = 20

ABSENT = 0
"""Number of a segment that is not there, or that adds no operator."""

Structure = tuple[object, ...]


@dataclass(frozen=True)
class SegmentSizes:
    """Multiply-accumulates and parameters of segments or networks.

    Attributes:
        macs: Multiply-accumulates.
        parameters: Learned values, with the running statistics of batch normalisations.
    """

    macs: np.ndarray
    parameters: np.ndarray


class SegmentKernels:
    """The kernels of a space's networks under fusion rules, kept once found.

    Attributes:
        supernet: The space.
        rules: Fusion rules.
    """

    def __init__(self, supernet: Supernet, rules: FusionRules) -> None:
        self.supernet = supernet
        self.rules = rules
        self._columns = [np.flatnonzero(decides) for decides in deciding_columns(supernet)]
        self._radices = [radices(supernet.choices[columns]) for columns in self._columns]
        self._by_choice = [
            np.full(max(1, int(np.prod(supernet.choices[columns]))), -1, dtype=np.int32) for columns in self._columns
        ]
        """For each place: choices of its columns, as one number, to the segment's number; -1 where not yet seen."""
        self._rows: list[Row] = [()]
        self._numbers: dict[Row, int] = {}
        self._structures: dict[Structure, int] = {}
        self._structure_of = np.zeros(1, dtype=np.int64)
        self._macs, self._parameters = np.zeros(1), np.zeros(1)
        self._in_context: dict[int, int] = {0: ABSENT}
        """Segment, structure before and structure behind, as one number (:meth:`_codes`), to the segment in context."""
        self._kernels: list[list[int]] = [[]]
        """For each segment in context its distinct kernels, in execution order; the first has none."""
        self._distinct: dict[str, dict[Configuration, int]] = {}
        self._keys: list[tuple[str, int]] = []

    @property
    def segments(self) -> int:
        """Number of segments in context that are known; the first is the absent one."""
        return len(self._kernels)

    def lookup(self, encodings: np.ndarray) -> np.ndarray:
        """Return the segments in context of networks, (places, networks), int32; finds kernels of those not seen before.

        Args:
            encodings: (networks, columns); at most :data:`AT_ONCE` at once keep the memory small.
        """
        numbers = self._numbered(encodings)
        codes = self._codes(numbers)
        distinct, where, inverse = np.unique(codes, return_index=True, return_inverse=True)
        for code, at in zip(distinct.tolist(), where.tolist(), strict=True):
            if code not in self._in_context:
                network = at % numbers.shape[1]
                self._look_at(numbers[:, network], codes[:, network])
        known = [self._in_context[code] for code in distinct.tolist()]
        return np.array(known, dtype=np.int32)[inverse].reshape(numbers.shape)

    def table(self, encodings: np.ndarray) -> KernelTable:
        """Return the kernels of networks, those of their graphs without the free ones."""
        found = self.lookup(encodings)
        lengths = np.array([len(kernels) for kernels in self._kernels])
        flat = np.array([kernel for kernels in self._kernels for kernel in kernels], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        segment = found.T.reshape(-1)
        counts = lengths[segment]
        network = np.repeat(np.repeat(np.arange(found.shape[1]), found.shape[0]), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        kernel = flat[np.repeat(starts[segment], counts) + within]
        return self._table(network, kernel, found.shape[1])

    def segment_table(self, first: int = 0) -> KernelTable:
        """Return the kernels of segments in context, each as a separate network, from number ``first`` on."""
        listed = self._kernels[first:]
        network = np.repeat(np.arange(len(listed)), [len(kernels) for kernels in listed])
        kernel = np.array([kernel for kernels in listed for kernel in kernels], dtype=np.int64)
        return self._table(network, kernel, len(listed))

    def sizes(self, encodings: np.ndarray) -> SegmentSizes:
        """Multiply-accumulates and learned values of networks, each (networks,)."""
        macs, parameters = [np.zeros(0)], [np.zeros(0)]
        for start in range(0, len(encodings), AT_ONCE):
            numbers = self._numbered(encodings[start : start + AT_ONCE])
            macs.append(self._macs[numbers].sum(axis=0))
            parameters.append(self._parameters[numbers].sum(axis=0))
        return SegmentSizes(np.concatenate(macs), np.concatenate(parameters))

    def _table(self, network: np.ndarray, kernel: np.ndarray, networks: int) -> KernelTable:
        """Renumber kernels, which are numbered as they were found, type by type; unused ones are left out."""
        used = np.zeros(len(self._keys), dtype=bool)
        used[kernel] = True
        configurations, place_of, total = {}, np.zeros(len(self._keys), dtype=np.int64), 0
        by_type: dict[str, list[int]] = {}
        for number in np.flatnonzero(used).tolist():
            by_type.setdefault(self._keys[number][0], []).append(number)
        for name, numbers in by_type.items():
            known = list(self._distinct[name])
            configurations[name] = np.array([known[self._keys[number][1]] for number in numbers], dtype=np.int64)
            place_of[numbers] = total + np.arange(len(numbers))
            total += len(numbers)
        return KernelTable(configurations, network, place_of[kernel], networks)

    def _numbered(self, encodings: np.ndarray) -> np.ndarray:
        """Return the segment at each place, (places, networks), int32."""
        transposed = np.ascontiguousarray(self.supernet.checked(encodings).T)
        numbers = np.empty((len(self._columns), len(encodings)), dtype=np.int32)
        codes = []
        for place, columns in enumerate(self._columns):
            code = np.zeros(len(encodings), dtype=np.int64)
            for column, radix in zip(columns, self._radices[place], strict=True):
                code += transposed[column].astype(np.int64) * radix
            codes.append(code)
            numbers[place] = self._by_choice[place][code]
        for place in np.flatnonzero((numbers < 0).any(axis=1)).tolist():
            missing, where = np.unique(codes[place][numbers[place] < 0], return_index=True)
            networks = np.flatnonzero(numbers[place] < 0)[where]
            rows = self.supernet.rows(encodings[networks])[:, place]
            self._by_choice[place][missing] = [self._number(tuple(row)) for row in rows.tolist()]
            numbers[place] = self._by_choice[place][codes[place]]
        return numbers

    def _number(self, row: Row) -> int:
        """Return the number of a segment; one not seen before is built, to see its structure and sizes."""
        if row[0] == 0:
            return ABSENT
        found = self._numbers.get(row)
        if found is not None:
            return found
        graph, (names,) = self.supernet.segmented_graph([row])
        if not names:
            self._numbers[row] = ABSENT
            return ABSENT
        number = self._numbers[row] = len(self._rows)
        self._rows.append(row)
        structure = self._structures.setdefault(_structure(graph), len(self._structures) + 1)
        self._structure_of = np.append(self._structure_of, structure)
        self._macs = np.append(self._macs, graph_macs(graph))
        self._parameters = np.append(self._parameters, graph.parameter_count)
        return number

    def _codes(self, numbers: np.ndarray) -> np.ndarray:
        """Segments between structures, each as one number, (places, networks), int64; 0 where absent.

        Absent segments are passed over; at the ends the structure is 0.
        """
        structures = self._structure_of[numbers]
        before, behind = np.zeros_like(structures), np.zeros_like(structures)
        places = range(len(numbers))
        for order, target in ((places, before), (reversed(places), behind)):
            running = np.zeros(numbers.shape[1], dtype=np.int64)
            for place in order:
                here = structures[place]
                target[place] = np.where(here > 0, running, 0)
                running = np.where(here > 0, here, running)
        return (numbers.astype(np.int64) << 2 * STRUCTURE_BITS) | (before << STRUCTURE_BITS) | behind

    def _look_at(self, numbers: np.ndarray, codes: np.ndarray) -> None:
        """Build a whole network, and keep the kernels that begin in each segment that is new between its neighbours."""
        present = np.flatnonzero(numbers)
        graph, names = self.supernet.segmented_graph([self._rows[number] for number in numbers[present].tolist()])
        segment_of = {name: segment for segment, listed in enumerate(names) for name in listed}
        found: list[list[tuple[str, Configuration]]] = [[] for _ in names]
        for kernel in find_kernels(graph, self.rules):
            if not kernel.free:
                found[segment_of[kernel.name]].append(kernel.key)
        for code, kernels in zip(codes[present].tolist(), found, strict=True):
            if code not in self._in_context:
                self._in_context[code] = len(self._kernels)
                self._kernels.append([self._numbered_kernel(*kernel) for kernel in kernels])

    def _numbered_kernel(self, name: str, configuration: Configuration) -> int:
        known = self._distinct.setdefault(name, {})
        if configuration not in known:
            known[configuration] = len(self._keys)
            self._keys.append((name, len(known) - 1))
        return known[configuration]


def deciding_columns(supernet: Supernet) -> np.ndarray:
    """Return which columns of an encoding decide the segment of each place, (places, columns), booleans."""
    rng = np.random.default_rng(0)
    base = rng.integers(0, supernet.choices, size=(PROBES, len(supernet.choices)), dtype=np.int16)
    before = supernet.rows(base)
    decides = np.zeros((before.shape[1], len(supernet.choices)), dtype=bool)
    for column, count in enumerate(supernet.choices.tolist()):
        if count > 1:
            changed = base.copy()
            changed[:, column] = (changed[:, column] + rng.integers(1, count, size=PROBES)) % count
            decides[:, column] = (supernet.rows(changed) != before).any(axis=(0, 2))
    return decides


def _structure(graph: Graph) -> Structure:
    """Operators and connections of a segment, without sizes: fusion across its ends depends on nothing else."""
    number: dict[str, int] = {graph.inputs[0]: 0}
    described: list[object] = []
    for node in graph.nodes:
        inputs = tuple(number[name] for name in node.inputs if name in number)
        described.append((operator_class(graph, node), inputs))
        for output in node.outputs:
            number[output] = len(number)
    return tuple(described)
