"""The kernels of every member of a small space in one table: no member is built to estimate its latency.

NAS-Bench-201 has 15,625 encodings, 9,445 different networks and some forty different kernels, so a table of counts is a few
ten kilobytes. Tables for the fusion rules that latcast ships are shipped with it (``python -m benchmarks choose --ship``
writes them); for other rules a search over the whole space keeps one in the user's cache. A table carries a
fingerprint of what it was made from; one that does not fit is not used.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from latcast.kernels.kernel import KernelTable
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels
from latcast.spaces.kernel_table_files import CHECKED, counted, keep, keys_of, read_table, small, stored, table_file
from latcast.spaces.nas.segment_kernels import SegmentKernels, SegmentSizes
from latcast.spaces.nas.supernet import Supernet, radices

SMALL_SPACE = 200_000
"""Spaces of at most so many encodings are searched exhaustively, and have a table."""

SCHEMA = 1

_OF_NO_MEMBER = frozenset({"schema", "runtime", "version", "evidence", "standardises"})
"""Fields of rules that change no kernels of the spaces."""

SHIPPED_TABLES = Path(__file__).parent / "tables"


@dataclass(frozen=True)
class MemberKernels:
    """The kernels of a space's networks under fusion rules, from a table.

    It stands in for :class:`SegmentKernels`, each member being one segment.

    Attributes:
        supernet: The space.
        rules: Fusion rules.
        counts: (members, distinct kernels), how often each kernel occurs.
        configurations: Kernel type to (distinct kernels, fields), in the order of the columns of ``counts``.
        member_of: (encodings,), the member of each encoding by its number (the first column is the lowest digit).
        member_sizes: Of each member.
    """

    supernet: Supernet
    rules: FusionRules
    counts: np.ndarray
    configurations: dict[str, np.ndarray]
    member_of: np.ndarray
    member_sizes: SegmentSizes

    @property
    def segments(self) -> int:
        """Number of members."""
        return len(self.counts)

    def lookup(self, encodings: np.ndarray) -> np.ndarray:
        """Return the member of each encoding, (1, networks)."""
        return self.member_of[_numbers(self.supernet, encodings)][None, :]

    def segment_table(self, first: int = 0) -> KernelTable:
        """Return the kernels of members from number ``first`` on."""
        counts = self.counts[first:]
        member, kernel = np.nonzero(counts)
        times = counts[member, kernel]
        return KernelTable(self.configurations, np.repeat(member, times), np.repeat(kernel, times), len(counts))

    def sizes(self, encodings: np.ndarray) -> SegmentSizes:
        """Multiply-accumulates and learned values of networks, each (networks,)."""
        member = self.lookup(encodings)[0]
        return SegmentSizes(self.member_sizes.macs[member], self.member_sizes.parameters[member])


SpaceKernels = SegmentKernels | MemberKernels
"""Tables of the kernels of a space's networks."""


def make_table(kernels: SegmentKernels) -> MemberKernels:
    """Return the table of a whole small space, by looking at every member."""
    supernet = kernels.supernet
    everything, members = supernet.all_encodings(), supernet.all_members()
    numbers = _numbers(supernet, members)
    member_of = np.empty(len(everything), dtype=np.int64)
    member_of[numbers] = np.arange(len(members))
    member_of = member_of[_numbers(supernet, supernet.canonical(everything))]
    table = kernels.table(members)
    distinct = sum(len(rows) for rows in table.configurations.values())
    counts = np.zeros((len(members), distinct), dtype=np.int64)
    np.add.at(counts, (table.network, table.kernel), 1)
    sizes = kernels.sizes(members)
    return MemberKernels(supernet, kernels.rules, counts, dict(table.configurations), member_of, sizes)


def _numbers(supernet: Supernet, encodings: np.ndarray) -> np.ndarray:
    return supernet.checked(encodings).astype(np.int64) @ radices(supernet.choices)


def kernels_of(supernet: Supernet, rules: FusionRules) -> SpaceKernels:
    """Return the table of a small space, shipped or in the user's cache; else what finds kernels segment by segment."""
    if supernet.size <= SMALL_SPACE:
        for content, _ in stored(SHIPPED_TABLES / shipped_name(supernet, rules)):
            read = read_table(content, fingerprint(supernet, rules))
            if read is not None:
                configurations, arrays = read
                sizes = SegmentSizes(arrays["macs"], arrays["parameters"])
                counts, member_of = arrays["counts"].astype(np.int64), arrays["member_of"].astype(np.int64)
                found = MemberKernels(supernet, rules, counts, configurations, member_of, sizes)
                if _agrees(found):
                    return found
    return SegmentKernels(supernet, rules)


def _agrees(table: MemberKernels) -> bool:
    """Return whether some members, built and searched for kernels, have those of the table.

    How a space is built and how kernels are found may have changed since it was made.
    """
    encodings = table.supernet.sample_encodings(CHECKED, 0)
    listed = keys_of(table.configurations)
    for member, encoding in zip(table.lookup(encodings)[0], encodings, strict=True):
        graph = table.supernet.build(**table.supernet.decode(encoding))
        there = {key: count for key, count in zip(listed, table.counts[member].tolist(), strict=True) if count}
        if counted(find_kernels(graph, table.rules)) != there:
            return False
    return True


def keep_table(kernels: SegmentKernels) -> None:
    """Write the table of a space to the user's cache; where that cannot be written, nothing is kept."""
    keep(shipped_name(kernels.supernet, kernels.rules), table_bytes(make_table(kernels)))


def table_bytes(table: MemberKernels) -> bytes:
    """Return the file of a table."""
    return table_file(
        fingerprint(table.supernet, table.rules),
        table.configurations,
        counts=small(table.counts),
        member_of=table.member_of.astype(np.min_scalar_type(len(table.counts))),
        macs=table.member_sizes.macs,
        parameters=table.member_sizes.parameters,
    )


def fingerprint(supernet: Supernet, rules: FusionRules) -> str:
    """Return the fingerprint of what a table depends on: the space's choices and the rules."""
    said = {key: value for key, value in rules.to_json().items() if key not in _OF_NO_MEMBER}
    choices = [supernet.name, supernet.choices.tolist(), list(supernet.fields)]
    return hashlib.sha256(json.dumps([SCHEMA, choices, said], sort_keys=True).encode()).hexdigest()


def shipped_name(supernet: Supernet, rules: FusionRules) -> str:
    """Name of a shipped table's file."""
    return f"{supernet.name}-{fingerprint(supernet, rules)[:16]}.npz"
