"""The kernels of every member of a small space in one table: no member is built to estimate its latency.

NAS-Bench-201 has 15,625 encodings, 9,445 different networks and some forty different kernels, so a table of counts is a few
ten kilobytes. Tables for the fusion rules that latcast ships are shipped with it (``python -m benchmarks encodings --ship``
writes them); for other rules a search over the whole space keeps one in the user's cache. A table carries a
fingerprint of what it was made from; one that does not fit is not used.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import UnknownNameError
from latcast.folders import cache_folder, replacing
from latcast.kernels.kernel import KernelTable
from latcast.kernels.rules import FusionRules
from latcast.kernels.search import find_kernels
from latcast.kernels.types.kernel_type import kernel_type
from latcast.spaces.nas.segment_kernels import SegmentKernels, SegmentSizes
from latcast.spaces.nas.supernet import Supernet, checked_encodings, radices

SMALL_SPACE = 200_000
"""Spaces of at most so many encodings are searched exhaustively, and have a table."""

SCHEMA = 1

SHIPPED_TABLES = Path(__file__).parent / "tables"

CHECKED = 3
"""Members that are built to see whether a table still holds."""

TYPE = "type."
"""What the names of arrays of configurations begin with."""


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

    def __init__(
        self,
        supernet: Supernet,
        rules: FusionRules,
        counts: np.ndarray,
        configurations: dict[str, np.ndarray],
        member_of: np.ndarray,
        member_sizes: SegmentSizes,
    ) -> None:
        self.supernet = supernet
        self.rules = rules
        self.counts = counts
        self.configurations = configurations
        self.member_of = member_of
        self.member_sizes = member_sizes

    @property
    def segments(self) -> int:
        """Number of members."""
        return len(self.counts)

    def lookup(self, encodings: np.ndarray) -> np.ndarray:
        """The member that each encoding stands for, (1, networks).

        Raises:
            LatcastError: The encodings are not of this space.
        """
        return self.member_of[_numbers(self.supernet, encodings)][None, :]

    def segment_table(self, first: int = 0) -> KernelTable:
        """The kernels of members from number ``first`` on."""
        counts = self.counts[first:]
        member, kernel = np.nonzero(counts)
        times = counts[member, kernel]
        return KernelTable(self.configurations, np.repeat(member, times), np.repeat(kernel, times), len(counts))

    def sizes(self, encodings: np.ndarray) -> SegmentSizes:
        """Multiply-accumulates and learned values of networks, each (networks,)."""
        member = self.lookup(encodings)[0]
        return SegmentSizes(self.member_sizes.macs[member], self.member_sizes.parameters[member])


SpaceKernels = SegmentKernels | MemberKernels
"""What knows the kernels of a space's networks."""


def make_table(kernels: SegmentKernels) -> MemberKernels:
    """The table of a whole small space, by looking at every member (half a minute for NAS-Bench-201)."""
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
    return checked_encodings(supernet, encodings).astype(np.int64) @ radices(supernet.choices)


def kernels_of(supernet: Supernet, rules: FusionRules) -> SpaceKernels:
    """The table of a small space, shipped or in the user's cache; else what finds kernels segment by segment."""
    if supernet.size <= SMALL_SPACE:
        for content in _stored(supernet, rules):
            found = _read(content, supernet, rules)
            if found is not None and _agrees(found):
                return found
    return SegmentKernels(supernet, rules)


def _agrees(table: MemberKernels) -> bool:
    """Whether some members, built and searched for kernels, have those of the table: how a space is built and how kernels are
    found may have changed since it was made."""
    encodings = table.supernet.sample_encodings(CHECKED, 0)
    listed = [(name, tuple(row)) for name, rows in table.configurations.items() for row in rows.tolist()]
    for member, encoding in zip(table.lookup(encodings)[0], encodings, strict=True):
        graph = table.supernet.build(**table.supernet.decode(encoding))
        found = Counter(kernel.key for kernel in find_kernels(graph, table.rules) if not kernel.free)
        if found != {key: count for key, count in zip(listed, table.counts[member].tolist(), strict=True) if count}:
            return False
    return True


def keep_table(kernels: SegmentKernels) -> None:
    """Writes the table of a space to the user's cache; where that cannot be written, nothing is kept."""
    path = _cached_path(kernels.supernet, kernels.rules)
    content = table_bytes(make_table(kernels))
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            draft.write_bytes(content)


def table_bytes(table: MemberKernels) -> bytes:
    """The file of a table: arrays of numbers, compressed (``.npz`` without objects)."""
    arrays: dict[str, Any] = {TYPE + name: rows for name, rows in table.configurations.items()}
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        fingerprint=np.array(fingerprint(table.supernet, table.rules)),
        fields=np.array(json.dumps(_fields(table.configurations))),
        counts=table.counts.astype(np.min_scalar_type(int(table.counts.max(initial=0)))),
        member_of=table.member_of.astype(np.min_scalar_type(len(table.counts))),
        macs=table.member_sizes.macs,
        parameters=table.member_sizes.parameters,
        **arrays,
    )
    return buffer.getvalue()


def fingerprint(supernet: Supernet, rules: FusionRules) -> str:
    """Of what a table depends on: the space's choices and the rules."""
    said = {key: value for key, value in rules.to_json().items() if key not in ("runtime", "version", "evidence")}
    choices = [supernet.name, supernet.choices.tolist(), list(supernet.fields)]
    return hashlib.sha256(json.dumps([SCHEMA, choices, said], sort_keys=True).encode()).hexdigest()


def shipped_name(supernet: Supernet, rules: FusionRules) -> str:
    """Name of a shipped table's file."""
    return f"{supernet.name}-{fingerprint(supernet, rules)[:16]}.npz"


def _stored(supernet: Supernet, rules: FusionRules) -> list[bytes]:
    found = []
    for place in (SHIPPED_TABLES / shipped_name(supernet, rules), _cached_path(supernet, rules)):
        try:
            found.append(place.read_bytes())
        except OSError:
            continue
    return found


def _cached_path(supernet: Supernet, rules: FusionRules) -> Path:
    return cache_folder() / "tables" / shipped_name(supernet, rules)


def _read(content: bytes, supernet: Supernet, rules: FusionRules) -> MemberKernels | None:
    """A table, or None where the file is damaged or was made from something else."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            configurations = {
                name.removeprefix(TYPE): file[name].astype(np.int64) for name in file.files if name.startswith(TYPE)
            }
            made_from = str(file["fingerprint"]), json.loads(str(file["fields"]))
            if made_from != (fingerprint(supernet, rules), _fields(configurations)):
                return None
            return MemberKernels(
                supernet, rules, file["counts"].astype(np.int64), configurations, file["member_of"].astype(np.int64),
                SegmentSizes(file["macs"], file["parameters"]),
            )  # fmt: skip
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, UnknownNameError):
        return None


def _fields(configurations: Mapping[str, np.ndarray]) -> dict[str, list[str]]:
    """What the numbers of each kernel type's configurations mean."""
    return {name: list(kernel_type(name).fields) for name in sorted(configurations)}
